/* A "file" on a volume, without a vfs: a small commit client that hands over its extents. */
#ifndef TESTS_UNIT_FILE_FIXTURE_H
#define TESTS_UNIT_FILE_FIXTURE_H

#include <stdlib.h>
#include <sys/stat.h>

#include "tests/unit/pool_fixture.h"

#define MIB (1u << 20)

/* One inode's worth of extents, handed over at the next commit. */
struct file {
    struct fixture *f;
    uint64_t ino;
    struct sfs_extent ext[2048];
    unsigned n, collected, lost;
    struct sfs_commit_client client;
};

static inline void file_prepare(void *ctx, bool all)
{
    (void)ctx;
    (void)all;
}

static inline int file_collect(void *ctx, struct sfs_batch *b)
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

static inline void file_lost(void *ctx, void *owner, uint64_t ino)
{
    (void)owner;
    (void)ino;
    ((struct file *)ctx)->lost++;
}

static inline void file_done(void *ctx, int result)
{
    (void)ctx;
    (void)result;
}

static inline void file_open(struct file *t, struct fixture *f)
{
    *t = (struct file){.f = f};
    struct sfs_catalog *cat = sfs_data_catalog(sfs_pool_data(f->pool));
    sfs_catalog_lock(cat);
    t->ino = sfs_catalog_ino_alloc(cat);
    struct sfs_inode_row row = {.ino = t->ino, .space = sfs_volume_space_id(f->vol), .mode = S_IFREG | 0644, .nlink = 1};
    cr_assert_eq(sfs_catalog_inode_insert(cat, &row), 0);
    sfs_catalog_unlock(cat);
    t->client = (struct sfs_commit_client){.prepare = file_prepare, .collect = file_collect, .lost = file_lost, .done = file_done, .ctx = t};
    cr_assert_eq(sfs_commit_register(sfs_pool_data(f->pool), &t->client), 0);
}

static inline void file_close(struct file *t)
{
    struct sfs_data *d = sfs_pool_data(t->f->pool);
    sfs_commit_unregister(d, &t->client);
    for (unsigned i = 0; i < t->n; i++)
        sfs_stored_unref(d, t->ext[i].stored);
}

static inline uint8_t pattern(uint64_t off)
{
    return (uint8_t)(off * 31 + (off >> 12) * 7 + 5);
}

/* Appends len bytes of the pattern. */
static inline int file_write(struct file *t, uint32_t len)
{
    struct sfs_buf *b = sfs_buf_new(len);
    uint64_t at = t->n ? t->ext[t->n - 1].off + t->ext[t->n - 1].len : 0;
    for (uint32_t i = 0; i < len; i++)
        b->data[i] = pattern(at + i);
    unsigned n = 0;
    int rc = sfs_data_write(t->f->vol, b, 0, len, t->ext + t->n, 2048 - t->n, &n);
    for (unsigned i = 0; i < n; i++)
        t->ext[t->n + i].off += at;
    t->n += n;
    sfs_buf_unref(b);
    return rc;
}

/* Appends n MiB in one call. */
static inline int file_write_many(struct file *t, unsigned n)
{
    struct sfs_write_item it[16];
    static struct sfs_extent ext[16][SFS_WRITE_MAX_EXTENTS];
    uint64_t at = t->n ? t->ext[t->n - 1].off + t->ext[t->n - 1].len : 0;
    cr_assert_leq(n, 16);
    for (unsigned k = 0; k < n; k++) {
        struct sfs_buf *b = sfs_buf_new(MIB);
        for (uint32_t i = 0; i < MIB; i++)
            b->data[i] = pattern(at + k * MIB + i);
        it[k] = (struct sfs_write_item){.buf = b, .len = MIB, .out = ext[k], .max = SFS_WRITE_MAX_EXTENTS};
    }
    int rc = sfs_data_write_vec(t->f->vol, it, n);
    for (unsigned k = 0; k < n; k++) {
        for (unsigned i = 0; i < it[k].n; i++) {
            ext[k][i].off += at + k * MIB;
            if (rc)
                sfs_stored_unref(sfs_pool_data(t->f->pool), ext[k][i].stored);
            else
                t->ext[t->n++] = ext[k][i];
        }
        sfs_buf_unref(it[k].buf);
    }
    return rc;
}

/* Reads and compares all of it; the number of extents that could not be read. Wrong bytes fail the test. */
static inline unsigned file_check(struct file *t)
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
static inline void file_reload(struct file *t, uint64_t ino)
{
    struct sfs_data *d = sfs_pool_data(t->f->pool);
    struct sfs_extent_row *rows = calloc(512, sizeof(*rows));
    unsigned n;
    t->ino = ino;
    sfs_catalog_lock(sfs_data_catalog(d));
    cr_assert_eq(sfs_catalog_extent_list(sfs_data_catalog(d), ino, 0, rows, 512, &n), 0);
    sfs_catalog_unlock(sfs_data_catalog(d));
    for (unsigned i = 0; i < n; i++)
        cr_assert_eq(sfs_extent_from_row(d, &rows[i], &t->ext[i]), 0);
    t->n = t->collected = n; /* at once: jobs commit when they like */
    free(rows);
}

#endif
