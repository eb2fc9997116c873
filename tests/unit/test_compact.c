/* Dead space in extents that were overwritten in parts comes back (fs/job/compact.h, fs/vfs/rewrite.c). */
#include "tests/unit/vfs_fixture.h"

#include "fs/job/compact.h"
#include "fs/pool/pool_impl.h"

static uint64_t used(struct fixture *f)
{
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    return st.used_bytes;
}

static void make(struct fixture *f, bool zstd)
{
    enum sfs_resiliency r = SFS_MIRROR2;
    enum sfs_codec codec = zstd ? SFS_CODEC_ZSTD : SFS_CODEC_NONE;
    struct sfs_space_settings s = {.resiliency = &r, .codec = &codec};
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){64, 64}, 2);
    open_pool(f);
    cr_assert_eq(sfs_pool_space_create(f->pool, "s", &s, &err), 0, "%s", err.text);
    close_pool(f);
}

static void overwrite(struct model *m, struct fixture *f, unsigned writes)
{
    for (unsigned i = 0; i < writes; i++) {
        cr_assert_eq(model_write(m, &m->v[0], (uint32_t)(sfs_env_rand(f->env) % 1024), 1), 0);
        if (i % 64 == 63)
            cr_assert_eq(sfs_vfs_fsync(m->v[0].file, false), 0);
    }
    cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
}

static void end(struct model *m, struct fixture *f)
{
    model_prove(m, f);
    while (m->n)
        model_delete(m, 0);
    cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
    cr_assert_eq(model_unmount(m), 0);
    cr_assert_eq(used(f), 0, "nothing leaks");
    close_pool(f);
}

static void body_bound(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    make(f, false);
    model_mount(&m, f);
    cr_assert_eq(model_write(&m, model_create(&m), 0, 1024), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    cr_assert(!sfs_compact_due(sfs_pool_data(f->pool), sfs_volume_space_id(f->vol)));
    overwrite(&m, f, 2048); /* twice the file: where the dead space is at its most */
    uint64_t live = 1024ull * BLOCK;
    cr_assert_gt(used(f), live * 3 / 2, "dead space there is: %llu", (unsigned long long)used(f));
    cr_assert(sfs_compact_due(sfs_pool_data(f->pool), sfs_volume_space_id(f->vol)));
    struct stat before, after;
    cr_assert_eq(sfs_vfs_getattr(m.vfs, sfs_file_ino(m.v[0].file), &before), 0);
    sfs_env_sleep_ns(f->env, 2000000000);
    struct sfs_compaction c = {.d = sfs_pool_data(f->pool)};
    cr_assert_eq(sfs_compact(&c, sfs_volume_space_id(f->vol)), 0);
    cr_assert_eq(sfs_vfs_getattr(m.vfs, sfs_file_ino(m.v[0].file), &after), 0);
    cr_assert_eq(memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)), 0, "nobody sees it");
    cr_assert_eq(memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)), 0);
    cr_assert_leq(used(f), live * 13 / 10, "%llu in use", (unsigned long long)used(f));
    cr_assert_lt(c.rewritten_bytes, live, "only what is left of old extents is stored anew");
    cr_assert(!sfs_compact_due(sfs_pool_data(f->pool), sfs_volume_space_id(f->vol)));
    end(&m, f);
}

Test(compact, random_overwrites_keep_within_1_3_times_the_live_data)
{
    in_sim(1, body_bound);
}

static void body_zstd(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    make(f, true);
    model_mount(&m, f);
    cr_assert_eq(model_write(&m, model_create(&m), 0, 1024), 0);
    model_punch(&m.v[0], 0, 8);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    overwrite(&m, f, 1500);
    struct sfs_compaction c = {.d = sfs_pool_data(f->pool)};
    cr_assert_eq(sfs_compact(&c, sfs_volume_space_id(f->vol)), 0);
    cr_assert_leq(c.dead_bytes * 10, c.live_bytes * 3);
    end(&m, f);
}

Test(compact, compressed_extents_too)
{
    in_sim(2, body_zstd);
}

/* --- while the file is changed --------------------------------------------------------------------------------------------------------------- */

struct load {
    struct fixture *f;
    int space;
    bool stop;
    uint64_t rewritten;
};

