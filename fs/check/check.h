/* Checking and repairing a pool that is not open: labels, replicas against each other, SQLite's structure, every rule of the catalog, and, if asked, every copy of every extent. What spacesfs-check is made of.
 *
 * It never makes things worse. Nothing is changed before the catalog has been saved on every disk (meta/snapshot.h, "saved-N"). All changes to the catalog are one transaction, and labels are written atomically: killed at any moment, it
 * can be run again. A file's bytes that are lost become an I/O error, never zeros; what has lost its name goes to lost+found. */
#ifndef SFS_CHECK_CHECK_H
#define SFS_CHECK_CHECK_H

#include "fs/base/env.h"
#include "fs/base/error.h"
#include "fs/disk/label.h"

/* fsck(8): the exit status is the sum of these. */
enum {
    SFS_CHECK_CLEAN = 0,
    SFS_CHECK_MENDED = 1,
    SFS_CHECK_LEFT = 4,       /* something is wrong still */
    SFS_CHECK_FAILED = 8,     /* could not be checked: in use, not readable */
    SFS_CHECK_USAGE = 16,
    SFS_CHECK_CANCELLED = 32,
};

enum sfs_check_mode {
    SFS_CHECK_LOOK,           /* -n: changes nothing, not even by replaying what a crash left */
    SFS_CHECK_PREEN,          /* -p: mends what loses nothing, without asking */
    SFS_CHECK_ALL,            /* -y: mends everything */
    SFS_CHECK_ASK,            /* asks for each kind of problem */
};

enum sfs_severity {
    SFS_SEVERITY_SAFE,        /* mending loses nothing */
    SFS_SEVERITY_LOSS,        /* mending gives something up, or guesses */
};
enum sfs_check_outcome { SFS_OUTCOME_FOUND, SFS_OUTCOME_MENDED, SFS_OUTCOME_LEFT };

/* One kind of problem, with where it is. */
struct sfs_check_problem {
    const char *id;           /* "nlink": the same in every version, for scripts */
    const char *what;         /* "Wrong link counts" */
    const char *repair;       /* "set them to the number of names": what is done about it; NULL: nothing can be */
    enum sfs_severity severity;
    uint64_t count;
    const char *const *items; /* the first ones, a line each */
    unsigned nitems;
};

struct sfs_check_ui {
    void (*note)(void *ctx, const char *text);                                       /* a line for people, not a problem */
    bool (*ask)(void *ctx, const struct sfs_check_problem *p);                       /* mode ASK: mend it? */
    void (*problem)(void *ctx, const struct sfs_check_problem *p, enum sfs_check_outcome outcome);
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);    /* total 0: unknown */
    bool (*cancelled)(void *ctx);                                                    /* looked at between steps */
    void *ctx;
};

struct sfs_check_opts {
    enum sfs_check_mode mode;
    bool data;                          /* every copy of every extent, too */
    const char *restore;                /* go back to this snapshot or saved catalog; NULL: none */
    const char *const *search;          /* further disks, or where to look for them */
    unsigned nsearch;
    const char *state_dir;              /* registry.h; NULL: none */
    struct sfs_sim_world *world;        /* for tests */
    uint64_t disk_timeout_ns;           /* 0 = 30 s */
};

struct sfs_check_result {
    char pool[SFS_NAME_MAX + 1];
    uint64_t found, mended, left;       /* problems */
    unsigned status;                    /* SFS_CHECK_*, summed */
    char saved[32];                     /* name of the saved catalog; "" when nothing was changed */
};
/* which: a pool's name known on this host, or the path of any of its disks. Returns result->status; err has words when that has FAILED in it. ui's functions may be NULL but for ask in mode ASK. */
unsigned sfs_check_run(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const struct sfs_check_ui *ui, struct sfs_check_result *result, struct sfs_error *err);

#endif
