/* A mounted space: opening and closing, sync, statfs. */
#include "fs/vfs/vfs_impl.h"

#include "fs/data/landing.h"
#include "fs/data/relocate.h"

#include <stdlib.h>

#define DIRTY_LIMIT_BYTES (256ull << 20)
#define COMMIT_INTERVAL_NS 5000000000ull
#define CACHE_INODES 100000u
/* What a small file takes of the pool, about: for the number of files that still fit. */
#define INODE_BYTES 1024u

int sfs_vfs_writable(struct sfs_vfs *vfs)
{
    return __atomic_load_n(&vfs->readonly, __ATOMIC_RELAXED) || sfs_data_readonly(vfs->data) ? -EROFS : 0;
}

void sfs_vfs_kick_by_volume(struct sfs_vfs *vfs)
{
    if (sfs_catalog_pending_bytes(vfs->cat) >= SFS_COMMIT_VOLUME_BYTES)
        sfs_commit_kick(vfs->data);
}

/* What landed in a space with parity goes into whole rows, so that there is room for little writes again; and what lives in rows that are nearly empty moves together. */
static void pack(struct sfs_vfs *vfs)
{
    struct sfs_relocate_result r;
    struct sfs_group_info g;
    uint64_t *ids;
    unsigned n;

    if (!sfs_group_ids(vfs->data, &ids, &n)) {
        for (unsigned k = 0; k < n; k++)
            if (!sfs_group_info(vfs->data, ids[k], &g) && g.space == vfs->space && g.state == SFS_GROUP_SEALED && g.held_bytes > g.used_bytes)
                (void)sfs_relocate_group(vfs->data, ids[k], SFS_RELOCATE_SPARSE_ROWS(50) | SFS_RELOCATE_UNRESERVED, NULL, NULL, &r);
        if (n)
            free(ids);
    }
    if (sfs_landing_groups(vfs->data, vfs->space, &ids, &n))
        return;
    for (unsigned k = 0; k < n; k++)
        (void)sfs_relocate_group(vfs->data, ids[k], SFS_RELOCATE_WHOLE_STRIPES | SFS_RELOCATE_UNRESERVED, NULL, NULL, &r);
    free(ids);
}

void sfs_vfs_make_room(struct sfs_vfs *vfs, bool hard)
{
    struct sfs_volume_stat vs;

    /* after a mount, groups that aren't counted yet seem full: this counts them */
    sfs_volume_stat(vfs->volume, &vs);
    sfs_reaper_wait(vfs);
    if (hard) {
        (void)sfs_flush_all(vfs, UINT64_MAX); /* what is being written has its place and its reservation: it counts twice until it is there */
        pack(vfs);
    }
    (void)sfs_commit_wait(vfs->data, false);
}

int sfs_vfs_catalog_room(struct sfs_vfs *vfs, uint64_t bytes)
{
    return sfs_catalog_room(vfs->cat, bytes);
}

uint64_t sfs_vfs_root(const struct sfs_vfs *vfs)
{
    return vfs->root;
}

/* --- opening and closing -------------------------------------------------------------------------------- */

static struct sfs_vfs *vfs_new(struct sfs_volume *v, const struct sfs_vfs_opts *o)
{
    struct sfs_vfs *vfs = calloc(1, sizeof(*vfs));
    struct sfs_space_row space;

    if (!vfs)
        return NULL;
    vfs->volume = v;
    vfs->data = sfs_volume_data(v);
    vfs->env = sfs_data_env(vfs->data);
    vfs->cat = sfs_data_catalog(vfs->data);
    vfs->space = sfs_volume_space_id(v);
    sfs_volume_settings(v, &space);
    vfs->root = space.root_ino;
    vfs->readonly = o->readonly;
    vfs->noatime = o->noatime;
    vfs->dirty_limit_bytes = o->dirty_limit_bytes ? o->dirty_limit_bytes : DIRTY_LIMIT_BYTES;
    vfs->commit_interval_ns = o->commit_interval_ns ? o->commit_interval_ns : COMMIT_INTERVAL_NS;
    vfs->cache_inodes = o->cache_inodes ? o->cache_inodes : CACHE_INODES;
    sfs_mutex_init(&vfs->ns, vfs->env, SFS_RANK_NAMESPACE);
    sfs_mutex_init(&vfs->table_lock, vfs->env, SFS_RANK_ITABLE);
    sfs_mutex_init(&vfs->error_lock, vfs->env, SFS_RANK_LEAF);
    sfs_cond_init(&vfs->work, vfs->env);
    sfs_cond_init(&vfs->room, vfs->env);
    sfs_cond_init(&vfs->timer, vfs->env);
    sfs_cond_init(&vfs->reap_work, vfs->env);
    sfs_cond_init(&vfs->reap_idle, vfs->env);
    struct sfs_inode_list *lists[] = {&vfs->lru,   &vfs->pending, &vfs->batch,
                                      &vfs->dirty, &vfs->urgent,  &vfs->reap};
    for (unsigned k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
        TAILQ_INIT(lists[k]);
    sfs_pending_client_init(vfs);
    return vfs;
}

static void vfs_free(struct sfs_vfs *vfs)
{
    if (vfs->registered)
        sfs_commit_unregister(vfs->data, &vfs->client);
    sfs_itable_free(vfs);
    sfs_cond_destroy(&vfs->reap_idle);
    sfs_cond_destroy(&vfs->reap_work);
    sfs_cond_destroy(&vfs->timer);
    sfs_cond_destroy(&vfs->room);
    sfs_cond_destroy(&vfs->work);
    sfs_mutex_destroy(&vfs->error_lock);
    sfs_mutex_destroy(&vfs->table_lock);
    sfs_mutex_destroy(&vfs->ns);
    free(vfs);
}

static int start(struct sfs_vfs *vfs)
{
    struct sfs_inode *root;
    int rc = sfs_inode_get(vfs, vfs->root, &root);

    if (rc)
        return rc;
    rc = S_ISDIR(root->row.mode) ? 0 : -EUCLEAN;
    sfs_inode_put(root);
    if (rc)
        return rc;
    rc = sfs_commit_register(vfs->data, &vfs->client);
    if (rc)
        return rc;
    vfs->registered = true;
    rc = sfs_writeback_start(vfs);
    if (!rc)
        rc = sfs_timer_start(vfs);
    if (!rc)
        rc = sfs_reaper_start(vfs);
    return rc;
}

static void stop(struct sfs_vfs *vfs)
{
    sfs_timer_stop(vfs);
    sfs_reaper_stop(vfs);
    sfs_writeback_stop(vfs);
}

int sfs_vfs_open(struct sfs_volume *v, const struct sfs_vfs_opts *opts, struct sfs_vfs **out,
                 struct sfs_error *err)
{
    static const struct sfs_vfs_opts defaults;
    struct sfs_vfs *vfs = vfs_new(v, opts ? opts : &defaults);
    int rc;

