/* The public calls for time, randomness and threads: each goes to the real or the simulated environment. */
#include "fs/base/env_impl.h"

#include "fs/base/error.h"

struct sfs_env *sfs_env_new_real(void)
{
    return sfs_env_real_new();
}

struct sfs_env *sfs_env_new_sim(uint64_t seed)
{
    return sfs_env_sim_new(seed);
}

void sfs_env_free(struct sfs_env *env)
{
    if (!env)
        return;
    if (env->is_sim)
        sfs_env_sim_free(env);
    else
        sfs_env_real_free(env);
}

bool sfs_env_is_sim(const struct sfs_env *env)
{
    return env->is_sim;
}

uint64_t sfs_env_mono_ns(struct sfs_env *env)
{
    return env->is_sim ? sfs_env_sim_mono_ns(env) : sfs_env_real_mono_ns();
}

struct timespec sfs_env_wall(struct sfs_env *env)
{
    return env->is_sim ? sfs_env_sim_wall(env) : sfs_env_real_wall();
}

void sfs_env_rand_bytes(struct sfs_env *env, void *out, size_t len)
{
    if (env->is_sim)
        sfs_env_sim_rand_bytes(env, out, len);
    else
        sfs_env_real_rand_bytes(out, len);
}

uint64_t sfs_env_rand(struct sfs_env *env)
{
    uint64_t v;

    sfs_env_rand_bytes(env, &v, sizeof(v));
    return v;
}

void sfs_env_sleep_ns(struct sfs_env *env, uint64_t ns)
{
    if (env->is_sim)
        sfs_env_sim_sleep_ns(env, ns);
    else
        sfs_env_real_sleep_ns(ns);
}

void sfs_env_yield(struct sfs_env *env)
{
    if (env->is_sim)
        sfs_env_sim_yield(env);
}

int sfs_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg,
                     struct sfs_thread **out)
{
    SFS_ASSERT(name && fn && out);
    return env->is_sim ? sfs_env_sim_thread_start(env, name, fn, arg, out)
                       : sfs_env_real_thread_start(env, name, fn, arg, out);
}

void sfs_thread_join(struct sfs_thread *t)
{
    SFS_ASSERT(t);
    if (t->env->is_sim)
        sfs_env_sim_thread_join(t);
    else
        sfs_env_real_thread_join(t);
}
