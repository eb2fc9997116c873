/* A mounted space on sim disks: what programs see, what is there after a reopen, and after a crash. */
#include "tests/unit/pool_fixture.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fs/vfs/vfs.h"

static struct sfs_vfs *vfs;
static const struct sfs_cred root = {.privileged = true, .umask = 022};

static void mount_space(struct fixture *f)
{
    struct sfs_error err = {0};
    /* commits only where a test asks */
    struct sfs_vfs_opts opts = {.commit_interval_ns = 3600ull * 1000000000ull};

    open_pool(f);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, &opts, &vfs, &err), 0, "%s", err.text);
}

static void begin(struct fixture *f, unsigned mib, enum sfs_resiliency r)
{
    unsigned sizes[2] = {mib, mib};

    make_pool(f, sizes, 2);
    open_pool(f);
    make_space(f, "s", r);
    close_pool(f);
    mount_space(f);
}

static void finish(struct fixture *f)
{
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

static void reopen(struct fixture *f)
{
    finish(f);
    mount_space(f);
}

/* The machine loses power: nothing that wasn't synced stays. */
static void crash(struct fixture *f)
{
    sfs_sim_crash(f->world, false);
    (void)sfs_vfs_close(vfs);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    mount_space(f);
}

static uint64_t top(void)
{
    return sfs_vfs_root(vfs);
}

static uint64_t look(const char *path)
{
    uint64_t ino = 0;

    cr_assert_eq(sfs_vfs_resolve(vfs, path, &ino), 0, "%s", path);
    return ino;
}

static struct sfs_file *open_at(uint64_t dir, const char *name, int flags)
{
    struct stat st;
    struct sfs_file *f;
    int rc = sfs_vfs_create(vfs, dir, name, 0644, O_RDWR | flags, &root, &st, &f);

    cr_assert_eq(rc, 0, "%s: %d", name, rc);
    return f;
}

static struct sfs_file *open_new(const char *name)
{
    return open_at(top(), name, 0);
}

static void put(struct sfs_file *f, uint64_t off, const void *data, size_t len)
{
    size_t n;

    cr_assert_eq(sfs_vfs_write(f, data, len, off, false, false, &n), 0);
    cr_assert_eq(n, len);
}

static void fill(struct sfs_file *f, uint64_t off, size_t len, int byte)
{
    uint8_t *b = malloc(len);

    memset(b, byte, len);
    put(f, off, b, len);
    free(b);
}

static void expect(struct sfs_file *f, uint64_t off, size_t len, int byte)
{
    uint8_t *b = malloc(len + 1), *e = malloc(len + 1);
    size_t n;

    memset(b, 0xee, len + 1);
    memset(e, byte, len);
    cr_assert_eq(sfs_vfs_read(f, b, len, off, &n), 0);
    cr_assert_eq(n, len, "%zu at %llu", n, (unsigned long long)off);
    cr_assert_arr_eq(b, e, len, "at %llu: %u, not %d", (unsigned long long)off, b[0], byte);
    free(b);
    free(e);
}

static struct stat stat_of(struct sfs_file *f)
{
    struct stat st;

    cr_assert_eq(sfs_vfs_getattr(vfs, sfs_file_ino(f), &st), 0);
    return st;
}

static void set_size(struct sfs_file *f, uint64_t size)
{
    struct stat st = {.st_size = (off_t)size};

    cr_assert_eq(sfs_vfs_setattr(vfs, sfs_file_ino(f), &st, SFS_SET_SIZE, &root, &st), 0);
    cr_assert_eq((uint64_t)st.st_size, size);
}

#define VFS_TEST(name)                          \
    static void name##_body(struct fixture *f); \
    Test(vfs, name)                             \
    {                                           \
        in_sim(1, name##_body);                 \
    }                                           \
    static void name##_body(struct fixture *f)

/* --- contents ------------------------------------------------------------------------------------------- */

VFS_TEST(small_and_large_files_come_back)
{
    static const size_t sizes[] = {1, 100, 2048, 2049, 4095, 4096, 4097, 70000, 1 << 20, (3 << 20) + 5};
    char name[16];

    begin(f, 64, SFS_MIRROR2);
    for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        snprintf(name, sizeof(name), "f%u", k);
        struct sfs_file *file = open_new(name);
        fill(file, 0, sizes[k], (int)k + 1);
        expect(file, 0, sizes[k], (int)k + 1);
        cr_assert_gt(stat_of(file).st_blocks, 0, "tar takes a file without blocks for a hole");
        sfs_vfs_release(file);
    }
    for (unsigned round = 0; round < 2; round++) {
        reopen(f);
        for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            snprintf(name, sizeof(name), "f%u", k);
            struct sfs_file *file = open_new(name);
            cr_assert_eq((size_t)stat_of(file).st_size, sizes[k]);
            cr_assert_gt(stat_of(file).st_blocks, 0);
            expect(file, 0, sizes[k], (int)k + 1);
            sfs_vfs_release(file);
        }
    }
    finish(f);
}

