/* Opening and closing a pool: find the disks, agree on the catalog, load, wire, start; and all of that backwards. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_STEP_NS 500000000ull
#define ROOM_SHORT_BYTES (256ull << 20) /* less than this is measured at every question: more than a second can fill */

/* --- small things ------------------------------------------------------------------------------------------------------------------------------- */

const char *sfs_pool_name(const struct sfs_pool *p)
{
    return p->name;
}

const struct sfs_uuid *sfs_pool_uuid(const struct sfs_pool *p)
{
    return &p->uuid;
}

struct sfs_data *sfs_pool_data(struct sfs_pool *p)
{
    return p->data;
}

struct sfs_env *sfs_pool_env(struct sfs_pool *p)
{
    return p->env;
}

bool sfs_pool_readonly(struct sfs_pool *p)
{
    return p->readonly || sfs_data_readonly(p->data);
}

struct sfs_pool_disk *sfs_pool_disk_by_name(struct sfs_pool *p, const char *name)
{
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && p->disks[i].id && !strcmp(p->disks[i].name, name))
            return &p->disks[i];
    return NULL;
}

struct row_search {
    int id;
    struct sfs_disk_row *row;
};

static int match_row(const struct sfs_disk_row *row, void *ctx)
{
    struct row_search *s = ctx;
    if (row->id != s->id)
        return 0;
    *s->row = *row;
    return 1;
}

int sfs_pool_disk_row(struct sfs_pool *p, int id, struct sfs_disk_row *row)
{
    struct row_search s = {id, row};
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_disk_each(p->cat, match_row, &s);
    sfs_catalog_unlock(p->cat);
    return rc == 1 ? 0 : rc ? rc : -ENOENT;
}

/* r->paths has room for SFS_LABEL_PEERS: no file names more. */
static void note_path(struct sfs_registry_pool *r, const char *path)
{
    for (unsigned i = 0; i < r->npaths; i++)
        if (!strcmp(r->paths[i], path))
            return;
    if (r->npaths < SFS_LABEL_PEERS && path[0])
        snprintf(r->paths[r->npaths++], sizeof(r->paths[0]), "%s", path);
}

void sfs_pool_save_registry(struct sfs_pool *p)
{
    if (!p->state_dir[0])
        return;
    struct sfs_registry_pool r, known;
    bool is_known = !sfs_registry_load(p->state_dir, p->name, &known);
    if (is_known && !sfs_uuid_equal(&known.uuid, &p->uuid)) { /* another pool has this name on this host: it stays the one that is found by it */
        sfs_registry_free(&known);
        if (!p->known_only)
            sfs_pool_event(p, "warning", "name-taken", "", "another pool named %s is known on this host; this one is found by the path of one of its disks only", p->name);
        return;
    }
    if (!is_known && p->known_only)
        return;
    r = (struct sfs_registry_pool){.uuid = p->uuid};
    snprintf(r.name, sizeof(r.name), "%s", p->name);
    r.paths = calloc(SFS_LABEL_PEERS, sizeof(*r.paths));
    bool missing = false;
    for (unsigned i = 0; r.paths && i < p->ndisks; i++) {
        missing |= p->disks[i].used && !p->disks[i].disk;
        if (p->disks[i].used && p->disks[i].disk)
            note_path(&r, p->disks[i].path);
    }
    /* What isn't here now may be where this host saw it last; that is worth more than what the labels say. */
    for (unsigned i = 0; r.paths && missing && i < known.npaths; i++)
        note_path(&r, known.paths[i]);
    for (unsigned i = 0; r.paths && i < p->ndisks; i++)
        if (p->disks[i].used && !p->disks[i].disk)
            note_path(&r, p->disks[i].path);
    struct sfs_error err = {0};
    if (r.paths && sfs_registry_save(p->state_dir, &r, &err))
        sfs_pool_queue_event(p, "warning", "registry", p->name, err.text);
    free(r.paths);
    sfs_registry_free(&known);
}

/* --- disks ------------------------------------------------------------------------------------------------------------------------------------------ */

