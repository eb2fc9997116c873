/* Making an image: its layout, and writing it. The layout lies in the label, is checked like all that is
 * read, and only its end changes (sfs_disk_grow). */
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fs/base/size.h"
#include "fs/disk/image.h"

#define BASE_MIN_BYTES (2ull << 20)
#define BASE_MAX_BYTES (1ull << 30)
#define MAX_CHUNKS (1u << 20)
#define CLEAR_BYTES (1u << 20) /* at either end: where other formats have their signatures */

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

uint32_t sfs_image_max_claims(const struct sfs_image_layout *y, uint64_t slab_bytes)
{
    return (uint32_t)((y->max_chunks - y->base_chunks) / (slab_bytes / y->chunk_bytes));
}

static uint64_t map_bytes(const struct sfs_image_layout *y, uint64_t slab_bytes)
{
    return sizeof(struct sfs_map_disk) + SFS_MAP_FILES * sizeof(struct sfs_map_file_disk) +
           4ull * sfs_image_max_claims(y, slab_bytes) + 4ull * y->max_chunks;
}

static uint32_t chunk_bytes(uint64_t image_bytes, uint64_t slab_bytes)
{
    uint64_t chunk = image_bytes < 256ull << 20 ? 64u << 10
                     : image_bytes < 1ull << 40 ? 256u << 10
                                                : 1u << 20;
    return (uint32_t)(chunk < slab_bytes ? chunk : slab_bytes);
}

/* Room for a quarter of the image in metadata, growth by at least four slabs. */
static uint32_t max_chunks(const struct sfs_image_layout *y, uint64_t slab_bytes)
{
    uint64_t most = y->image_bytes / 4 / y->chunk_bytes;
    uint64_t least = y->base_chunks + 4 * (slab_bytes / y->chunk_bytes);
    if (most < least)
        most = least;
    return (uint32_t)(most < MAX_CHUNKS ? most : MAX_CHUNKS);
}

/* Fills layout and capacity_slabs; the latter may be 0. */
static void layout_make(struct sfs_label *l, uint64_t image_bytes)
{
    struct sfs_image_layout *y = &l->layout;
    y->image_bytes = image_bytes;
    y->chunk_bytes = chunk_bytes(image_bytes, l->slab_bytes);
    uint64_t base_bytes = image_bytes / 64;
    if (base_bytes < BASE_MIN_BYTES)
        base_bytes = BASE_MIN_BYTES;
    if (base_bytes > BASE_MAX_BYTES)
        base_bytes = BASE_MAX_BYTES;
    y->base_chunks = (uint32_t)(round_up(base_bytes, y->chunk_bytes) / y->chunk_bytes);
    y->max_chunks = max_chunks(y, l->slab_bytes);
    y->map_off = SFS_LABEL_BYTES;
    y->map_bytes = (uint32_t)round_up(map_bytes(y, l->slab_bytes), 4096);
    y->meta_off = y->map_off + 2ull * y->map_bytes;
    y->slots_off = round_up(y->meta_off + (uint64_t)y->base_chunks * y->chunk_bytes,
                            image_bytes > 1ull << 30 ? 1u << 20 : 4096);
    uint64_t end = sfs_image_copy_off(image_bytes);
    l->capacity_slabs = end > y->slots_off ? (end - y->slots_off) / l->slab_bytes : 0;
    if (l->capacity_slabs > SFS_SLOTS_MAX)
        l->capacity_slabs = SFS_SLOTS_MAX;
}

bool sfs_image_layout_ok(const struct sfs_label *l)
{
    const struct sfs_image_layout *y = &l->layout;
    if (y->image_bytes > 1ull << 62 || y->map_off % 4096 || y->meta_off % 4096 || y->slots_off % 4096 ||
        y->map_bytes % 4096)
        return false;
    if (y->chunk_bytes < 4096 || y->chunk_bytes > l->slab_bytes ||
        (y->chunk_bytes & (y->chunk_bytes - 1)) != 0)
        return false;
    if (y->max_chunks > MAX_CHUNKS || y->base_chunks > y->max_chunks ||
        map_bytes(y, l->slab_bytes) > y->map_bytes)
        return false;
    uint64_t end = sfs_image_copy_off(y->image_bytes);
    if (y->map_off < SFS_LABEL_BYTES || y->map_off > end || y->meta_off > end || y->slots_off > end)
        return false;
    return y->meta_off >= y->map_off + 2ull * y->map_bytes &&
           y->slots_off >= y->meta_off + (uint64_t)y->base_chunks * y->chunk_bytes &&
           l->capacity_slabs <= (end - y->slots_off) / l->slab_bytes;
}

