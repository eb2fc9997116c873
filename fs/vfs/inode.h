/* An inode in memory. Only fs/vfs includes this.
 *
 * Locks: `lock` (SFS_RANK_INODE) guards everything but what is listed under another lock. Whoever changes the
 * contents (write, truncate, punch, clone) also owns `modifying`, a lock that may be held across I/O: while
 * it is held the contents change by nobody else, though write-back may still move them from memory to disk.
 * It is taken before the gate and before any inode's lock.
 *
 * Invariants
 *   (I1) inline contents => no piece of the map in block 0. (They may have extents behind them: a small file
 *        that was written to far beyond its end.)
 *   (I2) the bytes of a file in order of precedence: dirty blocks, blocks being written, then inline contents
 *        or the map; zeros where none has any. Bytes beyond the size are zeros in all of them.
 *   (I3) every dirty block and every block being written has one block reserved in the volume.
 *   (I4) an immediate update of the row in the catalog (nlink, parent) never meets an older row on its way
 *        there in a batch: see sfs_lockset_lock. */
#ifndef SFS_VFS_INODE_H
#define SFS_VFS_INODE_H

#include <sys/queue.h>
#include <sys/stat.h>
#include <uthash.h>

#include "fs/vfs/dirty.h"
#include "fs/vfs/map.h"
#include "fs/vfs/vfs.h"

struct sfs_vfs;

/* Blocks that are being written. */
struct sfs_inode_run {
    TAILQ_ENTRY(sfs_inode_run) link;
    uint64_t off, stamp;
    uint32_t len;            /* bytes; the last block may end early, at the end of the file */
    unsigned nblocks;
    struct sfs_inode *inode; /* whose it is */
    struct sfs_buf *buf;
    unsigned nextents;
    struct sfs_extent extents[]; /* as many as there are blocks: none is shorter */
};
TAILQ_HEAD(sfs_inode_run_list, sfs_inode_run);

/* Lists that an inode can be on; being on one holds a reference (but the lru, which means that there is
 * none). */
struct sfs_inode_link {
    TAILQ_ENTRY(sfs_inode_link) link;
    struct sfs_inode *inode;
    bool on;
};
TAILQ_HEAD(sfs_inode_list, sfs_inode_link);

struct sfs_inode {
    struct sfs_vfs *vfs;
    uint64_t ino;

    /* table_lock */
    UT_hash_handle hh;
    unsigned refs;           /* users and lists */
    uint64_t nlookup;        /* the kernel's */
    struct sfs_inode_link lru, pending, batch, dirty_link, urgent, reap;
    uint64_t dirty_blocks;   /* dirty or being written; on `dirty` while not 0 */
    uint64_t dirty_since_ns;
    uint64_t want_limit;     /* write-back is asked to write all with stamps up to this */
    bool stuck;              /* its last write failed: left alone until the next commit interval */

    /* error_lock */
    int error;               /* the last write-back error */
    uint64_t error_seq;      /* how many there were */
    bool error_reported;     /* somebody was told of the last */

    /* lock */
    struct sfs_mutex lock;
    struct sfs_cond changed; /* `modifying` was given up, a run ended */
    bool modifying;
    bool loaded;             /* row */
    bool data_loaded;        /* map, inline contents */
    /* nlink 0, not open: gone from the catalog or on its way. Only getattr still works */
    bool dead;
    bool no_capability;      /* it is known not to have security.capability */
    bool attr_dirty;         /* the row differs from the catalog's in more than size */
    bool in_batch;           /* handed over to a commit that isn't done */
    unsigned nopen;
    struct sfs_inode_row row;
    uint64_t catalog_size;   /* size in the catalog, or in the batch on its way there */
    uint64_t base_size;      /* what lies below is stored or a hole that a program made: see pending.c */
    bool emptied;            /* truncated to nothing since the last collect, see pending.c */
    unsigned syncing;        /* fsyncs under way */
    struct sfs_map map;
    struct sfs_dirty dirty;
    struct sfs_inode_run_list runs;
    uint8_t *inline_data;
    uint32_t inline_len;
    bool inline_stored;      /* the catalog has inline contents */
    bool inline_changed;     /* it has not been given these */
    bool no_inline;          /* block 0 is to be stored as an extent */
};

