/* The calls on slabs and on the label: each checks the disk's state and its arguments, then hands a request
 * to the queue. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/buf.h"
#include "fs/disk/queue.h"

/* --- slab I/O --------------------------------------------------------------------------------- */

static int io_check(const struct sfs_io *io)
{
    const struct sfs_backend *b = io->disk->backend;
    if (sfs_disk_state(io->disk) != SFS_DISK_ONLINE)
        return -ENODEV;
    if (io->op == SFS_IO_SYNC)
        return 0;
    if (io->op == SFS_IO_WRITE && b->readonly)
        return -EROFS;
    if (io->slot >= sfs_backend_slots(b) || io->off > b->slab_bytes || io->len > b->slab_bytes - io->off ||
        !io->buf || io->buf_off > io->buf->cap || io->len > io->buf->cap - io->buf_off)
        return -EINVAL;
    return 0;
}

void sfs_disk_count_read(struct sfs_disk *d, size_t bytes)
{
    sfs_mutex_lock(&d->m);
    d->counters.reads++;
    d->counters.read_bytes += bytes;
    sfs_mutex_unlock(&d->m);
}

/* Reads what is in memory already on the caller's thread. Returns the bytes that were. */
static size_t io_read_cached(const struct sfs_io *io)
{
    struct sfs_backend *b = io->disk->backend;
    if (!b->ops->read_nowait)
        return 0;
    size_t had = b->ops->read_nowait(b, io->slot, io->off, io->buf->data + io->buf_off, io->len);
    if (had == io->len)
        sfs_disk_count_read(io->disk, had);
    return had;
}

static void io_submit(struct sfs_io *io, struct sfs_request *rq, size_t had)
{
    rq->disk = io->disk;
    rq->op = io->op == SFS_IO_READ ? SFS_RQ_READ : io->op == SFS_IO_WRITE ? SFS_RQ_WRITE : SFS_RQ_SYNC;
    rq->slot = io->slot;
    rq->off = io->off + had;
    rq->len = io->len - had;
    if (io->op != SFS_IO_SYNC) {
        rq->buf = sfs_buf_ref(io->buf);
        rq->buf_off = io->buf_off + had;
    }
    sfs_request_submit(rq);
}

#define NOT_YET 1 /* result of an io that still has to go to the queue */

/* Settles what needs no worker. Returns how many do. */
static unsigned io_prepare(struct sfs_io *ios, unsigned n)
{
    unsigned rest = 0;
    for (unsigned i = 0; i < n; i++) {
        ios[i].result = io_check(&ios[i]);
        if (ios[i].result == 0 && (ios[i].op == SFS_IO_SYNC || ios[i].len > 0)) {
            ios[i].result = NOT_YET;
            rest++;
        }
    }
    return rest;
}

unsigned sfs_io_run(struct sfs_io *ios, unsigned n)
{
    unsigned failed = 0, used = 0, rest = io_prepare(ios, n);
    struct sfs_requests *batch = NULL;

    /* Writes and syncs first: they run while cached reads are copied here. */
    for (int pass = 0; pass < 2 && rest > 0; pass++) {
        for (unsigned i = 0; i < n; i++) {
            size_t had = 0;
            if (ios[i].result != NOT_YET || (ios[i].op == SFS_IO_READ) != (pass == 1))
                continue;
            if (ios[i].op == SFS_IO_READ && (had = io_read_cached(&ios[i])) == ios[i].len) {
                ios[i].result = 0;
                continue;
            }
            if (!batch && !(batch = sfs_requests_new(ios[i].disk->env, n))) {
                ios[i].result = -ENOMEM;
                continue;
            }
            io_submit(&ios[i], &batch->rq[i], had);
            used++;
        }
    }
    if (used > 0)
        sfs_requests_wait(batch);
    for (unsigned i = 0; i < n; i++) {
        if (ios[i].result == NOT_YET)
            ios[i].result = (int)batch->rq[i].result;
        failed += ios[i].result != 0;
    }
    sfs_requests_put(batch);
    return failed;
}

