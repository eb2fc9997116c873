/* Files out of a space into a directory. Every path is taken from the directory above (openat), and nothing that is there is followed or written over: names are whatever the pool's users chose. */
#include "fs/check/extract_impl.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <uthash.h>

#define CHUNK_BYTES (1u << 20)
#define RETRY_BYTES 4096u
#define XATTR_LIST_BYTES 65536u
#define DEPTH_MAX 4000u

/* A file with several names, where its first one was put. */
struct link {
    uint64_t ino;
    char *path; /* from the space's directory */
    UT_hash_handle hh;
};

struct walk {
    struct sfs_extract *x;
    struct sfs_vfs *vfs;
    const char *space;
    int root_fd;
    struct link *links;
    uint8_t *buf; /* CHUNK_BYTES */
    char *path;   /* of the directory, from the space's; grows */
    unsigned depth;
};

/* Names of one directory. */
struct names {
    char **v;
    size_t n, cap;
    int rc;
};

static bool take_name(void *ctx, const char *name, const struct stat *st, uint64_t next_cookie)
{
    struct names *l = ctx;
    (void)st;
    (void)next_cookie;
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        return true;
    if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        char **v = realloc(l->v, cap * sizeof(*v));
        if (!v) {
            l->rc = -ENOMEM;
            return false;
        }
        l->v = v;
        l->cap = cap;
    }
    l->v[l->n] = strdup(name);
    if (!l->v[l->n]) {
        l->rc = -ENOMEM;
        return false;
    }
    l->n++;
    return true;
}

static void names_free(struct names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

static void note_failed(struct walk *w, const char *name, int rc)
{
    w->x->res->failed++;
    sfs_check_note(w->x->c, "%s:%s/%s could not be copied: %s.", w->space, w->path, name, strerror(-rc));
}

/* --- attributes --- */

/* Owner, mode, times and xattrs, as far as they can be set here: contents are what matters. */
static void set_attributes(struct walk *w, uint64_t ino, const struct stat *st, int fd)
{
    char *list = malloc(XATTR_LIST_BYTES), *value = malloc(XATTR_LIST_BYTES);
    size_t len = 0, vlen;
    if (fchown(fd, st->st_uid, st->st_gid) != 0 && geteuid() == 0)
        sfs_check_note(w->x->c, "%s:%s: the owner could not be set: %s.", w->space, w->path, strerror(errno));
    if (list && value && sfs_vfs_listxattr(w->vfs, ino, list, XATTR_LIST_BYTES, &len) == 0)
        for (char *name = list; name < list + len; name += strlen(name) + 1)
            if (sfs_vfs_getxattr(w->vfs, ino, name, value, XATTR_LIST_BYTES, &vlen) == 0 && fsetxattr(fd, name, value, vlen, 0) != 0)
                continue; /* not every filesystem takes every attribute */
    if (fchmod(fd, st->st_mode & 07777) != 0)
        sfs_check_note(w->x->c, "%s:%s: the mode could not be set: %s.", w->space, w->path, strerror(errno));
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    futimens(fd, times);
    free(list);
    free(value);
}

/* --- contents --- */

static void note_lost(struct walk *w, const char *name, uint64_t off, uint64_t len)
{
    struct sfs_extract *x = w->x;
    if (!x->list) {
        int fd = openat(x->to_fd, "damaged.txt", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
        x->list = fd < 0 ? NULL : fdopen(fd, "a");
    }
    if (x->list)
        fprintf(x->list, "%s%s/%s: %" PRIu64 " bytes at %" PRIu64 "\n", w->space, w->path, name, len, off);
    x->res->lost_bytes += len;
}

static int write_all(int fd, const uint8_t *p, size_t len, uint64_t off)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, p, len, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        p += n;
        off += (uint64_t)n;
        len -= (size_t)n;
    }
    return 0;
}

