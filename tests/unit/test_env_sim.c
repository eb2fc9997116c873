/* The simulated environment: one seed, one history; time that jumps; deadlocks and broken lock orders that
 * are found. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/env.h"
#include "fs/base/error.h"
#include "fs/base/uuid.h"

#define S_NS 1000000000ull

static struct sfs_env *env;
static struct sfs_mutex m, m2;
static struct sfs_cond c;
static struct sfs_rwlock l;

static void setup(void)
{
    env = sfs_env_new_sim(1);
    sfs_mutex_init(&m, env, SFS_RANK_DISK);
    sfs_mutex_init(&m2, env, SFS_RANK_INODE);
    sfs_cond_init(&c, env);
    sfs_rwlock_init(&l, env, SFS_RANK_GATE);
}

static void teardown(void)
{
    sfs_rwlock_destroy(&l);
    sfs_cond_destroy(&c);
    sfs_mutex_destroy(&m2);
    sfs_mutex_destroy(&m);
    sfs_env_free(env);
}

TestSuite(env_sim, .init = setup, .fini = teardown);

static void start_all(unsigned n, void (*fn)(void *), struct sfs_thread **t)
{
    for (uintptr_t i = 0; i < n; i++)
        SFS_ASSERT(sfs_thread_start(env, "worker", fn, (void *)(i + 1), &t[i]) == 0);
}

static void join_all(unsigned n, struct sfs_thread **t)
{
    while (n > 0)
        sfs_thread_join(t[--n]);
}

/* --- determinism ------------------------------------------------------------------------------ */

static uint64_t history;

static void note(uint64_t what)
{
    history = (history ^ what) * 0x100000001b3ull;
}

static void busy(void *arg)
{
    uintptr_t me = (uintptr_t)arg;

    for (int i = 0; i < 200; i++) {
        sfs_rwlock_rdlock(&l);
        sfs_mutex_lock(&m);
        note(me);
        if (sfs_env_rand(env) % 4 == 0)
            sfs_cond_broadcast(&c);
        else if (i % 5 == 0)
            note((uint64_t)sfs_cond_wait_until(&c, &m, sfs_env_mono_ns(env) + 1000 * me));
        sfs_mutex_unlock(&m);
        sfs_rwlock_rdunlock(&l);
        if (i % 9 == 0) {
            sfs_rwlock_wrlock(&l);
            note(me + 100);
            sfs_env_yield(env);
            sfs_rwlock_wrunlock(&l);
        }
        if (i % 20 == 0)
            sfs_env_sleep_ns(env, sfs_env_rand(env) % 5000);
    }
}

static void run_busy(void *arg)
{
    struct sfs_thread *t[6];

    (void)arg;
    start_all(6, busy, t);
    join_all(6, t);
    note(sfs_env_mono_ns(env));
}

static uint64_t history_of(uint64_t seed)
{
    teardown();
    env = sfs_env_new_sim(seed);
    sfs_mutex_init(&m, env, SFS_RANK_DISK);
    sfs_mutex_init(&m2, env, SFS_RANK_INODE);
    sfs_cond_init(&c, env);
    sfs_rwlock_init(&l, env, SFS_RANK_GATE);
    history = 1;
    sfs_sim_run(env, run_busy, NULL);
    sfs_sim_run(env, run_busy, NULL); /* an environment outlives several runs */
    return history;
}

Test(env_sim, one_seed_one_history)
{
    uint64_t seen[20];

    for (unsigned seed = 0; seed < 20; seed++) {
        void *shift = malloc(1 + seed * 5000); /* addresses are not to matter */

        seen[seed] = history_of(seed);
        free(shift);
        for (unsigned other = 0; other < seed; other++)
            cr_assert_neq(seen[seed], seen[other]);
    }
    for (unsigned seed = 0; seed < 20; seed++)
        cr_assert_eq(history_of(seed), seen[seed]);
}

static int unguarded, lost_updates;

static void race(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        int v = unguarded;

        sfs_env_yield(env);
        lost_updates += unguarded != v;
        unguarded = v + 1;
    }
}

static void run_race(void *arg)
{
    struct sfs_thread *t[2];

    (void)arg;
    start_all(2, race, t);
    join_all(2, t);
}

Test(env_sim, yields_interleave)
{
    sfs_sim_run(env, run_race, NULL);
    cr_assert_gt(lost_updates, 0);
}

Test(env_sim, random_numbers_follow_the_seed)
{
    struct sfs_env *a = sfs_env_new_sim(7), *b = sfs_env_new_sim(7), *other = sfs_env_new_sim(8);
    struct sfs_uuid x, y, z;

    sfs_uuid_generate(a, &x);
    sfs_uuid_generate(b, &y);
    sfs_uuid_generate(other, &z);
    cr_assert(sfs_uuid_equal(&x, &y));
    cr_assert_not(sfs_uuid_equal(&x, &z));
    cr_assert(sfs_env_is_sim(a));
    sfs_env_free(a);
    sfs_env_free(b);
    sfs_env_free(other);
}

