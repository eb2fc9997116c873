/* The list of unfinished jobs, their threads and their rows (job.h).
 *
 * Invariants
 *   J1  a job is in the list from the commit that begins it until the one that ends it; its row's state is never behind
 *       what a person was told
 *   J2  its thread alone writes its row, but for paused and cancelled jobs that have no thread
 *   J3  a job whose function returned 0 is done: rows are written in the order of what happened
 * A crash leaves "running" or "waiting" rows: they are taken up again. */
#include "fs/job/job.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "fs/data/commit.h"

#define AGAIN_NS 60000000000ull
#define SAVE_NS 5000000000ull    /* a running job's row is brought up to date this often */
#define RATE_AFTER_NS 100000000ull
#define MAX_UNFINISHED 32u

struct sfs_job {
    struct sfs_jobs *jobs;
    const struct sfs_job_kind *kind;
    struct sfs_job_row row;      /* id, kind, what, started: constant */
    struct sfs_thread *thread;   /* NULL: nobody works at it */
    bool stop;                   /* its function should return */
    bool ended;                  /* the thread is through: to be joined */
    bool woken;
    bool again;                  /* it was asked for once more while at work: what it has seen may be outdated */
    bool through;                /* its function has returned for good: who asks for the same now gets a job of their own */
    bool pinned;                 /* its row is being written by somebody else than its thread: it stays */
    int result;                  /* of the last call of its function */
    uint64_t tries;              /* calls that have ended */
    uint64_t began_ns, began_done, saved_ns;
    enum sfs_job_order order;    /* with stop: why; RESUME: the pool is being closed */
    TAILQ_ENTRY(sfs_job) link;
};

struct sfs_jobs {
    struct sfs_data *d;
    struct sfs_env *env;
    struct sfs_catalog *cat;
    struct sfs_jobs_ops ops;
    struct sfs_throttle *throttle;
    struct sfs_mutex lock;       /* all below, and the jobs */
    struct sfs_cond changed;
    bool closing;
    unsigned n;
    TAILQ_HEAD(, sfs_job) list;
};

/* --- rows ------------------------------------------------------------------------------------------------------- */

static int put_row(struct sfs_jobs *s, struct sfs_job_row *row)
{
    if (sfs_data_readonly(s->d))
        return -EROFS;
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_job_put(s->cat, row);
    sfs_catalog_unlock(s->cat);
    return rc;
}

/* The row as it is now goes to the catalog; durably when it is a change of state. */
static int save(struct sfs_job *j, bool durable)
{
    sfs_mutex_lock(&j->jobs->lock);
    struct sfs_job_row row = j->row;
    sfs_mutex_unlock(&j->jobs->lock);
    int rc = put_row(j->jobs, &row);
    return rc || !durable ? rc : sfs_commit_wait(j->jobs->d, false);
}

static void set_state(struct sfs_job *j, const char *state, bool ended)
{
    sfs_mutex_lock(&j->jobs->lock);
    snprintf(j->row.state, sizeof(j->row.state), "%s", state);
    j->row.ended = ended ? sfs_env_wall(j->jobs->env).tv_sec : 0;
    sfs_mutex_unlock(&j->jobs->lock);
}

static const struct sfs_job_kind *kind_named(const struct sfs_jobs *s, const char *name)
{
    for (unsigned i = 0; i < s->ops.nkinds; i++)
        if (!strcmp(s->ops.kinds[i].name, name))
            return &s->ops.kinds[i];
    return NULL;
}

static void tell(struct sfs_job *j, const char *severity, const char *suffix)
{
    char kind[32], text[sizeof(j->row.result)];
    snprintf(kind, sizeof(kind), "%s-%s", j->kind->name, suffix);
    sfs_mutex_lock(&j->jobs->lock);
    snprintf(text, sizeof(text), "%s", j->row.result);
    sfs_mutex_unlock(&j->jobs->lock);
    if (j->jobs->ops.event)
        j->jobs->ops.event(j->jobs->ops.ctx, severity, kind, j->row.what, text);
}

/* --- a job's thread ----------------------------------------------------------------------------------------------- */

static void begin_try(struct sfs_job *j)
{
    sfs_mutex_lock(&j->jobs->lock);
    snprintf(j->row.state, sizeof(j->row.state), "running");
    j->row.result[0] = '\0';
    j->began_ns = sfs_env_mono_ns(j->jobs->env);
    j->began_done = j->row.done;
    sfs_mutex_unlock(&j->jobs->lock);
}

