/* The table of inodes in memory: reference and look-up counts, and the least recently used of those that
 * nobody needs. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>

static struct sfs_stored *ref_stored(void *ctx, struct sfs_stored *s)
{
    (void)ctx;
    return sfs_stored_ref(s);
}

static void unref_stored(void *ctx, struct sfs_stored *s)
{
    sfs_stored_unref(ctx, s);
}

static int trim_stored(void *ctx, struct sfs_extent *e)
{
    return sfs_extent_trim(ctx, e);
}

static const struct sfs_map_ops map_ops = {ref_stored, unref_stored, trim_stored};

struct sfs_inode *sfs_inode_alloc(struct sfs_vfs *vfs)
{
    struct sfs_inode *i = calloc(1, sizeof(*i));

    if (!i)
        return NULL;
    i->vfs = vfs;
    struct sfs_inode_link *links[] = {&i->lru, &i->pending, &i->batch, &i->dirty_link, &i->urgent, &i->reap};
    for (unsigned k = 0; k < sizeof(links) / sizeof(links[0]); k++)
        links[k]->inode = i;
    sfs_mutex_init(&i->lock, vfs->env, SFS_RANK_INODE);
    sfs_cond_init(&i->changed, vfs->env);
    sfs_map_init(&i->map, &map_ops, vfs->data);
    sfs_dirty_init(&i->dirty);
    TAILQ_INIT(&i->runs);
    return i;
}

void sfs_inode_free(struct sfs_inode *i)
{
    if (!i)
        return;
    sfs_dirty_clear(&i->dirty);
    sfs_map_clear(&i->map);
    free(i->inline_data);
    sfs_cond_destroy(&i->changed);
    sfs_mutex_destroy(&i->lock);
    free(i);
}

/* --- references ----------------------------------------------------------------------------------------- */

static void leave_lru(struct sfs_inode *i)
{
    if (!i->lru.on)
        return;
    TAILQ_REMOVE(&i->vfs->lru, &i->lru, link);
    i->lru.on = false;
    i->vfs->nlru--;
}

void sfs_inode_hold(struct sfs_inode *i)
{
    leave_lru(i);
    i->refs++;
}

void sfs_inode_list_add(struct sfs_inode_list *l, struct sfs_inode_link *k)
{
    if (k->on)
        return;
    k->on = true;
    TAILQ_INSERT_TAIL(l, k, link);
    sfs_inode_hold(k->inode);
}

void sfs_inode_list_remove(struct sfs_inode_list *l, struct sfs_inode_link *k)
{
    if (!k->on)
        return;
    k->on = false;
    TAILQ_REMOVE(l, k, link);
    SFS_ASSERT(k->inode->refs > 1); /* the caller's */
    k->inode->refs--;
}

/* table_lock held: what to free, if anything, now that i has one user or look-up less. At most one inode: i,
 * or the oldest of the lru. */
static struct sfs_inode *retire(struct sfs_vfs *vfs, struct sfs_inode *i)
{
    struct sfs_inode *victim = NULL;

    if (i->refs || i->nlookup)
        return NULL;
    if (!i->loaded || i->row.nlink == 0) { /* nobody has it: its lock isn't needed to look at it */
        victim = i;
        leave_lru(i);
    } else if (!i->lru.on) {
        i->lru.on = true;
        TAILQ_INSERT_TAIL(&vfs->lru, &i->lru, link);
        if (++vfs->nlru > vfs->cache_inodes) {
            victim = TAILQ_FIRST(&vfs->lru)->inode;
            leave_lru(victim);
        }
    }
    if (victim)
        HASH_DEL(vfs->inodes, victim);
    return victim;
}

void sfs_inode_put(struct sfs_inode *i)
{
    struct sfs_vfs *vfs;
    struct sfs_inode *victim;

    if (!i)
        return;
    vfs = i->vfs;
    sfs_mutex_lock(&vfs->table_lock);
    SFS_ASSERT(i->refs > 0);
    i->refs--;
    victim = retire(vfs, i);
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_inode_free(victim);
}

void sfs_inode_count_lookup(struct sfs_inode *i)
{
    sfs_mutex_lock(&i->vfs->table_lock);
    i->nlookup++;
    sfs_mutex_unlock(&i->vfs->table_lock);
}

