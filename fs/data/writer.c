/* The writer: cut, compress, checksum, allocate, write all copies at once (DESIGN.md section 6).
 *
 * Purpose: sfs_data_write turns bytes into pending stored extents, each on every copy of its group.
 *
 * Invariants
 *   W1  checksums are made from the caller's buffer before the first byte leaves it
 *   W2  an extent is handed out only when every slab that its group has took the write (rule 4)
 *   W3  until its pending object exists, a run is kept from being dropped or moved by the group's in-flight count
 *
 * Failure: a run one of whose copies failed is written again, to another group; the group that failed it is sealed (its disk is fenced by fs/disk, or the group would fail the next write as well). What was taken becomes a
 * candidate for freeing. Tries are bounded by the number of disks. */
#include "fs/data/state.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

/* One run to be stored. */
struct run {
    struct sfs_buf *buf;       /* a reference */
    size_t buf_off;
    uint32_t raw_off, raw_len; /* in the caller's bytes */
    uint32_t slen;
    uint8_t codec;
    struct sfs_group *group;   /* in-flight counted */
    uint64_t goff;
    bool failed;
    uint64_t csum[SFS_EXTENT_MAX_CSUMS];
};

struct ios {
    struct sfs_io *v;
    unsigned *owner;           /* index of the run of each request */
    unsigned n, cap;
};

/* --- requests ---------------------------------------------------------------------------------------------------------------------------- */

static int push_io(struct ios *l, const struct sfs_io *io, unsigned owner)
{
    if (l->n == l->cap) {
        unsigned cap = l->cap ? l->cap * 2 : 32;
        struct sfs_io *v = realloc(l->v, cap * sizeof(*v));
        if (v)
            l->v = v;
        unsigned *o = realloc(l->owner, cap * sizeof(*o));
        if (o)
            l->owner = o;
        if (!v || !o)
            return -ENOMEM;
        l->cap = cap;
    }
    l->owner[l->n] = owner;
    l->v[l->n++] = *io;
    return 0;
}

/* Lock held. The requests that put a run on every slab that its group has. A disk that is out of use fails the run at once. */
static int plan(struct sfs_data *d, struct run *r, unsigned owner, struct ios *l)
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
            int rc = push_io(l, &io, owner);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static void checksum(struct run *r)
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

/* Writes the runs [0, n) that have a place; marks those that a copy of failed. */
static int write_runs(struct sfs_data *d, struct run *runs, unsigned n)
{
    struct ios l = {0};
    int rc = 0;
    uint64_t token = sfs_quiesce_enter(d->quiesce); /* disk handles stay */
    for (unsigned i = 0; i < n; i++)
        checksum(&runs[i]);
    SFS_LOCK(d);
    for (unsigned i = 0; !rc && i < n; i++)
        if (runs[i].group)
            rc = plan(d, &runs[i], i, &l);
    SFS_UNLOCK(d);
    if (!rc && l.n && sfs_io_run(l.v, l.n)) {
        SFS_LOCK(d);
        for (unsigned i = 0; i < l.n; i++) {
            if (l.v[i].result)
                runs[l.owner[i]].failed = true;
            if (l.v[i].result == -ENOSPC || l.v[i].result == -EDQUOT)
                note_full(d, l.v[i].disk);
        }
        SFS_UNLOCK(d);
    }
    sfs_quiesce_exit(d->quiesce, token);
    free(l.v);
    free(l.owner);
    return rc;
}

/* A run's place is given back: never pending, so it is free as soon as a commit has looked. */
static void give_back(struct sfs_data *d, struct run *r, bool seal)
{
    if (!r->group)
        return;
    SFS_LOCK(d);
    sfs_candidate(d, r->group->id, r->goff, r->slen);
    if (seal)
        sfs_group_seal(r->group);
    SFS_UNLOCK(d);
    sfs_allocate_done(d, r->group);
    r->group = NULL;
    r->failed = false;
}

/* --- cutting ----------------------------------------------------------------------------------------------------------------------------- */

struct runs {
    struct run v[SFS_WRITE_MAX_EXTENTS];
    unsigned n;
};

