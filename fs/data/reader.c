/* The reader: verified bytes from the best copy, from others when it is bad, and repair of what was bad (rule 6).
 *
 * Terms
 *   span    the stored bytes under the checksums that a read needs: whole checksum granules
 *   source  where a piece of a column can be had from: source k < copies is copy k. With parity: 0 is the column itself, 1 the other columns of its row, and with two parities
 *           2 + c the other columns but c
 *
 * A read goes in two steps. FAST: every span from one source each (a piece whose column is away: from the other columns), all requests of a call in one sfs_io_run; what verifies is done. SLOW, for each granule that failed: every source of every piece of it is read; blocks on which they
 * agree are settled, those on which they differ are tried in all combinations (bounded) until the checksum holds: rot in both copies, in different blocks, still reads right. Then what was bad is rewritten in place.
 *
 * Invariants: R1 bytes reach the caller only after their checksum held. R2 repair writes only verified bytes, only inside quiesce (so the place cannot have been given to anybody else since it was looked up), only to a disk that is online.
 * R3 a stored extent's place is read under the lock together with its group's slabs. R4 who reads it in several steps goes by the place that it had at the first: a mover may give it another meanwhile, in a group
 * of another shape, but what lies at the old one stays as it is until quiesce is left. */
#include "fs/data/rebuild.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SOURCES (2u + SFS_MAX_COLUMNS)
#define MAX_COMBINATIONS 4096u

struct span {
    struct sfs_stored *stored;
    uint32_t first, last;      /* checksums, inclusive */
    uint32_t from, to;         /* stored bytes that they cover */
    struct sfs_buf *buf;       /* to - from, rounded up to blocks */
    unsigned ios;              /* requests of its own in the list, from first_io */
    unsigned first_io;
    bool all;                  /* goes on behind a granule without a good copy */
    unsigned bad;              /* granules that the fast way didn't have right */
    int result;
};

/* --- choosing a source ------------------------------------------------------------------------------------------------------------------- */

/* Lock held. The copy to read first: the less busy disk; runs that follow each other in a file lie in different groups or megabytes, so that a sequential reader alternates. -1: none online. */
static int best_copy(struct sfs_data *d, const struct sfs_group *g, unsigned column, uint64_t goff)
{
    int best = -1;
    uint32_t best_queue = 0;
    unsigned turn = (unsigned)(goff / SFS_EXTENT_MAX);
    for (unsigned i = 0; i < g->geo.copies; i++) {
        unsigned copy = (turn + i) % g->geo.copies;
        struct sfs_member *m = sfs_member_find(d, g->slabs[column * g->geo.copies + copy].disk);
        if (!sfs_member_online(m))
            continue;
        if (g->geo.copies == 1)
            return 0;
        struct sfs_disk_counters c;
        sfs_disk_counters(m->disk, &c);
        if (best < 0 || c.queued < best_queue) {
            best = (int)copy;
            best_queue = c.queued;
        }
    }
    return best;
}

/* Lock held. Adds the requests that read bytes [from, to) of what is stored at a place from `copy` of each column (-1: the best) into buf, where byte `from` is first. What is on a column that is away is rebuilt, for `owner`, if rs
 * is given; else -EIO. */
static int plan_read(struct sfs_data *d, const struct sfs_stored_key *place, uint32_t from, uint32_t to, int copy, struct sfs_buf *buf, struct sfs_ios *l, struct sfs_rebuilds *rs,
                     unsigned owner)
{
    struct sfs_group *g = sfs_group_find(d, place->group);
    if (!g)
        return -EIO;
    uint64_t off = place->goff + from, end = place->goff + to;
    struct sfs_piece p;
    while (sfs_geometry_next(&g->geo, &off, end, &p)) {
        int k = copy >= 0 ? copy : best_copy(d, g, p.column, place->goff);
        struct sfs_slab_row *slab = k < 0 ? NULL : &g->slabs[p.column * g->geo.copies + (unsigned)k];
        struct sfs_member *m = slab ? sfs_member_find(d, slab->disk) : NULL;
        size_t at = p.group_off - place->goff - from;
        if (!sfs_member_online(m)) {
            int rc = rs && g->geo.parity ? sfs_rebuild_plan(d, g, &p, buf, at, owner, rs, l) : -EIO;
            if (rc)
                return rc;
            continue;
        }
        struct sfs_io io = {.op = SFS_IO_READ, .disk = m->disk, .slot = slab->slot, .off = p.slab_off, .len = p.len, .buf = buf,
                            .buf_off = at};
        int rc = sfs_ios_push(l, &io);
        if (rc)
            return rc;
    }
    return 0;
}

