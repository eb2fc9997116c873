/* How full the landing groups of a space with parity are: what destaging goes by. For fs/job. */
#ifndef SFS_DATA_LANDING_H
#define SFS_DATA_LANDING_H

#include "fs/data/groups.h"

struct sfs_landing {
    unsigned groups, max;     /* there are; there may be */
    uint64_t used_bytes;      /* in all of them */
    uint64_t capacity_bytes;  /* of `max` of them */
    uint64_t stripe_bytes;    /* what fills one stripe of a new group of the space */
};
/* False: the space has none. No lock held. */
bool sfs_landing_look(struct sfs_data *d, int space, struct sfs_landing *out);
/* Ids of the landing groups of a space, sealed ones first, then those that hold most; malloc'ed, the caller's to free (NULL with n = 0). 0 or -ENOMEM. */
int sfs_landing_groups(struct sfs_data *d, int space, uint64_t **ids, unsigned *n);

#endif
