/* Reading what one column of a group with parity holds from the others of its rows (rebuild.c). Inside fs/data; callers are inside quiesce. */
#ifndef SFS_DATA_REBUILD_H
#define SFS_DATA_REBUILD_H

#include "fs/data/state.h"

struct sfs_ios {
    struct sfs_io *v;
    unsigned n, cap;
};
int sfs_ios_push(struct sfs_ios *l, const struct sfs_io *io); /* 0 or -ENOMEM */

/* --- pieces whose column is away, read with the rest of a call -------------------------------------------------------------------------------- */

struct sfs_rebuild {
    unsigned owner;                       /* the caller's */
    struct sfs_geometry geo;
    uint64_t row;
    unsigned column;
    uint32_t len;                         /* whole blocks */
    struct sfs_buf *out;                  /* borrowed; the piece belongs out_off bytes into it, where there is room for len */
    size_t out_off;
    struct sfs_buf *unit[SFS_MAX_COLUMNS]; /* by column; NULL: away */
    unsigned first_io, ios;
};
struct sfs_rebuilds {
    struct sfs_rebuild *v;
    unsigned n, cap;
};
/* Lock held. Adds the requests for a piece whose column is away. -EIO: too many others are; -ENOMEM. */
int sfs_rebuild_plan(struct sfs_data *d, const struct sfs_group *g, const struct sfs_piece *p, struct sfs_buf *out, size_t out_off, unsigned owner,
                     struct sfs_rebuilds *rs, struct sfs_ios *l);
/* After the requests. False: one of them failed. */
bool sfs_rebuild_finish(struct sfs_rebuild *r, const struct sfs_ios *l);
void sfs_rebuilds_free(struct sfs_rebuilds *rs);

/* --- all that the columns have, for a granule that is hard to read ------------------------------------------------------------------------------ */

struct sfs_columns {
    struct sfs_geometry geo;
    uint64_t group_off;                   /* the first byte of the granule */
    uint32_t blocks;
    struct sfs_buf *unit[SFS_MAX_COLUMNS]; /* by column: block b of the granule's rows, at the place of the granule's block b in its unit */
    uint8_t *have[SFS_MAX_COLUMNS];        /* by block: could it be read */
};
/* Reads every column of the rows that bytes [from, to) of the group lie in, at the same places in their units. 0, -EIO (no such group), -ENOMEM. */
int sfs_columns_read(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to, struct sfs_columns *c);
#define SFS_NO_COLUMN SFS_MAX_COLUMNS
/* The granule as its own columns have it, or rebuilt without them and without column `also` (unless SFS_NO_COLUMN). have: by block, could it be had. 0 or -ENOMEM. */
void sfs_columns_direct(const struct sfs_columns *c, uint8_t *out, uint8_t *have);
/* The granule as it is where no column in `bad` (bits) is believed: its blocks on these, and those that could not be read, are rebuilt from the rest. False: they can't be, or there is no memory. */
bool sfs_columns_without(const struct sfs_columns *c, unsigned bad, uint8_t *out);
int sfs_columns_rebuild(const struct sfs_columns *c, unsigned also, uint8_t *out, uint8_t *have);
void sfs_columns_free(struct sfs_columns *c);

/* The units of a row, or as many bytes from the same place of each, by column; those in `lost` (bits by column) are made anew from the others. -EIO: too many are lost. len: a multiple of 32, units 32-byte aligned. */
int sfs_units_rebuild(const struct sfs_geometry *geo, uint64_t row, uint8_t *const *by_column, size_t len, unsigned lost);

#endif
