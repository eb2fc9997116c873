/* Mover 1: building a slab anew on another disk (repair.h).
 *
 * Steps: HOLD (seal the group, keep it from being opened, moved or dropped; wait for writes under way; commit, so that all it holds is in the catalog) -> TARGET (a slot on another disk) -> COPY (live extents, verified, piece by piece)
 * -> SYNC -> COMPARE (read back) -> SWITCH (catalog row and memory in one, commit). Until SWITCH nothing has changed: stopping anywhere only gives the slot back. Because a sealed group only shrinks, nothing is missed. */
#include "fs/data/repair.h"
#include "fs/data/rows.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 64u

struct written {
    uint64_t slab_off, hash;
    uint32_t len;
};

struct move {
    struct sfs_data *d;
    struct sfs_group *g;        /* held */
    unsigned column, copy;
    int disk;                   /* the target */
    uint32_t slot;
    struct sfs_disk *handle;
    struct written *log;        /* what was written where, for COMPARE */
    size_t nlog, cap;
    int (*progress)(void *, uint64_t);
    void *ctx;
    struct sfs_move_result *out;
};

/* --- HOLD ---------------------------------------------------------------------------------------------------------------------------------- */

/* One move a group at a time: two could choose the same disk. */
static int hold(struct sfs_data *d, uint64_t id, struct sfs_group **out)
{
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    while (g && !g->dropped && g->moving) {
        rc = -EAGAIN;
        sfs_cond_wait(&d->changed, &d->lock);
        g = sfs_group_find(d, id);
    }
    if (!g || g->dropped)
        rc = -ENOENT;
    if (!rc) {
        g->holds++;
        g->moving = true;
        sfs_group_seal(g);
        while (g->inflight)
            sfs_cond_wait(&d->changed, &d->lock);
        *out = g;
    }
    SFS_UNLOCK(d);
    return rc;
}

static void let_go(struct sfs_data *d, struct sfs_group *g)
{
    SFS_LOCK(d);
    SFS_ASSERT(g->holds > 0 && g->moving);
    g->holds--;
    g->moving = false;
    sfs_cond_broadcast(&d->changed);
    SFS_UNLOCK(d);
}

/* All that the group holds is in the catalog. */
static int drain(struct sfs_data *d, struct sfs_group *g)
{
    for (unsigned tries = 0; tries < 8; tries++) {
        SFS_LOCK(d);
        bool empty = RB_EMPTY(&g->pending);
        SFS_UNLOCK(d);
        if (empty)
            return 0;
        int rc = sfs_commit_wait(d, false);
        if (rc)
            return rc;
    }
    return -EAGAIN;
}

/* --- TARGET -------------------------------------------------------------------------------------------------------------------------------- */

/* How well does a disk suit this slab? 2: none of the group's others is there; 1: only other columns of a group of copies, whose loss at once loses nothing; 0: it may not go there. */
static unsigned suits(const struct move *m, int disk, int to_disk)
{
    unsigned fit = 2, self = m->column * m->g->geo.copies + m->copy;
    for (unsigned i = 0; i < sfs_geometry_slabs(&m->g->geo); i++) {
        if (m->g->slabs[i].disk != disk || (i == self && disk == to_disk))
            continue;
        if (i == self || m->g->geo.parity || i / m->g->geo.copies == m->column)
            return 0;
        fit = 1;
    }
    return fit;
}

static int pick_target(struct move *m, int to_disk)
{
    struct sfs_data *d = m->d;
    int rc = -ENOSPC;
    sfs_disk_put(m->handle);
    m->handle = NULL;
    SFS_LOCK(d);
    struct sfs_member *best = NULL, *x;
    unsigned best_fit = 0;
    LIST_FOREACH(x, &d->members, link) {
        unsigned fit = suits(m, x->row.id, to_disk);
        if (!fit || (to_disk && x->row.id != to_disk) || !sfs_member_takes_slabs(x))
            continue;
        if (fit > best_fit || (fit == best_fit && x->free_slabs > best->free_slabs)) {
            best = x;
            best_fit = fit;
        }
    }
    if (best) {
        m->disk = best->row.id;
        m->slot = sfs_slot_take(best);
        m->handle = sfs_disk_ref(best->disk);
        rc = 0;
    }
    SFS_UNLOCK(d);
    return rc;
}

static void drop_target(struct move *m)
{
    sfs_disk_slab_free(m->handle, m->slot);
    SFS_LOCK(m->d);
    sfs_slot_give(m->d, m->disk, m->slot);
    SFS_UNLOCK(m->d);
}

