/* What the seed makes of disks, spaces and options. */
#include "tests/sim/run.h"

#include <stdio.h>

/* Every resiliency that pools can have. */
static const enum sfs_resiliency resiliencies[] = {SFS_SIMPLE, SFS_MIRROR2, SFS_MIRROR3, SFS_PARITY, SFS_PARITY2};
#define NRESILIENCIES (sizeof(resiliencies) / sizeof(*resiliencies))

static void configure_disks(struct sim_run *r)
{
    struct sim_rng *g = &r->config;
    bool even = sim_rng_chance(g, 25);
    uint64_t slabs = sim_rng_between(g, 16, 64);

    /* One disk, or many, is rare; three to five is usual. */
    r->ndisks = (unsigned)(sim_rng_chance(g, 20) ? sim_rng_between(g, 1, 9) : sim_rng_between(g, 2, 5));
    for (unsigned i = 0; i < r->ndisks; i++) {
        if (!even)
            slabs = sim_rng_between(g, sim_rng_chance(g, 30) ? 8 : 24, 64);
        r->disks[i].bytes = slabs * SIM_SLAB_BYTES;
        r->disks[i].member = true;
    }
}

static void configure_space(struct sim_run *r, unsigned n)
{
    struct sim_rng *g = &r->config;
    struct sim_space *s = &r->spaces[n];
    unsigned copies, widest;

    do {
        s->resiliency = resiliencies[sim_rng_below(g, NRESILIENCIES)];
    } while (sfs_resiliency_min_disks(s->resiliency) > r->ndisks);
    copies = sfs_resiliency_copies(s->resiliency);
    widest = r->ndisks / copies;
    s->columns = 0;
    if (sim_rng_chance(g, 50) && widest >= sfs_resiliency_min_columns(s->resiliency))
        s->columns = (unsigned)sim_rng_between(g, sfs_resiliency_min_columns(s->resiliency), widest);
    s->interleave = 4096u << sim_rng_below(g, 7);
    s->codec = sim_rng_chance(g, 40) ? SFS_CODEC_ZSTD : SFS_CODEC_NONE;
    s->opts.noatime = sim_rng_chance(g, 50);
    s->opts.commit_interval_ns = SIM_NS_PER_S / 2 * sim_rng_between(g, 1, 10);
    s->opts.dirty_limit_bytes = sim_rng_chance(g, 50) ? 1u << sim_rng_between(g, 20, 23) : 0;
    s->opts.cache_inodes = sim_rng_chance(g, 50) ? sim_rng_between(g, 1, 50) : 0;
}

static void configure_actors(struct sim_run *r)
{
    struct sim_rng *g = &r->config;

    r->nfibers = sim_rng_chance(g, 60) ? 1 : (unsigned)sim_rng_between(g, 2, SIM_MAX_FIBERS);
    r->nactors = r->nspaces > r->nfibers ? r->nspaces : r->nfibers;
    for (unsigned i = 0; i < r->nactors; i++) {
        struct sim_actor *a = &r->actors[i];

        a->run = r;
        a->space = &r->spaces[i % r->nspaces];
        a->fiber = i % r->nfibers;
        a->rng = sim_rng_stream(r->opt.seed, 100 + i);
        snprintf(a->dir, sizeof(a->dir), "w%u", i);
    }
}

/* Sweeps: always the same shape, small; the seed only chooses the operations. */
static void configure_plan(struct sim_run *r)
{
    r->ndisks = 3;
    for (unsigned i = 0; i < r->ndisks; i++) {
        r->disks[i].bytes = (16 + 4 * i) * SIM_SLAB_BYTES;
        r->disks[i].member = true;
    }
    r->nspaces = 2;
    r->spaces[0].resiliency = SFS_MIRROR2;
    r->spaces[1].resiliency = r->opt.seed % 2 ? SFS_MIRROR3 : r->opt.seed % 4 ? SFS_MIRROR2 : SFS_PARITY;
    for (unsigned i = 0; i < r->nspaces; i++) {
        r->spaces[i].interleave = 65536;
        r->spaces[i].opts.commit_interval_ns = SIM_NS_PER_S;
    }
    r->spaces[1].codec = SFS_CODEC_ZSTD;
    r->opt.epochs = 1;
    if (!r->opt.ops)
        r->opt.ops = 120;
}

void sim_configure(struct sim_run *r)
{
    struct sim_rng *g = &r->config;
    unsigned tolerance = 0;

    r->next_tag = 1;
    if (r->opt.plan.on) {
        configure_plan(r);
    } else {
        configure_disks(r);
        r->nspaces = (unsigned)sim_rng_between(g, 1, SIM_MAX_SPACES);
        for (unsigned i = 0; i < r->nspaces; i++)
            configure_space(r, i);
    }
    for (unsigned i = 0; i < SIM_MAX_DISKS; i++) {
        snprintf(r->disks[i].name, sizeof(r->disks[i].name), "d%u", i);
        snprintf(r->disks[i].path, sizeof(r->disks[i].path), "sim:d%u", i);
    }
    for (unsigned i = 0; i < r->nspaces; i++) {
        unsigned t = sfs_resiliency_tolerance(r->spaces[i].resiliency);

        snprintf(r->spaces[i].name, sizeof(r->spaces[i].name), "s%u", i);
        tolerance = t > tolerance ? t : tolerance;
    }
    configure_actors(r);
    r->budget = (unsigned)sim_rng_between(g, 0, tolerance);
    if (tolerance > 0 && r->budget == 0 && sim_rng_chance(g, 60))
        r->budget = tolerance;
    if (r->opt.no_faults)
        r->budget = 0;
    if (!r->opt.epochs)
        r->opt.epochs = (unsigned)sim_rng_between(g, 2, 5);
    if (!r->opt.ops)
        r->opt.ops = sim_rng_chance(g, 25) ? 500 : 150;
    r->open_opts = (struct sfs_pool_open_opts){
        .degraded = SFS_DEGRADED_RW,
        .disk_timeout_ns = sim_rng_between(g, 1, 5) * SIM_NS_PER_S,
    };
}
