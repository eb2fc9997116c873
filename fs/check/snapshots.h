/* The snapshots of a pool's catalog, and what repairs have saved. */
#ifndef SFS_CHECK_SNAPSHOTS_H
#define SFS_CHECK_SNAPSHOTS_H

#include "fs/check/check.h"

struct sfs_check_snapshot {
    char name[32];
    char disk[SFS_NAME_MAX + 1];
    int64_t time; /* unix seconds */
    uint64_t commit_seq;
    bool good; /* whole, all of it read */
};
/* All of them on the disks that are here; *v is the caller's to free. Changes nothing. 0 or -errno with words. */
int sfs_check_snapshots(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, struct sfs_check_snapshot **v, unsigned *n, struct sfs_error *err);

#endif
