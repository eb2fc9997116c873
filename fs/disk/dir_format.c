/* Making a directory a disk, and taking what is ours off it again. Only files of names that are ours are ever
 * deleted. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include "fs/base/size.h"
#include "fs/disk/dir.h"

static bool slab_file_ours(const char *name)
{
    uint32_t slot;
    return sfs_dir_slab_name_ok(name, &slot);
}

/* Deletes the files of one part that are ours, then the part if that leaves it empty. */
static int part_erase(int top_fd, const char *part, bool (*ours)(const char *))
{
    struct dirent *e;
    int rc = 0;
    int fd = openat(top_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        rc = -errno;
        close(fd);
        return rc;
    }
    while ((errno = 0, e = readdir(dir)) != NULL) {
        if (ours(e->d_name) && unlinkat(fd, e->d_name, 0) != 0 && errno != ENOENT && rc == 0)
            rc = -errno;
    }
    if (rc == 0 && errno != 0)
        rc = -errno;
    closedir(dir);
    if (rc == 0 && unlinkat(top_fd, part, AT_REMOVEDIR) != 0 && errno != ENOTEMPTY && errno != EEXIST)
        rc = -errno;
    return rc;
}

/* The label first: a directory half erased isn't a disk any more. The lock stays. */
static int erase(int top_fd)
{
    static const char *const labels[] = {"label", "label.copy", "label.new"};
    int rc = 0;
    for (size_t i = 0; i < sizeof labels / sizeof labels[0] && rc == 0; i++) {
        if (unlinkat(top_fd, labels[i], 0) != 0 && errno != ENOENT)
            rc = -errno;
    }
    if (rc == 0 && fsync(top_fd) != 0)
        rc = -errno;
    if (rc == 0)
        rc = part_erase(top_fd, "catalog", sfs_meta_name_ok);
    if (rc == 0)
        rc = part_erase(top_fd, "slabs", slab_file_ours);
    return rc;
}

static int refuse_label(int fd, const char *path, struct sfs_error *err)
{
    struct sfs_error why = {0};
    char uuid[SFS_UUID_STRLEN];
    struct sfs_label *l = malloc(sizeof *l);
    if (!l)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int rc = sfs_dir_read_label(fd, l, NULL, &why);
    if (rc == -ENOENT) {
        rc = 0;
    } else if (rc == 0) {
        sfs_uuid_format(&l->pool_uuid, uuid);
        rc = sfs_error_set(
            err, -EEXIST,
            "%s is disk \"%s\" of pool \"%s\" (%s) already. Use --force to take it from that pool; "
            "what the pool holds on it is lost.",
            path, l->disk_name, l->pool_name, uuid);
    } else {
        rc = sfs_error_set(err, rc == -EUCLEAN ? -EEXIST : rc,
                           "%s bears a label that cannot be used. %s Use --force to format it anyway.", path,
                           why.text[0] ? why.text : strerror(-rc));
    }
    free(l);
    return rc;
}

static int fill_capacity(int fd, const char *path, uint64_t want_bytes, struct sfs_label *label,
                         struct sfs_error *err)
{
    char want[16], have[16], slab[16];
    struct statvfs v;
    uint64_t usable_bytes;
    int rc = sfs_dir_usable_bytes(fd, &usable_bytes);
    if (rc != 0 || fstatvfs(fd, &v) != 0)
        return sfs_error_set(err, rc ? rc : -errno, "The free space of %s cannot be found out.", path);
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    if (want_bytes > free_bytes)
        return sfs_error_set(err, -ENOSPC, "%s is to give %s, but its filesystem has only %s free.", path,
                             sfs_size_format(want_bytes, want), sfs_size_format(free_bytes, have));
    uint64_t bytes = want_bytes ? want_bytes : usable_bytes;
    label->capacity_slabs = bytes / label->slab_bytes;
    if (label->capacity_slabs > SFS_SLOTS_MAX)
        label->capacity_slabs = SFS_SLOTS_MAX;
    if (label->capacity_slabs == 0)
        return sfs_error_set(err, -ENOSPC, "%s has %s to give, less than one slab of %s.", path,
                             sfs_size_format(bytes, have), sfs_size_format(label->slab_bytes, slab));
    return 0;
}

static int make_parts(int top_fd)
{
    static const char *const parts[] = {"slabs", "catalog"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (mkdirat(top_fd, parts[i], 0700) != 0 && errno != EEXIST)
            return -errno;
    }
    return fsync(top_fd) == 0 ? 0 : -errno;
}

