/* The replica set's bytes: reads that check and mend, writes that are gathered and go to all stores, syncs
 * that run on all stores at once.
 *
 * Order (invariants 2 to 4 of meta/README.md)
 *   - A WAL that begins anew: its header is written and synced on every store before any frame overwrites an
 * old one. Else a crash could leave the old header with a prefix of the old frames, and they would be
 * replayed over a newer database.
 *   - A checkpoint: SQLite syncs the WAL, writes pages, syncs the database. The page of the commit counter
 * (last_page) is held back and written after that sync, then synced: so a database file that bears a commit's
 * number holds all of that commit. */
#include <stdlib.h>
#include <string.h>
#include "meta/replicas_impl.h"

int64_t sfs_store_read(const struct sfs_store *s, const char *name, void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        int64_t n = s->ops->read(s->ctx, name, (uint8_t *)buf + done, len - done, off + done);
        if (n == -ENOENT)
            n = 0;
        if (n < 0)
            return n;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (int64_t)done;
}

int64_t sfs_store_size(const struct sfs_store *s, const char *name)
{
    int64_t n = s->ops->size(s->ctx, name);
    return n == -ENOENT ? 0 : n;
}

/* --- sizes --- */

static int put_in_image(void *ctx, uint64_t off, const void *bytes, size_t len)
{
    struct sfs_replicas *r = ctx;
    if (off + len <= r->file[SFS_RFILE_WAL].size)
        memcpy(r->wal_image + off, bytes, len);
    return 0;
}

static int merge_wal_image(struct sfs_replicas *r)
{
    const struct sfs_store *stores[SFS_REPLICAS_MAX];
    unsigned n = 0, self = 0, mended;
    for (unsigned i = 0; i < r->n; i++) {
        if (r->v[i]->state != SFS_REPLICA_LIVE)
            continue;
        if (i == r->primary)
            self = n;
        stores[n++] = &r->v[i]->store;
    }
    return sfs_wal_mend(stores, n, self, put_in_image, r, &mended);
}

static int load_wal_image(struct sfs_replicas *r)
{
    const struct sfs_store *s = &r->v[r->primary]->store;
    int64_t size = sfs_store_size(s, SFS_WAL_FILE);
    if (size < 0)
        return (int)size;
    if (size > SFS_WAL_SANE_BYTES)
        return -EUCLEAN;
    free(r->wal_image);
    r->wal_image = malloc(size ? (size_t)size : 1);
    if (!r->wal_image)
        return -ENOMEM;
    size = sfs_store_read(s, SFS_WAL_FILE, r->wal_image, (size_t)size, 0);
    if (size < 0)
        return (int)size;
    r->file[SFS_RFILE_WAL].size = (uint64_t)size;
    return r->merge ? merge_wal_image(r) : 0;
}

/* The longest on any store: one that is too short counts as damaged where bytes are missing; one that reports
 * too much does no harm, SQLite goes by what it finds in the files. */
int sfs_rset_load(struct sfs_replicas *r)
{
    int rc = 0, nlive = 0;
    if (r->loaded)
        return 0;
    for (int id = 0; id < SFS_RFILE_COUNT; id++)
        r->file[id].size = 0;
    for (unsigned i = 0; i < r->n; i++) {
        if (r->v[i]->state != SFS_REPLICA_LIVE)
            continue;
        int64_t size[SFS_RFILE_COUNT] = {0, 0};
        for (int id = 0; id < SFS_RFILE_COUNT && size[0] >= 0; id++) {
            size[id] = sfs_store_size(&r->v[i]->store, r->file[id].name);
            if (size[id] < 0)
                size[0] = size[id];
        }
        if (size[0] < 0) {
            rc = (int)size[0];
            if (sfs_rset_live(r) > 1)
                sfs_rset_lose(r, r->v[i], rc);
            continue;
        }
        nlive++;
        size[SFS_RFILE_DB] -= size[SFS_RFILE_DB] % SFS_PAGE_BYTES;
        for (int id = 0; id < SFS_RFILE_COUNT; id++)
            if ((uint64_t)size[id] > r->file[id].size)
                r->file[id].size = (uint64_t)size[id];
    }
    if (nlive == 0)
        return rc ? rc : -EIO;
    if (r->readonly) {
        rc = load_wal_image(r);
        if (rc)
            return rc;
    }
    r->loaded = true;
    return 0;
}

