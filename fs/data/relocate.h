/* Mover 2 (rule 8): moves what is stored in a slab group to other groups of its space, laid out as the space's settings are now. */
#ifndef SFS_DATA_RELOCATE_H
#define SFS_DATA_RELOCATE_H

#include "fs/data/groups.h"

/* Only what together fills whole stripes is moved; the rest stays (parity spaces; nothing changes for others). */
#define SFS_RELOCATE_WHOLE_STRIPES 1u
/* No room is reserved for what is moved: where nothing is promised to anybody, and what is moved comes free. */
#define SFS_RELOCATE_UNRESERVED 2u
/* Only what lies in rows of which at most so many percent are in use (groups with parity; elsewhere nothing is moved): a row comes free only as a whole. What fills no row lands; where nothing can land it stays. */
#define SFS_RELOCATE_SPARSE_ROWS(percent) ((unsigned)(percent) << 8)

struct sfs_relocate_result {
    uint64_t bytes;          /* moved and committed, before copies and parity */
    uint64_t damaged_bytes;  /* had no good copy on the disks that are here: they stay where they are */
    uint64_t damaged_ino;    /* one of the files that they belong to, 0 none */
    bool emptied;            /* nothing lives in the group any more: it is gone */
};
/* Moves all that lives in `group` (it is sealed first, and stays so meanwhile) to open groups of its space: read verified, written, synced, read back and compared, then every file that names it is pointed there in one
 * transaction. What is overwritten, cloned or deleted meanwhile comes out right. Room for it is reserved as for new data. progress is told bytes as they are moved, and may wait; non-zero stops: -ECANCELED. Whatever has been moved when it stops or fails
 * stays moved: call again for the rest. 0 (see damaged_bytes and, unless WHOLE_STRIPES was asked for, emptied), -ENOENT (no such group), -EBUSY (it is being moved already), -ENOSPC, -EIO (targets failed: try again), -EAGAIN (try again), -EROFS, -ENOMEM.
 * No lock held. */
int sfs_relocate_group(struct sfs_data *d, uint64_t group, unsigned flags, int (*progress)(void *ctx, uint64_t bytes), void *ctx,
                       struct sfs_relocate_result *out);

#endif
