/* From places in slab groups to files: which files have bytes there, how many, and what they are called. For what people are told (status, impact, events). */
#ifndef SFS_POOL_FILES_H
#define SFS_POOL_FILES_H

#include "fs/data/groups.h"

struct sfs_pool;

/* Files with a number of bytes each. Zeroed: empty. */
struct sfs_file_tally {
    uint64_t ino, bytes;
    int space;
};
struct sfs_files {
    struct sfs_file_tally *v;
    size_t n, cap;
};
int sfs_files_add(struct sfs_files *f, uint64_t ino, int space, uint64_t bytes); /* 0 or -ENOMEM */
void sfs_files_merge(struct sfs_files *f);                                       /* sorts by inode, one entry each. Call before looking */
void sfs_files_free(struct sfs_files *f);                                        /* its array */

/* The files that have stored bytes on the columns of a group for which hit[] is true, with as many bytes. max_rows: look at no more rows of the catalog than
 * that (0: at all of them); *more: there were more. Takes the catalog's lock now and then. 0 or -errno. */
int sfs_files_of_group(struct sfs_pool *p, const struct sfs_group_info *g, const bool *hit, uint64_t max_rows, struct sfs_files *f, bool *more);
/* The files that have stored bytes in [goff, goff + len) of a group: `len` is added for each. */
int sfs_files_of_place(struct sfs_pool *p, uint64_t group, int space, uint64_t goff, uint64_t len, struct sfs_files *f);

/* A path of each inode from its space's root (malloc'ed; NULL: it has no name, or is gone). One pass over all names at most, in steps that
 * hold nobody up. 0, -ENOMEM or what the catalog says. */
int sfs_pool_paths(struct sfs_pool *p, const uint64_t *inos, unsigned n, char **paths);

#endif
