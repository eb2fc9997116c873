/* Rule 4 at commit: what was written to a group before one of its disks dropped out, and isn't committed, is written again to healthy disks. */
#include "fs/data/batch.h"
#include "fs/data/store.h"

#include <stdlib.h>
#include <string.h>

/* The owners of what is lost in this batch report it: found lost now, or when an earlier commit was settled. */
static void tell_lost(struct sfs_data *d, struct sfs_batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct sfs_change *c = &b->v[i].change;
        uint64_t bytes = 0;
        SFS_LOCK(d);
        for (unsigned k = 0; k < c->nextents; k++)
            if (c->extents[k].stored->lost && !c->extents[k].stored->applied)
                bytes += c->extents[k].len;
        SFS_UNLOCK(d);
        if (!bytes || b->v[i].told_lost)
            continue;
        b->v[i].told_lost = true;
        b->v[i].client->lost(b->v[i].client->ctx, c->owner, c->ino);
        sfs_data_event(d, "error", "data-lost", 0, "%llu bytes of inode %llu, written since the last commit, had their only copy on a disk that failed", (unsigned long long)bytes,
                       (unsigned long long)c->ino);
    }
}

/* --- what is shaken ------------------------------------------------------------------------------------------------------------------------- */

#define BATCH 64u
#define BATCH_BYTES (8u << 20)

struct shaken {
    struct sfs_volume *v;
    struct sfs_stored *s[BATCH]; /* references; of one volume */
    struct sfs_run run[BATCH];
    unsigned n;
};

/* Lock held. Has the extent lost a slab that it, or with parity a row of it, lies on? A row's columns depend on each other: what was written to the lost one may be stale when it returns. */
static bool extent_shaken(struct sfs_data *d, const struct sfs_group *g, const struct sfs_stored *s)
{
    if (g->geo.parity)
        return true; /* the group is */
    uint64_t off = s->key.goff, end = off + sfs_blocks(s->key.slen) * SFS_BLOCK;
    struct sfs_piece p;
    while (sfs_geometry_next(&g->geo, &off, end, &p))
        for (unsigned k = 0; k < g->geo.copies; k++) {
            int id = g->slabs[p.column * g->geo.copies + k].disk;
            if (id && !sfs_member_online(sfs_member_find(d, id)))
                return true;
        }
    return false;
}

/* Pending extents that a lost disk held a part of and of which it isn't settled yet what becomes of them: so many as make a batch. */
static void next_shaken(struct sfs_data *d, struct shaken *b)
{
    uint64_t bytes = 0;
    b->n = 0;
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next) {
        if ((b->n && g->volume != b->v) || RB_EMPTY(&g->pending) || !sfs_group_shaken(d, g))
            continue;
        sfs_group_seal(g);
        struct sfs_stored *s;
        RB_FOREACH(s, sfs_stored_tree, &g->pending) {
            if (b->n == BATCH || bytes >= BATCH_BYTES)
                break;
            if (s->lost || s->kept || !extent_shaken(d, g, s))
                continue;
            b->v = g->volume;
            b->s[b->n++] = sfs_stored_ref(s);
            bytes += s->key.slen;
        }
    }
    SFS_UNLOCK(d);
}

/* --- where it goes ---------------------------------------------------------------------------------------------------------------------------- */

/* No other place: the extent's group stays, the slab that dropped out is recorded as missing, to be built anew from the others: only where these have all that is committed there. *changed: there was one. */
static int record_missing(struct sfs_data *d, uint64_t id, bool *changed)
{
    int rc = 0;
    *changed = false;
    sfs_catalog_lock(d->cat);
    for (unsigned i = 0; !rc && i < SFS_MAX_SLABS_PER_GROUP; i++) {
        struct sfs_slab_row row = {0};
        SFS_LOCK(d);
        struct sfs_group *g = sfs_group_find(d, id);
        if (g && i < sfs_geometry_slabs(&g->geo) && g->slabs[i].disk && !sfs_member_online(sfs_member_find(d, g->slabs[i].disk)) &&
            sfs_slab_is_spare(d, g, i)) {
            row = g->slabs[i];
            sfs_slab_forget(d, &g->slabs[i]);
            row.disk = 0;
            row.slot = 0;
        }
        SFS_UNLOCK(d);
        if (row.group) {
            *changed = true;
            rc = sfs_catalog_slab_put(d->cat, &row);
        }
    }
    sfs_catalog_unlock(d->cat);
    return rc;
}

/* It can be read, but neither written elsewhere nor healed where it is (its group has lost more than it bears): it stays as it is. */
static int keep(struct sfs_data *d, struct sfs_stored *s)
{
    SFS_LOCK(d);
    uint64_t id = s->key.group;
    struct sfs_group *g = sfs_group_find(d, id);
    bool shaken = g && sfs_group_shaken(d, g);
    SFS_UNLOCK(d);
    bool changed = false;
    int rc = shaken ? record_missing(d, id, &changed) : 0;
    if (!rc && shaken && !changed) {
        SFS_LOCK(d);
        s->kept = true;
        SFS_UNLOCK(d);
    }
    return rc;
}

/* Reads one of the batch; what has no good copy is lost, and has the result -EIO. 0 or -errno. */
static int fetch(struct sfs_data *d, struct sfs_stored *s, struct sfs_run *r)
{
    uint32_t start;
    *r = (struct sfs_run){.slen = (uint32_t)s->key.slen};
    uint64_t token = sfs_quiesce_enter(d->quiesce);
    int rc = sfs_fetch_stored(d, s, 0, r->slen, &r->buf, &start);
    sfs_quiesce_exit(d->quiesce, token);
    if (!rc)
        memset(r->buf->data + r->slen, 0, sfs_blocks(r->slen) * SFS_BLOCK - r->slen);
    if (rc != -EIO)
        return rc;
    r->buf = NULL;
    r->result = -EIO;
    SFS_LOCK(d);
    s->lost = true;
    SFS_UNLOCK(d);
    return 0;
}

/* *rewritten: one of them has another place now, or needs none. */
static int rewrite(struct sfs_data *d, struct shaken *b, bool *rewritten)
{
    int rc = 0;
    for (unsigned i = 0; i < b->n; i++)
        b->run[i] = (struct sfs_run){.result = -ECANCELED};
    for (unsigned i = 0; !rc && i < b->n; i++)
        rc = fetch(d, b->s[i], &b->run[i]);
    if (!rc)
        sfs_store_runs(b->v, b->run, b->n, 0);
    for (unsigned i = 0; i < b->n; i++) {
        struct sfs_run *r = &b->run[i];
        *rewritten |= r->buf != NULL;
        if (r->group) {
            SFS_LOCK(d);
            sfs_stored_move(d, b->s[i], r->group->id, r->goff);
            SFS_UNLOCK(d);
            sfs_allocate_done(d, r->group);
        } else if (!rc && r->buf && (r->result == -ENOSPC || r->result == -EIO)) {
            rc = keep(d, b->s[i]);
        } else if (!rc && r->buf) {
            rc = r->result;
        }
        sfs_buf_unref(r->buf);
        sfs_stored_unref(d, b->s[i]);
    }
    return rc;
}

int sfs_rewrite_shaken(struct sfs_data *d, struct sfs_batch *b, bool *rewritten)
{
    struct shaken *todo = calloc(1, sizeof(*todo));
    int rc = todo ? 0 : -ENOMEM;
    *rewritten = false;
    while (!rc) {
        next_shaken(d, todo);
        if (!todo->n)
            break;
        rc = rewrite(d, todo, rewritten);
    }
    free(todo);
    if (!rc)
        tell_lost(d, b);
    return rc;
}
