/* Names: lookup, making and deleting entries, links.
 *
 * Every change is made under the namespace lock, with the inodes concerned locked, straight in the catalog's
 * open transaction: first all checks, then changes that no ordinary condition makes fail. (A write that the
 * catalog fails for another reason breaks it: it turns read-only and the transaction is never committed.)
 * Directories' times go with the next commit's rows; link counts are written at once, so that they always
 * agree with the entries. */
#include "fs/vfs/names.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_CREATE_BYTES 2048u /* inode, entry, and what their B-trees may need */
#define ROOM_LISTS_BYTES (2 * SFS_ACL_MAX_BYTES)

/* --- what names are ------------------------------------------------------------------------------------- */

int sfs_name_length(const char *name, int dots, size_t *len)
{
    *len = strnlen(name, SFS_FILENAME_MAX + 1);
    if (*len > SFS_FILENAME_MAX)
        return -ENAMETOOLONG;
    if (*len == 0)
        return -ENOENT;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return dots;
    return memchr(name, '/', *len) ? -EINVAL : 0;
}

int sfs_directory_check(struct sfs_inode *parent)
{
    if (!S_ISDIR(parent->row.mode))
        return -ENOTDIR;
    return parent->dead || parent->row.nlink == 0 ? -ENOENT : 0;
}

int sfs_entry_find(struct sfs_inode *parent, const char *name, size_t len, struct sfs_dentry_row *row,
                   struct sfs_inode **out)
{
    struct sfs_vfs *vfs = parent->vfs;
    int rc;

    sfs_catalog_lock(vfs->cat);
    rc = sfs_catalog_dentry_get(vfs->cat, parent->ino, name, len, row);
    sfs_catalog_unlock(vfs->cat);
    if (rc)
        return rc;
    return sfs_inode_get(vfs, row->ino, out);
}

/* --- lookup --------------------------------------------------------------------------------------------- */

static int lookup_dots(struct sfs_inode *parent, const char *name, struct sfs_inode **out)
{
    uint64_t ino;
    int rc;

    sfs_mutex_lock(&parent->lock);
    /* "." of any inode: NFS handles are found again that way. One that is only remembered, because the kernel
     * hasn't forgotten it yet, is stale. */
    rc = parent->dead ? -ENOENT : S_ISDIR(parent->row.mode) || name[1] == '\0' ? 0 : -ENOTDIR;
    ino = name[1] == '\0' ? parent->ino : parent->row.parent;
    sfs_mutex_unlock(&parent->lock);
    return rc ? rc : sfs_inode_get(parent->vfs, ino, out);
}

static int lookup(struct sfs_vfs *vfs, uint64_t parent, const char *name, struct sfs_inode **out)
{
    struct sfs_inode *dir;
    struct sfs_dentry_row row;
    size_t len;
    int rc = sfs_name_length(name, 1, &len);

    if (rc < 0)
        return rc;
    int got = sfs_inode_get(vfs, parent, &dir);
    if (got)
        return got;
    if (rc == 1) {
        rc = lookup_dots(dir, name, out);
    } else {
        sfs_mutex_lock(&dir->lock);
        rc = S_ISDIR(dir->row.mode) ? 0 : -ENOTDIR;
        sfs_mutex_unlock(&dir->lock);
        if (!rc)
            rc = sfs_entry_find(dir, name, len, &row, out);
    }
    sfs_inode_put(dir);
    return rc;
}

/* Fills *st and counts the look-up that the caller's success means. */
static int answer(struct sfs_inode *i, struct stat *st)
{
    int rc;

    sfs_mutex_lock(&i->lock);
    rc = sfs_inode_stat(i, st);
    sfs_mutex_unlock(&i->lock);
    if (!rc)
        sfs_inode_count_lookup(i);
    return rc;
}

int sfs_vfs_lookup(struct sfs_vfs *vfs, uint64_t parent, const char *name, struct stat *st)
{
    struct sfs_inode *i;
    int rc = lookup(vfs, parent, name, &i);

    if (rc)
        return rc;
    rc = answer(i, st);
    sfs_inode_put(i);
    return rc;
}

