/* Snapshots on a store: listing them, and going back to one. What is read is untrusted: sizes, sums and page
 * numbers are checked before anything is written. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>
#include "meta/replicas_impl.h"
#include "meta/snapshot.h"
#include "meta/snapshot_format.h"

#define IN_BYTES (256u << 10)
#define RECORD_BYTES (4 + SFS_PAGE_BYTES)
#define PAGES_LIMIT (1ull << 32)
#define LOCK_PAGE                                                                                            \
    (0x40000000u / SFS_PAGE_BYTES + 1) /* SQLite never uses the page at byte 2^30: no record of it */

static int read_header(const struct sfs_store *s, const char *name, struct sfs_snapshot_header *h)
{
    int64_t got = sfs_store_read(s, name, h, sizeof(*h), 0);
    if (got < 0)
        return (int)got;
    if (got != (int64_t)sizeof(*h) || memcmp(h->magic, SFS_SNAPSHOT_MAGIC, sizeof(h->magic)) != 0 ||
        le64toh(h->sum) != XXH3_64bits(h, offsetof(struct sfs_snapshot_header, sum)) ||
        le32toh(h->page_bytes) != SFS_PAGE_BYTES || le64toh(h->pages) == 0 || le64toh(h->pages) > PAGES_LIMIT)
        return -EUCLEAN;
    return le32toh(h->version) == SFS_SNAPSHOT_VERSION ? 0 : -EOPNOTSUPP;
}

struct listing {
    const char *prefix;
    struct sfs_snapshot *out;
    unsigned max, n;
};

static void list_one(const char *name, uint64_t size, void *arg)
{
    struct listing *l = arg;
    char *end;
    size_t len = strlen(l->prefix);
    if (strncmp(name, l->prefix, len) != 0 || strlen(name) >= sizeof(l->out->name))
        return;
    uint64_t number = strtoull(name + len, &end, 10);
    if (*end || !name[len])
        return;
    unsigned at = l->n;
    while (at > 0 && l->out[at - 1].number < number)
        at--;
    if (at == l->max)
        return;
    if (l->n < l->max)
        l->n++;
    memmove(&l->out[at + 1], &l->out[at], (l->n - 1 - at) * sizeof(l->out[0]));
    l->out[at] = (struct sfs_snapshot){.number = number, .bytes = size};
    strcpy(l->out[at].name, name);
}

int sfs_snapshot_list(const struct sfs_store *s, const char *prefix, struct sfs_snapshot *out, unsigned max,
                      unsigned *n)
{
    struct listing l = {.prefix = prefix, .out = out, .max = max};
    *n = 0;
    int rc = s->ops->list(s->ctx, list_one, &l);
    if (rc)
        return rc;
    for (unsigned i = 0; i < l.n;
         i++) { /* headers are read afterwards: not from within the store's own call */
        struct sfs_snapshot_header h;
        if (read_header(s, out[i].name, &h) != 0)
            continue;
        struct sfs_snapshot snap = out[i];
        snap.commit_seq = le64toh(h.commit_seq);
        snap.pages = le64toh(h.pages);
        snap.time = (int64_t)le64toh((uint64_t)h.time);
        memcpy(snap.pool.b, h.pool, sizeof(snap.pool.b));
        out[(*n)++] = snap;
    }
    return 0;
}

/* --- restoring --- */

struct restore {
    struct sfs_replicas *r; /* NULL: only look whether it is whole */
    uint64_t pages;
    uint8_t *seen;                 /* a bit a page */
    uint8_t first[SFS_PAGE_BYTES]; /* page 1 is written last */
    uint8_t record[RECORD_BYTES];
    size_t have; /* of the record */
    bool ended;
};

static int take_record(struct restore *t)
{
    uint32_t page;
    memcpy(&page, t->record, sizeof(page));
    page = le32toh(page);
    if (page > t->pages)
        return -EUCLEAN;
    t->seen[(page - 1) / 8] |= (uint8_t)(1u << ((page - 1) % 8));
    if (page == 1)
        memcpy(t->first, t->record + 4, SFS_PAGE_BYTES);
    if (page == 1 || !t->r)
        return 0;
    sfs_mutex_lock(&t->r->m);
    int rc = sfs_rset_write(t->r, SFS_RFILE_DB, t->record + 4, SFS_PAGE_BYTES,
                            (uint64_t)(page - 1) * SFS_PAGE_BYTES);
    sfs_mutex_unlock(&t->r->m);
    return rc;
}

static int take_bytes(struct restore *t, const uint8_t *p, size_t len)
{
    while (len > 0) {
        if (t->ended)
            return -EUCLEAN;
        size_t want = t->have < 4 ? 4 - t->have : RECORD_BYTES - t->have, n = len < want ? len : want;
        memcpy(t->record + t->have, p, n);
        t->have += n;
        p += n;
        len -= n;
        if (t->have == 4 && memcmp(t->record, "\0\0\0\0", 4) == 0)
            t->ended = true;
        if (t->have == RECORD_BYTES) {
            int rc = take_record(t);
            if (rc)
                return rc;
            t->have = 0;
        }
    }
    return 0;
}

static bool complete(const struct restore *t)
{
    if (!t->ended)
        return false;
    for (uint64_t page = 1; page <= t->pages; page++)
        if (page != LOCK_PAGE && !(t->seen[(page - 1) / 8] & (1u << ((page - 1) % 8))))
            return false;
    return true;
}

