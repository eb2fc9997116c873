/* Disks that leave the pool while it is used, and what else moves slabs about: jobs, begun and perhaps waited for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/run.h"

static bool listed(const struct sfs_pool_info *info, const char *name)
{
    for (unsigned i = 0; i < info->ndisks; i++) {
        if (strcmp(info->disks[i].row.name, name) == 0)
            return true;
    }
    return false;
}

void sim_members_look(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;

    if (sim_crashed(r) || !r->pool || sfs_pool_info(r->pool, &info) < 0)
        return;
    for (unsigned d = 0; d < r->ndisks; d++) {
        uint32_t others = ~(1u << d);

        if (!r->disks[d].member || listed(info, r->disks[d].name))
            continue;
        sim_note(r, "disk %s has left the pool", r->disks[d].name);
        r->disks[d].member = r->disks[d].saved = false;
        sfs_sim_stall(r->world, r->disks[d].name, false);
        sfs_sim_vanish(r->world, r->disks[d].name); /* nothing needs it */
        r->away &= others;
        r->healed &= others;
        r->impaired &= others;
        r->rotten &= others;
        r->stalled &= others;
        r->full &= others;
        r->armed &= others;
    }
    sfs_pool_info_free(info);
}

/* Refusals are the pool's right, with words; anything else is not. */
static bool accepted(struct sim_run *r, const char *what, int rc, const struct sfs_error *err)
{
    sim_hash(r, (uint64_t)(int64_t)rc);
    sim_note(r, "  %s: %s", what, rc ? err->text : "begun");
    if (rc == 0 || sim_crashed(r))
        return rc == 0;
    if (rc != -ENOSPC && rc != -ENOENT && rc != -EINVAL && rc != -EBUSY && rc != -EALREADY && rc != -ENODEV && rc != -ENODATA && !(r->doomed && (rc == -EROFS || rc == -EIO)))
        sim_fail(r, "%s: %s (%s)", what, err->text, strerror(-rc));
    if (!err->text[0])
        sim_fail(r, "%s was refused without a word: %s", what, strerror(-rc));
    return false;
}

/* A further disk; 0: there is none to be had. */
static unsigned fresh_disk(struct sim_run *r, uint64_t bytes)
{
    struct sfs_error warn = {0}, err = {0};
    struct sim_disk *d = &r->disks[r->ndisks];
    struct sfs_disk_spec spec = {.path = d->path, .name = d->name};
    int rc;

    if (r->ndisks == SIM_MAX_DISKS)
        return 0;
    d->bytes = bytes;
    rc = sfs_sim_add(r->world, d->name, d->bytes, SFS_MEDIA_SSD);
    if (rc < 0)
        sim_fail(r, "sim disk %s: %s", d->name, strerror(-rc));
    r->ndisks++;
    rc = sfs_pool_disk_add(r->pool, &spec, 1, false, &warn, &err);
    if (!accepted(r, "disk add", rc, &err) || sim_crashed(r))
        return 0;
    d->member = true;
    return r->ndisks - 1;
}

uint64_t sim_leave_begin(struct sim_run *r, unsigned disk, enum sim_leave how, unsigned with)
{
    static const char *const names[] = {"disk remove", "disk replace", "disk retire"};
    const char *name = r->disks[disk].name;
    struct sfs_error err = {0};
    uint64_t job = 0;
    int rc;

    if (how == SIM_REMOVE)
        rc = sfs_pool_disk_remove(r->pool, name, &job, &err);
    else if (how == SIM_REPLACE)
        rc = sfs_pool_disk_replace(r->pool, name, r->disks[with].name, &job, &err);
    else
        rc = sfs_pool_disk_set(r->pool, name, "usage", "retired", &job, &err);
    sim_note(r, "%s %s", names[how], name);
    return accepted(r, names[how], rc, &err) ? job : 0;
}

/* Waits for it, perhaps; what it waits for itself may need a disk that is away, or room. */
static void await(struct sim_actor *a, uint64_t job)
{
    struct sim_run *r = a->run;
    char text[256] = "";
    int rc;

    if (!job || !sim_rng_chance(&a->rng, 60) || sim_crashed(r))
        return;
    rc = sfs_pool_job_wait(r->pool, job, sim_rng_between(&a->rng, 1, 30) * SIM_NS_PER_S, text);
    sim_hash(r, (uint64_t)(int64_t)rc);
    sim_note(r, "  job %llu: %s %s", (unsigned long long)job, rc ? strerror(-rc) : "done", text);
    if (rc == -EIO && sim_hurt(r) == 0 && !sim_crashed(r) && !r->doomed)
        sim_fail(r, "job %llu: %s", (unsigned long long)job, text);
    sim_members_look(r);
}

static bool pick_member(struct sim_actor *a, unsigned *disk)
{
    struct sim_run *r = a->run;

    for (unsigned tries = 0; tries < 8; tries++) {
        *disk = (unsigned)sim_rng_below(&a->rng, r->ndisks);
        if (r->disks[*disk].member)
            return true;
    }
    return false;
}

