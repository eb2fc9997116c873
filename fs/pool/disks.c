/* A disk's settings: name, usage, capacity. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"

const char *const sfs_usage_names[] = {"auto", "journal", "hot-spare", "retired", NULL};

struct sfs_pool_disk *sfs_pool_disk_by_id(struct sfs_pool *p, int id)
{
    for (unsigned i = 0; id && i < p->ndisks; i++)
        if (p->disks[i].used && p->disks[i].id == id)
            return &p->disks[i];
    return NULL;
}

const char *sfs_pool_disk_name(struct sfs_pool *p, int id, char out[SFS_NAME_MAX + 1])
{
    sfs_mutex_lock(&p->lock);
    const struct sfs_pool_disk *pd = sfs_pool_disk_by_id(p, id);
    snprintf(out, SFS_NAME_MAX + 1, "%s", pd ? pd->name : "");
    sfs_mutex_unlock(&p->lock);
    return out;
}

int sfs_pool_store_disk_row(struct sfs_pool *p, struct sfs_disk_row *row)
{
    sfs_catalog_lock(p->cat);
    int rc = sfs_data_readonly(p->data) ? -EROFS : sfs_catalog_disk_put(p->cat, row);
    sfs_catalog_unlock(p->cat);
    if (!rc)
        rc = sfs_member_update(p->data, row);
    return rc ? rc : sfs_commit_wait(p->data, false);
}

int sfs_pool_store_usage(struct sfs_pool *p, int disk, enum sfs_usage usage)
{
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, disk, &row);
    if (rc || row.usage == usage)
        return rc;
    row.usage = usage;
    rc = sfs_pool_store_disk_row(p, &row);
    if (!rc)
        sfs_groups_seal_on(p->data, disk);
    return rc;
}

int sfs_pool_store_capacity(struct sfs_pool *p, int disk, uint64_t slabs)
{
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, disk, &row);
    row.capacity_slabs = slabs;
    return rc ? rc : sfs_pool_store_disk_row(p, &row);
}

/* --- name ----------------------------------------------------------------------------------------------------------- */

static int set_name(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *value, struct sfs_error *err)
{
    struct sfs_disk_row row;
    int rc = sfs_name_check(value, "disk name", err);
    if (!rc && sfs_pool_disk_by_name(p, value))
        rc = sfs_error_set(err, -EEXIST, "pool %s has a disk named %s already.", p->name, value);
    if (!rc)
        rc = sfs_pool_disk_row(p, pd->id, &row);
    if (rc)
        return rc;
    snprintf(row.name, sizeof(row.name), "%s", value);
    rc = sfs_pool_store_disk_row(p, &row);
    if (rc)
        return rc;
    sfs_mutex_lock(&p->lock);
    snprintf(pd->name, sizeof(pd->name), "%s", value);
    sfs_mutex_unlock(&p->lock);
    return sfs_pool_write_labels(p);
}

/* --- usage ---------------------------------------------------------------------------------------------------------- */

static int parse_usage(const char *value, enum sfs_usage *out, struct sfs_error *err)
{
    for (unsigned i = 0; sfs_usage_names[i]; i++)
        if (!strcmp(sfs_usage_names[i], value)) {
            *out = (enum sfs_usage)i;
            return 0;
        }
    return sfs_error_set(err, -EINVAL, "usage: \"%.40s\" is not one of auto, journal, hot-spare, retired.", value);
}

/* A hot spare is of use when it can hold what some disk holds. */
static int check_spare(struct sfs_pool *p, const struct sfs_disk_row *row, struct sfs_error *err)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS), others = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        if (v[i].row.id == row->id || v[i].row.usage != SFS_USAGE_AUTO)
            continue;
        others++;
        least = v[i].held_slabs < least ? v[i].held_slabs : least;
    }
    char have[16], need[16];
    if (!others)
        return sfs_error_set(err, -EINVAL, "%s is the only disk of pool %s that takes data: it cannot be a hot spare.", row->name, p->name);
    if (row->capacity_slabs < least)
        return sfs_error_set(err, -ENOSPC, "disk %s is too small for a hot spare: it has room for %s, and the disk that holds least holds %s.",
                             row->name, sfs_size_format(row->capacity_slabs * p->slab_bytes, have),
                             sfs_size_format(least * p->slab_bytes, need));
    return 0;
}

