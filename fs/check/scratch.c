/* A store in a directory: where a copy of the catalog lies while files are copied out by it. It never has to survive anything, so that syncs do nothing. */
#include "fs/check/extract_impl.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sfs_scratch {
    int parent_fd, fd;
    char name[40];
};

static int open_file(const struct sfs_scratch *s, const char *name, int flags)
{
    int fd = openat(s->fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : fd;
}

static int64_t scratch_size(void *ctx, const char *name)
{
    const struct sfs_scratch *s = ctx;
    struct stat st;
    return fstatat(s->fd, name, &st, AT_SYMLINK_NOFOLLOW) ? -errno : (int64_t)st.st_size;
}

static int64_t scratch_read(void *ctx, const char *name, void *buf, size_t len, uint64_t off)
{
    int fd = open_file(ctx, name, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t n;
    do
        n = pread(fd, buf, len, (off_t)off);
    while (n < 0 && errno == EINTR);
    int64_t rc = n < 0 ? -errno : n;
    close(fd);
    return rc;
}

static int scratch_write(void *ctx, const char *name, const void *buf, size_t len, uint64_t off)
{
    int fd = open_file(ctx, name, O_WRONLY | O_CREAT), rc = 0;
    if (fd < 0)
        return fd;
    for (size_t done = 0; !rc && done < len;) {
        ssize_t n = pwrite(fd, (const uint8_t *)buf + done, len - done, (off_t)(off + done));
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            rc = -errno;
    }
    if (close(fd) && !rc)
        rc = -errno;
    return rc;
}

static int scratch_truncate(void *ctx, const char *name, uint64_t size)
{
    int fd = open_file(ctx, name, O_WRONLY | O_CREAT);
    if (fd < 0)
        return fd;
    int rc = ftruncate(fd, (off_t)size) ? -errno : 0;
    close(fd);
    return rc;
}

static int scratch_sync(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return 0;
}

static int scratch_remove(void *ctx, const char *name)
{
    const struct sfs_scratch *s = ctx;
    return unlinkat(s->fd, name, 0) && errno != ENOENT ? -errno : 0;
}

static int scratch_list(void *ctx, void (*fn)(const char *name, uint64_t size, void *arg), void *arg)
{
    struct sfs_scratch *s = ctx;
    int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int rc = -errno;
        if (fd >= 0)
            close(fd);
        return rc;
    }
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.')
            fn(e->d_name, (uint64_t)scratch_size(s, e->d_name), arg);
    closedir(d);
    return 0;
}

int sfs_scratch_new(int dir_fd, struct sfs_scratch **out)
{
    struct sfs_scratch *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->parent_fd = dir_fd;
    snprintf(s->name, sizeof(s->name), ".spacesfs-extract-%ld", (long)getpid());
    s->fd = mkdirat(dir_fd, s->name, 0700) ? -1 : openat(dir_fd, s->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd < 0) {
        int rc = -errno;
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static void erase(const char *name, uint64_t size, void *arg)
{
    (void)size;
    scratch_remove(arg, name);
}

void sfs_scratch_free(struct sfs_scratch *s)
{
    if (!s)
        return;
    scratch_list(s, erase, s);
    close(s->fd);
    unlinkat(s->parent_fd, s->name, AT_REMOVEDIR);
    free(s);
}

void sfs_scratch_store(struct sfs_scratch *s, struct sfs_store *out)
{
    static const struct sfs_store_ops ops = {scratch_size, scratch_read, scratch_write, scratch_truncate, scratch_sync, scratch_remove, scratch_list};
    *out = (struct sfs_store){.ops = &ops, .ctx = s, .name = "the working copy", .id = 1};
}