/* --- the slow way ------------------------------------------------------------------------------------------------------------------------ */

struct granule {
    struct sfs_data *d;
    struct sfs_stored *stored;
    struct sfs_stored_key place;           /* where it lay when the reading began (R4) */
    uint32_t from, to;                     /* stored bytes under one checksum */
    uint64_t csum;
    unsigned sources;
    unsigned parity;                       /* columns of parity in its group */
    struct sfs_columns columns;            /* with parity: where the sources come from */
    struct sfs_buf *buf[MAX_SOURCES];      /* the granule as each source has it */
    uint8_t *have[MAX_SOURCES];            /* by block: could it be read */
};

static int rebuild_source(struct granule *g, unsigned source)
{
    if (source == 0) {
        sfs_columns_direct(&g->columns, g->buf[0]->data, g->have[0]);
        return 0;
    }
    return sfs_columns_rebuild(&g->columns, source == 1 ? SFS_NO_COLUMN : source - 2, g->buf[source]->data, g->have[source]);
}

static int read_source(struct granule *g, unsigned source)
{
    struct sfs_data *d = g->d;
    uint32_t len = g->to - g->from;
    g->buf[source] = sfs_buf_new(sfs_blocks(len) * SFS_BLOCK);
    g->have[source] = calloc(sfs_blocks(len), 1);
    if (!g->buf[source] || !g->have[source])
        return -ENOMEM;
    if (g->parity)
        return rebuild_source(g, source);
    /* Block by block, so that one bad sector does not hide its neighbours. */
    struct sfs_ios l = {0};
    int rc = 0;
    SFS_LOCK(d);
    for (uint32_t at = g->from; rc != -ENOMEM && at < g->to; at += SFS_BLOCK) {
        uint32_t end = at + SFS_BLOCK < g->to ? at + SFS_BLOCK : g->to;
        unsigned before = l.n;
        rc = plan_read(d, &g->place, at, end, (int)source, g->buf[source], &l, NULL, 0);
        if (rc == 0)
            l.v[before].buf_off = at - g->from;
    }
    SFS_UNLOCK(d);
    if (rc != -ENOMEM && l.n) {
        sfs_io_run(l.v, l.n);
        for (unsigned i = 0; i < l.n; i++)
            g->have[source][l.v[i].buf_off / SFS_BLOCK] = l.v[i].result == 0;
    }
    free(l.v);
    return rc == -ENOMEM ? rc : 0;
}

/* The distinct contents of one block among the sources; returns how many, their sources in of[]. */
static unsigned variants(const struct granule *g, uint32_t block, unsigned *of)
{
    unsigned n = 0;
    uint32_t at = block * SFS_BLOCK, len = g->to - g->from - at < SFS_BLOCK ? g->to - g->from - at : SFS_BLOCK;
    for (unsigned s = 0; s < g->sources; s++) {
        if (!g->have[s][block])
            continue;
        bool known = false;
        for (unsigned k = 0; k < n && !known; k++)
            known = !memcmp(g->buf[s]->data + at, g->buf[of[k]]->data + at, len);
        if (!known)
            of[n++] = s;
    }
    return n;
}

static uint32_t block_len(const struct granule *g, uint32_t block)
{
    uint32_t left = g->to - g->from - block * SFS_BLOCK;
    return left < SFS_BLOCK ? left : SFS_BLOCK;
}

/* Is one source good as it is? The usual case: one copy is bad, however much of it. */
static bool settle_whole(const struct granule *g, uint8_t *out)
{
    uint32_t len = g->to - g->from;
    for (unsigned s = 0; s < g->sources; s++) {
        if (memchr(g->have[s], 0, sfs_blocks(len)) || sfs_checksum(g->buf[s]->data, len) != g->csum)
            continue;
        memcpy(out, g->buf[s]->data, len);
        return true;
    }
    return false;
}

