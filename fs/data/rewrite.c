/* Rule 4 at commit: what was written to a group before one of its disks dropped out, and isn't committed, is written again to healthy disks. */
#include "fs/data/batch.h"
#include "fs/data/store.h"

#include <stdlib.h>

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

/* Lock held. Does the extent lie on a slab that has dropped out? */
static bool extent_shaken(struct sfs_data *d, const struct sfs_group *g, const struct sfs_stored *s)
{
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

/* A reference to the first pending extent that a lost disk held a part of and that isn't known to be lost; its volume. */
static struct sfs_stored *next_shaken(struct sfs_data *d, struct sfs_volume **v)
{
    struct sfs_stored *found = NULL;
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g && !found; g = g->hh.next) {
        if (RB_EMPTY(&g->pending) || !sfs_group_shaken(d, g))
            continue;
        sfs_group_seal(g);
        struct sfs_stored *s;
        RB_FOREACH(s, sfs_stored_tree, &g->pending)
            if (!s->lost && extent_shaken(d, g, s)) {
                found = sfs_stored_ref(s);
                *v = g->volume;
                break;
            }
    }
    SFS_UNLOCK(d);
    return found;
}

/* No other place: the extent's group stays, the slab that dropped out is recorded as missing, to be built anew from the other copies: only where the same column has another copy, which all that is committed there has too. */
static int record_missing(struct sfs_data *d, uint64_t id)
{
    int rc = 0;
    sfs_catalog_lock(d->cat);
    for (unsigned i = 0; !rc && i < SFS_MAX_SLABS_PER_GROUP; i++) {
        struct sfs_slab_row row = {0};
        SFS_LOCK(d);
        struct sfs_group *g = sfs_group_find(d, id);
        if (g && i < sfs_geometry_slabs(&g->geo) && g->slabs[i].disk && !sfs_member_online(sfs_member_find(d, g->slabs[i].disk)) &&
            sfs_column_has_copy(d, g, i / g->geo.copies)) {
            row = g->slabs[i];
            sfs_slab_forget(d, &g->slabs[i]);
            row.disk = 0;
            row.slot = 0;
        }
        SFS_UNLOCK(d);
        if (row.group)
            rc = sfs_catalog_slab_put(d->cat, &row);
    }
    sfs_catalog_unlock(d->cat);
    return rc;
}

/* Writes one pending extent again. 0; 1: it is lost; -errno. */
static int rewrite(struct sfs_data *d, struct sfs_volume *v, struct sfs_stored *s)
{
    struct sfs_buf *buf;
    uint32_t start;
    uint64_t token = sfs_quiesce_enter(d->quiesce);
    int rc = sfs_fetch_stored(d, s, 0, (uint32_t)s->key.slen, &buf, &start);
    sfs_quiesce_exit(d->quiesce, token);
    if (rc == -EIO)
        return 1;
    if (rc)
        return rc;
    struct sfs_run run = {.buf = buf, .slen = (uint32_t)s->key.slen};
    rc = sfs_store_runs(v, &run, 1, 0);
    sfs_buf_unref(buf);
    if (rc == -ENOSPC || rc == -EIO) {
        SFS_LOCK(d);
        uint64_t id = s->key.group;
        SFS_UNLOCK(d);
        return record_missing(d, id);
    }
    if (rc)
        return rc;
    SFS_LOCK(d);
    sfs_stored_move(d, s, run.group->id, run.goff);
    SFS_UNLOCK(d);
    sfs_allocate_done(d, run.group);
    return 0;
}

int sfs_rewrite_shaken(struct sfs_data *d, struct sfs_batch *b, bool *rewritten)
{
    struct sfs_volume *v;
    struct sfs_stored *s;
    *rewritten = false;
    while ((s = next_shaken(d, &v))) {
        int rc = rewrite(d, v, s);
        if (rc == 1) {
            SFS_LOCK(d);
            s->lost = true;
            SFS_UNLOCK(d);
            rc = 0;
        } else {
            *rewritten = true;
        }
        sfs_stored_unref(d, s);
        if (rc)
            return rc;
    }
    tell_lost(d, b);
    return 0;
}
