/* Directories: formatting and refusing, labels, planted links, disappearing, many slabs. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include "tests/unit/disk_common.h"
#include "fs/disk/label_format.h"

#define SLAB (64u << 10)
#define MIB (1ull << 20)

static struct sfs_env *env;
static char *dir, path[600];
static struct sfs_label *label;
static struct sfs_disk *disk;

static void open_disk(void)
{
    struct sfs_error err = {0};
    struct sfs_disk_opts opts = {.timeout_ns = 20000000000ull};
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, &err), 0, "%s", err.text);
}

static void close_disk(void)
{
    sfs_disk_close(disk);
    disk = NULL;
}

static int try_open(void)
{
    struct sfs_error err = {0};
    struct sfs_disk_opts opts = {0};
    struct sfs_disk *d = NULL;
    int rc = sfs_disk_open(env, path, &opts, &d, &err);
    cr_assert(rc == 0 || strlen(err.text) > 10);
    sfs_disk_close(d);
    return rc;
}

static int format(uint64_t want_bytes, bool force)
{
    struct sfs_error err = {0};
    int rc = sfs_disk_format(env, path, NULL, want_bytes, force, label, &err);
    cr_assert(rc == 0 || strlen(err.text) > 10);
    return rc;
}

static const char *at(const char *rest)
{
    static char out[2][800];
    static unsigned turn;
    char *p = out[turn++ % 2];
    snprintf(p, sizeof out[0], "%s/%s", path, rest);
    return p;
}

static void put(const char *rest, const char *text)
{
    int fd = open(at(rest), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void setup(void)
{
    env = sfs_env_new_real();
    dir = test_scratch_new();
    snprintf(path, sizeof path, "%s/disk", dir);
    cr_assert_eq(mkdir(path, 0755), 0);
    put("the user's own", "keep");
    label = test_label_new(env, "dir", SLAB);
    cr_assert_eq(format(64 * MIB, false), 0);
    open_disk();
}

static void teardown(void)
{
    close_disk();
    free(label);
    test_scratch_remove(dir);
    sfs_env_free(env);
    sfs_buf_trim_pool();
}

TestSuite(disk_dir, .init = setup, .fini = teardown);

static void count_slot(uint32_t slot, void *ctx)
{
    (void)slot;
    ++*(unsigned *)ctx;
}

static unsigned slots(void)
{
    unsigned n = 0;
    cr_assert_eq(sfs_disk_slab_list(disk, count_slot, &n), 0);
    return n;
}

Test(disk_dir, slabs)
{
    struct stat st;
    cr_assert_eq(label->capacity_slabs, 1024);
    cr_assert_eq(test_write(disk, 3, 0, 4096, 1), -ENOENT);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_ONLINE, "one slab that isn't there is no reason to give up the disk");
    cr_assert_eq(sfs_disk_slab_alloc(disk, 3), 0);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 3), 0);
    cr_assert_eq(stat(at(".spacesfs/slabs/00000003"), &st), 0);
    cr_assert(st.st_size == SLAB && (st.st_blocks * 512 >= SLAB), "preallocated");
    cr_assert_eq(test_write(disk, 3, 100, 5000, 1), 0);
    cr_assert_eq(test_sync(disk), 0);
    cr_assert_eq(test_read_is(disk, 3, 100, 5000, 1), 0);
    close_disk();
    open_disk();
    cr_assert_eq(test_read_is(disk, 3, 100, 5000, 1), 0);
    cr_assert_eq(slots(), 1);
    cr_assert_eq(sfs_disk_slab_free(disk, 3), 0);
    cr_assert_eq(sfs_disk_slab_free(disk, 3), 0);
    cr_assert_eq(slots(), 0);
    cr_assert_neq(stat(at(".spacesfs/slabs/00000003"), &st), 0);
}

/* More slabs than descriptors are kept open, with a small limit on top. */
Test(disk_dir, many_slabs)
{
    struct rlimit limit = {100, 100};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (uint32_t i = 0; i < 700; i++) {
        cr_assert_eq(sfs_disk_slab_alloc(disk, i), 0, "%u", i);
        cr_assert_eq(test_write(disk, i, 0, 4096, i), 0, "%u", i);
        if (i % 40 == 0)
            cr_assert_eq(test_sync(disk), 0);
    }
    for (uint32_t i = 0; i < 700; i++)
        cr_assert_eq(test_read_is(disk, i, 0, 4096, i), 0, "%u", i);
    cr_assert_eq(test_sync(disk), 0);
}

