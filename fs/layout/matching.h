/* Where slabs that have to leave their disk can go: the question behind removing a disk and "could its loss be healed".
 * Pure. */
#ifndef SFS_LAYOUT_MATCHING_H
#define SFS_LAYOUT_MATCHING_H

#include <stdint.h>

#define SFS_MATCH_DISKS 64u

struct sfs_match_slab {
    uint64_t may;    /* bit by disk: it may go there */
    uint64_t prefer; /* of those: better ones */
    int to;          /* result: the disk, -1 for none */
};
/* Gives each slab a disk, each disk at most room[] of them. Finds places for as many as can be had (a maximum matching);
 * of equals the disk with most room is taken. Returns how many found one. n_disks <= SFS_MATCH_DISKS. */
unsigned sfs_match(struct sfs_match_slab *slabs, unsigned n, const uint64_t *room, unsigned n_disks);

#endif
