/* The jobs over a pool's disks (fs/job/job.h): what each does when it is (again) at work. A job names its disk by number:
 * names change. Each finds out by itself what is left, so that it may be cut short anywhere.
 *
 *   remove     disk=N was=USAGE         retires it, evacuates it, takes it out
 *   replace    disk=N to=M was=USAGE    the same, with another disk as the first choice
 *   evacuate   disk=N                   a disk whose usage is no longer auto
 *   shrink     disk=N slabs=S           empties the slots from S on, then that is its capacity
 *   rebalance                           spreads slabs evenly
 *   scrub                               reads and compares everything (scrub.c)
 *   destroy    space=N                  gives back what a destroyed space held (destroy.c)
 * convert and optimize are in convert.c. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/job/evacuate.h"

static int number_of(struct sfs_job *j, const char *key)
{
    uint64_t n = sfs_job_number(sfs_job_what(j), key);
    return n <= INT32_MAX ? (int)n : 0;
}

/* --- remove, replace ------------------------------------------------------------------------------------------------ */

static int leave(struct sfs_pool *p, int id)
{
    char name[SFS_NAME_MAX + 1];
    sfs_mutex_lock(&p->admin);
    struct sfs_pool_disk *pd = sfs_pool_disk_by_id(p, id);
    sfs_pool_disk_name(p, id, name);
    int rc = pd ? sfs_pool_disk_leave(p, pd) : 0;
    sfs_mutex_unlock(&p->admin);
    if (!rc && pd) {
        sfs_pool_mend_replicas(p);
        sfs_pool_event(p, "info", "disk-removed", name, "disk %s has left pool %s; nothing of the pool is on it any more", name, p->name);
    }
    return rc;
}

static int take_out(struct sfs_job *j, struct sfs_pool *p, int to)
{
    struct sfs_evacuate e = {.disk = number_of(j, "disk"), .to = to};
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, e.disk, &row);
    if (rc == -ENOENT) { /* cut short after its row had gone */
        sfs_job_says(j, "the disk has left the pool");
        return 0;
    }
    if (!rc)
        rc = sfs_pool_store_usage(p, e.disk, SFS_USAGE_RETIRED);
    while (!rc) {
        sfs_member_settle_new(p->data);
        rc = sfs_evacuate(j, &e);
        if (rc)
            break;
        rc = leave(p, e.disk);
        if (rc != -EAGAIN)
            break;
        rc = 0;
    }
    if (!rc)
        sfs_job_says(j, "all that disk %s held is on other disks; it has left the pool and may be used for anything", row.name);
    return rc;
}

static int run_remove(struct sfs_job *j, void *ctx)
{
    return take_out(j, ctx, 0);
}

static int run_replace(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    int to = number_of(j, "to");
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, to, &row);
    if (rc == -ENOENT) /* forgotten meanwhile: the others take what they can */
        return take_out(j, p, 0);
    if (!rc && row.usage == SFS_USAGE_HOT_SPARE)
        rc = sfs_pool_store_usage(p, to, SFS_USAGE_AUTO);
    return rc ? rc : take_out(j, p, to);
}

static void put_usage_back(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    uint64_t was = sfs_job_number(sfs_job_what(j), "was");
    if (was <= SFS_USAGE_RETIRED)
        sfs_pool_store_usage(p, number_of(j, "disk"), (enum sfs_usage)was);
    sfs_pool_wake(p);
}

/* --- evacuate, shrink, rebalance --------------------------------------------------------------------------------------- */

static int run_evacuate(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    struct sfs_evacuate e = {.disk = number_of(j, "disk")};
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, e.disk, &row);
    if (rc == -ENOENT || (!rc && row.usage == SFS_USAGE_AUTO)) {
        sfs_job_says(j, rc ? "the disk has left the pool" : "the disk is used for data again");
        return 0;
    }
    e.data_only = row.usage == SFS_USAGE_JOURNAL;
    sfs_member_settle_new(p->data);
    if (!rc)
        rc = sfs_evacuate(j, &e);
    if (!rc)
        sfs_job_says(j, "all that disk %s held is on other disks", row.name);
    return rc;
}

static int run_shrink(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    struct sfs_evacuate e = {.disk = number_of(j, "disk"), .from_slot = sfs_job_number(sfs_job_what(j), "slabs")};
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, e.disk, &row);
    if (rc == -ENOENT || !e.from_slot)
        return -EINVAL;
    sfs_member_limit(p->data, e.disk, e.from_slot);
    sfs_member_settle_new(p->data);
    if (!rc)
        rc = sfs_evacuate(j, &e);
    if (!rc)
        rc = sfs_pool_store_capacity(p, e.disk, e.from_slot);
    char size[16];
    if (!rc)
        sfs_job_says(j, "disk %s gives %s from now on", row.name, sfs_size_format(e.from_slot * p->slab_bytes, size));
    return rc;
}

static void put_limit_back(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    sfs_member_limit(p->data, number_of(j, "disk"), UINT64_MAX);
}

static int run_rebalance(struct sfs_job *j, void *ctx)
{
    (void)ctx;
    return sfs_rebalance(j);
}

static void put_auto_back(struct sfs_job *j, void *ctx)
{
    struct sfs_pool *p = ctx;
    sfs_pool_store_usage(p, number_of(j, "disk"), SFS_USAGE_AUTO);
}

