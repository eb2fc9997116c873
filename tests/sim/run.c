/* A run: epochs of mount, operations and an end, each followed by recovery and a check; then the promise is tried, and everything deleted. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/run.h"

static enum sim_end draw_end(struct sim_run *r)
{
    uint64_t n = sim_rng_below(&r->plan, 10);

    return n < 4 ? SIM_END_CRASH : n < 6 ? SIM_END_KILL : SIM_END_CLOSE;
}

/* Did the request fail that was to? */
static bool failed_one(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;
    bool failed = false;

    if (!r->pool || sfs_pool_info(r->pool, &info) < 0)
        return true;
    for (unsigned i = 0; i < info->ndisks; i++) {
        const struct sfs_disk_info *d = &info->disks[i];

        if (strcmp(d->row.name, r->disks[0].name) == 0)
            failed = d->state != SFS_DISK_ONLINE || d->row.read_errors || d->row.write_errors;
    }
    sfs_pool_info_free(info);
    return failed;
}

/* One epoch's operations and its end. True: it ended cleanly, nothing may be missing. */
static bool epoch(struct sim_run *r)
{
    struct sim_plan *plan = &r->opt.plan;
    enum sim_end end = plan->on ? plan->end : draw_end(r);
    bool crash_in_close = sim_rng_chance(&r->plan, 40), by_itself = sim_rng_chance(&r->plan, 60), stored = false;
    uint64_t crash_at = sim_rng_between(&r->plan, 1, r->opt.ops * 12);

    r->faulted = false;
    sim_note(r, "epoch %u: ends by %s", r->epoch, end == SIM_END_CLOSE ? "close" : end == SIM_END_CRASH ? "crash" : "kill");
    if (plan->on)
        crash_at = plan->crash_at, by_itself = plan->crash_at > 0, crash_in_close = false;
    if (end != SIM_END_CLOSE && by_itself)
        sfs_sim_crash_at(r->world, crash_at, end == SIM_END_KILL);
    if (plan->fail_at) {
        sim_hurt_disk(r, &r->impaired, 0);
        sfs_sim_fail_at(r->world, r->disks[0].name, plan->fail_op, plan->fail_at, r->opt.seed % 3 == 0);
    }
    sim_workload(r);
    if (end != SIM_END_CLOSE && !sim_crashed(r)) {
        if (crash_in_close)
            sfs_sim_crash_at(r->world, sim_rng_between(&r->plan, 1, 60), end == SIM_END_KILL);
        else if (!plan->on)
            sfs_sim_crash(r->world, end == SIM_END_KILL);
    }
    plan->reached = plan->fail_at && (plan->fail_op == SFS_IO_READ ? plan->fail_at <= 40 : failed_one(r)); /* reads are not many */
    if (!sim_crashed(r)) {
        stored = sim_system_close(r); /* the crash may yet come in it */
        if (!sim_crashed(r))
            end = SIM_END_CLOSE;
    }
    if (plan->crash_at)
        plan->reached = sim_crashed(r);
    if (sim_crashed(r))
        sim_system_crash(r, false);
    sfs_sim_crash_at(r->world, 0, false);
    if (end == SIM_END_CRASH)
        r->stats.crashes++;
    else if (end == SIM_END_KILL)
        r->stats.kills++;
    else
        r->stats.closes++;
    return end == SIM_END_CLOSE && stored;
}

static void must_open(struct sim_run *r)
{
    if (sim_system_open(r, false) < 0)
        sim_fail(r, "the world has crashed by itself");
}

static void end_of_swept(struct sim_run *r)
{
    r->opt.plan.reached = sim_crashed(r);
    if (sim_crashed(r))
        sim_system_crash(r, false);
    else
        sim_system_close(r);
    sfs_sim_crash_at(r->world, 0, false);
}

/* A sweep: disk 0 is lost, and something happens while it is built anew. */
static void swept_heal(struct sim_run *r)
{
    sim_disk_away(r, 0);
    must_open(r);
    sfs_sim_crash_at(r->world, r->opt.plan.crash_heal_at, false);
    sim_heal(r);
    end_of_swept(r);
}

/* A sweep: disk 0 was away while the pool was in use, and something happens while it comes back. */
static void swept_join(struct sim_run *r)
{
    sim_disk_away(r, 0);
    must_open(r);
    for (unsigned i = 0; i < r->nspaces; i++)
        sfs_vfs_sync(r->spaces[i].vfs);
    sim_system_close(r);
    sim_disk_back(r, 0);
    sfs_sim_crash_at(r->world, r->opt.plan.crash_join_at, false);
    if (sim_system_open(r, false) == 0)
        sfs_env_sleep_ns(r->env, 5 * SIM_NS_PER_S);
    end_of_swept(r);
    sim_hurt_disk(r, &r->rotten, 0);
    for (uint64_t off = 0; off < 65536; off += 4096)
        sfs_sim_rot_meta(r->world, r->disks[0].name, "catalog.db", off, 1);
}

