/* The list is made anew until it is empty: what a second loss, a full disk or a restart changes meanwhile is seen. */
#include "fs/job/evacuate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/data/relocate.h"
#include "fs/data/repair.h"
#include "fs/job/crew.h"

#define TRIES 4u /* of one slab, when its target fails */

struct item {
    uint64_t group, cost;
    unsigned slab;  /* index in the group */
    unsigned spare; /* losses that the group still bears: fewest first */
};

struct evacuation {
    struct sfs_job *j;
    struct sfs_data *d;
    const struct sfs_evacuate *e;
    struct item *v;
    unsigned n, hopeless;
    struct sfs_mutex lock; /* SFS_RANK_LEAF: all below */
    unsigned moved, stuck;
    uint64_t damaged;
    int why;               /* of the first that is stuck */
    uint64_t where;
};

bool sfs_slab_has_source(const struct sfs_group_info *g, unsigned i)
{
    unsigned column = i / g->copies, gone = 0;
    for (unsigned c = 0; c < g->columns; c++) {
        bool any = false;
        for (unsigned k = 0; k < g->copies; k++)
            any |= g->slab_online[c * g->copies + k];
        if (any && c == column)
            return true;
        gone += !any;
    }
    return gone <= sfs_resiliency_parity(g->resiliency);
}

/* --- the list ------------------------------------------------------------------------------------------------------ */

static bool has_to_go(const struct sfs_evacuate *e, const struct sfs_group_info *g, unsigned i)
{
    return g->slabs[i].disk == e->disk && g->slabs[i].slot >= e->from_slot &&
           !(e->data_only && g->kind != SFS_GROUP_DATA);
}

static int by_danger(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->spare != y->spare)
        return x->spare < y->spare ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* A group of copies may have several slabs there, in different columns. */
static int add_items(struct evacuation *ev, const struct sfs_group_info *g, unsigned *cap)
{
    for (unsigned i = 0; i < g->nslabs; i++) {
        if (!has_to_go(ev->e, g, i))
            continue;
        if (!sfs_slab_has_source(g, i)) {
            ev->hopeless++;
            continue;
        }
        if (ev->n == *cap) {
            unsigned more = *cap ? 2 * *cap : 64;
            struct item *v = realloc(ev->v, more * sizeof(*v));
            if (!v)
                return -ENOMEM;
            ev->v = v;
            *cap = more;
        }
        ev->v[ev->n++] = (struct item){g->id, sfs_move_slab_cost(ev->d, g->id), i, g->spare};
    }
    return 0;
}

static int make_list(struct evacuation *ev)
{
    uint64_t *ids, left = 0;
    unsigned n, cap = 0;
    ev->n = ev->hopeless = 0;
    int rc = sfs_groups_count_used(ev->d); /* costs are known */
    if (!rc)
        rc = sfs_group_ids(ev->d, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(ev->d, ids[i], &g))
            rc = add_items(ev, &g, &cap);
    }
    if (n)
        free(ids);
    for (unsigned i = 0; i < ev->n; i++)
        left += ev->v[i].cost;
    if (ev->n)
        qsort(ev->v, ev->n, sizeof(*ev->v), by_danger);
    sfs_job_left(ev->j, left);
    return rc;
}

/* --- one slab ------------------------------------------------------------------------------------------------------- */

/* To the disk asked for, as long as it takes it; else, unless it is the same disk that must hold it, anywhere. */
static int move_to(struct evacuation *ev, struct sfs_crew_worker *w, const struct sfs_group_info *g, unsigned i,
                   struct sfs_move_result *res)
{
    const struct sfs_slab_row *s = &g->slabs[i];
    int rc = -ENOSPC;
    if (ev->e->to)
        rc = sfs_move_slab(ev->d, g->id, s->column, s->copy, ev->e->to, sfs_crew_progress, w, res);
    if (rc == -ENOSPC)
        rc = sfs_move_slab(ev->d, g->id, s->column, s->copy, 0, sfs_crew_progress, w, res);
    if (rc == -ENOSPC && ev->e->from_slot)
        rc = sfs_move_slab(ev->d, g->id, s->column, s->copy, ev->e->disk, sfs_crew_progress, w, res);
    return rc;
}

