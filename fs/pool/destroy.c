/* Destroying a space: it is gone at once for people, its name is free, and a job gives back what it held.
 *
 * Marked first (`destroying`, under a name that no space can have), so that the job begins anew at the next open when it is cut short; the space's row goes last, when no group names it any more. */
#include <stdio.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/pool/pool_impl.h"

#define ROWS 1000u
#define PENDING_MAX (8u << 20) /* bytes of the catalog's transaction */
#define TRIES 600u
#define PAUSE_NS 50000000ull

struct destroying {
    struct sfs_pool *p;
    struct sfs_job *j;
    struct sfs_volume *v;
    int space;
    uint64_t used; /* as last told */
    struct sfs_pace pace;
};

/* A thousand rows at a time, so that nobody waits for the catalog's lock. 1: there is more. */
static int reap_some(struct destroying *x, uint64_t *after)
{
    struct sfs_pool *p = x->p;
    uint64_t ino;
    unsigned n = 0;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_space_inode_next(p->cat, x->space, *after, &ino);
    if (!rc)
        rc = sfs_catalog_extent_delete(p->cat, ino, 0, INT64_MAX, ROWS, sfs_commit_removed, p->data, &n);
    if (!rc && n < ROWS) {
        rc = sfs_catalog_dentry_clear(p->cat, ino);
        if (!rc)
            rc = sfs_catalog_inode_delete(p->cat, ino);
        *after = ino;
    }
    sfs_catalog_unlock(p->cat);
    return rc == -ENOENT ? 0 : rc ? rc : 1;
}

/* What has been given back since the last time counts as done. Non-zero: stop. */
static int tell(struct destroying *x)
{
    struct sfs_volume_stat st;
    sfs_volume_stat(x->v, &st);
    uint64_t freed = st.used_bytes < x->used ? x->used - st.used_bytes : 0;
    x->used = st.used_bytes < x->used ? st.used_bytes : x->used;
    sfs_throttle_step(sfs_job_throttle(x->j), &x->pace, freed);
    int stop = sfs_job_progress(x->j, freed);
    sfs_job_left(x->j, x->used);
    return stop ? -ECANCELED : 0;
}

static int reap(struct destroying *x)
{
    uint64_t after = 0;
    int rc;
    while ((rc = reap_some(x, &after)) > 0) {
        if (sfs_catalog_pending_bytes(x->p->cat) > PENDING_MAX)
            rc = sfs_commit_wait(x->p->data, false);
        if (rc >= 0)
            rc = tell(x);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* Its groups, which are empty now, go with the next commits. */
static int drop_groups(struct destroying *x)
{
    int rc = 0;
    for (unsigned tries = 0; !rc && (tries == 0 || sfs_volume_has_groups(x->v)); tries++) {
        if (tries == TRIES)
            return -EBUSY; /* a job holds a group */
        if (tries > 1)
            sfs_env_sleep_ns(x->p->env, PAUSE_NS);
        rc = sfs_commit_wait(x->p->data, false);
        sfs_freeing_tick(x->p->data);
        if (!rc && sfs_job_stopping(x->j))
            rc = -ECANCELED;
    }
    return rc;
}

int sfs_pool_run_destroy(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    struct destroying x = {.p = p, .j = j, .space = (int)sfs_job_number(sfs_job_what(j), "space")};
    struct sfs_volume_stat st;
    x.v = sfs_volume_find(p->data, x.space);
    sfs_job_says(j, "what the space held has been given back");
    if (!x.v)
        return 0; /* cut short when its row had gone */
    int rc = sfs_groups_count_used(p->data); /* a group is dropped once it is known to hold nothing */
    sfs_volume_stat(x.v, &st);
    x.used = st.used_bytes;
    sfs_job_left(j, x.used);
    if (!rc)
        rc = reap(&x);
    if (!rc)
        rc = drop_groups(&x);
    if (!rc)
        rc = tell(&x);
    if (rc)
        return rc;
    sfs_catalog_lock(p->cat);
    rc = sfs_catalog_space_delete(p->cat, x.space);
    sfs_catalog_unlock(p->cat);
    if (!rc)
        rc = sfs_commit_wait(p->data, false);
    return rc ? rc : sfs_volume_remove(p->data, x.space);
}

static int mark(struct sfs_pool *p, struct sfs_volume *v, struct sfs_space_row *row)
{
    sfs_volume_settings(v, row);
    row->destroying = true;
    snprintf(row->name, sizeof(row->name), "#%d", row->id);
    return sfs_pool_store_space(p, row);
}

/* Whoever comes second, the one who marked it or the one who looks for what is marked, finds it begun. */
static int begin(struct sfs_pool *p, int space, uint64_t *job, struct sfs_error *err)
{
    char what[32];
    snprintf(what, sizeof(what), "space=%d", space);
    int rc = sfs_job_begin(p->jobs, "destroy", what, job, err);
    if (rc == -EALREADY && err)
        *err = (struct sfs_error){0};
    return rc == -EALREADY ? 0 : rc;
}

/* What it would convert is about to go. */
static void end_conversion(struct sfs_pool *p, int space)
{
    char subject[32], kind[16];
    snprintf(subject, sizeof(subject), "space=%d", space);
    uint64_t id = sfs_job_find(p->jobs, subject, kind);
    if (id && !strcmp(kind, "convert"))
        sfs_job_order(p->jobs, id, SFS_JOB_CANCEL, NULL); /* it may have ended meanwhile */
}

void sfs_pool_resume_destroying(struct sfs_pool *p)
{
    int ids[SFS_WATCHED_SPACES];
    unsigned n = sfs_volumes_destroying(p->data, ids, SFS_WATCHED_SPACES);
    uint64_t job;
    for (unsigned i = 0; p->jobs && i < n; i++)
        end_conversion(p, ids[i]);
    for (unsigned i = 0; p->jobs && i < n; i++)
        begin(p, ids[i], &job, NULL); /* refused: it is being done, or is paused */
}

static int wait_for(struct sfs_pool *p, uint64_t job, const char *name, struct sfs_error *err)
{
    char text[256] = "";
    int rc;
    while ((rc = sfs_pool_job_wait(p, job, 1000000000ull, text)) == -ETIMEDOUT)
        ;
    return rc ? sfs_error_set(err, rc, "space %s/%s is gone, but not all that it held could be given back yet: %s.", p->name, name, text[0] ? text : strerror(-rc)) : 0;
}

int sfs_pool_space_destroy(struct sfs_pool *p, const char *name, uint64_t *job, struct sfs_error *err)
{
    struct sfs_space_row row;
    uint64_t own;
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_mutex_lock(&p->admin);
    struct sfs_volume *v = sfs_volume_find_name(p->data, name);
    if (v && sfs_volume_use(v, 0))
        rc = sfs_error_set(err, -EBUSY, "space %s/%s is mounted. Unmount it first.", p->name, name);
    else if (v)
        rc = mark(p, v, &row);
    sfs_mutex_unlock(&p->admin);
    if (!v)
        return sfs_pool_no_such_space(p, name, err);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "space %s/%s could not be destroyed: %s.", p->name, name, strerror(-rc));
    if (rc)
        return rc;
    sfs_pool_event(p, "info", "space-destroyed", name, "space %s/%s was destroyed; what it held is given back in the background", p->name, name);
    end_conversion(p, row.id);
    rc = begin(p, row.id, job ? job : &own, err);
    return rc || job ? rc : wait_for(p, own, name, err);
}
