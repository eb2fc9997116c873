/* One run of the simulator: a pool of sim disks, a few spaces, workload fibers, and what is known about all of them.
 *
 *   main.c       command line, one process a seed
 *   run.c        a run: epochs of mount, operations and an end; the last check
 *   config.c     what the seed makes of disks, spaces and options
 *   system.c     opening, closing, crashing and reopening the system under test
 *   workload.c   picking operations; ops_file.c, ops_name.c, ops_admin.c: the operations
 *   faults.c     faults within the promise, and what they cost it
 *   check.c      what came back held against the model; walk.c reads a tree, match.c a file
 *   redundancy.c taking disks away
 *   sweep.c      the same small run with one fault at the n-th I/O, for all n */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include "fs/disk/sim.h"
#include "fs/pool/pool.h"
#include "fs/vfs/vfs.h"
#include "tests/sim/model.h"
#include "tests/sim/rng.h"

#define SIM_MAX_DISKS 12u
#define SIM_MAX_SPACES 3u
#define SIM_MAX_FIBERS 3u
#define SIM_MAX_ACTORS 6u
#define SIM_MAX_FILES 6u
#define SIM_SLAB_BYTES (1u << 20)
#define SIM_FILE_MAX (4u << 20)
#define SIM_NS_PER_S 1000000000ull

struct sim_run;

enum sim_end { SIM_END_CLOSE, SIM_END_CRASH, SIM_END_KILL }; /* how an epoch ends */

/* What a sweep asks for; all zero in random runs. */
struct sim_plan {
    bool on;                  /* small fixed run: one epoch */
    enum sim_end end;
    uint64_t crash_at;        /* at the n-th I/O of the epoch; 0 never */
    uint64_t crash_open_at;   /* at the n-th I/O of the recovery */
    uint64_t crash_heal_at;   /* disk 0 is away; at the n-th I/O of building it anew */
    uint64_t crash_join_at;   /* disk 0 was away and is back; at the n-th I/O of opening and taking it in again. Then its catalog rots, too */
    uint64_t crash_job_at;    /* at the n-th I/O of `job`, begun after the epoch; it has to come to its end after the recovery */
    enum sim_job { SIM_JOB_REMOVE, SIM_JOB_REPLACE, SIM_JOB_RETIRE, SIM_JOB_REBALANCE, SIM_JOB_SCRUB } job;
    uint64_t fail_at;         /* n-th call of fail_op on disk 0 */
    enum sfs_io_op fail_op;
    bool reached;             /* out: it came to that */
};

struct sim_options {
    uint64_t seed;
    unsigned ops, epochs;     /* 0: drawn from the seed */
    bool verbose, no_faults;
    char replay[160];         /* the command that runs this again */
    struct sim_plan plan;
};

struct sim_disk {
    char name[16], path[24];
    uint64_t bytes;
    bool member;              /* of the pool */
    bool saved;               /* the world remembers an older state of it */
};

struct sim_space {
    char name[16];
    enum sfs_resiliency resiliency;
    unsigned columns;
    uint32_t interleave;
    enum sfs_codec codec;
    struct sfs_vfs_opts opts;
    struct sfs_volume *volume;
    struct sfs_vfs *vfs;
    bool damaged;             /* more disks were hurt than it bears: EIO is allowed, wrong bytes never */
};

struct sim_file {
    struct sfs_file *file;
    struct sim_inode *inode;
    int flags;
};

/* Who changes one tree. */
struct sim_actor {
    struct sim_run *run;
    struct sim_space *space;
    unsigned fiber;           /* which workload fiber acts */
    char dir[8];              /* its directory in the space's root */
    uint64_t root_lookups;
    struct sim_rng rng;
    struct sim_tree tree;
    struct sim_file files[SIM_MAX_FILES];
    unsigned nfiles;
    uint64_t start;           /* event clock at the beginning of the operation under way */
    const char *op;           /* its name */
    bool maybe;               /* it failed by the crash: it may have taken effect, or never will */
    unsigned full;            /* operations for which to prefer deleting: there was no space */
};

