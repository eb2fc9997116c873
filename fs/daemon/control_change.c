/* Changing: spaces, disks, properties, heal. Values come as the user typed them. */
#include "fs/daemon/control_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/codec.h"

#define HEAL_LOOK_NS 300000000ull

/* --- spaces ----------------------------------------------------------------------------------- */

struct typed {
    const char *name, *resiliency, *size, *columns, *interleave, *provisioning, *compression;
};

struct parsed {
    struct sfs_space_settings settings; /* points into what follows */
    enum sfs_resiliency resiliency;
    unsigned columns;
    uint32_t interleave;
    uint64_t size_bytes;
    bool fixed;
    enum sfs_codec codec;
    int codec_level;
};

static int parse_count(const char *text, const char *what, unsigned max, unsigned *out, struct sfs_error *err)
{
    unsigned long n;
    char *end;

    errno = 0;
    n = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || n > max)
        return sfs_error_set(err, -EINVAL, "%s: \"%s\" is not a number up to %u", what, text, max);
    *out = (unsigned)n;
    return 0;
}

static int parse_compression(const char *text, struct parsed *p, struct sfs_error *err)
{
    unsigned level = SFS_ZSTD_LEVEL_DEFAULT;
    int rc = 0;

    if (strcmp(text, "off") == 0) {
        p->codec = SFS_CODEC_NONE;
        level = 0;
    } else if (strcmp(text, "zstd") == 0 || strncmp(text, "zstd:", 5) == 0) {
        p->codec = SFS_CODEC_ZSTD;
        if (text[4] == ':')
            rc = parse_count(text + 5, "compression level", SFS_ZSTD_LEVEL_MAX, &level, err);
        if (rc == 0 && level < SFS_ZSTD_LEVEL_MIN)
            rc = sfs_error_set(err, -EINVAL, "compression level: %d is the lowest", SFS_ZSTD_LEVEL_MIN);
    } else {
        rc = sfs_error_set(err, -EINVAL, "compression: \"%s\" is not one of off, zstd, zstd:LEVEL", text);
    }
    p->codec_level = (int)level;
    p->settings.codec = &p->codec;
    p->settings.codec_level = &p->codec_level;
    return rc;
}

static int parse_layout(const struct typed *t, struct parsed *p, struct sfs_error *err)
{
    int rc = 0;

    if (t->resiliency) {
        rc = sfs_resiliency_parse(t->resiliency, &p->resiliency, err);
        p->settings.resiliency = &p->resiliency;
    }
    if (rc == 0 && t->columns) {
        if (strcmp(t->columns, "auto") != 0)
            rc = parse_count(t->columns, "columns", SFS_MAX_COLUMNS, &p->columns, err);
        p->settings.columns = &p->columns;
    }
    if (rc == 0 && t->interleave) {
        uint64_t bytes;

        rc = sfs_size_parse(t->interleave, "interleave", &bytes, err);
        if (rc == 0 && bytes > UINT32_MAX)
            rc = sfs_error_set(err, -ERANGE, "interleave: %s is too much", t->interleave);
        p->interleave = rc == 0 ? (uint32_t)bytes : 0;
        p->settings.interleave = &p->interleave;
    }
    return rc;
}

static int parse_settings(const struct typed *t, struct parsed *p, struct sfs_error *err)
{
    int rc;

    memset(p, 0, sizeof(*p));
    rc = parse_layout(t, p, err);
    if (rc == 0 && t->size) {
        rc = sfs_size_parse(t->size, "size", &p->size_bytes, err);
        p->settings.size_bytes = &p->size_bytes;
    }
    if (rc == 0 && t->provisioning) {
        p->fixed = strcmp(t->provisioning, "fixed") == 0;
        if (!p->fixed && strcmp(t->provisioning, "thin") != 0)
            rc = sfs_error_set(err, -EINVAL, "provisioning: \"%s\" is not one of thin, fixed",
                               t->provisioning);
        p->settings.fixed = &p->fixed;
    }
    if (rc == 0 && t->compression)
        rc = parse_compression(t->compression, p, err);
    return rc;
}

static int space_settings(struct sfs_control_call *c, struct typed *t, struct parsed *p, int *wait, struct sfs_error *err)
{
    int rc = sfs_control_args(c->request, err, "{s:s, s?s, s?s, s?s, s?s, s?s, s?s, s?b !}", "name", &t->name,
                              "resiliency", &t->resiliency, "size", &t->size, "columns", &t->columns, "interleave",
                              &t->interleave, "provisioning", &t->provisioning, "compression", &t->compression,
                              "wait", wait);
    return rc ? rc : parse_settings(t, p, err);
}

json_t *sfs_control_space_create(struct sfs_control_call *c)
{
    struct typed t = {0};
    struct sfs_error err = {0};
    struct parsed p;
    int wait = 0, rc = space_settings(c, &t, &p, &wait, &err);

    if (rc == 0)
        rc = sfs_pool_space_create(c->pool, t.name, &p.settings, &err);
    return sfs_control_done(rc, &err);
}

json_t *sfs_control_space_set(struct sfs_control_call *c)
{
    struct typed t = {0};
    struct sfs_error err = {0};
    struct parsed p;
    uint64_t job = 0;
    int wait = 0, rc = space_settings(c, &t, &p, &wait, &err);

    if (rc == 0)
        rc = sfs_pool_space_set(c->pool, t.name, &p.settings, &job, &err);
    return sfs_control_begun(c, rc, job, wait, &err);
}

