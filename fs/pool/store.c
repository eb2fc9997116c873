/* A disk's metadata area as the catalog's store. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>

static int64_t store_size(void *ctx, const char *name)
{
    return sfs_disk_meta_size(ctx, name);
}

static int64_t store_read(void *ctx, const char *name, void *buf, size_t len, uint64_t off)
{
    return sfs_disk_meta_read(ctx, name, buf, len, off);
}

static int store_write(void *ctx, const char *name, const void *buf, size_t len, uint64_t off)
{
    return sfs_disk_meta_write(ctx, name, buf, len, off);
}

static int store_truncate(void *ctx, const char *name, uint64_t size)
{
    return sfs_disk_meta_truncate(ctx, name, size);
}

static int store_sync(void *ctx, const char *name)
{
    return sfs_disk_meta_sync(ctx, name);
}

static int store_remove(void *ctx, const char *name)
{
    return sfs_disk_meta_delete(ctx, name);
}

static int store_list(void *ctx, void (*fn)(const char *name, uint64_t size, void *arg), void *arg)
{
    return sfs_disk_meta_list(ctx, fn, arg);
}

static const struct sfs_store_ops ops = {
    .size = store_size,
    .read = store_read,
    .write = store_write,
    .truncate = store_truncate,
    .sync = store_sync,
    .remove = store_remove,
    .list = store_list,
};

void sfs_pool_store(struct sfs_disk *disk, const char *name, int id, struct sfs_store *out)
{
    *out = (struct sfs_store){.ops = &ops, .ctx = disk, .id = id};
    snprintf(out->name, sizeof(out->name), "%s", name);
}
