/* Scrubbing a pool: when (a pool property, scrub-every, a month by default), at once when asked to; and what the last one found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/job/scrub.h"
#include "fs/pool/files.h"
#include "fs/pool/pool_impl.h"

#define LOOK_NS 60000000000ull

static int scrub_catalog(void *ctx, uint64_t *bad)
{
    struct sfs_pool *p = ctx;
    return sfs_replicas_scrub(p->replicas, bad);
}

int sfs_pool_run_scrub(struct sfs_job *j, void *ctx)
{
    struct sfs_scrub_ops ops = {scrub_catalog, ctx};
    return sfs_scrub(j, &ops);
}

static void set_last(struct sfs_pool *p, int64_t when)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", (long long)when);
    sfs_catalog_lock(p->cat);
    sfs_catalog_prop_set(p->cat, SFS_SCRUB_LAST, text);
    sfs_catalog_unlock(p->cat);
}

/* It isn't wanted now: the next one comes when it would have come after this one. */
void sfs_pool_scrub_cancelled(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    (void)j;
    sfs_scrub_forget(p->data);
    set_last(p, sfs_env_wall(p->env).tv_sec);
}

/* --- the schedule ------------------------------------------------------------------------------------------------------------- */

static int64_t last_of(struct sfs_pool *p)
{
    char text[32];
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_prop_get(p->cat, SFS_SCRUB_LAST, text, sizeof(text));
    sfs_catalog_unlock(p->cat);
    long long when = rc ? 0 : strtoll(text, NULL, 10);
    return when > 0 ? when : 0;
}

/* Seconds; 0: never by itself. */
static int64_t every_of(struct sfs_pool *p)
{
    char text[64];
    uint64_t ns;
    if (sfs_pool_prop_get(p, "scrub-every", text, sizeof(text), NULL) || !strcmp(text, "off") || sfs_duration_parse(text, "scrub-every", &ns, NULL))
        return 0;
    return (int64_t)(ns / 1000000000ull);
}

void sfs_pool_scrub_tick(struct sfs_pool *p)
{
    uint64_t now = sfs_env_mono_ns(p->env), id;
    if (!p->scrub_look_ns)
        p->scrub_look_ns = now + LOOK_NS; /* not in the first moments of a pool */
    if (now < p->scrub_look_ns || !p->jobs || sfs_pool_readonly(p))
        return;
    p->scrub_look_ns = now + LOOK_NS;
    int64_t every = every_of(p), last = last_of(p), wall = sfs_env_wall(p->env).tv_sec;
    if (!every)
        return;
    if (!last || last > wall) /* a new pool, or a clock that was set back: it counts from now */
        set_last(p, wall);
    else if (wall - last >= every)
        sfs_job_begin(p->jobs, "scrub", "pool", &id, NULL); /* one that runs, or is paused, is left alone */
}

int sfs_pool_scrub(struct sfs_pool *p, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    if (!rc)
        rc = sfs_job_begin(p->jobs, "scrub", "pool", job, err);
    return rc;
}

struct running {
    uint64_t id;
};

static int find_running(const struct sfs_job_row *row, void *ctx)
{
    struct running *r = ctx;
    if (strcmp(row->kind, "scrub"))
        return 0;
    if (!strcmp(row->state, "running") || !strcmp(row->state, "waiting") || !strcmp(row->state, "paused"))
        r->id = row->id;
    return 1; /* the newest is what counts */
}

int sfs_pool_scrub_stop(struct sfs_pool *p, struct sfs_error *err)
{
    struct running r = {0};
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_catalog_lock(p->cat);
    rc = sfs_catalog_job_each(p->cat, find_running, &r);
    sfs_catalog_unlock(p->cat);
    if (rc < 0 || !r.id)
        return sfs_error_set(err, rc < 0 ? rc : -ENOENT, "pool %s is not being scrubbed.", p->name);
    return sfs_job_order(p->jobs, r.id, SFS_JOB_CANCEL, err);
}

