/* Damaged files are known by name, stay known, and are forgotten when they are mended. */
#include "tests/unit/care_fixture.h"

#define LEN ((size_t)300 << 10)
#define SECOND 1000000000ull

static struct sfs_damaged *damaged(struct fixture *f)
{
    struct sfs_damaged *d;
    cr_assert_eq(sfs_pool_damaged(f->pool, 100, 0, &d), 0);
    return d;
}

static void expect_damaged(struct fixture *f, const char *path, uint64_t bytes, bool missing)
{
    struct sfs_damaged *d = damaged(f);
    cr_assert_eq(d->files, 1);
    cr_assert_eq(d->n, 1);
    cr_assert_str_eq(d->v[0].space, "s");
    cr_assert(d->v[0].path && !strcmp(d->v[0].path, path), "%s", d->v[0].path ? d->v[0].path : "no path");
    cr_assert_eq(d->v[0].bytes, bytes, "%llu", (unsigned long long)d->v[0].bytes);
    cr_assert_eq(d->v[0].missing, missing);
    sfs_pool_damaged_free(d);
    struct sfs_pool_info *i;
    cr_assert_eq(sfs_pool_info(f->pool, &i), 0);
    cr_assert_eq(i->health, SFS_AT_RISK);
    cr_assert(strstr(i->verdict, "1 file"), "%s", i->verdict);
    cr_assert_eq(i->damaged->files, 1);
    sfs_pool_info_free(i);
}

static void expect_whole(struct fixture *f)
{
    struct sfs_damaged *d = damaged(f);
    cr_assert_eq(d->files, 0);
    sfs_pool_damaged_free(d);
    struct sfs_pool_info *i;
    cr_assert_eq(sfs_pool_info(f->pool, &i), 0);
    cr_assert_eq(i->health, SFS_HEALTHY, "%s", i->verdict);
    sfs_pool_info_free(i);
}

static void begin_damaged(struct fixture *f)
{
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    make_dir("/dir");
    write_file("/dir/file", 0, LEN);
    write_file("/other", 0, LEN);
    cr_assert_eq(read_file("/dir/file", LEN), 0);
    expect_whole(f);
    cr_assert_eq(rot_file(f, "/dir/file", 70000, NULL), 2);
    cr_assert_eq(read_file("/dir/file", LEN), 16, "a checksum granule, and nothing else");
    expect_damaged(f, "/dir/file", 65536, false);
}

static void body_stays_known(struct fixture *f)
{
    begin_damaged(f);
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    cr_assert(has_event(f, "damage", "/dir/file in tank/s"));
    cr_assert_not(has_event(f, "damage", "/other"));
    unmount_space(f);
    mount_space(f);
    expect_damaged(f, "/dir/file", 65536, false);
    sfs_env_sleep_ns(f->env, 5 * SECOND); /* looked at again: still bad */
    expect_damaged(f, "/dir/file", 65536, false);
    cr_assert_eq(sfs_vfs_rename(vfs, sfs_vfs_root(vfs), "dir", sfs_vfs_root(vfs), "renamed", 0), 0);
    expect_damaged(f, "/renamed/file", 65536, false);
    /* The rest of it being written anew changes nothing, the damaged part does. */
    write_file("/renamed/file", 131072, LEN - 131072);
    expect_damaged(f, "/renamed/file", 65536, false);
    write_file("/renamed/file", 65536, 65536);
    expect_whole(f);
    cr_assert_eq(read_file("/renamed/file", LEN), 0);
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    cr_assert(has_event(f, "damage-gone", NULL));
    unmount_space(f);
    mount_space(f);
    expect_whole(f);
    unmount_space(f);
}

Test(damage, is_known_by_path_until_it_is_rewritten)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_stays_known);
}

static void body_deleted(struct fixture *f)
{
    begin_damaged(f);
    cr_assert_eq(sfs_vfs_unlink(vfs, dir_of("/dir/file", &(const char *){0}), "file"), 0);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_env_sleep_ns(f->env, 20 * SECOND);
    cr_assert_eq(sfs_pool_sync(f->pool), 0);
    expect_whole(f);
    /* What takes its place isn't taken for damaged. */
    for (char name[] = "/new0"; name[4] < '8'; name[4]++)
        write_file(name, 0, LEN);
    expect_whole(f);
    unmount_space(f);
}

