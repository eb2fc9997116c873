/* Extended attributes: namespaces, limits, errors. */
#include "tests/posix/case.h"

#include <linux/limits.h>
#include <sys/xattr.h>

static bool listed(const char *name, const char *attr)
{
    static char list[XATTR_LIST_MAX];
    ssize_t n = llistxattr(name, list, sizeof(list));

    for (ssize_t k = 0; k < n; k += (ssize_t)strlen(list + k) + 1)
        if (strcmp(list + k, attr) == 0)
            return true;
    return false;
}

CASE(xattr_set_get_list_remove)
{
    char back[100];

    put_file("f", "", 0);
    CHECK(setxattr("f", "user.a", "1", 1, 0) == 0 && setxattr("f", "user.a", "22", 2, XATTR_REPLACE) == 0);
    CHECK(getxattr("f", "user.a", back, sizeof(back)) == 2 && !memcmp(back, "22", 2));
    FAILS(setxattr("f", "user.a", "3", 1, XATTR_CREATE), EEXIST);
    FAILS(setxattr("f", "user.b", "3", 1, XATTR_REPLACE), ENODATA);
    FAILS(setxattr("f", "user.b", "3", 1, 64), EINVAL);
    CHECK(setxattr("f", "user.empty", NULL, 0, 0) == 0 &&
          getxattr("f", "user.empty", back, sizeof(back)) == 0);
    CHECK(setxattr("f", "user.\xff byte", "\0\xff", 2, 0) == 0 && listed("f", "user.\xff byte"));
    CHECK(getxattr("f", "user.a", NULL, 0) == 2);
    FAILS(getxattr("f", "user.a", back, 1), ERANGE);
    FAILS(listxattr("f", back, 3), ERANGE);
    FAILS(getxattr("f", "user.none", back, sizeof(back)), ENODATA);
    FAILS(getxattr("none", "user.a", back, sizeof(back)), ENOENT);
    FAILS(removexattr("f", "user.none"), ENODATA);
    FAILS(setxattr("f", "nonsense.a", "1", 1, 0), EOPNOTSUPP);
    FAILS(setxattr("f", "noprefix", "1", 1, 0), EOPNOTSUPP);
    struct stat before = stat_of("f");
    CHECK(removexattr("f", "user.a") == 0 && !listed("f", "user.a") && listed("f", "user.empty"));
    struct stat after = stat_of("f");
    CHECK(after.st_mtim.tv_nsec == before.st_mtim.tv_nsec && after.st_ctim.tv_sec >= before.st_ctim.tv_sec);
    CHECK(link("f", "g") == 0 && listed("g", "user.empty")); /* the file's, not the name's */
}

CASE(xattr_limits)
{
    static char value[XATTR_SIZE_MAX + 1], back[XATTR_SIZE_MAX + 1];
    char name[XATTR_NAME_MAX + 2];

    put_file("f", "", 0);
    fill(value, sizeof(value), 5);
    memset(name, 'n', sizeof(name));
    memcpy(name, "user.", 5);
    name[XATTR_NAME_MAX + 1] = '\0';
    FAILS(setxattr("f", name, "1", 1, 0), ERANGE);
    name[XATTR_NAME_MAX] = '\0';
    CHECK(setxattr("f", name, "1", 1, 0) == 0 && listed("f", name));
    FAILS(setxattr("f", "", "1", 1, 0), ERANGE);
    FAILS(setxattr("f", "user.", "1", 1, 0), EINVAL);
    FAILS(setxattr("f", "user.big", value, XATTR_SIZE_MAX + 1, 0), E2BIG);
    if (!on_fuse())
        return; /* few others bear values as large as Linux allows */
    CHECK(setxattr("f", "user.big", value, XATTR_SIZE_MAX, 0) == 0);
    CHECK(getxattr("f", "user.big", back, sizeof(back)) == XATTR_SIZE_MAX);
    CHECK(!memcmp(back, value, XATTR_SIZE_MAX));
    for (unsigned k = 0; k < 500; k++) {
        snprintf(name, sizeof(name), "user.%u", k);
        CHECK(setxattr("f", name, value, k, 0) == 0);
    }
    CHECK(listed("f", "user.0") && listed("f", "user.499") &&
          getxattr("f", "user.499", back, sizeof(back)) == 499);
}

static void user(void)
{
    char back[10];

    FAILS(setxattr("f", "trusted.t", "1", 1, 0), EPERM);
    FAILS(getxattr("f", "trusted.t", back, sizeof(back)), ENODATA);
    FAILS(setxattr("f", "security.mine", "1", 1, 0), EPERM);
    CHECK(!listed("f", "trusted.t") && listed("f", "user.u"));
    FAILS(setxattr("f", "user.u", "1", 1, 0), EACCES);
    FAILS(setxattr("sticky", "user.u", "1", 1, 0), EPERM); /* only its owner's */
    CHECK(listxattr("f", NULL, 0) == (ssize_t)(sizeof("user.u") + sizeof("security.mine")));
}

CASE(xattr_namespaces)
{
    char back[10];

    put_file("f", "", 0);
    CHECK(mkdir("d", 0755) == 0 && symlink("f", "l") == 0 && mkfifo("fifo", 0644) == 0);
    CHECK(setxattr("d", "user.d", "1", 1, 0) == 0 && setxattr("f", "user.u", "1", 1, 0) == 0);
    FAILS(lsetxattr("l", "user.u", "1", 1, 0), EPERM);
    FAILS(setxattr("fifo", "user.u", "1", 1, 0), EPERM);
    if (!is_root())
        return;
    CHECK(setxattr("f", "trusted.t", "1", 1, 0) == 0 && listed("f", "trusted.t"));
    CHECK(lsetxattr("l", "trusted.t", "on the link", 11, 0) == 0 && listed("l", "trusted.t"));
    CHECK(setxattr("fifo", "trusted.t", "1", 1, 0) == 0);
    CHECK(setxattr("f", "security.mine", "1", 1, 0) == 0 && getxattr("f", "security.mine", back, 10) == 1);
    CHECK(mkdir("sticky", 0777) == 0 && chmod("sticky", 01777) == 0);
    as_user(30001, 30001, 0, 0, user);
}
