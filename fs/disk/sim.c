/* The sim backend. Every call is one step under the world's lock, after a point at which the simulator may switch; its fate (done, failed, the
 * machine crashes right here) is drawn when it begins, from what tests asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/size.h"
#include "fs/disk/sim_world.h"

#define META_EXTRA_BYTES (64ull << 20) /* room of the metadata area beyond the disk's size */

struct sim_handle {
    struct sfs_backend b;
    struct sfs_sim_world *w;
    struct sfs_sim_disk *disk;
    uint64_t epoch;
    bool cancelled;
};

bool sfs_sim_is_path(const char *path)
{
    return strncmp(path, "sim:", 4) == 0;
}

/* --- one step ------------------------------------------------------------------------------------------------------------------------- */

enum fate { FATE_DONE, FATE_FAIL, FATE_CRASH };

struct step {
    struct sim_handle *h;
    struct sfs_sim_world *w;
    struct sfs_sim_disk *disk;
    struct sfs_sim_contents *c;
    enum fate fate;
};

static bool handle_alive(const struct sim_handle *h)
{
    return !h->w->crashed && h->disk->present && h->disk->epoch == h->epoch;
}

static bool fault_fires(struct sfs_sim_fault *f)
{
    if (f->on)
        return true;
    if (f->nth == 0 || --f->nth > 0)
        return false;
    f->on = f->sticky;
    return true;
}

/* Takes the world's lock. -ENODEV: no, the handle is dead. */
static int step_begin(struct step *s, struct sfs_backend *b, enum sfs_io_op op)
{
    struct sim_handle *h = (struct sim_handle *)b;
    *s = (struct step){ .h = h, .w = h->w, .disk = h->disk, .c = &h->disk->contents };
    sfs_env_yield(b->env);
    sfs_mutex_lock(&s->w->m);
    while (s->disk->stalled && handle_alive(h) && !h->cancelled)
        sfs_cond_wait(&s->w->c, &s->w->m);
    if (!handle_alive(h) || h->cancelled) {
        sfs_mutex_unlock(&s->w->m);
        return -ENODEV;
    }
    if (op != SFS_IO_READ) {
        s->w->io_count++;
        if (s->w->crash_in > 0 && --s->w->crash_in == 0)
            s->fate = FATE_CRASH;
    }
    if (fault_fires(&s->disk->fail[op]) && s->fate == FATE_DONE)
        s->fate = FATE_FAIL;
    return 0;
}

/* Lets go of the world. */
static int64_t step_end(struct step *s, int64_t rc)
{
    if (s->fate == FATE_CRASH) {
        sfs_simworld_crash(s->w, s->w->crash_kill_only);
        rc = -ENODEV;
    } else if (s->fate == FATE_FAIL) {
        rc = -EIO;
    }
    sfs_mutex_unlock(&s->w->m);
    sfs_env_yield(s->w->env);
    return rc;
}

/* Has a change of one piece happened? A failed one may have; one that a crash met is undone by the crash, unless just the daemon was killed. */
static bool step_applies(const struct step *s)
{
    if (s->fate == FATE_DONE || (s->fate == FATE_CRASH && !s->w->crash_kill_only))
        return true;
    return sfs_sim_coin(s->w->env);
}

static void step_write(const struct step *s, struct sfs_sim_store *store, uint64_t off, const uint8_t *data, size_t len)
{
    if (s->fate == FATE_DONE || (s->fate == FATE_CRASH && !s->w->crash_kill_only))
        sfs_simstore_write(store, off, data, len);
    else
        sfs_simstore_write_some(store, s->w->env, off, data, len);
}

/* --- slabs ------------------------------------------------------------------------------------------------------------------------------- */

static int sim_read(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    if (!s.c->slots[slot])
        rc = -ENOENT;
    else
        sfs_simstore_read(&s.c->slabs, slot * b->slab_bytes + off, buf, len);
    return (int)step_end(&s, rc);
}

