/* The sim backend. Every call is one step under the world's lock, after a point at which the simulator may
 * switch; its fate (done, failed, the machine crashes right here) is drawn when it begins, from what tests
 * asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/size.h"
#include "fs/disk/sim_world.h"

bool sfs_sim_is_path(const char *path)
{
    return strncmp(path, "sim:", 4) == 0;
}

/* --- one step --------------------------------------------------------------------------------- */

bool sfs_simhandle_alive(const struct sfs_sim_handle *h)
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
int sfs_simstep_begin(struct sfs_sim_step *s, struct sfs_backend *b, enum sfs_io_op op)
{
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
    *s = (struct sfs_sim_step){.h = h, .w = h->w, .disk = h->disk, .c = &h->disk->contents};
    sfs_env_yield(b->env);
    sfs_mutex_lock(&s->w->m);
    while (s->disk->stalled && sfs_simhandle_alive(h) && !h->cancelled)
        sfs_cond_wait(&s->w->c, &s->w->m);
    if (!sfs_simhandle_alive(h) || h->cancelled) {
        sfs_mutex_unlock(&s->w->m);
        return -ENODEV;
    }
    if (op != SFS_IO_READ) {
        s->w->io_count++;
        if (s->w->crash_in > 0 && --s->w->crash_in == 0)
            s->fate = SFS_SIM_FATE_CRASH;
    }
    if (fault_fires(&s->disk->fail[op]) && s->fate == SFS_SIM_FATE_DONE)
        s->fate = SFS_SIM_FATE_FAIL;
    return 0;
}

/* Lets go of the world. */
int64_t sfs_simstep_end(struct sfs_sim_step *s, int64_t rc)
{
    if (s->fate == SFS_SIM_FATE_CRASH) {
        sfs_simworld_crash(s->w, s->w->crash_kill_only);
        rc = -ENODEV;
    } else if (s->fate == SFS_SIM_FATE_FAIL) {
        rc = -EIO;
    }
    sfs_mutex_unlock(&s->w->m);
    sfs_env_yield(s->w->env);
    return rc;
}

/* Has a change of one piece happened? A failed one may have; one that a crash met is undone by the crash,
 * unless just the daemon was killed. */
bool sfs_simstep_applies(const struct sfs_sim_step *s)
{
    if (s->fate == SFS_SIM_FATE_DONE || (s->fate == SFS_SIM_FATE_CRASH && !s->w->crash_kill_only))
        return true;
    return sfs_sim_coin(s->w->env);
}

void sfs_simstep_write(const struct sfs_sim_step *s, struct sfs_sim_store *store, uint64_t off,
                       const uint8_t *data, size_t len)
{
    if (s->fate == SFS_SIM_FATE_DONE || (s->fate == SFS_SIM_FATE_CRASH && !s->w->crash_kill_only))
        sfs_simstore_write(store, off, data, len);
    else
        sfs_simstore_write_some(store, s->w->env, off, data, len);
}

static int sim_grow(struct sfs_backend *b, uint64_t slabs, struct sfs_label *l, struct sfs_error *err)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return sfs_error_set(err, rc, "%s is not there.", b->path);
    if (slabs * b->slab_bytes > s.disk->size_bytes) {
        rc = sfs_error_set(err, -ENOSPC, "%s has only room for %llu slabs.", b->path,
                           (unsigned long long)(s.disk->size_bytes / b->slab_bytes));
    } else {
        uint8_t *slots = calloc(slabs, 1), *durable = calloc(slabs, 1);
        SFS_ASSERT(slots && durable);
        memcpy(slots, s.c->slots, s.c->nslots);
        memcpy(durable, s.c->slots_durable, s.c->nslots);
        free(s.c->slots);
        free(s.c->slots_durable);
        s.c->slots = slots;
        s.c->slots_durable = durable;
        s.c->nslots = (uint32_t)slabs;
        l->capacity_slabs = slabs;
    }
    return (int)sfs_simstep_end(&s, rc);
}

/* --- slabs ------------------------------------------------------------------------------------ */

static int sim_read(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    if (!s.c->slots[slot])
        rc = -ENOENT;
    else
        sfs_simstore_read(&s.c->slabs, slot * b->slab_bytes + off, buf, len);
    return (int)sfs_simstep_end(&s, rc);
}

static bool count_down(uint64_t *n)
{
    return *n > 0 && --*n == 0;
}

/* Another block of the same slab, with room for the write; itself when there is none. */
static uint64_t misdirected(struct sfs_sim_step *s, uint64_t off, size_t len)
{
    uint64_t blocks = (s->h->b.slab_bytes - len) / SFS_SIM_BLOCK;
    uint64_t other = off % SFS_SIM_BLOCK + sfs_env_rand(s->w->env) % (blocks + 1) * SFS_SIM_BLOCK;
    if (other / SFS_SIM_BLOCK == off / SFS_SIM_BLOCK)
        other = off >= SFS_SIM_BLOCK ? off - SFS_SIM_BLOCK : off + SFS_SIM_BLOCK;
    return other + len <= s->h->b.slab_bytes ? other : off;
}

static int sim_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (!s.c->slots[slot]) {
        rc = -ENOENT;
    } else {
        bool lost = count_down(&s.disk->lose_in);
        if (count_down(&s.disk->misdirect_in))
            off = misdirected(&s, off, len);
        if (!lost)
            sfs_simstep_write(&s, &s.c->slabs, slot * b->slab_bytes + off, buf, len);
    }
    return (int)sfs_simstep_end(&s, rc);
}

