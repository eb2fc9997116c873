/* The replica set's members: opening and closing, losses, a store that joins, one that leaves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "meta/replicas_impl.h"

#define COPY_BYTES (128u << 10)

unsigned sfs_rset_live(const struct sfs_replicas *r)
{
    unsigned n = 0;
    for (unsigned i = 0; i < r->n; i++)
        n += r->v[i]->state == SFS_REPLICA_LIVE;
    return n;
}

static struct sfs_replica *replica_new(struct sfs_replicas *r, const struct sfs_store *s,
                                       enum sfs_replica_state state)
{
    struct sfs_replica *rep = calloc(1, sizeof(*rep));
    if (!rep)
        return NULL;
    rep->set = r;
    rep->store = *s;
    rep->state = state;
    STAILQ_INIT(&rep->jobs);
    sfs_cond_init(&rep->work, r->env);
    return rep;
}

/* Its helper, if any, has ended. */
static void replica_free(struct sfs_replica *rep)
{
    sfs_cond_destroy(&rep->work);
    free(rep);
}

static void helper_main(void *arg)
{
    struct sfs_replica *rep = arg;
    struct sfs_replicas *r = rep->set;
    sfs_mutex_lock(&r->m);
    for (;;) {
        struct sfs_sync_job *job = STAILQ_FIRST(&rep->jobs);
        if (!job) {
            if (rep->stop)
                break;
            sfs_cond_wait(&rep->work, &r->m);
            continue;
        }
        STAILQ_REMOVE_HEAD(&rep->jobs, next);
        sfs_mutex_unlock(&r->m);
        int rc = rep->store.ops->sync(rep->store.ctx, job->file);
        sfs_mutex_lock(&r->m);
        job->rc = rc;
        job->done = true;
        sfs_cond_broadcast(&r->c);
    }
    sfs_mutex_unlock(&r->m);
}

int sfs_rset_start_helper(struct sfs_replica *rep)
{
    return rep->thread ? 0 : sfs_thread_start(rep->set->env, "sfs-replica", helper_main, rep, &rep->thread);
}

/* Frees members that are gone and told. Releases the lock while it joins their threads. */
static void reap(struct sfs_replicas *r, bool all)
{
    for (unsigned i = 0; i < r->n;) {
        struct sfs_replica *rep = r->v[i];
        if (!all && (rep->state != SFS_REPLICA_GONE || !rep->told || rep->busy)) {
            i++;
            continue;
        }
        r->v[i] = r->v[--r->n];
        rep->stop = true;
        sfs_cond_signal(&rep->work);
        sfs_mutex_unlock(&r->m);
        if (rep->thread)
            sfs_thread_join(rep->thread);
        replica_free(rep);
        sfs_mutex_lock(&r->m);
        i = 0;
    }
    r->primary = 0;
}

int sfs_replicas_open(struct sfs_env *env, const struct sfs_store *stores, unsigned n,
                      const struct sfs_replicas_events *ev, bool readonly, struct sfs_replicas **out)
{
    struct sfs_replicas *r;
    int rc = -ENOMEM;
    if (n == 0 || n > SFS_REPLICAS_MAX)
        return -EINVAL;
    r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    r->env = env;
    r->readonly = readonly;
    if (ev)
        r->ev = *ev;
    sfs_mutex_init(&r->m, env, SFS_RANK_REPLICAS);
    sfs_cond_init(&r->c, env);
    r->file[SFS_RFILE_DB].name = SFS_CATALOG_FILE;
    r->file[SFS_RFILE_WAL].name = SFS_WAL_FILE;
    for (int f = 0; f < SFS_RFILE_COUNT && !readonly; f++)
        if (!(r->file[f].gather = malloc(SFS_GATHER_BYTES)))
            goto fail;
    r->index = sfs_wal_index_new(env);
    if (!r->index)
        goto fail;
    for (unsigned i = 0; i < n; i++) {
        if (!(r->v[i] = replica_new(r, &stores[i], SFS_REPLICA_LIVE)))
            goto fail;
        r->n++;
    }
    rc = sfs_vfs_register(r);
    if (rc)
        goto fail;
    *out = r;
    return 0;
fail:
    sfs_replicas_close(r);
    return rc;
}

