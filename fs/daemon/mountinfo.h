/* What is mounted where, from /proc/self/mountinfo. */
#ifndef SFS_DAEMON_MOUNTINFO_H
#define SFS_DAEMON_MOUNTINFO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct sfs_mountinfo {
    char dir[PATH_MAX], type[64], source[PATH_MAX];
};
/* The topmost mount at dir (canonical). 0, -ENOENT: none. */
int sfs_mountinfo_at(const char *dir, struct sfs_mountinfo *out);
/* Calls fn for each mount of spacesfs until it returns non-zero, which is returned. */
int sfs_mountinfo_each(int (*fn)(const struct sfs_mountinfo *, void *), void *ctx);
/* One line of mountinfo. False for what isn't one. */
bool sfs_mountinfo_parse(const char *line, struct sfs_mountinfo *out);

/* realpath(3) that also works for a mountpoint whose daemon has died. 0 or -errno. */
int sfs_canonical_dir(const char *dir, char out[PATH_MAX]);
/* Is dir a mountpoint that a dead daemon left behind? */
bool sfs_is_dead_mount(const char *dir);

#endif
