/* Places for runs, and writing them (store.h).
 *
 * Invariants
 *   W1  checksums are made from the caller's buffer before the first byte leaves it
 *   W2  a run keeps its group only when every slab that the group has took the write (rule 4)
 *   W3  until its pending object exists, a run is kept from being dropped or moved by the group's in-flight count
 *
 * Failure: a run one of whose copies failed is written again, to another group; the group that failed it is sealed (its disk is fenced by fs/disk, or the group would fail the next write as well). What was taken becomes a
 * candidate for freeing. Tries are bounded by the number of disks. */
#include "fs/data/stripe.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

/* --- requests ---------------------------------------------------------------------------------------------------------------------------- */

/* Lock held. The requests that put a run on every slab that its group has. A disk that is out of use fails the run at once. */
static int plan(struct sfs_data *d, struct sfs_run *r, unsigned owner, struct sfs_io_list *l)
{
    struct sfs_group *g = r->group;
    uint64_t off = r->goff, end = r->goff + sfs_blocks(r->slen) * SFS_BLOCK;
    struct sfs_piece p;
    while (sfs_geometry_next(&g->geo, &off, end, &p)) {
        for (unsigned copy = 0; copy < g->geo.copies; copy++) {
            const struct sfs_slab_row *s = &g->slabs[p.column * g->geo.copies + copy];
            if (s->disk == 0)
                continue;
            struct sfs_member *m = sfs_member_find(d, s->disk);
            if (!sfs_member_online(m)) {
                r->failed = true;
                return 0;
            }
            struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->disk, .slot = s->slot, .off = p.slab_off, .len = p.len,
                                .buf = r->buf, .buf_off = r->buf_off + (p.group_off - r->goff)};
            int rc = sfs_io_list_push(l, &io, (struct sfs_io_owner){.run = owner});
            if (rc)
                return rc;
        }
    }
    return 0;
}

static void checksum(struct sfs_run *r)
{
    for (unsigned k = 0; k < sfs_checksum_count(r->codec, r->slen); k++) {
        uint32_t from, to;
        sfs_checksum_range(r->codec, r->slen, k, &from, &to);
        r->csum[k] = sfs_checksum(r->buf->data + r->buf_off + from, to - from);
    }
}

/* Lock held. A disk without room isn't broken: it takes no new slabs until something is released. */
static void note_full(struct sfs_data *d, const struct sfs_disk *disk)
{
    struct sfs_member *m = sfs_member_of(d, disk);
    if (m)
        m->full = true;
}

/* Lock held. A sync that ran while a write was under way may have missed it: the disks are dirty (again) once it is complete, before its extent can be collected. */
static void mark_dirty(struct sfs_data *d, const struct sfs_group *g)
{
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++) {
        struct sfs_member *m = sfs_member_find(d, g->slabs[i].disk);
        if (m)
            m->dirty = true;
    }
}

/* Lock held: the results of the requests. */
static void settle_ios(struct sfs_data *d, struct sfs_runs *rs, const struct sfs_io_list *l)
{
    for (unsigned i = 0; i < l->n; i++) {
        const struct sfs_io_owner *o = &l->owner[i];
        if (l->v[i].result && o->row_failed)
            *o->row_failed = true;
        else if (l->v[i].result)
            rs->v[o->run].failed = true;
        if (l->v[i].result == -ENOSPC || l->v[i].result == -EDQUOT)
            note_full(d, l->v[i].disk);
    }
}