struct choice {
    uint32_t block;
    unsigned n, at, of[MAX_SOURCES]; /* its variants; the one in use */
};

/* The blocks on which sources differ; what they agree on goes into out. false: a block that nobody has, or too many combinations. */
static bool choices(const struct granule *g, uint8_t *out, struct choice *v, uint32_t *n)
{
    uint64_t combos = 1;
    *n = 0;
    for (uint32_t b = 0; b < sfs_blocks(g->to - g->from); b++) {
        struct choice *c = &v[*n];
        *c = (struct choice){.block = b};
        c->n = variants(g, b, c->of);
        if (c->n == 0)
            return false;
        memcpy(out + b * SFS_BLOCK, g->buf[c->of[0]]->data + b * SFS_BLOCK, block_len(g, b));
        if (c->n == 1)
            continue;
        ++*n;
        combos *= c->n;
        if (combos > MAX_COMBINATIONS)
            return false;
    }
    return true;
}

/* Finds contents whose checksum holds; into out. */
static bool settle(const struct granule *g, uint8_t *out)
{
    if (settle_whole(g, out))
        return true;
    uint32_t len = g->to - g->from, n;
    struct choice *v = calloc(sfs_blocks(len) + 1, sizeof(*v));
    bool possible = v && choices(g, out, v, &n), good = false;
    while (possible && !good) {
        good = sfs_checksum(out, len) == g->csum;
        uint32_t i = 0;
        for (; !good && i < n; i++) { /* the next combination: count in mixed radix */
            struct choice *c = &v[i];
            c->at = (c->at + 1) % c->n;
            memcpy(out + c->block * SFS_BLOCK, g->buf[c->of[c->at]]->data + c->block * SFS_BLOCK, block_len(g, c->block));
            if (c->at)
                break;
        }
        possible = i < n;
    }
    free(v);
    return good;
}

/* Each source's blocks that could be read but differ from the good ones, or could not be read on a disk that is online, are rewritten; counted against their disks. */
static void repair(const struct granule *g, struct sfs_buf *good)
{
    struct sfs_data *d = g->d;
    struct sfs_stored *s = g->stored;
    struct sfs_ios l = {0};
    uint32_t len = g->to - g->from;
    SFS_LOCK(d);
    struct sfs_group *grp = sfs_group_find(d, g->place.group);
    for (uint32_t b = 0; grp && b < sfs_blocks(len); b++) {
        uint32_t at = b * SFS_BLOCK, n = len - at < SFS_BLOCK ? len - at : SFS_BLOCK;
        uint64_t off = g->place.goff + g->from + at, end = off + SFS_BLOCK;
        struct sfs_piece p;
        if (!sfs_geometry_next(&grp->geo, &off, end, &p))
            break;
        for (unsigned k = 0; k < grp->geo.copies; k++) {
            if (g->have[k][b] && !memcmp(g->buf[k]->data + at, good->data + at, n))
                continue;
            struct sfs_slab_row *slab = &grp->slabs[p.column * grp->geo.copies + k];
            struct sfs_member *m = sfs_member_find(d, slab->disk);
            if (!sfs_member_online(m))
                continue;
            m->row.checksum_errors += g->have[k][b]; /* what could not be read, the disk's handle has counted */
            struct sfs_io io = {.op = SFS_IO_WRITE, .disk = m->disk, .slot = slab->slot, .off = p.slab_off, .len = SFS_BLOCK, .buf = good,
                                .buf_off = at};
            if (sfs_ios_push(&l, &io))
                continue;
            sfs_repaired_note(d, s, m->row.id);
            m->repaired++; /* the owner of the pool tells how many, now and then */
        }
    }
    SFS_UNLOCK(d);
    if (l.n && !sfs_data_readonly(d)) {
        sfs_io_run(l.v, l.n); /* a failure fences the disk; the good bytes are what counts here */
        SFS_LOCK(d);
        for (unsigned i = 0; i < l.n; i++) {
            struct sfs_member *m = sfs_member_of(d, l.v[i].disk);
            if (m)
                m->dirty = true; /* once the write is complete: the next commit syncs it */
        }
        SFS_UNLOCK(d);
    }
    free(l.v);
}

