/* The world of sim disks, and the faults that tests bring about in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/disk/sim_world.h"

struct sfs_sim_world *sfs_sim_world_new(struct sfs_env *env)
{
    struct sfs_sim_world *w = calloc(1, sizeof *w);
    SFS_ASSERT(w != NULL);
    w->env = env;
    sfs_mutex_init(&w->m, env, SFS_RANK_LEAF);
    sfs_cond_init(&w->c, env);
    LIST_INIT(&w->disks);
    return w;
}

void sfs_sim_world_free(struct sfs_sim_world *w)
{
    struct sfs_sim_disk *d;
    if (!w)
        return;
    while ((d = LIST_FIRST(&w->disks)) != NULL) {
        SFS_ASSERT(!d->open);
        LIST_REMOVE(d, link);
        sfs_simcontents_clear(&d->contents);
        sfs_simcontents_clear(&d->saved);
        free(d);
    }
    sfs_cond_destroy(&w->c);
    sfs_mutex_destroy(&w->m);
    free(w);
}

struct sfs_sim_disk *sfs_simworld_find(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d;
    if (sfs_sim_is_path(name))
        name += strlen("sim:");
    LIST_FOREACH(d, &w->disks, link)
    {
        if (strcmp(d->name, name) == 0)
            return d;
    }
    return NULL;
}

/* Locks the world; a test that names a disk that isn't there is wrong. */
static struct sfs_sim_disk *disk_lock(struct sfs_sim_world *w, const char *name)
{
    sfs_mutex_lock(&w->m);
    struct sfs_sim_disk *d = sfs_simworld_find(w, name);
    SFS_ASSERT(d != NULL);
    return d;
}

static void disk_unlock(struct sfs_sim_world *w)
{
    sfs_cond_broadcast(&w->c);
    sfs_mutex_unlock(&w->m);
}

int sfs_sim_add(struct sfs_sim_world *w, const char *name, uint64_t size_bytes, enum sfs_media media)
{
    int rc = 0;
    sfs_mutex_lock(&w->m);
    struct sfs_sim_disk *d = NULL;
    if (strlen(name) >= sizeof d->name)
        rc = -ENAMETOOLONG;
    else if (sfs_simworld_find(w, name))
        rc = -EEXIST;
    else if (!(d = calloc(1, sizeof *d)))
        rc = -ENOMEM;
    if (rc == 0) {
        snprintf(d->name, sizeof d->name, "%s", sfs_sim_is_path(name) ? name + strlen("sim:") : name);
        d->size_bytes = size_bytes;
        d->media = media;
        d->number = ++w->ndisks;
        d->present = true;
        sfs_simcontents_init(&d->contents);
        LIST_INSERT_HEAD(&w->disks, d, link);
    }
    sfs_mutex_unlock(&w->m);
    return rc;
}

/* --- crashes ---------------------------------------------------------------------------------- */

static void disk_cut_off(struct sfs_sim_disk *d)
{
    d->epoch++;
    d->open = false;
}

void sfs_simworld_crash(struct sfs_sim_world *w, bool kill_only)
{
    struct sfs_sim_disk *d;
    w->crashed = true;
    w->crash_in = 0;
    LIST_FOREACH(d, &w->disks, link)
    {
        disk_cut_off(d);
        if (!kill_only)
            sfs_simcontents_resolve(&d->contents, w->env);
    }
    sfs_cond_broadcast(&w->c);
}

void sfs_sim_crash(struct sfs_sim_world *w, bool kill_only)
{
    sfs_mutex_lock(&w->m);
    sfs_simworld_crash(w, kill_only);
    sfs_mutex_unlock(&w->m);
}

void sfs_sim_revive(struct sfs_sim_world *w)
{
    sfs_mutex_lock(&w->m);
    w->crashed = false;
    sfs_mutex_unlock(&w->m);
}

void sfs_sim_crash_at(struct sfs_sim_world *w, uint64_t nth_io, bool kill_only)
{
    sfs_mutex_lock(&w->m);
    w->crash_in = nth_io;
    w->crash_kill_only = kill_only;
    sfs_mutex_unlock(&w->m);
}