/* Writes the runs that were placed and not yet written; marks those that a copy of failed. */
static int write_fresh(struct sfs_data *d, struct sfs_runs *rs, unsigned flags, struct sfs_spans *spans)
{
    struct sfs_io_list l = {0};
    uint64_t token = sfs_quiesce_enter(d->quiesce); /* disk handles stay */
    for (unsigned i = 0; (flags & SFS_STORE_CHECKSUM) && i < rs->n; i++)
        if (rs->v[i].fresh)
            checksum(&rs->v[i]);
    int rc = sfs_stripes_build(rs, spans);
    SFS_LOCK(d);
    for (unsigned i = 0; !rc && i < rs->n; i++)
        if (rs->v[i].fresh && !rs->v[i].group->row_blocks)
            rc = plan(d, &rs->v[i], i, &l);
    if (!rc)
        rc = sfs_stripes_plan(d, spans, &l);
    SFS_UNLOCK(d);
    if (!rc && l.n)
        sfs_io_run(l.v, l.n);
    SFS_LOCK(d);
    if (!rc)
        settle_ios(d, rs, &l);
    SFS_UNLOCK(d);
    sfs_stripes_finish(d, rs, spans);
    SFS_LOCK(d);
    for (unsigned i = 0; i < rs->n; i++)
        if (rs->v[i].fresh && !rs->v[i].failed)
            mark_dirty(d, rs->v[i].group);
    SFS_UNLOCK(d);
    sfs_quiesce_exit(d->quiesce, token);
    sfs_io_list_free(&l);
    return rc;
}

/* A run's place is given back: never pending, so it is free as soon as a commit has looked. */
static void give_back(struct sfs_data *d, struct sfs_run *r, bool seal)
{
    SFS_LOCK(d);
    sfs_candidate(d, r->group->id, r->goff, r->slen);
    if (seal)
        sfs_group_seal(r->group);
    SFS_UNLOCK(d);
    sfs_allocate_done(d, r->group);
    r->group = NULL;
    r->fresh = r->failed = false;
}

void sfs_store_give_back(struct sfs_data *d, struct sfs_run *r)
{
    if (r->group)
        give_back(d, r, false);
}

/* --- placing ------------------------------------------------------------------------------------------------------------------------------ */

