/* The catalog's typed queries, commits and limits, on healthy stores. */
#include <criterion/criterion.h>
#include "tests/unit/catalog_fixture.h"

static struct sfs_env *env;
static struct fixture x;

static void setup(void)
{
    env = sfs_env_new_real();
    fx_init(&x, env, 2, 1);
    CHECK_RC(fx_create(&x), 0);
    CHECK_RC(fx_open_attached(&x, 0), 0);
    sfs_catalog_lock(x.cat);
}

static void teardown(void)
{
    sfs_catalog_unlock(x.cat);
    fx_free(&x);
    sfs_env_free(env);
}

/* Commits, closes, opens again. */
static void reopen(void)
{
    CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
    sfs_catalog_unlock(x.cat);
    CHECK_RC(sfs_catalog_commit_sync(x.cat), 0);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    sfs_catalog_lock(x.cat);
}

TestSuite(catalog, .init = setup, .fini = teardown);

Test(catalog, properties)
{
    char v[8];
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "heal-delay", v, sizeof(v)), -ENOENT);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "heal-delay", "5m"), 0);
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "heal-delay", v, sizeof(v)), 0);
    cr_assert_str_eq(v, "5m");
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "heal-delay", v, 2), -ERANGE);
    reopen();
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "heal-delay", v, sizeof(v)), 0);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "heal-delay", NULL), 0);
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "heal-delay", v, sizeof(v)), -ENOENT);
}

static int keep_disk(const struct sfs_disk_row *row, void *ctx)
{
    *(struct sfs_disk_row *)ctx = *row;
    return 0;
}

static int stop_at_once(const struct sfs_disk_row *row, void *ctx)
{
    (void)row;
    ++*(int *)ctx;
    return 7;
}

Test(catalog, disks)
{
    struct sfs_disk_row a = {.uuid = {{1}},
                             .name = "one",
                             .kind = 1,
                             .media = 2,
                             .usage = SFS_USAGE_JOURNAL,
                             .path = "/d/one",
                             .capacity_slabs = 64,
                             .read_errors = 3,
                             .replica = true};
    struct sfs_disk_row b = {.uuid = {{2}}, .name = "two", .kind = 2, .path = "/d/two"}, got;
    int calls = 0;
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &a), 0);
    cr_assert_eq(a.id, 1);
    struct sfs_disk_row same = a;
    same.id = 0;
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &same), -EEXIST);
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &b), 0);
    cr_assert_eq(b.id, 2, "ids of failed inserts aren't used up, those of rows are");
    cr_assert_eq(sfs_catalog_disk_delete(x.cat, 2), 0);
    cr_assert_eq(sfs_catalog_disk_delete(x.cat, 2), -ENOENT);
    a.lost_since = 12345;
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &a), 0);
    reopen();
    cr_assert_eq(sfs_catalog_disk_each(x.cat, keep_disk, &got), 0);
    cr_assert_eq(memcmp(&got, &a, sizeof(a)), 0);
    cr_assert_eq(sfs_catalog_disk_each(x.cat, stop_at_once, &calls), 7);
    cr_assert_eq(calls, 1);
    b.id = 0;
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &b), 0);
    cr_assert_eq(b.id, 3, "an id is never used again");
    b.id = 99;
    cr_assert_eq(sfs_catalog_disk_put(x.cat, &b), -ENOENT);
    cr_assert(!sfs_catalog_broken(x.cat));
}

static int keep_space(const struct sfs_space_row *row, void *ctx)
{
    *(struct sfs_space_row *)ctx = *row;
    return 0;
}

Test(catalog, spaces_and_their_inode_counts)
{
    struct sfs_space_row s = {.name = "data",
                              .root_ino = 16,
                              .resiliency = 1,
                              .interleave = 262144,
                              .size_bytes = 1ull << 40,
                              .fixed = true,
                              .codec = SFS_CODEC_ZSTD,
                              .codec_level = 3,
                              .created = 1700000000},
                         got, dup;
    uint64_t n;
    cr_assert_eq(sfs_catalog_space_put(x.cat, &s), 0);
    dup = s;
    dup.id = 0;
    cr_assert_eq(sfs_catalog_space_put(x.cat, &dup), -EEXIST);
    for (int i = 0; i < 5; i++) {
        struct sfs_inode_row in = {
            .ino = sfs_catalog_ino_alloc(x.cat), .space = s.id, .mode = S_IFREG, .nlink = 1};
        cr_assert_eq(in.ino, 16u + (unsigned)i);
        cr_assert_eq(sfs_catalog_inode_insert(x.cat, &in), 0);
    }
    cr_assert_eq(sfs_catalog_inode_delete(x.cat, 18), 0);
    cr_assert_eq(sfs_catalog_inode_count(x.cat, s.id, &n), 0);
    cr_assert_eq(n, 4);
    cr_assert_eq(sfs_catalog_inode_count(x.cat, 77, &n), -ENOENT);
    s.destroying = true;
    cr_assert_eq(sfs_catalog_space_put(x.cat, &s), 0);
    reopen();
    cr_assert_eq(sfs_catalog_inode_count(x.cat, s.id, &n), 0);
    cr_assert_eq(n, 4);
    cr_assert_eq(sfs_catalog_space_each(x.cat, keep_space, &got), 0);
    cr_assert_eq(memcmp(&got, &s, sizeof(s)), 0);
    cr_assert_eq(sfs_catalog_ino_alloc(x.cat), 21, "inode numbers go on after a restart");
    cr_assert_eq(sfs_catalog_space_delete(x.cat, s.id), 0);
    cr_assert_eq(sfs_catalog_inode_count(x.cat, s.id, &n), -ENOENT);
}

