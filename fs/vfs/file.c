/* Open files: open and release, writing, durability, and errors of write-back, each told once to each open
 * file. */
#include "fs/vfs/names.h"

#include <fcntl.h>
#include <stdlib.h>

static int truncate_inode(struct sfs_inode *i, uint64_t size)
{
    int rc;

    sfs_inode_modify_begin(i);
    rc = i->dead ? -ENOENT : sfs_inode_load_data(i);
    if (!rc)
        rc = sfs_inode_truncate(i, size);
    sfs_inode_modify_end(i);
    return rc;
}

/* Counts the inode (whose reference it takes over when it succeeds) as open. */
static int make_file(struct sfs_inode *i, int flags, struct sfs_file **out)
{
    struct sfs_file *f = malloc(sizeof(*f));
    int rc = 0;

    if (!f)
        return -ENOMEM;
    sfs_mutex_lock(&i->lock);
    if (i->dead)
        rc = -ENOENT;
    else if (S_ISDIR(i->row.mode))
        rc = -EISDIR;
    else if (!S_ISREG(i->row.mode))
        rc = -ENXIO; /* the kernel opens special files itself */
    else
        i->nopen++;
    sfs_mutex_unlock(&i->lock);
    if (rc) {
        free(f);
        return rc;
    }
    *f = (struct sfs_file){.vfs = i->vfs, .inode = i, .flags = flags, .error_seen = sfs_inode_error_mark(i)};
    *out = f;
    return 0;
}

int sfs_vfs_open_file(struct sfs_vfs *vfs, uint64_t ino, int flags, struct sfs_file **out)
{
    struct sfs_inode *i;
    int rc;

    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC)) {
        rc = sfs_vfs_writable(vfs);
        if (rc)
            return rc;
    }
    rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    rc = make_file(i, flags, out);
    if (rc) {
        sfs_inode_put(i);
        return rc;
    }
    if (flags & O_TRUNC) {
        rc = truncate_inode(i, 0);
        if (rc) {
            sfs_vfs_release(*out);
            *out = NULL;
        }
    }
    return rc;
}

int sfs_vfs_create(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode, int flags,
                   const struct sfs_cred *cred, struct stat *st, struct sfs_file **out)
{
    int rc = sfs_vfs_mknod(vfs, parent, name, (mode & ~(mode_t)S_IFMT) | S_IFREG, 0, cred, st);

    if (rc == -EEXIST && !(flags & O_EXCL))
        rc = sfs_vfs_lookup(vfs, parent, name, st);
    if (rc)
        return rc;
    rc = sfs_vfs_open_file(vfs, st->st_ino, flags, out);
    if (rc)
        sfs_vfs_forget(vfs, st->st_ino, 1);
    else if (flags & O_TRUNC)
        rc = sfs_vfs_getattr(vfs, st->st_ino, st);
    return rc;
}

void sfs_vfs_release(struct sfs_file *f)
{
    if (!f)
        return;
    struct sfs_inode *i = f->inode;
    bool reap;
    sfs_mutex_lock(&i->lock);
    i->nopen--;
    reap = i->nopen == 0 && i->row.nlink == 0;
    sfs_mutex_unlock(&i->lock);
    if (reap)
        sfs_reap_later(i);
    sfs_inode_put(i);
    free(f);
}

uint64_t sfs_file_ino(const struct sfs_file *f)
{
    return f->inode->ino;
}

/* --- durability ----------------------------------------------------------------------------------------- */

int sfs_vfs_flush(struct sfs_file *f)
{
    return sfs_inode_take_error(f->inode, &f->error_seen);
}

/* Nothing of it is in memory only: then a read-only pool is no obstacle. */
static bool is_stored(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->vfs->table_lock);
    bool stored = !i->dirty_link.on && !i->pending.on && !i->batch.on;
    sfs_mutex_unlock(&i->vfs->table_lock);
    return stored;
}

