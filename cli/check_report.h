/* What spacesfs-check says while it checks, and its questions; as text or as JSON. */
#ifndef SFS_CLI_CHECK_REPORT_H
#define SFS_CLI_CHECK_REPORT_H

#include "fs/check/check.h"

bool sfs_check_interrupted(void *ctx); /* check_main.c: a signal came */
/* Both return an exit status. */
int sfs_check_report_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, bool json);
int sfs_check_snapshots_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, bool json);

#endif
