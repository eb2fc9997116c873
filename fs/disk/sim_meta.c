/* The metadata area of sim disks: names that lead to inodes, now and when last synced. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/disk/sim_world.h"

#define META_EXTRA_BYTES (64ull << 20) /* room beyond the disk's size */

static uint64_t meta_used_bytes(const struct sfs_sim_contents *c)
{
    const struct sfs_sim_file *f;
    uint64_t used = 0;
    LIST_FOREACH(f, &c->files, link)
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

int64_t sfs_sim_meta_size(struct sfs_backend *b, const char *name)
{
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
    sfs_mutex_lock(&h->w->m);
    int64_t rc = -ENODEV;
    if (sfs_simhandle_alive(h)) {
        struct sfs_sim_inode *inode = meta_inode(&h->disk->contents, name);
        rc = inode ? (int64_t)inode->size : -ENOENT;
    }
    sfs_mutex_unlock(&h->w->m);
    return rc;
}

int sfs_sim_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n)
{
    struct sfs_sim_handle *h = (struct sfs_sim_handle *)b;
    struct sfs_sim_file *f;
    size_t count = 1;
    int rc = -ENODEV;
    *n = 0;
    sfs_mutex_lock(&h->w->m);
    if (sfs_simhandle_alive(h)) {
        LIST_FOREACH(f, &h->disk->contents.files, link)
        count++;
        *out = calloc(count, sizeof **out);
        rc = *out ? 0 : -ENOMEM;
        LIST_FOREACH(f, &h->disk->contents.files, link)
        {
            if (rc != 0 || !f->now)
                continue;
            snprintf((*out)[*n].name, sizeof(*out)[*n].name, "%s", f->name);
            (*out)[(*n)++].size = f->now->size;
        }
    }
    sfs_mutex_unlock(&h->w->m);
    return rc;
}

int64_t sfs_sim_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_sim_step s;
    int64_t rc = sfs_simstep_begin(&s, b, SFS_IO_READ);
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
    return sfs_simstep_end(&s, rc);
}

/* To a size that is larger: what lies between reads as zeros, whatever was there before. */
static int meta_grow(struct sfs_sim_step *s, struct sfs_sim_inode *inode, uint64_t gap_end, uint64_t size)
{
    if (size - inode->size > meta_free_bytes(s->disk))
        return -ENOSPC;
    if (gap_end > inode->size)
        sfs_simstore_write(&inode->store, inode->size, NULL, gap_end - inode->size);
    inode->size = size;
    return 0;
}

int sfs_sim_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
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
        sfs_simstep_write(&s, &inode->store, off, buf, len);
    return (int)sfs_simstep_end(&s, rc);
}

int sfs_sim_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    struct sfs_sim_inode *inode = meta_inode(s.c, name);
    if (!inode)
        rc = -ENOENT;
    else if (!sfs_simstep_applies(&s))
        rc = 0;
    else if (size > inode->size)
        rc = meta_grow(&s, inode, size, size);
    else
        inode->size = size;
    return (int)sfs_simstep_end(&s, rc);
}

int sfs_sim_meta_sync(struct sfs_backend *b, const char *name)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_SYNC);
    if (rc != 0)
        return rc;
    struct sfs_sim_file *f = sfs_simcontents_find(s.c, name);
    if (f && s.fate == SFS_SIM_FATE_DONE) {
        sfs_siminode_set(&f->durable, f->now);
        if (f->now) {
            f->now->durable_size = f->now->size;
            sfs_simstore_sync(&f->now->store);
        }
    } else if (f && f->now && s.fate == SFS_SIM_FATE_FAIL) {
        sfs_simstore_drop(&f->now->store, s.w->env);
    }
    return (int)sfs_simstep_end(&s, 0);
}

int sfs_sim_meta_delete(struct sfs_backend *b, const char *name)
{
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_WRITE);
    if (rc != 0)
        return rc;
    struct sfs_sim_file *f = sfs_simcontents_find(s.c, name);
    if (f && sfs_simstep_applies(&s))
        sfs_siminode_set(&f->now, NULL);
    return (int)sfs_simstep_end(&s, 0);
}

int64_t sfs_sim_meta_free_bytes(struct sfs_backend *b, uint32_t slots)
{
    (void)slots;
    struct sfs_sim_step s;
    int rc = sfs_simstep_begin(&s, b, SFS_IO_READ);
    if (rc != 0)
        return rc;
    return sfs_simstep_end(&s, (int64_t)meta_free_bytes(s.disk));
}
