/* Whole rows of groups with parity (DESIGN.md section 6: parity spaces never read to write).
 *
 * Terms: a row is one unit on every column, `row_blocks` blocks of data; a span is rows that follow each other; a gap is what no run fills.
 *
 * Invariants
 *   P1  a row is written once, data and parity together, when none of its blocks is used: nothing that is stored depends on bytes that are being written
 *   P2  a run is handed on as stored only when all columns of all its rows took the write: one that failed would leave the row's parity wrong (rule 4). Other runs in the row have failed as well
 *   P3  gaps are zeros in the row and in its parity; their blocks are free at once, the row is given out again when all of its blocks are
 *
 * Units that one run fills are written from its buffer; others are put together first, so that every unit is one request. */
#include "fs/data/stripe.h"

#include <stdlib.h>
#include <string.h>

#include "fs/layout/parity.h"

#define PARITY_ALIGN 32u

int sfs_io_list_push(struct sfs_io_list *l, const struct sfs_io *io, struct sfs_io_owner owner)
{
    if (l->n == l->cap) {
        unsigned cap = l->cap ? l->cap * 2 : 32;
        struct sfs_io *v = realloc(l->v, cap * sizeof(*v));
        if (v)
            l->v = v;
        struct sfs_io_owner *o = realloc(l->owner, cap * sizeof(*o));
        if (o)
            l->owner = o;
        if (!v || !o)
            return -ENOMEM;
        l->cap = cap;
    }
    l->owner[l->n] = owner;
    l->v[l->n++] = *io;
    return 0;
}

void sfs_io_list_free(struct sfs_io_list *l)
{
    free(l->v);
    free(l->owner);
    *l = (struct sfs_io_list){0};
}

/* --- packing ------------------------------------------------------------------------------------------------------------------------------ */

static bool wants_place(const struct sfs_run *r)
{
    return !r->group && !r->result && !r->left;
}

static void measure(const struct sfs_runs *rs, uint64_t *blocks, uint64_t *whole)
{
    *blocks = *whole = 0;
    for (unsigned i = 0; i < rs->n; i++) {
        const struct sfs_run *r = &rs->v[i];
        if (!wants_place(r))
            continue;
        *blocks += sfs_blocks(r->slen);
        if (!r->split && sfs_blocks(r->slen) > *whole)
            *whole = sfs_blocks(r->slen);
    }
}

static struct sfs_span *add_span(struct sfs_spans *l, unsigned nruns)
{
    if (l->n == l->cap) {
        unsigned cap = l->cap ? l->cap * 2 : 4;
        struct sfs_span *v = realloc(l->v, cap * sizeof(*v));
        if (!v)
            return NULL;
        l->v = v;
        l->cap = cap;
    }
    struct sfs_span *s = &l->v[l->n];
    *s = (struct sfs_span){.run = calloc(nruns + 1, sizeof(*s->run))};
    if (!s->run)
        return NULL;
    l->n++;
    return s;
}

/* Puts runs into the span, in order, those that fit; returns the blocks filled. */
static uint64_t fill(struct sfs_runs *rs, struct sfs_span *s)
{
    uint64_t first = s->row * s->group->row_blocks, at = first, end = first + s->rows * s->group->row_blocks;
    for (unsigned i = 0, n = rs->n; i < n && at < end; i++) { /* what is split off is for the next span */
        struct sfs_run *r = &rs->v[i];
        uint64_t blocks = sfs_blocks(r->slen);
        if (!wants_place(r) || (blocks > end - at && !r->split))
            continue;
        if (blocks > end - at) {
            blocks = end - at;
            if (sfs_runs_split(rs, i, (uint32_t)(blocks * SFS_BLOCK)))
                continue;
            r = &rs->v[i];
        }
        r->goff = at * SFS_BLOCK;
        at += blocks;
        s->run[s->n++] = i;
        r->group = s->group;
        r->fresh = true;
    }
    return at - first;
}

/* Takes back the last runs until the gap at the end is small beside what is filled; where room is tight, until there is none. */
static uint64_t whole_rows(struct sfs_runs *rs, struct sfs_span *s, uint64_t filled, bool tight)
{
    uint64_t row_blocks = s->group->row_blocks, first = s->row * row_blocks;
    for (;;) {
        uint64_t tail = filled % row_blocks;
        if (tail == 0 || (!tight && row_blocks - tail <= filled / 8))
            return filled;
        uint64_t keep = first + filled - tail;
        while (s->n) {
            struct sfs_run *r = &rs->v[s->run[s->n - 1]];
            if (r->goff / SFS_BLOCK + sfs_blocks(r->slen) <= keep)
                break;
            filled = r->goff / SFS_BLOCK - first;
            r->group = NULL;
            r->fresh = false;
            s->n--;
        }
    }
}

