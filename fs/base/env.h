/* The environment: time, randomness, threads and locks behind one handle, so that the simulator owns them all.
 *
 * Code above this layer is ordinary blocking, threaded code that uses these types instead of pthreads. There are two
 * environments:
 *   real  pthreads, CLOCK_MONOTONIC, CLOCK_REALTIME, getrandom(2)
 *   sim   every thread is a fiber of one OS thread; which one runs next, and the clock, follow from one seed. Time stands still
 *         while any fiber can run, and jumps to the next timeout when none can. All fibers waiting for ever is a deadlock: it aborts and
 *         prints what each waits for.
 *
 * Locks have ranks (SFS_RANK_*, in the order in which they may be taken: a thread may only take a lock of a higher rank than all it
 * holds; the same rank twice only where sfs_mutex_lock_nested says so). Checked in debug builds (no NDEBUG) and always in sim. */
#ifndef SFS_BASE_ENV_H
#define SFS_BASE_ENV_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct sfs_env;

/* Locks by rank, outermost first. A module's header says which of its fields each guards. */
enum sfs_rank {
    SFS_RANK_DAEMON = 10,   /* fs/daemon: table of mounts */
    SFS_RANK_ADMIN = 20,    /* fs/pool: one administrative change at a time */
    SFS_RANK_JOB = 30,      /* fs/job: list of jobs */
    SFS_RANK_NAMESPACE = 40,/* fs/vfs: one namespace change of a space at a time */
    SFS_RANK_GATE = 50,     /* fs/data/commit: the commit gate */
    SFS_RANK_INODE = 60,    /* fs/vfs: one inode; several only in order of number, by sfs_mutex_lock_nested */
    SFS_RANK_ITABLE = 70,   /* fs/vfs: inode table */
    SFS_RANK_COMMIT = 80,   /* fs/data/commit: its state */
    SFS_RANK_CATALOG = 90,  /* meta: the writer connection */
    SFS_RANK_GROUPS = 100,  /* fs/data: groups, free maps, counters */
    SFS_RANK_REPLICAS = 120,/* meta: replica set of the VFS */
    SFS_RANK_POOLDISKS = 125, /* fs/pool: the array of attached disks */
    SFS_RANK_DISK = 130,    /* fs/disk: one disk's queue and state */
    SFS_RANK_DISKMETA = 140,/* fs/disk: an image's metadata map */
    SFS_RANK_LEAF = 200,    /* anything that calls nothing while held */
};

struct sfs_env *sfs_env_new_real(void);
/* The simulator's environment. Must be used from one OS thread; sfs_sim_run starts the fibers. */
struct sfs_env *sfs_env_new_sim(uint64_t seed);
/* Runs fn(arg) as the first fiber and returns when it has returned and every other fiber has ended. */
void sfs_sim_run(struct sfs_env *env, void (*fn)(void *), void *arg);
/* Sim only: moves the wall clock (not the monotonic one) by delta; a clock jump. */
void sfs_sim_jump_wall(struct sfs_env *env, int64_t delta_ns);
void sfs_env_free(struct sfs_env *env); /* NULL is fine */
bool sfs_env_is_sim(const struct sfs_env *env);

uint64_t sfs_env_mono_ns(struct sfs_env *env);
struct timespec sfs_env_wall(struct sfs_env *env);
uint64_t sfs_env_rand(struct sfs_env *env);            /* 64 random bits; from the seed in sim */
void sfs_env_rand_bytes(struct sfs_env *env, void *out, size_t len);
void sfs_env_sleep_ns(struct sfs_env *env, uint64_t ns);
/* A point at which the simulator may switch fibers; nothing in the real environment. */
void sfs_env_yield(struct sfs_env *env);

/* Threads. 0 or -errno. Every started thread must be joined. name: at most 15 bytes are shown. */
struct sfs_thread;
int sfs_thread_start(struct sfs_env *env, const char *name, void (*fn)(void *), void *arg, struct sfs_thread **out);
void sfs_thread_join(struct sfs_thread *t);

struct sfs_mutex {
    struct sfs_env *env;
    enum sfs_rank rank;
    pthread_mutex_t real;
    void *owner;          /* holder's thread or fiber identity, for sfs_mutex_assert_held */
    void *sim_waiters;
};
void sfs_mutex_init(struct sfs_mutex *m, struct sfs_env *env, enum sfs_rank rank);
void sfs_mutex_destroy(struct sfs_mutex *m);
void sfs_mutex_lock(struct sfs_mutex *m);
bool sfs_mutex_trylock(struct sfs_mutex *m); /* never waits, so it may be tried in any order of ranks */
void sfs_mutex_lock_nested(struct sfs_mutex *m); /* same rank as one held already: the caller keeps an order of its own */
void sfs_mutex_unlock(struct sfs_mutex *m);
void sfs_mutex_assert_held(struct sfs_mutex *m);

struct sfs_cond {
    struct sfs_env *env;
    pthread_cond_t real;  /* on CLOCK_MONOTONIC */
    void *sim_waiters;
};
void sfs_cond_init(struct sfs_cond *c, struct sfs_env *env);
void sfs_cond_destroy(struct sfs_cond *c);
void sfs_cond_wait(struct sfs_cond *c, struct sfs_mutex *m);
/* 0, or -ETIMEDOUT once sfs_env_mono_ns has reached deadline_ns; UINT64_MAX is never. As with pthreads, 0 doesn't say that what is waited for is
 * so: look again. */
int sfs_cond_wait_until(struct sfs_cond *c, struct sfs_mutex *m, uint64_t deadline_ns);
void sfs_cond_signal(struct sfs_cond *c);
void sfs_cond_broadcast(struct sfs_cond *c);

/* Reader-writer lock made of the two above; writers are preferred. Ranked like a mutex. */
struct sfs_rwlock {
    struct sfs_mutex m;   /* held only inside the calls */
    struct sfs_cond c;
    enum sfs_rank rank;
    unsigned readers, writers_waiting;
    bool writer;
};
void sfs_rwlock_init(struct sfs_rwlock *l, struct sfs_env *env, enum sfs_rank rank);
void sfs_rwlock_destroy(struct sfs_rwlock *l);
void sfs_rwlock_rdlock(struct sfs_rwlock *l);
void sfs_rwlock_rdunlock(struct sfs_rwlock *l);
void sfs_rwlock_wrlock(struct sfs_rwlock *l);
void sfs_rwlock_wrunlock(struct sfs_rwlock *l);

#endif
