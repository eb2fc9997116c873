/* Permissions, owners, set-id and sticky bits, capabilities: who may, and what is cleared when. */
#include "tests/posix/case.h"

#include <sys/xattr.h>
#include <linux/capability.h>
#include <linux/falloc.h>

enum { ANN = 30001, BOB = 30002, GROUP = 30010, OTHERS = 30011 };

static void give(const char *name, uid_t uid, gid_t gid, mode_t mode)
{
    CHECK(lchown(name, uid, gid) == 0 && chmod(name, mode) == 0);
}

static void others_may_not(void)
{
    FAILS(open("f", O_RDONLY), EACCES);
    FAILS(open("d/x", O_RDONLY), EACCES);
    FAILS(chmod("f", 0777), EPERM);
    FAILS(chown("f", BOB, -1), EPERM);
    FAILS(mkdir("d/new", 0755), EACCES);
    FAILS(unlink("closed/f"), EACCES);
    FAILS(rename("closed/f", "closed/g"), EACCES);
    FAILS(truncate("f", 0), EACCES);
    FAILS(utimensat(AT_FDCWD, "f", (struct timespec[2]){{1, 0}, {1, 0}}, 0), EPERM);
    FAILS(access("f", R_OK), EACCES);
    FAILS(execl("f", "f", NULL), EACCES);
}

CASE(permissions_of_others)
{
    if (!is_root())
        return;
    put_file("f", "x", 1);
    CHECK(mkdir("d", 0700) == 0 && mkdir("closed", 0755) == 0);
    put_file("closed/f", "", 0);
    give("f", ANN, GROUP, 0640);
    as_user(BOB, OTHERS, 0, 0, others_may_not);
}

static void group_may_read(void)
{
    CHECK(file_is("f", "x", 1));
    FAILS(open("f", O_WRONLY), EACCES);
}

CASE(supplementary_groups_count)
{
    if (!is_root())
        return;
    put_file("f", "x", 1);
    give("f", ANN, GROUP, 0640);
    as_user(BOB, OTHERS, GROUP, 0, group_may_read);
    as_user(BOB, GROUP, 0, 0, group_may_read);
}

static void ann_changes_groups(void)
{
    CHECK(chown("f", -1, OTHERS) == 0 && stat_of("f").st_gid == OTHERS);
    CHECK(chown("f", ANN, GROUP) == 0 && stat_of("f").st_gid == GROUP);
    FAILS(chown("f", -1, 12345), EPERM);
    FAILS(chown("f", BOB, -1), EPERM);
    CHECK(chown("f", -1, -1) == 0);
    CHECK(chmod("f", 06755) == 0 && chown("f", -1, OTHERS) == 0);
    CHECK(mode_of("f") == 0755); /* both set-id bits go with the group */
    CHECK(chown("f", -1, GROUP) == 0 && chmod("f", 02755) == 0 && mode_of("f") == 02755);
}

static void ann_is_no_member(void)
{
    CHECK(chmod("foreign", 02755) == 0 &&
          mode_of("foreign") == 0755); /* set-gid isn't for the likes of her */
    CHECK(chmod("foreign", 04755) == 0 && mode_of("foreign") == 04755);
}

CASE(chown_and_chmod_of_ones_own)
{
    if (!is_root())
        return;
    put_file("f", "", 0);
    put_file("foreign", "", 0);
    give("f", ANN, GROUP, 0644);
    give("foreign", ANN, 12345, 0644);
    as_user(ANN, GROUP, OTHERS, 0, ann_changes_groups);
    as_user(ANN, GROUP, OTHERS, 0, ann_is_no_member);
    CHECK(lchown("f", 0, 0) == 0 && stat_of("f").st_uid == 0);
    CHECK(chown("f", 4000000000u, 4000000001u) == 0);
    CHECK(stat_of("f").st_uid == 4000000000u && stat_of("f").st_gid == 4000000001u);
    CHECK(mkdir("d", 0755) == 0 && chmod("d", 02755) == 0 && chown("d", ANN, GROUP) == 0);
    CHECK(mode_of("d") == 02755); /* directories keep it */
    CHECK(symlink("none", "l") == 0 && lchown("l", ANN, GROUP) == 0 && stat_of("l").st_uid == ANN);
}

static void overwrite(void)
{
    int fd = open("f", O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "y", 1, 0) == 1 && close(fd) == 0);
}
static void cut(void)
{
    CHECK(truncate("f", 1) == 0);
}
static void empty(void)
{
    int fd = open("f", O_WRONLY | O_TRUNC);
    CHECK(fd >= 0 && close(fd) == 0);
}
static void preallocate(void)
{
    int fd = open("f", O_WRONLY);
    CHECK(fd >= 0 && fallocate(fd, 0, 0, 100000) == 0 && close(fd) == 0);
}
static void punch(void)
{
    int fd = open("f", O_WRONLY);
    CHECK(fd >= 0 && fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0 &&
          close(fd) == 0);
}
static void copy_into(void)
{
    int in = open("source", O_RDONLY), out = open("f", O_WRONLY);
    CHECK(in >= 0 && out >= 0 && copy_file_range(in, NULL, out, NULL, 1, 0) == 1);
    close(in);
    close(out);
}

