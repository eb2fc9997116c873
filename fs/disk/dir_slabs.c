/* Slab files of a directory: slabs/XXXXXXXX, preallocated. Open descriptors are kept, up to a limit.
 *
 * A slab is dirty while written != synced. `written` is counted up after each write, before the write is
 * reported, so a sync that starts later sees it. A dirty file's descriptor is not closed without a sync:
 * closing it could lose the kernel's note of a failed write-back. The first sync error is kept and is the
 * result of every later sync. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fs/disk/dir.h"
#include "fs/disk/queue.h"

#define OPEN_SLABS_MAX 256u
#define SLAB_NAME_BYTES 9

struct sfs_dir_slab {
    uint32_t slot;
    int fd;
    unsigned pins;
    bool dead; /* out of the table; closed with its last pin */
    uint64_t written, synced;
    TAILQ_ENTRY(sfs_dir_slab) lru;
    UT_hash_handle hh;
};

static struct sfs_dir *dir_of(struct sfs_backend *b)
{
    return (struct sfs_dir *)b;
}

static void slab_name(uint32_t slot, char out[SLAB_NAME_BYTES])
{
    snprintf(out, SLAB_NAME_BYTES, "%08x", slot);
}

bool sfs_dir_slab_name_ok(const char *name, uint32_t *slot)
{
    char *end;
    if (strlen(name) != 8 || strspn(name, "0123456789abcdef") != 8)
        return false;
    *slot = (uint32_t)strtoul(name, &end, 16);
    return true;
}

/* --- the table of open files ------------------------------------------------------------------ */

static void slab_close(struct sfs_dir_slab *s)
{
    close(s->fd);
    free(s);
}

/* With slabs_m held. */
static void slab_unlink_locked(struct sfs_dir *d, struct sfs_dir_slab *s)
{
    HASH_DEL(d->slabs, s);
    TAILQ_REMOVE(&d->lru, s, lru);
    d->nslabs--;
    s->dead = true;
    if (s->pins == 0)
        slab_close(s);
}

static struct sfs_dir_slab *slab_pin_open(struct sfs_dir *d, uint32_t slot)
{
    struct sfs_dir_slab *s;
    sfs_mutex_lock(&d->slabs_m);
    HASH_FIND(hh, d->slabs, &slot, sizeof slot, s);
    if (s) {
        s->pins++;
        TAILQ_REMOVE(&d->lru, s, lru);
        TAILQ_INSERT_TAIL(&d->lru, s, lru);
    }
    sfs_mutex_unlock(&d->slabs_m);
    return s;
}

static void slab_unpin(struct sfs_dir *d, struct sfs_dir_slab *s, bool wrote)
{
    sfs_mutex_lock(&d->slabs_m);
    s->written += wrote;
    if (--s->pins == 0 && s->dead)
        slab_close(s);
    sfs_mutex_unlock(&d->slabs_m);
}

/* Closes clean files nobody uses until `keep` are left. Returns how many it closed. */
static unsigned slabs_evict_clean(struct sfs_dir *d, unsigned keep)
{
    struct sfs_dir_slab *s, *next;
    unsigned closed = 0;
    sfs_mutex_lock(&d->slabs_m);
    for (s = TAILQ_FIRST(&d->lru); s && d->nslabs > keep; s = next) {
        next = TAILQ_NEXT(s, lru);
        if (s->pins == 0 && s->written == s->synced) {
            slab_unlink_locked(d, s);
            closed++;
        }
    }
    sfs_mutex_unlock(&d->slabs_m);
    return closed;
}

static void slabs_limit(struct sfs_dir *d)
{
    sfs_mutex_lock(&d->slabs_m);
    unsigned n = d->nslabs;
    sfs_mutex_unlock(&d->slabs_m);
    if (n <= OPEN_SLABS_MAX)
        return;
    slabs_evict_clean(d, OPEN_SLABS_MAX);
    sfs_mutex_lock(&d->slabs_m);
    n = d->nslabs;
    sfs_mutex_unlock(&d->slabs_m);
    if (n > 2 * OPEN_SLABS_MAX) {
        (void)sfs_dir_sync(&d->b, NULL); /* its error is kept for the caller of the next sync */
        slabs_evict_clean(d, OPEN_SLABS_MAX);
    }
}

