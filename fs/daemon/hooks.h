/* Hooks: programs of the owner that are run when something happens to the pool (spacesfs-hooks(5)).
 *
 * They run in a thread of their own, one at a time, in the order of their names, each for a bounded time; the pool never waits for them. Too many events at once: the
 * oldest are kept, and those beyond are told of in the log. A hook that can't be run, fails or takes too long is reported once, and again only after it has worked. */
#ifndef SFS_DAEMON_HOOKS_H
#define SFS_DAEMON_HOOKS_H

#include "fs/base/env.h"
#include "fs/base/error.h"
#include "meta/catalog.h"

struct sfs_hooks;
struct sfs_hooks_opts {
    const char *dir;        /* absolute. Need not exist, and may come into being */
    uint64_t timeout_ns;    /* of one run; 0: 30 s */
    uint64_t end_ns;        /* for what is left to run when they are stopped; 0: 5 s */
    /* Something is wrong with a hook: words. Called from the thread of the hooks, no lock held. */
    void (*report)(void *ctx, const char *hook, const char *text);
    void *ctx;
};
/* Where hooks are looked for: SFS_HOOKS_DIR, else /etc/spacesfs/hooks.d for root, $XDG_CONFIG_HOME/spacesfs/hooks.d or ~/.config/... for others. */
int sfs_hooks_dir(char *out, size_t cap);
int sfs_hooks_start(struct sfs_env *env, const struct sfs_hooks_opts *opts, struct sfs_hooks **out);
/* Something has happened. Queued when it is something that hooks are run for; returns at once. Any thread. */
void sfs_hooks_event(struct sfs_hooks *h, const char *pool, const struct sfs_event_row *e);
/* What is queued still runs, for a bounded time; then nothing more: events may come, and are dropped. NULL is fine, in both. */
void sfs_hooks_stop(struct sfs_hooks *h);
void sfs_hooks_free(struct sfs_hooks *h);

/* What hooks call this kind of event ("disk-failed"); NULL: none is run for it. */
const char *sfs_hooks_name(const char *kind);

#endif
