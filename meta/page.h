/* The trailer of a database page: XXH3-64 of the other bytes, seeded with the page's number, little-endian.
 */
#ifndef SFS_META_PAGE_H
#define SFS_META_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#define SFS_PAGE_BYTES 4096u
#define SFS_PAGE_RESERVED 8u /* bytes at the end of each page that SQLite leaves to us */

/* page: number as SQLite counts, from 1. */
void sfs_page_seal(uint8_t *bytes, uint64_t page);
bool sfs_page_good(const uint8_t *bytes, uint64_t page);

#endif