static const struct sfs_job_kind kinds[] = {
    {"remove", run_remove, put_usage_back, NULL},
    {"replace", run_replace, put_usage_back, NULL},
    {"evacuate", run_evacuate, put_auto_back, NULL},
    {"shrink", run_shrink, put_limit_back, NULL},
    {"rebalance", run_rebalance, NULL, NULL},
    {"scrub", sfs_pool_run_scrub, sfs_pool_scrub_cancelled, NULL},
    {"destroy", sfs_pool_run_destroy, NULL, "the space is gone already, and part of what it held may be"},
    {"convert", sfs_pool_run_convert, NULL, NULL},
    {"optimize", sfs_pool_run_optimize, NULL, NULL},
};

/* --- the list ----------------------------------------------------------------------------------------------------------- */

/* A job is about a disk or a space, by name. */
static void on_event(void *ctx, const char *severity, const char *kind, const char *what, const char *text)
{
    struct sfs_pool *p = ctx;
    char name[SFS_NAME_MAX + 1];
    uint64_t disk = sfs_job_number(what, "disk"), space = sfs_job_number(what, "space");
    struct sfs_volume *v = space && space <= INT32_MAX ? sfs_volume_find(p->data, (int)space) : NULL;
    if (v) {
        struct sfs_space_row row;
        sfs_volume_settings(v, &row);
        sfs_pool_queue_event(p, severity, kind, row.name, text);
        return;
    }
    sfs_pool_queue_event(p, severity, kind, sfs_pool_disk_name(p, disk <= INT32_MAX ? (int)disk : 0, name), text);
}

static uint64_t job_rate(struct sfs_pool *p)
{
    char text[64];
    uint64_t rate;
    if (sfs_pool_prop_get(p, "job-rate", text, sizeof(text), NULL) || !strcmp(text, "auto"))
        return SFS_RATE_AUTO;
    if (!strcmp(text, "unlimited") || sfs_size_parse(text, "job-rate", &rate, NULL) || !rate)
        return SFS_RATE_UNLIMITED;
    return rate;
}

void sfs_pool_apply_rate(struct sfs_pool *p)
{
    uint64_t rate = job_rate(p);
    if (p->jobs)
        sfs_throttle_set(sfs_jobs_throttle(p->jobs), rate);
    if (p->heal)
        sfs_throttle_set(sfs_heal_throttle(p->heal), rate);
}

int sfs_pool_jobs_open(struct sfs_pool *p, bool go_on)
{
    struct sfs_jobs_ops ops = {.kinds = kinds, .nkinds = sizeof(kinds) / sizeof(kinds[0]), .event = on_event, .ctx = p};
    int rc = sfs_jobs_open(p->data, &ops, go_on, &p->jobs);
    if (!rc)
        sfs_pool_apply_rate(p);
    if (!rc && go_on)
        rc = sfs_housekeeper_start(p->data, sfs_jobs_throttle(p->jobs), &p->housekeeper);
    return rc;
}

uint64_t sfs_pool_job_on_disk(struct sfs_pool *p, const char *name, char kind[16])
{
    char subject[32];
    sfs_mutex_lock(&p->admin);
    struct sfs_pool_disk *pd = sfs_pool_disk_by_name(p, name);
    snprintf(subject, sizeof(subject), "disk=%d", pd ? pd->id : 0);
    uint64_t id = pd ? sfs_job_find(p->jobs, subject, kind) : 0;
    sfs_mutex_unlock(&p->admin);
    return id;
}

void sfs_pool_end_evacuation(struct sfs_pool *p, const char *disk)
{
    char kind[16];
    uint64_t id = sfs_pool_job_on_disk(p, disk, kind);
    if (id && !strcmp(kind, "evacuate"))
        sfs_job_order(p->jobs, id, SFS_JOB_CANCEL, NULL); /* it may have ended meanwhile */
}

static bool holds_what_it_should_not(struct sfs_pool *p, const struct sfs_member_info *m)
{
    if (!m->online || m->row.usage == SFS_USAGE_AUTO || !m->held_slabs)
        return false;
    if (m->row.usage != SFS_USAGE_JOURNAL)
        return true;
    uint64_t *ids;
    unsigned n;
    bool any = false;
    if (sfs_group_ids(p->data, &ids, &n))
        return false;
    for (unsigned i = 0; i < n && !any; i++) {
        struct sfs_group_info g;
        any = sfs_group_has_slab_on(p->data, ids[i], m->row.id) && !sfs_group_info(p->data, ids[i], &g) && g.kind == SFS_GROUP_DATA;
    }
    if (n)
        free(ids);
    return any;
}

void sfs_pool_empty_by_usage(struct sfs_pool *p, uint64_t *job)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    for (unsigned i = 0; p->jobs && i < n; i++) {
        char what[32], kind[16];
        snprintf(what, sizeof(what), "disk=%d", v[i].row.id);
        if (holds_what_it_should_not(p, &v[i]) && !sfs_job_find(p->jobs, what, kind))
            sfs_job_begin(p->jobs, "evacuate", what, job, NULL); /* refused: asked again at the next look */
    }
}

/* --- for people --------------------------------------------------------------------------------------------------------- */

int sfs_pool_job_order(struct sfs_pool *p, uint64_t id, enum sfs_job_order order, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    return rc ? rc : sfs_job_order(p->jobs, id, order, err);
}

int sfs_pool_job_wait(struct sfs_pool *p, uint64_t id, uint64_t timeout_ns, char text[256])
{
    int rc = p->jobs ? sfs_job_wait(p->jobs, id, timeout_ns, text) : -ENOENT;
    if (rc != -ETIMEDOUT)
        sfs_pool_flush_events(p);
    return rc;
}

int sfs_pool_rebalance(struct sfs_pool *p, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    return rc ? rc : sfs_job_begin(p->jobs, "rebalance", "pool", job, err);
}
