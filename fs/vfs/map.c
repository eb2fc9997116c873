/* The extent map (map.h). */
#include "fs/vfs/map.h"

#include <stdlib.h>

#include "fs/base/error.h"
#include "fs/layout/geometry.h"

static int node_cmp(struct sfs_map_node *a, struct sfs_map_node *b)
{
    return a->e.off < b->e.off ? -1 : a->e.off > b->e.off;
}
RB_PROTOTYPE(sfs_map_tree, sfs_map_node, link, node_cmp)
RB_GENERATE(sfs_map_tree, sfs_map_node, link, node_cmp)

static int changed_cmp(struct sfs_changed_node *a, struct sfs_changed_node *b)
{
    return a->range.from < b->range.from ? -1 : a->range.from > b->range.from;
}
RB_PROTOTYPE(sfs_changed_tree, sfs_changed_node, link, changed_cmp)
RB_GENERATE(sfs_changed_tree, sfs_changed_node, link, changed_cmp)

static uint64_t piece_blocks(uint32_t len)
{
    return (len + SFS_BLOCK - 1) / SFS_BLOCK;
}

void sfs_map_init(struct sfs_map *m, const struct sfs_map_ops *ops, void *ctx)
{
    *m = (struct sfs_map){.ops = ops, .ctx = ctx};
    RB_INIT(&m->tree);
    RB_INIT(&m->changed);
    SLIST_INIT(&m->spare_nodes);
    SLIST_INIT(&m->spare_changed);
}

/* --- spares --------------------------------------------------------------------------------------------- */

int sfs_map_prepare(struct sfs_map *m, unsigned inserts)
{
    while (m->nspare_nodes < inserts + 1) { /* one for the piece that a punch cuts in two */
        struct sfs_map_node *n = malloc(sizeof(*n));
        if (!n)
            return -ENOMEM;
        SLIST_INSERT_HEAD(&m->spare_nodes, n, spare);
        m->nspare_nodes++;
    }
    while (m->nspare_changed < inserts + 1) {
        struct sfs_changed_node *n = malloc(sizeof(*n));
        if (!n)
            return -ENOMEM;
        SLIST_INSERT_HEAD(&m->spare_changed, n, spare);
        m->nspare_changed++;
    }
    return 0;
}

static struct sfs_map_node *take_node(struct sfs_map *m)
{
    struct sfs_map_node *n = SLIST_FIRST(&m->spare_nodes);

    SFS_ASSERT(n);
    SLIST_REMOVE_HEAD(&m->spare_nodes, spare);
    m->nspare_nodes--;
    return n;
}

static struct sfs_changed_node *take_changed(struct sfs_map *m)
{
    struct sfs_changed_node *n = SLIST_FIRST(&m->spare_changed);

    SFS_ASSERT(n);
    SLIST_REMOVE_HEAD(&m->spare_changed, spare);
    m->nspare_changed--;
    return n;
}

void sfs_map_clear(struct sfs_map *m)
{
    struct sfs_map_node *n;

    while ((n = RB_ROOT(&m->tree))) {
        RB_REMOVE(sfs_map_tree, &m->tree, n);
        m->ops->unref(m->ctx, n->e.stored);
        free(n);
    }
    sfs_map_handed_over(m);
    while ((n = SLIST_FIRST(&m->spare_nodes))) {
        SLIST_REMOVE_HEAD(&m->spare_nodes, spare);
        free(n);
    }
    struct sfs_changed_node *c;
    while ((c = SLIST_FIRST(&m->spare_changed))) {
        SLIST_REMOVE_HEAD(&m->spare_changed, spare);
        free(c);
    }
    m->npieces = m->nspare_nodes = m->nspare_changed = 0;
    m->blocks = 0;
}

/* --- finding -------------------------------------------------------------------------------------------- */

struct sfs_map_node *sfs_map_find(struct sfs_map *m, uint64_t off)
{
    struct sfs_map_node *n = RB_ROOT(&m->tree), *best = NULL;

