/* The catalog's copies: against each other, and what to fall back on when none is left. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- losing one while it is being mended --- */

static int on_lost(void *ctx, int id, int why)
{
    struct sfs_check *c = ctx;
    if (id > 0 && (unsigned)id <= c->ndisks)
        c->disks[id - 1].replica = false;
    sfs_check_note(c, "The catalog on disk %s could not be written (%s); the others go on without it.", id > 0 ? c->disks[id - 1].name : "?", strerror(why < 0 ? -why : EIO));
    c->result->status |= SFS_CHECK_LEFT;
    return sfs_check_write_labels(c, true);
}

static void on_mended(void *ctx, int id, const char *what)
{
    struct sfs_check *c = ctx;
    sfs_check_note(c, "Disk %s: %s was bad, and was mended from another copy.", id > 0 && (unsigned)id <= c->ndisks ? c->disks[id - 1].name : "?", what);
    c->result->status |= SFS_CHECK_MENDED;
}

static int open_set(struct sfs_check *c, const struct sfs_store *stores, unsigned n, bool readonly)
{
    struct sfs_replicas_events ev = {on_lost, on_mended, c};
    int rc = sfs_replicas_open(c->env, stores, n, &ev, readonly, &c->replicas);
    return rc ? sfs_error_set(c->err, rc, "Pool %s: the copies of its catalog could not be opened: %s.", c->result->pool, strerror(-rc)) : 0;
}

/* --- against each other --- */

/* What is wrong with a copy, in words; NULL: nothing. clean: no copy has a log. */
static const char *wrong(const struct sfs_replica_report *r, bool clean, char *out, size_t cap)
{
    switch (r->found) {
    case SFS_REPLICA_DAMAGED:
        snprintf(out, cap, "%s: damaged", r->name);
        return out;
    case SFS_REPLICA_NONE:
        snprintf(out, cap, "%s: gone", r->name);
        return out;
    case SFS_REPLICA_FAILED:
        snprintf(out, cap, "%s: cannot be read (%s)", r->name, strerror(r->rc < 0 ? -r->rc : EIO));
        return out;
    case SFS_REPLICA_BEHIND:
        if (r->log_cut)
            snprintf(out, cap, "%s: its log is damaged: it ends at commit %lld", r->name, (long long)r->commit_seq);
        else if (clean)
            snprintf(out, cap, "%s: behind, at commit %lld", r->name, (long long)r->commit_seq);
        else if (r->bad_pages)
            break;
        else
            return NULL; /* a crash between two syncs */
        return out;
    default:
        break;
    }
    if (r->bad_pages)
        snprintf(out, cap, "%s: %llu bad pages", r->name, (unsigned long long)r->bad_pages);
    else if (clean && r->other_pages)
        snprintf(out, cap, "%s: %llu pages differ from the others'", r->name, (unsigned long long)r->other_pages);
    else
        return NULL;
    return out;
}

struct survey {
    struct sfs_replica_report v[SFS_REPLICAS_REPORTED];
    unsigned n;
    bool clean, usable;
    char text[SFS_REPLICAS_REPORTED][200];
    const char *items[SFS_REPLICAS_REPORTED];
    struct sfs_check_problem p;
};

static int survey(struct sfs_check *c, struct survey *s)
{
    bool cut = false;
    int rc = sfs_replicas_survey(c->replicas, s->v, &s->n);
    if (rc)
        return sfs_error_set(c->err, rc, "Pool %s: its catalog could not be read: %s.", c->result->pool, strerror(-rc));
    s->clean = true;
    s->usable = s->n > 0 && s->v[0].found == SFS_REPLICA_CURRENT;
    s->p = (struct sfs_check_problem){.id = "replica", .what = "Copies of the catalog that are not as the others", .repair = "make them anew from the best one", .severity = SFS_SEVERITY_SAFE, .items = s->items};
    for (unsigned i = 0; i < s->n; i++)
        s->clean &= s->v[i].log_bytes == 0;
    for (unsigned i = 0; s->usable && i < s->n; i++) {
        s->items[s->p.nitems] = wrong(&s->v[i], s->clean, s->text[s->p.nitems], sizeof(s->text[0]));
        s->p.nitems += s->items[s->p.nitems] != NULL;
        cut |= s->v[i].log_cut;
    }
    s->p.count = s->p.nitems;
    if (s->usable && !s->clean)
        sfs_check_note(c, sfs_check_writes(c) ? "The pool was not closed in order: its log is replayed, up to commit %lld." : "The pool was not closed in order: its log goes up to commit %lld.", (long long)s->v[0].commit_seq);
    if (cut)
        sfs_check_note(c, "Copies of the log are damaged: each bad piece is taken from another copy that has it good. If a piece is bad on all of them, the log ends there, and what was committed behind it is lost.");
    return 0;
}

