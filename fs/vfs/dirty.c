/* Dirty blocks (dirty.h). */
#include "fs/vfs/dirty.h"

#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"

static int chunk_cmp(struct sfs_chunk *a, struct sfs_chunk *b)
{
    return a->off < b->off ? -1 : a->off > b->off;
}
RB_PROTOTYPE(sfs_chunk_tree, sfs_chunk, link, chunk_cmp)
RB_GENERATE(sfs_chunk_tree, sfs_chunk, link, chunk_cmp)

/* --- bits ----------------------------------------------------------------------------------------------- */

static bool bit(const struct sfs_bits *b, unsigned i)
{
    return b->w[i / 64] >> (i % 64) & 1;
}

static void set_bit(struct sfs_bits *b, unsigned i)
{
    b->w[i / 64] |= (uint64_t)1 << (i % 64);
}

static void clear_bit(struct sfs_bits *b, unsigned i)
{
    b->w[i / 64] &= ~((uint64_t)1 << (i % 64));
}

/* The first bit at or after i that is in a and not in b (b may be NULL); SFS_CHUNK_BLOCKS: none. */
static unsigned next_bit(const struct sfs_bits *a, const struct sfs_bits *b, unsigned i)
{
    while (i < SFS_CHUNK_BLOCKS) {
        uint64_t w = a->w[i / 64] & ~(b ? b->w[i / 64] : 0);
        w >>= i % 64;
        if (w)
            return i + (unsigned)__builtin_ctzll(w);
        i = (i / 64 + 1) * 64;
    }
    return SFS_CHUNK_BLOCKS;
}

/* --- chunks --------------------------------------------------------------------------------------------- */

void sfs_dirty_init(struct sfs_dirty *d)
{
    *d = (struct sfs_dirty){0};
    RB_INIT(&d->tree);
}

static struct sfs_chunk *find_chunk(struct sfs_dirty *d, uint64_t off)
{
    struct sfs_chunk key = {.off = off / SFS_CHUNK * SFS_CHUNK};

    return RB_FIND(sfs_chunk_tree, &d->tree, &key);
}

/* The first chunk that ends beyond off. */
static struct sfs_chunk *find_chunk_from(struct sfs_dirty *d, uint64_t off)
{
    struct sfs_chunk key = {.off = off / SFS_CHUNK * SFS_CHUNK};

    return RB_NFIND(sfs_chunk_tree, &d->tree, &key);
}

static struct sfs_chunk *make_chunk(struct sfs_dirty *d, uint64_t off)
{
    struct sfs_chunk *c = find_chunk(d, off);

    if (c)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->off = off / SFS_CHUNK * SFS_CHUNK;
    RB_INSERT(sfs_chunk_tree, &d->tree, c);
    return c;
}

static void free_chunk_if_empty(struct sfs_dirty *d, struct sfs_chunk *c)
{
    if (c->ndirty || c->nwriting)
        return;
    RB_REMOVE(sfs_chunk_tree, &d->tree, c);
    for (unsigned i = 0; i < SFS_CHUNK_WINDOWS; i++)
        free(c->window[i]);
    free(c);
}

static uint8_t **slot_of(struct sfs_chunk *c, unsigned i)
{
    struct sfs_window *w = c->window[i / SFS_WINDOW_BLOCKS];

    return w ? &w->block[i % SFS_WINDOW_BLOCKS] : NULL;
}

static unsigned index_of(uint64_t off)
{
    return (unsigned)(off % SFS_CHUNK / SFS_BLOCK);
}

static void count_dirty(struct sfs_dirty *d, struct sfs_chunk *c, int delta)
{
    d->nfull -= c->ndirty == SFS_CHUNK_BLOCKS;
    c->ndirty += (unsigned)delta;
    d->ndirty += (uint64_t)(int64_t)delta;
    d->nfull += c->ndirty == SFS_CHUNK_BLOCKS;
}

