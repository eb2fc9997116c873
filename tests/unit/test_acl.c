/* Access lists: what is valid, and what lists and modes make of each other. */
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/vfs/acl.h"

struct list {
    uint8_t bytes[SFS_ACL_MAX_BYTES + 64];
    size_t len;
};

static void add(struct list *l, unsigned tag, unsigned perm, unsigned id)
{
    struct posix_acl_xattr_entry e = {htole16((uint16_t)tag), htole16((uint16_t)perm), htole32(id)};

    if (l->len == 0) {
        l->bytes[0] = POSIX_ACL_XATTR_VERSION;
        l->len = 4;
    }
    memcpy(l->bytes + l->len, &e, sizeof(e));
    l->len += sizeof(e);
}

/* From text: "u7 g5 o0", "u7 U1000:6 g5 m7 o0". */
static struct list make(const char *text)
{
    struct list l = {0};

    while (*text) {
        static const char letters[] = "uUgGmo";
        static const unsigned tags[] = {ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ,
                                        ACL_GROUP,    ACL_MASK, ACL_OTHER};
        unsigned tag = tags[strchr(letters, *text++) - letters], id = UINT32_MAX;
        if (tag == ACL_USER || tag == ACL_GROUP)
            id = (unsigned)strtoul(text, (char **)&text, 10), text++;
        add(&l, tag, (unsigned)strtoul(text, (char **)&text, 10), id);
        text += *text == ' ';
    }
    return l;
}

static int check(const char *text)
{
    struct list l = make(text);

    return sfs_acl_check(l.bytes, l.len);
}

Test(acl, valid_and_invalid)
{
    cr_assert_eq(check("u7 g5 o0"), 0);
    cr_assert_eq(check("u7 g5 m7 o0"), 0);
    cr_assert_eq(check("u7 U3:6 U4:6 g5 G1:1 G2:2 m7 o0"), 0);
    cr_assert_eq(check(""), -ENODATA);
    cr_assert_eq(check("u7 g5"), -EINVAL);
    cr_assert_eq(check("u7 o0"), -EINVAL);
    cr_assert_eq(check("g5 o0"), -EINVAL);
    cr_assert_eq(check("u7 g5 o8"), -EINVAL);
    cr_assert_eq(check("u7 u7 g5 o0"), -EINVAL);
    cr_assert_eq(check("u7 o0 g5"), -EINVAL);
    cr_assert_eq(check("u7 U3:6 g5 o0"), -EINVAL, "named, and no mask");
    cr_assert_eq(check("u7 U4:6 U3:6 g5 m7 o0"), -EINVAL, "not in order");
    cr_assert_eq(check("u7 U3:6 U3:6 g5 m7 o0"), -EINVAL, "twice");

    struct list l = make("u7 g5 o0");
    cr_assert_eq(sfs_acl_check(l.bytes, l.len - 1), -EINVAL);
    cr_assert_eq(sfs_acl_check(l.bytes, 3), -EINVAL);
    cr_assert_eq(sfs_acl_check(l.bytes, 4), -ENODATA);
    cr_assert_eq(sfs_acl_check(l.bytes, SFS_ACL_MAX_BYTES + 1), -E2BIG);
    l.bytes[0] = 1;
    cr_assert_eq(sfs_acl_check(l.bytes, l.len), -EOPNOTSUPP);
    l = make("u7 g5 o0");
    l.bytes[4] = 3; /* a tag that there isn't */
    cr_assert_eq(sfs_acl_check(l.bytes, l.len), -EINVAL);
}

/* No bytes make it read or write elsewhere (run under ASan), and what it finds valid can be worked with. */
Test(acl, any_bytes)
{
    uint64_t x = 88172645463325252u;

    for (unsigned round = 0; round < 20000; round++) {
        struct list l = make(round % 2 ? "u7 U3:6 g5 G1:1 m7 o0" : "u7 g5 o0");
        for (unsigned k = 0; k < round % 4; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            l.bytes[x % l.len] = (uint8_t)(x >> 32);
        }
        uint8_t *exact = malloc(l.len);
        memcpy(exact, l.bytes, l.len);
        if (sfs_acl_check(exact, l.len) == 0) {
            bool minimal;
            mode_t mode = 0640;
            sfs_acl_inherit(exact, l.len, &mode);
            cr_assert_eq(sfs_acl_check(exact, l.len), 0);
            cr_assert_eq(sfs_acl_mode(exact, l.len, &minimal), mode);
            cr_assert_eq(mode & ~(mode_t)0640, 0);
        }
        free(exact);
    }
}

static void mode_is(const char *text, mode_t want, bool want_minimal)
{
    struct list l = make(text);
    bool minimal;

    cr_assert_eq(sfs_acl_mode(l.bytes, l.len, &minimal), want, "%s", text);
    cr_assert_eq(minimal, want_minimal, "%s", text);
}

Test(acl, as_a_mode)
{
    mode_is("u7 g5 o1", 0751, true);
    mode_is("u6 g4 m2 o0", 0620, false);
    mode_is("u6 U1:7 g4 m7 o0", 0670, false);
}

static void chmod_makes(const char *before, mode_t mode, const char *after)
{
    struct list l = make(before), want = make(after);

    sfs_acl_chmod(l.bytes, l.len, mode);
    cr_assert(l.len == want.len && !memcmp(l.bytes, want.bytes, l.len), "%s", before);
}

Test(acl, chmod)
{
    chmod_makes("u7 g5 o1", 0640, "u6 g4 o0");
    chmod_makes("u7 U1:7 g5 m7 o1", 04640, "u6 U1:7 g5 m4 o0");
}

static void inherits(const char *given, mode_t mode, const char *own, mode_t want, bool stored)
{
    struct list l = make(given), list = make(own);

    cr_assert_eq(sfs_acl_inherit(l.bytes, l.len, &mode), stored, "%s", given);
    cr_assert_eq(mode, want, "%s: %o", given, mode);
    cr_assert(l.len == list.len && !memcmp(l.bytes, list.bytes, l.len), "%s", given);
}

Test(acl, inheritance)
{
    inherits("u7 g5 o0", S_IFREG | 0666, "u6 g4 o0", S_IFREG | 0640, false);
    inherits("u7 U9:7 g5 m7 o5", S_IFREG | 0664, "u6 U9:7 g5 m6 o4", S_IFREG | 0664, true);
    inherits("u7 U9:7 g7 m5 o0", S_IFDIR | 02777, "u7 U9:7 g7 m5 o0", S_IFDIR | 02750, true);
}
