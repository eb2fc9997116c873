#include "fs/data/landing.h"
#include "fs/data/state.h"

#include <stdlib.h>

static bool is_landing(const struct sfs_group *g, int space)
{
    return g->kind == SFS_GROUP_LANDING && !g->dropped && g->volume->row.id == space;
}

bool sfs_landing_look(struct sfs_data *d, int space, struct sfs_landing *out)
{
    const struct sfs_volume *v = NULL;
    *out = (struct sfs_landing){0};
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (is_landing(g, space)) {
            v = g->volume;
            out->groups++;
            out->used_bytes += g->used_blocks * SFS_BLOCK;
        }
    if (v) {
        out->max = sfs_landing_groups_max(d);
        out->capacity_bytes = out->max * d->slab_bytes;
        out->stripe_bytes = sfs_stripe_bytes_of_new(d, v);
    }
    SFS_UNLOCK(d);
    return v != NULL;
}

struct candidate {
    uint64_t id, used;
    bool open;
};

static int by_order(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->open != y->open)
        return x->open ? 1 : -1;
    if (x->used != y->used)
        return x->used > y->used ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int sfs_landing_groups(struct sfs_data *d, int space, uint64_t **ids, unsigned *n)
{
    *ids = NULL;
    *n = 0;
    SFS_LOCK(d);
    struct candidate *v = calloc(HASH_COUNT(d->groups) + 1, sizeof(*v));
    unsigned k = 0;
    for (struct sfs_group *g = d->groups; v && g; g = g->hh.next)
        if (is_landing(g, space))
            v[k++] = (struct candidate){g->id, g->used_blocks, g->state == SFS_GROUP_OPEN};
    SFS_UNLOCK(d);
    uint64_t *out = v && k ? malloc(k * sizeof(*out)) : NULL;
    int rc = !v || (k && !out) ? -ENOMEM : 0;
    if (out) {
        qsort(v, k, sizeof(*v), by_order);
        for (unsigned i = 0; i < k; i++)
            out[i] = v[i].id;
        *n = k;
    }
    *ids = out;
    free(v);
    return rc;
}
