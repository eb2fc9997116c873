/* Snapshots of the catalog as they lie in a store: listing, and going back to one. Taking one is
 * sfs_catalog_snapshot. */
#ifndef SFS_META_SNAPSHOT_H
#define SFS_META_SNAPSHOT_H

#include "fs/base/uuid.h"
#include "meta/replicas.h"

struct sfs_snapshot {
    char name[32]; /* "snapshot-7" */
    uint64_t number;
    uint64_t commit_seq, pages, bytes; /* bytes: of the file */
    int64_t time;                      /* unix seconds */
    struct sfs_uuid pool;
};
/* Those with a whole header, newest first. */
int sfs_snapshot_list(const struct sfs_store *s, struct sfs_snapshot *out, unsigned max, unsigned *n);
/* Replaces the catalog on all stores of r (no catalog open on it) with the snapshot. Refuses one that is
 * damaged (-EUCLEAN) before anything is changed. When it is interrupted the catalog counts as damaged; do it
 * again. On success r can be opened as after sfs_replicas_recover. The caller bumps the epoch. */
int sfs_snapshot_restore(struct sfs_replicas *r, const struct sfs_store *from, const char *name,
                         struct sfs_error *err);

#endif
