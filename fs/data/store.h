/* Storing runs that are laid out already: finding places, and writing every copy. Below the writer (which cuts and compresses), rewrites
 * and the extent mover. Inside fs/data. */
#ifndef SFS_DATA_STORE_H
#define SFS_DATA_STORE_H

#include "fs/data/state.h"

/* Bytes to be stored, and where they came to lie. What isn't filled in is zero. */
struct sfs_run {
    struct sfs_buf *buf;       /* borrowed: slen bytes from buf_off, then zeros up to a whole block; not changed until the call ends */
    size_t buf_off;
    uint32_t slen;             /* 1 to SFS_EXTENT_MAX */
    struct sfs_group *group;   /* out: where it lies, in-flight counted until sfs_allocate_done; NULL: it isn't stored */
    uint64_t goff;             /* out: bytes */
    int result;                /* out: 0, or why it isn't stored. Runs that have one when the call begins are passed over */
    bool left;                 /* out: not stored since it fills no stripe (SFS_STORE_WHOLE_STRIPES) */
    /* The writer's; zero for others. */
    bool split;                /* may be cut at blocks; what is cut off is added to the list */
    uint8_t codec;
    unsigned item;             /* what it is a part of, and which of its raw bytes it holds */
    uint32_t raw_off, raw_len;
    uint64_t csum[SFS_EXTENT_MAX_CSUMS]; /* out, with SFS_STORE_CHECKSUM */
    /* Inside. */
    bool fresh, failed;        /* placed but not yet written; a copy of it could not be written */
};
struct sfs_runs {
    struct sfs_run *v;         /* malloc'ed when there are runs that may be split */
    unsigned n, cap;
};

/* Only what fills whole stripes of parity groups is stored; the rest is left, which is no error. Nothing changes for other resiliencies. */
#define SFS_STORE_WHOLE_STRIPES 1u
/* With parity: no row is filled up with zeros; what neither fills rows nor can land is left. */
#define SFS_STORE_NO_PADDING 4u
/* Checksums are made of what is placed, before the first byte of it leaves. */
#define SFS_STORE_CHECKSUM 2u

/* Stores all runs, all copies at once; not yet synced, but their disks are marked for it. A copy that fails: its run is written again to another group, and the group that failed is sealed (rule 4). The caller makes
 * (sfs_stored_new) or moves (sfs_stored_move) the stored object of each run that has a group, then calls sfs_allocate_done for it; or gives it back. 0 when no run has an error, else the first one's: -ENOSPC, -EIO,
 * -ENOMEM. No lock held; thread-safe; blocks for disk I/O. */
int sfs_store(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags);
int sfs_store_runs(struct sfs_volume *v, struct sfs_run *runs, unsigned n, unsigned flags); /* none of them split */
/* A further run at the end of a list whose v was malloc'ed. 0 or -ENOMEM. */
int sfs_runs_add(struct sfs_runs *rs, const struct sfs_run *r);
/* What of run i lies behind its first `keep` bytes becomes a run of its own, at the end of the list. 0 or -ENOMEM. */
int sfs_runs_split(struct sfs_runs *rs, unsigned i, uint32_t keep);
/* A stored run isn't wanted: its blocks become free at the next commit. Nothing for one without a group. No lock held. */
void sfs_store_give_back(struct sfs_data *d, struct sfs_run *r);

#endif
