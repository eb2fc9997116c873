/* Data that says where it came from. Every write has a tag of its own; its byte at origin position p belongs to the 8-byte word p/8 of that tag, and the word
 * holds tag and position, readable back from any 8 aligned bytes. Words of even tags are scrambled by a bijection: they don't compress. */
#ifndef SIM_PATTERN_H
#define SIM_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define SIM_TAG_MAX 0xffffffu

void sim_pattern_fill(void *out, uint32_t tag, uint64_t origin, size_t len); /* tag 0: zeros */
/* Says in words what the bytes at `at` (8 of them) are: "tag 12 at 4096", "zeros", "unknown 01 02 …". */
char *sim_pattern_name(const uint8_t *at, size_t avail, char *out, size_t cap);

#endif
