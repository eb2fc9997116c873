/* The maintainer: one thread per pool that looks after the disks: sees that one has gone (probing, or a failed request), records it, brings back one that has returned, keeps the replicas at their number, starts healing when its delay
 * has passed, writes events and error counts into the catalog, and snapshots the catalog. Everything it does is short; healing runs in a thread of its own (fs/job). */
#include "fs/pool/pool_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/log.h"
#include "fs/base/size.h"

#define TICK_NS 1000000000ull
#define RETRY_NS 2000000000ull
#define RETRY_MAX_NS 300000000000ull
#define STAYED_NS 600000000000ull /* a disk that stays this long doesn't flap */
#define FULL_RETRY_TICKS 10u
#define SNAPSHOT_FIRST_NS 60000000000ull
#define SNAPSHOT_EVERY_NS 3600000000000ull
#define SNAPSHOTS_KEPT 3u
#define MAX_EVENTS 1000u
#define UNREADABLE_AGAIN_NS 600000000000ull

/* --- events ------------------------------------------------------------------------------------------------------------------------------------- */

void sfs_pool_queue_event(struct sfs_pool *p, const char *severity, const char *kind, const char *subject, const char *text)
{
    struct sfs_pool_event_item *e = calloc(1, sizeof(*e));
    if (!e)
        return;
    e->row.time = sfs_env_wall(p->env).tv_sec;
    snprintf(e->row.severity, sizeof(e->row.severity), "%s", severity);
    snprintf(e->row.kind, sizeof(e->row.kind), "%s", kind);
    snprintf(e->row.subject, sizeof(e->row.subject), "%s", subject);
    snprintf(e->row.text, sizeof(e->row.text), "%s", text);
    sfs_mutex_lock(&p->leaf);
    bool take = p->nevents < MAX_EVENTS;
    if (take) {
        STAILQ_INSERT_TAIL(&p->events, e, link);
        p->nevents++;
    }
    p->woken = true;
    sfs_cond_broadcast(&p->wake);
    sfs_mutex_unlock(&p->leaf);
    if (!take)
        free(e);
}

void sfs_pool_event(struct sfs_pool *p, const char *severity, const char *kind, const char *subject, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    sfs_pool_queue_event(p, severity, kind, subject, text);
}

static struct sfs_pool_event_item *next_event(struct sfs_pool *p)
{
    sfs_mutex_lock(&p->leaf);
    struct sfs_pool_event_item *e = STAILQ_FIRST(&p->events);
    if (e) {
        STAILQ_REMOVE_HEAD(&p->events, link);
        p->nevents--;
    }
    sfs_mutex_unlock(&p->leaf);
    return e;
}

static enum sfs_log_level level_of(const char *severity)
{
    return !strcmp(severity, "error") ? SFS_LOG_ERROR : !strcmp(severity, "warning") ? SFS_LOG_WARN : SFS_LOG_INFO;
}

void sfs_pool_flush_events(struct sfs_pool *p)
{
    struct sfs_pool_event_item *e;
    bool any = false;
    while ((e = next_event(p))) {
        sfs_log(level_of(e->row.severity), "pool %s: %s%s%s: %s", p->name, e->row.kind, e->row.subject[0] ? " " : "", e->row.subject, e->row.text);
        if (!sfs_pool_readonly(p)) {
            sfs_catalog_lock(p->cat);
            sfs_catalog_event_add(p->cat, &e->row);
            sfs_catalog_unlock(p->cat);
            any = true;
        }
        if (p->on_event)
            p->on_event(p->event_ctx, p->name, &e->row);
        free(e);
    }
    if (any)
        sfs_commit_kick(p->data);
}

void sfs_pool_tell_events(struct sfs_pool *p)
{
    sfs_pool_flush_events(p);
}

/* --- waking ------------------------------------------------------------------------------------------------------------------------------------- */

void sfs_pool_wake(struct sfs_pool *p)
{
    sfs_mutex_lock(&p->leaf);
    p->woken = true;
    sfs_cond_broadcast(&p->wake);
    sfs_mutex_unlock(&p->leaf);
}