VFS_TEST(growing_out_of_the_catalog_and_shrinking_back)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *file = open_new("f");
    fill(file, 0, 100, 'a');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    fill(file, 1000000, 10, 'b');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    expect(file, 0, 100, 'a');
    expect(file, 100, 999900, 0);
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    expect(file, 0, 100, 'a');
    expect(file, 100, 999900, 0);
    expect(file, 1000000, 10, 'b');
    set_size(file, 0);
    fill(file, 0, 50, 'c');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    fill(file, 20, 60, 'd');
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    cr_assert_eq(stat_of(file).st_size, 80);
    expect(file, 0, 20, 'c');
    expect(file, 20, 60, 'd');
    sfs_vfs_release(file);
    finish(f);
}

VFS_TEST(a_truncated_tail_never_comes_back)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *file = open_new("f");
    fill(file, 0, 20000, 'a');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    set_size(file, 5000);
    set_size(file, 30000);
    expect(file, 0, 5000, 'a');
    expect(file, 5000, 25000, 0);
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    fill(file, 4999, 1, 'b');
    fill(file, 5001, 1, 'b');
    set_size(file, 5001);
    set_size(file, 6000);
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    expect(file, 0, 4999, 'a');
    expect(file, 4999, 1, 'b');
    expect(file, 5000, 1000, 0);
    sfs_vfs_release(file);
    finish(f);
}

VFS_TEST(sparse_files_are_cheap)
{
    uint64_t out;

    begin(f, 64, SFS_SIMPLE);
    struct sfs_file *file = open_new("f");
    set_size(file, 8ull << 40);
    cr_assert_eq(stat_of(file).st_blocks, 0);
    fill(file, (4ull << 40) + 4096, 4096, 'x');
    cr_assert_eq(stat_of(file).st_blocks, 8);
    for (unsigned round = 0; round < 2; round++) {
        cr_assert_eq(sfs_vfs_lseek(file, 0, SEEK_DATA, &out), 0);
        cr_assert_eq(out, (4ull << 40) + 4096);
        cr_assert_eq(sfs_vfs_lseek(file, out, SEEK_HOLE, &out), 0);
        cr_assert_eq(out, (4ull << 40) + 8192);
        cr_assert_eq(sfs_vfs_lseek(file, out, SEEK_DATA, &out), -ENXIO);
        cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    }
    size_t n;
    char c = 'y';
    cr_assert_eq(sfs_vfs_write(file, &c, 1, INT64_MAX, false, false, &n), -EFBIG);
    cr_assert_eq(sfs_vfs_write(file, &c, 1, INT64_MAX - 1, false, false, &n), 0);
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    cr_assert_eq(stat_of(file).st_size, INT64_MAX);
    expect(file, (4ull << 40) + 4096, 4096, 'x');
    expect(file, INT64_MAX - 1, 1, 'y');
    sfs_vfs_release(file);
    finish(f);
}

VFS_TEST(punch_zero_collapse_insert)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *file = open_new("f");
    for (unsigned k = 0; k < 10; k++)
        fill(file, k * 4096, 4096, 'a' + (int)k);
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    fill(file, 5 * 4096, 4096, 'F'); /* dirty over stored */
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 + 10, 2 * 4096), 0);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_ZERO_RANGE, 5 * 4096 + 1, 10), 0);
    expect(file, 4096, 10, 'b');
    expect(file, 4106, 8192, 0);
    expect(file, 4106 + 8192, 4086, 'd');
    expect(file, 5 * 4096, 1, 'F');
    expect(file, 5 * 4096 + 1, 10, 0);
    expect(file, 5 * 4096 + 11, 4085, 'F');
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 4096, 3 * 4096), 0);
    cr_assert_eq(stat_of(file).st_size, 7 * 4096);
    expect(file, 0, 4096, 'a');
    expect(file, 4096, 4096, 'e');
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_INSERT_RANGE, 4096, 4096), 0);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_INSERT_RANGE, 123, 4096), -EINVAL);
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    cr_assert_eq(stat_of(file).st_size, 8 * 4096);
    expect(file, 0, 4096, 'a');
    expect(file, 4096, 4096, 0);
    expect(file, 8192, 4096, 'e');
    expect(file, 3 * 4096 + 1, 10, 0);
    expect(file, 7 * 4096, 4096, 'j');
    cr_assert_eq(sfs_vfs_fallocate(file, 0, 0, 1ull << 40), -ENOSPC);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
    cr_assert_eq(stat_of(file).st_size, 8 * 4096);
    sfs_vfs_release(file);
    finish(f);
}

VFS_TEST(inserting_before_inline_contents)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *file = open_new("f");
    fill(file, 0, 700, 'i');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 600, 4096), 0);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_INSERT_RANGE, 0, 4096), 0);
    expect(file, 0, 4096, 0);
    expect(file, 4096, 600, 'i');
    expect(file, 4696, 100, 0);
    sfs_vfs_release(file);
    reopen(f);
    file = open_new("f");
    cr_assert_eq(stat_of(file).st_size, 4796);
    expect(file, 4096, 600, 'i');
    sfs_vfs_release(file);
    finish(f);
}

