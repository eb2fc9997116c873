/* Disks that come and go, on sim disks: what leaves them is verified to be elsewhere, whatever happens meanwhile. */
#include "tests/unit/file_fixture.h"

#include "fs/job/evacuate.h"

#define DONE_NS 3600000000000ull /* of virtual time */

static void begin_with(struct fixture *f, struct file *t, const unsigned *mib, unsigned disks, enum sfs_resiliency r,
                       unsigned files_mib)
{
    make_pool(f, mib, disks);
    open_pool(f);
    make_space(f, "docs", r);
    use_space(f, "docs");
    file_open(t, f);
    for (unsigned i = 0; i < files_mib; i++)
        cr_assert_eq(file_write(t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
}

static void end_with(struct fixture *f, struct file *t)
{
    file_close(t);
    close_pool(f);
}

static void reopen(struct fixture *f, struct file *t, const char *which)
{
    uint64_t ino = t->ino;
    struct sfs_error err = {0};
    end_with(f, t);
    cr_assert_eq(try_open(f, which, &err), 0, "%s", err.text);
    use_space(f, "docs");
    file_open(t, f);
    file_reload(t, ino);
}

static void wait_job(struct fixture *f, uint64_t job)
{
    char text[256] = "";
    int rc = sfs_pool_job_wait(f->pool, job, DONE_NS, text);
    cr_assert_eq(rc, 0, "job %llu: %d %s", (unsigned long long)job, rc, text);
}

static uint64_t remove_disk(struct fixture *f, const char *name)
{
    struct sfs_error err = {0};
    uint64_t job = 0;
    cr_assert_eq(sfs_pool_disk_remove(f->pool, name, &job, &err), 0, "%s", err.text);
    cr_assert_neq(job, 0);
    return job;
}

static const struct sfs_disk_info *disk_in(const struct sfs_pool_info *info, const char *name)
{
    for (unsigned i = 0; i < info->ndisks; i++)
        if (!strcmp(info->disks[i].row.name, name))
            return &info->disks[i];
    return NULL;
}

/* What `status` says of a disk. */
static bool disk_now(struct fixture *f, const char *name, struct sfs_disk_info *out)
{
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    const struct sfs_disk_info *d = disk_in(info, name);
    if (d)
        *out = *d;
    sfs_pool_info_free(info);
    return d != NULL;
}

static bool bears_label(struct fixture *f, const char *path)
{
    struct sfs_disk_probe *p = calloc(1, sizeof(*p));
    cr_assert_eq(sfs_disk_probe(f->env, path, f->world, p, NULL), 0);
    bool has = p->has_label;
    free(p);
    return has;
}

/* Everything is whole, and any one disk may go (mirror2). */
static void check_redundancy(struct fixture *f)
{
    uint64_t *ids;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        uint64_t bad, lost;
        cr_assert_eq(sfs_group_info(sfs_pool_data(f->pool), ids[i], &g), 0);
        cr_assert_eq(g.missing, 0, "group %llu misses %u slabs", (unsigned long long)g.id, g.missing);
        for (unsigned k = 0; k < g.nslabs; k++)
            for (unsigned m = 0; m < k; m++)
                cr_assert(k / g.copies != m / g.copies || g.slabs[k].disk != g.slabs[m].disk, "two copies on one disk");
        cr_assert_eq(sfs_verify_group(sfs_pool_data(f->pool), ids[i], NULL, NULL, &bad, &lost), 0);
        cr_assert_eq(bad + lost, 0);
    }
    if (n)
        free(ids);
}

/* --- remove --------------------------------------------------------------------------------------------------------- */

static void body_remove(struct fixture *f)
{
    struct file t;
    struct sfs_disk_info d;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_MIRROR2, 12);
    uint64_t job = remove_disk(f, "b");
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(file_write(&t, MIB), 0, "writes go on");
    wait_job(f, job);
    cr_assert_not(disk_now(f, "b", &d), "it has left");
    cr_assert_not(bears_label(f, "sim:b"), "and is blank");
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    reopen(f, &t, "sim:a");
    cr_assert_not(disk_now(f, "b", &d));
    cr_assert_eq(file_check(&t), 0);
    sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0, "redundancy is what it was");
    end_with(f, &t);
}

Test(disks, a_removed_disk_leaves_nothing_behind)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        in_sim(seed, body_remove);
}

