/* Recovery: makes all stores equal to the one with the newest commit, and empties the WAL. And scrub, which
 * compares them while the catalog is in use.
 *
 * Why it is right (numbers: invariants of meta/README.md)
 *   - What a store holds is its database file plus the valid prefix of its WAL; SQLite finds that prefix by
 * its own checksums. The commit counter read through both tells how new it is. By 4 a store whose counter
 * equals the highest holds that commit whole; one whose WAL has rotted shows a lower one.
 *   - A page that isn't in the newest WAL was not written since that WAL began (3), and the checkpoint before
 * was synced on all stores (2). So where a store's copy of it is bad, any other store's good copy is the
 * right one; and a page that is in the WAL is about to be written anew.
 *   - The order: first the other stores are made equal to the chosen one and synced, then bad pages of the
 * chosen one are mended, then the WAL is checkpointed into all of them. A crash at any point leaves the
 * chosen store, or an equal one, to be chosen again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "meta/catalog_impl.h"
#include "meta/replicas_impl.h"

#define CHUNK_BYTES (256u << 10)
#define CHUNK_PAGES (CHUNK_BYTES / SFS_PAGE_BYTES)
#define QUICK_CHECK_PAGES                                                                                    \
    16384 /* after an unclean end, a catalog of up to 64 MiB is checked in its structure, too */

enum found { FOUND_NONE, FOUND_GOOD, FOUND_DAMAGED, FOUND_FAILED };

struct probe {
    struct sfs_replica *rep;
    enum found found;
    int rc; /* FAILED: -errno */
    enum found found_first; /* these two: before its WAL was mended from the others */
    int64_t seq_first;
    bool behind; /* older than a crash explains, or worse, measured by the one that is about to be chosen */
    int64_t seq, pages, state_page;
    int64_t wal_bytes, db_bytes;
};

struct recovery {
    struct sfs_replicas *r;
    struct probe p[SFS_REPLICAS_MAX];
    unsigned n;
    struct probe *best;
    bool clean; /* all equal already, no WAL */
    bool hard;  /* not to be believed */
    uint8_t *buf, *best_buf;
    uint64_t file_pages; /* of the database: the rest of best->pages is in the WAL only */
    uint64_t *bad;       /* pages that no store had good */
    unsigned nbad;
};

/* --- looking --- */

static int read_state(sqlite3 *db, struct probe *p, bool check)
{
    int64_t bad = 0;
    int rc = sfs_db_int(db, "SELECT commit_seq FROM state WHERE id = 1", &p->seq);
    if (!rc)
        rc = sfs_db_int(db, "SELECT rootpage FROM sqlite_schema WHERE name = 'state'", &p->state_page);
    if (!rc)
        rc = sfs_db_int(db, "PRAGMA page_count", &p->pages);
    if (!rc && check && p->pages <= QUICK_CHECK_PAGES)
        rc = sfs_db_int(db, "SELECT count(*) FROM pragma_quick_check(1) WHERE quick_check <> 'ok'", &bad);
    return rc ? rc : bad ? -EUCLEAN : 0;
}

/* Opens the catalog as store i's WAL has it; pages of the database come from store i, or from another where
 * they are bad (but not from one that is behind). Writes nothing. */
static int look(struct recovery *v, unsigned i, bool check)
{
    struct sfs_store stores[SFS_REPLICAS_MAX];
    struct sfs_replicas *sub = NULL;
    sqlite3 *db = NULL;
    unsigned n = 0;
    for (unsigned k = 0; k < v->n; k++)
        if (k == 0 || !v->p[(i + k) % v->n].behind)
            stores[n++] = v->p[(i + k) % v->n].rep->store;
    int rc = sfs_replicas_open(v->r->env, stores, n, NULL, true, &sub);
    if (!rc)
        rc = sfs_db_open(sub, true, &db);
    if (!rc)
        rc = read_state(db, &v->p[i], check);
    sqlite3_close(db);
    sfs_replicas_close(sub);
    return rc;
}

