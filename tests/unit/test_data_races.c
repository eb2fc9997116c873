/* Disks that drop out, return and are looked after while data is written, committed, moved and destroyed. Each of these once lost data. */
#include "tests/unit/file_fixture.h"

#include "fs/data/state.h"
#include "fs/pool/pool_impl.h"

static void count_bad(struct sfs_data *d, uint64_t *bad, uint64_t *lost)
{
    uint64_t b, l, *ids;
    unsigned n;
    *bad = *lost = 0;
    cr_assert_eq(sfs_group_ids(d, &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(sfs_verify_group(d, ids[i], NULL, NULL, &b, &l), 0);
        *bad += b;
        *lost += l;
    }
    free(ids);
}

/* --- a space destroyed before anything has counted what it uses -------------------------------------------------------------------------- */

static void body_destroy(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){24, 24, 24}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    make_space(f, "other", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_pool_sync(f->pool), 0);
    file_close(&t);
    close_pool(f);
    open_pool(f);
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "docs", NULL, &err), 0, "%s", err.text);
    close_pool(f);
    open_pool(f);
    close_pool(f);
}

Test(data_races, a_space_can_be_destroyed_right_after_a_mount)
{
    in_sim(1, body_destroy);
}

static void body_destroy_held(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){24, 24, 24}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_pool_sync(f->pool), 0);
    file_close(&t);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    struct sfs_data *d = sfs_pool_data(f->pool);
    SFS_LOCK(d); /* as a job that moves one of its slabs */
    struct sfs_group *g = d->groups;
    g->holds++;
    SFS_UNLOCK(d);
    cr_assert_eq(sfs_pool_space_destroy(f->pool, "docs", NULL, &err), -EBUSY);
    SFS_LOCK(d);
    g->holds--;
    SFS_UNLOCK(d);
    cr_assert_eq(sfs_pool_volume_get(f->pool, "docs", &f->vol, &err), -ENOENT, "it is gone for everybody");
    close_pool(f);
    open_pool(f); /* takes it up again */
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_eq(info->nspaces, 0);
    cr_assert_eq(info->used_bytes, 0);
    sfs_pool_info_free(info);
    make_space(f, "docs", SFS_MIRROR2);
    close_pool(f);
}

Test(data_races, a_destruction_that_was_cut_short_goes_on_at_the_next_open)
{
    in_sim(2, body_destroy_held);
}

/* --- no room to rewrite, and columns of which only the lost disk has a copy ---------------------------------------------------------------- */

static void body_full_and_lost(struct fixture *f)
{
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){16, 16}, 2);
    open_pool(f);
    enum sfs_resiliency r = SFS_SIMPLE;
    unsigned columns = 2;
    struct sfs_space_settings s = {.resiliency = &r, .columns = &columns};
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &s, &err), 0, "%s", err.text);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    struct sfs_data *d = sfs_pool_data(f->pool);
    for (struct sfs_volume_stat st = {.avail_bytes = UINT64_MAX}; st.avail_bytes >= MIB && t.n <= 480; sfs_volume_stat(f->vol, &st)) {
        cr_assert_eq(file_write(&t, 64u << 10), 0);
        if (t.n % 16 == 0)
            cr_assert_eq(sfs_commit_wait(d, false), 0);
    }
    cr_assert_eq(sfs_commit_wait(d, false), 0);
    unsigned committed = t.n;
    while (t.n < 500 && file_write(&t, 64u << 10) == 0)
        ;
    cr_assert_gt(t.n, committed);
    sfs_sim_vanish(f->world, "b");
    sfs_pool_look_after_disks(f->pool, true);
    cr_assert_eq(sfs_commit_wait(d, false), 0);
    sfs_sim_return(f->world, "b");
    sfs_pool_look_after_disks(f->pool, true);
    struct file before = t;
    before.n = committed;
    cr_assert_eq(file_check(&before), 0, "what was committed before the disk went is there when it is back");
    file_close(&t);
    close_pool(f);
}

Test(data_races, a_slab_with_the_only_copy_is_never_forgotten)
{
    in_sim(3, body_full_and_lost);
}

/* --- old slab files are deleted while new slabs are made -------------------------------------------------------------------------------------- */

static void orphan_fiber(void *d)
{
    sfs_groups_free_orphans(d);
}

static void body_orphans(struct fixture *f)
{
    make_pool(f, (unsigned[]){40, 40}, 2);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < f->pool->ndisks; i++)
        for (uint32_t s = 0; s < 30; s++) /* as a disk that was away while its groups were dropped has them */
            cr_assert_eq(sfs_disk_slab_alloc(f->pool->disks[i].disk, s), 0);
    struct sfs_thread *th;
    cr_assert_eq(sfs_thread_start(f->env, "orphans", orphan_fiber, sfs_pool_data(f->pool), &th), 0);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    sfs_thread_join(th);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    uint64_t bad, lost;
    count_bad(sfs_pool_data(f->pool), &bad, &lost);
    cr_assert_eq(bad, 0);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(data_races, orphans_are_deleted_beside_a_writer)
{
    for (uint64_t seed = 1; seed <= 8; seed++)
        in_sim(seed, body_orphans);
}

/* --- a disk that drops out and is back before the commit syncs it ------------------------------------------------------------------------------ */

static struct sfs_env *slow_env;

static void slow_prepare(void *ctx, bool all)
{
    (void)ctx;
    (void)all;
    sfs_env_sleep_ns(slow_env, 8000000000ull);
}