static void body_remove_first(struct fixture *f)
{
    /* The one by which the pool was opened, with a replica; then the next, until one is left. */
    struct file t;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24, 24}, 5, SFS_SIMPLE, 8);
    wait_job(f, remove_disk(f, "a"));
    wait_job(f, remove_disk(f, "b"));
    wait_job(f, remove_disk(f, "c"));
    wait_job(f, remove_disk(f, "d"));
    struct sfs_error err = {0};
    uint64_t job;
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "e", &job, &err), -EINVAL);
    cr_assert(strstr(err.text, "only disk"), "%s", err.text);
    cr_assert_eq(file_check(&t), 0);
    struct sfs_disk_spec back[] = {{.path = "sim:a"}, {.path = "sim:b"}};
    cr_assert_eq(sfs_pool_disk_add(f->pool, back, 2, false, NULL, &err), 0, "%s", err.text);
    reopen(f, &t, "sim:a");
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, one_after_the_other_may_be_removed_and_added_again)
{
    in_sim(3, body_remove_first);
}

static void body_refused(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    uint64_t job;
    begin_with(f, &t, (unsigned[]){16, 16, 16}, 3, SFS_MIRROR2, 18);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "b", &job, &err), -ENOSPC);
    cr_assert(strstr(err.text, "slabs") && strstr(err.text, "MiB"), "with the numbers: %s", err.text);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "x", &job, &err), -ENOENT);
    cr_assert(disk_now(f, "b", &d));
    cr_assert_eq(d.row.usage, SFS_USAGE_AUTO, "nothing has changed");
    make_space(f, "safe", SFS_MIRROR3);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "c", &job, &err), -ENOSPC);
    cr_assert(strstr(err.text, "safe") && strstr(err.text, "needs 3"), "%s", err.text);
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, a_removal_that_cannot_be_is_refused_at_once)
{
    in_sim(4, body_refused);
}

static void body_twice(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    uint64_t again;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_MIRROR2, 12);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "job-rate", "1M", &err), 0);
    uint64_t job = remove_disk(f, "b");
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "b", &again, &err), -EALREADY);
    cr_assert_eq(sfs_pool_disk_replace(f->pool, "b", "c", &again, &err), -EBUSY, "%s", err.text);
    cr_assert_eq(sfs_pool_disk_set(f->pool, "b", "usage", "auto", &again, &err), -EBUSY, "%s", err.text);
    /* Paused it stays paused, also over a restart; cancelled the disk is used again. */
    cr_assert_eq(sfs_pool_job_order(f->pool, job, SFS_JOB_PAUSE, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_order(f->pool, job, SFS_JOB_PAUSE, &err), -EALREADY);
    reopen(f, &t, "sim:a");
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_str_eq(info->jobs[0].row.state, "paused");
    cr_assert_eq(disk_in(info, "b")->row.usage, SFS_USAGE_RETIRED);
    sfs_pool_info_free(info);
    cr_assert_eq(sfs_pool_job_order(f->pool, job, SFS_JOB_RESUME, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_order(f->pool, job, SFS_JOB_CANCEL, &err), 0, "%s", err.text);
    struct sfs_disk_info d;
    cr_assert(disk_now(f, "b", &d));
    cr_assert_eq(d.row.usage, SFS_USAGE_AUTO);
    cr_assert_eq(sfs_pool_job_order(f->pool, job, SFS_JOB_CANCEL, &err), -ENOENT);
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    end_with(f, &t);
}

Test(disks, jobs_contradict_pause_and_are_cancelled)
{
    in_sim(5, body_twice);
}

/* A crash at the n-th I/O of a removal: when the pool is opened again it goes on by itself. */
static uint64_t crash_at;
static bool crash_met;

static void body_crash(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    uint64_t job = 0, ino;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_MIRROR2, 6);
    ino = t.ino;
    sfs_sim_crash_at(f->world, crash_at, crash_at % 2);
    if (!sfs_pool_disk_remove(f->pool, "b", &job, &err)) {
        char text[256];
        sfs_pool_job_wait(f->pool, job, DONE_NS, text);
    }
    crash_met = sfs_sim_crashed(f->world);
    sfs_sim_crash_at(f->world, 0, false);
    if (!crash_met) {
        end_with(f, &t);
        return;
    }
    file_close(&t);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    err = (struct sfs_error){0};
    cr_assert_eq(try_open(f, "sim:a", &err), 0, "crash at %llu: %s", (unsigned long long)crash_at, err.text);
    use_space(f, "docs");
    file_open(&t, f);
    file_reload(&t, ino);
    cr_assert_geq(t.n, 6);
    cr_assert_eq(file_check(&t), 0);
    if (job && disk_now(f, "b", &d)) {
        char text[256] = "";
        int rc = sfs_pool_job_wait(f->pool, job, DONE_NS, text);
        cr_assert_eq(rc, 0, "crash at %llu: %d %s", (unsigned long long)crash_at, rc, text);
        cr_assert_not(disk_now(f, "b", &d));
        cr_assert_not(bears_label(f, "sim:b"));
    }
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    end_with(f, &t);
}

