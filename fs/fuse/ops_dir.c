/* Directories. They have no open state: a listing goes on after the cookie of the last entry, whatever has
 * changed since. */
#include "fs/fuse/ops.h"

#include <string.h>

#include "fs/base/buf.h"

struct listing {
    fuse_req_t req;
    struct sfs_fuse *f;
    char *buf;
    size_t used, cap;
    bool plus;
};

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool add_entry(void *ctx, const char *name, const struct stat *st, uint64_t next_cookie)
{
    struct listing *l = ctx;
    size_t left = l->cap - l->used, need;

    if (l->plus) {
        struct fuse_entry_param e;

        sfs_fuse_entry(l->f, st, &e);
        if (is_dots(name))
            e.ino = 0; /* no look-up is counted for these */
        need = fuse_add_direntry_plus(l->req, l->buf + l->used, left, name, &e, (off_t)next_cookie);
    } else {
        need = fuse_add_direntry(l->req, l->buf + l->used, left, name, st, (off_t)next_cookie);
    }
    if (need > left)
        return false;
    l->used += need;
    return true;
}

static void list(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, bool plus)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct listing l = {.req = req, .f = f, .cap = size, .plus = plus};
    struct sfs_buf *buf;
    int rc;

    buf = sfs_buf_new(size);
    if (!buf) {
        sfs_fuse_reply_rc(req, -ENOMEM);
        return;
    }
    l.buf = (char *)buf->data;
    rc = sfs_vfs_readdir(f->vfs, sfs_fuse_ino(f, node), (uint64_t)off, plus, add_entry, &l);
    /* What was read before an error is good; with readdirplus its look-ups are counted. The error comes again
     * at the next call. */
    if (rc < 0 && l.used == 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_buf(req, l.buf, l.used);
    sfs_buf_unref(buf);
}

static void op_readdir(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, node, size, off, false);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void)fi;
    list(req, node, size, off, true);
}

static void op_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    /* The first answer of this kind is the last: the kernel then opens directories by itself and caches their
     * listings. */
    if (sfs_fuse_of(req)->no_opendir)
        sfs_fuse_reply_rc(req, -ENOSYS);
    else
        fuse_reply_open(req, fi);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi)
{
    struct sfs_fuse *f = sfs_fuse_of(req);

    (void)datasync;
    (void)fi;
    sfs_fuse_reply_rc(req, sfs_vfs_fsyncdir(f->vfs, sfs_fuse_ino(f, node)));
}

void sfs_fuse_ops_dir(struct fuse_lowlevel_ops *ops)
{
    ops->readdir = op_readdir;
    ops->readdirplus = op_readdirplus;
    ops->opendir = op_opendir;
    ops->fsyncdir = op_fsyncdir;
}