static int count_slabs(const struct sfs_slab_row *row, void *ctx)
{
    int *sum = ctx;
    *sum += (int)(row->slot + 100 * row->column + 1000 * row->copy + 10000u * (unsigned)row->disk);
    return 0;
}

static int keep_group(const struct sfs_group_row *row, void *ctx)
{
    *(struct sfs_group_row *)ctx = *row;
    return 0;
}

Test(catalog, groups_and_slabs)
{
    struct sfs_group_row g = {.space = 1,
                              .resiliency = 1,
                              .columns = 2,
                              .interleave = 65536,
                              .kind = SFS_GROUP_LANDING},
                         got;
    int sum = 0;
    cr_assert_eq(sfs_catalog_group_put(x.cat, &g), 0);
    cr_assert_eq(g.id, 1);
    struct sfs_slab_row s = {.group = g.id, .column = 0, .copy = 0, .disk = 1, .slot = 5};
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), 0);
    s.copy = 1;
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), -EEXIST, "one slot, one slab");
    s.disk = 2;
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), 0);
    s.column = 1;
    s.disk = 0;
    s.slot = 0;
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), 0);
    s.copy = 0;
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), 0, "any number of slabs may be missing");
    s.disk = 3;
    cr_assert_eq(sfs_catalog_slab_put(x.cat, &s), 0);
    cr_assert_eq(sfs_catalog_slab_each(x.cat, g.id, count_slabs, &sum), 0);
    cr_assert_eq(sum, 10005 + 21005 + 30100 + 1100);
    g.state = SFS_GROUP_SEALED;
    cr_assert_eq(sfs_catalog_group_put(x.cat, &g), 0);
    reopen();
    cr_assert_eq(sfs_catalog_group_each(x.cat, keep_group, &got), 0);
    cr_assert_eq(memcmp(&got, &g, sizeof(g)), 0);
    struct sfs_extent_row e = {.len = 4096, .group = g.id, .slen = 4096, .rlen = 4096, .ncsum = 1};
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 20, &e), 0);
    cr_assert_eq(sfs_catalog_group_delete(x.cat, g.id), -EBUSY);
    cr_assert_eq(sfs_catalog_extent_delete(x.cat, 20, 0, UINT64_MAX, 0, NULL, NULL, NULL), 0);
    cr_assert_eq(sfs_catalog_group_delete(x.cat, g.id), 0);
    sum = 0;
    cr_assert_eq(sfs_catalog_slab_each(x.cat, 0, count_slabs, &sum), 0);
    cr_assert_eq(sum, 0);
    g.id = 0;
    cr_assert_eq(sfs_catalog_group_put(x.cat, &g), 0);
    cr_assert_eq(g.id, 2);
}