Test(disk_dir, one_process)
{
    cr_assert_eq(try_open(), -EBUSY);
    cr_assert_eq(format(0, true), -EBUSY);
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), -EBUSY);
    struct sfs_disk_probe *p = malloc(sizeof *p);
    cr_assert_eq(sfs_disk_probe(env, path, NULL, p, NULL), 0);
    cr_assert(p->has_label && p->kind == SFS_DISK_DIR);
    cr_assert_str_eq(p->label.pool_name, "tank");
    free(p);
}

Test(disk_dir, format_and_wipe)
{
    cr_assert_eq(sfs_disk_slab_alloc(disk, 0), 0);
    cr_assert_eq(sfs_disk_meta_write(disk, "catalog.db", "x", 1, 0), 0);
    close_disk();
    cr_assert_eq(format(0, false), -EEXIST);
    cr_assert_eq(format(1ull << 60, true), -ENOSPC, "more than the host has");
    cr_assert_eq(format(SLAB - 1, true), -ENOSPC, "less than a slab");
    cr_assert_eq(format(0, true), 0);
    open_disk();
    cr_assert_eq(slots(), 0, "nothing of the old pool is left");
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), -ENOENT);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 0), 0);
    close_disk();
    struct sfs_uuid other = label->pool_uuid;
    other.b[0] ^= 1;
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &other, NULL), -EINVAL);
    put(".spacesfs/mine", "keep");
    cr_assert_eq(sfs_disk_wipe(env, path, NULL, &label->pool_uuid, NULL), 0);
    cr_assert_eq(access(at(".spacesfs/mine"), F_OK), 0);
    cr_assert_neq(access(at(".spacesfs/slabs"), F_OK), 0);
    cr_assert_eq(access(at("the user's own"), F_OK), 0);
    cr_assert_eq(try_open(), -ENOENT);
    cr_assert_eq(unlink(at(".spacesfs/mine")), 0);
    cr_assert_eq(rmdir(at(".spacesfs")), 0);
    cr_assert_eq(try_open(), -ENOENT);
    cr_assert_neq(access(at(".spacesfs"), F_OK), 0, "looking makes nothing");
}

Test(disk_dir, what_is_no_disk)
{
    struct sfs_disk_probe *p = malloc(sizeof *p);
    char other[700];
    snprintf(other, sizeof other, "%s/none", dir);
    cr_assert_eq(sfs_disk_probe(env, other, NULL, p, NULL), -ENOENT);
    cr_assert_eq(sfs_disk_probe(env, "/dev/null", NULL, p, NULL), -EINVAL);
    cr_assert_eq(mkfifo(other, 0600), 0);
    cr_assert_eq(sfs_disk_probe(env, other, NULL, p, NULL), -EINVAL);
    cr_assert_eq(sfs_disk_format(env, other, NULL, 0, true, label, NULL), -EINVAL);
    cr_assert_eq(sfs_disk_probe(env, "sim:x", NULL, p, NULL), -ENOENT);
    free(p);
}

Test(disk_dir, label)
{
    struct sfs_label *l = malloc(sizeof *l);
    sfs_disk_label(disk, l);
    cr_assert_eq(l->epoch.number, 7);
    l->epoch.number = 8;
    cr_assert_eq(sfs_disk_write_label(disk, l), 0);
    close_disk();
    put(".spacesfs/label", "junk");
    open_disk();
    sfs_disk_label(disk, l);
    cr_assert_eq(l->epoch.number, 8, "from the copy");
    close_disk();
    cr_assert_eq(unlink(at(".spacesfs/label.copy")), 0);
    open_disk();
    close_disk();
    cr_assert_eq(unlink(at(".spacesfs/label")), 0);
    open_disk();
    close_disk();
    put(".spacesfs/label", "junk");
    put(".spacesfs/label.copy", "junk");
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(format(0, false), -EEXIST);
    cr_assert_eq(format(0, true), 0);
    free(l);
}

