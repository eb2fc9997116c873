/* Inside fs/base only: contexts of execution in one OS thread, each on a stack of its own, that hand over to
 * one another. For env_sim.c. The sanitizers are told of each change of stack. */
#ifndef SFS_BASE_CONTEXT_H
#define SFS_BASE_CONTEXT_H

#include <stdbool.h>

struct sfs_contexts; /* the set that one thread switches between, with a pool of stacks */
struct sfs_context;

struct sfs_contexts *sfs_contexts_new(void);
void sfs_contexts_free(struct sfs_contexts *set);                /* only main is left */
struct sfs_context *sfs_contexts_main(struct sfs_contexts *set); /* the thread's own */

/* fn(arg) begins at the first switch to it, and must never return. NULL when out of memory. */
struct sfs_context *sfs_context_new(struct sfs_contexts *set, const char *name, void (*fn)(void *),
                                    void *arg);
void sfs_context_free(struct sfs_context *c); /* not the one that runs */
/* from is the one that runs. Returns when something switches to it again; with `last`, never. */
void sfs_context_switch(struct sfs_context *from, struct sfs_context *to, bool last);

#endif
