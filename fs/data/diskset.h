/* The disks of a pool as data sees them: members, which may be missing, with their slots. For fs/pool and fs/job. */
#ifndef SFS_DATA_DISKSET_H
#define SFS_DATA_DISKSET_H

#include "fs/data/data.h"
#include "fs/disk/disk.h"

struct sfs_data_events {
    /* Something that people should know. May be called with any lock up to SFS_RANK_GROUPS held: queue it. disk: id or 0. */
    void (*event)(void *ctx, const char *severity, const char *kind, int disk, const char *text);
    void *ctx;
};
/* Makes the handle. Nothing is loaded yet: add members, then sfs_groups_load. */
struct sfs_data *sfs_data_new(struct sfs_env *env, struct sfs_catalog *cat, uint64_t slab_bytes, const struct sfs_data_events *ev);
void sfs_data_open_readonly(struct sfs_data *d); /* the pool was opened so: like doubt about its state, but nobody need be told */
int sfs_data_start(struct sfs_data *d);     /* the thread for kicked commits */
void sfs_data_stop(struct sfs_data *d);
void sfs_freeing_tick(struct sfs_data *d);  /* now and then: releases freed space that readers were still looking at when it became durable. No lock held */
void sfs_data_free(struct sfs_data *d);     /* stopped, volumes unused. Disk handles are the owner's */

/* disk may be NULL (missing). The row is copied. */
int sfs_member_add(struct sfs_data *d, const struct sfs_disk_row *row, struct sfs_disk *disk);
int sfs_member_remove(struct sfs_data *d, int id);                       /* -EBUSY while slabs name it */
int sfs_member_update(struct sfs_data *d, const struct sfs_disk_row *row); /* usage, name, lost_since, capacity, path; counters stay */
/* Slots from `slabs` on are not given out any more (not kept: the row is). */
void sfs_member_limit(struct sfs_data *d, int id, uint64_t slabs);
uint64_t sfs_member_free_slabs(struct sfs_data *d, int id);
uint64_t sfs_member_free_below(struct sfs_data *d, int id, uint64_t slot); /* free slots below that one */
/* Returns when every group that was being made when it was called is known with its slabs: then usage and limits set before it hold for all groups. No lock held. */
void sfs_member_settle_new(struct sfs_data *d);
/* Errors of the disk's handle that the data layer has not seen itself. */
void sfs_member_count_errors(struct sfs_data *d, int id, uint64_t reads, uint64_t writes);
void sfs_member_clear_errors(struct sfs_data *d, int id);
/* A disk that is out of use and won't return: its slabs are nowhere from now on, in memory and in the catalog's open transaction. No lock held. */
int sfs_member_forget_slabs(struct sfs_data *d, int id);
/* A missing disk is here (again); or NULL: it has gone. Returns the handle that it replaces, which the owner may close once sfs_quiesce_passed(a ticket taken now). Open groups on a disk that goes are sealed. */
struct sfs_disk *sfs_member_attach(struct sfs_data *d, int id, struct sfs_disk *disk);
/* The disk has been detached: what was written to it and isn't committed is written again elsewhere, or told lost, before it may be attached again (its cache may have gone with it). Idempotent. No lock held. */
int sfs_member_settle_off(struct sfs_data *d, int id);
/* The disk's state changed to out of use: seals its open groups. The handle stays until detached. */
void sfs_member_failed(struct sfs_data *d, int id);
int64_t sfs_member_claim_slot(struct sfs_data *d, struct sfs_disk *disk); /* for the metadata area: the highest free slot, or -ENOSPC */

/* When a program last read or wrote file data (sfs_env_mono_ns); 0: not since the pool was opened. For background work that yields. */
uint64_t sfs_data_program_ns(struct sfs_data *d);

struct sfs_member_info {
    struct sfs_disk_row row;      /* with current error counts */
    bool present, online;
    uint64_t repaired_blocks;     /* since the pool was opened */
    uint64_t free_slabs, held_slabs; /* held: slab rows that name it */
};
uint64_t sfs_data_unreadable(struct sfs_data *d); /* reads (of checksum granules) for which no good copy was found since the pool was opened */
/* Disks that had no room are asked again: room on a directory's host comes and goes. */
void sfs_member_retry_full(struct sfs_data *d);
unsigned sfs_member_list(struct sfs_data *d, struct sfs_member_info *out, unsigned max);

#endif
