/* What a mount's source names. POOL/SPACE: the space is what follows the last '/', WHICH the rest: a pool's
 * name (no '/'), or the path of any of its disks. */
#ifndef SFS_DAEMON_SOURCE_H
#define SFS_DAEMON_SOURCE_H

#include <limits.h>
#include "fs/daemon/daemon.h"

struct sfs_source {
    char given[PATH_MAX];        /* letter by letter as fstab has it: the mount's fsname */
    char which[PATH_MAX];        /* for sfs_pool_open */
    char pool[SFS_NAME_MAX + 1]; /* the pool's name: of its socket */
    char space[SFS_NAME_MAX + 1];
    struct sfs_uuid uuid; /* the pool's, when a disk was looked at; else null */
};
/* Looks at disks where WHICH is a path. -EINVAL: malformed; -ENOENT, -ENODEV: no such pool or disk. */
int sfs_source_resolve(struct sfs_env *env, const char *source, struct sfs_source *out,
                       struct sfs_error *err);
/* The same for WHICH alone: which (absolute), pool, uuid. */
int sfs_source_which(struct sfs_env *env, const char *text, struct sfs_source *out, struct sfs_error *err);

#endif