void sfs_pool_disk_state_changed(struct sfs_disk *disk, void *ctx)
{
    struct sfs_pool_disk *pd = ctx;
    (void)disk;
    sfs_pool_wake(pd->pool);
}

/* --- disks that went ------------------------------------------------------------------------------------------------------------------------------ */

static int set_lost_since(struct sfs_pool *p, int id, int64_t when)
{
    struct sfs_disk_row row;
    int rc = sfs_pool_disk_row(p, id, &row);
    if (rc || row.lost_since == when)
        return rc;
    row.lost_since = when;
    sfs_catalog_lock(p->cat);
    rc = sfs_pool_readonly(p) ? 0 : sfs_catalog_disk_put(p->cat, &row);
    sfs_catalog_unlock(p->cat);
    sfs_member_update(p->data, &row);
    return rc;
}

static const char *state_name(enum sfs_disk_state s)
{
    return s == SFS_DISK_GONE ? "gone" : s == SFS_DISK_STALLED ? "stalled" : "failed";
}

/* Doubles with every loss in a row, to five minutes. */
static uint64_t retry_delay_ns(const struct sfs_pool_disk *pd)
{
    uint64_t ns = RETRY_NS << (pd->away.losses < 8 ? pd->away.losses : 8);
    return ns < RETRY_MAX_NS ? ns : RETRY_MAX_NS;
}

/* Errors that the disk's handle has counted since the last look join those of its member. */
static void take_errors(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    struct sfs_disk_counters c;
    sfs_disk_counters(pd->disk, &c);
    uint64_t reads = c.read_errors, writes = c.write_errors + c.sync_errors;
    if (reads != pd->read_seen || writes != pd->write_seen)
        sfs_member_count_errors(p->data, pd->id, reads - pd->read_seen, writes - pd->write_seen);
    pd->read_seen = reads;
    pd->write_seen = writes;
}

static void handle_lost(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    enum sfs_disk_state s = sfs_disk_state(pd->disk);
    uint64_t now = sfs_env_mono_ns(p->env);
    take_errors(p, pd);
    if (s != SFS_DISK_GONE || strstr(sfs_disk_state_why(pd->disk), "truncated"))
        sfs_pool_suspect(p, pd, NULL); /* its loss is an event of its own */
    pd->away.told = true;
    pd->away.losses = now - pd->away.since_ns > STAYED_NS ? 0 : pd->away.losses + 1;
    pd->away.retry_ns = now + retry_delay_ns(pd);
    sfs_member_failed(p->data, pd->id);
    sfs_replicas_drop(p->replicas, sfs_pool_store_id(p, pd), -ENODEV);
    set_lost_since(p, pd->id, sfs_env_wall(p->env).tv_sec);
    sfs_pool_suspect_store(p, pd);
    bool spare = sfs_pool_spare_steps_in(p, pd);
    sfs_heal_disks_changed(p->heal);
    char delay[32] = "5m";
    sfs_pool_prop_get(p, "heal-delay", delay, sizeof(delay), NULL);
    sfs_pool_event(p, "error", "disk-lost", pd->name,
                   "disk %s (%s) is out of use: %s (%s). Reads and writes go on with the other disks; %s%s%s",
                   pd->name, pd->path, state_name(s), sfs_disk_state_why(pd->disk), spare ? "a hot spare takes its place now" : "unless it returns, healing begins after ",
                   spare ? "" : delay, spare ? "" : ", or at once with `spacesfs heal`");
    sfs_jobs_wake(p->jobs);
    sfs_commit_kick(p->data); /* what is pending on it is written elsewhere */
}

/* --- disks that return ----------------------------------------------------------------------------------------------------------------------------- */

static bool is_it(struct sfs_pool *p, const struct sfs_pool_disk *pd, const char *path)
{
    struct sfs_disk_probe *pr = calloc(1, sizeof(*pr));
    bool yes = pr && !sfs_disk_probe(p->env, path, p->world, pr, NULL) && pr->has_label && sfs_uuid_equal(&pr->label.disk_uuid, &pd->uuid) &&
               sfs_uuid_equal(&pr->label.pool_uuid, &p->uuid);
    free(pr);
    return yes;
}

static bool is_known_place(struct sfs_pool *p, const char *path)
{
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && !strcmp(p->disks[i].path, path))
            return true;
    return false;
}

