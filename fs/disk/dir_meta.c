/* Metadata files of a directory: catalog/NAME. Names and sizes are kept in memory from the start, descriptors
 * from first use on. An entry lives as long as it is in the list or pinned; deleting takes it off the list.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "fs/disk/dir.h"

struct sfs_dir_meta {
    LIST_ENTRY(sfs_dir_meta) link;
    char name[SFS_MAP_NAME];
    int fd; /* -1: not opened yet */
    uint64_t size;
    unsigned pins;
    bool dead;
};

static struct sfs_dir *dir_of(struct sfs_backend *b)
{
    return (struct sfs_dir *)b;
}

static void meta_free(struct sfs_dir_meta *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f);
}

/* With meta_m held. */
static struct sfs_dir_meta *meta_find(struct sfs_dir *d, const char *name)
{
    struct sfs_dir_meta *f;
    LIST_FOREACH(f, &d->metas, link)
    {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

static struct sfs_dir_meta *meta_new(const char *name, uint64_t size)
{
    struct sfs_dir_meta *f = calloc(1, sizeof *f);
    if (f) {
        snprintf(f->name, sizeof f->name, "%.*s", (int)sizeof f->name - 1, name);
        f->fd = -1;
        f->size = size;
    }
    return f;
}

void sfs_dir_meta_init(struct sfs_dir *d)
{
    sfs_mutex_init(&d->names_m, d->b.env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&d->meta_sync_m, d->b.env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&d->meta_m, d->b.env, SFS_RANK_LEAF);
    LIST_INIT(&d->metas);
}

int sfs_dir_meta_scan(struct sfs_dir *d)
{
    struct dirent *e;
    struct stat st;
    unsigned n = 0;
    int rc = 0;
    int fd = openat(d->catalog_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (errno = 0, e = readdir(dir)) != NULL) {
        if (!sfs_meta_name_ok(e->d_name) ||
            fstatat(d->catalog_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (n++ == SFS_MAP_FILES) { /* no pool has that many: not to be kept in memory */
            rc = -EUCLEAN;
            break;
        }
        struct sfs_dir_meta *f = meta_new(e->d_name, (uint64_t)st.st_size);
        if (f)
            LIST_INSERT_HEAD(&d->metas, f, link);
        else
            rc = -ENOMEM;
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(dir);
    return rc;
}

void sfs_dir_meta_fini(struct sfs_dir *d)
{
    struct sfs_dir_meta *f;
    while ((f = LIST_FIRST(&d->metas)) != NULL) {
        LIST_REMOVE(f, link);
        meta_free(f);
    }
    sfs_mutex_destroy(&d->meta_m);
    sfs_mutex_destroy(&d->meta_sync_m);
    sfs_mutex_destroy(&d->names_m);
}

/* --- pins ------------------------------------------------------------------------------------- */

/* NULL: not there, or not open yet. */
static struct sfs_dir_meta *meta_pin_open(struct sfs_dir *d, const char *name)
{
    sfs_mutex_lock(&d->meta_m);
    struct sfs_dir_meta *f = meta_find(d, name);
    if (f && f->fd < 0)
        f = NULL;
    if (f)
        f->pins++;
    sfs_mutex_unlock(&d->meta_m);
    return f;
}

static void meta_unpin(struct sfs_dir *d, struct sfs_dir_meta *f, uint64_t reached)
{
    sfs_mutex_lock(&d->meta_m);
    if (f->size < reached)
        f->size = reached;
    if (--f->pins == 0 && f->dead)
        meta_free(f);
    sfs_mutex_unlock(&d->meta_m);
}

/* With names_m held: opens a file, or makes it. */
static int meta_open(struct sfs_dir *d, const char *name, bool make, struct sfs_dir_meta **out)
{
    sfs_mutex_lock(&d->meta_m);
    struct sfs_dir_meta *f = meta_find(d, name), *fresh = NULL;
    bool known = f != NULL;
    sfs_mutex_unlock(&d->meta_m);
    if (!known && !make)
        return -ENOENT;
    if (!known && !(fresh = meta_new(name, 0)))
        return -ENOMEM;
    int fd = sfs_dir_openat(d->catalog_fd, name, d->b.readonly ? O_RDONLY : O_RDWR | (known ? 0 : O_CREAT));
    struct stat st;
    if (fd >= 0 && !known && fstat(fd, &st) == 0)
        fresh->size = (uint64_t)st.st_size;
    if (fd < 0) {
        free(fresh);
        return fd;
    }
    sfs_mutex_lock(&d->meta_m);
    if (!known) {
        f = fresh;
        LIST_INSERT_HEAD(&d->metas, f, link);
        d->meta_names_dirty = true;
    }
    f->fd = fd;
    f->pins++;
    sfs_mutex_unlock(&d->meta_m);
    *out = f;
    return 0;
}

static int meta_pin(struct sfs_dir *d, const char *name, bool make, struct sfs_dir_meta **out)
{
    int rc = 0;
    *out = meta_pin_open(d, name);
    if (*out)
        return 0;
    sfs_mutex_lock(&d->names_m);
    *out = meta_pin_open(d, name);
    if (!*out)
        rc = meta_open(d, name, make, out);
    sfs_mutex_unlock(&d->names_m);
    return rc;
}

/* --- calls ------------------------------------------------------------------------------------ */

int64_t sfs_dir_meta_size(struct sfs_backend *b, const char *name)
{
    struct sfs_dir *d = dir_of(b);
    sfs_mutex_lock(&d->meta_m);
    struct sfs_dir_meta *f = meta_find(d, name);
    int64_t size = f ? (int64_t)f->size : -ENOENT;
    sfs_mutex_unlock(&d->meta_m);
    return size;
}

int sfs_dir_meta_list(struct sfs_backend *b, struct sfs_meta_entry **out, size_t *n)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_meta *f;
    size_t count = 0;
    sfs_mutex_lock(&d->meta_m);
    LIST_FOREACH(f, &d->metas, link)
    count++;
    *out = calloc(count + 1, sizeof **out);
    *n = 0;
    if (*out) {
        LIST_FOREACH(f, &d->metas, link)
        {
            snprintf((*out)[*n].name, sizeof(*out)[*n].name, "%s", f->name);
            (*out)[(*n)++].size = f->size;
        }
    }
    sfs_mutex_unlock(&d->meta_m);
    return *out ? 0 : -ENOMEM;
}

size_t sfs_dir_meta_read_nowait(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf,
                                size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_meta *f = meta_pin_open(d, name);
    if (!f)
        return 0;
    size_t had = sfs_pread_nowait(f->fd, buf, len, off);
    meta_unpin(d, f, 0);
    return had;
}

int64_t sfs_dir_meta_read(struct sfs_backend *b, const char *name, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_meta *f;
    int rc = meta_pin(d, name, false, &f);
    if (rc != 0)
        return rc;
    int64_t got = sfs_pread_upto(f->fd, buf, len, off);
    meta_unpin(d, f, 0);
    return got;
}

int sfs_dir_meta_write(struct sfs_backend *b, const char *name, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_meta *f;
    int rc = meta_pin(d, name, true, &f);
    if (rc != 0)
        return rc;
    rc = sfs_pwrite_full(f->fd, buf, len, off);
    meta_unpin(d, f, rc == 0 && len > 0 ? off + len : 0);
    return rc;
}

int sfs_dir_meta_truncate(struct sfs_backend *b, const char *name, uint64_t size)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_meta *f;
    int rc = meta_pin(d, name, false, &f);
    if (rc != 0)
        return rc;
    rc = ftruncate(f->fd, (off_t)size) == 0 ? 0 : -errno;
    if (rc == 0) {
        sfs_mutex_lock(&d->meta_m);
        f->size = size;
        sfs_mutex_unlock(&d->meta_m);
    }
    meta_unpin(d, f, 0);
    return rc;
}

int sfs_dir_meta_sync(struct sfs_backend *b, const char *name)
{
    struct sfs_dir *d = dir_of(b);
    sfs_mutex_lock(&d->meta_sync_m);
    int rc = d->meta_sync_rc;
    struct sfs_dir_meta *f = meta_pin_open(d, name); /* one that was never opened has nothing to sync */
    sfs_mutex_lock(&d->meta_m);
    bool names = d->meta_names_dirty;
    d->meta_names_dirty = false;
    sfs_mutex_unlock(&d->meta_m);
    if (f && rc == 0 && fdatasync(f->fd) != 0)
        rc = -errno;
    if (names && rc == 0 && fsync(d->catalog_fd) != 0)
        rc = -errno;
    d->meta_sync_rc = rc;
    sfs_mutex_unlock(&d->meta_sync_m);
    if (f)
        meta_unpin(d, f, 0);
    return rc;
}

int sfs_dir_meta_delete(struct sfs_backend *b, const char *name)
{
    struct sfs_dir *d = dir_of(b);
    int rc = 0;
    sfs_mutex_lock(&d->names_m);
    if (unlinkat(d->catalog_fd, name, 0) != 0 && errno != ENOENT)
        rc = -errno;
    sfs_mutex_lock(&d->meta_m);
    struct sfs_dir_meta *f = meta_find(d, name);
    if (rc == 0 && f) {
        LIST_REMOVE(f, link);
        f->dead = true;
        if (f->pins == 0)
            meta_free(f);
    }
    d->meta_names_dirty = true;
    sfs_mutex_unlock(&d->meta_m);
    sfs_mutex_unlock(&d->names_m);
    return rc;
}

int64_t sfs_dir_meta_free_bytes(struct sfs_backend *b, uint32_t slots)
{
    (void)slots; /* those that are free aren't there */
    struct statvfs v;
    if (fstatvfs(dir_of(b)->catalog_fd, &v) != 0)
        return -errno;
    return (int64_t)((uint64_t)v.f_bavail * v.f_frsize);
}