/* Rows taken, runs put into them. False when none went in: the rows are given back. */
static bool pack(struct sfs_data *d, struct sfs_runs *rs, struct sfs_span *s, bool pad, bool tight)
{
    uint64_t row_blocks = s->group->row_blocks, first = s->row * row_blocks;
    uint64_t filled = fill(rs, s);
    if (!pad)
        filled = whole_rows(rs, s, filled, tight);
    uint64_t rows = (filled + row_blocks - 1) / row_blocks;
    SFS_LOCK(d);
    s->group->inflight += s->n; /* W3: one a run */
    SFS_UNLOCK(d);
    if (rows < s->rows)
        sfs_rows_give_back(d, s->group, first + rows * row_blocks, (s->rows - rows) * row_blocks);
    s->rows = rows;
    return rows > 0;
}

int sfs_stripes_place(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags, struct sfs_spans *spans)
{
    for (;;) {
        uint64_t blocks, whole;
        measure(rs, &blocks, &whole);
        if (!blocks)
            return 0;
        struct sfs_span *s = add_span(spans, rs->n);
        if (!s)
            return -ENOMEM;
        int rc = sfs_allocate_rows(v, blocks, whole, flags, &s->group, &s->row, &s->rows);
        SFS_LOCK(v->data);
        bool tight = v->tight;
        SFS_UNLOCK(v->data);
        if (!rc && pack(v->data, rs, s, flags & SFS_ALLOCATE_PAD, tight))
            continue;
        if (!rc)
            sfs_allocate_done(v->data, s->group);
        free(s->run);
        spans->n--;
        return rc ? rc : flags & SFS_ALLOCATE_PAD ? -ENOSPC : -EAGAIN;
    }
}

/* --- putting rows together ---------------------------------------------------------------------------------------------------------------------- */

/* The unit at [from, from + interleave) of the group: the buffer of the one run that fills it, or a new one. *next: the first run that may lie in it. */
static int build_unit(const struct sfs_runs *rs, const struct sfs_span *s, uint64_t from, unsigned *next, struct sfs_buf **buf, size_t *off)
{
    uint64_t end = from + s->group->geo.interleave;
    struct sfs_buf *b = NULL;
    uint64_t at = from;
    for (; *next < s->n; ++*next) {
        const struct sfs_run *r = &rs->v[s->run[*next]];
        uint64_t run_end = r->goff + sfs_blocks(r->slen) * SFS_BLOCK;
        if (r->goff >= end)
            break;
        if (run_end <= from)
            continue;
        uint64_t lo = r->goff > from ? r->goff : from, hi = run_end < end ? run_end : end;
        size_t src = r->buf_off + (lo - r->goff);
        if (lo == from && hi == end && (uintptr_t)(r->buf->data + src) % PARITY_ALIGN == 0) {
            *buf = sfs_buf_ref(r->buf);
            *off = src;
            return 0;
        }
        if (!b && !(b = sfs_buf_new(s->group->geo.interleave)))
            return -ENOMEM;
        memset(b->data + (at - from), 0, lo - at);
        memcpy(b->data + (lo - from), r->buf->data + src, hi - lo);
        at = hi;
        if (run_end >= end)
            break; /* it may go on in the next unit */
    }
    if (!b && !(b = sfs_buf_new(s->group->geo.interleave)))
        return -ENOMEM;
    memset(b->data + (at - from), 0, end - at);
    *buf = b;
    *off = 0;
    return 0;
}

static int build_row(const struct sfs_runs *rs, struct sfs_span *s, uint64_t row, unsigned *next)
{
    const struct sfs_geometry *geo = &s->group->geo;
    unsigned data = sfs_geometry_data_columns(geo);
    struct sfs_buf **buf = s->buf + row * geo->columns; /* data units in order, then parity */
    size_t *off = s->off + row * geo->columns;
    uint8_t *units[SFS_MAX_COLUMNS];
    for (unsigned k = 0; k < geo->columns; k++) {
        int rc = 0;
        if (k < data)
            rc = build_unit(rs, s, ((s->row + row) * data + k) * geo->interleave, next, &buf[k], &off[k]);
        else if (!(buf[k] = sfs_buf_new(geo->interleave)))
            rc = -ENOMEM;
        if (rc)
            return rc;
        units[k] = buf[k]->data + off[k];
    }
    sfs_parity_encode(data, geo->parity, units, geo->interleave);
    return 0;
}

