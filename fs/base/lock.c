/* Mutexes, condition variables and reader-writer locks: ranks and owners are kept here, the waiting is done
 * by the environment.
 *
 * Ranks. A thread's set of held ranks is its own (thread-local, or the fiber's), so that it needs no lock. A
 * rank enters the set before the thread waits for the lock: a deadlock in the simulator then shows what it
 * was about to take, too. A condition wait gives its mutex back and takes it again: nothing of a higher rank
 * may be held across it, or the second taking would break the order. */
#include "fs/base/env_impl.h"

#include <stdio.h>
#include <string.h>

#include "fs/base/error.h"

#ifndef NDEBUG
static _Thread_local struct sfs_ranks thread_ranks;
#endif

/* NULL where ranks aren't checked. */
static struct sfs_ranks *ranks_of(struct sfs_env *env)
{
    if (env->is_sim)
        return sfs_env_sim_ranks(env);
#ifndef NDEBUG
    return &thread_ranks;
#else
    return NULL;
#endif
}

static void *self_of(struct sfs_env *env)
{
    return env->is_sim ? sfs_env_sim_self(env) : sfs_env_real_self();
}

static void __attribute__((noreturn)) rank_bug(const char *what, unsigned taken, unsigned held)
{
    char text[128];

    snprintf(text, sizeof(text), "lock order: %s rank %u while rank %u is held", what, taken, held);
    sfs_bug(__FILE__, __LINE__, text);
}

enum rank_check { RANK_ABOVE, RANK_SAME_OK, RANK_ANY };

static void rank_take(struct sfs_env *env, enum sfs_rank rank, enum rank_check check)
{
    struct sfs_ranks *r = rank == SFS_RANK_NONE ? NULL : ranks_of(env);

    if (!r)
        return;
    for (unsigned i = 0; i < r->n; i++) {
        if ((check == RANK_ABOVE && r->held[i] >= rank) || (check == RANK_SAME_OK && r->held[i] > rank))
            rank_bug("taking", rank, r->held[i]);
    }
    SFS_ASSERT(r->n < SFS_RANKS_MAX);
    r->held[r->n++] = (uint16_t)rank;
}

static void rank_drop(struct sfs_env *env, enum sfs_rank rank)
{
    struct sfs_ranks *r = rank == SFS_RANK_NONE ? NULL : ranks_of(env);
    unsigned i;

    if (!r)
        return;
    for (i = r->n; i > 0 && r->held[i - 1] != rank; i--)
        ;
    SFS_ASSERT(i > 0); /* else: released by a thread that did not take it */
    memmove(&r->held[i - 1], &r->held[i], (r->n - i) * sizeof(r->held[0]));
    r->n--;
}

static void set_owner(struct sfs_mutex *m, void *owner)
{
    /* Atomic only for sfs_mutex_assert_held in a thread that does not hold it: a bug, which shall be told as
     * one and not as a race. */
    __atomic_store_n(&m->owner, owner, __ATOMIC_RELAXED);
}

void sfs_mutex_init(struct sfs_mutex *m, struct sfs_env *env, enum sfs_rank rank)
{
    memset(m, 0, sizeof(*m));
    m->env = env;
    m->rank = rank;
    if (!env->is_sim)
        SFS_ASSERT(pthread_mutex_init(&m->real, NULL) == 0);
}

void sfs_mutex_destroy(struct sfs_mutex *m)
{
    SFS_ASSERT(!m->owner && !m->sim_waiters);
    if (!m->env->is_sim)
        SFS_ASSERT(pthread_mutex_destroy(&m->real) == 0);
}

static void lock(struct sfs_mutex *m, enum rank_check check)
{
    rank_take(m->env, m->rank, check);
    if (m->env->is_sim)
        sfs_env_sim_mutex_lock(m);
    else
        SFS_ASSERT(pthread_mutex_lock(&m->real) == 0);
    set_owner(m, self_of(m->env));
}

void sfs_mutex_lock(struct sfs_mutex *m)
{
    lock(m, RANK_ABOVE);
}

void sfs_mutex_lock_nested(struct sfs_mutex *m)
{
    lock(m, RANK_SAME_OK);
}

bool sfs_mutex_trylock(struct sfs_mutex *m)
{
    bool got;

    if (m->env->is_sim) {
        got = sfs_env_sim_mutex_trylock(m);
    } else {
        int rc = pthread_mutex_trylock(&m->real);

        SFS_ASSERT(rc == 0 || rc == EBUSY);
        got = rc == 0;
    }
    if (got) {
        /* It doesn't wait, so it cannot be part of a deadlock: any order will do. */
        rank_take(m->env, m->rank, RANK_ANY);
        set_owner(m, self_of(m->env));
    }
    return got;
}