/* Makes the copies equal, where that is needed and allowed. -EUCLEAN: none is good. */
static int make_equal(struct sfs_check *c, struct survey *s)
{
    if (!s->p.count)
        return sfs_replicas_recover(c->replicas, c->err);
    if (!sfs_check_allowed(c, &s->p)) {
        sfs_check_settle(c, &s->p, sfs_check_unmended(c));
        if (sfs_check_writes(c))
            return sfs_error_set(c->err, -ECANCELED, "The copies of the catalog were left as they are; without one that counts nothing else can be checked.");
        return sfs_replicas_recover(c->replicas, c->err);
    }
    int rc = sfs_replicas_recover_hard(c->replicas, c->err);
    if (!rc)
        sfs_check_settle(c, &s->p, SFS_OUTCOME_MENDED);
    return rc;
}

/* --- falling back --- */

static void note_best(struct sfs_check *c, const char *prefix, const char *name, struct sfs_check_candidate *best)
{
    for (unsigned i = 0; i < c->ndisks; i++) {
        struct sfs_snapshot list[32];
        struct sfs_store s;
        unsigned n = 0;
        if (!c->disks[i].disk)
            continue;
        sfs_pool_store(c->disks[i].disk, c->disks[i].name, (int)i + 1, &s);
        if (sfs_snapshot_list(&s, prefix, list, 32, &n))
            continue;
        for (unsigned k = 0; k < n; k++) {
            if (!sfs_uuid_equal(&list[k].pool, &c->found.pool) || (name && strcmp(list[k].name, name) != 0))
                continue;
            if (best->snap.name[0] && (list[k].time < best->snap.time || (list[k].time == best->snap.time && list[k].commit_seq <= best->snap.commit_seq)))
                continue;
            int rc = sfs_snapshot_verify(&s, list[k].name);
            if (rc)
                sfs_check_note(c, "%s on disk %s is damaged; another one is tried.", list[k].name, c->disks[i].name);
            else
                *best = (struct sfs_check_candidate){i, list[k]};
        }
    }
}

void sfs_check_best_snapshot(struct sfs_check *c, struct sfs_check_candidate *best)
{
    *best = (struct sfs_check_candidate){0};
    note_best(c, SFS_SNAPSHOT_HOURLY, NULL, best);
}

static void when_text(int64_t t, char out[40])
{
    time_t at = (time_t)t;
    struct tm tm;
    if (!localtime_r(&at, &tm) || !strftime(out, 40, "%Y-%m-%d %H:%M:%S", &tm))
        snprintf(out, 40, "an unknown time");
}

/* Copies a damaged file to another name on the same disk, so that nothing is thrown away. Best effort: a full disk must not stop the rescue. */
static void keep_damaged(struct sfs_check *c, struct sfs_store *s, const char *from, const char *to)
{
    enum { CHUNK = 256 << 10 };
    int64_t size = s->ops->size(s->ctx, from);
    uint8_t *buf = size > 0 ? malloc(CHUNK) : NULL;
    int rc = buf ? 0 : size > 0 ? -ENOMEM : (int)size;
    for (uint64_t off = 0; !rc && off < (uint64_t)size;) {
        int64_t got = s->ops->read(s->ctx, from, buf, CHUNK, off);
        if (got <= 0) {
            rc = got < 0 ? (int)got : 0;
            break;
        }
        rc = s->ops->write(s->ctx, to, buf, (size_t)got, off);
        off += (uint64_t)got;
    }
    if (!rc && size > 0)
        rc = s->ops->sync(s->ctx, to);
    free(buf);
    if (rc && rc != -ENOENT) {
        sfs_check_note(c, "The damaged catalog on disk %s could not be kept as %s: %s.", s->name, to, strerror(-rc));
        s->ops->remove(s->ctx, to);
    }
}

/* The disks that are to hold the catalog from now on: those that held one; where that is none, all. */
static unsigned choose_stores(struct sfs_check *c, struct sfs_store *out)
{
    unsigned n = sfs_check_stores(c, true, out), all;
    if (n)
        return n;
    all = sfs_check_stores(c, false, out);
    for (unsigned i = 0; i < all && i < 4; i++)
        c->disks[out[i].id - 1].replica = true;
    return all < 4 ? all : 4;
}