struct sim_stats {
    uint64_t ops, crashes, kills, closes, recoveries, faults, checks, files_checked, bytes_checked, losses_checked, heals, ios, points; /* uint64_t all: summed as an array */
};

struct sim_run {
    struct sim_options opt;
    struct sim_rng config, faults, plan; /* streams */
    struct sfs_env *env;
    struct sfs_sim_world *world;
    struct sim_disk disks[SIM_MAX_DISKS];
    unsigned ndisks;
    struct sim_space spaces[SIM_MAX_SPACES];
    unsigned nspaces;
    struct sim_actor actors[SIM_MAX_ACTORS];
    unsigned nactors, nfibers;
    struct sfs_pool_open_opts open_opts;
    struct sfs_pool *pool;

    /* The promise: bits by disk. hurt() is what counts against a space's tolerance. */
    uint32_t away;            /* unplugged now */
    uint32_t healed;          /* of these: all that they held has been built anew elsewhere */
    uint32_t impaired;        /* failed, was away or full: data may lack its copy there until a heal has ended well */
    uint32_t rotten;          /* bad bytes may lie on it */
    uint32_t stalled, full, armed; /* now; armed: a request will fail */
    uint32_t doubtful;        /* at any time more than unplugged */
    bool thin;                /* for want of room something accepted was stored with fewer copies, and said so: until a heal has ended well */
    unsigned budget;          /* how many disks may be hurt at a time */
    uint64_t alive_ns;        /* the world had not crashed by then */
    bool faulted;             /* in this epoch: ages promise nothing */
    bool doomed;              /* more was broken than the pool can bear: it may refuse everything until reopened */

    uint64_t clock;           /* event clock */
    uint32_t next_tag;
    uint64_t op_count, hash;
    unsigned epoch, ops_left;
    bool stop;                /* the epoch's operations end now */
    struct sim_stats stats;
};

/* main.c */
void sim_fail(struct sim_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void sim_note(struct sim_run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3))); /* --verbose */
void sim_hash(struct sim_run *r, uint64_t value); /* into the event hash */

/* faults.c */
void sim_log_line(struct sim_run *r, const char *text); /* what the pool says */

/* run.c: the whole of it; fails by sim_fail. plan.reached is filled. */
void sim_run(struct sim_options *opt, struct sim_stats *stats, uint64_t *hash);
struct sim_run *sim_run_current(void); /* the one under way, or NULL */

/* config.c */
void sim_configure(struct sim_run *r);

/* system.c */
void sim_system_create(struct sim_run *r);     /* disks, pool, spaces, actors' directories; mounted after it */
int sim_system_open(struct sim_run *r, bool readonly); /* 0, or an error with the world crashed; everything else fails the run */
int sim_system_try_open(struct sim_run *r, bool readonly, struct sfs_error *err);
bool sim_system_close(struct sim_run *r);       /* must succeed, unless what was done to the disks explains it; true: all is stored */
void sim_system_crash(struct sim_run *r, bool kill_only); /* also after a crash by itself: closes, revives */
bool sim_crashed(const struct sim_run *r);
bool sim_alive(struct sim_run *r);              /* not crashed; the time is noted */
unsigned sim_hurt(const struct sim_run *r);     /* how many disks are */
bool sim_any_damaged(const struct sim_run *r);