static bool count_down(uint64_t *n)
{
    return *n > 0 && --*n == 0;
}

/* Another block of the same slab, with room for the write; itself when there is none. */
static uint64_t misdirected(struct step *s, uint64_t off, size_t len)
{
    uint64_t blocks = (s->h->b.slab_bytes - len) / SFS_SIM_BLOCK;
    uint64_t other = off % SFS_SIM_BLOCK + sfs_env_rand(s->w->env) % (blocks + 1) * SFS_SIM_BLOCK;
    if (other / SFS_SIM_BLOCK == off / SFS_SIM_BLOCK)
        other = off >= SFS_SIM_BLOCK ? off - SFS_SIM_BLOCK : off + SFS_SIM_BLOCK;
    return other + len <= s->h->b.slab_bytes ? other : off;
}

static int sim_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (!s.c->slots[slot]) {
        rc = -ENOENT;
    } else {
        bool lost = count_down(&s.disk->lose_in);
        if (count_down(&s.disk->misdirect_in))
            off = misdirected(&s, off, len);
        if (!lost)
            step_write(&s, &s.c->slabs, slot * b->slab_bytes + off, buf, len);
    }
    return (int)step_end(&s, rc);
}

static int sim_sync(struct sfs_backend *b, struct sfs_request *rq)
{
    struct step s;
    (void)rq;
    int rc = step_begin(&s, b, SFS_IO_SYNC);
    if (rc != 0)
        return rc;
    if (s.fate == FATE_DONE) {
        sfs_simstore_sync(&s.c->slabs);
        memcpy(s.c->slots_durable, s.c->slots, s.c->nslots);
    } else if (s.fate == FATE_FAIL) {
        sfs_simstore_drop(&s.c->slabs, s.w->env);
    }
    return (int)step_end(&s, 0);
}

static int sim_slab_alloc(struct sfs_backend *b, uint32_t slot)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (s.c->slots[slot])
        rc = 0;
    else if (s.disk->full)
        rc = -ENOSPC;
    else
        s.c->slots[slot] = step_applies(&s);
    return (int)step_end(&s, rc);
}

static int sim_slab_free(struct sfs_backend *b, uint32_t slot)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (step_applies(&s))
        s.c->slots[slot] = 0;
    return (int)step_end(&s, 0);
}

static bool sim_slot_claimed(struct sfs_backend *b, uint32_t slot)
{
    (void)b;
    (void)slot;
    return false;
}

static int sim_slab_list(struct sfs_backend *b, struct sfs_slot_list *l)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < s.c->nslots; i++) {
        if (s.c->slots[i])
            rc = sfs_slot_list_add(l, i);
    }
    return (int)step_end(&s, rc);
}

/* --- label -------------------------------------------------------------------------------------------------------------------------------- */

static int sim_label_write(struct sfs_backend *b, const uint8_t *bytes)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    /* Written and synced, with a copy: a crash leaves the old one or the new one. */
    if (s.fate == FATE_DONE || sfs_sim_coin(s.w->env))
        memcpy(s.c->label, bytes, SFS_LABEL_BYTES);
    return (int)step_end(&s, 0);
}

