/* A disk leaves the pool. It holds no slabs any more, and gets none: its usage says so.
 *
 * Order, so that a crash anywhere leaves a pool that is whole:
 *   1 its replica of the catalog is made elsewhere, then taken out: new epoch on all labels
 *   2 the data layer forgets it (refused while a slab names it), and what emptied it is committed
 *   3 its label and files are taken off
 *   4 its row goes, durably; the others' labels no longer name it
 * Cut short between 3 and 4 it is a missing disk without slabs, and the job that removes it goes on at 4. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <string.h>

/* --- 1 -------------------------------------------------------------------------------------------------------------- */

static int leave_replicas(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    sfs_mutex_lock(&p->lock);
    pd->leaving = true;
    bool replica = pd->replica;
    sfs_mutex_unlock(&p->lock);
    if (!replica)
        return 0;
    sfs_pool_mend_replicas_locked(p);
    int rc = sfs_replicas_remove(p->replicas, sfs_pool_store_id(p, pd));
    if (rc == -ENOENT)
        rc = 0; /* it failed meanwhile: it was counted out */
    if (rc)
        return rc;
    sfs_mutex_lock(&p->lock);
    pd->replica = false;
    sfs_mutex_unlock(&p->lock);
    return sfs_pool_bump_epoch(p, 0);
}

/* --- 3 -------------------------------------------------------------------------------------------------------------- */

static void wipe(struct sfs_pool *p, struct sfs_pool_disk *pd, struct sfs_disk *handle)
{
    bool here = handle && sfs_disk_state(handle) == SFS_DISK_ONLINE;
    sfs_disk_close(handle);
    struct sfs_error err = {0};
    if (here && sfs_disk_wipe(p->env, pd->path, p->world, &p->uuid, &err))
        sfs_pool_event(p, "warning", "label-left", pd->name, "disk %s has left the pool, but its label could not be taken off %s: %s",
                       pd->name, pd->path, err.text);
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

static int delete_row(struct sfs_pool *p, int id)
{
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_disk_delete(p->cat, id);
    sfs_catalog_unlock(p->cat);
    return rc && rc != -ENOENT ? rc : sfs_commit_wait(p->data, false);
}

int sfs_pool_disk_leave(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    int rc = leave_replicas(p, pd);
    if (!rc) {
        rc = sfs_member_remove(p->data, pd->id);
        rc = rc == -EBUSY ? -EAGAIN : rc == -ENOENT ? 0 : rc;
    }
    if (!rc)
        rc = sfs_commit_wait(p->data, false); /* groups that were dropped with their slabs there */
    if (rc) {
        sfs_mutex_lock(&p->lock);
        pd->leaving = false;
        sfs_mutex_unlock(&p->lock);
        return rc;
    }
    sfs_mutex_lock(&p->lock);
    struct sfs_disk *handle = pd->disk;
    pd->disk = NULL;
    sfs_mutex_unlock(&p->lock);
    sfs_pool_wait_readers(p);
    wipe(p, pd, handle);
    rc = delete_row(p, pd->id);
    if (rc)
        return rc;
    sfs_mutex_lock(&p->lock);
    pd->used = false;
    pd->id = 0;
    pd->leaving = false;
    sfs_mutex_unlock(&p->lock);
    rc = sfs_pool_write_labels(p);
    sfs_pool_save_registry(p);
    return rc;
}