/* With fd the user's directory and top_fd .spacesfs, locked. */
static int format_locked(int fd, int top_fd, const char *path, uint64_t want_bytes, struct sfs_label *label,
                         struct sfs_error *err)
{
    int rc = erase(top_fd);
    if (rc != 0)
        return sfs_error_set(err, rc, "What an earlier pool left in %s/.spacesfs cannot be deleted: %s.",
                             path, strerror(-rc));
    rc = fill_capacity(fd, path, want_bytes, label, err);
    if (rc != 0)
        return rc;
    rc = make_parts(top_fd);
    if (rc == 0)
        rc = sfs_dir_write_label(top_fd, label);
    if (rc == 0 && fsync(fd) != 0)
        rc = -errno;
    return rc == 0 ? 0 : sfs_error_set(err, rc, "%s cannot be formatted: %s.", path, strerror(-rc));
}

int sfs_dir_format(struct sfs_env *env, const char *path, uint64_t want_bytes, bool force,
                   struct sfs_label *label, struct sfs_error *err)
{
    int top_fd = -1, lock_fd = -1, rc = 0;
    bool made = false;
    (void)env;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return sfs_error_set(err, -errno, "%s cannot be opened: %s.", path, strerror(errno));
    if (!force && (rc = refuse_label(fd, path, err)) != 0)
        goto out;
    made = mkdirat(fd, ".spacesfs", 0700) == 0;
    if (!made && errno != EEXIST) {
        rc = sfs_error_set(err, -errno, "%s cannot be written to: %s.", path, strerror(errno));
        goto out;
    }
    top_fd = openat(fd, ".spacesfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top_fd < 0) {
        rc = sfs_error_set(err, -errno, "%s/.spacesfs cannot be opened: %s.", path, strerror(errno));
        goto out;
    }
    rc = sfs_dir_lock(top_fd, path, true, &lock_fd, err);
    if (rc == 0 && !force)
        rc = refuse_label(fd, path, err); /* now that nobody else can */
    if (rc == 0)
        rc = format_locked(fd, top_fd, path, want_bytes, label, err);
out:
    if (rc != 0 && made && top_fd >= 0) {
        (void)erase(top_fd);
        unlinkat(top_fd, "lock", 0);
        unlinkat(fd, ".spacesfs", AT_REMOVEDIR);
    }
    if (lock_fd >= 0)
        close(lock_fd);
    if (top_fd >= 0)
        close(top_fd);
    close(fd);
    return rc;
}

int sfs_dir_wipe(const char *path, const struct sfs_uuid *pool, struct sfs_error *err)
{
    struct sfs_error why = {0};
    int top_fd = -1, lock_fd = -1, rc;
    struct sfs_label *l = malloc(sizeof *l);
    if (!l)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        rc = sfs_error_set(err, -errno, "%s cannot be opened: %s.", path, strerror(errno));
        goto out;
    }
    top_fd = openat(fd, ".spacesfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top_fd < 0) {
        rc = sfs_error_set(err, -errno, "%s is not a disk of a pool: its .spacesfs cannot be opened: %s.",
                           path, strerror(errno));
        goto out;
    }
    rc = sfs_dir_lock(top_fd, path, true, &lock_fd, err);
    if (rc != 0)
        goto out;
    rc = sfs_dir_read_label(fd, l, NULL, &why);
    if (rc != 0) {
        rc = sfs_error_set(err, rc, "%s bears no label that can be read: %s", path,
                           why.text[0] ? why.text : strerror(-rc));
        goto out;
    }
    if (!sfs_uuid_equal(&l->pool_uuid, pool)) {
        rc = sfs_error_set(err, -EINVAL, "%s belongs to another pool, \"%s\".", path, l->pool_name);
        goto out;
    }
    rc = erase(top_fd);
    if (rc != 0) {
        rc = sfs_error_set(err, rc, "%s/.spacesfs cannot be deleted: %s.", path, strerror(-rc));
        goto out;
    }
    unlinkat(top_fd, "lock", 0);
    unlinkat(fd, ".spacesfs", AT_REMOVEDIR); /* stays if the user keeps something of his own there */
    if (fsync(fd) != 0)
        rc = sfs_error_set(err, -errno, "%s: %s.", path, strerror(errno));
out:
    if (lock_fd >= 0)
        close(lock_fd);
    if (top_fd >= 0)
        close(top_fd);
    if (fd >= 0)
        close(fd);
    free(l);
    return rc;
}