Test(catalog, inodes)
{
    struct sfs_inode_row in = {.ino = 20,
                               .space = 3,
                               .mode = S_IFREG | 04755,
                               .nlink = 2,
                               .uid = UINT32_MAX - 1,
                               .gid = 7,
                               .rdev = 0x123456789abcdefull,
                               .size = INT64_MAX,
                               .atime = {-5, 999999999},
                               .mtime = {1ll << 40, 1},
                               .ctime = {INT64_MIN, 0},
                               .btime = {0, 5},
                               .flags = SFS_INODE_HAS_XATTR},
                         got;
    uint8_t buf[SFS_INLINE_MAX];
    size_t len;
    uint64_t orphan;
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &in), 0);
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &in), -EEXIST);
    cr_assert_eq(sfs_catalog_inode_get(x.cat, 20, &got), 0);
    cr_assert_eq(memcmp(&got, &in, sizeof(in)), 0);
    cr_assert_eq(sfs_catalog_inode_get(x.cat, 21, &got), -ENOENT);
    in.size = 1ull << 63;
    cr_assert_eq(sfs_catalog_inode_update(x.cat, &in), -EFBIG);
    in.size = 5;
    in.nlink = 0;
    cr_assert_eq(sfs_catalog_orphan_next(x.cat, 3, 0, &orphan), -ENOENT);
    cr_assert_eq(sfs_catalog_inode_update(x.cat, &in), 0);
    cr_assert_eq(sfs_catalog_orphan_next(x.cat, 3, 0, &orphan), 0);
    cr_assert_eq(orphan, 20);
    cr_assert_eq(sfs_catalog_orphan_next(x.cat, 3, 20, &orphan), -ENOENT);
    cr_assert_eq(sfs_catalog_inline_get(x.cat, 20, buf, sizeof(buf), &len), -ENOENT);
    cr_assert_eq(sfs_catalog_inline_set(x.cat, 20, "hello", 5), 0);
    cr_assert_eq(sfs_catalog_inline_get(x.cat, 20, buf, 4, &len), -ERANGE);
    cr_assert_eq(sfs_catalog_inline_get(x.cat, 20, buf, sizeof(buf), &len), 0);
    cr_assert(len == 5 && memcmp(buf, "hello", 5) == 0);
    cr_assert_eq(sfs_catalog_inline_set(x.cat, 20, "", 0), 0);
    cr_assert_eq(sfs_catalog_inline_get(x.cat, 20, buf, sizeof(buf), &len), 0);
    cr_assert_eq(len, 0);
    cr_assert_eq(sfs_catalog_inline_set(x.cat, 20, NULL, 0), 0);
    cr_assert_eq(sfs_catalog_inline_get(x.cat, 20, buf, sizeof(buf), &len), -ENOENT);
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 20, "user.a", "1", 1, false, false), 0);
    cr_assert_eq(sfs_catalog_inode_delete(x.cat, 20), 0);
    cr_assert_eq(sfs_catalog_xattr_get(x.cat, 20, "user.a", buf, 0, &len), -ENODATA);
    cr_assert_eq(sfs_catalog_inode_update(x.cat, &in), -ENOENT);
    cr_assert_eq(sfs_catalog_inode_delete(x.cat, 20), -ENOENT);
}

Test(catalog, directory_entries)
{
    struct sfs_dentry_row d, rows[64];
    char name[256];
    bool empty;
    unsigned n, seen = 0;
    memset(name, 'x', 255);
    cr_assert_eq(sfs_catalog_dentry_empty(x.cat, 5, &empty), 0);
    cr_assert(empty);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, name, 255, 100, S_IFDIR), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, name, 255, 100, S_IFDIR), -EEXIST);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, "\xff\xfe\x01", 3, 101, S_IFLNK), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 6, "\xff\xfe\x01", 3, 102, S_IFREG), 0);
    cr_assert_eq(sfs_catalog_dentry_get(x.cat, 5, "\xff\xfe\x01", 3, &d), 0);
    cr_assert(d.ino == 101 && d.type == S_IFLNK && d.name_len == 3 && d.parent == 5);
    cr_assert_eq(sfs_catalog_dentry_get(x.cat, 5, "no", 2, &d), -ENOENT);
    cr_assert_eq(sfs_catalog_dentry_replace(x.cat, 5, "no", 2, 9, S_IFREG), -ENOENT);
    cr_assert_eq(sfs_catalog_dentry_replace(x.cat, 5, name, 255, 9, S_IFREG), 0);
    cr_assert_eq(sfs_catalog_dentry_get(x.cat, 5, name, 255, &d), 0);
    cr_assert(d.ino == 9 && d.type == S_IFREG && d.name_len == 255);
    cr_assert_eq(sfs_catalog_dentry_delete(x.cat, 5, "no", 2), -ENOENT);
    for (unsigned i = 0; i < 1000; i++) {
        int len = snprintf(name, sizeof(name), "f%u", i);
        cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 7, name, (size_t)len, 1000 + i, S_IFREG), 0);
    }
    uint64_t after = 0;
    do { /* each once, also when others go away between the calls */
        cr_assert_eq(sfs_catalog_dentry_list(x.cat, 7, after, rows, 64, &n), 0);
        for (unsigned i = 0; i < n; i++) {
            cr_assert(rows[i].cookie > after && rows[i].cookie >= 16);
            after = rows[i].cookie;
        }
        if (n)
            cr_assert_eq(sfs_catalog_dentry_delete(x.cat, 7, rows[0].name, rows[0].name_len), 0);
        seen += n;
    } while (n == 64);
    cr_assert_eq(seen, 1000);
    cr_assert_eq(sfs_catalog_dentry_empty(x.cat, 7, &empty), 0);
    cr_assert(!empty);
}

