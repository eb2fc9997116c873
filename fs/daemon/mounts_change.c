/* Remounting, unmounting, and the end of all mounts. */
#include "fs/daemon/mounts_impl.h"

#include <string.h>
#include <unistd.h>

#include "fs/base/log.h"

/* How long an unmounted file system may take to end before we believe that another mount namespace still has
 * it. */
#define ELSEWHERE_NS (10ull * 1000000000ull)

/* Finds a live mount and makes it stay. */
static int hold(struct sfs_mounts *m, const char *dir, struct sfs_mount **out, struct sfs_error *err)
{
    struct sfs_mount *mt;
    int rc = 0;

    sfs_mutex_lock(&m->lock);
    mt = sfs_mounts_find_dir(m, dir);
    while (mt && mt->state == STARTING) {
        sfs_cond_wait(&m->cond, &m->lock);
        mt = sfs_mounts_find_dir(m, dir);
    }
    if (!mt) {
        rc = sfs_error_set(err, -EINVAL, "%s: no space of pool %s is mounted there", dir,
                           sfs_pool_name(m->pool));
    } else {
        mt->refs++;
        mt->busy++;
        *out = mt;
    }
    sfs_mutex_unlock(&m->lock);
    return rc;
}

static int switch_mode(struct sfs_mounts *m, struct sfs_mount *mt, const struct sfs_mount_opts *now,
                       struct sfs_error *err)
{
    struct sfs_fuse_opts opts;
    int rc;

    sfs_mount_fuse_opts(mt, now, &opts);
    /* Whoever says "read-only" first closes the door: the kernel on the way to it, the vfs on the way back
     * opens first. */
    if (!now->readonly) {
        rc = sfs_vfs_set_readonly(mt->vfs, false);
        if (rc == -EROFS) {
            const char *why = sfs_data_readonly_why(sfs_pool_data(m->pool));

            return sfs_error_set(err, rc, "%s cannot be made writable: pool %s is read-only%s%s", mt->dir,
                                 sfs_pool_name(m->pool), *why ? ": " : "", why);
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
        return sfs_error_set(err, rc, "%s is read-only now, but not everything could be stored: %s", mt->dir,
                             strerror(-rc));
    return 0;
}

int sfs_mounts_remount(struct sfs_mounts *m, const char *dir, const char *options, struct sfs_error *err)
{
    struct sfs_mount_opts opts;
    struct sfs_mount *mt;
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
static bool wait_done(struct sfs_mounts *m, const struct sfs_mount *mt, uint64_t limit_ns)
{
    uint64_t deadline = sfs_env_mono_ns(m->env) + limit_ns;

    while (mt->state == LIVE)
        if (sfs_cond_wait_until(&m->cond, &m->lock, deadline) == -ETIMEDOUT && mt->state == LIVE)
            return false;
    while (mt->state != DONE) /* it stores what is left: that takes what it takes */
        sfs_cond_wait(&m->cond, &m->lock);
    return true;
}

static bool is_last(struct sfs_mounts *m, const struct sfs_mount *mt)
{
    const struct sfs_mount *other;

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

int sfs_mounts_umount(struct sfs_mounts *m, const char *dir, bool lazy, bool *last, struct sfs_error *warn,
                      struct sfs_error *err)
{
    bool live, done = false;
    struct sfs_mount *mt;
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
    sfs_mounts_drop(m, &mt->busy); /* from here on it may end */
    if (rc == 0 && !(live && lazy)) {
        sfs_mutex_lock(&m->lock);
        done = wait_done(m, mt, ELSEWHERE_NS);
        rc = done ? mt->result : 0;
        *last = done && is_last(m, mt);
        sfs_mutex_unlock(&m->lock);
        if (rc < 0)
            sfs_error_set(err, rc, "%s is unmounted, but not everything could be stored: %s", dir,
                          strerror(-rc));
    }
    if (rc == 0 && !done && !lazy) {
        rc = sfs_pool_sync(m->pool);
        if (rc < 0)
            sfs_error_set(err, rc, "%s: not everything could be stored: %s", dir, strerror(-rc));
        else
            sfs_error_set(
                warn, -EBUSY,
                "%s is unmounted here, but the mount lives on in another mount namespace (a container?)",
                dir);
    }
    sfs_mounts_drop(m, &mt->refs);
    m->changed(m->changed_ctx);
    return rc;
}

/* Also while programs use it: they lose it. */
static void end(struct sfs_mounts *m, struct sfs_mount *mt)
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
    sfs_mounts_drop(m, &mt->busy);
    sfs_mutex_lock(&m->lock);
    if (!wait_done(m, mt, ELSEWHERE_NS)) {
        /* Another mount namespace has it. */
        mt->busy++;
        sfs_mutex_unlock(&m->lock);
        sfs_fuse_stop(mt->fuse);
        sfs_mounts_drop(m, &mt->busy);
        sfs_mutex_lock(&m->lock);
        wait_done(m, mt, UINT64_MAX / 2);
    }
    sfs_mutex_unlock(&m->lock);
}

void sfs_mounts_end_all(struct sfs_mounts *m)
{
    struct sfs_mount *mt;

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
            sfs_mounts_drop(m, &mt->refs);
            sfs_mutex_lock(&m->lock);
        } else {
            sfs_cond_wait(&m->cond, &m->lock);
        }
    }
    sfs_mutex_unlock(&m->lock);
    while (sfs_mounts_reap(m) > 0)
        sfs_env_sleep_ns(m->env, 10000000ull); /* a caller is about to let go of one */
}