/* Takes fd, also when it fails. */
static int slab_insert(struct sfs_dir *d, uint32_t slot, int fd, struct sfs_dir_slab **out)
{
    struct sfs_dir_slab *s = calloc(1, sizeof *s), *other;
    if (!s) {
        close(fd);
        return -ENOMEM;
    }
    s->slot = slot;
    s->fd = fd;
    s->pins = 1;
    sfs_mutex_lock(&d->slabs_m);
    HASH_FIND(hh, d->slabs, &slot, sizeof slot, other);
    if (other) { /* another thread was faster */
        other->pins++;
    } else {
        HASH_ADD(hh, d->slabs, slot, sizeof slot, s);
        TAILQ_INSERT_TAIL(&d->lru, s, lru);
        d->nslabs++;
    }
    sfs_mutex_unlock(&d->slabs_m);
    if (other)
        slab_close(s);
    *out = other ? other : s;
    slabs_limit(d);
    return 0;
}

static int slab_open_fd(struct sfs_dir *d, uint32_t slot, int flags)
{
    char name[SLAB_NAME_BYTES];
    slab_name(slot, name);
    int fd = sfs_dir_openat(d->slabs_fd, name, flags);
    if (fd == -EMFILE && slabs_evict_clean(d, 0) > 0)
        fd = sfs_dir_openat(d->slabs_fd, name, flags);
    return fd;
}

static int slab_pin(struct sfs_dir *d, uint32_t slot, struct sfs_dir_slab **out)
{
    *out = slab_pin_open(d, slot);
    if (*out)
        return 0;
    int fd = slab_open_fd(d, slot, d->b.readonly ? O_RDONLY : O_RDWR);
    return fd < 0 ? fd : slab_insert(d, slot, fd, out);
}

void sfs_dir_slabs_init(struct sfs_dir *d)
{
    sfs_mutex_init(&d->sync_m, d->b.env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&d->slabs_m, d->b.env, SFS_RANK_LEAF);
    TAILQ_INIT(&d->lru);
}

void sfs_dir_slabs_fini(struct sfs_dir *d)
{
    struct sfs_dir_slab *s;
    while ((s = TAILQ_FIRST(&d->lru)) != NULL)
        slab_unlink_locked(d, s);
    sfs_mutex_destroy(&d->slabs_m);
    sfs_mutex_destroy(&d->sync_m);
}

/* --- I/O -------------------------------------------------------------------------------------- */

size_t sfs_dir_read_nowait(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_slab *s = slab_pin_open(d, slot);
    if (!s)
        return 0;
    size_t had = sfs_pread_nowait(s->fd, buf, len, off);
    slab_unpin(d, s, false);
    return had;
}

int sfs_dir_read(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_slab *s;
    int rc = slab_pin(d, slot, &s);
    if (rc != 0)
        return rc;
    rc = sfs_pread_full(s->fd, buf, len, off);
    slab_unpin(d, s, false);
    return rc;
}

int sfs_dir_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_slab *s;
    int rc = slab_pin(d, slot, &s);
    if (rc != 0)
        return rc;
    rc = sfs_pwrite_full(s->fd, buf, len, off);
    slab_unpin(d, s, true);
    return rc;
}

/* With sync_m held. The dirty files, pinned; each with what of it was written. */
struct dirty {
    struct sfs_dir_slab *slab;
    uint64_t written;
};

static int dirty_collect(struct sfs_dir *d, struct dirty **out, size_t *n, bool *names)
{
    struct sfs_dir_slab *s;
    int rc = 0;
    *n = 0;
    sfs_mutex_lock(&d->slabs_m);
    *names = d->slab_names_dirty;
    *out = malloc((d->nslabs + 1) * sizeof **out);
    if (!*out) {
        rc = -ENOMEM;
        goto out;
    }
    d->slab_names_dirty = false;
    TAILQ_FOREACH(s, &d->lru, lru)
    {
        if (s->written != s->synced) {
            s->pins++;
            (*out)[(*n)++] = (struct dirty){s, s->written};
        }
    }
out:
    sfs_mutex_unlock(&d->slabs_m);
    return rc;
}