/* Names whose hashes collide take the next cookies and are all found, whatever goes in between. */
Test(catalog, colliding_names)
{
    struct sfs_dentry_row d, rows[16];
    unsigned n;
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, "a", 1, 50, S_IFREG), 0);
    cr_assert_eq(sfs_catalog_dentry_get(x.cat, 5, "a", 1, &d), 0);
    /* Other names are put where "a" hashes to, as if theirs were the same. */
    for (unsigned i = 0; i < 8; i++) {
        char name[8], sql[200];
        snprintf(name, sizeof(name), "c%u", i);
        snprintf(sql, sizeof(sql), "INSERT OR IGNORE INTO dentry VALUES (5, %llu, %u, 8, CAST('%s' AS BLOB))",
                 (unsigned long long)d.cookie + i, 60 + i, name);
        cr_assert_eq(sfs_db_exec(x.cat->db, sql), 0);
    }
    cr_assert_eq(sfs_catalog_dentry_delete(x.cat, 5, "a", 1), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, "a", 1, 51, S_IFREG), 0, "the hole is taken");
    cr_assert_eq(sfs_catalog_dentry_get(x.cat, 5, "a", 1, &d), 0);
    cr_assert_eq(d.ino, 51);
    cr_assert_eq(sfs_catalog_dentry_list(x.cat, 5, 0, rows, 16, &n), 0);
    cr_assert_eq(n, 8);
    char sql[200];
    snprintf(sql, sizeof(sql), "UPDATE dentry SET name = CAST('z' AS BLOB) WHERE cookie = %llu",
             (unsigned long long)d.cookie);
    cr_assert_eq(sfs_db_exec(x.cat->db, sql), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 5, "a", 1, 52, S_IFREG), -ENOSPC,
                 "all eight places are taken");
    cr_assert(!sfs_catalog_broken(x.cat));
}

Test(catalog, paths)
{
    struct sfs_inode_row root = {.ino = 16, .space = 1, .mode = S_IFDIR, .nlink = 2, .parent = 16};
    struct sfs_inode_row dir = {.ino = 17, .space = 1, .mode = S_IFDIR, .nlink = 2, .parent = 16};
    struct sfs_inode_row file = {.ino = 18, .space = 1, .mode = S_IFREG, .nlink = 1};
    char path[64];
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &root), 0);
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &dir), 0);
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &file), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 16, "dir", 3, 17, S_IFDIR), 0);
    cr_assert_eq(sfs_catalog_dentry_insert(x.cat, 17, "file", 4, 18, S_IFREG), 0);
    cr_assert_eq(sfs_catalog_path_of(x.cat, 18, path, sizeof(path)), 0);
    cr_assert_str_eq(path, "/dir/file");
    cr_assert_eq(sfs_catalog_path_of(x.cat, 16, path, sizeof(path)), 0);
    cr_assert_str_eq(path, "/");
    cr_assert_eq(sfs_catalog_path_of(x.cat, 18, path, 6), -ERANGE);
    cr_assert_eq(sfs_catalog_path_of(x.cat, 99, path, sizeof(path)), -ENOENT);
}

Test(catalog, xattrs)
{
    char buf[64];
    size_t len;
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 9, "user.b", "2", 1, false, true), -ENODATA);
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 9, "user.b", "2", 1, true, false), 0);
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 9, "user.b", "3", 1, true, false), -EEXIST);
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 9, "user.b", "33", 2, false, true), 0);
    cr_assert_eq(sfs_catalog_xattr_set(x.cat, 9, "user.a", NULL, 0, false, false), 0);
    cr_assert_eq(sfs_catalog_xattr_get(x.cat, 9, "user.b", buf, 0, &len), 0);
    cr_assert_eq(len, 2);
    cr_assert_eq(sfs_catalog_xattr_get(x.cat, 9, "user.b", buf, 1, &len), -ERANGE);
    cr_assert_eq(sfs_catalog_xattr_get(x.cat, 9, "user.a", buf, sizeof(buf), &len), 0);
    cr_assert_eq(len, 0);
    cr_assert_eq(sfs_catalog_xattr_list(x.cat, 9, buf, 0, &len), 0);
    cr_assert_eq(len, 14);
    cr_assert_eq(sfs_catalog_xattr_list(x.cat, 9, buf, 13, &len), -ERANGE);
    cr_assert_eq(sfs_catalog_xattr_list(x.cat, 9, buf, sizeof(buf), &len), 0);
    cr_assert_eq(memcmp(buf, "user.a\0user.b", 14), 0);
    cr_assert_eq(sfs_catalog_xattr_delete(x.cat, 9, "user.a"), 0);
    cr_assert_eq(sfs_catalog_xattr_delete(x.cat, 9, "user.a"), -ENODATA);
}

static void note_removed(const struct sfs_extent_row *row, void *ctx)
{
    *(uint64_t *)ctx += row->off;
}

static int sum_ranges(uint64_t goff, uint32_t slen, void *ctx)
{
    uint64_t *sum = ctx;
    sum[0]++;
    sum[1] += goff + slen;
    return 0;
}

