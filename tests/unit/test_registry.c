/* The registry of known pools: what is written is read back, and what is in its files is not trusted. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/pool/registry.h"

static char base[] = "/tmp/sfs-registry-XXXXXX";
static char state[256];

static void setup(void)
{
    cr_assert(mkdtemp(base));
    snprintf(state, sizeof(state), "%s/state", base); /* made by the first save */
}

static void teardown(void)
{
    char command[300];

    snprintf(command, sizeof(command), "rm -rf '%s'", base);
    cr_assert_eq(system(command), 0);
}

TestSuite(registry, .init = setup, .fini = teardown);

static void save(const char *name, unsigned n, const char *const *paths)
{
    char list[SFS_LABEL_PEERS][SFS_PATH_BYTES];
    struct sfs_registry_pool p = {.paths = list, .npaths = n};
    struct sfs_error err = {0};

    snprintf(p.name, sizeof(p.name), "%s", name);
    memset(p.uuid.b, 0xa5, sizeof(p.uuid.b));
    for (unsigned i = 0; i < n; i++)
        snprintf(list[i], sizeof(list[i]), "%s", paths[i]);
    cr_assert_eq(sfs_registry_save(state, &p, &err), 0, "%s", err.text);
}

Test(registry, round_trip)
{
    static const char *const paths[] = {
        "/dev/sdb", "/mnt/with space", "/mnt/line\nbreak", "/100%", "/b\xc3\xa4r/\x01\x7f", "/raw\xff", ""};
    struct sfs_registry_pool p;

    save("tank", 7, paths);
    cr_assert_eq(sfs_registry_load(state, "tank", &p), 0);
    cr_assert_str_eq(p.name, "tank");
    cr_assert_eq(p.uuid.b[3], 0xa5);
    cr_assert_eq(p.npaths, 6);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_str_eq(p.paths[i], paths[i]);
    sfs_registry_free(&p);
    sfs_registry_free(&p); /* twice is fine */
}

Test(registry, longest_path)
{
    static char path[SFS_PATH_BYTES];
    const char *paths[] = {path};
    struct sfs_registry_pool p;

    memset(path, '\n', sizeof(path) - 1); /* the longest when written */
    path[0] = '/';
    save("tank", 1, paths);
    cr_assert_eq(sfs_registry_load(state, "tank", &p), 0);
    cr_assert_str_eq(p.paths[0], path);
    sfs_registry_free(&p);
}

Test(registry, replaced_as_a_whole)
{
    static const char *const first[] = {"/a", "/b"}, *const second[] = {"/c"};
    struct sfs_registry_pool p;

    save("tank", 2, first);
    save("tank", 1, second);
    cr_assert_eq(sfs_registry_load(state, "tank", &p), 0);
    cr_assert_eq(p.npaths, 1);
    cr_assert_str_eq(p.paths[0], "/c");
    sfs_registry_free(&p);
}

static int count(const struct sfs_registry_pool *p, void *ctx)
{
    strcat(ctx, p->name);
    strcat(ctx, " ");
    return 0;
}

Test(registry, each_and_remove)
{
    char names[200] = "", stray[300];
    FILE *f;

    cr_assert_eq(sfs_registry_each(state, count, names), 0); /* no directory: no pools */
    save("b", 0, NULL);
    save("a", 0, NULL);
    snprintf(stray, sizeof(stray), "%s/pools/c#123", state); /* left by a process that died */
    f = fopen(stray, "w");
    cr_assert(f);
    fclose(f);
    cr_assert_eq(sfs_registry_each(state, count, names), 0);
    cr_assert_str_eq(names, "a b ");
    cr_assert_eq(sfs_registry_remove(state, "a"), 0);
    cr_assert_eq(sfs_registry_remove(state, "a"), -ENOENT);
    names[0] = '\0';
    cr_assert_eq(sfs_registry_each(state, count, names), 0);
    cr_assert_str_eq(names, "b ");
}

