/* The catalog: typed queries over the SQLite database (schema.sql). The only layer that knows SQL.
 *
 * One writer connection with one long transaction: every change is made in it under the catalog's lock (sfs_catalog_lock, rank SFS_RANK_CATALOG) and is seen at once by every later call;
 * sfs_catalog_commit writes it to the WAL (no sync) and begins the next; sfs_catalog_commit_sync, called without the lock, makes all commits so far durable on every replica.
 * A checkpointer thread with a connection of its own keeps the WAL small (back-pressure: sfs_catalog_commit waits when it is over its limit).
 * All functions below that take `cat` need the lock held unless they say otherwise. They return 0 or -errno: -ENOENT no such row, -EEXIST, -ENOSPC the catalog cannot grow, -EUCLEAN bad bytes on all
 * replicas, -EROFS read-only, -EIO. After -EIO/-EUCLEAN/unexpected SQLite errors from a write the transaction is in doubt: the catalog turns broken, every later write returns -EROFS, sticky
 * (sfs_catalog_broken). No cache spill: nothing reaches the disks before commit.
 * Callbacks of the *_each and *_ranges functions run inside their query: they may call other queries, not the one they are in, and may not change the table that it reads. */
#ifndef SFS_META_CATALOG_H
#define SFS_META_CATALOG_H

#include "fs/base/uuid.h"
#include "meta/replicas.h"

#define SFS_CATALOG_NAME_MAX 64
#define SFS_FILENAME_MAX 255

struct sfs_catalog;

struct sfs_catalog_opts {
    bool readonly;
    uint64_t wal_limit_bytes;    /* 0 = 64 MiB: commits wait for the checkpointer beyond it */
    uint64_t cache_bytes;        /* 0 = 64 MiB: SQLite page cache of the writer */
    uint64_t (*free_bytes)(void *ctx); /* room left for the catalog on its tightest replica; may be NULL. Growth that would leave less than a reserve is refused, see sfs_catalog_room */
    void *ctx;
};
/* Makes a new, empty catalog in the (empty) stores of r: schema, pool row. Durable on return. */
int sfs_catalog_create(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_uuid *pool, const char *pool_name, struct sfs_error *err);
/* Opens after sfs_replicas_recover. Checks user_version and feature bits: -EOPNOTSUPP with words, or -EROFS with words where it may be read only. Takes no ownership of r, which must outlive it. */
int sfs_catalog_open(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_catalog_opts *opts, struct sfs_catalog **out, struct sfs_error *err);
/* Without commit: what was not committed is lost. Checkpoints and truncates the WAL when that works and nothing is broken. */
void sfs_catalog_close(struct sfs_catalog *cat);

void sfs_catalog_lock(struct sfs_catalog *cat);
void sfs_catalog_unlock(struct sfs_catalog *cat);
/* Writes the transaction to the WAL and begins the next; 0 at once when nothing changed (then *changed = false; changed may be NULL). Bumps the commit counter. */
int sfs_catalog_commit(struct sfs_catalog *cat, bool *changed);
int sfs_catalog_commit_sync(struct sfs_catalog *cat);           /* WITHOUT the lock */
uint64_t sfs_catalog_commit_seq(struct sfs_catalog *cat);        /* the commit counter, of the last commit */
bool sfs_catalog_broken(struct sfs_catalog *cat);                /* no lock needed */
uint64_t sfs_catalog_pending_bytes(struct sfs_catalog *cat);     /* rough size of the open transaction: commits come by volume too. No lock needed */
/* May the catalog grow by about `bytes` (an operation that adds rows asks before it begins)? 0 or -ENOSPC; a reserve stays for deletes. No lock needed. */
int sfs_catalog_room(struct sfs_catalog *cat, uint64_t bytes);
/* Snapshot: a consistent compressed copy of the database as of the last commit, to every store given as "snapshot-N" (keep newest `keep`). WITHOUT the lock. */
int sfs_catalog_snapshot(struct sfs_catalog *cat, const struct sfs_store *stores, unsigned n, unsigned keep, struct sfs_error *err);

