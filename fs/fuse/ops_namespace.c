/* Names and attributes. */
#include "fs/fuse/ops.h"

#include <limits.h>
#include <string.h>

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct fuse_entry_param e;
    struct stat st;
    int rc;

    rc = sfs_vfs_lookup(f->vfs, sfs_fuse_ino(f, parent), name, &st);
    /* "." and ".." come from NFS handles only: there ENOENT means a stale handle, which isn't to be
     * remembered as a name. */
    if (rc == -ENOENT && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
        sfs_fuse_entry(f, NULL, &e);
        fuse_reply_entry(req, &e);
        return;
    }
    sfs_fuse_reply_entry(req, rc, &st);
}

static void op_forget(fuse_req_t req, fuse_ino_t node, uint64_t n)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    if (node != FUSE_ROOT_ID)
        sfs_vfs_forget(f->vfs, node, n);
    fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    for (size_t i = 0; i < count; i++)
        if (forgets[i].ino != FUSE_ROOT_ID)
            sfs_vfs_forget(f->vfs, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void reply_attr(fuse_req_t req, int rc, const struct stat *st)
{
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_attr(req, st, sfs_fuse_attr_timeout(sfs_fuse_of(req), st));
}

static void op_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct stat st;

    (void)fi;
    reply_attr(req, sfs_vfs_getattr(f->vfs, sfs_fuse_ino(f, node), &st), &st);
}

static unsigned decode_set(int to_set)
{
    static const struct {
        int fuse;
        unsigned vfs;
    } bits[] = {
        {FUSE_SET_ATTR_MODE, SFS_SET_MODE},
        {FUSE_SET_ATTR_UID, SFS_SET_UID},
        {FUSE_SET_ATTR_GID, SFS_SET_GID},
        {FUSE_SET_ATTR_SIZE, SFS_SET_SIZE},
        {FUSE_SET_ATTR_ATIME, SFS_SET_ATIME},
        {FUSE_SET_ATTR_MTIME, SFS_SET_MTIME},
        {FUSE_SET_ATTR_ATIME_NOW, SFS_SET_ATIME_NOW},
        {FUSE_SET_ATTR_MTIME_NOW, SFS_SET_MTIME_NOW},
        {FUSE_SET_ATTR_CTIME, SFS_SET_CTIME},
    };
    unsigned set = 0;

    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
        if (to_set & bits[i].fuse)
            set |= bits[i].vfs;
    /* The kernel sends a time along with "now": its own idea of now. */
    if (set & SFS_SET_ATIME_NOW)
        set &= ~SFS_SET_ATIME;
    if (set & SFS_SET_MTIME_NOW)
        set &= ~SFS_SET_MTIME;
    if (sfs_wire_kills_set_id())
        set |= SFS_SET_KILLPRIV;
    return set;
}

static void op_setattr(fuse_req_t req, fuse_ino_t node, struct stat *attr, int to_set,
                       struct fuse_file_info *fi)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;
    struct stat st;

    (void)fi;
    sfs_fuse_cred(req, &cred);
    reply_attr(req, sfs_vfs_setattr(f->vfs, sfs_fuse_ino(f, node), attr, decode_set(to_set), &cred, &st),
               &st);
}

static void op_readlink(fuse_req_t req, fuse_ino_t node)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    char target[PATH_MAX + 1];
    size_t len;
    int rc;

    rc = sfs_vfs_readlink(f->vfs, sfs_fuse_ino(f, node), target, PATH_MAX, &len);
    if (rc < 0) {
        sfs_fuse_reply_rc(req, rc);
        return;
    }
    target[len] = '\0';
    fuse_reply_readlink(req, target);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;
    struct stat st;

    sfs_fuse_cred(req, &cred);
    sfs_fuse_reply_entry(req, sfs_vfs_mknod(f->vfs, sfs_fuse_ino(f, parent), name, mode, rdev, &cred, &st),
                         &st);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;
    struct stat st;

    sfs_fuse_cred(req, &cred);
    sfs_fuse_reply_entry(req, sfs_vfs_mkdir(f->vfs, sfs_fuse_ino(f, parent), name, mode, &cred, &st), &st);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;
    struct stat st;

    sfs_fuse_cred(req, &cred);
    sfs_fuse_reply_entry(req, sfs_vfs_symlink(f->vfs, sfs_fuse_ino(f, parent), name, target, &cred, &st),
                         &st);
}

static void op_link(fuse_req_t req, fuse_ino_t node, fuse_ino_t newparent, const char *newname)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct stat st;

    sfs_fuse_reply_entry(
        req, sfs_vfs_link(f->vfs, sfs_fuse_ino(f, node), sfs_fuse_ino(f, newparent), newname, &st), &st);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    sfs_fuse_reply_rc(req, sfs_vfs_unlink(f->vfs, sfs_fuse_ino(f, parent), name));
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    sfs_fuse_reply_rc(req, sfs_vfs_rmdir(f->vfs, sfs_fuse_ino(f, parent), name));
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
                      const char *newname, unsigned flags)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    sfs_fuse_reply_rc(req, sfs_vfs_rename(f->vfs, sfs_fuse_ino(f, parent), name, sfs_fuse_ino(f, newparent),
                                          newname, flags));
}

void sfs_fuse_ops_namespace(struct fuse_lowlevel_ops *ops)
{
    ops->lookup = op_lookup;
    ops->forget = op_forget;
    ops->forget_multi = op_forget_multi;
    ops->getattr = op_getattr;
    ops->setattr = op_setattr;
    ops->readlink = op_readlink;
    ops->mknod = op_mknod;
    ops->mkdir = op_mkdir;
    ops->symlink = op_symlink;
    ops->link = op_link;
    ops->unlink = op_unlink;
    ops->rmdir = op_rmdir;
    ops->rename = op_rename;
}
