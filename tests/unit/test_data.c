/* File data on sim disks, without a vfs: write, read, lose a disk, rewrite, heal, free. A small commit client stands in for the vfs: one "file" with extents. */
#include "tests/unit/pool_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>

#define MIB (1u << 20)

/* One inode's worth of extents, handed over at the next commit. */
struct file {
    struct fixture *f;
    uint64_t ino;
    struct sfs_extent ext[512];
    unsigned n, collected, lost;
    struct sfs_commit_client client;
};

static void file_prepare(void *ctx, bool all)
{
    (void)ctx;
    (void)all;
}

static int file_collect(void *ctx, struct sfs_batch *b)
{
    struct file *t = ctx;
    if (t->collected == t->n)
        return 0;
    struct sfs_change c = {.ino = t->ino, .nextents = t->n - t->collected};
    c.extents = calloc(c.nextents, sizeof(*c.extents));
    for (unsigned i = 0; i < c.nextents; i++) {
        c.extents[i] = t->ext[t->collected + i];
        sfs_stored_ref(c.extents[i].stored);
    }
    t->collected = t->n;
    return sfs_batch_add(b, &c);
}

static void file_lost(void *ctx, void *owner, uint64_t ino)
{
    (void)owner;
    (void)ino;
    ((struct file *)ctx)->lost++;
}

static void file_done(void *ctx, int result)
{
    (void)ctx;
    (void)result;
}

static void file_open(struct file *t, struct fixture *f)
{
    *t = (struct file){.f = f};
    struct sfs_catalog *cat = sfs_data_catalog(sfs_pool_data(f->pool));
    sfs_catalog_lock(cat);
    t->ino = sfs_catalog_ino_alloc(cat);
    struct sfs_inode_row row = {.ino = t->ino, .space = sfs_volume_space_id(f->vol), .mode = S_IFREG | 0644, .nlink = 1};
    cr_assert_eq(sfs_catalog_inode_insert(cat, &row), 0);
    sfs_catalog_unlock(cat);
    t->client = (struct sfs_commit_client){file_prepare, file_collect, file_lost, file_done, t};
    sfs_commit_register(sfs_pool_data(f->pool), &t->client);
}

static void file_close(struct file *t)
{
    struct sfs_data *d = sfs_pool_data(t->f->pool);
    sfs_commit_unregister(d, &t->client);
    for (unsigned i = 0; i < t->n; i++)
        sfs_stored_unref(d, t->ext[i].stored);
}

static uint8_t pattern(uint64_t off)
{
    return (uint8_t)(off * 31 + (off >> 12) * 7 + 5);
}

/* Appends len bytes of the pattern. */
static int file_write(struct file *t, uint32_t len)
{
    struct sfs_buf *b = sfs_buf_new(len);
    uint64_t at = t->n ? t->ext[t->n - 1].off + t->ext[t->n - 1].len : 0;
    for (uint32_t i = 0; i < len; i++)
        b->data[i] = pattern(at + i);
    unsigned n = 0;
    int rc = sfs_data_write(t->f->vol, b, 0, len, t->ext + t->n, 512 - t->n, &n);
    for (unsigned i = 0; i < n; i++)
        t->ext[t->n + i].off += at;
    t->n += n;
    sfs_buf_unref(b);
    return rc;
}

/* Reads and compares all of it; the number of extents that could not be read. Wrong bytes fail the test. */
static unsigned file_check(struct file *t)
{
    struct sfs_data *d = sfs_pool_data(t->f->pool);
    unsigned bad = 0;
    uint64_t token = sfs_quiesce_enter(sfs_data_quiesce(d));
    for (unsigned i = 0; i < t->n; i++) {
        uint8_t *out = malloc(t->ext[i].len);
        struct sfs_read r = {.extent = t->ext[i], .len = t->ext[i].len, .out = out};
        if (sfs_data_read(d, &r, 1)) {
            cr_assert_eq(r.result, -EIO);
            bad++;
        } else {
            for (uint32_t k = 0; k < t->ext[i].len; k++)
                cr_assert_eq(out[k], pattern(t->ext[i].off + k), "byte %llu", (unsigned long long)(t->ext[i].off + k));
        }
        free(out);
    }
    sfs_quiesce_exit(sfs_data_quiesce(d), token);
    return bad;
}

/* Loads what the catalog has of the file, instead of what is in memory. */
static void file_reload(struct file *t, uint64_t ino)
{
    struct sfs_data *d = sfs_pool_data(t->f->pool);
    struct sfs_extent_row *rows = calloc(512, sizeof(*rows));
    unsigned n;
    t->ino = ino;
    sfs_catalog_lock(sfs_data_catalog(d));
    cr_assert_eq(sfs_catalog_extent_list(sfs_data_catalog(d), ino, 0, rows, 512, &n), 0);
    sfs_catalog_unlock(sfs_data_catalog(d));
    t->n = 0;
    for (unsigned i = 0; i < n; i++)
        cr_assert_eq(sfs_extent_from_row(d, &rows[i], &t->ext[t->n++]), 0);
    t->collected = t->n;
    free(rows);
}

static void body_write_reopen(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 32, 40}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(file_write(&t, 12345), 0);
    cr_assert_eq(file_check(&t), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    uint64_t ino = t.ino;
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    cr_assert_eq(st.used_bytes, 6 * MIB + 16384);
    file_close(&t);
    close_pool(f);

    open_pool(f);
    use_space(f, "docs");
    file_open(&t, f);
    file_reload(&t, ino);
    cr_assert_gt(t.n, 6);
    cr_assert_eq(file_check(&t), 0);
    sfs_volume_stat(f->vol, &st);
    cr_assert_eq(st.used_bytes, 6 * MIB + 16384);
    file_close(&t);
    close_pool(f);
}