/* The block's dirty contents go; its fresh bit stays when it is being written too. */
static void drop_block(struct sfs_dirty *d, struct sfs_chunk *c, unsigned i)
{
    uint8_t **slot = slot_of(c, i);

    free(*slot);
    *slot = NULL;
    clear_bit(&c->dirty, i);
    count_dirty(d, c, -1);
    if (bit(&c->fresh, i) && !bit(&c->writing, i)) {
        clear_bit(&c->fresh, i);
        d->nfresh--;
    }
}

void sfs_dirty_clear(struct sfs_dirty *d)
{
    SFS_ASSERT(d->nwriting == 0);
    sfs_dirty_drop(d, 0, UINT64_MAX);
    SFS_ASSERT(RB_EMPTY(&d->tree) && d->ndirty == 0 && d->nfresh == 0);
}

/* --- blocks --------------------------------------------------------------------------------------------- */

uint8_t *sfs_dirty_get(struct sfs_dirty *d, uint64_t off)
{
    struct sfs_chunk *c = find_chunk(d, off);
    uint8_t **slot = c ? slot_of(c, index_of(off)) : NULL;

    return slot ? *slot : NULL;
}

bool sfs_dirty_is_writing(struct sfs_dirty *d, uint64_t off)
{
    struct sfs_chunk *c = find_chunk(d, off);

    return c && bit(&c->writing, index_of(off));
}

uint8_t *sfs_dirty_add(struct sfs_dirty *d, uint64_t off, uint64_t stamp, bool stored, bool *made)
{
    struct sfs_chunk *c = make_chunk(d, off);
    unsigned i = index_of(off);

    *made = false;
    if (!c)
        return NULL;
    if (!c->window[i / SFS_WINDOW_BLOCKS]) {
        c->window[i / SFS_WINDOW_BLOCKS] = calloc(1, sizeof(struct sfs_window));
        if (!c->window[i / SFS_WINDOW_BLOCKS])
            goto nomem;
    }
    uint8_t **slot = slot_of(c, i);
    if (*slot)
        return *slot;
    *slot = malloc(SFS_BLOCK);
    if (!*slot)
        goto nomem;
    if (c->ndirty == 0)
        c->stamp = stamp;
    set_bit(&c->dirty, i);
    count_dirty(d, c, 1);
    if (!stored && !bit(&c->writing, i) && !bit(&c->fresh, i)) {
        set_bit(&c->fresh, i);
        d->nfresh++;
    }
    *made = true;
    return *slot;
nomem:
    free_chunk_if_empty(d, c);
    return NULL;
}

uint64_t sfs_dirty_drop(struct sfs_dirty *d, uint64_t from, uint64_t to)
{
    struct sfs_chunk *c, *next;
    uint64_t dropped = 0;

    for (c = find_chunk_from(d, from); c && c->off < to; c = next) {
        next = RB_NEXT(sfs_chunk_tree, &d->tree, c);
        unsigned i = c->off < from ? index_of(from) : 0;
        for (i = next_bit(&c->dirty, NULL, i); i < SFS_CHUNK_BLOCKS; i = next_bit(&c->dirty, NULL, i + 1)) {
            if (c->off + (uint64_t)i * SFS_BLOCK >= to)
                break;
            drop_block(d, c, i);
            dropped++;
        }
        free_chunk_if_empty(d, c);
    }
    return dropped;
}

bool sfs_dirty_next(struct sfs_dirty *d, uint64_t from, uint64_t to, uint64_t *off, uint8_t **data)
{
    for (struct sfs_chunk *c = find_chunk_from(d, from); c && c->off < to;
         c = RB_NEXT(sfs_chunk_tree, &d->tree, c)) {
        unsigned i = next_bit(&c->dirty, NULL, c->off < from ? index_of(from) : 0);
        if (i == SFS_CHUNK_BLOCKS)
            continue;
        *off = c->off + (uint64_t)i * SFS_BLOCK;
        *data = *slot_of(c, i);
        return *off < to;
    }
    return false;
}

