#include "fs/daemon/mounts_impl.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/daemon/mountinfo.h"
#include "fs/data/groups.h"

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

static void mount_free(struct sfs_mount *mt)
{
    if (!mt)
        return;
    free(mt->dir);
    free(mt->source);
    free(mt);
}

static struct sfs_mount *mount_new(struct sfs_mounts *m, const char *dir, const char *source,
                                   const struct sfs_mount_opts *opts)
{
    struct sfs_mount *mt = calloc(1, sizeof(*mt));

    if (!mt)
        return NULL;
    mt->table = m;
    mt->dir = strdup(dir);
    mt->source = strdup(source);
    mt->opts = *opts;
    if (!mt->dir || !mt->source) {
        mount_free(mt);
        return NULL;
    }
    return mt;
}

/* Lock held. By what is mounted, not by its name: a space may be renamed meanwhile. */
static struct sfs_mount *find_volume(struct sfs_mounts *m, const struct sfs_volume *volume)
{
    struct sfs_mount *mt;

    LIST_FOREACH(mt, &m->list, link)
    if (mt->state != DONE && mt->volume == volume)
        return mt;
    return NULL;
}

/* As the space is called now. */
static const char *space_name(struct sfs_volume *volume, char out[SFS_NAME_MAX + 1])
{
    struct sfs_space_row row;

    sfs_volume_settings(volume, &row);
    memcpy(out, row.name, sizeof(row.name));
    return out;
}

struct sfs_mount *sfs_mounts_find_dir(struct sfs_mounts *m, const char *dir)
{
    struct sfs_mount *mt;

    LIST_FOREACH(mt, &m->list, link)
    if (mt->state != DONE && !mt->detached && strcmp(mt->dir, dir) == 0)
        return mt;
    return NULL;
}

void sfs_mounts_drop(struct sfs_mounts *m, unsigned *count)
{
    sfs_mutex_lock(&m->lock);
    SFS_ASSERT(*count > 0);
    (*count)--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
}

/* --- a mount's life --------------------------------------------------------------------------- */

