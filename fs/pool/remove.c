/* Disks that go for good: remove, replace, forget. All is checked before anything begins. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/repair.h"
#include "fs/job/evacuate.h"

static int find(struct sfs_pool *p, const char *name, struct sfs_pool_disk **out, struct sfs_error *err)
{
    *out = sfs_pool_disk_by_name(p, name);
    return *out ? 0 : sfs_pool_no_such_disk(p, name, err);
}

static int begin(struct sfs_pool *p, const char *kind, struct sfs_pool_disk *pd, int to, uint64_t *job, struct sfs_error *err)
{
    struct sfs_disk_row row;
    char what[128], also[32] = "";
    int rc = sfs_pool_disk_row(p, pd->id, &row);
    if (rc)
        return rc;
    if (to)
        snprintf(also, sizeof(also), " to=%d", to);
    snprintf(what, sizeof(what), "disk=%d%s was=%d", pd->id, also, (int)row.usage);
    return sfs_job_begin(p->jobs, kind, what, job, err);
}

/* --- remove --------------------------------------------------------------------------------------------------------- */

static int remove_locked(struct sfs_pool *p, const char *name, uint64_t *job, struct sfs_error *err)
{
    struct sfs_pool_disk *pd;
    char what[32];
    int rc = find(p, name, &pd, err);
    if (rc)
        return rc;
    snprintf(what, sizeof(what), "disk=%d", pd->id);
    rc = sfs_job_check(p->jobs, "remove", what, err);
    if (!rc)
        rc = sfs_pool_check_rest(p, pd->id, err);
    if (!rc)
        rc = sfs_pool_check_room(p, pd->id, 0, "removed", err);
    return rc ? rc : begin(p, "remove", pd, 0, job, err);
}

int sfs_pool_disk_remove(struct sfs_pool *p, const char *disk, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_pool_end_evacuation(p, disk); /* retired before, it is on its way out already: that job is taken over */
    sfs_pool_look_after_disks(p, true); /* what has just gone counts */
    sfs_mutex_lock(&p->admin);
    rc = remove_locked(p, disk, job, err);
    sfs_mutex_unlock(&p->admin);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "disk %s could not be removed: %s.", disk, strerror(-rc));
    sfs_pool_wake(p);
    return rc;
}

/* --- replace -------------------------------------------------------------------------------------------------------- */

/* Can the new disk, with the help of the others, take what the old one holds? */
static int check_fit(struct sfs_pool *p, struct sfs_pool_disk *from, struct sfs_pool_disk *to, struct sfs_error *err)
{
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, to->id, &row);
    if (rc)
        return rc;
    if (!to->disk || sfs_disk_state(to->disk) != SFS_DISK_ONLINE)
        return sfs_error_set(err, -ENODEV, "disk %s is not here: it cannot take the place of %s.", to->name, from->name);
    if (row.usage == SFS_USAGE_RETIRED || row.usage == SFS_USAGE_JOURNAL)
        return sfs_error_set(err, -EINVAL, "disk %s is %s and takes no data. `spacesfs disk set %s %s usage=auto` changes that.", to->name,
                             sfs_usage_names[row.usage], p->name, to->name);
    if (row.usage == SFS_USAGE_HOT_SPARE)
        rc = sfs_pool_store_usage(p, to->id, SFS_USAGE_AUTO);
    if (!rc)
        rc = sfs_pool_check_room(p, from->id, 0, "replaced", err);
    if (rc && row.usage == SFS_USAGE_HOT_SPARE)
        sfs_pool_store_usage(p, to->id, SFS_USAGE_HOT_SPARE);
    return rc;
}

static int replace_locked(struct sfs_pool *p, const char *from_name, const char *to_name, uint64_t *job, struct sfs_error *err)
{
    struct sfs_pool_disk *from, *to;
    char what[48];
    int rc = find(p, from_name, &from, err);
    if (!rc)
        rc = find(p, to_name, &to, err);
    if (!rc && from == to)
        rc = sfs_error_set(err, -EINVAL, "a disk cannot take its own place.");
    if (rc)
        return rc;
    snprintf(what, sizeof(what), "disk=%d to=%d", from->id, to->id);
    rc = sfs_job_check(p->jobs, "replace", what, err);
    if (!rc)
        rc = check_fit(p, from, to, err);
    if (!rc)
        rc = sfs_pool_check_rest(p, from->id, err);
    return rc ? rc : begin(p, "replace", from, to->id, job, err);
}

int sfs_pool_disk_replace(struct sfs_pool *p, const char *disk, const char *with, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_pool_end_evacuation(p, disk); /* retired before, it is on its way out already: that job is taken over */
    sfs_pool_look_after_disks(p, true);
    sfs_mutex_lock(&p->admin);
    rc = replace_locked(p, disk, with, job, err);
    sfs_mutex_unlock(&p->admin);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "disk %s could not be replaced: %s.", disk, strerror(-rc));
    sfs_pool_wake(p);
    return rc;
}

/* --- forget --------------------------------------------------------------------------------------------------------- */

static struct sfs_forget_space *space_of(struct sfs_forget *f, int space)
{
    for (unsigned i = 0; i < f->nspaces; i++)
        if (f->spaces[i].space == space)
            return &f->spaces[i];
    struct sfs_forget_space *v = realloc(f->spaces, (f->nspaces + 1) * sizeof(*v));
    if (!v)
        return NULL;
    f->spaces = v;
    v[f->nspaces] = (struct sfs_forget_space){.space = space};
    return &v[f->nspaces++];
}

