/* Inside fs/disk only: requests to a disk, and the worker threads that serve them.
 *
 * A batch is one caller's set of requests, to one disk or several. It is submitted request by request, waited
 * for, and released. Both the caller and every submitted request hold the batch, so a request that was given
 * up keeps its memory until its worker comes back.
 *
 * States of a request: idle -> queued (disk's queue) -> running (a worker has it) -> done. `done` may be set
 * while a worker still runs it: the request timed out and is abandoned; its worker's result is dropped.
 * Time-out: a running request that shows no sign of life for the disk's time-out fences the disk as STALLED,
 * which ends all its queued and running requests. Queued requests have no time-out of their own: those
 * running before them do.
 *
 * Locks: disk.m (SFS_RANK_DISK), then batch.m (SFS_RANK_LEAF). */
#ifndef SFS_DISK_QUEUE_H
#define SFS_DISK_QUEUE_H

#include <sys/queue.h>
#include "fs/base/env.h"
#include "fs/disk/backend.h"
#include "fs/disk/label_format.h"

#define SFS_DISK_WORKERS_MAX 32

enum sfs_rq_op {
    SFS_RQ_READ,
    SFS_RQ_WRITE,
    SFS_RQ_SYNC,
    SFS_RQ_ALLOC,
    SFS_RQ_FREE,
    SFS_RQ_SLAB_LIST,
    SFS_RQ_LABEL,
    SFS_RQ_CHECK,
    SFS_RQ_SETTLE,
    SFS_RQ_META_READ,
    SFS_RQ_META_WRITE,
    SFS_RQ_META_TRUNCATE,
    SFS_RQ_META_SYNC,
    SFS_RQ_META_DELETE,
    SFS_RQ_META_SPACE,
};

struct sfs_request {
    TAILQ_ENTRY(sfs_request) link; /* disk.m */
    struct sfs_requests *batch;
    struct sfs_disk *disk;
    enum sfs_rq_op op;
    uint32_t slot;
    uint64_t off;
    size_t len;
    struct sfs_buf *buf; /* own reference */
    size_t buf_off;
    char name[SFS_MAP_NAME];
    struct sfs_slot_list slots; /* result of SLAB_LIST, once done */
    char why[128];              /* of CHECK */
    uint64_t alive_ns;          /* atomic; 0 while queued, else the last sign of life */
    bool done;                  /* batch.m */
    int64_t result;             /* batch.m until done */
};

struct sfs_requests {
    struct sfs_env *env;
    struct sfs_mutex m;
    struct sfs_cond c;
    unsigned pending; /* submitted and not done; m */
    int refs;         /* atomic */
    unsigned n;
    struct sfs_request rq[];
};

struct sfs_worker {
    struct sfs_disk *disk;
    struct sfs_thread *thread;
    struct sfs_request *current; /* disk.m */
    bool left_behind;            /* disk.m: nobody will join it */
    struct sfs_worker *next_left;
};

TAILQ_HEAD(sfs_request_list, sfs_request);

struct sfs_disk {
    struct sfs_env *env;
    struct sfs_backend *backend;
    uint64_t timeout_ns;
    unsigned max_workers;
    int refs; /* atomic: the owner and each worker */

    struct sfs_mutex m; /* guards all below */
    struct sfs_cond work;
    struct sfs_request_list queued, running;
    struct sfs_worker *workers[SFS_DISK_WORKERS_MAX];
    unsigned nworkers, nidle;
    bool closing;
    int state;     /* enum sfs_disk_state; atomic, written under m */
    char why[256]; /* written once, before state */
    void (*on_state)(struct sfs_disk *, void *);
    void *on_state_ctx;
    int64_t (*on_claim)(struct sfs_disk *, void *);
    void *on_claim_ctx;
    struct sfs_disk_counters counters;
    struct sfs_label *label;
};

struct sfs_requests *sfs_requests_new(struct sfs_env *env, unsigned n); /* NULL: no memory */
void sfs_requests_put(struct sfs_requests *b);                          /* NULL is fine */
/* 0, or -ENODEV when the disk is out of use: the request is done at once, with that result. */
int sfs_request_submit(struct sfs_request *rq);
void sfs_requests_wait(struct sfs_requests *b);
void sfs_request_alive(struct sfs_request *rq);

/* A batch of one, for the caller to fill in and run: returns the result. */
struct sfs_requests *sfs_request_new(struct sfs_disk *d, enum sfs_rq_op op);
int64_t sfs_request_run(struct sfs_requests *b);
/* One that needs a slot at most. */
int64_t sfs_request_run_simple(struct sfs_disk *d, enum sfs_rq_op op, uint32_t slot);

int sfs_queue_start(struct sfs_disk *d);
/* Ends the workers; those in abandoned requests are left behind. */
bool sfs_queue_is_stuck(struct sfs_disk *d); /* a worker is in the kernel with a request that was abandoned */
bool sfs_queue_stop(struct sfs_disk *d); /* true: workers stuck in the kernel were left behind */

/* Ends all queued and running requests of a disk that is out of use with -ETIMEDOUT; what workers still run
 * is abandoned. */
void sfs_queue_abandon(struct sfs_disk *d);
/* Joins left-behind workers that have come back since. */
void sfs_queue_reap(void);

/* disk.c: does the request on a worker, and judges its result. */
int64_t sfs_disk_execute(struct sfs_request *rq);
void sfs_disk_count_read(struct sfs_disk *d, size_t bytes); /* one that needed no request */
void sfs_disk_unref(struct sfs_disk *d);
/* A disk over any backend, which it then owns (also when this fails); tests bring their own. */
int sfs_disk_new(struct sfs_env *env, struct sfs_backend *b, const struct sfs_label *label,
                 const struct sfs_disk_opts *opts, struct sfs_disk **out);

#endif
