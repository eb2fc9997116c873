/* Inside fs/fuse only: what the operations share. An operation decodes, makes one call down, and replies; no
 * lock is held across a reply.
 *
 * Node ids are inode numbers, except that FUSE names the root 1. They are never reused, so that the
 * generation is 0 throughout and NFS handles survive a restart. st_ino is the vfs's number everywhere, the
 * root's included. */
#ifndef SFS_FUSE_OPS_H
#define SFS_FUSE_OPS_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "fs/base/env.h"
#include "fs/fuse/fuse.h"
#include "fs/fuse/wire.h"

struct sfs_fuse {
    struct sfs_env *env;
    struct sfs_vfs *vfs;
    uint64_t root; /* of the vfs */
    struct fuse_session *session;
    char *dir;
    struct sfs_wire wire;
    bool no_opendir; /* set once by init: the kernel opens directories by itself */

    struct sfs_mutex lock; /* SFS_RANK_LEAF; guards what follows */
    struct sfs_cond changed;
    bool running, ready,
        ended;             /* sfs_fuse_run was called; INIT was answered; sfs_fuse_run is about to return */
    bool stopping;         /* sfs_fuse_stop was called */
    bool detached;         /* unmounted lazily: the directory isn't ours any more */
    pthread_t loop_thread; /* valid while running && !ended */
};

/* The open file behind fi->fh. */
static inline struct sfs_file *sfs_fuse_file(const struct fuse_file_info *fi)
{
    return (struct sfs_file *)(uintptr_t)fi->fh;
}

static inline struct sfs_fuse *sfs_fuse_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static inline uint64_t sfs_fuse_ino(const struct sfs_fuse *f, fuse_ino_t node)
{
    return node == FUSE_ROOT_ID ? f->root : node;
}

void sfs_fuse_cred(fuse_req_t req, struct sfs_cred *out);
/* How long the kernel may trust attributes, seconds. */
double sfs_fuse_attr_timeout(struct sfs_fuse *f, const struct stat *st);
void sfs_fuse_entry(struct sfs_fuse *f, const struct stat *st, struct fuse_entry_param *out);
/* Replies with the entry when rc is 0 (its look-up has been counted), else with the error. */
void sfs_fuse_reply_entry(fuse_req_t req, int rc, const struct stat *st);
/* 0 or -errno to the kernel. */
void sfs_fuse_reply_rc(fuse_req_t req, int rc);

/* Each file of operations fills in its own. */
void sfs_fuse_ops_namespace(struct fuse_lowlevel_ops *ops);
void sfs_fuse_ops_file(struct fuse_lowlevel_ops *ops);
void sfs_fuse_ops_dir(struct fuse_lowlevel_ops *ops);
void sfs_fuse_ops_xattr(struct fuse_lowlevel_ops *ops);
void sfs_fuse_ops_init(struct fuse_lowlevel_ops *ops);

#endif