/* --- time ------------------------------------------------------------------------------------- */

static void sleeps(void *arg)
{
    uint64_t start = sfs_env_mono_ns(env), me = (uintptr_t)arg;

    for (uint64_t i = 1; i <= 10; i++) {
        sfs_env_sleep_ns(env, me * 3600 * S_NS);
        SFS_ASSERT(sfs_env_mono_ns(env) == start + i * me * 3600 * S_NS);
    }
}

static void run_sleeps(void *arg)
{
    struct sfs_thread *t[3];
    uint64_t start = sfs_env_mono_ns(env);

    (void)arg;
    start_all(3, sleeps, t);
    sfs_env_yield(env);
    cr_assert_eq(sfs_env_mono_ns(env), start, "time passed while a fiber could run");
    join_all(3, t);
    cr_assert_eq(sfs_env_mono_ns(env), start + 30 * 3600 * S_NS);
}

Test(env_sim, time_jumps)
{
    sfs_sim_run(env, run_sleeps, NULL);
}

static void run_timeout(void *arg)
{
    uint64_t start = sfs_env_mono_ns(env);

    (void)arg;
    sfs_mutex_lock(&m);
    cr_assert_eq(sfs_cond_wait_until(&c, &m, start + 5 * S_NS), -ETIMEDOUT);
    sfs_mutex_assert_held(&m);
    cr_assert_eq(sfs_env_mono_ns(env), start + 5 * S_NS);
    cr_assert_eq(sfs_cond_wait_until(&c, &m, start), -ETIMEDOUT, "a deadline in the past");
    sfs_mutex_unlock(&m);
}

Test(env_sim, timeout)
{
    sfs_sim_run(env, run_timeout, NULL);
}

Test(env_sim, wall_clock)
{
    struct timespec a = sfs_env_wall(env), b;
    uint64_t mono = sfs_env_mono_ns(env);

    sfs_sim_jump_wall(env, -90 * (int64_t)S_NS - 5);
    b = sfs_env_wall(env);
    cr_assert_eq((a.tv_sec - b.tv_sec) * (int64_t)S_NS + a.tv_nsec - b.tv_nsec, 90 * (int64_t)S_NS + 5);
    cr_assert(b.tv_nsec >= 0 && b.tv_nsec < (long)S_NS);
    cr_assert_eq(sfs_env_mono_ns(env), mono);
    sfs_env_sleep_ns(env, 7);
    cr_assert_eq(sfs_env_mono_ns(env), mono + 7);
}

/* --- locks ------------------------------------------------------------------------------------ */

static int inside, readers_inside, writers_inside, max_readers, total;

static void guarded(void *arg)
{
    (void)arg;
    for (int i = 0; i < 100; i++) {
        sfs_mutex_lock(&m);
        SFS_ASSERT(inside++ == 0);
        sfs_env_yield(env);
        total++;
        inside--;
        sfs_mutex_unlock(&m);
        if (sfs_mutex_trylock(&m)) {
            SFS_ASSERT(inside == 0);
            sfs_mutex_unlock(&m);
        }
        if (i % 4 == 0) {
            sfs_rwlock_wrlock(&l);
            SFS_ASSERT(writers_inside++ == 0 && readers_inside == 0);
            sfs_env_yield(env);
            writers_inside--;
            sfs_rwlock_wrunlock(&l);
        } else {
            sfs_rwlock_rdlock(&l);
            SFS_ASSERT(writers_inside == 0);
            readers_inside++;
            max_readers = readers_inside > max_readers ? readers_inside : max_readers;
            sfs_env_yield(env);
            readers_inside--;
            sfs_rwlock_rdunlock(&l);
        }
    }
}

static void run_guarded(void *arg)
{
    struct sfs_thread *t[8];

    (void)arg;
    start_all(8, guarded, t);
    join_all(8, t);
}

Test(env_sim, exclusion)
{
    sfs_sim_run(env, run_guarded, NULL);
    cr_assert_eq(total, 800);
    cr_assert_gt(max_readers, 1);
}

static int queue, consumed;

static void consume(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m);
    for (;;) {
        while (queue == 0)
            sfs_cond_wait(&c, &m);
        if (queue < 0)
            break;
        queue--;
        consumed++;
    }
    sfs_mutex_unlock(&m);
}

static void run_queue(void *arg)
{
    struct sfs_thread *t[4];

    (void)arg;
    start_all(4, consume, t);
    for (int i = 0; i < 500; i++) {
        sfs_mutex_lock(&m);
        queue++;
        sfs_cond_signal(&c);
        sfs_mutex_unlock(&m);
    }
    sfs_mutex_lock(&m);
    while (queue > 0) {
        sfs_mutex_unlock(&m);
        sfs_env_sleep_ns(env, 1);
        sfs_mutex_lock(&m);
    }
    queue = -1;
    sfs_cond_broadcast(&c);
    sfs_mutex_unlock(&m);
    join_all(4, t);
}

