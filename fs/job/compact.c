/* A cluster is what is left of one write: a run of blocks that overlapping pieces cover (the same as the extent mover's). It is dead where no row's bytes are, though a checksum granule or a compressed extent that is still needed covers it.
 *
 * Each pass stores anew the pieces of clusters that are dead in a large part, the first those that are half dead: they cost least for what they give. The next passes take more, as long as too much is dead. Clusters that several files share are left
 * alone: storing them anew would make two of them. What happens meanwhile to a file is the vfs's business (sfs_vfs_rewrite): a piece that has changed is left for the next time. */
#include "fs/job/compact.h"

#include <stdlib.h>
#include <string.h>

#include "fs/data/commit.h"
#include "fs/data/relocate.h"
#include "fs/job/destage.h"

#define DUE_SHARE 8u               /* look when an eighth of what is in use was overwritten in parts */
#define DUE_MIN_BYTES (1u << 20)
#define ENOUGH_PERCENT 12u         /* dead space that is left alone, of what is live */
#define PASSES 3u
#define ROWS_AT_ONCE 4096u         /* with the catalog's lock held */

struct cluster {
    uint64_t lo, hi;
    unsigned first, n;             /* rows */
    uint64_t live;
    bool shared;
};

struct scan {
    struct sfs_compaction *c;
    int space;
    unsigned part;                 /* rewrite what is dead in one part of so many */
    struct sfs_group_extent *rows;
    unsigned n, cap;
    struct cluster now;            /* the last one, perhaps not complete */
    uint64_t next;
    bool more;
};

/* --- one cluster ---------------------------------------------------------------------------------------------------------------------------------- */

/* Stored bytes that a row's piece needs, in whole blocks. */
static uint64_t live_bytes(const struct sfs_extent_row *r)
{
    if (r->codec == SFS_CODEC_NONE)
        return ((r->skip % SFS_BLOCK + r->len + SFS_BLOCK - 1) / SFS_BLOCK) * SFS_BLOCK;
    uint64_t stored = (r->slen + SFS_BLOCK - 1) / SFS_BLOCK * SFS_BLOCK;
    return stored * r->len / r->rlen;
}

static int rewrite(struct scan *s)
{
    uint64_t bytes = 0;
    for (unsigned i = s->now.first; i < s->now.first + s->now.n; i++) {
        const struct sfs_group_extent *e = &s->rows[i];
        int rc = sfs_commit_rewrite(s->c->d, s->space, e->ino, e->row.off, e->row.off + e->row.len);
        if (rc == -ENODEV || rc == -EROFS || rc == -ENOSPC)
            return rc;
        if (!rc)
            bytes += e->row.len;
    }
    s->c->rewritten_bytes += bytes;
    return s->c->progress && s->c->progress(s->c->ctx, bytes) ? -ECANCELED : 0;
}

static int judge(struct scan *s)
{
    struct cluster *k = &s->now;
    uint64_t all = k->hi - k->lo, dead = k->live < all && !k->shared ? all - k->live : 0;
    s->c->live_bytes += all - dead;
    if (dead * s->part < all) {
        s->c->dead_bytes += dead;
        return 0;
    }
    return rewrite(s);
}

/* --- a group ------------------------------------------------------------------------------------------------------------------------------------------ */

static int note_row(const struct sfs_group_extent *e, void *ctx)
{
    struct scan *s = ctx;
    if (s->n >= ROWS_AT_ONCE && (!s->n || e->row.goff >= s->next)) { /* between two clusters */
        s->next = e->row.goff;
        s->more = true;
        return 1;
    }
    if (s->n == s->cap) {
        unsigned cap = s->cap ? s->cap * 2 : 1024;
        struct sfs_group_extent *v = realloc(s->rows, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        s->rows = v;
        s->cap = cap;
    }
    s->rows[s->n++] = *e;
    uint64_t end = e->row.goff + ((uint64_t)e->row.slen + SFS_BLOCK - 1) / SFS_BLOCK * SFS_BLOCK;
    s->next = end > s->next ? end : s->next;
    return 0;
}

static int judge_rows(struct scan *s)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < s->n;) {
        const struct sfs_group_extent *e = &s->rows[i];
        s->now = (struct cluster){.lo = e->row.goff, .hi = e->row.goff, .first = i};
        for (; i < s->n && (s->now.n == 0 || s->rows[i].row.goff < s->now.hi); i++, s->now.n++) {
            const struct sfs_extent_row *r = &s->rows[i].row;
            uint64_t end = r->goff + ((uint64_t)r->slen + SFS_BLOCK - 1) / SFS_BLOCK * SFS_BLOCK;
            s->now.hi = end > s->now.hi ? end : s->now.hi;
            s->now.live += live_bytes(r);
            s->now.shared |= s->rows[i].ino != e->ino;
        }
        rc = judge(s);
    }
    return rc;
}

