/* The simulated environment: threads are fibers of one OS thread, and one seed decides everything that time
 * and a scheduler would.
 *
 * Terms
 *   fiber      a simulated thread: a context (context.h) on a stack of its own
 *   main       the caller of sfs_sim_run, seen as a fiber: it may take free locks, but never wait
 *   point      a call at which another fiber may run: lock, unlock, signal, wait, start, join, sleep, yield
 *
 * States of a fiber: READY (in sim.ready) -> RUNNING (sim.current) -> READY | WAITING | DONE. A WAITING fiber
 * may be on one wait list (of a mutex or a condition), may have a deadline, or both. A DONE fiber is freed by
 * its joiner; the first one by sfs_sim_run.
 *
 * Invariants
 *   1. Exactly one fiber runs, and it runs until a point: no data race is possible, and none is needed for an
 *      interleaving.
 *   2. Every choice is drawn from sim.schedule or follows from an order of creation. Addresses, the host's
 *      clock and its randomness decide nothing. The program's own random numbers (sim.values) are another
 *      stream, so that a new point somewhere doesn't change its data.
 *   3. Virtual time stands still while a fiber is READY, else it jumps to the earliest deadline.
 *   4. No fiber READY, no deadline, and not all DONE: a deadlock. Every fiber is told about, then the process
 *      aborts. */
#include "fs/base/context.h"
#include "fs/base/env_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "fs/base/error.h"

#define NS_PER_S 1000000000ull
#define FIRST_WALL_S 1767225600 /* 2026-01-01T00:00:00Z */
#define FOREVER UINT64_MAX

enum fiber_state { FIBER_READY, FIBER_RUNNING, FIBER_WAITING, FIBER_DONE };
enum wait_kind { WAIT_MUTEX, WAIT_COND, WAIT_JOIN, WAIT_SLEEP };

struct fiber {
    struct sfs_thread base;
    TAILQ_ENTRY(fiber) all;
    unsigned number; /* in order of creation */
    char name[16];
    enum fiber_state state;
    struct sfs_context *context;
    void (*fn)(void *);
    void *arg;
    struct sfs_ranks ranks;
    struct fiber *joiner;

    /* while WAITING */
    enum wait_kind wait_kind;
    const struct sfs_mutex *wait_mutex; /* the mutex, or that of the condition */
    const struct fiber *wait_fiber;     /* JOIN */
    void **wait_list;                   /* head of the list that it is on, or NULL */
    struct fiber *wait_next;
    uint64_t deadline_ns;
    bool timed_out;
};
TAILQ_HEAD(fiber_list, fiber);

struct rng {
    uint64_t s[4];
};

struct sim {
    struct sfs_env base;
    struct rng schedule, values;
    uint64_t mono_ns;
    int64_t wall_jump_ns;
    struct fiber main;
    struct fiber *current;
    struct fiber_list fibers; /* all but main, in order of creation; DONE ones until they are joined */
    unsigned nfibers, live;   /* in fibers; of them not DONE */
    unsigned next_number;
    struct fiber **ready; /* room for all fibers */
    unsigned nready, ready_room;
    struct sfs_contexts *contexts;
};

static struct sim *sim_of(struct sfs_env *env)
{
    SFS_ASSERT(env->is_sim);
    return (struct sim *)env;
}

/* --- random numbers: xoshiro256**, seeded by splitmix64 --------------------------------------- */

static void rng_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15ull;

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        r->s[i] = z ^ (z >> 31);
    }
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

static unsigned rng_below(struct rng *r, unsigned n)
{
    return (unsigned)(((rng_next(r) >> 32) * n) >> 32);
}

/* --- scheduling ------------------------------------------------------------------------------- */

static void switch_to(struct sim *s, struct fiber *next)
{
    struct fiber *from = s->current;
    int saved_errno = errno;

    next->state = FIBER_RUNNING;
    if (next == from)
        return;
    s->current = next;
    sfs_context_switch(from->context, next->context, from->state == FIBER_DONE);
    errno = saved_errno;
}

static void make_ready(struct sim *s, struct fiber *f)
{
    SFS_ASSERT(s->nready < s->ready_room);
    f->state = FIBER_READY;
    s->ready[s->nready++] = f;
}

