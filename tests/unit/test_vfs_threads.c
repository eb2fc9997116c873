/* A mounted space used by several real threads at once, on directories: for the thread sanitizer, and for
 * what fibers cannot show. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/pool/pool.h"
#include "fs/vfs/vfs.h"

#define THREADS 4
#define ROUNDS 40

static const struct sfs_cred root = {.privileged = true, .umask = 022};

struct shared {
    struct sfs_vfs *vfs;
    struct sfs_env *env;
    struct sfs_file *common; /* every thread has its own part of it */
};

struct worker {
    struct shared *s;
    unsigned id;
    struct sfs_thread *t;
};

static void put(struct sfs_file *f, uint64_t off, size_t len, int byte)
{
    uint8_t *b = malloc(len);
    size_t n;

    memset(b, byte, len);
    cr_assert_eq(sfs_vfs_write(f, b, len, off, false, false, &n), 0);
    cr_assert_eq(n, len);
    free(b);
}

static void expect(struct sfs_file *f, uint64_t off, size_t len, int byte)
{
    uint8_t *b = malloc(len);
    size_t n, k;

    cr_assert_eq(sfs_vfs_read(f, b, len, off, &n), 0);
    cr_assert_eq(n, len);
    for (k = 0; k < len && b[k] == (uint8_t)byte; k++)
        continue;
    cr_assert_eq(k, len, "at %llu", (unsigned long long)off + k);
    free(b);
}

static struct sfs_file *open_file(struct sfs_vfs *vfs, const char *name)
{
    struct stat st;
    struct sfs_file *f;

    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), name, 0644, O_RDWR, &root, &st, &f), 0);
    return f;
}

static bool count(void *ctx, const char *name, const struct stat *st, uint64_t next)
{
    (void)name;
    (void)st;
    (void)next;
    ++*(unsigned *)ctx;
    return true;
}

static void work(void *arg)
{
    struct worker *w = arg;
    struct sfs_vfs *vfs = w->s->vfs;
    uint64_t top = sfs_vfs_root(vfs);
    char name[32], last[32];
    struct stat st;
    unsigned entries = 0;

    snprintf(last, sizeof(last), "last%u", w->id);
    for (unsigned k = 0; k < ROUNDS; k++) {
        size_t len = 100 + (size_t)k * k * 1500;
        snprintf(name, sizeof(name), "f%u.%u", w->id, k % 7);
        struct sfs_file *f = open_file(vfs, name);
        put(f, 0, len, (int)(w->id * 50 + k));
        expect(f, 0, len, (int)(w->id * 50 + k));
        put(w->s->common, w->id * 1000 + k * 4000, 1000, (int)w->id + 1);
        expect(w->s->common, w->id * 1000 + k * 4000, 1000, (int)w->id + 1);
        if (k % 5 == 0)
            cr_assert_eq(sfs_vfs_fsync(f, false), 0);
        if (k % 4 == 0)
            cr_assert_eq(sfs_vfs_setxattr(vfs, sfs_file_ino(f), "user.k", &k, sizeof(k), 0, &root), 0);
        st.st_mode = 0600;
        cr_assert_eq(sfs_vfs_setattr(vfs, sfs_file_ino(f), &st, SFS_SET_MODE, &root, &st), 0);
        sfs_vfs_release(f);
        if (k % 3 == 0)
            cr_assert_eq(sfs_vfs_rename(vfs, top, name, top, last, 0), 0);
        if (k % 3 == 1)
            cr_assert_eq(sfs_vfs_unlink(vfs, top, name), 0);
        cr_assert_eq(sfs_vfs_readdir(vfs, top, 0, k % 2, count, &entries), 0);
        if (k % 10 == 9)
            cr_assert_eq(sfs_vfs_sync(vfs), 0);
    }
}

static void check_after(struct sfs_vfs *vfs)
{
    struct sfs_file *f = open_file(vfs, "common");

    for (unsigned k = 0; k < ROUNDS; k++)
        for (unsigned id = 0; id < THREADS; id++)
            expect(f, id * 1000 + k * 4000, 1000, (int)id + 1);
    sfs_vfs_release(f);
    for (unsigned id = 0; id < THREADS; id++) {
        char last[32];
        snprintf(last, sizeof(last), "last%u", id);
        f = open_file(vfs, last);
        expect(f, 0, 100 + 39 * 39 * 1500, (int)(id * 50 + 39));
        sfs_vfs_release(f);
    }
}

static void open_all(struct sfs_env *env, const char *disk, struct sfs_pool **pool, struct sfs_volume **v,
                     struct sfs_vfs **vfs)
{
    struct sfs_pool_open_opts o = {0};
    struct sfs_vfs_opts vo = {
        .commit_interval_ns = 20000000, .dirty_limit_bytes = 4 << 20, .cache_inodes = 5};
    struct sfs_error err = {0};

    cr_assert_eq(sfs_pool_open(env, disk, &o, pool, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_volume_get(*pool, "s", v, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_vfs_open(*v, &vo, vfs, &err), 0, "%s", err.text);
}

static void close_all(struct sfs_pool *pool, struct sfs_volume *v, struct sfs_vfs *vfs)
{
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    sfs_pool_volume_put(pool, v);
    cr_assert_eq(sfs_pool_close(pool), 0);
}

Test(vfs_threads, several_at_once, .timeout = 240)
{
    char dir[] = "/tmp/sfs-threads-XXXXXX", paths[2][64], cmd[96];
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_disk_spec specs[2];
    struct sfs_pool_create_opts o = {.slab_bytes = 1 << 20};
    struct sfs_error err = {0};
    struct sfs_pool *pool;
    struct sfs_volume *v;
    struct shared s = {.env = env};
    struct worker w[THREADS];
    enum sfs_resiliency r = SFS_MIRROR2;
    struct sfs_space_settings set = {.resiliency = &r};

    cr_assert(mkdtemp(dir));
    for (unsigned k = 0; k < 2; k++) {
        snprintf(paths[k], sizeof(paths[k]), "%s/d%u", dir, k);
        cr_assert_eq(mkdir(paths[k], 0755), 0);
        specs[k] = (struct sfs_disk_spec){.path = paths[k], .size_bytes = 128 << 20};
    }
    cr_assert_eq(sfs_pool_create(env, "tank", specs, 2, &o, &err, &err), 0, "%s", err.text);
    struct sfs_pool_open_opts oo = {0};
    cr_assert_eq(sfs_pool_open(env, paths[0], &oo, &pool, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_space_create(pool, "s", &set, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_close(pool), 0);

    open_all(env, paths[0], &pool, &v, &s.vfs);
    s.common = open_file(s.vfs, "common");
    for (unsigned k = 0; k < THREADS; k++) {
        w[k] = (struct worker){&s, k, NULL};
        cr_assert_eq(sfs_thread_start(env, "worker", work, &w[k], &w[k].t), 0);
    }
    for (unsigned k = 0; k < THREADS; k++)
        sfs_thread_join(w[k].t);
    check_after(s.vfs);
    sfs_vfs_release(s.common);
    close_all(pool, v, s.vfs);
    open_all(env, paths[1], &pool, &v, &s.vfs);
    check_after(s.vfs);
    close_all(pool, v, s.vfs);
    sfs_env_free(env);
    snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
    cr_assert_eq(system(cmd), 0);
}
