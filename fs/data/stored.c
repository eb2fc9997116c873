/* The table of stored extents (stored.h): interning, trimming, and what happens when the last reference goes. */
#include "fs/data/state.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

/* By end: behind the place that is being allocated there is mostly nothing, so that looking for what overlaps a new run costs little. */
static int sfs_stored_cmp(struct sfs_stored *a, struct sfs_stored *b)
{
    uint64_t x = sfs_stored_end(a), y = sfs_stored_end(b);
    if (x != y)
        return x < y ? -1 : 1;
    if (a->key.goff != b->key.goff)
        return a->key.goff < b->key.goff ? -1 : 1;
    return a->key.slen < b->key.slen ? -1 : a->key.slen > b->key.slen;
}
RB_GENERATE(sfs_stored_tree, sfs_stored, link, sfs_stored_cmp)

struct sfs_stored *sfs_stored_first(struct sfs_stored_tree *t, uint64_t from)
{
    struct sfs_stored *s = RB_ROOT(t), *best = NULL;
    while (s) {
        if (sfs_stored_end(s) > from) {
            best = s;
            s = RB_LEFT(s, link);
        } else {
            s = RB_RIGHT(s, link);
        }
    }
    return best;
}

/* --- the tables: lock held ------------------------------------------------------------------------------------------------------------------ */

static void attach(struct sfs_data *d, struct sfs_stored *s)
{
    struct sfs_group *g = sfs_group_find(d, s->key.group);
    SFS_ASSERT(g);
    HASH_ADD(hh, d->stored, key, sizeof(s->key), s);
    RB_INSERT(sfs_stored_tree, s->applied ? &g->applied : &g->pending, s);
}

static void detach(struct sfs_data *d, struct sfs_stored *s)
{
    struct sfs_group *g = sfs_group_find(d, s->key.group);
    SFS_ASSERT(g);
    HASH_DEL(d->stored, s);
    RB_REMOVE(sfs_stored_tree, s->applied ? &g->applied : &g->pending, s);
}

/* S4: what was at a place that is being written anew is dead: whoever still holds it has no row and no right to read it. */
static void detach_stale(struct sfs_data *d, struct sfs_group *g, uint64_t from, uint64_t to)
{
    for (struct sfs_stored *s = sfs_stored_first(&g->pending, from); s && sfs_stored_may_overlap(s, to); s = RB_NEXT(sfs_stored_tree, &g->pending, s))
        SFS_ASSERT(s->key.goff >= to); /* S1 */
    for (struct sfs_stored *s = sfs_stored_first(&g->applied, from), *next; s && sfs_stored_may_overlap(s, to); s = next) {
        next = RB_NEXT(sfs_stored_tree, &g->applied, s);
        if (s->key.goff >= to)
            continue;
        detach(d, s);
        s->detached = true;
    }
}

void sfs_stored_detach_all(struct sfs_data *d, struct sfs_group *g)
{
    detach_stale(d, g, 0, g->blocks * SFS_BLOCK);
}

/* In no table yet. One reference. */
static struct sfs_stored *make(const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum, const uint64_t *csum, bool applied)
{
    struct sfs_stored *s = calloc(1, sizeof(*s) + ncsum * sizeof(uint64_t));
    if (!s)
        return NULL;
    s->key = *key;
    s->refs = 1;
    s->rlen = rlen;
    s->codec = codec;
    s->ncsum = ncsum;
    s->applied = applied;
    memcpy(s->csum, csum, ncsum * sizeof(uint64_t));
    return s;
}

/* --- objects ------------------------------------------------------------------------------------------------------------------------------- */