int sfs_vfs_resolve(struct sfs_vfs *vfs, const char *path, uint64_t *ino)
{
    uint64_t at = vfs->root;

    while (*path) {
        char name[SFS_FILENAME_MAX + 1];
        struct sfs_inode *i;
        path += strspn(path, "/");
        size_t len = strcspn(path, "/");
        if (len == 0)
            break;
        if (len > SFS_FILENAME_MAX)
            return -ENAMETOOLONG;
        memcpy(name, path, len);
        name[len] = '\0';
        path += len;
        int rc = lookup(vfs, at, name, &i);
        if (rc)
            return rc;
        at = i->ino;
        sfs_inode_put(i);
    }
    *ino = at;
    return 0;
}

/* --- making --------------------------------------------------------------------------------------------- */

struct making {
    mode_t mode;             /* with type */
    dev_t rdev;
    const char *target;      /* of a symlink */
    size_t target_len;
    const char *name;        /* NULL: no entry (tmpfile) */
    size_t name_len;
    const struct sfs_cred *cred;
};

/* Mode and group by the rules of set-gid directories and access lists. Parent locked. */
static void new_row(struct sfs_inode *parent, const struct making *m, struct sfs_inherited *lists,
                    struct sfs_inode_row *row)
{
    const struct sfs_cred *cred = m->cred;
    struct sfs_time now = sfs_vfs_now(parent->vfs);
    mode_t mode = S_ISLNK(m->mode) || lists ? m->mode : m->mode & ~(cred->umask & 0777);
    gid_t gid = cred->gid;

    if (parent->row.mode & S_ISGID) {
        gid = parent->row.gid;
        if (S_ISDIR(mode))
            mode |= S_ISGID;
    }
    if (!S_ISDIR(mode) && (mode & S_ISGID) && (mode & S_IXGRP) && !sfs_cred_in_group(cred, gid))
        mode &= ~(mode_t)S_ISGID;
    *row = (struct sfs_inode_row){
        .space = parent->vfs->space,
        .mode = mode,
        .nlink = !m->name ? 0 : S_ISDIR(mode) ? 2 : 1,
        .uid = cred->uid,
        .gid = gid,
        .rdev = S_ISCHR(mode) || S_ISBLK(mode) ? m->rdev : 0,
        .size = m->target_len,
        .atime = now,
        .mtime = now,
        .ctime = now,
        .btime = now,
        .parent = S_ISDIR(mode) ? parent->ino : 0,
    };
    if (lists)
        sfs_inherited_apply(lists, row);
}

/* Catalog and parent locked: the rows. The entry comes first: it is what may find no place. */
static int insert_rows(struct sfs_inode *parent, const struct making *m, const struct sfs_inherited *lists,
                       struct sfs_inode_row *row)
{
    struct sfs_catalog *cat = parent->vfs->cat;
    struct sfs_dentry_row old;
    int rc;

    if (m->name) {
        rc = sfs_catalog_dentry_get(cat, parent->ino, m->name, m->name_len, &old);
        if (rc != -ENOENT)
            return rc ? rc : -EEXIST;
    }
    row->ino = sfs_catalog_ino_alloc(cat);
    if (m->name) {
        rc = sfs_catalog_dentry_insert(cat, parent->ino, m->name, m->name_len, row->ino, row->mode & S_IFMT);
        if (rc)
            return rc;
    }
    rc = sfs_catalog_inode_insert(cat, row);
    if (!rc && m->target)
        rc = sfs_catalog_inline_set(cat, row->ino, m->target, m->target_len);
    if (!rc && lists)
        rc = sfs_inherited_store(cat, lists, row);
    if (!rc && S_ISDIR(row->mode)) {
        parent->row.nlink++;
        rc = sfs_inode_update_now(parent);
        if (rc)
            parent->row.nlink--;
    }
    return rc;
}

