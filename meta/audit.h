/* The catalog as it is, not as it should be: for spacesfs-check. Finds rows that contradict the rules that the rest of the program relies on, and makes them keep the rules again.
 *
 * What may be wrong is one list (enum sfs_fault); how it is found and mended is one table beside it (audit_sql.c, audit_mend.c). Words, severity and whether to do it are the caller's (fs/check/problems.c).
 *
 * Use: open on a recovered replica set on which no catalog is open; tell what the disks say (sfs_audit_disk ...); then for each fault in order sfs_audit_find, sfs_audit_each, sfs_audit_mend. All mending is one transaction, which
 * sfs_audit_commit makes durable on every replica: a crash before leaves the catalog as it was, one after as it is now. Closing without it drops the changes. Used by one thread.
 *
 * A file's bytes that are lost are never turned into a hole, which would read as zeros: their range points at a slab group without slabs, so that reading it is an I/O error, and all else about the file works. */
#ifndef SFS_META_AUDIT_H
#define SFS_META_AUDIT_H

#include <stdbool.h>
#include "fs/base/env.h"
#include "fs/base/uuid.h"
#include "meta/replicas.h"

#define SFS_AUDIT_TEXT 300u

/* In the order in which they are looked for: what comes later relies on what comes before. */
enum sfs_fault {
    SFS_FAULT_POOL_ROW,         /* its uuid or name isn't what the labels say */
    SFS_FAULT_PROP_BAD,         /* a property that nobody could have set */
    SFS_FAULT_DISK_UUID,        /* the row of a disk doesn't bear the uuid of the disk of that name */
    SFS_FAULT_DISK_BAD,         /* columns out of range */
    SFS_FAULT_DISK_CAPACITY,    /* not what the label says */
    SFS_FAULT_SPACE_BAD,
    SFS_FAULT_SPACE_LOST,       /* inodes of a space that has no row */
    SFS_FAULT_GROUP_GEOMETRY,   /* impossible: nobody knows where its bytes are */
    SFS_FAULT_GROUP_BAD,
    SFS_FAULT_GROUP_SPACE,      /* of no space */
    SFS_FAULT_SLAB_GROUP,       /* of no group */
    SFS_FAULT_SLAB_PLACE,       /* outside of the group's geometry */
    SFS_FAULT_SLAB_DISK,        /* on a disk that isn't the pool's */
    SFS_FAULT_SLAB_SLOT,        /* beyond the end of its disk */
    SFS_FAULT_SLAB_CLAIMED,     /* in a slot that is the metadata area's */
    SFS_FAULT_SLAB_TWICE,       /* two slabs in one slot */
    SFS_FAULT_SLAB_SAME_DISK,   /* what one disk takes with it is more than the group bears */
    SFS_FAULT_SLAB_ROW,         /* a slab without a row */
    SFS_FAULT_SLAB_ABSENT,      /* a slab without a file, on a directory */
    SFS_FAULT_INODE_BAD,
    SFS_FAULT_SPACE_ROOT,       /* a space without a root directory */
    SFS_FAULT_EXTENT_INODE,     /* extents of no inode */
    SFS_FAULT_INLINE_INODE,     /* contents of no inode */
    SFS_FAULT_XATTR_INODE,
    SFS_FAULT_DENTRY_NAME,      /* a name that cannot be */
    SFS_FAULT_DENTRY_INODE,     /* a name of no inode */
    SFS_FAULT_DENTRY_NOTDIR,    /* entries of what is no directory */
    SFS_FAULT_DENTRY_PARENT,    /* entries of a directory that isn't there */
    SFS_FAULT_INODE_SPACE,      /* an inode of no space */
    SFS_FAULT_DENTRY_SPACE,     /* a name in another space than its inode */
    SFS_FAULT_DENTRY_ROOT,      /* a root directory with a name */
    SFS_FAULT_DENTRY_TWICE,     /* the same name twice in a directory */
    SFS_FAULT_DENTRY_COOKIE,    /* not where looking it up finds it */
    SFS_FAULT_DENTRY_TYPE,
    SFS_FAULT_DIR_TWICE,        /* a directory with two names */
    SFS_FAULT_DIR_LOOP,         /* directories in a ring */
    SFS_FAULT_DIR_PARENT,       /* ".." leads elsewhere than where the name is */
    SFS_FAULT_INLINE_BAD,       /* too long, or of what has no contents */
    SFS_FAULT_INLINE_EXTENT,    /* the same bytes inline and in an extent */
    SFS_FAULT_EXTENT_TYPE,      /* extents of what is no file */
    SFS_FAULT_SYMLINK_EMPTY,
    SFS_FAULT_XATTR_BAD,
    SFS_FAULT_XATTR_FLAG,
    SFS_FAULT_UNATTACHED,       /* an inode without a name */
    SFS_FAULT_NLINK,
    SFS_FAULT_EXTENT_BAD,       /* a row that cannot be */
    SFS_FAULT_EXTENT_GROUP,     /* in no group */
    SFS_FAULT_EXTENT_END,       /* beyond the end of its group */
    SFS_FAULT_EXTENT_OVERLAP,   /* two extents for the same bytes of a file */
    SFS_FAULT_EXTENT_SHARED,    /* two contents for the same bytes of a group */
    SFS_FAULT_SECTORS,          /* what a file's contents take */
    SFS_FAULT_GROUP_FOREIGN,    /* a group whose data is all of another space */
    SFS_FAULT_SPACE_COUNT,      /* number of inodes */
    SFS_FAULT_COUNTER,          /* a counter that would give an id twice */
    SFS_FAULT_DAMAGE_BAD,       /* a damaged place, or a finding of a scrub, of what isn't there */
    SFS_FAULT_JOB_BAD,
    SFS_FAULT_EVENT_BAD,
    SFS_FAULT_COUNT
};