static int add_run(struct runs *rs, const struct run *r)
{
    if (rs->n == SFS_WRITE_MAX_EXTENTS)
        return -ENOMEM;
    rs->v[rs->n] = *r;
    sfs_buf_ref(r->buf);
    rs->n++;
    return 0;
}

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* The caller's bytes with the last block padded with zeros. The caller's buffer isn't written to (others may be reading it): a copy is made unless the padding is there already. */
static struct sfs_buf *padded(struct sfs_buf *buf, size_t *buf_off, uint32_t len)
{
    size_t full = sfs_blocks(len) * SFS_BLOCK;
    if (*buf_off + full <= buf->cap && all_zero(buf->data + *buf_off + len, full - len))
        return sfs_buf_ref(buf);
    struct sfs_buf *b = sfs_buf_new(full);
    if (!b)
        return NULL;
    memcpy(b->data, buf->data + *buf_off, len);
    memset(b->data + len, 0, full - len);
    *buf_off = 0;
    return b;
}

/* Raw pieces that follow each other become one run. */
static int add_raw(struct runs *rs, struct sfs_buf *buf, size_t buf_off, uint32_t raw_off, uint32_t len)
{
    struct run *last = rs->n ? &rs->v[rs->n - 1] : NULL;
    if (last && last->codec == SFS_CODEC_NONE && last->raw_off + last->raw_len == raw_off) {
        last->raw_len += len;
        last->slen += len;
        return 0;
    }
    return add_run(rs, &(struct run){.buf = buf, .buf_off = buf_off, .raw_off = raw_off, .raw_len = len, .slen = len});
}

static int cut_compressed(struct runs *rs, const struct sfs_space_row *set, struct sfs_buf *buf, size_t buf_off, uint32_t len)
{
    int rc = 0;
    for (uint32_t at = 0; !rc && at < len; at += SFS_CODEC_RAW_MAX) {
        uint32_t raw = len - at < SFS_CODEC_RAW_MAX ? len - at : SFS_CODEC_RAW_MAX;
        size_t blocks = sfs_blocks(raw), cap = blocks > 1 ? (blocks - 1) * SFS_BLOCK : 0;
        struct sfs_buf *z = cap ? sfs_buf_new(cap) : NULL;
        if (cap && !z)
            return -ENOMEM;
        size_t slen = z ? sfs_codec_compress(set->codec, set->codec_level, buf->data + buf_off + at, raw, z->data, cap) : 0;
        if (!slen) { /* it doesn't pay: not one block saved */
            rc = add_raw(rs, buf, buf_off + at, at, raw);
        } else {
            memset(z->data + slen, 0, sfs_blocks(slen) * SFS_BLOCK - slen);
            rc = add_run(rs, &(struct run){.buf = z, .raw_off = at, .raw_len = raw, .slen = (uint32_t)slen, .codec = set->codec});
        }
        sfs_buf_unref(z);
    }
    return rc;
}

/* --- placing ------------------------------------------------------------------------------------------------------------------------------ */

/* Finds a place for run i. A raw run for which there is no whole place is cut in two. A compressed one that finds none is stored raw. */
static int place(struct sfs_volume *v, struct runs *rs, unsigned i, struct sfs_buf *raw, size_t raw_off)
{
    struct run *r = &rs->v[i];
    uint64_t want = sfs_blocks(r->slen), block, got;
    bool compressed = r->codec != SFS_CODEC_NONE;
    int rc = sfs_allocate(v, want, compressed, &r->group, &block, &got);
    if (rc == -ENOSPC && compressed) {
        sfs_buf_unref(r->buf);
        r->buf = sfs_buf_ref(raw);
        r->buf_off = raw_off + r->raw_off;
        r->slen = r->raw_len;
        r->codec = SFS_CODEC_NONE;
        return place(v, rs, i, raw, raw_off);
    }
    if (rc)
        return rc;
    r->goff = block * SFS_BLOCK;
    if (got == want)
        return 0;
    if (rs->n == SFS_WRITE_MAX_EXTENTS) {
        give_back(v->data, r, false);
        return -ENOSPC;
    }
    memmove(r + 2, r + 1, (rs->n - i - 1) * sizeof(*r));
    rs->n++;
    uint32_t first = (uint32_t)(got * SFS_BLOCK);
    r[1] = (struct run){.buf = sfs_buf_ref(r->buf), .buf_off = r->buf_off + first, .raw_off = r->raw_off + first,
                        .raw_len = r->raw_len - first, .slen = r->slen - first};
    r->raw_len = r->slen = first;
    return 0;
}