Test(data, what_was_committed_is_there_after_a_reopen)
{
    for (uint64_t seed = 1; seed <= 5; seed++)
        in_sim(seed, body_write_reopen);
}

static void body_lose_and_heal(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24, 32, 32}, 4);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(file_write(&t, MIB), 0); /* pending when the disk goes */
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(file_check(&t), 0, "all reads right without the disk");
    for (unsigned i = 0; i < 3; i++)
        cr_assert_eq(file_write(&t, MIB), 0, "writes go on");
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
    sfs_sim_vanish(f->world, "c");
    cr_assert_eq(file_check(&t), 0, "and after another disk has gone");
    cr_assert_eq(sfs_pool_heal(f->pool, true, &err), 0, "%s", err.text);
    uint64_t ino = t.ino;
    file_close(&t);
    close_pool(f);
    open_pool(f);
    use_space(f, "docs");
    file_open(&t, f);
    file_reload(&t, ino);
    cr_assert_gt(t.n, 13);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(data, a_lost_disk_is_worked_around_and_healed)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        in_sim(seed, body_lose_and_heal);
}

static void body_rot(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24}, 2);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    /* In both copies, in different blocks of the same granule. */
    sfs_sim_rot(f->world, "a", 0, 5000, 3);
    sfs_sim_rot(f->world, "b", 0, 30000, 100);
    sfs_sim_rot(f->world, "a", 1, 0, 200000);
    cr_assert_eq(file_check(&t), 0);
    cr_assert_eq(file_check(&t), 0);
    struct sfs_member_info m[2];
    cr_assert_eq(sfs_member_list(sfs_pool_data(f->pool), m, 2), 2);
    cr_assert_gt(m[0].row.checksum_errors, 0, "counted against its disk");
    uint64_t counted = m[0].row.checksum_errors + m[1].row.checksum_errors;
    uint64_t *ids;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        uint64_t bad, lost;
        cr_assert_eq(sfs_verify_group(sfs_pool_data(f->pool), ids[i], NULL, NULL, &bad, &lost), 0);
        cr_assert_eq(lost, 0);
    }
    free(ids);
    cr_assert_eq(file_check(&t), 0);
    sfs_member_list(sfs_pool_data(f->pool), m, 2);
    cr_assert_geq(m[0].row.checksum_errors + m[1].row.checksum_errors, counted);
    /* After that everything is whole again: either disk alone serves it. */
    sfs_sim_vanish(f->world, "a");
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

Test(data, rot_is_read_around_and_repaired)
{
    in_sim(3, body_rot);
}

static void body_simple_loss(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24}, 2);
    open_pool(f);
    make_space(f, "scratch", SFS_SIMPLE);
    use_space(f, "scratch");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < 8; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
    unsigned bad = file_check(&t);
    cr_assert(bad > 0 && bad < t.n, "EIO for what was on the lost disk, and only for that");
    cr_assert_gt(t.lost, 0, "its owner was told");
    file_close(&t);
    close_pool(f);
}

Test(data, a_simple_space_loses_only_what_was_there)
{
    in_sim(4, body_simple_loss);
}

static void body_fill(struct fixture *f)
{
    make_pool(f, (unsigned[]){16, 16, 16}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    uint64_t promised = st.avail_bytes;
    for (unsigned round = 0; round < 4; round++) {
        struct file t;
        file_open(&t, f);
        uint64_t stored = 0;
        int rc;
        while ((rc = sfs_volume_reserve(f->vol, 256u << 10, false)) == 0) {
            rc = file_write(&t, 256u << 10);
            sfs_volume_unreserve(f->vol, 256u << 10);
            cr_assert_eq(rc, 0, "what was reserved can be stored (round %u, after %llu)", round, (unsigned long long)stored);
            stored += 256u << 10;
        }
        cr_assert_eq(rc, -ENOSPC);
        cr_assert_eq(file_check(&t), 0);
        cr_assert_geq(stored, promised * 95 / 100);
        cr_assert_eq(sfs_commit_wait(sfs_pool_data(f->pool), false), 0);
        /* All of it goes: rows deleted as the vfs does for an unlinked file. */
        struct sfs_data *d = sfs_pool_data(f->pool);
        unsigned n;
        sfs_catalog_lock(sfs_data_catalog(d));
        cr_assert_eq(sfs_catalog_extent_delete(sfs_data_catalog(d), t.ino, 0, INT64_MAX, 0, sfs_commit_removed, d, &n), 0);
        sfs_catalog_unlock(sfs_data_catalog(d));
        file_close(&t);
        cr_assert_eq(sfs_commit_wait(d, false), 0);
        cr_assert_eq(sfs_commit_wait(d, false), 0);
        sfs_volume_stat(f->vol, &st);
        cr_assert_eq(st.used_bytes, 0);
        cr_assert_geq(st.avail_bytes, promised * 95 / 100, "round %u: %llu of %llu", round, (unsigned long long)st.avail_bytes, (unsigned long long)promised);
    }
    close_pool(f);
}

Test(data, a_full_space_is_emptied_and_filled_again)
{
    in_sim(5, body_fill);
}
