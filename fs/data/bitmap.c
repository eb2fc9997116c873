/* Bitmaps of blocks, and the map of what a group has in use: from the extent index, what is pending, and what is on its way to be free (rule 7: nothing of this is stored). */
#include "fs/data/state.h"

#include <stdlib.h>
#include <string.h>

/* --- bits: pure --------------------------------------------------------------------------------------------------------------------------- */

uint64_t sfs_bit_find(const uint64_t *map, uint64_t from, uint64_t end, bool value)
{
    for (uint64_t i = from; i < end;) {
        uint64_t word = map[i / 64];
        if (!value)
            word = ~word;
        word >>= i % 64;
        if (word) {
            i += (unsigned)__builtin_ctzll(word);
            return i < end ? i : end;
        }
        i = (i / 64 + 1) * 64;
    }
    return end;
}

/* The bits of [from, end) that lie in word w. */
static uint64_t mask_of(uint64_t w, uint64_t from, uint64_t end)
{
    uint64_t mask = ~0ull;
    if (from > w * 64)
        mask &= ~0ull << (from % 64);
    if (end < (w + 1) * 64)
        mask &= ~0ull >> (64 - end % 64);
    return mask;
}

uint64_t sfs_bits_set(uint64_t *map, uint64_t from, uint64_t end)
{
    uint64_t n = 0;
    for (uint64_t w = from / 64; from < end && w <= (end - 1) / 64; w++) {
        uint64_t mask = mask_of(w, from, end);
        n += (unsigned)__builtin_popcountll(mask & ~map[w]);
        map[w] |= mask;
    }
    return n;
}

uint64_t sfs_bits_clear(uint64_t *map, uint64_t from, uint64_t end)
{
    uint64_t n = 0;
    for (uint64_t w = from / 64; from < end && w <= (end - 1) / 64; w++) {
        uint64_t mask = mask_of(w, from, end);
        n += (unsigned)__builtin_popcountll(mask & map[w]);
        map[w] &= ~mask;
    }
    return n;
}

/* --- a group's map -------------------------------------------------------------------------------------------------------------------------- */

static void mark(struct sfs_group_map *m, uint64_t from_bytes, uint64_t bytes)
{
    uint64_t from = from_bytes / SFS_BLOCK, end = from + sfs_blocks(bytes);
    if (end > m->blocks)
        end = m->blocks; /* a row beyond the group's end: refused when it is read, harmless here */
    if (from < end)
        m->used += sfs_bits_set(m->bits, from, end);
}

static int mark_row(uint64_t goff, uint32_t slen, void *ctx)
{
    mark(ctx, goff, slen);
    return 0;
}

int sfs_group_map_rows(struct sfs_data *d, uint64_t id, struct sfs_group_map *m)
{
    *m = (struct sfs_group_map){0};
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    if (g && !g->dropped)
        m->blocks = g->blocks;
    SFS_UNLOCK(d);
    if (!m->blocks)
        return -ENOENT;
    m->bits = calloc(m->blocks / 64 + 1, sizeof(uint64_t));
    if (!m->bits)
        return -ENOMEM;
    return sfs_catalog_group_ranges(d->cat, id, 0, UINT64_MAX >> 1, mark_row, m);
}

static void mark_list(struct sfs_group_map *m, uint64_t group, const struct sfs_freed_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->v[i].group == group && !l->v[i].slots && l->v[i].disk == 0)
            mark(m, l->v[i].goff, l->v[i].len);
}

void sfs_group_map_pending(struct sfs_data *d, const struct sfs_group *g, struct sfs_group_map *m)
{
    struct sfs_stored *s;
    RB_FOREACH(s, sfs_stored_tree, (struct sfs_stored_tree *)&g->pending)
        mark(m, s->key.goff, s->key.slen);
    mark_list(m, g->id, &d->candidates);
}

void sfs_group_map_freed(struct sfs_data *d, const struct sfs_group *g, struct sfs_group_map *m)
{
    mark_list(m, g->id, &d->freed);
    mark_list(m, g->id, &d->releasing);
}

void sfs_group_map_free(struct sfs_group_map *m)
{
    free(m->bits);
    m->bits = NULL;
}