bool sfs_sim_crashed(const struct sfs_sim_world *w)
{
    struct sfs_sim_world *mine = (struct sfs_sim_world *)w; /* for its lock */
    sfs_mutex_lock(&mine->m);
    bool crashed = w->crashed;
    sfs_mutex_unlock(&mine->m);
    return crashed;
}

uint64_t sfs_sim_io_count(const struct sfs_sim_world *w)
{
    struct sfs_sim_world *mine = (struct sfs_sim_world *)w;
    sfs_mutex_lock(&mine->m);
    uint64_t count = w->io_count;
    sfs_mutex_unlock(&mine->m);
    return count;
}

/* --- faults on one disk ----------------------------------------------------------------------- */

void sfs_sim_fail_at(struct sfs_sim_world *w, const char *name, enum sfs_io_op op, uint64_t nth, bool sticky)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    d->fail[op] = (struct sfs_sim_fault){.nth = nth, .sticky = sticky};
    disk_unlock(w);
}

void sfs_sim_vanish(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    d->present = false;
    disk_cut_off(d);
    sfs_simcontents_resolve(&d->contents, w->env);
    disk_unlock(w);
}

void sfs_sim_return(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    d->present = true;
    disk_unlock(w);
}

void sfs_sim_stall(struct sfs_sim_world *w, const char *name, bool on)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    d->stalled = on;
    disk_unlock(w);
}

void sfs_sim_full(struct sfs_sim_world *w, const char *name, bool on)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    d->full = on;
    disk_unlock(w);
}

static uint64_t slab_bytes(const struct sfs_sim_disk *d)
{
    uint64_t bytes = 0;
    struct sfs_label *l = malloc(sizeof *l);
    SFS_ASSERT(l != NULL);
    if (d->contents.has_label && sfs_label_decode(d->contents.label, l, NULL) == 0)
        bytes = l->slab_bytes;
    free(l);
    return bytes;
}

void sfs_sim_rot(struct sfs_sim_world *w, const char *name, uint32_t slot, uint64_t off, uint32_t len)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    sfs_simstore_flip(&d->contents.slabs, w->env, slot * slab_bytes(d) + off, len);
    disk_unlock(w);
}

void sfs_sim_lose_label(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    memset(d->contents.label + 8, 0xee, 512);
    disk_unlock(w);
}

int sfs_sim_rot_meta(struct sfs_sim_world *w, const char *name, const char *file, uint64_t off, uint32_t len)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    struct sfs_sim_file *f = sfs_simcontents_find(&d->contents, file);
    int rc = f && f->now ? 0 : -ENOENT;
    if (rc == 0 && (off > f->now->size || len > f->now->size - off))
        rc = -EINVAL;
    if (rc == 0)
        sfs_simstore_flip(&f->now->store, w->env, off, len);
    disk_unlock(w);
    return rc;
}

void sfs_sim_misdirect_at(struct sfs_sim_world *w, const char *name, uint64_t nth_write)
{
    disk_lock(w, name)->misdirect_in = nth_write;
    disk_unlock(w);
}

void sfs_sim_lose_write_at(struct sfs_sim_world *w, const char *name, uint64_t nth_write)
{
    disk_lock(w, name)->lose_in = nth_write;
    disk_unlock(w);
}

void sfs_sim_save(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    sfs_simcontents_clear(&d->saved);
    sfs_simcontents_copy(&d->saved, &d->contents);
    d->has_saved = true;
    disk_unlock(w);
}

void sfs_sim_restore(struct sfs_sim_world *w, const char *name)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    SFS_ASSERT(d->has_saved);
    disk_cut_off(d);
    sfs_simcontents_clear(&d->contents);
    sfs_simcontents_copy(&d->contents, &d->saved);
    d->present = true;
    disk_unlock(w);
}

int sfs_sim_peek(struct sfs_sim_world *w, const char *name, uint32_t slot, uint64_t off, void *out,
                 uint32_t len)
{
    struct sfs_sim_disk *d = disk_lock(w, name);
    uint64_t slab = slab_bytes(d);
    int rc = 0;
    if (slot >= d->contents.nslots || !d->contents.slots[slot])
        rc = -ENOENT;
    else if (off > slab || len > slab - off)
        rc = -EINVAL;
    else
        sfs_simstore_read(&d->contents.slabs, slot * slab + off, out, len);
    disk_unlock(w);
    return rc;
}
