/* Freeing: from "a row is gone" to "these blocks may be written again".
 *
 *   candidate  a place that a deleted row or a dead pending extent covered
 *   freed      found, in the same catalog transaction, to be covered by no row and no pending extent (S2)
 *   releasing  that transaction is durable (C2); readers from before may still look
 *   free       no such reader is left
 *
 * A group that becomes empty is dropped on the way: its rows are deleted in the same transaction, its slots are released like blocks. */
#include "fs/data/state.h"

#include <stdlib.h>
#include <string.h>

int sfs_freed_push(struct sfs_freed_list *l, const struct sfs_freed *f)
{
    if (l->n == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct sfs_freed *v = realloc(l->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *f;
    return 0;
}

/* Out of memory here only delays: the blocks are found free when the group is next opened. */
void sfs_candidate(struct sfs_data *d, uint64_t group, uint64_t goff, uint64_t len)
{
    sfs_freed_push(&d->candidates, &(struct sfs_freed){.group = group, .goff = goff, .len = sfs_blocks(len) * SFS_BLOCK});
}

void sfs_commit_removed(const struct sfs_extent_row *row, void *ctx)
{
    struct sfs_data *d = ctx;
    SFS_LOCK(d);
    sfs_candidate(d, row->group, row->goff, row->slen);
    SFS_UNLOCK(d);
}

static int by_place(const void *a, const void *b)
{
    const struct sfs_freed *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->goff < y->goff ? -1 : x->goff > y->goff;
}

/* Sorted; touching and overlapping ones become one. */
static size_t merge(struct sfs_freed *v, size_t n)
{
    if (!n)
        return 0;
    qsort(v, n, sizeof(*v), by_place);
    size_t m = 0;
    for (size_t i = 1; i < n; i++) {
        struct sfs_freed *last = &v[m];
        if (v[i].group == last->group && v[i].goff <= last->goff + last->len) {
            if (v[i].goff + v[i].len > last->goff + last->len)
                last->len = v[i].goff + v[i].len - last->goff;
        } else {
            v[++m] = v[i];
        }
    }
    return m + 1;
}

struct cover {
    uint64_t from, to;
};
struct covers {
    struct cover *v;
    size_t n, cap;
};

static int add_cover(struct covers *c, uint64_t from, uint64_t to)
{
    if (c->n == c->cap) {
        size_t cap = c->cap ? c->cap * 2 : 64;
        struct cover *v = realloc(c->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        c->v = v;
        c->cap = cap;
    }
    c->v[c->n++] = (struct cover){from, to};
    return 0;
}

static int row_cover(uint64_t goff, uint32_t slen, void *ctx)
{
    return add_cover(ctx, goff, goff + sfs_blocks(slen) * SFS_BLOCK);
}

static int cover_cmp(const void *a, const void *b)
{
    const struct cover *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* Lock held. Pending extents that overlap [from, to). */
static int pending_covers(struct sfs_group *g, uint64_t from, uint64_t to, struct covers *c)
{
    int rc = 0;
    for (struct sfs_stored *s = sfs_stored_first(&g->pending, from); !rc && s && sfs_stored_may_overlap(s, to);
         s = RB_NEXT(sfs_stored_tree, &g->pending, s))
        if (s->key.goff < to)
            rc = add_cover(c, s->key.goff, sfs_stored_end(s));
    return rc;
}

/* Lock held. Notes [from, to) of g as freed by this transaction. */
static int note_freed(struct sfs_data *d, struct sfs_group *g, uint64_t from, uint64_t to)
{
    sfs_damage_freed(d, g->id, from, to);
    sfs_group_unuse(g, from / SFS_BLOCK, (to - from) / SFS_BLOCK);
    int rc = sfs_freed_push(&d->freed, &(struct sfs_freed){.group = g->id, .goff = from, .len = to - from});
    if (!rc)
        g->waiting_blocks += (to - from) / SFS_BLOCK;
    return rc;
}

/* Catalog lock held. Subtracts what still covers a candidate. */
static int examine(struct sfs_data *d, const struct sfs_freed *f, struct covers *c)
{
    c->n = 0;
    uint64_t end = f->goff + f->len;
    int rc = sfs_catalog_group_ranges(d->cat, f->group, f->goff, end, row_cover, c);
    if (rc)
        return rc;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, f->group);
    if (!g || g->dropped)
        goto out;
    if (end > g->blocks * SFS_BLOCK)
        end = g->blocks * SFS_BLOCK; /* a row beyond the group's end, from a damaged catalog */
    if (f->goff >= end)
        goto out;
    rc = pending_covers(g, f->goff, end, c);
    if (rc)
        goto out;
    if (c->n)
        qsort(c->v, c->n, sizeof(*c->v), cover_cmp);
    uint64_t at = f->goff;
    for (size_t i = 0; !rc && i < c->n && at < end; i++) {
        if (c->v[i].from > at)
            rc = note_freed(d, g, at, c->v[i].from < end ? c->v[i].from : end);
        if (c->v[i].to > at)
            at = c->v[i].to;
    }
    if (!rc && at < end)
        rc = note_freed(d, g, at, end);
out:
    SFS_UNLOCK(d);
    return rc;
}

/* Lock held. An empty group goes, unless it is open and there is no want of slabs. */
static bool may_drop(const struct sfs_group *g)
{
    if (g->dropped || !g->used_known || g->used_blocks || !RB_EMPTY(&g->pending) || g->inflight || g->holds)
        return false;
    for (unsigned i = 0; i < g->volume->nopen; i++)
        if (g->volume->open[i] == g)
            return g->volume->nopen > 1 || g->volume->users == 0;
    return true;
}

static int drop_empty(struct sfs_data *d)
{
    for (;;) {
        uint64_t id = 0;
        SFS_LOCK(d);
        for (struct sfs_group *g = d->groups; g && !id; g = g->hh.next)
            if (may_drop(g)) {
                id = g->id;
                sfs_group_seal(g);
                g->dropped = true;
                sfs_damage_freed(d, id, 0, UINT64_MAX);
            }
        SFS_UNLOCK(d);
        if (!id)
            return 0;
        int rc = sfs_catalog_group_delete(d->cat, id);
        if (rc)
            return rc;
        SFS_LOCK(d);
        rc = sfs_freed_push(&d->freed, &(struct sfs_freed){.group = id, .slots = true});
        SFS_UNLOCK(d);
        if (rc)
            return rc;
    }
}

int sfs_freeing_apply(struct sfs_data *d)
{
    SFS_LOCK(d);
    struct sfs_freed_list list = d->candidates;
    d->candidates = (struct sfs_freed_list){0};
    int rc = 0;
    for (size_t i = 0; !rc && i < d->moved.n; i++)
        rc = sfs_freed_push(&d->freed, &d->moved.v[i]);
    d->moved.n = 0;
    SFS_UNLOCK(d);
    struct covers c = {0};
    size_t n = merge(list.v, list.n);
    for (size_t i = 0; !rc && i < n; i++)
        rc = examine(d, &list.v[i], &c);
    if (!rc)
        rc = drop_empty(d);
    if (!rc)
        rc = sfs_damage_apply(d);
    free(c.v);
    free(list.v);
    return rc;
}

void sfs_freeing_durable(struct sfs_data *d)
{
    SFS_LOCK(d);
    if (!d->freed.n) {
        SFS_UNLOCK(d);
        sfs_freeing_release(d);
        return;
    }
    uint64_t ticket = sfs_quiesce_ticket(d->quiesce);
    size_t done = 0;
    for (; done < d->freed.n; done++) {
        d->freed.v[done].ticket = ticket;
        if (sfs_freed_push(&d->releasing, &d->freed.v[done]))
            break; /* out of memory: the rest goes with the next commit */
    }
    memmove(d->freed.v, d->freed.v + done, (d->freed.n - done) * sizeof(*d->freed.v));
    d->freed.n -= done;
    SFS_UNLOCK(d);
    sfs_freeing_release(d);
}

/* A slot may be taken again. The slab file goes first. */
static void release_slot(struct sfs_data *d, int id, uint32_t slot)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    struct sfs_disk *disk = sfs_member_online(m) ? sfs_disk_ref(m->disk) : NULL;
    SFS_UNLOCK(d);
    if (disk)
        sfs_disk_slab_free(disk, slot);
    sfs_disk_put(disk);
    SFS_LOCK(d);
    sfs_slot_give(d, id, slot);
    m = sfs_member_find(d, id);
    if (m)
        m->full = false;
    SFS_UNLOCK(d);
}

static void release_group(struct sfs_data *d, uint64_t id)
{
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    SFS_ASSERT(g && g->dropped && RB_EMPTY(&g->pending));
    sfs_stored_detach_all(d, g); /* what the dead still hold */
    HASH_DEL(d->groups, g);
    SFS_UNLOCK(d);
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++)
        if (g->slabs[i].disk)
            release_slot(d, g->slabs[i].disk, g->slabs[i].slot);
    sfs_group_free(g);
}

void sfs_freeing_release(struct sfs_data *d)
{
    SFS_LOCK(d);
    struct sfs_freed_list ready = {0};
    size_t kept = 0;
    for (size_t i = 0; i < d->releasing.n; i++) {
        struct sfs_freed *f = &d->releasing.v[i];
        if (!sfs_quiesce_passed(d->quiesce, f->ticket) || ((f->slots || f->disk) && sfs_freed_push(&ready, f))) {
            d->releasing.v[kept++] = *f;
            continue;
        }
        if (f->slots || f->disk)
            continue;
        struct sfs_group *g = sfs_group_find(d, f->group);
        if (g) {
            g->barren = false;
            g->waiting_blocks -= f->len / SFS_BLOCK;
        }
        if (g)
            sfs_bitmap_release(g, f->goff / SFS_BLOCK, f->len / SFS_BLOCK);
    }
    d->releasing.n = kept;
    SFS_UNLOCK(d);
    for (size_t i = 0; i < ready.n; i++) {
        if (ready.v[i].slots)
            release_group(d, ready.v[i].group);
        else if (ready.v[i].disk > 0)
            release_slot(d, ready.v[i].disk, ready.v[i].slot);
    }
    free(ready.v);
    SFS_LOCK(d);
    sfs_cond_broadcast(&d->changed);
    SFS_UNLOCK(d);
}

void sfs_freeing_tick(struct sfs_data *d)
{
    SFS_LOCK(d);
    bool any = d->releasing.n > 0;
    SFS_UNLOCK(d);
    if (any && !sfs_data_readonly(d))
        sfs_freeing_release(d);
}