Test(registry, names_stay_inside)
{
    static const char *const bad[] = {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\nb", "-x"};
    struct sfs_registry_pool p = {0};
    struct sfs_error err;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(p.name, sizeof(p.name), "%s", bad[i]);
        cr_assert_eq(sfs_registry_save(state, &p, &err), -EINVAL, "%s", bad[i]);
        cr_assert_eq(sfs_registry_remove(state, bad[i]), -EINVAL);
        cr_assert_eq(sfs_registry_load(state, bad[i], &p), -ENOENT);
    }
}

static void write_raw(const char *name, const char *bytes, size_t len)
{
    char path[300];
    FILE *f;

    save(name, 0, NULL);
    snprintf(path, sizeof(path), "%s/pools/%s", state, name);
    f = fopen(path, "w");
    cr_assert(f);
    cr_assert_eq(fwrite(bytes, 1, len, f), len);
    fclose(f);
}

#define UUID_LINE "uuid a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5\n"

Test(registry, damaged_files_are_none)
{
    static const struct {
        const char *bytes;
        size_t len;
    } bad[] = {
#define BYTES(s) {s, sizeof(s) - 1}
        BYTES(""),
        BYTES("\n"),
        BYTES("spacesfs pool 1"),
        BYTES("spacesfs pool 1\n"),
        BYTES("spacesfs pool 2\n" UUID_LINE),
        BYTES("spacesfs pool 1\nuuid x\n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /x"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk \n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /%\n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /%0\n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /%00\n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /%zz\n"),
        BYTES("spacesfs pool 1\n" UUID_LINE "disk /a\0b\n"),
        BYTES("\0\0\0\0\0\0\0\0\n\n\n"),
    };
    struct sfs_registry_pool p;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        write_raw("tank", bad[i].bytes, bad[i].len);
        cr_assert_eq(sfs_registry_load(state, "tank", &p), -ENOENT, "case %zu", i);
        cr_assert_null(p.paths);
    }
}

Test(registry, too_much)
{
    static char bytes[100000];
    struct sfs_registry_pool p;
    size_t n = (size_t)sprintf(bytes, "spacesfs pool 1\n" UUID_LINE);

    for (unsigned i = 0; i <= SFS_LABEL_PEERS; i++)
        n += (size_t)sprintf(bytes + n, "disk /%u\n", i);
    write_raw("tank", bytes, n);
    cr_assert_eq(sfs_registry_load(state, "tank", &p), -ENOENT);
    n = (size_t)sprintf(bytes, "spacesfs pool 1\n" UUID_LINE "disk /");
    memset(bytes + n, 'x', 50000);
    write_raw("tank", bytes, n + 50000);
    cr_assert_eq(sfs_registry_load(state, "tank", &p), -ENOENT);
}

Test(registry, no_plain_file)
{
    struct sfs_registry_pool p;
    char path[300];

    save("x", 0, NULL);
    snprintf(path, sizeof(path), "%s/pools/fifo", state);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(sfs_registry_load(state, "fifo", &p), -ENOENT);
    snprintf(path, sizeof(path), "%s/pools/dir", state);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(sfs_registry_load(state, "dir", &p), -ENOENT);
    snprintf(path, sizeof(path), "%s/pools/link", state);
    cr_assert_eq(symlink("x", path), 0);
    cr_assert_eq(sfs_registry_load(state, "link", &p), -ENOENT);
}

Test(registry, run_dir_must_be_ours)
{
    struct sfs_error err = {0};
    char path[300], out[SFS_PATH_BYTES];

    snprintf(path, sizeof(path), "%s/a/b/run", base);
    setenv("SFS_RUN_DIR", path, 1);
    cr_assert_eq(sfs_registry_run_dir(out, sizeof(out), &err), 0, "%s", err.text);
    cr_assert_str_eq(out, path);
    cr_assert_eq(chmod(path, 0777), 0);
    cr_assert_eq(sfs_registry_run_dir(out, sizeof(out), &err), -EPERM);
    cr_assert(strstr(err.text, path), "%s", err.text);
    cr_assert_eq(rmdir(path), 0);
    cr_assert_eq(symlink("/tmp", path), 0);
    cr_assert_eq(sfs_registry_run_dir(out, sizeof(out), &err), -EPERM);
}
