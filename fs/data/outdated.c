/* Which groups are outdated, and whether they could be converted: the writer's choice of columns (allocate.c) is asked what it would do, on numbers of free slabs as they would be. */
#include "fs/data/outdated.h"
#include "fs/data/state.h"

#include <stdlib.h>
#include <string.h>

static void count_disks(struct sfs_data *d, unsigned *online, unsigned *nfree)
{
    struct sfs_member *m;
    *online = *nfree = 0;
    LIST_FOREACH(m, &d->members, link) {
        *online += sfs_member_online(m) && m->row.usage == SFS_USAGE_AUTO;
        *nfree += sfs_member_takes_slabs(m);
    }
}

/* Lock held. A landing group is laid out by its own rules: it only has to bear as many losses as the space does now, and to be of a space that has such groups. */
static bool is_outdated(const struct sfs_space_row *set, const struct sfs_group *g, unsigned columns, bool wider)
{
    if (g->kind == SFS_GROUP_LANDING)
        return !sfs_resiliency_parity(set->resiliency) || sfs_resiliency_tolerance(g->geo.resiliency) < sfs_resiliency_tolerance(set->resiliency);
    if (g->geo.resiliency != (enum sfs_resiliency)set->resiliency || g->geo.interleave != set->interleave)
        return true;
    if (set->columns) /* with too few disks a new one would be as narrow */
        return g->geo.columns > set->columns || (g->geo.columns < set->columns && columns > g->geo.columns);
    return sfs_resiliency_parity(set->resiliency) ? wider && columns > g->geo.columns : g->geo.columns != columns;
}

