/* The replica set: a sqlite3_vfs that writes the catalog's database and its WAL to every store, syncs them in parallel, reads from one, checks what it reads, and mends it from
 * another. It copies bytes and orders syncs; it never parses SQLite's formats beyond the page trailer.
 *
 * Page trailer: the last 8 bytes of each database page (SQLite's reserved bytes) hold XXH3-64 of the page's other bytes, seeded with the page number: written by the VFS
 * on every write to the database file (into a copy of the page), compared on every read. WAL: bytes are written as they are; the set remembers the checksum of each piece written
 * since the WAL last began, and compares on every read. At open the WAL is checkpointed away at once, so nothing is ever read that isn't covered.
 *
 * Loss of a store: any failing call drops it: on_lost is told from a thread of the set's caller before the failing operation returns success, so that the epoch is bumped on the
 * remaining disks before a commit is acknowledged; when on_lost fails, or no store is left, the operation fails. */
#ifndef SFS_META_REPLICAS_H
#define SFS_META_REPLICAS_H

#include <stdbool.h>
#include "fs/base/env.h"
#include "fs/base/error.h"
#include "meta/store.h"

#define SFS_CATALOG_FILE "catalog.db"

struct sfs_replicas;
struct sfs_replicas_events {
    /* Store `id` was dropped; why: -errno. Return 0 when the loss has been recorded durably (epoch bumped). Called by any thread that uses the set, one at a time, with no lock
     * of the set held but possibly with the catalog's: it must not call into the catalog. It may call sfs_replicas_drop (another disk failed while its label was written). */
    int (*on_lost)(void *ctx, int id, int why);
    /* A page or WAL piece of store `id` was bad and was rewritten from another store. Called like on_lost. */
    void (*on_mended)(void *ctx, int id, const char *what);
    void *ctx;
};
/* Stores are copied. Registers a VFS under a unique name. With readonly nothing is ever written to a store (the WAL is then replayed into memory). */
int sfs_replicas_open(struct sfs_env *env, const struct sfs_store *stores, unsigned n, const struct sfs_replicas_events *ev, bool readonly,
                      struct sfs_replicas **out);
void sfs_replicas_close(struct sfs_replicas *r);
const char *sfs_replicas_vfs_name(const struct sfs_replicas *r);
unsigned sfs_replicas_count(struct sfs_replicas *r);                    /* stores still in use */
unsigned sfs_replicas_ids(struct sfs_replicas *r, int *ids, unsigned max);
/* Makes all stores equal to the one with the newest commit: tries each by itself (SQLite recovers its WAL; the catalog's commit counter tells), picks the highest that passes a quick check,
 * copies its database and WAL over the others where they differ. For catalogs of one epoch only. -ENOENT: no store has a catalog; -EUCLEAN: all are damaged, or the newest is and the
 * others are older than a crash explains (words in err; nothing was changed but bad bytes). */
int sfs_replicas_recover(struct sfs_replicas *r, struct sfs_error *err);
/* Did recovery find this store's catalog older than a crash explains (by more than the one commit that can be under way), or damaged, while others had it whole? Then its disk is
 * from another time, or has lost more than that: all that is on it is to be verified. */
bool sfs_replicas_was_behind(struct sfs_replicas *r, int id);
/* As above, and compares all stores page by page even where their commit counters say that they are equal. For spacesfs-check. */
int sfs_replicas_recover_hard(struct sfs_replicas *r, struct sfs_error *err);
/* What the stores of a set that was opened read-only hold; reads all of them. */
struct sfs_replica_report {
    int id;
    char name[65];
    enum { SFS_REPLICA_CURRENT, SFS_REPLICA_BEHIND, SFS_REPLICA_DAMAGED, SFS_REPLICA_NONE, SFS_REPLICA_FAILED } found;
    int rc;                    /* FAILED: why */
    int64_t commit_seq;        /* CURRENT, BEHIND */
    uint64_t bad_pages;        /* checksum does not hold */
    uint64_t other_pages;      /* it holds, but the chosen store says something else. Without a log anywhere, that cannot be */
    uint64_t log_bytes;
    bool log_cut;              /* its log holds less than the chosen one's, though it is as long */
};
/* out: SFS_REPLICAS_REPORTED at most; *n of them, the chosen one first. 0 also when none can be
 * chosen, or none but one that is older than a damaged one (then none is CURRENT). */
#define SFS_REPLICAS_REPORTED 16u
int sfs_replicas_survey(struct sfs_replicas *r, struct sfs_replica_report *out, unsigned *n);
/* Adds a store: copies everything while writes go on, then joins it. On success it has all that is committed, synced. The caller bumps the epoch. */
int sfs_replicas_add(struct sfs_replicas *r, const struct sfs_store *s, struct sfs_error *err);
/* Takes a store out in good order (a disk is being removed); its files are deleted. -EBUSY for the last one, -ENOENT for one that isn't in the set. No on_lost: the caller bumps
 * the epoch. */
int sfs_replicas_remove(struct sfs_replicas *r, int id);
/* Drops a store at once because its disk is out of use (no I/O on it). on_lost is called as for a failure. Unknown ids are fine. */
int sfs_replicas_drop(struct sfs_replicas *r, int id, int why);
/* Syncs the WAL on all stores in parallel (one thread per further store is kept): what sfs_catalog_commit_sync does. */
int sfs_replicas_sync_wal(struct sfs_replicas *r);
/* Compares all stores page by page with the trailers, mends what is bad; counts bad pages. Part of scrub. */
int sfs_replicas_scrub(struct sfs_replicas *r, uint64_t *bad);

#endif
