/* Epochs and replicas (DESIGN.md section 7). The epoch changes whenever the set of replicas does, on all labels that can be reached, before a commit is acknowledged that the lost replica does not have. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sfs_epoch_next(struct sfs_env *env, struct sfs_epoch *e)
{
    unsigned keep = e->nhistory < SFS_LABEL_HISTORY ? e->nhistory : SFS_LABEL_HISTORY - 1;
    memmove(&e->history[1], &e->history[0], keep * sizeof(e->history[0]));
    e->history[0] = e->id;
    e->nhistory = keep + 1;
    e->number++;
    sfs_uuid_generate(env, &e->id);
}

bool sfs_epoch_descends(const struct sfs_epoch *newer, const struct sfs_epoch *older)
{
    if (newer->number == older->number)
        return sfs_uuid_equal(&newer->id, &older->id);
    if (newer->number < older->number)
        return false;
    uint64_t back = newer->number - older->number - 1;
    if (back >= newer->nhistory)
        return newer->nhistory < SFS_LABEL_HISTORY; /* too long ago to tell: never merged on a guess */
    return sfs_uuid_equal(&newer->history[back], &older->id);
}

/* Lock held. */
static void fill_label(struct sfs_pool *p, const struct sfs_pool_disk *pd, struct sfs_label *l)
{
    snprintf(l->pool_name, sizeof(l->pool_name), "%s", p->name);
    snprintf(l->disk_name, sizeof(l->disk_name), "%s", pd->name);
    l->epoch = p->epoch;
    l->replica = pd->replica;
    l->npeers = 0;
    for (unsigned i = 0; i < p->ndisks && l->npeers < SFS_LABEL_PEERS; i++) {
        const struct sfs_pool_disk *x = &p->disks[i];
        if (!x->used)
            continue;
        struct sfs_label_peer *q = &l->peers[l->npeers++];
        memset(q, 0, sizeof(*q));
        q->uuid = x->uuid;
        snprintf(q->name, sizeof(q->name), "%s", x->name);
        snprintf(q->path, sizeof(q->path), "%s", x->path);
        q->replica = x->replica;
    }
}

static int write_labels_locked(struct sfs_pool *p)
{
    struct sfs_label *l = malloc(sizeof(*l));
    if (!l)
        return -ENOMEM;
    unsigned replicas = 0;
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (!pd->used || !pd->disk || sfs_disk_state(pd->disk) != SFS_DISK_ONLINE)
            continue;
        sfs_disk_label(pd->disk, l);
        fill_label(p, pd, l);
        if (sfs_disk_write_label(pd->disk, l) == 0) { /* a disk that fails this is fenced, and handled as lost */
            pd->stale = false;
            replicas += pd->replica;
        }
    }
    free(l);
    return replicas ? 0 : -EIO;
}

int sfs_pool_write_labels(struct sfs_pool *p)
{
    if (p->readonly)
        return 0;
    sfs_mutex_lock(&p->lock);
    int rc = write_labels_locked(p);
    sfs_mutex_unlock(&p->lock);
    return rc;
}

int sfs_pool_bump_epoch(struct sfs_pool *p, int lost)
{
    if (p->readonly)
        return 0;
    sfs_mutex_lock(&p->lock);
    if (lost > 0 && (unsigned)lost <= p->ndisks)
        p->disks[lost - 1].replica = false;
    sfs_epoch_next(p->env, &p->epoch);
    int rc = write_labels_locked(p);
    sfs_mutex_unlock(&p->lock);
    return rc;
}

/* May be called with the catalog's and the replica set's locks held: touches neither. */
int sfs_pool_on_replica_lost(void *ctx, int id, int why)
{
    struct sfs_pool *p = ctx;
    int rc = sfs_pool_bump_epoch(p, id);
    char text[160];
    snprintf(text, sizeof(text), "its copy of the catalog was lost (%s); the pool goes on with the others", strerror(why < 0 ? -why : EIO));
    sfs_pool_queue_event(p, "warning", "replica-lost", id > 0 ? p->disks[id - 1].name : "", text);
    return rc;
}