/* What is in place of our files must not lead us elsewhere. */
Test(disk_dir, planted_links)
{
    char victim[700];
    snprintf(victim, sizeof victim, "%s/victim", dir);
    int fd = open(victim, O_WRONLY | O_CREAT, 0600);
    cr_assert_eq(write(fd, "precious", 8), 8);
    close(fd);

    cr_assert_eq(symlink(victim, at(".spacesfs/slabs/00000005")), 0);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 5), -EUCLEAN);
    close_disk();
    open_disk();
    cr_assert_eq(symlink(victim, at(".spacesfs/label.new")), 0);
    cr_assert_eq(sfs_disk_write_label(disk, label), 0);
    cr_assert_eq(symlink(victim, at(".spacesfs/catalog/evil")), 0);
    cr_assert_eq(sfs_disk_meta_write(disk, "evil", "x", 1, 0), -EUCLEAN);
    close_disk();
    cr_assert_eq(unlink(at(".spacesfs/lock")), 0);
    cr_assert_eq(symlink(victim, at(".spacesfs/lock")), 0);
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(unlink(at(".spacesfs/lock")), 0);
    put(".spacesfs/lock", "");
    cr_assert_eq(rename(at(".spacesfs/slabs"), at("slabs")), 0);
    cr_assert_eq(symlink(at("slabs"), at(".spacesfs/slabs")), 0);
    cr_assert_eq(try_open(), -EUCLEAN);

    char bytes[16] = "";
    fd = open(victim, O_RDONLY);
    cr_assert_eq(read(fd, bytes, sizeof bytes), 8);
    close(fd);
    cr_assert_str_eq(bytes, "precious");
}

/* Nor do something by being opened, nor hold us up, nor fill our memory. */
Test(disk_dir, planted_fifos_and_devices)
{
    char bytes[16] = "";
    cr_assert_eq(mkfifo(at(".spacesfs/slabs/00000005"), 0600), 0);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 5), -EUCLEAN);
    close_disk();
    open_disk();
    cr_assert_eq(mkfifo(at(".spacesfs/catalog/snapshot-7"), 0600), 0);
    cr_assert_eq(sfs_disk_meta_write(disk, "snapshot-7", "x", 1, 0), -EUCLEAN);
    close_disk();
    open_disk();
    if (mknod(at(".spacesfs/slabs/00000006"), S_IFCHR | 0600, makedev(1, 3)) == 0) /* only root can */
        cr_assert_eq(sfs_disk_slab_alloc(disk, 6), -EUCLEAN);
    close_disk();
    open_disk();
    cr_assert_lt(sfs_disk_meta_read(disk, "snapshot-7", bytes, sizeof bytes, 0), 0);
    close_disk();
    for (unsigned i = 0; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, ".spacesfs/catalog/x%u", i);
        put(name, "");
    }
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(unlink(at(".spacesfs/label")), 0);
    cr_assert_eq(unlink(at(".spacesfs/label.copy")), 0);
    cr_assert_eq(mkfifo(at(".spacesfs/label"), 0600), 0);
    cr_assert_eq(try_open(), -EUCLEAN);
}

/* A label that is lost may be given from outside; one that can be read may not. */
Test(disk_dir, assumed_label)
{
    struct sfs_label *l = malloc(sizeof *l);
    struct sfs_disk_opts opts = {.readonly = true, .assume = l};
    struct sfs_error err = {0};
    sfs_disk_label(disk, l);
    close_disk();
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, &err), -EEXIST);
    put(".spacesfs/label", "junk");
    put(".spacesfs/label.copy", "junk");
    cr_assert_eq(try_open(), -EUCLEAN);
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, &err), 0, "%s", err.text);
    close_disk();
    cr_assert_eq(try_open(), -EUCLEAN, "nothing was written");
    opts.readonly = false;
    cr_assert_eq(sfs_disk_open(env, path, &opts, &disk, &err), 0, "%s", err.text);
    sfs_disk_label(disk, l);
    cr_assert_eq(sfs_disk_write_label(disk, l), 0);
    close_disk();
    open_disk();
    free(l);
}