/* Waits until there is reason to try again. False: it should end. */
static bool wait_for_change(struct sfs_job *j)
{
    struct sfs_jobs *s = j->jobs;
    sfs_mutex_lock(&s->lock);
    uint64_t until = sfs_env_mono_ns(s->env) + AGAIN_NS;
    while (!j->stop && !j->woken && sfs_cond_wait_until(&s->changed, &s->lock, until) == 0)
        ;
    j->woken = false;
    bool go_on = !j->stop;
    sfs_mutex_unlock(&s->lock);
    return go_on;
}

static void note_result(struct sfs_job *j, int rc)
{
    sfs_mutex_lock(&j->jobs->lock);
    j->result = rc;
    j->tries++;
    if (rc && rc != -ECANCELED && !j->row.result[0])
        snprintf(j->row.result, sizeof(j->row.result), "%s", strerror(-rc));
    sfs_cond_broadcast(&j->jobs->changed);
    sfs_mutex_unlock(&j->jobs->lock);
}

/* The job has ended, well or not; or it has been stopped. */
static void settle(struct sfs_job *j, int rc)
{
    sfs_mutex_lock(&j->jobs->lock);
    bool stopped = rc == -ECANCELED && j->stop;
    enum sfs_job_order order = j->order;
    sfs_mutex_unlock(&j->jobs->lock);
    if (stopped && order == SFS_JOB_RESUME)
        return; /* the pool is being closed: its row says that it is unfinished */
    if (stopped && order == SFS_JOB_CANCEL && j->kind->cancelled)
        j->kind->cancelled(j, j->jobs->ops.ctx);
    set_state(j, stopped ? (order == SFS_JOB_PAUSE ? "paused" : "cancelled") : rc ? "failed" : "done",
              !stopped || order == SFS_JOB_CANCEL);
    save(j, true);
    if (!stopped)
        tell(j, rc ? "error" : "info", rc ? "failed" : "done");
}

/* Done, and nobody has asked for it once more since it was called? */
static bool is_through(struct sfs_job *j)
{
    sfs_mutex_lock(&j->jobs->lock);
    j->through = !j->again || j->stop;
    j->again = false;
    bool through = j->through;
    sfs_mutex_unlock(&j->jobs->lock);
    return through;
}

static void job_main(void *arg)
{
    struct sfs_job *j = arg;
    bool told = false;
    int rc;
    for (;;) {
        begin_try(j);
        save(j, false);
        rc = j->kind->run(j, j->jobs->ops.ctx);
        if (sfs_data_readonly(j->jobs->d) && rc != -ECANCELED)
            rc = -EROFS; /* what it found may never be durable */
        if (rc == 0 && !is_through(j))
            continue;
        if (rc == 0 || rc == -EINVAL || rc == -ECANCELED)
            break;
        set_state(j, "waiting", false);
        note_result(j, rc);
        save(j, true);
        if (!told)
            tell(j, "warning", "waiting");
        told = true;
        if (!wait_for_change(j)) {
            rc = -ECANCELED;
            break;
        }
    }
    settle(j, rc);
    note_result(j, rc);
    sfs_mutex_lock(&j->jobs->lock);
    j->ended = true;
    sfs_cond_broadcast(&j->jobs->changed);
    sfs_mutex_unlock(&j->jobs->lock);
}

static bool is_over(const struct sfs_job *j)
{
    return !strcmp(j->row.state, "done") || !strcmp(j->row.state, "failed") || !strcmp(j->row.state, "cancelled");
}

/* Lock held; released meanwhile. Joins threads that are through; forgets jobs that are over. */
static void reap(struct sfs_jobs *s)
{
    struct sfs_job *j, *next;
again:
    for (j = TAILQ_FIRST(&s->list); j; j = next) {
        next = TAILQ_NEXT(j, link);
        if (j->thread && j->ended) {
            struct sfs_thread *t = j->thread;
            j->thread = NULL;
            sfs_mutex_unlock(&s->lock);
            sfs_thread_join(t);
            sfs_mutex_lock(&s->lock);
            goto again;
        }
        if (!j->thread && !j->pinned && is_over(j)) {
            TAILQ_REMOVE(&s->list, j, link);
            s->n--;
            free(j);
        }
    }
}

/* Lock held. */
static int set_to_work(struct sfs_job *j)
{
    j->stop = j->ended = j->woken = j->again = j->through = false;
    j->result = -EINPROGRESS;
    int rc = sfs_thread_start(j->jobs->env, "sfs-job", job_main, j, &j->thread);
    if (rc)
        j->thread = NULL;
    return rc;
}

