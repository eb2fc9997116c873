/* A directory as a disk: .spacesfs in it, the lock, the label and its copy. The rest of the directory is the
 * user's and is never touched. A directory without a label is not a disk: its host filesystem may just not be
 * mounted. It is never written to, except to format it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "fs/base/size.h"
#include "fs/disk/dir.h"

#define OUR_DIR ".spacesfs"
#define RESERVE_MIN_BYTES (64ull << 20)

int sfs_dir_openat(int dir_fd, const char *name, int flags)
{
    struct stat st;
    /* Looked at before it is opened, for opening a planted device has effects; O_NONBLOCK in case of a FIFO that comes in between. */
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
        return -EUCLEAN;
    int fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0)
        return errno == ELOOP || errno == EISDIR || errno == ENXIO ? -EUCLEAN : -errno;
    int rc = fstat(fd, &st) != 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EUCLEAN;
    if (rc != 0) {
        close(fd);
        return rc;
    }
    return fd;
}

static int open_dir_at(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP || errno == ENOTDIR ? -EUCLEAN : -errno;
    return fd;
}

int sfs_dir_usable_bytes(int fd, uint64_t *out)
{
    struct statvfs v;
    if (fstatvfs(fd, &v) != 0)
        return -errno;
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    uint64_t reserve_bytes = free_bytes / 20;
    if (reserve_bytes < RESERVE_MIN_BYTES)
        reserve_bytes = RESERVE_MIN_BYTES;
    *out = free_bytes > reserve_bytes ? free_bytes - reserve_bytes : 0;
    return 0;
}

/* --- label ------------------------------------------------------------------------------------ */

static int label_file_read(int top_fd, const char *name, struct sfs_label *out, struct sfs_error *err)
{
    uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    if (!bytes)
        return -ENOMEM;
    int fd = sfs_dir_openat(top_fd, name, O_RDONLY);
    int rc = fd < 0 ? fd : 0;
    if (fd >= 0) {
        int64_t got = sfs_pread_upto(fd, bytes, SFS_LABEL_BYTES, 0);
        close(fd);
        rc = got < 0 ? (int)got : got < SFS_LABEL_BYTES ? -EUCLEAN : 0;
    }
    if (rc == -EUCLEAN)
        sfs_error_set(err, rc, "The spacesfs label is damaged: it is no regular file of the right size.");
    else if (rc == 0)
        rc = sfs_label_decode(bytes, out, err);
    /* A file in the label's place that is no label: damaged. Only no file at all is none. */
    if (rc == -ENOENT && fd >= 0)
        rc = sfs_error_set(err, -EUCLEAN, "The spacesfs label is damaged: it does not begin like one.");
    free(bytes);
    return rc;
}

/* *stale: one of the two needs to be written again. */
static int labels_read(int top_fd, struct sfs_label *out, bool *stale, struct sfs_error *err)
{
    struct sfs_error copy_err = {0};
    struct sfs_label *copy = malloc(sizeof *copy);
    if (!copy)
        return -ENOMEM;
    int rc = label_file_read(top_fd, "label", out, err);
    int copy_rc = label_file_read(top_fd, "label.copy", copy, &copy_err);
    int picked = sfs_label_pick(out, rc, copy, copy_rc, stale);
    if (picked != 0 && picked != rc && err)
        *err = copy_err;
    free(copy);
    return picked;
}

int sfs_dir_read_label(int fd, struct sfs_label *out, bool *stale, struct sfs_error *err)
{
    bool either;
    int top_fd = open_dir_at(fd, OUR_DIR);
    if (top_fd < 0)
        return top_fd;
    int rc = labels_read(top_fd, out, stale ? stale : &either, err);
    close(top_fd);
    return rc;
}