/* --- slabs ------------------------------------------------------------------------------------ */

static int slot_run(struct sfs_disk *d, enum sfs_rq_op op, uint32_t slot)
{
    if (slot >= sfs_backend_slots(d->backend))
        return -EINVAL;
    if (d->backend->readonly)
        return -EROFS;
    return (int)sfs_request_run_simple(d, op, slot);
}

int sfs_disk_slab_alloc(struct sfs_disk *d, uint32_t slot)
{
    return slot_run(d, SFS_RQ_ALLOC, slot);
}

int sfs_disk_slab_free(struct sfs_disk *d, uint32_t slot)
{
    return slot_run(d, SFS_RQ_FREE, slot);
}

bool sfs_disk_slot_claimed(struct sfs_disk *d, uint32_t slot)
{
    return d->backend->ops->slot_claimed(d->backend, slot);
}

int sfs_slot_list_add(struct sfs_slot_list *l, uint32_t slot)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 64;
        uint32_t *slots = realloc(l->slots, cap * sizeof *slots);
        if (!slots)
            return -ENOMEM;
        l->slots = slots;
        l->cap = cap;
    }
    l->slots[l->n++] = slot;
    return 0;
}

int sfs_disk_slab_list(struct sfs_disk *d, void (*fn)(uint32_t slot, void *ctx), void *ctx)
{
    struct sfs_requests *b = sfs_request_new(d, SFS_RQ_SLAB_LIST);
    if (!b)
        return -ENOMEM;
    int rc = (int)sfs_request_run(b);
    if (rc == 0) {
        for (size_t i = 0; i < b->rq[0].slots.n; i++)
            fn(b->rq[0].slots.slots[i], ctx);
    }
    sfs_requests_put(b);
    return rc;
}

int sfs_disk_check(struct sfs_disk *d)
{
    if (sfs_disk_state(d) != SFS_DISK_ONLINE)
        return -ENODEV;
    struct sfs_requests *b = sfs_request_new(d, SFS_RQ_CHECK);
    if (!b)
        return 0; /* nothing is known against the disk */
    int rc = (int)sfs_request_run(b);
    if (rc < 0)
        rc = -ENODEV;
    sfs_requests_put(b);
    return rc;
}

/* --- label ------------------------------------------------------------------------------------ */

void sfs_disk_label(struct sfs_disk *d, struct sfs_label *out)
{
    sfs_mutex_lock(&d->m);
    *out = *d->label;
    sfs_mutex_unlock(&d->m);
}

int sfs_disk_write_label(struct sfs_disk *d, const struct sfs_label *l)
{
    if (d->backend->readonly)
        return -EROFS;
    struct sfs_label *next = malloc(sizeof *next);
    struct sfs_requests *b = sfs_request_new(d, SFS_RQ_LABEL);
    struct sfs_buf *buf = sfs_buf_new(SFS_LABEL_BYTES);
    int rc = -ENOMEM;
    if (!next || !b || !buf)
        goto out;
    *next = *l;
    sfs_mutex_lock(&d->m);
    /* Who the disk is and where things lie on it isn't the caller's to change. */
    next->kind = d->label->kind;
    next->layout = d->label->layout;
    next->slab_bytes = d->label->slab_bytes;
    next->capacity_slabs = d->label->capacity_slabs;
    next->generation = ++d->label->generation;
    sfs_mutex_unlock(&d->m);
    sfs_label_encode(next, buf->data);
    b->rq[0].buf = buf;
    b->rq[0].len = SFS_LABEL_BYTES;
    buf = NULL;
    rc = (int)sfs_request_run(b);
    if (rc == 0) {
        sfs_mutex_lock(&d->m);
        uint64_t generation = d->label->generation;
        *d->label = *next;
        d->label->generation = generation;
        sfs_mutex_unlock(&d->m);
    }
out:
    sfs_buf_unref(buf);
    sfs_requests_put(b);
    free(next);
    return rc;
}
