#include "fs/daemon/mounts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/fuse/fuse.h"

/* How long an unmounted file system may take to end before we believe that another mount namespace still has it. */
#define ELSEWHERE_NS (10ull * 1000000000ull)

enum state { STARTING, LIVE, ENDING, DONE };

struct mount {
    LIST_ENTRY(mount) link;
    struct sfs_mounts *table;
    char *space, *dir, *source;   /* constant */
    struct sfs_mount_opts opts;
    struct sfs_volume *volume;
    struct sfs_vfs *vfs;
    struct sfs_fuse *fuse;
    struct sfs_thread *thread;
    enum state state;
    bool detached;                /* unmounted lazily: out of sight, but programs still use it */
    unsigned busy;                /* callers that use vfs or fuse: they stay until it is 0 */
    unsigned refs;                /* callers that wait for the end: the entry stays until it is 0 */
    int result;                   /* of storing what was left, once DONE */
};

struct sfs_mounts {
    struct sfs_pool *pool;
    struct sfs_env *env;
    void (*changed)(void *);
    void *changed_ctx;
    struct sfs_mutex lock;        /* guards what follows, and of each mount all that isn't constant */
    struct sfs_cond cond;         /* any state, busy or refs has changed */
    LIST_HEAD(, mount) list;
    bool closed, used;
    bool mounting;                /* one at a time (fs/fuse/fuse.h) */
};

struct sfs_mounts *sfs_mounts_new(struct sfs_pool *pool, void (*changed)(void *), void *ctx)
{
    struct sfs_mounts *m = calloc(1, sizeof(*m));

    if (!m)
        return NULL;
    m->pool = pool;
    m->env = sfs_pool_env(pool);
    m->changed = changed;
    m->changed_ctx = ctx;
    sfs_mutex_init(&m->lock, m->env, SFS_RANK_DAEMON);
    sfs_cond_init(&m->cond, m->env);
    LIST_INIT(&m->list);
    return m;
}

void sfs_mounts_free(struct sfs_mounts *m)
{
    if (!m)
        return;
    SFS_ASSERT(LIST_EMPTY(&m->list));
    sfs_cond_destroy(&m->cond);
    sfs_mutex_destroy(&m->lock);
    free(m);
}

static void mount_free(struct mount *mt)
{
    if (!mt)
        return;
    free(mt->space);
    free(mt->dir);
    free(mt->source);
    free(mt);
}

static struct mount *mount_new(struct sfs_mounts *m, const char *space, const char *dir, const char *source, const struct sfs_mount_opts *opts)
{
    struct mount *mt = calloc(1, sizeof(*mt));

    if (!mt)
        return NULL;
    mt->table = m;
    mt->space = strdup(space);
    mt->dir = strdup(dir);
    mt->source = strdup(source);
    mt->opts = *opts;
    if (!mt->space || !mt->dir || !mt->source) {
        mount_free(mt);
        return NULL;
    }
    return mt;
}

/* Lock held. */
static struct mount *find_space(struct sfs_mounts *m, const char *space)
{
    struct mount *mt;

    LIST_FOREACH(mt, &m->list, link)
        if (mt->state != DONE && strcmp(mt->space, space) == 0)
            return mt;
    return NULL;
}

static struct mount *find_dir(struct sfs_mounts *m, const char *dir)
{
    struct mount *mt;

    LIST_FOREACH(mt, &m->list, link)
        if (mt->state != DONE && !mt->detached && strcmp(mt->dir, dir) == 0)
            return mt;
    return NULL;
}

static void drop(struct sfs_mounts *m, unsigned *count)
{
    sfs_mutex_lock(&m->lock);
    SFS_ASSERT(*count > 0);
    (*count)--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
}

/* --- a mount's life ---------------------------------------------------------------------------------------------------------------------- */

