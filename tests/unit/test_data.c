/* File data on sim disks, without a vfs: write, read, lose a disk, rewrite, heal, free. */
#include "tests/unit/file_fixture.h"

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

/* Several items at once, some compressed, with the last blocks half full: each comes back as it was. */
static void body_vec(struct fixture *f)
{
    make_pool(f, (unsigned[]){24, 24, 24}, 3);
    open_pool(f);
    make_space(f, "docs", SFS_MIRROR2);
    use_space(f, "docs");
    struct sfs_data *d = sfs_pool_data(f->pool);
    enum { ITEMS = 40 };
    struct sfs_write_item it[ITEMS];
    struct sfs_extent(*ext)[SFS_WRITE_MAX_EXTENTS] = calloc(ITEMS, sizeof(*ext));
    for (unsigned i = 0; i < ITEMS; i++) {
        uint32_t len = i % 3 ? 4096 * (i % 7) + 1 + i : (1u << 20) - i;
        struct sfs_buf *b = sfs_buf_new(len);
        for (uint32_t k = 0; k < len; k++)
            b->data[k] = (uint8_t)(i * 131 + k * 7 + (k >> 12));
        it[i] = (struct sfs_write_item){.buf = b, .len = len, .out = ext[i], .max = SFS_WRITE_MAX_EXTENTS};
    }
    cr_assert_eq(sfs_data_write_vec(f->vol, it, ITEMS), 0);
    uint8_t *got = malloc(1u << 20);
    for (unsigned i = 0; i < ITEMS; i++) {
        uint64_t at = 0, token = sfs_quiesce_enter(sfs_data_quiesce(d));
        cr_assert_eq(it[i].result, 0);
        for (unsigned k = 0; k < it[i].n; k++) {
            struct sfs_read r = {.extent = ext[i][k], .len = ext[i][k].len, .out = got + at};
            cr_assert_eq(ext[i][k].off, at, "gapless");
            cr_assert_eq(sfs_data_read(d, &r, 1), 0);
            at += ext[i][k].len;
            sfs_stored_unref(d, ext[i][k].stored);
        }
        sfs_quiesce_exit(sfs_data_quiesce(d), token);
        cr_assert_eq(at, it[i].len);
        cr_assert_eq(memcmp(got, it[i].buf->data, at), 0);
        sfs_buf_unref(it[i].buf);
    }
    free(got);
    free(ext);
    cr_assert_eq(sfs_commit_wait(d, false), 0);
    close_pool(f);
}

Test(data, many_items_in_one_call)
{
    in_sim(6, body_vec);
}

/* A move is right by itself: what it left out is not for a later verification to find. Any slab, by itself, with all the rest of the group whole or not. */
static void moves(struct fixture *f, enum sfs_resiliency resiliency, unsigned columns)
{
    struct sfs_space_settings settings = {.resiliency = &resiliency, .columns = &columns};
    struct sfs_error err = {0};
    make_pool(f, (unsigned[]){24, 24, 24, 24}, 4);
    open_pool(f);
    cr_assert_eq(sfs_pool_space_create(f->pool, "docs", &settings, &err), 0, "%s", err.text);
    use_space(f, "docs");
    struct file t;
    file_open(&t, f);
    for (unsigned i = 0; i < 5; i++)
        cr_assert_eq(file_write(&t, MIB), 0);
    cr_assert_eq(file_write(&t, 20000), 0);
    struct sfs_data *d = sfs_pool_data(f->pool);
    cr_assert_eq(sfs_commit_wait(d, false), 0);
    uint64_t *ids;
    unsigned n, moved = 0;
    cr_assert_eq(sfs_group_ids(d, &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info info;
        cr_assert_eq(sfs_group_info(d, ids[i], &info), 0);
        for (unsigned s = 0; s < info.nslabs; s++) {
            struct sfs_move_result res;
            uint64_t bad = 0, lost = 0;
            int from = info.slabs[s].disk;
            cr_assert_eq(sfs_move_slab(d, ids[i], info.slabs[s].column, info.slabs[s].copy, 0, NULL, NULL, &res), 0);
            moved += res.bytes > 0;
            cr_assert_eq(sfs_verify_group(d, ids[i], NULL, NULL, &bad, &lost), 0);
            cr_assert_eq(bad + lost, 0, "slab %u of group %u: %llu bad copies after the move", s, i, (unsigned long long)bad);
            cr_assert_eq(sfs_group_info(d, ids[i], &info), 0);
            cr_assert_neq(info.slabs[s].disk, from);
        }
    }
    free(ids);
    cr_assert_geq(moved, 2);
    cr_assert_eq(file_check(&t), 0);
    file_close(&t);
    close_pool(f);
}

static void body_move_mirrored(struct fixture *f)
{
    moves(f, SFS_MIRROR2, 1);
}

static void body_move_parity(struct fixture *f)
{
    moves(f, SFS_PARITY, 3);
}

Test(data, a_moved_slab_lacks_nothing)
{
    in_sim(1, body_move_mirrored);
    in_sim(2, body_move_parity);
}