static int make_locked(struct sfs_inode *parent, const struct making *m, struct sfs_inode_row *row)
{
    struct sfs_inherited *lists = NULL;
    int rc = sfs_directory_check(parent);

    if (rc)
        return rc;
    if (S_ISDIR(m->mode) && parent->row.nlink >= SFS_LINK_MAX)
        return -EMLINK;
    if (!S_ISLNK(m->mode))
        rc = sfs_inherited_load(parent, &lists);
    if (!rc && lists)
        rc = sfs_vfs_catalog_room(parent->vfs, ROOM_CREATE_BYTES + ROOM_LISTS_BYTES);
    if (rc)
        goto out;
    new_row(parent, m, lists, row);
    sfs_catalog_lock(parent->vfs->cat);
    rc = insert_rows(parent, m, lists, row);
    sfs_catalog_unlock(parent->vfs->cat);
    if (!rc && m->name)
        sfs_inode_touch(parent, true);
out:
    free(lists);
    return rc;
}

/* Makes an inode and its entry; *out is a reference to it. */
static int make(struct sfs_vfs *vfs, uint64_t parent_ino, const struct making *m, struct sfs_inode **out)
{
    struct sfs_inode *parent, *fresh;
    struct sfs_inode_row row;
    int rc = sfs_vfs_writable(vfs);

    if (!rc)
        rc = sfs_vfs_catalog_room(vfs, ROOM_CREATE_BYTES + m->target_len);
    if (!rc)
        rc = sfs_inode_get(vfs, parent_ino, &parent);
    if (rc)
        return rc;
    fresh = sfs_inode_alloc(vfs);
    if (!fresh) {
        sfs_inode_put(parent);
        return -ENOMEM;
    }
    struct sfs_lockset set = {.vfs = vfs, .v = {parent}, .n = 1};
    sfs_mutex_lock(&vfs->ns);
    sfs_lockset_lock(&set, S_ISDIR(m->mode) ? 1 : 0, false);
    rc = make_locked(parent, m, &row);
    sfs_lockset_unlock(&set);
    if (!rc)
        rc = sfs_inode_adopt(fresh, &row, out);
    else
        sfs_inode_free(fresh);
    sfs_mutex_unlock(&vfs->ns);
    sfs_inode_put(parent);
    sfs_vfs_kick_by_volume(vfs);
    return rc;
}

static int make_named(struct sfs_vfs *vfs, uint64_t parent, struct making *m, struct stat *st)
{
    struct sfs_inode *i;
    int rc = sfs_name_length(m->name, -EEXIST, &m->name_len);

    if (!rc)
        rc = make(vfs, parent, m, &i);
    if (rc)
        return rc;
    rc = answer(i, st);
    sfs_inode_put(i);
    return rc;
}

int sfs_vfs_mknod(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode, dev_t rdev,
                  const struct sfs_cred *cred, struct stat *st)
{
    struct making m = {.mode = mode & (S_IFMT | 07777), .rdev = rdev, .name = name, .cred = cred};

    switch (mode & S_IFMT) {
    case 0:
        m.mode |= S_IFREG;
        break;
    case S_IFREG:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
        break;
    default:
        return -EINVAL;
    }
    return make_named(vfs, parent, &m, st);
}

int sfs_vfs_mkdir(struct sfs_vfs *vfs, uint64_t parent, const char *name, mode_t mode,
                  const struct sfs_cred *cred, struct stat *st)
{
    struct making m = {.mode = (mode & 07777) | S_IFDIR, .name = name, .cred = cred};

    return make_named(vfs, parent, &m, st);
}

int sfs_vfs_symlink(struct sfs_vfs *vfs, uint64_t parent, const char *name, const char *target,
                    const struct sfs_cred *cred, struct stat *st)
{
    struct making m = {.mode = S_IFLNK | 0777,
                       .name = name,
                       .cred = cred,
                       .target = target,
                       .target_len = strnlen(target, SFS_SYMLINK_MAX + 1)};

    if (m.target_len > SFS_SYMLINK_MAX)
        return -ENAMETOOLONG;
    if (m.target_len == 0)
        return -ENOENT;
    return make_named(vfs, parent, &m, st);
}

