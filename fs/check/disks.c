/* The pool's disks: finding and opening them, what their labels say, writing labels. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- finding --- */

static struct sfs_check_disk *add_disk(struct sfs_check *c, const struct sfs_uuid *uuid, const char *name, const char *path)
{
    for (unsigned i = 0; i < c->ndisks; i++)
        if (sfs_uuid_equal(&c->disks[i].uuid, uuid))
            return &c->disks[i];
    if (c->ndisks == SFS_LABEL_PEERS)
        return NULL;
    struct sfs_check_disk *d = &c->disks[c->ndisks++];
    *d = (struct sfs_check_disk){.uuid = *uuid};
    snprintf(d->name, sizeof(d->name), "%s", name);
    snprintf(d->path, sizeof(d->path), "%s", path);
    return d;
}

struct sfs_check_disk *sfs_check_disk_of(struct sfs_check *c, const struct sfs_uuid *uuid)
{
    for (unsigned i = 0; i < c->ndisks; i++)
        if (sfs_uuid_equal(&c->disks[i].uuid, uuid))
            return &c->disks[i];
    return NULL;
}

static const struct sfs_found *found_of(const struct sfs_check *c, const struct sfs_uuid *uuid)
{
    for (unsigned i = 0; i < c->found.n; i++)
        if (sfs_uuid_equal(&c->found.v[i].label.disk_uuid, uuid))
            return &c->found.v[i];
    return NULL;
}

/* The disks that the newest label names, and where they are now. Others that bear the pool's uuid were removed from it. */
int sfs_check_list_disks(struct sfs_check *c)
{
    const struct sfs_label *n = &c->found.v[c->found.newest].label;
    if (n->npeers == 0)
        add_disk(c, &n->disk_uuid, n->disk_name, c->found.v[c->found.newest].path);
    for (unsigned i = 0; i < n->npeers; i++) {
        struct sfs_check_disk *d = add_disk(c, &n->peers[i].uuid, n->peers[i].name, n->peers[i].path);
        const struct sfs_found *f = found_of(c, &n->peers[i].uuid);
        if (!d)
            return sfs_error_set(c->err, -EUCLEAN, "pool %s: its labels name too many disks.", n->pool_name);
        if (!f) {
            sfs_check_note(c, "Disk %s is missing; it was last seen at %s. What is on it isn't checked.", d->name, d->path);
            continue;
        }
        snprintf(d->path, sizeof(d->path), "%s", f->path);
        d->replica = sfs_discovery_is_replica(n, &f->label) && n->peers[i].replica;
    }
    return 0;
}

int sfs_check_find_disks(struct sfs_check *c, const char *which)
{
    struct sfs_pool_open_opts o = {.world = c->opts->world, .state_dir = c->opts->state_dir, .search = c->opts->search, .nsearch = c->opts->nsearch};
    int rc = sfs_discover_any(c->env, which, &o, &c->found, c->err);
    if (rc)
        return rc;
    const struct sfs_label *n = &c->found.v[c->found.newest].label;
    snprintf(c->result->pool, sizeof(c->result->pool), "%s", n->pool_name);
    c->slab_bytes = n->slab_bytes;
    c->epoch = n->epoch;
    rc = sfs_discovery_judge(&c->found, c->err);
    if (rc && rc != -ENODEV) /* split: that is nobody's to decide but a person's */
        return rc;
    return sfs_check_list_disks(c);
}

/* --- labels --- */

static void check_label(struct sfs_check *c, const struct sfs_check_disk *d)
{
    const struct sfs_found *f = found_of(c, &d->uuid);
    char item[SFS_NAME_MAX + SFS_PATH_BYTES + 8];
    const char *items[] = {item};
    if (!f || !f->label_stale)
        return;
    snprintf(item, sizeof(item), "%s (%s)", d->name, d->path);
    struct sfs_check_problem p = {.id = "label-copy", .what = "Disks with one of the two copies of their label damaged, or old", .repair = "write it anew from the other", .severity = SFS_SEVERITY_SAFE, .count = 1, .items = items, .nitems = 1};
    /* Opening the disk for writing has mended it already: that loses nothing, and nobody needs to be asked. */
    sfs_check_settle(c, &p, sfs_check_writes(c) && d->disk ? SFS_OUTCOME_MENDED : SFS_OUTCOME_FOUND);
}