static int dirty_sync(struct sfs_dir *d, struct dirty *list, size_t n, struct sfs_request *rq)
{
    int rc = 0;
    /* Gets all of them going, so that they don't wait for each other. */
    for (size_t i = 0; n > 1 && i < n; i++)
        (void)sync_file_range(list[i].slab->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    for (size_t i = 0; i < n; i++) {
        struct sfs_dir_slab *s = list[i].slab;
        bool ok = fdatasync(s->fd) == 0;
        if (!ok && rc == 0)
            rc = -errno;
        if (rq)
            sfs_request_alive(rq);
        sfs_mutex_lock(&d->slabs_m);
        if (ok && s->synced < list[i].written)
            s->synced = list[i].written;
        if (--s->pins == 0 && s->dead)
            slab_close(s);
        sfs_mutex_unlock(&d->slabs_m);
    }
    return rc;
}

int sfs_dir_sync(struct sfs_backend *b, struct sfs_request *rq)
{
    struct sfs_dir *d = dir_of(b);
    struct dirty *list = NULL;
    size_t n;
    bool names;
    sfs_mutex_lock(&d->sync_m);
    int rc = d->sync_rc;
    if (rc == 0)
        rc = dirty_collect(d, &list, &n, &names);
    if (rc == 0) {
        rc = dirty_sync(d, list, n, rq);
        if (names && fsync(d->slabs_fd) != 0 && rc == 0)
            rc = -errno;
        d->sync_rc = rc;
    }
    sfs_mutex_unlock(&d->sync_m);
    free(list);
    return rc;
}

/* --- making and deleting ---------------------------------------------------------------------- */

static int slab_preallocate(int fd, uint64_t bytes)
{
    int rc;
    do
        rc = fallocate(fd, 0, 0, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -errno;
    /* A host that can't preallocate: the size alone. Its lack of space shows when writing. */
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if ((uint64_t)st.st_size < bytes && ftruncate(fd, (off_t)bytes) != 0)
        return -errno;
    return 0;
}

int sfs_dir_slab_alloc(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_slab *s;
    char name[SLAB_NAME_BYTES];
    bool made = true;
    int fd = slab_open_fd(d, slot, O_RDWR | O_CREAT | O_EXCL);
    if (fd == -EEXIST) {
        made = false;
        fd = slab_open_fd(d, slot, O_RDWR);
    }
    if (fd < 0)
        return fd;
    int rc = slab_preallocate(fd, d->b.slab_bytes);
    if (rc != 0) {
        close(fd);
        slab_name(slot, name);
        if (made)
            unlinkat(d->slabs_fd, name, 0);
        return rc;
    }
    rc = slab_insert(d, slot, fd, &s);
    if (rc != 0)
        return rc;
    sfs_mutex_lock(&d->slabs_m);
    d->slab_names_dirty = true;
    sfs_mutex_unlock(&d->slabs_m);
    slab_unpin(d, s, true); /* its size needs a sync */
    return 0;
}

int sfs_dir_slab_free(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_dir *d = dir_of(b);
    struct sfs_dir_slab *s;
    char name[SLAB_NAME_BYTES];
    slab_name(slot, name);
    if (unlinkat(d->slabs_fd, name, 0) != 0 && errno != ENOENT)
        return -errno;
    sfs_mutex_lock(&d->slabs_m);
    d->slab_names_dirty = true;
    HASH_FIND(hh, d->slabs, &slot, sizeof slot, s);
    if (s)
        slab_unlink_locked(d, s);
    sfs_mutex_unlock(&d->slabs_m);
    return 0;
}

int sfs_dir_slab_list(struct sfs_backend *b, struct sfs_slot_list *l)
{
    struct sfs_dir *d = dir_of(b);
    struct dirent *e;
    uint32_t slot;
    int rc = 0;
    int fd = openat(d->slabs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while (rc == 0 && (errno = 0, e = readdir(dir)) != NULL) {
        if (sfs_dir_slab_name_ok(e->d_name, &slot) && slot < sfs_backend_slots(&d->b))
            rc = sfs_slot_list_add(l, slot);
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(dir);
    return rc;
}
