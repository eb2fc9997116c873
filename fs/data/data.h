/* File data: the handle that fs/vfs, fs/job and fs/pool share, volumes (the data side of a space), writing and reading.
 * Made and wired by fs/pool; see also groups.h, diskset.h, commit.h, repair.h (inside fs/data, fs/job and fs/pool only). */
#ifndef SFS_DATA_DATA_H
#define SFS_DATA_DATA_H

#include "fs/base/quiesce.h"
#include "fs/data/stored.h"

struct sfs_data;
struct sfs_volume;

struct sfs_env *sfs_data_env(struct sfs_data *d);
struct sfs_catalog *sfs_data_catalog(struct sfs_data *d);
struct sfs_data *sfs_volume_data(struct sfs_volume *v);
int sfs_volume_space_id(const struct sfs_volume *v);
/* Current settings (they change online). */
void sfs_volume_settings(struct sfs_volume *v, struct sfs_space_row *out);

/* Sticky read-only: doubt about committed state, or too much lost to write. Reads go on. -EROFS from all that writes. */
bool sfs_data_readonly(struct sfs_data *d);
const char *sfs_data_readonly_why(struct sfs_data *d); /* "" when writable */

/* --- space ---------------------------------------------------------------------------------------------------------------------------- */
struct sfs_volume_stat {
    uint64_t total_bytes;   /* used + available */
    uint64_t used_bytes;    /* stored, as users count it: before copies and parity */
    uint64_t avail_bytes;   /* what can really be written now at this resiliency, within the space's size */
};
void sfs_volume_stat(struct sfs_volume *v, struct sfs_volume_stat *out);
/* Reserves room for `bytes` of dirty data, so that a write that was accepted can be stored. A caller reserves whole blocks (SFS_BLOCK) as it dirties them, and gives back what it reserved once the data is written by
 * sfs_data_write (or dropped). rewriting: may dip into the pool's reserve (overwriting existing data of a full pool). 0 or -ENOSPC, -EROFS. */
int sfs_volume_reserve(struct sfs_volume *v, uint64_t bytes, bool rewriting);
void sfs_volume_unreserve(struct sfs_volume *v, uint64_t bytes);

/* Bytes that are best written at once, in one call: a stripe of a parity space; else SFS_EXTENT_MAX. */
uint32_t sfs_volume_write_unit_bytes(struct sfs_volume *v);

/* --- writing: cut, compress, checksum, allocate, write all copies (DESIGN.md section 6) -------------------------------------------------- */
#define SFS_WRITE_MAX_EXTENTS 256u
struct sfs_write_item {
    struct sfs_buf *buf;
    size_t buf_off;
    uint32_t len;              /* 1 to SFS_EXTENT_MAX bytes; the last block is padded with zeros inside */
    struct sfs_extent *out;    /* room for `max` extents; SFS_WRITE_MAX_EXTENTS always suffices */
    unsigned max, n;           /* out: how many; off counted from 0 at the item's first byte, in order, gapless, each with one reference for the caller, pending */
    bool spare;                /* it is stored already: not at the price of a whole row for less (parity); then -ENOSPC */
    int result;                /* out: 0, -ENOSPC, -EROFS, -EIO, -ENOMEM: then nothing of the item is stored */
};
/* Stores n items, every copy of all of them in one go; not yet synced. The more is given at once, the better it can be laid out: what together fills stripes of a parity space is written as stripes. A failing
 * disk is worked around inside (rule 4). 0 when all were stored, else the first error. Called without locks above SFS_RANK_INODE; thread-safe; blocks for disk I/O. */
int sfs_data_write_vec(struct sfs_volume *v, struct sfs_write_item *items, unsigned n);
int sfs_data_write(struct sfs_volume *v, struct sfs_buf *buf, size_t buf_off, uint32_t len, struct sfs_extent *out, unsigned max, unsigned *n); /* one item */

/* --- reading: verified, from the best copy, repaired from others ------------------------------------------------------------------------------ */
struct sfs_read {
    struct sfs_extent extent;  /* with a reference that the caller holds */
    uint32_t from, len;        /* bytes within the piece: from + len <= extent.len */
    void *out;                 /* len bytes */
    int result;                /* 0 or -EIO (no good copy: never wrong bytes), -ENOMEM */
};
/* Runs all reads, in parallel where they lie on different disks. The caller must have entered sfs_data_quiesce before it looked the extents up. Returns the number that failed. */
unsigned sfs_data_read(struct sfs_data *d, struct sfs_read *reads, unsigned n);
struct sfs_quiesce *sfs_data_quiesce(struct sfs_data *d);

#endif
