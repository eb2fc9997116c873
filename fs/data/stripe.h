/* Runs in rows of groups with parity: packing them, and the requests that write rows (stripe.c). Between store.c and allocation. */
#ifndef SFS_DATA_STRIPE_H
#define SFS_DATA_STRIPE_H

#include "fs/data/store.h"

/* Rows of one group that follow each other, taken to be written at once. */
struct sfs_span {
    struct sfs_group *group;   /* in-flight counted */
    uint64_t row, rows;
    unsigned *run, n;          /* what lies in them, in order of place: indexes into the runs; between them and behind them zeros */
    struct sfs_buf **buf;      /* one a column and row: what is written there, `off` bytes into it; references */
    size_t *off;
    bool *failed;              /* by row */
};
struct sfs_spans {
    struct sfs_span *v;
    unsigned n, cap;
};

/* What a request belongs to: a run, or a row of a span. */
struct sfs_io_owner {
    unsigned run;
    bool *row_failed;          /* not NULL: a row */
};
struct sfs_io_list {
    struct sfs_io *v;
    struct sfs_io_owner *owner;
    unsigned n, cap;
};
int sfs_io_list_push(struct sfs_io_list *l, const struct sfs_io *io, struct sfs_io_owner owner);
void sfs_io_list_free(struct sfs_io_list *l);

/* Packs runs that have no place yet into rows, until what is left fills none; pad: all of it, the last row filled up with zeros. Runs that got a place are fresh. 0; -EAGAIN: what is left fills no row; -ENOSPC: no rows; -ESTALE, -ENOMEM.
 * flags: SFS_ALLOCATE_PAD, SFS_ALLOCATE_LAST. No lock held. */
int sfs_stripes_place(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags, struct sfs_spans *spans);
/* Puts the rows together, with their parity. 0 or -ENOMEM. No lock held. */
int sfs_stripes_build(const struct sfs_runs *rs, struct sfs_spans *spans);
/* Lock held. The requests; a row with a disk out of use has failed. */
int sfs_stripes_plan(struct sfs_data *d, struct sfs_spans *spans, struct sfs_io_list *l);
/* After the requests: all that lies in a row that failed has failed; what nothing lies in is free again; memory. No lock held. */
void sfs_stripes_finish(struct sfs_data *d, struct sfs_runs *rs, struct sfs_spans *spans);

#endif