int sfs_image_layout_again(struct sfs_label *label, uint64_t image_bytes)
{
    uint64_t slabs = label->capacity_slabs;
    layout_make(label, image_bytes);
    if (slabs == 0 || slabs > label->capacity_slabs)
        return -EUCLEAN;
    label->capacity_slabs = slabs;
    return 0;
}

static int zero_range(int fd, uint64_t off, uint64_t end)
{
    static const uint8_t zeros[64 << 10];
    while (off < end) {
        size_t n = end - off < sizeof zeros ? (size_t)(end - off) : sizeof zeros;
        int rc = sfs_pwrite_full(fd, zeros, n, off);
        if (rc != 0)
            return rc;
        off += n;
    }
    return 0;
}

static int sync_fd(int fd)
{
    return fsync(fd) == 0 ? 0 : -errno;
}

/* Clears first, so that what is half made is no disk; the front label comes last. */
static int write_image(int fd, const struct sfs_label *l)
{
    const struct sfs_image_layout *y = &l->layout;
    uint64_t copy_off = sfs_image_copy_off(y->image_bytes);
    uint64_t tail = copy_off - y->slots_off > CLEAR_BYTES ? copy_off - CLEAR_BYTES : copy_off;
    uint64_t head = y->meta_off > CLEAR_BYTES    ? y->meta_off
                    : CLEAR_BYTES < y->slots_off ? CLEAR_BYTES
                                                 : y->slots_off;
    uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    if (!bytes)
        return -ENOMEM;
    int rc = zero_range(fd, 0, head);
    if (rc == 0)
        rc = zero_range(fd, tail, y->image_bytes);
    if (rc == 0)
        rc = sync_fd(fd);
    if (rc == 0) {
        sfs_image_map_blank(&l->disk_uuid, 1, bytes, 4096);
        rc = sfs_pwrite_full(fd, bytes, 4096, y->map_off);
    }
    if (rc == 0)
        rc = sync_fd(fd);
    if (rc == 0) {
        sfs_label_encode(l, bytes);
        rc = sfs_image_write_label(fd, y->image_bytes, bytes);
    }
    free(bytes);
    return rc;
}

static int refuse_used(int fd, const char *path, struct sfs_error *err)
{
    struct sfs_error why = {0};
    char uuid[SFS_UUID_STRLEN], signature[64];
    struct sfs_label *l = malloc(sizeof *l);
    if (!l)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = sfs_image_read_label(fd, l, NULL, &why);
    if (rc == 0) {
        sfs_uuid_format(&l->pool_uuid, uuid);
        rc = sfs_error_set(
            err, -EEXIST,
            "%s is disk \"%s\" of pool \"%s\" (%s) already. Use --force to take it from that pool; "
            "what the pool holds on it is lost.",
            path, l->disk_name, l->pool_name, uuid);
        goto out;
    }
    if (rc != -ENOENT) {
        rc = sfs_error_set(err, rc == -EUCLEAN || rc == -EOPNOTSUPP ? -EEXIST : rc,
                           "%s bears a label that cannot be used. %s "
                           "Use --force to format it anyway.",
                           path, why.text[0] ? why.text : strerror(-rc));
        goto out;
    }
    rc = sfs_probe_signature(fd, signature, sizeof signature);
    int data = rc == 0 && !signature[0] ? sfs_probe_data(fd) : 0;
    rc = data < 0 ? data : rc;
    if (rc != 0)
        rc = sfs_error_set(err, rc, "%s cannot be read: %s.", path, strerror(-rc));
    else if (signature[0])
        rc = sfs_error_set(err, -EEXIST, "%s holds something already: %s. Use --force to overwrite it.", path,
                           signature);
    else if (data)
        rc = sfs_error_set(err, -EEXIST, "%s holds data already. Use --force to overwrite it.", path);
out:
    free(l);
    return rc;
}

