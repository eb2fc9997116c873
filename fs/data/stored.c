/* The table of stored extents (stored.h): interning, trimming, and what happens when the last reference goes. */
#include "fs/data/state.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

static int sfs_stored_cmp(struct sfs_stored *a, struct sfs_stored *b)
{
    if (a->key.goff != b->key.goff)
        return a->key.goff < b->key.goff ? -1 : 1;
    return a->key.slen < b->key.slen ? -1 : a->key.slen > b->key.slen;
}
RB_GENERATE(sfs_pending_tree, sfs_stored, pending_link, sfs_stored_cmp)

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
    s = calloc(1, sizeof(*s) + ncsum * sizeof(uint64_t));
    if (!s)
        return NULL;
    s->key = *key;
    s->refs = 1;
    s->rlen = rlen;
    s->codec = codec;
    s->ncsum = ncsum;
    s->applied = applied;
    memcpy(s->csum, csum, ncsum * sizeof(uint64_t));
    HASH_ADD(hh, d->stored, key, sizeof(s->key), s);
    if (!applied) {
        struct sfs_group *g = sfs_group_find(d, key->group);
        SFS_ASSERT(g);
        RB_INSERT(sfs_pending_tree, &g->pending, s);
    }
    return s;
}

static void leave_pending(struct sfs_data *d, struct sfs_stored *s)
{
    struct sfs_group *g = sfs_group_find(d, s->key.group);
    SFS_ASSERT(g);
    RB_REMOVE(sfs_pending_tree, &g->pending, s);
}

void sfs_stored_set_applied(struct sfs_data *d, struct sfs_stored *s)
{
    if (s->applied)
        return;
    leave_pending(d, s);
    s->applied = true;
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
        if (!s->applied) {
            leave_pending(d, s);
            sfs_candidate(d, s->key.group, s->key.goff, s->key.slen);
        }
        if (!s->detached)
            HASH_DEL(d->stored, s);
    } else {
        s = NULL;
    }
    SFS_UNLOCK(d);
    free(s);
}

/* What was at a place that is being written anew is dead: whoever still holds it has no row and no right to read it. */
static void detach_stale(struct sfs_data *d, const struct sfs_stored_key *key)
{
    struct sfs_stored *s;
    HASH_FIND(hh, d->stored, key, sizeof(*key), s);
    if (!s)
        return;
    SFS_ASSERT(s->applied);
    HASH_DEL(d->stored, s);
    s->detached = true;
}

/* Lock held. */
struct sfs_stored *sfs_stored_new(struct sfs_data *d, const struct sfs_stored_key *key, uint32_t rlen, uint8_t codec, uint8_t ncsum,
                                  const uint64_t *csum)
{
    detach_stale(d, key);
    return sfs_stored_intern(d, key, rlen, codec, ncsum, csum, false);
}

void sfs_stored_move(struct sfs_data *d, struct sfs_stored *s, uint64_t group, uint64_t goff)
{
    if (!s->applied) {
        leave_pending(d, s);
        sfs_candidate(d, s->key.group, s->key.goff, s->key.slen);
    }
    if (!s->detached)
        HASH_DEL(d->stored, s);
    s->detached = false;
    s->key.group = group;
    s->key.goff = goff;
    detach_stale(d, &s->key);
    HASH_ADD(hh, d->stored, key, sizeof(s->key), s);
    if (!s->applied) {
        struct sfs_group *g = sfs_group_find(d, group);
        SFS_ASSERT(g);
        RB_INSERT(sfs_pending_tree, &g->pending, s);
    }
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
    struct sfs_stored *t = sfs_stored_intern(d, &key, to - from, SFS_CODEC_NONE, (uint8_t)(last - first + 1), s->csum + first, s->applied);
    if (t && !s->applied && s->lost)
        t->lost = true;
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