VFS_TEST(copies_share_what_is_stored)
{
    struct sfs_volume_stat before, after;
    size_t n;

    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("a"), *b = open_new("b");
    fill(a, 0, 5 << 20, 'x');
    fill(a, 5 << 20, 777, 'y');
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_volume_stat(f->vol, &before);
    cr_assert_eq(sfs_vfs_copy_range(a, 0, b, 0, 100 << 20, &n), 0);
    cr_assert_eq(n, (5 << 20) + 777);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_volume_stat(f->vol, &after);
    cr_assert_eq(before.used_bytes, after.used_bytes, "by reference");
    fill(a, 100, 10, 'z'); /* the copy keeps its own */
    cr_assert_eq(sfs_vfs_copy_range(a, 50, b, 6 << 20, 1000, &n), 0);
    cr_assert_eq(n, 1000, "by bytes");
    cr_assert_eq(sfs_vfs_copy_range(a, 0, a, 10, 1000, &n), -EINVAL);
    sfs_vfs_release(a);
    cr_assert_eq(sfs_vfs_unlink(vfs, top(), "a"), 0);
    sfs_vfs_release(b);
    reopen(f);
    b = open_new("b");
    expect(b, 0, 5 << 20, 'x');
    expect(b, 5 << 20, 777, 'y');
    expect(b, (5 << 20) + 777, (1 << 20) - 777, 0);
    expect(b, (6 << 20) + 50, 10, 'z');
    sfs_vfs_release(b);
    finish(f);
}

/* Writes, truncations and holes at random offsets, with flushes and reopens between, against an array. */
static void random_file(struct fixture *f)
{
    enum { SPAN = 3 << 20 };
    uint8_t *have = calloc(1, SPAN), *got = malloc(SPAN);
    uint64_t size = 0;
    size_t n;

    srand(3);
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *file = open_new("f");
    for (unsigned step = 0; step < 400; step++) {
        uint64_t off = (uint64_t)rand() % (rand() % 3 ? 20000 : SPAN - 1),
                 len = 1 + (uint64_t)rand() % (rand() % 4 ? 3000 : 1500000);
        if (len > SPAN - off)
            len = SPAN - off;
        switch (rand() % 12) {
        case 0:
            set_size(file, off);
            if (off < size)
                memset(have + off, 0, size - off);
            size = off;
            break;
        case 1:
            cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len), 0);
            memset(have + off, 0, len);
            break;
        case 2:
            cr_assert_eq(sfs_vfs_fsync(file, false), 0);
            break;
        case 3:
            sfs_env_sleep_ns(f->env, 1000000); /* write-back goes on */
            break;
        case 4:
            sfs_vfs_release(file);
            reopen(f);
            file = open_new("f");
            break;
        default:
            memset(have + off, 1 + (int)step % 255, len);
            put(file, off, have + off, len);
            if (off + len > size)
                size = off + len;
        }
        cr_assert_eq((uint64_t)stat_of(file).st_size, size);
        memset(got, 0xee, SPAN);
        cr_assert_eq(sfs_vfs_read(file, got, SPAN, 0, &n), 0);
        cr_assert_eq(n, size);
        cr_assert_eq(memcmp(got, have, size), 0, "step %u", step);
    }
    sfs_vfs_release(file);
    finish(f);
    free(have);
    free(got);
}

Test(vfs, random_file)
{
    in_sim(5, random_file);
}

/* --- crashes -------------------------------------------------------------------------------------------- */

VFS_TEST(fsynced_data_survives_and_sizes_are_never_ahead_of_data)
{
    struct stat st;

    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("a"), *b = open_new("b");
    fill(a, 0, 10000, 'a');
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    fill(a, 10000, 50000, 'b'); /* not synced; another file's commit must not make it zeros */
    fill(b, 0, 10, 'b');
    cr_assert_eq(sfs_vfs_fsync(b, false), 0);
    sfs_vfs_release(a);
    sfs_vfs_release(b);
    crash(f);
    cr_assert_eq(sfs_vfs_lookup(vfs, top(), "a", &st), 0);
    a = open_new("a");
    cr_assert_geq(st.st_size, 10000);
    expect(a, 0, 10000, 'a');
    if (st.st_size > 10000)
        expect(a, 10000, (size_t)st.st_size - 10000, 'b');
    b = open_new("b");
    expect(b, 0, 10, 'b');
    sfs_vfs_release(a);
    sfs_vfs_release(b);
    finish(f);
}

VFS_TEST(replacing_brings_the_data_along)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("conf");
    fill(a, 0, 5000, 'o');
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    sfs_vfs_release(a);
    a = open_new("conf.tmp");
    fill(a, 0, 9000, 'n');
    sfs_vfs_release(a);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "conf.tmp", top(), "conf", 0), 0);
    cr_assert_eq(sfs_vfs_fsyncdir(vfs, top()), 0);
    crash(f);
    a = open_new("conf");
    cr_assert_eq(stat_of(a).st_size, 9000);
    expect(a, 0, 9000, 'n');
    sfs_vfs_release(a);
    finish(f);
}