static void probe(struct recovery *v, unsigned i)
{
    struct probe *p = &v->p[i];
    int64_t size = sfs_store_size(&p->rep->store, SFS_CATALOG_FILE);
    p->wal_bytes = size < 0 ? size : sfs_store_size(&p->rep->store, SFS_WAL_FILE);
    p->found = FOUND_FAILED;
    p->db_bytes = size;
    if (size < 0 || p->wal_bytes < 0) {
        p->rc = (int)(size < 0 ? size : p->wal_bytes);
        return;
    }
    if (size == 0 && p->wal_bytes == 0) {
        p->found = FOUND_NONE;
        return;
    }
    if (p->wal_bytes > SFS_WAL_SANE_BYTES) {
        p->found = FOUND_DAMAGED;
        p->rc = -EUCLEAN;
        return;
    }
    int rc = look(v, i, false);
    p->rc = rc;
    p->found = rc == 0 ? FOUND_GOOD : rc == -EUCLEAN ? FOUND_DAMAGED : FOUND_FAILED;
}

/* A crash leaves stores at most one commit apart: the next begins when the last is durable everywhere. A store without a WAL had its last commit durable everywhere before that was emptied. One without a catalog was
 * leaving when the machine went down: its files go before the labels say so. */
static void measure(struct recovery *v, const struct probe *best)
{
    int64_t explained = best->wal_bytes > 0 ? 1 : 0;
    for (unsigned i = 0; i < v->n; i++) {
        struct probe *p = &v->p[i];
        p->behind = p != best && p->found_first != FOUND_FAILED && p->found_first != FOUND_NONE && (p->found_first != FOUND_GOOD || best->seq - p->seq_first > explained);
    }
}

/* The newest one that holds together. */
static struct probe *choose(struct recovery *v)
{
    for (;;) {
        struct probe *best = NULL;
        for (unsigned i = 0; i < v->n; i++)
            if (v->p[i].found == FOUND_GOOD && (!best || v->p[i].seq > best->seq))
                best = &v->p[i];
        if (!best || v->clean)
            return best;
        measure(v, best);
        best->rc = look(v, (unsigned)(best - v->p), true);
        if (!best->rc)
            return best;
        best->found = best->rc == -EUCLEAN ? FOUND_DAMAGED : FOUND_FAILED;
    }
}

static int none_left(struct recovery *v, struct sfs_error *err)
{
    char names[600] = "";
    unsigned damaged = 0, none = 0;
    int rc = -EIO;
    for (unsigned i = 0; i < v->n; i++) {
        size_t at = strlen(names);
        damaged += v->p[i].found == FOUND_DAMAGED;
        none += v->p[i].found == FOUND_NONE;
        if (v->p[i].found == FOUND_FAILED)
            rc = v->p[i].rc;
        snprintf(names + at, sizeof(names) - at, "%s%s", at ? ", " : "", v->p[i].rep->store.name);
    }
    if (damaged)
        return sfs_error_set(err, -EUCLEAN,
                             "The catalog is damaged on all disks that hold it (%s). The pool was left as it "
                             "is; run spacesfs-check, "
                             "which goes back to the newest good snapshot of the catalog, if there is one (they are made hourly, and before risky changes).",
                             names);
    if (none == v->n)
        return sfs_error_set(err, -ENOENT, "No catalog was found on %s.", names);
    return sfs_error_set(err, rc, "The catalog could not be read from any of its disks (%s): %s.", names,
                         strerror(-rc));
}

/* The one chosen is older than another one that does not hold together: going back in silence would lose what
 * was promised. */
static int too_old(struct recovery *v, struct sfs_error *err)
{
    const struct probe *newest = v->best;
    for (unsigned i = 0; i < v->n; i++)
        if (v->p[i].seq > newest->seq)
            newest = &v->p[i];
    if (newest->seq - v->best->seq <= 1)
        return 0;
    return sfs_error_set(err, -EUCLEAN,
                         "The newest copy of the catalog, on %s, is damaged, and the best of the others, on %s, is older by %lld commits. The pool was left as it is. If another disk "
                         "with the catalog can be had, connect it; else run spacesfs-check, which can go back to an older state.",
                         newest->rep->store.name, v->best->rep->store.name, (long long)(newest->seq - v->best->seq));
}

struct mending {
    struct recovery *v;
    struct probe *p;
};

