/* The commit; states and invariants are in commit.h. Applying a batch is apply.c's, rewriting what a failed sync left in doubt is rewrite.c's. */
#include "fs/data/batch.h"

#include <stdlib.h>
#include <string.h>

/* --- the gate (C3) ------------------------------------------------------------------------------------------------------------------------- */

void sfs_commit_gate_enter(struct sfs_data *d)
{
    struct sfs_commit_state *c = &d->commit;
    sfs_mutex_lock(&c->gate_lock);
    while (c->gate_closed)
        sfs_cond_wait(&c->gate_changed, &c->gate_lock);
    c->gate_inside++;
    sfs_mutex_unlock(&c->gate_lock);
}

void sfs_commit_gate_leave(struct sfs_data *d)
{
    struct sfs_commit_state *c = &d->commit;
    sfs_mutex_lock(&c->gate_lock);
    SFS_ASSERT(c->gate_inside > 0);
    if (--c->gate_inside == 0)
        sfs_cond_broadcast(&c->gate_changed);
    sfs_mutex_unlock(&c->gate_lock);
}

static void gate_close(struct sfs_commit_state *c)
{
    sfs_mutex_lock(&c->gate_lock);
    c->gate_closed = true;
    while (c->gate_inside)
        sfs_cond_wait(&c->gate_changed, &c->gate_lock);
    sfs_mutex_unlock(&c->gate_lock);
}

static void gate_open(struct sfs_commit_state *c)
{
    sfs_mutex_lock(&c->gate_lock);
    c->gate_closed = false;
    sfs_cond_broadcast(&c->gate_changed);
    sfs_mutex_unlock(&c->gate_lock);
}

/* --- SYNC: the disks ------------------------------------------------------------------------------------------------------------------------- */

/* Syncs every disk written to. One that fails is fenced by fs/disk (a sync error is final) and counts as lost; a sync that could not even be tried is an error. */
static int sync_disks(struct sfs_data *d)
{
    struct sfs_io ios[SFS_LABEL_PEERS];
    unsigned n = 0;
    int rc = 0;
    uint64_t token = sfs_quiesce_enter(d->quiesce);
    SFS_LOCK(d);
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link) {
        if (!m->dirty || n == SFS_LABEL_PEERS)
            continue;
        m->dirty = false; /* what is written from here on isn't pending in this commit */
        if (sfs_member_online(m))
            ios[n++] = (struct sfs_io){.op = SFS_IO_SYNC, .disk = m->disk};
    }
    SFS_UNLOCK(d);
    unsigned failed = n ? sfs_io_run(ios, n) : 0;
    SFS_LOCK(d);
    for (unsigned i = 0; failed && i < n; i++) {
        if (!ios[i].result || sfs_disk_state(ios[i].disk) != SFS_DISK_ONLINE)
            continue;
        rc = ios[i].result;
        m = sfs_member_of(d, ios[i].disk);
        if (m)
            m->dirty = true;
    }
    SFS_UNLOCK(d);
    sfs_quiesce_exit(d->quiesce, token);
    return rc;
}

/* C1: on return all pending extents of the batch are synced on every slab that their groups have; groups on disks that failed have been left. */
static int settle_data(struct sfs_data *d, struct sfs_batch *b)
{
    for (unsigned tries = 0; tries <= SFS_LABEL_PEERS; tries++) {
        bool rewritten = false;
        int rc = sync_disks(d);
        if (!rc)
            rc = sfs_rewrite_shaken(d, b, &rewritten);
        if (rc)
            return rc;
        if (!rewritten)
            return 0;
    }
    return -EIO;
}

/* --- one commit ------------------------------------------------------------------------------------------------------------------------------ */

static struct sfs_commit_client *client_at(struct sfs_commit_state *c, unsigned i)
{
    sfs_mutex_lock(&c->lock);
    struct sfs_commit_client *cl = i < c->nclients ? c->clients[i] : NULL;
    sfs_mutex_unlock(&c->lock);
    return cl;
}

static int collect(struct sfs_data *d, struct sfs_batch *b)
{
    struct sfs_commit_client *cl;
    int rc = 0;
    for (unsigned i = 0; !rc && (cl = client_at(&d->commit, i)); i++) {
        b->client = cl;
        rc = cl->collect(cl->ctx, b);
    }
    return rc;
}

static int apply(struct sfs_data *d, struct sfs_batch *b, bool *changed)
{
    sfs_catalog_lock(d->cat);
    int rc = sfs_batch_apply(d, b);
    if (!rc)
        rc = sfs_freeing_apply(d);
    if (!rc)
        rc = sfs_groups_store_states(d);
    if (!rc)
        rc = sfs_catalog_commit(d->cat, changed);
    sfs_catalog_unlock(d->cat);
    return rc;
}

