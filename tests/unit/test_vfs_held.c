/* What a commit that comes between a program's calls takes along: a file whose contents are being replaced in place keeps its old ones in the
 * catalog for a while, its owner and mode don't wait for that; small files go whole. */
#include "tests/unit/pool_fixture.h"

#include <fcntl.h>

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

static void put(struct sfs_file *file, char c, size_t len)
{
    static char data[65536];
    size_t n = 0;

    memset(data, c, len);
    cr_assert_eq(sfs_vfs_write(file, data, len, 0, false, false, &n), 0);
    cr_assert_eq(n, len);
}

/* The machine, with both files open; returns the space mounted anew. */
static struct sfs_vfs *crash(struct fixture *f, struct sfs_vfs *vfs, struct sfs_file *file, struct sfs_file *other)
{
    sfs_sim_crash(f->world, false);
    sfs_vfs_release(file);
    sfs_vfs_release(other);
    (void)sfs_vfs_close(vfs);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    return mount_space(f);
}

static void replaced_in_place(struct fixture *f)
{
    struct stat st, set = {.st_uid = 7, .st_gid = 8, .st_mode = S_IFREG | 0600};
    unsigned sizes[2] = {32, 32};
    struct sfs_file *file, *other;
    struct sfs_vfs *vfs;
    char first = 0;
    size_t n = 0;

    make_pool(f, sizes, 2);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    vfs = mount_space(f);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "a", 0644, O_RDWR, &root, &st, &file), 0);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "b", 0644, O_RDWR, &root, &st, &other), 0);
    put(file, 'o', 65536);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    cr_assert_eq(sfs_vfs_setattr(vfs, sfs_file_ino(file), &(struct stat){.st_size = 0}, SFS_SET_SIZE, &root, &st), 0);
    put(file, 'n', 30000);
    cr_assert_eq(sfs_vfs_setattr(vfs, sfs_file_ino(file), &set, SFS_SET_UID | SFS_SET_GID | SFS_SET_MODE, &root, &st), 0);
    put(other, 'x', 100);
    cr_assert_eq(sfs_vfs_fsync(other, false), 0);
    vfs = crash(f, vfs, file, other);
    cr_assert_eq(sfs_vfs_lookup(vfs, sfs_vfs_root(vfs), "a", &st), 0);
    cr_assert_eq(st.st_uid, 7);
    cr_assert_eq(st.st_gid, 8);
    cr_assert_eq(st.st_mode, (mode_t)(S_IFREG | 0600));
    cr_assert_eq(sfs_vfs_open_file(vfs, st.st_ino, O_RDONLY, &file), 0);
    cr_assert_eq(sfs_vfs_read(file, &first, 1, 0, &n), 0);
    cr_assert_eq(n, 1);
    cr_assert((st.st_size == 65536 && first == 'o') || (st.st_size == 30000 && first == 'n'), "size %lld", (long long)st.st_size);
    sfs_vfs_release(file);
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

Test(vfs_held, replaced_in_place)
{
    in_sim(1, replaced_in_place);
}

/* Not synced, but a commit came for another file's sake: never empty. */
static void small_files_go_along(struct fixture *f)
{
    unsigned sizes[2] = {32, 32};
    struct sfs_file *file, *other;
    struct sfs_vfs *vfs;
    struct stat st;
    char data[2048] = {0};
    size_t n = 0;

    make_pool(f, sizes, 2);
    open_pool(f);
    make_space(f, "s", SFS_MIRROR2);
    close_pool(f);
    vfs = mount_space(f);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "b", 0644, O_RDWR, &root, &st, &other), 0);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "a", 0644, O_RDWR, &root, &st, &file), 0);
    put(file, 'o', 2048);
    put(other, 'x', 65536);
    cr_assert_eq(sfs_vfs_fsync(other, false), 0);
    cr_assert_eq(sfs_vfs_setattr(vfs, sfs_file_ino(file), &(struct stat){.st_size = 0}, SFS_SET_SIZE, &root, &st), 0);
    put(file, 'n', 700); /* replaced in place */
    put(other, 'y', 65536);
    cr_assert_eq(sfs_vfs_fsync(other, false), 0);
    put(file, 'l', 100); /* later than any commit */
    vfs = crash(f, vfs, file, other);
    cr_assert_eq(sfs_vfs_lookup(vfs, sfs_vfs_root(vfs), "a", &st), 0);
    cr_assert_eq(st.st_size, 700, "size %lld", (long long)st.st_size);
    cr_assert_eq(sfs_vfs_open_file(vfs, st.st_ino, O_RDONLY, &file), 0);
    cr_assert_eq(sfs_vfs_read(file, data, sizeof(data), 0, &n), 0);
    cr_assert(n == 700 && data[0] == 'n' && data[699] == 'n');
    sfs_vfs_release(file);
    cr_assert_eq(sfs_vfs_close(vfs), 0);
    close_pool(f);
}

Test(vfs_held, small_files_go_along)
{
    in_sim(2, small_files_go_along);
}
