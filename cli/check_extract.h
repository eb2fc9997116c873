#ifndef SFS_CLI_CHECK_EXTRACT_H
#define SFS_CLI_CHECK_EXTRACT_H

#include "fs/check/check.h"

/* --extract DISK... --to DIR: returns an exit status. */
int sfs_check_extract_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const char *to, bool json);

#endif
