/* Groups that are laid out otherwise than the settings of their space would lay out new ones: what a conversion has to move. For fs/pool and fs/job. */
#ifndef SFS_DATA_OUTDATED_H
#define SFS_DATA_OUTDATED_H

#include "fs/data/groups.h"

struct sfs_outdated {
    uint64_t group, used_bytes;
};
/* Those of a space (0: of all), the ones that hold least first: their slabs come free soonest. wider: also those that are narrower than a new one would be now, since disks were added. malloc'ed, the caller's to free. 0 or -ENOMEM. No lock held. */
int sfs_outdated_list(struct sfs_data *d, int space, bool wider, struct sfs_outdated **out, unsigned *n);

/* Would any group of the space be outdated with these settings? No lock held. */
bool sfs_outdated_by(struct sfs_data *d, const struct sfs_space_row *settings);

struct sfs_conversion {
    uint64_t held_bytes;      /* in groups that would be outdated */
    uint64_t raw_bytes;       /* what that takes on the disks in its new layout, about */
    uint64_t free_raw_bytes;  /* free on them now */
    uint64_t back_raw_bytes;  /* comes free as the old groups are emptied */
};
/* Could a space be converted to new settings, a group at a time, with the room that the disks have? 0, or -ENOSPC. out is filled in both cases. */
int sfs_conversion_check(struct sfs_data *d, const struct sfs_space_row *settings, struct sfs_conversion *out);

/* Could what these groups hold go to new groups of their spaces, on these disks alone (room: free slabs of each), one group after the other, each giving its slabs back? A question for groups with parity that have no disk left for a slab
 * that has to go elsewhere. What is free in other groups isn't counted. groups: malloc'ed by the caller, sorted here. No lock held. */
bool sfs_restripe_fits(struct sfs_data *d, uint64_t *groups, unsigned n, const int *disk, const uint64_t *room, unsigned ndisks);

#endif
