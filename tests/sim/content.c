#include "tests/sim/content.h"

#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/pattern.h"

static void *grow(void *array, unsigned *room, unsigned need, size_t size)
{
    unsigned n = *room ? *room : 4;

    if (need <= *room)
        return array;
    while (n < need)
        n *= 2;
    array = realloc(array, n * size);
    SFS_ASSERT(array);
    *room = n;
    return array;
}

/* --- versions ------------------------------------------------------------------------------------------------------------------ */

static void append_seg(struct sim_version *v, uint64_t len, uint32_t tag, uint64_t origin)
{
    struct sim_seg *last = v->nsegs ? &v->segs[v->nsegs - 1] : NULL;

    if (len == 0)
        return;
    if (last && last->tag == tag && (tag == 0 || last->origin + last->len == origin)) {
        last->len += len;
    } else {
        v->segs = grow(v->segs, &v->room, v->nsegs + 1, sizeof(*v->segs));
        v->segs[v->nsegs++] = (struct sim_seg){.off = v->size, .len = len, .tag = tag, .origin = origin};
    }
    v->size += len;
}

static unsigned seg_at(const struct sim_version *v, uint64_t off)
{
    unsigned low = 0, high = v->nsegs;

    while (low + 1 < high) {
        unsigned mid = (low + high) / 2;

        if (v->segs[mid].off <= off)
            low = mid;
        else
            high = mid;
    }
    return low;
}

void sim_version_append(struct sim_version *v, const struct sim_version *from, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;

    if (off < from->size) {
        for (unsigned i = seg_at(from, off); i < from->nsegs && off < end; i++) {
            const struct sim_seg *s = &from->segs[i];
            uint64_t skip = off - s->off, n = s->len - skip;

            if (n > end - off)
                n = end - off;
            append_seg(v, n, s->tag, s->origin + skip);
            off += n;
        }
    }
    append_seg(v, end - off, 0, 0);
}

void sim_version_render(const struct sim_version *v, uint64_t off, uint64_t len, uint8_t *out)
{
    uint64_t end = off + len;

    if (off < v->size) {
        for (unsigned i = seg_at(v, off); i < v->nsegs && off < end; i++) {
            const struct sim_seg *s = &v->segs[i];
            uint64_t skip = off - s->off, n = s->len - skip;

            if (n > end - off)
                n = end - off;
            sim_pattern_fill(out, s->tag, s->origin + skip, n);
            out += n;
            off += n;
        }
    }
    memset(out, 0, end - off);
}

bool sim_version_zero(const struct sim_version *v, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;

    if (len == 0 || off >= v->size)
        return true;
    for (unsigned i = seg_at(v, off); i < v->nsegs && v->segs[i].off < end; i++) {
        if (v->segs[i].tag != 0)
            return false;
    }
    return true;
}

/* --- the list of them ------------------------------------------------------------------------------------------------------------ */

void sim_content_init(struct sim_content *c, uint64_t clock)
{
    *c = (struct sim_content){0};
    c->versions = grow(NULL, &c->room, 1, sizeof(*c->versions));
    c->versions[0] = (struct sim_version){.start = clock, .end = clock};
    c->n = 1;
}

void sim_content_free(struct sim_content *c)
{
    for (unsigned i = 0; i < c->n; i++)
        free(c->versions[i].segs);
    free(c->versions);
    *c = (struct sim_content){0};
}

struct sim_version *sim_content_last(const struct sim_content *c)
{
    SFS_ASSERT(c->n > 0);
    return &c->versions[c->n - 1];
}

uint64_t sim_content_size(const struct sim_content *c)
{
    return sim_content_last(c)->size;
}

void sim_content_done(struct sim_content *c, uint64_t end, uint64_t at_ns)
{
    struct sim_version *v = sim_content_last(c);

    v->end = end;
    v->at_ns = at_ns;
}

static void drop_first(struct sim_content *c, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        free(c->versions[i].segs);
    c->n -= n;
    memmove(c->versions, c->versions + n, c->n * sizeof(*c->versions));
}

void sim_content_floor(struct sim_content *c, uint64_t number)
{
    unsigned n = 0;

    while (n + 1 < c->n && c->versions[n].number < number)
        n++;
    drop_first(c, n);
}

void sim_content_floor_ns(struct sim_content *c, uint64_t ns)
{
    unsigned n = 0;

    while (n + 1 < c->n && c->versions[n + 1].at_ns <= ns)
        n++;
    drop_first(c, n);
}

void sim_content_reset(struct sim_content *c, struct sim_version *v)
{
    drop_first(c, c->n);
    c->versions[0] = *v;
    c->n = 1;
}

/* Begins a new version; `*old` is the one before. Both pointers hold until the next call. */
static struct sim_version *begin(struct sim_content *c, uint64_t clock, const struct sim_version **old)
{
    struct sim_version *v;

    c->versions = grow(c->versions, &c->room, c->n + 1, sizeof(*c->versions));
    v = &c->versions[c->n];
    *old = &c->versions[c->n - 1];
    *v = (struct sim_version){.number = (*old)->number + 1, .start = clock, .end = UINT64_MAX, .at_ns = UINT64_MAX};
    c->n++;
    return v;
}

static void append_rest(struct sim_version *v, const struct sim_version *old, uint64_t from)
{
    if (from < old->size)
        sim_version_append(v, old, from, old->size - from);
}

void sim_content_write(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len, uint32_t tag)
{
    const struct sim_version *old;
    struct sim_version *v = begin(c, clock, &old);

    sim_version_append(v, old, 0, off);
    append_seg(v, len, tag, 0);
    append_rest(v, old, off + len);
}

void sim_content_truncate(struct sim_content *c, uint64_t clock, uint64_t size)
{
    const struct sim_version *old;
    struct sim_version *v = begin(c, clock, &old);

    sim_version_append(v, old, 0, size);
}

void sim_content_zero(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len, bool keep_size)
{
    const struct sim_version *old;
    struct sim_version *v = begin(c, clock, &old);
    uint64_t end = off + len;

    if (keep_size && end > old->size)
        end = old->size;
    if (off >= end) {
        append_rest(v, old, 0);
        return;
    }
    sim_version_append(v, old, 0, off);
    append_seg(v, end - off, 0, 0);
    append_rest(v, old, end);
}

void sim_content_collapse(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len)
{
    const struct sim_version *old;
    struct sim_version *v = begin(c, clock, &old);

    sim_version_append(v, old, 0, off);
    append_rest(v, old, off + len);
}

void sim_content_insert(struct sim_content *c, uint64_t clock, uint64_t off, uint64_t len)
{
    const struct sim_version *old;
    struct sim_version *v = begin(c, clock, &old);

    sim_version_append(v, old, 0, off);
    append_seg(v, len, 0, 0);
    append_rest(v, old, off);
}

void sim_content_copy(struct sim_content *c, uint64_t clock, uint64_t off, const struct sim_version *from, uint64_t from_off, uint64_t len)
{
    struct sim_version taken = {0};
    const struct sim_version *old;
    struct sim_version *v;

    sim_version_append(&taken, from, from_off, len); /* from may be a version of c itself, and move */
    v = begin(c, clock, &old);
    sim_version_append(v, old, 0, off);
    sim_version_append(v, &taken, 0, len);
    append_rest(v, old, off + len);
    free(taken.segs);
}
