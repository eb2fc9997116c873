/* What the catalog sees of the places where its replicas lie: a few named files per store. fs/pool makes one from each disk that holds a replica (it adapts
 * sfs_disk_meta_*). All calls are synchronous and return 0 or -errno; a store that failed once (any call but a short read or -ENOENT) is dropped by the
 * replica set for good. Calls on different stores may run at once; calls on one store too. */
#ifndef SFS_META_STORE_H
#define SFS_META_STORE_H

#include <stddef.h>
#include <stdint.h>

struct sfs_store_ops {
    int64_t (*size)(void *ctx, const char *name);                                   /* -ENOENT */
    int64_t (*read)(void *ctx, const char *name, void *buf, size_t len, uint64_t off); /* bytes read; short at the end */
    int (*write)(void *ctx, const char *name, const void *buf, size_t len, uint64_t off);
    int (*truncate)(void *ctx, const char *name, uint64_t size);
    int (*sync)(void *ctx, const char *name);
    int (*remove)(void *ctx, const char *name);
    int (*list)(void *ctx, void (*fn)(const char *name, uint64_t size, void *arg), void *arg);
};
struct sfs_store {
    const struct sfs_store_ops *ops;
    void *ctx;
    char name[65];   /* for messages: the disk's name */
    int id;          /* the owner's number for it (the disk's id), reported when it is lost */
};

#endif
