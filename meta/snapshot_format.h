/* Bytes of a snapshot file: a header, then one zstd frame (with its checksum) of records: page number (4
 * bytes, little-endian), page (4096 bytes). A later record of the same page replaces an earlier one; number 0
 * without a page ends the list. The header is written last. Numbers are little-endian. */
#ifndef SFS_META_SNAPSHOT_FORMAT_H
#define SFS_META_SNAPSHOT_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SFS_SNAPSHOT_MAGIC "sfssnap\n"
#define SFS_SNAPSHOT_VERSION 1u
#define SFS_SNAPSHOT_HEADER_BYTES 4096u /* the frame begins here */

struct sfs_snapshot_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t page_bytes;
    uint64_t commit_seq;
    uint64_t pages;
    int64_t time;
    uint8_t pool[16];
    uint64_t frame_bytes;
    uint64_t sum; /* XXH3-64 of the bytes before */
};
static_assert(sizeof(struct sfs_snapshot_header) == 72 && offsetof(struct sfs_snapshot_header, sum) == 64,
              "snapshot header");

#endif
