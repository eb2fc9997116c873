/* Storing anew what a file has stored already, so that dead space in its extents comes free and small neighbours become one. Contents, holes, size and times stay; nothing is locked while bytes move.
 *
 * What may change meanwhile: a program writes (dirty blocks lie above the map: no matter), write-back or a truncation changes the map in the range. Then the pieces are no longer those that were read, and what was written is given up. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>
#include <string.h>

struct rewriting {
    struct sfs_inode *i;
    uint64_t from, to;           /* a run of pieces without a gap */
    struct sfs_extent *v;        /* the pieces, with references */
    unsigned n;
    struct sfs_extent *out;      /* SFS_WRITE_MAX_EXTENTS */
    unsigned nout;
};

/* Lock held. The first run of whole pieces in [from, to), at most SFS_EXTENT_MAX bytes. 0, -ENODATA (there is none), -ENOMEM. */
static int take(struct rewriting *r, uint64_t from, uint64_t to)
{
    struct sfs_map_node *p = sfs_map_find(&r->i->map, from), *q;
    unsigned n = 0;
    if (p && p->e.off < from)
        p = sfs_map_next(p);
    if (!p || sfs_map_end(p) > to)
        return -ENODATA;
    r->from = r->to = p->e.off;
    for (q = p; q && q->e.off == r->to && sfs_map_end(q) <= to && sfs_map_end(q) - r->from <= SFS_EXTENT_MAX; q = sfs_map_next(q)) {
        r->to = sfs_map_end(q);
        n++;
    }
    r->v = malloc(n * sizeof(*r->v));
    if (!r->v)
        return -ENOMEM;
    for (q = p; r->n < n; q = sfs_map_next(q)) {
        r->v[r->n] = q->e;
        sfs_stored_ref(r->v[r->n++].stored);
    }
    return 0;
}

static bool unchanged(struct rewriting *r)
{
    struct sfs_map_node *p = sfs_map_find(&r->i->map, r->from);
    for (unsigned k = 0; k < r->n; k++, p = sfs_map_next(p))
        if (!p || p->e.off != r->v[k].off || p->e.len != r->v[k].len || p->e.skip != r->v[k].skip || !sfs_stored_same(p->e.stored, r->v[k].stored))
            return false;
    return true;
}

/* Reads the pieces, verified, and writes their bytes to a new place. Quiesce was entered before the pieces were looked up. */
static int copy(struct rewriting *r, uint64_t token)
{
    struct sfs_vfs *vfs = r->i->vfs;
    uint32_t len = (uint32_t)(r->to - r->from);
    struct sfs_buf *buf = sfs_buf_new(len);
    struct sfs_read *reads = calloc(r->n, sizeof(*reads));
    int rc = buf && reads ? 0 : -ENOMEM;
    for (unsigned k = 0; !rc && k < r->n; k++)
        reads[k] = (struct sfs_read){.extent = r->v[k], .len = r->v[k].len, .out = buf->data + (r->v[k].off - r->from)};
    if (!rc && sfs_data_read(vfs->data, reads, r->n))
        rc = -EIO;
    sfs_quiesce_exit(sfs_data_quiesce(vfs->data), token);
    free(reads);
    uint64_t room = ((uint64_t)len + SFS_BLOCK - 1) / SFS_BLOCK * SFS_BLOCK;
    if (!rc)
        rc = sfs_volume_reserve(vfs->volume, room, true);
    if (!rc) {
        struct sfs_write_item it = {.buf = buf, .len = len, .out = r->out, .max = SFS_WRITE_MAX_EXTENTS, .spare = true};
        rc = sfs_data_write_vec(vfs->volume, &it, 1);
        r->nout = rc ? 0 : it.n;
        sfs_volume_unreserve(vfs->volume, room);
    }
    sfs_buf_unref(buf);
    return rc;
}

/* Lock held. 0: the file has the new extents. -EAGAIN: it has changed. */
static int put(struct rewriting *r)
{
    struct sfs_inode *i = r->i;
    if (i->dead || !unchanged(r))
        return -EAGAIN;
    int rc = sfs_map_prepare(&i->map, r->nout);
    if (rc)
        return rc;
    sfs_map_punch(&i->map, r->from, r->to);
    for (unsigned k = 0; k < r->nout; k++) {
        r->out[k].off += r->from;
        sfs_map_insert(&i->map, &r->out[k], false);
    }
    r->nout = 0; /* the map's */
    sfs_inode_mark_pending(i);
    return 0;
}

static int rewrite_run(struct sfs_inode *i, uint64_t from, uint64_t to, uint64_t *end)
{
    struct rewriting r = {.i = i, .out = malloc(SFS_WRITE_MAX_EXTENTS * sizeof(struct sfs_extent))};
    if (!r.out)
        return -ENOMEM;
    uint64_t token = sfs_quiesce_enter(sfs_data_quiesce(i->vfs->data));
    sfs_mutex_lock(&i->lock);
    int rc = i->dead || !S_ISREG(i->row.mode) ? -ENODATA : sfs_inode_load_data(i);
    if (!rc)
        rc = take(&r, from, to);
    sfs_mutex_unlock(&i->lock);
    *end = rc ? to : r.to;
    if (rc) {
        sfs_quiesce_exit(sfs_data_quiesce(i->vfs->data), token);
    } else {
        rc = copy(&r, token);
        sfs_mutex_lock(&i->lock);
        if (!rc)
            rc = put(&r);
        sfs_mutex_unlock(&i->lock);
    }
    for (unsigned k = 0; k < r.nout; k++)
        sfs_stored_unref(i->vfs->data, r.out[k].stored);
    for (unsigned k = 0; k < r.n; k++)
        sfs_stored_unref(i->vfs->data, r.v[k].stored);
    free(r.v);
    free(r.out);
    return rc;
}

int sfs_vfs_rewrite(struct sfs_vfs *vfs, uint64_t ino, uint64_t from, uint64_t to)
{
    struct sfs_inode *i;
    int rc = sfs_vfs_writable(vfs);
    if (!rc)
        rc = sfs_inode_get(vfs, ino, &i);
    if (rc)
        return rc;
    while (!rc && from < to)
        rc = rewrite_run(i, from, to, &from);
    sfs_inode_put(i);
    return rc == -ENODATA ? 0 : rc;
}
