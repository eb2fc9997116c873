/* The writer: cut, compress, store (DESIGN.md section 6). Turns bytes into pending stored extents, each on every copy of its group: finding places, checksums and writing are store.c's.
 *
 * Items of a call are stored together, in one go; each is stored wholly or not at all. A compressed run for which there is no place in one piece is stored raw: raw runs can be cut. */
#include "fs/data/store.h"
#include "fs/data/codec.h"

#include <stdlib.h>
#include <string.h>

struct writing {
    struct sfs_runs runs;
    struct sfs_buf **bufs;     /* references to what the runs lie in: by item its raw bytes, then what was compressed */
    unsigned nbufs, cap;
    const struct sfs_space_row *set;
};

/* --- cutting ----------------------------------------------------------------------------------------------------------------------------- */

static int hold_buf(struct writing *w, struct sfs_buf *b)
{
    if (!b)
        return -ENOMEM;
    if (w->nbufs == w->cap) {
        unsigned cap = w->cap * 2;
        struct sfs_buf **v = realloc(w->bufs, cap * sizeof(*v));
        if (!v) {
            sfs_buf_unref(b);
            return -ENOMEM;
        }
        w->bufs = v;
        w->cap = cap;
    }
    w->bufs[w->nbufs++] = b;
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
static int add_raw(struct writing *w, unsigned item, struct sfs_buf *buf, size_t buf_off, uint32_t raw_off, uint32_t len)
{
    struct sfs_run *last = w->runs.n ? &w->runs.v[w->runs.n - 1] : NULL;
    if (last && last->item == item && last->codec == SFS_CODEC_NONE && last->raw_off + last->raw_len == raw_off) {
        last->raw_len += len;
        last->slen += len;
        return 0;
    }
    return sfs_runs_add(&w->runs, &(struct sfs_run){.buf = buf, .buf_off = buf_off, .slen = len, .split = true, .item = item, .raw_off = raw_off, .raw_len = len});
}

static int cut_compressed(struct writing *w, unsigned item, struct sfs_buf *buf, size_t buf_off, uint32_t len)
{
    int rc = 0;
    for (uint32_t at = 0; !rc && at < len; at += SFS_CODEC_RAW_MAX) {
        uint32_t raw = len - at < SFS_CODEC_RAW_MAX ? len - at : SFS_CODEC_RAW_MAX;
        size_t blocks = sfs_blocks(raw), cap = blocks > 1 ? (blocks - 1) * SFS_BLOCK : 0;
        struct sfs_buf *z = cap ? sfs_buf_new(cap) : NULL;
        if (cap && !z)
            return -ENOMEM;
        size_t slen = z ? sfs_codec_compress(w->set->codec, w->set->codec_level, buf->data + buf_off + at, raw, z->data, cap) : 0;
        if (!slen) { /* it doesn't pay: not one block saved */
            sfs_buf_unref(z);
            rc = add_raw(w, item, buf, buf_off + at, at, raw);
            continue;
        }
        memset(z->data + slen, 0, sfs_blocks(slen) * SFS_BLOCK - slen);
        rc = hold_buf(w, z);
        if (!rc)
            rc = sfs_runs_add(&w->runs, &(struct sfs_run){.buf = z, .slen = (uint32_t)slen, .codec = w->set->codec, .item = item, .raw_off = at, .raw_len = raw});
    }
    return rc;
}

/* Items that can't be cut (memory) have their result at once. */
static int cut(struct writing *w, struct sfs_write_item *items, unsigned n)
{
    w->cap = w->runs.cap = 2 * n + 16;
    w->bufs = calloc(w->cap, sizeof(struct sfs_buf *));
    w->runs.v = calloc(w->runs.cap, sizeof(*w->runs.v));
    int rc = w->bufs && w->runs.v ? 0 : -ENOMEM;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_write_item *it = &items[i];
        SFS_ASSERT(it->len > 0 && it->len <= SFS_EXTENT_MAX);
        size_t off = it->buf_off;
        struct sfs_buf *raw = padded(it->buf, &off, it->len);
        rc = hold_buf(w, raw);
        if (!rc)
            rc = w->set->codec == SFS_CODEC_NONE ? add_raw(w, i, raw, off, 0, it->len) : cut_compressed(w, i, raw, off, it->len);
    }
    return rc;
}

/* --- storing ------------------------------------------------------------------------------------------------------------------------------ */

