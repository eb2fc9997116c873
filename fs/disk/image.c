/* A block device or a file as a disk: opening and watching it, its label, its slabs. Where things lie:
 * label_format.h. */
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "fs/base/size.h"
#include "fs/disk/image.h"
#include "fs/disk/queue.h"

#define LOCK_TRIES 20
#define LOCK_PAUSE_NS 50000000ull

static struct sfs_image *image_of(struct sfs_backend *b)
{
    return (struct sfs_image *)b;
}

/* --- label ------------------------------------------------------------------------------------ */

uint64_t sfs_image_copy_off(uint64_t image_bytes)
{
    uint64_t end = image_bytes & ~4095ull;
    return end < 2 * SFS_LABEL_BYTES ? 0 : end - SFS_LABEL_BYTES;
}

static int label_at(int fd, uint64_t off, uint8_t *bytes, struct sfs_label *out, struct sfs_error *err)
{
    int64_t got = sfs_pread_upto(fd, bytes, SFS_LABEL_BYTES, off);
    if (got < 0)
        return sfs_error_set(err, (int)got, "The label cannot be read: %s.", strerror((int)-got));
    if (got < SFS_LABEL_BYTES)
        return sfs_error_set(err, -ENOENT, "There is no spacesfs label.");
    return sfs_label_decode(bytes, out, err);
}

/* *stale: one of the two needs to be written again; *end_lost: the one at the end is gone. */
static int labels_read(int fd, struct sfs_label *out, bool *stale, bool *end_lost, struct sfs_error *err)
{
    char signature[64] = "";
    uint64_t size_bytes = 0;
    uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    struct sfs_label *copy = malloc(sizeof *copy);
    int rc = bytes && copy ? sfs_image_size(fd, &size_bytes) : -ENOMEM;
    if (rc != 0)
        goto out;
    int front_rc = label_at(fd, 0, bytes, out, err), copy_rc = -ENOENT;
    /* A label says where its copy is; without one, the end as it is now is the only guess. */
    if (front_rc == 0 && out->layout.image_bytes > 0 && out->layout.image_bytes < size_bytes)
        size_bytes = out->layout.image_bytes;
    if (sfs_image_copy_off(size_bytes) > 0)
        copy_rc = label_at(fd, sfs_image_copy_off(size_bytes), bytes, copy, NULL);
    /* Somebody has made something else of the disk since: a copy that was left over does not make it ours
     * again. */
    if (front_rc == -ENOENT && copy_rc == 0 &&
        (sfs_probe_signature(fd, signature, sizeof signature) != 0 || signature[0]))
        copy_rc = -ENOENT;
    *end_lost = front_rc == 0 && copy_rc == -ENOENT;
    rc = sfs_label_pick(out, front_rc, copy, copy_rc, stale);
out:
    free(bytes);
    free(copy);
    return rc;
}

int sfs_image_read_label(int fd, struct sfs_label *out, bool *stale, struct sfs_error *err)
{
    bool either, end_lost;
    return labels_read(fd, out, stale ? stale : &either, &end_lost, err);
}

int sfs_image_write_label(int fd, uint64_t image_bytes, const uint8_t *bytes)
{
    int rc = sfs_pwrite_full(fd, bytes, SFS_LABEL_BYTES, sfs_image_copy_off(image_bytes));
    if (rc == 0 && fdatasync(fd) != 0)
        rc = -errno;
    if (rc == 0)
        rc = sfs_pwrite_full(fd, bytes, SFS_LABEL_BYTES, 0);
    if (rc == 0 && fdatasync(fd) != 0)
        rc = -errno;
    return rc;
}

static int image_label_write(struct sfs_backend *b, const uint8_t *bytes)
{
    struct sfs_image *im = image_of(b);
    int rc = 0;
    sfs_mutex_lock(&im->label_m);
    const uint64_t offs[] = {sfs_image_copy_off(im->layout.image_bytes), 0};
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = sfs_pwrite_full(im->fd, bytes, SFS_LABEL_BYTES, offs[i]);
        sfs_image_wrote(im);
        if (rc == 0)
            rc = sfs_image_flush(im, NULL);
    }
    sfs_mutex_unlock(&im->label_m);
    return rc;
}