static int target(struct move *m, int to_disk)
{
    for (;;) {
        int rc = pick_target(m, to_disk);
        if (rc)
            return rc;
        rc = sfs_disk_slab_alloc(m->handle, m->slot);
        if (!rc)
            return 0;
        if (rc == -EBUSY)
            continue; /* the metadata area's: stays taken */
        SFS_LOCK(m->d);
        struct sfs_member *x = sfs_member_find(m->d, m->disk);
        if (x)
            x->full = true;
        sfs_slot_give(m->d, m->disk, m->slot);
        SFS_UNLOCK(m->d);
    }
}

/* --- walking the live extents ----------------------------------------------------------------------------------------------------------------- */

int sfs_each_stored(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to, int (*fn)(void *ctx, struct sfs_stored *s, uint64_t ino), void *ctx)
{
    unsigned cap = ROWS;
    struct sfs_group_extent *rows = malloc(cap * sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    struct sfs_stored_key last = {0};
    int rc = 0;
    for (unsigned n = cap; !rc && n == cap;) {
        uint64_t token = sfs_quiesce_enter(d->quiesce); /* before the places are looked up: they are not reused until it is left */
        sfs_catalog_lock(d->cat);
        rc = sfs_catalog_group_extents(d->cat, group, from, rows, cap, &n);
        sfs_catalog_unlock(d->cat);
        for (unsigned i = 0; !rc && i < n; i++) {
            const struct sfs_extent_row *r = &rows[i].row;
            if (r->goff >= to) {
                n = 0; /* no more */
                break;
            }
            if (last.group && last.goff == r->goff && last.slen == r->slen)
                continue; /* another piece or a clone of the same */
            last = (struct sfs_stored_key){group, r->goff, r->slen};
            struct sfs_extent e;
            rc = sfs_extent_from_row(d, r, &e);
            if (!rc) {
                rc = fn(ctx, e.stored, rows[i].ino);
                sfs_stored_unref(d, e.stored);
            }
        }
        sfs_quiesce_exit(d->quiesce, token);
        if (rc || n < cap)
            break;
        /* Rows of one place may run across the chunk: begin again at the last place (what is seen again is the same bytes again). A chunk full of one place wants a larger chunk. */
        uint64_t next = rows[n - 1].row.goff;
        if (next == from) {
            struct sfs_group_extent *more = realloc(rows, 2ull * cap * sizeof(*rows));
            if (more)
                rows = more;
            else
                rc = -ENOMEM;
            cap = n = more ? 2 * cap : cap;
        } else {
            n = cap;
        }
        from = next;
    }
    free(rows);
    return rc;
}

/* --- COPY ----------------------------------------------------------------------------------------------------------------------------------- */

static int log_piece(struct move *m, uint64_t slab_off, const uint8_t *bytes, uint32_t len)
{
    if (m->nlog == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 1024;
        struct written *v = realloc(m->log, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        m->log = v;
        m->cap = cap;
    }
    m->log[m->nlog++] = (struct written){slab_off, sfs_checksum(bytes, len), len};
    return 0;
}

/* No source has it good. The present slab's bytes, if they can be read at all, are better than none. */
static int fetch_as_it_is(struct move *m, uint64_t slab_off, uint32_t len, struct sfs_buf **out)
{
    struct sfs_data *d = m->d;
    struct sfs_buf *buf = sfs_buf_new(len);
    if (!buf)
        return -ENOMEM;
    SFS_LOCK(d);
    struct sfs_slab_row *at = &m->g->slabs[m->column * m->g->geo.copies + m->copy];
    struct sfs_member *x = sfs_member_find(d, at->disk);
    struct sfs_io io = {.op = SFS_IO_READ, .disk = sfs_member_online(x) ? x->disk : NULL, .slot = at->slot, .off = slab_off, .len = len, .buf = buf};
    SFS_UNLOCK(d);
    if (io.disk && !sfs_io_run(&io, 1)) {
        *out = buf;
        return 0;
    }
    sfs_buf_unref(buf);
    return -EIO;
}

/* One piece: stored bytes [from, to) of s, to slab_off of the new slab. */
static int copy_piece(struct move *m, struct sfs_stored *s, uint32_t from, uint32_t to, uint64_t slab_off, uint64_t ino)
{
    struct sfs_buf *buf;
    uint32_t start;
    uint32_t len = (uint32_t)(sfs_blocks(to - from) * SFS_BLOCK);
    int rc = sfs_fetch_stored(m->d, s, from, to, &buf, &start);
    if (rc == -EIO) {
        m->out->damaged_bytes += to - from;
        m->out->damaged_ino = ino;
        start = from;
        rc = fetch_as_it_is(m, slab_off, len, &buf);
        if (rc == -EIO)
            return 0; /* what is lost is lost, the rest goes on */
        if (!rc)
            m->out->carried_bytes += to - from;
    }
    if (rc)
        return rc;
    memset(buf->data + (from - start) + (to - from), 0, len - (to - from));
    struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->handle, .slot = m->slot, .off = slab_off, .len = len, .buf = buf, .buf_off = from - start};
    if (sfs_io_run(&io, 1))
        rc = io.result == -ENOSPC || io.result == -EDQUOT ? -ENOSPC : -EIO;
    if (!rc)
        rc = log_piece(m, slab_off, buf->data + (from - start), len);
    sfs_buf_unref(buf);
    m->out->bytes += len;
    if (!rc && m->progress && m->progress(m->ctx, len))
        rc = -ECANCELED;
    return rc;
}

static int copy_stored(void *ctx, struct sfs_stored *s, uint64_t ino)
{
    struct move *m = ctx;
    uint64_t goff = s->key.goff, off = goff, end = goff + s->key.slen;
    struct sfs_piece p;
    int rc = 0;
    while (!rc && sfs_geometry_next(&m->g->geo, &off, end, &p))
        if (p.column == m->column)
            rc = copy_piece(m, s, (uint32_t)(p.group_off - goff), (uint32_t)(p.group_off - goff) + p.len, p.slab_off, ino);
    return rc;
}

/* --- COPY, with parity ------------------------------------------------------------------------------------------------------------------------- */

/* All that lives is put in order on the disks that are here. What is lost may be good on the slab's present disk, if that is away: as its own bytes, or as what would make up for another's. */
static int settle_stored(void *ctx, struct sfs_stored *s, uint64_t ino, bool *damaged)
{
    struct move *m = ctx;
    uint64_t bad = 0, lost = 0;
    int rc = sfs_check_stored(m->d, s, &bad, &lost);
    if (rc || !lost)
        return rc;
    SFS_LOCK(m->d);
    bool here = sfs_member_online(sfs_member_find(m->d, m->g->slabs[m->column].disk));
    SFS_UNLOCK(m->d);
    *damaged = true;
    if (here)
        return 0; /* the slab goes along as it is: nothing is lost by that */
    m->out->damaged_bytes += sfs_stored_bytes(s);
    m->out->damaged_ino = ino;
    return 0;
}

static int copy_strip(void *ctx, struct sfs_strip *s)
{
    struct move *m = ctx;
    unsigned bad;
    int rc = sfs_strip_mend_parity(s, &bad);
    struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->handle, .slot = m->slot, .off = s->slab_off, .len = s->len, .buf = s->unit[m->column]};
    if (!rc && sfs_io_run(&io, 1))
        rc = io.result == -ENOSPC || io.result == -EDQUOT ? -ENOSPC : -EIO;
    if (!rc)
        rc = log_piece(m, s->slab_off, s->unit[m->column]->data, s->len);
    m->out->bytes += s->len;
    if (!rc && m->progress && m->progress(m->ctx, s->len))
        rc = -ECANCELED;
    return rc;
}