Test(catalog, extents)
{
    struct sfs_extent_row whole = {
        .off = 0, .len = 1u << 20, .group = 3, .goff = 8192, .slen = 1u << 20, .rlen = 1u << 20, .ncsum = 16};
    struct sfs_extent_row zip = {.off = 1u << 20,
                                 .len = 1000,
                                 .skip = 4096,
                                 .group = 3,
                                 .goff = 2u << 20,
                                 .slen = 5000,
                                 .rlen = 131072,
                                 .codec = SFS_CODEC_ZSTD,
                                 .ncsum = 1,
                                 .csum = {0xfedcba9876543210ull}};
    struct sfs_extent_row rows[8];
    struct sfs_group_extent full[8];
    uint64_t offs = 0, sum[2] = {0, 0};
    unsigned n;
    for (unsigned i = 0; i < 16; i++)
        whole.csum[i] = 0x1111111111111111ull * i;
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 20, &zip), 0);
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 20, &whole), 0);
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 20, &whole), -EEXIST);
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 21, &zip), 0, "a clone names the same stored extent");
    reopen();
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 20, 0, rows, 8, &n), 0);
    cr_assert_eq(n, 2);
    cr_assert_eq(memcmp(&rows[0], &whole, sizeof(whole)), 0);
    cr_assert_eq(memcmp(&rows[1], &zip, sizeof(zip)), 0);
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 20, (1u << 20) - 1, rows, 8, &n), 0);
    cr_assert_eq(n, 2);
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 20, 1u << 20, rows, 8, &n), 0);
    cr_assert_eq(n, 1);
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 20, (1u << 20) + 1000, rows, 8, &n), 0);
    cr_assert_eq(n, 0);
    cr_assert_eq(sfs_catalog_group_ranges(x.cat, 3, 0, UINT64_MAX, sum_ranges, sum), 0);
    cr_assert_eq(sum[0], 3);
    sum[0] = 0;
    cr_assert_eq(sfs_catalog_group_ranges(x.cat, 3, 8192 + (1u << 20) - 1, 2u << 20, sum_ranges, sum), 0);
    cr_assert_eq(sum[0], 1, "a long extent that reaches into the range is found");
    sum[0] = 0;
    cr_assert_eq(sfs_catalog_group_ranges(x.cat, 3, (2u << 20) + 8191, (2u << 20) + 8192, sum_ranges, sum),
                 0);
    cr_assert_eq(sum[0], 2, "whole blocks count as used");
    sum[0] = 0;
    cr_assert_eq(sfs_catalog_group_ranges(x.cat, 3, (2u << 20) + 8192, UINT64_MAX, sum_ranges, sum), 0);
    cr_assert_eq(sum[0], 0);
    cr_assert_eq(sfs_catalog_group_extents(x.cat, 3, 8193, full, 8, &n), 0);
    cr_assert(n == 2 && full[0].ino == 20 && full[1].ino == 21 && full[1].row.goff == 2u << 20);
    cr_assert_eq(sfs_catalog_extent_delete(x.cat, 20, 0, 4096, 0, note_removed, &offs, &n), -EINVAL,
                 "it would be cut");
    cr_assert_eq(sfs_catalog_extent_delete(x.cat, 20, 4096, UINT64_MAX, 0, note_removed, &offs, &n), 0);
    cr_assert(n == 1 && offs == 1u << 20);
    cr_assert_eq(sfs_catalog_inode_insert(x.cat, &(struct sfs_inode_row){.ino = 20, .nlink = 0}), 0);
    cr_assert_eq(sfs_catalog_inode_delete(x.cat, 20), -EBUSY);
}

static int note_stored(const struct sfs_group_extent *e, void *ctx)
{
    uint64_t *sum = ctx;
    sum[0]++;
    sum[1] = e->row.goff;
    return sum[0] == 3 ? 7 : 0;
}

Test(catalog, extents_are_pointed_to_another_group)
{
    struct sfs_extent_row whole = {.len = 128u << 10, .group = 3, .slen = 128u << 10, .rlen = 128u << 10, .ncsum = 2};
    struct sfs_extent_row piece = {.off = 1u << 20, .len = 100, .skip = 5, .group = 3, .slen = 64u << 10, .rlen = 64u << 10, .ncsum = 1};
    struct sfs_extent_row next = {.len = 5000, .group = 3, .goff = 128u << 10, .slen = 5000, .rlen = 5000, .ncsum = 1}, got[4];
    uint64_t sum[2] = {0, 0};
    unsigned n;
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 20, &whole), 0);
    for (uint64_t ino = 21; ino < 60; ino++)
        cr_assert_eq(sfs_catalog_extent_insert(x.cat, ino, &piece), 0);
    cr_assert_eq(sfs_catalog_extent_insert(x.cat, 70, &next), 0);
    cr_assert_eq(sfs_catalog_group_stored(x.cat, 3, 0, note_stored, sum), 7, "it stops when told to");
    cr_assert(sum[0] == 3 && sum[1] == 128u << 10, "each stored extent once, whatever names it");
    cr_assert_eq(sfs_catalog_group_move(x.cat, 3, 0, 64u << 10, 4, 1u << 20), 0);
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 20, 0, got, 4, &n), 0);
    cr_assert(n == 1 && got[0].group == 3 && got[0].goff == 0, "what reaches beyond stays");
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 59, 0, got, 4, &n), 0);
    cr_assert(n == 1 && got[0].group == 4 && got[0].goff == 1u << 20 && got[0].skip == 5 && got[0].off == 1u << 20);
    cr_assert_eq(sfs_catalog_group_move(x.cat, 3, 128u << 10, 136u << 10, 4, 4096), 0);
    cr_assert_eq(sfs_catalog_extent_list(x.cat, 70, 0, got, 4, &n), 0);
    cr_assert(n == 1 && got[0].group == 4 && got[0].goff == 4096 && got[0].slen == 5000, "to the end of its last block");
}