int sfs_vfs_tmpfile(struct sfs_vfs *vfs, uint64_t parent, mode_t mode, int flags, const struct sfs_cred *cred,
                    struct stat *st, struct sfs_file **out)
{
    struct making m = {.mode = (mode & 07777) | S_IFREG, .cred = cred};
    struct sfs_inode *i;
    int rc = make(vfs, parent, &m, &i);

    if (rc)
        return rc;
    rc = answer(i, st);
    if (!rc) {
        rc = sfs_vfs_open_file(vfs, i->ino, flags, out);
        if (rc)
            sfs_vfs_forget(vfs, i->ino, 1);
    }
    if (rc)
        sfs_reap_later(i);
    sfs_inode_put(i);
    return rc;
}

int sfs_vfs_readlink(struct sfs_vfs *vfs, uint64_t ino, char *buf, size_t cap, size_t *len)
{
    struct sfs_inode *i;
    int rc = sfs_inode_get(vfs, ino, &i);

    if (rc)
        return rc;
    sfs_mutex_lock(&i->lock);
    if (!S_ISLNK(i->row.mode))
        rc = -EINVAL;
    else
        rc = sfs_inode_load_data(i);
    if (!rc && i->inline_len == 0)
        rc = i->dead ? -ENOENT : -EUCLEAN;
    if (!rc) {
        *len = i->inline_len < cap ? i->inline_len : cap;
        memcpy(buf, i->inline_data, *len);
    }
    sfs_mutex_unlock(&i->lock);
    sfs_inode_put(i);
    return rc;
}

/* --- links ---------------------------------------------------------------------------------------------- */

static int link_locked(struct sfs_inode *i, struct sfs_inode *parent, const char *name, size_t len)
{
    struct sfs_catalog *cat = i->vfs->cat;
    struct sfs_dentry_row old;
    int rc = sfs_directory_check(parent);

    if (rc)
        return rc;
    if (S_ISDIR(i->row.mode))
        return -EPERM;
    if (i->dead || (i->row.nlink == 0 && i->nopen == 0))
        return -ENOENT;
    if (i->row.nlink >= SFS_LINK_MAX)
        return -EMLINK;
    sfs_catalog_lock(cat);
    rc = sfs_catalog_dentry_get(cat, parent->ino, name, len, &old);
    if (rc == 0)
        rc = -EEXIST;
    else if (rc == -ENOENT)
        rc = sfs_catalog_dentry_insert(cat, parent->ino, name, len, i->ino, i->row.mode & S_IFMT);
    if (!rc) {
        struct sfs_time ctime = i->row.ctime;
        i->row.nlink++;
        i->row.ctime = sfs_vfs_now(i->vfs);
        rc = sfs_inode_update_now(i);
        if (rc) {
            i->row.nlink--;
            i->row.ctime = ctime;
        }
    }
    sfs_catalog_unlock(cat);
    if (!rc)
        sfs_inode_touch(parent, true);
    return rc;
}

int sfs_vfs_link(struct sfs_vfs *vfs, uint64_t ino, uint64_t parent_ino, const char *name, struct stat *st)
{
    struct sfs_inode *i = NULL, *parent = NULL;
    size_t len;
    int rc = sfs_name_length(name, -EEXIST, &len);

    if (!rc)
        rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_vfs_catalog_room(vfs, ROOM_CREATE_BYTES);
    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (!rc)
        rc = sfs_inode_get(vfs, parent_ino, &parent);
    if (!rc) {
        struct sfs_lockset set = {.vfs = vfs, .v = {i, parent}, .n = 2};
        sfs_mutex_lock(&vfs->ns);
        sfs_lockset_lock(&set, 1, false);
        rc = link_locked(i, parent, name, len);
        sfs_lockset_unlock(&set);
        sfs_mutex_unlock(&vfs->ns);
        sfs_vfs_kick_by_volume(vfs);
    }
    if (!rc)
        rc = answer(i, st);
    sfs_inode_put(parent);
    sfs_inode_put(i);
    return rc;
}