static int64_t claim_slot(struct sfs_disk *disk, void *ctx)
{
    struct sfs_pool *p = ctx;
    return p->loaded ? sfs_member_claim_slot(p->data, disk) : -ENOSPC; /* before that it isn't known which are free */
}

/* What a handle that is in use tells the pool. */
void sfs_pool_adopt_handle(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    sfs_disk_on_claim(pd->disk, claim_slot, p);
    sfs_disk_on_state(pd->disk, sfs_pool_disk_state_changed, pd);
}

/* Opens pd at its path and checks that it is that disk, of this pool, and not from a half that was used apart. Sets pd->disk. */
int sfs_pool_open_disk(struct sfs_pool *p, struct sfs_pool_disk *pd, struct sfs_error *err)
{
    struct sfs_disk_opts opts = {.world = p->world, .readonly = p->readonly, .timeout_ns = p->disk_timeout_ns, .workers = sfs_env_is_sim(p->env) ? 2 : 0};
    struct sfs_disk *d;
    int rc = sfs_disk_open(p->env, pd->path, &opts, &d, err);
    if (rc)
        return rc;
    struct sfs_label *l = malloc(sizeof(*l));
    if (!l) {
        sfs_disk_close(d);
        return -ENOMEM;
    }
    sfs_disk_label(d, l);
    if (!sfs_uuid_equal(&l->disk_uuid, &pd->uuid) || !sfs_uuid_equal(&l->pool_uuid, &p->uuid))
        rc = sfs_error_set(err, -ESTALE, "%s is no longer disk %s of pool %s.", pd->path, pd->name, p->name);
    else if (l->slab_bytes != p->slab_bytes)
        rc = sfs_error_set(err, -EUCLEAN, "disk %s (%s): its slab size differs from the pool's.", pd->name, pd->path);
    sfs_mutex_lock(&p->lock);
    struct sfs_epoch epoch = p->epoch;
    sfs_mutex_unlock(&p->lock);
    if (!rc && !sfs_epoch_descends(&epoch, &l->epoch))
        rc = sfs_error_set(err, -EUCLEAN, "disk %s (%s) was used apart from this pool and has changes of its own: it is left alone. If what is on it alone isn't needed, wipe it and add it again.", pd->name, pd->path);
    if (!rc) {
        sfs_mutex_lock(&p->lock);
        /* A crash may cut short the writing of labels: some have the newest epoch, others the one before. Nothing was committed in the newest then, for that waits for all labels: whom the newest label
         * counts among its replicas still is one. (One that failed its label was counted out by the next epoch, before anything was committed.) */
        bool cut_short = l->epoch.number + 1 == p->epoch.number && pd->replica;
        pd->stale = l->epoch.number != p->epoch.number && !cut_short;
        pd->replica = pd->replica && !pd->stale && (l->replica || cut_short);
        pd->opened_generation = l->generation;
        pd->disk = d;
        sfs_mutex_unlock(&p->lock);
        sfs_pool_adopt_handle(p, pd);
    } else {
        sfs_disk_close(d);
    }
    free(l);
    return rc;
}

static struct sfs_pool_disk *add_entry(struct sfs_pool *p, const struct sfs_uuid *uuid, const char *name, const char *path)
{
    if (p->ndisks == SFS_LABEL_PEERS)
        return NULL;
    struct sfs_pool_disk *pd = &p->disks[p->ndisks++];
    *pd = (struct sfs_pool_disk){.used = true, .uuid = *uuid, .pool = p};
    snprintf(pd->name, sizeof(pd->name), "%s", name);
    snprintf(pd->path, sizeof(pd->path), "%s", path);
    return pd;
}

static struct sfs_pool_disk *entry_by_uuid(struct sfs_pool *p, const struct sfs_uuid *uuid)
{
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && sfs_uuid_equal(&p->disks[i].uuid, uuid))
            return &p->disks[i];
    return NULL;
}

