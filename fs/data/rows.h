/* Walking the rows of a group with parity: for building a slab anew and for verifying (rows.c). Inside fs/data. */
#ifndef SFS_DATA_ROWS_H
#define SFS_DATA_ROWS_H

#include "fs/data/rebuild.h"

/* The same bytes of every unit of a row. */
struct sfs_strip {
    struct sfs_data *d;
    struct sfs_group *g;
    uint64_t row, slab_off;                /* slab_off: the same on every column's slab */
    uint32_t len;                          /* whole blocks */
    bool damaged;                          /* something that lives in the row has no good copy */
    struct sfs_buf *unit[SFS_MAX_COLUMNS]; /* by column */
    uint8_t *have[SFS_MAX_COLUMNS];        /* by block: SFS_STRIP_* */
};
enum { SFS_STRIP_UNKNOWN, SFS_STRIP_READ, SFS_STRIP_REBUILT };

struct sfs_row_walk {
    struct sfs_data *d;
    struct sfs_group *g;                   /* held and drained by the caller: sealed, nothing in it pending or being written */
    /* Every stored extent, before the strips of the rows that it lies in: brings what is on the disks in order, as far as that can be done. *damaged: it could not. Non-zero stops. Inside quiesce. */
    int (*stored)(void *ctx, struct sfs_stored *s, uint64_t ino, bool *damaged);
    /* Every strip of every row in which something lives; dead bytes are as they are on the disks, for the row's parity counts them. Non-zero stops. Inside quiesce. */
    int (*strip)(void *ctx, struct sfs_strip *s);
    void *ctx;
};
int sfs_rows_walk(const struct sfs_row_walk *w);

/* Reads a row that was just written, every column of it, and holds its parity against its data. 0; -EIO: they differ, or something can't be read; -ENOMEM. No lock held; the group is in-flight counted. */
int sfs_row_compare(struct sfs_data *d, struct sfs_group *g, uint64_t row);

/* Parity as it should be, from the strip's data, into the strip; where a disk has it otherwise it is rewritten there, if all of the strip was read from disks. *bad: parity columns that were wrong so. Nothing is done where data is unknown. 0 or -ENOMEM. */
int sfs_strip_mend_parity(struct sfs_strip *s, unsigned *bad);

#endif
