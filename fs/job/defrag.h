/* Files whose pieces lie scattered, since they were written in another order than they are read, are stored anew in order; and what is compressed otherwise than the space's settings say now, as they say. */
#ifndef SFS_JOB_DEFRAG_H
#define SFS_JOB_DEFRAG_H

#include "fs/data/groups.h"
#include "fs/job/job.h"

struct sfs_defragmented {
    uint64_t files, bytes;   /* stored anew */
    unsigned unmounted;      /* spaces that were left alone: a file is stored anew through its mount */
};
/* Looks at all files of a space. What several files share is left alone: stored anew it would be there twice. The level of compression isn't looked at. 0, -ECANCELED, -ENOSPC, -EROFS, -ENOMEM or errors of the catalog; *out counts on. No lock held. */
int sfs_defragment(struct sfs_job *j, int space, struct sfs_defragmented *out);

#endif
