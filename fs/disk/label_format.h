/* Bytes on disk of labels and of an image's metadata map. Everything is little-endian and of fixed width.
 * Rules of change: magic, format, bytes and checksum keep their places and SFS_LABEL_BYTES its value in all
 * formats; unused bytes are written as zero and ignored when read. A bit in `incompat` that a program doesn't
 * know forbids it the disk, one in `ro_compat` forbids it writing, one in `compat` forbids nothing.
 *
 * A directory holds   .spacesfs/label, label.copy   the label, twice
 *                     .spacesfs/lock                flock, while open
 *                     .spacesfs/catalog/NAME        metadata files
 *                     .spacesfs/slabs/XXXXXXXX      slab files, the slot in 8 hex digits
 * An image holds      0                             label
 *                     layout.map_off                metadata map, copy A, then copy B (layout.map_bytes each)
 *                     layout.meta_off               metadata area: layout.base_chunks chunks
 *                     layout.slots_off              slots, each of slab_bytes
 *                     end, aligned down to 4096,
 *                     less SFS_LABEL_BYTES          copy of the label
 * Chunk numbers: 0 .. base_chunks-1 lie in the metadata area, then come those of the claimed slots, in the
 * order of the map's list. */
#ifndef SFS_DISK_LABEL_FORMAT_H
#define SFS_DISK_LABEL_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include "fs/disk/label.h"

#define SFS_LABEL_MAGIC "SPACESFS" /* 8 bytes, without the NUL */
#define SFS_MAP_MAGIC "SFSMETAM"
#define SFS_LABEL_BYTES 40960u
#define SFS_LABEL_FLAG_REPLICA 1u
#define SFS_LABEL_INCOMPAT_KNOWN 0ull
#define SFS_LABEL_RO_COMPAT_KNOWN 0ull

struct sfs_label_peer_disk {
    uint8_t uuid[16];
    uint32_t flags; /* SFS_LABEL_FLAG_* */
    uint32_t unused;
    char name[72];
    char path[SFS_PATH_BYTES];
};
static_assert(sizeof(struct sfs_label_peer_disk) == 608, "format");

struct sfs_label_disk {
    uint8_t magic[8];
    uint32_t format;
    uint32_t bytes;    /* SFS_LABEL_BYTES */
    uint64_t checksum; /* sfs_format_checksum of all SFS_LABEL_BYTES */
    uint64_t compat, ro_compat, incompat;
    uint64_t generation;
    uint8_t pool_uuid[16], disk_uuid[16];
    uint64_t slab_bytes, capacity_slabs;
    uint32_t flags; /* SFS_LABEL_FLAG_* */
    uint32_t npeers;
    uint64_t epoch_number;
    uint8_t epoch_id[16];
    uint32_t nhistory;
    uint32_t kind; /* enum sfs_disk_kind */
    uint64_t image_bytes, map_off, meta_off, slots_off;
    uint32_t map_bytes, chunk_bytes, base_chunks, max_chunks;
    char pool_name[72], disk_name[72];
    uint8_t unused[176];
    uint8_t history[SFS_LABEL_HISTORY][16];
    struct sfs_label_peer_disk peers[SFS_LABEL_PEERS];
    uint8_t tail[512];
};
static_assert(offsetof(struct sfs_label_disk, checksum) == 16, "format");
static_assert(offsetof(struct sfs_label_disk, pool_uuid) == 56, "format");
static_assert(offsetof(struct sfs_label_disk, epoch_number) == 112, "format");
static_assert(offsetof(struct sfs_label_disk, image_bytes) == 144, "format");
static_assert(offsetof(struct sfs_label_disk, pool_name) == 192, "format");
static_assert(offsetof(struct sfs_label_disk, history) == 512, "format");
static_assert(offsetof(struct sfs_label_disk, peers) == 1536, "format");
static_assert(sizeof(struct sfs_label_disk) == SFS_LABEL_BYTES, "format");

/* The metadata map: header, files, then claimed slots (u32 each), then each file's chunk numbers (u32 each),
 * file after file. */
#define SFS_MAP_FILES 256u /* files at most */
#define SFS_MAP_NAME 32u   /* with the NUL */
struct sfs_map_file_disk {
    char name[SFS_MAP_NAME];
    uint64_t size_bytes;
    uint32_t nchunks;
    uint32_t unused;
};
static_assert(sizeof(struct sfs_map_file_disk) == 48, "format");

struct sfs_map_disk {
    uint8_t magic[8];
    uint32_t format;
    uint32_t bytes;    /* used, this header included */
    uint64_t checksum; /* sfs_format_checksum of `bytes` bytes */
    uint64_t sequence; /* the valid copy with the higher one counts */
    uint8_t disk_uuid[16];
    uint32_t nfiles, nclaims, nchunks; /* entries that follow; nchunks over all files */
    uint32_t unused;
};
static_assert(offsetof(struct sfs_map_disk, checksum) == 16, "format");
static_assert(sizeof(struct sfs_map_disk) == 64, "format");

/* XXH3 (64 bits) of all that follows the checksum field at bytes 16 to 23, seeded with the XXH3 of what
 * precedes it. */
uint64_t sfs_format_checksum(const uint8_t *bytes, size_t len);

/* Of two copies read (each either decoded with rc 0, or with its error), picks the one to believe: the valid
 * one with the higher generation. Returns 0 or the first one's error, or the second's if the first is just
 * absent; *stale tells that the other needs to be written again. The label picked ends up in *a. */
int sfs_label_pick(struct sfs_label *a, int a_rc, struct sfs_label *b, int b_rc, bool *stale);
/* The metadata file names that disk.h allows. */
bool sfs_meta_name_ok(const char *name);

#endif