static int sync_inode(struct sfs_inode *i)
{
    int rc, error;

    if (sfs_vfs_writable(i->vfs) && is_stored(i))
        return 0;
    sfs_mutex_lock(&i->lock);
    i->syncing++;
    sfs_mutex_unlock(&i->lock);
    error = sfs_flush_inode(i);
    rc = sfs_commit_wait(i->vfs->data, false);
    sfs_mutex_lock(&i->lock);
    i->syncing--;
    sfs_mutex_unlock(&i->lock);
    return error ? error : rc;
}

int sfs_vfs_fsync(struct sfs_file *f, bool datasync)
{
    int rc, error;

    (void)datasync; /* sizes and extents are in the same commit as times: there is nothing to leave out */
    rc = sync_inode(f->inode);
    error = sfs_inode_take_error(f->inode, &f->error_seen); /* told here, so not again at close */
    return rc ? rc : error;
}

int sfs_vfs_fsyncdir(struct sfs_vfs *vfs, uint64_t ino)
{
    struct sfs_inode *i;
    int rc = sfs_inode_get(vfs, ino, &i);

    if (rc)
        return rc;
    rc = sync_inode(i);
    sfs_inode_put(i);
    return rc;
}

/* --- writing -------------------------------------------------------------------------------------------- */

int sfs_vfs_write(struct sfs_file *f, const void *data, size_t len, uint64_t off, bool append, bool killpriv,
                  size_t *n)
{
    struct sfs_inode *i = f->inode;
    int rc = sfs_vfs_writable(f->vfs);

    *n = 0;
    if (rc || len == 0)
        return rc;
    rc = sfs_writeback_throttle(f->vfs, len);
    if (rc)
        return rc;
    sfs_inode_modify_begin(i);
    rc = sfs_inode_load_data(i);
    if (!rc && append)
        off = i->row.size;
    if (!rc && off >= SFS_OFFSET_MAX)
        rc = -EFBIG;
    if (!rc && killpriv)
        sfs_inode_drop_set_id(i);
    if (!rc)
        rc = sfs_inode_drop_capability(i); /* whoever writes */
    if (!rc) {
        if (len > SFS_OFFSET_MAX - off)
            len = (size_t)(SFS_OFFSET_MAX - off);
        rc = sfs_inode_write(i, data, len, off, n);
    }
    sfs_inode_modify_end(i);
    if (!rc && (f->flags & (O_SYNC | O_DSYNC)))
        rc = sfs_vfs_fsync(f, (f->flags & O_SYNC) != O_SYNC);
    return rc;
}

int sfs_vfs_drop_privileges(struct sfs_file *f, bool set_id)
{
    struct sfs_inode *i = f->inode;
    int rc = sfs_vfs_writable(f->vfs);

    if (rc)
        return rc;
    sfs_inode_modify_begin(i);
    rc = set_id ? sfs_inode_kill_priv(i) : sfs_inode_drop_capability(i);
    sfs_inode_modify_end(i);
    return rc;
}

/* --- attributes ----------------------------------------------------------------------------------------- */

int sfs_vfs_getattr(struct sfs_vfs *vfs, uint64_t ino, struct stat *st)
{
    struct sfs_inode *i;
    int rc = sfs_inode_get(vfs, ino, &i);

    if (rc)
        return rc;
    sfs_mutex_lock(&i->lock);
    rc = sfs_inode_stat(i, st);
    sfs_mutex_unlock(&i->lock);
    sfs_inode_put(i);
    return rc;
}

static struct sfs_time from_timespec(struct timespec t)
{
    return (struct sfs_time){.sec = t.tv_sec, .nsec = (uint32_t)t.tv_nsec};
}

