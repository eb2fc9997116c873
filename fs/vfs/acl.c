#include "fs/vfs/acl.h"

#include <endian.h>
#include <errno.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdint.h>
#include <string.h>

typedef struct posix_acl_xattr_header header;
typedef struct posix_acl_xattr_entry entry;

static size_t count(size_t len)
{
    return (len - sizeof(header)) / sizeof(entry);
}

static entry get(const void *acl, size_t k)
{
    entry e;

    memcpy(&e, (const uint8_t *)acl + sizeof(header) + k * sizeof(e), sizeof(e));
    return (entry){.e_tag = le16toh(e.e_tag), .e_perm = le16toh(e.e_perm), .e_id = le32toh(e.e_id)};
}

static void set_perm(void *acl, size_t k, unsigned perm)
{
    uint16_t v = htole16((uint16_t)perm);

    memcpy((uint8_t *)acl + sizeof(header) + k * sizeof(entry) + offsetof(entry, e_perm), &v, sizeof(v));
}

/* The entry with that tag; n: there is none. */
static size_t find(const void *acl, size_t n, unsigned tag)
{
    size_t k = 0;

    while (k < n && get(acl, k).e_tag != tag)
        k++;
    return k;
}

/* --- checking ------------------------------------------------------------------------------------------- */

/* The tags in the order in which they come. */
static int rank(unsigned tag)
{
    static const unsigned order[] = {ACL_USER_OBJ, ACL_USER, ACL_GROUP_OBJ, ACL_GROUP, ACL_MASK, ACL_OTHER};

    for (int k = 0; k < (int)(sizeof(order) / sizeof(order[0])); k++)
        if (order[k] == tag)
            return k;
    return -1;
}

static bool is_named(unsigned tag)
{
    return tag == ACL_USER || tag == ACL_GROUP;
}

int sfs_acl_check(const void *acl, size_t len)
{
    header h;
    entry before = {0};
    bool named = false;

    if (len == 0)
        return -ENODATA;
    if (len > SFS_ACL_MAX_BYTES)
        return -E2BIG;
    if (len < sizeof(h) || (len - sizeof(h)) % sizeof(entry))
        return -EINVAL;
    memcpy(&h, acl, sizeof(h));
    if (le32toh(h.a_version) != POSIX_ACL_XATTR_VERSION)
        return -EOPNOTSUPP;
    size_t n = count(len);
    if (n == 0)
        return -ENODATA;
    for (size_t k = 0; k < n; k++) {
        entry e = get(acl, k);
        if (rank(e.e_tag) < 0 || (e.e_perm & ~(ACL_READ | ACL_WRITE | ACL_EXECUTE)))
            return -EINVAL;
        if (k > 0 && rank(e.e_tag) < rank(before.e_tag))
            return -EINVAL;
        if (k > 0 && e.e_tag == before.e_tag && !(is_named(e.e_tag) && e.e_id > before.e_id))
            return -EINVAL;
        named |= is_named(e.e_tag);
        before = e;
    }
    if (find(acl, n, ACL_USER_OBJ) == n || find(acl, n, ACL_GROUP_OBJ) == n || find(acl, n, ACL_OTHER) == n)
        return -EINVAL;
    return named && find(acl, n, ACL_MASK) == n ? -EINVAL : 0;
}

/* --- list and mode -------------------------------------------------------------------------------------- */

/* The entry that the group bits of the mode stand for. */
static size_t group_class(const void *acl, size_t n)
{
    size_t mask = find(acl, n, ACL_MASK);

    return mask < n ? mask : find(acl, n, ACL_GROUP_OBJ);
}

mode_t sfs_acl_mode(const void *acl, size_t len, bool *minimal)
{
    size_t n = count(len);

    *minimal = n == 3;
    return (mode_t)(get(acl, find(acl, n, ACL_USER_OBJ)).e_perm << 6 |
                    get(acl, group_class(acl, n)).e_perm << 3 | get(acl, find(acl, n, ACL_OTHER)).e_perm);
}

void sfs_acl_chmod(void *acl, size_t len, mode_t mode)
{
    size_t n = count(len);

    set_perm(acl, find(acl, n, ACL_USER_OBJ), mode >> 6 & 7);
    set_perm(acl, group_class(acl, n), mode >> 3 & 7);
    set_perm(acl, find(acl, n, ACL_OTHER), mode & 7);
}

bool sfs_acl_inherit(void *acl, size_t len, mode_t *mode)
{
    bool minimal;
    mode_t both = *mode & sfs_acl_mode(acl, len, &minimal);

    sfs_acl_chmod(acl, len, both);
    *mode = (*mode & ~(mode_t)0777) | both;
    return !minimal;
}
