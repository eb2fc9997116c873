/* Inside of the replica set, shared by replicas.c (members, losses), replica_io.c (bytes and syncs), vfs.c
 * (SQLite's methods), wal_index.c (its shared memory and locks), wal_sums.c and recover.c. Protocol and
 * invariants: meta/README.md. */
#ifndef SFS_META_REPLICAS_IMPL_H
#define SFS_META_REPLICAS_IMPL_H

#include <sqlite3.h>
#include <sys/queue.h>
#include "meta/replicas.h"
#include "meta/page.h"

#define SFS_WAL_FILE SFS_CATALOG_FILE "-wal"
#define SFS_GATHER_BYTES (1u << 20) /* adjacent writes are collected up to this and written at once */
#define SFS_WAL_HEADER_BYTES 32u    /* what SQLite writes at offset 0 when the WAL begins anew */
#define SFS_MENDED_NOTES 16
#define SFS_REPLICAS_MAX 16u /* members at once, joining and lost ones included */

enum sfs_rfile_id { SFS_RFILE_DB, SFS_RFILE_WAL, SFS_RFILE_COUNT };

/* What became of a replica. LIVE: all reads, writes and syncs. JOINING: being copied to, gets every write.
 * JOINED: copied, gets writes and syncs, not yet counted. GONE: no I/O any more; `told` when the owner knows.
 */
enum sfs_replica_state { SFS_REPLICA_LIVE, SFS_REPLICA_JOINING, SFS_REPLICA_JOINED, SFS_REPLICA_GONE };

struct sfs_sync_job {
    STAILQ_ENTRY(sfs_sync_job) next;
    const char *file;
    int rc;
    bool done;
};

struct sfs_replica {
    struct sfs_replicas *set;
    struct sfs_store store;
    enum sfs_replica_state state;
    int why; /* GONE: -errno */
    bool told;
    bool behind;               /* recovery found it older than a crash explains, or damaged */
    unsigned busy;             /* calls running without the set's lock */
    struct sfs_thread *thread; /* syncs this store beside the others; started at first need */
    STAILQ_HEAD(, sfs_sync_job) jobs;
    struct sfs_cond work;
    bool stop;
};

/* One of the two files, as SQLite sees it. */
struct sfs_rfile {
    const char *name;
    uint64_t size;          /* gathered bytes included */
    uint64_t write_seq;     /* bumped by every write */
    uint64_t synced_seq;    /* all writes up to this one are durable */
    bool syncing, flushing; /* a thread is at it, without the lock */
    uint64_t gather_off;
    size_t gather_len;
    uint8_t *gather; /* SFS_GATHER_BYTES */
};

struct sfs_wal_sum;
struct sfs_wal_index;

struct sfs_replicas {
    struct sfs_env *env;
    struct sfs_replicas_events ev;
    bool readonly;
    bool merge; /* read-only, at the top: its WAL in memory is made whole from all stores */
    sqlite3_vfs vfs;
    char vfs_name[48];
    struct sfs_wal_index *index; /* has its own leaf lock */

    struct sfs_mutex m; /* rank SFS_RANK_REPLICAS. Held over reads and writes of stores, not over syncs or
                           callbacks. Guards all below */
    struct sfs_cond c;  /* any change of: syncing, flushing, settling, busy, a job's done */
    struct sfs_replica *v[SFS_REPLICAS_MAX];
    unsigned n;
    unsigned primary; /* index of the one that is read first */
    bool loaded;      /* sizes are known */
    struct sfs_rfile file[SFS_RFILE_COUNT];
    int failed; /* sticky: the WAL could not be written or synced anywhere, or a loss could not be recorded */
    bool settling;      /* a thread is telling the owner of losses */
    uint64_t last_page; /* number of the page that a checkpoint writes last; 0 = none */
    bool deferred_valid;
    uint8_t deferred[SFS_PAGE_BYTES]; /* that page, waiting for the others to be synced */
    uint8_t page[SFS_PAGE_BYTES];     /* scratch */
    struct sfs_wal_sum *sums;         /* uthash by offset */
    uint8_t *wal_image;               /* readonly: the primary's WAL, read once */
    struct {
        int id;
        char what[64];
    } mended[SFS_MENDED_NOTES];
    unsigned nmended;
};

/* --- replicas.c --- */
/* A member's call failed. Lock held; the owner is told by the next sfs_rset_settle. */
void sfs_rset_lose(struct sfs_replicas *r, struct sfs_replica *rep, int why);
void sfs_rset_mended(struct sfs_replicas *r, int id, const char *file, uint64_t off);
/* Tells the owner what is new (with the lock released meanwhile). wait: until no other thread is at it
 * either. Returns r->failed. */