static int by_use(const void *a, const void *b)
{
    const struct sfs_outdated *x = a, *y = b;
    if (x->used_bytes != y->used_bytes)
        return x->used_bytes < y->used_bytes ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* set: judged by these settings; NULL: by those that each space has. */
static int list(struct sfs_data *d, int space, const struct sfs_space_row *set, bool wider, struct sfs_outdated **out, unsigned *n)
{
    unsigned online, nfree;
    *n = 0;
    SFS_LOCK(d);
    struct sfs_outdated *v = calloc(HASH_COUNT(d->groups) + 1, sizeof(*v));
    count_disks(d, &online, &nfree);
    for (struct sfs_group *g = d->groups; v && g; g = g->hh.next) {
        struct sfs_volume as = {.row = set ? *set : g->volume->row};
        if (g->dropped || as.row.destroying || (space && g->volume->row.id != space))
            continue;
        if (is_outdated(&as.row, g, sfs_choose_columns(&as, online, nfree), wider))
            v[(*n)++] = (struct sfs_outdated){g->id, g->used_blocks * SFS_BLOCK};
    }
    SFS_UNLOCK(d);
    *out = v;
    if (*n)
        qsort(v, *n, sizeof(*v), by_use);
    return v ? 0 : -ENOMEM;
}

int sfs_outdated_list(struct sfs_data *d, int space, bool wider, struct sfs_outdated **out, unsigned *n)
{
    return list(d, space, NULL, wider, out, n);
}

bool sfs_outdated_by(struct sfs_data *d, const struct sfs_space_row *settings)
{
    struct sfs_outdated *v;
    unsigned n;
    if (list(d, settings->id, settings, false, &v, &n))
        return true;
    free(v);
    return n > 0;
}

/* --- could it be done? -------------------------------------------------------------------------------------------------------------------------- */

struct trial {
    struct sfs_data *d;
    struct sfs_volume as;                      /* only its settings */
    struct sfs_place_disk disk[SFS_LABEL_PEERS];
    int id[SFS_LABEL_PEERS];
    unsigned n, online;
    uint64_t room;                             /* in groups of the new layout, bytes */
};

/* Lock held. */
static void begin(struct trial *t, struct sfs_conversion *out)
{
    struct sfs_member *m;
    LIST_FOREACH(m, &t->d->members, link) {
        if (t->n == SFS_LABEL_PEERS)
            break;
        bool takes = sfs_member_online(m) && m->row.usage == SFS_USAGE_AUTO;
        t->online += takes;
        t->id[t->n] = m->row.id;
        t->disk[t->n++] = (struct sfs_place_disk){.free_slabs = takes ? m->free_slabs : 0, .usable = takes};
        out->free_raw_bytes += takes ? m->free_slabs * t->d->slab_bytes : 0;
    }
    for (struct sfs_group *g = t->d->groups; g; g = g->hh.next)
        if (g->volume->row.id == t->as.row.id && !g->dropped && g->kind == SFS_GROUP_DATA && g->used_known && sfs_group_whole(t->d, g) && !is_outdated(&t->as.row, g, g->geo.columns, false))
            t->room += (g->blocks - g->used_blocks) * SFS_BLOCK;
}

/* One more group of the new layout. */
static bool open_one(struct trial *t)
{
    unsigned nfree = 0, index[SFS_MAX_SLABS_PER_GROUP];
    for (unsigned i = 0; i < t->n; i++)
        nfree += t->disk[i].usable && t->disk[i].free_slabs;
    enum sfs_resiliency r = t->as.row.resiliency;
    unsigned columns = sfs_choose_columns(&t->as, t->online, nfree), want = columns * sfs_resiliency_copies(r);
    if (want > SFS_MAX_SLABS_PER_GROUP || columns <= sfs_resiliency_parity(r) || sfs_place_pick(t->disk, t->n, want, index) < want)
        return false;
    for (unsigned i = 0; i < want; i++)
        t->disk[index[i]].free_slabs--;
    t->room += (uint64_t)(columns - sfs_resiliency_parity(r)) * t->d->slab_bytes;
    return true;
}

/* Lock held. Moves one group's contents, and gets its slabs back. A little is lost at the ends of groups. */
static bool move_one(struct trial *t, const struct sfs_outdated *o, struct sfs_conversion *out)
{
    struct sfs_group *g = sfs_group_find(t->d, o->group);
    uint64_t need = o->used_bytes + o->used_bytes / 64;
    bool fits = true;
    while (fits && t->room < need)
        fits = open_one(t);
    if (fits)
        t->room -= need;
    for (unsigned i = 0; g && i < sfs_geometry_slabs(&g->geo); i++)
        for (unsigned k = 0; k < t->n; k++)
            if (g->slabs[i].disk == t->id[k] && t->disk[k].usable) {
                t->disk[k].free_slabs++;
                out->back_raw_bytes += t->d->slab_bytes;
            }
    return fits;
}

int sfs_conversion_check(struct sfs_data *d, const struct sfs_space_row *settings, struct sfs_conversion *out)
{
    struct trial t = {.d = d, .as = {.row = *settings}};
    struct sfs_outdated *v;
    unsigned n;
    bool fits = true;
    *out = (struct sfs_conversion){0};
    int rc = sfs_groups_count_used(d);
    if (!rc)
        rc = list(d, settings->id, settings, false, &v, &n);
    if (rc)
        return rc;
    SFS_LOCK(d);
    begin(&t, out);
    t.room -= t.room < SFS_EXTENT_MAX ? t.room : SFS_EXTENT_MAX; /* the end of the last group */
    for (unsigned i = 0; i < n; i++) {
        out->held_bytes += v[i].used_bytes;
        fits &= move_one(&t, &v[i], out);
    }
    SFS_UNLOCK(d);
    free(v);
    enum sfs_resiliency r = settings->resiliency;
    unsigned columns = sfs_choose_columns(&t.as, t.online, t.online), parity = sfs_resiliency_parity(r);
    out->raw_bytes = columns > parity ? out->held_bytes / (columns - parity) * columns * sfs_resiliency_copies(r) : UINT64_MAX;
    return fits ? 0 : -ENOSPC;
}

/* --- without a disk ----------------------------------------------------------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Lock held. All groups of one space, the ones that hold least first. */
static bool restripe_space(struct trial *t, struct sfs_volume *v, const uint64_t *groups, unsigned n, struct sfs_outdated *list)
{
    struct sfs_conversion back = {0};
    unsigned count = 0;
    bool fits = true;
    t->as.row = v->row;
    t->room = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct sfs_group *g = sfs_group_find(t->d, groups[i]);
        if (g && g->volume == v)
            list[count++] = (struct sfs_outdated){g->id, g->used_blocks * SFS_BLOCK};
    }
    if (count)
        qsort(list, count, sizeof(*list), by_use);
    for (unsigned i = 0; fits && i < count; i++)
        fits = move_one(t, &list[i], &back);
    return fits;
}

bool sfs_restripe_fits(struct sfs_data *d, uint64_t *groups, unsigned n, const int *disk, const uint64_t *room, unsigned ndisks)
{
    struct trial t = {.d = d, .n = ndisks < SFS_LABEL_PEERS ? ndisks : SFS_LABEL_PEERS, .online = ndisks};
    struct sfs_outdated *list = calloc(n + 1, sizeof(*list));
    bool fits = list != NULL;
    struct sfs_volume *v;
    qsort(groups, n, sizeof(*groups), by_id);
    for (unsigned i = 0; i < t.n; i++) {
        t.id[i] = disk[i];
        t.disk[i] = (struct sfs_place_disk){.free_slabs = room[i], .usable = true};
    }
    SFS_LOCK(d);
    LIST_FOREACH(v, &d->volumes, link)
        fits = fits && restripe_space(&t, v, groups, n, list);
    SFS_UNLOCK(d);
    free(list);
    return fits;
}