static void serve(void *arg)
{
    struct mount *mt = arg;
    struct sfs_mounts *m = mt->table;
    int rc;

    rc = sfs_fuse_run(mt->fuse);
    if (rc < 0)
        sfs_log(SFS_LOG_ERROR, "%s: serving the kernel failed: %s", mt->dir, strerror(-rc));

    sfs_mutex_lock(&m->lock);
    mt->state = ENDING;
    sfs_cond_broadcast(&m->cond);
    while (mt->busy > 0)
        sfs_cond_wait(&m->cond, &m->lock);
    sfs_mutex_unlock(&m->lock);

    sfs_fuse_free(mt->fuse);
    rc = sfs_vfs_close(mt->vfs);
    if (rc < 0) {
        sfs_log(SFS_LOG_ERROR, "%s: not everything could be stored: %s", mt->dir, strerror(-rc));
        sfs_pool_event(m->pool, "error", "unmount", mt->space, "not everything could be stored when %s was unmounted: %s", mt->dir, strerror(-rc));
    }
    sfs_pool_volume_put(m->pool, mt->volume);

    sfs_mutex_lock(&m->lock);
    mt->fuse = NULL;
    mt->vfs = NULL;
    mt->volume = NULL;
    mt->result = rc;
    mt->state = DONE;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
    m->changed(m->changed_ctx);
}

static void fuse_opts(const struct mount *mt, const struct sfs_mount_opts *o, struct sfs_fuse_opts *out)
{
    *out = (struct sfs_fuse_opts){
        .source = mt->source,
        .readonly = o->readonly,
        .noatime = o->noatime,
        .nodev = o->nodev,
        .nosuid = o->nosuid,
        .noexec = o->noexec,
        .sync = o->sync,
        .allow_other = o->allow_other,
    };
}

static int mount_in_turn(struct sfs_mounts *m, struct mount *mt, struct sfs_error *err)
{
    struct sfs_fuse_opts opts;
    int rc;

    fuse_opts(mt, &mt->opts, &opts);
    sfs_mutex_lock(&m->lock);
    while (m->mounting)
        sfs_cond_wait(&m->cond, &m->lock);
    m->mounting = true;
    sfs_mutex_unlock(&m->lock);
    rc = sfs_fuse_mount(m->env, mt->vfs, mt->dir, &opts, &mt->fuse, err);
    sfs_mutex_lock(&m->lock);
    m->mounting = false;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
    return rc;
}

/* Can nothing be written, whatever was asked for (degraded=ro, doubt about committed state)? Then the mount shows it. */
static bool pool_is_readonly(struct sfs_pool *pool)
{
    struct sfs_pool_info *info;
    bool readonly;

    if (sfs_pool_info(pool, &info) < 0)
        return sfs_data_readonly(sfs_pool_data(pool));
    readonly = info->readonly;
    sfs_pool_info_free(info);
    return readonly;
}

/* Opens and mounts; on failure nothing of it is left. */
static int start(struct sfs_mounts *m, struct mount *mt, struct sfs_error *err)
{
    struct sfs_vfs_opts vfs_opts = {.readonly = mt->opts.readonly, .noatime = mt->opts.noatime};
    int rc;

    rc = sfs_pool_volume_get(m->pool, mt->space, &mt->volume, err);
    if (rc < 0)
        return rc;
    rc = sfs_vfs_open(mt->volume, &vfs_opts, &mt->vfs, err);
    if (rc < 0)
        goto put_volume;
    rc = mount_in_turn(m, mt, err);
    if (rc < 0)
        goto close_vfs;
    rc = sfs_thread_start(m->env, "mount", serve, mt, &mt->thread);
    if (rc == 0)
        return 0;
    sfs_error_set(err, rc, "no thread for %s: %s", mt->dir, strerror(-rc));
    sfs_fuse_free(mt->fuse);
    mt->fuse = NULL;
close_vfs:
    sfs_vfs_close(mt->vfs); /* it has written nothing */
    mt->vfs = NULL;
put_volume:
    sfs_pool_volume_put(m->pool, mt->volume);
    mt->volume = NULL;
    return rc;
}

/* Takes the place in the table. 0, or why not. */
static int claim(struct sfs_mounts *m, struct mount *mt, struct sfs_error *err)
{
    const struct mount *other;
    int rc = 0;

    sfs_mutex_lock(&m->lock);
    other = find_space(m, mt->space);
    if (m->closed)
        rc = sfs_error_set(err, -ESHUTDOWN, "the daemon of pool %s is about to end", sfs_pool_name(m->pool));
    else if (other && other->state == ENDING)
        rc = sfs_error_set(err, -EAGAIN, "%s is being unmounted from %s", mt->source, other->dir);
    else if (other && other->detached)
        rc = sfs_error_set(err, -EBUSY, "%s/%s was unmounted lazily from %s, and programs still use it there", sfs_pool_name(m->pool), mt->space, other->dir);
    else if (other)
        rc = sfs_error_set(err, -EBUSY, "%s/%s is already mounted at %s", sfs_pool_name(m->pool), mt->space, other->dir);
    else
        LIST_INSERT_HEAD(&m->list, mt, link);
    m->used = true;
    sfs_mutex_unlock(&m->lock);
    return rc;
}

