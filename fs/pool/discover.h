/* Finding the disks of a pool by their labels, what the labels say together, epochs, and a disk as the catalog's store: what fs/pool and fs/check share. */
#ifndef SFS_POOL_DISCOVER_H
#define SFS_POOL_DISCOVER_H

#include "fs/pool/pool.h"
#include "meta/store.h"

struct sfs_found {
    char path[SFS_PATH_BYTES];
    struct sfs_label label;
    bool label_stale;            /* as in struct sfs_disk_probe */
};
struct sfs_discovery {
    struct sfs_found *v;         /* one per disk uuid */
    unsigned n;
    unsigned newest;             /* index of a label of the newest epoch */
    struct sfs_uuid pool;
};
/* Looks for the disks of the pool that `which` names. err: not known here, path is no disk of a pool, … */
int sfs_discover(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_discovery *out, struct sfs_error *err);
/* The same without judging: newest is set, but the labels may contradict each other, and none need hold a current replica. */
int sfs_discover_any(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_discovery *out, struct sfs_error *err);
void sfs_discovery_free(struct sfs_discovery *d);
/* Pure: which label is the newest; refuses halves that went separate ways (-EUCLEAN), and sets without a current replica (-ENODEV). */
int sfs_discovery_judge(struct sfs_discovery *d, struct sfs_error *err);
unsigned sfs_discovery_missing(const struct sfs_discovery *d); /* peers of the newest label that were not found */
/* Is the disk of that label one of the newest epoch's replicas? Also when that epoch's labels were cut short by a crash before its own was written. */
bool sfs_discovery_is_replica(const struct sfs_label *newest, const struct sfs_label *l);

/* epoch.c */
void sfs_epoch_next(struct sfs_env *env, struct sfs_epoch *e);
bool sfs_epoch_descends(const struct sfs_epoch *newer, const struct sfs_epoch *older); /* is older one of newer's past (or newer itself)? */

/* store.c */
void sfs_pool_store(struct sfs_disk *disk, const char *name, int id, struct sfs_store *out);

#endif