/* The file or device has been made larger: the slots go on, and the label's copy is at the new end from now on. */
static int image_grow(struct sfs_backend *b, uint64_t slabs, struct sfs_label *l, struct sfs_error *err)
{
    struct sfs_image *im = image_of(b);
    char want[16], have[16];
    uint64_t size_bytes = 0;
    int rc = sfs_image_size(im->fd, &size_bytes);
    if (rc != 0)
        return sfs_error_set(err, rc, "The size of %s cannot be found out: %s.", b->path, strerror(-rc));
    sfs_mutex_lock(&im->label_m);
    uint64_t image_bytes = size_bytes > im->layout.image_bytes ? size_bytes : im->layout.image_bytes;
    uint64_t room = (sfs_image_copy_off(image_bytes) - im->layout.slots_off) / b->slab_bytes;
    uint8_t *dirty = slabs <= room ? calloc(slabs, 1) : NULL;
    if (!dirty) {
        rc = slabs <= room ? sfs_error_set(err, -ENOMEM, "Out of memory.")
                           : sfs_error_set(err, -ENOSPC, "%s is to give %s, but it has room for %s. Make the file or device larger first.",
                                           b->path, sfs_size_format(slabs * b->slab_bytes, want),
                                           sfs_size_format(room * b->slab_bytes, have));
        goto out;
    }
    sfs_mutex_lock(&im->state_m);
    memcpy(dirty, im->slot_dirty, sfs_backend_slots(b));
    uint8_t *old = im->slot_dirty;
    im->slot_dirty = dirty;
    sfs_mutex_unlock(&im->state_m);
    free(old);
    im->layout.image_bytes = image_bytes;
    l->layout = im->layout;
    l->capacity_slabs = slabs;
out:
    sfs_mutex_unlock(&im->label_m);
    return rc;
}

/* --- slabs ------------------------------------------------------------------------------------ */

static uint64_t slab_off(const struct sfs_image *im, uint32_t slot)
{
    return im->layout.slots_off + slot * im->b.slab_bytes;
}

static size_t image_read_nowait(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    return sfs_pread_nowait(image_of(b)->fd, buf, len, slab_off(image_of(b), slot) + off);
}

static int image_read(struct sfs_backend *b, uint32_t slot, uint64_t off, uint8_t *buf, size_t len)
{
    return sfs_pread_full(image_of(b)->fd, buf, len, slab_off(image_of(b), slot) + off);
}

void sfs_image_wrote(struct sfs_image *im)
{
    sfs_mutex_lock(&im->state_m);
    im->written++;
    sfs_mutex_unlock(&im->state_m);
}

static int image_write(struct sfs_backend *b, uint32_t slot, uint64_t off, const uint8_t *buf, size_t len)
{
    struct sfs_image *im = image_of(b);
    if (sfs_image_slot_claimed(b, slot))
        return -EBUSY;
    int rc = sfs_pwrite_full(im->fd, buf, len, slab_off(im, slot) + off);
    sfs_mutex_lock(&im->state_m);
    im->written++;
    im->slot_dirty[slot] = 1;
    sfs_mutex_unlock(&im->state_m);
    return rc;
}

/* With sync_m held: writes the dirty slots back one by one, so that a long sync shows that it gets on. The
 * sync proper follows. */
static int flush_slots(struct sfs_image *im, struct sfs_request *rq)
{
    int rc = 0;
    uint32_t slots = sfs_backend_slots(&im->b); /* slots that come to it now are the next sync's */
    uint8_t *dirty = malloc(slots);
    if (!dirty)
        return 0; /* the sync does it all */
    sfs_mutex_lock(&im->state_m);
    memcpy(dirty, im->slot_dirty, slots);
    memset(im->slot_dirty, 0, slots);
    sfs_mutex_unlock(&im->state_m);
    for (int wait = 0; wait < 2 && rc == 0; wait++) {
        unsigned flags =
            SYNC_FILE_RANGE_WRITE | (wait ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER : 0u);
        for (uint32_t i = 0; i < slots && rc == 0; i++) {
            if (!dirty[i])
                continue;
            if (sync_file_range(im->fd, (off_t)slab_off(im, i), (off_t)im->b.slab_bytes, flags) != 0 &&
                errno != ESPIPE && errno != ENOSYS)
                rc = -errno;
            sfs_request_alive(rq);
        }
    }
    free(dirty);
    return rc;
}

