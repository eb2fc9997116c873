/* Inside fs/base only: what env.c and lock.c (the public calls: checks, lock ranks, dispatch) share with the
 * two environments behind them, env_real.c and env_sim.c. */
#ifndef SFS_BASE_ENV_IMPL_H
#define SFS_BASE_ENV_IMPL_H

#include "fs/base/env.h"

struct sfs_env {
    bool is_sim;
};

/* First member of each environment's own thread structure. */
struct sfs_thread {
    struct sfs_env *env;
};

/* Locks that are held only inside calls of this layer have no rank: they are always innermost. */
#define SFS_RANK_NONE ((enum sfs_rank)0)

/* The ranks that one thread or fiber holds, in the order in which they were taken. */
#define SFS_RANKS_MAX 64
struct sfs_ranks {
    unsigned n;
    uint16_t held[SFS_RANKS_MAX];
};

struct sfs_env *sfs_env_real_new(void);
void sfs_env_real_free(struct sfs_env *env);
void *sfs_env_real_self(void); /* identity of the calling thread */
uint64_t sfs_env_real_mono_ns(void);
struct timespec sfs_env_real_wall(void);
void sfs_env_real_rand_bytes(void *out, size_t len);
void sfs_env_real_sleep_ns(uint64_t ns);
int sfs_env_real_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg,
                              struct sfs_thread **out);
void sfs_env_real_thread_join(struct sfs_thread *t);
void sfs_env_real_cond_init(struct sfs_cond *c);
int sfs_env_real_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns);

struct sfs_env *sfs_env_sim_new(uint64_t seed);
void sfs_env_sim_free(struct sfs_env *env);
void *sfs_env_sim_self(struct sfs_env *env); /* identity of the running fiber */
struct sfs_ranks *sfs_env_sim_ranks(struct sfs_env *env);
uint64_t sfs_env_sim_mono_ns(struct sfs_env *env);
struct timespec sfs_env_sim_wall(struct sfs_env *env);
void sfs_env_sim_rand_bytes(struct sfs_env *env, void *out, size_t len);
void sfs_env_sim_sleep_ns(struct sfs_env *env, uint64_t ns);
void sfs_env_sim_yield(struct sfs_env *env);
int sfs_env_sim_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg,
                             struct sfs_thread **out);
void sfs_env_sim_thread_join(struct sfs_thread *t);
/* The caller sets and clears m->owner: lock returns (or trylock returns true) when there is none, unlock is
 * called when it is cleared. */
void sfs_env_sim_mutex_lock(struct sfs_mutex *m);
bool sfs_env_sim_mutex_trylock(struct sfs_mutex *m);
void sfs_env_sim_mutex_unlock(struct sfs_mutex *m);
int sfs_env_sim_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns);
void sfs_env_sim_cond_wake(struct sfs_cond *c, bool all);

#endif
