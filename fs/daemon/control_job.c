/* Commands that begin a job, or give it orders. With "wait" they reply when it has ended, or cannot go on. */
#include "fs/daemon/control_impl.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_NS 300000000ull

static void tell_progress(struct sfs_control_call *c, uint64_t id)
{
    struct sfs_pool_info *info;
    if (!c->progress || sfs_pool_info(c->pool, &info) < 0)
        return;
    for (unsigned i = 0; i < info->njobs; i++) {
        const struct sfs_job_row *job = &info->jobs[i].row;
        json_t *progress;

        if (job->id != id)
            continue;
        progress = json_pack("{s:I, s:I, s:o}", "done", (json_int_t)job->done, "total", (json_int_t)job->total,
                             "text", sfs_control_text(job->kind));
        if (progress)
            c->progress(c->progress_ctx, progress);
        json_decref(progress);
        break;
    }
    sfs_pool_info_free(info);
}

static json_t *job_result(uint64_t id, const char *text)
{
    json_t *result = json_pack("{s:I}", "job", (json_int_t)id);
    if (result && text && *text)
        json_object_set_new(result, "text", sfs_control_text(text));
    return sfs_control_ok(result, NULL);
}

json_t *sfs_control_begun(struct sfs_control_call *c, int rc, uint64_t id, int wait, struct sfs_error *err)
{
    char text[256] = "";

    if (rc < 0)
        return sfs_control_fail(rc, err);
    if (!id || !wait)
        return job_result(id, NULL);
    while ((rc = sfs_pool_job_wait(c->pool, id, LOOK_NS, text)) == -ETIMEDOUT) {
        if (c->cancelled && c->cancelled(c->ctx))
            return sfs_control_error(-ECANCELED, "the daemon ends; the job goes on when the pool is opened again");
        tell_progress(c, id);
    }
    if (rc < 0)
        return sfs_control_fail(sfs_error_set(err, rc, "job %llu: %s.", (unsigned long long)id,
                                              text[0] ? text : strerror(-rc)), err);
    return job_result(id, text);
}

/* --- disks ------------------------------------------------------------------------------------ */

json_t *sfs_control_disk_set(struct sfs_control_call *c)
{
    const char *disk, *key, *value;
    struct sfs_error err = {0};
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s:s, s:s, s?b !}", "disk", &disk, "key", &key, "value", &value,
                          "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_disk_set(c->pool, disk, key, value, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

json_t *sfs_control_disk_remove(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    const char *disk;
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s?b !}", "disk", &disk, "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_disk_remove(c->pool, disk, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

json_t *sfs_control_disk_replace(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    const char *disk, *with;
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s:s, s?b !}", "disk", &disk, "with", &with, "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_disk_replace(c->pool, disk, with, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

static json_t *forget_json(const struct sfs_forget *f)
{
    json_t *spaces = json_array();

    for (unsigned i = 0; spaces && i < f->nspaces; i++) {
        json_t *space = json_pack("{s:o, s:I, s:I}", "name", sfs_control_text(f->spaces[i].name), "groups",
                                  (json_int_t)f->spaces[i].groups, "bytes", (json_int_t)f->spaces[i].bytes);
        if (json_array_append_new(spaces, space) < 0) {
            json_decref(spaces);
            spaces = NULL;
        }
    }
    return json_pack("{s:I, s:I, s:I, s:o}", "slabs", (json_int_t)f->slabs, "rebuilt", (json_int_t)f->rebuilt,
                     "lost_bytes", (json_int_t)f->lost_bytes, "spaces", spaces);
}

json_t *sfs_control_disk_forget(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    struct sfs_forget forget;
    const char *disk;
    json_t *result;
    int look = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s?b !}", "disk", &disk, "look", &look);
    if (rc == 0) {
        rc = sfs_pool_disk_forget(c->pool, disk, look != 0, &forget, &err);
        result = rc == 0 ? forget_json(&forget) : NULL;
        sfs_forget_free(&forget);
    }
    return rc < 0 ? sfs_control_fail(rc, &err) : sfs_control_ok(result, NULL);
}

json_t *sfs_control_rebalance(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s?b !}", "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_rebalance(c->pool, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

json_t *sfs_control_optimize(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s?b !}", "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_optimize(c->pool, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

/* --- orders ----------------------------------------------------------------------------------- */

static json_t *order(struct sfs_control_call *c, enum sfs_job_order what)
{
    struct sfs_error err = {0};
    json_int_t id;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:I, s?b !}", "job", &id, "wait", &wait);
    if (rc == 0 && id <= 0)
        rc = sfs_error_set(&err, -EINVAL, "malformed request: \"job\" is a number from 1 on");
    if (rc == 0)
        rc = sfs_pool_job_order(c->pool, (uint64_t)id, what, &err);
    return sfs_control_begun(c, rc, (uint64_t)id, wait && what == SFS_JOB_RESUME, &err);
}

json_t *sfs_control_job_pause(struct sfs_control_call *c)
{
    return order(c, SFS_JOB_PAUSE);
}

json_t *sfs_control_job_resume(struct sfs_control_call *c)
{
    return order(c, SFS_JOB_RESUME);
}

json_t *sfs_control_job_cancel(struct sfs_control_call *c)
{
    return order(c, SFS_JOB_CANCEL);
}
