/* Sizes as people write them. Binary units: 4K = 4KiB = 4096, 1T = 1TiB; KB, MB … are powers of 1000; a bare number is bytes. Fractions
 * ("1.5T") are allowed when the result is a whole number of bytes after rounding down. Case is ignored. */
#ifndef SFS_BASE_SIZE_H
#define SFS_BASE_SIZE_H

#include <stdint.h>
#include "fs/base/error.h"

/* what: names the thing in the error's text ("--size"). 0, -EINVAL (not a size) or -ERANGE (over 2^63-1). */
int sfs_size_parse(const char *text, const char *what, uint64_t *out, struct sfs_error *err);
/* "1.50 TiB"; out gets at most 16 bytes. */
char *sfs_size_format(uint64_t bytes, char out[16]);
/* Names of pools, spaces and disks: 1 to 64 of letters, digits, '-', '_', '.', '+' and bytes above 0x7f that are valid UTF-8; not beginning with '-' or '.'.
 * 0 or -EINVAL with words. */
int sfs_name_check(const char *text, const char *what, struct sfs_error *err);
/* Durations as in "5m", "30s", "1h", "2d" (also ms, min, w; fractions as above); a bare number is seconds. Result in nanoseconds. */
int sfs_duration_parse(const char *text, const char *what, uint64_t *out_ns, struct sfs_error *err);

#endif
