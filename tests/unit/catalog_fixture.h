/* A catalog on stores in memory, for the catalog's tests. CHECK aborts: it works in the simulator's fibers,
 * where a Criterion assertion can't unwind. */
#ifndef SFS_TESTS_CATALOG_FIXTURE_H
#define SFS_TESTS_CATALOG_FIXTURE_H

#include <stdio.h>
#include <sys/stat.h>
#include "meta/catalog_impl.h"
#include "meta/replicas_impl.h"
#include "tests/unit/mem_store.h"

#define CHECK(cond)                                                                                          \
    ((cond) ? (void)0 : (fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond), abort()))
#define CHECK_RC(expr, want)                                                                                 \
    do {                                                                                                     \
        int rc_ = (expr);                                                                                    \
        if (rc_ != (want)) {                                                                                 \
            fprintf(stderr, "%s:%d: %s is %d, not %d\n", __FILE__, __LINE__, #expr, rc_, (want));            \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

struct fixture {
    struct sfs_env *env;
    struct mem_world *w;
    unsigned nstores;
    struct sfs_store stores[MEM_STORES];
    struct sfs_replicas *r;
    struct sfs_catalog *cat;
    struct sfs_error err;
    /* events */
    int lost[MEM_STORES + 1]; /* times told, by id */
    int mended[MEM_STORES + 1];
    int lost_rc; /* what on_lost returns */
};

static inline int fx_lost(void *ctx, int id, int why)
{
    struct fixture *x = ctx;
    CHECK(why < 0);
    sfs_env_yield(x->env);
    x->lost[id]++;
    return x->w->crashed ? -EIO : x->lost_rc; /* in a crash no label can be written either */
}

static inline void fx_mended(void *ctx, int id, const char *what)
{
    struct fixture *x = ctx;
    CHECK(what[0]);
    x->mended[id]++;
}

static inline void fx_init(struct fixture *x, struct sfs_env *env, unsigned nstores, uint64_t seed)
{
    memset(x, 0, sizeof(*x));
    x->env = env;
    x->w = mem_world_new(env, seed);
    x->nstores = nstores;
    for (unsigned i = 0; i < MEM_STORES; i++)
        x->stores[i] = mem_store_of(x->w, (int)i);
}

static inline int fx_attach(struct fixture *x, bool readonly)
{
    struct sfs_replicas_events ev = {fx_lost, fx_mended, x};
    return sfs_replicas_open(x->env, x->stores, x->nstores, &ev, readonly, &x->r);
}

static inline int fx_create(struct fixture *x)
{
    static const struct sfs_uuid pool = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    int rc = fx_attach(x, false);
    return rc ? rc : sfs_catalog_create(x->env, x->r, &pool, "tank", &x->err);
}

/* Recovers and opens on an attached set. */
static inline int fx_open_attached(struct fixture *x, uint64_t wal_limit)
{
    struct sfs_catalog_opts opts = {.wal_limit_bytes = wal_limit};
    int rc = sfs_replicas_recover(x->r, &x->err);
    return rc ? rc : sfs_catalog_open(x->env, x->r, &opts, &x->cat, &x->err);
}

static inline int fx_open(struct fixture *x, bool readonly, uint64_t wal_limit)
{
    int rc = fx_attach(x, readonly);
    return rc ? rc : fx_open_attached(x, wal_limit);
}

static inline void fx_close(struct fixture *x)
{
    sfs_catalog_close(x->cat);
    sfs_replicas_close(x->r);
    x->cat = NULL;
    x->r = NULL;
}

/* As after a kill: whatever closing would write is lost. */
static inline void fx_kill(struct fixture *x)
{
    x->w->crash_at = x->w->changes + 1;
    fx_close(x);
    mem_reboot(x->w, true);
}

static inline void fx_free(struct fixture *x)
{
    fx_close(x);
    mem_world_free(x->w);
}

/* Adds file number k to directory 1 and sets the property "n": what a commit holds in these tests. */
static inline int fx_add(struct fixture *x, unsigned k)
{
    char text[32];
    struct sfs_inode_row in = {
        .ino = sfs_catalog_ino_alloc(x->cat), .space = 1, .mode = S_IFREG | 0644, .nlink = 1, .size = k};
    int len = snprintf(text, sizeof(text), "file %u", k);
    int rc = sfs_catalog_inode_insert(x->cat, &in);
    if (!rc)
        rc = sfs_catalog_dentry_insert(x->cat, 1, text, (size_t)len, in.ino, S_IFREG);
    uint8_t data[1500];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(k * 31 + i * 7);
    if (!rc)
        rc = sfs_catalog_inline_set(x->cat, in.ino, data, sizeof(data));
    snprintf(text, sizeof(text), "%u", k);
    return rc ? rc : sfs_catalog_prop_set(x->cat, "n", text);
}

/* One commit with file k, durable. */
static inline int fx_commit(struct fixture *x, unsigned k)
{
    sfs_catalog_lock(x->cat);
    int rc = fx_add(x, k);
    if (!rc)
        rc = sfs_catalog_commit(x->cat, NULL);
    sfs_catalog_unlock(x->cat);
    return rc ? rc : sfs_catalog_commit_sync(x->cat);
}

/* How many files there are; checks that they are all there, whole. */
static inline unsigned fx_verify(struct fixture *x)
{
    char text[32] = "0";
    sfs_catalog_lock(x->cat);
    int rc = sfs_catalog_prop_get(x->cat, "n", text, sizeof(text));
    CHECK(rc == 0 || rc == -ENOENT);
    unsigned n = rc ? 0 : (unsigned)atoi(text);
    for (unsigned k = 1; k <= n; k++) {
        struct sfs_dentry_row d;
        struct sfs_inode_row in;
        uint8_t data[2048];
        size_t got;
        int len = snprintf(text, sizeof(text), "file %u", k);
        CHECK_RC(sfs_catalog_dentry_get(x->cat, 1, text, (size_t)len, &d), 0);
        CHECK_RC(sfs_catalog_inode_get(x->cat, d.ino, &in), 0);
        CHECK(in.size == k);
        CHECK_RC(sfs_catalog_inline_get(x->cat, d.ino, data, sizeof(data), &got), 0);
        CHECK(got == 1500 && data[0] == (uint8_t)(k * 31) && data[1499] == (uint8_t)(k * 31 + 1499 * 7));
    }
    int64_t bad = -1;
    CHECK_RC(sfs_db_int(x->cat->db,
                        "SELECT count(*) FROM pragma_integrity_check(1) WHERE integrity_check <> 'ok'", &bad),
             0);
    CHECK(bad == 0);
    int64_t rows = -1;
    CHECK_RC(sfs_db_int(x->cat->db, "SELECT count(*) FROM dentry WHERE parent = 1", &rows), 0);
    CHECK(rows == (int64_t)n);
    sfs_catalog_unlock(x->cat);
    return n;
}

/* After a close, all stores hold the same database. */
static inline void fx_check_equal(struct fixture *x)
{
    const struct mem_file *a = NULL;
    for (unsigned i = 0; i < x->nstores; i++) {
        const struct mem_file *f = mem_find(&x->w->s[i], SFS_CATALOG_FILE, false);
        if (!a)
            a = f;
        CHECK(f && f->now.len == a->now.len && memcmp(f->now.data, a->now.data, a->now.len) == 0);
    }
}

struct fx_fiber {
    void (*fn)(struct sfs_env *env, void *arg);
    struct sfs_env *env;
    void *arg;
};

static inline void fx_fiber_main(void *arg)
{
    struct fx_fiber *f = arg;
    f->fn(f->env, f->arg);
}

/* Runs fn in a simulated environment of that seed. */
static inline void fx_sim(uint64_t seed, void (*fn)(struct sfs_env *env, void *arg), void *arg)
{
    struct sfs_env *env = sfs_env_new_sim(seed);
    struct fx_fiber f = {fn, env, arg};
    sfs_sim_run(env, fx_fiber_main, &f);
    sfs_env_free(env);
}

#endif