int sfs_rset_settle(struct sfs_replicas *r, bool wait);
/* Number of members that are LIVE. */
unsigned sfs_rset_live(const struct sfs_replicas *r);
/* Replaces last_page (0 = none). Takes the lock. */
void sfs_rset_set_last_page(struct sfs_replicas *r, uint64_t page);
int sfs_rset_start_helper(struct sfs_replica *rep); /* lock held */

/* --- replica_io.c: lock held on entry and exit, all return 0 or -errno --- */
/* Reads what SQLite would see. *got: bytes, less than len at the end of the file. Checks and mends. */
int sfs_rset_read(struct sfs_replicas *r, enum sfs_rfile_id id, void *buf, size_t len, uint64_t off,
                  size_t *got);
int sfs_rset_write(struct sfs_replicas *r, enum sfs_rfile_id id, const void *buf, size_t len, uint64_t off);
int sfs_rset_truncate(struct sfs_replicas *r, enum sfs_rfile_id id, uint64_t size);
int sfs_rset_flush(struct sfs_replicas *r,
                   enum sfs_rfile_id id); /* gathered bytes to all stores; may release the lock */
int sfs_rset_sync(struct sfs_replicas *r, enum sfs_rfile_id id); /* releases the lock while the stores sync */
/* The sync that ends a checkpoint: the database's pages, then the page that was held back, then that. */
int sfs_rset_sync_checkpoint(struct sfs_replicas *r);
/* Finds the sizes of the files, once; read-only: the primary's WAL into memory. */
int sfs_rset_load(struct sfs_replicas *r);
/* A verified page as it is stored (not what waits in memory), mended where need be. */
int sfs_rset_read_page(struct sfs_replicas *r, uint64_t page, uint8_t *out);
/* Takes the WAL's flush for sfs_catalog_commit: locks by itself. */
int sfs_replicas_flush_wal(struct sfs_replicas *r);

/* One store's bytes: count read, short at the end (0 when there is no such file), or -errno. */
int64_t sfs_store_read(const struct sfs_store *s, const char *name, void *buf, size_t len, uint64_t off);
/* Its size, 0 when there is no such file, or -errno. */
int64_t sfs_store_size(const struct sfs_store *s, const char *name);

/* --- wal_sums.c: checksums of the pieces written to the WAL --- */
int sfs_wal_sums_put(struct sfs_wal_sum **sums, uint64_t off, const void *data, size_t len);
/* false: a piece that lies whole in the range has other bytes. Ranges for which nothing is remembered pass.
 */
bool sfs_wal_sums_check(struct sfs_wal_sum *sums, uint64_t off, const void *data, size_t len);
/* Length of the run of whole pieces that begins at off, max bytes at most; max when none begins there. */
size_t sfs_wal_sums_span(struct sfs_wal_sum *sums, uint64_t off, size_t max);
void sfs_wal_sums_clear(struct sfs_wal_sum **sums);

/* A WAL is held in memory when it is looked at, and its size is a disk's word: one beyond this counts as damaged. It grows to a quarter of that at most (README.md, a commit). */
#define SFS_WAL_SANE_BYTES (1ll << 30)

/* --- wal_mend.c --- */
/* Looks through the WAL of stores[self] and has `put` replace what is bad in it by what another store has good; *mended: how many pieces that was. Ends at the first frame that no
 * store has good. Returns what put or reading stores[self] failed with. */
int sfs_wal_mend(const struct sfs_store *const *stores, unsigned n, unsigned self,
                 int (*put)(void *ctx, uint64_t off, const void *bytes, size_t len), void *ctx, unsigned *mended);

/* --- vfs.c, wal_index.c --- */
int sfs_vfs_register(struct sfs_replicas *r);
void sfs_vfs_unregister(struct sfs_replicas *r);

/* A connection's hold on the database's locks and on the WAL index. */
struct sfs_index_user {
    LIST_ENTRY(sfs_index_user) next;
    int level;                  /* SQLITE_LOCK_* of the database file */
    uint16_t shared, exclusive; /* WAL index locks, a bit each */
};
struct sfs_wal_index *sfs_wal_index_new(struct sfs_env *env);
void sfs_wal_index_free(struct sfs_wal_index *x);
void sfs_wal_index_join(struct sfs_wal_index *x, struct sfs_index_user *u);
void sfs_wal_index_leave(struct sfs_wal_index *x,
                         struct sfs_index_user *u); /* the last one out drops the memory */
int sfs_wal_index_map(struct sfs_wal_index *x, unsigned region, size_t bytes, bool extend,
                      void volatile **out);
int sfs_wal_index_lock(struct sfs_wal_index *x, struct sfs_index_user *u, int offset, int n, int flags);
void sfs_wal_index_barrier(struct sfs_wal_index *x);
int sfs_wal_index_lock_db(struct sfs_wal_index *x, struct sfs_index_user *u, int level);
void sfs_wal_index_unlock_db(struct sfs_wal_index *x, struct sfs_index_user *u, int level);
bool sfs_wal_index_reserved(struct sfs_wal_index *x);

#endif
