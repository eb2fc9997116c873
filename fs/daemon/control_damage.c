/* Which files are damaged, and which would be if a disk went. */
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

/* --- impact ------------------------------------------------------------------------------------ */

static json_t *sum_json(const struct sfs_impact_sum *s)
{
    return json_pack("{s:I, s:I}", "files", (json_int_t)s->files, "bytes", (json_int_t)s->bytes);
}

static json_t *impact_json(const struct sfs_impact *i, const char *disk)
{
    json_t *spaces = json_array(), *examples = json_array();

    for (unsigned k = 0; k < i->nspaces; k++) {
        const struct sfs_impact_space *s = &i->spaces[k];

        json_array_append_new(spaces, json_pack("{s:o, s:s, s:o, s:o, s:o}", "name", sfs_control_text(s->name),
                                                "resiliency", s->resiliency, "lost", sum_json(&s->lost),
                                                "at_risk", sum_json(&s->risk), "weaker",
                                                sum_json(&s->weaker)));
    }
    for (unsigned k = 0; k < i->nexamples; k++)
        json_array_append_new(examples, json_pack("{s:o, s:o}", "space",
                                                  sfs_control_text(i->examples[k].space), "path",
                                                  sfs_control_text(i->examples[k].path)));
    return json_pack("{s:o, s:b, s:o, s:o, s:i, s:i, s:i, s:b, s:i}", "disk", sfs_control_text(disk), "online",
                     (int)i->online, "spaces", spaces, "examples", examples, "slabs", (int)i->slabs,
                     "slabs_placed", (int)i->slabs_placed, "slabs_hopeless", (int)i->slabs_hopeless,
                     "can_heal", (int)i->can_heal, "replicas_left", (int)i->replicas_left);
}

json_t *sfs_control_impact(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    struct sfs_impact *impact;
    const char *disk;
    json_t *result;
    int rc;

    rc = sfs_control_args(c->request, &err, "{s:s !}", "disk", &disk);
    if (rc == 0)
        rc = sfs_pool_impact(c->pool, disk, &impact, &err);
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    result = impact_json(impact, disk);
    sfs_pool_impact_free(impact);
    return sfs_control_ok(result, NULL);
}
