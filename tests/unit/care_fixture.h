/* A mounted space "s" on sim disks, whose files can be made to rot: for tests of how a pool is looked after. */
#ifndef TESTS_UNIT_CARE_FIXTURE_H
#define TESTS_UNIT_CARE_FIXTURE_H

#include <fcntl.h>
#include <stdlib.h>

#include "fs/vfs/vfs.h"
#include "tests/unit/pool_fixture.h"

static struct sfs_vfs *vfs;
static const struct sfs_cred root = {.privileged = true, .umask = 022};

static inline void mount_space(struct fixture *f)
{
    struct sfs_error err = {0};
    struct sfs_vfs_opts opts = {.commit_interval_ns = 3600ull * 1000000000ull};
    open_pool(f);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, &opts, &vfs, &err), 0, "%s", err.text);
}

static inline void unmount_space(struct fixture *f)
{
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

static inline void begin_care(struct fixture *f, const unsigned *mib, unsigned n, enum sfs_resiliency r)
{
    make_pool(f, mib, n);
    open_pool(f);
    make_space(f, "s", r);
    close_pool(f);
    mount_space(f);
}

static inline uint64_t dir_of(const char *path, const char **name)
{
    char dir[256];
    const char *slash = strrchr(path, '/');
    uint64_t ino = sfs_vfs_root(vfs);
    snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
    *name = slash + 1;
    if (dir[0])
        cr_assert_eq(sfs_vfs_resolve(vfs, dir, &ino), 0, "%s", dir);
    return ino;
}

static inline void make_dir(const char *path)
{
    const char *name;
    struct stat st;
    uint64_t dir = dir_of(path, &name);
    cr_assert_eq(sfs_vfs_mkdir(vfs, dir, name, 0755, &root, &st), 0);
}

/* Writes [off, off + len) of a file, which is made if need be, with bytes that tell their place, and syncs it. */
static inline void write_file(const char *path, uint64_t off, size_t len)
{
    const char *name;
    struct stat st;
    struct sfs_file *file;
    size_t n;
    uint64_t dir = dir_of(path, &name);
    uint8_t *b = malloc(len);
    for (size_t i = 0; i < len; i++)
        b[i] = (uint8_t)((off + i) * 2654435761u >> 13);
    cr_assert_eq(sfs_vfs_create(vfs, dir, name, 0644, O_RDWR, &root, &st, &file), 0);
    cr_assert_eq(sfs_vfs_write(file, b, len, off, false, false, &n), 0);
    cr_assert_eq(n, len);
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    sfs_vfs_release(file);
    free(b);
}

/* Reads all of a file and compares; the number of 4 KiB blocks that give an error. */
static inline unsigned read_file(const char *path, size_t len)
{
    uint64_t ino;
    struct sfs_file *file;
    unsigned bad = 0;
    cr_assert_eq(sfs_vfs_resolve(vfs, path, &ino), 0, "%s", path);
    cr_assert_eq(sfs_vfs_open_file(vfs, ino, O_RDONLY, &file), 0);
    for (size_t off = 0; off < len; off += 4096) {
        uint8_t b[4096];
        size_t n;
        int rc = sfs_vfs_read(file, b, sizeof(b), off, &n);
        bad += rc == -EIO;
        cr_assert(rc == 0 || rc == -EIO);
        for (size_t i = 0; rc == 0 && i < n; i++)
            cr_assert_eq(b[i], (uint8_t)((off + i) * 2654435761u >> 13));
    }
    sfs_vfs_release(file);
    return bad;
}

struct rotting {
    struct fixture *f;
    uint64_t off;
    const char *disk; /* NULL: on all */
    unsigned hits;
};

static inline int rot_piece(void *ctx, uint64_t off, uint64_t len, uint64_t group, uint64_t goff, uint32_t slen)
{
    struct rotting *r = ctx;
    struct sfs_group_info g;
    struct sfs_geometry geo;
    struct sfs_piece p;
    (void)slen;
    if (r->off < off || r->off >= off + len)
        return 0;
    cr_assert_eq(sfs_group_info(sfs_pool_data(r->f->pool), group, &g), 0);
    cr_assert_eq(sfs_geometry_init(&geo, g.resiliency, g.columns, g.interleave, 1u << 20, NULL), 0);
    uint64_t at = goff + (r->off - off), end = at + 1;
    cr_assert(sfs_geometry_next(&geo, &at, end, &p));
    for (unsigned k = 0; k < g.copies; k++) {
        const struct sfs_slab_row *slab = &g.slabs[p.column * g.copies + k];
        char name[2] = {(char)('a' + slab->disk - 1), 0};
        if (r->disk && strcmp(r->disk, name))
            continue;
        sfs_sim_rot(r->f->world, name, slab->slot, p.slab_off, 1);
        r->hits++;
    }
    return 0;
}

/* Rots the byte at off of a file, on one disk or on all that have a copy. Returns how many copies. */
static inline unsigned rot_file(struct fixture *f, const char *path, uint64_t off, const char *disk)
{
    struct rotting r = {f, off, disk, 0};
    uint64_t ino;
    cr_assert_eq(sfs_vfs_resolve(vfs, path, &ino), 0, "%s", path);
    cr_assert_eq(sfs_vfs_map(vfs, ino, rot_piece, &r), 0);
    return r.hits;
}

static inline int match_event(const struct sfs_event_row *e, void *ctx)
{
    const char **want = ctx;
    return !strcmp(e->kind, want[0]) && (!want[1] || strstr(e->text, want[1])) ? 1 : 0;
}

/* Has an event of that kind, with that text in it (NULL: any), happened? */
static inline bool has_event(struct fixture *f, const char *kind, const char *text)
{
    const char *want[2] = {kind, text};
    return sfs_pool_events(f->pool, 0, 10000, match_event, want) == 1;
}

#endif
