/* The inside of fs/pool: what its files share.
 *
 * Locks: admin (SFS_RANK_ADMIN) one administrative change at a time, attaching and detaching included; lock (SFS_RANK_POOLDISKS) the array of disks and the epoch; events and wake-ups under `leaf`.
 * The array only grows while a pool is open; an entry's handle changes under lock. Stores of the replica set are numbered by place in the array, from 1 (a replica is read before any catalog id is known).
 * lock is held across the writing of labels: the one exception here to "no lock across disk I/O" (an epoch must not change while it is being written). */
#ifndef SFS_POOL_POOL_IMPL_H
#define SFS_POOL_POOL_IMPL_H

#include <sys/queue.h>
#include "fs/data/damage.h"
#include "fs/data/diskset.h"
#include "fs/data/groups.h"
#include "fs/data/commit.h"
#include "fs/job/heal.h"
#include "fs/pool/discover.h"
#include "fs/job/housekeep.h"
#include "fs/job/job.h"
#include "fs/pool/pool.h"
#include "fs/pool/registry.h"

/* How it stands with a disk that is not here, or was not (maintain.c). Under admin. */
struct sfs_pool_away {
    bool told;                   /* its loss is recorded */
    bool waiting;                /* it is there again, and cannot be taken in: there is no catalog to take it into */
    char why[320];               /* it is there, and was refused: the reason; "" : it isn't there. Also under lock */
    bool urgent;                 /* a hot spare has stepped in for it: what it held is due without delay */
    uint64_t retry_ns;           /* when to look for it again */
    unsigned losses;             /* since it last stayed for a while: one that flaps is tried more and more seldom */
    uint64_t since_ns;           /* when it was last attached */
    uint64_t devices_seen;       /* which block devices there were when it was last looked for among them */
};

/* One disk of the pool, present or not. */
struct sfs_pool_disk {
    bool used;                   /* an entry of the array that is a disk */
    int id;                      /* of the catalog; 0 until that is open */
    struct sfs_uuid uuid;
    char name[SFS_NAME_MAX + 1];
    char path[SFS_PATH_BYTES];   /* last seen */
    struct sfs_disk *disk;       /* NULL: missing */
    bool replica;                /* holds one, as the labels of this epoch say */
    bool stale;                  /* present, its label is of an older epoch: data only */
    bool leaving;                /* it is being taken out: no replica is made on it */
    struct sfs_pool_away away;
    uint64_t replica_retry_ns;   /* not before: the last replica made on it failed */
    uint64_t read_seen, write_seen; /* errors of its handle that are in the counts of its member already */
    uint64_t repaired_told;      /* blocks, as last told by an event */
    bool suspect;                /* under lock: what is on it may not be what was written to it (suspect.c) */
    uint64_t opened_generation;  /* of its label, as it was when it was opened */
    struct sfs_pool *pool;
};

#define SFS_PATH_HINTS 64u
#define SFS_WATCHED_SPACES 256u

/* What was last told of (watch.c). */
struct sfs_pool_watch {
    bool known, full_known;      /* it has been looked at since the pool was opened */
    bool degraded, missing;
    uint64_t full_ns;            /* when fullness is looked at again */
    struct sfs_pool_full { int space; unsigned step; } full[SFS_WATCHED_SPACES]; /* space 0: the pool. Steps of fullness, 0 none */
    unsigned nfull;
};

struct sfs_pool_event_item {
    struct sfs_event_row row;
    STAILQ_ENTRY(sfs_pool_event_item) link;
};

struct sfs_pool {
    struct sfs_env *env;
    char name[SFS_NAME_MAX + 1];
    struct sfs_uuid uuid;
    uint64_t slab_bytes;
    struct sfs_sim_world *world;
    char state_dir[SFS_PATH_BYTES]; /* "" : not recorded */
    bool known_only;             /* recorded only if this host knows it already */
    uint64_t disk_timeout_ns;
    bool readonly;
    bool looking;                /* read-only for now: disks are missing, and what that means isn't known yet; or it was found that nothing should be written */
    bool loaded;                 /* slots are known */
    struct sfs_mutex admin, lock, leaf;
    struct sfs_pool_disk *disks;  /* SFS_LABEL_PEERS of them */
    unsigned ndisks;
    struct sfs_epoch epoch;
    uint32_t format;
    uint64_t compat, ro_compat, incompat;
    struct sfs_replicas *replicas;
    struct sfs_catalog *cat;
    uint64_t catalog_room_bytes; /* atomic: as last measured */
    struct sfs_data *data;
    struct sfs_heal *heal;
    struct sfs_jobs *jobs;       /* NULL: opened read-only */
    struct sfs_housekeeper *housekeeper; /* NULL: opened for one command, or read-only */
    struct sfs_job_row heal_job; /* of the heal thread: the run under way, or the last */
    bool heal_now;               /* without the delay; atomic */
    uint64_t heal_now_until_run; /* heal_now ends with this run of the job; 0: not set */
    uint64_t heal_again_ns;      /* not before, when the last run left something */
    /* maintain.c */
    struct sfs_thread *maintainer;
    struct sfs_cond wake;        /* with leaf */
    bool stop, woken;
    STAILQ_HEAD(, sfs_pool_event_item) events;
    unsigned nevents;
    void (*on_event)(void *ctx, const char *pool, const struct sfs_event_row *e);
    void *event_ctx;
    struct sfs_pool_watch watch; /* watch.c; the maintainer's alone */
    uint64_t scrub_look_ns;      /* when to look whether a scrub is due; 0: not set */
    uint64_t unreadable_told, unreadable_again_ns;
    bool damage_told;            /* there is damage, and an event said so */
    bool damage_recheck;         /* known damage is being looked at again, from damage_cursor on */
    struct sfs_damage_row damage_cursor;
    struct sfs_path_hint { uint64_t ino, parent; } path_hints[SFS_PATH_HINTS]; /* files.c; with leaf */
    unsigned path_hint_next;
};