/* --- itable.c: the table of inodes; no inode lock held -------------------------------------------------- */
/* A reference to the inode, its row loaded. -ENOENT, also for inodes of other spaces and for orphans of a
 * crash. */
int sfs_inode_get(struct sfs_vfs *vfs, uint64_t ino, struct sfs_inode **out);
struct sfs_inode *sfs_inode_alloc(struct sfs_vfs *vfs);            /* for sfs_inode_adopt; NULL */
/* one that was not adopted. NULL is fine */
void sfs_inode_free(struct sfs_inode *i);
/* Puts a new inode (just inserted into the catalog) into the table: takes over i, and yields a reference to
 * it, or to what a look-up that was faster has made. */
int sfs_inode_adopt(struct sfs_inode *i, const struct sfs_inode_row *row, struct sfs_inode **out);
/* NULL is fine; may be called with other inodes' locks held */
void sfs_inode_put(struct sfs_inode *i);
void sfs_inode_count_lookup(struct sfs_inode *i);                  /* with a reference */
bool sfs_inode_known(struct sfs_vfs *vfs, uint64_t ino);           /* is it in memory? */
void sfs_itable_free(struct sfs_vfs *vfs);                         /* everything; nobody uses any */
/* table_lock held: adds to or takes from a list, with its reference. The caller has a reference of its own.
 * */
void sfs_inode_list_add(struct sfs_inode_list *l, struct sfs_inode_link *k);
void sfs_inode_list_remove(struct sfs_inode_list *l, struct sfs_inode_link *k);
void sfs_inode_hold(struct sfs_inode *i); /* one more reference; table_lock held, and it is known to live */

/* --- inode.c: lock held unless said otherwise ----------------------------------------------------------- */
/* regular files and symlinks: map and inline contents */
int sfs_inode_load_data(struct sfs_inode *i);
void sfs_inode_modify_begin(struct sfs_inode *i);                  /* without the lock; returns with it */
void sfs_inode_modify_end(struct sfs_inode *i);                    /* gives up both */
void sfs_inode_mark_pending(struct sfs_inode *i);                  /* it has something for the next collect */
void sfs_inode_touch(struct sfs_inode *i, bool mtime);             /* ctime, and mtime, are now */
void sfs_inode_accessed(struct sfs_inode *i);                      /* atime, by relatime */
/* set-id bits and security.capability go; or one of them */
int sfs_inode_kill_priv(struct sfs_inode *i);
void sfs_inode_drop_set_id(struct sfs_inode *i);
int sfs_inode_drop_capability(struct sfs_inode *i);
int sfs_inode_stat(struct sfs_inode *i, struct stat *st);
/* data loaded: what the map and the inline contents take, in 512 bytes */
uint64_t sfs_inode_stored_sectors(const struct sfs_inode *i);
/* the row for an immediate update */
void sfs_inode_catalog_row(const struct sfs_inode *i, struct sfs_inode_row *row);
/* with the catalog's lock too: writes that row */
int sfs_inode_update_now(struct sfs_inode *i);
void sfs_inode_drop_inline(struct sfs_inode *i);
bool sfs_inode_run_overlaps(struct sfs_inode *i, uint64_t from, uint64_t to);
/* until nothing of [from, to) is being written; drops the lock meanwhile */
void sfs_inode_wait_runs(struct sfs_inode *i, uint64_t from, uint64_t to);
/* marks it dead and drops its contents in memory */
void sfs_inode_bury(struct sfs_inode *i);
struct sfs_time sfs_vfs_now(struct sfs_vfs *vfs);

/* Locks several inodes in order of number. A row in a batch that was collected but isn't applied would
 * overwrite an immediate update, so: when one of `rows` (the first nrows of v) is in a batch, or gate is set,
 * the commit gate is entered first, which waits for the batch to be applied. */