int sfs_runs_add(struct sfs_runs *rs, const struct sfs_run *r)
{
    if (rs->n == rs->cap) {
        unsigned cap = rs->cap * 2;
        struct sfs_run *v = realloc(rs->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        rs->v = v;
        rs->cap = cap;
    }
    rs->v[rs->n++] = *r;
    return 0;
}

int sfs_runs_split(struct sfs_runs *rs, unsigned i, uint32_t keep)
{
    const struct sfs_run *r = &rs->v[i];
    struct sfs_run rest = {.buf = r->buf, .buf_off = r->buf_off + keep, .slen = r->slen - keep, .split = true,
                           .item = r->item, .raw_off = r->raw_off + keep, .raw_len = r->raw_len - keep};
    int rc = sfs_runs_add(rs, &rest);
    if (rc)
        return rc;
    rs->v[i].raw_len = rs->v[i].slen = keep;
    return 0;
}

/* Finds a place for run i in blocks; one that may be split and for which there is no whole place is cut in two. */
static int place(struct sfs_volume *v, struct sfs_runs *rs, unsigned i, enum sfs_group_kind kind, unsigned flags)
{
    struct sfs_run *r = &rs->v[i];
    uint64_t want = sfs_blocks(r->slen), block, got;
    int rc = sfs_allocate(v, kind, want, flags | (r->split ? 0 : SFS_ALLOCATE_WHOLE), &r->group, &block, &got);
    if (rc)
        return rc;
    r->goff = block * SFS_BLOCK;
    r->fresh = true;
    if (got == want)
        return 0;
    rc = sfs_runs_split(rs, i, (uint32_t)(got * SFS_BLOCK));
    if (rc)
        sfs_store_give_back(v->data, &rs->v[i]);
    return rc;
}

static bool is_unplaced(const struct sfs_run *r)
{
    return !r->group && !r->result && !r->left;
}

/* All unplaced runs, by blocks. -ENOSPC leaves them unplaced; other errors are theirs. 0, -ENOSPC for one of them, -ESTALE. */
static int place_blocks(struct sfs_volume *v, struct sfs_runs *rs, enum sfs_group_kind kind, unsigned flags)
{
    int result = 0;
    for (unsigned i = 0; i < rs->n; i++) { /* what is split off comes up at the end */
        int rc = is_unplaced(&rs->v[i]) ? place(v, rs, i, kind, flags) : 0;
        if (rc == -ESTALE)
            return rc;
        if (rc == -ENOSPC)
            result = rc;
        else if (rc)
            rs->v[i].result = rc;
    }
    return result;
}

static void set_unplaced(struct sfs_runs *rs, int result)
{
    for (unsigned i = 0; i < rs->n; i++)
        if (is_unplaced(&rs->v[i])) {
            rs->v[i].result = result;
            rs->v[i].left = !result;
        }
}

/* With parity: rows that are filled; what is left lands; what can't land, in rows filled up with zeros; and when all else fails, with slabs missing. */
static int place_striped(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags, struct sfs_spans *spans)
{
    int rc = sfs_stripes_place(v, rs, 0, spans);
    if (flags & SFS_STORE_WHOLE_STRIPES) {
        set_unplaced(rs, rc == -EAGAIN ? 0 : rc);
        return 0;
    }
    if (rc == -EAGAIN || rc == -ENOSPC)
        rc = place_blocks(v, rs, SFS_GROUP_LANDING, 0);
    if (flags & SFS_STORE_NO_PADDING) {
        set_unplaced(rs, rc == -ENOSPC ? 0 : rc);
        return 0;
    }
    if (rc == -ENOSPC)
        rc = sfs_stripes_place(v, rs, SFS_ALLOCATE_PAD, spans);
    if (rc == -ENOSPC)
        rc = sfs_stripes_place(v, rs, SFS_ALLOCATE_PAD | SFS_ALLOCATE_LAST, spans);
    if (rc == -ENOSPC)
        rc = place_blocks(v, rs, SFS_GROUP_LANDING, SFS_ALLOCATE_LAST);
    return rc;
}

/* Finds a place for each run that has none. True when there is something to write, or to be tried again. */
static bool place_all(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags, struct sfs_spans *spans)
{
    struct sfs_space_row set;
    sfs_volume_settings(v, &set);
    int rc = sfs_resiliency_parity(set.resiliency) ? place_striped(v, rs, flags, spans) : place_blocks(v, rs, SFS_GROUP_DATA, SFS_ALLOCATE_LAST);
    if (rc && rc != -ESTALE)
        set_unplaced(rs, rc);
    bool any = rc == -ESTALE;
    for (unsigned i = 0; i < rs->n && !any; i++)
        any = rs->v[i].fresh;
    return any;
}

/* --- the whole ----------------------------------------------------------------------------------------------------------------------------- */

/* The result of a round. True when a run has to be written again. */
static bool finish_fresh(struct sfs_data *d, struct sfs_runs *rs, int rc)
{
    bool again = false;
    for (unsigned i = 0; i < rs->n; i++) {
        struct sfs_run *r = &rs->v[i];
        if (!r->fresh)
            continue;
        r->fresh = false;
        if (rc) {
            give_back(d, r, false);
            r->result = rc;
        } else if (r->failed) {
            give_back(d, r, true);
            again = true;
        }
    }
    return again;
}

int sfs_store(struct sfs_volume *v, struct sfs_runs *rs, unsigned flags)
{
    bool again = true;
    for (unsigned tries = 0; again && tries <= SFS_LABEL_PEERS; tries++) {
        struct sfs_spans spans = {0};
        again = place_all(v, rs, flags, &spans);
        if (again)
            again = finish_fresh(v->data, rs, write_fresh(v->data, rs, flags, &spans));
        else
            free(spans.v); /* none of them was filled */
        for (unsigned i = 0; i < rs->n && !again; i++)
            again = is_unplaced(&rs->v[i]);
    }
    int first = 0;
    for (unsigned i = 0; i < rs->n; i++) {
        struct sfs_run *r = &rs->v[i];
        if (!r->group && !r->result && !r->left)
            r->result = -EIO;
        if (!first)
            first = r->result;
    }
    return first;
}

int sfs_store_runs(struct sfs_volume *v, struct sfs_run *runs, unsigned n, unsigned flags)
{
    struct sfs_runs rs = {.v = runs, .n = n, .cap = n};
    for (unsigned i = 0; i < n; i++)
        SFS_ASSERT(!runs[i].split);
    return sfs_store(v, &rs, flags);
}
