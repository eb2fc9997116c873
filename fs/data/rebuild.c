/* Reconstruction from the other columns of a row (rebuild.h). What comes out is verified by the caller: a column that is bad without knowing it makes it wrong. */
#include "fs/data/rebuild.h"

#include <stdlib.h>
#include <string.h>

#include "fs/layout/parity.h"

int sfs_ios_push(struct sfs_ios *l, const struct sfs_io *io)
{
    if (l->n == l->cap) {
        unsigned cap = l->cap ? l->cap * 2 : 16;
        struct sfs_io *v = realloc(l->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n++] = *io;
    return 0;
}

int sfs_units_rebuild(const struct sfs_geometry *geo, uint64_t row, uint8_t *const *by_column, size_t len, unsigned lost)
{
    unsigned data = sfs_geometry_data_columns(geo), which[SFS_MAX_COLUMNS], n = 0;
    uint8_t *units[SFS_MAX_COLUMNS];
    for (unsigned k = 0; k < geo->columns; k++) {
        unsigned column = k < data ? sfs_geometry_data_column(geo, row, k) : sfs_geometry_parity_column(geo, row, k - data);
        units[k] = by_column[column];
        if (lost >> column & 1)
            which[n++] = k;
    }
    if (n > geo->parity)
        return -EIO;
    return sfs_parity_rebuild(data, geo->parity, units, len, which, n) ? -EIO : 0;
}

/* --- with the rest of a call ---------------------------------------------------------------------------------------------------------------------- */

static struct sfs_rebuild *add(struct sfs_rebuilds *rs)
{
    if (rs->n == rs->cap) {
        unsigned cap = rs->cap ? rs->cap * 2 : 4;
        struct sfs_rebuild *v = realloc(rs->v, cap * sizeof(*v));
        if (!v)
            return NULL;
        rs->v = v;
        rs->cap = cap;
    }
    rs->v[rs->n] = (struct sfs_rebuild){0};
    return &rs->v[rs->n++];
}

int sfs_rebuild_plan(struct sfs_data *d, const struct sfs_group *g, const struct sfs_piece *p, struct sfs_buf *out, size_t out_off, unsigned owner,
                     struct sfs_rebuilds *rs, struct sfs_ios *l)
{
    unsigned away = 0;
    for (unsigned c = 0; c < g->geo.columns; c++)
        away += c == p->column || !sfs_member_online(sfs_member_find(d, g->slabs[c].disk));
    if (away > g->geo.parity)
        return -EIO;
    struct sfs_rebuild *r = add(rs);
    if (!r)
        return -ENOMEM;
    *r = (struct sfs_rebuild){.owner = owner, .geo = g->geo, .row = p->slab_off / g->geo.interleave, .column = p->column, .out = out,
                              .len = (uint32_t)(sfs_blocks(p->len) * SFS_BLOCK), .out_off = out_off, .first_io = l->n};
    for (unsigned c = 0; c < g->geo.columns; c++) {
        const struct sfs_slab_row *slab = &g->slabs[c];
        struct sfs_member *m = c == p->column ? NULL : sfs_member_find(d, slab->disk);
        if (!sfs_member_online(m))
            continue;
        r->unit[c] = sfs_buf_new(r->len);
        struct sfs_io io = {.op = SFS_IO_READ, .disk = m->disk, .slot = slab->slot, .off = p->slab_off, .len = r->len, .buf = r->unit[c]};
        int rc = r->unit[c] ? sfs_ios_push(l, &io) : -ENOMEM;
        if (rc)
            return rc;
        r->ios++;
    }
    return 0;
}

bool sfs_rebuild_finish(struct sfs_rebuild *r, const struct sfs_ios *l)
{
    uint8_t *units[SFS_MAX_COLUMNS];
    struct sfs_buf *scratch = NULL; /* another that is away too */
    unsigned lost = 0;
    bool ok = true;
    for (unsigned i = 0; i < r->ios; i++)
        ok &= l->v[r->first_io + i].result == 0;
    for (unsigned c = 0; ok && c < r->geo.columns; c++) {
        if (!r->unit[c])
            lost |= 1u << c;
        units[c] = r->unit[c] ? r->unit[c]->data : r->out->data + r->out_off;
        if (r->unit[c] || c == r->column)
            continue;
        SFS_ASSERT(!scratch); /* parity is two at most */
        scratch = sfs_buf_new(r->len);
        ok = scratch != NULL;
        units[c] = ok ? scratch->data : NULL;
    }
    ok = ok && !sfs_units_rebuild(&r->geo, r->row, units, r->len, lost);
    sfs_buf_unref(scratch);
    return ok;
}

void sfs_rebuilds_free(struct sfs_rebuilds *rs)
{
    for (unsigned i = 0; i < rs->n; i++)
        for (unsigned c = 0; c < SFS_MAX_COLUMNS; c++)
            sfs_buf_unref(rs->v[i].unit[c]);
    free(rs->v);
}

/* --- all that the columns have -------------------------------------------------------------------------------------------------------------------------- */

/* Lock held. The blocks [b, end) of the columns one by one, for what is not there yet; all of a column's that follow each other in one request if `whole`. */
static int plan_columns(struct sfs_data *d, uint64_t group, const struct sfs_columns *c, bool whole, struct sfs_ios *l)
{
    const struct sfs_group *g = sfs_group_find(d, group);
    if (!g)
        return -EIO;
    uint64_t off = c->group_off, end = off + (uint64_t)c->blocks * SFS_BLOCK;
    struct sfs_piece p;
    while (sfs_geometry_next(&g->geo, &off, end, &p))
        for (unsigned k = 0; k < g->geo.columns; k++) {
            struct sfs_member *m = sfs_member_find(d, g->slabs[k].disk);
            uint32_t step = whole ? p.len : SFS_BLOCK;
            for (uint32_t at = 0; sfs_member_online(m) && at < p.len; at += step) {
                size_t to = (size_t)(p.group_off - c->group_off) + at;
                if (c->have[k][to / SFS_BLOCK])
                    continue;
                struct sfs_io io = {.op = SFS_IO_READ, .disk = m->disk, .slot = g->slabs[k].slot, .off = p.slab_off + at, .len = step, .buf = c->unit[k], .buf_off = to};
                int rc = sfs_ios_push(l, &io);
                if (rc)
                    return rc;
            }
        }
    return 0;
}

static void take_columns(struct sfs_columns *c, const struct sfs_ios *l)
{
    for (unsigned i = 0; i < l->n; i++)
        for (unsigned k = 0; k < c->geo.columns; k++)
            if (l->v[i].buf == c->unit[k] && l->v[i].result == 0)
                memset(c->have[k] + l->v[i].buf_off / SFS_BLOCK, 1, l->v[i].len / SFS_BLOCK);
}

int sfs_columns_read(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to, struct sfs_columns *c)
{
    SFS_LOCK(d);
    const struct sfs_group *g = sfs_group_find(d, group);
    *c = (struct sfs_columns){.group_off = from, .blocks = (uint32_t)sfs_blocks(to - from)};
    if (g)
        c->geo = g->geo;
    SFS_UNLOCK(d);
    int rc = g ? 0 : -EIO;
    for (unsigned k = 0; !rc && k < c->geo.columns; k++) {
        c->unit[k] = sfs_buf_new((size_t)c->blocks * SFS_BLOCK);
        c->have[k] = calloc(c->blocks, 1);
        rc = c->unit[k] && c->have[k] ? 0 : -ENOMEM;
    }
    /* Then block by block, so that one bad sector doesn't hide its neighbours. */
    for (unsigned pass = 0; !rc && pass < 2; pass++) {
        struct sfs_ios l = {0};
        SFS_LOCK(d);
        rc = plan_columns(d, group, c, pass == 0, &l);
        SFS_UNLOCK(d);
        if (!rc && l.n) {
            sfs_io_run(l.v, l.n);
            take_columns(c, &l);
        }
        free(l.v);
    }
    return rc;
}

static void place_of(const struct sfs_columns *c, uint32_t block, uint64_t *row, unsigned *column)
{
    uint64_t unit = (c->group_off + (uint64_t)block * SFS_BLOCK) / c->geo.interleave, data = sfs_geometry_data_columns(&c->geo);
    *row = unit / data;
    *column = sfs_geometry_data_column(&c->geo, *row, (unsigned)(unit % data));
}

void sfs_columns_direct(const struct sfs_columns *c, uint8_t *out, uint8_t *have)
{
    for (uint32_t b = 0; b < c->blocks; b++) {
        uint64_t row;
        unsigned column;
        place_of(c, b, &row, &column);
        have[b] = c->have[column][b];
        if (have[b])
            memcpy(out + (size_t)b * SFS_BLOCK, c->unit[column]->data + (size_t)b * SFS_BLOCK, SFS_BLOCK);
    }
}

/* Block b of the granule from the others of its row, but those in `bad`; into out. */
static bool rebuild_block(const struct sfs_columns *c, uint32_t b, unsigned bad, uint8_t *scratch, uint8_t *out)
{
    uint64_t row;
    unsigned own, lost = 0;
    uint8_t *units[SFS_MAX_COLUMNS];
    place_of(c, b, &row, &own);
    for (unsigned k = 0; k < c->geo.columns; k++) {
        bool gone = k == own || bad >> k & 1 || !c->have[k][b];
        lost |= (unsigned)gone << k;
        units[k] = gone ? scratch + (size_t)k * SFS_BLOCK : c->unit[k]->data + (size_t)b * SFS_BLOCK;
    }
    if (sfs_units_rebuild(&c->geo, row, units, SFS_BLOCK, lost))
        return false;
    memcpy(out, units[own], SFS_BLOCK);
    return true;
}

int sfs_columns_rebuild(const struct sfs_columns *c, unsigned also, uint8_t *out, uint8_t *have)
{
    struct sfs_buf *scratch = sfs_buf_new((size_t)c->geo.columns * SFS_BLOCK);
    if (!scratch)
        return -ENOMEM;
    for (uint32_t b = 0; b < c->blocks; b++)
        have[b] = rebuild_block(c, b, also == SFS_NO_COLUMN ? 0 : 1u << also, scratch->data, out + (size_t)b * SFS_BLOCK);
    sfs_buf_unref(scratch);
    return 0;
}

bool sfs_columns_without(const struct sfs_columns *c, unsigned bad, uint8_t *out)
{
    struct sfs_buf *scratch = sfs_buf_new((size_t)c->geo.columns * SFS_BLOCK);
    bool ok = scratch != NULL;
    for (uint32_t b = 0; ok && b < c->blocks; b++) {
        uint64_t row;
        unsigned own;
        place_of(c, b, &row, &own);
        if (c->have[own][b] && !(bad >> own & 1))
            memcpy(out + (size_t)b * SFS_BLOCK, c->unit[own]->data + (size_t)b * SFS_BLOCK, SFS_BLOCK);
        else
            ok = rebuild_block(c, b, bad, scratch->data, out + (size_t)b * SFS_BLOCK);
    }
    sfs_buf_unref(scratch);
    return ok;
}

void sfs_columns_free(struct sfs_columns *c)
{
    for (unsigned k = 0; k < SFS_MAX_COLUMNS; k++) {
        sfs_buf_unref(c->unit[k]);
        free(c->have[k]);
    }
}
