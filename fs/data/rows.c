/* Rows of a group with parity, whole (rows.h).
 *
 * A row's parity is that of all its bytes: of live ones, which checksums guard, and of dead ones, which nothing guards and nobody reads, but which are needed to rebuild live ones. So who builds a slab anew carries its
 * whole unit of each row in which anything lives.
 *
 * Order in each window of rows: first every stored extent is verified, and repaired on its disk; then the units are read as they are; then what could not be read is rebuilt, and what lives in that is verified again: dead bytes
 * of other columns may be stale (a disk that came back older than it was), and spoil it.
 *
 * Parity is rewritten in place only where every column of the row was read: while one is missing, its bytes are nowhere but in the parity, and a crash may tear that. */
#include "fs/data/rows.h"

#include <stdlib.h>
#include <string.h>

#include "fs/data/codec.h"
#include "fs/layout/parity.h"

#define WINDOW_BYTES (8u << 20) /* small enough to be still in the host's memory when it is read again */
#define STRIP_BYTES (256u << 10)

/* --- one strip ---------------------------------------------------------------------------------------------------------------------------- */

static void strip_free(struct sfs_strip *s)
{
    for (unsigned c = 0; c < SFS_MAX_COLUMNS; c++) {
        sfs_buf_unref(s->unit[c]);
        free(s->have[c]);
    }
}