void sfs_vfs_forget(struct sfs_vfs *vfs, uint64_t ino, uint64_t n)
{
    struct sfs_inode *i, *victim = NULL;

    sfs_mutex_lock(&vfs->table_lock);
    HASH_FIND(hh, vfs->inodes, &ino, sizeof(ino), i);
    if (i) {
        i->nlookup -= n < i->nlookup ? n : i->nlookup; /* a caller that forgets too much harms only itself */
        victim = retire(vfs, i);
    }
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_inode_free(victim);
}

/* --- finding -------------------------------------------------------------------------------------------- */

static int load_row(struct sfs_inode *i)
{
    struct sfs_vfs *vfs = i->vfs;
    struct sfs_inode_row row;
    int rc;

    if (i->loaded)
        return 0;
    sfs_catalog_lock(vfs->cat);
    rc = sfs_catalog_inode_get(vfs->cat, i->ino, &row);
    sfs_catalog_unlock(vfs->cat);
    if (rc)
        return rc;
    if (row.space != vfs->space || row.nlink == 0)
        return -ENOENT;
    if (row.size > SFS_OFFSET_MAX)
        return -EUCLEAN;
    i->row = row;
    i->catalog_size = i->base_size = row.size;
    i->loaded = true;
    return 0;
}

int sfs_inode_get(struct sfs_vfs *vfs, uint64_t ino, struct sfs_inode **out)
{
    struct sfs_inode *i, *fresh = NULL;
    int rc;

    for (;;) {
        sfs_mutex_lock(&vfs->table_lock);
        HASH_FIND(hh, vfs->inodes, &ino, sizeof(ino), i);
        if (i || fresh)
            break;
        sfs_mutex_unlock(&vfs->table_lock);
        fresh = sfs_inode_alloc(vfs);
        if (!fresh)
            return -ENOMEM;
        fresh->ino = ino;
    }
    if (!i) {
        i = fresh;
        fresh = NULL;
        HASH_ADD(hh, vfs->inodes, ino, sizeof(i->ino), i);
    }
    sfs_inode_hold(i);
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_inode_free(fresh);

    sfs_mutex_lock(&i->lock);
    rc = load_row(i);
    sfs_mutex_unlock(&i->lock);
    if (rc) {
        sfs_inode_put(i);
        return rc;
    }
    *out = i;
    return 0;
}

int sfs_inode_adopt(struct sfs_inode *i, const struct sfs_inode_row *row, struct sfs_inode **out)
{
    struct sfs_vfs *vfs = i->vfs;
    struct sfs_inode *other;

    i->ino = row->ino;
    i->row = *row;
    i->loaded = true;
    i->data_loaded = S_ISREG(row->mode); /* there is none yet */
    i->catalog_size = i->base_size = row->size;
    sfs_mutex_lock(&vfs->table_lock);
    HASH_FIND(hh, vfs->inodes, &i->ino, sizeof(i->ino), other);
    if (!other) {
        HASH_ADD(hh, vfs->inodes, ino, sizeof(i->ino), i);
        sfs_inode_hold(i);
    }
    sfs_mutex_unlock(&vfs->table_lock);
    if (!other) {
        *out = i;
        return 0;
    }
    sfs_inode_free(i);
    return sfs_inode_get(vfs, row->ino, out);
}

bool sfs_inode_known(struct sfs_vfs *vfs, uint64_t ino)
{
    struct sfs_inode *i;

    sfs_mutex_lock(&vfs->table_lock);
    HASH_FIND(hh, vfs->inodes, &ino, sizeof(ino), i);
    sfs_mutex_unlock(&vfs->table_lock);
    return i != NULL;
}

void sfs_itable_free(struct sfs_vfs *vfs)
{
    struct sfs_inode *i, *tmp;

    HASH_ITER(hh, vfs->inodes, i, tmp) {
        HASH_DEL(vfs->inodes, i);
        if (i->dirty_blocks)
            sfs_volume_unreserve(vfs->volume, i->dirty_blocks * SFS_BLOCK);
        sfs_inode_free(i);
    }
    TAILQ_INIT(&vfs->lru);
}