static int sim_check(struct sfs_backend *b, char *why, size_t why_bytes)
{
    struct sim_handle *h = (struct sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    while (h->disk->stalled && handle_alive(h) && !h->cancelled)
        sfs_cond_wait(&h->w->c, &h->w->m);
    bool alive = handle_alive(h) && !h->cancelled;
    sfs_mutex_unlock(&h->w->m);
    if (!alive)
        snprintf(why, why_bytes, "unplugged");
    return alive ? 0 : -ENODEV;
}

/* --- metadata ----------------------------------------------------------------------------------------------------------------------------- */

static uint64_t meta_used_bytes(const struct sfs_sim_contents *c)
{
    const struct sfs_sim_file *f;
    uint64_t used = 0;
    LIST_FOREACH (f, &c->files, link)
        used += f->now ? f->now->size : 0;
    return used;
}

static uint64_t meta_free_bytes(const struct sfs_sim_disk *d)
{
    uint64_t room = d->size_bytes + META_EXTRA_BYTES, used = meta_used_bytes(&d->contents);
    return d->full || used > room ? 0 : room - used;
}

static struct sfs_sim_inode *meta_inode(struct sfs_sim_contents *c, const char *name)
{
    struct sfs_sim_file *f = sfs_simcontents_find(c, name);
    return f ? f->now : NULL;
}

/* Makes the file if need be. */
static struct sfs_sim_inode *meta_make(struct sfs_sim_contents *c, const char *name)
{
    struct sfs_sim_file *f = sfs_simcontents_find(c, name);
    if (!f) {
        f = calloc(1, sizeof *f);
        SFS_ASSERT(f != NULL);
        snprintf(f->name, sizeof f->name, "%s", name);
        LIST_INSERT_HEAD(&c->files, f, link);
    }
    if (!f->now) {
        struct sfs_sim_inode *inode = calloc(1, sizeof *inode);
        SFS_ASSERT(inode != NULL);
        sfs_siminode_set(&f->now, inode);
    }
    return f->now;
}

static int64_t sim_meta_size(struct sfs_backend *b, const char *name)
{
    struct sim_handle *h = (struct sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    int64_t rc = -ENODEV;
    if (handle_alive(h)) {
        struct sfs_sim_inode *inode = meta_inode(&h->disk->contents, name);
        rc = inode ? (int64_t)inode->size : -ENOENT;
    }
    sfs_mutex_unlock(&h->w->m);
    return rc;
}

static int sim_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n)
{
    struct sim_handle *h = (struct sim_handle *)b;
    struct sfs_sim_file *f;
    size_t count = 1;
    int rc = -ENODEV;
    *n = 0;
    sfs_mutex_lock(&h->w->m);
    if (handle_alive(h)) {
        LIST_FOREACH (f, &h->disk->contents.files, link)
            count++;
        *out = calloc(count, sizeof **out);
        rc = *out ? 0 : -ENOMEM;
        LIST_FOREACH (f, &h->disk->contents.files, link) {
            if (rc != 0 || !f->now)
                continue;
            snprintf((*out)[*n].name, sizeof (*out)[*n].name, "%s", f->name);
            (*out)[(*n)++].size = f->now->size;
        }
    }
    sfs_mutex_unlock(&h->w->m);
    return rc;
}

static int64_t sim_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len)
{
    struct step s;
    int64_t rc = step_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    struct sfs_sim_inode *inode = meta_inode(s.c, name);
    if (!inode) {
        rc = -ENOENT;
    } else if (off < inode->size) {
        if (len > inode->size - off)
            len = (size_t)(inode->size - off);
        sfs_simstore_read(&inode->store, off, buf, len);
        rc = (int64_t)len;
    }
    return step_end(&s, rc);
}

/* To a size that is larger: what lies between reads as zeros, whatever was there before. */
static int meta_grow(struct step *s, struct sfs_sim_inode *inode, uint64_t gap_end, uint64_t size)
{
    if (size - inode->size > meta_free_bytes(s->disk))
        return -ENOSPC;
    if (gap_end > inode->size)
        sfs_simstore_write(&inode->store, inode->size, NULL, gap_end - inode->size);
    inode->size = size;
    return 0;
}

static int sim_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    struct sfs_sim_inode *inode = meta_inode(s.c, name);
    if (!inode && s.disk->full)
        rc = -ENOSPC;
    else if (!inode)
        inode = meta_make(s.c, name);
    if (rc == 0 && len > 0 && off + len > inode->size)
        rc = meta_grow(&s, inode, off, off + len);
    if (rc == 0)
        step_write(&s, &inode->store, off, buf, len);
    return (int)step_end(&s, rc);
}

