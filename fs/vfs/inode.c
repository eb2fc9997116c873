/* Attributes of an inode, loading its contents' map, and locking of several inodes. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>
#include <string.h>

#define LOAD_ROWS 128u
#define RELATIME_SEC (24 * 3600)
#define STAT_BLKSIZE (128 << 10)

struct sfs_time sfs_vfs_now(struct sfs_vfs *vfs)
{
    struct timespec t = sfs_env_wall(vfs->env);

    return (struct sfs_time){.sec = t.tv_sec, .nsec = (uint32_t)t.tv_nsec};
}

/* --- loading -------------------------------------------------------------------------------------------- */

/* One row into the map. What lies beyond the size is left over from a crash (rows may be committed before the
 * size that covers them): it is dropped here, and noted, so that the next commit drops it, too. */
static int load_piece(struct sfs_inode *i, const struct sfs_extent_row *row, uint64_t *end)
{
    struct sfs_extent e;
    int rc;

    if (row->len == 0 || row->off < *end || row->off > SFS_OFFSET_MAX - row->len)
        return -EUCLEAN;
    rc = sfs_map_prepare(&i->map, 1);
    if (rc)
        return rc;
    rc = sfs_extent_from_row(i->vfs->data, row, &e);
    if (rc)
        return rc;
    sfs_map_insert(&i->map, &e, true);
    *end = row->off + row->len;
    if (*end > i->row.size) {
        rc = sfs_map_prepare(&i->map, 0);
        if (rc)
            return rc;
        sfs_map_punch(&i->map, i->row.size, *end);
    }
    return 0;
}

static int load_map(struct sfs_inode *i)
{
    struct sfs_catalog *cat = i->vfs->cat;
    struct sfs_extent_row *rows = malloc(LOAD_ROWS * sizeof(*rows));
    uint64_t end = 0;
    unsigned n = 0;
    int rc = 0;

    if (!rows)
        return -ENOMEM;
    do {
        /* Interned while the rows cannot change: a mover that comes later finds the objects. */
        sfs_catalog_lock(cat);
        rc = sfs_catalog_extent_list(cat, i->ino, end, rows, LOAD_ROWS, &n);
        for (unsigned k = 0; !rc && k < n; k++)
            rc = load_piece(i, &rows[k], &end);
        sfs_catalog_unlock(cat);
    } while (!rc && n == LOAD_ROWS);
    free(rows);
    if (!rc && i->map.nchanged)
        sfs_inode_mark_pending(i);
    return rc;
}

static int load_inline(struct sfs_inode *i, size_t cap)
{
    size_t len = 0;
    uint8_t *data = malloc(cap);
    int rc;

    if (!data)
        return -ENOMEM;
    sfs_catalog_lock(i->vfs->cat);
    rc = sfs_catalog_inline_get(i->vfs->cat, i->ino, data, cap, &len);
    sfs_catalog_unlock(i->vfs->cat);
    if (rc == -ENOENT || (!rc && len == 0)) {
        free(data);
        return 0;
    }
    if (rc || len > cap) {
        free(data);
        return rc ? rc : -EUCLEAN;
    }
    i->inline_stored = true;
    i->inline_len = (uint32_t)len;
    if (len > i->row.size) { /* left over likewise */
        i->inline_len = (uint32_t)i->row.size;
        i->inline_changed = true;
        sfs_inode_mark_pending(i);
    }
    if (i->inline_len == 0) {
        free(data);
        return 0;
    }
    i->inline_data = data;
    return 0;
}

int sfs_inode_load_data(struct sfs_inode *i)
{
    int rc;

    if (i->data_loaded)
        return 0;
    if (S_ISLNK(i->row.mode)) {
        rc = load_inline(i, SFS_SYMLINK_MAX + 1);
    } else if (S_ISREG(i->row.mode)) {
        rc = load_map(i);
        if (!rc)
            rc = load_inline(i, SFS_INLINE_MAX);
        if (!rc && i->inline_len && sfs_map_covers_any(&i->map, 0, SFS_BLOCK))
            rc = -EUCLEAN; /* I1: no commit leaves that */
    } else {
        rc = 0;
    }
    if (rc) {
        sfs_map_clear(&i->map);
        sfs_inode_drop_inline(i);
        i->inline_changed = i->inline_stored = false;
        return rc;
    }
    i->data_loaded = true;
    return 0;
}

