/* A disk's handle and state, and what its workers do. What a failed request means for the disk is decided
 * here, in request_judge alone. The calls on slabs and label are in disk_io.c, those on metadata in
 * disk_meta.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/buf.h"
#include "fs/disk/queue.h"

#define DEFAULT_TIMEOUT_NS 30000000000ull
#define DEFAULT_WORKERS 4

/* --- state ------------------------------------------------------------------------------------ */

enum sfs_disk_state sfs_disk_state(struct sfs_disk *d)
{
    return (enum sfs_disk_state)__atomic_load_n(&d->state, __ATOMIC_ACQUIRE);
}

const char *sfs_disk_state_why(struct sfs_disk *d)
{
    return sfs_disk_state(d) == SFS_DISK_ONLINE ? "" : d->why;
}

void sfs_disk_fence(struct sfs_disk *d, enum sfs_disk_state state, const char *why)
{
    void (*fn)(struct sfs_disk *, void *) = NULL;
    void *ctx = NULL;
    SFS_ASSERT(state != SFS_DISK_ONLINE);
    sfs_mutex_lock(&d->m);
    if (d->state == SFS_DISK_ONLINE) {
        snprintf(d->why, sizeof d->why, "%s", why);
        __atomic_store_n(&d->state, state, __ATOMIC_RELEASE);
        fn = d->on_state;
        ctx = d->on_state_ctx;
    }
    sfs_mutex_unlock(&d->m);
    if (state == SFS_DISK_STALLED)
        sfs_queue_abandon(d);
    if (fn)
        fn(d, ctx);
}

bool sfs_disk_is_stuck(struct sfs_disk *d)
{
    return sfs_disk_state(d) != SFS_DISK_ONLINE && sfs_queue_is_stuck(d);
}

void sfs_disk_on_state(struct sfs_disk *d, void (*fn)(struct sfs_disk *, void *), void *ctx)
{
    sfs_mutex_lock(&d->m);
    d->on_state = fn;
    d->on_state_ctx = ctx;
    sfs_mutex_unlock(&d->m);
}

/* --- on the workers --------------------------------------------------------------------------- */

static int64_t request_call(struct sfs_request *rq)
{
    struct sfs_backend *b = rq->disk->backend;
    const struct sfs_backend_ops *ops = b->ops;
    uint8_t *data = rq->buf ? rq->buf->data + rq->buf_off : NULL;
    switch (rq->op) {
    case SFS_RQ_READ:
        return ops->read(b, rq->slot, rq->off, data, rq->len);
    case SFS_RQ_WRITE:
        return ops->write(b, rq->slot, rq->off, data, rq->len);
    case SFS_RQ_SYNC:
        return ops->sync(b, rq);
    case SFS_RQ_ALLOC:
        return ops->slab_alloc(b, rq->slot);
    case SFS_RQ_FREE:
        return ops->slab_free(b, rq->slot);
    case SFS_RQ_SLAB_LIST:
        return ops->slab_list(b, &rq->slots);
    case SFS_RQ_LABEL:
        return ops->label_write(b, data);
    case SFS_RQ_CHECK:
        return ops->check(b, rq->why, sizeof rq->why);
    case SFS_RQ_SETTLE:
        return ops->settle ? ops->settle(b) : 0;
    case SFS_RQ_META_READ:
        return ops->meta_read(b, rq->name, rq->off, data, rq->len);
    case SFS_RQ_META_WRITE:
        return ops->meta_write(b, rq->name, rq->off, data, rq->len);
    case SFS_RQ_META_TRUNCATE:
        return ops->meta_truncate(b, rq->name, rq->off);
    case SFS_RQ_META_SYNC:
        return ops->meta_sync(b, rq->name);
    case SFS_RQ_META_DELETE:
        return ops->meta_delete(b, rq->name);
    case SFS_RQ_META_SPACE:
        return ops->meta_free_bytes(b, rq->slot);
    }
    SFS_ASSERT(!"request op");
    return -EINVAL;
}

enum io_class { CLASS_READ, CLASS_WRITE, CLASS_SYNC, CLASS_OTHER };

