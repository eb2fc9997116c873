/* The commit client of a mounted space: what its inodes have for the next commit.
 *
 * Pending is what differs between an inode in memory and its rows: attributes, extents, inline contents,
 * size. collect hands it over while the gate is closed; from then on memory counts it as being in the
 * catalog, since a commit that fails makes the pool read-only.
 *
 * Invariants
 *   (P1) an inode that differs from its rows is on the pending list, or in a batch, or dead.
 *   (P2) rule 3: the size handed over never reaches beyond data that is only in memory. Let S be the size in
 *        memory, B the base (the size last handed over, or that of a moment when nothing was dirty; lowered
 *        by every truncation since), and L the lowest byte beyond B that is in a block dirty or being written
 *        and has nothing stored below it: then it is min(S, L). Up to B old contents are there, stored and
 *        pending or already in the catalog; from B to L all is stored, or a hole that a program made. As long
 *        as it is less than S the inode stays pending.
 *   (P3) inline contents go from the catalog in the change that brings the extents of block 0 (I1).
 *   (P4) a file that was emptied and is being written anew (a program replaces its contents in place) keeps
 *        its old contents until something new is stored, unless somebody asks for durability. So a crash
 *        shortly after doesn't leave it empty.
 *   (P5) a file small enough to lie in the catalog goes along with every commit, dirty or not: who makes one and
 *        writes it finds it whole after a crash, or not at all, whatever commit came in between.
 *   (P6) from collect to done, in_batch tells immediate updates of the row to wait for the batch (I4), and
 *        the inode is held, so that `lost` finds it. */
#include "fs/vfs/vfs_impl.h"

#include <stdlib.h>
#include <string.h>

/* The first byte of [from, to) that is neither in the map nor inline; to: none. */
static uint64_t first_unstored(struct sfs_inode *i, uint64_t from, uint64_t to)
{
    if (from < i->inline_len)
        from = i->inline_len;
    while (from < to) {
        struct sfs_map_node *n = sfs_map_find(&i->map, from);
        if (!n || n->e.off > from)
            return from;
        from = sfs_map_end(n);
    }
    return to;
}

/* P2 */
static uint64_t honest_size(struct sfs_inode *i)
{
    uint64_t size = i->row.size, base = i->base_size < size ? i->base_size : size, b;

    for (b = sfs_dirty_lowest(&i->dirty, base); b < size; b = sfs_dirty_lowest(&i->dirty, b + SFS_BLOCK)) {
        uint64_t end = b + SFS_BLOCK < size ? b + SFS_BLOCK : size,
                 hole = first_unstored(i, b > base ? b : base, end);
        if (hole < end)
            return hole;
    }
    return size;
}

static bool has_unstored(const struct sfs_inode *i)
{
    return i->dirty.ndirty || i->dirty.nwriting;
}

/* P4 */
static bool holds_back(struct sfs_inode *i)
{
    return i->emptied && has_unstored(i) && i->map.npieces == 0 && i->inline_len == 0 && !i->syncing &&
           !__atomic_load_n(&i->vfs->syncing, __ATOMIC_RELAXED);
}

static int fill_inline(struct sfs_inode *i, struct sfs_change *c)
{
    if (i->inline_len && i->inline_changed) {
        c->inline_data = malloc(i->inline_len);
        if (!c->inline_data)
            return -ENOMEM;
        memcpy(c->inline_data, i->inline_data, i->inline_len);
        c->inline_len = i->inline_len;
        c->set_inline = true;
    } else if (i->inline_stored && i->inline_len == 0) {
        c->set_inline = true;
    }
    return 0;
}

/* Lock held. Contents and size stay back as the catalog has them; owner, mode and times needn't wait for them. */
static int hand_over_attributes(struct sfs_inode *i, struct sfs_batch *b, bool *added)
{
    struct sfs_change c = {.ino = i->ino, .owner = i, .set_row = true, .row = i->row};
    int rc;

    if (!i->attr_dirty)
        return 0;
    c.row.size = i->catalog_size;
    rc = sfs_batch_add(b, &c);
    if (rc)
        return rc;
    i->attr_dirty = false;
    i->in_batch = true;
    *added = true;
    return 0;
}