static int restore(struct sfs_check *c, const struct sfs_check_candidate *best)
{
    struct sfs_store stores[SFS_LABEL_PEERS], from;
    unsigned n = choose_stores(c, stores);
    for (unsigned i = 0; i < n; i++) {
        keep_damaged(c, &stores[i], "catalog.db", "damaged.db");
        keep_damaged(c, &stores[i], "catalog.db-wal", "damaged.db-wal");
    }
    sfs_replicas_close(c->replicas);
    c->replicas = NULL;
    int rc = open_set(c, stores, n, false);
    if (rc)
        return rc;
    sfs_pool_store(c->disks[best->disk].disk, c->disks[best->disk].name, (int)best->disk + 1, &from);
    rc = sfs_snapshot_restore(c->replicas, &from, best->snap.name, c->err);
    if (!rc)
        rc = sfs_replicas_recover(c->replicas, c->err);
    if (!rc)
        rc = sfs_check_write_labels(c, true);
    c->rolled_back = c->repaired = true;
    return rc;
}

/* The catalog of a disk that fell behind: newer than a snapshot, perhaps. *seq: 0 when there is none. */
int sfs_check_older_replica(struct sfs_check *c, struct sfs_store *best, int64_t *seq)
{
    struct sfs_store all[SFS_LABEL_PEERS];
    unsigned n = sfs_check_stores(c, false, all);
    *seq = 0;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_replica_report v[SFS_REPLICAS_REPORTED];
        unsigned k = 0;
        int rc = open_set(c, &all[i], 1, true);
        if (rc)
            return rc;
        if (!sfs_replicas_survey(c->replicas, v, &k) && k && v[0].found == SFS_REPLICA_CURRENT && !v[0].bad_pages && v[0].commit_seq > *seq) {
            *seq = v[0].commit_seq;
            *best = all[i];
        }
        sfs_replicas_close(c->replicas);
        c->replicas = NULL;
    }
    return 0;
}

/* Goes on with the catalog of that disk alone; the pool makes further copies when it is opened. */
static int take_older(struct sfs_check *c, const struct sfs_store *s)
{
    for (unsigned i = 0; i < c->ndisks; i++)
        c->disks[i].replica = (int)i + 1 == s->id;
    int rc = open_set(c, s, 1, false);
    if (!rc)
        rc = sfs_replicas_recover_hard(c->replicas, c->err);
    if (!rc)
        rc = sfs_check_write_labels(c, true);
    c->rolled_back = c->repaired = true;
    return rc;
}

/* No copy of the catalog can be used. */
int sfs_check_fall_back(struct sfs_check *c)
{
    struct sfs_check_candidate best = {0};
    struct sfs_store older;
    int64_t older_seq = 0;
    char item[300], when[40];
    const char *items[] = {item};
    struct sfs_check_problem p = {.id = "catalog-lost", .what = "The catalog is damaged on all disks that hold it, or on disks that are missing", .severity = SFS_SEVERITY_LOSS, .count = 1, .items = items, .nitems = 1};
    sfs_audit_close(c->audit);
    c->audit = NULL;
    sfs_replicas_close(c->replicas);
    c->replicas = NULL;
    int rc = c->fallen ? 0 : sfs_check_older_replica(c, &older, &older_seq);
    if (rc)
        return rc;
    sfs_check_best_snapshot(c, &best);
    bool replica = older_seq > 0 && (!best.snap.name[0] || older_seq >= (int64_t)best.snap.commit_seq);
    when_text(best.snap.time, when);
    if (replica)
        snprintf(item, sizeof(item), "the copy on disk %s, which fell behind, goes up to commit %lld: what changed since then is lost", older.name, (long long)older_seq);
    else if (best.snap.name[0])
        snprintf(item, sizeof(item), "%s on disk %s is of %s (commit %llu): what changed since then is lost", best.snap.name, c->disks[best.disk].name, when, (unsigned long long)best.snap.commit_seq);
    else
        snprintf(item, sizeof(item), "no disk that is here has a good snapshot of it, either; connect the missing disks if there are any");
    p.repair = replica || best.snap.name[0] ? "go back to that, and verify all data, since what was freed after it may have been written over" : NULL;
    if (!sfs_check_allowed(c, &p)) {
        sfs_check_settle(c, &p, sfs_check_unmended(c));
        return 0;
    }
    rc = replica ? take_older(c, &older) : restore(c, &best);
    if (!rc)
        sfs_check_settle(c, &p, SFS_OUTCOME_MENDED);
    return rc;
}