static void print_fiber(const struct fiber *f)
{
    static const char *const states[] = {"ready", "running", "waiting", "done"};

    fprintf(stderr, "  fiber %u \"%s\": %s", f->number, f->name, states[f->state]);
    if (f->state == FIBER_WAITING) {
        if (f->wait_kind == WAIT_MUTEX) {
            const struct fiber *owner = f->wait_mutex->owner;

            fprintf(stderr, " for mutex %p of rank %d, held by \"%s\"", (const void *)f->wait_mutex,
                    (int)f->wait_mutex->rank, owner ? owner->name : "nobody");
        } else if (f->wait_kind == WAIT_COND) {
            fprintf(stderr, " for condition %p with mutex %p of rank %d", (const void *)f->wait_list,
                    (const void *)f->wait_mutex, (int)f->wait_mutex->rank);
        } else if (f->wait_kind == WAIT_JOIN) {
            fprintf(stderr, " for the end of \"%s\"", f->wait_fiber->name);
        } else {
            fprintf(stderr, " asleep");
        }
        if (f->deadline_ns != FOREVER)
            fprintf(stderr, " until %llu ns", (unsigned long long)f->deadline_ns);
    }
    if (f->ranks.n > 0) {
        fprintf(stderr, "; holds ranks");
        for (unsigned i = 0; i < f->ranks.n; i++)
            fprintf(stderr, " %u", f->ranks.held[i]);
    }
    fprintf(stderr, "\n");
}

static void print_fibers(const struct sim *s)
{
    struct fiber *f;

    fprintf(stderr, "simulated threads at %llu ns:\n", (unsigned long long)s->mono_ns);
    TAILQ_FOREACH(f, &s->fibers, all)
    {
        print_fiber(f);
    }
}

static void leave_wait_list(struct fiber *f)
{
    struct fiber *before = NULL;

    if (!f->wait_list)
        return;
    for (struct fiber *w = *f->wait_list; w != f; w = w->wait_next)
        before = w;
    if (before)
        before->wait_next = f->wait_next;
    else
        *f->wait_list = f->wait_next;
    f->wait_next = NULL;
    f->wait_list = NULL;
}

/* Invariant 3. False if there is no deadline. */
static bool advance_time(struct sim *s)
{
    uint64_t earliest = FOREVER;
    struct fiber *f;

    TAILQ_FOREACH(f, &s->fibers, all)
    {
        if (f->state == FIBER_WAITING && f->deadline_ns < earliest)
            earliest = f->deadline_ns;
    }
    if (earliest == FOREVER)
        return false;
    if (s->mono_ns < earliest)
        s->mono_ns = earliest;
    TAILQ_FOREACH(f, &s->fibers, all)
    {
        if (f->state == FIBER_WAITING && f->deadline_ns <= s->mono_ns) {
            leave_wait_list(f);
            f->timed_out = true;
            make_ready(s, f);
        }
    }
    return true;
}

static struct fiber *pick_next(struct sim *s)
{
    struct fiber *f;
    unsigned i;

    if (s->live == 0)
        return &s->main;
    if (s->nready == 0 && !advance_time(s)) {
        print_fibers(s);
        sfs_bug(__FILE__, __LINE__, "deadlock: every simulated thread waits for ever");
    }
    i = s->nready > 1 ? rng_below(&s->schedule, s->nready) : 0;
    f = s->ready[i];
    s->ready[i] = s->ready[--s->nready];
    return f;
}

/* A point: once in `one_in` times, some fiber (perhaps the same) runs on. */
static void point(struct sim *s, unsigned one_in)
{
    if (s->current == &s->main || s->nready == 0 || rng_below(&s->schedule, one_in) != 0)
        return;
    make_ready(s, s->current);
    switch_to(s, pick_next(s));
}

/* Waits, at the end of `list` if given, until woken (false) or until the deadline (true). */
static bool wait_on(struct sim *s, enum wait_kind kind, void **list, uint64_t deadline_ns)
{
    struct fiber *f = s->current;

    if (f == &s->main)
        sfs_bug(__FILE__, __LINE__, "the simulator's main context would wait: only fibers (sfs_sim_run) may");
    f->state = FIBER_WAITING;
    f->wait_kind = kind;
    f->wait_list = list;
    f->wait_next = NULL;
    f->deadline_ns = deadline_ns;
    f->timed_out = false;
    if (list) {
        struct fiber *last = *list;

        while (last && last->wait_next)
            last = last->wait_next;
        if (last)
            last->wait_next = f;
        else
            *list = f;
    }
    switch_to(s, pick_next(s));
    return f->timed_out;
}

