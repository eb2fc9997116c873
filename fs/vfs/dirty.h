/* Dirty file data in memory: whole blocks, kept in chunks of 1 MiB, which are also the unit of write-back.
 *
 * A block is dirty (the newest contents, here), being written (taken by write-back; its bytes are in the run
 * that took it), both (written to again since), or neither. A block both dirty and being written is not taken
 * again before the first write has ended: so the older never lands over the newer. fresh: no stored block
 * lies below it yet; counted for st_blocks.
 *
 * No locks, no I/O: the owner (the inode) serialises. */
#ifndef SFS_VFS_DIRTY_H
#define SFS_VFS_DIRTY_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/layout/geometry.h"

#define SFS_CHUNK (1u << 20)
#define SFS_CHUNK_BLOCKS (SFS_CHUNK / SFS_BLOCK)  /* 256 */
#define SFS_WINDOW_BLOCKS 16u
#define SFS_CHUNK_WINDOWS (SFS_CHUNK_BLOCKS / SFS_WINDOW_BLOCKS)

struct sfs_bits {
    uint64_t w[SFS_CHUNK_BLOCKS / 64];
};
struct sfs_window {
    uint8_t *block[SFS_WINDOW_BLOCKS];
};
struct sfs_chunk {
    RB_ENTRY(sfs_chunk) link;
    uint64_t off;
    uint64_t stamp;              /* of its oldest dirty block: see sfs_dirty_pick */
    unsigned ndirty, nwriting;
    struct sfs_bits dirty, writing, fresh;
    struct sfs_window *window[SFS_CHUNK_WINDOWS];
};
RB_HEAD(sfs_chunk_tree, sfs_chunk);

struct sfs_dirty {
    struct sfs_chunk_tree tree;
    unsigned nfull;              /* chunks that are dirty from end to end */
    uint64_t ndirty, nwriting, nfresh; /* blocks */
};

void sfs_dirty_init(struct sfs_dirty *d);
void sfs_dirty_clear(struct sfs_dirty *d);  /* nothing is being written */

/* The dirty contents of the block at off (a multiple of SFS_BLOCK), or NULL. */
uint8_t *sfs_dirty_get(struct sfs_dirty *d, uint64_t off);
/* The same, made dirty when it isn't: then *made is set and the contents are the caller's to fill, all of
 * them. stored: a stored block lies below. NULL: out of memory. */
uint8_t *sfs_dirty_add(struct sfs_dirty *d, uint64_t off, uint64_t stamp, bool stored, bool *made);
bool sfs_dirty_is_writing(struct sfs_dirty *d, uint64_t off);
/* Drops the dirty contents of all blocks that begin in [from, to), from a multiple of SFS_BLOCK. Returns how
 * many. */
uint64_t sfs_dirty_drop(struct sfs_dirty *d, uint64_t from, uint64_t to);
/* The first dirty block that overlaps [from, to). */
bool sfs_dirty_next(struct sfs_dirty *d, uint64_t from, uint64_t to, uint64_t *off, uint8_t **data);
/* The lowest block, dirty or being written, that ends beyond off; UINT64_MAX: none. */
uint64_t sfs_dirty_lowest(struct sfs_dirty *d, uint64_t off);

/* What to write next: the lowest run of dirty blocks within one chunk, none of them being written. full: only
 * chunks dirty from end to end. limit: only chunks whose stamp isn't newer. */
bool sfs_dirty_pick(struct sfs_dirty *d, bool full, uint64_t limit, uint64_t *off, unsigned *nblocks);
/* Takes a picked run: copies it to out; the blocks are now being written. Returns the stamp. */
uint64_t sfs_dirty_take(struct sfs_dirty *d, uint64_t off, unsigned nblocks, uint8_t *out);
void sfs_dirty_written(struct sfs_dirty *d, uint64_t off, unsigned nblocks);
/* The write failed: the blocks are dirty again, from data, where they weren't written to since. Returns how
 * many came back; the rest is no longer here. */
unsigned sfs_dirty_restore(struct sfs_dirty *d, uint64_t off, unsigned nblocks, const uint8_t *data,
                           uint64_t stamp);

#endif
