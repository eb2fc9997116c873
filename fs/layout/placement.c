/* Placement and capacity. Everything here counts groups, never walks slab by slab: statfs calls it. */
#include "fs/layout/placement.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_SLAB_BYTES (256ull << 20)
#define MIN_SLAB_BYTES (1ull << 20)
#define MIN_SLABS_PER_DISK 64u
#define MAX_OPEN_GROUPS 8u

static bool is_better(const struct sfs_place_disk *disks, unsigned a, unsigned b)
{
    if (disks[a].free_slabs != disks[b].free_slabs)
        return disks[a].free_slabs > disks[b].free_slabs;
    if (disks[a].open != disks[b].open)
        return disks[a].open < disks[b].open;
    return a < b;
}

unsigned sfs_place_pick(const struct sfs_place_disk *disks, unsigned n, unsigned want, unsigned *out)
{
    unsigned found = 0;

    /* Insertion into the best so far: n and want are small. */
    for (unsigned d = 0; d < n; d++) {
        unsigned at = found;

        if (!disks[d].usable || disks[d].free_slabs == 0)
            continue;
        while (at > 0 && is_better(disks, d, out[at - 1]))
            at--;
        if (at >= want)
            continue;
        if (found < want)
            found++;
        memmove(&out[at + 1], &out[at], (found - 1 - at) * sizeof(out[0]));
        out[at] = d;
    }
    return found;
}

/* sum(min(slabs[i], k)) - c * k: how many slabs k groups would leave over; concave in k, 0 at 0. */
static __int128 left_over(const uint64_t *slabs, unsigned n, unsigned c, uint64_t k)
{
    __int128 left = -(__int128)c * k;

    for (unsigned i = 0; i < n; i++)
        left += slabs[i] < k ? slabs[i] : k;
    return left;
}

uint64_t sfs_place_optimum(const uint64_t *slabs, unsigned n, unsigned c)
{
    uint64_t low = 0, high; /* low groups fit, more than high don't */
    unsigned __int128 sum = 0;

    SFS_ASSERT(c > 0);
    if (n < c)
        return 0;
    for (unsigned i = 0; i < n; i++)
        sum += slabs[i];
    high = sum / c > UINT64_MAX ? UINT64_MAX : (uint64_t)(sum / c);
    while (low < high) {
        uint64_t k = high - (high - low) / 2;

        if (left_over(slabs, n, c, k) >= 0)
            low = k;
        else
            high = k - 1;
    }
    return low;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Data slabs (not parity) in groups as wide as there are disks with free slabs, which are at most
 * SFS_MAX_COLUMNS, until they are too few. sizes is sorted here. Each group takes one slab from every disk
 * that has one: between one disk's end and the next, all groups have the same width. */
static unsigned __int128 narrowing_groups(uint64_t *sizes, unsigned n, unsigned parity, unsigned min_columns)
{
    unsigned __int128 data_slabs = 0;
    uint64_t used = 0;

    qsort(sizes, n, sizeof(sizes[0]), by_value);
    for (unsigned i = 0; i < n && n - i >= min_columns; i++) {
        data_slabs += (unsigned __int128)(sizes[i] - used) * (n - i - parity);
        used = sizes[i];
    }
    return data_slabs;
}

/* Parity as wide as possible. First the widest groups, as many as fit: K. Fewer than SFS_MAX_COLUMNS disks
 * have more than K slabs; each of them is in every one of these groups, or nearly (fewer than SFS_MAX_COLUMNS
 * slabs in all may be left elsewhere, and aren't counted). What they have beyond K goes to narrower groups.
 */
static unsigned __int128 auto_parity_slabs(const uint64_t *slabs, unsigned n, unsigned parity,
                                           unsigned min_columns)
{
    uint64_t widest = sfs_place_optimum(slabs, n, SFS_MAX_COLUMNS);
    uint64_t rest[SFS_MAX_COLUMNS];
    unsigned nrest = 0;

    for (unsigned i = 0; i < n; i++) {
        if (slabs[i] > widest) {
            SFS_ASSERT(nrest < SFS_MAX_COLUMNS);
            rest[nrest++] = slabs[i] - widest;
        }
    }
    return (unsigned __int128)widest * (SFS_MAX_COLUMNS - parity) +
           narrowing_groups(rest, nrest, parity, min_columns);
}

uint64_t sfs_place_capacity(const uint64_t *slabs, unsigned n, enum sfs_resiliency r, unsigned columns,
                            uint64_t slab_bytes)
{
    unsigned parity = sfs_resiliency_parity(r), min_columns = sfs_resiliency_min_columns(r);
    unsigned __int128 data_slabs, bytes;

    if (columns == 0 && parity > 0) {
        data_slabs = auto_parity_slabs(slabs, n, parity, min_columns);
    } else {
        if (columns == 0)
            columns = 1;
        if (columns < min_columns || columns > SFS_MAX_COLUMNS)
            return 0;
        data_slabs = (unsigned __int128)sfs_place_optimum(slabs, n, columns * sfs_resiliency_copies(r)) *
                     (columns - parity);
    }
    bytes = data_slabs * slab_bytes;
    return bytes > INT64_MAX ? INT64_MAX : (uint64_t)bytes;
}

uint64_t sfs_place_slab_bytes(uint64_t smallest_disk_bytes, uint64_t preferred)
{
    uint64_t slab_bytes = preferred ? preferred : DEFAULT_SLAB_BYTES;

    if (slab_bytes < MIN_SLAB_BYTES || (slab_bytes & (slab_bytes - 1)) != 0)
        return 0;
    while (slab_bytes > MIN_SLAB_BYTES && smallest_disk_bytes / slab_bytes < MIN_SLABS_PER_DISK)
        slab_bytes /= 2;
    return smallest_disk_bytes / slab_bytes < MIN_SLABS_PER_DISK ? 0 : slab_bytes;
}

unsigned sfs_place_open_groups(unsigned n, unsigned c)
{
    unsigned a = n, b = c, groups;

    while (b) {
        unsigned rest = a % b;

        a = b;
        b = rest;
    }
    groups = n / (a ? a : 1);
    if (groups < 1)
        return 1;
    return groups < MAX_OPEN_GROUPS ? groups : MAX_OPEN_GROUPS;
}