VFS_TEST(a_file_emptied_and_written_anew_keeps_its_old_contents_until_then)
{
    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("a"), *b = open_new("b");
    fill(a, 0, 5000, 'o');
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    set_size(a, 0);
    fill(a, 0, 6000, 'n');
    fill(b, 0, 10, 'b');
    cr_assert_eq(sfs_vfs_fsync(b, false), 0);
    sfs_vfs_release(a);
    sfs_vfs_release(b);
    crash(f);
    a = open_new("a");
    cr_assert_eq(stat_of(a).st_size, 5000);
    expect(a, 0, 5000, 'o');
    sfs_vfs_release(a);
    finish(f);
}

VFS_TEST(orphans_of_a_crash_give_their_space_back)
{
    struct sfs_vfs_statfs before, after;
    struct stat st;

    begin(f, 64, SFS_MIRROR2);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    cr_assert_eq(sfs_vfs_statfs(vfs, &before), 0);
    struct sfs_file *a = open_new("a");
    fill(a, 0, 8 << 20, 'a');
    cr_assert_eq(sfs_vfs_unlink(vfs, top(), "a"), 0);
    cr_assert_eq(sfs_vfs_lookup(vfs, top(), "a", &st), -ENOENT);
    cr_assert_eq(stat_of(a).st_nlink, 0);
    expect(a, 0, 8 << 20, 'a');
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    sfs_vfs_release(a);
    crash(f);
    sfs_env_sleep_ns(f->env, 1000000000);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    cr_assert_eq(sfs_vfs_statfs(vfs, &after), 0);
    cr_assert_eq(before.bfree, after.bfree);
    cr_assert_eq(before.files - before.ffree, after.files - after.ffree);
    finish(f);
}

/* --- names ---------------------------------------------------------------------------------------------- */

struct listing {
    char names[64][16];
    unsigned n, stop;
    uint64_t cookie;
};

static bool note(void *ctx, const char *name, const struct stat *st, uint64_t next)
{
    struct listing *l = ctx;

    if (l->stop && l->n == l->stop)
        return false;
    cr_assert_neq(st->st_ino, 0);
    snprintf(l->names[l->n++], sizeof(l->names[0]), "%s", name);
    l->cookie = next;
    return true;
}

VFS_TEST(directories)
{
    struct stat st, sub;
    char name[300];

    begin(f, 64, SFS_MIRROR2);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0777, &root, &st), 0);
    cr_assert_eq(st.st_mode, S_IFDIR | 0755);
    cr_assert_eq(st.st_nlink, 2);
    cr_assert_eq(sfs_vfs_mkdir(vfs, st.st_ino, "e", 0777, &root, &sub), 0);
    cr_assert_eq(sfs_vfs_getattr(vfs, st.st_ino, &st), 0);
    cr_assert_eq(st.st_nlink, 3);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0777, &root, &sub), -EEXIST);
    cr_assert_eq(sfs_vfs_rmdir(vfs, top(), "d"), -ENOTEMPTY);
    cr_assert_eq(sfs_vfs_unlink(vfs, top(), "d"), -EISDIR);
    cr_assert_eq(sfs_vfs_lookup(vfs, look("/d/e"), "..", &st), 0);
    cr_assert_eq(st.st_ino, look("/d"));
    cr_assert_eq(sfs_vfs_lookup(vfs, top(), "..", &st), 0);
    cr_assert_eq(st.st_ino, top());
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "d", look("/d/e"), "x", 0), -EINVAL, "not below itself");
    memset(name, 'n', 256);
    name[256] = 0;
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), name, 0777, &root, &st), -ENAMETOOLONG);
    name[255] = 0;
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), name, 0777, &root, &st), 0);
    cr_assert_eq(sfs_vfs_rmdir(vfs, top(), name), 0);
    for (unsigned k = 0; k < 40; k++) {
        snprintf(name, sizeof(name), "f%02u", k);
        sfs_vfs_release(open_at(look("/d"), name, 0));
    }
    reopen(f);
    struct listing all = {0};
    while (true) { /* a few at a time, while it changes */
        unsigned before = all.n;
        all.stop = all.n + 7;
        cr_assert_eq(sfs_vfs_readdir(vfs, look("/d"), all.cookie, all.n % 2, note, &all), 0);
        if (all.n == before)
            break;
        snprintf(name, sizeof(name), "%s", all.names[all.n - 1]);
        if (name[0] == 'f')
            cr_assert_eq(sfs_vfs_unlink(vfs, look("/d"), name), 0);
    }
    cr_assert_eq(all.n, 43);
    for (unsigned k = 0; k < 43; k++)
        for (unsigned j = 0; j < k; j++)
            cr_assert_str_neq(all.names[k], all.names[j]);
    finish(f);
}