/* --- pool properties: text by key ("heal-delay", "next-ino" …) -------------------------------------------------------------------------- */
int sfs_catalog_prop_get(struct sfs_catalog *cat, const char *key, char *out, size_t cap);  /* -ENOENT */
int sfs_catalog_prop_set(struct sfs_catalog *cat, const char *key, const char *value);       /* NULL deletes */

/* --- disks --------------------------------------------------------------------------------------------------------------------------- */
enum sfs_usage { SFS_USAGE_AUTO = 0, SFS_USAGE_JOURNAL = 1, SFS_USAGE_HOT_SPARE = 2, SFS_USAGE_RETIRED = 3 };
struct sfs_disk_row {
    int id;                       /* small, never reused; 0 on insert: assigned */
    struct sfs_uuid uuid;
    char name[SFS_CATALOG_NAME_MAX + 1];
    int kind, media;              /* enum sfs_disk_kind, sfs_media */
    enum sfs_usage usage;
    char path[512];               /* last seen */
    uint64_t capacity_slabs;
    int64_t lost_since;           /* unix seconds; 0 = present: when it was found missing or failed */
    uint64_t read_errors, write_errors, checksum_errors;
    bool replica;
    uint64_t label_seen;          /* generation of its label that is known to be on it: one with a lower generation is the disk as it was before */
    bool suspect;                 /* what is on it may not be what was written to it: to be verified whole */
};
int sfs_catalog_disk_put(struct sfs_catalog *cat, struct sfs_disk_row *row);   /* insert (id 0) or update */
int sfs_catalog_disk_delete(struct sfs_catalog *cat, int id);
int sfs_catalog_disk_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_disk_row *, void *), void *ctx); /* stops at non-zero and returns it */

/* --- spaces -------------------------------------------------------------------------------------------------------------------------- */
enum sfs_codec { SFS_CODEC_NONE = 0, SFS_CODEC_ZSTD = 1 };       /* on-disk values */
struct sfs_space_row {
    int id;                       /* never reused; 0 on insert */
    char name[SFS_CATALOG_NAME_MAX + 1];
    uint64_t root_ino;
    int resiliency;               /* enum sfs_resiliency */
    unsigned columns;             /* 0 = auto */
    uint32_t interleave;          /* bytes */
    uint64_t size_bytes;          /* 0 = as large as the pool allows */
    bool fixed;                   /* provisioning */
    enum sfs_codec codec;
    int codec_level;
    int64_t created;              /* unix seconds */
    bool destroying;              /* no longer visible; its contents are being freed */
};
int sfs_catalog_space_put(struct sfs_catalog *cat, struct sfs_space_row *row); /* insert (id 0; -EEXIST for the name) or update */
int sfs_catalog_space_delete(struct sfs_catalog *cat, int id);
int sfs_catalog_space_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_space_row *, void *), void *ctx);

/* --- slab groups --------------------------------------------------------------------------------------------------------------------- */
enum sfs_group_kind { SFS_GROUP_DATA = 0, SFS_GROUP_LANDING = 1 };
enum sfs_group_state { SFS_GROUP_OPEN = 0, SFS_GROUP_SEALED = 1 };
struct sfs_group_row {
    uint64_t id;                  /* never reused; 0 on insert */
    int space;
    int resiliency;
    unsigned columns;
    uint32_t interleave;
    enum sfs_group_kind kind;
    enum sfs_group_state state;
};
struct sfs_slab_row {
    uint64_t group;
    unsigned column, copy;
    int disk;                     /* disk id; 0 = missing (rule 4: made with too few healthy disks) */
    uint32_t slot;
};
int sfs_catalog_group_put(struct sfs_catalog *cat, struct sfs_group_row *row);
int sfs_catalog_group_delete(struct sfs_catalog *cat, uint64_t id);             /* and its slab rows */
int sfs_catalog_group_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_group_row *, void *), void *ctx);
int sfs_catalog_slab_put(struct sfs_catalog *cat, const struct sfs_slab_row *row);  /* by (group, column, copy) */
int sfs_catalog_slab_each(struct sfs_catalog *cat, uint64_t group /* 0 = all */, int (*fn)(const struct sfs_slab_row *, void *), void *ctx);

