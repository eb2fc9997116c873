/* Could what a disk holds go elsewhere? Asked before a disk is removed, and by `status` all the time. */
#include "fs/pool/pool_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fs/data/outdated.h"
#include "fs/job/evacuate.h"
#include "fs/layout/matching.h"

static_assert(SFS_LABEL_PEERS <= SFS_MATCH_DISKS, "a bit a disk");

struct question {
    struct sfs_pool *p;
    int disk;
    uint64_t from_slot;
    bool lost;
    int id[SFS_LABEL_PEERS];
    uint64_t room[SFS_LABEL_PEERS];
    unsigned ndisks;
    struct sfs_match_slab *v;
    unsigned n, cap;
    uint64_t *restripe;          /* groups with parity that no disk is left for: what they hold goes to narrower ones */
    unsigned nrestripe;
    struct sfs_pool_move *out;
};

/* --- the disks ----------------------------------------------------------------------------------------------------- */

struct host {
    uint64_t dev, free_bytes;
};

/* Directories take room on their filesystem only when a slab is made there, and several may share one. */
static void host_of(struct sfs_pool *p, int id, struct host *out)
{
    *out = (struct host){0};
    sfs_mutex_lock(&p->lock);
    struct sfs_pool_disk *pd = sfs_pool_disk_by_id(p, id);
    struct sfs_disk *d = pd && pd->disk ? sfs_disk_ref(pd->disk) : NULL;
    sfs_mutex_unlock(&p->lock);
    if (d && sfs_disk_host_dev(d))
        *out = (struct host){sfs_disk_host_dev(d), sfs_disk_meta_free_bytes(d, 0)};
    sfs_disk_put(d);
}

/* What a filesystem has is shared out evenly; what one disk cannot use is the others'. */
static void bound_by_hosts(struct question *q)
{
    struct host h[SFS_LABEL_PEERS];
    for (unsigned i = 0; i < q->ndisks; i++)
        host_of(q->p, q->id[i], &h[i]);
    for (unsigned i = 0; i < q->ndisks; i++) {
        if (!h[i].dev)
            continue;
        uint64_t slabs = h[i].free_bytes / q->p->slab_bytes, taken = 0;
        unsigned others = 0; /* those that come after it */
        for (unsigned k = 0; k < q->ndisks; k++) {
            if (h[k].dev != h[i].dev || k == i)
                continue;
            if (k < i)
                taken += q->room[k];
            else
                others++;
        }
        uint64_t left = slabs > taken ? slabs - taken : 0, share = left / (others + 1);
        q->room[i] = q->room[i] < share ? q->room[i] : share;
    }
}

static bool may_take(const struct question *q, const struct sfs_member_info *m)
{
    if (!m->online || (m->row.id == q->disk && !q->from_slot))
        return false;
    return m->row.usage == SFS_USAGE_AUTO || (q->lost && m->row.usage == SFS_USAGE_HOT_SPARE);
}

static void take_disks(struct question *q)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(q->p->data, v, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < n; i++) {
        if (!may_take(q, &v[i]))
            continue;
        q->id[q->ndisks] = v[i].row.id;
        q->room[q->ndisks] = v[i].free_slabs;
        if (v[i].row.id == q->disk)
            q->room[q->ndisks] = sfs_member_free_below(q->p->data, q->disk, q->from_slot);
        q->ndisks++;
    }
    bound_by_hosts(q);
    for (unsigned i = 0; i < q->ndisks; i++)
        q->out->free_slabs += q->room[i];
}

/* --- the slabs ------------------------------------------------------------------------------------------------------ */

/* As repair.c chooses: outside of the group first; of copies, disks of other columns will do. */
static void choices(const struct question *q, const struct sfs_group_info *g, unsigned slab, struct sfs_match_slab *out)
{
    bool parity = sfs_resiliency_parity(g->resiliency) > 0;
    *out = (struct sfs_match_slab){0};
    for (unsigned k = 0; k < q->ndisks; k++) {
        bool may = true, prefer = true;
        for (unsigned i = 0; i < g->nslabs; i++) {
            if (g->slabs[i].disk != q->id[k] || i == slab)
                continue;
            prefer = false;
            may &= !parity && i / g->copies != slab / g->copies;
        }
        out->may |= (uint64_t)may << k;
        out->prefer |= (uint64_t)prefer << k;
    }
}

/* heal.c and evacuate.c do it so. A lower capacity isn't worth that. */
static bool is_for_restriping(const struct question *q, const struct sfs_group_info *g, const struct sfs_match_slab *s)
{
    return !s->may && !q->from_slot && sfs_resiliency_parity(g->resiliency) > 0;
}

static int add_group(struct question *q, uint64_t id)
{
    uint64_t *v = realloc(q->restripe, (q->nrestripe + 1) * sizeof(*v));
    if (!v)
        return -ENOMEM;
    q->restripe = v;
    v[q->nrestripe++] = id;
    return 0;
}

static int add_slab(struct question *q, const struct sfs_group_info *g, unsigned i)
{
    struct sfs_group_info then = *g;
    struct sfs_match_slab s;
    q->out->slabs++;
    if (q->lost)
        for (unsigned k = 0; k < g->nslabs; k++)
            then.slab_online[k] &= g->slabs[k].disk != q->disk;
    if (!sfs_slab_has_source(&then, i)) {
        q->out->hopeless++;
        return 0;
    }
    choices(q, g, i, &s);
    if (is_for_restriping(q, g, &s))
        return add_group(q, g->id);
    if (q->n == q->cap) {
        unsigned cap = q->cap ? 2 * q->cap : 64;
        struct sfs_match_slab *v = realloc(q->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        q->v = v;
        q->cap = cap;
    }
    q->v[q->n++] = s;
    return 0;
}

static int take_slabs(struct question *q)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(q->p->data, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(q->p->data, ids[i], &g))
            continue;
        for (unsigned k = 0; !rc && k < g.nslabs; k++)
            if (g.slabs[k].disk == q->disk && g.slabs[k].slot >= q->from_slot)
                rc = add_slab(q, &g, k);
    }
    if (n)
        free(ids);
    return rc;
}

int sfs_pool_could_move(struct sfs_pool *p, int disk, uint64_t from_slot, bool lost, struct sfs_pool_move *out)
{
    struct question q = {.p = p, .disk = disk, .from_slot = from_slot, .lost = lost, .out = out};
    *out = (struct sfs_pool_move){0};
    take_disks(&q);
    int rc = take_slabs(&q);
    if (!rc)
        out->placed = sfs_match(q.v, q.n, q.room, q.ndisks);
    for (unsigned i = 0; !rc && i < q.n; i++)
        if (q.v[i].to >= 0)
            q.room[q.v[i].to]--;
    if (!rc && q.nrestripe) {
        rc = sfs_groups_count_used(p->data);
        if (!rc && sfs_restripe_fits(p->data, q.restripe, q.nrestripe, q.id, q.room, q.ndisks))
            out->placed += q.nrestripe;
    }
    free(q.restripe);
    free(q.v);
    return rc;
}