VFS_TEST(links_and_renames)
{
    struct stat st;
    uint64_t ino;

    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("a");
    fill(a, 0, 3000, 'a');
    ino = sfs_file_ino(a);
    sfs_vfs_release(a);
    cr_assert_eq(sfs_vfs_link(vfs, ino, top(), "b", &st), 0);
    cr_assert_eq(st.st_nlink, 2);
    cr_assert_eq(sfs_vfs_link(vfs, top(), top(), "c", &st), -EPERM);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "a", top(), "b", 0), 0, "two links of one file: nothing happens");
    cr_assert_eq(look("/a"), look("/b"));
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0755, &root, &st), 0);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "e", 0755, &root, &st), 0);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "a", top(), "d", 0), -EISDIR);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "d", top(), "a", 0), -ENOTDIR);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "a", look("/d"), "a", RENAME_NOREPLACE), 0);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "b", look("/d"), "a", RENAME_NOREPLACE), -EEXIST);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "e", look("/d"), "e", 0), 0);
    cr_assert_eq(sfs_vfs_getattr(vfs, top(), &st), 0);
    cr_assert_eq(st.st_nlink, 3);
    cr_assert_eq(sfs_vfs_getattr(vfs, look("/d"), &st), 0);
    cr_assert_eq(st.st_nlink, 3);
    cr_assert_eq(sfs_vfs_rename(vfs, top(), "b", look("/d"), "e", RENAME_EXCHANGE), 0);
    reopen(f);
    cr_assert_eq(look("/d/a"), ino);
    cr_assert_eq(look("/d/e"), ino);
    cr_assert_eq(sfs_vfs_getattr(vfs, top(), &st), 0);
    cr_assert_eq(st.st_nlink, 4);
    cr_assert_eq(sfs_vfs_getattr(vfs, look("/d"), &st), 0);
    cr_assert_eq(st.st_nlink, 2);
    cr_assert_eq(sfs_vfs_lookup(vfs, look("/b"), "..", &st), 0);
    cr_assert_eq(st.st_ino, top());
    cr_assert_eq(sfs_vfs_unlink(vfs, look("/d"), "a"), 0);
    cr_assert_eq(sfs_vfs_getattr(vfs, ino, &st), 0);
    cr_assert_eq(st.st_nlink, 1);
    finish(f);
}

VFS_TEST(the_rest_of_the_kinds)
{
    struct stat st;
    struct sfs_file *tmp;
    char target[5000], got[5000];
    size_t n;
    struct sfs_cred user = {.uid = 7, .gid = 8, .umask = 027};

    begin(f, 64, SFS_MIRROR2);
    memset(target, 't', sizeof(target));
    target[4096] = 0;
    cr_assert_eq(sfs_vfs_symlink(vfs, top(), "l", target, &root, &st), -ENAMETOOLONG);
    target[4095] = 0;
    cr_assert_eq(sfs_vfs_symlink(vfs, top(), "l", target, &root, &st), 0);
    cr_assert_eq(st.st_size, 4095);
    cr_assert_eq(sfs_vfs_mknod(vfs, top(), "p", S_IFIFO | 0666, 0, &user, &st), 0);
    cr_assert_eq(st.st_mode, S_IFIFO | 0640);
    cr_assert_eq(st.st_uid, 7);
    cr_assert_eq(sfs_vfs_mknod(vfs, top(), "c", S_IFCHR | 0666, 0x501, &root, &st), 0);
    cr_assert_eq(st.st_rdev, 0x501);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "g", 0777, &root, &st), 0);
    st.st_mode = 02775;
    st.st_gid = 99;
    cr_assert_eq(sfs_vfs_setattr(vfs, look("/g"), &st, SFS_SET_MODE | SFS_SET_GID, &root, &st), 0);
    cr_assert_eq(sfs_vfs_mkdir(vfs, look("/g"), "h", 0777, &user, &st), 0);
    cr_assert_eq(st.st_mode, S_IFDIR | S_ISGID | 0750);
    cr_assert_eq(st.st_gid, 99);
    cr_assert_eq(sfs_vfs_tmpfile(vfs, top(), 0600, O_RDWR, &user, &st, &tmp), 0);
    cr_assert_eq(st.st_nlink, 0);
    fill(tmp, 0, 10, 't');
    cr_assert_eq(sfs_vfs_link(vfs, st.st_ino, top(), "named", &st), 0);
    sfs_vfs_release(tmp);
    reopen(f);
    cr_assert_eq(sfs_vfs_readlink(vfs, look("/l"), got, sizeof(got), &n), 0);
    cr_assert_eq(n, 4095);
    cr_assert_arr_eq(got, target, 4095);
    tmp = open_new("named");
    expect(tmp, 0, 10, 't');
    sfs_vfs_release(tmp);
    finish(f);
}

VFS_TEST(attributes)
{
    struct stat st, set = {.st_mode = 04755,
                           .st_uid = 3,
                           .st_gid = 4,
                           .st_mtim = {-5, 999999999},
                           .st_atim = {1ll << 40, 1}};
    size_t n;

    begin(f, 64, SFS_MIRROR2);
    struct sfs_file *a = open_new("a");
    uint64_t ino = sfs_file_ino(a);
    cr_assert_eq(sfs_vfs_setattr(vfs, ino, &set, SFS_SET_MODE | SFS_SET_MTIME | SFS_SET_ATIME, &root, &st),
                 0);
    cr_assert_eq(st.st_mode, S_IFREG | 04755);
    sfs_vfs_release(a);
    reopen(f);
    cr_assert_eq(sfs_vfs_getattr(vfs, ino, &st), 0);
    cr_assert_eq(st.st_mode, S_IFREG | 04755);
    cr_assert_eq(st.st_mtim.tv_sec, -5);
    cr_assert_eq(st.st_mtim.tv_nsec, 999999999);
    cr_assert_eq(st.st_atim.tv_sec, 1ll << 40);
    a = open_new("a");
    cr_assert_eq(sfs_vfs_write(a, "x", 1, 0, false, true, &n), 0);
    cr_assert_eq(stat_of(a).st_mode, S_IFREG | 0755, "set-id bits go with a write");
    cr_assert_eq(sfs_vfs_setattr(vfs, ino, &set, SFS_SET_UID | SFS_SET_GID, &root, &st), 0);
    cr_assert_eq(st.st_uid, 3);
    cr_assert_eq(st.st_gid, 4);
    sfs_vfs_release(a);
    finish(f);
}

