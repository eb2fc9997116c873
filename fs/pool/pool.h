/* The composition root: opens, wires and closes everything; the administrative calls behind the control protocol. Decides nothing about data.
 * One process has a pool open (locks on its disks). Thread-safe; administrative changes are one at a time (SFS_RANK_ADMIN). */
#ifndef SFS_POOL_POOL_H
#define SFS_POOL_POOL_H

#include "fs/data/data.h"
#include "fs/disk/disk.h"
#include "fs/job/job.h"
#include "fs/layout/geometry.h"

struct sfs_pool;

/* --- making and finding ------------------------------------------------------------------------------------------------------------------ */
struct sfs_disk_spec {
    const char *path;          /* directory, block device, image file ("sim:NAME" with a world) */
    const char *name;          /* NULL: made from the path's last part, made unique with -2, -3 … */
    uint64_t size_bytes;       /* 0: all there is. For an image file that doesn't exist: its size; then it is made (sparse) */
};
struct sfs_pool_create_opts {
    uint64_t slab_bytes;       /* 0: by sfs_place_slab_bytes */
    bool force;                /* overwrite foreign signatures and files with data (never a pool in use) */
    struct sfs_sim_world *world;
    const char *state_dir;     /* registry of known pools (registry.h); NULL: not recorded */
};
/* Warnings (two disks on one device) are appended to warn as lines. On failure every disk is as it was. */
int sfs_pool_create(struct sfs_env *env, const char *name, const struct sfs_disk_spec *disks, unsigned n, const struct sfs_pool_create_opts *opts,
                    struct sfs_error *warn, struct sfs_error *err);

/* When disks are missing: YES: write where all that is stored can be read, else open read-only, changing nothing on the disks that are here; RO: read-only; NO: refuse; RW: write whatever is missing. */
enum sfs_degraded { SFS_DEGRADED_YES, SFS_DEGRADED_RO, SFS_DEGRADED_NO, SFS_DEGRADED_RW };
struct sfs_event_row;
struct sfs_pool_open_opts {
    bool readonly;
    enum sfs_degraded degraded;
    uint64_t wait_ns;                 /* how long to wait for missing disks; 0: not at all */
    uint64_t disk_timeout_ns;         /* 0 = 30 s */
    struct sfs_sim_world *world;
    const char *state_dir;            /* updated with where the disks were found; NULL: none */
    bool known_only;                  /* a pool that state_dir doesn't know is not recorded there: a question makes nothing known */
    const char *const *search;        /* further paths or directories to look for disks in */
    unsigned nsearch;
    /* Told of each event as it is written down; no lock held, from any thread; must not wait. May be NULL. */
    void (*on_event)(void *ctx, const char *pool, const struct sfs_event_row *e);
    void *event_ctx;
    bool no_jobs;                     /* no background healing: for spacesfs-check and one-shot commands */
};
/* which: a pool's name known on this host (state_dir), or the path of any of its disks. The others are found by label: where they were last seen, in state_dir, in search, among block devices. */
int sfs_pool_open(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_pool **out, struct sfs_error *err);
/* Volumes must have been put back. Commits, closes. The first error of that, else 0. */
int sfs_pool_close(struct sfs_pool *p);

const char *sfs_pool_name(const struct sfs_pool *p);
const struct sfs_uuid *sfs_pool_uuid(const struct sfs_pool *p);
struct sfs_data *sfs_pool_data(struct sfs_pool *p);
struct sfs_env *sfs_pool_env(struct sfs_pool *p);
bool sfs_pool_readonly(struct sfs_pool *p); /* nothing can be written: opened so, or there is doubt about committed state */

/* A space, for mounting (counted: it cannot be destroyed meanwhile). -ENOENT with the names there are. */
int sfs_pool_volume_get(struct sfs_pool *p, const char *space, struct sfs_volume **out, struct sfs_error *err);
void sfs_pool_volume_put(struct sfs_pool *p, struct sfs_volume *v);
/* Has all that the space holds a copy on the disks that are here? True for a space that isn't there. */
bool sfs_pool_space_readable(struct sfs_pool *p, const char *space);
unsigned sfs_pool_disks_away(struct sfs_pool *p); /* members that are not online */

