/* What it would mean if a disk went now: which files would be lost, which would be one loss away from it, and whether the others could heal it. A disk that is away already: what its absence means. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/pool/files.h"
#include "fs/pool/pool_impl.h"

#define EXAMPLES 20u

/* What becomes of a column's data: files are counted under each that applies. */
enum fate { LOST, RISK, WEAKER, FATES };

struct question {
    struct sfs_pool *p;
    int disk;
    struct sfs_files files[FATES];
};

/* Copies of a column that are here, without the disk in question or (with) as if it were here. */
static unsigned copies_left(const struct question *q, const struct sfs_group_info *g, unsigned column, bool with)
{
    unsigned n = 0;
    for (unsigned k = 0; k < g->copies; k++) {
        const struct sfs_slab_row *s = &g->slabs[column * g->copies + k];
        n += s->disk == q->disk ? with : g->slab_online[column * g->copies + k];
    }
    return n;
}

static bool has_slab(const struct question *q, const struct sfs_group_info *g, unsigned column)
{
    for (unsigned k = 0; k < g->copies; k++)
        if (g->slabs[column * g->copies + k].disk == q->disk)
            return true;
    return false;
}

/* Columns by fate. Parity: a column that is gone is made up for while no more are gone than there is parity; then all columns are as safe as what is left of it. */
static void judge(const struct question *q, const struct sfs_group_info *g, bool hit[FATES][SFS_MAX_COLUMNS])
{
    unsigned parity = sfs_resiliency_parity(g->resiliency), before = 0, after = 0;
    memset(hit, 0, FATES * sizeof(hit[0]));
    for (unsigned c = 0; c < g->columns; c++) {
        before += !copies_left(q, g, c, true);
        after += !copies_left(q, g, c, false);
    }
    for (unsigned c = 0; c < g->columns; c++) {
        unsigned left = copies_left(q, g, c, false);
        if (before > parity && !copies_left(q, g, c, true))
            continue; /* lost already, whatever becomes of the disk */
        if (after > parity)
            hit[LOST][c] = !left;
        else if (parity)
            hit[after == parity ? RISK : WEAKER][c] = true;
        else if (has_slab(q, g, c))
            hit[left == 1 ? RISK : WEAKER][c] = true;
    }
}

static bool any_hit(const bool *hit)
{
    for (unsigned c = 0; c < SFS_MAX_COLUMNS; c++)
        if (hit[c])
            return true;
    return false;
}

static int take_group(struct question *q, uint64_t id)
{
    struct sfs_group_info g;
    bool hit[FATES][SFS_MAX_COLUMNS], more = false;
    if (!sfs_group_has_slab_on(q->p->data, id, q->disk) || sfs_group_info(q->p->data, id, &g))
        return 0;
    judge(q, &g, hit);
    int rc = 0;
    for (unsigned i = 0; !rc && i < FATES; i++)
        if (any_hit(hit[i]))
            rc = sfs_files_of_group(q->p, &g, hit[i], 0, &q->files[i], &more);
    return rc;
}

static int take_groups(struct question *q)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(q->p->data, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++)
        rc = take_group(q, ids[i]);
    if (n)
        free(ids);
    for (unsigned i = 0; i < FATES; i++)
        sfs_files_merge(&q->files[i]);
    return rc;
}

/* --- the answer ------------------------------------------------------------------------------------------------------------------------------------ */

static struct sfs_impact_space *space_of(struct sfs_pool *p, struct sfs_impact *o, int id)
{
    for (unsigned i = 0; i < o->nspaces; i++)
        if (o->spaces[i].id == id)
            return &o->spaces[i];
    struct sfs_impact_space *v = realloc(o->spaces, (o->nspaces + 1) * sizeof(*v));
    struct sfs_volume *vol = sfs_volume_find(p->data, id);
    struct sfs_space_row row = {0};
    if (!v)
        return NULL;
    o->spaces = v;
    if (vol)
        sfs_volume_settings(vol, &row);
    v[o->nspaces] = (struct sfs_impact_space){.id = id};
    snprintf(v[o->nspaces].name, sizeof(v->name), "%s", row.name);
    snprintf(v[o->nspaces].resiliency, sizeof(v->resiliency), "%s", sfs_resiliency_name((enum sfs_resiliency)row.resiliency));
    return &v[o->nspaces++];
}