/* --- beginning -------------------------------------------------------------------------------------------------- */

static const char *word_of(const char *what, const char *key, size_t *len)
{
    size_t klen = strlen(key);
    for (const char *w = what; *w; w += strspn(w, " ")) {
        size_t n = strcspn(w, " ");
        if (n > klen && !strncmp(w, key, klen) && w[klen] == '=') {
            *len = n;
            return w;
        }
        w += n;
    }
    return NULL;
}

uint64_t sfs_job_number(const char *what, const char *key)
{
    size_t len;
    const char *w = word_of(what, key, &len);
    return w ? strtoull(w + strlen(key) + 1, NULL, 10) : 0;
}

/* Do the two have a disk or a space in common? Disks are also named by "to". */
static bool share_subject(const char *a, const char *b)
{
    uint64_t space = sfs_job_number(a, "space");
    if (space && space == sfs_job_number(b, "space"))
        return true;
    const uint64_t x[] = {sfs_job_number(a, "disk"), sfs_job_number(a, "to")},
                   y[] = {sfs_job_number(b, "disk"), sfs_job_number(b, "to")};
    for (unsigned i = 0; i < 4; i++)
        if (x[i / 2] && x[i / 2] == y[i % 2])
            return true;
    return false;
}

/* Lock held. The unfinished job that is this one, or is in its way. */
static struct sfs_job *other_job(struct sfs_jobs *s, const char *kind, const char *what, bool *same)
{
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
    {
        bool shared = share_subject(j->row.what, what), pool_wide = !strchr(what, '=') && !strchr(j->row.what, '=');
        *same = !strcmp(j->row.kind, kind) && (pool_wide || (shared && sfs_job_number(j->row.what, "to") == sfs_job_number(what, "to")));
        if (!is_over(j) && !j->through && (*same || shared))
            return j;
    }
    *same = false;
    return NULL;
}

static int refuse(const struct sfs_job *j, bool same, struct sfs_error *err)
{
    unsigned long long id = j->row.id;
    if (same)
        return sfs_error_set(err, -EALREADY, "this is being done already: job %llu (%s) is %s.", id, j->row.kind,
                             j->row.state);
    return sfs_error_set(err, -EBUSY, "job %llu (%s) is %s, and the two would contradict each other. Wait for it, or "
                         "cancel it first: `spacesfs job cancel POOL %llu`.", id, j->row.kind, j->row.state, id);
}

/* Lock held. Takes up what nobody works at. 0: there was such a job. */
static int take_up(struct sfs_job *j, uint64_t *id, struct sfs_error *err)
{
    *id = j->row.id;
    j->again = j->thread != NULL;
    if (j->thread || j->pinned || !strcmp(j->row.state, "paused"))
        return refuse(j, true, err);
    int rc = set_to_work(j);
    return rc ? sfs_error_set(err, rc, "job %llu could not be taken up: %s.", (unsigned long long)j->row.id,
                              strerror(-rc)) : 0;
}

static struct sfs_job *new_job(struct sfs_jobs *s, const struct sfs_job_row *row)
{
    struct sfs_job *j = calloc(1, sizeof(*j));
    if (!j)
        return NULL;
    j->jobs = s;
    j->row = *row;
    j->kind = kind_named(s, row->kind);
    return j;
}

int sfs_job_check(struct sfs_jobs *s, const char *kind, const char *what, struct sfs_error *err)
{
    bool same;
    sfs_mutex_lock(&s->lock);
    reap(s);
    struct sfs_job *j = other_job(s, kind, what, &same);
    bool idle = j && same && !j->thread && strcmp(j->row.state, "paused") != 0;
    int rc = j && !idle ? refuse(j, same, err) : 0;
    sfs_mutex_unlock(&s->lock);
    return rc;
}

/* A job's first row, and what is done with it. */
static int enter(struct sfs_jobs *s, struct sfs_job_row *row, int (*also)(void *ctx), void *ctx)
{
    if (sfs_data_readonly(s->d))
        return -EROFS;
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_job_put(s->cat, row), failed = !rc && also ? also(ctx) : 0;
    if (failed) {
        snprintf(row->state, sizeof(row->state), "failed");
        row->ended = row->started;
        rc = sfs_catalog_job_put(s->cat, row);
    }
    sfs_catalog_unlock(s->cat);
    return failed ? failed : rc;
}