/* --- inodes -------------------------------------------------------------------------------------------------------------------------- */
#define SFS_INLINE_MAX 2048u
struct sfs_time { int64_t sec; uint32_t nsec; };
struct sfs_inode_row {
    uint64_t ino;                 /* pool-wide, never reused */
    int space;
    uint32_t mode;                /* type and permission bits as in st_mode */
    uint32_t nlink, uid, gid;
    uint64_t rdev;
    uint64_t size;
    struct sfs_time atime, mtime, ctime, btime;
    uint64_t parent;              /* directories: the directory above (own ino for a root), else 0 */
    uint32_t flags;               /* SFS_INODE_* */
    uint64_t sectors;             /* of contents, 512 bytes each, as they were when the row was written with them */
};
#define SFS_INODE_HAS_XATTR 1u    /* a hint that saves look-ups: set when any xattr was ever set */
uint64_t sfs_catalog_ino_alloc(struct sfs_catalog *cat);                        /* never reused, from 16 up; persisted by the next commit */
int sfs_catalog_inode_get(struct sfs_catalog *cat, uint64_t ino, struct sfs_inode_row *row);
int sfs_catalog_inode_insert(struct sfs_catalog *cat, const struct sfs_inode_row *row);
int sfs_catalog_inode_update(struct sfs_catalog *cat, const struct sfs_inode_row *row); /* all columns; -ENOENT if it is gone */
int sfs_catalog_inode_delete(struct sfs_catalog *cat, uint64_t ino);            /* and its inline data and xattrs; extents must be gone already (-EBUSY) */
/* Inline contents: small files and symlink targets. len 0 with data NULL removes. */
int sfs_catalog_inline_get(struct sfs_catalog *cat, uint64_t ino, void *buf, size_t cap, size_t *len); /* -ENOENT: none */
int sfs_catalog_inline_set(struct sfs_catalog *cat, uint64_t ino, const void *data, size_t len);
/* Inodes with nlink 0 (unlinked while open, then a crash; or not reaped yet), in order, more than `after`. */
int sfs_catalog_orphan_next(struct sfs_catalog *cat, int space, uint64_t after, uint64_t *ino); /* -ENOENT: no more */
int sfs_catalog_space_inode_next(struct sfs_catalog *cat, int space, uint64_t after, uint64_t *ino); /* all inodes of a space, in order: for destroying it */
int sfs_catalog_inode_count(struct sfs_catalog *cat, int space, uint64_t *count);

/* --- directory entries ---------------------------------------------------------------------------------------------------------------- */
/* Key (parent, cookie): cookie is XXH3-64 of the name, seeded with a secret of the pool, >> 1, at least 16; on a collision the next free of up to 8. So cookies are stable under any
 * change of the directory: readdir goes on after a cookie. Names are bytes. */
