/* Deleting what has no name and is not open any more.
 *
 * Such an inode stays in the catalog with nlink 0 until its rows are gone: a crash leaves it there for the
 * next open (an orphan). Small ones go in the call that took the last name; the others here, a few rows at a
 * time, so that the catalog is never held for long. An inode is dead from the moment when it is queued:
 * nobody opens or links it again. */
#include "fs/vfs/vfs_impl.h"

#include "fs/base/log.h"

#define SMALL_ROWS 64u
#define CHUNK_ROWS 1000u

static int delete_rows(struct sfs_vfs *vfs, uint64_t ino, unsigned max, bool *all)
{
    unsigned n = 0;
    int rc =
        sfs_catalog_extent_delete(vfs->cat, ino, 0, SFS_OFFSET_MAX, max, sfs_commit_removed, vfs->data, &n);

    *all = !rc && n < max;
    return rc;
}

int sfs_reap_small(struct sfs_inode *i, bool *gone)
{
    bool all;
    int rc = delete_rows(i->vfs, i->ino, SMALL_ROWS, &all);

    *gone = false;
    if (rc || !all)
        return rc;
    rc = sfs_catalog_inode_delete(i->vfs->cat, i->ino);
    *gone = rc == 0;
    return rc;
}

/* Deletes everything of an inode from the catalog. */
static int reap(struct sfs_vfs *vfs, uint64_t ino)
{
    bool all = false;
    int rc;

    do {
        sfs_catalog_lock(vfs->cat);
        rc = delete_rows(vfs, ino, CHUNK_ROWS, &all);
        if (!rc && all)
            rc = sfs_catalog_inode_delete(vfs->cat, ino);
        sfs_catalog_unlock(vfs->cat);
        sfs_vfs_kick_by_volume(vfs);
    } while (!rc && !all);
    return rc;
}

/* A dead inode that was in a batch when it died: only once that is applied nothing is added to it any more.
 * */
static void wait_for_batch(struct sfs_inode *i)
{
    struct sfs_lockset set = {.vfs = i->vfs, .v = {i}, .n = 1};

    sfs_lockset_lock(&set, 1, false);
    sfs_lockset_unlock(&set);
}

void sfs_reap_later(struct sfs_inode *i)
{
    struct sfs_vfs *vfs = i->vfs;
    bool queue;

    sfs_mutex_lock(&i->lock);
    /* somebody may have opened it since; then its release comes here again */
    queue = i->row.nlink == 0 && i->nopen == 0 && !i->dead;
    if (queue) {
        sfs_inode_bury(i);
        sfs_mutex_lock(&vfs->table_lock);
        sfs_inode_list_add(&vfs->reap, &i->reap);
        sfs_cond_signal(&vfs->reap_work);
        sfs_mutex_unlock(&vfs->table_lock);
    }
    sfs_mutex_unlock(&i->lock);
}

/* The next orphan of a crash: one that nobody has in memory. With the namespace lock held no inode is between
 * the catalog and the table. */
static int next_orphan(struct sfs_vfs *vfs, uint64_t after, uint64_t *ino)
{
    int rc;

    sfs_mutex_lock(&vfs->ns);
    do {
        sfs_catalog_lock(vfs->cat);
        rc = sfs_catalog_orphan_next(vfs->cat, vfs->space, after, ino);
        sfs_catalog_unlock(vfs->cat);
        after = *ino;
    } while (!rc && sfs_inode_known(vfs, *ino));
    sfs_mutex_unlock(&vfs->ns);
    return rc;
}

static bool stopping(struct sfs_vfs *vfs)
{
    sfs_mutex_lock(&vfs->table_lock);
    bool stop = vfs->stop_reaper;
    sfs_mutex_unlock(&vfs->table_lock);
    return stop;
}

static void reap_orphans(struct sfs_vfs *vfs)
{
    uint64_t ino = 0;
    int rc = 0;

    while (!rc && !stopping(vfs) && !sfs_vfs_writable(vfs)) {
        rc = next_orphan(vfs, ino, &ino);
        if (!rc)
            rc = reap(vfs, ino);
    }
    if (rc && rc != -ENOENT)
        sfs_log(SFS_LOG_WARN, "deleting files that were unlinked while open before a crash: %d", rc);
}

static void reaper_main(void *arg)
{
    struct sfs_vfs *vfs = arg;

    reap_orphans(vfs);
    sfs_mutex_lock(&vfs->table_lock);
    for (;;) {
        struct sfs_inode_link *k = TAILQ_FIRST(&vfs->reap);
        if (!k) {
            vfs->reaping = false;
            sfs_cond_broadcast(&vfs->reap_idle);
            if (vfs->stop_reaper)
                break;
            sfs_cond_wait(&vfs->reap_work, &vfs->table_lock);
            continue;
        }
        struct sfs_inode *i = k->inode;
        vfs->reaping = true;
        sfs_inode_hold(i);
        sfs_inode_list_remove(&vfs->reap, k);
        sfs_mutex_unlock(&vfs->table_lock);
        wait_for_batch(i);
        (void)reap(vfs, i->ino); /* failing, the catalog is broken; the orphan waits for the next open */
        sfs_inode_put(i);
        sfs_mutex_lock(&vfs->table_lock);
    }
    sfs_mutex_unlock(&vfs->table_lock);
}

int sfs_reaper_start(struct sfs_vfs *vfs)
{
    return sfs_thread_start(vfs->env, "sfs-reap", reaper_main, vfs, &vfs->reaper_thread);
}

void sfs_reaper_wait(struct sfs_vfs *vfs)
{
    sfs_mutex_lock(&vfs->table_lock);
    while (vfs->reaper_thread && (vfs->reaping || !TAILQ_EMPTY(&vfs->reap)))
        sfs_cond_wait(&vfs->reap_idle, &vfs->table_lock);
    sfs_mutex_unlock(&vfs->table_lock);
}

void sfs_reaper_stop(struct sfs_vfs *vfs)
{
    if (!vfs->reaper_thread)
        return;
    sfs_mutex_lock(&vfs->table_lock);
    vfs->stop_reaper = true;
    sfs_cond_broadcast(&vfs->reap_work);
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_thread_join(vfs->reaper_thread);
    vfs->reaper_thread = NULL;
}
