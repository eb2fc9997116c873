/* Which files are damaged. */
#include "fs/daemon/control_impl.h"

#include <string.h>

#define FILES_MAX 100000u

static json_t *file_json(const struct sfs_damaged_file *f)
{
    return json_pack("{s:o, s:o?, s:I, s:I, s:s}", "space", sfs_control_text(f->space), "path",
                     f->path ? sfs_control_text(f->path) : NULL, "ino", (json_int_t)f->ino, "bytes",
                     (json_int_t)f->bytes, "why", f->missing ? "missing" : "damaged");
}

json_t *sfs_control_damaged_json(const struct sfs_damaged *d)
{
    json_t *files = json_array();

    for (unsigned i = 0; files && i < d->n; i++)
        if (json_array_append_new(files, file_json(&d->v[i])) < 0) {
            json_decref(files);
            return NULL;
        }
    return json_pack("{s:I, s:b, s:o}", "count", (json_int_t)d->files, "more", (int)d->more, "files", files);
}

json_t *sfs_control_damage(struct sfs_control_call *c)
{
    struct sfs_damaged *damaged;
    struct sfs_error err;
    json_t *result;
    int rc;

    rc = sfs_control_args(c->request, &err, "{!}");
    if (rc == 0) {
        rc = sfs_pool_damaged(c->pool, FILES_MAX, 0, &damaged);
        if (rc < 0)
            sfs_error_set(&err, rc, "the damaged files of pool %s cannot be listed: %s",
                          sfs_pool_name(c->pool), strerror(-rc));
    }
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    result = sfs_control_damaged_json(damaged);
    sfs_pool_damaged_free(damaged);
    return sfs_control_ok(result, NULL);
}