Test(env_sim, producer_and_consumers)
{
    sfs_sim_run(env, run_queue, NULL);
    cr_assert_eq(consumed, 500);
}

static void keeps_errno(void *arg)
{
    for (int i = 0; i < 50; i++) {
        errno = (int)(uintptr_t)arg;
        sfs_env_yield(env);
        SFS_ASSERT(errno == (int)(uintptr_t)arg);
    }
}

static void run_errno(void *arg)
{
    struct sfs_thread *t[3];

    (void)arg;
    start_all(3, keeps_errno, t);
    join_all(3, t);
}

Test(env_sim, errno_is_the_fibers_own)
{
    sfs_sim_run(env, run_errno, NULL);
}

static unsigned deep(unsigned n)
{
    volatile char frame[512];

    frame[0] = (char)n;
    return n == 0 ? (unsigned)frame[0] : deep(n - 1) + 1 + (unsigned)(frame[0] - (char)n);
}

static void run_many(void *arg)
{
    struct sfs_thread *t[200];

    (void)arg;
    cr_assert_eq(deep(300), 300);
    for (int round = 0; round < 5; round++) { /* more than the kept stacks */
        start_all(200, keeps_errno, t);
        join_all(200, t);
    }
}

Test(env_sim, many_fibers)
{
    sfs_sim_run(env, run_many, NULL);
}

/* --- what must abort -------------------------------------------------------------------------- */

static void run_deadlock(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m);
    sfs_cond_wait(&c, &m);
}

Test(env_sim, deadlock, .signal = SIGABRT)
{
    sfs_sim_run(env, run_deadlock, NULL);
}

static void run_wrong_order(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m);
    sfs_mutex_lock(&m2);
}

Test(env_sim, wrong_lock_order, .signal = SIGABRT)
{
    sfs_sim_run(env, run_wrong_order, NULL);
}

static void run_same_rank(void *arg)
{
    struct sfs_mutex other;

    sfs_mutex_init(&other, env, SFS_RANK_DISK);
    sfs_mutex_lock(&m);
    if (arg)
        sfs_mutex_lock_nested(&other);
    else
        sfs_mutex_lock(&other);
    sfs_mutex_unlock(&m);
    sfs_mutex_unlock(&other);
    sfs_mutex_destroy(&other);
}

Test(env_sim, same_rank_twice, .signal = SIGABRT)
{
    sfs_sim_run(env, run_same_rank, NULL);
}

Test(env_sim, same_rank_twice_nested)
{
    sfs_sim_run(env, run_same_rank, env);
}

static void run_rwlock_order(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m2);
    sfs_rwlock_rdlock(&l);
}

Test(env_sim, wrong_order_with_a_rwlock, .signal = SIGABRT)
{
    sfs_sim_run(env, run_rwlock_order, NULL);
}

static void run_wait_below(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m2);
    sfs_mutex_lock(&m);
    sfs_cond_wait_until(&c, &m2, UINT64_MAX - 1); /* would take m2 again while m is held */
}

Test(env_sim, wait_below_a_held_lock, .signal = SIGABRT)
{
    sfs_sim_run(env, run_wait_below, NULL);
}

static void run_try_any_order(void *arg)
{
    (void)arg;
    sfs_mutex_lock(&m);
    cr_assert(sfs_mutex_trylock(&m2), "never waits, so any order is fine");
    sfs_mutex_unlock(&m);
    sfs_mutex_unlock(&m2);
}

Test(env_sim, trylock_in_any_order)
{
    sfs_sim_run(env, run_try_any_order, NULL);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void run_unjoined(void *arg)
{
    struct sfs_thread *t;

    (void)arg;
    SFS_ASSERT(sfs_thread_start(env, "forgotten", nothing, NULL, &t) == 0);
}

Test(env_sim, not_joined, .signal = SIGABRT)
{
    sfs_sim_run(env, run_unjoined, NULL);
}

static void run_unlock_foreign(void *arg)
{
    if (!arg) {
        struct sfs_thread *t;

        sfs_mutex_lock(&m);
        SFS_ASSERT(sfs_thread_start(env, "thief", run_unlock_foreign, env, &t) == 0);
        sfs_thread_join(t);
        return;
    }
    sfs_mutex_unlock(&m);
}

Test(env_sim, unlock_of_anothers_mutex, .signal = SIGABRT)
{
    sfs_sim_run(env, run_unlock_foreign, NULL);
}

Test(env_sim, main_must_not_wait, .signal = SIGABRT)
{
    sfs_mutex_lock(&m);
    sfs_cond_wait(&c, &m);
}