static enum io_class op_class(enum sfs_rq_op op)
{
    switch (op) {
    case SFS_RQ_READ:
    case SFS_RQ_META_READ:
    case SFS_RQ_SLAB_LIST:
        return CLASS_READ;
    case SFS_RQ_WRITE:
    case SFS_RQ_ALLOC:
    case SFS_RQ_FREE:
    case SFS_RQ_LABEL:
    case SFS_RQ_META_WRITE:
    case SFS_RQ_META_TRUNCATE:
    case SFS_RQ_META_DELETE:
        return CLASS_WRITE;
    case SFS_RQ_SYNC:
    case SFS_RQ_META_SYNC:
    case SFS_RQ_SETTLE:
        return CLASS_SYNC;
    case SFS_RQ_CHECK:
    case SFS_RQ_META_SPACE:
        break;
    }
    return CLASS_OTHER;
}

static bool is_no_space(int64_t rc)
{
    return rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG;
}

static void request_count(struct sfs_request *rq, enum io_class class, bool failed)
{
    struct sfs_disk_counters *c = &rq->disk->counters;
    bool data = rq->op == SFS_RQ_READ || rq->op == SFS_RQ_META_READ || rq->op == SFS_RQ_WRITE ||
                rq->op == SFS_RQ_META_WRITE;
    sfs_mutex_lock(&rq->disk->m);
    switch (class) {
    case CLASS_READ:
        c->reads++;
        c->read_errors += failed;
        c->read_bytes += data && !failed ? rq->len : 0;
        break;
    case CLASS_WRITE:
        c->writes++;
        c->write_errors += failed;
        c->write_bytes += data && !failed ? rq->len : 0;
        break;
    case CLASS_SYNC:
        c->syncs++;
        c->sync_errors += failed;
        break;
    case CLASS_OTHER:
        break;
    }
    sfs_mutex_unlock(&rq->disk->m);
}

/* An error of the disk, not of the arguments: is it still there, and may it stay in use? */
static void request_blame(struct sfs_request *rq, enum io_class class, int64_t rc)
{
    struct sfs_disk *d = rq->disk;
    char why[160] = "";
    int gone = rc == -ENODEV;
    if (rq->op == SFS_RQ_CHECK)
        snprintf(why, sizeof why, "%s", rq->why);
    else if (d->backend->ops->check(d->backend, why, sizeof why) != 0)
        gone = true;
    if (gone) {
        sfs_disk_fence(d, SFS_DISK_GONE, why[0] ? why : "the disk is not there any more");
    } else if (class == CLASS_WRITE || class == CLASS_SYNC) {
        snprintf(why, sizeof why, "%s error: %s", class == CLASS_SYNC ? "sync" : "write", strerror((int)-rc));
        sfs_disk_fence(d, SFS_DISK_FAILED, why);
    }
}

static bool still_there(struct sfs_disk *d)
{
    char why[160];
    return d->backend->ops->check(d->backend, why, sizeof why) == 0;
}

static int64_t request_judge(struct sfs_request *rq, int64_t rc)
{
    enum io_class class = op_class(rq->op);
    if (rc >= 0) {
        request_count(rq, class, false);
        return rc;
    }
    if (is_no_space(rc) && class == CLASS_WRITE)
        return -ENOSPC;
    /* Says something about the request or this process, nothing about the disk. A sync that failed is final
     * whatever the reason. */
    if (class != CLASS_SYNC && (rc == -ENOMEM || rc == -EBUSY || rc == -EMFILE || rc == -ENFILE))
        return rc;
    if (rc == -ENOENT && (rq->op == SFS_RQ_META_READ || rq->op == SFS_RQ_META_TRUNCATE))
        return rc;
    if (rc == -ENOENT && (rq->op == SFS_RQ_READ || rq->op == SFS_RQ_WRITE) && still_there(rq->disk))
        return rc; /* this slab alone: somebody deleted its file */
    request_count(rq, class, true);
    if (class != CLASS_OTHER || rq->op == SFS_RQ_CHECK || rc == -ENODEV)
        request_blame(rq, class, rc);
    return rc;
}

