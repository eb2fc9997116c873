/* Mover 2: moving extents to other groups (relocate.h).
 *
 * Terms
 *   cluster  a maximal run of a group's blocks in which each stored extent overlaps its neighbour: what is left of one write (pieces of it share checksum granules), so never longer than SFS_EXTENT_MAX. It is moved whole:
 *            everything in it by the same distance
 *   batch    the clusters that are read, written, synced and compared together
 *
 * Steps: HOLD (seal the group, wait for writes under way, commit until nothing in it is pending), then for each batch LIST (clusters, from the catalog's rows) -> READ (every piece against its checksums) -> STORE (room reserved,
 * written to open groups on all copies) -> SYNC (their disks) -> COMPARE (every copy, and parity, read back) -> SWITCH; now and then, and at the end, COMMIT. Until SWITCH nothing has changed: giving up anywhere only gives the new places back.
 *
 * Invariants
 *   E1  A sealed group only shrinks: what LIST saw of it is all there is, but for pieces of it, and for clones of it that are pending in memory.
 *   E2  SWITCH is atomic: with the catalog's lock held, the rows that lie wholly in the cluster and (under the lock of fs/data) all stored objects that do are given their new place, pending pieces and trimmed ones too. Places leave memory for the
 *       catalog only with the catalog's lock held (a batch is applied under it) and enter memory from rows only with it held (a file's map is loaded under it): so no row and no object is left with the old place. A commit between CUTOFF and APPLY
 *       holds references, not places.
 *   E3  Every byte of the cluster was read verified, and compared after the sync, before SWITCH: so whatever row or object lies in it is right at its new place, also one that did not exist when LIST looked (a trimmed piece, a clone). Hence C1 holds.
 *   E4  What reaches beyond the cluster (a clone of the whole extent that is pending, while only pieces of it had rows when LIST looked) stays, at the old place, which is not free as long as it is named (S2). The next pass finds it.
 *   E5  The old place becomes a candidate for freeing at SWITCH, not before: a reader that looked it up earlier is protected by quiesce. The new place becomes one, too: parts of it may have died while it was copied.
 *   E6  New places are in-flight counted until SWITCH: their groups aren't dropped, moved or opened anew while no row names them.
 *   E7  What has no good copy is never given up: its cluster stays where it is, and is reported.
 *
 * Locking: none is held across I/O. The group's `holds` keeps it sealed, `leaving` keeps a second mover out. */
#include "fs/data/relocate.h"
#include "fs/data/codec.h"
#include "fs/data/rows.h"
#include "fs/data/store.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES (8u << 20)
#define COMMIT_BYTES (64u << 20) /* so much is moved between commits: it takes room twice until then */
#define PASSES 4u
#define TRIES 4u                 /* of a batch whose targets fail */

struct cluster {
    uint64_t lo, hi;             /* bytes in the old group */
    unsigned first, n;           /* its stored extents in the batch's list */
    bool bad;                    /* not to be moved */
};

struct batch {
    struct sfs_group_extent *rows; /* one row of each distinct stored extent */
    unsigned nrows, rows_cap;
    struct cluster *v;
    unsigned n, cap;
    struct sfs_run *runs;        /* by cluster */
    uint64_t bytes;
    uint64_t next;               /* where the list goes on */
    bool more;
};

struct move {
    struct sfs_data *d;
    struct sfs_group *g;         /* held */
    struct sfs_volume *v;
    unsigned flags;
    struct batch b;
    uint64_t uncommitted;        /* bytes counted in v->moving_bytes */
    uint64_t moved_in_pass;
    int (*progress)(void *, uint64_t);
    void *ctx;
    struct sfs_relocate_result *out;
};

/* --- HOLD, COMMIT --------------------------------------------------------------------------------------------------------------------------------- */

static int hold(struct move *m, uint64_t id)
{
    struct sfs_data *d = m->d;
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    if (!g || g->dropped) {
        rc = -ENOENT;
    } else if (g->leaving) {
        rc = -EBUSY;
    } else {
        g->leaving = true;
        g->holds++;
        sfs_group_seal(g);
        while (g->inflight)
            sfs_cond_wait(&d->changed, &d->lock);
        m->g = g;
        m->v = g->volume;
    }
    SFS_UNLOCK(d);
    return rc;
}