int sfs_mounts_add(struct sfs_mounts *m, const char *space, const char *dir, const char *source, const char *options, struct sfs_error *err)
{
    struct sfs_mount_opts opts;
    struct mount *mt;
    int rc;

    rc = sfs_mount_opts_parse(options, geteuid() == 0, &opts, err);
    if (rc < 0)
        return rc;
    mt = mount_new(m, space, dir, source, &opts);
    if (!mt)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    if (pool_is_readonly(m->pool))
        mt->opts.readonly = true;
    mt->busy = 1; /* this call: the session stays until it has waited */
    rc = claim(m, mt, err);
    if (rc < 0) {
        mount_free(mt);
        return rc;
    }
    rc = start(m, mt, err);
    if (rc < 0) {
        sfs_mutex_lock(&m->lock);
        LIST_REMOVE(mt, link);
        sfs_mutex_unlock(&m->lock);
        mount_free(mt);
        m->changed(m->changed_ctx);
        return rc;
    }
    rc = sfs_fuse_wait_ready(mt->fuse, err);
    sfs_mutex_lock(&m->lock);
    if (mt->state == STARTING)
        mt->state = LIVE;
    mt->busy--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
    if (rc == 0)
        sfs_log(SFS_LOG_INFO, "%s is mounted at %s", source, dir);
    return rc;
}

/* --- changing and ending ----------------------------------------------------------------------------------------------------------------- */

/* Finds a live mount and makes it stay. */
static int hold(struct sfs_mounts *m, const char *dir, struct mount **out, struct sfs_error *err)
{
    struct mount *mt;
    int rc = 0;

    sfs_mutex_lock(&m->lock);
    mt = find_dir(m, dir);
    while (mt && mt->state == STARTING) {
        sfs_cond_wait(&m->cond, &m->lock);
        mt = find_dir(m, dir);
    }
    if (!mt) {
        rc = sfs_error_set(err, -EINVAL, "%s: no space of pool %s is mounted there", dir, sfs_pool_name(m->pool));
    } else {
        mt->refs++;
        mt->busy++;
        *out = mt;
    }
    sfs_mutex_unlock(&m->lock);
    return rc;
}

static int switch_mode(struct sfs_mounts *m, struct mount *mt, const struct sfs_mount_opts *now, struct sfs_error *err)
{
    struct sfs_fuse_opts opts;
    int rc;

    fuse_opts(mt, now, &opts);
    /* Whoever says "read-only" first closes the door: the kernel on the way to it, the vfs on the way back opens first. */
    if (!now->readonly) {
        rc = sfs_vfs_set_readonly(mt->vfs, false);
        if (rc == -EROFS) {
            const char *why = sfs_data_readonly_why(sfs_pool_data(m->pool));

            return sfs_error_set(err, rc, "%s cannot be made writable: pool %s is read-only%s%s", mt->dir, sfs_pool_name(m->pool), *why ? ": " : "", why);
        }
        if (rc < 0)
            return sfs_error_set(err, rc, "%s cannot be made writable: %s", mt->dir, strerror(-rc));
        return sfs_fuse_remount(mt->fuse, &opts, err);
    }
    rc = sfs_fuse_remount(mt->fuse, &opts, err);
    if (rc < 0)
        return rc;
    rc = sfs_vfs_set_readonly(mt->vfs, true);
    if (rc < 0)
        return sfs_error_set(err, rc, "%s is read-only now, but not everything could be stored: %s", mt->dir, strerror(-rc));
    return 0;
}