Test(disks, a_removal_goes_on_after_a_crash_anywhere)
{
    crash_met = true;
    for (crash_at = 1; crash_met && crash_at < 3000; crash_at += 1 + crash_at / 20)
        in_sim(100 + crash_at, body_crash);
    cr_assert_gt(crash_at, 50, "there is something to interrupt");
}

/* Parity over all disks: nowhere to put a slab; what was in wide groups goes to narrower ones, if they can hold it. */
static void body_full_width(struct fixture *f)
{
    struct file t;
    struct sfs_disk_info d;
    struct sfs_error err = {0};
    uint64_t job;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_PARITY, 18);
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert(info->can_heal_largest, "three disks can hold it");
    sfs_pool_info_free(info);
    job = remove_disk(f, "b");
    cr_assert_eq(file_write(&t, MIB), 0, "writes go on");
    wait_job(f, job);
    cr_assert_not(disk_now(f, "b", &d), "it has left");
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    reopen(f, &t, "sim:a");
    sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0, "redundancy is what it was");
    sfs_sim_return(f->world, "c");
    sfs_env_sleep_ns(f->env, 60000000000ull);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "d", &job, &err), -ENOSPC, "parity wants three disks: %s", err.text);
    end_with(f, &t);
}

Test(disks, a_disk_leaves_a_space_with_parity_over_all_disks)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        in_sim(seed, body_full_width);
}

static void body_full_width_refused(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_pool_info *info;
    uint64_t job = 0;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_PARITY, 50);
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_not(info->can_heal_largest, "50 MiB are too much for three disks of 24");
    sfs_pool_info_free(info);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "b", &job, &err), -ENOSPC);
    cr_assert(strstr(err.text, "cannot be removed") && strstr(err.text, "Add a disk"), "%s", err.text);
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, what_narrower_groups_cannot_hold_is_refused)
{
    in_sim(1, body_full_width_refused);
}

/* Another disk is lost in the middle: what it held is healed, what is to be moved is moved. */
static void body_second_loss(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    begin_with(f, &t, (unsigned[]){32, 32, 32, 32, 32}, 5, SFS_MIRROR2, 16);
    uint64_t job = remove_disk(f, "b");
    for (unsigned i = 0; i < sfs_env_rand(f->env) % 40; i++)
        sfs_env_yield(f->env);
    sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0);
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
    char text[256] = "";
    int rc = 0;
    for (unsigned i = 0; i < 100 && (rc = sfs_pool_job_wait(f->pool, job, DONE_NS, text)) != 0; i++)
        sfs_env_sleep_ns(f->env, 1000000000ull);
    cr_assert_eq(rc, 0, "%s", text);
    cr_assert_not(disk_now(f, "b", &d));
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    sfs_sim_vanish(f->world, "d");
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, a_second_loss_in_the_middle_of_a_removal)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        in_sim(seed, body_second_loss);
}

/* --- replace -------------------------------------------------------------------------------------------------------- */

static void add_disk(struct fixture *f, const char *name, unsigned mib)
{
    char path[16];
    struct sfs_error err = {0};
    snprintf(path, sizeof(path), "sim:%s", name);
    cr_assert_eq(sfs_sim_add(f->world, name, (uint64_t)mib << 20, SFS_MEDIA_SSD), 0);
    struct sfs_disk_spec spec = {.path = path};
    cr_assert_eq(sfs_pool_disk_add(f->pool, &spec, 1, false, NULL, &err), 0, "%s", err.text);
}

static uint64_t replace_disk(struct fixture *f, const char *old, const char *with)
{
    struct sfs_error err = {0};
    uint64_t job = 0;
    cr_assert_eq(sfs_pool_disk_replace(f->pool, old, with, &job, &err), 0, "%s", err.text);
    return job;
}

static void body_replace(struct fixture *f)
{
    struct file t;
    struct sfs_disk_info d;
    begin_with(f, &t, (unsigned[]){24, 24, 24}, 3, SFS_MIRROR2, 12);
    add_disk(f, "n", 16); /* smaller, but it fits */
    wait_job(f, replace_disk(f, "a", "n"));
    cr_assert_not(disk_now(f, "a", &d));
    cr_assert(disk_now(f, "n", &d));
    cr_assert_gt(d.slabs_held, 0);
    cr_assert_eq(file_check(&t), 0);
    check_redundancy(f);
    /* A dead one: from the other copies. */
    sfs_sim_vanish(f->world, "b");
    add_disk(f, "o", 24);
    wait_job(f, replace_disk(f, "b", "o"));
    cr_assert_not(disk_now(f, "b", &d));
    check_redundancy(f);
    reopen(f, &t, "sim:n");
    cr_assert_eq(file_check(&t), 0);
    sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, a_disk_is_replaced_dead_or_alive)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_replace);
}

