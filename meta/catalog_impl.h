/* Inside of the catalog, shared by its files (one a noun). Not for other layers. */
#ifndef SFS_META_CATALOG_IMPL_H
#define SFS_META_CATALOG_IMPL_H

#include <sqlite3.h>
#include <stdatomic.h>
#include "meta/catalog.h"
#include "meta/page.h"
#include "meta/stmt.h"

#define SFS_SCHEMA_VERSION 1
#define SFS_APPLICATION_ID 0x73706366
#define SFS_FIRST_INO 16u
#define SFS_INLINE_LIMIT 4096u /* of a row of inline_data: SFS_INLINE_MAX, or a symlink target of PATH_MAX   \
                                */

/* Feature bits this program knows (schema.sql). */
#define SFS_CATALOG_COMPAT 0u
#define SFS_CATALOG_RO_COMPAT 0u
#define SFS_CATALOG_INCOMPAT 0u

extern const char sfs_schema_sql[];

/* How many inodes each space has: kept here and written with the commit. */
struct sfs_inode_count {
    int space;
    bool dirty;
    int64_t count;
};

struct sfs_checkpointer;

struct sfs_catalog {
    struct sfs_env *env;
    struct sfs_replicas *r;
    struct sfs_catalog_opts opts;
    struct sfs_checkpointer *ckpt; /* NULL when read-only */
    _Atomic bool broken;
    _Atomic uint64_t pending_bytes;
    _Atomic uint64_t wal_frames; /* in the WAL after the last commit */
    _Atomic uint64_t wal_most;   /* frames for which its file has grown so far */
    _Atomic uint64_t free_pages; /* of the database, as of the last commit */
    _Atomic unsigned snapshots;  /* running: they hold up the WAL's restart */

    struct sfs_mutex lock; /* guards all below */
    sqlite3 *db; /* the writer connection; always inside a transaction, unless broken or read-only */
    sqlite3_stmt *stmts[SFS_STMT_COUNT];
    bool stmt_busy[SFS_STMT_COUNT]; /* between open and close */
    bool changed;                   /* since the last commit */
    bool in_tx;
    uint64_t seq; /* of the last commit */
    uint64_t next_ino, next_disk, next_space, next_group;
    uint64_t name_seed;
    struct sfs_inode_count *counts;
    unsigned ncounts;
};

/* --- db.c: connections --- */
/* Opens a connection on the replica set with the settings that all of them share. */
int sfs_db_open(struct sfs_replicas *r, bool readonly, sqlite3 **out);
int sfs_db_exec(sqlite3 *db, const char *sql); /* 0 or -errno */
int sfs_db_int(sqlite3 *db, const char *sql,
               int64_t *out); /* first column of the first row; -ENOENT: no row */
/* What an SQLite result code means to callers. */
int sfs_db_errno(sqlite3 *db, int rc);

/* --- catalog.c --- */
/* Records that the transaction is in doubt. */
void sfs_catalog_break(struct sfs_catalog *cat);
/* Format version and feature bits: 0, or -EOPNOTSUPP, -EROFS (it may only be read), -EUCLEAN with words. */
int sfs_catalog_check_version(sqlite3 *db, bool readonly, struct sfs_error *err);
void sfs_catalog_count_inodes(struct sfs_catalog *cat, int space, int delta);

/* --- dentry.c --- */
/* Where a name belongs in its directory: the first of its possible cookies. */
uint64_t sfs_dentry_cookie(uint64_t seed, const void *name, size_t len);

/* --- checkpointer.c --- */
int sfs_checkpointer_start(struct sfs_catalog *cat, struct sfs_checkpointer **out);
void sfs_checkpointer_stop(struct sfs_checkpointer *c); /* NULL is fine; waits for a running checkpoint */
/* After a commit: the WAL now has `frames`. Starts a checkpoint when enough are new. */
void sfs_checkpointer_note(struct sfs_checkpointer *c, uint64_t frames);
/* Waits for one whole checkpoint attempt that began after this call. 0 when all frames are in the database
 * file, else -EAGAIN or why it failed. */
int sfs_checkpointer_wait(struct sfs_checkpointer *c);
/* Has everything in the WAL been copied to the database since the last note? Then a new transaction may begin
 * the WAL anew. */
bool sfs_checkpointer_all_done(struct sfs_checkpointer *c);

#endif
