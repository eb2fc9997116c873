/* What is at a path: kind, size, media, label, foreign signatures, identity. Changes nothing. */
#include <blkid/blkid.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "fs/base/buf.h"
#include "fs/disk/backend.h"
#include "fs/disk/label_format.h"

#define SIGNATURE_MIN_BYTES 4096u /* nothing that small is anything, and libblkid takes it for an error */
#define SAMPLE_BYTES (64u << 10)
#define SAMPLES 128u

/* --- devices ---------------------------------------------------------------------------------- */

/* First line of a file in /sys as a number, -1 when there is none. */
static long sysfs_number(dev_t dev, const char *rest)
{
    char path[128], text[32] = "";
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%s", major(dev), minor(dev), rest);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    char *end;
    long value = strtol(text, &end, 10);
    return got > 0 && end != text ? value : -1;
}

enum sfs_media sfs_media_of_device(dev_t dev)
{
    long rotational = sysfs_number(dev, "queue/rotational");
    if (rotational < 0)
        rotational = sysfs_number(dev, "../queue/rotational"); /* a partition */
    return rotational < 0 ? SFS_MEDIA_UNKNOWN : rotational ? SFS_MEDIA_HDD : SFS_MEDIA_SSD;
}

/* The disk that a partition is part of, else dev itself. */
static dev_t whole_device(dev_t dev)
{
    char path[128], text[32] = "";
    unsigned maj, min;
    if (sysfs_number(dev, "partition") < 0)
        return dev;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/../dev", major(dev), minor(dev));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dev;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    return got > 0 && sscanf(text, "%u:%u", &maj, &min) == 2 ? makedev(maj, min) : dev;
}

/* The kernel's own encoding, as in LOOP_GET_STATUS64. */
static dev_t kernel_dev(uint64_t dev)
{
    return makedev((unsigned)(dev >> 8) & 0xfff, (unsigned)((dev & 0xff) | ((dev >> 12) & 0xfff00)));
}

/* A loop device is its backing file: the same disk, when it shows all of it. */
static void device_identity(int fd, dev_t rdev, struct sfs_disk_probe *out)
{
    struct loop_info64 info;
    out->dev = rdev;
    out->ino = 0;
    out->host_dev = whole_device(rdev);
    if (ioctl(fd, LOOP_GET_STATUS64, &info) != 0)
        return;
    out->host_dev = kernel_dev(info.lo_device);
    if (info.lo_offset == 0 && info.lo_sizelimit == 0) {
        out->dev = out->host_dev;
        out->ino = info.lo_inode;
    }
}

int sfs_image_size(int fd, uint64_t *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (S_ISBLK(st.st_mode))
        return ioctl(fd, BLKGETSIZE64, out) == 0 ? 0 : -errno;
    *out = (uint64_t)st.st_size;
    return 0;
}

int sfs_probe_signature(int fd, char *out, size_t out_bytes)
{
    const char *text = NULL;
    uint64_t size_bytes;
    out[0] = 0;
    int rc = sfs_image_size(fd, &size_bytes);
    if (rc != 0 || size_bytes < SIGNATURE_MIN_BYTES)
        return rc;
    blkid_probe pr = blkid_new_probe();
    if (!pr)
        return -ENOMEM;
    if (blkid_probe_set_device(pr, fd, 0, 0) != 0) {
        rc = -EIO;
        goto out;
    }
    blkid_probe_enable_superblocks(pr, 1);
    blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE);
    blkid_probe_enable_partitions(pr, 1);
    rc = blkid_do_safeprobe(pr);
    if (rc == 1) { /* nothing */
        rc = 0;
    } else if (rc == -2) {
        snprintf(out, out_bytes, "several signatures");
        rc = 0;
    } else if (rc < 0) {
        rc = errno > 0 ? -errno : -EIO;
    } else if (blkid_probe_lookup_value(pr, "TYPE", &text, NULL) == 0) {
        snprintf(out, out_bytes, "%s", text);
    } else if (blkid_probe_lookup_value(pr, "PTTYPE", &text, NULL) == 0) {
        snprintf(out, out_bytes, "%s partition table", text);
    }
out:
    blkid_free_probe(pr);
    return rc;
}

/* Is there anything but zeros in the first sample of data at or behind off? 1, 0 or -errno; *next: where it begins, the file's end when there is none. */
static int sample(int fd, uint64_t off, uint64_t size_bytes, uint8_t *buf, uint64_t *next)
{
    off_t data = lseek(fd, (off_t)off, SEEK_DATA);
    if (data < 0 && errno == ENXIO) { /* a hole up to the end */
        *next = size_bytes;
        return 0;
    }
    *next = data < 0 ? off : (uint64_t)data; /* where holes cannot be asked for all is read */
    int64_t got = sfs_pread_upto(fd, buf, SAMPLE_BYTES, *next);
    if (got <= 0)
        return (int)got;
    return buf[0] != 0 || memcmp(buf, buf + 1, (size_t)got - 1) != 0;
}