static int scan_group(struct scan *s, uint64_t group)
{
    struct sfs_catalog *cat = sfs_data_catalog(s->c->d);
    uint64_t from = 0;
    int rc;
    do {
        s->n = 0;
        s->next = 0;
        s->more = false;
        sfs_catalog_lock(cat);
        rc = sfs_catalog_group_rows(cat, group, from, note_row, s);
        sfs_catalog_unlock(cat);
        from = s->next;
        if (rc >= 0)
            rc = judge_rows(s);
        if (!rc && s->c->progress && s->c->progress(s->c->ctx, 0))
            rc = -ECANCELED;
    } while (!rc && s->more);
    return rc;
}

/* --- a space ------------------------------------------------------------------------------------------------------------------------------------------- */

static int pass(struct scan *s)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(s->c->d, &ids, &n);
    if (rc)
        return rc;
    s->c->live_bytes = s->c->dead_bytes = 0;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info info;
        if (!sfs_group_info(s->c->d, ids[i], &info) && info.space == s->space)
            rc = scan_group(s, ids[i]);
    }
    if (n)
        free(ids);
    return rc;
}

bool sfs_compact_due(struct sfs_data *d, int space)
{
    uint64_t used, cut = sfs_volume_cut_bytes(d, space, false, &used);
    return cut >= DUE_MIN_BYTES && cut >= used / DUE_SHARE;
}

int sfs_compact(struct sfs_compaction *c, int space)
{
    struct scan s = {.c = c, .space = space};
    uint64_t used;
    int rc = 0;
    c->rewritten_bytes = 0;
    sfs_volume_cut_bytes(c->d, space, true, &used);
    for (unsigned i = 0; !rc && i < PASSES; i++) {
        s.part = 2u << i;
        rc = pass(&s);
        if (!rc)
            rc = sfs_commit_wait(c->d, false); /* the next pass sees what this one has done */
        if (c->dead_bytes * 100 <= c->live_bytes * ENOUGH_PERCENT)
            break;
    }
    free(s.rows);
    return rc;
}

/* --- rows of parity groups ---------------------------------------------------------------------------------------------------------------------------------- */

#define ROWS_DUE_PERCENT 18u       /* dead in rows that are in use, of what is live */
#define ROWS_ENOUGH_PERCENT 10u
#define ROWS_DUE_MIN_BYTES (8u << 20)

/* Of all groups of the space: what is used, and what rows take beyond it. */
static int look_at_rows(struct sfs_data *d, int space, uint64_t **ids, unsigned *n, uint64_t *live, uint64_t *dead)
{
    int rc = sfs_group_ids(d, ids, n);
    *live = *dead = 0;
    for (unsigned i = 0; !rc && i < *n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(d, (*ids)[i], &g) || g.space != space || !g.held_bytes)
            continue;
        *live += g.used_bytes;
        *dead += g.held_bytes - g.used_bytes;
    }
    return rc;
}

static bool too_dead(uint64_t live, uint64_t dead, unsigned percent)
{
    return dead >= ROWS_DUE_MIN_BYTES / 2 && dead * 100 > live * percent;
}

bool sfs_compact_rows_due(struct sfs_data *d, int space)
{
    uint64_t *ids, live, dead;
    unsigned n;
    if (look_at_rows(d, space, &ids, &n, &live, &dead))
        return false;
    if (n)
        free(ids);
    return dead >= ROWS_DUE_MIN_BYTES && too_dead(live, dead, ROWS_DUE_PERCENT);
}

static int sparse_rows_of(struct sfs_compaction *c, uint64_t group, unsigned percent)
{
    struct sfs_group_info g;
    struct sfs_relocate_result r;
    /* An open one is left: to move out of it is to seal it, and what is free in it was promised to writers. */
    if (sfs_group_info(c->d, group, &g) || g.state == SFS_GROUP_OPEN || g.held_bytes - g.used_bytes < g.held_bytes / 16)
        return 0;
    int rc = sfs_relocate_group(c->d, group, SFS_RELOCATE_SPARSE_ROWS(percent), c->progress, c->ctx, &r);
    c->rewritten_bytes += r.bytes;
    return rc == -ENOENT || rc == -EBUSY || rc == -EAGAIN ? 0 : rc; /* gone, or somebody else is at it */
}

int sfs_compact_rows(struct sfs_compaction *c, int space)
{
    static const unsigned percents[] = {50, 75, 90}; /* the emptiest first: they cost least for what they give */
    int rc = 0;
    c->rewritten_bytes = 0;
    for (unsigned k = 0; !rc && k < 3; k++) {
        struct sfs_destaging s = {.d = c->d, .progress = c->progress, .ctx = c->ctx};
        uint64_t *ids;
        unsigned n;
        rc = sfs_destage(&s, space); /* room for what fills no row */
        if (!rc)
            rc = look_at_rows(c->d, space, &ids, &n, &c->live_bytes, &c->dead_bytes);
        if (rc)
            break;
        bool due = too_dead(c->live_bytes, c->dead_bytes, ROWS_ENOUGH_PERCENT);
        for (unsigned i = 0; !rc && due && i < n; i++) {
            struct sfs_group_info g;
            if (!sfs_group_info(c->d, ids[i], &g) && g.space == space)
                rc = sparse_rows_of(c, ids[i], percents[k]);
        }
        if (n)
            free(ids);
        if (!due)
            break;
    }
    return rc;
}