struct sfs_stored *sfs_stored_ref(struct sfs_stored *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

/* Lock held. Returns one reference. An object that is there already keeps its own checksums: the same identity is the same bytes. */
struct sfs_stored *sfs_stored_intern(struct sfs_data *d, const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum,
                                     const uint64_t *csum, bool applied)
{
    struct sfs_stored *s;
    HASH_FIND(hh, d->stored, key, sizeof(*key), s);
    if (s)
        return sfs_stored_ref(s);
    s = make(key, rlen, codec, ncsum, csum, applied);
    if (s)
        attach(d, s);
    return s;
}

void sfs_stored_set_applied(struct sfs_data *d, struct sfs_stored *s)
{
    if (s->applied)
        return;
    detach(d, s);
    s->applied = true;
    attach(d, s);
}

void sfs_stored_unref(struct sfs_data *d, struct sfs_stored *s)
{
    if (!s)
        return;
    /* The last drop is made under the lock, so that the table never hands out a dying object. */
    int n = __atomic_load_n(&s->refs, __ATOMIC_RELAXED);
    while (n > 1)
        if (__atomic_compare_exchange_n(&s->refs, &n, n - 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    SFS_LOCK(d);
    if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        if (!s->detached)
            detach(d, s);
        if (!s->applied)
            sfs_candidate(d, s->key.group, s->key.goff, s->key.slen);
    } else {
        s = NULL;
    }
    SFS_UNLOCK(d);
    free(s);
}

/* Lock held. */
struct sfs_stored *sfs_stored_new(struct sfs_data *d, const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum,
                                  const uint64_t *csum)
{
    struct sfs_group *g = sfs_group_find(d, key->group);
    SFS_ASSERT(g);
    detach_stale(d, g, key->goff, key->goff + sfs_blocks(key->slen) * SFS_BLOCK);
    return sfs_stored_intern(d, key, rlen, codec, ncsum, csum, false);
}

void sfs_stored_move(struct sfs_data *d, struct sfs_stored *s, uint64_t group, uint64_t goff)
{
    struct sfs_group *g = sfs_group_find(d, group);
    SFS_ASSERT(g && !s->detached);
    if (!s->applied)
        sfs_candidate(d, s->key.group, s->key.goff, s->key.slen);
    detach(d, s);
    s->key.group = group;
    s->key.goff = goff;
    detach_stale(d, g, goff, sfs_stored_end(s));
    attach(d, s);
}

static void move_tree(struct sfs_data *d, struct sfs_stored_tree *t, uint64_t lo, uint64_t hi, struct sfs_group *to, uint64_t goff)
{
    for (struct sfs_stored *s = sfs_stored_first(t, lo), *next; s && sfs_stored_end(s) <= hi; s = next) {
        next = RB_NEXT(sfs_stored_tree, t, s);
        if (s->key.goff < lo)
            continue;
        detach(d, s);
        s->key.group = to->id;
        s->key.goff = goff + (s->key.goff - lo);
        attach(d, s);
    }
}

void sfs_stored_move_range(struct sfs_data *d, struct sfs_group *from, uint64_t lo, uint64_t hi, struct sfs_group *to, uint64_t goff)
{
    SFS_ASSERT(from != to);
    detach_stale(d, to, goff, goff + (hi - lo));
    move_tree(d, &from->pending, lo, hi, to, goff);
    move_tree(d, &from->applied, lo, hi, to, goff);
}

static bool row_is_sane(const struct sfs_extent_row *r)
{
    return r->len > 0 && r->slen > 0 && r->slen <= SFS_EXTENT_MAX && r->goff % SFS_BLOCK == 0 && r->rlen <= SFS_EXTENT_MAX &&
           (uint64_t)r->skip + r->len <= r->rlen && (r->codec != SFS_CODEC_NONE || r->rlen == r->slen) &&
           r->ncsum == sfs_checksum_count(r->codec, r->slen) && r->ncsum <= SFS_EXTENT_MAX_CSUMS &&
           (r->codec == SFS_CODEC_NONE || r->rlen <= SFS_CODEC_RAW_MAX);
}

int sfs_extent_from_row(struct sfs_data *d, const struct sfs_extent_row *row, struct sfs_extent *out)
{
    if (!row_is_sane(row))
        return -EUCLEAN;
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, row->group);
    if (!g || row->goff + row->slen > g->blocks * SFS_BLOCK) {
        rc = -EUCLEAN;
        goto out;
    }
    struct sfs_stored_key key = {row->group, row->goff, row->slen};
    struct sfs_stored *s = sfs_stored_intern(d, &key, row->rlen, row->codec, row->ncsum, row->csum, true);
    if (!s) {
        rc = -ENOMEM;
        goto out;
    }
    if (s->rlen != row->rlen || s->codec != row->codec || s->ncsum != row->ncsum || memcmp(s->csum, row->csum, s->ncsum * sizeof(uint64_t))) {
        rc = -EUCLEAN; /* two rows that contradict each other about the same place */
        goto drop;
    }
    *out = (struct sfs_extent){.off = row->off, .len = row->len, .skip = row->skip, .stored = s};
out:
    SFS_UNLOCK(d);
    return rc;
drop:
    SFS_UNLOCK(d);
    sfs_stored_unref(d, s);
    return rc;
}

void sfs_extent_to_row(struct sfs_data *d, const struct sfs_extent *e, struct sfs_extent_row *row)
{
    struct sfs_stored *s = e->stored;
    SFS_LOCK(d);
    *row = (struct sfs_extent_row){.off = e->off, .len = e->len, .skip = e->skip, .group = s->key.group, .goff = s->key.goff,
                                   .slen = (uint32_t)s->key.slen, .rlen = s->rlen, .codec = s->codec, .ncsum = s->ncsum};
    memcpy(row->csum, s->csum, s->ncsum * sizeof(uint64_t));
    SFS_UNLOCK(d);
}

int sfs_extent_trim(struct sfs_data *d, struct sfs_extent *e)
{
    struct sfs_stored *s = e->stored;
    if (s->codec != SFS_CODEC_NONE)
        return 0;
    uint32_t first = e->skip / SFS_CSUM_GRANULE, last = (e->skip + e->len - 1) / SFS_CSUM_GRANULE;
    if (first == 0 && last + 1 == s->ncsum)
        return 0;
    uint32_t from = first * SFS_CSUM_GRANULE, to = (last + 1) * SFS_CSUM_GRANULE;
    if (to > s->rlen)
        to = s->rlen;
    SFS_LOCK(d);
    struct sfs_stored_key key = {s->key.group, s->key.goff + from, to - from};
    uint8_t ncsum = (uint8_t)(last - first + 1);
    struct sfs_stored *t;
    if (s->detached) { /* a piece of what is dead is dead */
        t = make(&key, to - from, SFS_CODEC_NONE, ncsum, s->csum + first, s->applied);
        if (t)
            t->detached = true;
    } else {
        t = sfs_stored_intern(d, &key, to - from, SFS_CODEC_NONE, ncsum, s->csum + first, s->applied);
    }
    if (t && !s->applied)
        t->lost |= s->lost, t->kept |= s->kept;
    SFS_UNLOCK(d);
    if (!t)
        return -ENOMEM;
    e->stored = t;
    e->skip -= from;
    sfs_stored_unref(d, s);
    return 0;
}

bool sfs_stored_same(const struct sfs_stored *a, const struct sfs_stored *b)
{
    return a == b;
}

uint64_t sfs_stored_bytes(const struct sfs_stored *s)
{
    return sfs_blocks(s->key.slen) * SFS_BLOCK;
}
