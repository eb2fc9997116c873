/* Slab groups and volumes, for fs/pool and fs/job. */
#ifndef SFS_DATA_GROUPS_H
#define SFS_DATA_GROUPS_H

#include "fs/data/data.h"
#include "fs/layout/geometry.h"

/* Loads every space, group and slab row; groups that miss a slab are sealed. Marks slots. 0, -EUCLEAN (rows that contradict each other: two slabs in one slot, unknown disks …, words in err). No lock held. */
int sfs_groups_load(struct sfs_data *d, struct sfs_error *err);
/* Counts what is in use in groups where that isn't known yet (after a load), a group at a time; returns when all is known. For a background thread; sfs_volume_stat waits for it by doing it. */
int sfs_groups_count_used(struct sfs_data *d);
/* Slots of slab files that no row names (a crash between making and committing them): deleted. Call once after load, when writable. */
void sfs_groups_free_orphans(struct sfs_data *d);

/* Slabs of a disk that rows name but that have no file there (a directory: deleted by hand, or lost with the host's cache): recorded as missing where another copy can rebuild them, so that heal does. Call when a
 * disk has been attached, before anything is written to it. No lock held. */
int sfs_groups_check_slabs(struct sfs_data *d, int disk);

/* Volumes. */
int sfs_volume_add(struct sfs_data *d, const struct sfs_space_row *row);      /* a new space (its row is in the catalog) */
void sfs_volume_update(struct sfs_data *d, const struct sfs_space_row *row);  /* new settings: open groups of another geometry are sealed */
int sfs_volume_remove(struct sfs_data *d, int space);                         /* -EBUSY: used, or it has groups. The handle stays valid (for those that are looking) until the end */
/* Bytes that a space with these settings (a new one, or the one with that id) could hold now, whatever its size: what others have reserved or are sure of is theirs. */
uint64_t sfs_volume_could_hold(struct sfs_data *d, const struct sfs_space_row *row);
bool sfs_volume_has_groups(struct sfs_volume *v);                             /* dropped ones that are not released yet, too */
unsigned sfs_volumes_destroying(struct sfs_data *d, int *ids, unsigned max);   /* spaces whose destruction isn't at its end; how many of them */
unsigned sfs_volumes_tolerance(struct sfs_data *d);                           /* losses that the most resilient space bears */
unsigned sfs_volume_ids(struct sfs_data *d, int *spaces, unsigned max);        /* those that aren't being destroyed; returns how many */
struct sfs_volume *sfs_volume_find(struct sfs_data *d, int space);
struct sfs_volume *sfs_volume_find_name(struct sfs_data *d, const char *name);
unsigned sfs_volume_rows(struct sfs_data *d, struct sfs_space_row *out, unsigned max); /* of all spaces, as they are in memory; how many */
/* Bytes that were overwritten within extents of which pieces stay, of a space, since the last call with reset: dead space that may have been added. And what the space has in use. 0 for no such space. */
uint64_t sfs_volume_cut_bytes(struct sfs_data *d, int space, bool reset, uint64_t *used_bytes);
unsigned sfs_volume_use(struct sfs_volume *v, int delta);                     /* counts mounts; returns the new count */

struct sfs_group_info {
    uint64_t id;
    int space;
    enum sfs_resiliency resiliency;
    unsigned columns, copies;
    uint32_t interleave;
    enum sfs_group_kind kind;
    enum sfs_group_state state;
    uint64_t capacity_bytes, used_bytes;
    uint64_t held_bytes;          /* with parity: all of the rows in which anything is used; else used_bytes. 0 while it isn't known */
    unsigned nslabs, missing;     /* slabs that are nowhere or on a disk out of use */
    unsigned tolerance;           /* losses it can bear when whole */
    unsigned spare;               /* disks that may still be lost without losing data */
    bool lost;                    /* missing more than it bears, or a column with no copy */
    bool given_up;                /* lost, whatever returns: its disks were forgotten. What was in it is damaged, not missing */
    struct sfs_slab_row slabs[SFS_MAX_SLABS_PER_GROUP];
    bool slab_online[SFS_MAX_SLABS_PER_GROUP];
};
int sfs_group_info(struct sfs_data *d, uint64_t id, struct sfs_group_info *out); /* -ENOENT */
/* Ids of all groups (malloc'ed, free by the caller). */
int sfs_group_ids(struct sfs_data *d, uint64_t **ids, unsigned *n);
bool sfs_group_has_slab_on(struct sfs_data *d, uint64_t id, int disk);
/* Seals every open group that has a slab on the disk (0: every open group of the pool). */
void sfs_groups_seal_on(struct sfs_data *d, int disk);
/* After a disk was added or is back: seals open groups with parity that are narrower than new ones would be, so that what is written from now on is spread wider. What is free in them is used when there are no slabs for wider ones. */
void sfs_groups_widen(struct sfs_data *d);

#endif
