/* Extended attributes, POSIX access lists among them: the kernel checks access by those, and asks us to keep them. */
#include "fs/fuse/ops.h"

#include <linux/limits.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/base/buf.h"

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

/* Drops the names that only the administrator may see. Returns the new length. */
static size_t hide_trusted(char *names, size_t len)
{
    size_t kept = 0, n;

    for (size_t k = 0; k < len; k += n) {
        n = strlen(names + k) + 1;
        if (strncmp(names + k, "trusted.", strlen("trusted.")) == 0)
            continue;
        memmove(names + kept, names + k, n);
        kept += n;
    }
    return kept;
}

static void op_listxattr(fuse_req_t req, fuse_ino_t node, size_t size)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_buf *buf = sfs_buf_new(XATTR_LIST_MAX);
    size_t len = 0;
    int rc;

    if (!buf) {
        sfs_fuse_reply_rc(req, -ENOMEM);
        return;
    }
    rc = sfs_vfs_listxattr(f->vfs, sfs_fuse_ino(f, node), (char *)buf->data, XATTR_LIST_MAX, &len);
    if (rc == -ERANGE)
        rc = -E2BIG; /* more than Linux lets a list be */
    if (!rc && fuse_req_ctx(req)->uid != 0)
        len = hide_trusted((char *)buf->data, len);
    if (!rc && size && len > size)
        rc = -ERANGE;
    reply_value(req, rc, buf, len, size);
    sfs_buf_unref(buf);
}

static void op_setxattr(fuse_req_t req, fuse_ino_t node, const char *name, const char *value, size_t size,
                        int flags)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_cred cred;

    sfs_fuse_cred(req, &cred);
    sfs_fuse_reply_rc(req, sfs_vfs_setxattr(f->vfs, sfs_fuse_ino(f, node), name, value, size, flags, &cred));
}

static void op_removexattr(fuse_req_t req, fuse_ino_t node, const char *name)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    sfs_fuse_reply_rc(req, sfs_vfs_removexattr(f->vfs, sfs_fuse_ino(f, node), name));
}

void sfs_fuse_ops_xattr(struct fuse_lowlevel_ops *ops)
{
    ops->getxattr = op_getxattr;
    ops->listxattr = op_listxattr;
    ops->setxattr = op_setxattr;
    ops->removexattr = op_removexattr;
}