/* --- reading --- */

static bool piece_good(struct sfs_replicas *r, enum sfs_rfile_id id, const void *buf, size_t len,
                       uint64_t off)
{
    if (id == SFS_RFILE_DB)
        return sfs_page_good(buf, off / SFS_PAGE_BYTES + 1);
    return sfs_wal_sums_check(r->sums, off, buf, len);
}

/* Bytes that other stores have good are written over those of a store that has them bad. */
static void mend(struct sfs_replicas *r, enum sfs_rfile_id id, struct sfs_replica *rep, const void *buf,
                 size_t len, uint64_t off)
{
    struct sfs_rfile *f = &r->file[id];
    if (r->readonly)
        return;
    int rc = rep->store.ops->write(rep->store.ctx, f->name, buf, len, off);
    f->write_seq++;
    if (rc)
        sfs_rset_lose(r, rep, rc);
    else
        sfs_rset_mended(r, rep->store.id, f->name, off);
}

/* Reads a page or a piece of the WAL from the first store that has it good. */
static int read_stored(struct sfs_replicas *r, enum sfs_rfile_id id, void *buf, size_t len, uint64_t off)
{
    struct sfs_replica *bad[SFS_REPLICAS_MAX], *failed[SFS_REPLICAS_MAX];
    int why[SFS_REPLICAS_MAX];
    unsigned nbad = 0, nfailed = 0;
    for (unsigned i = 0; i < r->n; i++) {
        struct sfs_replica *rep = r->v[(r->primary + i) % r->n];
        if (rep->state != SFS_REPLICA_LIVE)
            continue;
        int64_t got = sfs_store_read(&rep->store, r->file[id].name, buf, len, off);
        if (got < 0) {
            why[nfailed] = (int)got;
            failed[nfailed++] = rep;
            continue;
        }
        if ((size_t)got != len || !piece_good(r, id, buf, len, off)) {
            bad[nbad++] = rep;
            continue;
        }
        for (unsigned k = 0; k < nfailed; k++)
            sfs_rset_lose(r, failed[k], why[k]);
        for (unsigned k = 0; k < nbad; k++)
            mend(r, id, bad[k], buf, len, off);
        return 0;
    }
    return nbad ? -EUCLEAN : nfailed ? why[0] : -EIO;
}

int sfs_rset_read_page(struct sfs_replicas *r, uint64_t page, uint8_t *out)
{
    return read_stored(r, SFS_RFILE_DB, out, SFS_PAGE_BYTES, (page - 1) * SFS_PAGE_BYTES);
}

static int read_db(struct sfs_replicas *r, void *buf, size_t len, uint64_t off)
{
    struct sfs_rfile *f = &r->file[SFS_RFILE_DB];
    uint64_t page = off / SFS_PAGE_BYTES + 1, start = (page - 1) * SFS_PAGE_BYTES;
    const uint8_t *from = r->page;
    int rc = 0;
    if (off + len > start + SFS_PAGE_BYTES)
        return -EINVAL; /* SQLite never reads across pages */
    if (r->deferred_valid && page == r->last_page)
        from = r->deferred;
    else if (start >= f->gather_off && start < f->gather_off + f->gather_len)
        from = f->gather + (start - f->gather_off);
    else
        rc = sfs_rset_read_page(r, page, r->page);
    if (!rc)
        memcpy(buf, from + (off - start), len);
    /* SQLite guesses the page size from the first bytes of the file before it looks whether page 1 is in the
     * WAL (it is, when a crash in a checkpoint tore it). To zeros it takes the default, ours. If the page
     * isn't in the WAL it will be read whole. */
    if (rc == -EUCLEAN && page == 1 && len < SFS_PAGE_BYTES) {
        memset(buf, 0, len);
        rc = 0;
    }
    return rc;
}

