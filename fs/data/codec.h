/* Compression and checksums of stored extents. Pure; the only file that includes zstd.h is codec.c. */
#ifndef SFS_DATA_CODEC_H
#define SFS_DATA_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include "meta/catalog.h"

#define SFS_CODEC_RAW_MAX (128u << 10) /* raw bytes of a compressed extent at most */
#define SFS_ZSTD_LEVEL_DEFAULT 3
#define SFS_ZSTD_LEVEL_MIN 1
#define SFS_ZSTD_LEVEL_MAX 19

/* XXH3-64. */
uint64_t sfs_checksum(const void *data, size_t len);
/* Number of checksums of a stored extent, and checksum i covers [*from, *to) of its stored bytes. Codec none: a granule each; zstd: one for all. */
unsigned sfs_checksum_count(enum sfs_codec codec, uint32_t slen);
void sfs_checksum_range(enum sfs_codec codec, uint32_t slen, unsigned i, uint32_t *from, uint32_t *to);
/* Compresses src into dst (cap bytes). Bytes written, or 0 when it does not get to at most cap: then it does not pay. */
size_t sfs_codec_compress(enum sfs_codec codec, int level, const void *src, size_t len, void *dst, size_t cap);
/* 0, or -EUCLEAN when it does not decode to exactly rlen bytes. */
int sfs_codec_decompress(enum sfs_codec codec, const void *src, size_t len, void *dst, size_t rlen);

#endif