static bool listed_replica(const struct sfs_label *newest, const struct sfs_uuid *disk)
{
    for (unsigned i = 0; i < newest->npeers; i++)
        if (sfs_uuid_equal(&newest->peers[i].uuid, disk))
            return newest->peers[i].replica;
    return false;
}

/* Entries from the newest label's peers and from what was found; opens what is there. A disk in use by another process is fatal: the pool is open there; so is one that a newer spacesfs lets us only read. */
static int open_disks(struct sfs_pool *p, const struct sfs_discovery *d, struct sfs_error *err)
{
    const struct sfs_label *n = &d->v[d->newest].label;
    for (unsigned i = 0; i < n->npeers; i++)
        if (!entry_by_uuid(p, &n->peers[i].uuid) && !add_entry(p, &n->peers[i].uuid, n->peers[i].name, n->peers[i].path))
            return sfs_error_set(err, -EUCLEAN, "pool %s: its labels name too many disks.", p->name);
    for (unsigned i = 0; i < d->n; i++) {
        const struct sfs_found *f = &d->v[i];
        struct sfs_pool_disk *pd = entry_by_uuid(p, &f->label.disk_uuid);
        if (!pd)
            continue; /* no longer a disk of the pool: it was removed while it was away */
        snprintf(pd->path, sizeof(pd->path), "%s", f->path);
        pd->replica = listed_replica(n, &f->label.disk_uuid); /* the newest label's word: a disk's own may be from before it was counted out */
        struct sfs_error why = {0};
        int rc = sfs_pool_open_disk(p, pd, &why);
        if (rc == -EBUSY)
            return sfs_error_set(err, rc, "pool %s is in use by another process: %s", p->name, why.text);
        if (rc == -EROFS && f->label.ro_compat) /* by a newer spacesfs: not a disk to go on without */
            return sfs_error_set(err, rc, "pool %s: %s", p->name, why.text);
        if (rc) {
            sfs_pool_queue_event(p, "warning", "disk-refused", pd->name, why.text);
            sfs_pool_disk_refused(p, pd, why.text);
        }
    }
    return 0;
}

static void name_missing(const struct sfs_pool *p, char *out, size_t cap)
{
    out[0] = '\0';
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && !p->disks[i].disk && strlen(out) + SFS_NAME_MAX + 4 < cap)
            snprintf(out + strlen(out), cap - strlen(out), "%s%s", out[0] ? ", " : "", p->disks[i].name);
}

/* --- the catalog ------------------------------------------------------------------------------------------------------------------------------------- */

static int by_room(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Room for the catalog: what as many replicas have as must be there for the catalog to survive what the spaces do, those with most. Another one that is full is dropped when it cannot take a write, and made anew on another disk; the pool goes on with the others (rule 9).
 * So it does without one that doesn't answer: that it has no room isn't said by that. */
void sfs_pool_measure_room(struct sfs_pool *p)
{
    struct sfs_disk *disks[SFS_LABEL_PEERS];
    int ids[SFS_LABEL_PEERS];
    uint64_t room[SFS_LABEL_PEERS];
    unsigned n = 0, answered = 0, needed = p->loaded ? sfs_volumes_tolerance(p->data) + 1 : 1;
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && p->disks[i].disk && p->disks[i].replica) {
            ids[n] = p->disks[i].id;
            disks[n++] = sfs_disk_ref(p->disks[i].disk);
        }
    sfs_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < n; i++) {
        if (!sfs_disk_meta_room(disks[i], p->loaded ? sfs_member_free_slabs(p->data, ids[i]) : 0, &room[answered])) /* bounded by the disk's time-out */
            answered++;
        sfs_disk_put(disks[i]);
    }
    qsort(room, answered, sizeof(room[0]), by_room);
    __atomic_store_n(&p->catalog_room_bytes, answered == 0 ? 0 : room[(needed < answered ? needed : answered) - 1], __ATOMIC_RELAXED);
}

/* Every operation that adds a row asks: what the maintainer last measured is good enough while there is plenty. */
static uint64_t catalog_room(void *ctx)
{
    struct sfs_pool *p = ctx;
    if (__atomic_load_n(&p->catalog_room_bytes, __ATOMIC_RELAXED) < ROOM_SHORT_BYTES)
        sfs_pool_measure_room(p);
    return __atomic_load_n(&p->catalog_room_bytes, __ATOMIC_RELAXED);
}