/* Lock held. Hands over what there is; *more: something had to stay. */
static int hand_over(struct sfs_inode *i, struct sfs_batch *b, bool *more, bool *added)
{
    struct sfs_change c = {.ino = i->ino, .owner = i};
    uint64_t size = honest_size(i);
    bool has_contents = S_ISREG(i->row.mode) && i->data_loaded;
    int rc = 0;

    *added = false;
    *more = false;
    if (i->dead)
        return 0;
    if (has_contents && i->dirty.ndirty && sfs_flush_inline(i)) /* P5 */
        size = i->row.size;
    if (has_contents && holds_back(i)) {
        *more = true;
        return hand_over_attributes(i, b, added);
    }
    if (!S_ISREG(i->row.mode))
        size = i->row.size;
    if (has_contents) {
        rc = fill_inline(i, &c);
        if (rc)
            return rc;
    }
    rc = sfs_map_collect(&i->map, &c.deleted, &c.ndeleted, &c.extents, &c.nextents);
    if (rc) {
        free(c.inline_data);
        return rc;
    }
    uint64_t sectors = has_contents ? sfs_inode_stored_sectors(i) : i->row.sectors;
    c.set_row = i->attr_dirty || size != i->catalog_size || sectors != i->row.sectors;
    c.row = i->row;
    c.row.sectors = sectors;
    c.row.size = size;
    *more = size < i->row.size;
    if (!c.set_row && !c.set_inline && c.ndeleted == 0)
        return 0;
    rc = sfs_batch_add(b, &c); /* the arrays are the batch's now */
    if (rc)
        return rc;
    sfs_map_handed_over(&i->map);
    if (c.set_inline) {
        i->inline_stored = c.inline_len > 0;
        i->inline_changed = false;
    }
    i->attr_dirty = false;
    i->emptied = false;
    i->catalog_size = i->base_size = size;
    i->row.sectors = sectors;
    i->in_batch = true;
    *added = true;
    return 0;
}

/* Moves one inode, the first of `list`, to where it belongs. */
static int collect_one(struct sfs_vfs *vfs, struct sfs_inode *i, struct sfs_batch *b, bool *again)
{
    bool more = false, added = false;
    int rc;

    sfs_mutex_lock(&i->lock);
    rc = hand_over(i, b, &more, &added);
    sfs_mutex_lock(&vfs->table_lock);
    if (added)
        sfs_inode_list_add(&vfs->batch, &i->batch);
    if (!rc && !more)
        sfs_inode_list_remove(&vfs->pending, &i->pending);
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_mutex_unlock(&i->lock);
    *again = rc || more;
    return rc;
}

/* The inodes of a list, each held. */
static int snapshot(struct sfs_inode_list *list, struct sfs_inode ***out, size_t *n)
{
    struct sfs_inode_link *k;
    size_t count = 0;

    *out = NULL;
    *n = 0;
    TAILQ_FOREACH(k, list, link)
        count++;
    if (count == 0)
        return 0;
    *out = malloc(count * sizeof(struct sfs_inode *));
    if (!*out)
        return -ENOMEM;
    TAILQ_FOREACH(k, list, link) {
        sfs_inode_hold(k->inode);
        (*out)[(*n)++] = k->inode;
    }
    return 0;
}

static int collect(void *ctx, struct sfs_batch *b)
{
    struct sfs_vfs *vfs = ctx;
    struct sfs_inode **v;
    size_t n;
    int rc;

    __atomic_store_n(&vfs->uncollected, 0, __ATOMIC_RELAXED);
    sfs_mutex_lock(&vfs->table_lock);
    rc = snapshot(&vfs->pending, &v, &n);
    sfs_mutex_unlock(&vfs->table_lock);
    for (size_t k = 0; k < n; k++) {
        bool again;
        if (!rc)
            rc = collect_one(vfs, v[k], b, &again);
        sfs_inode_put(v[k]);
    }
    free(v);
    return rc;
}

