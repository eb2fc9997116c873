/* Disks whose contents may not be what was written to them: back after errors, truncated, or from an earlier time (a copy of an image put back, a device's snapshot rolled back).
 * Such a disk is in use like any other, for nothing unverified is returned; but until every copy on it has been compared with its checksums, and made good, redundancy is only believed.
 *
 * How an earlier time shows, within one epoch: the disk's label has a lower generation than the catalog says was seen on it, or its copy of the catalog is older than a crash explains.
 * What doesn't show: a disk without a copy of the catalog, rolled back to a moment since the pool was last opened (labels are written then). Its checksums do, at the next scrub.
 * The mark is a row's, so that a restart doesn't forget it. */
#include "fs/pool/pool_impl.h"

#include <stdlib.h>

static bool is_suspect(struct sfs_pool *p, const struct sfs_pool_disk *pd)
{
    sfs_mutex_lock(&p->lock);
    bool yes = pd->suspect;
    sfs_mutex_unlock(&p->lock);
    return yes;
}

void sfs_pool_suspect(struct sfs_pool *p, struct sfs_pool_disk *pd, const char *why)
{
    sfs_mutex_lock(&p->lock);
    bool known = pd->suspect;
    pd->suspect = true;
    sfs_mutex_unlock(&p->lock);
    if (!known && why)
        sfs_pool_event(p, "warning", "disk-suspect", pd->name, "disk %s (%s): %s. Everything on it is verified now; what is not good any more is made anew from other disks", pd->name, pd->path, why);
}

void sfs_pool_suspect_look(struct sfs_pool *p, struct sfs_pool_disk *pd, const struct sfs_disk_row *row)
{
    if (row->suspect)
        sfs_pool_suspect(p, pd, NULL); /* told when it was found */
    if (!pd->disk || p->readonly)
        return;
    if (pd->opened_generation < row->label_seen)
        sfs_pool_suspect(p, pd, "it is as it was at an earlier time (has a copy of it been put back?)");
    else if (row->usage != SFS_USAGE_RETIRED && /* one that leaves loses its copy file by file; what it holds is verified as it is moved */
             p->replicas && sfs_replicas_was_behind(p->replicas, sfs_pool_store_id(p, pd)))
        sfs_pool_suspect(p, pd, "its copy of the catalog was older than the others, or damaged (has a copy of the disk been put back?)");
    else if (sfs_disk_end_lost(pd->disk))
        sfs_pool_suspect(p, pd, "the label at its end is gone (was it made shorter, and longer again?)");
}

void sfs_pool_suspect_row(struct sfs_pool *p, const struct sfs_pool_disk *pd, struct sfs_disk_row *row)
{
    struct sfs_label *l = pd->disk && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE ? malloc(sizeof(*l)) : NULL;
    row->suspect = is_suspect(p, pd);
    if (!l)
        return;
    sfs_disk_label(pd->disk, l); /* it has been written: a disk that fails that is out of use */
    if (sfs_disk_state(pd->disk) == SFS_DISK_ONLINE)
        row->label_seen = l->generation;
    free(l);
}

struct change {
    int id;
    struct sfs_disk_row row;
};

static int find(const struct sfs_disk_row *row, void *ctx)
{
    struct change *c = ctx;
    c->row = *row;
    return row->id == c->id;
}

void sfs_pool_suspect_store(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    struct change c = {.id = pd->id};
    if (sfs_pool_readonly(p))
        return;
    sfs_catalog_lock(p->cat);
    bool changed = false;
    if (sfs_catalog_disk_each(p->cat, find, &c) == 1) {
        struct sfs_disk_row before = c.row;
        sfs_pool_suspect_row(p, pd, &c.row);
        changed = before.suspect != c.row.suspect || before.label_seen != c.row.label_seen;
        if (changed)
            sfs_catalog_disk_put(p->cat, &c.row); /* what fails here makes the catalog read-only */
    }
    sfs_catalog_unlock(p->cat);
    if (changed)
        sfs_member_update(p->data, &c.row);
}

/* The heal job has looked at every copy on it. What it made good is durable before the row is: a commit syncs the disks first. */
void sfs_pool_suspect_verified(void *ctx, int disk)
{
    struct sfs_pool *p = ctx;
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (!pd->used || pd->id != disk)
            continue;
        sfs_mutex_lock(&p->lock);
        bool here = pd->disk && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE;
        if (here)
            pd->suspect = false;
        sfs_mutex_unlock(&p->lock);
        if (here)
            sfs_pool_suspect_store(p, pd);
    }
}

void sfs_pool_suspect_begin(struct sfs_pool *p, struct sfs_pool_disk *pd)
{
    if (p->heal && pd->id && pd->disk && is_suspect(p, pd))
        sfs_heal_suspect(p->heal, pd->id);
}