static int open_catalog(struct sfs_pool *p, struct sfs_error *err)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    unsigned n = 0;
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && p->disks[i].disk && p->disks[i].replica)
            sfs_pool_store(p->disks[i].disk, p->disks[i].name, sfs_pool_store_id(p, &p->disks[i]), &stores[n++]);
    if (!n)
        return sfs_error_set(err, -ENODEV, "pool %s: no disk with a current copy of the catalog could be opened.", p->name);
    struct sfs_replicas_events ev = {sfs_pool_on_replica_lost, sfs_pool_on_replica_mended, p};
    int rc = sfs_replicas_open(p->env, stores, n, &ev, p->readonly, &p->replicas);
    if (rc)
        return sfs_error_set(err, rc, "pool %s: the copies of the catalog could not be opened: %s.", p->name, strerror(-rc));
    rc = sfs_replicas_recover(p->replicas, err);
    if (rc)
        return rc;
    struct sfs_catalog_opts opts = {.readonly = p->readonly, .free_bytes = catalog_room, .ctx = p};
    return sfs_catalog_open(p->env, p->replicas, &opts, &p->cat, err);
}

/* Replicas that labels promise but that are not in the set (missing, stale, damaged) have to be out of the epoch before anything is committed. */
static int settle_epoch(struct sfs_pool *p, const struct sfs_discovery *d, struct sfs_error *err)
{
    const struct sfs_label *n = &d->v[d->newest].label;
    int ids[SFS_LABEL_PEERS];
    unsigned have = sfs_replicas_ids(p->replicas, ids, SFS_LABEL_PEERS);
    bool changed = false;
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        bool in = false, promised = false;
        for (unsigned k = 0; k < have; k++)
            in |= ids[k] == sfs_pool_store_id(p, pd);
        for (unsigned k = 0; k < n->npeers; k++)
            promised |= n->peers[k].replica && sfs_uuid_equal(&n->peers[k].uuid, &pd->uuid);
        changed |= promised != in;
        pd->replica = in;
    }
    int rc = changed ? sfs_pool_bump_epoch(p, 0) : sfs_pool_write_labels(p);
    return rc ? sfs_error_set(err, rc, "pool %s: no label could be written. Check that its disks are writable.", p->name) : 0;
}

/* --- data ---------------------------------------------------------------------------------------------------------------------------------------------- */

static void on_data_event(void *ctx, const char *severity, const char *kind, int disk, const char *text)
{
    struct sfs_pool *p = ctx;
    const char *name = "";
    for (unsigned i = 0; disk && i < p->ndisks; i++)
        if (p->disks[i].id == disk)
            name = p->disks[i].name;
    sfs_pool_queue_event(p, severity, kind, name, text);
}

struct member_rows {
    struct sfs_disk_row v[SFS_LABEL_PEERS];
    unsigned n;
};

static int take_row(const struct sfs_disk_row *row, void *ctx)
{
    struct member_rows *r = ctx;
    if (r->n == SFS_LABEL_PEERS)
        return -EUCLEAN;
    r->v[r->n++] = *row;
    return 0;
}

