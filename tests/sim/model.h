/* The oracle: a directory tree in memory with POSIX's rules, and its history.
 *
 * Terms
 *   tree   what one workload fiber changes in one space: everything below a directory of its own, so that nobody else's operations mix in
 *   state  the names, attributes and xattrs of a tree after one namespace operation, as text. States are numbered from 0; those that a crash may bring
 *          back (the last durable one and all since) are kept
 *   clock  counts events of the whole run; operations have the clock of their beginning and end, so that states of several trees can be held
 *          against one moment of commit
 *
 * The catalog's transaction takes namespace operations in order: after a crash a tree is in one of its states, whole, no older than the last
 * durable one. Contents go by content.h, bounded from below by floors: a state that was made by renaming over a file carries the version of
 * the new file (rule 3 of DESIGN.md). */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include <stdio.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/sim/content.h"
#include "tests/sim/rng.h"

struct sim_inode;

struct sim_dentry {
    char *name;
    struct sim_inode *inode;
};

struct sim_xattr {
    char *name;
    uint8_t *value;
    size_t len;
};

struct sim_inode {
    TAILQ_ENTRY(sim_inode) all;
    uint64_t ino;                  /* 0: the call that made it did not return */
    uint32_t mode, nlink, uid, gid;
    uint64_t rdev;
    char *target;                  /* symlinks */
    struct sim_inode *parent;      /* directories */
    struct sim_dentry *dentries;   /* directories; by name */
    unsigned ndentries, dentry_room;
    struct sim_xattr *xattrs;      /* by name */
    unsigned nxattrs;
    struct sim_content content;    /* regular files */
    bool mtime_set;                /* by utimens, and not changed since */
    struct timespec mtime;
    bool lossy;                    /* parts of it could not be read */
    unsigned opens;
    uint64_t lookups;              /* counted by the file system, to be given back */
    uint64_t gone;                 /* the state in which its last name was gone; UINT64_MAX */
};
TAILQ_HEAD(sim_inodes, sim_inode);

struct sim_state {
    uint64_t number, start, end, at_ns;
    char *text;
    struct sim_inode *floor_inode; /* NULL, or: in this state and later ones this inode's content is at least … */
    uint64_t floor_version;
};

struct sim_tree {
    struct sim_inodes inodes;
    unsigned ninodes;              /* with a name */
    struct sim_inode *root;
    struct sim_state *states;
    unsigned nstates, state_room;
};

void sim_tree_init(struct sim_tree *t, uint64_t root_ino, mode_t mode);
void sim_tree_free(struct sim_tree *t);

struct sim_inode *sim_tree_add(struct sim_tree *t, uint64_t ino, uint32_t mode, uint64_t clock); /* without a name */
struct sim_inode *sim_tree_find(const struct sim_tree *t, uint64_t ino);
struct sim_inode *sim_dir_get(const struct sim_inode *dir, const char *name);
bool sim_dir_below(const struct sim_inode *dir, const struct sim_inode *above); /* is dir `above`, or somewhere below it */

/* What the call should return; nothing is changed. */
int sim_tree_may_add(const struct sim_inode *dir, const char *name);
int sim_tree_may_unlink(const struct sim_inode *dir, const char *name);
int sim_tree_may_rmdir(const struct sim_inode *dir, const char *name);
int sim_tree_may_rename(const struct sim_inode *from, const char *name, const struct sim_inode *to, const char *newname, unsigned flags);

/* The changes themselves; each must be allowed. Follow with sim_tree_push. */
void sim_tree_link(struct sim_tree *t, struct sim_inode *dir, const char *name, struct sim_inode *i); /* counts nlink */
void sim_tree_unlink(struct sim_tree *t, struct sim_inode *dir, const char *name);                  /* file or empty directory */
void sim_tree_rename(struct sim_tree *t, struct sim_inode *from, const char *name, struct sim_inode *to, const char *newname, unsigned flags);
void sim_inode_xattr_set(struct sim_inode *i, const char *name, const void *value, size_t len);
const struct sim_xattr *sim_inode_xattr(const struct sim_inode *i, const char *name);
void sim_inode_xattr_remove(struct sim_inode *i, const char *name);

/* The tree as it is now becomes its newest state. */
struct sim_state *sim_tree_push(struct sim_tree *t, uint64_t start, uint64_t end, uint64_t at_ns);
/* States that had ended by `clock` are durable: what is older goes. With contents: all files' newest versions that were complete by then, too. */
void sim_tree_durable(struct sim_tree *t, uint64_t clock, bool contents);
/* The same by age. */
void sim_tree_durable_ns(struct sim_tree *t, uint64_t ns);
/* t becomes what `found` is (a tree that was read back, contents included), all of it durable. found is used up. */
void sim_tree_adopt(struct sim_tree *t, struct sim_tree *found, uint64_t clock, uint64_t at_ns);

char *sim_tree_text(const struct sim_tree *t); /* to be freed */
bool sim_text_equal(const char *expected, const char *found); /* an unknown inode number in expected equals any */
/* The first line in which two texts differ, for messages. */
void sim_text_diff(const char *expected, const char *found, char *out, size_t cap);

#endif