int sfs_pool_check_rest(struct sfs_pool *p, int disk, struct sfs_error *err)
{
    char name[SFS_NAME_MAX + 1];
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS), left = 0;
    for (unsigned i = 0; i < n; i++)
        left += v[i].row.id != disk && v[i].row.usage == SFS_USAGE_AUTO;
    sfs_pool_disk_name(p, disk, name);
    if (!left)
        return sfs_error_set(err, -EINVAL, "%s is the only disk of pool %s that takes data.", name, p->name);
    struct sfs_pool_info *info;
    int rc = sfs_pool_info(p, &info);
    for (unsigned i = 0; !rc && i < info->nspaces; i++) {
        const struct sfs_space_row *s = &info->spaces[i].row;
        unsigned copies = sfs_resiliency_copies((enum sfs_resiliency)s->resiliency);
        unsigned min = sfs_resiliency_min_disks((enum sfs_resiliency)s->resiliency);
        if (s->columns * copies > min)
            min = s->columns * copies;
        if (left < min)
            rc = sfs_error_set(err, -ENOSPC, "without disk %s pool %s has %u disk%s that take%s data; space %s (%s) needs %u. Add a disk first, or "
                               "change that space.", name, p->name, left, left == 1 ? "" : "s", left == 1 ? "s" : "", s->name,
                               sfs_resiliency_name((enum sfs_resiliency)s->resiliency), min);
    }
    if (!rc || info)
        sfs_pool_info_free(info);
    return rc;
}

int sfs_pool_check_room(struct sfs_pool *p, int disk, uint64_t from_slot, const char *what, struct sfs_error *err)
{
    char name[SFS_NAME_MAX + 1], held[16], room[16];
    struct sfs_pool_move m;
    sfs_pool_disk_name(p, disk, name);
    int rc = sfs_pool_could_move(p, disk, from_slot, false, &m);
    if (rc)
        return rc;
    if (m.hopeless)
        return sfs_error_set(err, -ENODATA, "disk %s cannot be %s: %u of its slabs hold data of which there is no other copy on the disks that are "
                             "here. Connect the missing disks; or, if they will never return, see what would be lost with "
                             "`spacesfs disk forget %s %s`.", name, what, m.hopeless, p->name, name);
    if (m.placed < m.slabs)
        return sfs_error_set(err, -ENOSPC, "disk %s cannot be %s: %u slabs (%s) would have to go to other disks, which can take %u of them: %s "
                             "are free there, on disks that may hold them beside the slabs that they have. Add a disk or free space first.",
                             name, what, m.slabs, sfs_size_format((uint64_t)m.slabs * p->slab_bytes, held), m.placed,
                             sfs_size_format(m.free_slabs * p->slab_bytes, room));
    return 0;
}

/* What leaves the disk is moved by a job; auto takes slabs at once. An evacuation that is under way ends. */
static int set_usage(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *value, struct sfs_error *err)
{
    struct sfs_disk_row row;
    enum sfs_usage usage = SFS_USAGE_AUTO;
    int rc = parse_usage(value, &usage, err);
    if (!rc)
        rc = sfs_pool_disk_row(p, pd->id, &row);
    if (rc || row.usage == usage)
        return rc;
    if (row.usage == SFS_USAGE_AUTO)
        rc = sfs_pool_check_rest(p, pd->id, err);
    if (!rc && usage == SFS_USAGE_HOT_SPARE)
        rc = check_spare(p, &row, err);
    if (!rc && usage != SFS_USAGE_AUTO && row.usage == SFS_USAGE_AUTO)
        rc = sfs_pool_check_room(p, pd->id, 0, usage == SFS_USAGE_RETIRED ? "retired" : "put to that use", err);
    if (rc)
        return rc;
    bool errors = usage == SFS_USAGE_AUTO && row.usage == SFS_USAGE_RETIRED;
    rc = sfs_pool_store_usage(p, pd->id, usage);
    if (!rc && errors)
        sfs_member_clear_errors(p->data, pd->id); /* its past is forgiven, else it would be retired again */
    if (!rc)
        sfs_pool_event(p, "info", "disk-usage", pd->name, "disk %s is %s from now on", pd->name, value);
    return rc;
}