Test(catalog, many_extents_go_in_portions)
{
    struct sfs_extent_row e = {.len = 4096, .group = 1, .slen = 4096, .rlen = 4096, .ncsum = 1};
    unsigned n, total = 0;
    uint64_t offs = 0;
    for (unsigned i = 0; i < 500; i++) {
        e.off = (uint64_t)i * 4096;
        e.goff = (uint64_t)i * 4096;
        cr_assert_eq(sfs_catalog_extent_insert(x.cat, 30, &e), 0);
    }
    do {
        cr_assert_eq(sfs_catalog_extent_delete(x.cat, 30, 4096, UINT64_MAX, 100, note_removed, &offs, &n), 0);
        total += n;
    } while (n == 100);
    cr_assert_eq(total, 499);
    cr_assert_eq(offs, 4096ull * 499 * 500 / 2);
}

static int keep_job(const struct sfs_job_row *row, void *ctx)
{
    *(struct sfs_job_row *)ctx = *row;
    return 1;
}

static int last_event(const struct sfs_event_row *row, void *ctx)
{
    struct sfs_event_row *e = ctx;
    e->time++; /* counts */
    e->id = row->id;
    return 0;
}

Test(catalog, jobs_and_events)
{
    struct sfs_job_row a = {.kind = "heal", .state = "running", .what = "disk=3", .total = 100, .started = 5},
                       got;
    cr_assert_eq(sfs_catalog_job_put(x.cat, &a), 0);
    a.done = 50;
    strcpy(a.state, "paused");
    cr_assert_eq(sfs_catalog_job_put(x.cat, &a), 0);
    struct sfs_job_row b = {.kind = "scrub", .state = "done", .result = "no errors"};
    cr_assert_eq(sfs_catalog_job_put(x.cat, &b), 0);
    cr_assert_eq(sfs_catalog_job_each(x.cat, keep_job, &got), 1);
    cr_assert_eq(memcmp(&got, &b, sizeof(b)), 0, "newest first");
    struct sfs_event_row e = {.time = 1,
                              .severity = "warning",
                              .kind = "disk-lost",
                              .subject = "one",
                              .text = "It is gone."},
                         last = {.time = 0};
    for (int i = 0; i < 10050; i++)
        cr_assert_eq(sfs_catalog_event_add(x.cat, &e), 0);
    cr_assert_eq(sfs_catalog_event_list(x.cat, 0, 20000, last_event, &last), 0);
    cr_assert(last.time == 10000 && last.id == 10050);
    last.time = 0;
    cr_assert_eq(sfs_catalog_event_list(x.cat, 10040, 5, last_event, &last), 0);
    cr_assert(last.time == 5 && last.id == 10045);
}

Test(catalog, commit_without_changes_costs_nothing)
{
    bool changed = true;
    unsigned long calls = x.w->calls;
    uint64_t seq = sfs_catalog_commit_seq(x.cat);
    cr_assert_eq(sfs_catalog_commit(x.cat, &changed), 0);
    cr_assert(!changed);
    cr_assert_eq(sfs_catalog_commit_sync(x.cat), 0);
    cr_assert_eq(x.w->calls, calls, "no I/O");
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "b"), 0);
    cr_assert(sfs_catalog_pending_bytes(x.cat) > 0);
    cr_assert_eq(sfs_catalog_commit(x.cat, &changed), 0);
    cr_assert(changed && sfs_catalog_commit_seq(x.cat) == seq + 1 && sfs_catalog_pending_bytes(x.cat) == 0);
    cr_assert_eq(sfs_catalog_commit_sync(x.cat), 0);
    calls = x.w->calls;
    cr_assert_eq(sfs_catalog_commit_sync(x.cat), 0);
    cr_assert_eq(x.w->calls, calls, "nothing new to sync");
}

Test(catalog, what_is_not_committed_is_gone)
{
    char v[8];
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "1"), 0);
    cr_assert_eq(sfs_catalog_commit(x.cat, NULL), 0);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "2"), 0);
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    sfs_catalog_lock(x.cat);
    cr_assert_eq(sfs_catalog_prop_get(x.cat, "a", v, sizeof(v)), 0);
    cr_assert_str_eq(v, "1");
}