/* Lock held. Reads of what isn't there yet: a column at once, or block by block. */
static int plan_strip(struct sfs_strip *s, bool whole, struct sfs_ios *l)
{
    for (unsigned c = 0; c < s->g->geo.columns; c++) {
        struct sfs_member *m = sfs_member_find(s->d, s->g->slabs[c].disk);
        uint32_t step = whole ? s->len : SFS_BLOCK;
        for (uint32_t at = 0; sfs_member_online(m) && at < s->len; at += step) {
            if (s->have[c][at / SFS_BLOCK])
                continue;
            struct sfs_io io = {.op = SFS_IO_READ, .disk = m->disk, .slot = s->g->slabs[c].slot, .off = s->slab_off + at, .len = step, .buf = s->unit[c], .buf_off = at};
            int rc = sfs_ios_push(l, &io);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int read_strip(struct sfs_strip *s)
{
    unsigned columns = s->g->geo.columns;
    for (unsigned c = 0; c < columns; c++) {
        s->unit[c] = sfs_buf_new(s->len);
        s->have[c] = calloc(s->len / SFS_BLOCK, 1);
        if (!s->unit[c] || !s->have[c])
            return -ENOMEM;
    }
    int rc = 0;
    for (unsigned pass = 0; !rc && pass < 2; pass++) {
        struct sfs_ios l = {0};
        SFS_LOCK(s->d);
        rc = plan_strip(s, pass == 0, &l);
        SFS_UNLOCK(s->d);
        if (!rc && l.n)
            sfs_io_run(l.v, l.n);
        for (unsigned i = 0; !rc && i < l.n; i++)
            for (unsigned c = 0; c < columns; c++)
                if (l.v[i].buf == s->unit[c] && !l.v[i].result)
                    memset(s->have[c] + l.v[i].buf_off / SFS_BLOCK, SFS_STRIP_READ, l.v[i].len / SFS_BLOCK);
        free(l.v);
    }
    return rc;
}

static unsigned lost_at(const struct sfs_strip *s, uint32_t block)
{
    unsigned lost = 0;
    for (unsigned c = 0; c < s->g->geo.columns; c++)
        lost |= (unsigned)(s->have[c][block] == SFS_STRIP_UNKNOWN) << c;
    return lost;
}

/* What could not be read is rebuilt, runs of blocks at a time; zeros where that can't be done. */
static void rebuild_strip(struct sfs_strip *s)
{
    uint32_t blocks = s->len / SFS_BLOCK;
    for (uint32_t from = 0, to; from < blocks; from = to) {
        unsigned lost = lost_at(s, from);
        for (to = from + 1; to < blocks && lost_at(s, to) == lost; to++)
            ;
        if (!lost)
            continue;
        uint8_t *units[SFS_MAX_COLUMNS];
        size_t len = (size_t)(to - from) * SFS_BLOCK;
        for (unsigned c = 0; c < s->g->geo.columns; c++)
            units[c] = s->unit[c]->data + (size_t)from * SFS_BLOCK;
        bool known = !sfs_units_rebuild(&s->g->geo, s->row, units, len, lost);
        for (unsigned c = 0; c < s->g->geo.columns; c++) {
            if (!(lost >> c & 1))
                continue;
            if (known)
                memset(s->have[c] + from, SFS_STRIP_REBUILT, to - from);
            else
                memset(units[c], 0, len);
        }
    }
}

static bool all_read(const struct sfs_strip *s)
{
    for (unsigned c = 0; c < s->g->geo.columns; c++)
        for (uint32_t b = 0; b < s->len / SFS_BLOCK; b++)
            if (s->have[c][b] != SFS_STRIP_READ)
                return false;
    return true;
}

/* The rewrites of parity column c where it differs from what it should be. */
static int plan_mend(struct sfs_strip *s, unsigned c, struct sfs_buf *right, struct sfs_ios *l)
{
    bool any = false;
    SFS_LOCK(s->d);
    struct sfs_member *m = sfs_member_find(s->d, s->g->slabs[c].disk);
    int rc = 0;
    for (uint32_t at = 0; !rc && sfs_member_online(m) && at < s->len; at += SFS_BLOCK) {
        if (s->have[c][at / SFS_BLOCK] != SFS_STRIP_READ || !memcmp(s->unit[c]->data + at, right->data + at, SFS_BLOCK))
            continue;
        struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->disk, .slot = s->g->slabs[c].slot, .off = s->slab_off + at, .len = SFS_BLOCK, .buf = right, .buf_off = at};
        rc = sfs_ios_push(l, &io);
        m->repaired += !rc;
        any = true;
    }
    if (any)
        m->row.checksum_errors++;
    SFS_UNLOCK(s->d);
    return rc;
}

static void write_mended(struct sfs_data *d, struct sfs_ios *l)
{
    sfs_io_run(l->v, l->n); /* a failure fences the disk */
    SFS_LOCK(d);
    for (unsigned i = 0; i < l->n; i++) {
        struct sfs_member *m = sfs_member_of(d, l->v[i].disk);
        if (m)
            m->dirty = true;
    }
    SFS_UNLOCK(d);
}

int sfs_strip_mend_parity(struct sfs_strip *s, unsigned *bad)
{
    const struct sfs_geometry *geo = &s->g->geo;
    unsigned data = sfs_geometry_data_columns(geo);
    struct sfs_buf *right[2] = {NULL, NULL};
    uint8_t *units[SFS_MAX_COLUMNS];
    struct sfs_ios l = {0};
    bool in_place = !s->damaged && all_read(s);
    int rc = 0;
    *bad = 0;
    for (unsigned k = 0; k < data; k++) {
        unsigned c = sfs_geometry_data_column(geo, s->row, k);
        if (memchr(s->have[c], SFS_STRIP_UNKNOWN, s->len / SFS_BLOCK))
            return 0;
        units[k] = s->unit[c]->data;
    }
    for (unsigned i = 0; !rc && i < geo->parity; i++) {
        right[i] = sfs_buf_new(s->len);
        units[data + i] = right[i] ? right[i]->data : NULL;
        rc = right[i] ? 0 : -ENOMEM;
    }
    if (!rc)
        sfs_parity_encode(data, geo->parity, units, s->len);
    for (unsigned i = 0; !rc && i < geo->parity; i++) {
        unsigned c = sfs_geometry_parity_column(geo, s->row, i), before = l.n;
        if (in_place)
            rc = plan_mend(s, c, right[i], &l);
        *bad += l.n > before;
    }
    if (!rc && l.n && !sfs_data_readonly(s->d))
        write_mended(s->d, &l);
    for (unsigned i = 0; i < geo->parity; i++) {
        unsigned c = sfs_geometry_parity_column(geo, s->row, i);
        if (!rc && !s->damaged) {
            memcpy(s->unit[c]->data, right[i]->data, s->len);
            memset(s->have[c], SFS_STRIP_REBUILT, s->len / SFS_BLOCK);
        }
        sfs_buf_unref(right[i]);
    }
    free(l.v);
    return rc;
}

/* Does the parity that was read fit the data that was read? Columns whose slab is nowhere are passed over; one that could not be read is an error. */
static int compare_strip(const struct sfs_strip *s)
{
    const struct sfs_geometry *geo = &s->g->geo;
    unsigned data = sfs_geometry_data_columns(geo);
    struct sfs_buf *right[2] = {NULL, NULL};
    uint8_t *units[SFS_MAX_COLUMNS];
    bool whole = true;
    int rc = 0;
    for (unsigned c = 0; c < geo->columns; c++) {
        bool nowhere = s->g->slabs[c].disk == 0;
        if (!nowhere && memchr(s->have[c], SFS_STRIP_UNKNOWN, s->len / SFS_BLOCK))
            return -EIO;
        whole &= !nowhere;
    }
    if (!whole)
        return 0; /* what should be there follows from what is compared here, and cannot be told twice */
    for (unsigned k = 0; k < data; k++)
        units[k] = s->unit[sfs_geometry_data_column(geo, s->row, k)]->data;
    for (unsigned i = 0; !rc && i < geo->parity; i++) {
        right[i] = sfs_buf_new(s->len);
        units[data + i] = right[i] ? right[i]->data : NULL;
        rc = right[i] ? 0 : -ENOMEM;
    }
    if (!rc)
        sfs_parity_encode(data, geo->parity, units, s->len);
    for (unsigned i = 0; !rc && i < geo->parity; i++)
        if (memcmp(right[i]->data, s->unit[sfs_geometry_parity_column(geo, s->row, i)]->data, s->len))
            rc = -EIO;
    for (unsigned i = 0; i < geo->parity; i++)
        sfs_buf_unref(right[i]);
    return rc;
}

int sfs_row_compare(struct sfs_data *d, struct sfs_group *g, uint64_t row)
{
    uint32_t interleave = g->geo.interleave;
    int rc = 0;
    for (uint32_t at = 0; !rc && at < interleave; at += STRIP_BYTES) {
        struct sfs_strip s = {.d = d, .g = g, .row = row, .slab_off = row * interleave + at, .len = interleave - at < STRIP_BYTES ? interleave - at : STRIP_BYTES};
        uint64_t token = sfs_quiesce_enter(d->quiesce);
        rc = read_strip(&s);
        if (!rc)
            rc = compare_strip(&s);
        sfs_quiesce_exit(d->quiesce, token);
        strip_free(&s);
    }
    return rc;
}

/* --- what lives in what was rebuilt ------------------------------------------------------------------------------------------------------------ */

#define NOWHERE UINT64_MAX

/* Where in the group it lies; NOWHERE when a mover has given it a place elsewhere. */
static uint64_t place_in(struct sfs_data *d, const struct sfs_group *g, const struct sfs_stored *s)
{
    SFS_LOCK(d);
    uint64_t goff = s->key.group == g->id ? s->key.goff : NOWHERE;
    SFS_UNLOCK(d);
    return goff;
}

struct overlay {
    struct sfs_strip *s;
    unsigned column;
    uint64_t from, to;          /* the strip's part of the unit, in the group */
};

/* One granule: right as rebuilt, or read again by all means. What has no good copy stays as it is. */
static int overlay_granule(struct overlay *o, struct sfs_stored *s, uint32_t i)
{
    uint32_t a, b, start;
    sfs_checksum_range(s->codec, (uint32_t)s->key.slen, i, &a, &b);
    uint64_t goff = place_in(o->s->d, o->s->g, s), from = goff + a, to = goff + b;
    if (goff == NOWHERE)
        return 0;
    uint8_t *unit = o->s->unit[o->column]->data;
    if (to <= o->from || from >= o->to)
        return 0;
    if (from >= o->from && to <= o->to && sfs_checksum(unit + (from - o->from), to - from) == s->csum[i])
        return 0;
    struct sfs_buf *buf;
    int rc = sfs_fetch_stored(o->s->d, s, a, b, &buf, &start);
    if (rc)
        return rc == -EIO ? 0 : rc;
    uint64_t lo = from > o->from ? from : o->from, hi = to < o->to ? to : o->to;
    memcpy(unit + (lo - o->from), buf->data + (lo - goff - start), hi - lo);
    sfs_buf_unref(buf);
    return 0;
}

static int overlay_stored(void *ctx, struct sfs_stored *s, uint64_t ino)
{
    (void)ino;
    int rc = 0;
    for (unsigned i = 0; !rc && i < s->ncsum; i++)
        rc = overlay_granule(ctx, s, i);
    return rc;
}

static int overlay(struct sfs_strip *s)
{
    const struct sfs_geometry *geo = &s->g->geo;
    unsigned data = sfs_geometry_data_columns(geo);
    int rc = 0;
    for (unsigned k = 0; !rc && k < data; k++) {
        struct overlay o = {.s = s, .column = sfs_geometry_data_column(geo, s->row, k)};
        if (!memchr(s->have[o.column], SFS_STRIP_REBUILT, s->len / SFS_BLOCK))
            continue;
        o.from = (s->row * data + k) * geo->interleave + s->slab_off % geo->interleave;
        o.to = o.from + s->len;
        rc = sfs_each_stored(s->d, s->g->id, o.from > SFS_EXTENT_MAX ? o.from - SFS_EXTENT_MAX : 0, o.to, overlay_stored, &o);
    }
    return rc;
}

/* --- the walk ------------------------------------------------------------------------------------------------------------------------------- */

struct walk {
    const struct sfs_row_walk *w;
    struct sfs_group_map map;   /* what lives */
    uint8_t *damaged;           /* by row */
    uint64_t row_bytes;
};

static int on_stored(void *ctx, struct sfs_stored *s, uint64_t ino)
{
    struct walk *k = ctx;
    bool damaged = false;
    int rc = k->w->stored(k->w->ctx, s, ino, &damaged);
    uint64_t goff = place_in(k->w->d, k->w->g, s), end = goff + sfs_blocks(s->key.slen) * SFS_BLOCK;
    for (uint64_t row = goff / k->row_bytes; damaged && goff != NOWHERE && row * k->row_bytes < end; row++)
        k->damaged[row] = 1;
    return rc;
}

static bool row_lives(const struct walk *k, uint64_t row)
{
    uint64_t n = k->row_bytes / SFS_BLOCK;
    return sfs_bit_find(k->map.bits, row * n, (row + 1) * n, true) < (row + 1) * n;
}

static int walk_row(const struct walk *k, uint64_t row)
{
    uint32_t interleave = k->w->g->geo.interleave;
    int rc = 0;
    for (uint32_t at = 0; !rc && at < interleave; at += STRIP_BYTES) {
        struct sfs_strip s = {.d = k->w->d, .g = k->w->g, .row = row, .slab_off = row * interleave + at, .damaged = k->damaged[row],
                              .len = interleave - at < STRIP_BYTES ? interleave - at : STRIP_BYTES};
        uint64_t token = sfs_quiesce_enter(k->w->d->quiesce);
        rc = read_strip(&s);
        if (!rc) {
            rebuild_strip(&s);
            rc = overlay(&s);
        }
        if (!rc)
            rc = k->w->strip(k->w->ctx, &s);
        sfs_quiesce_exit(k->w->d->quiesce, token);
        strip_free(&s);
    }
    return rc;
}

int sfs_rows_walk(const struct sfs_row_walk *w)
{
    struct walk k = {.w = w, .row_bytes = sfs_geometry_stripe_bytes(&w->g->geo)};
    uint64_t rows = sfs_geometry_rows(&w->g->geo), step = WINDOW_BYTES / k.row_bytes;
    if (step == 0)
        step = 1;
    sfs_catalog_lock(w->d->cat);
    int rc = sfs_group_map_rows(w->d, w->g->id, &k.map);
    sfs_catalog_unlock(w->d->cat);
    k.damaged = calloc(rows, 1);
    if (!rc && !k.damaged)
        rc = -ENOMEM;
    for (uint64_t row = 0; !rc && row < rows; row += step) {
        uint64_t end = row + step < rows ? row + step : rows;
        rc = sfs_each_stored(w->d, w->g->id, row * k.row_bytes, end * k.row_bytes, on_stored, &k);
        for (uint64_t r = row; !rc && r < end; r++)
            if (row_lives(&k, r))
                rc = walk_row(&k, r);
    }
    free(k.damaged);
    sfs_group_map_free(&k.map);
    return rc;
}