void sfs_replicas_close(struct sfs_replicas *r)
{
    if (!r)
        return;
    sfs_mutex_lock(&r->m);
    sfs_rset_settle(r, true);
    reap(r, true);
    sfs_mutex_unlock(&r->m);
    sfs_vfs_unregister(r);
    sfs_wal_index_free(r->index);
    sfs_wal_sums_clear(&r->sums);
    for (int f = 0; f < SFS_RFILE_COUNT; f++)
        free(r->file[f].gather);
    free(r->wal_image);
    sfs_cond_destroy(&r->c);
    sfs_mutex_destroy(&r->m);
    free(r);
}

const char *sfs_replicas_vfs_name(const struct sfs_replicas *r)
{
    return r->vfs_name;
}

unsigned sfs_replicas_count(struct sfs_replicas *r)
{
    sfs_mutex_lock(&r->m);
    unsigned n = sfs_rset_live(r);
    sfs_mutex_unlock(&r->m);
    return n;
}

unsigned sfs_replicas_ids(struct sfs_replicas *r, int *ids, unsigned max)
{
    unsigned n = 0;
    sfs_mutex_lock(&r->m);
    for (unsigned i = 0; i < r->n; i++)
        if (r->v[i]->state == SFS_REPLICA_LIVE && n < max)
            ids[n++] = r->v[i]->store.id;
    sfs_mutex_unlock(&r->m);
    return n;
}

bool sfs_replicas_was_behind(struct sfs_replicas *r, int id)
{
    bool behind = false;
    sfs_mutex_lock(&r->m);
    for (unsigned i = 0; i < r->n; i++)
        behind |= r->v[i]->store.id == id && r->v[i]->behind;
    sfs_mutex_unlock(&r->m);
    return behind;
}

void sfs_rset_set_last_page(struct sfs_replicas *r, uint64_t page)
{
    sfs_mutex_lock(&r->m);
    if (r->last_page != page)
        SFS_ASSERT(!r->deferred_valid);
    r->last_page = page;
    sfs_mutex_unlock(&r->m);
}

/* --- losses --- */

void sfs_rset_lose(struct sfs_replicas *r, struct sfs_replica *rep, int why)
{
    if (rep->state == SFS_REPLICA_GONE)
        return;
    bool counted = rep->state == SFS_REPLICA_LIVE;
    rep->state = SFS_REPLICA_GONE;
    rep->why = why < 0 ? why : -EIO;
    rep->told = !counted; /* one that never was a replica isn't news */
    if (counted && sfs_rset_live(r) == 0 && !r->failed)
        r->failed = rep->why;
    sfs_cond_broadcast(&r->c);
}

void sfs_rset_mended(struct sfs_replicas *r, int id, const char *file, uint64_t off)
{
    if (r->nmended == SFS_MENDED_NOTES)
        return; /* the owner hears of the first ones */
    r->mended[r->nmended].id = id;
    snprintf(r->mended[r->nmended].what, sizeof(r->mended[0].what), "%s at byte %llu", file,
             (unsigned long long)off);
    r->nmended++;
}

static void tell_lost(struct sfs_replicas *r, struct sfs_replica *rep)
{
    int id = rep->store.id, why = rep->why, rc = 0;
    sfs_mutex_unlock(&r->m);
    if (r->ev.on_lost)
        rc = r->ev.on_lost(r->ev.ctx, id, why);
    sfs_mutex_lock(&r->m);
    rep->told = true;
    if (rc && !r->failed)
        r->failed = rc < 0 ? rc : -EIO;
}

static void tell_mended(struct sfs_replicas *r)
{
    int id = r->mended[0].id;
    char what[sizeof(r->mended[0].what)];
    memcpy(what, r->mended[0].what, sizeof(what));
    r->nmended--;
    memmove(&r->mended[0], &r->mended[1], r->nmended * sizeof(r->mended[0]));
    sfs_mutex_unlock(&r->m);
    if (r->ev.on_mended)
        r->ev.on_mended(r->ev.ctx, id, what);
    sfs_mutex_lock(&r->m);
}