    if (!vfs)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    rc = start(vfs);
    if (rc) {
        stop(vfs);
        vfs_free(vfs);
        if (rc == -ENOENT || rc == -EUCLEAN)
            return sfs_error_set(
                err, -EUCLEAN,
                "The catalog has no root directory for this space. spacesfs-check can say more.");
        return sfs_error_set(err, rc, "The space cannot be opened: error %d.", -rc);
    }
    *out = vfs;
    return 0;
}

static int last_error(struct sfs_vfs *vfs)
{
    int rc = 0;

    sfs_mutex_lock(&vfs->error_lock);
    if (vfs->error_seen != vfs->error_seq) {
        vfs->error_seen = vfs->error_seq;
        rc = vfs->error;
    }
    sfs_mutex_unlock(&vfs->error_lock);
    return rc;
}

/* Nothing in memory differs from what is stored. */
static bool is_clean(struct sfs_vfs *vfs)
{
    sfs_mutex_lock(&vfs->table_lock);
    bool clean = TAILQ_EMPTY(&vfs->dirty) && TAILQ_EMPTY(&vfs->pending) && TAILQ_EMPTY(&vfs->batch);
    sfs_mutex_unlock(&vfs->table_lock);
    return clean;
}

int sfs_vfs_sync(struct sfs_vfs *vfs)
{
    int rc, error;

    if (sfs_data_readonly(vfs->data) && is_clean(vfs))
        return last_error(vfs);
    __atomic_add_fetch(&vfs->syncing, 1, __ATOMIC_RELAXED);
    rc = sfs_flush_all(vfs, UINT64_MAX);
    if (!rc)
        rc = sfs_commit_wait(vfs->data, true);
    __atomic_sub_fetch(&vfs->syncing, 1, __ATOMIC_RELAXED);
    error = last_error(vfs);
    return rc ? rc : error;
}

int sfs_vfs_close(struct sfs_vfs *vfs)
{
    int rc, again;

    if (!vfs)
        return 0;
    sfs_timer_stop(vfs);
    rc = sfs_vfs_sync(vfs);
    sfs_reaper_stop(vfs);
    if (!sfs_data_readonly(vfs->data)) {
        again = sfs_commit_wait(vfs->data, false); /* what the reaper deleted */
        if (!rc)
            rc = again;
    }
    sfs_writeback_stop(vfs);
    vfs_free(vfs);
    return rc;
}

int sfs_vfs_set_readonly(struct sfs_vfs *vfs, bool readonly)
{
    if (!readonly) {
        if (sfs_data_readonly(vfs->data))
            return -EROFS;
        __atomic_store_n(&vfs->readonly, false, __ATOMIC_RELAXED);
        return 0;
    }
    int rc = sfs_vfs_sync(vfs);
    if (rc)
        return rc;
    __atomic_store_n(&vfs->readonly, true, __ATOMIC_RELAXED);
    return sfs_vfs_sync(vfs); /* what came in between */
}

/* --- statfs --------------------------------------------------------------------------------------------- */

int sfs_vfs_statfs(struct sfs_vfs *vfs, struct sfs_vfs_statfs *out)
{
    struct sfs_volume_stat vs;
    uint64_t files;
    int rc;

    sfs_catalog_lock(vfs->cat);
    rc = sfs_catalog_inode_count(vfs->cat, vfs->space, &files);
    sfs_catalog_unlock(vfs->cat);
    if (rc)
        return rc;
    sfs_volume_stat(vfs->volume, &vs);
    uint64_t ffree = vs.avail_bytes / INODE_BYTES;
    *out = (struct sfs_vfs_statfs){
        .block_bytes = SFS_BLOCK,
        .blocks = vs.total_bytes / SFS_BLOCK,
        .bfree = vs.avail_bytes / SFS_BLOCK,
        .bavail = vs.avail_bytes / SFS_BLOCK,
        .files = files + ffree,
        .ffree = ffree,
        .namemax = SFS_FILENAME_MAX,
    };
    return 0;
}