/* The sources up to n are read, and tried. 0; -EIO: no contents whose checksum holds; -ENOMEM. */
static int try_sources(struct granule *g, unsigned n, struct sfs_buf *good)
{
    int rc = 0;
    for (; !rc && g->sources < n; g->sources++)
        rc = read_source(g, g->sources);
    return rc ? rc : settle(g, good->data) ? 0 : -EIO;
}

/* The granule without what columns have that are not believed: none of them, each, each two. */
static bool settle_by_columns(const struct granule *g, unsigned columns, uint8_t *out)
{
    uint32_t len = g->to - g->from;
    for (unsigned a = 0; a <= columns; a++)
        for (unsigned b = a; b <= (g->parity > 1 && a < columns ? columns - 1 : a); b++) {
            unsigned bad = a < columns ? 1u << a | 1u << b : 0;
            if (sfs_columns_without(&g->columns, bad, out) && sfs_checksum(out, len) == g->csum)
                return true;
        }
    return false;
}

/* With parity: first as if whole columns were bad, then block by block. */
static int settle_granule(struct granule *g, unsigned copies, unsigned columns, struct sfs_buf *good)
{
    if (!g->parity)
        return copies ? try_sources(g, copies, good) : -EIO;
    int rc = sfs_columns_read(g->d, g->place.group, g->place.goff + g->from, g->place.goff + g->to, &g->columns);
    if (!rc)
        rc = read_source(g, g->sources++);
    if (!rc && settle_by_columns(g, columns, good->data))
        return 0;
    if (!rc)
        rc = try_sources(g, 2, good);
    if (rc == -EIO && g->parity > 1)
        rc = try_sources(g, 2 + columns, good);
    return rc;
}

/* Has a mover given it another place since? */
static bool has_moved(const struct granule *g)
{
    SFS_LOCK(g->d);
    bool moved = g->stored->key.group != g->place.group || g->stored->key.goff != g->place.goff;
    SFS_UNLOCK(g->d);
    return moved;
}

/* One checksum granule of a stored extent by all means. out: to - from bytes. 0, -EIO, -ENOMEM; -EAGAIN: it has another place now. */
static int read_hard_at(struct sfs_data *d, struct sfs_stored *s, unsigned i, uint8_t *out)
{
    struct granule g = {.d = d, .stored = s, .csum = s->csum[i]};
    sfs_checksum_range(s->codec, (uint32_t)s->key.slen, i, &g.from, &g.to);
    SFS_LOCK(d);
    g.place = s->key;
    struct sfs_group *grp = sfs_group_find(d, s->key.group);
    unsigned copies = grp ? grp->geo.copies : 0, columns = grp ? grp->geo.columns : 0;
    g.parity = grp ? grp->geo.parity : 0;
    SFS_UNLOCK(d);
    struct sfs_buf *good = sfs_buf_new(sfs_blocks(g.to - g.from) * SFS_BLOCK);
    int rc = good ? settle_granule(&g, copies, columns, good) : -ENOMEM;
    if (rc == -EIO && has_moved(&g))
        rc = -EAGAIN;
    if (rc == -EIO) {
        __atomic_add_fetch(&d->unreadable, 1, __ATOMIC_RELAXED);
        sfs_damage_note(d, s, i);
    }
    if (!rc) {
        memset(good->data + (g.to - g.from), 0, sfs_blocks(g.to - g.from) * SFS_BLOCK - (g.to - g.from));
        memcpy(out, good->data, g.to - g.from);
        sfs_damage_good(d, s, i);
        repair(&g, good);
    }
    sfs_buf_unref(good);
    for (unsigned k = 0; k < MAX_SOURCES; k++) {
        sfs_buf_unref(g.buf[k]);
        free(g.have[k]);
    }
    sfs_columns_free(&g.columns);
    return rc;
}

