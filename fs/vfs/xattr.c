/* Extended attributes: straight in the catalog. A flag of the inode says that there may be some, so that
 * asking costs nothing for most. */
#include "fs/vfs/vfs_impl.h"

#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#define ROOM_ROW_BYTES 512u

static int check_name(const char *name)
{
    static const char *const kept[] = {"user.", "trusted.", "security."};
    size_t len = strnlen(name, XATTR_NAME_MAX + 1);

    if (len == 0 || len > XATTR_NAME_MAX)
        return -ERANGE;
    for (unsigned k = 0; k < sizeof(kept) / sizeof(kept[0]); k++) {
        size_t n = strlen(kept[k]);
        if (strncmp(name, kept[k], n) == 0)
            return name[n] ? 0 : -EINVAL;
    }
    return -EOPNOTSUPP; /* system.*: access lists would be kept and not obeyed */
}

static int set_locked(struct sfs_inode *i, const char *name, const void *value, size_t len, int flags)
{
    struct sfs_catalog *cat = i->vfs->cat;
    int rc;

    if (i->dead)
        return -ENOENT;
    sfs_catalog_lock(cat);
    if (!(i->row.flags & SFS_INODE_HAS_XATTR) && !(flags & XATTR_REPLACE)) {
        /* The flag is never behind the attributes. */
        i->row.flags |= SFS_INODE_HAS_XATTR;
        rc = sfs_inode_update_now(i);
        if (rc)
            i->row.flags &= ~SFS_INODE_HAS_XATTR;
    } else {
        rc = i->row.flags & SFS_INODE_HAS_XATTR ? 0 : -ENODATA;
    }
    if (!rc)
        rc =
            sfs_catalog_xattr_set(cat, i->ino, name, value, len, flags & XATTR_CREATE, flags & XATTR_REPLACE);
    sfs_catalog_unlock(cat);
    if (!rc)
        sfs_inode_touch(i, false);
    return rc;
}

int sfs_vfs_setxattr(struct sfs_vfs *vfs, uint64_t ino, const char *name, const void *value, size_t len,
                     int flags, const struct sfs_cred *cred)
{
    struct sfs_inode *i;
    int rc = check_name(name);

    (void)cred; /* who may is the kernel's to say */
    if (rc)
        return rc;
    if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) || flags == (XATTR_CREATE | XATTR_REPLACE))
        return -EINVAL;
    if (len > XATTR_SIZE_MAX)
        return -E2BIG;
    rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_vfs_catalog_room(vfs, len + ROOM_ROW_BYTES);
    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    struct sfs_lockset set = {.vfs = vfs, .v = {i}, .n = 1};
    sfs_lockset_lock(&set, 1, false);
    rc = set_locked(i, name, value, len, flags);
    sfs_lockset_unlock(&set);
    sfs_inode_put(i);
    sfs_vfs_kick_by_volume(vfs);
    return rc;
}

static bool has_any(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->lock);
    bool any = !i->dead && (i->row.flags & SFS_INODE_HAS_XATTR);
    sfs_mutex_unlock(&i->lock);
    return any;
}

int sfs_vfs_getxattr(struct sfs_vfs *vfs, uint64_t ino, const char *name, void *buf, size_t cap, size_t *len)
{
    struct sfs_inode *i;
    int rc = check_name(name);

    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    if (has_any(i)) {
        sfs_catalog_lock(vfs->cat);
        rc = sfs_catalog_xattr_get(vfs->cat, ino, name, buf, cap, len);
        sfs_catalog_unlock(vfs->cat);
    } else {
        rc = -ENODATA;
    }
    sfs_inode_put(i);
    return rc;
}

int sfs_vfs_listxattr(struct sfs_vfs *vfs, uint64_t ino, char *buf, size_t cap, size_t *len)
{
    struct sfs_inode *i;
    int rc = sfs_inode_get(vfs, ino, &i);

    if (rc)
        return rc;
    *len = 0;
    if (has_any(i)) {
        sfs_catalog_lock(vfs->cat);
        rc = sfs_catalog_xattr_list(vfs->cat, ino, buf, cap, len);
        sfs_catalog_unlock(vfs->cat);
    }
    sfs_inode_put(i);
    return rc;
}

int sfs_vfs_removexattr(struct sfs_vfs *vfs, uint64_t ino, const char *name)
{
    struct sfs_inode *i;
    int rc = check_name(name);

    if (!rc)
        rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    sfs_mutex_lock(&i->lock);
    if (i->dead) {
        rc = -ENOENT;
    } else if (!(i->row.flags & SFS_INODE_HAS_XATTR)) {
        rc = -ENODATA;
    } else {
        sfs_catalog_lock(vfs->cat);
        rc = sfs_catalog_xattr_delete(vfs->cat, ino, name);
        sfs_catalog_unlock(vfs->cat);
    }
    if (!rc)
        sfs_inode_touch(i, false);
    sfs_mutex_unlock(&i->lock);
    sfs_inode_put(i);
    return rc;
}
