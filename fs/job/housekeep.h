/* What a pool does by itself, without being asked: destaging (destage.h) and compaction (compact.h). One thread per pool; it looks every second whether anything is due. */
#ifndef SFS_JOB_HOUSEKEEP_H
#define SFS_JOB_HOUSEKEEP_H

#include "fs/job/throttle.h"

struct sfs_housekeeper;
/* t is shared with the pool's jobs, and outlives it. 0 or -errno. */
int sfs_housekeeper_start(struct sfs_data *d, struct sfs_throttle *t, struct sfs_housekeeper **out);
void sfs_housekeeper_stop(struct sfs_housekeeper *h); /* at its next step; NULL is fine */

#endif