static int plan(int fd, const char *path, uint64_t want_bytes, struct sfs_label *l, struct sfs_error *err)
{
    char have[16], want[16], slab[16];
    uint64_t size_bytes;
    int rc = sfs_image_size(fd, &size_bytes);
    if (rc != 0)
        return sfs_error_set(err, rc, "The size of %s cannot be found out: %s.", path, strerror(-rc));
    if (want_bytes > size_bytes)
        return sfs_error_set(err, -ENOSPC, "%s is to give %s, but it has only %s.", path,
                             sfs_size_format(want_bytes, want), sfs_size_format(size_bytes, have));
    layout_make(l, size_bytes);
    if (want_bytes && want_bytes / l->slab_bytes < l->capacity_slabs)
        l->capacity_slabs = want_bytes / l->slab_bytes;
    if (l->capacity_slabs == 0)
        return sfs_error_set(err, -ENOSPC,
                             "%s is too small: of its %s, %s are for labels and metadata, which leaves less "
                             "than one slab of %s.",
                             path, sfs_size_format(size_bytes, have),
                             sfs_size_format(l->layout.slots_off + SFS_LABEL_BYTES, want),
                             sfs_size_format(l->slab_bytes, slab));
    SFS_ASSERT(sfs_image_layout_ok(l));
    return 0;
}

int sfs_image_format(struct sfs_env *env, const char *path, uint64_t want_bytes, bool force,
                     struct sfs_label *label, struct sfs_error *err)
{
    int fd;
    int rc = sfs_image_lock(env, path, false, &fd, err);
    if (rc != 0)
        return rc;
    if (!force)
        rc = refuse_used(fd, path, err);
    if (rc == 0)
        rc = plan(fd, path, want_bytes, label, err);
    if (rc == 0) {
        rc = write_image(fd, label);
        if (rc != 0)
            sfs_error_set(err, rc, "%s cannot be formatted: %s.", path, strerror(-rc));
    }
    close(fd);
    return rc;
}

static int wipe_locked(int fd, const char *path, const struct sfs_uuid *pool, struct sfs_error *err)
{
    struct sfs_error why = {0};
    struct sfs_label *l = malloc(sizeof *l);
    if (!l)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = sfs_image_read_label(fd, l, NULL, &why);
    if (rc != 0) {
        rc = sfs_error_set(err, rc, "%s bears no label that can be read: %s", path,
                           why.text[0] ? why.text : strerror(-rc));
    } else if (!sfs_uuid_equal(&l->pool_uuid, pool)) {
        rc = sfs_error_set(err, -EINVAL, "%s belongs to another pool, \"%s\".", path, l->pool_name);
    } else if (l->kind != SFS_DISK_IMAGE || !sfs_image_layout_ok(l)) {
        rc = sfs_error_set(err, -EUCLEAN, "%s: the spacesfs label is damaged: its layout makes no sense.",
                           path);
    } else {
        rc = zero_range(fd, 0, l->layout.meta_off);
        if (rc == 0)
            rc = zero_range(fd, sfs_image_copy_off(l->layout.image_bytes), l->layout.image_bytes);
        if (rc == 0)
            rc = sync_fd(fd);
        /* A file is empty again: its room is the host's, and it may be used for another pool without being forced. Where that is not possible it still is no disk any more. (A device has no such call.) */
        if (rc == 0)
            (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)l->layout.image_bytes);
        if (rc != 0)
            sfs_error_set(err, rc, "%s cannot be wiped: %s.", path, strerror(-rc));
    }
    free(l);
    return rc;
}

int sfs_image_wipe(struct sfs_env *env, const char *path, const struct sfs_uuid *pool, struct sfs_error *err)
{
    int fd;
    int rc = sfs_image_lock(env, path, false, &fd, err);
    if (rc == 0) {
        rc = wipe_locked(fd, path, pool, err);
        close(fd);
    }
    return rc;
}