int sfs_mounts_remount(struct sfs_mounts *m, const char *dir, const char *options, struct sfs_error *err)
{
    struct sfs_mount_opts opts;
    struct mount *mt;
    bool live;
    int rc;

    rc = sfs_mount_opts_parse(options, geteuid() == 0, &opts, err);
    if (rc == 0)
        rc = hold(m, dir, &mt, err);
    if (rc < 0)
        return rc;
    sfs_mutex_lock(&m->lock);
    live = mt->state == LIVE;
    sfs_mutex_unlock(&m->lock);
    rc = live ? switch_mode(m, mt, &opts, err) : sfs_error_set(err, -EBUSY, "%s is being unmounted", dir);
    sfs_mutex_lock(&m->lock);
    if (rc == 0)
        mt->opts.readonly = opts.readonly;
    mt->busy--;
    mt->refs--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
    m->changed(m->changed_ctx);
    return rc;
}

/* Waits until an unmounted mount is done. False: it goes on, since somebody else still has it. Lock held. */
static bool wait_done(struct sfs_mounts *m, const struct mount *mt, uint64_t limit_ns)
{
    uint64_t deadline = sfs_env_mono_ns(m->env) + limit_ns;

    while (mt->state == LIVE)
        if (sfs_cond_wait_until(&m->cond, &m->lock, deadline) == -ETIMEDOUT && mt->state == LIVE)
            return false;
    while (mt->state != DONE) /* it stores what is left: that takes what it takes */
        sfs_cond_wait(&m->cond, &m->lock);
    return true;
}

static bool is_last(struct sfs_mounts *m, const struct mount *mt)
{
    const struct mount *other;

    LIST_FOREACH(other, &m->list, link)
        if (other != mt && other->state != DONE)
            return false;
    return true;
}

static int stored(struct sfs_vfs *vfs, const char *dir, struct sfs_error *err)
{
    int rc = sfs_vfs_sync(vfs);

    return rc < 0 ? sfs_error_set(err, rc, "%s: not everything could be stored: %s", dir, strerror(-rc)) : 0;
}

int sfs_mounts_umount(struct sfs_mounts *m, const char *dir, bool lazy, bool *last, struct sfs_error *warn, struct sfs_error *err)
{
    bool live, done = false;
    struct mount *mt;
    int rc;

    *last = false;
    rc = hold(m, dir, &mt, err);
    if (rc < 0)
        return rc;
    sfs_mutex_lock(&m->lock);
    live = mt->state == LIVE;
    sfs_mutex_unlock(&m->lock);
    if (live)
        rc = sfs_fuse_unmount(mt->fuse, lazy, err);
    if (live && rc == 0 && lazy) {
        sfs_mutex_lock(&m->lock);
        mt->detached = true;
        sfs_mutex_unlock(&m->lock);
        rc = stored(mt->vfs, dir, err);
    }
    drop(m, &mt->busy); /* from here on it may end */
    if (rc == 0 && !(live && lazy)) {
        sfs_mutex_lock(&m->lock);
        done = wait_done(m, mt, ELSEWHERE_NS);
        rc = done ? mt->result : 0;
        *last = done && is_last(m, mt);
        sfs_mutex_unlock(&m->lock);
        if (rc < 0)
            sfs_error_set(err, rc, "%s is unmounted, but not everything could be stored: %s", dir, strerror(-rc));
    }
    if (rc == 0 && !done && !lazy) {
        rc = sfs_pool_sync(m->pool);
        if (rc < 0)
            sfs_error_set(err, rc, "%s: not everything could be stored: %s", dir, strerror(-rc));
        else
            sfs_error_set(warn, -EBUSY, "%s is unmounted here, but the mount lives on in another mount namespace (a container?)", dir);
    }
    drop(m, &mt->refs);
    m->changed(m->changed_ctx);
    return rc;
}

/* Also while programs use it: they lose it. */
static void end(struct sfs_mounts *m, struct mount *mt)
{
    struct sfs_error err = {0};
    bool detached;

    sfs_mutex_lock(&m->lock);
    detached = mt->detached;
    sfs_mutex_unlock(&m->lock);
    /* What is detached has no name any more by which to unmount it. */
    if (detached || sfs_fuse_unmount(mt->fuse, false, &err) < 0) {
        sfs_log(SFS_LOG_WARN, "%s is taken away from programs that use it", mt->dir);
        if (!detached && sfs_fuse_unmount(mt->fuse, true, &err) < 0)
            sfs_log(SFS_LOG_WARN, "%s", err.text);
        sfs_fuse_stop(mt->fuse);
    }
    drop(m, &mt->busy);
    sfs_mutex_lock(&m->lock);
    if (!wait_done(m, mt, ELSEWHERE_NS)) {
        /* Another mount namespace has it. */
        mt->busy++;
        sfs_mutex_unlock(&m->lock);
        sfs_fuse_stop(mt->fuse);
        drop(m, &mt->busy);
        sfs_mutex_lock(&m->lock);
        wait_done(m, mt, UINT64_MAX / 2);
    }
    sfs_mutex_unlock(&m->lock);
}

