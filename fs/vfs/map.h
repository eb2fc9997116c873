/* The extent map of a file in memory: disjoint pieces ordered by offset; what no piece covers reads as zeros.
 *
 * It also remembers which ranges differ from what was last handed to a commit ("changed"). Invariants:
 *   (M1) pieces are disjoint, none is empty.
 *   (M2) a piece either lies wholly in one changed range, or is, as it stands, a row of the catalog (or of a
 *        batch on its way there); so no row straddles the border of a changed range.
 *   (M3) a row that is no longer a piece lies in a changed range.
 * Whoever cuts a piece notes the whole of it as changed first: that keeps all three.
 *
 * No locks, no I/O: the owner (the inode) serialises. References to stored extents go through `ops`, so that
 * tests need no pool. */
#ifndef SFS_VFS_MAP_H
#define SFS_VFS_MAP_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fs/data/commit.h"

#define SFS_OFFSET_MAX ((uint64_t)INT64_MAX) /* no byte of a file lies at or beyond it */

struct sfs_map_ops {
    struct sfs_stored *(*ref)(void *ctx, struct sfs_stored *s);
    void (*unref)(void *ctx, struct sfs_stored *s);
    int (*trim)(void *ctx, struct sfs_extent *e); /* as sfs_extent_trim; failing leaves *e valid */
};

struct sfs_map_node {
    union {
        RB_ENTRY(sfs_map_node) link;
        SLIST_ENTRY(sfs_map_node) spare;
    };
    struct sfs_extent e;
};
RB_HEAD(sfs_map_tree, sfs_map_node);

struct sfs_changed_node {
    union {
        RB_ENTRY(sfs_changed_node) link;
        SLIST_ENTRY(sfs_changed_node) spare;
    };
    struct sfs_range range;
};
RB_HEAD(sfs_changed_tree, sfs_changed_node);

struct sfs_map {
    struct sfs_map_tree tree;
    struct sfs_changed_tree changed;
    SLIST_HEAD(, sfs_map_node) spare_nodes;
    SLIST_HEAD(, sfs_changed_node) spare_changed;
    unsigned npieces, nchanged, nspare_nodes, nspare_changed;
    uint64_t blocks; /* sum over the pieces of their length, rounded up to whole blocks */
    const struct sfs_map_ops *ops;
    void *ctx;
};

void sfs_map_init(struct sfs_map *m, const struct sfs_map_ops *ops, void *ctx);
/* drops everything, changed ranges and spares included; ready for use again */
void sfs_map_clear(struct sfs_map *m);

/* Sets memory aside so that one sfs_map_punch and `inserts` times sfs_map_insert cannot fail. 0 or -ENOMEM.
 * */
int sfs_map_prepare(struct sfs_map *m, unsigned inserts);
/* Removes [from, to): pieces inside go, pieces at the borders are cut to the byte. Prepared for. */
void sfs_map_punch(struct sfs_map *m, uint64_t from, uint64_t to);
/* Adds a piece where there is none, taking over its reference. loaded: it comes from the catalog, so nothing
 * has changed. Prepared for. */
void sfs_map_insert(struct sfs_map *m, const struct sfs_extent *e, bool loaded);
/* Moves every piece at or beyond `from` by delta bytes; the range they come from and go to is noted. No piece
 * straddles `from`, and the place is free. Prepared for. */
void sfs_map_shift(struct sfs_map *m, uint64_t from, int64_t delta);

/* The first piece that ends beyond off; NULL: none. */
struct sfs_map_node *sfs_map_find(struct sfs_map *m, uint64_t off);
struct sfs_map_node *sfs_map_next(struct sfs_map_node *n);
/* Is any byte of [from, to) covered? */
bool sfs_map_covers_any(struct sfs_map *m, uint64_t from, uint64_t to);

static inline uint64_t sfs_map_end(const struct sfs_map_node *n)
{
    return n->e.off + n->e.len;
}

/* What changed: arrays from malloc, references added for the pieces; for a batch. Empty ones are NULL. 0 or
 * -ENOMEM (nothing done). */
int sfs_map_collect(struct sfs_map *m, struct sfs_range **deleted, unsigned *ndeleted,
                    struct sfs_extent **extents, unsigned *nextents);
void sfs_map_handed_over(struct sfs_map *m); /* nothing has changed any more */

#endif
