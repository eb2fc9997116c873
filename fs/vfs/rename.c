/* rename(2).
 *
 * Rule 3: a file that replaces another brings its data along. So its data is written out first, and when
 * anything of it is pending, the names change inside the commit gate (C3): the commit that has the new name
 * has the data, too. */
#include "fs/vfs/names.h"

#include <linux/fs.h>
#include <string.h>

/* Somebody writes on meanwhile: what was there before the call is stored all the same. */
#define FLUSH_TRIES 4
#define ROOM_BYTES 3072u /* two entries, and the inode of a whiteout */

struct renaming {
    struct sfs_vfs *vfs;
    struct sfs_inode *from, *to;       /* directories */
    const char *name, *newname;
    size_t len, newlen;
    unsigned flags;
    struct sfs_inode *src, *dst;       /* dst: NULL when the new name is free */
    struct sfs_dentry_row src_row, dst_row;
    bool gone, reap;                   /* dst */
};

static int find_both(struct renaming *r)
{
    int rc;

    sfs_inode_put(r->src);
    sfs_inode_put(r->dst);
    r->src = r->dst = NULL;
    rc = sfs_entry_find(r->from, r->name, r->len, &r->src_row, &r->src);
    if (rc)
        return rc;
    rc = sfs_entry_find(r->to, r->newname, r->newlen, &r->dst_row, &r->dst);
    if (rc == -ENOENT)
        rc = 0;
    if (rc)
        return rc;
    if (r->dst && (r->flags & RENAME_NOREPLACE))
        return -EEXIST;
    if (!r->dst && (r->flags & RENAME_EXCHANGE))
        return -ENOENT;
    return 0;
}

/* Namespace lock held, so that no directory moves: is dir (or one above it) `above`? */
static int is_below(struct sfs_vfs *vfs, struct sfs_inode *dir, struct sfs_inode *above, bool *below)
{
    uint64_t ino = dir->ino;

    *below = false;
    while (!*below && ino != vfs->root) {
        struct sfs_inode *i;
        int rc = sfs_inode_get(vfs, ino, &i);
        if (rc)
            return rc;
        *below = i == above;
        sfs_mutex_lock(&i->lock);
        uint64_t parent = i->row.parent;
        sfs_mutex_unlock(&i->lock);
        sfs_inode_put(i);
        if (parent == ino || parent == 0)
            break;
        ino = parent;
    }
    return 0;
}

static bool is_dir(const struct sfs_inode *i)
{
    return S_ISDIR(i->row.mode); /* the type never changes */
}

/* No directory may get below itself. */
static int check_loops(struct renaming *r)
{
    bool below = false;
    int rc = 0;

    if (is_dir(r->src))
        rc = is_below(r->vfs, r->to, r->src, &below);
    if (rc || below)
        return rc ? rc : -EINVAL;
    if (r->dst && is_dir(r->dst)) {
        rc = is_below(r->vfs, r->from, r->dst, &below);
        if (!rc && below)
            rc = r->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
    }
    return rc;
}

/* All locked: everything that an ordinary condition may refuse. */
static int check_locked(struct renaming *r)
{
    int rc = sfs_directory_check(r->from);

    if (!rc)
        rc = sfs_directory_check(r->to);
    if (rc)
        return rc;
    bool src_dir = is_dir(r->src), dst_dir = r->dst && is_dir(r->dst);
    if (r->dst && !(r->flags & RENAME_EXCHANGE)) {
        if (src_dir && !dst_dir)
            return -ENOTDIR;
        if (!src_dir && dst_dir)
            return -EISDIR;
    }
    if (r->from != r->to) {
        bool exchange = r->flags & RENAME_EXCHANGE;
        if (src_dir && !(exchange ? dst_dir : r->dst != NULL) && r->to->row.nlink >= SFS_LINK_MAX)
            return -EMLINK;
        if (exchange && dst_dir && !src_dir && r->from->row.nlink >= SFS_LINK_MAX)
            return -EMLINK;
    }
    return 0;
}

