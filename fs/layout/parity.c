/* P and Q by ISA-L, over GF(2^8) with the polynomial 0x11d and the generator 2, as in Linux' RAID 6:
 *   P = d0 + d1 + …            Q = d0 + 2 d1 + 4 d2 + …      (+ is exclusive or)
 * These are the first two parity rows of ISA-L's Reed-Solomon matrix: with up to 255 data units, any two
 * losses have one solution. */
#include "fs/layout/parity.h"

#include <errno.h>
#include <isa-l.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "fs/base/error.h"

#define DATA_MAX 16u
#define PARITY_MAX 2u
#define UNITS_MAX (DATA_MAX + PARITY_MAX)
#define TABLE_BYTES (32u * DATA_MAX * PARITY_MAX)

static void check_shape(unsigned data, unsigned parity, size_t len)
{
    SFS_ASSERT(data >= 1 && data <= DATA_MAX && parity >= 1 && parity <= PARITY_MAX);
    SFS_ASSERT(len % 32 == 0 && len <= INT_MAX);
}

/* outs[i] = sum of rows[i * nsources + j] * sources[j] */
static void combine(unsigned nsources, unsigned nouts, uint8_t *rows, uint8_t **sources, uint8_t **outs,
                    size_t len)
{
    uint8_t tables[TABLE_BYTES];

    ec_init_tables((int)nsources, (int)nouts, rows, tables);
    ec_encode_data((int)len, (int)nsources, (int)nouts, tables, sources, outs);
}

void sfs_parity_encode(unsigned data, unsigned parity, uint8_t *const *units, size_t len)
{
    uint8_t matrix[UNITS_MAX * DATA_MAX];
    void *all[UNITS_MAX];
    uint8_t *bytes[UNITS_MAX];

    check_shape(data, parity, len);
    if (len == 0)
        return;
    for (unsigned i = 0; i < data + parity; i++)
        all[i] = bytes[i] = units[i];
    if (data >= 2) {
        /* The same sums in their own, faster routines, which want at least two data units. */
        if (parity == 1)
            SFS_ASSERT(xor_gen((int)(data + 1), (int)len, all) == 0);
        else
            SFS_ASSERT(pq_gen((int)(data + 2), (int)len, all) == 0);
        return;
    }
    gf_gen_rs_matrix(matrix, (int)(data + parity), (int)data);
    combine(data, parity, &matrix[data * data], bytes, &bytes[data], len);
}

/* One lost unit among the data and P: it is the sum of the others of them. */
static void rebuild_by_sum(unsigned data, uint8_t *const *units, size_t len, unsigned lost)
{
    void *all[DATA_MAX + 1];
    unsigned n = 0;

    for (unsigned i = 0; i <= data; i++) {
        if (i != lost)
            all[n++] = units[i];
    }
    all[n] = units[lost];
    SFS_ASSERT(xor_gen((int)(data + 1), (int)len, all) == 0);
}

/* `data` units that are left are taken as sources. With E the rows of the matrix that made them, data = E^-1
 * sources; a lost data unit is a row of E^-1, a lost parity unit its row of the matrix times E^-1. */
static void rebuild_by_matrix(unsigned data, unsigned parity, uint8_t *const *units, size_t len,
                              const unsigned *lost, unsigned nlost, const bool *is_lost)
{
    uint8_t matrix[UNITS_MAX * DATA_MAX], left[DATA_MAX * DATA_MAX], inverse[DATA_MAX * DATA_MAX];
    uint8_t rows[PARITY_MAX * DATA_MAX];
    uint8_t *sources[DATA_MAX], *outs[PARITY_MAX];
    unsigned n = 0;

    gf_gen_rs_matrix(matrix, (int)(data + parity), (int)data);
    for (unsigned i = 0; n < data; i++) {
        if (is_lost[i])
            continue;
        memcpy(&left[n * data], &matrix[i * data], data);
        sources[n++] = units[i];
    }
    SFS_ASSERT(gf_invert_matrix(left, inverse, (int)data) == 0);
    for (unsigned l = 0; l < nlost; l++) {
        const uint8_t *made_by = &matrix[lost[l] * data];

        for (unsigned j = 0; j < data; j++) {
            uint8_t sum = 0;

            for (unsigned k = 0; k < data; k++)
                sum ^= gf_mul(made_by[k], inverse[k * data + j]);
            rows[l * data + j] = sum;
        }
        outs[l] = units[lost[l]];
    }
    combine(data, nlost, rows, sources, outs, len);
}

int sfs_parity_rebuild(unsigned data, unsigned parity, uint8_t *const *units, size_t len,
                       const unsigned *lost, unsigned nlost)
{
    bool is_lost[UNITS_MAX] = {false};

    check_shape(data, parity, len);
    if (nlost > parity)
        return -EINVAL;
    for (unsigned l = 0; l < nlost; l++) {
        if (lost[l] >= data + parity || is_lost[lost[l]])
            return -EINVAL;
        is_lost[lost[l]] = true;
    }
    if (nlost == 0 || len == 0)
        return 0;
    if (nlost == 1 && lost[0] <= data && data >= 2)
        rebuild_by_sum(data, units, len, lost[0]);
    else
        rebuild_by_matrix(data, parity, units, len, lost, nlost, is_lost);
    return 0;
}
