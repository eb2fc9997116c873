/* Background work leaves programs their share: each worker of a job tells what it has done, and is held back. */
#ifndef SFS_JOB_THROTTLE_H
#define SFS_JOB_THROTTLE_H

#include "fs/data/diskset.h"

#define SFS_RATE_AUTO 0u            /* full speed while no program reads or writes, a part of it otherwise */
#define SFS_RATE_UNLIMITED UINT64_MAX

struct sfs_throttle;
struct sfs_throttle *sfs_throttle_new(struct sfs_data *d);
void sfs_throttle_free(struct sfs_throttle *t); /* NULL is fine */
/* Bytes a second over all jobs of the pool, or one of the two above. Thread-safe; changes at once. */
void sfs_throttle_set(struct sfs_throttle *t, uint64_t bytes_s);

/* One worker's pace; its own. All zero to begin with. */
struct sfs_pace {
    uint64_t since_ns; /* when the work began that is paid for by the next rest */
    bool urgent;       /* data would be lost by one more failure: it yields less */
};
/* `bytes` more have been moved: sleeps as long as is due, a quarter of a second at most. No lock held. */
void sfs_throttle_step(struct sfs_throttle *t, struct sfs_pace *pace, uint64_t bytes);

#endif
