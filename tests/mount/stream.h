/* Contents that follow from a number: byte `off` of stream `seed`, wherever one starts reading. */
#ifndef SFS_TESTS_MOUNT_STREAM_H
#define SFS_TESTS_MOUNT_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t stream_word(uint64_t seed, uint64_t i)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + i * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Every third KiB is a text that compresses well, so that both ways of storing are taken. */
static inline uint8_t stream_byte(uint64_t seed, uint64_t off)
{
    static const char text[] = "the quick brown fox jumps over the lazy dog; ";
    if ((off >> 10) % 3 == seed % 3)
        return (uint8_t)text[(off + seed) % (sizeof(text) - 1)];
    return (uint8_t)(stream_word(seed, off / 8) >> (off % 8 * 8));
}

static inline void stream_fill(uint64_t seed, uint64_t off, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = stream_byte(seed, off + i);
}

/* The first byte of buf that differs, or len. */
static inline size_t stream_differs(uint64_t seed, uint64_t off, const uint8_t *buf, size_t len)
{
    size_t i = 0;
    while (i < len && buf[i] == stream_byte(seed, off + i))
        i++;
    return i;
}

#endif
