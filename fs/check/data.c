/* Every copy of every extent against its checksums, through the pool's own code: it knows how to read, rebuild and rewrite. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/size.h"
#include "fs/data/damage.h"
#include "fs/data/diskset.h"
#include "fs/data/groups.h"
#include "fs/data/repair.h"

int sfs_check_open_pool(struct sfs_check *c, const char *which, bool readonly, struct sfs_pool **out)
{
    struct sfs_pool_open_opts o = {.readonly = readonly, .degraded = readonly ? SFS_DEGRADED_YES : SFS_DEGRADED_RW, .disk_timeout_ns = c->opts->disk_timeout_ns, .world = c->opts->world, .state_dir = c->opts->state_dir, .known_only = true, .search = c->opts->search, .nsearch = c->opts->nsearch, .no_jobs = true};
    return sfs_pool_open(c->env, which, &o, out, c->err);
}

/* --- every copy --- */

struct verify {
    struct sfs_check *c;
    struct sfs_data *d;
    uint64_t done, total;
    uint64_t bad, lost;                  /* copies; extents */
    unsigned unwhole;                    /* groups that miss slabs */
    uint64_t repaired[SFS_LABEL_PEERS];  /* blocks, by disk: of ids[] */
    int ids[SFS_LABEL_PEERS];
    unsigned nids;
};

static int on_bytes(void *ctx, uint64_t bytes)
{
    struct verify *v = ctx;
    v->done += bytes;
    sfs_check_progress(v->c, "data", v->done, v->total);
    return sfs_check_cancelled(v->c);
}

static void take_repaired(struct verify *v)
{
    struct sfs_repaired r[64];
    for (unsigned n; (n = sfs_repaired_take(v->d, r, 64)) > 0;)
        for (unsigned i = 0; i < n; i++) {
            unsigned k = 0;
            while (k < v->nids && v->ids[k] != r[i].disk)
                k++;
            if (k == SFS_LABEL_PEERS)
                continue;
            v->ids[k] = r[i].disk;
            v->nids = k == v->nids ? k + 1 : v->nids;
            v->repaired[k] += r[i].blocks;
        }
}

static int verify_group(struct verify *v, uint64_t id)
{
    struct sfs_group_info g;
    uint64_t bad = 0, lost = 0;
    int rc = sfs_group_info(v->d, id, &g);
    if (!rc)
        rc = sfs_verify_group(v->d, id, on_bytes, v, &bad, &lost);
    if (rc == -ENOENT)
        return 0; /* dropped meanwhile: it was empty */
    v->lost += lost;
    v->unwhole += g.missing > 0;
    if (!g.missing) /* else what is missing counts as bad */
        v->bad += bad > lost ? bad - lost : 0;
    take_repaired(v);
    return rc;
}

static int verify_groups(struct verify *v)
{
    uint64_t *ids = NULL;
    unsigned n = 0;
    int rc = sfs_groups_count_used(v->d);
    if (!rc)
        rc = sfs_group_ids(v->d, &ids, &n);
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(v->d, ids[i], &g))
            v->total += g.used_bytes;
    }
    for (unsigned i = 0; !rc && i < n; i++)
        rc = verify_group(v, ids[i]);
    if (n)
        free(ids);
    return rc;
}

static const char *disk_name(struct sfs_data *d, int id, char *out, size_t cap)
{
    struct sfs_member_info *v = calloc(SFS_LABEL_PEERS, sizeof(*v));
    unsigned n = v ? sfs_member_list(d, v, SFS_LABEL_PEERS) : 0;
    snprintf(out, cap, "disk %d", id);
    for (unsigned i = 0; i < n; i++)
        if (v[i].row.id == id)
            snprintf(out, cap, "%s", v[i].row.name);
    free(v);
    return out;
}

/* Copies that are bad where another is good: reading has rewritten them already, unless nothing may be changed. */
static void report_bad(struct verify *v)
{
    char text[SFS_CHECK_ITEMS][SFS_NAME_MAX + 40], name[SFS_NAME_MAX + 1];
    const char *items[SFS_CHECK_ITEMS];
    struct sfs_check_problem p = {.id = "copy-bad", .what = "Copies of data that are damaged, where another is good", .repair = "write them anew from the good ones", .severity = SFS_SEVERITY_SAFE, .items = items};
    for (unsigned i = 0; i < v->nids; i++) {
        p.count += v->repaired[i];
        if (p.nitems == SFS_CHECK_ITEMS)
            continue;
        snprintf(text[p.nitems], sizeof(text[0]), "%s: %llu blocks of 4 KiB", disk_name(v->d, v->ids[i], name, sizeof(name)), (unsigned long long)v->repaired[i]);
        items[p.nitems] = text[p.nitems];
        p.nitems++;
    }
    if (!sfs_check_writes(v->c))
        p.count = v->bad;
    if (p.count)
        sfs_check_settle(v->c, &p, sfs_check_writes(v->c) ? SFS_OUTCOME_MENDED : SFS_OUTCOME_FOUND);
    if (v->unwhole)
        sfs_check_note(v->c, "%u slab group%s slabs (disks that are missing, or slabs that were given up): `spacesfs heal %s` builds them anew.", v->unwhole, v->unwhole == 1 ? " misses" : "s miss", v->c->result->pool);
}

/* Files whose data has no good copy: nothing can be done but to say which. */
static int report_lost(struct sfs_check *c, struct sfs_pool *pool, uint64_t lost)
{
    struct sfs_damaged *d = NULL;
    char text[SFS_CHECK_ITEMS][600], size[16];
    const char *items[SFS_CHECK_ITEMS];
    struct sfs_check_problem p = {.id = "data-lost", .what = "Files with data of which no good copy is left on the disks that are here", .severity = SFS_SEVERITY_LOSS, .items = items};
    bool absent = false;
    for (unsigned i = 0; i < c->ndisks; i++)
        absent |= !c->disks[i].present;
    int rc = lost ? sfs_pool_damaged(pool, SFS_CHECK_ITEMS, 0, &d) : 0;
    if (rc || !lost)
        return rc;
    for (unsigned i = 0; i < d->n && i < SFS_CHECK_ITEMS; i++) {
        snprintf(text[i], sizeof(text[i]), "%s:%.400s: %s%s", d->v[i].space, d->v[i].path ? d->v[i].path : " a file without a name", sfs_size_format(d->v[i].bytes, size), d->v[i].missing && absent ? ", perhaps on a disk that is missing" : "");
        items[p.nitems++] = text[i];
    }
    p.count = d->files ? d->files : 1;
    sfs_pool_damaged_free(d);
    sfs_check_settle(c, &p, sfs_check_unmended(c));
    return 0;
}

int sfs_check_data(struct sfs_check *c, const char *which)
{
    struct sfs_pool *pool = NULL;
    struct verify *v = calloc(1, sizeof(*v));
    int rc = v ? sfs_check_open_pool(c, which, !sfs_check_writes(c), &pool) : -ENOMEM;
    if (rc)
        goto out;
    v->c = c;
    v->d = sfs_pool_data(pool);
    rc = verify_groups(v);
    if (!rc || rc == -ECANCELED)
        report_bad(v);
    if (!rc)
        rc = report_lost(c, pool, v->lost);
    int closed = sfs_pool_close(pool);
    if (!rc && closed && sfs_check_writes(c))
        rc = sfs_error_set(c->err, closed, "Pool %s: what was mended could not be stored: %s.", c->result->pool, strerror(-closed));
out:
    free(v);
    return rc;
}