static void compactor(void *arg)
{
    struct load *l = arg;
    while (!l->stop) {
        struct sfs_compaction c = {.d = sfs_pool_data(l->f->pool)};
        int rc = sfs_compact(&c, l->space);
        cr_assert(rc == 0 || rc == -ENOSPC, "%d", rc);
        l->rewritten += c.rewritten_bytes;
    }
}

static void body_changes(struct fixture *f)
{
    static struct model m;
    static struct load l;
    struct sfs_thread *t;
    m = (struct model){0};
    make(f, false);
    model_mount(&m, f);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(model_write(&m, model_create(&m), 0, 1000), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    l = (struct load){.f = f, .space = sfs_volume_space_id(f->vol)};
    cr_assert_eq(sfs_thread_start(f->env, "compact", compactor, &l, &t), 0);
    for (unsigned i = 0; i < 1500; i++) {
        uint64_t x = sfs_env_rand(f->env);
        struct model_file *a = &m.v[x % 3], *b = &m.v[(x >> 8) % 3];
        uint32_t at = (uint32_t)(x >> 16) % 990, n = 1 + (uint32_t)(x >> 32) % 4;
        if (x >> 40 & 7)
            cr_assert_eq(model_write(&m, a, at, n), 0);
        else if (x >> 44 & 1)
            model_punch(a, at, n);
        else if (a != b && a->blocks > at + 8)
            model_clone(&m, a, b, at, 8);
        if (i % 50 == 49)
            cr_assert_eq(sfs_vfs_fsync(a->file, false), 0);
        if (i % 300 == 299)
            model_check(&m);
    }
    l.stop = true;
    sfs_thread_join(t);
    cr_assert_gt(l.rewritten, 0);
    end(&m, f);
}

Test(compact, while_files_are_changed_and_cloned, .timeout = 60)
{
    for (unsigned seed = 3; seed < 7; seed++)
        in_sim(seed, body_changes);
}

/* --- rows of parity groups --------------------------------------------------------------------------------------------------------------------- */

static uint64_t held(struct fixture *f)
{
    uint64_t *ids, bytes = 0;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        cr_assert_eq(sfs_group_info(sfs_pool_data(f->pool), ids[i], &g), 0);
        bytes += g.held_bytes;
    }
    if (n)
        free(ids);
    return bytes;
}

/* Several files, most blocks of each overwritten in random order, which leaves a little in every row: rows come free all the same. */
static void body_rows(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    enum sfs_resiliency r = SFS_PARITY;
    struct sfs_space_settings s = {.resiliency = &r};
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){64, 64, 64, 64}, 4);
    open_pool(f);
    cr_assert_eq(sfs_pool_space_create(f->pool, "s", &s, &err), 0, "%s", err.text);
    close_pool(f);
    model_mount(&m, f);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(model_write(&m, model_create(&m), 0, 1024), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    int space = sfs_volume_space_id(f->vol);
    uint64_t live = 8ull * 1024 * BLOCK;
    cr_assert_leq(held(f), live * 11 / 10);
    for (unsigned i = 0; i < 2500; i++) {
        cr_assert_eq(model_write(&m, &m.v[sfs_env_rand(f->env) % 8], (uint32_t)(sfs_env_rand(f->env) % 1024), 1), 0);
        if (i % 250 == 249)
            cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    }
    struct sfs_compaction c = {.d = sfs_pool_data(f->pool)};
    uint64_t before = held(f), moved = 0;
    for (unsigned i = 0; i < 6; i++) { /* as the housekeeper does */
        int rc = sfs_compact(&c, space);
        cr_assert(rc == 0 || rc == -ENOSPC, "%d", rc); /* no row is spent on less than a row: where nothing can land any more it stops */
        cr_assert_eq(sfs_compact_rows(&c, space), 0);
        moved += c.rewritten_bytes;
    }
    cr_assert_gt(moved, 0);
    cr_assert_leq(held(f), live * 13 / 10, "%llu held for %llu, %llu before", (unsigned long long)held(f), (unsigned long long)live, (unsigned long long)before);
    cr_assert(!sfs_compact_rows_due(c.d, space));
    sfs_sim_vanish(f->world, "b"); /* and is there without any one disk */
    model_check(&m);
    sfs_sim_return(f->world, "b");
    sfs_pool_look_after_disks(f->pool, true);
    end(&m, f);
}

Test(compact, rows_of_which_little_is_left_come_free)
{
    in_sim(11, body_rows);
}