static int sim_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    struct sfs_sim_inode *inode = meta_inode(s.c, name);
    if (!inode)
        rc = -ENOENT;
    else if (!step_applies(&s))
        rc = 0;
    else if (size > inode->size)
        rc = meta_grow(&s, inode, size, size);
    else
        inode->size = size;
    return (int)step_end(&s, rc);
}

static int sim_meta_sync(struct sfs_backend *b, const char *name)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_SYNC);
    if (rc != 0)
        return rc;
    struct sfs_sim_file *f = sfs_simcontents_find(s.c, name);
    if (f && s.fate == FATE_DONE) {
        sfs_siminode_set(&f->durable, f->now);
        if (f->now) {
            f->now->durable_size = f->now->size;
            sfs_simstore_sync(&f->now->store);
        }
    } else if (f && f->now && s.fate == FATE_FAIL) {
        sfs_simstore_drop(&f->now->store, s.w->env);
    }
    return (int)step_end(&s, 0);
}

static int sim_meta_delete(struct sfs_backend *b, const char *name)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    struct sfs_sim_file *f = sfs_simcontents_find(s.c, name);
    if (f && step_applies(&s))
        sfs_siminode_set(&f->now, NULL);
    return (int)step_end(&s, 0);
}

static int64_t sim_meta_free_bytes(struct sfs_backend *b)
{
    struct step s;
    int rc = step_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    return step_end(&s, (int64_t)meta_free_bytes(s.disk));
}

/* --- open, format ------------------------------------------------------------------------------------------------------------------------ */