    while (n) {
        if (sfs_map_end(n) > off) {
            best = n;
            n = RB_LEFT(n, link);
        } else {
            n = RB_RIGHT(n, link);
        }
    }
    return best;
}

struct sfs_map_node *sfs_map_next(struct sfs_map_node *n)
{
    return RB_NEXT(sfs_map_tree, NULL, n);
}

bool sfs_map_covers_any(struct sfs_map *m, uint64_t from, uint64_t to)
{
    struct sfs_map_node *n = sfs_map_find(m, from);

    return n && n->e.off < to;
}

/* --- what changed --------------------------------------------------------------------------------------- */

/* The first changed range that ends at or beyond off: the one to merge with. */
static struct sfs_changed_node *changed_find(struct sfs_map *m, uint64_t off)
{
    struct sfs_changed_node *n = RB_ROOT(&m->changed), *best = NULL;

    while (n) {
        if (n->range.to >= off) {
            best = n;
            n = RB_LEFT(n, link);
        } else {
            n = RB_RIGHT(n, link);
        }
    }
    return best;
}

/* Ranges that touch become one: that loses nothing, since no piece reaches over either's border. */
static void note_changed(struct sfs_map *m, uint64_t from, uint64_t to)
{
    struct sfs_changed_node *first = changed_find(m, from), *n;

    if (!first || first->range.from > to) {
        n = take_changed(m);
        n->range = (struct sfs_range){from, to};
        RB_INSERT(sfs_changed_tree, &m->changed, n);
        m->nchanged++;
        return;
    }
    if (from < first->range.from)
        first->range.from = from; /* the one before ends below from: the order stays */
    while ((n = RB_NEXT(sfs_changed_tree, &m->changed, first)) && n->range.from <= to) {
        if (n->range.to > to)
            to = n->range.to;
        RB_REMOVE(sfs_changed_tree, &m->changed, n);
        m->nchanged--;
        free(n);
    }
    if (to > first->range.to)
        first->range.to = to;
}

void sfs_map_handed_over(struct sfs_map *m)
{
    struct sfs_changed_node *c;

    while ((c = RB_ROOT(&m->changed))) {
        RB_REMOVE(sfs_changed_tree, &m->changed, c);
        free(c);
    }
    m->nchanged = 0;
}

int sfs_map_collect(struct sfs_map *m, struct sfs_range **deleted, unsigned *ndeleted,
                    struct sfs_extent **extents, unsigned *nextents)
{
    struct sfs_changed_node *c;
    struct sfs_map_node *n;
    unsigned pieces = 0, i = 0, k = 0;

    *deleted = NULL;
    *extents = NULL;
    *ndeleted = *nextents = 0;
    if (m->nchanged == 0)
        return 0;
    RB_FOREACH(c, sfs_changed_tree, &m->changed)
        for (n = sfs_map_find(m, c->range.from); n && n->e.off < c->range.to; n = sfs_map_next(n))
            pieces++;
    struct sfs_range *d = malloc(m->nchanged * sizeof(*d));
    struct sfs_extent *e = pieces ? malloc(pieces * sizeof(*e)) : NULL;
    if (!d || (pieces && !e)) {
        free(d);
        free(e);
        return -ENOMEM;
    }
    RB_FOREACH(c, sfs_changed_tree, &m->changed) {
        d[i++] = c->range;
        for (n = sfs_map_find(m, c->range.from); n && n->e.off < c->range.to; n = sfs_map_next(n)) {
            SFS_ASSERT(n->e.off >= c->range.from && sfs_map_end(n) <= c->range.to); /* M2 */
            e[k] = n->e;
            m->ops->ref(m->ctx, n->e.stored);
            k++;
        }
    }
    *deleted = d;
    *ndeleted = i;
    *extents = e;
    *nextents = k;
    return 0;
}

/* --- changing ------------------------------------------------------------------------------------------- */

