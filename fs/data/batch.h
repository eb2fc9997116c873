/* A commit's batch: what its clients handed over. Inside fs/data. */
#ifndef SFS_DATA_BATCH_H
#define SFS_DATA_BATCH_H

#include "fs/data/state.h"

struct sfs_batch_item {
    struct sfs_change change;
    struct sfs_commit_client *client;
    bool told_lost;
};
struct sfs_batch {
    struct sfs_data *d;
    struct sfs_batch_item *v;
    size_t n, cap;
    struct sfs_commit_client *client; /* whose changes are being collected */
};

/* Catalog lock held: puts all changes into the open transaction. Changes of inodes that are gone are skipped. */
int sfs_batch_apply(struct sfs_data *d, struct sfs_batch *b);
void sfs_batch_free(struct sfs_data *d, struct sfs_batch *b);
/* Groups whose state the catalog doesn't have yet; catalog lock held. */
int sfs_groups_store_states(struct sfs_data *d);
/* Rule 4 at commit: pending extents in groups that a disk has dropped out of are written again elsewhere, from their good copies. What cannot be placed elsewhere stays, and the slab is recorded as missing; what has no good copy is lost: its
 * owner is told. *rewritten: something was written, sync again. 0 or -errno (-ENOMEM, catalog errors). No lock held. */
int sfs_rewrite_shaken(struct sfs_data *d, struct sfs_batch *b, bool *rewritten);

#endif