int sfs_restripe_group(struct sfs_crew_worker *w, uint64_t group, uint64_t *damaged)
{
    struct sfs_relocate_result r = {0};
    int rc = -EAGAIN;
    for (unsigned tries = 0; tries < TRIES && (rc == -EIO || rc == -EAGAIN); tries++)
        rc = sfs_relocate_group(w->crew->d, group, 0, sfs_crew_progress, w, &r);
    if (rc == -ENOENT)
        return 0;
    if (!rc && !r.emptied)
        rc = r.damaged_bytes ? -EUCLEAN : -EAGAIN;
    *damaged += r.damaged_bytes;
    return rc;
}

static void note(struct evacuation *ev, uint64_t group, int rc, const struct sfs_move_result *res)
{
    sfs_mutex_lock(&ev->lock);
    if (rc == 0) {
        ev->moved++;
        ev->damaged += res->damaged_bytes;
    } else if (rc != -ECANCELED && rc != -ENOENT) {
        if (!ev->stuck++ || (rc == -ENOSPC && ev->why != -ENOSPC)) {
            ev->why = rc;
            ev->where = group;
        }
    }
    sfs_mutex_unlock(&ev->lock);
}

/* Looked at again before each try: the group may be gone, the slab may have been moved by another. */
static int move_item(struct evacuation *ev, struct sfs_crew_worker *w, const struct item *it, struct sfs_move_result *res)
{
    int rc = -EIO;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct sfs_group_info g;
        if (sfs_group_info(ev->d, it->group, &g) || !has_to_go(ev->e, &g, it->slab))
            return -ENOENT;
        if (!sfs_slab_has_source(&g, it->slab))
            return -ENODATA;
        w->pace.urgent = g.spare == 0;
        rc = move_to(ev, w, &g, it->slab, res);
        if (rc == -ENOSPC && !ev->e->from_slot && sfs_resiliency_parity(g.resiliency))
            return sfs_restripe_group(w, g.id, &res->damaged_bytes); /* it is over all disks: narrower ones take its place */
        if (rc != -EIO && rc != -EAGAIN)
            break;
    }
    return rc;
}

static void work(struct sfs_crew_worker *w, unsigned i)
{
    struct evacuation *ev = w->crew->ctx;
    struct sfs_move_result res = {0};
    note(ev, ev->v[i].group, move_item(ev, w, &ev->v[i], &res), &res);
}

static int progress(void *ctx, uint64_t bytes)
{
    struct evacuation *ev = ctx;
    return sfs_job_progress(ev->j, bytes);
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

static int blocked(struct evacuation *ev, int rc)
{
    unsigned long long group = ev->where;
    unsigned left = ev->stuck + ev->hopeless;
    if (!ev->stuck && ev->hopeless)
        rc = -ENODATA;
    if (rc == -ENOSPC)
        sfs_job_says(ev->j, "%u slabs are left: no other disk that may hold them has a free slab. Add a disk or free space", left);
    else if (rc == -ENODATA)
        sfs_job_says(ev->j, "%u slabs are left, whose data is on a disk that is away and nowhere else. Connect it, or give "
                     "that data up with `spacesfs disk forget`", left);
    else if (rc == -EUCLEAN)
        sfs_job_says(ev->j, "%u slabs are left: some of slab group %llu cannot be read from any disk that is here. Connect those "
                     "that are away, or give that data up with `spacesfs disk forget`", left, group);
    else
        sfs_job_says(ev->j, "%u slabs are left: slab group %llu: %s", left, group, strerror(-rc));
    return rc;
}

int sfs_evacuate(struct sfs_job *j, const struct sfs_evacuate *e)
{
    struct evacuation ev = {.j = j, .d = sfs_job_data(j), .e = e};
    struct sfs_crew crew = {.d = ev.d, .throttle = sfs_job_throttle(j), .progress = progress, .work = work, .ctx = &ev};
    sfs_mutex_init(&ev.lock, sfs_data_env(ev.d), SFS_RANK_LEAF);
    int rc;
    for (;;) {
        rc = make_list(&ev);
        if (rc || sfs_job_stopping(j) || !ev.n)
            break;
        ev.moved = ev.stuck = 0;
        ev.why = 0;
        sfs_crew_run(&crew, ev.n);
        if (!ev.moved && ev.stuck)
            break; /* going on would do the same again */
    }
    if (sfs_job_stopping(j))
        rc = -ECANCELED;
    else if (!rc && (ev.n || ev.hopeless))
        rc = blocked(&ev, ev.why ? ev.why : -ENODATA);
    else if (!rc && ev.damaged)
        sfs_job_says(j, "done; %llu bytes of what was moved had no good copy before: they stay damaged", (unsigned long long)ev.damaged);
    free(ev.v);
    sfs_mutex_destroy(&ev.lock);
    return rc;
}