static int label_file_write(int top_fd, const char *name, const uint8_t *bytes)
{
    if (unlinkat(top_fd, "label.new", 0) != 0 && errno != ENOENT)
        return -errno;
    int fd = sfs_dir_openat(top_fd, "label.new", O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    int rc = sfs_pwrite_full(fd, bytes, SFS_LABEL_BYTES, 0);
    if (rc == 0 && fsync(fd) != 0)
        rc = -errno;
    close(fd);
    if (rc == 0 && renameat(top_fd, "label.new", top_fd, name) != 0)
        rc = -errno;
    if (rc == 0 && fsync(top_fd) != 0)
        rc = -errno;
    if (rc != 0)
        unlinkat(top_fd, "label.new", 0);
    return rc;
}

static int labels_write(int top_fd, const uint8_t *bytes)
{
    int rc = label_file_write(top_fd, "label.copy", bytes);
    return rc == 0 ? label_file_write(top_fd, "label", bytes) : rc;
}

int sfs_dir_write_label(int top_fd, const struct sfs_label *l)
{
    uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    if (!bytes)
        return -ENOMEM;
    sfs_label_encode(l, bytes);
    int rc = labels_write(top_fd, bytes);
    free(bytes);
    return rc;
}

static int dir_label_write(struct sfs_backend *b, const uint8_t *bytes)
{
    struct sfs_dir *d = (struct sfs_dir *)b;
    sfs_mutex_lock(&d->names_m); /* one at a time */
    int rc = labels_write(d->top_fd, bytes);
    sfs_mutex_unlock(&d->names_m);
    return rc;
}

/* Slabs are made when they are needed: only what the host has now, and what slabs have taken of it, can be promised. */
static int dir_grow(struct sfs_backend *b, uint64_t slabs, struct sfs_label *l, struct sfs_error *err)
{
    char want[16], have[16];
    struct sfs_slot_list made = {0};
    int64_t room = sfs_dir_meta_free_bytes(b, 0);
    int rc = sfs_dir_slab_list(b, &made);
    uint64_t most = made.n + (room > 0 ? (uint64_t)room / b->slab_bytes : 0);
    free(made.slots);
    if (rc != 0)
        return sfs_error_set(err, rc, "The slabs of %s cannot be listed: %s.", b->path, strerror(-rc));
    if (slabs > most)
        return sfs_error_set(err, -ENOSPC, "%s is to give %s, but its filesystem has room for %s with what is there already.", b->path,
                             sfs_size_format(slabs * b->slab_bytes, want), sfs_size_format(most * b->slab_bytes, have));
    l->capacity_slabs = slabs;
    return 0;
}

/* --- lock ------------------------------------------------------------------------------------- */

int sfs_dir_lock(int top_fd, const char *path, bool make, int *out, struct sfs_error *err)
{
    int fd = sfs_dir_openat(top_fd, "lock", make ? O_RDWR | O_CREAT : O_RDONLY);
    if (fd < 0)
        return sfs_error_set(err, fd, "%s/" OUR_DIR "/lock cannot be opened: %s.", path, strerror(-fd));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rc = -errno;
        close(fd);
        if (rc == -EWOULDBLOCK)
            return sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
        return sfs_error_set(err, rc, "%s/" OUR_DIR "/lock cannot be locked: %s.", path, strerror(-rc));
    }
    *out = fd;
    return 0;
}

/* --- open ------------------------------------------------------------------------------------- */

static int dir_check(struct sfs_backend *b, char *why, size_t why_bytes)
{
    struct sfs_dir *d = (struct sfs_dir *)b;
    struct stat st;
    char name[PATH_MAX + 32];
    snprintf(name, sizeof name, "%s/" OUR_DIR, b->path);
    if (stat(name, &st) != 0) {
        snprintf(why, why_bytes, "%s: %s", OUR_DIR, strerror(errno));
        return -ENODEV;
    }
    if (st.st_dev != d->dev || st.st_ino != d->ino) {
        snprintf(why, why_bytes, "its path leads to another directory now");
        return -ENODEV;
    }
    snprintf(name, sizeof name, "%s/" OUR_DIR "/label", b->path);
    int fd = sfs_dir_openat(AT_FDCWD, name, O_RDONLY);
    if (fd < 0) {
        if (fd == -ENOMEM || fd == -EMFILE || fd == -ENFILE)
            return 0; /* that's us, not the disk */
        snprintf(why, why_bytes, "its label: %s", strerror(-fd));
        return -ENODEV;
    }
    close(fd);
    return 0;
}

