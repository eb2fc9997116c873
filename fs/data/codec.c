#include "fs/data/codec.h"

#include <errno.h>
#include <xxhash.h>
#include <zstd.h>

uint64_t sfs_checksum(const void *data, size_t len)
{
    return XXH3_64bits(data, len);
}

unsigned sfs_checksum_count(enum sfs_codec codec, uint32_t slen)
{
    return codec == SFS_CODEC_NONE ? (slen + SFS_CSUM_GRANULE - 1) / SFS_CSUM_GRANULE : 1;
}

void sfs_checksum_range(enum sfs_codec codec, uint32_t slen, unsigned i, uint32_t *from, uint32_t *to)
{
    if (codec != SFS_CODEC_NONE) {
        *from = 0;
        *to = slen;
        return;
    }
    *from = i * SFS_CSUM_GRANULE;
    *to = *from + SFS_CSUM_GRANULE < slen ? *from + SFS_CSUM_GRANULE : slen;
}

size_t sfs_codec_compress(enum sfs_codec codec, int level, const void *src, size_t len, void *dst, size_t cap)
{
    if (codec != SFS_CODEC_ZSTD)
        return 0;
    size_t n = ZSTD_compress(dst, cap, src, len, level);
    return ZSTD_isError(n) ? 0 : n;
}

int sfs_codec_decompress(enum sfs_codec codec, const void *src, size_t len, void *dst, size_t rlen)
{
    if (codec != SFS_CODEC_ZSTD)
        return -EUCLEAN;
    size_t n = ZSTD_decompress(dst, rlen, src, len);
    return ZSTD_isError(n) || n != rlen ? -EUCLEAN : 0;
}
