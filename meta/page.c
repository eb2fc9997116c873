#include "meta/page.h"

#include <xxhash.h>

static uint64_t sum_of(const uint8_t *bytes, uint64_t page)
{
    return XXH3_64bits_withSeed(bytes, SFS_PAGE_BYTES - SFS_PAGE_RESERVED, page);
}

void sfs_page_seal(uint8_t *bytes, uint64_t page)
{
    uint64_t sum = sum_of(bytes, page);
    for (unsigned i = 0; i < SFS_PAGE_RESERVED; i++)
        bytes[SFS_PAGE_BYTES - SFS_PAGE_RESERVED + i] = (uint8_t)(sum >> (8 * i));
}

bool sfs_page_good(const uint8_t *bytes, uint64_t page)
{
    uint64_t stored = 0;
    for (unsigned i = 0; i < SFS_PAGE_RESERVED; i++)
        stored |= (uint64_t)bytes[SFS_PAGE_BYTES - SFS_PAGE_RESERVED + i] << (8 * i);
    return stored == sum_of(bytes, page);
}