static int sim_sync(struct sfs_backend *b, struct sfs_request *rq)
{
    struct sfs_sim_step s;
    (void)rq;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_SYNC);
    if (rc != 0)
        return rc;
    if (s.fate == SFS_SIM_FATE_DONE) {
        sfs_simstore_sync(&s.c->slabs);
        memcpy(s.c->slots_durable, s.c->slots, s.c->nslots);
    } else if (s.fate == SFS_SIM_FATE_FAIL) {
        sfs_simstore_drop(&s.c->slabs, s.w->env);
    }
    return (int)sfs_simstep_end(&s, 0);
}

static int sim_slab_alloc(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (s.c->slots[slot])
        rc = 0;
    else if (s.disk->full)
        rc = -ENOSPC;
    else
        s.c->slots[slot] = sfs_simstep_applies(&s);
    return (int)sfs_simstep_end(&s, rc);
}

static int sim_slab_free(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    if (sfs_simstep_applies(&s))
        s.c->slots[slot] = 0;
    return (int)sfs_simstep_end(&s, 0);
}

static bool sim_slot_claimed(struct sfs_backend *b, uint32_t slot)
{
    (void)b;
    (void)slot;
    return false;
}

static int sim_slab_list(struct sfs_backend *b, struct sfs_slot_list *l)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; rc == 0 && i < s.c->nslots; i++) {
        if (s.c->slots[i])
            rc = sfs_slot_list_add(l, i);
    }
    return (int)sfs_simstep_end(&s, rc);
}

/* --- label ------------------------------------------------------------------------------------ */

static int sim_label_write(struct sfs_backend *b, const uint8_t *bytes)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    /* Written and synced, with a copy: a crash leaves the old one or the new one. */
    if (s.fate == SFS_SIM_FATE_DONE || sfs_sim_coin(s.w->env))
        memcpy(s.c->label, bytes, SFS_LABEL_BYTES);
    return (int)sfs_simstep_end(&s, 0);
}

static int sim_check(struct sfs_backend *b, char *why, size_t why_bytes)
{
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    while (h->disk->stalled && sfs_simhandle_alive(h) && !h->cancelled)
        sfs_cond_wait(&h->w->c, &h->w->m);
    bool alive = sfs_simhandle_alive(h) && !h->cancelled;
    sfs_mutex_unlock(&h->w->m);
    if (!alive)
        snprintf(why, why_bytes, "unplugged");
    return alive ? 0 : -ENODEV;
}

/* --- open, format ----------------------------------------------------------------------------- */

static void sim_release(struct sfs_backend *b)
{
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
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
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
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
    .grow = sim_grow,
    .read = sim_read,
    .write = sim_write,
    .sync = sim_sync,
    .slab_alloc = sim_slab_alloc,
    .slab_free = sim_slab_free,
    .slot_claimed = sim_slot_claimed,
    .slab_list = sim_slab_list,
    .meta_size = sfs_sim_meta_size,
    .meta_list = sfs_sim_meta_list,
    .meta_read = sfs_sim_meta_read,
    .meta_write = sfs_sim_meta_write,
    .meta_truncate = sfs_sim_meta_truncate,
    .meta_sync = sfs_sim_meta_sync,
    .meta_delete = sfs_sim_meta_delete,
    .meta_free_bytes = sfs_sim_meta_free_bytes,
};

/* Takes the world's lock on success. */
static int find_lock(struct sfs_sim_world *w, const char *path, struct sfs_sim_disk **out,
                     struct sfs_error *err)
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

int sfs_sim_open(struct sfs_sim_world *w, const char *path, bool readonly, bool assume, struct sfs_label *label,
                 struct sfs_backend **out, struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    struct sfs_label *own = NULL;
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        return rc;
    struct sfs_sim_handle *h = calloc(1, sizeof *h);
    if (!h || sfs_backend_init(&h->b, &sim_ops, w->env, path, readonly) != 0) {
        free(h);
        rc = sfs_error_set(err, -ENOMEM, "Out of memory.");
        goto out;
    }
    if (d->open)
        rc = sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
    else if (!assume)
        rc = label_read(d, label, err);
    else if (!(own = malloc(sizeof *own)))
        rc = sfs_error_set(err, -ENOMEM, "Out of memory.");
    else
        rc = sfs_disk_may_assume(path, label_read(d, own, NULL), err);
    if (rc == 0 && assume && label->capacity_slabs != d->contents.nslots)
        rc = sfs_error_set(err, -EUCLEAN, "%s is of another size than the label.", path);
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
    free(own);
    sfs_mutex_unlock(&w->m);
    return rc;
}

static int format_locked(struct sfs_sim_disk *d, const char *path, uint64_t want_bytes, bool force,
                         struct sfs_label *label, struct sfs_error *err)
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
                             sfs_size_format(want_bytes ? want_bytes : d->size_bytes, have),
                             sfs_size_format(label->slab_bytes, slab));
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

int sfs_sim_format(struct sfs_sim_world *w, const char *path, uint64_t want_bytes, bool force,
                   struct sfs_label *label, struct sfs_error *err)
{
    struct sfs_sim_disk *d;
    int rc = find_lock(w, path, &d, err);
    if (rc != 0)
        return rc;
    rc = format_locked(d, path, want_bytes, force, label, err);
    sfs_mutex_unlock(&w->m);
    return rc;
}

int sfs_sim_wipe(struct sfs_sim_world *w, const char *path, const struct sfs_uuid *pool,
                 struct sfs_error *err)
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

int sfs_sim_probe(struct sfs_sim_world *w, const char *path, struct sfs_disk_probe *out,
                  struct sfs_error *err)
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