/* The catalog's word on the members; the entries get their ids. Losses and returns since the last time are recorded. */
static int load_members(struct sfs_pool *p, struct sfs_error *err)
{
    struct member_rows *rows = calloc(1, sizeof(*rows));
    if (!rows)
        return -ENOMEM;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_disk_each(p->cat, take_row, rows);
    sfs_catalog_unlock(p->cat);
    for (unsigned i = 0; !rc && i < rows->n; i++) {
        struct sfs_disk_row *row = &rows->v[i];
        if (row->id <= 0) { /* 0 means missing in slab rows */
            rc = -EUCLEAN;
            break;
        }
        struct sfs_pool_disk *pd = entry_by_uuid(p, &row->uuid);
        if (!pd)
            pd = add_entry(p, &row->uuid, row->name, row->path);
        if (!pd) {
            rc = -EUCLEAN;
            break;
        }
        pd->id = row->id;
        snprintf(pd->name, sizeof(pd->name), "%s", row->name);
        int64_t was = row->lost_since;
        if (pd->disk) {
            row->lost_since = 0;
            snprintf(row->path, sizeof(row->path), "%s", pd->path);
        } else {
            pd->away.told = true;
            if (!row->lost_since)
                row->lost_since = sfs_env_wall(p->env).tv_sec;
        }
        sfs_pool_suspect_look(p, pd, row);
        sfs_pool_suspect_row(p, pd, row);
        rc = sfs_member_add(p->data, row, pd->disk);
        if (rc || p->readonly)
            continue;
        sfs_catalog_lock(p->cat);
        rc = sfs_catalog_disk_put(p->cat, row);
        sfs_catalog_unlock(p->cat);
        if (!pd->disk && !was)
            sfs_pool_event(p, "error", "disk-missing", pd->name, "disk %s was not found; it was last seen at %s. If it is elsewhere: `spacesfs pool import DIR`, with the directory that it lies in", pd->name, pd->path);
        else if (pd->disk && was)
            sfs_pool_event(p, "info", "disk-returned", pd->name, "disk %s is back at %s", pd->name, pd->path);
    }
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && !p->disks[i].id) { /* in the labels, not in the catalog: being added when the machine went down */
            sfs_replicas_drop(p->replicas, (int)i + 1, -ENODEV);
            sfs_disk_close(p->disks[i].disk);
            p->disks[i].disk = NULL;
            p->disks[i].used = p->disks[i].replica = false;
        }
    free(rows);
    return rc ? sfs_error_set(err, rc, "pool %s: its list of disks could not be loaded: %s. Run spacesfs-check.", p->name, strerror(-rc)) : 0;
}

/* Is any slab of it on a disk that isn't here? What is nowhere (given up by spacesfs-check) no disk will bring back: nothing is gained by waiting for it. */
static bool waits_for_disk(const struct sfs_group_info *g)
{
    bool waits = false;
    for (unsigned i = 0; i < g->nslabs; i++)
        waits |= g->slabs[i].disk && !g->slab_online[i];
    return waits;
}

/* Groups (of one space, or with 0 of all) that hold data, and those of them that have no copy of some of it on the disks that are here, but on others. */
static void count_groups(struct sfs_pool *p, int space, unsigned *all, unsigned *lost)
{
    uint64_t *ids;
    unsigned n;
    *all = *lost = 0;
    if (sfs_group_ids(p->data, &ids, &n))
        return;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(p->data, ids[i], &g) || (space && g.space != space))
            continue;
        ++*all;
        *lost += g.lost && waits_for_disk(&g);
    }
    if (n)
        free(ids);
}

bool sfs_pool_space_readable(struct sfs_pool *p, const char *space)
{
    struct sfs_volume *v = sfs_volume_find_name(p->data, space);
    unsigned all, lost;
    if (!v)
        return true;
    count_groups(p, sfs_volume_space_id(v), &all, &lost);
    return lost == 0;
}

struct readable {
    struct sfs_pool *p;
    unsigned whole, broken; /* spaces that hold something */
};

static int count_readable(const struct sfs_space_row *row, void *ctx)
{
    struct readable *r = ctx;
    unsigned all, lost;
    count_groups(r->p, row->id, &all, &lost);
    r->whole += all && !lost;
    r->broken += lost > 0;
    return 0;
}

/* Disks are missing: is there anything to be written to? Not when every space that holds something has data that cannot be read: these are a part of the pool only, and to write would set it apart from the rest. Where
 * some spaces can be read in full, those are mounted for writing, the others are not (fs/daemon asks for each). */
static bool may_write(struct sfs_pool *p)
{
    struct readable r = {p, 0, 0};
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_space_each(p->cat, count_readable, &r);
    sfs_catalog_unlock(p->cat);
    return rc == 0 && (r.whole || !r.broken);
}