static int read_hard(struct sfs_data *d, struct sfs_stored *s, unsigned i, uint8_t *out)
{
    int rc;
    do
        rc = read_hard_at(d, s, i, out);
    while (rc == -EAGAIN);
    return rc;
}

/* --- spans --------------------------------------------------------------------------------------------------------------------------------- */

static int span_init(struct span *sp, struct sfs_stored *s, uint32_t from, uint32_t to)
{
    *sp = (struct span){.stored = s};
    if (s->codec == SFS_CODEC_NONE) {
        sp->first = from / SFS_CSUM_GRANULE;
        sp->last = (to - 1) / SFS_CSUM_GRANULE;
    }
    uint32_t ignore;
    sfs_checksum_range(s->codec, (uint32_t)s->key.slen, sp->first, &sp->from, &ignore);
    sfs_checksum_range(s->codec, (uint32_t)s->key.slen, sp->last, &ignore, &sp->to);
    sp->buf = sfs_buf_new(sfs_blocks(sp->to - sp->from) * SFS_BLOCK);
    return sp->buf ? 0 : -ENOMEM;
}

/* Verifies each granule of a span that has been read the fast way; what fails is read the hard way. */
static void span_finish(struct sfs_data *d, struct span *sp, const struct sfs_ios *l)
{
    bool readable = sp->result == 0;
    for (unsigned i = 0; readable && i < sp->ios; i++)
        readable = l->v[sp->first_io + i].result == 0;
    sp->result = 0;
    for (unsigned i = sp->first; (!sp->result || sp->all) && i <= sp->last; i++) {
        uint32_t from, to;
        sfs_checksum_range(sp->stored->codec, (uint32_t)sp->stored->key.slen, i, &from, &to);
        uint8_t *bytes = sp->buf->data + (from - sp->from);
        if (readable && sfs_checksum(bytes, to - from) == sp->stored->csum[i]) {
            sfs_damage_good(d, sp->stored, i);
            continue;
        }
        sp->bad++;
        int rc = read_hard(d, sp->stored, i, bytes);
        if (rc)
            sp->result = rc;
    }
}

/* Reads and verifies n spans at once. */
static void read_spans(struct sfs_data *d, struct span *v, unsigned n)
{
    struct sfs_ios l = {0};
    struct sfs_rebuilds rs = {0};
    SFS_LOCK(d);
    for (unsigned i = 0; i < n; i++) {
        if (v[i].result)
            continue;
        v[i].first_io = l.n;
        v[i].result = plan_read(d, &v[i].stored->key, v[i].from, v[i].to, -1, v[i].buf, &l, &rs, i);
        v[i].ios = l.n - v[i].first_io;
    }
    SFS_UNLOCK(d);
    if (l.n)
        sfs_io_run(l.v, l.n);
    for (unsigned i = 0; i < rs.n; i++)
        if (!v[rs.v[i].owner].result && !sfs_rebuild_finish(&rs.v[i], &l))
            v[rs.v[i].owner].result = -EIO;
    sfs_rebuilds_free(&rs);
    for (unsigned i = 0; i < n; i++)
        if (v[i].buf && v[i].result != -ENOMEM)
            span_finish(d, &v[i], &l);
    free(l.v);
}

/* Every granule of one copy against its checksum; what is bad is read the hard way, which repairs it. */
static int check_copy(struct sfs_data *d, struct sfs_stored *s, const struct sfs_stored_key *place, unsigned copy, struct sfs_buf *buf, uint64_t *bad, uint64_t *lost)
{
    struct sfs_ios l = {0};
    uint32_t slen = (uint32_t)s->key.slen;
    SFS_LOCK(d);
    int rc = plan_read(d, place, 0, slen, (int)copy, buf, &l, NULL, 0);
    SFS_UNLOCK(d);
    bool readable = rc == 0 && sfs_io_run(l.v, l.n) == 0;
    free(l.v);
    if (rc == -ENOMEM)
        return rc;
    for (unsigned i = 0; i < s->ncsum; i++) {
        uint32_t from, to;
        sfs_checksum_range(s->codec, slen, i, &from, &to);
        if (readable && sfs_checksum(buf->data + from, to - from) == s->csum[i]) {
            sfs_damage_good(d, s, i);
            continue;
        }
        ++*bad;
        rc = read_hard(d, s, i, buf->data + from);
        if (rc == -EIO)
            ++*lost;
        else if (rc)
            return rc;
    }
    return 0;
}