static int check_attr(const struct sfs_inode *i, const struct stat *attr, unsigned set)
{
    if (set & SFS_SET_SIZE) {
        if (S_ISDIR(i->row.mode))
            return -EISDIR;
        if (!S_ISREG(i->row.mode) || attr->st_size < 0)
            return -EINVAL;
    }
    if ((set & SFS_SET_ATIME && (uint64_t)attr->st_atim.tv_nsec >= 1000000000u) ||
        (set & SFS_SET_MTIME && (uint64_t)attr->st_mtim.tv_nsec >= 1000000000u) ||
        (set & SFS_SET_CTIME && (uint64_t)attr->st_ctim.tv_nsec >= 1000000000u))
        return -EINVAL;
    return 0;
}

/* Everything but the size. Only memory changes; the next commit writes it. */
static int set_attr(struct sfs_inode *i, const struct stat *attr, unsigned set)
{
    struct sfs_inode_row *r = &i->row;
    struct sfs_time now = sfs_vfs_now(i->vfs);

    if ((set & SFS_SET_KILLPRIV) || ((set & (SFS_SET_UID | SFS_SET_GID)) && !S_ISDIR(r->mode))) {
        int rc = sfs_inode_kill_priv(i);
        if (rc)
            return rc;
    }
    if (set & SFS_SET_UID)
        r->uid = attr->st_uid;
    if (set & SFS_SET_GID)
        r->gid = attr->st_gid;
    /* whether set-gid may stay depends on the caller's groups: the kernel has checked */
    if (set & SFS_SET_MODE)
        r->mode = (r->mode & S_IFMT) | (attr->st_mode & 07777);
    if (set & (SFS_SET_ATIME | SFS_SET_ATIME_NOW))
        r->atime = set & SFS_SET_ATIME_NOW ? now : from_timespec(attr->st_atim);
    if (set & (SFS_SET_MTIME | SFS_SET_MTIME_NOW))
        r->mtime = set & SFS_SET_MTIME_NOW ? now : from_timespec(attr->st_mtim);
    r->ctime = set & SFS_SET_CTIME ? from_timespec(attr->st_ctim) : now;
    i->attr_dirty = true;
    sfs_inode_mark_pending(i);
    return 0;
}

/* The same for an inode that may have an access list, which goes with its mode. `modifying`; the lock is dropped
 * in between. */
static int set_attr_and_list(struct sfs_inode *i, const struct stat *attr, unsigned set)
{
    struct sfs_lockset lockset = {.vfs = i->vfs, .v = {i}, .n = 1};
    int rc;

    sfs_mutex_unlock(&i->lock);
    rc = sfs_vfs_catalog_room(i->vfs, SFS_ACL_MAX_BYTES + 1024);
    sfs_lockset_lock(&lockset, 1, false);
    if (!rc)
        rc = i->dead ? -ENOENT : set_attr(i, attr, set);
    if (!rc)
        rc = sfs_acl_follow_mode(i);
    sfs_lockset_unlock(&lockset);
    sfs_mutex_lock(&i->lock);
    return rc;
}

int sfs_vfs_setattr(struct sfs_vfs *vfs, uint64_t ino, const struct stat *attr, unsigned set,
                    const struct sfs_cred *cred, struct stat *out)
{
    struct sfs_inode *i;
    int rc = sfs_vfs_writable(vfs);

    (void)cred; /* who may is the kernel's to say */
    if (rc)
        return rc;
    rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    sfs_inode_modify_begin(i);
    rc = i->dead ? -ENOENT : check_attr(i, attr, set);
    if (!rc && (set & SFS_SET_SIZE)) {
        rc = sfs_inode_load_data(i);
        if (!rc)
            rc = sfs_inode_truncate(i, (uint64_t)attr->st_size);
        if (!rc)
            rc = sfs_inode_drop_capability(i);
    }
    if (!rc && (set & SFS_SET_MODE) && (i->row.flags & SFS_INODE_HAS_XATTR))
        rc = set_attr_and_list(i, attr, set);
    else if (!rc && (set & ~SFS_SET_SIZE))
        rc = set_attr(i, attr, set);
    if (!rc && out)
        rc = sfs_inode_stat(i, out);
    sfs_inode_modify_end(i);
    sfs_inode_put(i);
    return rc;
}
