/* A space's vfs served to the kernel at a directory, through libfuse's low-level API. Knows nothing of pools
 * and daemons.
 *
 * Life of a mount: sfs_fuse_mount -> (one thread) sfs_fuse_run … returns when the mount has ended ->
 * sfs_fuse_free -> sfs_vfs_close. It ends when anybody unmounts it (sfs_fuse_unmount, umount(8)), when the
 * kernel aborts the connection, or by sfs_fuse_stop. */
#ifndef SFS_FUSE_FUSE_H
#define SFS_FUSE_FUSE_H

#include "fs/vfs/vfs.h"

#define SFS_FUSE_TYPE "fuse.spacesfs" /* the type in /proc/self/mountinfo */

struct sfs_fuse;

struct sfs_fuse_opts {
    const char *source; /* the mount's source in mountinfo, letter by letter */
    bool readonly, noatime, nodev, nosuid, noexec, sync;
    bool allow_other; /* others than the mounting user may look in; needs user_allow_other in /etc/fuse.conf
                         unless root mounts */
};

/* Mounts at dir. Requests wait until sfs_fuse_run serves them. One call at a time in a process. vfs must
 * outlive the mount. */
int sfs_fuse_mount(struct sfs_env *env, struct sfs_vfs *vfs, const char *dir,
                   const struct sfs_fuse_opts *opts, struct sfs_fuse **out, struct sfs_error *err);
/* Serves requests with threads of its own; returns when the mount has ended: 0, or -errno when serving
 * failed. Once. */
int sfs_fuse_run(struct sfs_fuse *f);
/* Waits until the kernel has made contact and the mount is usable, then sets what the kernel reads ahead (as
 * root). 0, or -errno when sfs_fuse_run has ended before. */
int sfs_fuse_wait_ready(struct sfs_fuse *f, struct sfs_error *err);
/* Asks the kernel to unmount: -EBUSY while programs have files open there, unless lazy: then it vanishes from
 * sight at once and ends when the last program has closed. Does not wait for sfs_fuse_run. */
int sfs_fuse_unmount(struct sfs_fuse *f, bool lazy, struct sfs_error *err);
/* Tells the kernel of changed options (ro or rw, and the per-mount flags). The vfs is the caller's to switch.
 */
int sfs_fuse_remount(struct sfs_fuse *f, const struct sfs_fuse_opts *opts, struct sfs_error *err);
/* Makes sfs_fuse_run return although programs still use the mount: they get ENOTCONN. From any thread but
 * those that serve. */
void sfs_fuse_stop(struct sfs_fuse *f);
/* After sfs_fuse_run has returned or was never called. Removes the mount if it is still there. NULL is fine.
 */
void sfs_fuse_free(struct sfs_fuse *f);

/* Unmounts what lies topmost at dir, whoever serves it: for mounts whose daemon is dead or another's. 0 or
 * -errno. */
int sfs_fuse_unmount_dir(const char *dir, bool lazy);

#endif
