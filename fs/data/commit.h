/* Commit: rule 2 of DESIGN.md, in one place.
 *
 * Clients (each mounted space) hold changes in memory: dirty data, and pending changes (extents written but not in the catalog). Namespace changes and chmod-like ones go straight to the catalog's open transaction.
 *
 *   IDLE -> PREPARE  client->prepare: write dirty data out (no lock held)
 *        -> CUTOFF   the gate is closed; client->collect: hand over all pending changes
 *        -> SYNC     sync every disk written to; on failure rewrite the pending extents of its groups elsewhere, sync again
 *        -> APPLY    catalog lock: apply the changes, sfs_catalog_commit; the gate is opened
 *        -> DURABLE  sfs_catalog_commit_sync; freed space becomes usable; waiters wake
 *
 * Invariants: (C1) a row is applied only when its data was synced on every copy of its group. (C2) freed blocks are reused only after DURABLE of the commit that freed them, and after readers left (quiesce).
 * (C3) the gate: an operation that makes the catalog depend on pending changes of an inode (rename over an existing file, clone) runs inside sfs_commit_gate_enter/leave; none runs between CUTOFF and APPLY, so it and
 * what it depends on are in one commit. (C4) commits are in order; a waiter that asked before CUTOFF is covered.
 * (C5) a failure after CUTOFF that leaves doubt makes the pool read-only, sticky. */
#ifndef SFS_DATA_COMMIT_H
#define SFS_DATA_COMMIT_H

#include "fs/data/data.h"

/* One inode's pending changes, in the order: delete ranges, insert extents, inline, row. Everything in it belongs to the batch once added. */
struct sfs_range { uint64_t from, to; };
struct sfs_change {
    uint64_t ino;
    struct sfs_range *deleted; unsigned ndeleted;    /* file ranges whose rows go (whole rows only) */
    struct sfs_extent *extents; unsigned nextents;   /* rows to insert; references are the batch's */
    bool set_inline; uint8_t *inline_data; uint32_t inline_len; /* set_inline with NULL removes */
    bool set_row; struct sfs_inode_row row;          /* update the inode row: size, times and all; skipped when the inode is gone */
    void *owner;                                     /* the client's; for `lost` */
};
struct sfs_batch;
int sfs_batch_add(struct sfs_batch *b, const struct sfs_change *c); /* takes over c's arrays (malloc'ed), also on failure. 0 or -ENOMEM */

struct sfs_commit_client {
    /* Write dirty data out. all: everything; else only what is older than the commit interval. Errors stay with the inodes. No lock held by the caller. */
    void (*prepare)(void *ctx, bool all);
    /* Gate closed: add every inode's pending changes. */
    int (*collect)(void *ctx, struct sfs_batch *b);
    /* Data of a change could not be kept (simple space, disk died before its sync): the owner reports EIO at the next fsync/close. */
    void (*lost)(void *ctx, void *owner, uint64_t ino);
    /* The commit with the batch last collected is durable (0), or failed for good (-errno; the pool is read-only then). */
    void (*done)(void *ctx, int result);
    void *ctx;
    /* A mounted space: stores [from, to) of a file anew (sfs_vfs_rewrite). NULL for others. */
    int space;
    int (*rewrite)(void *ctx, uint64_t ino, uint64_t from, uint64_t to);
    unsigned calls;    /* fs/data's: rewrites under way */
};
/* Asks the client that has the space mounted. -ENODEV: none has. No lock held. */
int sfs_commit_rewrite(struct sfs_data *d, int space, uint64_t ino, uint64_t from, uint64_t to);
int sfs_commit_register(struct sfs_data *d, struct sfs_commit_client *c);     /* kept by reference until unregister. -EMFILE: more spaces are mounted than a pool bears (64) */
void sfs_commit_unregister(struct sfs_data *d, struct sfs_commit_client *c);  /* waits for a commit and for rewrites under way */

/* Everything that was pending or in the catalog's transaction before the call is durable on return. Concurrent callers share commits; the first of them runs it. prepare_all: write all dirty data of all
 * clients first (sync, umount); false: only what is pending counts (fsync: the caller has flushed its own inode). 0 or -errno (-EROFS, -EIO). No lock held. */
int sfs_commit_wait(struct sfs_data *d, bool prepare_all);
/* Asks for a commit soon (volume reached, memory pressure); returns at once. */
void sfs_commit_kick(struct sfs_data *d);
/* The gate (C3): many may be inside at once. Rank SFS_RANK_GATE: enter after SFS_RANK_NAMESPACE, before SFS_RANK_INODE; leave when no inner lock is held. Keep it short. */
void sfs_commit_gate_enter(struct sfs_data *d);
void sfs_commit_gate_leave(struct sfs_data *d);
/* With the catalog's lock held: rows of a file are deleted now, outside of a batch (the inode itself is going): `removed` for sfs_catalog_extent_delete; ctx is d. The space is freed by the next commit. */
void sfs_commit_removed(const struct sfs_extent_row *row, void *d);

#endif
