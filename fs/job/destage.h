/* Destaging: what landed mirrored, in a space with parity, moves to parity groups in whole stripes. What fills no stripe stays until more has come. */
#ifndef SFS_JOB_DESTAGE_H
#define SFS_JOB_DESTAGE_H

#include "fs/data/landing.h"

#define SFS_DESTAGE_IDLE_NS 3000000000ull /* no program has read or written for so long */

struct sfs_destaging {
    struct sfs_data *d;
    int (*progress)(void *ctx, uint64_t bytes); /* may wait; non-zero: stop */
    void *ctx;
    uint64_t moved_bytes;                       /* out */
};
enum sfs_destage_need { SFS_DESTAGE_NOTHING, SFS_DESTAGE_WHEN_IDLE, SFS_DESTAGE_NOW };
/* NOW: the landing area passes half of what it may hold. */
enum sfs_destage_need sfs_destage_need(const struct sfs_landing *l);
/* Moves what it can of a space. 0, -ECANCELED, -ENOSPC (parity groups have no room) … No lock held. */
int sfs_destage(struct sfs_destaging *s, int space);

#endif