Test(disk_dir, metadata)
{
    char bytes[16];
    cr_assert_eq(sfs_disk_meta_write(disk, "catalog.db", "hello", 5, 10), 0);
    cr_assert_eq(sfs_disk_meta_write(disk, "snapshot-1", "s", 1, 0), 0);
    cr_assert_eq(sfs_disk_meta_sync(disk, "catalog.db"), 0);
    cr_assert_eq(sfs_disk_meta_sync(disk, "none"), 0);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db", bytes, 16, 8), 7);
    cr_assert_arr_eq(bytes, "\0\0hello", 7);
    cr_assert_eq(sfs_disk_meta_truncate(disk, "catalog.db", 12), 0);
    close_disk();
    open_disk();
    cr_assert_eq(sfs_disk_meta_size(disk, "catalog.db"), 12);
    cr_assert_eq(sfs_disk_meta_size(disk, "snapshot-1"), 1);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db", bytes, 16, 8), 4);
    cr_assert_eq(sfs_disk_meta_read(disk, "catalog.db", bytes, 16, 100), 0);
    cr_assert_eq(sfs_disk_meta_delete(disk, "snapshot-1"), 0);
    cr_assert_eq(sfs_disk_meta_size(disk, "snapshot-1"), -ENOENT);
    cr_assert_eq(sfs_disk_meta_read(disk, "snapshot-1", bytes, 1, 0), -ENOENT);
    for (size_t i = 0; i < 4; i++) {
        static const char *const bad[] = {"", "..", "a/b", "name-that-is-longer-than-31-bytes"};
        cr_assert_eq(sfs_disk_meta_write(disk, bad[i], "x", 1, 0), -EINVAL);
    }
    cr_assert_gt(sfs_disk_meta_free_bytes(disk, 0), MIB);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_ONLINE);
}

static void assert_gone(void)
{
    cr_assert_eq(sfs_disk_check(disk), -ENODEV);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_GONE);
    cr_assert_gt(strlen(sfs_disk_state_why(disk)), 5);
    cr_assert_eq(sfs_disk_slab_alloc(disk, 0), -ENODEV);
}

Test(disk_dir, renamed)
{
    char other[700];
    snprintf(other, sizeof other, "%s.away", path);
    cr_assert_eq(sfs_disk_check(disk), 0);
    cr_assert_eq(rename(path, other), 0);
    assert_gone();
    close_disk();
    cr_assert_eq(mkdir(path, 0755), 0);
    cr_assert_eq(try_open(), -ENOENT, "an empty directory where the disk was");
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(rename(other, path), 0);
    open_disk();
}

Test(disk_dir, another_in_its_place)
{
    char other[700];
    snprintf(other, sizeof other, "%s.away", path);
    cr_assert_eq(rename(path, other), 0);
    cr_assert_eq(mkdir(path, 0755), 0);
    cr_assert_eq(format(0, false), 0);
    assert_gone();
}

Test(disk_dir, label_deleted)
{
    cr_assert_eq(unlink(at(".spacesfs/label")), 0);
    assert_gone();
}

/* A slab file somebody cut off: that read fails, the disk stays. */
Test(disk_dir, slab_cut_off)
{
    cr_assert_eq(sfs_disk_slab_alloc(disk, 0), 0);
    cr_assert_eq(truncate(at(".spacesfs/slabs/00000000"), 4096), 0);
    cr_assert_eq(test_read_is(disk, 0, 8192, 4096, 1), -EIO);
    cr_assert_eq(sfs_disk_state(disk), SFS_DISK_ONLINE);
    struct sfs_disk_counters c;
    sfs_disk_counters(disk, &c);
    cr_assert_eq(c.read_errors, 1);
}