int sfs_job_begin(struct sfs_jobs *s, const char *kind, const char *what, uint64_t *id, struct sfs_error *err)
{
    return sfs_job_begin_with(s, kind, what, NULL, NULL, id, err);
}

int sfs_job_begin_with(struct sfs_jobs *s, const char *kind, const char *what, int (*also)(void *ctx), void *ctx, uint64_t *id,
                       struct sfs_error *err)
{
    bool same;
    SFS_ASSERT(kind_named(s, kind) && strlen(what) < sizeof(((struct sfs_job_row *)0)->what));
    sfs_mutex_lock(&s->lock);
    reap(s);
    struct sfs_job *j;
    while ((j = other_job(s, kind, what, &same)) && j->pinned && !j->row.id) /* it is being entered: it has no number yet */
        sfs_cond_wait(&s->changed, &s->lock);
    int rc = 0;
    if (j && same && also) {
        *id = j->row.id;
        rc = refuse(j, true, err);
    } else if (j && same)
        rc = take_up(j, id, err);
    else if (j)
        rc = refuse(j, false, err);
    else if (s->n == MAX_UNFINISHED)
        rc = sfs_error_set(err, -EBUSY, "%u jobs are unfinished: wait until one has ended.", MAX_UNFINISHED);
    if (j || rc) {
        sfs_mutex_unlock(&s->lock);
        return rc;
    }
    struct sfs_job_row row = {.started = sfs_env_wall(s->env).tv_sec};
    snprintf(row.kind, sizeof(row.kind), "%s", kind);
    snprintf(row.state, sizeof(row.state), "running");
    snprintf(row.what, sizeof(row.what), "%s", what);
    j = new_job(s, &row);
    if (j) { /* in the list before its row is there: nobody begins another meanwhile */
        j->pinned = true;
        TAILQ_INSERT_TAIL(&s->list, j, link);
        s->n++;
    }
    sfs_mutex_unlock(&s->lock);
    rc = j ? enter(s, &row, also, ctx) : -ENOMEM;
    if (!rc)
        rc = sfs_commit_wait(s->d, false);
    if (!j)
        return sfs_error_set(err, rc, "the job could not be begun: %s.", strerror(-rc));
    sfs_mutex_lock(&s->lock);
    j->pinned = false;
    j->row.id = row.id;
    if (!rc)
        *id = row.id;
    if (!rc && !s->closing)
        rc = set_to_work(j);
    if (rc) {
        snprintf(j->row.state, sizeof(j->row.state), "failed");
        reap(s);
    }
    sfs_cond_broadcast(&s->changed);
    sfs_mutex_unlock(&s->lock);
    return rc ? sfs_error_set(err, rc, "the job could not be begun: %s.", strerror(-rc)) : 0;
}

