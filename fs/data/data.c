#include "fs/data/state.h"

#include "fs/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct sfs_data *sfs_data_new(struct sfs_env *env, struct sfs_catalog *cat, uint64_t slab_bytes, const struct sfs_data_events *ev)
{
    struct sfs_data *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->env = env;
    d->cat = cat;
    d->slab_bytes = slab_bytes;
    if (ev)
        d->events = *ev;
    d->quiesce = sfs_quiesce_new(env);
    if (!d->quiesce) {
        free(d);
        return NULL;
    }
    sfs_mutex_init(&d->lock, env, SFS_RANK_GROUPS);
    sfs_cond_init(&d->changed, env);
    sfs_mutex_init(&d->commit.lock, env, SFS_RANK_COMMIT);
    sfs_cond_init(&d->commit.changed, env);
    sfs_mutex_init(&d->commit.gate_lock, env, SFS_RANK_GATE);
    sfs_cond_init(&d->commit.gate_changed, env);
    return d;
}

static void free_group(struct sfs_data *d, struct sfs_group *g)
{
    HASH_DEL(d->groups, g);
    sfs_group_free(g);
}

void sfs_data_free(struct sfs_data *d)
{
    if (!d)
        return;
    struct sfs_stored *s, *snext;
    HASH_ITER(hh, d->stored, s, snext) {
        HASH_DEL(d->stored, s);
        free(s);
    }
    struct sfs_group *g, *gnext;
    HASH_ITER(hh, d->groups, g, gnext)
        free_group(d, g);
    struct sfs_volume *v;
    while ((v = LIST_FIRST(&d->volumes))) {
        LIST_REMOVE(v, link);
        free(v);
    }
    while ((v = LIST_FIRST(&d->removed))) {
        LIST_REMOVE(v, link);
        free(v);
    }
    struct sfs_member *m;
    while ((m = LIST_FIRST(&d->members))) {
        LIST_REMOVE(m, link);
        free(m->slots);
        free(m);
    }
    sfs_damage_fini(d);
    free(d->candidates.v);
    free(d->moved.v);
    free(d->freed.v);
    free(d->releasing.v);
    sfs_quiesce_free(d->quiesce);
    sfs_cond_destroy(&d->commit.gate_changed);
    sfs_mutex_destroy(&d->commit.gate_lock);
    sfs_cond_destroy(&d->commit.changed);
    sfs_mutex_destroy(&d->commit.lock);
    sfs_cond_destroy(&d->changed);
    sfs_mutex_destroy(&d->lock);
    free(d);
}

struct sfs_env *sfs_data_env(struct sfs_data *d)
{
    return d->env;
}

struct sfs_catalog *sfs_data_catalog(struct sfs_data *d)
{
    return d->cat;
}

struct sfs_quiesce *sfs_data_quiesce(struct sfs_data *d)
{
    return d->quiesce;
}

bool sfs_data_readonly(struct sfs_data *d)
{
    return __atomic_load_n(&d->readonly, __ATOMIC_ACQUIRE);
}

const char *sfs_data_readonly_why(struct sfs_data *d)
{
    return sfs_data_readonly(d) ? d->readonly_why : "";
}

uint64_t sfs_data_program_ns(struct sfs_data *d)
{
    return __atomic_load_n(&d->program_ns, __ATOMIC_RELAXED);
}

void sfs_data_note_program(struct sfs_data *d)
{
    __atomic_store_n(&d->program_ns, sfs_env_mono_ns(d->env), __ATOMIC_RELAXED);
}

void sfs_data_open_readonly(struct sfs_data *d)
{
    SFS_LOCK(d);
    snprintf(d->readonly_why, sizeof(d->readonly_why), "it was opened read-only");
    __atomic_store_n(&d->readonly, true, __ATOMIC_RELEASE);
    SFS_UNLOCK(d);
}

void sfs_data_set_readonly(struct sfs_data *d, const char *fmt, ...)
{
    char why[sizeof(d->readonly_why)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    SFS_LOCK(d);
    bool first = !d->readonly;
    if (first) {
        snprintf(d->readonly_why, sizeof(d->readonly_why), "%s", why);
        __atomic_store_n(&d->readonly, true, __ATOMIC_RELEASE);
    }
    SFS_UNLOCK(d);
    if (first)
        sfs_log(SFS_LOG_ERROR, "the pool is read-only from now on: %s", why); /* the event can't reach the catalog any more */
    if (first)
        sfs_data_event(d, "error", "pool-readonly", 0, "the pool is read-only from now on: %s", why);
}

void sfs_data_event(struct sfs_data *d, const char *severity, const char *kind, int disk, const char *fmt, ...)
{
    if (!d->events.event)
        return;
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    d->events.event(d->events.ctx, severity, kind, disk, text);
}