/* Devices get new names when they are plugged in anew. Looked for only when there are others than at the last look. */
static bool find_device(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    char line[256], name[128], path[SFS_PATH_BYTES];
    uint64_t seen = 1469598103934665603ull;
    bool found = false;
    FILE *f = p->world || strncmp(pd->path, "/dev/", 5) ? NULL : fopen("/proc/partitions", "re");
    if (!f)
        return false;
    while (fgets(line, sizeof(line), f))
        for (const char *c = line; *c; c++)
            seen = (seen ^ (uint8_t)*c) * 1099511628211ull;
    if (seen != pd->away.devices_seen)
        rewind(f);
    while (!found && fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %*u %*u %*u %127s", name) != 1)
            continue;
        snprintf(path, sizeof(path), "/dev/%s", name);
        found = !is_known_place(p, path) && is_it(p, pd, path);
    }
    fclose(f);
    pd->away.devices_seen = seen;
    if (found) {
        sfs_mutex_lock(&p->lock);
        snprintf(pd->path, sizeof(pd->path), "%s", path);
        sfs_mutex_unlock(&p->lock);
    }
    return found;
}

/* Disks that are out of use may have changed places with each other. */
static bool find_exchanged(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    char path[SFS_PATH_BYTES];
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *x = &p->disks[i];
        if (!x->used || x == pd || (x->disk && (sfs_disk_state(x->disk) == SFS_DISK_ONLINE || sfs_disk_is_stuck(x->disk))) || !is_it(p, pd, x->path))
            continue;
        sfs_mutex_lock(&p->lock);
        snprintf(path, sizeof(path), "%s", x->path);
        snprintf(x->path, sizeof(x->path), "%s", pd->path); /* so that no place is forgotten */
        snprintf(pd->path, sizeof(pd->path), "%s", path);
        sfs_mutex_unlock(&p->lock);
        return true;
    }
    return false;
}

static void free_slabs_on(struct sfs_pool *p)
{
    if (!sfs_pool_readonly(p))
        sfs_groups_free_orphans(p->data);
}

/* Until nobody can be using a handle that was taken out before this call. */
void sfs_pool_wait_readers(struct sfs_pool *p)
{
    struct sfs_quiesce *q = sfs_data_quiesce(p->data);
    uint64_t ticket = sfs_quiesce_ticket(q);
    while (!sfs_quiesce_passed(q, ticket))
        sfs_env_sleep_ns(p->env, 1000000);
}

/* Closes the handle that was replaced. */
static void retire_handle(struct sfs_pool *p, struct sfs_disk *old)
{
    if (!old)
        return;
    sfs_pool_wait_readers(p);
    sfs_disk_close(old);
}

void sfs_pool_disk_refused(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *why)
{
    sfs_mutex_lock(&p->lock);
    int n = snprintf(pd->away.why, sizeof(pd->away.why), "%s", why);
    if (n > 0 && n < (int)sizeof(pd->away.why) && pd->away.why[n - 1] == '.')
        pd->away.why[n - 1] = '\0';
    sfs_mutex_unlock(&p->lock);
}

