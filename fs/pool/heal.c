/* When to heal: the delay after a loss (a pool property, heal-delay, 5 minutes by default), at once when asked to; and what the heal job has to say, as events and job rows. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"

#define HEAL_DELAY_NS 300000000000ull
#define HEAL_AGAIN_NS 60000000000ull /* after a run that left something, unless disks change */
#define HEAL_HOPELESS_NS 1800000000000ull /* what it left needs a disk that is missing */

static uint64_t heal_delay_ns(struct sfs_pool *p)
{
    char text[64];
    uint64_t ns;
    if (sfs_pool_prop_get(p, "heal-delay", text, sizeof(text), NULL) || sfs_duration_parse(text, "heal-delay", &ns, NULL))
        return HEAL_DELAY_NS;
    return ns;
}

static bool lost_long_enough(const struct sfs_member_info *m, int64_t now, uint64_t delay_ns)
{
    if (m->row.usage == SFS_USAGE_RETIRED)
        return true;
    return m->row.lost_since && now >= m->row.lost_since && (uint64_t)(now - m->row.lost_since) >= delay_ns / 1000000000ull;
}

/* Has a hot spare stepped in for it? */
static bool spared_for(struct sfs_pool *p, int disk)
{
    sfs_mutex_lock(&p->lock);
    const struct sfs_pool_disk *pd = sfs_pool_disk_by_id(p, disk);
    bool spared = pd && __atomic_load_n(&pd->away.urgent, __ATOMIC_RELAXED);
    sfs_mutex_unlock(&p->lock);
    return spared;
}

static bool is_due(struct sfs_pool *p, int disk, bool if_unknown)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    uint64_t delay = heal_delay_ns(p);
    int64_t now = sfs_env_wall(p->env).tv_sec;
    for (unsigned i = 0; i < n; i++)
        if (v[i].row.id == disk)
            return !v[i].online && (spared_for(p, disk) || lost_long_enough(&v[i], now, delay));
    return if_unknown;
}

bool sfs_pool_lost_for_long(struct sfs_pool *p, int disk)
{
    return is_due(p, disk, false);
}

static bool due(void *ctx, int disk)
{
    struct sfs_pool *p = ctx;
    return disk == 0 || __atomic_load_n(&p->heal_now, __ATOMIC_ACQUIRE) || is_due(p, disk, true);
}

/* The job's row: made when a run begins, closed when it ends. One that a crash left open is closed by the next. */
static void store_job(struct sfs_pool *p, bool ended, bool whole, const char *text)
{
    struct sfs_heal_status s;
    sfs_heal_status(p->heal, &s);
    struct sfs_job_row *j = &p->heal_job;
    int64_t now = sfs_env_wall(p->env).tv_sec;
    if (!ended) {
        *j = (struct sfs_job_row){.started = now};
        snprintf(j->kind, sizeof(j->kind), "heal");
    }
    snprintf(j->state, sizeof(j->state), "%s", !ended ? "running" : whole ? "done" : "incomplete");
    snprintf(j->what, sizeof(j->what), "pool");
    snprintf(j->result, sizeof(j->result), "%.*s", (int)sizeof(j->result) - 1, ended ? text : "");
    j->done = s.done;
    j->total = s.total;
    j->ended = ended ? now : 0;
    sfs_catalog_lock(p->cat);
    if (!sfs_data_readonly(p->data))
        sfs_catalog_job_put(p->cat, j);
    sfs_catalog_unlock(p->cat);
}

static void on_event(void *ctx, const char *severity, const char *kind, const char *text)
{
    struct sfs_pool *p = ctx;
    if (!strncmp(kind, "heal-", 5))
        store_job(p, strcmp(kind, "heal-started") != 0, !strcmp(kind, "heal-done"), text);
    sfs_pool_queue_event(p, severity, kind, "", text);
}

int sfs_pool_heal_start(struct sfs_pool *p)
{
    struct sfs_heal_ops ops = {due, on_event, sfs_pool_suspect_verified, p};
    return sfs_heal_start(p->data, &ops, &p->heal);
}

/* Groups that miss a slab whose time has come. */
static bool anything_due(struct sfs_pool *p)
{
    uint64_t *ids;
    unsigned n;
    bool any = false;
    if (sfs_group_ids(p->data, &ids, &n))
        return false;
    for (unsigned i = 0; i < n && !any; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(p->data, ids[i], &g) || !g.missing)
            continue;
        for (unsigned k = 0; k < g.nslabs && !any; k++)
            any = !g.slab_online[k] && due(p, g.slabs[k].disk);
    }
    if (n)
        free(ids);
    return any;
}

bool sfs_pool_heal_due(struct sfs_pool *p)
{
    struct sfs_heal_status s;
    sfs_heal_status(p->heal, &s);
    uint64_t now = sfs_env_mono_ns(p->env);
    if (p->heal_now_until_run && s.runs >= p->heal_now_until_run && !s.running) { /* what was asked for has run */
        p->heal_now_until_run = 0;
        __atomic_store_n(&p->heal_now, false, __ATOMIC_RELEASE);
    }
    if (s.running || (s.last_result && now < p->heal_again_ns) || sfs_data_readonly(p->data) || p->readonly || !anything_due(p))
        return false;
    p->heal_again_ns = now + (s.last_result == -EUCLEAN || s.last_result == -ENODATA ? HEAL_HOPELESS_NS : HEAL_AGAIN_NS);
    return true;
}

int sfs_pool_heal(struct sfs_pool *p, bool wait, struct sfs_error *err)
{
    if (sfs_pool_readonly(p))
        return sfs_error_set(err, -EROFS, "pool %s is open read-only%s%s: it cannot heal.", p->name, sfs_data_readonly(p->data) ? ": " : "", sfs_data_readonly_why(p->data));
    if (!p->heal)
        return sfs_error_set(err, -EOPNOTSUPP, "pool %s was opened without background jobs.", p->name);
    sfs_pool_look_after_disks(p, true); /* a disk pulled a moment ago counts, and one that was plugged in again */
    sfs_pool_look_after_disks(p, true); /* one that is back but whose loss had not been noticed: lost, then found */
    __atomic_store_n(&p->heal_now, true, __ATOMIC_RELEASE);
    if (!wait) {
        struct sfs_heal_status s;
        sfs_heal_status(p->heal, &s);
        p->heal_now_until_run = s.runs + 1 + s.running;
        sfs_heal_wake(p->heal);
        return 0;
    }
    char text[256];
    int rc = sfs_heal_wait(p->heal, text, sizeof(text));
    sfs_pool_look_after_disks(p, false);
    if (!rc && anything_due(p)) /* another has gone meanwhile: done means done now */
        rc = sfs_heal_wait(p->heal, text, sizeof(text));
    __atomic_store_n(&p->heal_now, false, __ATOMIC_RELEASE);
    sfs_pool_flush_events(p);
    if (rc)
        return sfs_error_set(err, rc == -EUCLEAN ? -EUCLEAN : -EAGAIN, "pool %s: %s.", p->name, text);
    return 0;
}
