/* Geometry of a slab group: where a byte of the group lies on its slabs. Pure: values in, values out.
 *
 * A group has `columns` columns and `copies` copies of each (mirrors); its slabs are numbered column * copies + copy.
 * Of the columns, `parity` hold parity (0, 1 or 2); data columns = columns - parity.
 *
 *   unit     `interleave` bytes of the group, on one column
 *   stripe   one unit on every column: row r of the slabs, that is slab bytes [r * interleave, (r+1) * interleave)
 *   group offset o: unit u = o / interleave; stripe r = u / data_columns; index k = u % data_columns
 *   column of data unit k in stripe r: (r + k) % columns when parity > 0 (left-symmetric rotation: parity P of stripe r is
 *            column (r + data_columns) % columns, Q the one after), k when parity == 0 */
#ifndef SFS_LAYOUT_GEOMETRY_H
#define SFS_LAYOUT_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>
#include "fs/base/error.h"

#define SFS_BLOCK 4096u            /* unit of allocation in a group, bytes */
#define SFS_MAX_COLUMNS 16u
#define SFS_MAX_SLABS_PER_GROUP 48u /* columns * copies */

enum sfs_resiliency { SFS_SIMPLE = 0, SFS_MIRROR2 = 1, SFS_MIRROR3 = 2, SFS_PARITY = 3, SFS_PARITY2 = 4 }; /* on-disk values */
#define SFS_RESILIENCY_COUNT 5

struct sfs_geometry {
    enum sfs_resiliency resiliency;
    unsigned columns, copies, parity; /* parity: number of parity columns */
    uint32_t interleave;              /* bytes, a multiple of SFS_BLOCK */
    uint64_t slab_bytes;              /* a multiple of interleave is used: rows = slab_bytes / interleave */
};

const char *sfs_resiliency_name(enum sfs_resiliency r);             /* "mirror2"; "?" for an unknown value */
int sfs_resiliency_parse(const char *text, enum sfs_resiliency *out, struct sfs_error *err); /* 0, -EINVAL with the list of names */
unsigned sfs_resiliency_copies(enum sfs_resiliency r);              /* 1, 2, 3, 1, 1 */
unsigned sfs_resiliency_parity(enum sfs_resiliency r);              /* 0, 0, 0, 1, 2 */
unsigned sfs_resiliency_tolerance(enum sfs_resiliency r);           /* disks that may fail: 0, 1, 2, 1, 2 */
unsigned sfs_resiliency_min_disks(enum sfs_resiliency r);           /* 1, 2, 3, 3, 4 */
unsigned sfs_resiliency_min_columns(enum sfs_resiliency r);         /* 1, 1, 1, 3, 4 */

/* Checks and fills *g. -EINVAL with words for what cannot be. */
int sfs_geometry_init(struct sfs_geometry *g, enum sfs_resiliency r, unsigned columns, uint32_t interleave, uint64_t slab_bytes,
                      struct sfs_error *err);
unsigned sfs_geometry_slabs(const struct sfs_geometry *g);          /* columns * copies */
unsigned sfs_geometry_data_columns(const struct sfs_geometry *g);
uint64_t sfs_geometry_rows(const struct sfs_geometry *g);           /* stripes in the group */
uint64_t sfs_geometry_capacity(const struct sfs_geometry *g);       /* bytes of user data the group can hold */
uint64_t sfs_geometry_stripe_bytes(const struct sfs_geometry *g);   /* user data in one full stripe */

/* A run of group bytes that lies together on one column. */
struct sfs_piece {
    uint64_t group_off;  /* first byte, in the group */
    uint32_t len;        /* bytes */
    unsigned column;
    uint64_t slab_off;   /* first byte, in that column's slabs (the same on every copy) */
};
/* Walks [*off, end): fills *p with the piece at *off, moves *off behind it; false when *off == end. Pieces never cross a unit.
 * Asserts end <= capacity: whoever reads a range from a catalog checks it first. */
bool sfs_geometry_next(const struct sfs_geometry *g, uint64_t *off, uint64_t end, struct sfs_piece *p);
/* The other way: the group offset of byte slab_off of a column; false if that byte is parity or beyond the last row. */
bool sfs_geometry_unmap(const struct sfs_geometry *g, unsigned column, uint64_t slab_off, uint64_t *group_off);
/* Parity column i (0 = P, 1 = Q) of stripe `row`; data column k of stripe `row`. */
unsigned sfs_geometry_parity_column(const struct sfs_geometry *g, uint64_t row, unsigned i);
unsigned sfs_geometry_data_column(const struct sfs_geometry *g, uint64_t row, unsigned k);
/* Column count an `auto` space uses for a new group when `disks` disks have a free slab: mirrors and simple 1 (the writer keeps several groups
 * open, so that all disks work), parity all of them up to 16; 0 if there are too few. */
unsigned sfs_geometry_auto_columns(enum sfs_resiliency r, unsigned disks);

#endif
