/* What is mounted, from /proc/self/mountinfo. */
#ifndef SFS_CLI_MOUNTS_H
#define SFS_CLI_MOUNTS_H

struct sfs_cli_mount {
    int id;
    const char *dev;                        /* "0:57": the same for all mounts of one filesystem */
    const char *root, *dir, *type, *source; /* unescaped */
};
/* Calls fn for each mount, later ones after those they cover, until it returns non-zero, which is returned.
 * -errno when the list can't be read. */
int sfs_cli_mounts_each(int (*fn)(const struct sfs_cli_mount *m, void *ctx), void *ctx);

#endif