/* Wakes one fiber of the list, any of them. */
static void wake_one(struct sim *s, void **list)
{
    struct fiber *f = *list;
    unsigned n = 0;

    for (struct fiber *w = f; w; w = w->wait_next)
        n++;
    if (n == 0)
        return;
    for (unsigned skip = n > 1 ? rng_below(&s->schedule, n) : 0; skip > 0; skip--)
        f = f->wait_next;
    leave_wait_list(f);
    make_ready(s, f);
}

/* --- fibers ----------------------------------------------------------------------------------- */

static void fiber_main(void *arg)
{
    struct fiber *f = arg;
    struct sim *s = sim_of(f->base.env);

    f->fn(f->arg);
    SFS_ASSERT(f->ranks.n == 0); /* ended with a lock held */
    f->state = FIBER_DONE;
    s->live--;
    if (f->joiner)
        make_ready(s, f->joiner);
    switch_to(s, pick_next(s));
    sfs_bug(__FILE__, __LINE__, "a fiber that has ended was switched to");
}

static int ready_reserve(struct sim *s, unsigned n)
{
    unsigned room = s->ready_room ? s->ready_room : 16;
    struct fiber **more;

    if (n <= s->ready_room)
        return 0;
    while (room < n)
        room *= 2;
    more = realloc(s->ready, room * sizeof(*more));
    if (!more)
        return -ENOMEM;
    s->ready = more;
    s->ready_room = room;
    return 0;
}

static int fiber_new(struct sim *s, const char *name, void (*fn)(void *), void *arg, struct fiber **out)
{
    struct fiber *f = calloc(1, sizeof(*f));

    if (!f || ready_reserve(s, s->nfibers + 1) < 0)
        goto no_memory;
    f->base.env = &s->base;
    snprintf(f->name, sizeof(f->name), "%s", name);
    f->context = sfs_context_new(s->contexts, f->name, fiber_main, f);
    if (!f->context)
        goto no_memory;
    f->number = s->next_number++;
    f->fn = fn;
    f->arg = arg;
    f->deadline_ns = FOREVER;
    TAILQ_INSERT_TAIL(&s->fibers, f, all);
    s->nfibers++;
    s->live++;
    make_ready(s, f);
    *out = f;
    return 0;

no_memory:
    free(f);
    return -ENOMEM;
}

static void fiber_free(struct sim *s, struct fiber *f)
{
    SFS_ASSERT(f->state == FIBER_DONE);
    TAILQ_REMOVE(&s->fibers, f, all);
    s->nfibers--;
    sfs_context_free(f->context);
    free(f);
}

int sfs_env_sim_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg,
                             struct sfs_thread **out)
{
    struct sim *s = sim_of(env);
    struct fiber *f;
    int rc;

    if (s->current == &s->main)
        sfs_bug(__FILE__, __LINE__, "a simulated thread can only be started by another (sfs_sim_run)");
    rc = fiber_new(s, name, fn, arg, &f);
    if (rc < 0)
        return rc;
    *out = &f->base;
    point(s, 2);
    return 0;
}

void sfs_env_sim_thread_join(struct sfs_thread *t)
{
    struct sim *s = sim_of(t->env);
    struct fiber *f = (struct fiber *)t;

    SFS_ASSERT(!f->joiner && f != s->current);
    if (f->state != FIBER_DONE) {
        f->joiner = s->current;
        s->current->wait_fiber = f;
        wait_on(s, WAIT_JOIN, NULL, FOREVER);
    }
    fiber_free(s, f);
}

void sfs_sim_run(struct sfs_env *env, void (*fn)(void *), void *arg)
{
    struct sim *s = sim_of(env);
    struct fiber *first;

    SFS_ASSERT(s->current == &s->main && s->nfibers == 0);
    SFS_ASSERT(fiber_new(s, "first", fn, arg, &first) == 0);
    switch_to(s, pick_next(s));
    fiber_free(s, first);
    if (s->nfibers > 0) {
        print_fibers(s);
        sfs_bug(__FILE__, __LINE__, "simulated threads were not joined");
    }
}

/* --- the environment's calls ------------------------------------------------------------------ */

