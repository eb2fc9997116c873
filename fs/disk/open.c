/* Opening, formatting and wiping by path: finds the kind, then leaves it to that kind's file. And what
 * backends share. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "fs/disk/queue.h"

/* --- file I/O that is whole or an error ------------------------------------------------------- */

int64_t sfs_pread_upto(int fd, void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        ssize_t got = pread(fd, (uint8_t *)buf + done, len - done, (off_t)(off + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

int sfs_pread_full(int fd, void *buf, size_t len, uint64_t off)
{
    int64_t got = sfs_pread_upto(fd, buf, len, off);
    if (got < 0)
        return (int)got;
    return (size_t)got == len ? 0 : -EIO;
}

int sfs_pwrite_full(int fd, const void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        ssize_t put = pwrite(fd, (const uint8_t *)buf + done, len - done, (off_t)(off + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        if (put == 0)
            return -EIO;
        done += (size_t)put;
    }
    return 0;
}

size_t sfs_pread_nowait(int fd, void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        struct iovec iov = {(uint8_t *)buf + done, len - done};
        ssize_t got = preadv2(fd, &iov, 1, (off_t)(off + done), RWF_NOWAIT);
        if (got <= 0) /* would block, end, error, not supported: all the worker's business */
            break;
        done += (size_t)got;
    }
    return done;
}

/* --- what every backend begins with ----------------------------------------------------------- */

int sfs_backend_init(struct sfs_backend *b, const struct sfs_backend_ops *ops, struct sfs_env *env,
                     const char *path, bool readonly)
{
    b->ops = ops;
    b->env = env;
    b->readonly = readonly;
    b->path = strdup(path);
    return b->path ? 0 : -ENOMEM;
}

void sfs_backend_set_label(struct sfs_backend *b, const struct sfs_label *l)
{
    b->slab_bytes = l->slab_bytes;
    b->capacity_slabs = (uint32_t)l->capacity_slabs;
}

void sfs_backend_fini(struct sfs_backend *b)
{
    free(b->path);
}

/* --- by path ---------------------------------------------------------------------------------- */

static int path_kind(const char *path, enum sfs_disk_kind *out, struct sfs_error *err)
{
    struct stat st;
    if (sfs_sim_is_path(path)) {
        *out = SFS_DISK_SIM;
        return 0;
    }
    if (strlen(path) >= PATH_MAX)
        return sfs_error_set(err, -ENAMETOOLONG, "The path is too long.");
    if (stat(path, &st) != 0)
        return sfs_error_set(err, -errno,
                             errno == ENOENT ? "%s does not exist." : "%s cannot be reached: %s.", path,
                             strerror(errno));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return sfs_error_set(err, -EINVAL, "%s is neither a directory nor a file nor a block device.", path);
    *out = S_ISDIR(st.st_mode) ? SFS_DISK_DIR : SFS_DISK_IMAGE;
    return 0;
}

static int label_usable(const char *path, enum sfs_disk_kind kind, const struct sfs_label *l, bool readonly,
                        struct sfs_error *err)
{
    if (l->kind != kind)
        return sfs_error_set(
            err, -EUCLEAN,
            "The label of %s was made for another kind of disk: it must have been copied here.", path);
    if (!readonly && (l->ro_compat & ~SFS_LABEL_RO_COMPAT_KNOWN))
        return sfs_error_set(err, -EROFS,
                             "%s uses features that this program may not write (ro_compat bits 0x%llx). "
                             "Mount it read-only, or use a newer spacesfs.",
                             path, (unsigned long long)(l->ro_compat & ~SFS_LABEL_RO_COMPAT_KNOWN));
    return 0;
}

int sfs_disk_may_assume(const char *path, int rc, struct sfs_error *err)
{
    if (rc == -EUCLEAN || rc == -ENOENT)
        return 0;
    if (rc == 0 || rc == -EOPNOTSUPP)
        return sfs_error_set(err, -EEXIST, "%s bears a label.", path);
    return sfs_error_set(err, rc, "The label of %s cannot be read: %s.", path, strerror(-rc));
}

int sfs_disk_open(struct sfs_env *env, const char *path, const struct sfs_disk_opts *opts,
                  struct sfs_disk **out, struct sfs_error *err)
{
    enum sfs_disk_kind kind;
    struct sfs_backend *b = NULL;
    sfs_queue_reap();
    int rc = path_kind(path, &kind, err);
    if (rc != 0)
        return rc;
    struct sfs_label *label = malloc(sizeof *label);
    if (!label)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    bool assume = opts->assume != NULL;
    if (assume) {
        *label = *opts->assume;
        label->kind = kind;
        memset(&label->layout, 0, sizeof label->layout);
    }
    if (kind == SFS_DISK_SIM)
        rc = sfs_sim_open(opts->world, path, opts->readonly, assume, label, &b, err);
    else if (kind == SFS_DISK_DIR)
        rc = sfs_dir_open(env, path, opts->readonly, assume, label, &b, err);
    else
        rc = sfs_image_open(env, path, opts->readonly, assume, label, &b, err);
    if (rc != 0)
        goto out;
    rc = label_usable(path, kind, label, opts->readonly, err);
    if (rc != 0) {
        b->ops->release(b);
        b->ops->destroy(b);
        goto out;
    }
    rc = sfs_disk_new(env, b, label, opts, out);
    if (rc != 0)
        sfs_error_set(err, rc, "%s: no threads for it: %s.", path, strerror(-rc));
out:
    free(label);
    return rc;
}

/* What the caller put into the label must come back out of it. */
static int label_check(const struct sfs_label *l, struct sfs_error *err)
{
    struct sfs_label *back = malloc(sizeof *back);
    uint8_t *bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    int rc = -ENOMEM;
    if (back && bytes) {
        sfs_label_encode(l, bytes);
        rc = sfs_label_decode(bytes, back, NULL);
    }
    free(back);
    free(bytes);
    if (rc == -ENOMEM)
        return sfs_error_set(err, rc, "Out of memory.");
    return rc == 0 ? 0
                   : sfs_error_set(err, -EINVAL,
                                   "The label for disk \"%s\" makes no sense (names, uuids or slab size).",
                                   l->disk_name);
}

int sfs_disk_format(struct sfs_env *env, const char *path, struct sfs_sim_world *world, uint64_t want_bytes,
                    bool force, struct sfs_label *label, struct sfs_error *err)
{
    enum sfs_disk_kind kind;
    int rc = path_kind(path, &kind, err);
    if (rc != 0)
        return rc;
    label->kind = kind;
    label->format = SFS_FORMAT_VERSION;
    label->generation = 1;
    label->capacity_slabs = 1;
    memset(&label->layout, 0, sizeof label->layout);
    rc = label_check(label, err);
    if (rc != 0)
        return rc;
    if (kind == SFS_DISK_SIM)
        return sfs_sim_format(world, path, want_bytes, force, label, err);
    if (kind == SFS_DISK_DIR)
        return sfs_dir_format(env, path, want_bytes, force, label, err);
    return sfs_image_format(env, path, want_bytes, force, label, err);
}

int sfs_disk_wipe(struct sfs_env *env, const char *path, struct sfs_sim_world *world,
                  const struct sfs_uuid *pool, struct sfs_error *err)
{
    enum sfs_disk_kind kind;
    int rc = path_kind(path, &kind, err);
    if (rc != 0)
        return rc;
    if (kind == SFS_DISK_SIM)
        return sfs_sim_wipe(world, path, pool, err);
    return kind == SFS_DISK_DIR ? sfs_dir_wipe(path, pool, err) : sfs_image_wipe(env, path, pool, err);
}
