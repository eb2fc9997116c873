/* Spreading slabs evenly, so that a disk added later takes its share. The measure is free slots: new groups go where
 * most are free, too, and that order reaches the most that disks of mixed sizes can hold. A plan is made in memory
 * and carried out; then another, until there is nothing to gain. Each move makes the sum of squares of free slots
 * smaller: it ends. */
#include "fs/job/evacuate.h"

#include <stdlib.h>
#include <string.h>

#include "fs/data/repair.h"
#include "fs/job/crew.h"

#define GAP_MIN 2u /* slots between two disks: less isn't worth a move */

struct spot {
    uint64_t group, disks; /* bit by place in `members` */
    bool planned;
};
struct step {
    uint64_t group;
    int from, to;
};

struct balance {
    struct sfs_job *j; /* NULL: only looked at */
    struct sfs_data *d;
    int id[SFS_LABEL_PEERS];
    uint64_t room[SFS_LABEL_PEERS];
    uint64_t exhausted[SFS_LABEL_PEERS]; /* by source: targets that no group of it can go to */
    unsigned members;
    struct spot *spots;
    unsigned nspots;
    struct step *steps;
    unsigned n;
    unsigned moved; /* atomic */
};

/* --- the plan ------------------------------------------------------------------------------------------------------ */

static void take_members(struct balance *b)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(b->d, v, SFS_LABEL_PEERS);
    b->members = 0;
    for (unsigned i = 0; i < n; i++)
        if (v[i].online && v[i].row.usage == SFS_USAGE_AUTO) {
            b->id[b->members] = v[i].row.id;
            b->exhausted[b->members] = 0;
            b->room[b->members++] = v[i].free_slabs;
        }
}

static uint64_t disks_of(const struct balance *b, const struct sfs_group_info *g)
{
    uint64_t bits = 0;
    for (unsigned i = 0; i < g->nslabs; i++)
        for (unsigned k = 0; k < b->members; k++)
            if (g->slabs[i].disk == b->id[k])
                bits |= 1ull << k;
    return bits;
}

static int take_groups(struct balance *b)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(b->d, &ids, &n);
    if (rc)
        return rc;
    b->spots = calloc(n + 1, sizeof(*b->spots));
    b->steps = calloc(n + 1, sizeof(*b->steps)); /* a plan moves one slab a group */
    b->nspots = 0;
    for (unsigned i = 0; b->spots && i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(b->d, ids[i], &g) && !g.missing)
            b->spots[b->nspots++] = (struct spot){.group = g.id, .disks = disks_of(b, &g)};
    }
    if (n)
        free(ids);
    return b->spots && b->steps ? 0 : -ENOMEM;
}

static bool plan_from_to(struct balance *b, unsigned from, unsigned to)
{
    for (unsigned i = 0; i < b->nspots; i++) {
        struct spot *s = &b->spots[i];
        if (s->planned || !(s->disks >> from & 1) || s->disks >> to & 1)
            continue;
        s->planned = true;
        b->steps[b->n++] = (struct step){s->group, b->id[from], b->id[to]};
        b->room[from]++;
        b->room[to]--;
        return true;
    }
    b->exhausted[from] |= 1ull << to;
    return false;
}

/* The pair of disks that differ most, of those between which something can go. */
static bool plan_one(struct balance *b)
{
    for (;;) {
        uint64_t widest = GAP_MIN - 1;
        unsigned from = 0, to = 0;
        for (unsigned i = 0; i < b->members; i++)
            for (unsigned k = 0; k < b->members; k++)
                if (b->room[k] > b->room[i] && b->room[k] - b->room[i] > widest && !(b->exhausted[i] >> k & 1)) {
                    widest = b->room[k] - b->room[i];
                    from = i;
                    to = k;
                }
        if (widest < GAP_MIN)
            return false;
        if (plan_from_to(b, from, to))
            return true;
    }
}

static int make_plan(struct balance *b)
{
    free(b->spots);
    free(b->steps);
    b->spots = NULL;
    b->steps = NULL;
    b->n = 0;
    take_members(b);
    int rc = take_groups(b);
    while (!rc && plan_one(b))
        ;
    return rc;
}

static uint64_t plan_bytes(const struct balance *b)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < b->n; i++)
        bytes += sfs_move_slab_cost(b->d, b->steps[i].group);
    return bytes;
}

/* --- carrying it out ------------------------------------------------------------------------------------------------ */

static void work(struct sfs_crew_worker *w, unsigned item)
{
    struct balance *b = w->crew->ctx;
    const struct step *s = &b->steps[item];
    struct sfs_move_result res;
    struct sfs_group_info g;
    if (sfs_group_info(b->d, s->group, &g) || g.missing)
        return; /* it has gone, or healing comes first */
    for (unsigned i = 0; i < g.nslabs; i++)
        if (g.slabs[i].disk == s->from) {
            if (!sfs_move_slab(b->d, g.id, g.slabs[i].column, g.slabs[i].copy, s->to, sfs_crew_progress, w, &res))
                __atomic_add_fetch(&b->moved, 1, __ATOMIC_RELAXED);
            return;
        }
}

static int progress(void *ctx, uint64_t bytes)
{
    struct balance *b = ctx;
    return sfs_job_progress(b->j, bytes);
}

int sfs_rebalance(struct sfs_job *j)
{
    struct balance b = {.j = j, .d = sfs_job_data(j)};
    struct sfs_crew crew = {.d = b.d, .throttle = sfs_job_throttle(j), .progress = progress, .work = work, .ctx = &b};
    unsigned total = 0;
    int rc = sfs_groups_count_used(b.d);
    while (!rc) {
        rc = make_plan(&b);
        sfs_job_left(j, rc ? 0 : plan_bytes(&b));
        if (rc || !b.n || sfs_job_stopping(j))
            break;
        b.moved = 0;
        sfs_crew_run(&crew, b.n);
        total += b.moved;
        if (!b.moved)
            break; /* disks fill up or go: what is left is for another time */
    }
    free(b.spots);
    free(b.steps);
    if (!rc && sfs_job_stopping(j))
        return -ECANCELED;
    if (!rc)
        sfs_job_says(j, total ? "%u slabs were moved: the disks are evenly filled, as far as groups allow" :
                     "the disks were evenly filled already (%u slabs to move)", total);
    return rc;
}

uint64_t sfs_rebalance_bytes(struct sfs_data *d)
{
    struct balance b = {.d = d};
    uint64_t bytes = make_plan(&b) ? 0 : plan_bytes(&b);
    free(b.spots);
    free(b.steps);
    return bytes;
}