static void dir_release(struct sfs_backend *b)
{
    (void)flock(((struct sfs_dir *)b)->lock_fd, LOCK_UN);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void dir_destroy(struct sfs_backend *b)
{
    struct sfs_dir *d = (struct sfs_dir *)b;
    sfs_dir_meta_fini(d);
    sfs_dir_slabs_fini(d);
    close_fd(d->slabs_fd);
    close_fd(d->catalog_fd);
    close_fd(d->lock_fd);
    close_fd(d->top_fd);
    sfs_backend_fini(b);
    free(d);
}

static bool dir_slot_claimed(struct sfs_backend *b, uint32_t slot)
{
    (void)b;
    (void)slot;
    return false;
}

static const struct sfs_backend_ops dir_ops = {
    .release = dir_release,
    .destroy = dir_destroy,
    .check = dir_check,
    .label_write = dir_label_write,
    .grow = dir_grow,
    .read_nowait = sfs_dir_read_nowait,
    .read = sfs_dir_read,
    .write = sfs_dir_write,
    .sync = sfs_dir_sync,
    .slab_alloc = sfs_dir_slab_alloc,
    .slab_free = sfs_dir_slab_free,
    .slot_claimed = dir_slot_claimed,
    .slab_list = sfs_dir_slab_list,
    .meta_size = sfs_dir_meta_size,
    .meta_list = sfs_dir_meta_list,
    .meta_read_nowait = sfs_dir_meta_read_nowait,
    .meta_read = sfs_dir_meta_read,
    .meta_write = sfs_dir_meta_write,
    .meta_truncate = sfs_dir_meta_truncate,
    .meta_sync = sfs_dir_meta_sync,
    .meta_delete = sfs_dir_meta_delete,
    .meta_free_bytes = sfs_dir_meta_free_bytes,
};

/* slabs/ or catalog/; made anew when somebody has deleted it. */
static int open_part(struct sfs_dir *d, const char *name, int *out, struct sfs_error *err)
{
    int fd = open_dir_at(d->top_fd, name);
    if (fd == -ENOENT && !d->b.readonly) {
        if (mkdirat(d->top_fd, name, 0700) != 0 || fsync(d->top_fd) != 0)
            fd = -errno;
        else
            fd = open_dir_at(d->top_fd, name);
    }
    if (fd < 0)
        return sfs_error_set(err, fd, "%s/" OUR_DIR "/%s cannot be opened: %s.", d->b.path, name,
                             strerror(-fd));
    *out = fd;
    return 0;
}

static int open_top(const char *path, int *out, struct sfs_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sfs_error_set(err, -errno, "%s cannot be opened: %s.", path, strerror(errno));
    int top_fd = open_dir_at(fd, OUR_DIR);
    close(fd);
    if (top_fd == -ENOENT)
        return sfs_error_set(err, -ENOENT,
                             "%s is not a disk of a pool: it has no " OUR_DIR " directory. "
                             "If its filesystem is not mounted, mount it first.",
                             path);
    if (top_fd < 0)
        return sfs_error_set(err, top_fd, "%s/" OUR_DIR " cannot be opened: %s.", path, strerror(-top_fd));
    *out = top_fd;
    return 0;
}

/* *stale as labels_read's. */
static int own_label(struct sfs_dir *d, const char *path, struct sfs_label *label, bool *stale, struct sfs_error *err)
{
    struct sfs_error why = {0};
    int rc = labels_read(d->top_fd, label, stale, &why);
    if (rc == -ENOENT)
        return sfs_error_set(err, rc, "%s is not a disk of a pool: it has no label.", path);
    return rc == 0 ? 0 : sfs_error_set(err, rc, "%s: %s", path, why.text[0] ? why.text : strerror(-rc));
}

/* The label is given: only when there is none that could be read. */
static int assumed_label(struct sfs_dir *d, const char *path, struct sfs_error *err)
{
    bool stale;
    struct sfs_label *own = malloc(sizeof *own);
    if (!own)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = sfs_disk_may_assume(path, labels_read(d->top_fd, own, &stale, NULL), err);
    free(own);
    return rc;
}

static int open_label(struct sfs_dir *d, const char *path, bool assume, struct sfs_label *label, struct sfs_error *err)
{
    struct stat st;
    bool stale = false;
    int rc = assume ? assumed_label(d, path, err) : own_label(d, path, label, &stale, err);
    if (rc != 0)
        return rc;
    if (fstat(d->top_fd, &st) != 0)
        return sfs_error_set(err, -errno, "%s cannot be reached: %s.", path, strerror(errno));
    d->dev = st.st_dev;
    d->ino = st.st_ino;
    d->b.media = sfs_media_of_device(st.st_dev);
    d->b.host_dev = st.st_dev;
    /* Not being able to mend now is no reason to refuse: the other one is good. */
    if (stale && !d->b.readonly)
        (void)sfs_dir_write_label(d->top_fd, label);
    return 0;
}

int sfs_dir_open(struct sfs_env *env, const char *path, bool readonly, bool assume, struct sfs_label *label,
                 struct sfs_backend **out, struct sfs_error *err)
{
    struct sfs_dir *d = calloc(1, sizeof *d);
    if (!d)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    d->top_fd = d->lock_fd = d->slabs_fd = d->catalog_fd = -1;
    int rc = sfs_backend_init(&d->b, &dir_ops, env, path, readonly);
    if (rc != 0) {
        free(d);
        return sfs_error_set(err, rc, "Out of memory.");
    }
    d->b.kind = SFS_DISK_DIR;
    sfs_dir_slabs_init(d);
    sfs_dir_meta_init(d);
    rc = open_top(path, &d->top_fd, err);
    if (rc == 0)
        rc = sfs_dir_lock(d->top_fd, path, false, &d->lock_fd, err);
    if (rc == 0)
        rc = open_label(d, path, assume, label, err);
    if (rc == 0)
        rc = open_part(d, "slabs", &d->slabs_fd, err);
    if (rc == 0)
        rc = open_part(d, "catalog", &d->catalog_fd, err);
    if (rc == 0) {
        rc = sfs_dir_meta_scan(d);
        if (rc != 0)
            sfs_error_set(err, rc, "%s/" OUR_DIR "/catalog cannot be read: %s.", path, strerror(-rc));
    }
    if (rc != 0) {
        dir_destroy(&d->b);
        return rc;
    }
    sfs_backend_set_label(&d->b, label);
    *out = &d->b;
    return 0;
}
