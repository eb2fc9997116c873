/* POSIX access lists, as libacl would use them: by their attributes, in the kernel's form. */
#include "tests/posix/case.h"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/xattr.h>

enum { ANN = 30001, BOB = 30002, GROUP = 30010, OTHERS = 30011 };
#define ACCESS "system.posix_acl_access"
#define DEFAULT "system.posix_acl_default"

struct list {
    struct posix_acl_xattr_header h;
    struct posix_acl_xattr_entry e[600];
    unsigned n;
};

static void begin(struct list *l)
{
    memset(l, 0, sizeof(*l));
    l->h.a_version = htole32(POSIX_ACL_XATTR_VERSION);
}

static void add(struct list *l, unsigned tag, unsigned perm, unsigned id)
{
    l->e[l->n++] =
        (struct posix_acl_xattr_entry){htole16((uint16_t)tag), htole16((uint16_t)perm), htole32(id)};
}

static size_t size_of(const struct list *l)
{
    return sizeof(l->h) + l->n * sizeof(l->e[0]);
}

/* Owner, one user, owning group, mask, others. */
static void with_user(struct list *l, unsigned owner, uid_t uid, unsigned rights, unsigned group,
                      unsigned mask, unsigned other)
{
    begin(l);
    add(l, ACL_USER_OBJ, owner, ACL_UNDEFINED_ID);
    add(l, ACL_USER, rights, uid);
    add(l, ACL_GROUP_OBJ, group, ACL_UNDEFINED_ID);
    add(l, ACL_MASK, mask, ACL_UNDEFINED_ID);
    add(l, ACL_OTHER, other, ACL_UNDEFINED_ID);
}

static void minimal(struct list *l, unsigned owner, unsigned group, unsigned other)
{
    begin(l);
    add(l, ACL_USER_OBJ, owner, ACL_UNDEFINED_ID);
    add(l, ACL_GROUP_OBJ, group, ACL_UNDEFINED_ID);
    add(l, ACL_OTHER, other, ACL_UNDEFINED_ID);
}

static int set(const char *name, const char *attr, const struct list *l)
{
    return setxattr(name, attr, l, size_of(l), 0);
}

static bool list_is(const char *name, const char *attr, const struct list *want)
{
    struct list got;
    ssize_t n = getxattr(name, attr, &got, sizeof(got.h) + sizeof(got.e));

    return n == (ssize_t)size_of(want) && !memcmp(&got, want, (size_t)n);
}

static bool has(const char *name, const char *attr)
{
    return getxattr(name, attr, NULL, 0) > 0;
}

CASE(acl_and_mode_are_one)
{
    struct list l;

    put_file("f", "x", 1);
    FAILS(getxattr("f", ACCESS, NULL, 0), ENODATA);
    with_user(&l, 6, ANN, 6, 4, 6, 0);
    CHECK(set("f", ACCESS, &l) == 0 && mode_of("f") == 0660 && list_is("f", ACCESS, &l));
    CHECK(chmod("f", 0640) == 0); /* to the mask, not to the group */
    with_user(&l, 6, ANN, 6, 4, 4, 0);
    CHECK(list_is("f", ACCESS, &l));
    struct timespec before = stat_of("f").st_ctim;
    CHECK(chmod("f", 04711) == 0 && mode_of("f") == 04711);
    struct timespec after = stat_of("f").st_ctim;
    CHECK(after.tv_sec > before.tv_sec || (after.tv_sec == before.tv_sec && after.tv_nsec >= before.tv_nsec));
    with_user(&l, 7, ANN, 6, 4, 1, 1);
    CHECK(list_is("f", ACCESS, &l));
    minimal(&l, 6, 0, 4); /* says no more than a mode */
    CHECK(set("f", ACCESS, &l) == 0 && mode_of("f") == 04604 && !has("f", ACCESS));
    with_user(&l, 7, ANN, 7, 7, 7, 7);
    CHECK(set("f", ACCESS, &l) == 0 && removexattr("f", ACCESS) == 0 && !has("f", ACCESS));
    CHECK(rename("f", "g") == 0 && set("g", ACCESS, &l) == 0 && list_is("g", ACCESS, &l));
}

CASE(acl_that_is_none)
{
    struct list l;

    put_file("f", "", 0);
    CHECK(symlink("f", "l") == 0);
    FAILS(setxattr("f", ACCESS, "xx", 2, 0), EINVAL);
    with_user(&l, 6, ANN, 6, 4, 6, 0);
    l.n--; /* no entry for others */
    FAILS(set("f", ACCESS, &l), EINVAL);
    begin(&l);
    add(&l, ACL_USER_OBJ, 6, ACL_UNDEFINED_ID);
    add(&l, ACL_USER, 6, ANN);
    add(&l, ACL_GROUP_OBJ, 6, ACL_UNDEFINED_ID);
    add(&l, ACL_OTHER, 6, ACL_UNDEFINED_ID);
    FAILS(set("f", ACCESS, &l), EINVAL); /* no mask */
    minimal(&l, 9, 0, 0);
    FAILS(set("f", ACCESS, &l), EINVAL);
    minimal(&l, 7, 0, 0);
    FAILS(set("f", DEFAULT, &l), EACCES); /* not a directory */
    FAILS(lsetxattr("l", ACCESS, &l, size_of(&l), 0), EOPNOTSUPP);
    CHECK(mode_of("f") == 0644);
}