static int read_wal(struct sfs_replicas *r, void *buf, size_t len, uint64_t off)
{
    struct sfs_rfile *f = &r->file[SFS_RFILE_WAL];
    uint64_t gather_end = f->gather_off + f->gather_len;
    if (r->readonly) {
        memcpy(buf, r->wal_image + off, len);
        return 0;
    }
    if (f->gather_len && off >= f->gather_off && off + len <= gather_end) {
        memcpy(buf, f->gather + (off - f->gather_off), len);
        return 0;
    }
    if (f->gather_len && off < gather_end && off + len > f->gather_off) {
        int rc = sfs_rset_flush(r, SFS_RFILE_WAL);
        if (rc)
            return rc;
    }
    return read_stored(r, SFS_RFILE_WAL, buf, len, off);
}

int sfs_rset_read(struct sfs_replicas *r, enum sfs_rfile_id id, void *buf, size_t len, uint64_t off,
                  size_t *got)
{
    uint64_t size = r->file[id].size;
    *got = off >= size ? 0 : len > size - off ? (size_t)(size - off) : len;
    if (*got == 0)
        return 0;
    return id == SFS_RFILE_DB ? read_db(r, buf, *got, off) : read_wal(r, buf, *got, off);
}

/* --- writing --- */

/* What an operation on all stores came to: an error only when no LIVE one succeeded (then nobody is dropped:
 * it may be the request's fault, such as a full disk, and a set with no store is of no use); else those that
 * failed are dropped. */
static int judge(struct sfs_replicas *r, struct sfs_replica *const *reps, const int *rcs, unsigned n)
{
    unsigned good = 0;
    int first = -EIO;
    bool have_first = false;
    for (unsigned i = 0; i < n; i++) {
        if (reps[i]->state != SFS_REPLICA_LIVE)
            continue;
        if (!rcs[i])
            good++;
        else if (!have_first)
            first = rcs[i], have_first = true;
    }
    for (unsigned i = 0; i < n; i++)
        if (rcs[i] && reps[i]->state != SFS_REPLICA_GONE && (good || reps[i]->state != SFS_REPLICA_LIVE))
            sfs_rset_lose(r, reps[i], rcs[i]);
    return good ? 0 : first;
}

static unsigned members(struct sfs_replicas *r, bool joining, struct sfs_replica **out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n; i++)
        if (r->v[i]->state != SFS_REPLICA_GONE && (joining || r->v[i]->state != SFS_REPLICA_JOINING))
            out[n++] = r->v[i];
    return n;
}

static int write_all(struct sfs_replicas *r, enum sfs_rfile_id id, const void *buf, size_t len, uint64_t off)
{
    struct sfs_replica *reps[SFS_REPLICAS_MAX];
    int rcs[SFS_REPLICAS_MAX];
    unsigned n = members(r, true, reps);
    for (unsigned i = 0; i < n; i++)
        rcs[i] = reps[i]->store.ops->write(reps[i]->store.ctx, r->file[id].name, buf, len, off);
    r->file[id].write_seq++;
    return judge(r, reps, rcs, n);
}

static int sync_stores(struct sfs_replicas *r, struct sfs_rfile *f);

int sfs_rset_flush(struct sfs_replicas *r, enum sfs_rfile_id id)
{
    struct sfs_rfile *f = &r->file[id];
    size_t skip = 0;
    int rc = 0;
    while (f->flushing)
        sfs_cond_wait(&r->c, &r->m);
    if (r->failed)
        return r->failed;
    if (!f->gather_len)
        return 0;
    f->flushing = true;
    if (id == SFS_RFILE_WAL && f->gather_off == 0 && f->gather_len >= SFS_WAL_HEADER_BYTES) {
        skip = SFS_WAL_HEADER_BYTES;
        rc = write_all(r, id, f->gather, skip, 0);
        if (!rc)
            rc = sync_stores(r, f);
    }
    if (!rc && f->gather_len > skip)
        rc = write_all(r, id, f->gather + skip, f->gather_len - skip, f->gather_off + skip);
    f->flushing = false;
    sfs_cond_broadcast(&r->c);
    if (rc && id == SFS_RFILE_WAL) {
        /* SQLite counts these frames as written. They stay here to be read, and nothing is written any more.
         */
        if (!r->failed)
            r->failed = rc;
        return rc;
    }
    f->gather_len =
        0; /* the database: on failure the checkpoint fails, and the next one writes these pages again */
    return rc;
}