/* epoch.c */
/* Writes the label of every online disk: current epoch, peers, replica flags. Needs one replica written at least: 0, else -EIO. Takes lock. */
int sfs_pool_write_labels(struct sfs_pool *p);
/* A new epoch without the replica of store `lost` (0: none lost, but replica flags have changed), on all labels. */
int sfs_pool_bump_epoch(struct sfs_pool *p, int lost);
static inline int sfs_pool_store_id(const struct sfs_pool *p, const struct sfs_pool_disk *pd);
int sfs_pool_on_replica_lost(void *ctx, int id, int why);
void sfs_pool_on_replica_mended(void *ctx, int id, const char *what);
unsigned sfs_pool_replicas_wanted(struct sfs_pool *p);
/* Adds replicas while there are fewer than wanted and a disk can take one. Called by the maintainer and at open. */
void sfs_pool_mend_replicas(struct sfs_pool *p);
void sfs_pool_mend_replicas_locked(struct sfs_pool *p); /* admin held */

/* maintain.c */
int sfs_pool_maintain_start(struct sfs_pool *p);
void sfs_pool_maintain_stop(struct sfs_pool *p);
void sfs_pool_wake(struct sfs_pool *p);
void sfs_pool_look_after_disks(struct sfs_pool *p, bool now); /* sees what has gone or returned; now: without waiting for the time to look again. Takes admin */
void sfs_pool_disk_refused(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *why); /* keeps why a disk that is there is not in use; "" : it isn't there. Takes lock */
void sfs_pool_wait_readers(struct sfs_pool *p); /* until nobody uses a disk handle that was taken out before */
void sfs_pool_flush_events(struct sfs_pool *p);
void sfs_pool_queue_event(struct sfs_pool *p, const char *severity, const char *kind, const char *subject, const char *text);
void sfs_pool_disk_state_changed(struct sfs_disk *disk, void *ctx); /* ctx: struct sfs_pool_disk */
/* admin.c */
int sfs_pool_no_such_space(struct sfs_pool *p, const char *name, struct sfs_error *err);
int sfs_pool_store_space(struct sfs_pool *p, struct sfs_space_row *row); /* durably, the data layer too. admin held */
/* destroy.c */
int sfs_pool_run_destroy(struct sfs_job *j, void *ctx);
void sfs_pool_resume_destroying(struct sfs_pool *p); /* begins the jobs of spaces that are being destroyed and have none */
/* damage.c */
void sfs_pool_tell_damage(struct sfs_pool *p);    /* events for damage that was found since the last call, and for its end */
void sfs_pool_recheck_damage(struct sfs_pool *p); /* goes on with looking at known damage again, if that is wanted */
void sfs_pool_want_recheck(struct sfs_pool *p);
/* watch.c: events when redundancy is lost and is back, and when the pool or a space fills up. The maintainer's */
void sfs_pool_watch_begin(struct sfs_pool *p); /* before it: what is so when the pool is opened is no news */
void sfs_pool_watch(struct sfs_pool *p);
void sfs_pool_tell_missing(struct sfs_pool *p, uint64_t groups); /* the event; any thread */
/* jobs.c */
int sfs_pool_jobs_open(struct sfs_pool *p, bool go_on);
void sfs_pool_apply_rate(struct sfs_pool *p);
void sfs_pool_empty_by_usage(struct sfs_pool *p, uint64_t *job); /* begins to evacuate disks whose usage says that they hold no data */
uint64_t sfs_pool_job_on_disk(struct sfs_pool *p, const char *name, char kind[16]); /* 0: there is none, or no such disk. Takes admin */
void sfs_pool_end_evacuation(struct sfs_pool *p, const char *disk);                 /* cancels it, if the disk is being emptied. Takes admin */
/* leave.c: takes a disk without slabs out of the pool; a present one gets its label and files taken off. -EAGAIN: it has slabs again. admin held */
int sfs_pool_disk_leave(struct sfs_pool *p, struct sfs_pool_disk *pd);
/* room.c */
struct sfs_pool_move {
    unsigned slabs, placed;      /* that have to go elsewhere; that find a place */
    unsigned hopeless;           /* with no copy on the disks that are here */
    uint64_t free_slabs;         /* on the disks that may take them */
};
/* Could the slabs of a disk (those in slots from from_slot on) go elsewhere? lost: as if the disk were lost now: hot spares step in, what has no other copy is hopeless. */
int sfs_pool_could_move(struct sfs_pool *p, int disk, uint64_t from_slot, bool lost, struct sfs_pool_move *out);
/* disks.c */
extern const char *const sfs_usage_names[]; /* by enum sfs_usage; NULL at the end */
int sfs_pool_store_disk_row(struct sfs_pool *p, struct sfs_disk_row *row); /* durably, the data layer too */
int sfs_pool_store_capacity(struct sfs_pool *p, int disk, uint64_t slabs);
int sfs_pool_no_such_disk(struct sfs_pool *p, const char *name, struct sfs_error *err);
/* Refuse, with the numbers: the other disks are too few for the spaces; or cannot take the slabs (in slots from from_slot on). what: "removed" */
int sfs_pool_check_rest(struct sfs_pool *p, int disk, struct sfs_error *err);
int sfs_pool_check_room(struct sfs_pool *p, int disk, uint64_t from_slot, const char *what, struct sfs_error *err);
int sfs_pool_store_usage(struct sfs_pool *p, int disk, enum sfs_usage usage); /* durably. admin held, or a job's function */
const char *sfs_pool_disk_name(struct sfs_pool *p, int id, char out[SFS_NAME_MAX + 1]);
struct sfs_pool_disk *sfs_pool_disk_by_id(struct sfs_pool *p, int id);
/* usage.c */
/* A disk has been lost: a hot spare, if there is one, takes data from now on, and what the disk held is due at once. admin held */
bool sfs_pool_spare_steps_in(struct sfs_pool *p, struct sfs_pool_disk *lost);
/* Retires disks with too many errors; empties those that may not hold what they hold. Now and then. */
void sfs_pool_look_after_usage(struct sfs_pool *p);
/* admin.c */
int sfs_pool_writable(struct sfs_pool *p, struct sfs_error *err);
/* scrub.c */
int sfs_pool_run_scrub(struct sfs_job *j, void *ctx);
void sfs_pool_scrub_cancelled(struct sfs_job *j, void *ctx);
void sfs_pool_scrub_tick(struct sfs_pool *p);     /* begins one when it is due. The maintainer's */
/* heal.c */
bool sfs_pool_lost_for_long(struct sfs_pool *p, int disk); /* lost, and the delay before healing is over */
bool sfs_pool_heal_due(struct sfs_pool *p); /* is any slab due to be built anew that was not tried since things last changed */
int sfs_pool_heal_start(struct sfs_pool *p);
/* suspect.c */
void sfs_pool_suspect(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *why); /* marks it in memory; why: for an event when it wasn't, or NULL */
void sfs_pool_suspect_look(struct sfs_pool *p, struct sfs_pool_disk *pd, const struct sfs_disk_row *row); /* at open and return: does anything speak against it? */
void sfs_pool_suspect_row(struct sfs_pool *p, const struct sfs_pool_disk *pd, struct sfs_disk_row *row); /* fills the row's suspect and label_seen */
void sfs_pool_suspect_store(struct sfs_pool *p, struct sfs_pool_disk *pd); /* stores these two. Takes the catalog's lock */
void sfs_pool_suspect_verified(void *ctx, int disk); /* for the heal job; ctx: struct sfs_pool */
void sfs_pool_suspect_begin(struct sfs_pool *p, struct sfs_pool_disk *pd); /* hands it to the heal job, if it is marked and here */
/* pool.c */
void sfs_pool_measure_room(struct sfs_pool *p);
int sfs_pool_open_disk(struct sfs_pool *p, struct sfs_pool_disk *pd, struct sfs_error *err);
void sfs_pool_adopt_handle(struct sfs_pool *p, struct sfs_pool_disk *pd);
struct sfs_pool_disk *sfs_pool_disk_by_name(struct sfs_pool *p, const char *name);
void sfs_pool_save_registry(struct sfs_pool *p);
int sfs_pool_disk_row(struct sfs_pool *p, int id, struct sfs_disk_row *row); /* catalog lock not held */

static inline int sfs_pool_store_id(const struct sfs_pool *p, const struct sfs_pool_disk *pd)
{
    return (int)(pd - p->disks) + 1;
}

/* convert.c */
int sfs_pool_run_convert(struct sfs_job *j, void *pool);
int sfs_pool_run_optimize(struct sfs_job *j, void *pool);
int sfs_pool_check_conversion(struct sfs_pool *p, const struct sfs_space_row *row, struct sfs_error *err); /* lock `admin` held */
/* Stores the new settings and begins the job that converts what is there, both or neither: a crash doesn't come between. 0 with *job = 0: there is nothing to convert. Lock `admin` held */
int sfs_pool_convert(struct sfs_pool *p, struct sfs_space_row *row, uint64_t *job, struct sfs_error *err);

#endif