void sfs_pool_on_replica_mended(void *ctx, int id, const char *what)
{
    struct sfs_pool *p = ctx;
    char text[256];
    snprintf(text, sizeof(text), "its copy of the catalog had a bad %s; it was mended from another copy", what);
    sfs_pool_queue_event(p, "warning", "replica-mended", id > 0 ? p->disks[id - 1].name : "", text);
}

/* Every disk up to 4; beyond that 3, or one more than the highest fault tolerance in the pool. */
unsigned sfs_pool_replicas_wanted(struct sfs_pool *p)
{
    unsigned disks = 0;
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++)
        disks += p->disks[i].used && !p->disks[i].leaving;
    sfs_mutex_unlock(&p->lock);
    return disks <= 4 ? disks : 3; /* no resiliency bears more than two losses */
}

/* A disk that could take a replica: online, has none; image disks last, where the choice is free. */
static struct sfs_pool_disk *replica_candidate(struct sfs_pool *p, unsigned *have)
{
    struct sfs_pool_disk *best = NULL;
    *have = 0;
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (!pd->used || !pd->disk || sfs_disk_state(pd->disk) != SFS_DISK_ONLINE)
            continue;
        if (pd->replica)
            *have += !pd->leaving;
        else if (!pd->leaving && pd->replica_retry_ns <= sfs_env_mono_ns(p->env) &&
                 (!best || sfs_disk_meta_free_bytes(pd->disk, UINT64_MAX) > sfs_disk_meta_free_bytes(best->disk, UINT64_MAX)))
            best = pd;
    }
    sfs_mutex_unlock(&p->lock);
    return best;
}

/* Notes what the replica set says. It may have been lost again by now: whoever loses it takes it out of the set
 * before the flag is cleared (sfs_pool_on_replica_lost), so a flag set before looking is never wrong for good. */
static bool note_replica(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    int ids[SFS_LABEL_PEERS], id = sfs_pool_store_id(p, pd);
    bool in = false;
    sfs_mutex_lock(&p->lock);
    pd->replica = true;
    sfs_mutex_unlock(&p->lock);
    unsigned n = sfs_replicas_ids(p->replicas, ids, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < n; i++)
        in |= ids[i] == id;
    if (!in) {
        sfs_mutex_lock(&p->lock);
        pd->replica = false;
        sfs_mutex_unlock(&p->lock);
    }
    return in;
}

static int mend_one(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    struct sfs_store s;
    struct sfs_error err = {0};
    sfs_pool_store(pd->disk, pd->name, sfs_pool_store_id(p, pd), &s);
    int rc = sfs_replicas_add(p->replicas, &s, &err);
    if (!rc && !note_replica(p, pd))
        rc = -ENODEV;
    if (rc) {
        sfs_mutex_lock(&p->lock);
        pd->replica_retry_ns = sfs_env_mono_ns(p->env) + 60000000000ull;
        sfs_mutex_unlock(&p->lock);
    } else {
        rc = sfs_pool_bump_epoch(p, 0);
    }
    char text[1200];
    if (rc)
        snprintf(text, sizeof(text), "a copy of the catalog could not be made on it: %s", err.code ? err.text : strerror(-rc));
    else
        snprintf(text, sizeof(text), "it holds a copy of the catalog from now on");
    sfs_pool_queue_event(p, rc ? "warning" : "info", rc ? "replica-failed" : "replica-added", pd->name, text);
    return rc;
}

/* Admin held: handles stay, and nobody else mends. */
void sfs_pool_mend_replicas_locked(struct sfs_pool *p)
{
    if (sfs_pool_readonly(p))
        return;
    for (unsigned tries = 0; tries < SFS_LABEL_PEERS; tries++) {
        unsigned have;
        struct sfs_pool_disk *pd = replica_candidate(p, &have);
        if (!pd || have >= sfs_pool_replicas_wanted(p))
            break;
        mend_one(p, pd);
    }
}

void sfs_pool_mend_replicas(struct sfs_pool *p)
{
    sfs_mutex_lock(&p->admin);
    sfs_pool_mend_replicas_locked(p);
    sfs_mutex_unlock(&p->admin);
}