static int gather(struct sfs_replicas *r, enum sfs_rfile_id id, const void *buf, size_t len, uint64_t off)
{
    struct sfs_rfile *f = &r->file[id];
    while (f->flushing)
        sfs_cond_wait(&r->c, &r->m);
    if (r->failed)
        return r->failed;
    if (f->gather_len && (off != f->gather_off + f->gather_len || f->gather_len + len > SFS_GATHER_BYTES)) {
        int rc = sfs_rset_flush(r, id);
        if (rc)
            return rc;
    }
    if (!f->gather_len)
        f->gather_off = off;
    memcpy(f->gather + f->gather_len, buf, len);
    f->gather_len += len;
    if (off + len > f->size)
        f->size = off + len;
    return 0;
}

static int gather_page(struct sfs_replicas *r, const void *buf, uint64_t off)
{
    uint8_t page[SFS_PAGE_BYTES];
    if (buf)
        memcpy(page, buf, sizeof(page));
    else
        memset(page, 0, sizeof(page));
    sfs_page_seal(page, off / SFS_PAGE_BYTES + 1);
    return gather(r, SFS_RFILE_DB, page, sizeof(page), off);
}

/* Pages that SQLite never wrote (allocated and freed again within a transaction) become sealed pages of
 * zeros: so that every page of the file has a trailer. */
static int fill_gap(struct sfs_replicas *r, uint64_t to)
{
    int rc = 0;
    while (!rc && r->file[SFS_RFILE_DB].size < to)
        rc = gather_page(r, NULL, r->file[SFS_RFILE_DB].size);
    return rc;
}

int sfs_rset_write(struct sfs_replicas *r, enum sfs_rfile_id id, const void *buf, size_t len, uint64_t off)
{
    int rc;
    if (r->readonly)
        return -EROFS;
    if (id == SFS_RFILE_DB) {
        if (off % SFS_PAGE_BYTES || len != SFS_PAGE_BYTES)
            return -EINVAL;
        if (r->last_page && off / SFS_PAGE_BYTES + 1 == r->last_page && off < r->file[id].size) {
            memcpy(r->deferred, buf, len);
            sfs_page_seal(r->deferred, r->last_page);
            r->deferred_valid = true;
            return 0;
        }
        rc = fill_gap(r, off);
        return rc ? rc : gather_page(r, buf, off);
    }
    if (len > SFS_GATHER_BYTES)
        return -EINVAL;
    rc = gather(r, id, buf, len, off);
    return rc ? rc : sfs_wal_sums_put(&r->sums, off, buf, len);
}

int sfs_rset_truncate(struct sfs_replicas *r, enum sfs_rfile_id id, uint64_t size)
{
    struct sfs_rfile *f = &r->file[id];
    struct sfs_replica *reps[SFS_REPLICAS_MAX];
    int rcs[SFS_REPLICAS_MAX], rc;
    if (r->readonly)
        return -EROFS;
    rc = sfs_rset_flush(r, id);
    if (rc || size == f->size)
        return rc;
    if (size > f->size)
        return id == SFS_RFILE_DB ? fill_gap(r, size) : -EINVAL;
    unsigned n = members(r, true, reps);
    for (unsigned i = 0; i < n; i++)
        rcs[i] = reps[i]->store.ops->truncate(reps[i]->store.ctx, f->name, size);
    f->write_seq++;
    rc = judge(r, reps, rcs, n);
    if (rc)
        return rc;
    f->size = size;
    if (id == SFS_RFILE_WAL && size == 0)
        sfs_wal_sums_clear(&r->sums);
    return 0;
}

/* --- syncing --- */

