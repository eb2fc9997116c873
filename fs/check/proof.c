/* What a slab really holds: the checksums of the extents that should lie in it, against the bytes that do. Only what lies on this one slab can be told by it: all of it with mirrors, with several columns what doesn't straddle two. */
#include "fs/check/check_impl.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include "fs/data/codec.h"
#include "fs/layout/geometry.h"

struct proving {
    struct sfs_disk *disk;
    const struct sfs_audit_slab *slab;
    struct sfs_geometry g;
    struct sfs_buf *buf; /* SFS_EXTENT_MAX */
    unsigned most;       /* checksums to be compared */
    struct sfs_check_proof *out;
};

/* Reads bytes [off, end) of the group from the slab. 1: some of them lie elsewhere. */
static int read_range(struct proving *v, uint64_t off, uint64_t end)
{
    struct sfs_piece p;
    size_t at = 0;
    for (uint64_t o = off; sfs_geometry_next(&v->g, &o, end, &p);)
        if (p.column != v->slab->col)
            return 1;
    for (uint64_t o = off; sfs_geometry_next(&v->g, &o, end, &p); at += p.len) {
        struct sfs_io io = {.op = SFS_IO_READ, .disk = v->disk, .slot = v->slab->slot, .off = p.slab_off, .len = p.len, .buf = v->buf, .buf_off = at};
        if (sfs_io_run(&io, 1))
            return io.result;
    }
    return 0;
}

static uint64_t csum_at(const uint8_t *csum, unsigned i)
{
    uint64_t v;
    memcpy(&v, csum + 8 * (size_t)i, sizeof(v));
    return le64toh(v);
}

static int prove_extent(void *ctx, const struct sfs_audit_extent *e)
{
    struct proving *v = ctx;
    if (e->off > sfs_geometry_capacity(&v->g) || e->slen > sfs_geometry_capacity(&v->g) - e->off)
        return 0;
    for (unsigned i = 0; i < e->ncsum; i++) {
        uint32_t from, to;
        sfs_checksum_range((enum sfs_codec)e->codec, e->slen, i, &from, &to);
        int rc = read_range(v, e->off + from, e->off + to);
        if (rc == -ENODEV || rc == -ETIMEDOUT)
            return rc;
        if (rc == 1)
            continue;
        bool good = rc == 0 && sfs_checksum(v->buf->data, to - from) == csum_at(e->csum, i);
        v->out->good += good;
        v->out->bad += !good;
        if (v->out->good + v->out->bad >= v->most)
            return 1;
    }
    return 0;
}

int sfs_check_prove_slab(struct sfs_check *c, struct sfs_disk *disk, const struct sfs_audit_slab *s, unsigned most, struct sfs_check_proof *out)
{
    struct proving v = {.disk = disk, .slab = s, .most = most, .out = out};
    struct sfs_label *l = malloc(sizeof(*l));
    *out = (struct sfs_check_proof){0};
    if (!l)
        return -ENOMEM;
    sfs_disk_label(disk, l);
    bool there = s->slot < l->capacity_slabs;
    free(l);
    if (!there || sfs_geometry_init(&v.g, (enum sfs_resiliency)s->resiliency, s->columns, s->interleave, c->slab_bytes, NULL))
        return 0;
    v.buf = sfs_buf_new(SFS_EXTENT_MAX);
    int rc = v.buf ? sfs_audit_group_extents(c->audit, s->grp, prove_extent, &v) : -ENOMEM;
    sfs_buf_unref(v.buf);
    return rc == 1 ? 0 : rc;
}

/* --- two slabs in one slot --- */

static int judge_one(void *ctx, const struct sfs_audit_slab *s)
{
    struct sfs_check *c = ctx;
    struct sfs_check_proof p = {0};
    struct sfs_check_disk *d = sfs_check_disk_of(c, &s->disk);
    if (!d || !d->disk)
        return sfs_audit_slab_proven(c->audit, s, -1);
    int rc = sfs_check_prove_slab(c, d->disk, s, SFS_CHECK_PROOFS, &p);
    if (rc == -ENODEV || rc == -ETIMEDOUT)
        return sfs_audit_slab_proven(c->audit, s, -1);
    return rc ? rc : sfs_audit_slab_proven(c->audit, s, p.good);
}

int sfs_check_judge_contested(struct sfs_check *c)
{
    return sfs_audit_slabs_contested(c->audit, judge_one, c);
}
