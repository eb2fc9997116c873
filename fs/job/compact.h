/* Compaction: dead space inside extents of which pieces are left is got back by storing those pieces anew. Bounds what heavy random overwriting costs: a space keeps within 1.3 times its live data. Only of spaces that are mounted: others don't change. */
#ifndef SFS_JOB_COMPACT_H
#define SFS_JOB_COMPACT_H

#include "fs/data/groups.h"

struct sfs_compaction {
    struct sfs_data *d;
    int (*progress)(void *ctx, uint64_t bytes); /* bytes stored anew; may wait; non-zero: stop */
    void *ctx;
    uint64_t live_bytes, dead_bytes;            /* out: as found at the last look, in whole blocks */
    uint64_t rewritten_bytes;                   /* out */
};
/* Has so much been overwritten in a space that it is worth looking? */
bool sfs_compact_due(struct sfs_data *d, int space);
/* Looks at all groups of a space, and stores anew what holds most dead space, until little is left. 0, -ECANCELED, -ENODEV (not mounted), -ENOMEM or errors of the catalog. No lock held. */
int sfs_compact(struct sfs_compaction *c, int space);
/* The same for rows of parity groups of which little is left: what lives in them moves together, since a row comes free only as a whole. Also of spaces that aren't mounted. 0, -ECANCELED, -ENOSPC, -ENOMEM …, see sfs_relocate_group. */
bool sfs_compact_rows_due(struct sfs_data *d, int space);
int sfs_compact_rows(struct sfs_compaction *c, int space);

#endif
