/* Extended attributes.
 *
 * POSIX ACLs (system.posix_acl_*) are refused: the kernel would store them through us but enforce them only
 * if it was told that this file system keeps mode and ACL in step, and an ACL that is kept but not enforced
 * is worse than none. */
#include "fs/fuse/ops.h"

#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/buf.h"

static bool refused(const char *name)
{
    return strncmp(name, "system.posix_acl_", strlen("system.posix_acl_")) == 0;
}

/* Replies to getxattr and listxattr alike: size 0 asks for the length only. */
static void reply_value(fuse_req_t req, int rc, const struct sfs_buf *buf, size_t len, size_t size)
{
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else if (size == 0)
        fuse_reply_xattr(req, len);
    else
        fuse_reply_buf(req, (const char *)buf->data, len);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t node, const char *name, size_t size)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_buf *buf = NULL;
    size_t len = 0;
    int rc;

    if (refused(name)) {
        sfs_fuse_reply_rc(req, -EOPNOTSUPP);
        return;
    }
    if (size > XATTR_SIZE_MAX)
        size = XATTR_SIZE_MAX;
    if (size > 0) {
        buf = sfs_buf_new(size);
        if (!buf) {
            sfs_fuse_reply_rc(req, -ENOMEM);
            return;
        }
    }
    rc = sfs_vfs_getxattr(f->vfs, sfs_fuse_ino(f, node), name, buf ? buf->data : NULL, size, &len);
    reply_value(req, rc, buf, len, size);
    sfs_buf_unref(buf);
}

static void op_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_buf *buf = NULL;
    size_t len = 0;
    int rc;

    if (size > XATTR_LIST_MAX)
        size = XATTR_LIST_MAX;
    if (size > 0) {
        buf = sfs_buf_new(size);
        if (!buf) {
            sfs_fuse_reply_rc(req, -ENOMEM);
            return;
        }
    }
    rc = sfs_vfs_listxattr(f->vfs, sfs_fuse_ino(f, node), buf ? (char *)buf->data : NULL, size, &len);
    reply_value(req, rc, buf, len, size);
    sfs_buf_unref(buf);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
                        int flags)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;

    if (refused(name)) {
        sfs_fuse_reply_rc(req, -EOPNOTSUPP);
        return;
    }
    sfs_fuse_cred(req, &cred);
    sfs_fuse_reply_rc(req, sfs_vfs_setxattr(f->vfs, sfs_fuse_ino(f, node), name, value, size, flags, &cred));
}

static void op_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    if (refused(name)) {
        sfs_fuse_reply_rc(req, -EOPNOTSUPP);
        return;
    }
    sfs_fuse_reply_rc(req, sfs_vfs_removexattr(f->vfs, sfs_fuse_ino(f, node), name));
}

void sfs_fuse_ops_xattr(struct fuse_lowlevel_ops *ops)
{
    ops->getxattr = op_getxattr;
    ops->listxattr = op_listxattr;
    ops->setxattr = op_setxattr;
    ops->removexattr = op_removexattr;
}