static int run_commit(struct sfs_data *d, bool prepare_all)
{
    struct sfs_commit_state *c = &d->commit;
    struct sfs_commit_client *cl;
    struct sfs_batch b = {.d = d};
    bool changed = false;
    for (unsigned i = 0; prepare_all && (cl = client_at(c, i)); i++)
        cl->prepare(cl->ctx, true);

    gate_close(c);
    sfs_mutex_lock(&c->lock);
    c->collected = true;
    sfs_mutex_unlock(&c->lock);
    int rc = sfs_data_readonly(d) ? -EROFS : collect(d, &b);
    if (!rc)
        rc = settle_data(d, &b);
    if (!rc)
        rc = apply(d, &b, &changed);
    gate_open(c);
    if (!rc && changed)
        rc = sfs_catalog_commit_sync(d->cat);
    if (rc && !sfs_data_readonly(d)) /* C5; a broken catalog says -EROFS */
        sfs_data_set_readonly(d, "a commit failed (%s); what was committed before is whole. Unmount, check the disks, and mount again", strerror(-rc));
    if (!rc)
        sfs_freeing_durable(d);
    for (unsigned i = 0; (cl = client_at(c, i)); i++)
        cl->done(cl->ctx, rc);
    sfs_batch_free(d, &b);
    return rc;
}

int sfs_commit_wait(struct sfs_data *d, bool prepare_all)
{
    struct sfs_commit_state *c = &d->commit;
    sfs_mutex_lock(&c->lock);
    /* C4: the commit under way covers the caller only if it has not collected yet (and, for all, has not begun to prepare). */
    uint64_t target = c->started + (c->running && !c->collected && !prepare_all ? 0 : 1);
    while (c->durable < target) {
        if (c->running) {
            sfs_cond_wait(&c->changed, &c->lock);
            continue;
        }
        c->running = true;
        c->collected = false;
        uint64_t mine = ++c->started;
        sfs_mutex_unlock(&c->lock);
        int rc = run_commit(d, prepare_all);
        sfs_mutex_lock(&c->lock);
        c->running = false;
        c->durable = mine;
        c->last_result = rc;
        sfs_cond_broadcast(&c->changed);
    }
    int rc = c->last_result;
    sfs_mutex_unlock(&c->lock);
    return rc;
}

/* --- kicked commits ------------------------------------------------------------------------------------------------------------------------- */

void sfs_commit_kick(struct sfs_data *d)
{
    sfs_mutex_lock(&d->commit.lock);
    d->commit.kicked = true;
    sfs_cond_broadcast(&d->commit.changed);
    sfs_mutex_unlock(&d->commit.lock);
}

static void kicked_main(void *arg)
{
    struct sfs_data *d = arg;
    struct sfs_commit_state *c = &d->commit;
    sfs_mutex_lock(&c->lock);
    while (!c->stop) {
        if (!c->kicked) {
            sfs_cond_wait(&c->changed, &c->lock);
            continue;
        }
        c->kicked = false;
        sfs_mutex_unlock(&c->lock);
        if (!sfs_data_readonly(d))
            sfs_commit_wait(d, false); /* a failure makes the pool read-only, and is told by that */
        sfs_mutex_lock(&c->lock);
    }
    sfs_mutex_unlock(&c->lock);
}

int sfs_data_start(struct sfs_data *d)
{
    return sfs_thread_start(d->env, "sfs-commit", kicked_main, d, &d->commit.thread);
}

void sfs_data_stop(struct sfs_data *d)
{
    if (!d->commit.thread)
        return;
    sfs_mutex_lock(&d->commit.lock);
    d->commit.stop = true;
    sfs_cond_broadcast(&d->commit.changed);
    sfs_mutex_unlock(&d->commit.lock);
    sfs_thread_join(d->commit.thread);
    d->commit.thread = NULL;
}

/* --- clients -------------------------------------------------------------------------------------------------------------------------------- */

int sfs_commit_register(struct sfs_data *d, struct sfs_commit_client *cl)
{
    struct sfs_commit_state *c = &d->commit;
    int rc = 0;
    sfs_mutex_lock(&c->lock);
    while (c->running)
        sfs_cond_wait(&c->changed, &c->lock);
    if (c->nclients < sizeof(c->clients) / sizeof(c->clients[0]))
        c->clients[c->nclients++] = cl;
    else
        rc = -EMFILE;
    sfs_mutex_unlock(&c->lock);
    return rc;
}

void sfs_commit_unregister(struct sfs_data *d, struct sfs_commit_client *cl)
{
    struct sfs_commit_state *c = &d->commit;
    sfs_mutex_lock(&c->lock);
    for (unsigned i = 0; i < c->nclients; i++) /* no new rewrites */
        if (c->clients[i] == cl)
            cl->rewrite = NULL;
    while (c->running || cl->calls)
        sfs_cond_wait(&c->changed, &c->lock);
    for (unsigned i = 0; i < c->nclients; i++)
        if (c->clients[i] == cl) {
            c->clients[i] = c->clients[--c->nclients];
            break;
        }
    sfs_mutex_unlock(&c->lock);
}

int sfs_commit_rewrite(struct sfs_data *d, int space, uint64_t ino, uint64_t from, uint64_t to)
{
    struct sfs_commit_state *c = &d->commit;
    struct sfs_commit_client *cl = NULL;
    sfs_mutex_lock(&c->lock);
    for (unsigned i = 0; i < c->nclients && !cl; i++)
        if (c->clients[i]->rewrite && c->clients[i]->space == space)
            cl = c->clients[i];
    if (cl)
        cl->calls++;
    sfs_mutex_unlock(&c->lock);
    if (!cl)
        return -ENODEV;
    int rc = cl->rewrite(cl->ctx, ino, from, to);
    sfs_mutex_lock(&c->lock);
    cl->calls--;
    sfs_cond_broadcast(&c->changed);
    sfs_mutex_unlock(&c->lock);
    return rc;
}