VFS_TEST(extended_attributes)
{
    char buf[70000];
    size_t n;
    struct stat st;

    begin(f, 64, SFS_MIRROR2);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0755, &root, &st), 0);
    uint64_t ino = st.st_ino;
    cr_assert_eq(sfs_vfs_getxattr(vfs, ino, "user.a", buf, sizeof(buf), &n), -ENODATA);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "user.a", "1", 1, XATTR_REPLACE, &root), -ENODATA);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "user.a", "12", 2, 0, &root), 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "user.a", "1", 1, XATTR_CREATE, &root), -EEXIST);
    memset(buf, 'v', 65536);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "user.big", buf, 65536, 0, &root), 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "user.big", buf, 65537, 0, &root), -E2BIG);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "system.posix_acl_access", buf, 4, 0, &root), -EOPNOTSUPP);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "system.other", buf, 4, 0, &root), -EOPNOTSUPP);
    reopen(f);
    cr_assert_eq(sfs_vfs_getxattr(vfs, ino, "user.a", buf, 1, &n), -ERANGE);
    cr_assert_eq(sfs_vfs_getxattr(vfs, ino, "user.big", NULL, 0, &n), 0);
    cr_assert_eq(n, 65536);
    cr_assert_eq(sfs_vfs_listxattr(vfs, ino, buf, sizeof(buf), &n), 0);
    cr_assert_eq(n, strlen("user.a") + strlen("user.big") + 2);
    cr_assert_eq(sfs_vfs_removexattr(vfs, ino, "user.a"), 0);
    cr_assert_eq(sfs_vfs_removexattr(vfs, ino, "user.a"), -ENODATA);
    finish(f);
}

static int64_t blocks_of(uint64_t ino)
{
    struct stat st = {0};

    cr_assert_eq(sfs_vfs_getattr(vfs, ino, &st), 0);
    return st.st_blocks;
}

VFS_TEST(blocks_are_told_without_reading_extents)
{
    static uint8_t mib[1 << 20];
    struct stat st;
    struct sfs_file *file;
    size_t n;

    begin(f, 64, SFS_MIRROR2);
    memset(mib, 7, sizeof(mib));
    cr_assert_eq(sfs_vfs_create(vfs, top(), "big", 0644, O_RDWR, &root, &st, &file), 0);
    uint64_t big = st.st_ino;
    cr_assert_eq(sfs_vfs_write(file, mib, sizeof(mib), 0, false, false, &n), 0);
    cr_assert_eq(sfs_vfs_write(file, mib, 4096, 5 << 20, false, false, &n), 0);
    cr_assert_eq(blocks_of(big), 2048 + 8, "dirty");
    sfs_vfs_release(file);
    cr_assert_eq(sfs_vfs_create(vfs, top(), "small", 0644, O_RDWR, &root, &st, &file), 0);
    uint64_t small = st.st_ino;
    cr_assert_eq(sfs_vfs_write(file, mib, 1000, 0, false, false, &n), 0);
    sfs_vfs_release(file);
    reopen(f);
    cr_assert_eq(blocks_of(big), 2048 + 8, "as the row has it");
    cr_assert_eq(blocks_of(small), 2);
    cr_assert_eq(sfs_vfs_open_file(vfs, big, O_RDWR, &file), 0);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 512 << 10), 0);
    sfs_vfs_release(file);
    cr_assert_eq(blocks_of(big), 1024 + 8);
    st.st_mode = 0600; /* a change of the row alone keeps it */
    cr_assert_eq(sfs_vfs_setattr(vfs, small, &st, SFS_SET_MODE, &root, NULL), 0);
    reopen(f);
    cr_assert_eq(blocks_of(big), 1024 + 8);
    cr_assert_eq(blocks_of(small), 2);
    cr_assert_eq(sfs_vfs_setattr(vfs, big, &(struct stat){.st_size = 0}, SFS_SET_SIZE, &root, NULL), 0);
    reopen(f);
    cr_assert_eq(blocks_of(big), 0);
    finish(f);
}

/* An access list as the kernel hands it over; a named user where uid isn't 0. */
static size_t make_list(uint8_t *out, unsigned owner, unsigned uid, unsigned rights, unsigned group, unsigned other)
{
    struct {
        uint16_t tag, perm;
        uint32_t id;
    } e[5] = {{1, (uint16_t)owner, UINT32_MAX}}; /* ACL_USER_OBJ … */
    uint32_t version = 2;
    size_t n = 1;

    if (uid) {
        e[n].tag = 2;
        e[n].perm = (uint16_t)rights;
        e[n++].id = uid;
    }
    e[n].tag = 4;
    e[n].perm = (uint16_t)group;
    e[n++].id = UINT32_MAX;
    if (uid) {
        e[n].tag = 16;
        e[n].perm = (uint16_t)(rights | group);
        e[n++].id = UINT32_MAX;
    }
    e[n].tag = 32;
    e[n].perm = (uint16_t)other;
    e[n++].id = UINT32_MAX;
    memcpy(out, &version, 4);
    memcpy(out + 4, e, n * sizeof(e[0]));
    return 4 + n * sizeof(e[0]);
}

