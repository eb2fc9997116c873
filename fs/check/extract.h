/* Copying what can be read out of a pool's disks, without changing anything on them: whatever disks are left, and in whatever state its catalog is. */
#ifndef SFS_CHECK_EXTRACT_H
#define SFS_CHECK_EXTRACT_H

#include "fs/check/check.h"

struct sfs_extract_result {
    char pool[SFS_NAME_MAX + 1];
    uint64_t files, directories, others, bytes; /* copied; others: links, sockets, devices ... */
    uint64_t damaged, lost_bytes;               /* files of which something could not be read, and how much */
    uint64_t failed;                            /* that could not be copied at all */
};
/* Copies every space of the pool to DIR/SPACE. DIR is made if need be; what is there already is never written over. A file of which something can't be read is copied as NAME.damaged, zeros in the place of what is lost, and named with
 * the places in DIR/damaged.txt. Returns SFS_CHECK_CLEAN: all was copied; SFS_CHECK_LEFT: not all; SFS_CHECK_FAILED with words. opts: world, search, state_dir, disk_timeout_ns. */
unsigned sfs_check_extract(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const char *to, const struct sfs_check_ui *ui, struct sfs_extract_result *res, struct sfs_error *err);

#endif