struct sfs_audit;
/* Geometry, which this layer doesn't know. */
struct sfs_audit_geometry {
    uint64_t (*capacity)(void *ctx, int64_t resiliency, int64_t columns, int64_t interleave); /* bytes a group holds; 0: it cannot be */
    unsigned (*copies)(int64_t resiliency);  /* only asked about what can be */
    unsigned (*parity)(int64_t resiliency);
    void *ctx;
    bool (*prop_ok)(const char *key, const char *value); /* may a property have that value? One that isn't known may. NULL: any may */
};
/* Checks version and feature bits as sfs_catalog_open does. readonly: finding only. r and the functions must outlive it. */
int sfs_audit_open(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_audit_geometry *geo, bool readonly, struct sfs_audit **out, struct sfs_error *err);
void sfs_audit_close(struct sfs_audit *a); /* NULL is fine */

/* What the labels say of the pool. Without it that isn't compared. */
int sfs_audit_pool(struct sfs_audit *a, const struct sfs_uuid *uuid, const char *name);
/* What the disks say: of each disk that is there its label, then for a directory the slots that have a file (all of them: listed = true), for an image those that the metadata area has claimed. */
int sfs_audit_disk(struct sfs_audit *a, const struct sfs_uuid *uuid, const char *name, uint64_t capacity_slabs, bool listed);
int sfs_audit_slot_present(struct sfs_audit *a, const struct sfs_uuid *disk, uint32_t slot);
int sfs_audit_slot_claimed(struct sfs_audit *a, const struct sfs_uuid *disk, uint32_t slot);
/* Slots with a file of which no row knows: fn for each. */
int sfs_audit_slots_unknown(struct sfs_audit *a, int (*fn)(void *ctx, const struct sfs_uuid *disk, uint32_t slot), void *ctx);

/* A slab as its row says; only such whose geometry can be. */
struct sfs_audit_slab {
    int64_t grp;
    unsigned col, copy;
    uint32_t slot;
    int resiliency;
    unsigned columns;
    uint32_t interleave;
    struct sfs_uuid disk;
};
/* fn for each slab that the catalog places on a disk; stops at non-zero and returns it. fn may ask for extents, and say what is proven. */
int sfs_audit_slabs_on(struct sfs_audit *a, const struct sfs_uuid *disk, int (*fn)(void *ctx, const struct sfs_audit_slab *s), void *ctx);
/* The same for those whose slot is another's, too; those of one slot come together. Forgets what was proven. */
int sfs_audit_slabs_contested(struct sfs_audit *a, int (*fn)(void *ctx, const struct sfs_audit_slab *s), void *ctx);
/* How many of its checksums that slab's slot holds: SFS_FAULT_SLAB_TWICE leaves it to the one with most, else the youngest. -1: can't be told now, nothing is to be done about it. */
int sfs_audit_slab_proven(struct sfs_audit *a, const struct sfs_audit_slab *s, int64_t good);
/* What is stored in a group: bytes [off, off + slen) of it, checksummed as csum (8 bytes each, little-endian) says. */
#define SFS_AUDIT_BLOCK 4096u
struct sfs_audit_extent {
    uint64_t off;
    uint32_t slen;
    int codec;
    const uint8_t *csum;
    unsigned ncsum;
};
int sfs_audit_group_extents(struct sfs_audit *a, int64_t grp, int (*fn)(void *ctx, const struct sfs_audit_extent *e), void *ctx);
struct sfs_audit_disk_row {
    uint64_t capacity_slabs;
    int kind;
};
int sfs_audit_disk_find(struct sfs_audit *a, const struct sfs_uuid *disk, struct sfs_audit_disk_row *out); /* -ENOENT */

/* SQLite's own check of the database's structure, and its tables against schema.sql: fn for each complaint. *n: how many. */
int sfs_audit_integrity(struct sfs_audit *a, void (*fn)(void *ctx, const char *text), void *ctx, uint64_t *n);
/* Makes the indexes anew from their tables: what mends complaints about indexes. */
int sfs_audit_reindex(struct sfs_audit *a);

/* One thing that is wrong. Which column means what is the fault's own matter (audit_sql.c); path is that of inode `ino`, "" where there is none. */
struct sfs_audit_item {
    int64_t a, b, c;
    char text[SFS_AUDIT_TEXT + 1];
    char path[SFS_AUDIT_TEXT + 1];
};
int sfs_audit_find(struct sfs_audit *a, enum sfs_fault fault, uint64_t *n);
/* The first `max` of what was found last. */
int sfs_audit_each(struct sfs_audit *a, unsigned max, void (*fn)(void *ctx, const struct sfs_audit_item *), void *ctx);
/* Mends all that was found last. -EROFS */
int sfs_audit_mend(struct sfs_audit *a, enum sfs_fault fault);
/* Makes the given pieces of files (inode, offset: the extent's row) lost for good: what no copy has. Counts them as found and mends. */
int sfs_audit_lose(struct sfs_audit *a, uint64_t ino, uint64_t off);
/* Runs SQL in the transaction, past all rules: for tests that make faults. */
int sfs_audit_exec(struct sfs_audit *a, const char *sql);
bool sfs_audit_changed(const struct sfs_audit *a);
/* Durable on every replica, and checkpointed. */
int sfs_audit_commit(struct sfs_audit *a);

#endif