int sfs_image_flush(struct sfs_image *im, struct sfs_request *rq)
{
    sfs_mutex_lock_nested(&im->sync_m);
    sfs_mutex_lock(&im->state_m);
    uint64_t written = im->written;
    int rc = im->sync_rc;
    sfs_mutex_unlock(&im->state_m);
    if (rc == 0 && written != im->synced) {
        if (rq)
            rc = flush_slots(im, rq);
        if (fdatasync(im->fd) != 0 && rc == 0)
            rc = -errno;
        if (rc == 0)
            im->synced = written;
        sfs_mutex_lock(&im->state_m);
        im->sync_rc = rc;
        sfs_mutex_unlock(&im->state_m);
    }
    sfs_mutex_unlock(&im->sync_m);
    return rc;
}

static int image_sync(struct sfs_backend *b, struct sfs_request *rq)
{
    return sfs_image_flush(image_of(b), rq);
}

static int image_slab_alloc(struct sfs_backend *b, uint32_t slot)
{
    return sfs_image_slot_claimed(b, slot) ? -EBUSY : 0;
}

static int image_slab_free(struct sfs_backend *b, uint32_t slot)
{
    struct sfs_image *im = image_of(b);
    if (sfs_image_slot_claimed(b, slot))
        return -EBUSY;
    uint64_t range[2] = {slab_off(im, slot), b->slab_bytes};
    /* A help to thin storage; what can't do it loses nothing. */
    if (im->is_block)
        (void)!ioctl(im->fd, BLKDISCARD, range);
    else
        (void)!fallocate(im->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)range[0],
                         (off_t)range[1]);
    return 0;
}

static int image_slab_list(struct sfs_backend *b, struct sfs_slot_list *l)
{
    (void)b;
    (void)l;
    return 0;
}

/* --- is it still there? ----------------------------------------------------------------------- */

static int gone(char *why, size_t why_bytes, const char *text)
{
    snprintf(why, why_bytes, "%s", text);
    return -ENODEV;
}

