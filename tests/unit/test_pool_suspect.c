/* Disks whose contents are not what was written to them: noticed when the pool is opened, verified, made good; also when that is cut short. */
#include "fs/pool/pool_impl.h"
#include "tests/unit/file_fixture.h"



static void write_some(struct fixture *f)
{
    static struct file t;
    use_space(f, "docs");
    file_open(&t, f);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), true), 0);
    file_close(&t);
}

/* Copies on online disks that are not what they should be. */
static uint64_t count_bad(struct fixture *f)
{
    uint64_t *ids, all = 0;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        uint64_t bad, lost;
        cr_assert_eq(sfs_verify_group(sfs_pool_data(f->pool), ids[i], NULL, NULL, &bad, &lost), 0);
        cr_assert_eq(lost, 0);
        all += bad;
    }
    if (n)
        free(ids);
    return all;
}

struct seen {
    const char *kind, *disk;
    unsigned n;
};

static int see(const struct sfs_event_row *e, void *ctx)
{
    struct seen *s = ctx;
    s->n += !strcmp(e->kind, s->kind) && !strcmp(e->subject, s->disk);
    return 0;
}

static unsigned events(struct fixture *f, const char *kind, const char *disk)
{
    struct seen s = {kind, disk, 0};
    sfs_pool_flush_events(f->pool);
    cr_assert_eq(sfs_pool_events(f->pool, 0, 1000, see, &s), 0);
    return s.n;
}

static bool marked(struct fixture *f, const char *disk)
{
    struct sfs_pool_info *info;
    bool yes = false;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    for (unsigned i = 0; i < info->ndisks; i++)
        yes |= !strcmp(info->disks[i].row.name, disk) && info->disks[i].row.suspect;
    sfs_pool_info_free(info);
    return yes;
}

static void heal(struct fixture *f)
{
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
}

static void open_by(struct fixture *f, const char *which, bool no_jobs)
{
    struct sfs_pool_open_opts o = {.world = f->world, .no_jobs = no_jobs};
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_open(f->env, which, &o, &f->pool, &err), 0, "%s", err.text);
}

/* A copy of the disk from before is put back while the pool is closed. */
static void rolled_back(struct fixture *f, unsigned disks, const char *disk, enum sfs_resiliency r)
{
    make_pool(f, (unsigned[]){24, 24, 24, 24, 24}, disks);
    open_pool(f);
    make_space(f, "docs", r);
    close_pool(f);
    sfs_sim_save(f->world, disk);
    open_pool(f);
    write_some(f);
    close_pool(f);
    sfs_sim_restore(f->world, disk);
}

static void body_rolled_back(struct fixture *f)
{
    rolled_back(f, 3, "b", SFS_MIRROR2);
    open_by(f, "sim:b", false); /* by that very disk */
    heal(f);
    cr_assert_eq(events(f, "disk-suspect", "b"), 1);
    cr_assert(!marked(f, "b"), "verified");
    cr_assert_eq(count_bad(f), 0, "and made good");
    close_pool(f);
    open_pool(f);
    cr_assert_eq(events(f, "disk-suspect", "b"), 1, "once");
    close_pool(f);
}

Test(suspect, a_disk_from_an_earlier_time_in_the_same_epoch)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_rolled_back);
}

/* A disk without a copy of the catalog: its label tells. */
static void body_without_replica(struct fixture *f)
{
    rolled_back(f, 5, "e", SFS_MIRROR3);
    open_pool(f);
    heal(f);
    cr_assert_eq(events(f, "disk-suspect", "e"), 1);
    cr_assert_eq(count_bad(f), 0);
    close_pool(f);
}

Test(suspect, one_without_a_copy_of_the_catalog)
{
    in_sim(4, body_without_replica);
}

/* The machine goes down before the disk is verified: it is verified the next time. */
static void body_cut_short(struct fixture *f)
{
    rolled_back(f, 3, "c", SFS_MIRROR2);
    for (uint64_t n = 30; n < 100; n += 10) { /* in opening, or soon after */
        struct sfs_pool_open_opts o = {.world = f->world};
        struct sfs_error err = {0};
        sfs_sim_crash_at(f->world, n, false);
        if (sfs_pool_open(f->env, "sim:a", &o, &f->pool, &err) == 0) {
            sfs_env_sleep_ns(f->env, 100000000);
            if (!sfs_sim_crashed(f->world))
                sfs_sim_crash(f->world, false);
            sfs_pool_close(f->pool);
        }
        f->pool = NULL;
        sfs_sim_crash_at(f->world, 0, false);
        sfs_sim_revive(f->world);
    }
    open_pool(f);
    heal(f);
    cr_assert(!marked(f, "c"));
    cr_assert_eq(count_bad(f), 0);
    close_pool(f);
}

Test(suspect, cut_short_by_crashes)
{
    for (uint64_t seed = 5; seed <= 8; seed++)
        in_sim(seed, body_cut_short);
}

/* It failed; the pool is closed and opened again before it could be verified: that isn't forgotten. */
static void body_failed(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24, 24}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    write_some(f);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    sfs_sim_fail_at(f->world, "b", SFS_IO_SYNC, 1, true);
    write_some(f);
    sfs_env_sleep_ns(f->env, 3000000000ull);
    cr_assert(marked(f, "b"));
    close_pool(f);
    sfs_sim_fail_at(f->world, "b", SFS_IO_SYNC, 0, false);
    for (unsigned slot = 0; slot < 4; slot++)
        sfs_sim_rot(f->world, "b", slot, 4096, 16);
    open_pool(f);
    heal(f);
    cr_assert(!marked(f, "b"));
    cr_assert_eq(events(f, "disk-verified", ""), 1);
    cr_assert_eq(count_bad(f), 0);
    close_pool(f);
}

Test(suspect, a_disk_that_had_failed_is_verified_after_a_restart_too)
{
    in_sim(9, body_failed);
}

/* Nothing is held against disks of a pool that was closed in order, or that only lost power. */
static void body_innocent(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24, 24, 24, 24}, 5);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    close_pool(f);
    for (unsigned round = 0; round < 6; round++) {
        open_pool(f);
        write_some(f);
        if (round % 2) {
            sfs_sim_crash(f->world, round % 4 == 1);
            sfs_pool_volume_put(f->pool, f->vol);
            f->vol = NULL;
            sfs_pool_close(f->pool);
            sfs_sim_revive(f->world);
        } else {
            close_pool(f);
        }
    }
    open_pool(f);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(events(f, "disk-suspect", (const char[]){(char)('a' + i), 0}), 0);
    close_pool(f);
}

Test(suspect, a_crash_makes_no_disk_suspect)
{
    in_sim(10, body_innocent);
}
