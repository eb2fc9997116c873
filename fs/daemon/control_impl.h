/* Inside fs/daemon only: one request on its way. control.c has the table; control_*.c the commands by noun.
 */
#ifndef SFS_DAEMON_CONTROL_IMPL_H
#define SFS_DAEMON_CONTROL_IMPL_H

#include "fs/daemon/control.h"
#include "fs/vfs/vfs.h"

struct sfs_control_call {
    struct sfs_pool *pool;
    const json_t *request;
    sfs_control_progress progress; /* may be NULL */
    void *progress_ctx;
    /* What a daemon adds; all may be NULL. */
    bool (*cancelled)(void *ctx); /* should a long command give up? */
    struct sfs_vfs *(*vfs_get)(void *ctx,
                               const char *space); /* of a mounted space, else NULL; held until vfs_put */
    void (*vfs_put)(void *ctx, struct sfs_vfs *vfs);
    void *ctx;
};
/* Runs it. Never NULL. */
json_t *sfs_control_call(struct sfs_control_call *c);

/* Takes the request (without "cmd") apart by a format of json_unpack (with '!': nothing else may be in it).
 * What it gives out belongs to the request. 0 or -EINVAL. */
int sfs_control_args(const json_t *request, struct sfs_error *err, const char *fmt, ...);
/* Replies. ok takes result over; NULL: it could not be made (-ENOMEM). */
json_t *sfs_control_ok(json_t *result, const struct sfs_error *warning);
json_t *sfs_control_fail(int rc, const struct sfs_error *err);
/* 0: ok without a result; else the failure. */
json_t *sfs_control_done(int rc, const struct sfs_error *err);
/* A string even of bytes that are not UTF-8 (they show as U+FFFD). */
json_t *sfs_control_text(const char *text);

json_t *sfs_control_status(struct sfs_control_call *c);
json_t *sfs_control_events(struct sfs_control_call *c);
json_t *sfs_control_space_create(struct sfs_control_call *c);
json_t *sfs_control_space_set(struct sfs_control_call *c);
json_t *sfs_control_space_rename(struct sfs_control_call *c);
json_t *sfs_control_space_destroy(struct sfs_control_call *c);
json_t *sfs_control_disk_add(struct sfs_control_call *c);
json_t *sfs_control_disk_set(struct sfs_control_call *c);
json_t *sfs_control_disk_remove(struct sfs_control_call *c);
json_t *sfs_control_disk_replace(struct sfs_control_call *c);
json_t *sfs_control_disk_forget(struct sfs_control_call *c);
json_t *sfs_control_rebalance(struct sfs_control_call *c);
json_t *sfs_control_optimize(struct sfs_control_call *c);
json_t *sfs_control_job_pause(struct sfs_control_call *c);
json_t *sfs_control_job_resume(struct sfs_control_call *c);
json_t *sfs_control_job_cancel(struct sfs_control_call *c);
json_t *sfs_control_pool_set(struct sfs_control_call *c);
json_t *sfs_control_pool_get(struct sfs_control_call *c);
json_t *sfs_control_heal(struct sfs_control_call *c);
json_t *sfs_control_where(struct sfs_control_call *c);
json_t *sfs_control_damage(struct sfs_control_call *c);
/* The reply to a command that has begun a job (0: none was needed): when it has ended, with wait. */
json_t *sfs_control_begun(struct sfs_control_call *c, int rc, uint64_t id, int wait, struct sfs_error *err);
json_t *sfs_control_scrub(struct sfs_control_call *c);
json_t *sfs_control_scrub_report(struct sfs_control_call *c);
json_t *sfs_control_impact(struct sfs_control_call *c);
json_t *sfs_control_damaged_json(const struct sfs_damaged *d); /* for status, too. NULL: no memory */

#endif