static void op_leave(struct sim_actor *a)
{
    struct sim_run *r = a->run;
    unsigned disk, with = 0;
    enum sim_leave how = (enum sim_leave)sim_rng_below(&a->rng, 3);

    if (r->opt.plan.on || !sim_rng_chance(&a->rng, 40) || !pick_member(a, &disk))
        return;
    sim_op_begin(a, "disk leaves");
    if (how == SIM_REPLACE) {
        with = fresh_disk(r, sim_rng_between(&a->rng, 16, 64) * SIM_SLAB_BYTES);
        if (!with)
            return;
    }
    await(a, sim_leave_begin(r, disk, how, with));
}

static void op_usage(struct sim_actor *a)
{
    static const char *const usages[] = {"auto", "auto", "hot-spare", "journal"};
    struct sim_run *r = a->run;
    struct sfs_error err = {0};
    uint64_t job = 0;
    unsigned disk;
    int rc;

    if (r->opt.plan.on || !pick_member(a, &disk))
        return;
    sim_op_begin(a, "disk usage");
    rc = sfs_pool_disk_set(r->pool, r->disks[disk].name, "usage", usages[sim_rng_below(&a->rng, 4)], &job, &err);
    if (accepted(r, "disk usage", rc, &err))
        await(a, job);
}

static void op_rebalance(struct sim_actor *a)
{
    struct sfs_error err = {0};
    uint64_t job = 0;
    int rc;

    if (a->run->opt.plan.on)
        return;
    sim_op_begin(a, "rebalance");
    rc = sfs_pool_rebalance(a->run->pool, &job, &err);
    if (accepted(a->run, "rebalance", rc, &err))
        await(a, job);
}

/* --- sweeps -------------------------------------------------------------------------------------------------------------------------------- */

static bool unfinished(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;
    bool any = false;

    if (sfs_pool_info(r->pool, &info) < 0)
        return false;
    for (unsigned i = 0; i < info->njobs; i++)
        any |= info->jobs[i].row.ended == 0 && strcmp(info->jobs[i].row.kind, "heal") != 0;
    sfs_pool_info_free(info);
    return any;
}

static int begin_job(struct sim_run *r, uint64_t *job, struct sfs_error *err)
{
    switch (r->opt.plan.job) {
    case SIM_JOB_REMOVE:
        return sfs_pool_disk_remove(r->pool, r->disks[0].name, job, err);
    case SIM_JOB_REPLACE:
        return sfs_pool_disk_replace(r->pool, r->disks[0].name, r->disks[r->ndisks - 1].name, job, err);
    case SIM_JOB_RETIRE:
        return sfs_pool_disk_set(r->pool, r->disks[0].name, "usage", "retired", job, err);
    case SIM_JOB_REBALANCE:
        return sfs_pool_rebalance(r->pool, job, err);
    default:
        return sfs_pool_scrub(r->pool, job, err);
    }
}

/* Before the job: a disk more, so that what leaves has somewhere to go; or something for a scrub to find. */
static void prepare(struct sim_run *r)
{
    uint64_t at = r->opt.plan.crash_job_at;

    sfs_sim_crash_at(r->world, 0, false);
    if (r->opt.plan.job != SIM_JOB_SCRUB) {
        fresh_disk(r, 24 * SIM_SLAB_BYTES);
    } else {
        sim_hurt_disk(r, &r->impaired, 1);
        for (unsigned slot = 0; slot < 6; slot++)
            sfs_sim_rot(r->world, r->disks[1].name, slot, 4096 * slot, 8192);
    }
    sfs_sim_crash_at(r->world, at, false);
}

void sim_job_swept(struct sim_run *r, bool finish)
{
    struct sfs_error err = {0};
    uint64_t job = 0;
    char text[256] = "";
    int rc;

    if (!finish)
        prepare(r);
    for (unsigned d = 0; finish && d < 600 && unfinished(r); d++) /* what was cut short goes on by itself */
        sfs_env_sleep_ns(r->env, SIM_NS_PER_S);
    sim_members_look(r);
    if (r->opt.plan.job < SIM_JOB_RETIRE && !r->disks[0].member)
        return;
    rc = begin_job(r, &job, &err);
    sim_note(r, "job %llu: %s", (unsigned long long)job, rc ? err.text : "begun");
    if (rc == 0 && job)
        rc = sfs_pool_job_wait(r->pool, job, 3600 * SIM_NS_PER_S, text);
    if (rc < 0 && rc != -EALREADY && !sim_crashed(r))
        sim_fail(r, "the job did not come to its end: %s %s (%s)", err.text, text, strerror(-rc));
    sim_members_look(r);
    if (!sim_crashed(r) && r->opt.plan.job < SIM_JOB_RETIRE && r->disks[0].member)
        sim_fail(r, "the disk is still there");
}

const struct sim_op sim_disk_ops[] = {{"leave", 3, op_leave}, {"usage", 2, op_usage}, {"rebalance", 1, op_rebalance}, {0}};