CASE(set_id_bits_go_when_users_change_contents)
{
    static void (*const changes[])(void) = {overwrite, cut, empty, preallocate, punch, copy_into};
    if (!is_root())
        return;
    put_file("source", "s", 1);
    for (unsigned k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
        put_file("f", "xx", 2);
        give("f", BOB, OTHERS, 06777);
        as_user(ANN, GROUP, 0, 0, changes[k]);
        if (mode_of("f") != 0777) {
            printf("change %u leaves mode %o\n", k, mode_of("f"));
            CHECK(mode_of("f") == 0777);
        }
        CHECK(unlink("f") == 0);
    }
    /* set-gid without execution isn't an identity; it stays for members of the group */
    put_file("f", "xx", 2);
    give("f", BOB, OTHERS, 02666);
    as_user(ANN, OTHERS, 0, 0, overwrite);
    CHECK(mode_of("f") == 02666);
    give("f", BOB, OTHERS, 06777); /* the administrator's writes take nothing away */
    overwrite();
    CHECK(mode_of("f") == 06777);
    CHECK(chown("f", ANN, GROUP) == 0 && mode_of("f") == 0777); /* but giving it away does */
}

static bool has_capability(const char *name)
{
    char back[64];

    return getxattr(name, "security.capability", back, sizeof(back)) > 0;
}

static void add_capability(const char *name)
{
    struct vfs_cap_data cap = {.magic_etc = VFS_CAP_REVISION_2, .data = {{.permitted = 1u << CAP_NET_RAW}}};

    CHECK(setxattr(name, "security.capability", &cap, sizeof(cap), 0) == 0);
}

CASE(capabilities_go_when_contents_or_owner_change)
{
    static void (*const changes[])(void) = {overwrite, cut, empty, preallocate, copy_into};
    if (!is_root())
        return;
    put_file("source", "s", 1);
    for (unsigned k = 0; k < sizeof(changes) / sizeof(changes[0]); k++) {
        put_file("f", "xx", 2);
        give("f", BOB, OTHERS, 0777);
        add_capability("f");
        CHECK(has_capability("f"));
        as_user(ANN, GROUP, 0, 0, changes[k]);
        CHECK(!has_capability("f"));
        add_capability("f");
        changes[k](); /* by root, too */
        CHECK(!has_capability("f"));
        CHECK(unlink("f") == 0);
    }
    put_file("f", "", 0);
    add_capability("f");
    CHECK(chmod("f", 0700) == 0 && has_capability("f"));
    CHECK(chown("f", ANN, -1) == 0 && !has_capability("f"));
}

static void make_in_set_gid(void)
{
    struct stat st;

    CHECK(mkdir("d/sub", 0755) == 0 && mode_of("d/sub") == 02755 && stat_of("d/sub").st_gid == OTHERS);
    put_file("d/f", "", 0);
    CHECK(stat_of("d/f").st_gid == OTHERS && mode_of("d/f") == 0644);
    CHECK(symlink("x", "d/l") == 0 && lstat("d/l", &st) == 0 && st.st_gid == OTHERS);
    int fd = open("d/g", O_CREAT | O_WRONLY | O_EXCL, 02755);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void as_stranger(void)
{
    make_in_set_gid();
    CHECK(mode_of("d/g") == 0755);
}

static void as_member(void)
{
    make_in_set_gid();
    CHECK(mode_of("d/g") == 02755);
}

CASE(set_gid_directories)
{
    if (!is_root())
        return;
    CHECK(mkdir("d", 0755) == 0);
    give("d", 0, OTHERS, 02777);
    as_user(ANN, GROUP, 0, 0, as_stranger);
    CHECK(rename("d", "first") == 0 && mkdir("d", 0755) == 0);
    give("d", 0, OTHERS, 02777);
    as_user(ANN, GROUP, OTHERS, 0, as_member);
}

static void in_sticky(void)
{
    FAILS(unlink("tmp/bobs"), EPERM);
    FAILS(rename("tmp/bobs", "tmp/anns"), EPERM);
    FAILS(rmdir("tmp/dir"), EPERM);
    put_file("tmp/anns", "", 0);
    FAILS(rename("tmp/anns", "tmp/bobs"), EPERM);
    CHECK(rename("tmp/anns", "tmp/mine") == 0 && unlink("tmp/mine") == 0);
}

CASE(sticky_directories)
{
    if (!is_root())
        return;
    CHECK(mkdir("tmp", 0777) == 0 && chmod("tmp", 01777) == 0 && mkdir("tmp/dir", 0777) == 0);
    put_file("tmp/bobs", "", 0);
    give("tmp/bobs", BOB, OTHERS, 0666);
    as_user(ANN, GROUP, 0, 0, in_sticky);
    CHECK(chmod("tmp/dir", 01777) == 0 && mode_of("tmp/dir") == 01777);
    put_file("f", "", 0);
    CHECK(chmod("f", 01644) == 0 && mode_of("f") == 01644);
}

static void run_it(void)
{
    execl("program", "program", NULL);
    CHECK(!"ran");
}

CASE(programs_run)
{
    put_file("program", "#!/bin/sh\nexit 0\n", 17);
    FAILS(execl("program", "program", NULL), EACCES);
    CHECK(chmod("program", 0755) == 0);
    in_child(run_it);
    CHECK(access("program", X_OK) == 0);
    FAILS(execl("none", "none", NULL), ENOENT);
    FAILS(execl(".", ".", NULL), EACCES);
}