static int by_spaces(struct question *q, struct sfs_impact *o)
{
    for (unsigned i = 0; i < FATES; i++)
        for (size_t k = 0; k < q->files[i].n; k++) {
            const struct sfs_file_tally *f = &q->files[i].v[k];
            struct sfs_impact_space *s = space_of(q->p, o, f->space);
            if (!s)
                return -ENOMEM;
            struct sfs_impact_sum *sum = i == LOST ? &s->lost : i == RISK ? &s->risk : &s->weaker;
            sum->files++;
            sum->bytes += f->bytes;
        }
    return 0;
}

/* A few names: of what would be lost, else of what would be at risk. */
static int name_examples(struct question *q, struct sfs_impact *o)
{
    const struct sfs_files *f = &q->files[q->files[LOST].n ? LOST : RISK];
    uint64_t inos[EXAMPLES];
    char *paths[EXAMPLES];
    unsigned n = f->n < EXAMPLES ? (unsigned)f->n : EXAMPLES;
    for (unsigned i = 0; i < n; i++)
        inos[i] = f->v[i].ino;
    o->examples = calloc(EXAMPLES, sizeof(*o->examples));
    int rc = !o->examples ? -ENOMEM : n ? sfs_pool_paths(q->p, inos, n, paths) : 0;
    for (unsigned i = 0; !rc && i < n; i++) {
        if (!paths[i])
            continue;
        struct sfs_impact_space *s = space_of(q->p, o, f->v[i].space);
        snprintf(o->examples[o->nexamples].space, sizeof(o->examples->space), "%s", s ? s->name : "");
        o->examples[o->nexamples++].path = paths[i];
    }
    return rc;
}

static void count_replicas(struct sfs_pool *p, int disk, struct sfs_impact *o)
{
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++)
        o->replicas_left += p->disks[i].used && p->disks[i].id != disk && p->disks[i].disk && p->disks[i].replica;
    sfs_mutex_unlock(&p->lock);
}

static void take_disk(struct sfs_pool *p, int id, struct sfs_impact *o)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < n; i++)
        if (v[i].row.id == id)
            o->online = v[i].online;
}

static int room(struct sfs_pool *p, int id, struct sfs_impact *o)
{
    struct sfs_pool_move m;
    int rc = sfs_pool_could_move(p, id, 0, true, &m);
    o->slabs = m.slabs;
    o->slabs_placed = m.placed;
    o->slabs_hopeless = m.hopeless;
    o->can_heal = m.placed + m.hopeless == m.slabs;
    return rc;
}

int sfs_pool_impact(struct sfs_pool *p, const char *disk, struct sfs_impact **res, struct sfs_error *err)
{
    struct question q = {.p = p};
    struct sfs_impact *o = calloc(1, sizeof(*o));
    int rc = o ? 0 : -ENOMEM;
    sfs_mutex_lock(&p->admin); /* the disk stays one of the pool */
    struct sfs_pool_disk *pd = sfs_pool_disk_by_name(p, disk);
    if (pd)
        q.disk = pd->id;
    sfs_mutex_unlock(&p->admin);
    if (!rc && !pd)
        rc = sfs_error_set(err, -ENOENT, "pool %s has no disk named %s. `spacesfs disk list %s` names them.", p->name, disk, p->name);
    if (!rc) {
        take_disk(p, q.disk, o);
        count_replicas(p, q.disk, o);
        rc = take_groups(&q);
    }
    if (!rc)
        rc = by_spaces(&q, o);
    if (!rc)
        rc = name_examples(&q, o);
    if (!rc)
        rc = room(p, q.disk, o);
    for (unsigned i = 0; i < FATES; i++)
        sfs_files_free(&q.files[i]);
    if (!rc) {
        *res = o;
        return 0;
    }
    sfs_pool_impact_free(o);
    return err && err->code ? rc : sfs_error_set(err, rc, "pool %s: what the loss of disk %s would mean could not be worked out: %s.", p->name, disk, strerror(-rc));
}

void sfs_pool_impact_free(struct sfs_impact *o)
{
    if (!o)
        return;
    for (unsigned i = 0; o->examples && i < o->nexamples; i++)
        free(o->examples[i].path);
    free(o->examples);
    free(o->spaces);
    free(o);
}