static void remove_piece(struct sfs_map *m, struct sfs_map_node *n)
{
    RB_REMOVE(sfs_map_tree, &m->tree, n);
    m->npieces--;
    m->blocks -= piece_blocks(n->e.len);
    m->ops->unref(m->ctx, n->e.stored);
    free(n);
}

/* Narrows a piece to [from, to), which it covers. A trim that finds no memory leaves the piece valid, only
 * less frugal. */
static void narrow(struct sfs_map *m, struct sfs_map_node *n, uint64_t from, uint64_t to)
{
    m->blocks -= piece_blocks(n->e.len);
    n->e.skip += (uint32_t)(from - n->e.off);
    n->e.off = from; /* keeps the order: the part before was this piece's own */
    n->e.len = (uint32_t)(to - from);
    (void)m->ops->trim(m->ctx, &n->e);
    m->blocks += piece_blocks(n->e.len);
}

/* Cuts off the part of n beyond `at` as a piece of its own. */
static void split(struct sfs_map *m, struct sfs_map_node *n, uint64_t at)
{
    struct sfs_map_node *right = take_node(m);

    right->e = n->e;
    m->ops->ref(m->ctx, right->e.stored);
    m->npieces++;
    m->blocks += piece_blocks(right->e.len); /* narrow takes it away again */
    narrow(m, right, at, sfs_map_end(n));
    narrow(m, n, n->e.off, at);
    RB_INSERT(sfs_map_tree, &m->tree, right);
}

void sfs_map_punch(struct sfs_map *m, uint64_t from, uint64_t to)
{
    struct sfs_map_node *n, *next, *last = NULL;
    uint64_t low;

    if (from >= to)
        return;
    n = sfs_map_find(m, from);
    if (!n || n->e.off >= to)
        return;
    /* One range over all that is touched: hull of whole pieces. */
    low = n->e.off;
    for (next = n; next && next->e.off < to; next = sfs_map_next(next))
        last = next;
    note_changed(m, low, sfs_map_end(last));
    for (; n && n->e.off < to; n = next) {
        next = sfs_map_next(n);
        if (n->e.off < from && sfs_map_end(n) > to) {
            split(m, n, to);
            narrow(m, n, n->e.off, from);
            return;
        }
        if (n->e.off < from)
            narrow(m, n, n->e.off, from);
        else if (sfs_map_end(n) > to)
            narrow(m, n, to, sfs_map_end(n));
        else
            remove_piece(m, n);
    }
}

void sfs_map_insert(struct sfs_map *m, const struct sfs_extent *e, bool loaded)
{
    struct sfs_map_node *n = take_node(m);

    SFS_ASSERT(e->len > 0 && !sfs_map_covers_any(m, e->off, e->off + e->len));
    n->e = *e;
    RB_INSERT(sfs_map_tree, &m->tree, n);
    m->npieces++;
    m->blocks += piece_blocks(e->len);
    if (!loaded)
        note_changed(m, e->off, e->off + e->len);
}

void sfs_map_shift(struct sfs_map *m, uint64_t from, int64_t delta)
{
    struct sfs_map_node *n = sfs_map_find(m, from), *first = n, *last;
    uint64_t low, high;

    if (!n || delta == 0)
        return;
    SFS_ASSERT(n->e.off >= from);
    SFS_ASSERT(delta > 0 || n->e.off >= (uint64_t)-delta);
    last = RB_MAX(sfs_map_tree, &m->tree);
    low = n->e.off;
    high = sfs_map_end(last);
    if (delta > 0)
        high += (uint64_t)delta;
    else
        low -= (uint64_t)-delta;
    struct sfs_map_node *before = RB_PREV(sfs_map_tree, &m->tree, first);
    SFS_ASSERT(!before || sfs_map_end(before) <= low);
    note_changed(m, low, high);
    for (; n; n = sfs_map_next(n)) /* all by the same amount: the order stays */
        n->e.off += (uint64_t)delta;
}
