#include "fs/fuse/ops.h"

#include <stdlib.h>

#include "fs/base/log.h"

/* Nothing changes behind the kernel's back: names and attributes stay valid for as long as it likes to keep
 * them, absent names too. The one exception is a file's st_blocks, which is settled only when its data has
 * been written out: what changed lately is asked for again soon. */
#define NAME_TIMEOUT_S 3600.0
#define ATTR_TIMEOUT_S 3600.0
#define FRESH_ATTR_TIMEOUT_S 10.0
#define FRESH_S 15

/* Asks /proc: a request bears only the first group. */
static bool in_group(void *ctx, gid_t gid)
{
    gid_t few[64], *groups = few;
    int cap = (int)(sizeof(few) / sizeof(few[0])), n = fuse_req_getgroups(ctx, cap, few);
    bool found = false;

    if (n > cap) {
        groups = calloc((size_t)n, sizeof(*groups));
        if (!groups)
            return false;
        cap = n;
        n = fuse_req_getgroups(ctx, cap, groups);
    }
    for (int k = 0; k < n && k < cap && !found; k++)
        found = groups[k] == gid;
    if (groups != few)
        free(groups);
    return found;
}

void sfs_fuse_cred(fuse_req_t req, struct sfs_cred *out)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);

    *out = (struct sfs_cred){
        .uid = ctx->uid,
        .gid = ctx->gid,
        .umask = ctx->umask,
        .privileged = ctx->uid == 0,
        .in_group = in_group,
        .ctx = req,
    };
}

double sfs_fuse_attr_timeout(struct sfs_fuse *f, const struct stat *st)
{
    /* A write drops them, and the kernel does not look at the mode again by itself. */
    if (S_ISREG(st->st_mode) && (st->st_mode & (S_ISUID | S_ISGID)))
        return 0;
    if (S_ISREG(st->st_mode) && st->st_ctim.tv_sec > sfs_env_wall(f->env).tv_sec - FRESH_S)
        return FRESH_ATTR_TIMEOUT_S;
    return ATTR_TIMEOUT_S;
}

/* st NULL: the name is known to be absent. */
void sfs_fuse_entry(struct sfs_fuse *f, const struct stat *st, struct fuse_entry_param *out)
{
    *out = (struct fuse_entry_param){.entry_timeout = NAME_TIMEOUT_S};
    if (!st)
        return;
    out->ino = st->st_ino == f->root ? FUSE_ROOT_ID : st->st_ino;
    out->attr = *st;
    out->attr_timeout = sfs_fuse_attr_timeout(f, st);
}

void sfs_fuse_reply_entry(fuse_req_t req, int rc, const struct stat *st)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct fuse_entry_param e;

    if (rc < 0) {
        sfs_fuse_reply_rc(req, rc);
        return;
    }
    sfs_fuse_entry(f, st, &e);
    /* The caller was interrupted: the kernel does not know of the look-up. */
    if (fuse_reply_entry(req, &e) == -ENOENT)
        sfs_vfs_forget(f->vfs, st->st_ino, 1);
}

void sfs_fuse_reply_rc(fuse_req_t req, int rc)
{
    SFS_ASSERT(rc <= 0);
    fuse_reply_err(req, -rc);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    struct sfs_fuse *f = userdata;
    const unsigned wanted = FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_PARALLEL_DIROPS |
                            FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
                            FUSE_CAP_CACHE_SYMLINKS |
                            FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK;

    /* DONT_MASK: whether the umask counts depends on the directory's default access list.
     * Left off, although libfuse turns some of them on:
     * - AUTO_INVAL_DATA: would drop cached pages after every write of our own, since the time of change has moved
     * - ATOMIC_O_TRUNC, HANDLE_KILLPRIV: the kernel then leaves it to us to drop set-id bits, and does not say
     *   whether the writer may keep them. It does with KILLPRIV_V2, which wire.c asks for
     * - WRITEBACK_CACHE: times and sizes would be the kernel's; fsync, not close, would be where errors show
     * - POSIX_LOCKS, FLOCK_LOCKS (no operation given): locks stay in the kernel, since there is one */
    conn->want = conn->capable & wanted;
    conn->max_background = 256;
    conn->congestion_threshold = 192;
    f->no_opendir = (conn->capable & FUSE_CAP_NO_OPENDIR_SUPPORT) != 0;
    sfs_log(SFS_LOG_DEBUG, "%s: FUSE %u.%u, capabilities 0x%x of 0x%x, max_write %u", f->dir,
            conn->proto_major, conn->proto_minor, conn->want, conn->capable, conn->max_write);

    sfs_mutex_lock(&f->lock);
    f->ready = true;
    sfs_cond_broadcast(&f->changed);
    sfs_mutex_unlock(&f->lock);
}

static void op_statfs(fuse_req_t req, fuse_ino_t node)
{
    struct sfs_fuse *f = sfs_fuse_of(req);
    struct sfs_vfs_statfs s;
    struct statvfs out = {0};
    int rc;

    (void)node;
    rc = sfs_vfs_statfs(f->vfs, &s);
    if (rc < 0) {
        sfs_fuse_reply_rc(req, rc);
        return;
    }
    out.f_bsize = s.block_bytes;
    out.f_frsize = s.block_bytes;
    out.f_blocks = s.blocks;
    out.f_bfree = s.bfree;
    out.f_bavail = s.bavail;
    out.f_files = s.files;
    out.f_ffree = s.ffree;
    out.f_favail = s.ffree;
    out.f_namemax = s.namemax;
    fuse_reply_statfs(req, &out);
}

void sfs_fuse_ops_init(struct fuse_lowlevel_ops *ops)
{
    ops->init = op_init;
    ops->statfs = op_statfs;
    sfs_fuse_ops_namespace(ops);
    sfs_fuse_ops_file(ops);
    sfs_fuse_ops_dir(ops);
    sfs_fuse_ops_xattr(ops);
}
