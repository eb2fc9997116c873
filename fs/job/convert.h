/* Moving groups that are laid out otherwise than their space's settings say: after the settings were changed, or disks were added. Mover 2 (fs/data/relocate.h) over a list. */
#ifndef SFS_JOB_CONVERT_H
#define SFS_JOB_CONVERT_H

#include "fs/job/job.h"

/* Moves until no outdated group of the space (0: of any) is left; wider: see sfs_outdated_list. 0: none is left, each was read back and compared as it was moved. -ECANCELED; -EINVAL: what is left has no good copy; otherwise what stands in the way
 * (-ENOSPC, -EIO, -EAGAIN …), told by sfs_job_says. */
int sfs_convert(struct sfs_job *j, int space, bool wider);

#endif
