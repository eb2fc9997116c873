/* A space gets another layout while it is in use (fs/pool/convert.c, fs/job/convert.h). */
#include "tests/unit/vfs_fixture.h"

#include "fs/data/outdated.h"

static void set(struct fixture *f, enum sfs_resiliency r, uint64_t *job)
{
    struct sfs_error err = {0};
    struct sfs_space_settings s = {.resiliency = &r};
    cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, job, &err), 0, "%s", err.text);
}

static int wait_for(struct fixture *f, uint64_t job)
{
    char text[256];
    return job ? sfs_pool_job_wait(f->pool, job, 3600ull * 1000000000ull, text) : 0;
}

static void wait_for_all(struct fixture *f)
{
    struct sfs_pool_info *info;
    char text[256];
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    for (unsigned i = 0; i < info->njobs; i++)
        if (!info->jobs[i].row.ended)
            cr_assert_eq(sfs_pool_job_wait(f->pool, info->jobs[i].row.id, 3600ull * 1000000000ull, text), 0, "%s", text);
    sfs_pool_info_free(info);
}

static bool all_are(struct fixture *f, enum sfs_resiliency r)
{
    uint64_t *ids;
    unsigned n;
    bool all = true;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info info;
        if (!sfs_group_info(sfs_pool_data(f->pool), ids[i], &info))
            all &= info.resiliency == r;
    }
    if (n)
        free(ids);
    return all;
}

static void fill(struct model *m, struct fixture *f, unsigned files, uint32_t blocks)
{
    model_mount(m, f);
    for (unsigned i = 0; i < files; i++)
        cr_assert_eq(model_write(m, model_create(m), 0, blocks), 0);
    cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
}

/* --- there and back ----------------------------------------------------------------------------------------------------------------------------- */

static void body_back(struct fixture *f)
{
    static struct model m;
    static const enum sfs_resiliency to[] = {SFS_MIRROR3, SFS_SIMPLE, SFS_MIRROR2};
    m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64, 64}, 3);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    fill(&m, f, 3, 700);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t job, bad, lost;
        set(f, to[i], &job);
        cr_assert_neq(job, 0);
        cr_assert_eq(wait_for(f, job), 0);
        cr_assert(all_are(f, to[i]));
        model_check(&m);
        model_verify(f, &bad, &lost);
        cr_assert_eq(bad + lost, 0);
    }
    uint64_t job;
    set(f, SFS_MIRROR2, &job);
    cr_assert_eq(job, 0, "nothing to do");
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(convert, every_resiliency_there_and_back)
{
    in_sim(1, body_back);
}

/* --- crashes -------------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t crash_at;
static bool crashed;

static void body_crash(struct fixture *f)
{
    static struct model m;
    uint64_t job = 0, bad, lost;
    m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64, 64}, 3);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    fill(&m, f, 2, 300);
    sfs_sim_crash_at(f->world, crash_at, crash_at / 3 % 2);
    struct sfs_error err = {0};
    enum sfs_resiliency r = SFS_MIRROR3;
    struct sfs_space_settings s = {.resiliency = &r};
    if (!sfs_pool_space_set(f->pool, "s", &s, &job, &err))
        (void)wait_for(f, job);
    (void)model_unmount(&m);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    crashed = sfs_sim_crashed(f->world);
    sfs_sim_crash_at(f->world, 0, false);
    sfs_sim_revive(f->world);
    model_mount(&m, f);
    model_check(&m);
    struct sfs_space_row row;
    sfs_volume_settings(f->vol, &row);
    if (row.resiliency == SFS_MIRROR3) /* new settings go on by themselves to where they lead */
        wait_for_all(f);
    else
        set(f, SFS_MIRROR3, &job);
    if (row.resiliency != SFS_MIRROR3)
        cr_assert_eq(wait_for(f, job), 0);
    cr_assert(all_are(f, SFS_MIRROR3), "crash at %llu", (unsigned long long)crash_at);
    model_check(&m);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(convert, crash_at_every_third_io, .timeout = 240)
{
    for (crash_at = 1, crashed = true; crashed; crash_at += crash_at < 60 ? 1 : 3)
        in_sim(crash_at, body_crash);
    cr_assert_gt(crash_at, 30);
}

/* --- settings that change again, and a space that is destroyed, meanwhile ---------------------------------------------------------------------- */

