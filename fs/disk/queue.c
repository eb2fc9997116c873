/* Requests, batches and workers; queue.h says what they are and which lock guards what. */
#include <stdlib.h>
#include <string.h>
#include "fs/base/buf.h"
#include "fs/disk/queue.h"

/* --- batches ---------------------------------------------------------------------------------- */

struct sfs_requests *sfs_requests_new(struct sfs_env *env, unsigned n)
{
    struct sfs_requests *b = calloc(1, sizeof *b + n * sizeof b->rq[0]);
    if (!b)
        return NULL;
    b->env = env;
    b->n = n;
    b->refs = 1;
    sfs_mutex_init(&b->m, env, SFS_RANK_LEAF);
    sfs_cond_init(&b->c, env);
    for (unsigned i = 0; i < n; i++)
        b->rq[i].batch = b;
    return b;
}

void sfs_requests_put(struct sfs_requests *b)
{
    if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (unsigned i = 0; i < b->n; i++) {
        sfs_buf_unref(b->rq[i].buf);
        free(b->rq[i].slots.slots);
    }
    sfs_cond_destroy(&b->c);
    sfs_mutex_destroy(&b->m);
    free(b);
}

/* First result wins: an abandoned request's worker comes too late. */
static void request_finish(struct sfs_request *rq, int64_t result)
{
    struct sfs_requests *b = rq->batch;
    sfs_mutex_lock(&b->m);
    if (!rq->done) {
        rq->done = true;
        rq->result = result;
        b->pending--;
        if (b->pending == 0)
            sfs_cond_signal(&b->c);
    }
    sfs_mutex_unlock(&b->m);
}

static bool request_is_done(struct sfs_request *rq)
{
    sfs_mutex_lock(&rq->batch->m);
    bool done = rq->done;
    sfs_mutex_unlock(&rq->batch->m);
    return done;
}

void sfs_request_alive(struct sfs_request *rq)
{
    __atomic_store_n(&rq->alive_ns, sfs_env_mono_ns(rq->disk->env), __ATOMIC_RELAXED);
}

/* With batch.m held: the disk of a request that has shown no life for too long (NULL: none), and when to look
 * again. */
static struct sfs_disk *batch_find_stalled(struct sfs_requests *b, uint64_t now_ns, uint64_t *deadline_ns)
{
    *deadline_ns = UINT64_MAX;
    for (unsigned i = 0; i < b->n; i++) {
        struct sfs_request *rq = &b->rq[i];
        if (!rq->disk || rq->done)
            continue;
        uint64_t alive_ns = __atomic_load_n(&rq->alive_ns, __ATOMIC_RELAXED);
        /* One that is queued cannot time out before it has run that long. */
        uint64_t end_ns = (alive_ns ? alive_ns : now_ns) + rq->disk->timeout_ns;
        if (now_ns >= end_ns)
            return rq->disk;
        if (end_ns < *deadline_ns)
            *deadline_ns = end_ns;
    }
    return NULL;
}

void sfs_requests_wait(struct sfs_requests *b)
{
    sfs_mutex_lock(&b->m);
    while (b->pending > 0) {
        uint64_t deadline_ns;
        struct sfs_disk *stalled = batch_find_stalled(b, sfs_env_mono_ns(b->env), &deadline_ns);
        if (stalled) {
            sfs_mutex_unlock(&b->m);
            sfs_disk_fence(stalled, SFS_DISK_STALLED, "a request did not end within the time-out");
            sfs_queue_abandon(stalled);
            sfs_mutex_lock(&b->m);
        } else {
            sfs_cond_wait_until(&b->c, &b->m, deadline_ns);
        }
    }
    sfs_mutex_unlock(&b->m);
}

struct sfs_requests *sfs_request_new(struct sfs_disk *d, enum sfs_rq_op op)
{
    struct sfs_requests *b = sfs_requests_new(d->env, 1);
    if (b) {
        b->rq[0].disk = d;
        b->rq[0].op = op;
    }
    return b;
}

int64_t sfs_request_run(struct sfs_requests *b)
{
    if (sfs_request_submit(&b->rq[0]) == 0)
        sfs_requests_wait(b);
    return b->rq[0].result;
}

int64_t sfs_request_run_simple(struct sfs_disk *d, enum sfs_rq_op op, uint32_t slot)
{
    if (sfs_disk_state(d) != SFS_DISK_ONLINE)
        return -ENODEV;
    struct sfs_requests *b = sfs_request_new(d, op);
    if (!b)
        return -ENOMEM;
    b->rq[0].slot = slot;
    int64_t rc = sfs_request_run(b);
    sfs_requests_put(b);
    return rc;
}

/* --- the queue of a disk ---------------------------------------------------------------------- */

static bool disk_usable(struct sfs_disk *d)
{
    return __atomic_load_n(&d->state, __ATOMIC_ACQUIRE) == SFS_DISK_ONLINE;
}

/* With d->m held. */
static void queue_fail_queued(struct sfs_disk *d, int64_t result)
{
    struct sfs_request *rq;
    while ((rq = TAILQ_FIRST(&d->queued)) != NULL) {
        struct sfs_requests *b = rq->batch;
        TAILQ_REMOVE(&d->queued, rq, link);
        d->counters.queued--;
        request_finish(rq, result);
        sfs_requests_put(b);
    }
}

void sfs_queue_abandon(struct sfs_disk *d)
{
    struct sfs_request *rq;
    sfs_mutex_lock(&d->m);
    queue_fail_queued(d, -ETIMEDOUT);
    TAILQ_FOREACH(rq, &d->running, link)
    request_finish(rq, -ETIMEDOUT);
    sfs_mutex_unlock(&d->m);
}

