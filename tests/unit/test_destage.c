/* What lands in a space with parity moves on in whole stripes (fs/job/destage.h); spaces are converted to parity and back. */
#include "tests/unit/vfs_fixture.h"

#include "fs/job/destage.h"
#include "fs/pool/pool_impl.h"

static uint64_t landed(struct fixture *f)
{
    struct sfs_landing l;
    return sfs_landing_look(sfs_pool_data(f->pool), sfs_volume_space_id(f->vol), &l) ? l.used_bytes : 0;
}

static void end(struct model *m, struct fixture *f)
{
    model_prove(m, f);
    cr_assert_eq(model_unmount(m), 0);
    close_pool(f);
}

static void make(struct fixture *f, enum sfs_resiliency r)
{
    make_pool(f, (unsigned[]){64, 64, 64, 64}, 4);
    open_pool(f);
    make_space(f, "s", r);
    close_pool(f);
}

static void body_destage(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    make(f, SFS_PARITY);
    model_mount(&m, f);
    model_create(&m);
    for (unsigned i = 0; i < 300; i++) {
        cr_assert_eq(model_write(&m, &m.v[0], i * 3, 2), 0);
        if (i % 10 == 9)
            cr_assert_eq(sfs_vfs_fsync(m.v[0].file, false), 0);
    }
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    uint64_t before = landed(f);
    cr_assert_gt(before, MIB, "small writes land: %llu", (unsigned long long)before);
    struct sfs_destaging s = {.d = sfs_pool_data(f->pool)};
    cr_assert_eq(sfs_destage(&s, sfs_volume_space_id(f->vol)), 0);
    cr_assert_gt(s.moved_bytes, before / 2);
    struct sfs_landing l;
    sfs_landing_look(sfs_pool_data(f->pool), sfs_volume_space_id(f->vol), &l);
    cr_assert_lt(landed(f), 2 * l.stripe_bytes + 1, "what is left fills no stripe: %llu", (unsigned long long)landed(f));
    model_check(&m);
    sfs_sim_vanish(f->world, "b"); /* and is there without any one disk */
    model_check(&m);
    sfs_sim_return(f->world, "b");
    sfs_pool_look_after_disks(f->pool, true);
    end(&m, f);
}

Test(destage, small_writes_end_in_whole_stripes)
{
    in_sim(1, body_destage);
}

static void body_convert(struct fixture *f)
{
    static struct model m;
    static const enum sfs_resiliency to[] = {SFS_PARITY, SFS_PARITY2, SFS_MIRROR2, SFS_PARITY, SFS_MIRROR3};
    m = (struct model){0};
    make(f, SFS_MIRROR2);
    model_mount(&m, f);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(model_write(&m, model_create(&m), 0, 600), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct sfs_error err = {0};
        struct sfs_space_settings s = {.resiliency = &to[i]};
        uint64_t job, bad, lost;
        char text[256];
        cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, &job, &err), 0, "%s", err.text);
        cr_assert_neq(job, 0);
        cr_assert_eq(sfs_pool_job_wait(f->pool, job, 3600ull * 1000000000ull, text), 0, "%s", text);
        model_check(&m);
        cr_assert_eq(model_write(&m, &m.v[i % 3], i * 50, 20), 0);
        cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
        model_verify(f, &bad, &lost);
        cr_assert_eq(bad + lost, 0);
    }
    end(&m, f);
}

Test(destage, mirrors_become_parity_and_back)
{
    in_sim(2, body_convert);
}

/* Crashes while it destages. */
static uint64_t crash_at;
static bool crashed;

static void body_crash(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    make(f, SFS_PARITY);
    model_mount(&m, f);
    model_create(&m);
    for (unsigned i = 0; i < 60; i++) {
        cr_assert_eq(model_write(&m, &m.v[0], i * 4, 3), 0);
        if (i % 10 == 9)
            cr_assert_eq(sfs_vfs_fsync(m.v[0].file, false), 0);
    }
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    sfs_sim_crash_at(f->world, crash_at, crash_at / 2 % 2);
    struct sfs_destaging s = {.d = sfs_pool_data(f->pool)};
    (void)sfs_destage(&s, sfs_volume_space_id(f->vol));
    (void)model_unmount(&m);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    crashed = sfs_sim_crashed(f->world);
    sfs_sim_crash_at(f->world, 0, false);
    sfs_sim_revive(f->world);
    model_mount(&m, f);
    end(&m, f);
}

Test(destage, crash_at_every_second_io, .timeout = 120)
{
    for (crash_at = 1, crashed = true; crashed; crash_at += 2)
        in_sim(crash_at, body_crash);
}
