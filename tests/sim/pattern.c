#include "tests/sim/pattern.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/rng.h"

/* tag: 24 bits, word number: 24 bits, a check over both: 16 bits */
static uint64_t plain_word(uint32_t tag, uint64_t number)
{
    uint64_t v = (uint64_t)tag << 40 | (number & 0xffffff) << 16;

    return v | (sim_mix(v) & 0xffff);
}

static uint64_t word(uint32_t tag, uint64_t number)
{
    uint64_t v = plain_word(tag, number);

    return (tag & 1) ? v : sim_mix(v);
}

/* The inverse of sim_mix. */
static uint64_t unmix(uint64_t x)
{
    x = (x ^ (x >> 31) ^ (x >> 62)) * 0x319642b2d24d8ec3ull;
    x = (x ^ (x >> 27) ^ (x >> 54)) * 0x96de1b173f119089ull;
    return x ^ (x >> 30) ^ (x >> 60);
}

void sim_pattern_fill(void *out, uint32_t tag, uint64_t origin, size_t len)
{
    uint8_t *p = out;

    if (tag == 0) {
        memset(out, 0, len);
        return;
    }
    while (len > 0) {
        uint64_t w = word(tag, origin >> 3);
        size_t skip = origin & 7, n = 8 - skip;

        if (n > len)
            n = len;
        memcpy(p, (uint8_t *)&w + skip, n);
        p += n;
        origin += n;
        len -= n;
    }
}

char *sim_pattern_name(const uint8_t *at, size_t avail, char *out, size_t cap)
{
    static const uint8_t zeros[8];
    size_t n = avail < 8 ? avail : 8;

    if (memcmp(at, zeros, n) == 0) {
        snprintf(out, cap, "zeros");
        return out;
    }
    /* The word may begin at any of the next bytes: offsets are not always multiples of 8. */
    for (size_t shift = 0; shift < 8 && shift + 8 <= avail; shift++) {
        uint64_t raw;

        memcpy(&raw, at + shift, 8);
        for (int scrambled = 0; scrambled < 2; scrambled++) {
            uint64_t v = scrambled ? unmix(raw) : raw;
            uint32_t tag = (uint32_t)(v >> 40);
            uint64_t number = (v >> 16) & 0xffffff;

            if (tag != 0 && plain_word(tag, number) == v && (tag & 1) != (unsigned)scrambled) {
                snprintf(out, cap, "tag %u at %lld", tag, (long long)(number * 8) - (long long)shift);
                return out;
            }
        }
    }
    snprintf(out, cap, "unknown %02x %02x %02x %02x %02x %02x %02x %02x", at[0], n > 1 ? at[1] : 0, n > 2 ? at[2] : 0,
             n > 3 ? at[3] : 0, n > 4 ? at[4] : 0, n > 5 ? at[5] : 0, n > 6 ? at[6] : 0, n > 7 ? at[7] : 0);
    return out;
}