static int commit(struct move *m)
{
    int rc = sfs_commit_wait(m->d, false);
    SFS_LOCK(m->d);
    m->v->moving_bytes -= m->uncommitted;
    SFS_UNLOCK(m->d);
    m->uncommitted = 0;
    return rc;
}

static int drain(struct move *m)
{
    for (unsigned tries = 0; tries < 8; tries++) {
        SFS_LOCK(m->d);
        bool empty = RB_EMPTY(&m->g->pending);
        SFS_UNLOCK(m->d);
        if (empty)
            return 0;
        int rc = sfs_commit_wait(m->d, false);
        if (rc)
            return rc;
    }
    return -EAGAIN;
}

/* --- LIST ---------------------------------------------------------------------------------------------------------------------------------------- */

static void *grown(void *v, unsigned n, unsigned *cap, size_t size)
{
    if (n < *cap)
        return v;
    unsigned more = *cap ? *cap * 2 : 64;
    void *w = realloc(v, more * size);
    if (w)
        *cap = more;
    return w;
}

static int add_row(struct batch *b, const struct sfs_group_extent *row)
{
    struct sfs_group_extent *v = grown(b->rows, b->nrows, &b->rows_cap, sizeof(*v));
    if (!v)
        return -ENOMEM;
    b->rows = v;
    b->rows[b->nrows++] = *row;
    return 0;
}

static unsigned sparse_percent(const struct move *m)
{
    return m->flags >> 8;
}

/* With SPARSE_ROWS: does the cluster lie in such a row? It is needed whole, for rows come free as a whole. */
static bool is_wanted(struct move *m, const struct cluster *c)
{
    if (!sparse_percent(m))
        return true;
    uint64_t row_blocks = m->g->row_blocks;
    bool sparse = false;
    SFS_LOCK(m->d);
    for (uint64_t row = row_blocks ? c->lo / SFS_BLOCK / row_blocks : 0; row_blocks && !sparse && row * row_blocks * SFS_BLOCK < c->hi && row < sfs_geometry_rows(&m->g->geo); row++)
        sparse = m->g->row_used[row] * 100ull <= row_blocks * sparse_percent(m);
    SFS_UNLOCK(m->d);
    return sparse;
}

/* The last cluster is complete. */
static void end_cluster(struct move *m)
{
    struct batch *b = &m->b;
    struct cluster *last = b->n ? &b->v[b->n - 1] : NULL;
    if (!last || is_wanted(m, last))
        return;
    b->bytes -= last->hi - last->lo;
    b->nrows = last->first;
    b->n--;
}

/* In order of place. 1: the batch is full. */
static int list_row(const struct sfs_group_extent *row, void *ctx)
{
    struct move *m = ctx;
    struct batch *b = &m->b;
    uint64_t lo = row->row.goff, hi = lo + sfs_blocks(row->row.slen) * SFS_BLOCK;
    struct cluster *last = b->n ? &b->v[b->n - 1] : NULL;
    if (last && lo >= last->hi) {
        end_cluster(m);
        last = NULL;
    }
    if (!last) {
        if (b->bytes >= BATCH_BYTES) {
            b->next = lo;
            b->more = true;
            return 1;
        }
        struct cluster *v = grown(b->v, b->n, &b->cap, sizeof(*v));
        if (!v)
            return -ENOMEM;
        b->v = v;
        last = &b->v[b->n++];
        *last = (struct cluster){.lo = lo, .hi = lo, .first = b->nrows};
    }
    if (hi > last->hi) {
        b->bytes += hi - last->hi;
        last->hi = hi;
    }
    last->bad |= last->hi - last->lo > SFS_EXTENT_MAX; /* rows that contradict each other */
    last->n++;
    return add_row(b, row);
}

static void batch_clear(struct batch *b)
{
    for (unsigned i = 0; b->runs && i < b->n; i++)
        sfs_buf_unref(b->runs[i].buf);
    free(b->runs);
    b->runs = NULL;
    b->nrows = b->n = 0;
    b->bytes = 0;
    b->more = false;
}