/* A moved inode: its ctime, and a directory's parent. Catalog locked. */
static int update_moved(struct sfs_inode *i, struct sfs_inode *parent)
{
    i->row.ctime = sfs_vfs_now(i->vfs);
    if (is_dir(i))
        i->row.parent = parent->ino;
    return sfs_inode_update_now(i);
}

/* Link counts of the directories: `from` loses and `to` gains so many subdirectories. Catalog locked. */
static int update_parents(struct renaming *r, int from_delta, int to_delta)
{
    int rc = 0;

    r->from->row.nlink += (uint32_t)from_delta;
    r->to->row.nlink += (uint32_t)to_delta;
    if (from_delta)
        rc = sfs_inode_update_now(r->from);
    if (!rc && to_delta && (r->to != r->from || !from_delta))
        rc = sfs_inode_update_now(r->to);
    return rc;
}

static int exchange(struct renaming *r)
{
    struct sfs_catalog *cat = r->vfs->cat;
    int rc, delta = (int)is_dir(r->dst) - (int)is_dir(r->src);

    rc = sfs_catalog_dentry_replace(cat, r->from->ino, r->name, r->len, r->dst->ino,
                                    r->dst->row.mode & S_IFMT);
    if (!rc)
        rc = sfs_catalog_dentry_replace(cat, r->to->ino, r->newname, r->newlen, r->src->ino,
                                        r->src->row.mode & S_IFMT);
    if (!rc)
        rc = update_moved(r->src, r->to);
    if (!rc)
        rc = update_moved(r->dst, r->from);
    if (!rc && r->from != r->to && delta)
        rc = update_parents(r, delta, -delta);
    return rc;
}

/* What overlayfs marks a deleted file with, in the place of the old name: a character device 0, 0. It belongs to
 * the directory's owner. Catalog locked. */
static int leave_whiteout(struct renaming *r)
{
    struct sfs_catalog *cat = r->vfs->cat;
    struct sfs_time now = sfs_vfs_now(r->vfs);
    struct sfs_inode_row row = {
        .ino = sfs_catalog_ino_alloc(cat),
        .space = r->vfs->space,
        .mode = S_IFCHR,
        .nlink = 1,
        .uid = r->from->row.uid,
        .gid = r->from->row.gid,
        .atime = now,
        .mtime = now,
        .ctime = now,
        .btime = now,
    };
    int rc = sfs_catalog_inode_insert(cat, &row);

    return rc ? rc : sfs_catalog_dentry_replace(cat, r->from->ino, r->name, r->len, row.ino, S_IFCHR);
}

static int move(struct renaming *r)
{
    struct sfs_catalog *cat = r->vfs->cat;
    uint32_t type = r->src->row.mode & S_IFMT;
    int rc, lost_dir = r->dst && is_dir(r->dst);

    if (lost_dir) {
        bool empty;
        rc = sfs_catalog_dentry_empty(cat, r->dst->ino, &empty);
        if (rc || !empty)
            return rc ? rc : -ENOTEMPTY;
    }
    /* The new entry first: only it may find no place. */
    if (r->dst)
        rc = sfs_catalog_dentry_replace(cat, r->to->ino, r->newname, r->newlen, r->src->ino, type);
    else
        rc = sfs_catalog_dentry_insert(cat, r->to->ino, r->newname, r->newlen, r->src->ino, type);
    if (!rc)
        rc = r->flags & RENAME_WHITEOUT ? leave_whiteout(r)
                                        : sfs_catalog_dentry_delete(cat, r->from->ino, r->name, r->len);
    if (!rc && r->dst)
        rc = sfs_link_drop(r->dst, &r->gone);
    if (!rc)
        rc = update_moved(r->src, r->to);
    if (!rc)
        rc = update_parents(r, is_dir(r->src) ? -1 : 0, (is_dir(r->src) ? 1 : 0) - lost_dir);
    return rc;
}