json_t *sfs_control_space_rename(struct sfs_control_call *c)
{
    const char *name, *to;
    struct sfs_error err = {0};
    int rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s:s !}", "name", &name, "to", &to);
    if (rc == 0)
        rc = sfs_pool_space_rename(c->pool, name, to, &err);
    return sfs_control_done(rc, &err);
}

json_t *sfs_control_space_destroy(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    const char *name;
    uint64_t id = 0;
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s?b !}", "name", &name, "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_space_destroy(c->pool, name, &id, &err);
    return sfs_control_begun(c, rc, id, wait, &err);
}

/* --- disks ------------------------------------------------------------------------------------ */

static int parse_disk(const json_t *from, struct sfs_disk_spec *spec, struct sfs_error *err)
{
    json_t *size = NULL;
    int rc;

    rc = sfs_control_args(from, err, "{s:s, s?s, s?o !}", "path", &spec->path, "name", &spec->name, "size",
                          &size);
    if (rc < 0)
        return rc;
    /* The daemon's working directory isn't the user's. */
    if (spec->path[0] != '/')
        return sfs_error_set(err, -EINVAL, "disk %s: the path must begin with /", spec->path);
    if (json_is_string(size))
        return sfs_size_parse(json_string_value(size), "disk size", &spec->size_bytes, err);
    if (json_is_integer(size) && json_integer_value(size) >= 0)
        spec->size_bytes = (uint64_t)json_integer_value(size);
    else if (size)
        return sfs_error_set(err, -EINVAL, "disk %s: the size is not a number of bytes", spec->path);
    return 0;
}

json_t *sfs_control_disk_add(struct sfs_control_call *c)
{
    struct sfs_disk_spec specs[SFS_LABEL_PEERS] = {{0}};
    struct sfs_error err = {0}, warn = {0};
    size_t n = 0;
    json_t *disks;
    int force = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s:o, s?b !}", "disks", &disks, "force", &force);
    if (rc == 0) {
        n = json_array_size(disks);
        if (n == 0 || n > SFS_LABEL_PEERS)
            rc = sfs_error_set(&err, -EINVAL, "malformed request: \"disks\" is a list of 1 to %u disks",
                               SFS_LABEL_PEERS);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = parse_disk(json_array_get(disks, i), &specs[i], &err);
    if (rc == 0)
        rc = sfs_pool_disk_add(c->pool, specs, (unsigned)n, force != 0, &warn, &err);
    return rc < 0 ? sfs_control_fail(rc, &err) : sfs_control_ok(json_object(), &warn);
}

/* --- the pool --------------------------------------------------------------------------------- */

json_t *sfs_control_pool_set(struct sfs_control_call *c)
{
    const char *key, *value;
    struct sfs_error err = {0};
    int rc;

    rc = sfs_control_args(c->request, &err, "{s:s, s:s !}", "key", &key, "value", &value);
    if (rc == 0)
        rc = sfs_pool_prop_set(c->pool, key, value, &err);
    return sfs_control_done(rc, &err);
}

json_t *sfs_control_pool_get(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    char value[1024];
    const char *key;
    int rc;

    rc = sfs_control_args(c->request, &err, "{s:s !}", "key", &key);
    if (rc == 0)
        rc = sfs_pool_prop_get(c->pool, key, value, sizeof(value), &err);
    return rc < 0 ? sfs_control_fail(rc, &err)
                  : sfs_control_ok(json_pack("{s:o}", "value", sfs_control_text(value)), NULL);
}

/* One look at a running heal: tells its progress. False when none runs. */
static bool heal_runs(struct sfs_control_call *c)
{
    struct sfs_pool_info *info;
    bool runs = false;

    if (sfs_pool_info(c->pool, &info) < 0)
        return false;
    for (unsigned i = 0; i < info->njobs; i++) {
        const struct sfs_job_row *job = &info->jobs[i].row;
        json_t *progress;

        if (strcmp(job->kind, "heal") != 0 || strcmp(job->state, "running") != 0)
            continue;
        runs = true;
        progress = json_pack("{s:I, s:I, s:o}", "done", (json_int_t)job->done, "total",
                             (json_int_t)job->total, "text", sfs_control_text(job->what));
        if (c->progress && progress)
            c->progress(c->progress_ctx, progress);
        json_decref(progress);
        break;
    }
    sfs_pool_info_free(info);
    return runs;
}

json_t *sfs_control_heal(struct sfs_control_call *c)
{
    struct sfs_error err = {0};
    int wait = 0, rc;

    rc = sfs_control_args(c->request, &err, "{s?b !}", "wait", &wait);
    if (rc == 0)
        rc = sfs_pool_heal(c->pool, false, &err);
    if (rc < 0 || !wait)
        return sfs_control_done(rc, &err);
    do {
        sfs_env_sleep_ns(sfs_pool_env(c->pool), HEAL_LOOK_NS);
        if (c->cancelled && c->cancelled(c->ctx))
            return sfs_control_error(-ECANCELED,
                                     "the daemon ends; healing goes on when the pool is opened again");
    } while (heal_runs(c));
    /* Now it has an end: what it says is the verdict. */
    return sfs_control_done(sfs_pool_heal(c->pool, true, &err), &err);
}