uint64_t sfs_dirty_lowest(struct sfs_dirty *d, uint64_t off)
{
    for (struct sfs_chunk *c = find_chunk_from(d, off); c; c = RB_NEXT(sfs_chunk_tree, &d->tree, c)) {
        unsigned start = c->off < off ? index_of(off) : 0;
        unsigned i = next_bit(&c->dirty, NULL, start), k = next_bit(&c->writing, NULL, start);
        if (k < i)
            i = k;
        if (i < SFS_CHUNK_BLOCKS)
            return c->off + (uint64_t)i * SFS_BLOCK;
    }
    return UINT64_MAX;
}

/* --- write-back ----------------------------------------------------------------------------------------- */

bool sfs_dirty_pick(struct sfs_dirty *d, bool full, uint64_t limit, uint64_t *off, unsigned *nblocks)
{
    struct sfs_chunk *c;

    if (full && d->nfull == 0)
        return false;
    RB_FOREACH(c, sfs_chunk_tree, &d->tree) {
        if (c->ndirty == 0 || c->stamp > limit || (full && (c->ndirty < SFS_CHUNK_BLOCKS || c->nwriting > 0)))
            continue;
        unsigned i = next_bit(&c->dirty, &c->writing, 0), end = i;
        if (i == SFS_CHUNK_BLOCKS)
            continue;
        while (end < SFS_CHUNK_BLOCKS && bit(&c->dirty, end) && !bit(&c->writing, end))
            end++;
        *off = c->off + (uint64_t)i * SFS_BLOCK;
        *nblocks = end - i;
        return true;
    }
    return false;
}

uint64_t sfs_dirty_take(struct sfs_dirty *d, uint64_t off, unsigned nblocks, uint8_t *out)
{
    struct sfs_chunk *c = find_chunk(d, off);
    unsigned first = index_of(off);

    SFS_ASSERT(c && first + nblocks <= SFS_CHUNK_BLOCKS);
    for (unsigned i = first; i < first + nblocks; i++) {
        uint8_t **slot = slot_of(c, i);
        SFS_ASSERT(slot && *slot && !bit(&c->writing, i));
        memcpy(out + (size_t)(i - first) * SFS_BLOCK, *slot, SFS_BLOCK);
        set_bit(&c->writing, i);
        c->nwriting++;
        d->nwriting++;
        drop_block(d, c, i);
    }
    return c->stamp;
}

static void end_writing(struct sfs_dirty *d, struct sfs_chunk *c, unsigned i)
{
    SFS_ASSERT(bit(&c->writing, i));
    clear_bit(&c->writing, i);
    c->nwriting--;
    d->nwriting--;
}

void sfs_dirty_written(struct sfs_dirty *d, uint64_t off, unsigned nblocks)
{
    struct sfs_chunk *c = find_chunk(d, off);
    unsigned first = index_of(off);

    SFS_ASSERT(c);
    for (unsigned i = first; i < first + nblocks; i++) {
        end_writing(d, c, i);
        if (bit(&c->fresh, i)) {
            clear_bit(&c->fresh, i);
            d->nfresh--;
        }
    }
    free_chunk_if_empty(d, c);
}

unsigned sfs_dirty_restore(struct sfs_dirty *d, uint64_t off, unsigned nblocks, const uint8_t *data,
                           uint64_t stamp)
{
    struct sfs_chunk *c = find_chunk(d, off);
    unsigned first = index_of(off), restored = 0;

    SFS_ASSERT(c);
    for (unsigned i = first; i < first + nblocks; i++) {
        bool fresh = bit(&c->fresh, i), made = false;
        if (!bit(&c->dirty, i)) {
            /* While the writing bit is set the chunk stays, and the fresh bit is kept. */
            uint8_t *p = sfs_dirty_add(d, off + (uint64_t)(i - first) * SFS_BLOCK, stamp, !fresh, &made);
            if (p) {
                memcpy(p, data + (size_t)(i - first) * SFS_BLOCK, SFS_BLOCK);
                restored++;
            }
        }
        end_writing(d, c, i);
        if (fresh && !bit(&c->dirty, i)) {
            clear_bit(&c->fresh, i);
            d->nfresh--;
        }
    }
    if (restored)
        c->stamp = stamp; /* not again in the flush that failed */
    free_chunk_if_empty(d, c);
    return restored;
}