uint64_t sfs_job_find(struct sfs_jobs *s, const char *subject, char kind[16])
{
    uint64_t id = 0;
    sfs_mutex_lock(&s->lock);
    reap(s);
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
        if (!is_over(j) && share_subject(j->row.what, subject)) {
            id = j->row.id;
            snprintf(kind, 16, "%s", j->row.kind);
            break;
        }
    sfs_mutex_unlock(&s->lock);
    return id;
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

static struct sfs_job *job_by_id(struct sfs_jobs *s, uint64_t id)
{
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
        if (j->row.id == id)
            return j;
    return NULL;
}

/* Lock held; released meanwhile. Until the job's thread is through. The job may be gone then. */
static void wait_stopped(struct sfs_jobs *s, uint64_t id)
{
    struct sfs_job *j;
    while ((j = job_by_id(s, id)) && j->thread && !j->ended)
        sfs_cond_wait(&s->changed, &s->lock);
}

/* Nobody works at it: its row is changed here (J2). It is pinned. */
static void order_idle(struct sfs_job *j, enum sfs_job_order order)
{
    if (order == SFS_JOB_CANCEL && j->kind->cancelled)
        j->kind->cancelled(j, j->jobs->ops.ctx);
    set_state(j, order == SFS_JOB_PAUSE ? "paused" : "cancelled", order == SFS_JOB_CANCEL);
    save(j, true);
}

int sfs_job_order(struct sfs_jobs *s, uint64_t id, enum sfs_job_order order, struct sfs_error *err)
{
    sfs_mutex_lock(&s->lock);
    reap(s);
    struct sfs_job *j = job_by_id(s, id);
    int rc = 0;
    if (!j || is_over(j) || j->pinned)
        rc = sfs_error_set(err, -ENOENT, "there is no unfinished job %llu; `spacesfs jobs POOL` lists them.",
                           (unsigned long long)id);
    else if (order == SFS_JOB_CANCEL && j->kind->no_way_back)
        rc = sfs_error_set(err, -EOPNOTSUPP, "job %llu (%s) cannot be cancelled: %s. `spacesfs job pause POOL %llu` makes it rest.",
                           (unsigned long long)id, j->row.kind, j->kind->no_way_back, (unsigned long long)id);
    else if (order == SFS_JOB_RESUME && j->thread)
        rc = sfs_error_set(err, -EALREADY, "job %llu is %s already.", (unsigned long long)id, j->row.state);
    else if (order == SFS_JOB_RESUME)
        rc = set_to_work(j);
    else if (order == SFS_JOB_PAUSE && !strcmp(j->row.state, "paused"))
        rc = sfs_error_set(err, -EALREADY, "job %llu is paused already.", (unsigned long long)id);
    bool stop = !rc && order != SFS_JOB_RESUME && j->thread;
    bool idle = !rc && order != SFS_JOB_RESUME && !j->thread;
    if (stop) {
        j->stop = true;
        j->order = order;
        sfs_cond_broadcast(&s->changed);
        wait_stopped(s, id);
    }
    if (idle)
        j->pinned = true;
    sfs_mutex_unlock(&s->lock);
    if (idle)
        order_idle(j, order);
    sfs_mutex_lock(&s->lock);
    if (idle)
        j->pinned = false;
    reap(s);
    sfs_mutex_unlock(&s->lock);
    return rc;
}

void sfs_jobs_wake(struct sfs_jobs *s)
{
    if (!s)
        return;
    sfs_mutex_lock(&s->lock);
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
        j->woken = true;
    sfs_cond_broadcast(&s->changed);
    sfs_mutex_unlock(&s->lock);
}

struct sfs_throttle *sfs_jobs_throttle(struct sfs_jobs *s)
{
    return s->throttle;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void estimate(const struct sfs_job *j, struct sfs_job_state *out)
{
    uint64_t ns = sfs_env_mono_ns(j->jobs->env) - j->began_ns, done = j->row.done - j->began_done;
    if (!out->at_work || ns < RATE_AFTER_NS || !done)
        return;
    out->rate_bytes_s = (uint64_t)((double)done * 1e9 / (double)ns);
    if (out->rate_bytes_s)
        out->eta_s = (j->row.total - j->row.done) / out->rate_bytes_s;
}

int sfs_job_state(struct sfs_jobs *s, uint64_t id, struct sfs_job_state *out)
{
    sfs_mutex_lock(&s->lock);
    struct sfs_job *j = job_by_id(s, id);
    if (j) {
        *out = (struct sfs_job_state){.row = j->row, .at_work = j->thread && !j->ended};
        if (!strcmp(j->row.state, "running"))
            estimate(j, out);
    }
    sfs_mutex_unlock(&s->lock);
    return j ? 0 : -ENOENT;
}

static int find_row(const struct sfs_job_row *row, void *ctx)
{
    struct sfs_job_row *want = ctx;
    if (row->id != want->id)
        return 0;
    *want = *row;
    return 1;
}

/* One that is no longer in the list: by its row. */
static int ended_result(struct sfs_jobs *s, uint64_t id, char text[256])
{
    struct sfs_job_row row = {.id = id};
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_job_each(s->cat, find_row, &row);
    sfs_catalog_unlock(s->cat);
    if (rc != 1)
        return rc ? rc : -ENOENT;
    snprintf(text, 256, "%s", row.result);
    return !strcmp(row.state, "done") ? 0 : !strcmp(row.state, "failed") ? -EINVAL : -ECANCELED;
}

int sfs_job_wait(struct sfs_jobs *s, uint64_t id, uint64_t timeout_ns, char text[256])
{
    uint64_t until = sfs_env_mono_ns(s->env) + timeout_ns;
    sfs_mutex_lock(&s->lock);
    struct sfs_job *j = job_by_id(s, id);
    int rc = 0;
    bool there = j != NULL;
    while ((j = job_by_id(s, id)) && j->thread && !j->ended && strcmp(j->row.state, "waiting") != 0 &&
           (rc = sfs_cond_wait_until(&s->changed, &s->lock, until)) == 0)
        ;
    if (j && !rc) {
        rc = j->result;
        snprintf(text, 256, "%s", j->row.result);
    }
    reap(s);
    sfs_mutex_unlock(&s->lock);
    return !there || !j ? ended_result(s, id, text) : rc;
}

/* --- for a job's function ------------------------------------------------------------------------------------------- */

struct sfs_data *sfs_job_data(struct sfs_job *j)
{
    return j->jobs->d;
}

struct sfs_throttle *sfs_job_throttle(struct sfs_job *j)
{
    return j->jobs->throttle;
}

const char *sfs_job_what(struct sfs_job *j)
{
    return j->row.what;
}

bool sfs_job_stopping(struct sfs_job *j)
{
    sfs_mutex_lock(&j->jobs->lock);
    bool stop = j->stop;
    sfs_mutex_unlock(&j->jobs->lock);
    return stop;
}

void sfs_job_left(struct sfs_job *j, uint64_t left)
{
    uint64_t now = sfs_env_mono_ns(j->jobs->env);
    sfs_mutex_lock(&j->jobs->lock);
    j->row.total = j->row.done + left;
    bool due = now - j->saved_ns >= SAVE_NS;
    if (due)
        j->saved_ns = now;
    sfs_mutex_unlock(&j->jobs->lock);
    if (due)
        save(j, false); /* how far it is, after a restart; a failure shows when its state is saved */
}

int sfs_job_progress(void *job, uint64_t bytes)
{
    struct sfs_job *j = job;
    sfs_mutex_lock(&j->jobs->lock);
    j->row.done += bytes;
    if (j->row.total < j->row.done)
        j->row.total = j->row.done;
    bool stop = j->stop;
    sfs_mutex_unlock(&j->jobs->lock);
    return stop;
}

void sfs_job_says(struct sfs_job *j, const char *fmt, ...)
{
    char text[sizeof(j->row.result)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sfs_mutex_lock(&j->jobs->lock);
    memcpy(j->row.result, text, sizeof(text));
    sfs_mutex_unlock(&j->jobs->lock);
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

static int load_row(const struct sfs_job_row *row, void *ctx)
{
    struct sfs_jobs *s = ctx;
    bool open = !strcmp(row->state, "running") || !strcmp(row->state, "waiting") || !strcmp(row->state, "paused");
    if (!open || !kind_named(s, row->kind) || s->n == MAX_UNFINISHED)
        return 0; /* of a kind that is no job of this list: who began it knows */
    struct sfs_job *j = new_job(s, row);
    if (!j)
        return -ENOMEM;
    TAILQ_INSERT_HEAD(&s->list, j, link);
    s->n++;
    return 0;
}

int sfs_jobs_open(struct sfs_data *d, const struct sfs_jobs_ops *ops, bool go_on, struct sfs_jobs **out)
{
    struct sfs_jobs *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->d = d;
    s->env = sfs_data_env(d);
    s->cat = sfs_data_catalog(d);
    s->ops = *ops;
    TAILQ_INIT(&s->list);
    sfs_mutex_init(&s->lock, s->env, SFS_RANK_JOB);
    sfs_cond_init(&s->changed, s->env);
    s->throttle = sfs_throttle_new(d);
    int rc = s->throttle ? 0 : -ENOMEM;
    if (!rc) {
        sfs_catalog_lock(s->cat);
        rc = sfs_catalog_job_each(s->cat, load_row, s);
        sfs_catalog_unlock(s->cat);
    }
    sfs_mutex_lock(&s->lock);
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
        if (!rc && go_on && strcmp(j->row.state, "paused") != 0)
            rc = set_to_work(j);
    sfs_mutex_unlock(&s->lock);
    if (rc) {
        sfs_jobs_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

void sfs_jobs_close(struct sfs_jobs *s)
{
    if (!s)
        return;
    sfs_mutex_lock(&s->lock);
    s->closing = true;
    struct sfs_job *j;
    TAILQ_FOREACH(j, &s->list, link)
        if (j->thread && !j->stop) {
            j->stop = true;
            j->order = SFS_JOB_RESUME;
        }
    sfs_cond_broadcast(&s->changed);
    sfs_mutex_unlock(&s->lock);
    while ((j = TAILQ_FIRST(&s->list))) {
        if (j->thread)
            sfs_thread_join(j->thread);
        TAILQ_REMOVE(&s->list, j, link);
        free(j);
    }
    sfs_throttle_free(s->throttle);
    sfs_cond_destroy(&s->changed);
    sfs_mutex_destroy(&s->lock);
    free(s);
}
