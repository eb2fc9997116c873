/* The heal job: builds every missing slab anew on other disks, the most endangered groups first; done only after redundancy has been verified. One thread per pool, idle until woken. */
#ifndef SFS_JOB_HEAL_H
#define SFS_JOB_HEAL_H

#include "fs/data/groups.h"
#include "fs/job/throttle.h"

struct sfs_heal;
struct sfs_heal_ops {
    /* May the slabs of this disk (missing or out of use) be built anew now? The delay is the owner's business. disk 0: a slab that was never made. */
    bool (*due)(void *ctx, int disk);
    void (*event)(void *ctx, const char *severity, const char *kind, const char *text);
    void (*verified)(void *ctx, int disk); /* a suspect disk: every copy on it has been looked at */
    void *ctx;
};
struct sfs_heal_status {
    bool running;
    uint64_t done, total;         /* bytes to write */
    uint64_t rate_bytes_s, eta_s; /* 0 unknown */
    unsigned suspects;            /* disks still to be verified */
    uint64_t runs;                /* completed since the pool was opened */
    int last_result;              /* 0: everything due is whole again; -ENOSPC, -EIO …: see last_text */
    char last_text[256];
};
int sfs_heal_start(struct sfs_data *d, const struct sfs_heal_ops *ops, struct sfs_heal **out);
void sfs_heal_stop(struct sfs_heal *h);      /* stops a run between two slabs; NULL is fine */
/* A disk that was out of use for more than being unplugged (errors, truncation) is in use again: every copy on it is compared with its checksums, and repaired, by the next run. */
void sfs_heal_suspect(struct sfs_heal *h, int disk);
/* Disks have gone or returned: a run under way makes its list anew, so that what is most endangered comes first. NULL is fine. */
void sfs_heal_disks_changed(struct sfs_heal *h);
struct sfs_throttle *sfs_heal_throttle(struct sfs_heal *h);
void sfs_heal_wake(struct sfs_heal *h);      /* look whether anything is due */
void sfs_heal_status(struct sfs_heal *h, struct sfs_heal_status *out);
/* Runs until nothing that is due is left to do and returns the run's result, with its text. */
int sfs_heal_wait(struct sfs_heal *h, char *text, size_t cap);

#endif