/* With parity there is one copy of the data, and what makes up for it: that is looked at by rows (rows.c). */
static int check_span(struct sfs_data *d, struct sfs_stored *s, uint64_t *bad, uint64_t *lost)
{
    struct span sp;
    int rc = span_init(&sp, s, 0, (uint32_t)s->key.slen);
    if (rc)
        return rc;
    sp.all = true;
    read_spans(d, &sp, 1);
    *bad += sp.bad;
    *lost += sp.result == -EIO;
    sfs_buf_unref(sp.buf);
    return sp.result == -EIO ? 0 : sp.result;
}

int sfs_check_stored(struct sfs_data *d, struct sfs_stored *s, uint64_t *bad, uint64_t *lost)
{
    SFS_LOCK(d);
    struct sfs_stored_key place = s->key;
    struct sfs_group *g = sfs_group_find(d, place.group);
    unsigned copies = g ? g->geo.copies : 0;
    bool parity = g && g->geo.parity;
    SFS_UNLOCK(d);
    if (parity)
        return check_span(d, s, bad, lost);
    struct sfs_buf *buf = sfs_buf_new(sfs_blocks(place.slen) * SFS_BLOCK);
    int rc = buf ? 0 : -ENOMEM;
    uint64_t any_lost = 0;
    for (unsigned k = 0; !rc && k < copies; k++)
        rc = check_copy(d, s, &place, k, buf, bad, &any_lost);
    *lost += any_lost > 0;
    sfs_buf_unref(buf);
    return rc;
}

int sfs_fetch_stored(struct sfs_data *d, struct sfs_stored *s, uint32_t from, uint32_t to, struct sfs_buf **out, uint32_t *start)
{
    struct span sp;
    int rc = span_init(&sp, s, from, to);
    if (rc)
        return rc;
    read_spans(d, &sp, 1);
    if (sp.result) {
        sfs_buf_unref(sp.buf);
        return sp.result;
    }
    *out = sp.buf;
    *start = sp.from;
    return 0;
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------------------- */

static int deliver(const struct sfs_read *r, const struct span *sp)
{
    struct sfs_stored *s = r->extent.stored;
    uint32_t raw_from = r->extent.skip + r->from;
    if (s->codec == SFS_CODEC_NONE) {
        memcpy(r->out, sp->buf->data + (raw_from - sp->from), r->len);
        return 0;
    }
    struct sfs_buf *raw = sfs_buf_new(s->rlen);
    if (!raw)
        return -ENOMEM;
    int rc = sfs_codec_decompress(s->codec, sp->buf->data, s->key.slen, raw->data, s->rlen);
    if (!rc)
        memcpy(r->out, raw->data + raw_from, r->len);
    sfs_buf_unref(raw);
    return rc ? -EIO : 0;
}

unsigned sfs_data_read(struct sfs_data *d, struct sfs_read *reads, unsigned n)
{
    sfs_data_note_program(d);
    struct span one, *v = n == 1 ? &one : calloc(n, sizeof(*v));
    unsigned failed = 0;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_read *r = &reads[i];
        uint32_t from = r->extent.skip + r->from;
        SFS_ASSERT(r->len > 0 && r->from + r->len <= r->extent.len && from + r->len <= r->extent.stored->rlen);
        if (v)
            v[i].result = span_init(&v[i], r->extent.stored, from, from + r->len);
    }
    if (v)
        read_spans(d, v, n);
    for (unsigned i = 0; i < n; i++) {
        reads[i].result = v ? v[i].result : -ENOMEM;
        if (!reads[i].result)
            reads[i].result = deliver(&reads[i], &v[i]);
        failed += reads[i].result != 0;
        if (v)
            sfs_buf_unref(v[i].buf);
    }
    if (v != &one)
        free(v);
    return failed;
}
