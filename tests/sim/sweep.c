/* Sweeps: one small fixed run again and again, with one fault at the n-th I/O, n upward until it no longer comes to that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/run.h"
#include "tests/sim/sweep.h"

struct kind {
    const char *name, *what;
    enum sim_end end;
    enum { POINT_EPOCH, POINT_OPEN, POINT_HEAL, POINT_JOIN, POINT_FAIL, POINT_JOB } point;
    enum sfs_io_op op;
    enum sim_job job;
};

static const struct kind kinds[] = {
    {"crash", "the machine crashes at the n-th I/O", SIM_END_CRASH, POINT_EPOCH, 0, 0},
    {"kill", "the daemon dies at the n-th I/O", SIM_END_KILL, POINT_EPOCH, 0, 0},
    {"recovery", "after a crash, the machine crashes again at the n-th I/O of the recovery", SIM_END_CRASH, POINT_OPEN, 0, 0},
    {"heal", "a disk is lost, and the machine crashes at the n-th I/O of healing", SIM_END_CLOSE, POINT_HEAL, 0, 0},
    {"rejoin", "a disk was away; the machine crashes at the n-th I/O of taking it in again, then its catalog rots", SIM_END_CLOSE, POINT_JOIN, 0, 0},
    {"write", "a disk fails at its n-th write", SIM_END_CLOSE, POINT_FAIL, SFS_IO_WRITE, 0},
    {"sync", "a disk fails at its n-th sync", SIM_END_CLOSE, POINT_FAIL, SFS_IO_SYNC, 0},
    {"read", "a disk fails at its n-th read", SIM_END_CLOSE, POINT_FAIL, SFS_IO_READ, 0},
    {"remove", "the machine crashes at the n-th I/O of removing a disk", SIM_END_CLOSE, POINT_JOB, 0, SIM_JOB_REMOVE},
    {"replace", "the machine crashes at the n-th I/O of replacing a disk", SIM_END_CLOSE, POINT_JOB, 0, SIM_JOB_REPLACE},
    {"retire", "the machine crashes at the n-th I/O of emptying a retired disk", SIM_END_CLOSE, POINT_JOB, 0, SIM_JOB_RETIRE},
    {"rebalance", "the machine crashes at the n-th I/O of adding a disk and spreading slabs over it", SIM_END_CLOSE, POINT_JOB, 0, SIM_JOB_REBALANCE},
    {"scrub", "a disk has rotten in parts; the machine crashes at the n-th I/O of scrubbing", SIM_END_CLOSE, POINT_JOB, 0, SIM_JOB_SCRUB},
};
#define NKINDS (sizeof(kinds) / sizeof(*kinds))

bool sim_sweep_known(const char *kind)
{
    for (unsigned i = 0; i < NKINDS; i++) {
        if (strcmp(kinds[i].name, kind) == 0)
            return true;
    }
    return false;
}

void sim_sweep_list(FILE *f)
{
    for (unsigned i = 0; i < NKINDS; i++)
        fprintf(f, "    %-10s %s\n", kinds[i].name, kinds[i].what);
}

void sim_stats_add(struct sim_stats *total, const struct sim_stats *s)
{
    const uint64_t *from = (const uint64_t *)s;
    uint64_t *to = (uint64_t *)total;

    for (size_t i = 0; i < sizeof(*s) / sizeof(uint64_t); i++)
        to[i] += from[i];
}

/* The n-th point; false when the run has no n-th. */
static bool one_point(const struct kind *k, const struct sim_options *base, uint64_t n, struct sim_stats *total)
{
    struct sim_options opt = *base;
    struct sim_stats stats;
    uint64_t hash;

    opt.plan = (struct sim_plan){.on = true, .end = k->end, .fail_op = k->op};
    if (k->point == POINT_EPOCH)
        opt.plan.crash_at = n;
    else if (k->point == POINT_OPEN)
        opt.plan.crash_open_at = n;
    else if (k->point == POINT_HEAL)
        opt.plan.crash_heal_at = n;
    else if (k->point == POINT_JOIN)
        opt.plan.crash_join_at = n;
    else if (k->point == POINT_JOB)
        opt.plan.crash_job_at = n, opt.plan.job = k->job;
    else
        opt.plan.fail_at = n;
    snprintf(opt.replay, sizeof(opt.replay), "sim --sweep %s --seed %llu --ops %u --at %llu", k->name, (unsigned long long)opt.seed,
             opt.ops, (unsigned long long)n);
    sim_run(&opt, &stats, &hash);
    sim_stats_add(total, &stats);
    return opt.plan.reached;
}

void sim_sweep(const char *kind, struct sim_options *opt, uint64_t at, uint64_t stride, bool only_one, struct sim_stats *total)
{
    const struct kind *k = kinds;
    uint64_t n = at ? at : 1;

    while (strcmp(k->name, kind) != 0)
        k++;
    while (one_point(k, opt, n, total)) {
        total->points++;
        if (only_one)
            return;
        n += stride;
    }
}