static void prepare(void *ctx, bool all)
{
    struct sfs_vfs *vfs = ctx;
    uint64_t now = sfs_env_mono_ns(vfs->env), age = vfs->commit_interval_ns;

    if (all)
        (void)sfs_flush_all(vfs, UINT64_MAX);
    else if (now > age)
        (void)sfs_flush_all(vfs, now - age);
}

static void lost(void *ctx, void *owner, uint64_t ino)
{
    (void)ctx;
    (void)ino;
    sfs_inode_set_error(owner, -EIO);
}

static int rewrite(void *ctx, uint64_t ino, uint64_t from, uint64_t to)
{
    return sfs_vfs_rewrite(ctx, ino, from, to);
}

static void done(void *ctx, int result)
{
    struct sfs_vfs *vfs = ctx;
    struct sfs_inode *i;

    for (;;) {
        sfs_mutex_lock(&vfs->table_lock);
        struct sfs_inode_link *k = TAILQ_FIRST(&vfs->batch);
        i = k ? k->inode : NULL;
        if (i) {
            sfs_inode_hold(i);
            sfs_inode_list_remove(&vfs->batch, k);
        }
        sfs_mutex_unlock(&vfs->table_lock);
        if (!i)
            break;
        sfs_mutex_lock(&i->lock);
        i->in_batch = false;
        sfs_mutex_unlock(&i->lock);
        if (result)
            sfs_inode_set_error(i, result == -EROFS ? -EIO : result);
        sfs_inode_put(i);
    }
}

void sfs_pending_client_init(struct sfs_vfs *vfs)
{
    vfs->client = (struct sfs_commit_client){
        .prepare = prepare, .collect = collect, .lost = lost, .done = done, .ctx = vfs, .space = vfs->space, .rewrite = rewrite};
}

/* --- the commit timer ----------------------------------------------------------------------------------- */

/* table_lock held: an idle space costs no I/O. */
static bool is_idle(struct sfs_vfs *vfs)
{
    return TAILQ_EMPTY(&vfs->dirty) && TAILQ_EMPTY(&vfs->pending) && sfs_catalog_pending_bytes(vfs->cat) == 0;
}

static void timer_main(void *arg)
{
    struct sfs_vfs *vfs = arg;

    sfs_mutex_lock(&vfs->table_lock);
    while (!vfs->stop_timer) {
        uint64_t deadline = sfs_env_mono_ns(vfs->env) + vfs->commit_interval_ns;
        while (!vfs->stop_timer && sfs_cond_wait_until(&vfs->timer, &vfs->table_lock, deadline) == 0)
            continue;
        if (vfs->stop_timer || is_idle(vfs))
            continue;
        sfs_mutex_unlock(&vfs->table_lock);
        if (!sfs_data_readonly(vfs->data)) {
            (void)sfs_flush_all(vfs, UINT64_MAX);
            (void)sfs_commit_wait(vfs->data, false); /* a failure shows where durability is asked for */
        }
        sfs_mutex_lock(&vfs->table_lock);
    }
    sfs_mutex_unlock(&vfs->table_lock);
}

int sfs_timer_start(struct sfs_vfs *vfs)
{
    return sfs_thread_start(vfs->env, "sfs-timer", timer_main, vfs, &vfs->timer_thread);
}

void sfs_timer_stop(struct sfs_vfs *vfs)
{
    if (!vfs->timer_thread)
        return;
    sfs_mutex_lock(&vfs->table_lock);
    vfs->stop_timer = true;
    sfs_cond_broadcast(&vfs->timer);
    sfs_mutex_unlock(&vfs->table_lock);
    sfs_thread_join(vfs->timer_thread);
    vfs->timer_thread = NULL;
}