struct committing {
    struct sfs_data *d;
    int rc;
};

static void commit_fiber(void *arg)
{
    struct committing *c = arg;
    c->rc = sfs_commit_wait(c->d, true);
}

static void flap(struct fixture *f, enum sfs_resiliency r)
{
    slow_env = f->env;
    make_pool(f, (unsigned[]){40, 40, 40}, 3);
    open_pool(f);
    make_space(f, "docs", r);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    t.client.prepare = slow_prepare;
    struct committing c = {.d = sfs_pool_data(f->pool)};
    for (int i = 0; i < 6; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    struct sfs_thread *th;
    cr_assert_eq(sfs_thread_start(f->env, "commit", commit_fiber, &c, &th), 0);
    sfs_env_sleep_ns(f->env, 100000000);
    sfs_sim_vanish(f->world, "b"); /* with what it had in its cache */
    sfs_env_sleep_ns(f->env, 1500000000ull);
    sfs_sim_return(f->world, "b");
    sfs_thread_join(th);
    uint64_t bad, lost;
    unsigned unreadable = file_check(&t);
    count_bad(c.d, &bad, &lost);
    cr_assert(unreadable == 0 || t.lost > 0 || c.rc, "nobody was told of %u extents that are gone", unreadable);
    if (r != SFS_SIMPLE) {
        cr_assert_eq(c.rc, 0);
        cr_assert_eq(unreadable, 0);
        cr_assert_eq(bad, 0, "committed with every copy");
    }
    t.client.prepare = file_prepare;
    file_close(&t);
    close_pool(f);
}

static void body_flap_simple(struct fixture *f)
{
    flap(f, SFS_SIMPLE);
}

static void body_flap_mirror(struct fixture *f)
{
    flap(f, SFS_MIRROR2);
}

Test(data_races, a_disk_that_is_back_before_its_sync_simple)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        in_sim(seed, body_flap_simple);
}

Test(data_races, a_disk_that_is_back_before_its_sync_mirror)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        in_sim(seed, body_flap_mirror);
}

/* --- the target of a move is pulled and plugged in again -------------------------------------------------------------------------------------------- */

static struct fixture *replugged;
static bool pull_now;
static unsigned moved;

static void replug_fiber(void *arg)
{
    struct fixture *f = arg;
    while (!pull_now)
        sfs_env_sleep_ns(f->env, 1000000);
    sfs_sim_vanish(f->world, "c");
    sfs_sim_return(f->world, "c");
    sfs_pool_look_after_disks(f->pool, true);
    sfs_pool_look_after_disks(f->pool, true);
}

static int move_progress(void *ctx, uint64_t bytes)
{
    (void)ctx;
    (void)bytes;
    if (++moved == 2) {
        pull_now = true;
        sfs_env_sleep_ns(replugged->env, 500000000);
    }
    return 0;
}

static void body_replug(struct fixture *f)
{
    replugged = f;
    pull_now = false;
    moved = 0;
    make_pool(f, (unsigned[]){24, 24}, 2);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    cr_assert_eq(sfs_sim_add(f->world, "c", 40u << 20, SFS_MEDIA_SSD), 0);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, 128u << 10), 0);
    struct sfs_data *d = sfs_pool_data(f->pool);
    cr_assert_eq(sfs_commit_wait(d, false), 0);
    struct sfs_disk_spec sp = {.path = "sim:c"};
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_disk_add(f->pool, &sp, 1, false, NULL, &err), 0, "%s", err.text);
    struct sfs_thread *th;
    cr_assert_eq(sfs_thread_start(f->env, "replug", replug_fiber, f, &th), 0);
    struct sfs_move_result res;
    uint64_t *ids;
    unsigned n;
    cr_assert_eq(sfs_group_ids(d, &ids, &n), 0);
    int rc = sfs_move_slab(d, ids[0], 0, 0, 0, move_progress, NULL, &res);
    cr_assert(rc == -EIO || rc == 0, "%d", rc);
    sfs_thread_join(th);
    free(ids);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(data_races, the_target_of_a_move_is_replugged)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        in_sim(seed, body_replug);
}

/* --- the only good copy is on the disk that is away ------------------------------------------------------------------------------------------------ */

static void body_rot_and_lost(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24, 24}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    for (uint32_t slot = 0; slot < 8; slot++)
        sfs_sim_rot(f->world, "b", slot, 70000, 50);
    sfs_sim_vanish(f->world, "a");
    struct sfs_error err = {0};
    int rc = sfs_pool_heal(f->pool, true, &err);
    cr_assert_neq(rc, 0, "heal does not say done");
    struct sfs_pool_info *info;
    cr_assert_eq(sfs_pool_info(f->pool, &info), 0);
    cr_assert_eq(info->health, SFS_AT_RISK, "%s", info->verdict);
    sfs_pool_info_free(info);
    sfs_sim_return(f->world, "a");
    sfs_pool_look_after_disks(f->pool, true);
    cr_assert_eq(file_check(&t), 0, "what only the missing disk had is back with it");
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
    sfs_sim_vanish(f->world, "a");
    cr_assert_eq(file_check(&t), 0, "and was repaired on the other");
    file_close(&t);
    close_pool(f);
}

Test(data_races, heal_never_gives_up_the_last_good_copy)
{
    in_sim(6, body_rot_and_lost);
}