int sfs_probe_data(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return 0;
    uint64_t size_bytes = (uint64_t)st.st_size, next = 0;
    uint64_t step = size_bytes / SAMPLES > SAMPLE_BYTES ? size_bytes / SAMPLES : SAMPLE_BYTES;
    uint8_t *buf = malloc(SAMPLE_BYTES);
    int rc = buf ? 0 : -ENOMEM;
    for (uint64_t off = 0; rc == 0 && off < size_bytes; off += step) {
        if (next > off && next >= off + step)
            continue; /* a hole: looked at where it ends */
        rc = sample(fd, off, size_bytes, buf, &next);
    }
    if (rc == 0)
        rc = sample(fd, size_bytes > SAMPLE_BYTES ? size_bytes - SAMPLE_BYTES : 0, size_bytes, buf, &next);
    free(buf);
    return rc;
}

/* --- the two kinds ---------------------------------------------------------------------------- */

static int probe_image(int fd, const struct stat *st, const char *path, struct sfs_disk_probe *out,
                       struct sfs_error *err)
{
    out->kind = SFS_DISK_IMAGE;
    int rc = sfs_image_size(fd, &out->size_bytes);
    if (rc != 0)
        return sfs_error_set(err, rc, "The size of %s cannot be found out: %s.", path, strerror(-rc));
    if (S_ISBLK(st->st_mode)) {
        device_identity(fd, st->st_rdev, out);
        out->media = sfs_media_of_device(out->host_dev);
        if (out->media == SFS_MEDIA_UNKNOWN)
            out->media = sfs_media_of_device(st->st_rdev);
    } else {
        out->dev = st->st_dev;
        out->ino = st->st_ino;
        out->host_dev = st->st_dev;
        out->media = sfs_media_of_device(st->st_dev);
    }
    out->label_rc = sfs_image_read_label(fd, &out->label, &out->label_stale, NULL);
    out->has_label = out->label_rc == 0;
    if (out->has_label)
        return 0;
    rc = sfs_probe_signature(fd, out->signature, sizeof out->signature);
    if (rc == 0 && !out->signature[0]) {
        rc = sfs_probe_data(fd);
        out->holds_data = rc > 0;
    }
    if (rc < 0)
        return sfs_error_set(err, rc, "%s cannot be read: %s.", path, strerror(-rc));
    if (S_ISBLK(st->st_mode)) {
        int excl = open(path, O_RDONLY | O_EXCL | O_CLOEXEC);
        if (excl < 0 && errno == EBUSY)
            return sfs_error_set(
                err, -EBUSY, "%s is in use: it is mounted, or part of something that is (see lsblk).", path);
        if (excl >= 0)
            close(excl);
    }
    return 0;
}

static int probe_dir(int fd, const struct stat *st, const char *path, struct sfs_disk_probe *out,
                     struct sfs_error *err)
{
    out->kind = SFS_DISK_DIR;
    out->dev = st->st_dev;
    out->ino = st->st_ino;
    out->host_dev = whole_device(st->st_dev);
    out->media = sfs_media_of_device(st->st_dev);
    int rc = sfs_dir_usable_bytes(fd, &out->size_bytes);
    if (rc != 0)
        return sfs_error_set(err, rc, "The free space of %s cannot be found out: %s.", path, strerror(-rc));
    out->label_rc = sfs_dir_read_label(fd, &out->label, &out->label_stale, NULL);
    if (out->label_rc == -EACCES || out->label_rc == -EPERM)
        return sfs_error_set(err, out->label_rc, "%s/.spacesfs cannot be read: %s.", path,
                             strerror(-out->label_rc));
    out->has_label = out->label_rc == 0;
    return 0;
}

int sfs_disk_probe(struct sfs_env *env, const char *path, struct sfs_sim_world *world,
                   struct sfs_disk_probe *out, struct sfs_error *err)
{
    struct stat st;
    (void)env;
    memset(out, 0, sizeof *out);
    if (sfs_sim_is_path(path))
        return sfs_sim_probe(world, path, out, err);
    /* Looked at before it is opened: opening a FIFO or a tape has effects. */
    if (stat(path, &st) != 0)
        return sfs_error_set(err, -errno,
                             errno == ENOENT ? "%s does not exist." : "%s cannot be reached: %s.", path,
                             strerror(errno));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return sfs_error_set(err, -EINVAL, "%s is neither a directory nor a file nor a block device.", path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sfs_error_set(err, -errno, "%s cannot be opened: %s.", path, strerror(errno));
    int rc;
    if (fstat(fd, &st) != 0)
        rc = sfs_error_set(err, -errno, "%s cannot be reached: %s.", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        rc = probe_dir(fd, &st, path, out, err);
    else if (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
        rc = probe_image(fd, &st, path, out, err);
    else
        rc = sfs_error_set(err, -EINVAL, "%s is neither a directory nor a file nor a block device.", path);
    close(fd);
    return rc;
}