/* losetup -d of a device in use only marks it to go with its last user: that is us. */
static int check_loop(struct sfs_image *im, char *why, size_t why_bytes)
{
    struct loop_info64 info;
    struct stat st;
    char name[128], backing[4096] = "";
    if (ioctl(im->fd, LOOP_GET_STATUS64, &info) != 0)
        return errno == ENXIO ? gone(why, why_bytes, "its loop device is detached") : 0;
    if ((info.lo_flags & LO_FLAGS_AUTOCLEAR) && !im->loop_autoclear)
        return gone(why, why_bytes, "its loop device is being detached");
    snprintf(name, sizeof name, "/sys/dev/block/%u:%u/loop/backing_file", major(im->rdev), minor(im->rdev));
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int64_t got = sfs_pread_upto(fd, backing, sizeof backing - 1, 0);
    close(fd);
    if (got <= 0)
        return 0;
    backing[strcspn(backing, "\n")] = 0;
    size_t len = strlen(backing);
    if (len > 10 && strcmp(backing + len - 10, " (deleted)") == 0)
        return gone(why, why_bytes, "the file behind its loop device is deleted");
    if (stat(backing, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_ino == info.lo_inode &&
        (uint64_t)st.st_size < info.lo_offset + im->layout.image_bytes)
        return gone(why, why_bytes, "the file behind its loop device is truncated");
    return 0;
}

static int check_path(struct sfs_image *im, char *why, size_t why_bytes)
{
    struct stat st;
    if (stat(im->b.path, &st) != 0)
        return gone(why, why_bytes, strerror(errno));
    if (im->is_block)
        return S_ISBLK(st.st_mode) && st.st_rdev == im->rdev
                   ? 0
                   : gone(why, why_bytes, "its path leads to another device now");
    if (st.st_dev != im->dev || st.st_ino != im->ino)
        return gone(why, why_bytes, "its path leads to another file now");
    return 0;
}

/* Has somebody made something else of it? */
static int check_label(struct sfs_image *im, char *why, size_t why_bytes)
{
    uint8_t head[512];
    if (sfs_pread_full(im->fd, head, sizeof head, 0) != 0)
        return 0; /* a bad sector has a copy elsewhere */
    if (memcmp(head, SFS_LABEL_MAGIC, 8) != 0 ||
        memcmp(head + offsetof(struct sfs_label_disk, disk_uuid), im->disk_uuid.b, 16) != 0)
        return gone(why, why_bytes, "its label was overwritten");
    return 0;
}

static int image_check(struct sfs_backend *b, char *why, size_t why_bytes)
{
    struct sfs_image *im = image_of(b);
    uint64_t size_bytes;
    int rc = check_path(im, why, why_bytes);
    if (rc == 0 && (sfs_image_size(im->fd, &size_bytes) != 0 || size_bytes < im->layout.image_bytes))
        rc = gone(why, why_bytes,
                  im->is_block ? "the device is gone, or has shrunk" : "the file was truncated");
    if (rc == 0 && im->is_loop)
        rc = check_loop(im, why, why_bytes);
    if (rc == 0)
        rc = check_label(im, why, why_bytes);
    return rc;
}

/* --- open ------------------------------------------------------------------------------------- */

static void image_release(struct sfs_backend *b)
{
    (void)flock(image_of(b)->fd, LOCK_UN);
}

static void image_destroy(struct sfs_backend *b)
{
    struct sfs_image *im = image_of(b);
    sfs_image_meta_fini(im);
    sfs_mutex_destroy(&im->label_m);
    sfs_mutex_destroy(&im->sync_m);
    sfs_mutex_destroy(&im->state_m);
    if (im->fd >= 0)
        close(im->fd);
    free(im->slot_dirty);
    sfs_backend_fini(b);
    free(im);
}

static const struct sfs_backend_ops image_ops = {
    .release = image_release,
    .destroy = image_destroy,
    .check = image_check,
    .label_write = image_label_write,
    .grow = image_grow,
    .settle = sfs_image_settle,
    .read_nowait = image_read_nowait,
    .read = image_read,
    .write = image_write,
    .sync = image_sync,
    .slab_alloc = image_slab_alloc,
    .slab_free = image_slab_free,
    .slot_claimed = sfs_image_slot_claimed,
    .slab_list = image_slab_list,
    .meta_size = sfs_image_meta_size,
    .meta_list = sfs_image_meta_list,
    .meta_read_nowait = sfs_image_meta_read_nowait,
    .meta_read = sfs_image_meta_read,
    .meta_write = sfs_image_meta_write,
    .meta_truncate = sfs_image_meta_truncate,
    .meta_sync = sfs_image_meta_sync,
    .meta_delete = sfs_image_meta_delete,
    .meta_free_bytes = sfs_image_meta_free_bytes,
};

int sfs_image_lock(struct sfs_env *env, const char *path, bool readonly, int *out, struct sfs_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return sfs_error_set(err, -errno, "%s cannot be reached: %s.", path, strerror(errno));
    int flags = (readonly ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
    int fd = open(path, flags | (S_ISBLK(st.st_mode) ? O_EXCL : 0));
    if (fd < 0 && errno == EBUSY)
        return sfs_error_set(err, -EBUSY,
                             "%s is in use: it is mounted, or a pool that has it is open (see lsblk).", path);
    if (fd < 0)
        return sfs_error_set(err, -errno, "%s cannot be opened: %s.", path, strerror(errno));
    /* udev locks a device for moments, when something about it has changed. */
    int tries = S_ISBLK(st.st_mode) ? LOCK_TRIES : 1;
    while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int rc = -errno;
        if (rc == -EWOULDBLOCK && --tries > 0) {
            sfs_env_sleep_ns(env, LOCK_PAUSE_NS);
            continue;
        }
        close(fd);
        if (rc == -EWOULDBLOCK)
            return sfs_error_set(err, -EBUSY, "%s is in use: another process has its pool open.", path);
        return sfs_error_set(err, rc, "%s cannot be locked: %s.", path, strerror(-rc));
    }
    *out = fd;
    return 0;
}

static int remember_identity(struct sfs_image *im)
{
    struct loop_info64 info;
    struct stat st;
    if (fstat(im->fd, &st) != 0)
        return -errno;
    im->is_block = S_ISBLK(st.st_mode);
    im->dev = st.st_dev;
    im->ino = st.st_ino;
    im->rdev = st.st_rdev;
    im->b.media = sfs_media_of_device(im->is_block ? st.st_rdev : st.st_dev);
    if (im->is_block && ioctl(im->fd, LOOP_GET_STATUS64, &info) == 0) {
        im->is_loop = true;
        im->loop_autoclear = info.lo_flags & LO_FLAGS_AUTOCLEAR;
    }
    return 0;
}

/* *stale as labels_read's. */
static int own_label(struct sfs_image *im, const char *path, struct sfs_label *label, bool *stale, struct sfs_error *err)
{
    struct sfs_error why = {0};
    int rc = labels_read(im->fd, label, stale, &im->b.end_lost, &why);
    if (rc == -ENOENT)
        return sfs_error_set(err, rc, "%s is not a disk of a pool: it has no label.", path);
    return rc == 0 ? 0 : sfs_error_set(err, rc, "%s: %s", path, why.text[0] ? why.text : strerror(-rc));
}

/* The label is given: only when there is none that could be read, nor anything else's signature. */
static int assumed_label(struct sfs_image *im, const char *path, struct sfs_label *label, struct sfs_error *err)
{
    char signature[64];
    uint64_t size_bytes = 0;
    bool stale, end_lost;
    struct sfs_label *own = malloc(sizeof *own);
    if (!own)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = sfs_disk_may_assume(path, labels_read(im->fd, own, &stale, &end_lost, NULL), err);
    free(own);
    if (rc != 0)
        return rc;
    rc = sfs_probe_signature(im->fd, signature, sizeof signature);
    if (rc == 0 && signature[0])
        return sfs_error_set(err, -EEXIST, "%s holds something else: %s.", path, signature);
    if (rc == 0)
        rc = sfs_image_size(im->fd, &size_bytes);
    if (rc == 0)
        rc = sfs_image_layout_again(label, size_bytes);
    return rc == 0 ? 0 : sfs_error_set(err, rc, "%s can't be that disk: %s.", path, rc == -EUCLEAN ? "it is too small" : strerror(-rc));
}

static int open_label(struct sfs_image *im, const char *path, bool assume, struct sfs_label *label, struct sfs_error *err)
{
    uint64_t size_bytes = 0;
    bool stale = false;
    int rc = assume ? assumed_label(im, path, label, err) : own_label(im, path, label, &stale, err);
    if (rc != 0)
        return rc;
    if (label->kind != SFS_DISK_IMAGE)
        return sfs_error_set(
            err, -EUCLEAN,
            "The label of %s was made for another kind of disk: it must have been copied here.", path);
    if (!sfs_image_layout_ok(label))
        return sfs_error_set(err, -EUCLEAN, "%s: the spacesfs label is damaged: its layout makes no sense.",
                             path);
    rc = sfs_image_size(im->fd, &size_bytes);
    if (rc != 0)
        return sfs_error_set(err, rc, "%s cannot be read: %s.", path, strerror(-rc));
    if (size_bytes < label->layout.image_bytes)
        return sfs_error_set(
            err, -EUCLEAN, "%s is shorter than it was (%llu bytes instead of %llu): it was truncated.", path,
            (unsigned long long)size_bytes, (unsigned long long)label->layout.image_bytes);
    if (stale && !im->b.readonly) {
        uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
        if (!bytes)
            return sfs_error_set(err, -ENOMEM, "Out of memory.");
        sfs_label_encode(label, bytes);
        /* Not being able to mend now is no reason to refuse: the other one is good. */
        (void)sfs_image_write_label(im->fd, label->layout.image_bytes, bytes);
        free(bytes);
    }
    im->layout = label->layout;
    im->disk_uuid = label->disk_uuid;
    sfs_backend_set_label(&im->b, label);
    return 0;
}

int sfs_image_open(struct sfs_env *env, const char *path, bool readonly, bool assume, struct sfs_label *label,
                   struct sfs_backend **out, struct sfs_error *err)
{
    struct sfs_image *im = calloc(1, sizeof *im);
    if (!im || sfs_backend_init(&im->b, &image_ops, env, path, readonly) != 0) {
        free(im);
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    }
    im->b.kind = SFS_DISK_IMAGE;
    im->fd = -1;
    sfs_mutex_init(&im->label_m, env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&im->sync_m, env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&im->state_m, env, SFS_RANK_LEAF);
    sfs_mutex_init(&im->grow_m, env, SFS_RANK_DISKMETA);
    sfs_mutex_init(&im->map_m, env, SFS_RANK_LEAF);
    LIST_INIT(&im->files);

    int rc = sfs_image_lock(env, path, readonly, &im->fd, err);
    if (rc != 0)
        goto fail;
    rc = remember_identity(im);
    if (rc != 0) {
        sfs_error_set(err, rc, "%s cannot be reached: %s.", path, strerror(-rc));
        goto fail;
    }
    rc = open_label(im, path, assume, label, err);
    if (rc != 0)
        goto fail;
    im->slot_dirty = calloc(sfs_backend_slots(&im->b), 1);
    rc = im->slot_dirty ? sfs_image_meta_init(im) : -ENOMEM;
    if (rc != 0) {
        sfs_error_set(err, rc, "The metadata area of %s cannot be read: %s.", path, strerror(-rc));
        goto fail;
    }
    *out = &im->b;
    return 0;
fail:
    image_destroy(&im->b);
    return rc;
}