/* [off, off + len) in small pieces: what can't be read stays a hole, and is noted in runs. */
static int copy_hard(struct walk *w, struct sfs_file *in, int out, const char *name, uint64_t off, uint64_t len, bool *damaged)
{
    uint64_t lost_at = 0, lost = 0, end = off + len;
    for (uint64_t at = off; at < end; at += RETRY_BYTES) {
        size_t want = end - at < RETRY_BYTES ? (size_t)(end - at) : RETRY_BYTES, got = 0;
        int rc = sfs_vfs_read(in, w->buf, want, at, &got);
        if (rc && rc != -EIO)
            return rc;
        if (!rc) {
            rc = write_all(out, w->buf, got, at);
            w->x->res->bytes += got;
            if (rc)
                return rc;
            continue;
        }
        *damaged = true;
        if (lost && lost_at + lost == at) {
            lost += want;
            continue;
        }
        if (lost)
            note_lost(w, name, lost_at, lost);
        lost_at = at;
        lost = want;
    }
    if (lost)
        note_lost(w, name, lost_at, lost);
    return 0;
}

static int copy_range(struct walk *w, struct sfs_file *in, int out, const char *name, uint64_t off, uint64_t end, bool *damaged)
{
    int rc = 0;
    while (!rc && off < end) {
        size_t want = end - off < CHUNK_BYTES ? (size_t)(end - off) : CHUNK_BYTES, got = 0;
        rc = sfs_vfs_read(in, w->buf, want, off, &got);
        if (rc == -EIO) {
            rc = copy_hard(w, in, out, name, off, want, damaged);
        } else if (!rc) {
            rc = write_all(out, w->buf, got, off);
            w->x->res->bytes += got;
        }
        off += want;
        if (!rc && sfs_check_cancelled(w->x->c))
            rc = -ECANCELED;
    }
    return rc;
}

static int copy_contents(struct walk *w, struct sfs_file *in, int out, const char *name, uint64_t size, bool *damaged)
{
    uint64_t off = 0;
    int rc = ftruncate(out, (off_t)size) ? -errno : 0;
    while (!rc && off < size) {
        uint64_t data, hole;
        rc = sfs_vfs_lseek(in, off, SEEK_DATA, &data);
        if (rc == -ENXIO)
            return 0;
        if (!rc)
            rc = sfs_vfs_lseek(in, data, SEEK_HOLE, &hole);
        if (rc) { /* a map that can't be loaded: byte by byte */
            data = off;
            hole = size;
        }
        rc = copy_range(w, in, out, name, data, hole < size ? hole : size, damaged);
        off = hole;
    }
    return rc;
}

