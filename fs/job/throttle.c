/* AUTO: a worker that has worked for a while rests for a multiple of it, as long as programs were active in the last
 * tenth of a second: then background work has at most a quarter (urgent: half) of the time. A fixed rate: all workers
 * draw on one account, which lets nobody go on before what was moved is paid for. */
#include "fs/job/throttle.h"

#include <stdlib.h>

#define ACTIVE_NS 100000000ull
#define REST_MIN_NS 1000000ull   /* less is saved up */
#define REST_MAX_NS 250000000ull
#define REST_FACTOR 3u
#define REST_FACTOR_URGENT 1u

struct sfs_throttle {
    struct sfs_data *d;
    struct sfs_env *env;
    struct sfs_mutex lock; /* SFS_RANK_LEAF: both below */
    uint64_t rate_bytes_s;
    uint64_t paid_until_ns; /* fixed rate: when what was moved so far is paid for */
};

struct sfs_throttle *sfs_throttle_new(struct sfs_data *d)
{
    struct sfs_throttle *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->d = d;
    t->env = sfs_data_env(d);
    sfs_mutex_init(&t->lock, t->env, SFS_RANK_LEAF);
    return t;
}

void sfs_throttle_free(struct sfs_throttle *t)
{
    if (!t)
        return;
    sfs_mutex_destroy(&t->lock);
    free(t);
}

void sfs_throttle_set(struct sfs_throttle *t, uint64_t bytes_s)
{
    sfs_mutex_lock(&t->lock);
    t->rate_bytes_s = bytes_s;
    t->paid_until_ns = 0;
    sfs_mutex_unlock(&t->lock);
}

static uint64_t rest_auto(struct sfs_throttle *t, struct sfs_pace *pace, uint64_t now)
{
    uint64_t busy = sfs_data_program_ns(t->d);
    if (!busy || now - busy > ACTIVE_NS) {
        pace->since_ns = now;
        return 0;
    }
    uint64_t rest = (now - pace->since_ns) * (pace->urgent ? REST_FACTOR_URGENT : REST_FACTOR);
    return rest < REST_MIN_NS ? 0 : rest;
}

static uint64_t rest_fixed(struct sfs_throttle *t, uint64_t rate, uint64_t now, uint64_t bytes)
{
    sfs_mutex_lock(&t->lock);
    if (t->paid_until_ns < now)
        t->paid_until_ns = now;
    t->paid_until_ns += (uint64_t)((double)bytes * 1e9 / (double)rate);
    uint64_t rest = t->paid_until_ns - now;
    sfs_mutex_unlock(&t->lock);
    return rest < REST_MIN_NS ? 0 : rest;
}

void sfs_throttle_step(struct sfs_throttle *t, struct sfs_pace *pace, uint64_t bytes)
{
    uint64_t now = sfs_env_mono_ns(t->env);
    sfs_mutex_lock(&t->lock);
    uint64_t rate = t->rate_bytes_s;
    sfs_mutex_unlock(&t->lock);
    if (!pace->since_ns)
        pace->since_ns = now;
    if (rate == SFS_RATE_UNLIMITED)
        return;
    uint64_t rest = rate == SFS_RATE_AUTO ? rest_auto(t, pace, now) : rest_fixed(t, rate, now, bytes);
    if (!rest)
        return;
    sfs_env_sleep_ns(t->env, rest < REST_MAX_NS ? rest : REST_MAX_NS);
    pace->since_ns = sfs_env_mono_ns(t->env);
}