static mode_t mode_of(uint64_t ino)
{
    struct stat st = {0};

    cr_assert_eq(sfs_vfs_getattr(vfs, ino, &st), 0);
    return st.st_mode & 07777;
}

VFS_TEST(access_lists_and_modes_go_together)
{
    uint8_t acl[64], got[64];
    size_t n, len;
    struct stat st;
    struct sfs_cred user = {.uid = 7, .gid = 8, .umask = 077};

    begin(f, 64, SFS_MIRROR2);
    cr_assert_eq(sfs_vfs_mknod(vfs, top(), "f", 0644, 0, &root, &st), 0);
    uint64_t ino = st.st_ino;
    len = make_list(acl, 6, 1000, 6, 4, 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "system.posix_acl_access", acl, len, 0, &root), 0);
    cr_assert_eq(mode_of(ino), 0660, "the mask is the group's part of the mode");
    st.st_mode = 0700;
    cr_assert_eq(sfs_vfs_setattr(vfs, ino, &st, SFS_SET_MODE, &root, NULL), 0);
    reopen(f);
    cr_assert_eq(sfs_vfs_getxattr(vfs, ino, "system.posix_acl_access", got, sizeof(got), &n), 0);
    cr_assert_eq(n, len);
    cr_assert_eq(got[4 + 3 * 8 + 2], 0, "chmod takes the mask");
    cr_assert_eq(got[4 + 8 + 2], 6, "and nothing of the named user");
    cr_assert_eq(mode_of(ino), 0700);
    /* What the mode says too isn't stored. */
    len = make_list(acl, 6, 0, 0, 4, 4);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "system.posix_acl_access", acl, len, 0, &root), 0);
    cr_assert_eq(sfs_vfs_getxattr(vfs, ino, "system.posix_acl_access", got, sizeof(got), &n), -ENODATA);
    cr_assert_eq(mode_of(ino), 0644);
    cr_assert_eq(sfs_vfs_removexattr(vfs, ino, "system.posix_acl_access"), 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, ino, "system.posix_acl_default", acl, len, 0, &root), -EACCES);

    /* Inheritance: the list takes the place of the umask. */
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0777, &root, &st), 0);
    uint64_t dir = st.st_ino;
    len = make_list(acl, 7, 1000, 7, 5, 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, dir, "system.posix_acl_default", acl, len, 0, &root), 0);
    cr_assert_eq(mode_of(dir), 0755);
    cr_assert_eq(sfs_vfs_mknod(vfs, dir, "f", 0666, 0, &user, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0660);
    cr_assert_eq(sfs_vfs_getxattr(vfs, st.st_ino, "system.posix_acl_access", got, sizeof(got), &n), 0);
    cr_assert_eq(got[4 + 3 * 8 + 2], 6, "the mask is no more than was asked for");
    cr_assert_eq(sfs_vfs_getxattr(vfs, st.st_ino, "system.posix_acl_default", got, sizeof(got), &n), -ENODATA);
    cr_assert_eq(sfs_vfs_mkdir(vfs, dir, "d", 0777, &user, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0770);
    cr_assert_eq(sfs_vfs_getxattr(vfs, st.st_ino, "system.posix_acl_default", got, sizeof(got), &n), 0);
    cr_assert(n == len && !memcmp(got, acl, len));
    cr_assert_eq(sfs_vfs_symlink(vfs, dir, "l", "f", &user, &st), 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, st.st_ino, "system.posix_acl_access", acl, len, 0, &root), -EOPNOTSUPP);
    finish(f);
}

static bool is_9(void *ctx, gid_t gid)
{
    (void)ctx;
    return gid == 9;
}

VFS_TEST(set_gid_stays_for_members_only)
{
    uint8_t acl[64];
    struct stat st;
    struct sfs_cred member = {.uid = 7, .gid = 8, .in_group = is_9}, other = {.uid = 7, .gid = 8};

    begin(f, 64, SFS_MIRROR2);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0777, &root, &st), 0);
    uint64_t dir = st.st_ino;
    st.st_gid = 9;
    st.st_mode = 02777;
    cr_assert_eq(sfs_vfs_setattr(vfs, dir, &st, SFS_SET_GID | SFS_SET_MODE, &root, NULL), 0);
    cr_assert_eq(sfs_vfs_mknod(vfs, dir, "a", 02755, 0, &other, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0755);
    cr_assert_eq(st.st_gid, 9);
    cr_assert_eq(sfs_vfs_mknod(vfs, dir, "b", 02755, 0, &member, &st), 0);
    cr_assert_eq(st.st_mode & 07777, 02755);
    size_t len = make_list(acl, 7, 1000, 7, 5, 0);
    cr_assert_eq(sfs_vfs_setxattr(vfs, st.st_ino, "system.posix_acl_access", acl, len, 0, &member), 0);
    cr_assert_eq(mode_of(st.st_ino), 02770);
    cr_assert_eq(sfs_vfs_setxattr(vfs, st.st_ino, "system.posix_acl_access", acl, len, 0, &other), 0);
    cr_assert_eq(mode_of(st.st_ino), 0770);
    finish(f);
}