/* --- who changes it ------------------------------------------------------------------------------------- */

void sfs_inode_modify_begin(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->lock);
    while (i->modifying)
        sfs_cond_wait(&i->changed, &i->lock);
    i->modifying = true;
}

void sfs_inode_modify_end(struct sfs_inode *i)
{
    i->modifying = false;
    sfs_cond_broadcast(&i->changed);
    sfs_mutex_unlock(&i->lock);
}

void sfs_inode_mark_pending(struct sfs_inode *i)
{
    struct sfs_vfs *vfs = i->vfs;

    sfs_mutex_lock(&vfs->table_lock);
    sfs_inode_list_add(&vfs->pending, &i->pending);
    sfs_mutex_unlock(&vfs->table_lock);
}

bool sfs_inode_run_overlaps(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    struct sfs_inode_run *r;

    TAILQ_FOREACH(r, &i->runs, link)
        if (r->off < to && r->off + (uint64_t)r->nblocks * SFS_BLOCK > from)
            return true;
    return false;
}

void sfs_inode_wait_runs(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    while (sfs_inode_run_overlaps(i, from, to))
        sfs_cond_wait(&i->changed, &i->lock);
}

void sfs_inode_drop_inline(struct sfs_inode *i)
{
    free(i->inline_data);
    i->inline_data = NULL;
    i->inline_len = 0;
}

void sfs_inode_bury(struct sfs_inode *i)
{
    i->dead = true;
    i->attr_dirty = false;
    sfs_writeback_account(i, -(int64_t)sfs_dirty_drop(&i->dirty, 0, UINT64_MAX));
    sfs_map_clear(&i->map);
    sfs_inode_drop_inline(i);
    i->inline_changed = i->inline_stored = false;
    i->data_loaded = true; /* there is none */
}

/* --- attributes ----------------------------------------------------------------------------------------- */

void sfs_inode_touch(struct sfs_inode *i, bool mtime)
{
    struct sfs_time now = sfs_vfs_now(i->vfs);

    i->row.ctime = now;
    if (mtime)
        i->row.mtime = now;
    i->attr_dirty = true;
    sfs_inode_mark_pending(i);
}

static bool earlier_or_equal(const struct sfs_time *a, const struct sfs_time *b)
{
    return a->sec != b->sec ? a->sec < b->sec : a->nsec <= b->nsec;
}

void sfs_inode_accessed(struct sfs_inode *i)
{
    struct sfs_inode_row *r = &i->row;

    if (i->vfs->noatime || sfs_vfs_writable(i->vfs))
        return;
    struct sfs_time now = sfs_vfs_now(i->vfs);
    if (!earlier_or_equal(&r->atime, &r->mtime) && !earlier_or_equal(&r->atime, &r->ctime) &&
        now.sec - r->atime.sec < RELATIME_SEC)
        return;
    if (r->atime.sec == now.sec && r->atime.nsec == now.nsec)
        return;
    r->atime = now;
    i->attr_dirty = true;
    sfs_inode_mark_pending(i);
}

void sfs_inode_drop_set_id(struct sfs_inode *i)
{
    uint32_t mode = i->row.mode;

    if (S_ISDIR(mode))
        return;
    mode &= ~(uint32_t)S_ISUID;
    if (mode & S_IXGRP) /* without it, the bit means mandatory locking */
        mode &= ~(uint32_t)S_ISGID;
    if (mode == i->row.mode)
        return;
    i->row.mode = mode;
    i->attr_dirty = true;
    sfs_inode_mark_pending(i);
}

int sfs_inode_drop_capability(struct sfs_inode *i)
{
    int rc;

    if (i->no_capability || !(i->row.flags & SFS_INODE_HAS_XATTR))
        return 0;
    sfs_catalog_lock(i->vfs->cat);
    rc = sfs_catalog_xattr_delete(i->vfs->cat, i->ino, "security.capability");
    sfs_catalog_unlock(i->vfs->cat);
    if (rc && rc != -ENODATA)
        return rc;
    i->no_capability = true;
    return 0;
}

int sfs_inode_kill_priv(struct sfs_inode *i)
{
    sfs_inode_drop_set_id(i);
    return sfs_inode_drop_capability(i);
}

