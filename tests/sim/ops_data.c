/* Operations on the contents of files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/pattern.h"
#include "tests/sim/run.h"

/* --- choosing -------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t pick_len(struct sim_rng *g)
{
    switch (sim_rng_below(g, 8)) {
    case 0:
        return sim_rng_between(g, 1, 64);
    case 1:
    case 2:
        return sim_rng_between(g, 1, 4096);
    case 3:
    case 4:
        return SIM_BLOCK * sim_rng_between(g, 1, 16);
    case 5:
        return sim_rng_between(g, 1, 128u << 10);
    case 6:
        return sim_rng_between(g, 1, 512u << 10);
    default:
        return sim_rng_chance(g, 30) ? sim_rng_between(g, 1, 2u << 20) : 65536 * sim_rng_between(g, 1, 8);
    }
}

static uint64_t pick_off(struct sim_rng *g, uint64_t size)
{
    uint64_t off;

    switch (sim_rng_below(g, 6)) {
    case 0:
        return 0;
    case 1:
        return size;
    case 2:
        off = size + sim_rng_between(g, 0, 128u << 10);
        break;
    default:
        off = sim_rng_between(g, 0, size);
    }
    if (sim_rng_chance(g, 50))
        off -= off % SIM_BLOCK;
    return off;
}

/* An open file: one that is open already, or a file opened for this operation. */
static bool take(struct sim_actor *a, int flags, struct sim_file *f, bool *temporary)
{
    struct sim_pick p;
    int rc;

    *temporary = false;
    if (a->nfiles > 0 && sim_rng_chance(&a->rng, 40)) {
        *f = a->files[sim_rng_below(&a->rng, a->nfiles)];
        return true;
    }
    if (!sim_pick(a, S_IFREG, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return false;
    sim_op_begin(a, "open");
    rc = sfs_vfs_open_file(a->space->vfs, p.inode->ino, O_RDWR | flags, &f->file);
    if (!sim_op_done(a, rc, 0, 0) || rc < 0)
        return false;
    f->inode = p.inode;
    f->flags = O_RDWR | flags;
    f->inode->opens++;
    *temporary = true;
    return true;
}

static void give(struct sim_actor *a, struct sim_file *f, bool temporary)
{
    int rc;

    if (!temporary)
        return;
    sim_op_begin(a, "flush");
    rc = sfs_vfs_flush(f->file);
    sim_op_done(a, rc, 0, 0);
    sfs_vfs_release(f->file);
    f->inode->opens--;
}

/* --- writing ------------------------------------------------------------------------------------------------------------------------------------ */

/* A write with O_SYNC is an fsync, too. */
static void synced(struct sim_actor *a, struct sim_inode *i)
{
    sim_durable(a->run, NULL, a->start - 1);
    if (!sim_crashed(a->run))
        sim_content_floor(&i->content, sim_content_last(&i->content)->number);
}

static void write_at(struct sim_actor *a, struct sim_file *f, uint64_t off, uint64_t len, bool append)
{
    struct sim_inode *i = f->inode;
    uint32_t tag = a->run->next_tag++;
    uint8_t *data;
    size_t n = 0;
    int rc;

    append = append && sim_content_size(&i->content) + len <= SIM_FILE_MAX;
    if (append)
        off = sim_content_size(&i->content);
    if (off >= SIM_FILE_MAX)
        off = sim_rng_below(&a->rng, SIM_FILE_MAX);
    if (off + len > SIM_FILE_MAX)
        len = SIM_FILE_MAX - off;
    data = malloc(len);
    SFS_ASSERT(data);
    sim_pattern_fill(data, tag, 0, len);
    sim_op_begin(a, append ? "append" : "write");
    rc = sfs_vfs_write(f->file, data, len, append ? 0 : off, append, false, &n);
    free(data);
    sim_note(a->run, "  tag %u: %zu of %llu bytes at %llu of inode %llu", tag, n, (unsigned long long)len, (unsigned long long)off,
             (unsigned long long)i->ino);
    sim_hash(a->run, n);
    if (!sim_op_done(a, rc, 0, len) && n == 0)
        return;
    if (rc < 0) {
        n = n ? n : len; /* written, but not synced (O_SYNC); or crashed: any part of it may be there */
    } else if (n == 0 || n > len || (n < len && !sim_op_maybe(a, -ENOSPC, len))) {
        sim_fail(a->run, "a write of %llu bytes returned %zu", (unsigned long long)len, n);
    }
    sim_content_write(&i->content, a->start, off, n, tag);
    sim_op_content(a, i);
    if (rc == 0 && (f->flags & (O_SYNC | O_DSYNC)))
        synced(a, i);
}

static void op_write(struct sim_actor *a)
{
    struct sim_file f;
    bool temporary;

    if (!take(a, sim_rng_chance(&a->rng, 6) ? O_SYNC : 0, &f, &temporary))
        return;
    for (uint64_t n = sim_rng_chance(&a->rng, 70) ? 1 : sim_rng_between(&a->rng, 2, 8); n > 0 && !a->run->stop; n--) {
        bool append = sim_rng_chance(&a->rng, 20); /* one draw a statement: compilers differ in the order of arguments */
        uint64_t len = pick_len(&a->rng), off = pick_off(&a->rng, sim_content_size(&f.inode->content));

        write_at(a, &f, off, len, append);
    }
    give(a, &f, temporary);
}

static void op_truncate(struct sim_actor *a)
{
    struct sim_pick p;
    struct stat st = {0}, out;
    uint64_t size, new_size;
    int rc;

    if (!sim_pick(a, S_IFREG, &p) || sim_hold(a, p.dir, p.name, p.inode) < 0)
        return;
    size = sim_content_size(&p.inode->content);
    new_size = sim_rng_chance(&a->rng, 20) ? 0 : sim_rng_below(&a->rng, size + (sim_rng_chance(&a->rng, 40) ? 256u << 10 : 1));
    if (new_size > SIM_FILE_MAX)
        new_size = SIM_FILE_MAX;
    st.st_size = (off_t)new_size;
    sim_op_begin(a, "truncate");
    rc = sfs_vfs_setattr(a->space->vfs, p.inode->ino, &st, SFS_SET_SIZE, &(struct sfs_cred){.privileged = true}, &out);
    if (!sim_op_done(a, rc, 0, SIM_BLOCK))
        return;
    if (rc == 0 && out.st_size != st.st_size)
        sim_fail(a->run, "truncate to %llu left the size %lld", (unsigned long long)new_size, (long long)out.st_size);
    sim_content_truncate(&p.inode->content, a->start, new_size);
    sim_op_content(a, p.inode);
}

struct falloc {
    const char *name;
    int mode;
};

static void op_fallocate(struct sim_actor *a)
{
    static const struct falloc kinds[] = {
        {"fallocate", 0},
        {"fallocate keep", FALLOC_FL_KEEP_SIZE},
        {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
        {"punch", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
        {"zero", FALLOC_FL_ZERO_RANGE},
        {"zero keep", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE},
        {"collapse", FALLOC_FL_COLLAPSE_RANGE},
        {"insert", FALLOC_FL_INSERT_RANGE},
    };
    const struct falloc *k = &kinds[sim_rng_below(&a->rng, sizeof(kinds) / sizeof(*kinds))];
    bool shift = k->mode == FALLOC_FL_COLLAPSE_RANGE || k->mode == FALLOC_FL_INSERT_RANGE;
    struct sim_file f;
    struct sim_content *c;
    uint64_t off, len, size;
    bool temporary;
    int rc, want = 0;

    if (!take(a, 0, &f, &temporary))
        return;
    c = &f.inode->content;
    size = sim_content_size(c);
    off = sim_rng_below(&a->rng, size + (shift ? 1 : 65536));
    len = pick_len(&a->rng);
    if (shift) {
        off -= off % SIM_BLOCK;
        len += SIM_BLOCK - len % SIM_BLOCK;
        if (k->mode == FALLOC_FL_COLLAPSE_RANGE && off + len >= size)
            want = -EINVAL;
        if (k->mode == FALLOC_FL_INSERT_RANGE && off >= size)
            want = -EINVAL;
    }
    if (off + len > SIM_FILE_MAX || (k->mode == FALLOC_FL_INSERT_RANGE && size + len > SIM_FILE_MAX)) {
        give(a, &f, temporary);
        return;
    }
    sim_op_begin(a, k->name);
    rc = sfs_vfs_fallocate(f.file, k->mode, off, len);
    if (sim_op_done(a, rc, want, len)) {
        if (k->mode == FALLOC_FL_COLLAPSE_RANGE)
            sim_content_collapse(c, a->start, off, len);
        else if (k->mode == FALLOC_FL_INSERT_RANGE)
            sim_content_insert(c, a->start, off, len);
        else if (k->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
            sim_content_zero(c, a->start, off, len, k->mode & FALLOC_FL_KEEP_SIZE);
        else
            sim_content_truncate(c, a->start, k->mode == 0 && off + len > size ? off + len : size);
        sim_op_content(a, f.inode);
    }
    give(a, &f, temporary);
}

static void op_copy_range(struct sim_actor *a)
{
    struct sim_file in, out;
    bool in_temporary, out_temporary;
    uint64_t from, to, len, size, want;
    size_t n = 0;
    int rc;

    if (!take(a, 0, &in, &in_temporary))
        return;
    if (!take(a, 0, &out, &out_temporary)) {
        give(a, &in, in_temporary);
        return;
    }
    size = sim_content_size(&in.inode->content);
    from = sim_rng_chance(&a->rng, 40) ? 0 : pick_off(&a->rng, size);
    to = sim_rng_chance(&a->rng, 40) ? 0 : pick_off(&a->rng, sim_content_size(&out.inode->content));
    len = sim_rng_chance(&a->rng, 50) && size > from ? size - from : pick_len(&a->rng);
    want = from >= size ? 0 : size - from < len ? size - from : len;
    if (to + len <= SIM_FILE_MAX && (in.inode != out.inode || from + len <= to || to + len <= from)) {
        sim_op_begin(a, "copy range");
        rc = sfs_vfs_copy_range(in.file, from, out.file, to, len, &n);
        sim_hash(a->run, n);
        if (sim_op_done(a, rc, 0, len)) {
            if (rc < 0) {
                n = want;
            } else if (n > want || (n < want && n == 0 && !sim_op_maybe(a, -ENOSPC, len))) {
                sim_fail(a->run, "copying %llu bytes (of %llu that there are) copied %zu", (unsigned long long)len,
                         (unsigned long long)want, n);
            }
            if (n > 0) {
                sim_content_copy(&out.inode->content, a->start, to, sim_content_last(&in.inode->content), from, n);
                sim_op_content(a, out.inode);
            }
        }
    }
    give(a, &out, out_temporary);
    give(a, &in, in_temporary);
}

/* --- reading ------------------------------------------------------------------------------------------------------------------------------------ */

static void op_read(struct sim_actor *a)
{
    struct sim_file f;
    struct sim_match m = {.exact = !a->space->damaged, .eio_ok = a->space->damaged};
    uint64_t off, len, size, want;
    uint8_t *data;
    bool temporary;
    size_t n = 0;
    int rc;

    if (!take(a, 0, &f, &temporary))
        return;
    size = sim_content_size(&f.inode->content);
    off = pick_off(&a->rng, size);
    len = pick_len(&a->rng);
    want = off >= size ? 0 : size - off < len ? size - off : len;
    data = malloc(len);
    SFS_ASSERT(data);
    memset(data, 0xA5, len);
    sim_op_begin(a, "read");
    rc = sfs_vfs_read(f.file, data, len, off, &n);
    if (sim_op_done(a, rc, 0, 0) && rc == 0) {
        if (n != want)
            sim_fail(a->run, "a read of %llu bytes at %llu of inode %llu with %llu bytes returned %zu", (unsigned long long)len,
                     (unsigned long long)off, (unsigned long long)f.inode->ino, (unsigned long long)size, n);
        if (!sim_match_range(a, &f.inode->content, off, data, n, &m))
            sim_fail(a->run, "reading inode %llu: %s", (unsigned long long)f.inode->ino, m.why);
        a->run->stats.bytes_checked += n;
    }
    free(data);
    give(a, &f, temporary);
}

/* What is called a hole must be zeros; the end of the file is the last hole. */
static void op_lseek(struct sim_actor *a)
{
    struct sim_file f;
    uint64_t off, size, at = 0;
    bool temporary, data = sim_rng_chance(&a->rng, 50);
    const struct sim_version *v;
    int rc;

    if (!take(a, 0, &f, &temporary))
        return;
    v = sim_content_last(&f.inode->content);
    size = v->size;
    off = sim_rng_below(&a->rng, size + 4096);
    sim_op_begin(a, "lseek");
    rc = sfs_vfs_lseek(f.file, off, data ? SEEK_DATA : SEEK_HOLE, &at);
    if (off >= size) {
        sim_op_done(a, rc, -ENXIO, 0);
    } else if (data && rc == -ENXIO) {
        sim_hash(a->run, 1);
        if (!sim_version_zero(v, off, size - off))
            sim_fail(a->run, "SEEK_DATA from %llu found no data in a file that has some", (unsigned long long)off);
    } else if (sim_op_done(a, rc, 0, 0) && rc == 0) {
        if (at < off || at > size || (data && at == size))
            sim_fail(a->run, "lseek from %llu in %llu bytes went to %llu", (unsigned long long)off, (unsigned long long)size,
                     (unsigned long long)at);
        if (data && !sim_version_zero(v, off, at - off))
            sim_fail(a->run, "SEEK_DATA from %llu passed data on its way to %llu", (unsigned long long)off, (unsigned long long)at);
    }
    give(a, &f, temporary);
}

/* --- syncing ------------------------------------------------------------------------------------------------------------------------------------- */

static void op_fsync(struct sim_actor *a)
{
    struct sim_file f;
    bool temporary;
    int rc;

    if (!take(a, 0, &f, &temporary))
        return;
    sim_op_begin(a, "fsync");
    rc = sfs_vfs_fsync(f.file, sim_rng_chance(&a->rng, 40));
    if (sim_op_done(a, rc, 0, 0) && rc == 0)
        synced(a, f.inode);
    give(a, &f, temporary);
}

static void op_fsyncdir(struct sim_actor *a)
{
    struct sim_inode *dir = sim_pick_dir(a);
    int rc;

    if (sim_hold_dir(a, dir) < 0)
        return;
    sim_op_begin(a, "fsyncdir");
    rc = sfs_vfs_fsyncdir(a->space->vfs, dir->ino);
    if (sim_op_done(a, rc, 0, 0) && rc == 0)
        sim_durable(a->run, NULL, a->start);
}

static void op_sync(struct sim_actor *a)
{
    int rc;

    sim_op_begin(a, "sync");
    rc = sfs_vfs_sync(a->space->vfs);
    if (sim_op_done(a, rc, 0, 0) && rc == 0)
        sim_durable(a->run, a->space, a->start);
}

const struct sim_op sim_data_ops[] = {
    {"write", 260, op_write},     {"truncate", 40, op_truncate}, {"fallocate", 60, op_fallocate}, {"copy range", 40, op_copy_range},
    {"read", 110, op_read},       {"lseek", 15, op_lseek},       {"fsync", 40, op_fsync},         {"fsyncdir", 10, op_fsyncdir},
    {"sync", 8, op_sync},         {0},
};
