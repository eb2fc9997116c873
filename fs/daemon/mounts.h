/* The mounts of a daemon.
 *
 * States of a mount, each with what moves it on:
 *   STARTING  sfs_mounts_add makes it          -> LIVE, or gone again on failure
 *   LIVE      served by a thread of its own    -> ENDING when the kernel ends the session: unmounted by
 * anybody, or aborted ENDING    that thread closes the vfs: everything is stored and committed -> DONE DONE
 * sfs_mounts_reap joins the thread and forgets it
 *
 * Lock: SFS_RANK_DAEMON, for the table and the states; never held while mounting, unmounting, or closing. */
#ifndef SFS_DAEMON_MOUNTS_H
#define SFS_DAEMON_MOUNTS_H

#include <jansson.h>
#include "fs/daemon/daemon.h"
#include "fs/vfs/vfs.h"

struct sfs_mounts;

/* changed: called, with no lock held, when there may be something to reap. */
struct sfs_mounts *sfs_mounts_new(struct sfs_pool *pool, void (*changed)(void *), void *ctx);
void sfs_mounts_free(struct sfs_mounts *m); /* empty. NULL is fine */

/* Mounts; on return the mount is usable. -EBUSY: the space is mounted (with where); -ESHUTDOWN: the daemon is
 * about to end, ask another. 0 too when it is mounted right there by a former name. note: that, or why it is read-only though nobody
 * asked for that; else "". */
int sfs_mounts_add(struct sfs_mounts *m, const char *space, const char *dir, const char *source,
                   const char *options, struct sfs_error *note, struct sfs_error *err);
int sfs_mounts_remount(struct sfs_mounts *m, const char *dir, const char *options, struct sfs_error *err);
/* Unmounts; on return everything is durable and the mount is gone (lazy: out of sight). *last: no other mount
 * is left. warn: words when it lives on elsewhere. */
int sfs_mounts_umount(struct sfs_mounts *m, const char *dir, bool lazy, bool *last, struct sfs_error *warn,
                      struct sfs_error *err);
/* [{"space": as it is called now,"dir","source","readonly"}]; NULL: no memory. */
json_t *sfs_mounts_list(struct sfs_mounts *m);

/* The vfs of a mounted space, held until put; NULL: not mounted. */
struct sfs_vfs *sfs_mounts_vfs_get(struct sfs_mounts *m, const char *space);
void sfs_mounts_vfs_put(struct sfs_mounts *m, struct sfs_vfs *vfs);

/* Forgets what is done; how many are left. */
unsigned sfs_mounts_reap(struct sfs_mounts *m);
/* From now on nothing is mounted any more. only_if_empty: false, and no change, when there are mounts. */
bool sfs_mounts_close(struct sfs_mounts *m, bool only_if_empty);
bool sfs_mounts_used(struct sfs_mounts *m); /* has anybody ever mounted, or tried to? */
bool sfs_mounts_closed(struct sfs_mounts *m);
/* Ends all mounts, also those in use, and waits until their data is stored. After sfs_mounts_close. */
void sfs_mounts_end_all(struct sfs_mounts *m);

#endif
