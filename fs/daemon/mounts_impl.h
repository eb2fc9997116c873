/* Inside fs/daemon only: the table of mounts, for mounts.c (a mount's life) and mounts_change.c (remount,
 * unmount, the end of all). */
#ifndef SFS_DAEMON_MOUNTS_IMPL_H
#define SFS_DAEMON_MOUNTS_IMPL_H

#include <sys/queue.h>

#include "fs/daemon/mounts.h"
#include "fs/fuse/fuse.h"

enum sfs_mount_state { STARTING, LIVE, ENDING, DONE };

struct sfs_mount {
    LIST_ENTRY(sfs_mount) link;
    struct sfs_mounts *table;
    char *dir, *source; /* constant; source: as the kernel lists it, whatever the space is called now */
    struct sfs_mount_opts opts;
    struct sfs_volume *volume;
    struct sfs_vfs *vfs;
    struct sfs_fuse *fuse;
    struct sfs_thread *thread;
    enum sfs_mount_state state;
    bool detached; /* unmounted lazily: out of sight, but programs still use it */
    unsigned busy; /* callers that use vfs or fuse: they stay until it is 0 */
    unsigned refs; /* callers that wait for the end: the entry stays until it is 0 */
    int result;    /* of storing what was left, once DONE */
};

struct sfs_mounts {
    struct sfs_pool *pool;
    struct sfs_env *env;
    void (*changed)(void *);
    void *changed_ctx;
    struct sfs_mutex lock; /* guards what follows, and of each mount all that isn't constant */
    struct sfs_cond cond;  /* any state, busy or refs has changed */
    LIST_HEAD(, sfs_mount) list;
    bool closed, used;
    bool mounting; /* one at a time (fs/fuse/fuse.h) */
};

/* Lock held. */
struct sfs_mount *sfs_mounts_find_dir(struct sfs_mounts *m, const char *dir);
/* No lock held: takes one off a mount's busy or refs. */
void sfs_mounts_drop(struct sfs_mounts *m, unsigned *count);
/* What the kernel is to be told. */
void sfs_mount_fuse_opts(const struct sfs_mount *mt, const struct sfs_mount_opts *o,
                         struct sfs_fuse_opts *out);

#endif