#define SFS_LOCKSET_MAX 4u
struct sfs_lockset {
    struct sfs_vfs *vfs;
    struct sfs_inode *v[SFS_LOCKSET_MAX], *sorted[SFS_LOCKSET_MAX];
    unsigned n, nsorted;
    bool gated;
};
/* Rank: after the namespace lock. v may hold NULLs and repeats; nrows: see above. */
void sfs_lockset_lock(struct sfs_lockset *s, unsigned nrows, bool gate);
void sfs_lockset_unlock(struct sfs_lockset *s);

/* --- content.c: reading and changing contents in memory ------------------------------------------------- */
/* Reads [off, off + len) as it is now, zeros beyond the end. No lock held. */
int sfs_inode_read(struct sfs_inode *i, uint64_t off, size_t len, void *out);
/* The following: lock and `modifying` held; data loaded; they may drop the lock in between. */
int sfs_inode_write(struct sfs_inode *i, const void *data, size_t len, uint64_t off, size_t *n);
int sfs_inode_truncate(struct sfs_inode *i, uint64_t size);
int sfs_inode_punch(struct sfs_inode *i, uint64_t from, uint64_t to);
/* The first byte at or after off, before the size, that is stored (data) or in a hole; the size when there is
 * none. */
uint64_t sfs_inode_next_data(struct sfs_inode *i, uint64_t off);
uint64_t sfs_inode_next_hole(struct sfs_inode *i, uint64_t off);

/* --- flush.c: write-back; no lock held unless said otherwise -------------------------------------------- */
/* Writes out all that was dirty at the call; waits. 0 or the first error that came up. */
int sfs_flush_inode(struct sfs_inode *i);
/* The same for every inode that became dirty up to `before_ns`. Errors stay with the inodes. 0 or -ENOMEM
 * (nothing done). */
int sfs_flush_all(struct sfs_vfs *vfs, uint64_t before_ns);
/* inode lock held, data loaded: a small file without extents goes into the catalog, with the next collect. True
 * when that was done. */
bool sfs_flush_inline(struct sfs_inode *i);
int sfs_writeback_start(struct sfs_vfs *vfs);
void sfs_writeback_stop(struct sfs_vfs *vfs);
/* Waits until there is room for len more dirty bytes. 0, -EROFS, or the error that keeps all dirty data from
 * being written. */
int sfs_writeback_throttle(struct sfs_vfs *vfs, size_t len);
/* inode lock held: the number of blocks dirty or being written has changed. Less gives the reservations back.
 * */
void sfs_writeback_account(struct sfs_inode *i, int64_t blocks);
/* inode lock held: there may be full chunks to write */
void sfs_writeback_hint(struct sfs_inode *i);
void sfs_inode_set_error(struct sfs_inode *i, int error);          /* any lock may be held */
/* The error that the holder of *seen has not been told, once; 0: none. */
int sfs_inode_take_error(struct sfs_inode *i, uint64_t *seen);
uint64_t sfs_inode_error_mark(struct sfs_inode *i);                /* for a new open file */

/* --- pending.c, reap.c ---------------------------------------------------------------------------------- */
void sfs_pending_client_init(struct sfs_vfs *vfs);
int sfs_timer_start(struct sfs_vfs *vfs);
void sfs_timer_stop(struct sfs_vfs *vfs);
/* inode lock and catalog lock held, nlink is 0, nobody has it open, not in a batch: deletes it from the
 * catalog if that is little work (*done), else leaves it for the reaper. */
int sfs_reap_small(struct sfs_inode *i, bool *done);
void sfs_reap_later(struct sfs_inode *i);                          /* with a reference */
int sfs_reaper_start(struct sfs_vfs *vfs);
void sfs_reaper_stop(struct sfs_vfs *vfs);                         /* finishes what is queued */
void sfs_reaper_wait(struct sfs_vfs *vfs);                         /* until nothing is queued */

#endif