static int put_in_wal(void *ctx, uint64_t off, const void *bytes, size_t len)
{
    struct mending *m = ctx;
    const struct sfs_store *s = &m->p->rep->store;
    int rc = s->ops->write(s->ctx, SFS_WAL_FILE, bytes, len, off);
    if (rc)
        return rc;
    sfs_mutex_lock(&m->v->r->m);
    sfs_rset_mended(m->v->r, s->id, SFS_WAL_FILE, off);
    sfs_mutex_unlock(&m->v->r->m);
    return 0;
}

/* What one store's WAL has bad and another's has good. Read-only it is done in memory, for the one that is chosen. */
static int mend_wals(struct recovery *v)
{
    const struct sfs_store *stores[SFS_REPLICAS_MAX];
    for (unsigned i = 0; i < v->n; i++)
        stores[i] = &v->p[i].rep->store;
    for (unsigned i = 0; i < v->n; i++) {
        struct mending m = {v, &v->p[i]};
        unsigned mended = 0;
        if (v->p[i].found == FOUND_FAILED || v->p[i].wal_bytes == 0)
            continue;
        int rc = sfs_wal_mend(stores, v->n, i, put_in_wal, &m, &mended);
        if (rc == -ENOMEM)
            return rc;
        if (rc) {
            v->p[i].found = FOUND_FAILED;
            v->p[i].rc = rc;
        } else if (mended) {
            probe(v, i);
        }
    }
    return 0;
}

static int look_at_all(struct recovery *v, struct sfs_error *err)
{
    for (unsigned i = 0; i < v->r->n; i++)
        if (v->r->v[i]->state == SFS_REPLICA_LIVE)
            v->p[v->n++].rep = v->r->v[i];
    if (v->n == 0)
        return sfs_error_set(err, v->r->failed ? v->r->failed : -EIO, "No disk with the catalog is left.");
    v->clean = true;
    for (unsigned i = 0; i < v->n; i++) {
        const struct probe *p = &v->p[i], *first = &v->p[0];
        probe(v, i);
        v->clean &=
            p->found == FOUND_GOOD && p->wal_bytes == 0 && p->seq == first->seq && p->pages == first->pages;
    }
    v->clean &= !v->hard;
    for (unsigned i = 0; i < v->n; i++) {
        v->p[i].found_first = v->p[i].found;
        v->p[i].seq_first = v->p[i].seq;
    }
    v->r->merge = v->r->readonly && v->n > 1;
    int rc = v->clean || v->r->readonly || v->n == 1 ? 0 : mend_wals(v);
    if (rc)
        return sfs_error_set(err, rc, "The catalog could not be recovered: %s.", strerror(-rc));
    v->best = choose(v);
    if (!v->best)
        return none_left(v, err);
    rc = too_old(v, err);
    if (rc)
        return rc;
    for (unsigned i = 0; i < v->n; i++)
        v->p[i].rep->behind = v->p[i].behind;
    for (unsigned i = 0; i < v->n; i++)
        if (v->p[i].db_bytes > 0 && (uint64_t)v->p[i].db_bytes / SFS_PAGE_BYTES > v->file_pages)
            v->file_pages = (uint64_t)v->p[i].db_bytes / SFS_PAGE_BYTES;
    if (v->file_pages > (uint64_t)v->best->pages)
        v->file_pages = (uint64_t)v->best->pages;
    return 0;
}

/* --- making equal --- */

static bool usable(const struct probe *p)
{
    return p->rep->state == SFS_REPLICA_LIVE;
}

/* A store that fails while it is made equal is lost; the chosen one failing ends this attempt. */
static int lose(struct recovery *v, struct probe *p, int rc)
{
    if (p == v->best)
        return rc;
    sfs_mutex_lock(&v->r->m);
    sfs_rset_lose(v->r, p->rep, rc);
    sfs_mutex_unlock(&v->r->m);
    return 0;
}

static int note_bad(struct recovery *v, uint64_t page)
{
    uint64_t *bad = realloc(v->bad, (v->nbad + 1) * sizeof(*bad));
    if (!bad)
        return -ENOMEM;
    v->bad = bad;
    bad[v->nbad++] = page;
    return 0;
}