static int list(struct move *m, uint64_t from)
{
    batch_clear(&m->b);
    sfs_catalog_lock(m->d->cat);
    int rc = sfs_catalog_group_stored(m->d->cat, m->g->id, from, list_row, m);
    sfs_catalog_unlock(m->d->cat);
    if (rc < 0)
        return rc;
    if (!m->b.more)
        end_cluster(m);
    m->b.runs = calloc(m->b.n + 1, sizeof(*m->b.runs));
    return m->b.runs ? 0 : -ENOMEM;
}

/* --- READ ---------------------------------------------------------------------------------------------------------------------------------------- */

static void report_damage(struct move *m, const struct cluster *c, uint64_t ino)
{
    m->out->damaged_bytes += c->hi - c->lo;
    m->out->damaged_ino = ino;
}

/* One stored extent to where it belongs in its cluster's buffer. Inside quiesce. */
static int read_piece(struct move *m, const struct cluster *c, const struct sfs_group_extent *row, struct sfs_buf *to)
{
    struct sfs_extent e;
    struct sfs_buf *buf;
    uint32_t start;
    int rc = sfs_extent_from_row(m->d, &row->row, &e);
    if (rc)
        return rc;
    rc = sfs_fetch_stored(m->d, e.stored, 0, row->row.slen, &buf, &start);
    sfs_stored_unref(m->d, e.stored);
    if (rc)
        return rc;
    memcpy(to->data + (row->row.goff - c->lo), buf->data, row->row.slen);
    sfs_buf_unref(buf);
    return 0;
}

static int read_cluster(struct move *m, struct cluster *c, struct sfs_run *run)
{
    uint32_t len = (uint32_t)(c->hi - c->lo);
    run->slen = len;
    run->buf = sfs_buf_new(len);
    if (!run->buf)
        return -ENOMEM;
    memset(run->buf->data, 0, len); /* last blocks end in zeros */
    for (unsigned i = c->first; i < c->first + c->n; i++) {
        int rc = read_piece(m, c, &m->b.rows[i], run->buf);
        if (rc != -EIO && rc != -EUCLEAN && rc)
            return rc;
        if (rc) { /* E7 */
            c->bad = true;
            report_damage(m, c, m->b.rows[i].ino);
            return 0;
        }
    }
    return 0;
}

/* Quiesce was entered before the places were looked up: they are not written anew while they are read. */
static int read_batch(struct move *m, uint64_t from)
{
    uint64_t token = sfs_quiesce_enter(m->d->quiesce);
    int rc = list(m, from);
    for (unsigned i = 0; !rc && i < m->b.n; i++) {
        struct cluster *c = &m->b.v[i];
        if (c->bad)
            report_damage(m, c, m->b.rows[c->first].ino);
        else
            rc = read_cluster(m, c, &m->b.runs[i]);
    }
    sfs_quiesce_exit(m->d->quiesce, token);
    return rc;
}

/* --- STORE, SYNC, COMPARE --------------------------------------------------------------------------------------------------------------------------- */

/* Room for the batch, so that it doesn't take what writers were promised; counted as moving from now on, so that a space of limited size has room to move. */
static int reserve(struct move *m, uint64_t bytes)
{
    SFS_LOCK(m->d);
    m->v->moving_bytes += bytes;
    SFS_UNLOCK(m->d);
    m->uncommitted += bytes;
    return m->flags & SFS_RELOCATE_UNRESERVED ? 0 : sfs_volume_reserve(m->v, bytes, false);
}

static int store(struct move *m)
{
    struct batch *b = &m->b;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < b->n; i++) {
        if (b->v[i].bad)
            b->runs[i].result = -EIO; /* passed over */
        else
            bytes += b->runs[i].slen;
    }
    if (!bytes)
        return 0;
    int rc = reserve(m, bytes);
    if (rc)
        return rc;
    sfs_store_runs(m->v, b->runs, b->n, m->flags & SFS_RELOCATE_WHOLE_STRIPES ? SFS_STORE_WHOLE_STRIPES : sparse_percent(m) ? SFS_STORE_NO_PADDING : 0);
    if (!(m->flags & SFS_RELOCATE_UNRESERVED))
        sfs_volume_unreserve(m->v, bytes);
    for (unsigned i = 0; !rc && i < b->n; i++)
        if (!b->v[i].bad && !b->runs[i].left)
            rc = b->runs[i].result;
    return rc;
}