static void try_return(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    pd->away.retry_ns = sfs_env_mono_ns(p->env) + retry_delay_ns(pd);
    bool moved = false;
    if (!is_it(p, pd, pd->path)) {
        moved = find_exchanged(p, pd) || find_device(p, pd);
        if (!moved) {
            pd->away.waiting = false;
            sfs_pool_disk_refused(p, pd, "");
            return;
        }
    }
    sfs_mutex_lock(&p->lock);
    struct sfs_disk *old = pd->disk;
    pd->disk = NULL;
    sfs_mutex_unlock(&p->lock);
    /* The old handle holds the lock on the label: it goes first. Readers see the disk as missing meanwhile. */
    if (old) {
        sfs_replicas_drop(p->replicas, sfs_pool_store_id(p, pd), -ENODEV);
        retire_handle(p, sfs_member_attach(p->data, pd->id, NULL));
    }
    /* What was written to it and isn't committed may be gone from it: it is settled while the disk is away. */
    if (!p->readonly && sfs_member_settle_off(p->data, pd->id)) {
        /* What is in memory and what the last commit left cannot be brought together under programs that go on. */
        if (!pd->away.waiting)
            sfs_pool_event(p, "warning", "disk-waits", pd->name, "disk %s is back at %s, but the pool is read-only (%s): it is taken in again when all spaces of the pool are unmounted and mounted again", pd->name,
                           pd->path, sfs_data_readonly_why(p->data));
        pd->away.waiting = true;
        sfs_pool_disk_refused(p, pd, "it is back, but cannot be taken in again until all spaces of the pool are unmounted");
        return;
    }
    struct sfs_error err = {0};
    if (sfs_pool_open_disk(p, pd, &err)) {
        sfs_pool_disk_refused(p, pd, err.text);
        if (!pd->away.told)
            sfs_pool_queue_event(p, "warning", "disk-refused", pd->name, err.text);
        pd->away.told = true;
        return;
    }
    sfs_pool_disk_refused(p, pd, "");
    sfs_member_attach(p->data, pd->id, pd->disk);
    sfs_pool_want_recheck(p);
    if (!p->readonly)
        sfs_groups_check_slabs(p->data, pd->id);
    pd->read_seen = pd->write_seen = 0;
    pd->away.told = false;
    __atomic_store_n(&pd->away.urgent, false, __ATOMIC_RELAXED);
    pd->away.since_ns = sfs_env_mono_ns(p->env);
    p->heal_again_ns = 0; /* it may take what could not be built elsewhere */
    set_lost_since(p, pd->id, 0);
    struct sfs_disk_row row;
    if (!sfs_pool_disk_row(p, pd->id, &row))
        sfs_pool_suspect_look(p, pd, &row);
    sfs_pool_write_labels(p);
    if (moved)
        sfs_pool_save_registry(p);
    sfs_pool_suspect_store(p, pd);
    free_slabs_on(p);
    sfs_pool_event(p, "info", "disk-returned", pd->name, "disk %s is back at %s; what is still good on it is in use again", pd->name, pd->path);
    pd->away.retry_ns = 0;
    sfs_jobs_wake(p->jobs);
    sfs_heal_disks_changed(p->heal);
    sfs_pool_suspect_begin(p, pd);
}

void sfs_pool_look_after_disks(struct sfs_pool *p, bool now)
{
    sfs_mutex_lock(&p->admin);
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (!pd->used || !pd->id)
            continue;
        bool online = pd->disk && sfs_disk_check(pd->disk) == 0 && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE;
        if (pd->disk && !online && !pd->away.told)
            handle_lost(p, pd);
        else if (pd->disk && !online && sfs_disk_is_stuck(pd->disk))
            continue; /* looking at it would hold us up as well; it is looked at when it answers again */
        else if (!online && (now || sfs_env_mono_ns(p->env) >= pd->away.retry_ns))
            try_return(p, pd);
    }
    sfs_mutex_unlock(&p->admin);
}

/* --- the rest ----------------------------------------------------------------------------------------------------------------------------------------- */

/* Reads that failed, now and then: what is damaged for good is told by file (damage.c). */
static void tell_unreadable(struct sfs_pool *p)
{
    uint64_t unreadable = sfs_data_unreadable(p->data), now = sfs_env_mono_ns(p->env);
    if (unreadable == p->unreadable_told || now < p->unreadable_again_ns)
        return;
    sfs_pool_event(p, "error", "data-unreadable", "", "programs got an I/O error from %llu reads: no good copy of that data is here. `spacesfs status %s` says why, and which files it is",
                   (unsigned long long)(unreadable - p->unreadable_told), p->name);
    p->unreadable_told = unreadable;
    p->unreadable_again_ns = now + UNREADABLE_AGAIN_NS;
}

/* What reading has repaired since the last look: one event for each disk, however much it is. */
static void tell_repairs(struct sfs_pool *p, const struct sfs_member_info *v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct sfs_pool_disk *pd = sfs_pool_disk_by_name(p, v[i].row.name);
        if (!pd || v[i].repaired_blocks == pd->repaired_told)
            continue;
        sfs_pool_event(p, "warning", "copies-repaired", pd->name, "%llu bad blocks on disk %s were rewritten from good copies",
                       (unsigned long long)(v[i].repaired_blocks - pd->repaired_told), pd->name);
        pd->repaired_told = v[i].repaired_blocks;
    }
}