/* Values that no writer of ours makes are found out, not used. */
Test(catalog, bad_values_are_refused)
{
    static const struct {
        const char *sql;
    } bad[] = {
#define EXTENT(values) {"INSERT INTO extent VALUES (40, 0, " values ")"}
        EXTENT("NULL, 0, 1, 0, 4096, NULL, 0, x'0011'"),                             /* half a checksum */
        EXTENT("NULL, 0, 1, 0, 4096, NULL, 0, x'00112233445566770011223344556677'"), /* one too many */
        EXTENT("8192, 0, 1, 0, 4096, NULL, 0, x'0011223344556677'"),    /* longer than what is stored */
        EXTENT("NULL, 4096, 1, 0, 4096, NULL, 0, x'0011223344556677'"), /* begins behind its end */
        EXTENT("NULL, 0, 1, -1, 4096, NULL, 0, x'0011223344556677'"),
        EXTENT("NULL, 0, 1, 0, 4096, NULL, 9, x'0011223344556677'"),    /* unknown codec */
        EXTENT("NULL, 0, 1, 0, 99999999, NULL, 0, x'0011223344556677'"),
    };
    struct sfs_extent_row rows[2];
    struct sfs_inode_row in;
    struct sfs_dentry_row d;
    unsigned n;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(sfs_db_exec(x.cat->db, bad[i].sql), 0);
        cr_assert_eq(sfs_catalog_extent_list(x.cat, 40, 0, rows, 2, &n), -EUCLEAN, "%s", bad[i].sql);
        cr_assert_eq(sfs_db_exec(x.cat->db, "DELETE FROM extent"), 0);
    }
    cr_assert_eq(sfs_db_exec(x.cat->db, "INSERT INTO inode VALUES (41,1,-1,1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0)"),
                 0);
    cr_assert_eq(sfs_catalog_inode_get(x.cat, 41, &in), -EUCLEAN);
    cr_assert_eq(
        sfs_db_exec(x.cat->db, "INSERT INTO inode VALUES (42,1,1,1,0,0,0,0,0,0,0,1000000000,0,0,0,0,0,0,0)"),
        0);
    cr_assert_eq(sfs_catalog_inode_get(x.cat, 42, &in), -EUCLEAN);
    cr_assert_eq(sfs_db_exec(x.cat->db, "INSERT INTO dentry VALUES (43, 20, 44, 8, CAST('a/b' AS BLOB))"), 0);
    cr_assert_eq(sfs_catalog_dentry_list(x.cat, 43, 0, &d, 1, &n), -EUCLEAN);
    cr_assert(!sfs_catalog_broken(x.cat), "reading bad rows is no doubt about the transaction");
}

static uint64_t little_room(void *ctx)
{
    return *(uint64_t *)ctx;
}

Test(catalog, room)
{
    uint64_t room = 100u << 20;
    cr_assert_eq(sfs_catalog_room(x.cat, 1 << 20), 0, "no limit known");
    x.cat->opts.free_bytes = little_room;
    x.cat->opts.ctx = &room;
    cr_assert_eq(sfs_catalog_room(x.cat, 1 << 20), 0);
    cr_assert_eq(sfs_catalog_room(x.cat, 60 << 20), -ENOSPC);
    room = 1 << 20;
    cr_assert_eq(sfs_catalog_room(x.cat, 1), -ENOSPC, "the reserve stays");
}

/* What is deleted from a catalog that may not grow makes room in it. */
Test(catalog, deleting_makes_room)
{
    uint64_t room = 9 << 20;
    unsigned n = 0;
    x.cat->opts.free_bytes = little_room;
    x.cat->opts.ctx = &room;
    cr_assert_eq(sfs_catalog_room(x.cat, 1 << 20), -ENOSPC);
    uint8_t data[1500] = {0};
    for (; n < 3000; n++) {
        struct sfs_inode_row in = {.ino = 1000 + n, .space = 1, .nlink = 1, .mode = S_IFREG, .size = sizeof(data)};
        CHECK_RC(sfs_catalog_inode_insert(x.cat, &in), 0);
        CHECK_RC(sfs_catalog_inline_set(x.cat, in.ino, data, sizeof(data)), 0);
    }
    CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
    cr_assert_eq(sfs_catalog_room(x.cat, 1 << 20), -ENOSPC);
    while (n-- > 0)
        CHECK_RC(sfs_catalog_inode_delete(x.cat, 1000 + n), 0);
    CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
    cr_assert_eq(sfs_catalog_room(x.cat, 1 << 20), 0);
}