/* One sync of f on all stores at once: the first on this thread, the others on their helpers. The lock is
 * released meanwhile. */
static int sync_stores(struct sfs_replicas *r, struct sfs_rfile *f)
{
    struct sfs_replica *reps[SFS_REPLICAS_MAX];
    struct sfs_sync_job jobs[SFS_REPLICAS_MAX];
    int rcs[SFS_REPLICAS_MAX], rc;
    while (f->syncing)
        sfs_cond_wait(&r->c, &r->m);
    f->syncing = true;
    uint64_t seq = f->write_seq;
    unsigned n = members(r, false, reps);
    for (unsigned i = 0; i < n; i++) {
        reps[i]->busy++;
        jobs[i] = (struct sfs_sync_job){.file = f->name};
        if (i > 0 && sfs_rset_start_helper(reps[i]) == 0) {
            STAILQ_INSERT_TAIL(&reps[i]->jobs, &jobs[i], next);
            sfs_cond_signal(&reps[i]->work);
        } else if (i > 0) {
            jobs[i].rc = 1; /* no thread to be had: done here, in turn */
        }
    }
    sfs_mutex_unlock(&r->m);
    for (unsigned i = 0; i < n; i++)
        if (i == 0 || jobs[i].rc == 1) {
            jobs[i].rc = reps[i]->store.ops->sync(reps[i]->store.ctx, f->name);
            jobs[i].done = true;
        }
    sfs_mutex_lock(&r->m);
    for (unsigned i = 0; i < n; i++) {
        while (!jobs[i].done)
            sfs_cond_wait(&r->c, &r->m);
        rcs[i] = jobs[i].rc;
        reps[i]->busy--;
    }
    rc = judge(r, reps, rcs, n);
    if (!rc && f->synced_seq < seq)
        f->synced_seq = seq;
    if (rc && f == &r->file[SFS_RFILE_WAL] && !r->failed)
        r->failed = rc;
    f->syncing = false;
    sfs_cond_broadcast(&r->c);
    return rc;
}

static int sync_to(struct sfs_replicas *r, struct sfs_rfile *f, uint64_t target)
{
    while (f->synced_seq < target) {
        if (r->failed)
            return r->failed;
        if (f->syncing) { /* that sync may have begun before our last write */
            sfs_cond_wait(&r->c, &r->m);
            continue;
        }
        int rc = sync_stores(r, f);
        if (rc)
            return rc;
    }
    return 0;
}

int sfs_rset_sync(struct sfs_replicas *r, enum sfs_rfile_id id)
{
    struct sfs_rfile *f = &r->file[id];
    int rc = sfs_rset_flush(r, id);
    return rc ? rc : sync_to(r, f, f->write_seq);
}

int sfs_rset_sync_checkpoint(struct sfs_replicas *r)
{
    struct sfs_rfile *f = &r->file[SFS_RFILE_DB];
    int rc = sfs_rset_sync(r, SFS_RFILE_DB);
    if (rc || !r->deferred_valid)
        return rc;
    rc = write_all(r, SFS_RFILE_DB, r->deferred, SFS_PAGE_BYTES, (r->last_page - 1) * SFS_PAGE_BYTES);
    if (!rc)
        rc = sync_to(r, f, f->write_seq);
    if (!rc)
        r->deferred_valid = false;
    return rc;
}

int sfs_replicas_flush_wal(struct sfs_replicas *r)
{
    sfs_mutex_lock(&r->m);
    int rc = sfs_rset_flush(r, SFS_RFILE_WAL);
    int told = sfs_rset_settle(r, false);
    sfs_mutex_unlock(&r->m);
    return rc ? rc : told;
}

int sfs_replicas_sync_wal(struct sfs_replicas *r)
{
    sfs_mutex_lock(&r->m);
    int rc = sfs_rset_sync(r, SFS_RFILE_WAL);
    int told =
        sfs_rset_settle(r, true); /* whoever found a loss: it is recorded before a commit counts as durable */
    sfs_mutex_unlock(&r->m);
    return rc ? rc : told;
}