static int load_data(struct sfs_pool *p, struct sfs_error *err)
{
    struct sfs_data_events ev = {on_data_event, p};
    p->data = sfs_data_new(p->env, p->cat, p->slab_bytes, &ev);
    if (!p->data)
        return -ENOMEM;
    if (p->readonly)
        sfs_data_open_readonly(p->data);
    int rc = load_members(p, err);
    if (!rc)
        rc = sfs_groups_load(p->data, err);
    if (!rc)
        rc = sfs_damage_load(p->data);
    p->loaded = rc == 0;
    return rc;
}

/* What to do when disks are missing. degraded=yes looks first, changing nothing: see may_write. */
static int apply_degraded(struct sfs_pool *p, enum sfs_degraded policy, struct sfs_error *err)
{
    char missing[512];
    name_missing(p, missing, sizeof(missing));
    if (!missing[0] || policy == SFS_DEGRADED_RW)
        return 0;
    if (policy == SFS_DEGRADED_NO)
        return sfs_error_set(err, -ENODEV, "pool %s: disks are missing (%s) and degraded=no was asked for. Connect them, or name the directory that they lie in now (`spacesfs pool import DIR`), or use degraded=yes or degraded=ro.", p->name, missing);
    p->looking = policy == SFS_DEGRADED_YES && !p->readonly;
    p->readonly = true;
    return 0;
}

/* --- open and close --------------------------------------------------------------------------------------------------------------------------------------- */

static struct sfs_pool *pool_new(struct sfs_env *env, const struct sfs_pool_open_opts *o)
{
    struct sfs_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    p->env = env;
    p->world = o->world;
    p->readonly = o->readonly;
    p->disk_timeout_ns = o->disk_timeout_ns;
    p->on_event = o->on_event;
    p->event_ctx = o->event_ctx;
    p->known_only = o->known_only;
    if (o->state_dir)
        snprintf(p->state_dir, sizeof(p->state_dir), "%s", o->state_dir);
    STAILQ_INIT(&p->events);
    sfs_mutex_init(&p->admin, env, SFS_RANK_ADMIN);
    sfs_mutex_init(&p->lock, env, SFS_RANK_POOLDISKS);
    sfs_mutex_init(&p->leaf, env, SFS_RANK_LEAF);
    sfs_cond_init(&p->wake, env);
    p->disks = calloc(SFS_LABEL_PEERS, sizeof(*p->disks));
    return p;
}

static void pool_free(struct sfs_pool *p)
{
    sfs_pool_maintain_stop(p); /* it looks at the heal job */
    sfs_housekeeper_stop(p->housekeeper);
    sfs_jobs_close(p->jobs);
    sfs_heal_stop(p->heal);
    if (p->data)
        sfs_data_stop(p->data);
    sfs_catalog_close(p->cat);
    sfs_replicas_close(p->replicas);
    sfs_data_free(p->data);
    for (unsigned i = 0; p->disks && i < p->ndisks; i++)
        sfs_disk_close(p->disks[i].disk);
    struct sfs_pool_event_item *e;
    while ((e = STAILQ_FIRST(&p->events))) {
        STAILQ_REMOVE_HEAD(&p->events, link);
        free(e);
    }
    free(p->disks);
    sfs_cond_destroy(&p->wake);
    sfs_mutex_destroy(&p->leaf);
    sfs_mutex_destroy(&p->lock);
    sfs_mutex_destroy(&p->admin);
    free(p);
}

/* Looks for the disks until all are there, or the time to wait is over. */
static int find_disks(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *o, struct sfs_discovery *d, struct sfs_error *err)
{
    uint64_t until = sfs_env_mono_ns(env) + o->wait_ns;
    for (;;) {
        int rc = sfs_discover(env, which, o, d, err);
        if ((!rc && !sfs_discovery_missing(d)) || sfs_env_mono_ns(env) >= until || (rc && rc != -ENODEV))
            return rc;
        if (!rc)
            sfs_discovery_free(d);
        sfs_env_sleep_ns(env, WAIT_STEP_NS);
    }
}