struct sfs_env *sfs_env_sim_new(uint64_t seed)
{
    struct sim *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->contexts = sfs_contexts_new();
    if (!s->contexts) {
        free(s);
        return NULL;
    }
    s->base.is_sim = true;
    rng_seed(&s->schedule, seed);
    rng_seed(&s->values, ~seed);
    s->mono_ns = NS_PER_S;
    s->main.base.env = &s->base;
    s->main.context = sfs_contexts_main(s->contexts);
    s->main.state = FIBER_RUNNING;
    snprintf(s->main.name, sizeof(s->main.name), "main");
    s->current = &s->main;
    TAILQ_INIT(&s->fibers);
    return &s->base;
}

void sfs_env_sim_free(struct sfs_env *env)
{
    struct sim *s = sim_of(env);

    SFS_ASSERT(s->current == &s->main && s->nfibers == 0);
    sfs_contexts_free(s->contexts);
    free(s->ready);
    free(s);
}

void *sfs_env_sim_self(struct sfs_env *env)
{
    return sim_of(env)->current;
}

struct sfs_ranks *sfs_env_sim_ranks(struct sfs_env *env)
{
    return &sim_of(env)->current->ranks;
}

uint64_t sfs_env_sim_mono_ns(struct sfs_env *env)
{
    return sim_of(env)->mono_ns;
}

struct timespec sfs_env_sim_wall(struct sfs_env *env)
{
    struct sim *s = sim_of(env);
    int64_t ns = (int64_t)s->mono_ns + s->wall_jump_ns;
    int64_t sec = ns / (int64_t)NS_PER_S, rest = ns % (int64_t)NS_PER_S;

    if (rest < 0) {
        sec--;
        rest += (int64_t)NS_PER_S;
    }
    return (struct timespec){.tv_sec = FIRST_WALL_S + sec, .tv_nsec = rest};
}

void sfs_sim_jump_wall(struct sfs_env *env, int64_t delta_ns)
{
    sim_of(env)->wall_jump_ns += delta_ns;
}

void sfs_env_sim_rand_bytes(struct sfs_env *env, void *out, size_t len)
{
    struct sim *s = sim_of(env);
    uint8_t *p = out;

    while (len > 0) {
        uint64_t v = rng_next(&s->values);
        size_t n = len < sizeof(v) ? len : sizeof(v);

        memcpy(p, &v, n);
        p += n;
        len -= n;
    }
}

void sfs_env_sim_sleep_ns(struct sfs_env *env, uint64_t ns)
{
    struct sim *s = sim_of(env);

    if (ns == 0)
        point(s, 2);
    else if (s->current == &s->main) /* nobody else runs meanwhile */
        s->mono_ns += ns;
    else
        wait_on(s, WAIT_SLEEP, NULL, ns > FOREVER - 1 - s->mono_ns ? FOREVER - 1 : s->mono_ns + ns);
}

void sfs_env_sim_yield(struct sfs_env *env)
{
    point(sim_of(env), 2);
}

void sfs_env_sim_mutex_lock(struct sfs_mutex *m)
{
    struct sim *s = sim_of(m->env);

    point(s, 16);
    while (m->owner) {
        SFS_ASSERT(m->owner != s->current); /* it holds the mutex already */
        s->current->wait_mutex = m;
        wait_on(s, WAIT_MUTEX, &m->sim_waiters, FOREVER);
    }
}

bool sfs_env_sim_mutex_trylock(struct sfs_mutex *m)
{
    point(sim_of(m->env), 16);
    return !m->owner;
}

void sfs_env_sim_mutex_unlock(struct sfs_mutex *m)
{
    struct sim *s = sim_of(m->env);

    wake_one(s, &m->sim_waiters);
    point(s, 16);
}

int sfs_env_sim_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns)
{
    struct sim *s = sim_of(c->env);
    bool timed_out = deadline_ns <= s->mono_ns;

    wake_one(s, &m->sim_waiters);
    if (timed_out) {
        point(s, 2);
    } else {
        s->current->wait_mutex = m;
        timed_out = wait_on(s, WAIT_COND, &c->sim_waiters, deadline_ns);
    }
    sfs_env_sim_mutex_lock(m);
    return timed_out ? -ETIMEDOUT : 0;
}

void sfs_env_sim_cond_wake(struct sfs_cond *c, bool all)
{
    struct sim *s = sim_of(c->env);

    do
        wake_one(s, &c->sim_waiters);
    while (all && c->sim_waiters);
    point(s, 16);
}
