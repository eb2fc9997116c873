/* Inside of extracting: extract.c (finding a catalog that can be used), extract_copy.c (files out of it), scratch.c (where a copy of the catalog lies meanwhile). */
#ifndef SFS_CHECK_EXTRACT_IMPL_H
#define SFS_CHECK_EXTRACT_IMPL_H

#include <stdio.h>
#include "fs/check/check_impl.h"
#include "fs/check/extract.h"
#include "fs/vfs/vfs.h"

/* A store in a directory of its own, unlinked when it is freed. */
struct sfs_scratch;
int sfs_scratch_new(int dir_fd, struct sfs_scratch **out); /* 0 or -errno */
void sfs_scratch_free(struct sfs_scratch *s);              /* NULL is fine */
void sfs_scratch_store(struct sfs_scratch *s, struct sfs_store *out);

struct sfs_extract {
    struct sfs_check *c;
    int to_fd;
    FILE *list; /* damaged.txt; NULL until something is */
    struct sfs_extract_result *res;
};
/* A whole space, from its root, into the directory. 0, -ECANCELED, or why nothing of it could be copied. */
int sfs_extract_space(struct sfs_extract *x, struct sfs_vfs *vfs, const char *space);

#endif