static void ann(void)
{
    CHECK(file_is("f", "x", 1));
    int fd = open("f", O_WRONLY);
    CHECK(fd >= 0 && close(fd) == 0);
    FAILS(chmod("f", 0777), EPERM);
    struct list l;
    with_user(&l, 6, ANN, 6, 4, 6, 0);
    FAILS(set("f", ACCESS, &l), EPERM);
    CHECK(count_entries("d") == 0);
    put_file("d/made", "", 0);
}

static void ann_masked(void)
{
    CHECK(file_is("f", "x", 1));
    FAILS(open("f", O_WRONLY), EACCES);
}

static void not_ann(void)
{
    FAILS(open("f", O_RDONLY), EACCES);
    FAILS(open("d/x", O_CREAT | O_WRONLY, 0644), EACCES);
}

CASE(acl_is_obeyed)
{
    struct list l;

    if (!is_root())
        return;
    put_file("f", "x", 1);
    CHECK(mkdir("d", 0700) == 0);
    with_user(&l, 6, ANN, 6, 4, 6, 0);
    CHECK(set("f", ACCESS, &l) == 0);
    with_user(&l, 7, ANN, 7, 0, 7, 0);
    CHECK(set("d", ACCESS, &l) == 0);
    as_user(ANN, GROUP, 0, 0, ann);
    as_user(BOB, GROUP, 0, 0, not_ann);
    CHECK(chmod("f", 0640) == 0); /* the mask takes writing from her */
    as_user(ANN, GROUP, 0, 0, ann_masked);
    CHECK(removexattr("f", ACCESS) == 0 && chmod("f", 0600) == 0);
    CHECK(removexattr("d", ACCESS) == 0 && chmod("d", 0700) == 0);
    as_user(ANN, GROUP, 0, 0, not_ann);
    begin(&l); /* a group, among the supplementary ones */
    add(&l, ACL_USER_OBJ, 6, ACL_UNDEFINED_ID);
    add(&l, ACL_GROUP_OBJ, 0, ACL_UNDEFINED_ID);
    add(&l, ACL_GROUP, 4, OTHERS);
    add(&l, ACL_MASK, 4, ACL_UNDEFINED_ID);
    add(&l, ACL_OTHER, 0, ACL_UNDEFINED_ID);
    CHECK(set("f", ACCESS, &l) == 0);
    as_user(BOB, GROUP, OTHERS, 0, ann_masked);
}

CASE(acl_is_inherited)
{
    struct list l, own;

    CHECK(mkdir("d", 0755) == 0);
    with_user(&l, 7, ANN, 7, 5, 7, 0);
    CHECK(set("d", DEFAULT, &l) == 0 && mode_of("d") == 0755 && !has("d", ACCESS));
    umask(077); /* the list takes its place */
    int fd = open("d/f", O_CREAT | O_WRONLY, 0666);
    CHECK(fd >= 0 && close(fd) == 0 && mkdir("d/sub", 0777) == 0 && mkfifo("d/fifo", 0600) == 0);
    CHECK(symlink("x", "d/l") == 0);
    umask(022);
    with_user(&own, 6, ANN, 7, 5, 6, 0);
    CHECK(mode_of("d/f") == 0660 && list_is("d/f", ACCESS, &own) && !has("d/f", DEFAULT));
    CHECK(mode_of("d/sub") == 0770 && list_is("d/sub", ACCESS, &l) && list_is("d/sub", DEFAULT, &l));
    CHECK(mode_of("d/fifo") == 0600);
    CHECK(mkdir("d/sub/deeper", 0700) == 0 && list_is("d/sub/deeper", DEFAULT, &l));
    CHECK(mode_of("d/sub/deeper") == 0700);
    CHECK(removexattr("d", DEFAULT) == 0);
    put_file("d/plain", "", 0);
    CHECK(mode_of("d/plain") == 0644 && !has("d/plain", ACCESS));
    minimal(&l, 7, 5, 0); /* a default list of three entries: modes only */
    CHECK(set("d", DEFAULT, &l) == 0);
    put_file("d/g", "", 0);
    CHECK(mode_of("d/g") == 0640 && !has("d/g", ACCESS));
}

static void as_owner(void)
{
    struct list l;

    with_user(&l, 7, BOB, 7, 5, 7, 5);
    CHECK(set("f", ACCESS, &l) == 0 && mode_of("f") == 0775); /* not a member: set-gid goes */
    CHECK(set("g", ACCESS, &l) == 0 && mode_of("g") == 02775);
}

CASE(acl_and_set_gid)
{
    if (!is_root())
        return;
    put_file("f", "", 0);
    put_file("g", "", 0);
    CHECK(chown("f", ANN, OTHERS) == 0 && chmod("f", 02755) == 0);
    CHECK(chown("g", ANN, GROUP) == 0 && chmod("g", 02755) == 0);
    as_user(ANN, OTHERS + 1, GROUP, 0, as_owner);
}

CASE(acl_of_many_entries)
{
    struct list l;

    put_file("f", "", 0);
    begin(&l);
    add(&l, ACL_USER_OBJ, 6, ACL_UNDEFINED_ID);
    for (unsigned k = 0; k < 300; k++)
        add(&l, ACL_USER, k % 8, 40000 + k);
    add(&l, ACL_GROUP_OBJ, 4, ACL_UNDEFINED_ID);
    add(&l, ACL_MASK, 6, ACL_UNDEFINED_ID);
    add(&l, ACL_OTHER, 0, ACL_UNDEFINED_ID);
    CHECK(set("f", ACCESS, &l) == 0 && list_is("f", ACCESS, &l) && mode_of("f") == 0660);
}