struct sfs_dentry_row {
    uint64_t parent, ino;
    uint64_t cookie;
    uint32_t type;                /* S_IFMT bits */
    uint8_t name_len;
    char name[SFS_FILENAME_MAX + 1];
};
int sfs_catalog_dentry_get(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len, struct sfs_dentry_row *row);
int sfs_catalog_dentry_insert(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len, uint64_t ino, uint32_t type); /* -EEXIST */
int sfs_catalog_dentry_replace(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len, uint64_t ino, uint32_t type);/* -ENOENT */
int sfs_catalog_dentry_delete(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len);
int sfs_catalog_dentry_list(struct sfs_catalog *cat, uint64_t parent, uint64_t after_cookie, struct sfs_dentry_row *rows, unsigned max, unsigned *n);
int sfs_catalog_dentry_clear(struct sfs_catalog *cat, uint64_t parent); /* all entries of a directory: its space is being destroyed */
int sfs_catalog_dentry_empty(struct sfs_catalog *cat, uint64_t parent, bool *empty);
/* Entries of all directories after (parent, cookie), in that order, up to max: to find the names of many inodes in one pass. */
int sfs_catalog_dentry_scan(struct sfs_catalog *cat, uint64_t parent, uint64_t cookie, struct sfs_dentry_row *rows, unsigned max, unsigned *n);
/* As sfs_catalog_path_of, through the directory that is known to have an entry of it: no scan of other directories. -ENOENT: it hasn't. */
int sfs_catalog_path_in(struct sfs_catalog *cat, uint64_t ino, uint64_t parent, char *out, size_t cap);
/* A path of an inode from its space's root, for people ("/a/b"); one of them for hard links. Scans when it must: slow for files. -ENOENT. */
int sfs_catalog_path_of(struct sfs_catalog *cat, uint64_t ino, char *out, size_t cap);

/* --- extended attributes -------------------------------------------------------------------------------------------------------------- */
int sfs_catalog_xattr_get(struct sfs_catalog *cat, uint64_t ino, const char *name, void *buf, size_t cap, size_t *len); /* cap 0: length only; -ERANGE; -ENODATA */
int sfs_catalog_xattr_set(struct sfs_catalog *cat, uint64_t ino, const char *name, const void *value, size_t len, bool create, bool replace); /* -EEXIST, -ENODATA */
int sfs_catalog_xattr_delete(struct sfs_catalog *cat, uint64_t ino, const char *name);                                     /* -ENODATA */
int sfs_catalog_xattr_list(struct sfs_catalog *cat, uint64_t ino, char *buf, size_t cap, size_t *len);                     /* names with NULs, as listxattr(2) */

/* --- extents ---------------------------------------------------------------------------------------------------------------------------- */
#define SFS_EXTENT_MAX (1u << 20)        /* raw bytes of a stored extent at most */
#define SFS_CSUM_GRANULE (64u << 10)     /* raw bytes under one checksum (codec none) */
#define SFS_EXTENT_MAX_CSUMS 16u
/* One run of a file, a piece (all or part) of a stored extent. */
struct sfs_extent_row {
    uint64_t off;                 /* file offset, bytes */
    uint32_t len;                 /* bytes of the file that it covers */
    uint32_t skip;                /* first byte of the piece within the stored extent's raw bytes */
    uint64_t group, goff;         /* where the stored extent begins (a multiple of SFS_BLOCK) */
    uint32_t slen;                /* stored bytes (compressed if so); occupies slen rounded up to SFS_BLOCK */
    uint32_t rlen;                /* raw bytes; = slen for codec none */
    uint8_t codec;
    uint8_t ncsum;                /* codec none: one per granule of raw bytes; zstd: one, of the stored bytes */
    uint64_t csum[SFS_EXTENT_MAX_CSUMS];  /* XXH3-64 */
};
/* Rows of a file with off + len > from, in order, up to max. */
int sfs_catalog_extent_list(struct sfs_catalog *cat, uint64_t ino, uint64_t from, struct sfs_extent_row *rows, unsigned max, unsigned *n);
/* Deletes the rows of ino that lie in [from, to) (rows never straddle: the caller rewrites pieces whole), at most `max` of them (0 = all), calling removed for each. *n = how many. */
int sfs_catalog_extent_delete(struct sfs_catalog *cat, uint64_t ino, uint64_t from, uint64_t to, unsigned max,
                              void (*removed)(const struct sfs_extent_row *, void *), void *ctx, unsigned *n);
int sfs_catalog_extent_insert(struct sfs_catalog *cat, uint64_t ino, const struct sfs_extent_row *row);
/* What of a group is in use: calls fn(goff, slen) for each row whose stored range overlaps [from, to), in order of goff (rows of clones and pieces repeat). Uses the covering index only. */
int sfs_catalog_group_ranges(struct sfs_catalog *cat, uint64_t group, uint64_t from, uint64_t to,
                             int (*fn)(uint64_t goff, uint32_t slen, void *ctx), void *ctx);