/* Places and writes what has no place yet, until all of it is on every copy. */
static int store(struct sfs_volume *v, struct runs *rs, struct sfs_buf *raw, size_t raw_off)
{
    struct sfs_data *d = v->data;
    for (unsigned tries = 0; tries <= SFS_LABEL_PEERS; tries++) {
        unsigned from = rs->n, to = 0; /* only what is placed in this round is written */
        for (unsigned i = 0; i < rs->n; i++) {
            if (rs->v[i].group)
                continue;
            int rc = place(v, rs, i, raw, raw_off);
            if (rc)
                return rc;
            if (i < from)
                from = i;
            to = i + 1;
        }
        if (from >= to)
            return 0;
        int rc = write_runs(d, rs->v + from, to - from);
        if (rc)
            return rc;
        bool failed = false;
        for (unsigned i = from; i < to; i++)
            if (rs->v[i].failed) {
                give_back(d, &rs->v[i], true);
                failed = true;
            }
        if (!failed)
            return 0;
    }
    return -EIO;
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------------------- */

static int hand_out(struct sfs_data *d, struct runs *rs, struct sfs_extent *out)
{
    for (unsigned i = 0; i < rs->n; i++) {
        struct run *r = &rs->v[i];
        unsigned ncsum = sfs_checksum_count(r->codec, r->slen);
        SFS_LOCK(d);
        mark_dirty(d, r->group);
        struct sfs_stored_key key = {r->group->id, r->goff, r->slen};
        struct sfs_stored *s = sfs_stored_new(d, &key, r->raw_len, r->codec, (uint8_t)ncsum, r->csum);
        SFS_UNLOCK(d);
        if (!s) {
            while (i-- > 0)
                sfs_stored_unref(d, out[i].stored);
            return -ENOMEM;
        }
        out[i] = (struct sfs_extent){.off = r->raw_off, .len = r->raw_len, .skip = 0, .stored = s};
    }
    return 0;
}

int sfs_data_write(struct sfs_volume *v, struct sfs_buf *buf, size_t buf_off, uint32_t len, struct sfs_extent *out, unsigned max, unsigned *n)
{
    struct sfs_data *d = v->data;
    SFS_ASSERT(len > 0 && len <= SFS_EXTENT_MAX);
    if (sfs_data_readonly(d))
        return -EROFS;
    struct sfs_space_row set;
    sfs_volume_settings(v, &set);
    struct sfs_buf *raw = padded(buf, &buf_off, len);
    struct runs *rs = calloc(1, sizeof(*rs));
    int rc = raw && rs ? 0 : -ENOMEM;
    if (!rc)
        rc = set.codec == SFS_CODEC_NONE ? add_raw(rs, raw, buf_off, 0, len) : cut_compressed(rs, &set, raw, buf_off, len);
    if (!rc)
        rc = store(v, rs, raw, buf_off);
    if (!rc && rs->n > max)
        rc = -ENOSPC;
    if (!rc)
        rc = hand_out(d, rs, out);
    if (!rc)
        *n = rs->n;
    for (unsigned i = 0; rs && i < rs->n; i++) {
        if (rc)
            give_back(d, &rs->v[i], false);
        else
            sfs_allocate_done(d, rs->v[i].group);
        sfs_buf_unref(rs->v[i].buf);
    }
    free(rs);
    sfs_buf_unref(raw);
    return rc;
}

int sfs_write_stored(struct sfs_volume *v, struct sfs_buf *buf, size_t buf_off, uint32_t slen, struct sfs_group **g, uint64_t *goff)
{
    struct sfs_data *d = v->data;
    for (unsigned tries = 0; tries <= SFS_LABEL_PEERS; tries++) {
        struct run r = {.buf = buf, .buf_off = buf_off, .slen = slen, .raw_len = slen};
        uint64_t block, got;
        int rc = sfs_allocate(v, sfs_blocks(slen), true, &r.group, &block, &got);
        if (rc)
            return rc;
        r.goff = block * SFS_BLOCK;
        rc = write_runs(d, &r, 1);
        if (!rc && !r.failed) {
            SFS_LOCK(d);
            mark_dirty(d, r.group);
            SFS_UNLOCK(d);
            *g = r.group; /* in-flight counted until sfs_allocate_done */
            *goff = r.goff;
            return 0;
        }
        give_back(d, &r, !rc);
        if (rc)
            return rc;
    }
    return -EIO;
}
