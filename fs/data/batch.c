#include "fs/data/batch.h"

#include <stdlib.h>

static void free_change(struct sfs_data *d, struct sfs_change *c)
{
    for (unsigned i = 0; i < c->nextents; i++)
        sfs_stored_unref(d, c->extents[i].stored);
    free(c->extents);
    free(c->deleted);
    free(c->inline_data);
}

int sfs_batch_add(struct sfs_batch *b, const struct sfs_change *c)
{
    if (b->n == b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 64;
        struct sfs_batch_item *v = realloc(b->v, cap * sizeof(*v));
        if (!v) {
            free_change(b->d, (struct sfs_change *)c);
            return -ENOMEM;
        }
        b->v = v;
        b->cap = cap;
    }
    b->v[b->n++] = (struct sfs_batch_item){.change = *c, .client = b->client};
    return 0;
}

void sfs_batch_free(struct sfs_data *d, struct sfs_batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        free_change(d, &b->v[i].change);
    free(b->v);
    *b = (struct sfs_batch){0};
}

struct removal {
    struct sfs_data *d;
    uint64_t group, bytes;
};

static void removed(const struct sfs_extent_row *row, void *ctx)
{
    struct removal *r = ctx;
    r->group = row->group;
    r->bytes += row->len;
    sfs_commit_removed(row, r->d);
}

/* Pieces of `kept` bytes that were rows before are rows again: extents were cut, and what was cut out of them may stay as dead space. */
static void note_cut(struct sfs_data *d, const struct removal *r, uint64_t kept)
{
    if (!kept || kept >= r->bytes)
        return;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, r->group);
    if (g)
        g->volume->cut_bytes += r->bytes - kept;
    SFS_UNLOCK(d);
}

static int apply_extents(struct sfs_data *d, const struct sfs_change *c)
{
    struct removal r = {.d = d};
    uint64_t kept = 0;
    int rc = 0;
    for (unsigned i = 0; !rc && i < c->ndeleted; i++) {
        unsigned n;
        rc = sfs_catalog_extent_delete(d->cat, c->ino, c->deleted[i].from, c->deleted[i].to, 0, removed, &r, &n);
    }
    for (unsigned i = 0; !rc && i < c->nextents; i++) {
        struct sfs_extent_row row;
        sfs_extent_to_row(d, &c->extents[i], &row);
        rc = sfs_catalog_extent_insert(d->cat, c->ino, &row);
        if (rc)
            break;
        SFS_LOCK(d);
        struct sfs_stored *s = c->extents[i].stored;
        if (!s->applied) {
            sfs_stored_set_applied(d, s);
            /* Pieces of it may have been overwritten before this commit: what no row names becomes free. */
            sfs_candidate(d, s->key.group, s->key.goff, s->key.slen);
        } else {
            kept += row.len;
        }
        SFS_UNLOCK(d);
    }
    note_cut(d, &r, kept);
    return rc;
}

static int apply_change(struct sfs_data *d, const struct sfs_change *c)
{
    struct sfs_inode_row have;
    int rc = sfs_catalog_inode_get(d->cat, c->ino, &have);
    if (rc == -ENOENT)
        return 0; /* unlinked meanwhile: nothing to do, its extents die with the batch */
    if (!rc)
        rc = apply_extents(d, c);
    if (!rc && c->set_inline)
        rc = sfs_catalog_inline_set(d->cat, c->ino, c->inline_data, c->inline_len);
    if (!rc && c->set_row)
        rc = sfs_catalog_inode_update(d->cat, &c->row);
    return rc;
}

int sfs_batch_apply(struct sfs_data *d, struct sfs_batch *b)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < b->n; i++)
        rc = apply_change(d, &b->v[i].change);
    return rc;
}

int sfs_groups_store_states(struct sfs_data *d)
{
    for (;;) {
        struct sfs_group_row row = {0};
        SFS_LOCK(d);
        for (struct sfs_group *g = d->groups; g; g = g->hh.next)
            if (g->state_dirty && !g->dropped) {
                g->state_dirty = false;
                row = (struct sfs_group_row){.id = g->id, .space = g->volume->row.id, .resiliency = g->geo.resiliency, .columns = g->geo.columns,
                                             .interleave = g->geo.interleave, .kind = g->kind, .state = g->state};
                break;
            }
        SFS_UNLOCK(d);
        if (!row.id)
            return 0;
        int rc = sfs_catalog_group_put(d->cat, &row);
        if (rc)
            return rc;
    }
}