static void take_all_errors(struct sfs_pool *p)
{
    sfs_mutex_lock(&p->admin); /* handles stay */
    for (unsigned i = 0; i < p->ndisks; i++)
        if (p->disks[i].used && p->disks[i].id && p->disks[i].disk)
            take_errors(p, &p->disks[i]);
    sfs_mutex_unlock(&p->admin);
}

static void store_error_counts(struct sfs_pool *p)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    take_all_errors(p);
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    tell_unreadable(p);
    tell_repairs(p, v, n);
    if (sfs_pool_readonly(p))
        return;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_disk_row row;
        if (sfs_pool_disk_row(p, v[i].row.id, &row))
            continue;
        if (row.read_errors == v[i].row.read_errors && row.write_errors == v[i].row.write_errors && row.checksum_errors == v[i].row.checksum_errors)
            continue;
        row.read_errors = v[i].row.read_errors;
        row.write_errors = v[i].row.write_errors;
        row.checksum_errors = v[i].row.checksum_errors;
        sfs_catalog_lock(p->cat);
        sfs_catalog_disk_put(p->cat, &row);
        sfs_catalog_unlock(p->cat);
    }
}

static void snapshot(struct sfs_pool *p)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    unsigned n = 0;
    sfs_mutex_lock(&p->admin); /* handles stay */
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (pd->used && pd->disk && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE)
            sfs_pool_store(pd->disk, pd->name, sfs_pool_store_id(p, pd), &stores[n++]);
    }
    sfs_mutex_unlock(&p->lock);
    struct sfs_error err = {0};
    if (n && !sfs_pool_readonly(p) && sfs_catalog_snapshot(p->cat, stores, n, SNAPSHOTS_KEPT, &err))
        sfs_pool_queue_event(p, "warning", "snapshot-failed", "", err.text);
    sfs_mutex_unlock(&p->admin);
}

static void maintain_main(void *arg)
{
    struct sfs_pool *p = arg;
    unsigned ticks = 0;
    uint64_t snapshot_at = sfs_env_mono_ns(p->env) + SNAPSHOT_FIRST_NS;
    for (;;) {
        sfs_mutex_lock(&p->leaf);
        uint64_t until = sfs_env_mono_ns(p->env) + TICK_NS;
        while (!p->stop && !p->woken && sfs_cond_wait_until(&p->wake, &p->leaf, until) == 0)
            ;
        p->woken = false;
        bool stop = p->stop;
        sfs_mutex_unlock(&p->leaf);
        if (stop)
            return;
        sfs_pool_look_after_disks(p, false);
        sfs_pool_mend_replicas(p);
        store_error_counts(p);
        sfs_pool_recheck_damage(p);
        sfs_pool_tell_damage(p);
        sfs_pool_watch(p);
        sfs_pool_look_after_usage(p);
        sfs_pool_scrub_tick(p);
        sfs_pool_resume_destroying(p);
        sfs_pool_flush_events(p);
        sfs_freeing_tick(p->data);
        if (++ticks % FULL_RETRY_TICKS == 0)
            sfs_member_retry_full(p->data);
        sfs_pool_measure_room(p);
        if (p->heal && sfs_pool_heal_due(p))
            sfs_heal_wake(p->heal);
        if (sfs_env_mono_ns(p->env) >= snapshot_at) {
            snapshot(p);
            snapshot_at = sfs_env_mono_ns(p->env) + SNAPSHOT_EVERY_NS;
        }
    }
}

int sfs_pool_maintain_start(struct sfs_pool *p)
{
    return sfs_thread_start(p->env, "sfs-maintain", maintain_main, p, &p->maintainer);
}

void sfs_pool_maintain_stop(struct sfs_pool *p)
{
    if (!p->maintainer)
        return;
    sfs_mutex_lock(&p->leaf);
    p->stop = true;
    sfs_cond_broadcast(&p->wake);
    sfs_mutex_unlock(&p->leaf);
    sfs_thread_join(p->maintainer);
    p->maintainer = NULL;
}