int sfs_link_drop(struct sfs_inode *i, bool *gone)
{
    struct sfs_inode_row old = i->row;
    bool last = S_ISDIR(old.mode) || old.nlink <= 1;
    int rc;

    *gone = false;
    i->row.nlink = last ? 0 : old.nlink - 1;
    i->row.ctime = sfs_vfs_now(i->vfs);
    if (last && i->nopen == 0) {
        rc = sfs_reap_small(i, gone);
        if (rc || *gone)
            goto out;
    }
    rc = sfs_inode_update_now(i);
out:
    if (rc)
        i->row = old;
    return rc;
}

void sfs_link_dropped(struct sfs_inode *i, bool gone, bool *reap)
{
    if (gone)
        sfs_inode_bury(i);
    *reap = !gone && i->row.nlink == 0 && i->nopen == 0;
}

/* Everything locked: deletes the entry of i in parent. */
static int remove_locked(struct sfs_inode *parent, struct sfs_inode *i, const char *name, size_t len,
                         bool *reap)
{
    struct sfs_catalog *cat = parent->vfs->cat;
    bool dir = S_ISDIR(i->row.mode), gone = false, empty = true;
    int rc = 0;

    sfs_catalog_lock(cat);
    if (dir)
        rc = sfs_catalog_dentry_empty(cat, i->ino, &empty);
    if (!rc && !empty)
        rc = -ENOTEMPTY;
    if (!rc)
        rc = sfs_catalog_dentry_delete(cat, parent->ino, name, len);
    if (!rc)
        rc = sfs_link_drop(i, &gone);
    if (!rc && dir) {
        parent->row.nlink--;
        rc = sfs_inode_update_now(parent);
        if (rc)
            parent->row.nlink++;
    }
    sfs_catalog_unlock(cat);
    if (rc)
        return rc;
    sfs_link_dropped(i, gone, reap);
    sfs_inode_touch(parent, true);
    return 0;
}

static int remove_entry(struct sfs_vfs *vfs, uint64_t parent_ino, const char *name, bool dir)
{
    struct sfs_inode *parent, *i = NULL;
    struct sfs_dentry_row row;
    bool reap = false;
    size_t len;
    int rc = sfs_name_length(name, !dir ? -EISDIR : strcmp(name, "..") == 0 ? -ENOTEMPTY : -EINVAL, &len);

    if (!rc)
        rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_inode_get(vfs, parent_ino, &parent);
    if (rc)
        return rc;
    sfs_mutex_lock(&vfs->ns);
    rc = sfs_entry_find(parent, name, len, &row, &i);
    if (!rc) {
        struct sfs_lockset set = {.vfs = vfs, .v = {i, parent}, .n = 2};
        sfs_lockset_lock(&set, dir ? 2 : 1, false);
        rc = sfs_directory_check(parent);
        if (!rc && dir && !S_ISDIR(i->row.mode))
            rc = -ENOTDIR;
        if (!rc && !dir && S_ISDIR(i->row.mode))
            rc = -EISDIR;
        if (!rc)
            rc = remove_locked(parent, i, name, len, &reap);
        sfs_lockset_unlock(&set);
    }
    sfs_mutex_unlock(&vfs->ns);
    if (reap)
        sfs_reap_later(i);
    sfs_inode_put(i);
    sfs_inode_put(parent);
    sfs_vfs_kick_by_volume(vfs);
    return rc;
}

int sfs_vfs_unlink(struct sfs_vfs *vfs, uint64_t parent, const char *name)
{
    return remove_entry(vfs, parent, name, false);
}

int sfs_vfs_rmdir(struct sfs_vfs *vfs, uint64_t parent, const char *name)
{
    return remove_entry(vfs, parent, name, true);
}