/* --restore: what a person has chosen. */
static int restore_named(struct sfs_check *c)
{
    struct sfs_check_candidate best = {0};
    const char *name = c->opts->restore;
    char item[300], when[40];
    const char *items[] = {item};
    struct sfs_check_problem p = {.id = "restore", .what = "Going back to an earlier catalog", .repair = "go back to it", .severity = SFS_SEVERITY_LOSS, .count = 1, .items = items, .nitems = 1};
    note_best(c, strncmp(name, SFS_SNAPSHOT_SAVED, strlen(SFS_SNAPSHOT_SAVED)) ? SFS_SNAPSHOT_HOURLY : SFS_SNAPSHOT_SAVED, name, &best);
    if (!best.snap.name[0])
        return sfs_error_set(c->err, -ENOENT, "No disk of pool %s has a good %s. `spacesfs-check --snapshots %s` lists what there is.", c->result->pool, name, c->result->pool);
    when_text(best.snap.time, when);
    snprintf(item, sizeof(item), "%s is of %s (commit %llu): what changed since then is lost", name, when, (unsigned long long)best.snap.commit_seq);
    if (!sfs_check_allowed(c, &p))
        return sfs_error_set(c->err, -ECANCELED, "Nothing was changed.");
    if (c->replicas && sfs_replicas_recover(c->replicas, NULL) == 0)
        sfs_check_save(c);
    int rc = restore(c, &best);
    if (!rc)
        sfs_check_settle(c, &p, SFS_OUTCOME_MENDED);
    return rc;
}

/* --- opening --- */

int sfs_check_save(struct sfs_check *c)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    struct sfs_error why = {0};
    if (c->result->saved[0] || !sfs_check_writes(c) || c->extracting)
        return 0;
    unsigned n = sfs_check_stores(c, false, stores), listed = 0;
    int rc = sfs_snapshot_take(c->env, c->replicas, stores, n, SFS_SNAPSHOT_SAVED, SFS_CHECK_KEEP, &why);
    struct sfs_snapshot newest = {0};
    for (unsigned i = 0; i < n; i++) {
        struct sfs_snapshot s;
        if (!sfs_snapshot_list(&stores[i], SFS_SNAPSHOT_SAVED, &s, 1, &listed) && listed && s.number > newest.number)
            newest = s;
    }
    if (rc && !newest.name[0])
        return sfs_error_set(c->err, rc, "The catalog could not be saved before changing it, so that nothing was changed. %s", why.text);
    if (rc)
        sfs_check_note(c, "%s", why.text);
    snprintf(c->result->saved, sizeof(c->result->saved), "%s", newest.name);
    sfs_check_note(c, "The catalog as it was is kept as %s.", newest.name);
    return 0;
}

static int open_surveyed(struct sfs_check *c, struct survey *s)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    unsigned n = sfs_check_stores(c, true, stores);
    int rc = n ? open_set(c, stores, n, true) : 0;
    sfs_check_progress(c, "copies of the catalog", 0, 0);
    if (!rc && n && !c->opts->restore)
        rc = survey(c, s);
    sfs_replicas_close(c->replicas);
    c->replicas = NULL;
    if (!rc && n)
        rc = open_set(c, stores, n, !sfs_check_writes(c));
    if (rc)
        return rc;
    if (c->opts->restore)
        return restore_named(c);
    if (!s->usable)
        return sfs_check_fall_back(c);
    rc = make_equal(c, s);
    if (rc == -EUCLEAN) {
        c->err->code = 0;
        return sfs_check_fall_back(c);
    }
    return rc;
}

int sfs_check_open_replicas(struct sfs_check *c)
{
    struct survey *s = calloc(1, sizeof(*s));
    int rc = s ? open_surveyed(c, s) : -ENOMEM;
    free(s);
    return rc;
}

int sfs_check_reopen(struct sfs_check *c)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    int rc = 0;
    for (unsigned i = 0; !rc && i < c->ndisks; i++)
        if (c->disks[i].present)
            rc = sfs_check_open_disk(c, &c->disks[i]);
    unsigned n = rc ? 0 : sfs_check_stores(c, true, stores);
    if (!rc)
        rc = n ? open_set(c, stores, n, false) : -ENODEV;
    if (!rc)
        rc = sfs_replicas_recover(c->replicas, c->err);
    return rc ? rc : sfs_check_open_audit(c);
}