void sfs_mounts_end_all(struct sfs_mounts *m)
{
    struct mount *mt;

    sfs_mutex_lock(&m->lock);
    SFS_ASSERT(m->closed);
    for (;;) {
        LIST_FOREACH(mt, &m->list, link)
            if (mt->state != DONE)
                break;
        if (!mt)
            break;
        if (mt->state == LIVE) {
            mt->refs++;
            mt->busy++;
            sfs_mutex_unlock(&m->lock);
            end(m, mt);
            drop(m, &mt->refs);
            sfs_mutex_lock(&m->lock);
        } else {
            sfs_cond_wait(&m->cond, &m->lock);
        }
    }
    sfs_mutex_unlock(&m->lock);
    while (sfs_mounts_reap(m) > 0)
        sfs_env_sleep_ns(m->env, 10000000ull); /* a caller is about to let go of one */
}

bool sfs_mounts_close(struct sfs_mounts *m, bool only_if_empty)
{
    bool close;

    sfs_mutex_lock(&m->lock);
    close = !only_if_empty || LIST_EMPTY(&m->list);
    if (close)
        m->closed = true;
    sfs_mutex_unlock(&m->lock);
    return close;
}

bool sfs_mounts_used(struct sfs_mounts *m)
{
    bool used;

    sfs_mutex_lock(&m->lock);
    used = m->used;
    sfs_mutex_unlock(&m->lock);
    return used;
}

bool sfs_mounts_closed(struct sfs_mounts *m)
{
    bool closed;

    sfs_mutex_lock(&m->lock);
    closed = m->closed;
    sfs_mutex_unlock(&m->lock);
    return closed;
}

unsigned sfs_mounts_reap(struct sfs_mounts *m)
{
    struct mount *mt, *next, *done = NULL;
    unsigned left = 0;

    sfs_mutex_lock(&m->lock);
    for (mt = LIST_FIRST(&m->list); mt; mt = next) {
        next = LIST_NEXT(mt, link);
        if (mt->state == DONE && mt->refs == 0 && !done) {
            LIST_REMOVE(mt, link);
            done = mt;
        } else {
            left++;
        }
    }
    sfs_mutex_unlock(&m->lock);
    if (!done)
        return left;
    sfs_thread_join(done->thread);
    sfs_log(SFS_LOG_INFO, "%s is unmounted from %s", done->source, done->dir);
    mount_free(done);
    return left > 0 ? sfs_mounts_reap(m) : 0;
}

/* --- looking ----------------------------------------------------------------------------------------------------------------------------- */

json_t *sfs_mounts_list(struct sfs_mounts *m)
{
    json_t *list = json_array();
    const struct mount *mt;

    sfs_mutex_lock(&m->lock);
    LIST_FOREACH(mt, &m->list, link)
        if (list && mt->state == LIVE && !mt->detached &&
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "space", mt->space, "dir", mt->dir, "source", mt->source, "readonly",
                                                  (int)mt->opts.readonly)) < 0) {
            json_decref(list);
            list = NULL;
        }
    sfs_mutex_unlock(&m->lock);
    return list;
}

struct sfs_vfs *sfs_mounts_vfs_get(struct sfs_mounts *m, const char *space)
{
    struct sfs_vfs *vfs = NULL;
    struct mount *mt;

    sfs_mutex_lock(&m->lock);
    mt = find_space(m, space);
    if (mt && mt->state == LIVE) {
        mt->busy++;
        vfs = mt->vfs;
    }
    sfs_mutex_unlock(&m->lock);
    return vfs;
}

void sfs_mounts_vfs_put(struct sfs_mounts *m, const char *space)
{
    struct mount *mt;

    sfs_mutex_lock(&m->lock);
    mt = find_space(m, space);
    SFS_ASSERT(mt && mt->busy > 0);
    mt->busy--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
}