/* The chosen store's run of pages, bad ones replaced by another store's good ones where there are any. */
static int best_pages(struct recovery *v, uint64_t first, unsigned count, bool note)
{
    const struct sfs_store *s = &v->best->rep->store;
    memset(v->best_buf, 0, (size_t)count * SFS_PAGE_BYTES);
    int64_t got = sfs_store_read(s, SFS_CATALOG_FILE, v->best_buf, (size_t)count * SFS_PAGE_BYTES,
                                 (first - 1) * SFS_PAGE_BYTES);
    if (got < 0)
        return (int)got;
    for (unsigned k = 0; k < count; k++) {
        uint8_t *page = v->best_buf + (size_t)k * SFS_PAGE_BYTES, other[SFS_PAGE_BYTES];
        bool good = sfs_page_good(page, first + k);
        for (unsigned i = 0; i < v->n && !good; i++) {
            if (!usable(&v->p[i]) || &v->p[i] == v->best || v->p[i].behind)
                continue;
            got = sfs_store_read(&v->p[i].rep->store, SFS_CATALOG_FILE, other, sizeof(other),
                                 (first + k - 1) * SFS_PAGE_BYTES);
            if (got == (int64_t)sizeof(other) && sfs_page_good(other, first + k)) {
                memcpy(page, other, sizeof(other));
                good = true;
            }
        }
        int rc = !good && note ? note_bad(v, first + k) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* Writes `want` over what the store has there, if that differs. */
static int put_run(struct recovery *v, struct probe *p, const char *file, size_t len, uint64_t off)
{
    const struct sfs_store *s = &p->rep->store;
    int64_t got = sfs_store_read(s, file, v->buf, len, off);
    if (got < 0)
        return (int)got;
    if ((size_t)got == len && memcmp(v->buf, v->best_buf, len) == 0)
        return 0;
    return s->ops->write(s->ctx, file, v->best_buf, len, off);
}

/* others: those that were not chosen; else the chosen store alone. */
static int equalize_db(struct recovery *v, bool others)
{
    for (uint64_t page = 1; page <= v->file_pages; page += CHUNK_PAGES) {
        uint64_t left = v->file_pages - page + 1;
        unsigned count = left < CHUNK_PAGES ? (unsigned)left : CHUNK_PAGES;
        int rc = best_pages(v, page, count, others);
        for (unsigned i = 0; i < v->n && !rc; i++) {
            struct probe *p = &v->p[i];
            if ((p == v->best) == others || !usable(p))
                continue;
            rc = put_run(v, p, SFS_CATALOG_FILE, (size_t)count * SFS_PAGE_BYTES, (page - 1) * SFS_PAGE_BYTES);
            if (rc)
                rc = lose(v, p, rc);
        }
        if (rc)
            return rc;
    }
    return 0;
}

static int equalize_wal(struct recovery *v)
{
    const struct sfs_store *s = &v->best->rep->store;
    for (uint64_t off = 0; off < (uint64_t)v->best->wal_bytes;) {
        int64_t len = sfs_store_read(s, SFS_WAL_FILE, v->best_buf, CHUNK_BYTES, off);
        if (len <= 0)
            return (int)len;
        for (unsigned i = 0; i < v->n; i++) {
            struct probe *p = &v->p[i];
            if (p == v->best || !usable(p))
                continue;
            int rc = put_run(v, p, SFS_WAL_FILE, (size_t)len, off);
            if (rc)
                lose(v, p, rc);
        }
        off += (uint64_t)len;
    }
    return 0;
}

static int finish(struct recovery *v, struct probe *p, bool truncate)
{
    const struct sfs_store *s = &p->rep->store;
    int rc = 0;
    if (truncate && p->wal_bytes > v->best->wal_bytes)
        rc = s->ops->truncate(s->ctx, SFS_WAL_FILE, (uint64_t)v->best->wal_bytes);
    if (!rc && (v->best->wal_bytes > 0 || p->wal_bytes > 0))
        rc = s->ops->sync(s->ctx, SFS_WAL_FILE);
    return rc ? rc : s->ops->sync(s->ctx, SFS_CATALOG_FILE);
}

static int equalize(struct recovery *v)
{
    int rc = equalize_db(v, true);
    if (!rc)
        rc = equalize_wal(v);
    for (unsigned i = 0; i < v->n && !rc; i++) {
        struct probe *p = &v->p[i];
        if (p == v->best || !usable(p))
            continue;
        rc = finish(v, p, true);
        if (rc)
            rc = lose(v, p, rc);
    }
    if (!rc)
        rc = equalize_db(v, false);
    return rc ? rc : finish(v, v->best, false);
}

/* --- emptying the WAL --- */

static int checkpoint(struct recovery *v)
{
    struct probe now = {0};
    sqlite3 *db = NULL;
    sfs_rset_set_last_page(v->r, (uint64_t)v->best->state_page);
    int rc = sfs_db_open(v->r, false, &db);
    if (!rc)
        rc = sfs_db_exec(db, "PRAGMA synchronous = FULL");
    if (!rc)
        rc = read_state(db, &now, false);
    if (!rc && now.seq != v->best->seq)
        rc = -EUCLEAN;
    if (!rc)
        rc = sfs_db_errno(db, sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
    sqlite3_close(db);
    return rc ? rc : sfs_replicas_sync_wal(v->r);
}

/* Pages that were bad everywhere and that the WAL has not brought back. If the structure holds without them
 * they are unused (written to once, never synced, free since): they become pages of zeros. */
static int resolve_bad(struct recovery *v)
{
    struct sfs_replicas *r = v->r;
    int64_t wrong = 0;
    unsigned still = 0;
    sqlite3 *db = NULL;
    sfs_mutex_lock(&r->m);
    for (unsigned i = 0; i < v->nbad; i++)
        if (sfs_rset_read_page(r, v->bad[i], v->buf) != 0)
            v->bad[still++] = v->bad[i];
    sfs_mutex_unlock(&r->m);
    if (!still)
        return 0;
    int rc = sfs_db_open(r, false, &db);
    if (!rc)
        rc = sfs_db_int(db, "SELECT count(*) FROM pragma_quick_check(1) WHERE quick_check <> 'ok'", &wrong);
    sqlite3_close(db);
    if (rc || wrong)
        return rc ? rc : -EUCLEAN;
    sfs_mutex_lock(&r->m);
    memset(v->buf, 0, SFS_PAGE_BYTES);
    for (unsigned i = 0; i < still && !rc; i++)
        rc = sfs_rset_write(r, SFS_RFILE_DB, v->buf, SFS_PAGE_BYTES, (v->bad[i] - 1) * SFS_PAGE_BYTES);
    if (!rc)
        rc = sfs_rset_sync(r, SFS_RFILE_DB);
    sfs_mutex_unlock(&r->m);
    return rc;
}

static void prefer(struct recovery *v)
{
    struct sfs_replicas *r = v->r;
    sfs_mutex_lock(&r->m);
    for (unsigned i = 0; i < r->n; i++)
        if (r->v[i] == v->best->rep)
            r->primary = i;
    r->loaded = false;
    r->deferred_valid = false; /* what an attempt before this one left */
    r->file[SFS_RFILE_DB].gather_len = 0;
    sfs_mutex_unlock(&r->m);
}

static int recover(struct recovery *v, struct sfs_error *err)
{
    int rc = look_at_all(v, err);
    if (rc)
        return rc;
    prefer(v);
    if (v->r->readonly)
        return 0;
    if (!v->clean)
        rc = equalize(v);
    if (!rc)
        rc = checkpoint(v);
    if (!rc && v->nbad)
        rc = resolve_bad(v);
    sfs_mutex_lock(&v->r->m);
    int told = sfs_rset_settle(v->r, true);
    sfs_mutex_unlock(&v->r->m);
    rc = rc ? rc : told;
    if (rc == -EUCLEAN)
        return sfs_error_set(err, rc,
                             "The catalog has pages that are damaged on all disks that hold it. Run "
                             "spacesfs-check, which can go "
                             "back to a snapshot of the catalog.");
    if (rc)
        return sfs_error_set(err, rc, "The catalog could not be recovered: %s.", strerror(-rc));
    return 0;
}

static int recover_all(struct sfs_replicas *r, bool hard, struct sfs_error *err)
{
    struct recovery v = {.r = r, .hard = hard, .buf = malloc(CHUNK_BYTES), .best_buf = malloc(CHUNK_BYTES)};
    int rc = v.buf && v.best_buf ? recover(&v, err) : sfs_error_set(err, -ENOMEM, "Out of memory.");
    free(v.buf);
    free(v.best_buf);
    free(v.bad);
    return rc;
}

int sfs_replicas_recover(struct sfs_replicas *r, struct sfs_error *err)
{
    return recover_all(r, false, err);
}

int sfs_replicas_recover_hard(struct sfs_replicas *r, struct sfs_error *err)
{
    return recover_all(r, true, err);
}

/* --- survey --- */

static void report_one(const struct recovery *v, const struct probe *p, struct sfs_replica_report *out)
{
    *out = (struct sfs_replica_report){.id = p->rep->store.id, .rc = p->rc, .commit_seq = p->seq};
    snprintf(out->name, sizeof(out->name), "%s", p->rep->store.name);
    out->log_bytes = p->wal_bytes > 0 ? (uint64_t)p->wal_bytes : 0;
    if (p->found == FOUND_GOOD)
        out->found = v->best && p->seq == v->best->seq ? SFS_REPLICA_CURRENT : SFS_REPLICA_BEHIND;
    else
        out->found = p->found == FOUND_NONE      ? SFS_REPLICA_NONE
                     : p->found == FOUND_DAMAGED ? SFS_REPLICA_DAMAGED
                                                 : SFS_REPLICA_FAILED;
    out->log_cut = v->best && p->seq < v->best->seq && p->wal_bytes > 0 && p->wal_bytes >= v->best->wal_bytes;
}

/* Bad and different pages of one store in the run that best_buf holds. */
static void count_pages(struct recovery *v, const struct probe *p, uint64_t first, unsigned count,
                        struct sfs_replica_report *out)
{
    memset(v->buf, 0, (size_t)count * SFS_PAGE_BYTES);
    int64_t got = sfs_store_read(&p->rep->store, SFS_CATALOG_FILE, v->buf, (size_t)count * SFS_PAGE_BYTES,
                                 (first - 1) * SFS_PAGE_BYTES);
    for (unsigned k = 0; k < count; k++) {
        const uint8_t *page = v->buf + (size_t)k * SFS_PAGE_BYTES;
        if (got < 0 || !sfs_page_good(page, first + k))
            out->bad_pages++;
        else if (memcmp(page, v->best_buf + (size_t)k * SFS_PAGE_BYTES, SFS_PAGE_BYTES) != 0)
            out->other_pages++;
    }
}

static int survey(struct recovery *v, struct sfs_replica_report *out, unsigned *n)
{
    int rc = look_at_all(v, NULL);
    if (!v->n)
        return rc;
    *n = v->n;
    if (rc)
        v->best = NULL; /* too old */
    for (unsigned i = 0; i < v->n; i++)
        report_one(v, &v->p[i], &out[i]);
    for (uint64_t page = 1; v->best && !rc && page <= v->file_pages; page += CHUNK_PAGES) {
        uint64_t left = v->file_pages - page + 1;
        unsigned count = left < CHUNK_PAGES ? (unsigned)left : CHUNK_PAGES;
        rc = best_pages(v, page, count, false);
        for (unsigned i = 0; i < v->n && !rc; i++)
            if (v->p[i].found != FOUND_FAILED && v->p[i].found != FOUND_NONE)
                count_pages(v, &v->p[i], page, count, &out[i]);
    }
    if (v->best) {
        unsigned at = (unsigned)(v->best - v->p);
        struct sfs_replica_report first = out[at];
        memmove(&out[1], &out[0], at * sizeof(out[0]));
        out[0] = first;
    }
    return v->best ? rc : 0;
}

int sfs_replicas_survey(struct sfs_replicas *r, struct sfs_replica_report *out, unsigned *n)
{
    struct recovery v = {.r = r, .buf = malloc(CHUNK_BYTES), .best_buf = malloc(CHUNK_BYTES)};
    *n = 0;
    int rc = v.buf && v.best_buf ? survey(&v, out, n) : -ENOMEM;
    free(v.buf);
    free(v.best_buf);
    free(v.bad);
    return rc;
}

/* --- scrub --- */

/* Which of the stores' copies of one page is right: one with a good trailer; if good ones differ, what most
 * of them say (-1: no majority). */
static int vote(uint8_t *const *copies, const bool *good, unsigned n)
{
    int best = -1;
    unsigned best_votes = 0, candidates = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned votes = 0;
        if (!good[i])
            continue;
        for (unsigned k = 0; k < n; k++)
            votes += good[k] && memcmp(copies[i], copies[k], SFS_PAGE_BYTES) == 0;
        candidates++;
        if (votes > best_votes) {
            best = (int)i;
            best_votes = votes;
        }
    }
    return best >= 0 && 2 * best_votes > candidates ? best : -1;
}

static void scrub_page(struct sfs_replicas *r, struct sfs_replica *const *reps, uint8_t *const *copies,
                       unsigned n, uint64_t page, uint64_t *bad)
{
    bool good[SFS_REPLICAS_MAX];
    struct sfs_rfile *f = &r->file[SFS_RFILE_DB];
    for (unsigned i = 0; i < n; i++)
        good[i] = sfs_page_good(copies[i], page);
    int right = vote(copies, good, n);
    if (right < 0) { /* nothing to mend it from, or no telling which one is right */
        ++*bad;
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        if (memcmp(copies[i], copies[right], SFS_PAGE_BYTES) == 0)
            continue;
        ++*bad;
        if (r->readonly || reps[i]->state != SFS_REPLICA_LIVE)
            continue;
        int rc = reps[i]->store.ops->write(reps[i]->store.ctx, f->name, copies[right], SFS_PAGE_BYTES,
                                           (page - 1) * SFS_PAGE_BYTES);
        f->write_seq++;
        if (rc)
            sfs_rset_lose(r, reps[i], rc);
        else
            sfs_rset_mended(r, reps[i]->store.id, f->name, (page - 1) * SFS_PAGE_BYTES);
    }
}

/* Lock held: so that all stores have had the same writes. */
static int scrub_run(struct sfs_replicas *r, uint64_t page, unsigned count, uint8_t *buf, uint64_t *bad)
{
    struct sfs_replica *reps[SFS_REPLICAS_MAX];
    unsigned n = 0;
    for (unsigned i = 0; i < r->n; i++) {
        struct sfs_replica *rep = r->v[(r->primary + i) % r->n];
        if (rep->state != SFS_REPLICA_LIVE)
            continue;
        uint8_t *to = buf + (size_t)n * CHUNK_BYTES;
        memset(to, 0, CHUNK_BYTES);
        int64_t got = sfs_store_read(&rep->store, SFS_CATALOG_FILE, to, (size_t)count * SFS_PAGE_BYTES,
                                     (page - 1) * SFS_PAGE_BYTES);
        if (got >= 0)
            reps[n++] = rep;
        else if (sfs_rset_live(r) > 1)
            sfs_rset_lose(r, rep, (int)got);
        else
            return (int)got;
    }
    for (unsigned k = 0; k < count; k++) {
        uint8_t *copies[SFS_REPLICAS_MAX];
        for (unsigned i = 0; i < n; i++)
            copies[i] = buf + (size_t)i * CHUNK_BYTES + (size_t)k * SFS_PAGE_BYTES;
        scrub_page(r, reps, copies, n, page + k, bad);
    }
    return 0;
}

int sfs_replicas_scrub(struct sfs_replicas *r, uint64_t *bad)
{
    uint8_t *buf = malloc((size_t)SFS_REPLICAS_MAX * CHUNK_BYTES);
    int rc = buf ? 0 : -ENOMEM;
    *bad = 0;
    for (uint64_t page = 1; !rc; page += CHUNK_PAGES) {
        sfs_mutex_lock(&r->m);
        rc = sfs_rset_load(r);
        if (!rc)
            rc = r->readonly ? 0 : sfs_rset_flush(r, SFS_RFILE_DB);
        uint64_t pages = r->file[SFS_RFILE_DB].size / SFS_PAGE_BYTES;
        unsigned count = page > pages                     ? 0
                         : pages - page + 1 < CHUNK_PAGES ? (unsigned)(pages - page + 1)
                                                          : CHUNK_PAGES;
        if (!rc && count)
            rc = scrub_run(r, page, count, buf, bad);
        int told = sfs_rset_settle(r, false);
        rc = rc ? rc : told;
        sfs_mutex_unlock(&r->m);
        if (!count)
            break;
        sfs_env_yield(r->env);
    }
    free(buf);
    if (!rc && !r->readonly) { /* what was mended */
        sfs_mutex_lock(&r->m);
        rc = sfs_rset_sync(r, SFS_RFILE_DB);
        sfs_mutex_unlock(&r->m);
    }
    return rc;
}