void sfs_mutex_unlock(struct sfs_mutex *m)
{
    sfs_mutex_assert_held(m);
    set_owner(m, NULL);
    rank_drop(m->env, m->rank);
    if (m->env->is_sim)
        sfs_env_sim_mutex_unlock(m);
    else
        SFS_ASSERT(pthread_mutex_unlock(&m->real) == 0);
}

void sfs_mutex_assert_held(struct sfs_mutex *m)
{
    SFS_ASSERT(__atomic_load_n(&m->owner, __ATOMIC_RELAXED) == self_of(m->env));
}

void sfs_cond_init(struct sfs_cond *c, struct sfs_env *env)
{
    memset(c, 0, sizeof(*c));
    c->env = env;
    if (!env->is_sim)
        sfs_env_real_cond_init(c);
}

void sfs_cond_destroy(struct sfs_cond *c)
{
    SFS_ASSERT(!c->sim_waiters);
    if (!c->env->is_sim)
        SFS_ASSERT(pthread_cond_destroy(&c->real) == 0);
}

static void check_wait_order(struct sfs_mutex *m)
{
    struct sfs_ranks *r = m->rank == SFS_RANK_NONE ? NULL : ranks_of(m->env);

    if (!r)
        return;
    for (unsigned i = 0; i < r->n; i++) {
        if (r->held[i] > m->rank)
            rank_bug("waiting with", m->rank, r->held[i]);
    }
}

int sfs_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns)
{
    int rc;

    sfs_mutex_assert_held(m);
    check_wait_order(m);
    set_owner(m, NULL);
    rank_drop(m->env, m->rank);
    rc = m->env->is_sim ? sfs_env_sim_cond_wait_until(c, m, deadline_ns)
                        : sfs_env_real_cond_wait_until(c, m, deadline_ns);
    rank_take(m->env, m->rank, RANK_SAME_OK);
    set_owner(m, self_of(m->env));
    return rc;
}

void sfs_cond_wait(struct sfs_cond *c, struct sfs_mutex *m)
{
    sfs_cond_wait_until(c, m, UINT64_MAX);
}

void sfs_cond_signal(struct sfs_cond *c)
{
    if (c->env->is_sim)
        sfs_env_sim_cond_wake(c, false);
    else
        SFS_ASSERT(pthread_cond_signal(&c->real) == 0);
}

void sfs_cond_broadcast(struct sfs_cond *c)
{
    if (c->env->is_sim)
        sfs_env_sim_cond_wake(c, true);
    else
        SFS_ASSERT(pthread_cond_broadcast(&c->real) == 0);
}

void sfs_rwlock_init(struct sfs_rwlock *l, struct sfs_env *env, enum sfs_rank rank)
{
    memset(l, 0, sizeof(*l));
    l->rank = rank;
    sfs_mutex_init(&l->m, env, SFS_RANK_NONE);
    sfs_cond_init(&l->c, env);
}

void sfs_rwlock_destroy(struct sfs_rwlock *l)
{
    SFS_ASSERT(!l->readers && !l->writer && !l->writers_waiting);
    sfs_cond_destroy(&l->c);
    sfs_mutex_destroy(&l->m);
}

void sfs_rwlock_rdlock(struct sfs_rwlock *l)
{
    rank_take(l->m.env, l->rank, RANK_ABOVE);
    sfs_mutex_lock(&l->m);
    while (l->writer || l->writers_waiting)
        sfs_cond_wait(&l->c, &l->m);
    l->readers++;
    sfs_mutex_unlock(&l->m);
}

void sfs_rwlock_rdunlock(struct sfs_rwlock *l)
{
    sfs_mutex_lock(&l->m);
    SFS_ASSERT(l->readers > 0);
    if (--l->readers == 0)
        sfs_cond_broadcast(&l->c);
    sfs_mutex_unlock(&l->m);
    rank_drop(l->m.env, l->rank);
}

void sfs_rwlock_wrlock(struct sfs_rwlock *l)
{
    rank_take(l->m.env, l->rank, RANK_ABOVE);
    sfs_mutex_lock(&l->m);
    l->writers_waiting++;
    while (l->writer || l->readers)
        sfs_cond_wait(&l->c, &l->m);
    l->writers_waiting--;
    l->writer = true;
    sfs_mutex_unlock(&l->m);
}

void sfs_rwlock_wrunlock(struct sfs_rwlock *l)
{
    sfs_mutex_lock(&l->m);
    SFS_ASSERT(l->writer);
    l->writer = false;
    sfs_cond_broadcast(&l->c);
    sfs_mutex_unlock(&l->m);
    rank_drop(l->m.env, l->rank);
}