/* --- forget --------------------------------------------------------------------------------------------------------- */

static void body_forget(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_forget look;
    struct sfs_disk_info d;
    uint64_t job;
    begin_with(f, &t, (unsigned[]){24, 24, 24}, 3, SFS_SIMPLE, 12);
    cr_assert_eq(sfs_pool_disk_forget(f->pool, "b", false, &look, &err), -EBUSY, "a disk that is here is removed");
    sfs_sim_vanish(f->world, "b");
    unsigned bad = file_check(&t);
    cr_assert(bad > 0 && bad < 12, "%u", bad);
    cr_assert_eq(sfs_pool_disk_remove(f->pool, "b", &job, &err), -ENODATA, "the only copy");
    cr_assert(strstr(err.text, "disk forget"), "%s", err.text);
    cr_assert_eq(sfs_pool_disk_forget(f->pool, "b", true, &look, &err), 0, "%s", err.text);
    cr_assert_gt(look.lost_bytes, 0);
    cr_assert_eq(look.nspaces, 1);
    cr_assert_str_eq(look.spaces[0].name, "docs");
    sfs_forget_free(&look);
    cr_assert(disk_now(f, "b", &d), "looking changes nothing");
    cr_assert_eq(sfs_pool_disk_forget(f->pool, "b", false, &look, &err), 0, "%s", err.text);
    sfs_forget_free(&look);
    cr_assert_not(disk_now(f, "b", &d));
    cr_assert_eq(file_check(&t), bad, "errors there, and only there");
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "nobody waits for what won't return: %s", err.text);
    cr_assert_eq(file_write(&t, MIB), 0, "writes go on");
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    sfs_sim_return(f->world, "b"); /* it does, all the same */
    reopen(f, &t, "sim:a");
    cr_assert_not(disk_now(f, "b", &d));
    cr_assert_eq(file_check(&t), bad);
    end_with(f, &t);
}

Test(disks, what_a_forgotten_disk_held_alone_is_lost_and_nothing_else)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_forget);
}

/* --- usage ---------------------------------------------------------------------------------------------------------- */

static void set_disk(struct fixture *f, const char *disk, const char *key, const char *value)
{
    struct sfs_error err = {0};
    uint64_t job = 0;
    cr_assert_eq(sfs_pool_disk_set(f->pool, disk, key, value, &job, &err), 0, "%s", err.text);
    if (job)
        wait_job(f, job);
}

static void body_spare(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    uint64_t job;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_MIRROR2, 10);
    set_disk(f, "d", "usage", "hot-spare");
    cr_assert(disk_now(f, "d", &d));
    cr_assert_eq(d.slabs_held, 0, "it has been emptied");
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    cr_assert(disk_now(f, "d", &d));
    cr_assert_eq(d.slabs_held, 0, "and stays empty");
    add_disk(f, "t", 2);
    cr_assert_eq(sfs_pool_disk_set(f->pool, "t", "usage", "hot-spare", &job, &err), -ENOSPC, "too small");
    cr_assert(strstr(err.text, "too small"), "%s", err.text);
    wait_job(f, remove_disk(f, "t"));
    sfs_sim_vanish(f->world, "b");
    for (unsigned i = 0; i < 60; i++) /* a minute: less than the delay */
        sfs_env_sleep_ns(f->env, 1000000000ull);
    cr_assert(disk_now(f, "d", &d));
    cr_assert_eq(d.row.usage, SFS_USAGE_AUTO, "it has stepped in");
    cr_assert_gt(d.slabs_held, 0);
    check_redundancy(f);
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, a_hot_spare_steps_in_without_delay)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_spare);
}