int sfs_stripes_build(const struct sfs_runs *rs, struct sfs_spans *spans)
{
    for (unsigned i = 0; i < spans->n; i++) {
        struct sfs_span *s = &spans->v[i];
        size_t n = s->rows * s->group->geo.columns;
        s->buf = calloc(n, sizeof(struct sfs_buf *));
        s->off = calloc(n, sizeof(*s->off));
        s->failed = calloc(s->rows, sizeof(*s->failed));
        if (!s->buf || !s->off || !s->failed)
            return -ENOMEM;
        unsigned next = 0;
        for (uint64_t row = 0; row < s->rows; row++) {
            int rc = build_row(rs, s, row, &next);
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------------------------------------------------------- */

static int plan_row(struct sfs_data *d, struct sfs_span *s, uint64_t row, struct sfs_io_list *l)
{
    const struct sfs_geometry *geo = &s->group->geo;
    unsigned data = sfs_geometry_data_columns(geo);
    for (unsigned k = 0; k < geo->columns; k++) {
        unsigned column = k < data ? sfs_geometry_data_column(geo, s->row + row, k) : sfs_geometry_parity_column(geo, s->row + row, k - data);
        const struct sfs_slab_row *slab = &s->group->slabs[column];
        if (slab->disk == 0)
            continue;
        struct sfs_member *m = sfs_member_find(d, slab->disk);
        if (!sfs_member_online(m)) {
            s->failed[row] = true;
            return 0;
        }
        struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->disk, .slot = slab->slot, .off = (s->row + row) * geo->interleave, .len = geo->interleave,
                            .buf = s->buf[row * geo->columns + k], .buf_off = s->off[row * geo->columns + k]};
        int rc = sfs_io_list_push(l, &io, (struct sfs_io_owner){.row_failed = &s->failed[row]});
        if (rc)
            return rc;
    }
    return 0;
}

int sfs_stripes_plan(struct sfs_data *d, struct sfs_spans *spans, struct sfs_io_list *l)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < spans->n; i++)
        for (uint64_t row = 0; !rc && row < spans->v[i].rows; row++)
            rc = plan_row(d, &spans->v[i], row, l);
    return rc;
}

/* P2 */
static void fail_runs(struct sfs_runs *rs, const struct sfs_span *s)
{
    uint64_t row_bytes = s->group->row_blocks * SFS_BLOCK;
    for (unsigned i = 0; s->failed && i < s->n; i++) {
        struct sfs_run *r = &rs->v[s->run[i]];
        uint64_t end = r->goff + sfs_blocks(r->slen) * SFS_BLOCK;
        for (uint64_t row = r->goff / row_bytes; row * row_bytes < end; row++)
            r->failed |= s->failed[row - s->row];
    }
}

/* P3 */
static void free_gaps(struct sfs_data *d, const struct sfs_runs *rs, const struct sfs_span *s)
{
    uint64_t at = s->row * s->group->row_blocks, end = at + s->rows * s->group->row_blocks;
    for (unsigned i = 0; i <= s->n; i++) {
        const struct sfs_run *r = i < s->n ? &rs->v[s->run[i]] : NULL;
        uint64_t from = r ? r->goff / SFS_BLOCK : end;
        if (from > at)
            sfs_rows_give_back(d, s->group, at, from - at);
        at = r ? from + sfs_blocks(r->slen) : end;
    }
}

void sfs_stripes_finish(struct sfs_data *d, struct sfs_runs *rs, struct sfs_spans *spans)
{
    for (unsigned i = 0; i < spans->n; i++) {
        struct sfs_span *s = &spans->v[i];
        fail_runs(rs, s);
        free_gaps(d, rs, s);
        sfs_allocate_done(d, s->group);
        for (size_t k = 0; s->buf && k < s->rows * s->group->geo.columns; k++)
            sfs_buf_unref(s->buf[k]);
        free(s->buf);
        free(s->off);
        free(s->failed);
        free(s->run);
    }
    free(spans->v);
    *spans = (struct sfs_spans){0};
}