static struct sfs_worker *left_workers; /* atomic */

static void worker_leave(struct sfs_worker *w)
{
    struct sfs_disk *d = w->disk;
    sfs_mutex_lock(&d->m);
    bool left = w->left_behind;
    sfs_mutex_unlock(&d->m);
    sfs_disk_unref(d);
    if (!left)
        return; /* sfs_queue_stop joins it */
    struct sfs_worker *head = __atomic_load_n(&left_workers, __ATOMIC_RELAXED);
    do
        w->next_left = head;
    while (!__atomic_compare_exchange_n(&left_workers, &head, w, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static void worker_serve(struct sfs_worker *w, struct sfs_request *rq)
{
    struct sfs_disk *d = w->disk;
    struct sfs_requests *b = rq->batch;
    w->current = rq;
    TAILQ_REMOVE(&d->queued, rq, link);
    TAILQ_INSERT_TAIL(&d->running, rq, link);
    sfs_request_alive(rq);
    sfs_mutex_unlock(&d->m);

    int64_t result = sfs_disk_execute(rq);

    sfs_mutex_lock(&d->m);
    TAILQ_REMOVE(&d->running, rq, link);
    w->current = NULL;
    d->counters.queued--;
    sfs_mutex_unlock(&d->m);
    request_finish(rq, result);
    sfs_requests_put(b);
    sfs_mutex_lock(&d->m);
}

static void worker_main(void *arg)
{
    struct sfs_worker *w = arg;
    struct sfs_disk *d = w->disk;
    sfs_mutex_lock(&d->m);
    for (;;) {
        struct sfs_request *rq = TAILQ_FIRST(&d->queued);
        if (rq) {
            worker_serve(w, rq);
        } else if (d->closing) {
            break;
        } else {
            d->nidle++;
            sfs_cond_wait(&d->work, &d->m);
            d->nidle--;
        }
    }
    sfs_mutex_unlock(&d->m);
    worker_leave(w);
}

static int worker_start(struct sfs_disk *d)
{
    struct sfs_worker *w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    w->disk = d;
    __atomic_add_fetch(&d->refs, 1, __ATOMIC_RELAXED);
    /* Holding m keeps the worker from going anywhere before its handle is stored. */
    sfs_mutex_lock(&d->m);
    int rc = d->nworkers < d->max_workers ? sfs_thread_start(d->env, "sfs-disk", worker_main, w, &w->thread)
                                          : -EAGAIN;
    if (rc == 0)
        d->workers[d->nworkers++] = w;
    sfs_mutex_unlock(&d->m);
    if (rc != 0) {
        __atomic_sub_fetch(&d->refs, 1, __ATOMIC_RELAXED);
        free(w);
    }
    return rc;
}

int sfs_request_submit(struct sfs_request *rq)
{
    struct sfs_disk *d = rq->disk;
    struct sfs_requests *b = rq->batch;
    bool more = false;
    sfs_mutex_lock(&d->m);
    if (d->closing || !disk_usable(d)) {
        sfs_mutex_unlock(&d->m);
        rq->done = true;
        rq->result = -ENODEV;
        return -ENODEV;
    }
    __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    sfs_mutex_lock(&b->m);
    b->pending++;
    sfs_mutex_unlock(&b->m);
    TAILQ_INSERT_TAIL(&d->queued, rq, link);
    d->counters.queued++;
    if (d->nidle > 0)
        sfs_cond_signal(&d->work);
    /* Those woken but not yet there still count as idle: compare with what is waiting. */
    more = d->nworkers < d->max_workers && d->counters.queued > d->nworkers;
    sfs_mutex_unlock(&d->m);
    if (more)
        (void)worker_start(d); /* the first worker is always there */
    return 0;
}

int sfs_queue_start(struct sfs_disk *d)
{
    return worker_start(d);
}

/* With d->m held: is the worker held up in a request that its caller has given up? */
static bool worker_is_stuck(struct sfs_worker *w)
{
    return w->current && request_is_done(w->current);
}

bool sfs_queue_is_stuck(struct sfs_disk *d)
{
    bool stuck = false;
    sfs_mutex_lock(&d->m);
    for (unsigned i = 0; !d->backend->ops->cancel && i < d->nworkers; i++)
        stuck |= worker_is_stuck(d->workers[i]);
    sfs_mutex_unlock(&d->m);
    return stuck;
}

bool sfs_queue_stop(struct sfs_disk *d)
{
    bool stuck = false;
    sfs_mutex_lock(&d->m);
    d->closing = true;
    queue_fail_queued(d, -ENODEV);
    sfs_cond_broadcast(&d->work);
    sfs_mutex_unlock(&d->m);

    if (d->backend->ops->cancel)
        d->backend->ops->cancel(d->backend);
    for (unsigned i = 0; i < d->nworkers; i++) {
        struct sfs_worker *w = d->workers[i];
        sfs_mutex_lock(&d->m);
        w->left_behind = !d->backend->ops->cancel && worker_is_stuck(w);
        bool left = w->left_behind;
        sfs_mutex_unlock(&d->m);
        stuck |= left;
        if (left)
            continue; /* it may be gone from here on */
        sfs_thread_join(w->thread);
        free(w);
    }
    return stuck;
}

void sfs_queue_reap(void)
{
    struct sfs_worker *w = __atomic_exchange_n(&left_workers, NULL, __ATOMIC_ACQUIRE);
    while (w) {
        struct sfs_worker *next = w->next_left;
        sfs_thread_join(w->thread);
        free(w);
        w = next;
    }
}