static void body_errors(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    begin_with(f, &t, (unsigned[]){24, 24, 24, 24}, 4, SFS_MIRROR2, 10);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "error-limit", "some", &err), -EINVAL);
    cr_assert_eq(sfs_pool_prop_set(f->pool, "error-limit", "2", &err), 0);
    sfs_sim_fail_at(f->world, "b", SFS_IO_READ, 1, true);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(file_check(&t), 0, "the other copies serve");
    for (unsigned i = 0; i < 30; i++)
        sfs_env_sleep_ns(f->env, 1000000000ull);
    cr_assert(disk_now(f, "b", &d));
    cr_assert_gt(d.row.read_errors, 2, "counted");
    cr_assert_eq(d.row.usage, SFS_USAGE_RETIRED);
    cr_assert_eq(d.slabs_held, 0, "and emptied, though it cannot be read");
    check_redundancy(f);
    reopen(f, &t, "sim:a");
    cr_assert(disk_now(f, "b", &d));
    cr_assert_gt(d.row.read_errors, 2, "not forgotten");
    end_with(f, &t);
}

Test(disks, a_disk_with_too_many_errors_is_retired_and_emptied)
{
    in_sim(1, body_errors);
}

/* --- capacity, balance ---------------------------------------------------------------------------------------------- */

static void body_capacity(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info d;
    uint64_t job;
    begin_with(f, &t, (unsigned[]){32, 32}, 2, SFS_MIRROR2, 10);
    cr_assert_eq(sfs_pool_disk_set(f->pool, "a", "capacity", "5M", &job, &err), -ENOSPC, "below what it holds, and nobody else can");
    cr_assert_eq(sfs_pool_disk_set(f->pool, "a", "capacity", "1000K", &job, &err), -EINVAL);
    cr_assert_eq(sfs_pool_disk_set(f->pool, "a", "capacity", "64M", &job, &err), -ENOSPC, "more than there is: %s", err.text);
    set_disk(f, "a", "capacity", "16M");
    cr_assert(disk_now(f, "a", &d));
    cr_assert_eq(d.row.capacity_slabs, 16);
    cr_assert_eq(file_check(&t), 0);
    reopen(f, &t, "sim:b");
    cr_assert(disk_now(f, "a", &d));
    cr_assert_eq(d.row.capacity_slabs, 16);
    set_disk(f, "a", "capacity", "30M");
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, MIB), 0, "more room at once");
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    add_disk(f, "n", 32);
    set_disk(f, "a", "capacity", "5M"); /* now somebody else can */
    cr_assert(disk_now(f, "a", &d));
    cr_assert_leq(d.slabs_held, 5);
    check_redundancy(f);
    reopen(f, &t, "sim:b");
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, a_disk_gives_less_and_more)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_capacity);
}

static void body_rebalance(struct fixture *f)
{
    struct file t;
    struct sfs_error err = {0};
    struct sfs_disk_info a, n;
    uint64_t job;
    begin_with(f, &t, (unsigned[]){40, 40, 40}, 3, SFS_MIRROR2, 30);
    add_disk(f, "n", 40);
    cr_assert_gt(sfs_rebalance_bytes(sfs_pool_data(f->pool)), 0);
    cr_assert_eq(sfs_pool_rebalance(f->pool, &job, &err), 0, "%s", err.text);
    wait_job(f, job);
    cr_assert(disk_now(f, "a", &a) && disk_now(f, "n", &n));
    cr_assert(a.slabs_held <= n.slabs_held + 2 && n.slabs_held <= a.slabs_held + 2, "%llu and %llu slabs", (unsigned long long)a.slabs_held, (unsigned long long)n.slabs_held);
    cr_assert_eq(sfs_rebalance_bytes(sfs_pool_data(f->pool)), 0, "it is at rest");
    check_redundancy(f);
    cr_assert_eq(file_check(&t), 0);
    end_with(f, &t);
}

Test(disks, slabs_are_spread_over_a_disk_that_was_added)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_rebalance);
}

/* The one who looks for spaces that are marked may begin the job before the one who marked it does. */
static void body_destroyed_by_two(struct fixture *f)
{
    struct sfs_error err = {0};
    char text[256];
    make_pool(f, (unsigned[]){24, 24}, 2);
    open_pool(f);
    for (unsigned i = 0; i < 200; i++) {
        uint64_t job = 0;
        make_space(f, "gone", SFS_MIRROR2); /* wakes it */
        cr_assert_eq(sfs_pool_space_destroy(f->pool, "gone", &job, &err), 0, "round %u: %s", i, err.text);
        cr_assert_neq(job, 0);
        cr_assert_eq(sfs_pool_job_wait(f->pool, job, 3600ull * 1000000000ull, text), 0, "%s", text);
        cr_assert_eq(sfs_pool_space_destroy(f->pool, "gone", &job, &err), -ENOENT);
        err = (struct sfs_error){0};
    }
    close_pool(f);
}

Test(disks, a_space_is_destroyed_whoever_begins_it)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        in_sim(seed, body_destroyed_by_two);
}
