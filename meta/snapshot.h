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
#define SFS_SNAPSHOT_HOURLY "snapshot-" /* prefixes of their names */
#define SFS_SNAPSHOT_SAVED "saved-"     /* what spacesfs-check found before it changed anything */
/* Those with that prefix and a whole header, newest first. */
int sfs_snapshot_list(const struct sfs_store *s, const char *prefix, struct sfs_snapshot *out, unsigned max,
                      unsigned *n);
/* A consistent compressed copy of the database as it is now, on every store as PREFIX and the next number; the
 * newest `keep` of that prefix stay. A store that failed is named in err, and the others have it all the same. */
int sfs_snapshot_take(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_store *stores, unsigned n,
                      const char *prefix, unsigned keep, struct sfs_error *err);
/* Is it whole? Reads and decompresses all of it, changes nothing. 0, -EUCLEAN, -EOPNOTSUPP or what reading gave. */
int sfs_snapshot_verify(const struct sfs_store *from, const char *name);
/* Replaces the catalog on all stores of r (no catalog open on it) with the snapshot. Refuses one that is
 * damaged (-EUCLEAN) before anything is changed. When it is interrupted the catalog counts as damaged; do it
 * again. On success r can be opened as after sfs_replicas_recover. The caller bumps the epoch. */
int sfs_snapshot_restore(struct sfs_replicas *r, const struct sfs_store *from, const char *name,
                         struct sfs_error *err);

#endif
