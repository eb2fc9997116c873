/* Mover 1 (rule 8): build a slab anew on another disk, or move it there. */
#ifndef SFS_DATA_REPAIR_H
#define SFS_DATA_REPAIR_H

#include "fs/data/groups.h"

struct sfs_move_result {
    uint64_t bytes;          /* written to the new slab */
    uint64_t damaged_bytes;  /* of stored extents that had no good copy: they stay damaged */
    uint64_t carried_bytes;  /* of those: what the slab's present disk still gave was moved as it is, so that nothing is lost by moving */
    uint64_t damaged_ino;    /* one of the files that they belong to, 0 none */
};
/* Builds slab (column, copy) of a group on another disk: the one that should take it by placement, or `to_disk` (0 = choose). Live extents only, read verified from the other copies (or parity), written, synced, read back and compared, then the
 * catalog is made to point at it and that is committed. Disks without a slab of the group come first; a group of copies may also use one that holds only other columns, which lowers nothing but speed. to_disk may be the present
 * disk: then it goes to another slot there. What has no good copy anywhere but can still be read from the present disk goes along as it is. The old slot, if its disk is there, becomes free. Seals the group first if it is open. progress is told bytes as they are written and may return non-zero to stop: -ECANCELED, nothing changed.
 * 0, -EAGAIN (another move in the group was under way, or its data wasn't settled: look at it again), -EUCLEAN (some of it has no good copy but, perhaps, on the slab's present disk: nothing is changed, for that disk may return), -ENOENT (no such group), -ENOSPC (no other disk with a free slab), -EIO (the target failed: try again), -EROFS. No lock held. */
int sfs_move_slab(struct sfs_data *d, uint64_t group, unsigned column, unsigned copy, int to_disk,
                  int (*progress)(void *ctx, uint64_t bytes), void *ctx, struct sfs_move_result *out);
/* Bytes that moving that slab would write: its share of the group's live data. */
uint64_t sfs_move_slab_cost(struct sfs_data *d, uint64_t group);
/* Reads every copy of every extent of a group and compares: bad copies are repaired. For scrub and for verifying a heal. Counts copies that were bad, and extents with no good copy. progress as above. */
int sfs_verify_group(struct sfs_data *d, uint64_t group, int (*progress)(void *ctx, uint64_t bytes), void *ctx, uint64_t *bad_copies, uint64_t *lost_extents);

#endif
