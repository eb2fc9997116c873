/* Jobs: background work that a person asked for, kept in the catalog so that it goes on after a restart or a crash.
 *
 * A kind of job is a function over a list that it makes itself, so that it can be called again at any time and finds
 * what is left: nothing but kind and subject is remembered. Each job that is at work has a thread.
 *
 *   running ──→ done        everything promised is there and verified
 *     │  ↑ ──→ failed       it cannot be done (any more); said why
 *     │  └─── waiting       something stands in the way (a second disk was lost, no room): tried again when disks
 *     │                     change, and every minute
 *     ├──→ paused           by a person, until resumed; survives restarts
 *     └──→ cancelled        by a person: what has been moved stays where it is
 *
 * Thread-safe. Lock: SFS_RANK_JOB, inside only; a job's function runs without it. */
#ifndef SFS_JOB_JOB_H
#define SFS_JOB_JOB_H

#include "fs/job/throttle.h"

struct sfs_jobs;
struct sfs_job;

struct sfs_job_kind {
    const char *name;
    /* Works until nothing is left; asks sfs_job_stopping (or is told by sfs_job_progress) between steps. 0: done, and
     * verified. -ECANCELED: it was told to stop. -EINVAL: cannot be done any more (failed). Other -errno: waiting.
     * Words for all of them by sfs_job_says. */
    int (*run)(struct sfs_job *j, void *ctx);
    /* The job was cancelled: takes back what its beginning has set (not what was moved). May be NULL. */
    void (*cancelled)(struct sfs_job *j, void *ctx);
    const char *no_way_back;     /* not NULL: it can be paused but not cancelled, and why, as a sentence without its full stop */
};
struct sfs_jobs_ops {
    const struct sfs_job_kind *kinds;
    unsigned nkinds;
    void (*event)(void *ctx, const char *severity, const char *kind, const char *subject, const char *text);
    void *ctx; /* of event, run and cancelled */
};
/* Reads what is unfinished from the catalog. go_on: and takes it up; else it stays as it is unless it is begun again
 * (a process that opens the pool for one command). ops is copied, its kinds are not. */
int sfs_jobs_open(struct sfs_data *d, const struct sfs_jobs_ops *ops, bool go_on, struct sfs_jobs **out);
/* Stops all at their next step; they go on when the pool is opened again. NULL is fine. */
void sfs_jobs_close(struct sfs_jobs *s);

/* Begins a job, durably. what: words KEY=VALUE, space between them, of at most 127 bytes; "disk=" and "space=" name
 * its subject by number, "to=" a further disk; without any it is about the pool. -EALREADY: a job of that kind and subject
 * is unfinished, and id is its number (one that nobody works at is taken up: 0; one that is at work looks once more before it is done). -EBUSY: another job has one of its subjects. Words in err. */
int sfs_job_begin(struct sfs_jobs *s, const char *kind, const char *what, uint64_t *id, struct sfs_error *err);
/* The same, and `also` is done in the transaction that enters the job (catalog locked), before it is at work: after a crash both are there, or neither. Not done when
 * the job is refused or unfinished already. Its failure is returned, and the job has failed. */
int sfs_job_begin_with(struct sfs_jobs *s, const char *kind, const char *what, int (*also)(void *ctx), void *ctx, uint64_t *id,
                       struct sfs_error *err);
/* Would sfs_job_begin refuse it? */
int sfs_job_check(struct sfs_jobs *s, const char *kind, const char *what, struct sfs_error *err);
/* An unfinished job with that subject ("disk=3"), or 0. kind gets its kind. */
uint64_t sfs_job_find(struct sfs_jobs *s, const char *subject, char kind[16]);

enum sfs_job_order { SFS_JOB_PAUSE, SFS_JOB_RESUME, SFS_JOB_CANCEL };
/* Returns when the job has stopped (or has been started). -ENOENT: no such job, or ended;
 * -EALREADY; -EOPNOTSUPP: it can't be cancelled. Words in err. */
int sfs_job_order(struct sfs_jobs *s, uint64_t id, enum sfs_job_order order, struct sfs_error *err);
/* Disks have changed: what waits is tried again. */
void sfs_jobs_wake(struct sfs_jobs *s);
struct sfs_throttle *sfs_jobs_throttle(struct sfs_jobs *s);

struct sfs_job_state {
    struct sfs_job_row row;
    uint64_t rate_bytes_s, eta_s; /* 0 unknown */
    bool at_work;                 /* in this process */
};
/* One that is unfinished in this process: -ENOENT for others, whose row is in the catalog. */
int sfs_job_state(struct sfs_jobs *s, uint64_t id, struct sfs_job_state *out);
/* Waits for at most timeout_ns: 0 it was done; -ETIMEDOUT; otherwise what it ended or waits with; the words of it. */
int sfs_job_wait(struct sfs_jobs *s, uint64_t id, uint64_t timeout_ns, char text[256]);

/* --- for a job's function ----------------------------------------------------------------------------------------- */
struct sfs_data *sfs_job_data(struct sfs_job *j);
struct sfs_throttle *sfs_job_throttle(struct sfs_job *j);
const char *sfs_job_what(struct sfs_job *j);
/* The number after "KEY=" in what; 0 when it isn't there. */
uint64_t sfs_job_number(const char *what, const char *key);
bool sfs_job_stopping(struct sfs_job *j);
/* Bytes still to be done, as known now: total becomes done + left. Now and then it saves that. No lock held. */
void sfs_job_left(struct sfs_job *j, uint64_t left);
/* For movers (ctx is the job): bytes done. Non-zero: stop. Any thread. */
int sfs_job_progress(void *job, uint64_t bytes);
void sfs_job_says(struct sfs_job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
