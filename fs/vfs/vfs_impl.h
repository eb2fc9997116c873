/* The inside of fs/vfs: the handle of a mounted space, and what its files share. Only fs/vfs includes this.
 * */
#ifndef SFS_VFS_VFS_IMPL_H
#define SFS_VFS_VFS_IMPL_H

#include <uthash.h>

#include "fs/vfs/inode.h"
#include "fs/vfs/vfs.h"

#define SFS_WRITEBACK_THREADS 4u
#define SFS_LINK_MAX 65000u
#define SFS_SYMLINK_MAX 4095u
/* A catalog transaction this large is committed before its time. */
#define SFS_COMMIT_VOLUME_BYTES (8ull << 20)
#define SFS_COMMIT_VOLUME_PIECES 32768u       /* likewise pending pieces in memory */

struct sfs_vfs {
    /* Fixed after open. */
    struct sfs_env *env;
    struct sfs_volume *volume;
    struct sfs_data *data;
    struct sfs_catalog *cat;
    int space;
    uint64_t root;
    bool noatime;
    uint64_t dirty_limit_bytes, commit_interval_ns, cache_inodes;

    bool readonly;             /* atomic */
    uint64_t stamp;            /* atomic: numbers writes, so that a flush knows what came before it */
    unsigned syncing;          /* atomic: syncs of the whole space under way */
    unsigned uncollected;      /* atomic: pieces written since the last collect, roughly */

    struct sfs_mutex ns;       /* SFS_RANK_NAMESPACE: every change of names */

    /* SFS_RANK_ITABLE: all down to the blank line, and in inodes what inode.h says */
    struct sfs_mutex table_lock;
    struct sfs_inode *inodes;    /* by ino */
    struct sfs_inode_list lru;   /* neither used nor looked up */
    uint64_t nlru;
    struct sfs_inode_list pending, batch, dirty, urgent, reap;
    uint64_t dirty_bytes;        /* dirty or being written */
    uint64_t ndirty_inodes, nstuck;
    bool stop_writeback, stop_timer, stop_reaper, reaping;
    struct sfs_cond work, room;  /* write-back: there is some to do; less is dirty or all is stuck */
    struct sfs_cond timer, reap_work, reap_idle;

    struct sfs_mutex error_lock; /* SFS_RANK_LEAF: errors of inodes, and */
    int error;                   /* the last write-back error, and how many there were */
    uint64_t error_seq, error_seen;

    struct sfs_commit_client client;
    struct sfs_thread *writers[SFS_WRITEBACK_THREADS];
    struct sfs_thread *timer_thread, *reaper_thread;
    bool registered;
};

struct sfs_file {
    struct sfs_vfs *vfs;
    struct sfs_inode *inode;
    int flags;
    uint64_t error_seen;       /* error_lock */
};

/* May this space be written to? 0 or -EROFS. */
int sfs_vfs_writable(struct sfs_vfs *vfs);
/* After a change of the catalog: asks for a commit when much has gathered. */
void sfs_vfs_kick_by_volume(struct sfs_vfs *vfs);
/* No room: lets deletes finish and commits, so that freed space becomes usable. hard: first writes all dirty data out, and packs what has landed. No lock held. */
void sfs_vfs_make_room(struct sfs_vfs *vfs, bool hard);
/* Room in the catalog for a few rows (it is asked before anything is changed). */
int sfs_vfs_catalog_room(struct sfs_vfs *vfs, uint64_t bytes);

#endif