Test(damage, is_forgotten_with_its_file)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_deleted);
}

static void body_comes_back(struct fixture *f)
{
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_MIRROR2);
    write_file("/file", 0, LEN);
    cr_assert_eq(rot_file(f, "/file", 5000, "a"), 1);
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(read_file("/file", LEN), 16);
    expect_damaged(f, "/file", 65536, false);
    sfs_sim_return(f->world, "b");
    sfs_env_sleep_ns(f->env, 60 * SECOND);
    expect_whole(f);
    /* And the bad copy was repaired on the way. */
    sfs_sim_vanish(f->world, "b");
    cr_assert_eq(read_file("/file", LEN), 0);
    unmount_space(f);
}

Test(damage, ends_when_a_disk_brings_the_data_back)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_comes_back);
}

static void body_missing(struct fixture *f)
{
    begin_care(f, (unsigned[]){40, 40}, 2, SFS_SIMPLE);
    write_file("/file", 0, LEN);
    struct sfs_group_info g;
    uint64_t *ids;
    unsigned n;
    cr_assert_eq(sfs_group_ids(sfs_pool_data(f->pool), &ids, &n), 0);
    cr_assert_eq(sfs_group_info(sfs_pool_data(f->pool), ids[0], &g), 0);
    free(ids);
    char name[2] = {(char)('a' + g.slabs[0].disk - 1), 0};
    sfs_sim_vanish(f->world, name);
    unsigned bad = read_file("/file", LEN);
    cr_assert_gt(bad, 0);
    cr_assert_eq(sfs_damage_count(sfs_pool_data(f->pool)), 0, "what is away isn't damaged");
    struct sfs_damaged *d = damaged(f);
    cr_assert_eq(d->files, 1);
    cr_assert(d->v[0].missing);
    cr_assert_str_eq(d->v[0].path, "/file");
    sfs_pool_damaged_free(d);
    sfs_sim_return(f->world, name);
    sfs_env_sleep_ns(f->env, 60 * SECOND);
    cr_assert_eq(read_file("/file", LEN), 0);
    expect_whole(f);
    unmount_space(f);
}

Test(damage, what_lies_on_a_missing_disk_is_told_apart)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_missing);
}

static void body_clone(struct fixture *f)
{
    begin_damaged(f);
    uint64_t ino;
    struct sfs_file *in, *out;
    struct stat st;
    size_t n;
    cr_assert_eq(sfs_vfs_resolve(vfs, "/dir/file", &ino), 0);
    cr_assert_eq(sfs_vfs_open_file(vfs, ino, O_RDONLY, &in), 0);
    cr_assert_eq(sfs_vfs_create(vfs, sfs_vfs_root(vfs), "clone", 0644, O_RDWR, &root, &st, &out), 0);
    cr_assert_eq(sfs_vfs_copy_range(in, 0, out, 0, LEN, &n), 0);
    cr_assert_eq(sfs_vfs_fsync(out, false), 0);
    sfs_vfs_release(in);
    sfs_vfs_release(out);
    struct sfs_damaged *d = damaged(f);
    cr_assert_eq(d->files, 2);
    sfs_pool_damaged_free(d);
    cr_assert_eq(sfs_vfs_unlink(vfs, dir_of("/dir/file", &(const char *){0}), "file"), 0);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_env_sleep_ns(f->env, 20 * SECOND);
    expect_damaged(f, "/clone", 65536, false);
    unmount_space(f);
}

Test(damage, of_a_clone_is_the_clones_too)
{
    in_sim(1, body_clone);
}

static void body_crash(struct fixture *f)
{
    begin_damaged(f);
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    sfs_sim_crash(f->world, false);
    (void)sfs_vfs_close(vfs);
    sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    (void)sfs_pool_close(f->pool);
    sfs_sim_revive(f->world);
    mount_space(f);
    expect_damaged(f, "/dir/file", 65536, false);
    unmount_space(f);
}

Test(damage, is_known_after_a_crash)
{
    in_sim(1, body_crash);
}