static int copy_all(struct move *m)
{
    struct sfs_row_walk w = {m->d, m->g, settle_stored, copy_strip, m};
    return m->g->geo.parity ? sfs_rows_walk(&w) : sfs_each_stored(m->d, m->g->id, 0, UINT64_MAX, copy_stored, m);
}

/* --- SYNC, COMPARE --------------------------------------------------------------------------------------------------------------------------- */

static int compare(struct move *m)
{
    struct sfs_io io = {.op = SFS_IO_SYNC, .disk = m->handle};
    if (sfs_io_run(&io, 1))
        return -EIO;
    struct sfs_buf *buf = sfs_buf_new(SFS_EXTENT_MAX);
    if (!buf)
        return -ENOMEM;
    int rc = 0;
    for (size_t i = 0; !rc && i < m->nlog; i++) {
        io = (struct sfs_io){.op = SFS_IO_READ, .disk = m->handle, .slot = m->slot, .off = m->log[i].slab_off, .len = m->log[i].len, .buf = buf};
        if (sfs_io_run(&io, 1) || sfs_checksum(buf->data, m->log[i].len) != m->log[i].hash)
            rc = -EIO;
    }
    sfs_buf_unref(buf);
    return rc;
}

/* What could not be built from the others may be good on the slab that is being left: then it is not left. */
static bool old_slab_is_needed(struct move *m)
{
    if (m->out->damaged_bytes == m->out->carried_bytes)
        return false;
    SFS_LOCK(m->d);
    bool needed = m->g->slabs[m->column * m->g->geo.copies + m->copy].disk != 0;
    SFS_UNLOCK(m->d);
    return needed;
}