int sfs_check_open_disk(struct sfs_check *c, struct sfs_check_disk *d)
{
    struct sfs_disk_opts o = {.world = c->opts->world, .readonly = !sfs_check_writes(c), .timeout_ns = c->opts->disk_timeout_ns, .workers = sfs_env_is_sim(c->env) ? 2 : 0};
    struct sfs_error why = {0};
    int rc = sfs_disk_open(c->env, d->path, &o, &d->disk, &why);
    if (rc == -EBUSY)
        return sfs_error_set(c->err, rc, "Pool %s is in use: %s Unmount its spaces first (`spacesfs pool list` shows where they are mounted).", c->result->pool, why.text);
    if (rc) {
        sfs_check_note(c, "Disk %s can't be used: %s", d->name, why.text);
        c->result->status |= SFS_CHECK_LEFT;
        d->disk = NULL;
    }
    d->present = rc == 0;
    return 0;
}

int sfs_check_open_disks(struct sfs_check *c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < c->ndisks; i++) {
        struct sfs_check_disk *d = &c->disks[i];
        if (!found_of(c, &d->uuid))
            continue;
        int rc = sfs_check_open_disk(c, d);
        if (rc)
            return rc;
        n += d->disk != NULL;
        check_label(c, d);
    }
    return n ? 0 : sfs_error_set(c->err, -ENODEV, "No disk of pool %s can be used.", c->result->pool);
}

void sfs_check_close_disks(struct sfs_check *c)
{
    for (unsigned i = 0; i < c->ndisks; i++) {
        sfs_disk_close(c->disks[i].disk);
        c->disks[i].disk = NULL;
    }
}

unsigned sfs_check_stores(struct sfs_check *c, bool replicas_only, struct sfs_store *out)
{
    unsigned n = 0;
    for (unsigned i = 0; i < c->ndisks; i++) {
        struct sfs_check_disk *d = &c->disks[i];
        if (d->disk && sfs_disk_state(d->disk) == SFS_DISK_ONLINE && (d->replica || !replicas_only))
            sfs_pool_store(d->disk, d->name, (int)i + 1, &out[n++]);
    }
    return n;
}

static void fill_label(const struct sfs_check *c, const struct sfs_check_disk *d, struct sfs_label *l)
{
    l->epoch = c->epoch;
    l->replica = d->replica;
    l->npeers = 0;
    for (unsigned i = 0; i < c->ndisks; i++) {
        struct sfs_label_peer *q = &l->peers[l->npeers++];
        memset(q, 0, sizeof(*q));
        q->uuid = c->disks[i].uuid;
        q->replica = c->disks[i].replica;
        snprintf(q->name, sizeof(q->name), "%s", c->disks[i].name);
        snprintf(q->path, sizeof(q->path), "%s", c->disks[i].path);
    }
}

int sfs_check_write_labels(struct sfs_check *c, bool new_epoch)
{
    struct sfs_label *l = malloc(sizeof(*l));
    unsigned replicas = 0;
    if (!l)
        return -ENOMEM;
    if (new_epoch)
        sfs_epoch_next(c->env, &c->epoch);
    for (unsigned i = 0; i < c->ndisks; i++) {
        struct sfs_check_disk *d = &c->disks[i];
        if (!d->disk || sfs_disk_state(d->disk) != SFS_DISK_ONLINE)
            continue;
        sfs_disk_label(d->disk, l);
        fill_label(c, d, l);
        if (sfs_disk_write_label(d->disk, l) == 0)
            replicas += d->replica;
    }
    free(l);
    return replicas ? 0 : -EIO;
}