static int start(struct sfs_pool *p, bool jobs)
{
    if (p->readonly)
        return 0;
    int rc = 0;
    for (unsigned i = 0; !rc && i < p->ndisks; i++)
        if (p->disks[i].id && p->disks[i].disk)
            rc = sfs_groups_check_slabs(p->data, p->disks[i].id);
    sfs_groups_free_orphans(p->data);
    if (!rc)
        rc = sfs_data_start(p->data);
    if (!rc)
        rc = sfs_pool_heal_start(p);
    for (unsigned i = 0; !rc && i < p->ndisks; i++)
        sfs_pool_suspect_begin(p, &p->disks[i]);
    p->damage_told = sfs_damage_count(p->data) > 0;
    p->damage_recheck = p->damage_told;
    sfs_pool_watch_begin(p);
    if (!rc)
        rc = sfs_pool_jobs_open(p, jobs);
    if (!rc && jobs)
        rc = sfs_pool_maintain_start(p);
    if (!rc && jobs)
        sfs_pool_resume_destroying(p); /* cut short when the pool was last open */
    sfs_pool_mend_replicas(p);
    return rc;
}

static int open_found(struct sfs_pool *p, const struct sfs_discovery *d, enum sfs_degraded degraded, bool no_jobs, struct sfs_error *err)
{
    const struct sfs_label *n = &d->v[d->newest].label;
    snprintf(p->name, sizeof(p->name), "%s", n->pool_name);
    p->uuid = n->pool_uuid;
    p->slab_bytes = n->slab_bytes;
    p->epoch = n->epoch;
    int rc = open_disks(p, d, err);
    if (!rc)
        rc = apply_degraded(p, degraded, err);
    if (!rc)
        rc = open_catalog(p, err);
    if (!rc)
        rc = settle_epoch(p, d, err);
    if (!rc)
        rc = load_data(p, err);
    if (rc)
        return rc;
    if (p->looking && may_write(p))
        return -EAGAIN;
    unsigned all, lost;
    count_groups(p, 0, &all, &lost);
    if (lost)
        sfs_pool_tell_missing(p, lost);
    rc = start(p, !no_jobs);
    if (!rc)
        sfs_pool_save_registry(p);
    return rc;
}

int sfs_pool_open(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *o, struct sfs_pool **out, struct sfs_error *err)
{
    struct sfs_error local = {0};
    if (!err)
        err = &local;
    struct sfs_discovery d;
    int rc = find_disks(env, which, o, &d, err);
    if (rc)
        return rc;
    struct sfs_pool *p = pool_new(env, o);
    rc = p && p->disks ? open_found(p, &d, o->degraded, o->no_jobs, err) : -ENOMEM;
    if (rc == -EAGAIN && p->looking) { /* looked at: all is well enough to be written to */
        pool_free(p);
        p = pool_new(env, o);
        rc = p && p->disks ? open_found(p, &d, SFS_DEGRADED_RW, o->no_jobs, err) : -ENOMEM;
    }
    sfs_discovery_free(&d);
    if (rc) {
        if (!err->code)
            sfs_error_set(err, rc, "pool %s could not be opened: %s.", which, strerror(-rc));
        if (p)
            pool_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

int sfs_pool_sync(struct sfs_pool *p)
{
    return p->readonly ? 0 : sfs_commit_wait(p->data, true);
}

int sfs_pool_close(struct sfs_pool *p)
{
    if (!p)
        return 0;
    sfs_pool_maintain_stop(p); /* it looks at the heal job */
    sfs_housekeeper_stop(p->housekeeper);
    p->housekeeper = NULL;
    sfs_jobs_close(p->jobs);
    p->jobs = NULL;
    sfs_heal_stop(p->heal);
    p->heal = NULL;
    sfs_pool_tell_damage(p);
    sfs_pool_flush_events(p);
    int rc = p->readonly ? 0 : sfs_data_readonly(p->data) ? -EROFS : sfs_pool_sync(p);
    pool_free(p);
    return rc;
}