/* Syncs every disk that has a slab of a target. One that fails is fenced. */
static int sync_targets(struct move *m)
{
    struct sfs_data *d = m->d;
    struct sfs_io ios[SFS_LABEL_PEERS];
    unsigned n = 0;
    uint64_t token = sfs_quiesce_enter(d->quiesce);
    SFS_LOCK(d);
    struct sfs_member *x;
    LIST_FOREACH(x, &d->members, link) {
        bool target = false;
        for (unsigned i = 0; !target && i < m->b.n; i++) {
            const struct sfs_group *g = m->b.runs[i].group;
            for (unsigned k = 0; g && !target && k < sfs_geometry_slabs(&g->geo); k++)
                target = g->slabs[k].disk == x->row.id;
        }
        if (target && sfs_member_online(x) && n < SFS_LABEL_PEERS)
            ios[n++] = (struct sfs_io){.op = SFS_IO_SYNC, .disk = x->disk};
    }
    SFS_UNLOCK(d);
    int rc = n && sfs_io_run(ios, n) ? -EIO : 0;
    /* A disk that dropped out before could not be synced: what it had of this isn't there. */
    SFS_LOCK(d);
    for (unsigned i = 0; !rc && i < m->b.n; i++)
        if (m->b.runs[i].group && sfs_group_shaken(d, m->b.runs[i].group))
            rc = -EIO;
    SFS_UNLOCK(d);
    sfs_quiesce_exit(d->quiesce, token);
    return rc;
}

/* Every copy of a run at its new place, as if it were one stored extent. */
static int compare_run(struct move *m, const struct sfs_run *r)
{
    unsigned ncsum = sfs_checksum_count(SFS_CODEC_NONE, r->slen);
    struct sfs_stored *s = calloc(1, sizeof(*s) + ncsum * sizeof(uint64_t));
    if (!s)
        return -ENOMEM;
    s->key = (struct sfs_stored_key){r->group->id, r->goff, r->slen};
    s->rlen = r->slen;
    s->ncsum = (uint8_t)ncsum;
    s->detached = true; /* nobody else knows it */
    for (unsigned i = 0; i < ncsum; i++) {
        uint32_t from, to;
        sfs_checksum_range(SFS_CODEC_NONE, r->slen, i, &from, &to);
        s->csum[i] = sfs_checksum(r->buf->data + from, to - from);
    }
    uint64_t bad = 0, lost = 0, token = sfs_quiesce_enter(m->d->quiesce);
    int rc = sfs_check_stored(m->d, s, &bad, &lost);
    sfs_quiesce_exit(m->d->quiesce, token);
    free(s);
    return rc ? rc : bad || lost ? -EIO : 0;
}

/* The rows that the run lies in: it is the batch's own bytes that their parity counts, beside zeros. *done: the last row that was looked at, of `of`. */
static int compare_rows(struct move *m, const struct sfs_run *r, const struct sfs_group **of, uint64_t *done)
{
    uint64_t row_bytes = r->group->row_blocks * SFS_BLOCK, end = r->goff + r->slen;
    int rc = 0;
    for (uint64_t row = row_bytes ? r->goff / row_bytes : 0; row_bytes && !rc && row * row_bytes < end; row++) {
        if (*of == r->group && *done == row)
            continue;
        rc = sfs_row_compare(m->d, r->group, row);
        *of = r->group;
        *done = row;
    }
    return rc;
}

static int compare(struct move *m)
{
    const struct sfs_group *of = NULL;
    uint64_t done = 0;
    int rc = 0;
    for (unsigned i = 0; !rc && i < m->b.n; i++) {
        const struct sfs_run *r = &m->b.runs[i];
        if (r->group)
            rc = compare_run(m, r);
        if (!rc && r->group)
            rc = compare_rows(m, r, &of, &done);
    }
    return rc;
}

static void give_back(struct move *m)
{
    for (unsigned i = 0; i < m->b.n; i++) {
        struct sfs_run *r = &m->b.runs[i];
        if (r->group)
            sfs_store_give_back(m->d, r);
        *r = (struct sfs_run){.buf = r->buf, .slen = r->slen};
    }
}

/* A target that fails: its group is left alone from now on, and the batch goes to others. */
static void seal_targets(struct move *m)
{
    SFS_LOCK(m->d);
    for (unsigned i = 0; i < m->b.n; i++)
        if (m->b.runs[i].group)
            sfs_group_seal(m->b.runs[i].group);
    SFS_UNLOCK(m->d);
}