int64_t sfs_disk_execute(struct sfs_request *rq)
{
    if (sfs_disk_state(rq->disk) != SFS_DISK_ONLINE)
        return -ENODEV;
    int64_t rc = request_judge(rq, request_call(rq));
    /* Another request may have fenced the disk meanwhile: what was written then can't be relied on, what was
     * read can. */
    if (rc >= 0 && op_class(rq->op) != CLASS_READ && sfs_disk_state(rq->disk) != SFS_DISK_ONLINE)
        return -ENODEV;
    return rc;
}

/* --- the handle ------------------------------------------------------------------------------- */

static int64_t disk_claim(void *ctx)
{
    struct sfs_disk *d = ctx;
    sfs_mutex_lock(&d->m);
    int64_t (*fn)(struct sfs_disk *, void *) = d->on_claim;
    void *fn_ctx = d->on_claim_ctx;
    sfs_mutex_unlock(&d->m);
    return fn ? fn(d, fn_ctx) : -ENOSPC;
}

struct sfs_disk *sfs_disk_ref(struct sfs_disk *d)
{
    __atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
    return d;
}

void sfs_disk_put(struct sfs_disk *d)
{
    if (d)
        sfs_disk_unref(d);
}

void sfs_disk_unref(struct sfs_disk *d)
{
    if (__atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    d->backend->ops->destroy(d->backend);
    sfs_cond_destroy(&d->work);
    sfs_mutex_destroy(&d->m);
    free(d->label);
    free(d);
}

int sfs_disk_new(struct sfs_env *env, struct sfs_backend *b, const struct sfs_label *label,
                 const struct sfs_disk_opts *opts, struct sfs_disk **out)
{
    struct sfs_disk *d = calloc(1, sizeof *d);
    struct sfs_label *copy = malloc(sizeof *copy);
    if (!d || !copy) {
        free(d);
        free(copy);
        b->ops->destroy(b);
        return -ENOMEM;
    }
    *copy = *label;
    d->env = env;
    d->backend = b;
    d->label = copy;
    d->refs = 1;
    d->timeout_ns = opts->timeout_ns ? opts->timeout_ns : DEFAULT_TIMEOUT_NS;
    d->max_workers = opts->workers ? opts->workers : DEFAULT_WORKERS;
    if (d->max_workers > SFS_DISK_WORKERS_MAX)
        d->max_workers = SFS_DISK_WORKERS_MAX;
    sfs_mutex_init(&d->m, env, SFS_RANK_DISK);
    sfs_cond_init(&d->work, env);
    TAILQ_INIT(&d->queued);
    TAILQ_INIT(&d->running);
    b->claim = disk_claim;
    b->claim_ctx = d;
    int rc = sfs_queue_start(d);
    if (rc != 0) {
        sfs_disk_unref(d);
        return rc;
    }
    *out = d;
    return 0;
}

void sfs_disk_close(struct sfs_disk *d)
{
    if (!d)
        return;
    if (!d->backend->readonly && d->backend->ops->settle)
        (void)sfs_request_run_simple(d, SFS_RQ_SETTLE,
                                     0); /* only makes sizes exact; nobody is left to tell */
    sfs_disk_on_state(d, NULL, NULL);
    sfs_disk_on_claim(d, NULL, NULL);
    sfs_disk_fence(d, SFS_DISK_GONE, "closed"); /* for those who still hold it */
    bool stuck = sfs_queue_stop(d);
    if (!stuck)
        d->backend->ops->release(d->backend);
    sfs_disk_unref(d);
    sfs_queue_reap();
}

const char *sfs_disk_path(const struct sfs_disk *d)
{
    return d->backend->path;
}

enum sfs_disk_kind sfs_disk_kind(const struct sfs_disk *d)
{
    return d->backend->kind;
}

bool sfs_disk_end_lost(const struct sfs_disk *d)
{
    return d->backend->end_lost;
}

uint64_t sfs_disk_host_dev(const struct sfs_disk *d)
{
    return d->backend->host_dev;
}

enum sfs_media sfs_disk_media(const struct sfs_disk *d)
{
    return d->backend->media;
}

void sfs_disk_counters(struct sfs_disk *d, struct sfs_disk_counters *out)
{
    sfs_mutex_lock(&d->m);
    *out = d->counters;
    sfs_mutex_unlock(&d->m);
}
