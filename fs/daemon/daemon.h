/* spacesfsd: one process per pool that has anything mounted. */
#ifndef SFS_DAEMON_DAEMON_H
#define SFS_DAEMON_DAEMON_H

#include "fs/pool/pool.h"

/* Mount options that are ours, parsed from a comma list; the rest is checked against what FUSE and mount(8)
 * know. */
struct sfs_mount_opts {
    bool readonly, noatime, remount, fake, nofail;
    enum sfs_degraded degraded;
    uint64_t wait_ns;                      /* wait=30s for missing disks */
    bool allow_other, default_permissions; /* allow_other by default when root mounts */
    bool nodev, nosuid, noexec, sync;
    char fsname[512]; /* the source as given */
};
int sfs_mount_opts_parse(const char *options, bool is_root, struct sfs_mount_opts *out,
                         struct sfs_error *err);

/* Starts a daemon for the pool that `which` names: forks; the child opens the pool, listens, and lives until
 * the last mount has ended (or 10 s after start if nothing was mounted). Returns in the parent when the
 * socket answers, with the pool's name, or with the child's error in words. Foreground: runs in the calling
 * process, returns its exit code. */
int sfs_daemon_start(const char *which, const struct sfs_mount_opts *opts, bool foreground,
                     char pool_name[SFS_NAME_MAX + 1], struct sfs_error *err);

/* The mount helper: asks the pool's daemon, starts one where none runs; waits until the mount is usable.
 * Returns a mount(8) exit code and prints errors to stderr. */
int sfs_mount_main(const char *source, const char *dir, const struct sfs_mount_opts *opts,
                   const char *options, bool verbose);
/* Ends a mount by directory and waits until all is durable. Returns umount(8)-like exit code. */
int sfs_umount_main(const char *dir, bool lazy, bool force);

#endif