/* Where room is short, the WAL begins anew long before its limit. */
Test(catalog, a_short_room_holds_the_wal_back)
{
    uint64_t room = 10 << 20;
    x.cat->opts.free_bytes = little_room;
    x.cat->opts.ctx = &room;
    for (unsigned k = 1; k <= 3000; k++) {
        CHECK_RC(fx_add(&x, k), 0);
        if (k % 10 == 0)
            CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
    }
    size_t len = mem_find(&x.w->s[0], SFS_WAL_FILE, false)->now.len;
    cr_assert(len < 2 << 20, "%zu bytes", len);
    sfs_catalog_unlock(x.cat);
    cr_assert_eq(fx_verify(&x), 3000);
    sfs_catalog_lock(x.cat);
}

/* The WAL stays near its limit, however much is committed. */
Test(catalog, the_wal_is_held_to_its_limit)
{
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 1 << 20), 0);
    size_t most = 0;
    for (unsigned k = 1; k <= 3000; k++) {
        sfs_catalog_lock(x.cat);
        CHECK_RC(fx_add(&x, k), 0);
        if (k % 10 == 0)
            CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
        sfs_catalog_unlock(x.cat);
        if (k % 50 == 0)
            CHECK_RC(sfs_catalog_commit_sync(x.cat), 0);
        size_t len = mem_find(&x.w->s[0], SFS_WAL_FILE, false)->now.len;
        most = len > most ? len : most;
    }
    cr_assert(most >= 1 << 20, "it came to the limit");
    cr_assert(most < 2 << 20, "%zu bytes", most);
    cr_assert_eq(fx_verify(&x), 3000);
    sfs_catalog_lock(x.cat);
}

/* Writers commit while another thread syncs: what several callers do at once. */
struct syncer {
    struct sfs_catalog *cat;
    _Atomic bool stop;
    _Atomic int rc;
};

static void sync_all_the_time(void *arg)
{
    struct syncer *s = arg;
    while (!s->stop && s->rc == 0)
        s->rc = sfs_catalog_commit_sync(s->cat);
}

Test(catalog, syncs_beside_commits)
{
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    CHECK_RC(fx_open(&x, false, 256 << 10), 0);
    struct syncer s = {.cat = x.cat};
    struct sfs_thread *t[2];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sfs_thread_start(env, "sync", sync_all_the_time, &s, &t[i]), 0);
    for (unsigned k = 1; k <= 1500; k++) {
        sfs_catalog_lock(x.cat);
        CHECK_RC(fx_add(&x, k), 0);
        if (k % 5 == 0)
            CHECK_RC(sfs_catalog_commit(x.cat, NULL), 0);
        sfs_catalog_unlock(x.cat);
    }
    s.stop = true;
    for (int i = 0; i < 2; i++)
        sfs_thread_join(t[i]);
    cr_assert_eq(s.rc, 0);
    fx_close(&x);
    fx_check_equal(&x);
    CHECK_RC(fx_open(&x, false, 0), 0);
    cr_assert_eq(fx_verify(&x), 1500);
    sfs_catalog_lock(x.cat);
}

/* The file is an ordinary database to the ordinary shell. */
Test(catalog, the_sqlite3_shell_reads_it)
{
    char path[] = "/tmp/sfs-catalog-XXXXXX", cmd[300], out[200] = "";
    CHECK_RC(fx_add(&x, 1), 0);
    reopen();
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    const struct mem_file *f = mem_find(&x.w->s[1], SFS_CATALOG_FILE, false);
    FILE *o = fdopen(fd, "wb");
    cr_assert_eq(fwrite(f->now.data, 1, f->now.len, o), f->now.len);
    fclose(o);
    snprintf(cmd, sizeof(cmd),
             "sqlite3 '%s' 'PRAGMA integrity_check; SELECT name FROM pool; SELECT count(*) FROM inode; "
             "PRAGMA user_version;'",
             path);
    FILE *p = popen(cmd, "r");
    cr_assert_not_null(p);
    size_t n = fread(out, 1, sizeof(out) - 1, p);
    out[n] = '\0';
    cr_assert_eq(pclose(p), 0);
    remove(path);
    cr_assert_str_eq(out, "ok\ntank\n1\n1\n");
    CHECK_RC(fx_open(&x, false, 0), 0);
    sfs_catalog_lock(x.cat);
}

Test(catalog, unknown_features_are_refused)
{
    struct sfs_error err;
    cr_assert_eq(sfs_db_exec(x.cat->db, "UPDATE pool SET ro_compat = 1"), 0);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "b"), 0);
    cr_assert_eq(sfs_catalog_commit(x.cat, NULL), 0);
    sfs_catalog_unlock(x.cat);
    fx_close(&x);
    cr_assert_eq(fx_open(&x, false, 0), -EROFS);
    cr_assert(strstr(x.err.text, "read-only"));
    struct sfs_catalog_opts ro = {.readonly = true};
    cr_assert_eq(sfs_catalog_open(env, x.r, &ro, &x.cat, &err), 0);
    sfs_catalog_lock(x.cat);
    cr_assert_eq(sfs_catalog_prop_set(x.cat, "a", "c"), -EROFS);
}