int sfs_rset_settle(struct sfs_replicas *r, bool wait)
{
    for (;;) {
        struct sfs_replica *lost = NULL;
        if (r->settling) {
            if (!wait)
                break; /* that thread goes on until nothing is left */
            sfs_cond_wait(&r->c, &r->m);
            continue;
        }
        for (unsigned i = 0; i < r->n && !lost; i++)
            if (r->v[i]->state == SFS_REPLICA_GONE && !r->v[i]->told)
                lost = r->v[i];
        if (!lost && !r->nmended)
            break;
        r->settling = true;
        if (lost)
            tell_lost(r, lost);
        else
            tell_mended(r);
        r->settling = false;
        sfs_cond_broadcast(&r->c);
    }
    return r->failed;
}

static struct sfs_replica *find_live(struct sfs_replicas *r, int id)
{
    for (unsigned i = 0; i < r->n; i++)
        if (r->v[i]->state == SFS_REPLICA_LIVE && r->v[i]->store.id == id)
            return r->v[i];
    return NULL;
}

int sfs_replicas_drop(struct sfs_replicas *r, int id, int why)
{
    sfs_mutex_lock(&r->m);
    struct sfs_replica *rep = find_live(r, id);
    if (rep)
        sfs_rset_lose(r, rep, why);
    int rc = sfs_rset_settle(r, false);
    sfs_mutex_unlock(&r->m);
    return rep ? rc : 0;
}

/* --- leaving and joining --- */

int sfs_replicas_remove(struct sfs_replicas *r, int id)
{
    int rc = 0;
    sfs_mutex_lock(&r->m);
    struct sfs_replica *rep = find_live(r, id);
    if (!rep)
        rc = -ENOENT;
    else if (sfs_rset_live(r) == 1)
        rc = -EBUSY;
    else if (r->readonly)
        rc = -EROFS;
    if (rc) {
        sfs_mutex_unlock(&r->m);
        return rc;
    }
    struct sfs_store store = rep->store;
    rep->state = SFS_REPLICA_GONE;
    rep->told = true;
    while (rep->busy) {
        sfs_cond_wait(&r->c, &r->m); /* it may be reaped once its syncs are done: look it up again */
        bool there = false;
        for (unsigned i = 0; i < r->n; i++)
            there |= r->v[i] == rep;
        if (!there)
            break;
    }
    sfs_mutex_unlock(&r->m);
    rc = store.ops->remove(store.ctx, SFS_WAL_FILE);
    if (rc == 0 || rc == -ENOENT)
        rc = store.ops->remove(store.ctx, SFS_CATALOG_FILE);
    return rc == -ENOENT ? 0 : rc;
}

/* Copies the next run of a file to the joining store. Under the lock, so that no write comes between reading
 * and writing. *off == size: done. */
static int copy_run(struct sfs_replicas *r, struct sfs_replica *to, enum sfs_rfile_id id, uint8_t *buf,
                    uint64_t *off, bool *more)
{
    struct sfs_rfile *f = &r->file[id];
    size_t len = 0, got;
    int rc = sfs_rset_flush(r, id);
    *more = false;
    if (rc || *off >= f->size)
        return rc;
    if (id == SFS_RFILE_DB) {
        for (; !rc && len < COPY_BYTES && *off + len < f->size; len += SFS_PAGE_BYTES)
            rc = sfs_rset_read_page(r, (*off + len) / SFS_PAGE_BYTES + 1, buf + len);
    } else {
        len = sfs_wal_sums_span(r->sums, *off, COPY_BYTES);
        if (len > f->size - *off)
            len = (size_t)(f->size - *off);
        rc = sfs_rset_read(r, id, buf, len, *off, &got);
    }
    if (rc)
        return rc;
    rc = to->store.ops->write(to->store.ctx, f->name, buf, len, *off);
    if (rc)
        sfs_rset_lose(r, to, rc);
    *off += len;
    *more = true;
    return rc;
}

