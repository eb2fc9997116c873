/* Scrub: every copy and every parity strip of everything that is stored is read and compared with its checksums, and repaired; the catalog's replicas, too. A job (job.h), about the
 * whole pool. How far it is, and what it has found, is in the catalog: it goes on where it was after a restart or a crash, a slab group at a time.
 *
 * Groups are gone through by number, up to the highest when it began; what is written later was read back by nobody, and is for the next one. What was found bad and repaired is kept by file
 * and disk (sfs_catalog_finding_*); what has no good copy left, in the table of damage (fs/data/damage.h). */
#ifndef SFS_JOB_SCRUB_H
#define SFS_JOB_SCRUB_H

#include "fs/job/job.h"

/* The property in which it keeps how far it is; and when it last came to its end (unix seconds). */
#define SFS_SCRUB_AT "scrub-at"
#define SFS_SCRUB_LAST "scrub-last"

struct sfs_scrub_ops {
    int (*catalog)(void *ctx, uint64_t *bad); /* compares and mends the catalog's replicas; how many pages were bad */
    void *ctx;
};
/* A job's function. 0: all was read, which doesn't say that all was good. */
int sfs_scrub(struct sfs_job *j, const struct sfs_scrub_ops *ops);
/* The next one begins anew (one was cancelled). */
void sfs_scrub_forget(struct sfs_data *d);

#endif
