/* Inside of fs/check: check.c (the order of things), disks.c (labels), labels.c (lost ones), proof.c (what a slab holds), replicas.c (the catalog's copies), catalog.c (the rules), problems.c (words), shared.c and data.c (copies of extents), snapshots.c (listing them). */
#ifndef SFS_CHECK_CHECK_IMPL_H
#define SFS_CHECK_CHECK_IMPL_H

#include "fs/check/check.h"
#include "fs/disk/disk.h"
#include "fs/pool/discover.h"
#include "meta/audit.h"
#include "meta/snapshot.h"

#define SFS_CHECK_ITEMS 10u /* of one kind, shown */
#define SFS_CHECK_KEEP 3u   /* saved catalogs */

struct sfs_check_disk {
    char name[SFS_NAME_MAX + 1];
    char path[SFS_PATH_BYTES];
    struct sfs_uuid uuid;
    struct sfs_disk *disk;      /* NULL: missing */
    bool replica;               /* holds a current one */
    bool present;               /* it could be opened */
};

struct sfs_check_extent {
    uint64_t ino, off;
};

struct sfs_check {
    struct sfs_env *env;
    const struct sfs_check_opts *opts;
    const struct sfs_check_ui *ui;
    struct sfs_check_result *result;
    struct sfs_error *err;
    struct sfs_discovery found;
    struct sfs_check_disk disks[SFS_LABEL_PEERS];
    unsigned ndisks;
    uint64_t slab_bytes;
    struct sfs_epoch epoch;
    struct sfs_replicas *replicas;
    struct sfs_audit *audit;
    struct sfs_check_extent *shared; /* extents that contradict each other, to be settled */
    unsigned nshared;
    bool labels_dirty;          /* replica flags have changed: a new epoch */
    bool extracting;            /* the catalog is a working copy, and nothing on the disks may change */
    bool fallen;                /* the structure of the newest copies doesn't hold together: only snapshots are left */
    bool rolled_back;           /* the catalog is an older one: data must be verified */
    bool repaired;              /* the catalog was changed in this run */
};

/* check.c */
void sfs_check_note(struct sfs_check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sfs_check_progress(struct sfs_check *c, const char *what, uint64_t done, uint64_t total);
/* May it be mended? Asks, where that is the mode. */
bool sfs_check_allowed(struct sfs_check *c, const struct sfs_check_problem *p);
/* Counts it and tells of it. */
void sfs_check_settle(struct sfs_check *c, const struct sfs_check_problem *p, enum sfs_check_outcome outcome);
/* What became of a problem that was not to be mended: FOUND with -n, else LEFT. */
enum sfs_check_outcome sfs_check_unmended(const struct sfs_check *c);
bool sfs_check_cancelled(struct sfs_check *c);
static inline bool sfs_check_writes(const struct sfs_check *c)
{
    return c->opts->mode != SFS_CHECK_LOOK;
}

void sfs_check_close(struct sfs_check *c); /* catalog and disks */

/* disks.c */
int sfs_check_find_disks(struct sfs_check *c, const char *which);
int sfs_check_list_disks(struct sfs_check *c); /* after sfs_check_find_disks has found them split (-EUCLEAN) */
int sfs_check_open_disks(struct sfs_check *c);
int sfs_check_open_disk(struct sfs_check *c, struct sfs_check_disk *d); /* one that can't be used is told of and left out; -EBUSY with words */
void sfs_check_close_disks(struct sfs_check *c);
int sfs_check_write_labels(struct sfs_check *c, bool new_epoch);
unsigned sfs_check_stores(struct sfs_check *c, bool replicas_only, struct sfs_store *out);

struct sfs_check_disk *sfs_check_disk_of(struct sfs_check *c, const struct sfs_uuid *uuid); /* NULL: none of ours */

/* labels.c: with the audit open, before it is told what the disks say. Disks whose label is made anew, or could be, are open afterwards. */
int sfs_check_lost_labels(struct sfs_check *c);

/* proof.c: with the audit open */
#define SFS_CHECK_PROOFS 64u /* checksums compared for one slab */
struct sfs_check_proof {
    unsigned good, bad;
};
/* Compares up to `most` checksums of what should lie in the slab with what does. -ENODEV, -ETIMEDOUT: the disk is gone. */
int sfs_check_prove_slab(struct sfs_check *c, struct sfs_disk *disk, const struct sfs_audit_slab *s, unsigned most, struct sfs_check_proof *out);
/* Tells the audit which of the slabs that share a slot are there. */
int sfs_check_judge_contested(struct sfs_check *c);

/* replicas.c */
int sfs_check_open_replicas(struct sfs_check *c);
/* No copy of the catalog can be used as it is: goes back to an older one, if there is one and that is wanted; else replicas is NULL. */
int sfs_check_fall_back(struct sfs_check *c);
/* The newest snapshot on any disk that is whole; snap.name "": none. */
struct sfs_check_candidate {
    unsigned disk;             /* index */
    struct sfs_snapshot snap;
};
void sfs_check_best_snapshot(struct sfs_check *c, struct sfs_check_candidate *best);
/* The newest catalog that some disk has whole for itself. *seq 0: none. */
int sfs_check_older_replica(struct sfs_check *c, struct sfs_store *best, int64_t *seq);
int sfs_check_save(struct sfs_check *c); /* before the first change; once */

/* Disks, catalog and audit again, after the pool itself was open in between. */
int sfs_check_reopen(struct sfs_check *c);

/* catalog.c */
int sfs_check_catalog(struct sfs_check *c);
int sfs_check_open_audit(struct sfs_check *c);

/* problems.c */
struct sfs_check_words {
    const char *id, *what, *item, *repair;
    enum sfs_severity severity;
};
extern const struct sfs_check_words sfs_check_words[SFS_FAULT_COUNT];
/* Fills an item's template in: {a} {b} {c} numbers, {t} the text, {p} the path. */
void sfs_check_item_text(const char *template, const struct sfs_audit_item *item, char *out, size_t cap);

/* shared.c */
int sfs_check_take_shared(struct sfs_check *c); /* remembers what was found last */
int sfs_check_settle_shared(struct sfs_check *c, const char *which);

/* data.c: through the pool's own code, which locks the disks itself: nothing may be open */
int sfs_check_open_pool(struct sfs_check *c, const char *which, bool readonly, struct sfs_pool **out);
int sfs_check_data(struct sfs_check *c, const char *which);

#endif