static int place(struct move *m)
{
    int rc = 0;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        rc = store(m);
        if (!rc)
            rc = sync_targets(m);
        if (!rc)
            rc = compare(m);
        if (!rc)
            return 0;
        if (rc == -EIO)
            seal_targets(m);
        give_back(m);
        if (rc != -EIO)
            return rc;
    }
    return rc;
}

/* --- SWITCH ----------------------------------------------------------------------------------------------------------------------------------------- */

static int switch_cluster(struct move *m, const struct cluster *c, struct sfs_run *r)
{
    struct sfs_data *d = m->d;
    sfs_catalog_lock(d->cat);
    int rc = sfs_catalog_group_move(d->cat, m->g->id, c->lo, c->hi, r->group->id, r->goff);
    if (!rc) {
        SFS_LOCK(d);
        sfs_stored_move_range(d, m->g, c->lo, c->hi, r->group, r->goff);
        sfs_candidate(d, m->g->id, c->lo, c->hi - c->lo);
        sfs_candidate(d, r->group->id, r->goff, r->slen); /* E5 */
        SFS_UNLOCK(d);
    }
    sfs_catalog_unlock(d->cat);
    if (rc)
        return rc;
    sfs_allocate_done(d, r->group);
    r->group = NULL;
    m->moved_in_pass += r->slen;
    m->out->bytes += r->slen;
    return 0;
}

static int switch_batch(struct move *m)
{
    int rc = sfs_catalog_room(m->d->cat, 64ull * m->b.nrows);
    for (unsigned i = 0; !rc && i < m->b.n; i++)
        if (m->b.runs[i].group)
            rc = switch_cluster(m, &m->b.v[i], &m->b.runs[i]);
    give_back(m); /* nothing, unless something failed */
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------------------------------------------------------------- */

static int move_batch(struct move *m, uint64_t from)
{
    int rc = sfs_data_readonly(m->d) ? -EROFS : read_batch(m, from);
    uint64_t before = m->out->bytes;
    if (!rc)
        rc = place(m);
    if (!rc)
        rc = switch_batch(m);
    if (!rc && m->uncommitted >= COMMIT_BYTES)
        rc = commit(m);
    if (!rc && m->progress && m->progress(m->ctx, m->out->bytes - before))
        rc = -ECANCELED;
    return rc;
}

static int pass(struct move *m)
{
    uint64_t from = 0;
    int rc;
    m->moved_in_pass = 0;
    m->out->damaged_bytes = 0;
    do {
        rc = move_batch(m, from);
        from = m->b.next;
    } while (!rc && m->b.more);
    return rc;
}

static void let_go(struct move *m)
{
    SFS_LOCK(m->d);
    SFS_ASSERT(m->g->holds > 0);
    m->g->holds--;
    m->g->leaving = false;
    SFS_UNLOCK(m->d);
}

int sfs_relocate_group(struct sfs_data *d, uint64_t group, unsigned flags, int (*progress)(void *ctx, uint64_t bytes), void *ctx,
                       struct sfs_relocate_result *out)
{
    *out = (struct sfs_relocate_result){0};
    if (sfs_data_readonly(d))
        return -EROFS;
    int rc = sfs_groups_count_used(d); /* an empty group is dropped only when that is known */
    if (rc)
        return rc;
    struct move m = {.d = d, .flags = flags, .progress = progress, .ctx = ctx, .out = out};
    rc = hold(&m, group);
    if (rc)
        return rc;
    rc = drain(&m);
    for (unsigned n = 0; !rc && n < PASSES; n++) {
        rc = pass(&m);
        if (rc || !m.moved_in_pass)
            break;
        rc = commit(&m); /* brings what was pending meanwhile into the catalog: E4 */
    }
    batch_clear(&m.b);
    free(m.b.rows);
    free(m.b.v);
    int last = m.uncommitted ? commit(&m) : 0;
    let_go(&m); /* the space itself may go from here on */
    if (!last)
        last = sfs_commit_wait(d, false); /* an empty group goes with it */
    struct sfs_group_info info;
    out->emptied = sfs_group_info(d, group, &info) == -ENOENT;
    return rc ? rc : last;
}