static void body_again(struct fixture *f)
{
    static struct model m;
    static const enum sfs_resiliency to[] = {SFS_MIRROR3, SFS_SIMPLE, SFS_MIRROR3, SFS_MIRROR2};
    uint64_t job, bad, lost;
    m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64, 64}, 3);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    fill(&m, f, 3, 500);
    for (unsigned i = 0; i < 4; i++) {
        set(f, to[i], &job);
        for (uint64_t k = sfs_env_rand(f->env) % 60; k > 0; k--)
            sfs_env_yield(f->env);
    }
    wait_for_all(f);
    cr_assert(all_are(f, SFS_MIRROR2), "the last word counts");
    model_check(&m);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(convert, the_last_settings_count, .timeout = 120)
{
    for (unsigned seed = 1; seed <= 20; seed++)
        in_sim(seed, body_again);
}

static void body_destroyed(struct fixture *f)
{
    static struct model m;
    struct sfs_error err = {0};
    struct sfs_pool_info *info;
    uint64_t job, gone;
    char text[256] = "";
    m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64, 64}, 3);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    fill(&m, f, 3, 500);
    set(f, SFS_MIRROR3, &job);
    cr_assert_eq(model_unmount(&m), 0);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "s", &gone, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_order(f->pool, gone, SFS_JOB_PAUSE, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_order(f->pool, gone, SFS_JOB_CANCEL, &err), -EOPNOTSUPP);
    cr_assert(strstr(err.text, "gone already") && strstr(err.text, "pause"), "%s", err.text);
    err = (struct sfs_error){0};
    cr_assert_eq(sfs_pool_job_order(f->pool, gone, SFS_JOB_RESUME, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_wait(f->pool, gone, 3600ull * 1000000000ull, text), 0, "%s", text);
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_eq(info->nspaces, 0u);
    for (unsigned i = 0; i < info->njobs; i++)
        cr_assert_str_eq(info->jobs[i].row.state, info->jobs[i].row.id == job ? "cancelled" : "done");
    sfs_pool_info_free(info);
    sfs_pool_close(f->pool);
}

Test(convert, a_space_is_destroyed_meanwhile)
{
    in_sim(1, body_destroyed);
}

/* --- refused ---------------------------------------------------------------------------------------------------------------------------------------- */

static void body_refused(struct fixture *f)
{
    static struct model m;
    struct sfs_error err = {0};
    enum sfs_resiliency r = SFS_MIRROR3;
    struct sfs_space_settings s = {.resiliency = &r};
    struct sfs_space_row row;
    uint64_t job;
    m = (struct model){0};
    make_pool(f, (unsigned[]){16, 16, 16}, 3);
    open_pool(f);
    make_space(f, "s", SFS_SIMPLE);
    close_pool(f);
    fill(&m, f, 6, 1000);
    cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, &job, &err), -ENOSPC, "%s", err.text);
    cr_assert(strstr(err.text, "MiB") && strstr(err.text, "Add a disk"), "%s", err.text);
    sfs_volume_settings(f->vol, &row);
    cr_assert_eq(row.resiliency, SFS_SIMPLE, "nothing has changed");
    model_check(&m);
    for (unsigned i = 0; i < 4; i++)
        model_delete(&m, 0);
    sfs_env_sleep_ns(f->env, 1000000000); /* they are reaped behind */
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    err = (struct sfs_error){0};
    cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, &job, &err), 0, "with room it is done: %s", err.text);
    cr_assert_eq(wait_for(f, job), 0);
    cr_assert(all_are(f, SFS_MIRROR3));
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(convert, what_the_disks_cannot_carry_is_refused)
{
    in_sim(2, body_refused);
}

/* --- optimize ------------------------------------------------------------------------------------------------------------------------------------------ */

static void body_optimize(struct fixture *f)
{
    static struct model m;
    struct sfs_error err = {0}, warn = {0};
    uint64_t job;
    m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64}, 2);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    fill(&m, f, 8, 1000);
    cr_assert_eq(sfs_sim_add(f->world, "c", 64ull << 20, SFS_MEDIA_SSD), 0);
    struct sfs_disk_spec spec = {.path = "sim:c"};
    cr_assert_eq(sfs_pool_disk_add(f->pool, &spec, 1, false, &warn, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_optimize(f->pool, &job, &err), 0, "%s", err.text);
    cr_assert_eq(wait_for(f, job), 0);
    struct sfs_member_info v[4];
    unsigned n = sfs_member_list(sfs_pool_data(f->pool), v, 4);
    cr_assert_eq(n, 3);
    for (unsigned i = 0; i < n; i++)
        cr_assert_geq(v[i].held_slabs, 15, "disk %s holds %llu slabs", v[i].row.name, (unsigned long long)v[i].held_slabs);
    model_check(&m);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(convert, optimize_makes_use_of_a_disk_that_was_added)
{
    in_sim(3, body_optimize);
}
