/* A hole in a block that was written since the last commit: after a crash the block is old or new, not the old one with the new hole. */
#include "tests/unit/pool_fixture.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include "fs/vfs/vfs.h"

static const struct sfs_cred root = {.privileged = true, .umask = 022};

static struct sfs_vfs *mount_space(struct fixture *f)
{
    struct sfs_vfs_opts opts = {.commit_interval_ns = 3600ull * 1000000000ull};
    struct sfs_error err = {0};
    struct sfs_vfs *vfs;

    open_pool(f);
    use_space(f, "s");
    cr_assert_eq(sfs_vfs_open(f->vol, &opts, &vfs, &err), 0, "%s", err.text);
    return vfs;
}

static void put(struct sfs_file *file, char c, uint64_t off, size_t len)
{
    static char data[65536];
    size_t n = 0;

    memset(data, c, len);
    cr_assert_eq(sfs_vfs_write(file, data, len, off, false, false, &n), 0);
    cr_assert_eq(n, len);
}

static void is(struct sfs_file *file, char c, uint64_t off, size_t len)
{
    char data[4096];
    size_t n = 0;

    cr_assert_eq(sfs_vfs_read(file, data, len, off, &n), 0);
    cr_assert_eq(n, len);
    for (size_t i = 0; i < len; i++)
        cr_assert_eq(data[i], c, "byte %zu is %d", (size_t)off + i, data[i]);
}

static void dirty_block(struct fixture *f)
{
    unsigned sizes[2] = {32, 32};
    struct sfs_file *file, *other;
    struct sfs_vfs *vfs;
    struct stat st;
    uint64_t ino;

    make_pool(f, sizes, 2);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    vfs = mount_space(f);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "a", 0644, O_RDWR, &root, &st, &file), 0);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "b", 0644, O_RDWR, &root, &st, &other), 0);
    put(file, 'o', 0, 65536);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    put(file, 'n', 8192, 8192);
    cr_assert_eq(sfs_vfs_fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 9000, 4000), 0);
    is(file, 'n', 8192, 808);
    is(file, '\0', 9000, 4000);
    is(file, 'n', 13000, 3384);
    put(other, 'x', 0, 100);
    cr_assert_eq(sfs_vfs_fsync(other, false), 0); /* a commit, for which the first file was not written out */
    sfs_sim_crash(f->world, false);
    sfs_vfs_release(file);
    sfs_vfs_release(other);
    (void)sfs_vfs_close(vfs);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    vfs = mount_space(f);
    cr_assert_eq(sfs_vfs_resolve(vfs, "/a", &ino), 0);
    cr_assert_eq(sfs_vfs_lookup(vfs, sfs_vfs_root(vfs), "a", &st), 0);
    cr_assert_eq(sfs_vfs_open_file(vfs, ino, O_RDWR, &file), 0);
    is(file, 'o', 4096, 4096);
    is(file, 'o', 8192, 4096);
    is(file, 'o', 12288, 4096);
    sfs_vfs_release(file);
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

Test(vfs_punch, dirty_block)
{
    in_sim(1, dirty_block);
}