static void serve(void *arg)
{
    struct sfs_mount *mt = arg;
    struct sfs_mounts *m = mt->table;
    char name[SFS_NAME_MAX + 1];
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
        sfs_pool_event(m->pool, "error", "unmount", space_name(mt->volume, name),
                       "not everything could be stored when %s was unmounted: %s", mt->dir, strerror(-rc));
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

void sfs_mount_fuse_opts(const struct sfs_mount *mt, const struct sfs_mount_opts *o,
                         struct sfs_fuse_opts *out)
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

static int mount_in_turn(struct sfs_mounts *m, struct sfs_mount *mt, struct sfs_error *err)
{
    struct sfs_fuse_opts opts;
    int rc;

    sfs_mount_fuse_opts(mt, &mt->opts, &opts);
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

/* Why a space is mounted read-only though that was not asked for, or that disks are missing, in words; "" when all is as it should be. */
static void judge_writing(struct sfs_mounts *m, struct sfs_mount *mt, const char *space, struct sfs_error *note)
{
    const char *pool = sfs_pool_name(m->pool);
    bool readable = sfs_pool_space_readable(m->pool, space);

    *note = (struct sfs_error){0};
    if (mt->opts.readonly)
        return;
    if (!readable && mt->opts.degraded != SFS_DEGRADED_RW)
        sfs_error_set(note, -EROFS,
                      "%s/%s is mounted read-only: some of its files cannot be read without the disks that are missing (see `spacesfs status %s`). "
                      "Connect them (if they have moved: `spacesfs pool import DIR`, with the directory that they lie in) and mount it again, or write all the same with the mount option degraded=rw",
                      pool, space, pool);
    else if (sfs_pool_readonly(m->pool))
        sfs_error_set(note, -EROFS, "%s/%s is mounted read-only, because pool %s is open read-only (see `spacesfs status %s`)%s", pool,
                      space, pool, pool, readable ? "" : ". To write, unmount all of it first");
    else if (readable && sfs_pool_disks_away(m->pool) > 0)
        sfs_error_set(note, -ENODEV, "%s/%s is mounted without disks that are missing: all of its files can be read and written (see `spacesfs status %s`)", pool, space, pool);
    mt->opts.readonly = note->code == -EROFS;
}

/* Opens and mounts; on failure nothing of it is left but its hold on the volume. */
static int start(struct sfs_mounts *m, struct sfs_mount *mt, struct sfs_error *err)
{
    struct sfs_vfs_opts vfs_opts = {.readonly = mt->opts.readonly, .noatime = mt->opts.noatime};
    int rc;

    rc = sfs_vfs_open(mt->volume, &vfs_opts, &mt->vfs, err);
    if (rc < 0)
        return rc;
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
    return rc;
}

/* Is the space mounted right there, by a name that it had before? */
static bool is_there_by_former_name(const struct sfs_mount *other, const struct sfs_mount *wanted)
{
    return other->state == LIVE && strcmp(other->dir, wanted->dir) == 0 && strcmp(other->source, wanted->source) != 0;
}

/* Takes the place in the table. 0; 1: nothing is to be done, and note says why; or why not. */
static int claim(struct sfs_mounts *m, struct sfs_mount *mt, const char *space, struct sfs_error *note,
                 struct sfs_error *err)
{
    const struct sfs_mount *other;
    struct sfs_mountinfo there;
    bool covers = sfs_mountinfo_at(mt->dir, &there) == 0 && strcmp(there.type, SFS_FUSE_TYPE) == 0;
    int rc = 0;

    sfs_mutex_lock(&m->lock);
    other = find_volume(m, mt->volume);
    if (m->closed)
        rc = sfs_error_set(err, -ESHUTDOWN, "the daemon of pool %s is about to end", sfs_pool_name(m->pool));
    else if (other && other->state == ENDING)
        rc = sfs_error_set(err, -EAGAIN, "%s is being unmounted from %s", mt->source, other->dir);
    else if (other && other->detached)
        rc = sfs_error_set(err, -EBUSY, "%s/%s was unmounted lazily from %s, and programs still use it there",
                           sfs_pool_name(m->pool), space, other->dir);
    else if (other && is_there_by_former_name(other, mt)) {
        sfs_error_set(note, -EALREADY, "%s is mounted at %s already; the system lists it there as %s, as it was named when it was mounted, "
                      "until it is unmounted", mt->source, other->dir, other->source);
        rc = 1;
    } else if (other)
        rc = sfs_error_set(err, -EBUSY, "%s/%s is already mounted at %s", sfs_pool_name(m->pool), space, other->dir);
    else if (covers) /* it would be hidden, still in use */
        rc = sfs_error_set(err, -EBUSY, "%s is mounted on %s already: unmount it first (spacesfs umount %s), or choose another directory", there.source, mt->dir, mt->dir);
    else
        LIST_INSERT_HEAD(&m->list, mt, link);
    m->used = true;
    sfs_mutex_unlock(&m->lock);
    return rc;
}

int sfs_mounts_add(struct sfs_mounts *m, const char *space, const char *dir, const char *source,
                   const char *options, struct sfs_error *note, struct sfs_error *err)
{
    struct sfs_mount_opts opts;
    struct sfs_mount *mt;
    int rc;

    rc = sfs_mount_opts_parse(options, geteuid() == 0, &opts, err);
    if (rc < 0)
        return rc;
    mt = mount_new(m, dir, source, &opts);
    if (!mt)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    rc = sfs_pool_volume_get(m->pool, space, &mt->volume, err);
    if (rc < 0) {
        mount_free(mt);
        sfs_mutex_lock(&m->lock);
        m->used = true;
        sfs_mutex_unlock(&m->lock);
        m->changed(m->changed_ctx);
        return rc;
    }
    judge_writing(m, mt, space, note);
    mt->busy = 1; /* this call: the session stays until it has waited */
    rc = claim(m, mt, space, note, err);
    if (rc != 0) {
        sfs_pool_volume_put(m->pool, mt->volume);
        mount_free(mt);
        return rc < 0 ? rc : 0;
    }
    rc = start(m, mt, err);
    if (rc < 0) {
        sfs_mutex_lock(&m->lock);
        LIST_REMOVE(mt, link);
        sfs_mutex_unlock(&m->lock);
        sfs_pool_volume_put(m->pool, mt->volume);
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
    struct sfs_mount *mt, *next, *done = NULL;
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

/* --- looking ---------------------------------------------------------------------------------- */

json_t *sfs_mounts_list(struct sfs_mounts *m)
{
    json_t *list = json_array();
    char name[SFS_NAME_MAX + 1];
    const struct sfs_mount *mt;

    sfs_mutex_lock(&m->lock);
    LIST_FOREACH(mt, &m->list, link)
    if (list && mt->state == LIVE && !mt->detached &&
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b}", "space", space_name(mt->volume, name), "dir", mt->dir,
                                              "source", mt->source, "readonly", (int)mt->opts.readonly)) <
            0) {
        json_decref(list);
        list = NULL;
    }
    sfs_mutex_unlock(&m->lock);
    return list;
}

struct sfs_vfs *sfs_mounts_vfs_get(struct sfs_mounts *m, const char *space)
{
    struct sfs_vfs *vfs = NULL;
    struct sfs_volume *volume;
    struct sfs_mount *mt;

    sfs_mutex_lock(&m->lock);
    volume = sfs_volume_find_name(sfs_pool_data(m->pool), space);
    mt = volume ? find_volume(m, volume) : NULL;
    if (mt && mt->state == LIVE) {
        mt->busy++;
        vfs = mt->vfs;
    }
    sfs_mutex_unlock(&m->lock);
    return vfs;
}

void sfs_mounts_vfs_put(struct sfs_mounts *m, struct sfs_vfs *vfs)
{
    struct sfs_mount *mt;

    sfs_mutex_lock(&m->lock);
    LIST_FOREACH(mt, &m->list, link)
    if (mt->state != DONE && mt->vfs == vfs)
        break;
    SFS_ASSERT(mt && mt->busy > 0);
    mt->busy--;
    sfs_cond_broadcast(&m->cond);
    sfs_mutex_unlock(&m->lock);
}