/* --- looking ------------------------------------------------------------------------------------------------------------------------------ */
enum sfs_health { SFS_HEALTHY = 0, SFS_DEGRADED = 1, SFS_AT_RISK = 2 }; /* exit codes of `status` */
struct sfs_disk_info {
    struct sfs_disk_row row;
    enum sfs_disk_state state;       /* GONE also when missing at open */
    bool present;
    char why[320];                   /* for what is not online */
    uint64_t total_bytes, used_bytes, free_bytes;  /* slabs */
    uint64_t slabs_held;             /* slab rows that name this disk: what still pins a lost one */
};
struct sfs_space_info {
    struct sfs_space_row row;
    struct sfs_volume_stat stat;
    uint64_t inodes;
    uint64_t raw_bytes;              /* slabs taken on the disks */
    enum sfs_health health;
    uint64_t groups, groups_degraded, groups_lost; /* lost: more slabs missing than the resiliency bears */
    uint64_t groups_given_up;        /* of those lost: for good, whatever disk returns */
};
struct sfs_job_info {
    struct sfs_job_row row;
    uint64_t rate_bytes_s, eta_s;    /* 0 unknown */
};
/* Files of which some bytes cannot be read now. */
struct sfs_damaged_file {
    char space[SFS_NAME_MAX + 1];
    uint64_t ino;
    char *path;                      /* from the space's root; NULL: it has no name (deleted while in use) */
    uint64_t bytes;                  /* that cannot be read */
    bool missing;                    /* they lie on disks that are missing, and come back with them; false: no good copy is left */
};
struct sfs_damaged {
    struct sfs_damaged_file *v; unsigned n;
    uint64_t files;                  /* how many there are; more: at least as many */
    bool more;
};
/* Lists up to max of them. max_rows: look at no more rows of the catalog than that for each slab group that is missing (0: at all). 0 or -errno. */
int sfs_pool_damaged(struct sfs_pool *p, unsigned max, uint64_t max_rows, struct sfs_damaged **out);
void sfs_pool_damaged_free(struct sfs_damaged *d);

/* What the loss of a disk would mean. */
struct sfs_impact_sum { uint64_t files, bytes; };
struct sfs_impact_space {
    int id;
    char name[SFS_NAME_MAX + 1], resiliency[16];
    struct sfs_impact_sum lost;      /* could not be read any more */
    struct sfs_impact_sum risk;      /* all readable, but one more loss could cost it */
    struct sfs_impact_sum weaker;    /* all readable, and it bears another loss */
};
struct sfs_impact {
    bool online;                     /* false: it is away already, and this is how things are */
    struct sfs_impact_space *spaces; unsigned nspaces; /* those with anything on it */
    struct { char space[SFS_NAME_MAX + 1]; char *path; } *examples; /* of what would be lost, else at risk */
    unsigned nexamples;
    unsigned slabs, slabs_placed, slabs_hopeless; /* it holds; that would find a place on the others; that have no other copy */
    bool can_heal;                   /* all that can be built anew would find a place */
    unsigned replicas_left;          /* of the catalog */
};
/* Looks at all that the disk holds, without keeping others up. 0; -ENOENT no such disk; words in err. */
int sfs_pool_impact(struct sfs_pool *p, const char *disk, struct sfs_impact **out, struct sfs_error *err);
void sfs_pool_impact_free(struct sfs_impact *i);