/* --- capacity ------------------------------------------------------------------------------------------------------- */

static int raise_capacity(struct sfs_pool *p, struct sfs_pool_disk *pd, struct sfs_disk_row *row, uint64_t slabs, struct sfs_error *err)
{
    int rc = pd->disk ? sfs_disk_grow(pd->disk, slabs, err)
                      : sfs_error_set(err, -ENODEV, "disk %s is not here: its capacity cannot be raised.", pd->name);
    if (rc)
        return rc;
    row->capacity_slabs = slabs;
    rc = sfs_pool_store_disk_row(p, row);
    if (!rc) {
        sfs_heal_wake(p->heal);
        sfs_jobs_wake(p->jobs);
    }
    return rc;
}

static int set_capacity(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *value, uint64_t *job, struct sfs_error *err)
{
    struct sfs_disk_row row;
    uint64_t bytes;
    char a[16], what[128];
    int rc = sfs_size_parse(value, "capacity", &bytes, err);
    if (!rc)
        rc = sfs_pool_disk_row(p, pd->id, &row);
    if (rc)
        return rc;
    uint64_t slabs = bytes / p->slab_bytes;
    if (!slabs)
        return sfs_error_set(err, -EINVAL, "a capacity of %s is less than one slab (%llu MiB). To take everything off the disk: "
                             "`spacesfs disk remove %s %s`.", sfs_size_format(bytes, a), (unsigned long long)(p->slab_bytes >> 20), p->name, pd->name);
    if (slabs == row.capacity_slabs)
        return 0;
    if (slabs > row.capacity_slabs)
        return raise_capacity(p, pd, &row, slabs, err);
    rc = sfs_pool_check_room(p, pd->id, slabs, "made that small", err);
    snprintf(what, sizeof(what), "disk=%d slabs=%llu", pd->id, (unsigned long long)slabs);
    return rc ? rc : sfs_job_begin(p->jobs, "shrink", what, job, err);
}

/* --- the setting ---------------------------------------------------------------------------------------------------- */

static int set_locked(struct sfs_pool *p, const char *disk, const char *key, const char *value, uint64_t *job, struct sfs_error *err)
{
    char kind[16], subject[32];
    struct sfs_pool_disk *pd = sfs_pool_disk_by_name(p, disk);
    if (!pd)
        return sfs_pool_no_such_disk(p, disk, err);
    if (!strcmp(key, "name"))
        return set_name(p, pd, value, err);
    snprintf(subject, sizeof(subject), "disk=%d", pd->id);
    uint64_t busy = sfs_job_find(p->jobs, subject, kind);
    if (busy)
        return sfs_error_set(err, -EBUSY, "disk %s has a job already: job %llu (%s). Wait for it, or cancel it first: `spacesfs job cancel %s %llu`.",
                             disk, (unsigned long long)busy, kind, p->name, (unsigned long long)busy);
    if (!strcmp(key, "usage"))
        return set_usage(p, pd, value, err);
    if (!strcmp(key, "capacity"))
        return set_capacity(p, pd, value, job, err);
    return sfs_error_set(err, -EINVAL, "a disk has no setting %s. There are: name, usage, capacity.", key);
}

int sfs_pool_disk_set(struct sfs_pool *p, const char *disk, const char *key, const char *value, uint64_t *job, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    enum sfs_usage usage;
    *job = 0;
    if (rc)
        return rc;
    if (!strcmp(key, "usage") && !parse_usage(value, &usage, NULL))
        sfs_pool_end_evacuation(p, disk); /* a disk that is being emptied because of its usage stops being emptied when it gets another */
    sfs_mutex_lock(&p->admin);
    rc = set_locked(p, disk, key, value, job, err);
    if (!rc && !strcmp(key, "usage"))
        sfs_pool_empty_by_usage(p, job);
    sfs_mutex_unlock(&p->admin);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "disk %s could not be changed: %s.", disk, strerror(-rc));
    sfs_pool_wake(p);
    return rc;
}

int sfs_pool_no_such_disk(struct sfs_pool *p, const char *name, struct sfs_error *err)
{
    return sfs_error_set(err, -ENOENT, "pool %s has no disk named %s. `spacesfs disk list %s` names them.", p->name, name, p->name);
}