static int copy_file(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    char other[NAME_MAX + 1];
    struct sfs_file *in = NULL;
    bool damaged = false;
    int out = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return -errno;
    int rc = sfs_vfs_open_file(w->vfs, st->st_ino, O_RDONLY, &in);
    if (!rc)
        rc = copy_contents(w, in, out, name, (uint64_t)st->st_size, &damaged);
    if (in)
        sfs_vfs_release(in);
    if (!rc)
        set_attributes(w, st->st_ino, st, out);
    if (close(out) && !rc)
        rc = -errno;
    if (rc) {
        unlinkat(dir_fd, name, 0);
        return rc;
    }
    w->x->res->files++;
    if (!damaged)
        return 0;
    w->x->res->damaged++;
    snprintf(other, sizeof(other), "%.*s.damaged", (int)(NAME_MAX - 8), name);
    if (faccessat(dir_fd, other, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        renameat(dir_fd, name, dir_fd, other);
    return 0;
}

/* --- names --- */

static int copy_link(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    char target[4097];
    size_t len = 0;
    int rc = sfs_vfs_readlink(w->vfs, st->st_ino, target, sizeof(target) - 1, &len);
    target[rc ? 0 : len] = '\0';
    return !rc && symlinkat(target, dir_fd, name) != 0 ? -errno : rc;
}

/* Links, sockets, fifos, devices. */
static int copy_other(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    bool link = S_ISLNK(st->st_mode);
    int rc = link ? copy_link(w, dir_fd, name, st) : mknodat(dir_fd, name, st->st_mode, st->st_rdev) ? -errno : 0;
    if (!rc && fchownat(dir_fd, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) != 0 && geteuid() == 0)
        rc = -errno;
    if (!rc && !link && fchmodat(dir_fd, name, st->st_mode & 07777, 0) != 0)
        rc = -errno;
    if (!rc)
        utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
    w->x->res->others += rc == 0;
    return rc;
}

/* A second name of what was copied already; -ENOENT: it is the first. */
static int link_to_first(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    struct link *l;
    uint64_t ino = st->st_ino;
    HASH_FIND(hh, w->links, &ino, sizeof(ino), l);
    if (l)
        return linkat(w->root_fd, l->path, dir_fd, name, 0) ? -errno : 0;
    l = calloc(1, sizeof(*l));
    if (!l || asprintf(&l->path, "%s/%s", w->path[0] ? w->path + 1 : ".", name) < 0) {
        free(l);
        return -ENOMEM;
    }
    l->ino = ino;
    HASH_ADD(hh, w->links, ino, sizeof(l->ino), l);
    return -ENOENT;
}

static int copy_dir(struct walk *w, int dir_fd, const char *name, const struct stat *st);

static int copy_one(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    if (S_ISDIR(st->st_mode))
        return copy_dir(w, dir_fd, name, st);
    if (st->st_nlink > 1) {
        int rc = link_to_first(w, dir_fd, name, st);
        if (rc != -ENOENT)
            return rc;
    }
    return S_ISREG(st->st_mode) ? copy_file(w, dir_fd, name, st) : copy_other(w, dir_fd, name, st);
}

static int copy_names(struct walk *w, uint64_t ino, int fd)
{
    struct names l = {0};
    int rc = sfs_vfs_readdir(w->vfs, ino, 0, false, take_name, &l);
    if (!rc)
        rc = l.rc;
    for (size_t i = 0; !rc && i < l.n; i++) {
        struct stat st;
        int why = sfs_vfs_lookup(w->vfs, ino, l.v[i], &st);
        if (!why) {
            why = copy_one(w, fd, l.v[i], &st);
            sfs_vfs_forget(w->vfs, st.st_ino, 1);
        }
        if (why == -ECANCELED || why == -ENOSPC || why == -EDQUOT || why == -ENOMEM || why == -EROFS)
            rc = why; /* it would be the same with all others */
        else if (why)
            note_failed(w, l.v[i], why);
        sfs_check_progress(w->x->c, "data", w->x->res->bytes, 0);
    }
    names_free(&l);
    return rc;
}

static int copy_dir(struct walk *w, int dir_fd, const char *name, const struct stat *st)
{
    size_t was = strlen(w->path);
    char *longer = realloc(w->path, was + strlen(name) + 2);
    if (!longer)
        return -ENOMEM;
    w->path = longer;
    if (w->depth >= DEPTH_MAX)
        return -ELOOP;
    int fd = mkdirat(dir_fd, name, 0700) ? -1 : openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    w->depth++;
    w->path[was] = '/';
    strcpy(w->path + was + 1, name);
    int rc = copy_names(w, st->st_ino, fd);
    set_attributes(w, st->st_ino, st, fd);
    w->path[was] = '\0';
    w->depth--;
    close(fd);
    w->x->res->directories++;
    return rc;
}

int sfs_extract_space(struct sfs_extract *x, struct sfs_vfs *vfs, const char *space)
{
    struct walk w = {.x = x, .vfs = vfs, .space = space, .root_fd = -1, .buf = malloc(CHUNK_BYTES), .path = calloc(1, 1)};
    struct stat st;
    int rc = w.buf && w.path ? sfs_vfs_getattr(vfs, sfs_vfs_root(vfs), &st) : -ENOMEM;
    if (!rc && mkdirat(x->to_fd, space, 0700) != 0)
        rc = -errno;
    if (!rc) {
        w.root_fd = openat(x->to_fd, space, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = w.root_fd < 0 ? -errno : 0;
    }
    if (!rc)
        rc = copy_names(&w, sfs_vfs_root(vfs), w.root_fd);
    if (w.root_fd >= 0) {
        set_attributes(&w, sfs_vfs_root(vfs), &st, w.root_fd);
        close(w.root_fd);
    }
    struct link *l, *next;
    HASH_ITER(hh, w.links, l, next) {
        HASH_DEL(w.links, l);
        free(l->path);
        free(l);
    }
    free(w.buf);
    free(w.path);
    return rc;
}