/* --- the report ----------------------------------------------------------------------------------------------------------------- */

struct findings {
    struct sfs_finding_row *v;
    unsigned n, cap;
};

static int take_finding(const struct sfs_finding_row *row, void *ctx)
{
    struct findings *f = ctx;
    if (f->n == f->cap) {
        unsigned cap = f->cap ? 2 * f->cap : 64;
        struct sfs_finding_row *v = realloc(f->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        f->v = v;
        f->cap = cap;
    }
    f->v[f->n++] = *row;
    return 0;
}

/* The newest scrub's row. */
static int take_job(const struct sfs_job_row *row, void *ctx)
{
    struct sfs_scrub_report *o = ctx;
    if (strcmp(row->kind, "scrub"))
        return 0;
    o->started = row->started;
    o->ended = row->ended;
    snprintf(o->state, sizeof(o->state), "%s", row->state);
    snprintf(o->result, sizeof(o->result), "%s", row->result);
    return 1;
}

static void name_space(struct sfs_pool *p, uint64_t ino, char *out, size_t cap)
{
    struct sfs_inode_row inode;
    struct sfs_space_row row;
    struct sfs_volume *v = NULL;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_inode_get(p->cat, ino, &inode);
    sfs_catalog_unlock(p->cat);
    out[0] = '\0';
    if (!rc)
        v = sfs_volume_find(p->data, inode.space);
    if (!v)
        return;
    sfs_volume_settings(v, &row);
    if (!row.destroying)
        snprintf(out, cap, "%s", row.name);
}

static int name_files(struct sfs_pool *p, const struct findings *f, struct sfs_scrub_report *o)
{
    uint64_t *inos = calloc(f->n + 1, sizeof(*inos));
    char **paths = calloc(f->n + 1, sizeof(*paths));
    o->files = calloc(f->n + 1, sizeof(*o->files));
    int rc = inos && paths && o->files ? 0 : -ENOMEM;
    for (unsigned i = 0; !rc && i < f->n; i++)
        inos[i] = f->v[i].ino;
    if (!rc)
        rc = sfs_pool_paths(p, inos, f->n, paths);
    for (unsigned i = 0; !rc && i < f->n; i++) {
        struct sfs_scrub_file *file = &o->files[o->nfiles];
        name_space(p, f->v[i].ino, file->space, sizeof(file->space));
        sfs_pool_disk_name(p, f->v[i].disk, file->disk);
        file->path = paths[i];
        file->bytes = f->v[i].blocks * SFS_BLOCK;
        if (file->space[0])
            o->nfiles++;
        else
            free(paths[i]); /* deleted since */
    }
    free(inos);
    free(paths);
    return rc;
}

int sfs_pool_scrub_report(struct sfs_pool *p, struct sfs_scrub_report **res)
{
    struct sfs_scrub_report *o = calloc(1, sizeof(*o));
    struct findings f = {0};
    if (!o)
        return -ENOMEM;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_job_each(p->cat, take_job, o);
    if (rc >= 0)
        rc = sfs_catalog_finding_each(p->cat, take_finding, &f);
    sfs_catalog_unlock(p->cat);
    if (rc >= 0)
        rc = name_files(p, &f, o);
    if (rc >= 0)
        rc = sfs_pool_damaged(p, UINT16_MAX, 0, &o->damaged);
    free(f.v);
    if (rc < 0) {
        sfs_pool_scrub_report_free(o);
        return rc;
    }
    int64_t every = every_of(p);
    o->last = last_of(p);
    o->next = every ? (o->last ? o->last : sfs_env_wall(p->env).tv_sec) + every : 0;
    *res = o;
    return 0;
}

void sfs_pool_scrub_report_free(struct sfs_scrub_report *o)
{
    if (!o)
        return;
    for (unsigned i = 0; o->files && i < o->nfiles; i++)
        free(o->files[i].path);
    free(o->files);
    sfs_pool_damaged_free(o->damaged);
    free(o);
}
