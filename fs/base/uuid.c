#include "fs/base/uuid.h"

#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

_Static_assert(sizeof(struct sfs_uuid) == sizeof(uuid_t), "libuuid's form is ours");

void sfs_uuid_generate(struct sfs_env *env, struct sfs_uuid *out)
{
    sfs_env_rand_bytes(env, out->b, sizeof(out->b));
    out->b[6] = (out->b[6] & 0x0f) | 0x40; /* version 4 */
    out->b[8] = (out->b[8] & 0x3f) | 0x80; /* variant of RFC 4122 */
}

void sfs_uuid_format(const struct sfs_uuid *u, char out[SFS_UUID_STRLEN])
{
    uuid_unparse_lower(u->b, out);
}

int sfs_uuid_parse(const char *text, struct sfs_uuid *out)
{
    uuid_t parsed;

    if (uuid_parse(text, parsed) < 0)
        return -EINVAL;
    memcpy(out->b, parsed, sizeof(out->b));
    return 0;
}

bool sfs_uuid_equal(const struct sfs_uuid *a, const struct sfs_uuid *b)
{
    return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

bool sfs_uuid_is_null(const struct sfs_uuid *u)
{
    return uuid_is_null(u->b);
}