/* Within one directory, -1 and +1 make nothing; update_parents does them one after the other on the same row,
 * which is right too. */
static int rename_locked(struct renaming *r)
{
    int rc = check_locked(r);

    if (rc)
        return rc;
    sfs_catalog_lock(r->vfs->cat);
    rc = r->flags & RENAME_EXCHANGE ? exchange(r) : move(r);
    sfs_catalog_unlock(r->vfs->cat);
    if (rc)
        return rc;
    if (r->dst && !(r->flags & RENAME_EXCHANGE))
        sfs_link_dropped(r->dst, r->gone, &r->reap);
    sfs_inode_touch(r->from, true);
    if (r->to != r->from)
        sfs_inode_touch(r->to, true);
    return 0;
}

/* Something of it waits for the next commit. */
static bool has_pending(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->vfs->table_lock);
    bool pending = i->pending.on || i->batch.on || i->dirty_link.on;
    sfs_mutex_unlock(&i->vfs->table_lock);
    return pending;
}

static bool has_dirty(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->vfs->table_lock);
    bool dirty = i->dirty_link.on;
    sfs_mutex_unlock(&i->vfs->table_lock);
    return dirty;
}

/* Namespace lock held on entry and exit. -EAGAIN: it was dropped to write src out; names may have changed. */
static int rename_names(struct renaming *r, bool flush)
{
    int rc = find_both(r);

    if (rc)
        return rc;
    if (r->src == r->dst)
        return 0; /* two links of one file: nothing happens, says POSIX */
    bool replaces = r->dst && !is_dir(r->dst);
    if (flush && replaces && has_dirty(r->src)) {
        sfs_mutex_unlock(&r->vfs->ns);
        rc = sfs_flush_inode(r->src);
        sfs_mutex_lock(&r->vfs->ns);
        return rc ? rc : -EAGAIN;
    }
    rc = check_loops(r);
    if (rc)
        return rc;
    struct sfs_lockset set = {.vfs = r->vfs, .v = {r->src, r->dst, r->from, r->to}, .n = 4};
    bool dirs = is_dir(r->src) || (r->dst && is_dir(r->dst));
    sfs_lockset_lock(&set, dirs ? 4 : 2, has_pending(r->src));
    rc = rename_locked(r);
    sfs_lockset_unlock(&set);
    return rc;
}

int sfs_vfs_rename(struct sfs_vfs *vfs, uint64_t parent, const char *name, uint64_t newparent,
                   const char *newname, unsigned flags)
{
    struct renaming r = {.vfs = vfs, .name = name, .newname = newname, .flags = flags};
    int rc;

    if ((flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) ||
        ((flags & RENAME_EXCHANGE) && flags != RENAME_EXCHANGE))
        return -EINVAL;
    rc = sfs_name_length(name, -EBUSY, &r.len);
    if (!rc)
        rc = sfs_name_length(newname, flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY, &r.newlen);
    if (!rc)
        rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_vfs_catalog_room(vfs, ROOM_BYTES);
    if (!rc)
        rc = sfs_inode_get(vfs, parent, &r.from);
    if (!rc)
        rc = sfs_inode_get(vfs, newparent, &r.to);
    if (!rc) {
        sfs_mutex_lock(&vfs->ns);
        for (int tries = 0; (rc = rename_names(&r, tries < FLUSH_TRIES)) == -EAGAIN;)
            tries++;
        sfs_mutex_unlock(&vfs->ns);
    }
    if (r.reap)
        sfs_reap_later(r.dst);
    sfs_inode_put(r.src);
    sfs_inode_put(r.dst);
    sfs_inode_put(r.from);
    sfs_inode_put(r.to);
    sfs_vfs_kick_by_volume(vfs);
    return rc;
}