/* What the group would be without the disk. */
static int weigh(struct sfs_pool *p, int disk, const struct sfs_group_info *g, struct sfs_forget *f)
{
    struct sfs_group_info then = *g;
    unsigned held = 0, lost = 0;
    for (unsigned i = 0; i < g->nslabs; i++)
        then.slab_online[i] &= g->slabs[i].disk != disk;
    for (unsigned i = 0; i < g->nslabs; i++)
        if (g->slabs[i].disk == disk) {
            held++;
            lost += !sfs_slab_has_source(&then, i);
        }
    if (!held)
        return 0;
    f->slabs += held;
    f->rebuilt += held - lost;
    if (!lost)
        return 0;
    struct sfs_forget_space *s = space_of(f, g->space);
    if (!s)
        return -ENOMEM;
    s->groups++;
    s->bytes += (uint64_t)lost * sfs_move_slab_cost(p->data, g->id);
    f->lost_bytes += (uint64_t)lost * sfs_move_slab_cost(p->data, g->id);
    return 0;
}

static int weigh_all(struct sfs_pool *p, int disk, struct sfs_forget *f)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_groups_count_used(p->data);
    if (!rc)
        rc = sfs_group_ids(p->data, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(p->data, ids[i], &g))
            rc = weigh(p, disk, &g, f);
    }
    if (n)
        free(ids);
    for (unsigned i = 0; i < f->nspaces; i++) {
        struct sfs_volume *v = sfs_volume_find(p->data, f->spaces[i].space);
        struct sfs_space_row row;
        if (!v)
            continue;
        sfs_volume_settings(v, &row);
        snprintf(f->spaces[i].name, sizeof(f->spaces[i].name), "%s", row.name);
    }
    return rc;
}

/* A disk that is here is removed, not forgotten; unless that is what is stuck. */
static int check_forget(struct sfs_pool *p, struct sfs_pool_disk *pd, struct sfs_error *err)
{
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, pd->id, &row);
    bool here = pd->disk && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE;
    if (!rc && here && row.usage != SFS_USAGE_RETIRED)
        rc = sfs_error_set(err, -EBUSY, "disk %s is here and in use. To take it out without losing anything: `spacesfs disk remove %s %s`.",
                           pd->name, p->name, pd->name);
    unsigned others = 0;
    for (unsigned i = 0; i < p->ndisks; i++) {
        const struct sfs_pool_disk *x = &p->disks[i];
        others += x != pd && x->used && x->disk && sfs_disk_state(x->disk) == SFS_DISK_ONLINE;
    }
    if (!rc && !others)
        rc = sfs_error_set(err, -EINVAL, "disk %s is the only disk of pool %s that could be left.", pd->name, p->name);
    return rc;
}

static int forget_locked(struct sfs_pool *p, const char *name, bool look_only, struct sfs_forget *f, struct sfs_error *err)
{
    struct sfs_pool_disk *pd;
    int rc = find(p, name, &pd, err);
    if (!rc)
        rc = check_forget(p, pd, err);
    if (!rc)
        rc = weigh_all(p, pd->id, f);
    if (rc || look_only)
        return rc;
    rc = sfs_pool_store_usage(p, pd->id, SFS_USAGE_RETIRED); /* it gets nothing new, should it return meanwhile */
    sfs_member_settle_new(p->data);
    if (!rc)
        rc = sfs_member_forget_slabs(p->data, pd->id);
    if (!rc)
        rc = sfs_commit_wait(p->data, false);
    return rc ? rc : sfs_pool_disk_leave(p, pd);
}

/* A job over it has nothing more to do; it ends by itself when it finds that the disk has left. No lock held. */
static uint64_t stop_job(struct sfs_pool *p, const char *name)
{
    char kind[16];
    uint64_t id = sfs_pool_job_on_disk(p, name, kind);
    if (id)
        sfs_job_order(p->jobs, id, SFS_JOB_PAUSE, NULL);
    return id;
}

static void tell_forgotten(struct sfs_pool *p, const char *disk, const struct sfs_forget *f)
{
    char size[16];
    if (f->lost_bytes)
        sfs_pool_event(p, "error", "data-lost", disk, "disk %s was forgotten: %s that were only there are lost; reading them gives an error. %u slabs are built anew from their other copies",
                       disk, sfs_size_format(f->lost_bytes, size), f->rebuilt);
    else
        sfs_pool_event(p, "warning", "disk-forgotten", disk, "disk %s was forgotten; %u slabs are built anew from their other copies", disk, f->rebuilt);
}

int sfs_pool_disk_forget(struct sfs_pool *p, const char *disk, bool look_only, struct sfs_forget *out, struct sfs_error *err)
{
    *out = (struct sfs_forget){0};
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_pool_look_after_disks(p, true); /* it may have returned just now */
    uint64_t job = look_only ? 0 : stop_job(p, disk);
    sfs_mutex_lock(&p->admin);
    rc = forget_locked(p, disk, look_only, out, err);
    sfs_mutex_unlock(&p->admin);
    if (job)
        sfs_job_order(p->jobs, job, SFS_JOB_RESUME, NULL);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "disk %s could not be forgotten: %s.", disk, strerror(-rc));
    if (rc || look_only)
        return rc;
    tell_forgotten(p, disk, out);
    sfs_pool_mend_replicas(p);
    sfs_pool_flush_events(p);
    p->heal_again_ns = 0;
    sfs_heal_wake(p->heal);
    sfs_jobs_wake(p->jobs);
    return 0;
}

void sfs_forget_free(struct sfs_forget *f)
{
    free(f->spaces);
    f->spaces = NULL;
    f->nspaces = 0;
}
