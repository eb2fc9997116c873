/* Several workers over one list, in its order: many disks to many disks at once. */
#ifndef SFS_JOB_CREW_H
#define SFS_JOB_CREW_H

#include "fs/job/throttle.h"

struct sfs_crew;
struct sfs_crew_worker {
    struct sfs_crew *crew;
    struct sfs_pace pace;
};
struct sfs_crew {
    struct sfs_data *d;
    struct sfs_throttle *throttle;                               /* NULL: at full speed */
    int (*progress)(void *ctx, uint64_t bytes);                  /* any worker; non-zero: all stop */
    void (*work)(struct sfs_crew_worker *w, unsigned item);      /* any worker, each item once */
    void *ctx;
    unsigned next, n;                                            /* atomic; the crew's own */
};
/* Returns when all items are through, or it was told to stop. The caller works, too; as many others as the disks can
 * make use of (four at most). */
void sfs_crew_run(struct sfs_crew *c, unsigned n);
/* The progress function for a mover that a worker calls (ctx: the worker). */
int sfs_crew_progress(void *worker, uint64_t bytes);

#endif