struct sfs_pool_info {
    char name[SFS_NAME_MAX + 1];
    struct sfs_uuid uuid;
    enum sfs_health health;
    char verdict[800];               /* one or two sentences: what is wrong, what it means, what to do */
    bool readonly;
    uint64_t slab_bytes, total_bytes, used_bytes, free_bytes; /* raw */
    uint64_t promised_bytes;         /* sizes of all spaces: over-commit shows against what they could hold */
    uint64_t epoch;
    unsigned replicas, replicas_wanted;
    bool can_heal_largest;           /* could the loss of the disk that holds most be healed now */
    struct sfs_disk_info *disks; unsigned ndisks;
    struct sfs_space_info *spaces; unsigned nspaces;
    struct sfs_job_info *jobs; unsigned njobs;
    struct sfs_damaged *damaged;     /* the first 20; never NULL */
};
int sfs_pool_info(struct sfs_pool *p, struct sfs_pool_info **out);
void sfs_pool_info_free(struct sfs_pool_info *i);
int sfs_pool_events(struct sfs_pool *p, uint64_t after_id, unsigned max, int (*fn)(const struct sfs_event_row *, void *), void *ctx);
void sfs_pool_tell_events(struct sfs_pool *p); /* writes down what is queued (and tells on_event), now */
void sfs_pool_event(struct sfs_pool *p, const char *severity, const char *kind, const char *subject, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Which disks hold a group's bytes [goff, goff + slen): for `where`. */
struct sfs_place {
    unsigned column, copy;
    char disk[SFS_NAME_MAX + 1];     /* "" : missing */
    uint32_t slot;
    bool online;
};
int sfs_pool_places(struct sfs_pool *p, uint64_t group, uint64_t goff, uint32_t slen, struct sfs_place *out, unsigned max, unsigned *n, char resiliency[16]);
/* How many of these bytes are known to have no good copy on the disks that are here. */
uint64_t sfs_pool_damaged_bytes(struct sfs_pool *p, uint64_t group, uint64_t goff, uint32_t slen);

/* --- changing ------------------------------------------------------------------------------------------------------------------------------ */
struct sfs_space_settings {          /* pointers that are NULL: default (create) or unchanged (set) */
    const enum sfs_resiliency *resiliency;
    const unsigned *columns;         /* 0 auto */
    const uint32_t *interleave;
    const uint64_t *size_bytes;      /* 0: as the pool allows */
    const bool *fixed;
    const enum sfs_codec *codec;
    const int *codec_level;
};
int sfs_pool_space_create(struct sfs_pool *p, const char *name, const struct sfs_space_settings *s, struct sfs_error *err);
/* Changes settings, at once. What is stored in another layout (resiliency, columns, interleave) is moved by a job: *job, 0 none was needed. Refused, with the numbers, when the disks cannot carry it: -ENOSPC. */
int sfs_pool_space_set(struct sfs_pool *p, const char *name, const struct sfs_space_settings *s, uint64_t *job, struct sfs_error *err);
int sfs_pool_space_rename(struct sfs_pool *p, const char *name, const char *newname, struct sfs_error *err);
/* Refused while mounted. It is gone on return; a job gives back what it held: *job its number, or (job NULL) returns when that is done, too. */
int sfs_pool_space_destroy(struct sfs_pool *p, const char *name, uint64_t *job, struct sfs_error *err);

int sfs_pool_disk_add(struct sfs_pool *p, const struct sfs_disk_spec *disks, unsigned n, bool force, struct sfs_error *warn, struct sfs_error *err);
/* Settings of a disk: "name"; "usage" (auto, journal, hot-spare, retired): what the disk may not hold any more is moved by a job;
 * "capacity" (a size): raised at once, lowered by a job. *job: the job that was begun, 0 none. */
int sfs_pool_disk_set(struct sfs_pool *p, const char *disk, const char *key, const char *value, uint64_t *job, struct sfs_error *err);
/* Moves all that the disk holds to others, then takes it out of the pool, by a job. Refused at once, with the numbers, when the others cannot hold it. -EALREADY: it is being removed. */
int sfs_pool_disk_remove(struct sfs_pool *p, const char *disk, uint64_t *job, struct sfs_error *err);
/* The same, with another disk of the pool (a hot spare, or one just added) taking as much as it can; the disk may be gone. */
int sfs_pool_disk_replace(struct sfs_pool *p, const char *disk, const char *with, uint64_t *job, struct sfs_error *err);
struct sfs_forget_space {
    int space;
    char name[SFS_NAME_MAX + 1];
    uint64_t groups, bytes;      /* that lose data */
};
struct sfs_forget {
    unsigned slabs, rebuilt;     /* that the disk holds; of these, built anew from other copies */
    uint64_t lost_bytes;
    struct sfs_forget_space *spaces; unsigned nspaces;
};
/* Gives up a disk that won't return, with what only it holds. look_only: says what that would be, and changes nothing. out: sfs_forget_free. */
int sfs_pool_disk_forget(struct sfs_pool *p, const char *disk, bool look_only, struct sfs_forget *out, struct sfs_error *err);
void sfs_forget_free(struct sfs_forget *f);
/* Spreads slabs evenly over the disks, by a job. */
int sfs_pool_rebalance(struct sfs_pool *p, uint64_t *job, struct sfs_error *err);

/* Moves what is laid out otherwise than it would be now (old settings, fewer disks), then spreads slabs evenly, by a job. */
int sfs_pool_optimize(struct sfs_pool *p, uint64_t *job, struct sfs_error *err);

/* Jobs (fs/job/job.h). wait: 0 done; -ETIMEDOUT; else what it ended or waits with, and its words. */
int sfs_pool_job_order(struct sfs_pool *p, uint64_t id, enum sfs_job_order order, struct sfs_error *err);
int sfs_pool_job_wait(struct sfs_pool *p, uint64_t id, uint64_t timeout_ns, char text[256]);

/* Pool properties: "heal-delay" (duration), "job-rate" (auto, unlimited, or bytes a second), "error-limit" (errors after which a disk is retired; 0: never),
 * "scrub-every" (a duration, or off). */
/* Pure: could it have been set? One that isn't known could. */
bool sfs_pool_prop_ok(const char *key, const char *value);
int sfs_pool_prop_set(struct sfs_pool *p, const char *key, const char *value, struct sfs_error *err);
int sfs_pool_prop_get(struct sfs_pool *p, const char *key, char *out, size_t cap, struct sfs_error *err);

/* Heals now all that is degraded, without the delay. With wait: returns when done; -EAGAIN with words when something could not be healed (what and why). */
int sfs_pool_heal(struct sfs_pool *p, bool wait, struct sfs_error *err);
/* Begins to scrub (fs/job/scrub.h), or goes on with one that was cut short. -EALREADY: it is being done. */
int sfs_pool_scrub(struct sfs_pool *p, uint64_t *job, struct sfs_error *err);
int sfs_pool_scrub_stop(struct sfs_pool *p, struct sfs_error *err); /* -ENOENT: none is under way. The next one begins anew */
/* What the last scrub (or the one under way, so far) found. */
struct sfs_scrub_file {
    char space[SFS_NAME_MAX + 1], disk[SFS_NAME_MAX + 1];
    char *path;                      /* NULL: it has no name */
    uint64_t bytes;                  /* that were rewritten on that disk */
};
struct sfs_scrub_report {
    int64_t started, ended, next;    /* unix seconds; next 0: not by itself. ended 0: it isn't at its end */
    int64_t last;                    /* when one came to its end, or was stopped; 0: never */
    char state[16], result[256];     /* of its job; "" when there was none yet */
    struct sfs_scrub_file *files; unsigned nfiles; /* with copies that were bad and have been rewritten */
    struct sfs_damaged *damaged;     /* and those with no good copy left */
};
int sfs_pool_scrub_report(struct sfs_pool *p, struct sfs_scrub_report **out);
void sfs_pool_scrub_report_free(struct sfs_scrub_report *r);
int sfs_pool_sync(struct sfs_pool *p);

/* Offline: */
int sfs_pool_destroy(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_error *err); /* labels and slabs wiped from all disks found */

#endif
