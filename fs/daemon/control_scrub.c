/* Scrubbing, and its report. */
#include "fs/daemon/control_impl.h"

#include <string.h>

json_t *sfs_control_scrub(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    int wait = 0, stop = 0, rc;
    uint64_t id = 0;

    rc = sfs_control_args(c->request, &err, "{s?b, s?b !}", "wait", &wait, "stop", &stop);
    if (rc == 0 && stop)
        return sfs_control_done(sfs_pool_scrub_stop(c->pool, &err), &err);
    if (rc == 0)
        rc = sfs_pool_scrub(c->pool, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

static json_t *file_json(const struct sfs_scrub_file *f)
{
    return json_pack("{s:o, s:o?, s:o, s:I}", "space", sfs_control_text(f->space), "path",
                     f->path ? sfs_control_text(f->path) : NULL, "disk", sfs_control_text(f->disk), "bytes",
                     (json_int_t)f->bytes);
}

/* Sums of the files by disk. */
static json_t *disks_json(const struct sfs_scrub_report *r)
{
    json_t *disks = json_object(), *list = json_array(), *sum;
    const char *name;

    for (unsigned i = 0; i < r->nfiles; i++)
        json_object_set_new(disks, r->files[i].disk,
                            json_integer(json_integer_value(json_object_get(disks, r->files[i].disk)) +
                                         (json_int_t)r->files[i].bytes));
    json_object_foreach(disks, name, sum)
        json_array_append_new(list, json_pack("{s:s, s:O}", "disk", name, "bytes", sum));
    json_decref(disks);
    return list;
}

json_t *sfs_control_scrub_report(struct sfs_control_call *c)
{
    json_t *files = json_array(), *result;
    struct sfs_scrub_report *r;
    struct sfs_error err;
    int rc;

    rc = sfs_control_args(c->request, &err, "{!}");
    if (rc == 0) {
        rc = sfs_pool_scrub_report(c->pool, &r);
        if (rc < 0)
            sfs_error_set(&err, rc, "what the last scrub of pool %s has found cannot be read: %s",
                          sfs_pool_name(c->pool), strerror(-rc));
    }
    if (rc < 0) {
        json_decref(files);
        return sfs_control_fail(rc, &err);
    }
    for (unsigned i = 0; i < r->nfiles; i++)
        json_array_append_new(files, file_json(&r->files[i]));
    result = json_pack("{s:s, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "state", r->state, "result",
                       sfs_control_text(r->result), "started", (json_int_t)r->started, "ended",
                       (json_int_t)r->ended, "last", (json_int_t)r->last, "next", (json_int_t)r->next, "disks",
                       disks_json(r), "files", files, "damage", sfs_control_damaged_json(r->damaged));
    sfs_pool_scrub_report_free(r);
    return sfs_control_ok(result, NULL);
}