/* A sweep: a job over the disks, cut short. */
static void swept_job(struct sim_run *r)
{
    must_open(r);
    sfs_sim_crash_at(r->world, r->opt.plan.crash_job_at, false);
    sim_job_swept(r, false);
    end_of_swept(r);
}

/* Opens the pool again; some times the machine crashes, or the daemon is killed, during that. */
static void recover(struct sim_run *r)
{
    struct sim_plan *plan = &r->opt.plan;

    r->doomed = false;
    for (unsigned tries = 0;; tries++) {
        bool kill_only = sim_rng_chance(&r->plan, 30);
        uint64_t at = sim_rng_chance(&r->plan, 25) ? sim_rng_between(&r->plan, 1, 150) : 0;
        int rc;

        sim_faults_epoch(r);
        if (plan->on)
            at = tries == 0 ? plan->crash_open_at : 0;
        if (tries < 3)
            sfs_sim_crash_at(r->world, at, kill_only);
        rc = sim_system_open(r, false);
        sfs_sim_crash_at(r->world, 0, false);
        if (plan->crash_open_at && tries == 0)
            plan->reached = sim_crashed(r);
        if (rc == 0 && !sim_crashed(r))
            break;
        sim_note(r, "crashed in recovery");
        r->stats.recoveries++;
        r->faulted = true; /* time passes in which nothing can be committed */
        sim_system_crash(r, kill_only);
    }
}

/* Every disk is back, and what can be healed is healed. What may be rotten is replaced: its disk is away while the rest heals. */
static void make_whole(struct sim_run *r)
{
    sim_faults_epoch(r);
    if (r->rotten && !r->impaired && (r->away & ~r->rotten & ~r->healed) == 0) {
        for (unsigned d = 0; d < r->ndisks; d++) {
            if ((r->rotten & ~r->away) & 1u << d)
                sim_disk_away(r, d);
        }
        must_open(r);
        sim_heal(r);
        sim_system_close(r);
    }
    for (unsigned d = 0; d < r->ndisks; d++)
        sim_disk_back(r, d);
    must_open(r);
    if (!sim_heal(r))
        sim_note(r, "not everything could be healed");
}

/* Everything could be read, or is deleted, and no disk is hurt: the promise is whole again. */
static void undamage(struct sim_run *r)
{
    for (unsigned i = 0; i < r->nspaces && sim_hurt(r) == 0; i++)
        r->spaces[i].damaged = false;
}

static void last_checks(struct sim_run *r)
{
    make_whole(r);
    for (unsigned k = 0; k < r->nactors; k++)
        sim_check_live(r, &r->actors[k]);
    sim_check_space(r);
    sim_system_close(r);
    if (sim_hurt(r) == 0 && !r->thin && !sim_any_damaged(r))
        sim_check_redundancy(r);
    must_open(r);
    sim_check_empty(r);
    sim_system_close(r);
}

static void body(void *arg)
{
    struct sim_run *r = arg;

    sim_configure(r);
    sim_note(r, "%u disks, %u spaces, %u fibers, budget %u", r->ndisks, r->nspaces, r->nfibers, r->budget);
    sim_system_create(r);
    for (r->epoch = 0; r->epoch < r->opt.epochs; r->epoch++) {
        bool exact = epoch(r);

        if (r->opt.plan.crash_heal_at)
            swept_heal(r);
        if (r->opt.plan.crash_join_at)
            swept_join(r);
        if (r->opt.plan.crash_job_at)
            swept_job(r);
        recover(r);
        sim_check_recovered(r, exact);
        undamage(r);
        if (r->opt.plan.crash_job_at)
            sim_job_swept(r, true);
    }
    sim_system_close(r);
    last_checks(r);
    r->stats.ios = sfs_sim_io_count(r->world);
}

static struct sim_run run; /* large; one at a time */
static bool running;

struct sim_run *sim_run_current(void)
{
    return running ? &run : NULL;
}

void sim_run(struct sim_options *opt, struct sim_stats *stats, uint64_t *hash)
{
    struct sim_run *r = &run;

    running = true;
    *r = (struct sim_run){.opt = *opt, .hash = 1};
    r->config = sim_rng_stream(opt->seed, 1);
    r->faults = sim_rng_stream(opt->seed, 2);
    r->plan = sim_rng_stream(opt->seed, 3);
    r->env = sfs_env_new_sim(opt->seed);
    r->world = sfs_sim_world_new(r->env);
    sfs_sim_run(r->env, body, r);
    for (unsigned k = 0; k < r->nactors; k++)
        sim_tree_free(&r->actors[k].tree);
    sfs_sim_world_free(r->world);
    sfs_env_free(r->env);
    opt->plan.reached = r->opt.plan.reached;
    *stats = r->stats;
    *hash = r->hash;
    running = false;
}
