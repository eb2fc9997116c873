/* The real environment: pthreads and the kernel's clocks. */
#include "fs/base/env_impl.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "fs/base/error.h"

#define NS_PER_S 1000000000ull

struct real_thread {
    struct sfs_thread base;
    pthread_t id;
    void (*fn)(void *);
    void *arg;
    char name[16];
};

static _Thread_local char self;

struct sfs_env *sfs_env_real_new(void)
{
    return calloc(1, sizeof(struct sfs_env));
}

void sfs_env_real_free(struct sfs_env *env)
{
    free(env);
}

void *sfs_env_real_self(void)
{
    return &self;
}

uint64_t sfs_env_real_mono_ns(void)
{
    struct timespec ts;

    SFS_ASSERT(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
    return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

struct timespec sfs_env_real_wall(void)
{
    struct timespec ts;

    SFS_ASSERT(clock_gettime(CLOCK_REALTIME, &ts) == 0);
    return ts;
}

void sfs_env_real_rand_bytes(void *out, size_t len)
{
    uint8_t *p = out;

    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);

        if (n < 0) {
            /* Only signals can get in the way of a valid call on the kernels that we support. */
            SFS_ASSERT(errno == EINTR);
            continue;
        }
        p += n;
        len -= (size_t)n;
    }
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

void sfs_env_real_sleep_ns(uint64_t ns)
{
    uint64_t now = sfs_env_real_mono_ns();
    struct timespec until = to_timespec(ns > UINT64_MAX - now ? UINT64_MAX : now + ns);
    int rc;

    do
        rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    while (rc == EINTR);
    SFS_ASSERT(rc == 0);
}

static void *thread_main(void *arg)
{
    struct real_thread *t = arg;

    pthread_setname_np(pthread_self(), t->name);
    t->fn(t->arg);
    return NULL;
}

int sfs_env_real_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg,
                              struct sfs_thread **out)
{
    struct real_thread *t = calloc(1, sizeof(*t));
    sigset_t block, old;
    int rc;

    if (!t)
        return -ENOMEM;
    t->base.env = env;
    t->fn = fn;
    t->arg = arg;
    snprintf(t->name, sizeof(t->name), "%s", name);

    /* Signals sent to the process go to the threads that asked for them, never to one of ours. */
    sigfillset(&block);
    sigdelset(&block, SIGSEGV);
    sigdelset(&block, SIGBUS);
    sigdelset(&block, SIGFPE);
    sigdelset(&block, SIGILL);
    sigdelset(&block, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &block, &old);
    rc = pthread_create(&t->id, NULL, thread_main, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc) {
        free(t);
        return -rc;
    }
    *out = &t->base;
    return 0;
}

void sfs_env_real_thread_join(struct sfs_thread *base)
{
    struct real_thread *t = (struct real_thread *)base;

    SFS_ASSERT(pthread_join(t->id, NULL) == 0);
    free(t);
}

void sfs_env_real_cond_init(struct sfs_cond *c)
{
    pthread_condattr_t attr;

    SFS_ASSERT(pthread_condattr_init(&attr) == 0);
    SFS_ASSERT(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    SFS_ASSERT(pthread_cond_init(&c->real, &attr) == 0);
    pthread_condattr_destroy(&attr);
}

int sfs_env_real_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns)
{
    struct timespec until = to_timespec(deadline_ns);
    int rc;

    rc = deadline_ns == UINT64_MAX ? pthread_cond_wait(&c->real, &m->real)
                                   : pthread_cond_timedwait(&c->real, &m->real, &until);
    SFS_ASSERT(rc == 0 || rc == ETIMEDOUT);
    return -rc;
}
