/* Parity: against a scalar reference, and rebuilding for every width, every set of losses, every tail. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/env.h"
#include "fs/layout/parity.h"

#define MAX_COLUMNS 16u
#define MAX_LEN 4096u

static struct sfs_env *env;
static uint8_t *units[MAX_COLUMNS], *good[MAX_COLUMNS];

static void setup(void)
{
    env = sfs_env_new_sim(3);
    for (unsigned i = 0; i < MAX_COLUMNS; i++) {
        /* Beyond each unit there is a byte that shall stay. */
        units[i] = aligned_alloc(32, MAX_LEN + 32);
        good[i] = aligned_alloc(32, MAX_LEN + 32);
    }
}

static void teardown(void)
{
    for (unsigned i = 0; i < MAX_COLUMNS; i++) {
        free(units[i]);
        free(good[i]);
    }
    sfs_env_free(env);
}

TestSuite(parity, .init = setup, .fini = teardown);

static uint8_t times(uint8_t a, uint8_t b)
{
    uint8_t product = 0;

    for (; b; b >>= 1) {
        if (b & 1)
            product ^= a;
        a = (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
    }
    return product;
}

static void make(unsigned data, unsigned parity, size_t len)
{
    for (unsigned i = 0; i < data + parity; i++) {
        sfs_env_rand_bytes(env, units[i], len + 1);
        memcpy(good[i], units[i], len + 1);
    }
    for (size_t at = 0; at < len; at++) {
        uint8_t p = 0, q = 0, power = 1;

        for (unsigned d = 0; d < data; d++) {
            p ^= good[d][at];
            q ^= times(power, good[d][at]);
            power = times(power, 2);
        }
        good[data][at] = p;
        if (parity > 1)
            good[data + 1][at] = q;
    }
}

static void check(unsigned data, unsigned parity, size_t len)
{
    for (unsigned i = 0; i < data + parity; i++)
        cr_assert_arr_eq(units[i], good[i], len + 1, "unit %u of %u+%u, %zu bytes", i, data, parity, len);
}

static void lose(const unsigned *lost, unsigned nlost, size_t len)
{
    for (unsigned l = 0; l < nlost; l++)
        sfs_env_rand_bytes(env, units[lost[l]], len);
}

static const size_t lengths[] = {32, 64, 96, 128, 160, 224, 256, 480, 512, 544, 992, 1024, 1056, 4064, 4096};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

Test(parity, encode_is_the_reference)
{
    for (unsigned parity = 1; parity <= 2; parity++) {
        for (unsigned data = 1; data + parity <= MAX_COLUMNS; data++) {
            for (unsigned l = 0; l < LENGTHS; l++) {
                make(data, parity, lengths[l]);
                sfs_parity_encode(data, parity, units, lengths[l]);
                check(data, parity, lengths[l]);
            }
        }
    }
}

Test(parity, rebuild_of_every_loss)
{
    for (unsigned parity = 1; parity <= 2; parity++) {
        for (unsigned data = 1; data + parity <= MAX_COLUMNS; data++) {
            for (unsigned l = 0; l < LENGTHS; l += data % 2 + 1) {
                size_t len = lengths[l];

                make(data, parity, len);
                sfs_parity_encode(data, parity, units, len);
                for (unsigned a = 0; a < data + parity; a++) {
                    lose(&a, 1, len);
                    cr_assert_eq(sfs_parity_rebuild(data, parity, units, len, &a, 1), 0);
                    check(data, parity, len);
                    for (unsigned b = 0; parity == 2 && b < data + parity; b++) {
                        unsigned lost[] = {a, b}; /* in either order */

                        if (a == b)
                            continue;
                        lose(lost, 2, len);
                        cr_assert_eq(sfs_parity_rebuild(data, parity, units, len, lost, 2), 0);
                        check(data, parity, len);
                    }
                }
            }
        }
    }
}

Test(parity, refuses_too_many_losses)
{
    static const unsigned three[] = {0, 1, 2}, same[] = {1, 1}, beyond[] = {6};

    make(4, 2, 64);
    sfs_parity_encode(4, 2, units, 64);
    cr_assert_eq(sfs_parity_rebuild(4, 2, units, 64, three, 3), -EINVAL);
    cr_assert_eq(sfs_parity_rebuild(4, 1, units, 64, three, 2), -EINVAL);
    cr_assert_eq(sfs_parity_rebuild(4, 2, units, 64, same, 2), -EINVAL);
    cr_assert_eq(sfs_parity_rebuild(4, 2, units, 64, beyond, 1), -EINVAL);
    cr_assert_eq(sfs_parity_rebuild(4, 2, units, 64, NULL, 0), 0);
    check(4, 2, 64);
}