/* A run whose place must be in one piece, and for which there was none, becomes a raw one. False when there are none. */
static int uncompress_unplaced(struct writing *w, const struct sfs_write_item *items)
{
    int any = 0;
    for (unsigned i = 0; i < w->runs.n; i++) {
        struct sfs_run *r = &w->runs.v[i];
        if (r->result != -ENOSPC || r->codec == SFS_CODEC_NONE)
            continue;
        const struct sfs_write_item *it = &items[r->item];
        struct sfs_buf *raw = sfs_buf_new(sfs_blocks(r->raw_len) * SFS_BLOCK);
        int rc = hold_buf(w, raw);
        if (rc)
            return rc;
        memcpy(raw->data, it->buf->data + it->buf_off + r->raw_off, r->raw_len);
        memset(raw->data + r->raw_len, 0, sfs_blocks(r->raw_len) * SFS_BLOCK - r->raw_len);
        r->buf = raw;
        r->buf_off = 0;
        r->slen = r->raw_len;
        r->codec = SFS_CODEC_NONE;
        r->split = true;
        r->result = 0;
        any = 1;
    }
    return any;
}

static int by_item(const void *a, const void *b)
{
    const struct sfs_run *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    return x->raw_off < y->raw_off ? -1 : x->raw_off > y->raw_off;
}

/* --- handing out ---------------------------------------------------------------------------------------------------------------------------- */

/* Pending objects for the n runs of an item. */
static int hand_out(struct sfs_data *d, const struct sfs_run *v, unsigned n, struct sfs_write_item *it)
{
    if (n > it->max)
        return -ENOSPC;
    for (it->n = 0; it->n < n; it->n++) {
        const struct sfs_run *r = &v[it->n];
        struct sfs_stored_key key = {r->group->id, r->goff, r->slen};
        SFS_LOCK(d);
        struct sfs_stored *s = sfs_stored_new(d, &key, r->raw_len, r->codec, (uint8_t)sfs_checksum_count(r->codec, r->slen), r->csum);
        SFS_UNLOCK(d);
        if (!s)
            return -ENOMEM;
        it->out[it->n] = (struct sfs_extent){.off = r->raw_off, .len = r->raw_len, .skip = 0, .stored = s};
    }
    return 0;
}

/* The runs of one item, stored or not. */
static void finish_item(struct sfs_data *d, struct sfs_run *v, unsigned n, struct sfs_write_item *it)
{
    for (unsigned i = 0; !it->result && i < n; i++)
        it->result = v[i].result;
    unsigned handed = 0;
    if (!it->result) {
        it->result = hand_out(d, v, n, it);
        handed = it->n;
    }
    for (unsigned i = 0; i < n; i++) {
        if (it->result && i >= handed)
            sfs_store_give_back(d, &v[i]);
        else
            sfs_allocate_done(d, v[i].group);
    }
    for (unsigned i = 0; it->result && i < handed; i++)
        sfs_stored_unref(d, it->out[i].stored); /* pending and dead: its place is a candidate for freeing */
    if (it->result)
        it->n = 0;
}

static void store(struct sfs_volume *v, struct writing *w, bool spare)
{
    sfs_store(v, &w->runs, SFS_STORE_CHECKSUM | (spare ? SFS_STORE_NO_PADDING : 0));
    for (unsigned i = 0; i < w->runs.n; i++)
        if (w->runs.v[i].left) {
            w->runs.v[i].left = false;
            w->runs.v[i].result = -ENOSPC;
        }
}

int sfs_data_write_vec(struct sfs_volume *v, struct sfs_write_item *items, unsigned n)
{
    struct sfs_data *d = v->data;
    struct sfs_space_row set;
    sfs_data_note_program(d);
    sfs_volume_settings(v, &set);
    struct writing w = {.set = &set};
    int rc = sfs_data_readonly(d) ? -EROFS : cut(&w, items, n);
    bool spare = n && items[0].spare;
    if (!rc)
        store(v, &w, spare);
    if (!rc && set.codec != SFS_CODEC_NONE) {
        int any = uncompress_unplaced(&w, items);
        if (any > 0)
            store(v, &w, spare);
    }
    if (!rc)
        qsort(w.runs.v, w.runs.n, sizeof(*w.runs.v), by_item);
    for (unsigned i = 0, at = 0; i < n; i++) {
        items[i].n = 0;
        items[i].result = rc;
        unsigned end = at;
        while (!rc && end < w.runs.n && w.runs.v[end].item == i)
            end++;
        if (!rc)
            finish_item(d, w.runs.v + at, end - at, &items[i]);
        at = end;
    }
    for (unsigned i = 0; !rc && i < n; i++)
        rc = items[i].result;
    for (unsigned i = 0; i < w.nbufs; i++)
        sfs_buf_unref(w.bufs[i]);
    free(w.bufs);
    free(w.runs.v);
    return rc;
}

int sfs_data_write(struct sfs_volume *v, struct sfs_buf *buf, size_t buf_off, uint32_t len, struct sfs_extent *out, unsigned max, unsigned *n)
{
    struct sfs_write_item it = {.buf = buf, .buf_off = buf_off, .len = len, .out = out, .max = max};
    int rc = sfs_data_write_vec(v, &it, 1);
    *n = it.n;
    return rc;
}
