/* UUIDs, random (RFC 4122 version 4), drawn from the environment so that the simulator's are from its seed. */
#ifndef SFS_BASE_UUID_H
#define SFS_BASE_UUID_H

#include "fs/base/env.h"

#define SFS_UUID_STRLEN 37 /* with the terminating NUL */
struct sfs_uuid {
    uint8_t b[16];
};
void sfs_uuid_generate(struct sfs_env *env, struct sfs_uuid *out);
void sfs_uuid_format(const struct sfs_uuid *u, char out[SFS_UUID_STRLEN]);
int sfs_uuid_parse(const char *text, struct sfs_uuid *out); /* 0 or -EINVAL */
bool sfs_uuid_equal(const struct sfs_uuid *a, const struct sfs_uuid *b);
bool sfs_uuid_is_null(const struct sfs_uuid *u);

#endif
