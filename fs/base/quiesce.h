/* Quiescence: what a reader may still be looking at isn't reused.
 * A reader enters before it looks up where bytes lie, and exits after it has read them. Space (or a slot) taken out of use at ticket T
 * may be reused once every reader that entered before T has left. No waiting: the owner of the space asks. Thread-safe, no lock held. */
#ifndef SFS_BASE_QUIESCE_H
#define SFS_BASE_QUIESCE_H

#include "fs/base/env.h"

struct sfs_quiesce;
struct sfs_quiesce *sfs_quiesce_new(struct sfs_env *env);
void sfs_quiesce_free(struct sfs_quiesce *q);          /* asserts that no reader is inside */
uint64_t sfs_quiesce_enter(struct sfs_quiesce *q);     /* returns the token for exit */
void sfs_quiesce_exit(struct sfs_quiesce *q, uint64_t token);
uint64_t sfs_quiesce_ticket(struct sfs_quiesce *q);    /* marks now */
bool sfs_quiesce_passed(struct sfs_quiesce *q, uint64_t ticket); /* have all readers from before the ticket left? */

#endif
