/* The catalog under crashes: one at every change of a store (write, truncate, sync, remove), with unsynced
 * blocks kept, lost or torn at random on each store; and one in the recovery after it. Whatever happens, what
 * was acknowledged is there, and the rest is a whole later commit. */
#include <criterion/criterion.h>
#include "tests/unit/catalog_fixture.h"

#define FILES 36u
#define WAL_LIMIT                                                                                            \
    (48u << 10) /* a dozen frames: checkpoints and new beginnings of the WAL every few commits */

struct run {
    unsigned nstores;
    uint64_t seed;
    unsigned long crash_at;
    bool kill_only;
    unsigned acked; /* result */
    bool crashed;   /* result: false when the run was over before */
};

/* An empty catalog, made once and copied for each run. */
static void ready(struct fixture *x, struct sfs_env *env, const struct run *run)
{
    static struct mem_world *made[MEM_STORES + 1];
    fx_init(x, env, run->nstores, run->seed);
    if (made[run->nstores]) {
        mem_world_copy(x->w, made[run->nstores]);
        return;
    }
    CHECK_RC(fx_create(x), 0);
    fx_close(x);
    made[run->nstores] = mem_world_new(env, 0);
    mem_world_copy(made[run->nstores], x->w);
}

/* Commits of one to five files until done or crashed; the number of files that were acknowledged. */
static unsigned work(struct fixture *x)
{
    unsigned acked = 0, k = 0;
    int rc = fx_open(x, false, WAL_LIMIT);
    while (!rc && k < FILES) {
        unsigned files = 1 + (unsigned)(mem_rand(x->w) % 5);
        sfs_catalog_lock(x->cat);
        for (; files > 0 && k < FILES && !rc; files--)
            rc = fx_add(x, ++k);
        if (!rc)
            rc = sfs_catalog_commit(x->cat, NULL);
        sfs_catalog_unlock(x->cat);
        if (!rc)
            rc = sfs_catalog_commit_sync(x->cat);
        if (!rc)
            acked = k;
    }
    fx_close(x);
    return acked;
}

static void crash_once(struct sfs_env *env, void *arg)
{
    struct run *run = arg;
    struct fixture x;
    ready(&x, env, run);
    x.w->crash_at = x.w->changes + run->crash_at;
    run->acked = work(&x);
    run->crashed = x.w->crashed;
    mem_reboot(x.w, run->kill_only);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    unsigned n = fx_verify(&x);
    CHECK(n >= run->acked && n <= FILES);
    CHECK_RC(fx_commit(&x, n + 1), 0); /* and it goes on */
    fx_close(&x);
    fx_check_equal(&x);
    fx_free(&x);
}

static void sweep(unsigned nstores, uint64_t seed, bool kill_only)
{
    unsigned long i = 1;
    for (;; i++) {
        struct run run = {
            .nstores = nstores, .seed = seed * 10000 + i, .crash_at = i, .kill_only = kill_only};
        fx_sim(run.seed, crash_once, &run);
        if (!run.crashed)
            break;
    }
    cr_assert(i > 60, "only %lu changes: the sweep did not reach checkpoints", i);
}

Test(catalog_crash, every_change_three_stores)
{
    for (uint64_t seed = 1; seed <= 2; seed++)
        sweep(3, seed, false);
}

/* Here no other store makes up for anything: the order of writes and syncs alone must do. */
Test(catalog_crash, every_change_one_store)
{
    for (uint64_t seed = 1; seed <= 12; seed++)
        sweep(1, seed, false);
}

Test(catalog_crash, every_change_killed)
{
    sweep(2, 9, true);
}

/* A second crash at every change of the recovery. */
static void crash_in_recovery(struct sfs_env *env, void *arg)
{
    struct run *run = arg;
    struct fixture x, y;
    ready(&x, env, run);
    x.w->crash_at = x.w->changes + run->crash_at;
    run->acked = work(&x);
    run->crashed = x.w->crashed;
    mem_reboot(x.w, false);
    for (unsigned long j = 1;; j++) {
        fx_init(&y, env, run->nstores, run->seed + j);
        mem_world_copy(y.w, x.w);
        y.w->crash_at = j;
        int rc = fx_open(&y, false, WAL_LIMIT);
        bool crashed = y.w->crashed;
        fx_close(&y);
        CHECK(crashed || rc == 0);
        mem_reboot(y.w, false);
        CHECK_RC(fx_open(&y, false, WAL_LIMIT), 0);
        unsigned n = fx_verify(&y);
        CHECK(n >= run->acked && n <= FILES);
        fx_close(&y);
        fx_check_equal(&y);
        fx_free(&y);
        if (!crashed)
            break;
    }
    fx_free(&x);
}

