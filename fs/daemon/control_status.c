/* Looking: status and events. */
#include "fs/daemon/control_impl.h"

#include <stdio.h>
#include <string.h>

#define EVENTS_MAX 10000u

/* Adds all members or fails as a whole: json_pack returns NULL when any value is. */
#define INT(x) ((json_int_t)(x))

static const char *health_name(enum sfs_health h)
{
    static const char *const names[] = {"healthy", "degraded", "at-risk"};

    return names[h];
}

static const char *kind_name(int kind)
{
    return kind == SFS_DISK_DIR ? "dir" : kind == SFS_DISK_IMAGE ? "image" : "sim";
}

static const char *media_name(int media)
{
    return media == SFS_MEDIA_SSD ? "ssd" : media == SFS_MEDIA_HDD ? "hdd" : "unknown";
}

static const char *usage_name(enum sfs_usage usage)
{
    static const char *const names[] = {"auto", "journal", "hot-spare", "retired"};

    return (unsigned)usage < 4 ? names[usage] : "?";
}

static const char *state_name(enum sfs_disk_state state)
{
    static const char *const names[] = {"online", "failed", "stalled", "gone"};

    return names[state];
}

static json_t *disk_json(const struct sfs_disk_info *d)
{
    char uuid[SFS_UUID_STRLEN];

    sfs_uuid_format(&d->row.uuid, uuid);
    return json_pack(
        "{s:i, s:o, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
        "id", d->row.id, "name", sfs_control_text(d->row.name), "uuid", uuid, "kind", kind_name(d->row.kind),
        "path", sfs_control_text(d->row.path), "media", media_name(d->row.media), "usage",
        usage_name(d->row.usage), "state", state_name(d->state), "why", sfs_control_text(d->why), "present",
        (int)d->present, "total_bytes", INT(d->total_bytes), "used_bytes", INT(d->used_bytes), "free_bytes",
        INT(d->free_bytes), "slabs_held", INT(d->slabs_held), "lost_since", INT(d->row.lost_since),
        "read_errors", INT(d->row.read_errors), "write_errors", INT(d->row.write_errors), "checksum_errors",
        INT(d->row.checksum_errors), "replica", (int)d->row.replica);
}

static json_t *space_json(const struct sfs_space_info *s)
{
    char compression[32];

    if (s->row.codec == SFS_CODEC_ZSTD)
        snprintf(compression, sizeof(compression), "zstd:%d", s->row.codec_level);
    else
        snprintf(compression, sizeof(compression), "off");
    return json_pack("{s:i, s:o, s:s, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:[]}",
                     "id", s->row.id, "name", sfs_control_text(s->row.name), "resiliency",
                     sfs_resiliency_name((enum sfs_resiliency)s->row.resiliency), "columns",
                     INT(s->row.columns), "interleave", INT(s->row.interleave), "size_bytes",
                     INT(s->row.size_bytes), "provisioning", s->row.fixed ? "fixed" : "thin", "compression",
                     compression, "total_bytes", INT(s->stat.total_bytes), "used_bytes",
                     INT(s->stat.used_bytes), "avail_bytes", INT(s->stat.avail_bytes), "inodes",
                     INT(s->inodes), "raw_bytes", INT(s->raw_bytes), "health", health_name(s->health),
                     "groups", INT(s->groups), "groups_degraded", INT(s->groups_degraded), "groups_lost",
                     INT(s->groups_lost), "mounts");
}

static json_t *job_json(const struct sfs_job_info *j)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "id", INT(j->row.id), "kind",
                     sfs_control_text(j->row.kind), "state", sfs_control_text(j->row.state), "what",
                     sfs_control_text(j->row.what), "done", INT(j->row.done), "total", INT(j->row.total),
                     "rate_bytes_s", INT(j->rate_bytes_s), "eta_s", INT(j->eta_s), "started",
                     INT(j->row.started), "ended", INT(j->row.ended), "result",
                     sfs_control_text(j->row.result));
}

/* Appends to an array; the array is NULL once anything has failed. */
static json_t *append(json_t *array, json_t *value)
{
    if (array && json_array_append_new(array, value) == 0)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *info_json(const struct sfs_pool_info *i)
{
    json_t *disks = json_array(), *spaces = json_array(), *jobs = json_array();
    char uuid[SFS_UUID_STRLEN];

    for (unsigned k = 0; k < i->ndisks; k++)
        disks = append(disks, disk_json(&i->disks[k]));
    for (unsigned k = 0; k < i->nspaces; k++)
        spaces = append(spaces, space_json(&i->spaces[k]));
    for (unsigned k = 0; k < i->njobs; k++)
        jobs = append(jobs, job_json(&i->jobs[k]));
    sfs_uuid_format(&i->uuid, uuid);
    return json_pack(
        "{s:o, s:s, s:s, s:i, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:o, s:o}", "pool",
        sfs_control_text(i->name), "uuid", uuid, "health", health_name(i->health), "exit", (int)i->health,
        "verdict", sfs_control_text(i->verdict), "readonly", (int)i->readonly, "slab_bytes",
        INT(i->slab_bytes), "total_bytes", INT(i->total_bytes), "used_bytes", INT(i->used_bytes),
        "free_bytes", INT(i->free_bytes), "promised_bytes", INT(i->promised_bytes), "epoch", INT(i->epoch),
        "replicas", INT(i->replicas), "replicas_wanted", INT(i->replicas_wanted), "can_heal_largest",
        (int)i->can_heal_largest, "disks", disks, "spaces", spaces, "jobs", jobs,
        "damage", sfs_control_damaged_json(i->damaged));
}

json_t *sfs_control_status(struct sfs_control_call *c)
{
    struct sfs_pool_info *info;
    struct sfs_error err;
    json_t *result;
    int rc;

    rc = sfs_control_args(c->request, &err, "{!}");
    if (rc == 0) {
        rc = sfs_pool_info(c->pool, &info);
        if (rc < 0)
            sfs_error_set(&err, rc, "the state of pool %s cannot be read: %s", sfs_pool_name(c->pool),
                          strerror(-rc));
    }
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    result = info_json(info);
    sfs_pool_info_free(info);
    return sfs_control_ok(result, NULL);
}

static int add_event(const struct sfs_event_row *e, void *ctx)
{
    json_t *event = json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "id", INT(e->id), "time", INT(e->time),
                              "severity", sfs_control_text(e->severity), "kind", sfs_control_text(e->kind),
                              "subject", sfs_control_text(e->subject), "text", sfs_control_text(e->text));

    return json_array_append_new(ctx, event) == 0 ? 0 : -ENOMEM;
}

json_t *sfs_control_events(struct sfs_control_call *c)
{
    json_int_t after = 0, max = EVENTS_MAX;
    json_t *events = NULL;
    struct sfs_error err;
    int rc;

    rc = sfs_control_args(c->request, &err, "{s?I, s?I !}", "after", &after, "max", &max);
    if (rc == 0 && (after < 0 || max < 0))
        rc = sfs_error_set(&err, -EINVAL, "malformed request: \"after\" and \"max\" are not negative");
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    events = json_array();
    if (!events)
        return sfs_control_error(-ENOMEM, NULL);
    rc = sfs_pool_events(c->pool, (uint64_t)after, max > EVENTS_MAX ? EVENTS_MAX : (unsigned)max, add_event,
                         events);
    if (rc < 0) {
        json_decref(events);
        return sfs_control_fail(sfs_error_set(&err, rc, "events cannot be read: %s", strerror(-rc)), &err);
    }
    return sfs_control_ok(json_pack("{s:o}", "events", events), NULL);
}
