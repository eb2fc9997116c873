/* Placement and capacity: which disks a group takes, and how much a pool can hold. Pure. */
#ifndef SFS_LAYOUT_PLACEMENT_H
#define SFS_LAYOUT_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include "fs/layout/geometry.h"

struct sfs_place_disk {
    uint64_t free_slabs;
    uint32_t open;       /* slabs of open groups of the same space on it: ties go to the disk with fewer */
    bool usable;         /* may take new slabs */
};

/* Picks `want` different usable disks with at least one free slab, those with the most free slabs first (this greedy order reaches the
 * optimum below); ties: fewer `open`, then lower index. Writes their indexes. Returns how many it found (<= want). */
unsigned sfs_place_pick(const struct sfs_place_disk *disks, unsigned n, unsigned want, unsigned *out);

/* For stripes over c distinct disks: the largest k with sum(min(size[i], k)) >= c * k: the number of groups of c slabs that fit.
 * Source: DESIGN.md section 5; for c = 2 it is min(sum/2, sum - largest). */
uint64_t sfs_place_optimum(const uint64_t *slabs, unsigned n, unsigned c);

/* Bytes of user data that `slabs[i]` free slabs on n disks can hold in new groups of resiliency r, `columns` wide (0 = auto: the best that can be had
 * by sfs_geometry_auto_columns as disks fill; with more disks than SFS_MAX_COLUMNS it may fall short of that by up to SFS_MAX_COLUMNS slabs, never beyond). A
 * column count that cannot be: 0. At most INT64_MAX. */
uint64_t sfs_place_capacity(const uint64_t *slabs, unsigned n, enum sfs_resiliency r, unsigned columns, uint64_t slab_bytes);

/* Slab size for a pool: preferred (default 256 MiB), halved until the smallest disk holds at least 64, never below 1 MiB. 0 if it cannot be. */
uint64_t sfs_place_slab_bytes(uint64_t smallest_disk_bytes, uint64_t preferred);

/* How many groups of c slabs a space keeps open so that all n disks work: n / gcd(n, c), at least 1, at most 8. */
unsigned sfs_place_open_groups(unsigned n, unsigned c);

#endif
