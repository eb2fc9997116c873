/* Mount options, sources, and lines of mountinfo: what comes from fstab, users and the kernel. */
#include <criterion/criterion.h>
#include <string.h>

#include "fs/daemon/daemon.h"
#include "fs/daemon/mountinfo.h"
#include "fs/daemon/source.h"

static struct sfs_mount_opts parsed(const char *options, bool is_root)
{
    struct sfs_mount_opts o;
    struct sfs_error err = {0};
    int rc = sfs_mount_opts_parse(options, is_root, &o, &err);

    cr_assert_eq(rc, 0, "\"%s\": %s", options, err.text);
    return o;
}

static void refused(const char *options, const char *word)
{
    struct sfs_mount_opts o;
    struct sfs_error err = {0};
    int rc = sfs_mount_opts_parse(options, true, &o, &err);

    cr_assert(rc < 0, "\"%s\" was accepted", options);
    cr_assert(strstr(err.text, word), "\"%s\" says: %s", options, err.text);
}

Test(mount_opts, defaults)
{
    struct sfs_mount_opts root = parsed(NULL, true), user = parsed("", false);

    cr_assert(root.allow_other && !root.nodev && !root.nosuid && !root.readonly && root.default_permissions);
    cr_assert(!user.allow_other && user.nodev && user.nosuid);
    cr_assert_eq(root.degraded, SFS_DEGRADED_YES);
    cr_assert_eq(root.wait_ns, 30000000000ull);
}

Test(mount_opts, last_word_wins)
{
    cr_assert(!parsed("ro,rw", true).readonly);
    cr_assert(parsed("rw,ro", true).readonly);
    cr_assert(!parsed("noatime,relatime", true).noatime);
    cr_assert(parsed("exec,noexec", true).noexec);
}

Test(mount_opts, users_stay_nosuid)
{
    struct sfs_mount_opts o = parsed("suid,dev", false);

    cr_assert(o.nodev && o.nosuid);
}

Test(mount_opts, own_words)
{
    struct sfs_mount_opts o = parsed("degraded=ro,wait=2m,allow_other,sync,nofail", false);

    cr_assert_eq(o.degraded, SFS_DEGRADED_RO);
    cr_assert_eq(o.wait_ns, 120000000000ull);
    cr_assert(o.allow_other && o.sync && o.nofail);
    cr_assert_eq(parsed("degraded=rw", true).degraded, SFS_DEGRADED_RW);
    cr_assert_eq(parsed("degraded=no", true).degraded, SFS_DEGRADED_NO);
    cr_assert_eq(parsed("wait=0", true).wait_ns, 0);
}

/* As mount(8) hands them on at a remount. */
Test(mount_opts, what_the_kernel_shows)
{
    struct sfs_mount_opts o = parsed(
        "rw,nosuid,nodev,relatime,user_id=0,group_id=0,default_permissions,allow_other,ro,remount", true);

    cr_assert(o.remount && o.readonly && o.nosuid && o.nodev && o.allow_other);
}

Test(mount_opts, fstab_words)
{
    parsed(
        "defaults,noauto,user,users,_netdev,x-systemd.requires-mounts-for=/mnt,comment=x,,X-mount.mkdir,rw,",
        true);
}

Test(mount_opts, refusals_name_the_word)
{
    char lengthy[1000];

    refused("ro,degarded=ro", "degarded");
    refused("degraded=maybe", "maybe");
    refused("wait=soon", "soon");
    refused("xyz", "xyz");
    refused("x", "\"x\"");
    memset(lengthy, 'a', sizeof(lengthy));
    lengthy[sizeof(lengthy) - 1] = '\0';
    refused(lengthy, "too long");
}

static struct sfs_env *env;

static void make_env(void)
{
    env = sfs_env_new_real();
}

static void free_env(void)
{
    sfs_env_free(env);
}

TestSuite(source, .init = make_env, .fini = free_env);

Test(source, name)
{
    struct sfs_source s;
    struct sfs_error err = {0};

    cr_assert_eq(sfs_source_resolve(env, "tank/media", &s, &err), 0, "%s", err.text);
    cr_assert_str_eq(s.given, "tank/media");
    cr_assert_str_eq(s.which, "tank");
    cr_assert_str_eq(s.pool, "tank");
    cr_assert_str_eq(s.space, "media");
    cr_assert(sfs_uuid_is_null(&s.uuid));
}

Test(source, malformed)
{
    static const char *const bad[] = {"",        "tank",    "/",        "/tank",     "tank/",
                                      "tank/.x", "tank/-x", "ta\nnk/x", "tank/a\tb", "tank/a b"};
    char lengthy[2 * PATH_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sfs_source s;
        struct sfs_error err = {0};

        cr_assert(sfs_source_resolve(env, bad[i], &s, &err) < 0, "\"%s\" was accepted", bad[i]);
        cr_assert(err.text[0]);
    }
    memset(lengthy, 'a', sizeof(lengthy));
    memcpy(lengthy + sizeof(lengthy) - 3, "/b", 3);
    struct sfs_source s;
    struct sfs_error err = {0};
    cr_assert(sfs_source_resolve(env, lengthy, &s, &err) < 0);
}

Test(source, path_of_nothing)
{
    struct sfs_source s;
    struct sfs_error err = {0};

    setenv("SFS_STATE_DIR", "/nonexistent", 1);
    cr_assert_eq(sfs_source_resolve(env, "/nonexistent/disk/space", &s, &err), -ENOENT, "%s", err.text);
    cr_assert(strstr(err.text, "/nonexistent/disk"), "%s", err.text);
}

Test(mountinfo, lines)
{
    static struct sfs_mountinfo m;

    cr_assert(sfs_mountinfo_parse("36 35 98:0 /mnt1 /mnt/with\\040space\\134 rw,noatime master:1 - "
                                  "fuse.spacesfs tank/media rw,user_id=0\n",
                                  &m));
    cr_assert_str_eq(m.dir, "/mnt/with space\\");
    cr_assert_str_eq(m.type, "fuse.spacesfs");
    cr_assert_str_eq(m.source, "tank/media");
    cr_assert(sfs_mountinfo_parse("36 35 98:0 / /x rw - ext4 /dev/sda1 rw", &m));
    cr_assert_str_eq(m.source, "/dev/sda1");
}

Test(mountinfo, not_lines)
{
    static const char *const bad[] = {"", "36", "36 35 98:0 / ", "36 35 98:0 / x rw - t s",
                                      "36 35 98:0 / /x rw"};
    static struct sfs_mountinfo m;
    static char lengthy[3 * PATH_MAX];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert(!sfs_mountinfo_parse(bad[i], &m), "\"%s\" was accepted", bad[i]);
    memset(lengthy, 'a', sizeof(lengthy) - 1);
    memcpy(lengthy, "36 35 98:0 / /", 14);
    cr_assert(!sfs_mountinfo_parse(lengthy, &m));
}

Test(mountinfo, canonical)
{
    char path[PATH_MAX];

    cr_assert_eq(sfs_canonical_dir("/tmp/../tmp/.", path), 0);
    cr_assert_str_eq(path, "/tmp");
    cr_assert_eq(sfs_canonical_dir("/nonexistent/x", path), -ENOENT);
}