static int copy_all(struct sfs_replicas *r, struct sfs_replica *to)
{
    uint8_t *buf = malloc(COPY_BYTES);
    int rc = buf ? 0 : -ENOMEM;
    for (int id = 0; id < SFS_RFILE_COUNT && !rc; id++) {
        uint64_t off = 0;
        for (bool more = true; more && !rc;) {
            sfs_mutex_lock(&r->m);
            rc = to->state == SFS_REPLICA_GONE ? to->why
                                               : copy_run(r, to, (enum sfs_rfile_id)id, buf, &off, &more);
            int told = sfs_rset_settle(r, false);
            rc = rc ? rc : told;
            sfs_mutex_unlock(&r->m);
            sfs_env_yield(r->env);
        }
    }
    free(buf);
    return rc;
}

/* From here on it takes part in syncs; then what it got before is synced. */
static int join_up(struct sfs_replicas *r, struct sfs_replica *rep)
{
    int rc;
    sfs_mutex_lock(&r->m);
    if (rep->state == SFS_REPLICA_GONE) {
        rc = rep->why;
        sfs_mutex_unlock(&r->m);
        return rc;
    }
    rep->state = SFS_REPLICA_JOINED;
    rep->busy++;
    sfs_mutex_unlock(&r->m);
    rc = rep->store.ops->sync(rep->store.ctx, SFS_CATALOG_FILE);
    if (!rc && sfs_store_size(&rep->store, SFS_WAL_FILE) > 0)
        rc = rep->store.ops->sync(rep->store.ctx, SFS_WAL_FILE);
    sfs_mutex_lock(&r->m);
    rep->busy--;
    if (rep->state == SFS_REPLICA_GONE)
        rc = rep->why;
    else if (rc)
        sfs_rset_lose(r, rep, rc);
    else
        rep->state = SFS_REPLICA_LIVE;
    sfs_cond_broadcast(&r->c);
    sfs_mutex_unlock(&r->m);
    return rc;
}

static int clear_store(const struct sfs_store *s)
{
    int rc = s->ops->remove(s->ctx, SFS_WAL_FILE);
    if (rc == 0 || rc == -ENOENT)
        rc = s->ops->remove(s->ctx, SFS_CATALOG_FILE);
    return rc == -ENOENT ? 0 : rc;
}

/* Makes it a member that gets every write from here on. Under the lock: a store that is a member already must
 * not be cleared. */
static int admit(struct sfs_replicas *r, const struct sfs_store *s, struct sfs_replica **out)
{
    if (r->readonly)
        return -EROFS;
    /* Its loss may still have to be told: told after it has joined anew, that would be taken for another one. */
    int rc = sfs_rset_settle(r, true);
    if (rc)
        return rc;
    reap(r, false);
    for (unsigned i = 0; i < r->n; i++)
        if (r->v[i]->state != SFS_REPLICA_GONE && r->v[i]->store.id == s->id)
            return -EEXIST;
    if (r->n == SFS_REPLICAS_MAX)
        return -E2BIG;
    rc = sfs_rset_load(r);
    if (!rc)
        rc = clear_store(s);
    if (rc)
        return rc;
    struct sfs_replica *rep = replica_new(r, s, SFS_REPLICA_JOINING);
    if (!rep)
        return -ENOMEM;
    rep->busy++; /* so that nobody reaps it under us */
    r->v[r->n++] = rep;
    *out = rep;
    return 0;
}

int sfs_replicas_add(struct sfs_replicas *r, const struct sfs_store *s, struct sfs_error *err)
{
    struct sfs_replica *rep = NULL;
    sfs_mutex_lock(&r->m);
    int rc = admit(r, s, &rep);
    sfs_mutex_unlock(&r->m);
    if (!rc)
        rc = copy_all(r, rep);
    if (!rc)
        rc = join_up(r, rep);
    if (rep) {
        sfs_mutex_lock(&r->m);
        if (rc)
            sfs_rset_lose(r, rep, rc);
        rep->busy--;
        sfs_mutex_unlock(&r->m);
    }
    if (rc == -EEXIST)
        return sfs_error_set(err, rc, "%s: this disk holds a copy of the catalog already.", s->name);
    if (rc)
        return sfs_error_set(err, rc, "%s: copying the catalog to this disk failed: %s.", s->name,
                             strerror(-rc));
    return 0;
}
