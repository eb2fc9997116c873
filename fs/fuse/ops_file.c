/* Open files and their data. */
#include "fs/fuse/ops.h"

#include <fcntl.h>
#include <stdlib.h>

#include "fs/base/buf.h"

/* Most bytes that one copy_file_range request may ask for: the reply counts in 32 bits. */
#define COPY_MAX (1u << 30)

static void set_open(struct fuse_file_info *fi, struct sfs_file *file)
{
    fi->fh = (uintptr_t)file;
    /* The kernel is the only one who changes files: what it has cached is right. */
    fi->keep_cache = 1;
    /* close(2) reports no write-back errors, as on other local filesystems: fsync(2) does. It saves a round trip a file. */
    fi->noflush = 1;
}

static void op_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_file *file;
    int rc;

    rc = sfs_vfs_open_file(f->vfs, sfs_fuse_ino(f, node), fi->flags, &file);
    if (rc < 0) {
        sfs_fuse_reply_rc(req, rc);
        return;
    }
    set_open(fi, file);
    if (fuse_reply_open(req, fi) == -ENOENT)
        sfs_vfs_release(file); /* interrupted: no release will come */
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct fuse_entry_param e;
    struct sfs_file *file;
    struct sfs_cred cred;
    struct stat st;
    int rc;

    sfs_fuse_cred(req, &cred);
    rc = sfs_wire_is_tmpfile()
             ? sfs_vfs_tmpfile(f->vfs, sfs_fuse_ino(f, parent), mode, fi->flags, &cred, &st, &file)
             : sfs_vfs_create(f->vfs, sfs_fuse_ino(f, parent), name, mode, fi->flags, &cred, &st, &file);
    if (rc < 0) {
        sfs_fuse_reply_rc(req, rc);
        return;
    }
    set_open(fi, file);
    sfs_fuse_entry(f, &st, &e);
    if (fuse_reply_create(req, &e, fi) == -ENOENT) {
        sfs_vfs_release(file);
        sfs_vfs_forget(f->vfs, st.st_ino, 1);
    }
}

static void op_read(fuse_req_t req, fuse_ino_t node, size_t size, off_t off, struct fuse_file_info *fi)
{
    struct sfs_buf *buf;
    size_t n;
    int rc;

    (void)node;
    buf = sfs_buf_new(size);
    if (!buf) {
        sfs_fuse_reply_rc(req, -ENOMEM);
        return;
    }
    rc = sfs_vfs_read(sfs_fuse_file(fi), buf->data, size, (uint64_t)off, &n);
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_buf(req, (const char *)buf->data, n);
    sfs_buf_unref(buf);
}

static void op_write(fuse_req_t req, fuse_ino_t node, const char *data, size_t size, off_t off,
                     struct fuse_file_info *fi)
{
    /* Pages of a shared mapping know their place, whatever file they come through. */
    bool append = !fi->writepage && (fi->flags & O_APPEND);
    size_t n;
    int rc;

    (void)node;
    rc = sfs_vfs_write(sfs_fuse_file(fi), data, size, (uint64_t)off, append, sfs_wire_kills_set_id(), &n);
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_write(req, n);
}

static void op_flush(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    sfs_fuse_reply_rc(req, sfs_vfs_flush(sfs_fuse_file(fi)));
}

static void op_fsync(fuse_req_t req, fuse_ino_t node, int datasync, struct fuse_file_info *fi)
{
    (void)node;
    sfs_fuse_reply_rc(req, sfs_vfs_fsync(sfs_fuse_file(fi), datasync != 0));
}

static void op_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    (void)node;
    sfs_vfs_release(sfs_fuse_file(fi));
    sfs_fuse_reply_rc(req, 0);
}

/* For the two operations with which the kernel does not say whether set-id bits may stay: root's may. */
static int drop_privileges(fuse_req_t req, struct sfs_file *file)
{
    return sfs_vfs_drop_privileges(file, fuse_req_ctx(req)->uid != 0);
}

static void op_fallocate(fuse_req_t req, fuse_ino_t node, int mode, off_t off, off_t len,
                         struct fuse_file_info *fi)
{
    int rc;

    (void)node;
    rc = off < 0 || len <= 0 ? -EINVAL : drop_privileges(req, sfs_fuse_file(fi));
    if (rc == 0)
        rc = sfs_vfs_fallocate(sfs_fuse_file(fi), mode, (uint64_t)off, (uint64_t)len);
    sfs_fuse_reply_rc(req, rc);
}

static void op_lseek(fuse_req_t req, fuse_ino_t node, off_t off, int whence, struct fuse_file_info *fi)
{
    uint64_t found;
    int rc;

    (void)node;
    rc = off < 0 ? -ENXIO : sfs_vfs_lseek(sfs_fuse_file(fi), (uint64_t)off, whence, &found);
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_lseek(req, (off_t)found);
}

static void op_copy_file_range(fuse_req_t req, fuse_ino_t node_in, off_t off_in, struct fuse_file_info *fi_in,
                               fuse_ino_t node_out, off_t off_out, struct fuse_file_info *fi_out, size_t len,
                               int flags)
{
    size_t n;
    int rc;

    (void)node_in;
    (void)node_out;
    if (off_in < 0 || off_out < 0 || flags != 0) {
        sfs_fuse_reply_rc(req, -EINVAL);
        return;
    }
    if (len > COPY_MAX)
        len = COPY_MAX;
    rc = drop_privileges(req, sfs_fuse_file(fi_out));
    if (rc == 0)
        rc = sfs_vfs_copy_range(sfs_fuse_file(fi_in), (uint64_t)off_in, sfs_fuse_file(fi_out),
                                (uint64_t)off_out, len, &n);
    if (rc < 0)
        sfs_fuse_reply_rc(req, rc);
    else
        fuse_reply_write(req, n);
}

void sfs_fuse_ops_file(struct fuse_lowlevel_ops *ops)
{
    ops->open = op_open;
    ops->create = op_create;
    ops->read = op_read;
    ops->write = op_write;
    ops->flush = op_flush;
    ops->fsync = op_fsync;
    ops->release = op_release;
    ops->fallocate = op_fallocate;
    ops->lseek = op_lseek;
    ops->copy_file_range = op_copy_file_range;
}