/* Full rows of a group with their inodes, from goff on, up to max: for movers and scrub. */
struct sfs_group_extent {
    uint64_t ino;
    struct sfs_extent_row row;
};
int sfs_catalog_group_extents(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff, struct sfs_group_extent *rows, unsigned max, unsigned *n);
/* Calls fn for each stored extent of a group, with one of its rows, in order of (goff, slen), from goff on. Stops at non-zero and returns it. */
int sfs_catalog_group_stored(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff, int (*fn)(const struct sfs_group_extent *, void *), void *ctx);
int sfs_catalog_group_rows(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff, int (*fn)(const struct sfs_group_extent *, void *), void *ctx); /* for each row */
/* Points every row whose stored range lies wholly in [from, to) of a group to another group, from `goff` on. */
int sfs_catalog_group_move(struct sfs_catalog *cat, uint64_t group, uint64_t from, uint64_t to, uint64_t new_group, uint64_t goff);

/* Who uses what of a group: rows after *after (all zero: from the beginning) in order of place, from the covering index alone. */
struct sfs_group_use {
    uint64_t goff, slen, ino, off;
};
int sfs_catalog_group_uses(struct sfs_catalog *cat, uint64_t group, const struct sfs_group_use *after, struct sfs_group_use *rows, unsigned max,
                           unsigned *n);

/* --- damage: places whose bytes have no good copy ----------------------------------------------------------------------------------------- */
struct sfs_damage_row {
    uint64_t group, goff;         /* bytes, a multiple of SFS_BLOCK */
    uint32_t len;                 /* bytes */
    int64_t found;                /* unix seconds */
};
int sfs_catalog_damage_put(struct sfs_catalog *cat, const struct sfs_damage_row *row);
int sfs_catalog_damage_delete(struct sfs_catalog *cat, uint64_t group, uint64_t goff);
int sfs_catalog_damage_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_damage_row *, void *), void *ctx); /* by group and place */
/* What the last scrub found, by file and disk. add: counts on; -ENOSPC when there are 10,000 already. */
struct sfs_finding_row {
    uint64_t ino;
    int disk;
    uint64_t blocks;              /* of SFS_BLOCK bytes, rewritten from good copies */
};
int sfs_catalog_finding_add(struct sfs_catalog *cat, const struct sfs_finding_row *row);
int sfs_catalog_finding_clear(struct sfs_catalog *cat);
int sfs_catalog_finding_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_finding_row *, void *), void *ctx);

/* --- jobs and events -------------------------------------------------------------------------------------------------------------------- */
struct sfs_job_row {
    uint64_t id;                  /* 0 on insert */
    char kind[16];                /* "heal", "scrub", … */
    char state[16];               /* "running", "waiting", "paused", "done", "failed", "cancelled", "incomplete" */
    char what[128];               /* what it is about, for people and for resuming: "disk=3" */
    uint64_t done, total;         /* bytes */
    int64_t started, ended;       /* unix seconds */
    char result[256];
};
int sfs_catalog_job_put(struct sfs_catalog *cat, struct sfs_job_row *row);
int sfs_catalog_job_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_job_row *, void *), void *ctx); /* newest first */
struct sfs_event_row {
    uint64_t id;
    int64_t time;                 /* unix seconds */
    char severity[12];            /* "info", "warning", "error" */
    char kind[32];                /* "disk-lost", "heal-done" … */
    char subject[130];            /* name of the disk, space or job */
    char text[512];
};
int sfs_catalog_event_add(struct sfs_catalog *cat, const struct sfs_event_row *row);         /* keeps the newest 10,000 */
int sfs_catalog_event_list(struct sfs_catalog *cat, uint64_t after_id, unsigned max, int (*fn)(const struct sfs_event_row *, void *), void *ctx);

#endif
