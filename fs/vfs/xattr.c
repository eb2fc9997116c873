/* Extended attributes: straight in the catalog. A flag of the inode says that there may be some, so that
 * asking costs nothing for most.
 *
 * Access lists are attributes that go together with the mode: whoever changes one changes the other in the same
 * transaction, so that no crash comes between. */
#include "fs/vfs/names.h"

#include <linux/limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#define ROOM_ROW_BYTES 512u

static bool is_acl(const char *name)
{
    return strcmp(name, SFS_ACL_ACCESS) == 0 || strcmp(name, SFS_ACL_DEFAULT) == 0;
}

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
    return is_acl(name) ? 0 : -EOPNOTSUPP;
}

/* The inode set->v[0], locked, with room for a value of len bytes; until end_setting. */
static int begin_setting(struct sfs_vfs *vfs, uint64_t ino, size_t len, struct sfs_lockset *set)
{
    struct sfs_inode *i;
    int rc = sfs_vfs_writable(vfs);

    if (!rc)
        rc = sfs_vfs_catalog_room(vfs, len + ROOM_ROW_BYTES);
    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    *set = (struct sfs_lockset){.vfs = vfs, .v = {i}, .n = 1};
    sfs_lockset_lock(set, 1, false);
    return 0;
}

static void end_setting(struct sfs_lockset *set)
{
    sfs_lockset_unlock(set);
    sfs_inode_put(set->v[0]);
    sfs_vfs_kick_by_volume(set->vfs);
}

