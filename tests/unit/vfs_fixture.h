/* Files of a mounted space held against a model: every block has a tag, which its bytes tell. For use in pool_fixture.h's in_sim. */
#ifndef TESTS_UNIT_VFS_FIXTURE_H
#define TESTS_UNIT_VFS_FIXTURE_H

#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>

#include "fs/vfs/vfs.h"
#include "tests/unit/pool_fixture.h"

#define MIB (1u << 20)
#define BLOCK 4096u
#define MODEL_BLOCKS 1024u /* of a file at most */

static const struct sfs_cred vfs_root_cred = {.privileged = true, .umask = 022};

struct model_file {
    char name[16];
    struct sfs_file *file;
    uint32_t blocks;              /* size */
    uint32_t tag[MODEL_BLOCKS];   /* 0: zeros */
};
struct model {
    struct fixture *f;
    struct sfs_vfs *vfs;
    struct model_file v[8];
    unsigned n;
    uint32_t tags;                /* given out */
};

static inline void model_mount(struct model *m, struct fixture *f)
{
    struct sfs_vfs_opts opts = {.commit_interval_ns = 3600ull * 1000000000ull};
    struct sfs_error err = {0};
    m->f = f;
    open_pool(f);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, &opts, &m->vfs, &err), 0, "%s", err.text);
    for (unsigned i = 0; i < m->n; i++) {
        struct stat st;
        cr_assert_eq(sfs_vfs_lookup(m->vfs, sfs_vfs_root(m->vfs), m->v[i].name, &st), 0);
        cr_assert_eq(sfs_vfs_open_file(m->vfs, st.st_ino, O_RDWR, &m->v[i].file), 0);
    }
}

static inline int model_unmount(struct model *m)
{
    for (unsigned i = 0; i < m->n; i++)
        sfs_vfs_release(m->v[i].file);
    int rc = sfs_vfs_close(m->vfs);
    m->vfs = NULL;
    return rc;
}

static inline struct model_file *model_create(struct model *m)
{
    struct model_file *x = &m->v[m->n];
    struct stat st;
    *x = (struct model_file){0};
    snprintf(x->name, sizeof(x->name), "f%u-%u", m->n++, ++m->tags);
    cr_assert_eq(sfs_vfs_create(m->vfs, sfs_vfs_root(m->vfs), x->name, 0644, O_RDWR, &vfs_root_cred, &st, &x->file), 0);
    return x;
}

static inline void model_delete(struct model *m, unsigned i)
{
    cr_assert_eq(sfs_vfs_unlink(m->vfs, sfs_vfs_root(m->vfs), m->v[i].name), 0);
    sfs_vfs_release(m->v[i].file);
    m->v[i] = m->v[--m->n];
}

static inline void fill_block(uint8_t *p, uint32_t tag, uint32_t i)
{
    uint64_t v = ((uint64_t)tag << 32 | i) * 0x9E3779B97F4A7C15ull;
    for (unsigned k = 0; k < BLOCK; k += 8, v = v * 6364136223846793005ull + 1442695040888963407ull)
        memcpy(p + k, &v, 8);
    if (tag == 0)
        memset(p, 0, BLOCK);
}

/* Blocks [from, from + n) get a new tag. 0 or -errno (then the model is as it was). */
static inline int model_write(struct model *m, struct model_file *x, uint32_t from, uint32_t n)
{
    uint8_t *data = malloc((size_t)n * BLOCK);
    uint32_t tag = ++m->tags;
    size_t done;
    for (uint32_t i = 0; i < n; i++)
        fill_block(data + (size_t)i * BLOCK, tag, from + i);
    int rc = sfs_vfs_write(x->file, data, (size_t)n * BLOCK, (uint64_t)from * BLOCK, false, false, &done);
    free(data);
    if (rc)
        return rc;
    cr_assert_eq(done, (size_t)n * BLOCK);
    for (uint32_t i = 0; i < n; i++)
        x->tag[from + i] = tag;
    if (from + n > x->blocks)
        x->blocks = from + n;
    return 0;
}

static inline void model_truncate(struct model *m, struct model_file *x, uint32_t blocks)
{
    struct stat st = {.st_size = (off_t)blocks * BLOCK}, out;
    cr_assert_eq(sfs_vfs_setattr(m->vfs, sfs_file_ino(x->file), &st, SFS_SET_SIZE, &vfs_root_cred, &out), 0);
    for (uint32_t i = blocks; i < MODEL_BLOCKS; i++)
        x->tag[i] = 0;
    x->blocks = blocks;
}

static inline void model_punch(struct model_file *x, uint32_t from, uint32_t n)
{
    cr_assert_eq(sfs_vfs_fallocate(x->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (uint64_t)from * BLOCK, (uint64_t)n * BLOCK), 0);
    for (uint32_t i = from; i < from + n && i < MODEL_BLOCKS; i++)
        x->tag[i] = 0;
}


static inline void model_check(struct model *m)
{
    uint8_t *got = malloc(64 * BLOCK), want[BLOCK];
    for (unsigned k = 0; k < m->n; k++) {
        struct model_file *x = &m->v[k];
        for (uint32_t at = 0; at < x->blocks; at += 64) {
            uint32_t n = x->blocks - at < 64 ? x->blocks - at : 64;
            size_t done = 0;
            int rc = sfs_vfs_read(x->file, got, (size_t)n * BLOCK, (uint64_t)at * BLOCK, &done);
            cr_assert_eq(rc, 0, "%s: reading block %u: %d", x->name, at, rc);
            cr_assert_eq(done, (size_t)n * BLOCK);
            for (uint32_t i = 0; i < n; i++) {
                fill_block(want, x->tag[at + i], at + i);
                cr_assert_eq(memcmp(got + (size_t)i * BLOCK, want, BLOCK), 0, "%s: block %u isn't that of tag %u", x->name, at + i, x->tag[at + i]);
            }
        }
    }
    free(got);
}

/* The same place of another file, by reference. */
static inline void model_clone(struct model *m, struct model_file *from, struct model_file *to, uint32_t at, uint32_t n)
{
    size_t done = 0;
    (void)m;
    cr_assert_eq(sfs_vfs_copy_range(from->file, (uint64_t)at * BLOCK, to->file, (uint64_t)at * BLOCK, (uint64_t)n * BLOCK, &done), 0);
    uint32_t got = (uint32_t)(done / BLOCK);
    memcpy(to->tag + at, from->tag + at, got * sizeof(to->tag[0]));
    if (got && at + got > to->blocks)
        to->blocks = at + got;
}

/* Every copy in every group: how many were bad, how many extents have none. */
static inline void model_verify(struct fixture *f, uint64_t *bad, uint64_t *lost)
{
    struct sfs_data *d = sfs_pool_data(f->pool);
    uint64_t b, l, *ids;
    unsigned n;
    *bad = *lost = 0;
    cr_assert_eq(sfs_group_ids(d, &ids, &n), 0);
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(sfs_verify_group(d, ids[i], NULL, NULL, &b, &l), 0);
        *bad += b;
        *lost += l;
    }
    if (n)
        free(ids);
}

/* Everything is right and has all its copies; the pool is closed and opened again, and it still is. Mounted. */
static inline void model_prove(struct model *m, struct fixture *f)
{
    uint64_t bad, lost;
    model_check(m);
    cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
    model_verify(f, &bad, &lost);
    cr_assert_eq(bad + lost, 0);
    cr_assert_eq(model_unmount(m), 0);
    close_pool(f);
    model_mount(m, f);
    model_check(m);
}

#endif