/* --- limits and failures -------------------------------------------------------------------------------- */

VFS_TEST(a_full_space_says_so_and_frees_again)
{
    static uint8_t mib[1 << 20];
    struct sfs_vfs_statfs st;
    size_t n;
    int rc;
    uint64_t off = 0;

    begin(f, 24, SFS_MIRROR2);
    struct sfs_file *a = open_new("a");
    for (unsigned round = 0; round < 6; round++) { /* what is reserved turns out smaller when it is stored */
        for (rc = 0; !rc && off < 64 << 20; off += n)
            rc = sfs_vfs_write(a, mib, sizeof(mib), off, false, false, &n);
        cr_assert_eq(rc, -ENOSPC);
        cr_assert_eq(sfs_vfs_fsync(a, false), 0, "what was accepted can be stored");
    }
    cr_assert_eq((uint64_t)stat_of(a).st_size, off);
    cr_assert_eq(sfs_vfs_write(a, mib, 4096, off, false, false, &n), -ENOSPC);
    cr_assert_eq(sfs_vfs_statfs(vfs, &st), 0);
    cr_assert_lt(st.bavail, st.blocks / 20);
    fill(a, 0, 4096, 'r'); /* existing data may still be rewritten */
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    sfs_vfs_release(a);
    cr_assert_eq(sfs_vfs_unlink(vfs, top(), "a"), 0);
    a = open_new("b");
    fill(a, 0, 1 << 20, 'b'); /* at once: it waits for the space to come back */
    cr_assert_eq(sfs_vfs_fsync(a, false), 0);
    expect(a, 0, 1 << 20, 'b');
    sfs_vfs_release(a);
    finish(f);
}

VFS_TEST(read_only)
{
    struct stat st = {0};
    struct sfs_file *file;

    begin(f, 64, SFS_MIRROR2);
    file = open_new("a");
    fill(file, 0, 5000, 'a');
    cr_assert_eq(sfs_vfs_set_readonly(vfs, true), 0);
    size_t n;
    cr_assert_eq(sfs_vfs_write(file, "x", 1, 0, false, false, &n), -EROFS);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0755, &root, &st), -EROFS);
    cr_assert_eq(sfs_vfs_unlink(vfs, top(), "a"), -EROFS);
    expect(file, 0, 5000, 'a');
    cr_assert_eq(sfs_vfs_fsync(file, false), 0);
    cr_assert_eq(sfs_vfs_set_readonly(vfs, false), 0);
    cr_assert_eq(sfs_vfs_mkdir(vfs, top(), "d", 0755, &root, &st), 0);
    sfs_vfs_release(file);
    finish(f);
}

struct many {
    struct fixture *f;
    unsigned id;
    struct sfs_thread *t;
};

static void worker(void *arg)
{
    struct many *m = arg;
    char name[32], other[32];

    for (unsigned k = 0; k < 30; k++) {
        snprintf(name, sizeof(name), "w%u.%u", m->id, k % 5);
        snprintf(other, sizeof(other), "w%u.final", m->id);
        struct sfs_file *file = open_new(name);
        set_size(file, 0);
        fill(file, 0, 1000 + k * 9000, (int)(m->id * 40 + k));
        if (k % 3 == 0)
            cr_assert_eq(sfs_vfs_fsync(file, false), 0);
        expect(file, 0, 1000 + k * 9000, (int)(m->id * 40 + k));
        sfs_vfs_release(file);
        if (k % 4 == 1)
            cr_assert_eq(sfs_vfs_rename(vfs, top(), name, top(), other, 0), 0);
        if (k % 4 == 3)
            cr_assert_eq(sfs_vfs_unlink(vfs, top(), name), 0);
        if (k % 7 == 0)
            sfs_env_sleep_ns(m->f->env, 50000);
    }
}

static void many_at_once(struct fixture *f)
{
    struct many m[5];

    begin(f, 64, SFS_MIRROR2);
    for (unsigned k = 0; k < 5; k++) {
        m[k] = (struct many){f, k, NULL};
        cr_assert_eq(sfs_thread_start(f->env, "worker", worker, &m[k], &m[k].t), 0);
    }
    for (unsigned k = 0; k < 5; k++)
        sfs_thread_join(m[k].t);
    reopen(f);
    for (unsigned k = 0; k < 5; k++) {
        char name[32];
        snprintf(name, sizeof(name), "w%u.final", k);
        struct sfs_file *file = open_new(name);
        expect(file, 0, 1000 + 29 * 9000, (int)(k * 40 + 29));
        sfs_vfs_release(file);
    }
    finish(f);
}

Test(vfs, many_at_once)
{
    for (uint64_t seed = 1; seed <= 10; seed++)
        in_sim(seed, many_at_once);
}
