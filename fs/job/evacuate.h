/* Taking slabs off a disk, whether it is there or not: what remove, replace, retire and a lower capacity have in
 * common; and spreading slabs evenly. All of it is mover 1 (fs/data/repair.h) over a list. */
#ifndef SFS_JOB_EVACUATE_H
#define SFS_JOB_EVACUATE_H

#include "fs/data/groups.h"
#include "fs/job/job.h"

struct sfs_evacuate {
    int disk;            /* whose slabs go elsewhere */
    int to;              /* to this disk, as far as it can take them; 0: wherever they fit */
    uint64_t from_slot;  /* only slabs in slots from here on; with it they may stay on the disk, below */
    bool data_only;      /* leave landing groups where they are */
};
/* Moves slabs until none is left. Nobody else may put slabs there meanwhile (the disk's usage or limit says so).
 * 0: none is left, each was read back and compared. -ECANCELED; otherwise what stands in the way, told by
 * sfs_job_says: -ENOSPC, -ENODATA (slabs whose data is on a disk that is away only), -EIO, -EUCLEAN … */
int sfs_evacuate(struct sfs_job *j, const struct sfs_evacuate *e);

/* What a group with parity holds goes to new groups of its space, which are narrower when a disk is missing: for one that spans all disks, so that none is left to take one of its slabs. 0: it is gone. -ENOSPC: that can't be; -errno. */
struct sfs_crew_worker;
int sfs_restripe_group(struct sfs_crew_worker *w, uint64_t group, uint64_t *damaged_bytes);

/* Spreads slabs evenly: moves them from the disks with least free slots to those with most, until all have about the
 * same number, or groups allow no more. A job's function; also a step of optimize. */
int sfs_rebalance(struct sfs_job *j);
/* Would it move anything? How many bytes, about. */
uint64_t sfs_rebalance_bytes(struct sfs_data *d);

/* Is there anything to build slab i of a group from? */
bool sfs_slab_has_source(const struct sfs_group_info *g, unsigned i);

#endif