Test(catalog_crash, in_recovery)
{
    for (unsigned long i = 5; i < 400; i += 17) {
        struct run run = {.nstores = 3, .seed = i, .crash_at = i};
        fx_sim(run.seed, crash_in_recovery, &run);
        if (!run.crashed)
            break;
    }
}

/* While it is being made: afterwards there is a whole, empty catalog, or one that is known to be none. */
static void crash_in_create(struct sfs_env *env, void *arg)
{
    struct run *run = arg;
    struct fixture x;
    fx_init(&x, env, run->nstores, run->seed);
    x.w->crash_at = run->crash_at;
    int rc = fx_create(&x);
    run->crashed = x.w->crashed;
    CHECK(run->crashed || rc == 0);
    fx_close(&x);
    mem_reboot(x.w, false);
    int again = fx_open(&x, false, WAL_LIMIT);
    CHECK(again == 0 || again == -ENOENT || again == -EUCLEAN);
    CHECK(rc != 0 || again == 0);
    if (again == 0)
        CHECK(fx_verify(&x) == 0);
    else
        CHECK(x.err.text[0]);
    fx_free(&x);
}

Test(catalog_crash, in_create)
{
    for (unsigned long i = 1;; i++) {
        struct run run = {.nstores = 2, .seed = i, .crash_at = i};
        fx_sim(run.seed, crash_in_create, &run);
        if (!run.crashed)
            break;
    }
}

/* One store's WAL rots (or its database does) while the machine is down after a kill: the other has
 * everything. */
struct rot {
    const char *file;
    unsigned store;
    size_t off;
    bool more;
};

static void rot_after_kill(struct sfs_env *env, void *arg)
{
    struct rot *rot = arg;
    struct fixture x;
    struct run run = {.nstores = 2, .seed = rot->off + 1};
    ready(&x, env, &run);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    for (unsigned k = 1; k <= FILES; k++)
        CHECK_RC(fx_commit(&x, k), 0);
    fx_kill(&x);
    size_t len = mem_find(&x.w->s[rot->store], rot->file, false)->now.len;
    CHECK(len > 0);
    rot->more = rot->off + 1024 < len;
    mem_rot(x.w, (int)rot->store, rot->file, rot->off);
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    CHECK(fx_verify(&x) == FILES);
    fx_close(&x);
    fx_check_equal(&x);
    fx_free(&x);
}

static void rot_sweep(const char *file)
{
    for (unsigned store = 0; store < 2; store++) {
        struct rot rot = {.file = file, .store = store, .off = 10, .more = true};
        for (; rot.more; rot.off += 1024)
            fx_sim(rot.off, rot_after_kill, &rot);
    }
}

Test(catalog_crash, wal_rot_on_one_store)
{
    rot_sweep(SFS_WAL_FILE);
}

Test(catalog_crash, database_rot_on_one_store)
{
    rot_sweep(SFS_CATALOG_FILE);
}

/* A crash in the middle of everything, and rot in one store's WAL on top. What both stores had acknowledged
 * must survive on the good one. */
static void crash_and_rot(struct sfs_env *env, void *arg)
{
    struct run *run = arg;
    struct fixture x;
    ready(&x, env, run);
    x.w->crash_at = x.w->changes + run->crash_at;
    run->acked = work(&x);
    run->crashed = x.w->crashed;
    mem_reboot(x.w, false);
    struct mem_file *f = mem_find(&x.w->s[run->crash_at % run->nstores], SFS_WAL_FILE, false);
    if (f && f->now.len > 0)
        mem_rot(x.w, (int)(run->crash_at % run->nstores), SFS_WAL_FILE, (size_t)(mem_rand(x.w) % f->now.len));
    CHECK_RC(fx_open(&x, false, WAL_LIMIT), 0);
    unsigned n = fx_verify(&x);
    CHECK(n >= run->acked && n <= FILES);
    fx_free(&x);
}

Test(catalog_crash, crash_and_wal_rot)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (unsigned long i = 1;; i++) {
            struct run run = {.nstores = 2, .seed = seed * 1000 + i, .crash_at = i};
            fx_sim(run.seed, crash_and_rot, &run);
            if (!run.crashed)
                break;
        }
}
