/* The calls on the metadata area. What only looks at memory is answered on the caller's thread; the rest goes
 * through the queue, with a copy of the data: a request that was given up must not touch the caller's memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/buf.h"
#include "fs/disk/queue.h"

/* --- metadata --------------------------------------------------------------------------------- */

static struct sfs_requests *meta_request(struct sfs_disk *d, enum sfs_rq_op op, const char *name, int *rc)
{
    struct sfs_requests *b = NULL;
    if (sfs_disk_state(d) != SFS_DISK_ONLINE)
        *rc = -ENODEV;
    else if (!sfs_meta_name_ok(name))
        *rc = -EINVAL;
    else if (op != SFS_RQ_META_READ && d->backend->readonly)
        *rc = -EROFS;
    else if (!(b = sfs_request_new(d, op)))
        *rc = -ENOMEM;
    else
        snprintf(b->rq[0].name, sizeof b->rq[0].name, "%s", name);
    return b;
}

int64_t sfs_disk_meta_size(struct sfs_disk *d, const char *name)
{
    if (sfs_disk_state(d) != SFS_DISK_ONLINE)
        return -ENODEV;
    return sfs_meta_name_ok(name) ? d->backend->ops->meta_size(d->backend, name) : -EINVAL;
}

static bool meta_range_ok(size_t len, uint64_t off)
{
    return len <= 1u << 30 && off <= 1ull << 56;
}

int64_t sfs_disk_meta_read(struct sfs_disk *d, const char *name, void *buf, size_t len, uint64_t off)
{
    int rc = 0;
    if (!meta_range_ok(len, off))
        return -EINVAL;
    struct sfs_requests *b = meta_request(d, SFS_RQ_META_READ, name, &rc);
    if (!b)
        return rc;
    size_t had = 0;
    int64_t result = 0;
    if (d->backend->ops->meta_read_nowait)
        had = d->backend->ops->meta_read_nowait(d->backend, name, off, buf, len);
    if (had == len) {
        sfs_disk_count_read(d, had);
        goto out;
    }
    b->rq[0].off = off + had;
    b->rq[0].len = len - had;
    /* The caller's memory may be gone when a request that was given up comes back. */
    b->rq[0].buf = sfs_buf_new(len - had);
    if (!b->rq[0].buf) {
        result = -ENOMEM;
        goto out;
    }
    result = sfs_request_run(b);
    if (result > 0)
        memcpy((uint8_t *)buf + had, b->rq[0].buf->data, (size_t)result);
out:
    sfs_requests_put(b);
    return result < 0 ? result : (int64_t)had + result;
}

int sfs_disk_meta_write(struct sfs_disk *d, const char *name, const void *buf, size_t len, uint64_t off)
{
    int rc = 0;
    if (!meta_range_ok(len, off))
        return -EINVAL;
    struct sfs_requests *b = meta_request(d, SFS_RQ_META_WRITE, name, &rc);
    if (!b)
        return rc;
    b->rq[0].off = off;
    b->rq[0].len = len;
    b->rq[0].buf = sfs_buf_new(len);
    if (!b->rq[0].buf) {
        rc = -ENOMEM;
    } else {
        memcpy(b->rq[0].buf->data, buf, len);
        rc = (int)sfs_request_run(b);
    }
    sfs_requests_put(b);
    return rc;
}

static int meta_run(struct sfs_disk *d, enum sfs_rq_op op, const char *name, uint64_t off)
{
    int rc = 0;
    if (!meta_range_ok(0, off))
        return -EINVAL;
    struct sfs_requests *b = meta_request(d, op, name, &rc);
    if (!b)
        return rc;
    b->rq[0].off = off;
    rc = (int)sfs_request_run(b);
    sfs_requests_put(b);
    return rc;
}

int sfs_disk_meta_truncate(struct sfs_disk *d, const char *name, uint64_t size)
{
    return meta_run(d, SFS_RQ_META_TRUNCATE, name, size);
}

int sfs_disk_meta_sync(struct sfs_disk *d, const char *name)
{
    return meta_run(d, SFS_RQ_META_SYNC, name, 0);
}

int sfs_disk_meta_delete(struct sfs_disk *d, const char *name)
{
    return meta_run(d, SFS_RQ_META_DELETE, name, 0);
}

int sfs_disk_meta_list(struct sfs_disk *d, void (*fn)(const char *name, uint64_t size, void *ctx), void *ctx)
{
    struct sfs_meta_entry *entries = NULL;
    size_t n = 0;
    if (sfs_disk_state(d) != SFS_DISK_ONLINE)
        return -ENODEV;
    int rc = d->backend->ops->meta_list(d->backend, &entries, &n);
    for (size_t i = 0; rc == 0 && i < n; i++)
        fn(entries[i].name, entries[i].size, ctx);
    free(entries);
    return rc;
}

int sfs_disk_meta_room(struct sfs_disk *d, uint64_t slots, uint64_t *bytes)
{
    int64_t rc = sfs_request_run_simple(d, SFS_RQ_META_SPACE, slots < UINT32_MAX ? (uint32_t)slots : UINT32_MAX);
    if (rc < 0)
        return (int)rc;
    *bytes = (uint64_t)rc;
    return 0;
}

uint64_t sfs_disk_meta_free_bytes(struct sfs_disk *d, uint64_t slots)
{
    uint64_t bytes = 0;
    return sfs_disk_meta_room(d, slots, &bytes) ? 0 : bytes;
}

void sfs_disk_on_claim(struct sfs_disk *d, int64_t (*fn)(struct sfs_disk *, void *), void *ctx)
{
    sfs_mutex_lock(&d->m);
    d->on_claim = fn;
    d->on_claim_ctx = ctx;
    sfs_mutex_unlock(&d->m);
}