static int set_locked(struct sfs_inode *i, const char *name, const void *value, size_t len, int flags)
{
    struct sfs_catalog *cat = i->vfs->cat;
    int rc;

    if (i->dead)
        return -ENOENT;
    i->no_capability = false; /* it may be that */
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

/* --- access lists --------------------------------------------------------------------------------------- */

/* Catalog locked: the list is stored; len 0: there is none any more. */
static int put_acl(struct sfs_inode *i, const char *name, const void *acl, size_t len)
{
    struct sfs_catalog *cat = i->vfs->cat;
    int rc;

    if (len)
        return sfs_catalog_xattr_set(cat, i->ino, name, acl, len, false, false);
    rc = i->row.flags & SFS_INODE_HAS_XATTR ? sfs_catalog_xattr_delete(cat, i->ino, name) : 0;
    return rc == -ENODATA ? 0 : rc;
}

bool sfs_cred_in_group(const struct sfs_cred *cred, gid_t gid)
{
    return cred->privileged || cred->gid == gid || (cred->in_group && cred->in_group(cred->ctx, gid));
}

/* Lock held, and the inode in no batch. cred NULL: removal. */
static int set_acl_locked(struct sfs_inode *i, const char *name, const void *acl, size_t len,
                          const struct sfs_cred *cred)
{
    struct sfs_inode_row old = i->row;
    bool minimal = false;
    int rc;

    if (i->dead)
        return -ENOENT;
    if (S_ISLNK(old.mode))
        return -EOPNOTSUPP;
    if (strcmp(name, SFS_ACL_DEFAULT) == 0) {
        if (!S_ISDIR(old.mode))
            return len ? -EACCES : 0;
    } else if (len) {
        i->row.mode = (old.mode & ~(uint32_t)0777) | sfs_acl_mode(acl, len, &minimal);
        if (!sfs_cred_in_group(cred, old.gid))
            i->row.mode &= ~(uint32_t)S_ISGID;
        if (minimal)
            len = 0; /* the mode says it all */
    }
    if (len)
        i->row.flags |= SFS_INODE_HAS_XATTR;
    i->row.ctime = sfs_vfs_now(i->vfs);
    sfs_catalog_lock(i->vfs->cat);
    rc = sfs_inode_update_now(i);
    if (!rc)
        rc = put_acl(i, name, acl, len);
    sfs_catalog_unlock(i->vfs->cat);
    if (rc)
        i->row = old;
    return rc;
}

static int set_acl(struct sfs_vfs *vfs, uint64_t ino, const char *name, const void *acl, size_t len,
                   const struct sfs_cred *cred)
{
    struct sfs_lockset set;
    int rc = sfs_acl_check(acl, len);

    if (rc == -ENODATA)
        len = 0;
    else if (rc)
        return rc;
    rc = begin_setting(vfs, ino, len, &set);
    if (rc)
        return rc;
    rc = set_acl_locked(set.v[0], name, acl, len, cred);
    end_setting(&set);
    return rc;
}

/* Lock held: the inode's list of that name, into SFS_ACL_MAX_BYTES at acl. *len 0: it has none. */
static int get_acl(struct sfs_inode *i, const char *name, void *acl, size_t *len)
{
    int rc = -ENODATA;

    *len = 0;
    if (i->row.flags & SFS_INODE_HAS_XATTR) {
        sfs_catalog_lock(i->vfs->cat);
        rc = sfs_catalog_xattr_get(i->vfs->cat, i->ino, name, acl, SFS_ACL_MAX_BYTES, len);
        sfs_catalog_unlock(i->vfs->cat);
    }
    if (rc == -ENODATA) {
        *len = 0;
        return 0;
    }
    if (rc == -ERANGE || (!rc && sfs_acl_check(acl, *len)))
        return -EUCLEAN;
    return rc;
}

int sfs_acl_follow_mode(struct sfs_inode *i)
{
    uint8_t acl[SFS_ACL_MAX_BYTES];
    size_t len;
    int rc = S_ISLNK(i->row.mode) ? 0 : get_acl(i, SFS_ACL_ACCESS, acl, &len);

    if (rc || S_ISLNK(i->row.mode))
        return rc;
    if (len)
        sfs_acl_chmod(acl, len, i->row.mode);
    sfs_catalog_lock(i->vfs->cat);
    rc = sfs_inode_update_now(i);
    if (!rc && len)
        rc = put_acl(i, SFS_ACL_ACCESS, acl, len);
    sfs_catalog_unlock(i->vfs->cat);
    return rc;
}

int sfs_inherited_load(struct sfs_inode *parent, struct sfs_inherited **out)
{
    struct sfs_inherited *h;
    int rc;

    *out = NULL;
    if (!(parent->row.flags & SFS_INODE_HAS_XATTR))
        return 0;
    h = calloc(1, sizeof(*h));
    if (!h)
        return -ENOMEM;
    rc = get_acl(parent, SFS_ACL_DEFAULT, h->given, &h->len);
    if (rc || h->len == 0) {
        free(h);
        return rc;
    }
    memcpy(h->own, h->given, h->len);
    *out = h;
    return 0;
}

void sfs_inherited_apply(struct sfs_inherited *h, struct sfs_inode_row *row)
{
    mode_t mode = row->mode;

    h->has_own = sfs_acl_inherit(h->own, h->len, &mode);
    row->mode = mode;
    if (h->has_own || S_ISDIR(mode))
        row->flags |= SFS_INODE_HAS_XATTR;
}

int sfs_inherited_store(struct sfs_catalog *cat, const struct sfs_inherited *h, const struct sfs_inode_row *row)
{
    int rc = 0;

    if (h->has_own)
        rc = sfs_catalog_xattr_set(cat, row->ino, SFS_ACL_ACCESS, h->own, h->len, false, false);
    if (!rc && S_ISDIR(row->mode))
        rc = sfs_catalog_xattr_set(cat, row->ino, SFS_ACL_DEFAULT, h->given, h->len, false, false);
    return rc;
}

/* --- the calls ------------------------------------------------------------------------------------------ */

int sfs_vfs_setxattr(struct sfs_vfs *vfs, uint64_t ino, const char *name, const void *value, size_t len,
                     int flags, const struct sfs_cred *cred)
{
    struct sfs_lockset set;
    int rc = check_name(name);

    if (rc)
        return rc;
    if (is_acl(name))
        return set_acl(vfs, ino, name, value, len, cred);
    if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) || flags == (XATTR_CREATE | XATTR_REPLACE))
        return -EINVAL;
    if (len > XATTR_SIZE_MAX)
        return -E2BIG;
    rc = begin_setting(vfs, ino, len, &set);
    if (rc)
        return rc;
    rc = set_locked(set.v[0], name, value, len, flags);
    end_setting(&set);
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

    if (!rc && is_acl(name))
        return set_acl(vfs, ino, name, NULL, 0, NULL);
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
