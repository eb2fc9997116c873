/* What is known to be damaged: places whose bytes have no good copy, though a disk that should have one is here. And what was repaired lately.
 * Noted by the reader (so by scrub and heal, too), kept in the catalog, and taken back when the bytes are found good again or nothing names them any more.
 * A place whose only copies lie on missing disks isn't noted: that follows from the groups. For fs/pool and fs/job. Thread-safe; takes the lock of fs/data. */
#ifndef SFS_DATA_DAMAGE_H
#define SFS_DATA_DAMAGE_H

#include "fs/data/data.h"

unsigned sfs_damage_count(struct sfs_data *d);
/* All of them, by group and place; malloc'ed, the caller's to free. 0 or -ENOMEM. */
int sfs_damage_list(struct sfs_data *d, struct sfs_damage_row **out, unsigned *n);
/* How many bytes of a group's [from, to) are damaged. */
uint64_t sfs_damage_bytes(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to);
/* Those found since the last call, up to max; returns how many. */
unsigned sfs_damage_take_new(struct sfs_data *d, struct sfs_damage_row *out, unsigned max);
/* Reads up to max known places, after *cursor in their order (zeroed: from the first), and takes back what is good again. True when there are more. No lock held. */
bool sfs_damage_recheck(struct sfs_data *d, struct sfs_damage_row *cursor, unsigned max);
/* From the catalog, after the groups were loaded. 0, -ENOMEM, -EUCLEAN. */
int sfs_damage_load(struct sfs_data *d);

/* A bad copy that was rewritten from a good one. */
struct sfs_repaired {
    uint64_t group, goff;   /* of the stored extent, bytes */
    int disk;
    uint32_t blocks;        /* of SFS_BLOCK bytes */
};
/* What was repaired since the last call, up to max (then call again). Of more than 4096 between two calls, only the first are named. */
unsigned sfs_repaired_take(struct sfs_data *d, struct sfs_repaired *out, unsigned max);

#endif