/* Runs the whole frame through take_bytes. */
static int run(struct restore *t, const struct sfs_store *s, const char *name, uint64_t frame_bytes)
{
    uint8_t *in_buf = malloc(IN_BYTES), *out_buf = malloc(IN_BYTES);
    ZSTD_DCtx *z = ZSTD_createDCtx();
    size_t left = 1; /* 0 at the end of the frame, its checksum compared */
    int rc = in_buf && out_buf && z ? 0 : -ENOMEM;
    for (uint64_t off = 0; !rc && off < frame_bytes;) {
        size_t len = frame_bytes - off < IN_BYTES ? (size_t)(frame_bytes - off) : IN_BYTES;
        int64_t got = sfs_store_read(s, name, in_buf, len, SFS_SNAPSHOT_HEADER_BYTES + off);
        if (got != (int64_t)len)
            rc = got < 0 ? (int)got : -EUCLEAN;
        ZSTD_inBuffer in = {in_buf, len, 0};
        bool full = false;
        while (!rc && (in.pos < in.size || full)) {
            ZSTD_outBuffer out = {out_buf, IN_BYTES, 0};
            if (left == 0) {
                rc = in.pos < in.size ? -EUCLEAN : 0; /* bytes behind the frame */
                break;
            }
            left = ZSTD_decompressStream(z, &out, &in);
            full = out.pos == out.size;
            rc = ZSTD_isError(left) ? -EUCLEAN : take_bytes(t, out_buf, out.pos);
        }
        off += len;
    }
    if (!rc && (left != 0 || !complete(t)))
        rc = -EUCLEAN;
    ZSTD_freeDCtx(z);
    free(in_buf);
    free(out_buf);
    return rc;
}

/* Without a first page there is no database: what is interrupted counts as damaged. */
static int clear(struct sfs_replicas *r)
{
    static const uint8_t zeros[SFS_PAGE_BYTES];
    r->last_page = 0;
    r->deferred_valid = false;
    int rc = sfs_rset_load(r);
    if (!rc)
        rc = sfs_rset_write(r, SFS_RFILE_DB, zeros, sizeof(zeros), 0);
    if (!rc)
        rc = sfs_rset_sync(r, SFS_RFILE_DB);
    if (!rc)
        rc = sfs_rset_truncate(r, SFS_RFILE_WAL, 0);
    return rc ? rc : sfs_rset_sync(r, SFS_RFILE_WAL);
}

static int finish(struct restore *t)
{
    struct sfs_replicas *r = t->r;
    int rc = sfs_rset_truncate(r, SFS_RFILE_DB, t->pages * SFS_PAGE_BYTES);
    if (!rc)
        rc = sfs_rset_sync(r, SFS_RFILE_DB);
    if (!rc)
        rc = sfs_rset_write(r, SFS_RFILE_DB, t->first, SFS_PAGE_BYTES, 0);
    if (!rc)
        rc = sfs_rset_sync(r, SFS_RFILE_DB);
    int told = sfs_rset_settle(r, true);
    return rc ? rc : told;
}

static int restore(struct restore *t, struct sfs_replicas *r, const struct sfs_store *from, const char *name,
                   uint64_t frame_bytes)
{
    int rc = run(t, from, name, frame_bytes); /* once to see that it is whole */
    if (rc)
        return rc;
    sfs_mutex_lock(&r->m);
    rc = clear(r);
    sfs_mutex_unlock(&r->m);
    t->r = r;
    t->have = 0;
    t->ended = false;
    if (!rc)
        rc = run(t, from, name, frame_bytes);
    sfs_mutex_lock(&r->m);
    if (!rc)
        rc = finish(t);
    sfs_mutex_unlock(&r->m);
    return rc;
}

static struct restore *restore_new(const struct sfs_snapshot_header *h)
{
    struct restore *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->pages = le64toh(h->pages);
    t->seen = calloc(1, (size_t)(t->pages / 8 + 1));
    if (t->seen)
        return t;
    free(t);
    return NULL;
}

static void restore_free(struct restore *t)
{
    if (t)
        free(t->seen);
    free(t);
}

int sfs_snapshot_verify(const struct sfs_store *from, const char *name)
{
    struct sfs_snapshot_header h;
    int rc = read_header(from, name, &h);
    if (rc)
        return rc;
    struct restore *t = restore_new(&h);
    rc = t ? run(t, from, name, le64toh(h.frame_bytes)) : -ENOMEM;
    restore_free(t);
    return rc;
}

int sfs_snapshot_restore(struct sfs_replicas *r, const struct sfs_store *from, const char *name,
                         struct sfs_error *err)
{
    struct sfs_snapshot_header h;
    struct restore *t = NULL;
    int rc = r->readonly ? -EROFS : read_header(from, name, &h);
    if (!rc) {
        t = restore_new(&h);
        rc = t ? restore(t, r, from, name, le64toh(h.frame_bytes)) : -ENOMEM;
    }
    restore_free(t);
    if (rc == -EUCLEAN)
        return sfs_error_set(err, rc, "%s on %s is damaged. Try another one.", name, from->name);
    if (rc)
        return sfs_error_set(err, rc, "%s on %s could not be restored: %s.", name, from->name, strerror(-rc));
    return 0;
}