static struct timespec to_timespec(struct sfs_time t)
{
    return (struct timespec){.tv_sec = t.sec, .tv_nsec = t.nsec};
}

uint64_t sfs_inode_stored_sectors(const struct sfs_inode *i)
{
    return i->map.blocks * (SFS_BLOCK / 512) + (i->inline_len + 511) / 512;
}

int sfs_inode_stat(struct sfs_inode *i, struct stat *st)
{
    const struct sfs_inode_row *r = &i->row;
    uint64_t sectors = 0;

    /* Programs look for holes where blocks are fewer than the size says: it must be true. What isn't in memory is
     * as the row has it. */
    if (S_ISREG(r->mode) && !i->data_loaded) {
        sectors = r->sectors;
    } else if (S_ISREG(r->mode)) {
        sectors = sfs_inode_stored_sectors(i) + i->dirty.nfresh * (SFS_BLOCK / 512);
        if (sectors == 0 && i->dirty.ndirty)
            sectors = SFS_BLOCK / 512;
    }
    *st = (struct stat){
        .st_ino = i->ino,
        .st_mode = r->mode,
        .st_nlink = r->nlink,
        .st_uid = r->uid,
        .st_gid = r->gid,
        .st_rdev = r->rdev,
        .st_size = (off_t)r->size,
        .st_blksize = STAT_BLKSIZE,
        .st_blocks = (blkcnt_t)sectors,
        .st_atim = to_timespec(r->atime),
        .st_mtim = to_timespec(r->mtime),
        .st_ctim = to_timespec(r->ctime),
    };
    return 0;
}

void sfs_inode_catalog_row(const struct sfs_inode *i, struct sfs_inode_row *row)
{
    *row = i->row;
    if (S_ISREG(row->mode))
        row->size = i->catalog_size; /* the data of more isn't committed */
}

int sfs_inode_update_now(struct sfs_inode *i)
{
    struct sfs_inode_row row;
    int rc;

    SFS_ASSERT(!i->dead);
    sfs_inode_catalog_row(i, &row);
    rc = sfs_catalog_inode_update(i->vfs->cat, &row);
    if (!rc)
        i->attr_dirty = false;
    return rc;
}

/* --- several -------------------------------------------------------------------------------------------- */

static void lock_all(struct sfs_lockset *s)
{
    for (unsigned k = 0; k < s->nsorted; k++) {
        if (k == 0)
            sfs_mutex_lock(&s->sorted[k]->lock);
        else
            sfs_mutex_lock_nested(&s->sorted[k]->lock);
    }
}

static void unlock_all(struct sfs_lockset *s)
{
    for (unsigned k = s->nsorted; k-- > 0;)
        sfs_mutex_unlock(&s->sorted[k]->lock);
}

static void sort_set(struct sfs_lockset *s)
{
    s->nsorted = 0;
    for (unsigned k = 0; k < s->n; k++) {
        struct sfs_inode *i = s->v[k];
        unsigned at = 0;
        if (!i)
            continue;
        while (at < s->nsorted && s->sorted[at]->ino < i->ino)
            at++;
        if (at < s->nsorted && s->sorted[at] == i)
            continue;
        memmove(&s->sorted[at + 1], &s->sorted[at], (s->nsorted - at) * sizeof(s->sorted[0]));
        s->sorted[at] = i;
        s->nsorted++;
    }
}

void sfs_lockset_lock(struct sfs_lockset *s, unsigned nrows, bool gate)
{
    SFS_ASSERT(s->n <= SFS_LOCKSET_MAX && nrows <= s->n);
    sort_set(s);
    s->gated = gate;
    if (!gate) {
        bool in_batch = false;
        lock_all(s);
        for (unsigned k = 0; k < nrows; k++)
            in_batch |= s->v[k] && s->v[k]->in_batch;
        if (!in_batch)
            return;
        unlock_all(s);
        s->gated = true;
    }
    sfs_commit_gate_enter(s->vfs->data);
    lock_all(s);
}

void sfs_lockset_unlock(struct sfs_lockset *s)
{
    unlock_all(s);
    if (s->gated)
        sfs_commit_gate_leave(s->vfs->data);
    s->gated = false;
}
