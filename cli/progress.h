/* A progress bar on stderr, when that is a terminal; nothing otherwise. */
#ifndef SFS_CLI_PROGRESS_H
#define SFS_CLI_PROGRESS_H

#include "fs/base/env.h"

struct sfs_progress {
    struct sfs_env *env;
    char what[32]; /* shown when progress comes without a text */
    uint64_t began_ns, shown_ns, began_done;
    bool drawn;
};
void sfs_progress_begin(struct sfs_progress *p, struct sfs_env *env, const char *what);
/* Draws; at most ten times a second. total 0: unknown. */
void sfs_progress_show(struct sfs_progress *p, uint64_t done, uint64_t total, const char *text);
void sfs_progress_end(struct sfs_progress *p); /* takes the bar away */

#endif
