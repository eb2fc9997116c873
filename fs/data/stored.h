/* Stored extents in memory: where bytes lie, shared by everything that points at them.
 *
 *   stored   an immutable run of bytes in a slab group with its codec and checksums. Identity (group, goff, slen). Only its place may change (a mover, or a rewrite after a failed disk): all
 *            who hold it see the new place. Interned: one object per identity in a pool, so a mover finds it.
 *   extent   a piece of a stored extent at a place in a file
 *   pending  written, but not yet in the catalog; applied: rows name it
 *
 * Invariants: (S1) while a pending stored object lives, its blocks are not free; when it dies unapplied they become free at the next commit. (S2) blocks of an applied one are free when no catalog row and
 * no pending object overlaps them. (S3) the identity in memory is that of the catalog rows: whoever splits a piece trims it at once (sfs_extent_trim). (S4) no two objects in the tables overlap
 * but a stored extent and its pieces: what lay at a place that is written anew is detached. Reference counts are atomic. */
#ifndef SFS_DATA_STORED_H
#define SFS_DATA_STORED_H

#include "fs/base/buf.h"
#include "meta/catalog.h"

struct sfs_data;

struct sfs_stored; /* opaque; see stored.c */
struct sfs_extent {
    uint64_t off;      /* in the file, bytes */
    uint32_t len;      /* bytes */
    uint32_t skip;     /* first byte of the piece in the stored extent's raw bytes */
    struct sfs_stored *stored; /* a reference */
};

struct sfs_stored *sfs_stored_ref(struct sfs_stored *s);
void sfs_stored_unref(struct sfs_data *d, struct sfs_stored *s); /* NULL is fine */
/* Makes (or finds) the object for a catalog row and fills *out (one reference, for the caller). 0, -ENOMEM, -EUCLEAN (a row that cannot be: unknown group, beyond its end …). */
int sfs_extent_from_row(struct sfs_data *d, const struct sfs_extent_row *row, struct sfs_extent *out);
void sfs_extent_to_row(struct sfs_data *d, const struct sfs_extent *e, struct sfs_extent_row *row);
/* After e->off/len/skip were narrowed (a piece was cut): replaces e->stored by one that covers only the checksum granules that the piece needs, and adjusts skip, so that the rest can be freed. Compressed
 * extents and whole ones stay as they are. 0 or -ENOMEM (unchanged). */
int sfs_extent_trim(struct sfs_data *d, struct sfs_extent *e);
bool sfs_stored_same(const struct sfs_stored *a, const struct sfs_stored *b);
uint64_t sfs_stored_bytes(const struct sfs_stored *s); /* blocks it occupies in its group, in bytes: for st_blocks */

#endif