/* --- SWITCH ---------------------------------------------------------------------------------------------------------------------------------- */

static int switch_over(struct move *m)
{
    struct sfs_data *d = m->d;
    struct sfs_slab_row row = {.group = m->g->id, .column = m->column, .copy = m->copy, .disk = m->disk, .slot = m->slot};
    sfs_catalog_lock(d->cat);
    int rc = sfs_catalog_slab_put(d->cat, &row);
    if (!rc) {
        SFS_LOCK(d);
        struct sfs_slab_row *at = &m->g->slabs[m->column * m->g->geo.copies + m->copy];
        sfs_slab_forget(d, at);
        *at = row;
        SFS_UNLOCK(d);
    }
    sfs_catalog_unlock(d->cat);
    return rc;
}

int sfs_move_slab(struct sfs_data *d, uint64_t group, unsigned column, unsigned copy, int to_disk, int (*progress)(void *ctx, uint64_t bytes),
                  void *ctx, struct sfs_move_result *out)
{
    *out = (struct sfs_move_result){0};
    if (sfs_data_readonly(d))
        return -EROFS;
    struct move m = {.d = d, .column = column, .copy = copy, .progress = progress, .ctx = ctx, .out = out};
    int rc = hold(d, group, &m.g);
    if (rc)
        return rc;
    SFS_ASSERT(column < m.g->geo.columns && copy < m.g->geo.copies);
    rc = drain(d, m.g);
    if (!rc)
        rc = target(&m, to_disk);
    if (!rc)
        rc = copy_all(&m);
    if (!rc && old_slab_is_needed(&m))
        rc = -EUCLEAN;
    if (!rc)
        rc = compare(&m);
    if (!rc)
        rc = switch_over(&m);
    if (rc && m.handle)
        drop_target(&m);
    sfs_disk_put(m.handle);
    free(m.log);
    let_go(d, m.g);
    if (!rc)
        rc = sfs_commit_wait(d, false);
    return rc;
}

uint64_t sfs_move_slab_cost(struct sfs_data *d, uint64_t group)
{
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, group);
    uint64_t cost = g && !g->dropped ? g->used_blocks * SFS_BLOCK / sfs_geometry_data_columns(&g->geo) : 0;
    SFS_UNLOCK(d);
    return cost;
}

/* --- verifying -------------------------------------------------------------------------------------------------------------------------------- */

struct verify {
    struct sfs_data *d;
    int (*progress)(void *, uint64_t);
    void *ctx;
    uint64_t *bad, *lost;
};

static int verify_stored(void *ctx, struct sfs_stored *s, uint64_t ino)
{
    struct verify *v = ctx;
    (void)ino;
    int rc = sfs_check_stored(v->d, s, v->bad, v->lost);
    if (!rc && v->progress && v->progress(v->ctx, sfs_stored_bytes(s)))
        rc = -ECANCELED;
    return rc;
}

static int verify_settle(void *ctx, struct sfs_stored *s, uint64_t ino, bool *damaged)
{
    struct verify *v = ctx;
    uint64_t lost = *v->lost;
    int rc = verify_stored(ctx, s, ino);
    *damaged = *v->lost > lost;
    return rc;
}

static int verify_strip(void *ctx, struct sfs_strip *s)
{
    struct verify *v = ctx;
    unsigned bad;
    int rc = sfs_strip_mend_parity(s, &bad);
    *v->bad += bad;
    return rc;
}

/* Sealed and settled meanwhile: a row that is being written has no right parity yet. */
static int verify_rows(struct verify *v, uint64_t group)
{
    struct sfs_group *g;
    int rc;
    while ((rc = hold(v->d, group, &g)) == -EAGAIN)
        ; /* the move that was under way has ended */
    if (rc)
        return rc;
    struct sfs_row_walk w = {v->d, g, verify_settle, verify_strip, v};
    rc = drain(v->d, g);
    if (!rc)
        rc = sfs_rows_walk(&w);
    let_go(v->d, g);
    return rc;
}

static bool has_parity(struct sfs_data *d, uint64_t group)
{
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, group);
    bool parity = g && g->geo.parity;
    SFS_UNLOCK(d);
    return parity;
}

int sfs_verify_group(struct sfs_data *d, uint64_t group, int (*progress)(void *ctx, uint64_t bytes), void *ctx, uint64_t *bad_copies, uint64_t *lost_extents)
{
    struct verify v = {d, progress, ctx, bad_copies, lost_extents};
    *bad_copies = *lost_extents = 0;
    return has_parity(d, group) && !sfs_data_readonly(d) ? verify_rows(&v, group) : sfs_each_stored(d, group, 0, UINT64_MAX, verify_stored, &v);
}