/* workload.c */
void sim_workload(struct sim_run *r);           /* one epoch's operations, in one fiber or more */
void sim_op_begin(struct sim_actor *a, const char *name);
/* The call returned rc, and should have returned `want`. True: it took effect (or may have: a crash) and is to be applied to the model. */
bool sim_op_done(struct sim_actor *a, int rc, int want, uint64_t need_bytes);
void sim_op_state(struct sim_actor *a);         /* a namespace change was applied: pushes the state */
void sim_op_content(struct sim_actor *a, struct sim_inode *i); /* a content change was applied */
bool sim_op_maybe(struct sim_actor *a, int rc, uint64_t need_bytes); /* is the error one that the state of the run explains */
void sim_durable(struct sim_run *r, struct sim_space *s, uint64_t clock); /* a commit that began at clock has ended; s: with all contents of that space */
struct sim_pick {
    struct sim_inode *dir, *inode;
    const char *name;         /* in dir; valid until dir changes */
};
bool sim_pick(struct sim_actor *a, mode_t type, struct sim_pick *out); /* type: S_IFREG …, 0 any but the root */
struct sim_inode *sim_pick_dir(struct sim_actor *a);
int sim_hold(struct sim_actor *a, struct sim_inode *dir, const char *name, struct sim_inode *i); /* looked up, so that its number may be used */
int sim_hold_dir(struct sim_actor *a, struct sim_inode *dir);
void sim_forget(struct sim_actor *a, struct sim_inode *i);
void sim_close_file(struct sim_actor *a, unsigned n);
void sim_close_files(struct sim_actor *a);

/* ops_*.c: operations by weight */
struct sim_op {
    const char *name;
    unsigned weight;
    void (*fn)(struct sim_actor *a);
};
extern const struct sim_op sim_file_ops[], sim_data_ops[], sim_name_ops[], sim_admin_ops[], sim_disk_ops[]; /* up to name NULL */
void sim_op_unlink(struct sim_actor *a);

/* ops_disk.c */
void sim_members_look(struct sim_run *r);       /* disks that have left the pool are nobody's any more: they are unplugged for good */
enum sim_leave { SIM_REMOVE, SIM_REPLACE, SIM_RETIRE };
void sim_job_swept(struct sim_run *r, bool finish); /* plan.job: begins it and waits; finish: it is at its end when this returns */
uint64_t sim_leave_begin(struct sim_run *r, unsigned disk, enum sim_leave how, unsigned with); /* the job; 0: refused */

/* faults.c */
void sim_faults_step(struct sim_run *r);        /* perhaps one more fault, or the end of one */
void sim_faults_epoch(struct sim_run *r);       /* a new epoch begins: what may be repaired by replugging is */
void sim_hurt_disk(struct sim_run *r, uint32_t *mask, unsigned disk);
void sim_disk_back(struct sim_run *r, unsigned disk);
void sim_disk_away(struct sim_run *r, unsigned disk);
bool sim_heal(struct sim_run *r);               /* asks for it and waits; true: done, and the promise is whole again */

/* check.c, walk.c, match.c, redundancy.c */
void sim_check_recovered(struct sim_run *r, bool exact); /* and takes over what was found. exact: nothing may be missing */
void sim_check_live(struct sim_run *r, struct sim_actor *a);
void sim_check_space(struct sim_run *r);         /* statfs and the pool's own figures */
void sim_check_redundancy(struct sim_run *r);
void sim_check_empty(struct sim_run *r);        /* deletes everything; nothing may stay in use */
int sim_walk(struct sim_actor *a, struct sim_tree *out, char *why, size_t cap);
struct sim_match {
    bool exact;              /* the newest version and nothing else */
    bool eio_ok;             /* blocks may be unreadable */
    uint64_t floor;          /* versions from this number on */
    uint64_t from_clock;     /* out: no commit before this moment can have held it */
    bool lossy;              /* out: some blocks were */
    struct sim_version *found; /* out, if not NULL: what it is now, empty at first */
    char why[512];
};
int sim_match_file(struct sim_actor *a, uint64_t ino, const struct sim_content *c, uint64_t size, struct sim_match *m); /* 0, or -1 with why */
void sim_note_places(struct sim_actor *a, uint64_t ino); /* --verbose: on which disks it lies */
bool sim_match_range(struct sim_actor *a, const struct sim_content *c, uint64_t off, const uint8_t *data, size_t len, struct sim_match *m);

#endif