static void sim_release(struct sfs_backend *b)
{
    struct sim_handle *h = (struct sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    if (h->disk->epoch == h->epoch)
        h->disk->open = false;
    sfs_mutex_unlock(&h->w->m);
}

static void sim_destroy(struct sfs_backend *b)
{
    sfs_backend_fini(b);
    free(b);
}

static void sim_cancel(struct sfs_backend *b)
{
    struct sim_handle *h = (struct sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    h->cancelled = true;
    sfs_cond_broadcast(&h->w->c);
    sfs_mutex_unlock(&h->w->m);
}

static const struct sfs_backend_ops sim_ops = {
    .release = sim_release,
    .destroy = sim_destroy,
    .cancel = sim_cancel,
    .check = sim_check,
    .label_write = sim_label_write,
    .read = sim_read,
    .write = sim_write,
    .sync = sim_sync,
    .slab_alloc = sim_slab_alloc,
    .slab_free = sim_slab_free,
    .slot_claimed = sim_slot_claimed,
    .slab_list = sim_slab_list,
    .meta_size = sim_meta_size,
    .meta_list = sim_meta_list,
    .meta_read = sim_meta_read,
    .meta_write = sim_meta_write,
    .meta_truncate = sim_meta_truncate,
    .meta_sync = sim_meta_sync,
    .meta_delete = sim_meta_delete,
    .meta_free_bytes = sim_meta_free_bytes,
};

/* Takes the world's lock on success. */
static int find_lock(struct sfs_sim_world *w, const char *path, struct sfs_sim_disk **out, struct sfs_error *err)
{
    if (!w)
        return sfs_error_set(err, -ENOENT, "%s does not exist.", path);
    sfs_mutex_lock(&w->m);
    struct sfs_sim_disk *d = sfs_simworld_find(w, path);
    if (!d || !d->present || w->crashed) {
        sfs_mutex_unlock(&w->m);
        return sfs_error_set(err, -ENOENT, "%s does not exist.", path);
    }
    *out = d;
    return 0;
}

static int label_read(const struct sfs_sim_disk *d, struct sfs_label *out, struct sfs_error *err)
{
    if (!d->contents.has_label)
        return sfs_error_set(err, -ENOENT, "sim:%s is not a disk of a pool: it has no label.", d->name);
    return sfs_label_decode(d->contents.label, out, err);
}

int sfs_sim_open(struct sfs_sim_world *w, const char *path, bool readonly, struct sfs_label *label, struct sfs_backend **out,
                 struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        return rc;
    struct sim_handle *h = calloc(1, sizeof *h);
    if (!h || sfs_backend_init(&h->b, &sim_ops, w->env, path, readonly) != 0) {
        free(h);
        rc = sfs_error_set(err, -ENOMEM, "Out of memory.");
        goto out;
    }
    if (d->open)
        rc = sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
    else
        rc = label_read(d, label, err);
    if (rc != 0) {
        sim_destroy(&h->b);
        goto out;
    }
    h->b.kind = SFS_DISK_SIM;
    h->b.media = d->media;
    sfs_backend_set_label(&h->b, label);
    h->w = w;
    h->disk = d;
    h->epoch = d->epoch;
    d->open = true;
    *out = &h->b;
out:
    sfs_mutex_unlock(&w->m);
    return rc;
}

static int format_locked(struct sfs_sim_disk *d, const char *path, uint64_t want_bytes, bool force, struct sfs_label *label,
                         struct sfs_error *err)
{
    char have[16], slab[16];
    if (d->open)
        return sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
    if (d->contents.has_label && !force)
        return sfs_error_set(err, -EEXIST, "%s is a disk of a pool already.", path);
    if (want_bytes > d->size_bytes)
        return sfs_error_set(err, -ENOSPC, "%s has only %s.", path, sfs_size_format(d->size_bytes, have));
    label->capacity_slabs = (want_bytes ? want_bytes : d->size_bytes) / label->slab_bytes;
    if (label->capacity_slabs == 0)
        return sfs_error_set(err, -ENOSPC, "%s has %s to give, less than one slab of %s.", path,
                             sfs_size_format(want_bytes ? want_bytes : d->size_bytes, have), sfs_size_format(label->slab_bytes, slab));
    sfs_simcontents_clear(&d->contents);
    sfs_simcontents_init(&d->contents);
    d->contents.nslots = (uint32_t)label->capacity_slabs;
    d->contents.slots = calloc(d->contents.nslots, 1);
    d->contents.slots_durable = calloc(d->contents.nslots, 1);
    SFS_ASSERT(d->contents.slots && d->contents.slots_durable);
    sfs_label_encode(label, d->contents.label);
    d->contents.has_label = true;
    return 0;
}

int sfs_sim_format(struct sfs_sim_world *w, const char *path, uint64_t want_bytes, bool force, struct sfs_label *label,
                   struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        return rc;
    rc = format_locked(d, path, want_bytes, force, label, err);
    sfs_mutex_unlock(&w->m);
    return rc;
}

int sfs_sim_wipe(struct sfs_sim_world *w, const char *path, const struct sfs_uuid *pool, struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    struct sfs_label *l = malloc(sizeof *l);
    if (!l)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        goto out;
    rc = label_read(d, l, err);
    if (rc == 0 && d->open)
        rc = sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
    if (rc == 0 && !sfs_uuid_equal(&l->pool_uuid, pool))
        rc = sfs_error_set(err, -EINVAL, "%s belongs to another pool, \"%s\".", path, l->pool_name);
    if (rc == 0) {
        sfs_simcontents_clear(&d->contents);
        sfs_simcontents_init(&d->contents);
    }
    sfs_mutex_unlock(&w->m);
out:
    free(l);
    return rc;
}

int sfs_sim_probe(struct sfs_sim_world *w, const char *path, struct sfs_disk_probe *out, struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        return rc;
    out->kind = SFS_DISK_SIM;
    out->size_bytes = d->size_bytes;
    out->media = d->media;
    out->dev = out->host_dev = UINT64_MAX - d->number; /* each a device of its own */
    out->ino = d->number;
    out->label_rc = label_read(d, &out->label, NULL);
    out->has_label = out->label_rc == 0;
    sfs_mutex_unlock(&w->m);
    return 0;
}
