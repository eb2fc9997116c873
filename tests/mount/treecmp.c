/* treecmp A B [-v]: compares two trees: names, types, bytes, modes, owners, mtimes, sizes, link targets, device numbers, xattrs, and which names are
 * links to one file. Prints every difference (up to 50); exit 0 the same, 1 different, 2 could not compare. -v: says what was compared. */
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

struct link_pair {
    uint64_t a, b;
};
static struct link_pair *links;
static size_t nlinks;
static unsigned long ndiff, nfiles, ndirs, nothers, nxattrs;
static unsigned long long nbytes;

static void print_escaped(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < 32 || (unsigned char)*s >= 127)
            printf("\\x%02x", (unsigned char)*s);
        else
            putchar(*s);
    }
}

static void differ(const char *path, const char *what)
{
    if (ndiff++ < 50) {
        print_escaped(path);
        printf(": %s\n", what);
    }
}

static void differ_number(const char *path, const char *what, long long a, long long b)
{
    char text[200];
    snprintf(text, sizeof(text), "%s %lld, %lld", what, a, b);
    differ(path, text);
}

static char *join(const char *path, const char *name)
{
    char *out;
    if (asprintf(&out, "%s/%s", path, name) < 0)
        error(2, ENOMEM, "treecmp");
    return out;
}

/* As much as there is: read may give less at a time. -1 for an error anywhere in it. */
static ssize_t read_full(int fd, uint8_t *buf, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = read(fd, buf + done, len - done);
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static void compare_bytes(int da, int db, const char *name, const char *path)
{
    static uint8_t a[1 << 17], b[1 << 17];
    int fa = openat(da, name, O_RDONLY | O_NOFOLLOW), fb = openat(db, name, O_RDONLY | O_NOFOLLOW);
    unsigned long long off = 0;
    if (fa < 0)
        error(2, errno, "%s", path);
    if (fb < 0) {
        differ(path, strerror(errno));
        close(fa);
        return;
    }
    for (;;) {
        ssize_t na = read_full(fa, a, sizeof(a)), nb = read_full(fb, b, sizeof(b));
        if (na < 0)
            error(2, errno, "%s", path);
        if (nb < 0) {
            differ_number(path, strerror(errno), (long long)off, (long long)off);
            break;
        }
        if (na != nb) {
            differ_number(path, "bytes read at one place", na, nb);
            break;
        }
        if (memcmp(a, b, (size_t)na)) {
            size_t i = 0;
            while (a[i] == b[i])
                i++;
            differ_number(path, "bytes differ from offset", (long long)(off + i), (long long)(off + i));
            break;
        }
        if (na == 0)
            break;
        off += (unsigned long long)na;
    }
    nbytes += off;
    close(fa);
    close(fb);
}

/* Names of the xattrs that a copy must keep: user.* and, as far as they are there, the rest but those of security modules. */
static ssize_t list_xattrs(int dir, const char *name, char *out, size_t cap)
{
    char proc[64 + 256];
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d/%s", dir, name);
    ssize_t n = llistxattr(proc, out, cap);
    if (n < 0 && (errno == ENOTSUP || errno == EOPNOTSUPP))
        return 0;
    return n;
}

static ssize_t get_xattr(int dir, const char *name, const char *key, void *out, size_t cap)
{
    char proc[64 + 256];
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d/%s", dir, name);
    return lgetxattr(proc, key, out, cap);
}

static size_t count_xattrs(const char *list, ssize_t len)
{
    size_t n = 0;
    for (ssize_t i = 0; i < len; i += (ssize_t)strlen(list + i) + 1)
        n += strncmp(list + i, "user.", 5) == 0;
    return n;
}

static void compare_xattrs(int da, int db, const char *name, const char *path)
{
    static char la[65536], lb[65536], va[65536], vb[65536];
    ssize_t na = list_xattrs(da, name, la, sizeof(la)), nb = list_xattrs(db, name, lb, sizeof(lb));
    if (na < 0)
        error(2, errno, "%s: listxattr", path);
    if (nb < 0) {
        differ(path, "listxattr fails");
        return;
    }
    if (count_xattrs(la, na) != count_xattrs(lb, nb))
        differ_number(path, "xattrs", (long long)count_xattrs(la, na), (long long)count_xattrs(lb, nb));
    for (ssize_t i = 0; i < na; i += (ssize_t)strlen(la + i) + 1) {
        if (strncmp(la + i, "user.", 5))
            continue;
        ssize_t sa = get_xattr(da, name, la + i, va, sizeof(va)), sb = get_xattr(db, name, la + i, vb, sizeof(vb));
        if (sa < 0)
            error(2, errno, "%s: getxattr", path);
        if (sa != sb || memcmp(va, vb, (size_t)sa))
            differ(path, "an xattr's value");
        nxattrs++;
    }
}

static void compare_stat(const struct stat *a, const struct stat *b, const char *path)
{
    if (a->st_mode != b->st_mode) {
        char text[64];
        snprintf(text, sizeof(text), "mode %o, %o", a->st_mode, b->st_mode);
        differ(path, text);
    }
    if (a->st_uid != b->st_uid)
        differ_number(path, "owner", a->st_uid, b->st_uid);
    if (a->st_gid != b->st_gid)
        differ_number(path, "group", a->st_gid, b->st_gid);
    if (!S_ISDIR(a->st_mode) && a->st_size != b->st_size)
        differ_number(path, "size", a->st_size, b->st_size);
    if (!S_ISDIR(a->st_mode) && a->st_nlink != b->st_nlink)
        differ_number(path, "links", (long long)a->st_nlink, (long long)b->st_nlink);
    if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
        differ_number(path, "mtime (seconds)", a->st_mtim.tv_sec, b->st_mtim.tv_sec);
    else if (a->st_mtim.tv_nsec != b->st_mtim.tv_nsec)
        differ_number(path, "mtime (nanoseconds)", a->st_mtim.tv_nsec, b->st_mtim.tv_nsec);
    if ((S_ISCHR(a->st_mode) || S_ISBLK(a->st_mode)) && a->st_rdev != b->st_rdev)
        differ_number(path, "device", (long long)a->st_rdev, (long long)b->st_rdev);
    if (!S_ISDIR(a->st_mode) && a->st_nlink > 1) {
        if ((nlinks & (nlinks - 1)) == 0) {
            links = realloc(links, (nlinks ? nlinks * 2 : 64) * sizeof(*links));
            if (!links)
                error(2, ENOMEM, "treecmp");
        }
        links[nlinks++] = (struct link_pair){a->st_ino, b->st_ino};
    }
}

static void compare_target(int da, int db, const char *name, const char *path)
{
    char ta[4097], tb[4097];
    ssize_t na = readlinkat(da, name, ta, sizeof(ta)), nb = readlinkat(db, name, tb, sizeof(tb));
    if (na < 0)
        error(2, errno, "%s", path);
    if (na != nb || memcmp(ta, tb, (size_t)na))
        differ(path, "the symlink's target");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **names_of(int dir, const char *path, size_t *n)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char **names = NULL;
    size_t cap = 0;
    *n = 0;
    if (!d)
        error(2, errno, "%s", path);
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (!e && errno)
            error(2, errno, "%s: readdir", path);
        if (!e)
            break;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        if (*n == cap) {
            cap = cap ? cap * 2 : 64;
            names = realloc(names, cap * sizeof(*names));
        }
        if (!names || !(names[*n] = strdup(e->d_name)))
            error(2, ENOMEM, "treecmp");
        ++*n;
    }
    closedir(d);
    if (*n)
        qsort(names, *n, sizeof(*names), by_name);
    return names;
}

static void compare_dirs(int da, int db, const char *path);

static void compare_entry(int da, int db, const char *name, const char *path)
{
    struct stat a, b;
    if (fstatat(da, name, &a, AT_SYMLINK_NOFOLLOW) < 0)
        error(2, errno, "%s", path);
    if (fstatat(db, name, &b, AT_SYMLINK_NOFOLLOW) < 0) {
        differ(path, strerror(errno));
        return;
    }
    compare_stat(&a, &b, path);
    if ((a.st_mode & S_IFMT) != (b.st_mode & S_IFMT))
        return;
    compare_xattrs(da, db, name, path);
    if (S_ISREG(a.st_mode)) {
        nfiles++;
        compare_bytes(da, db, name, path);
    } else if (S_ISLNK(a.st_mode)) {
        nothers++;
        compare_target(da, db, name, path);
    } else if (S_ISDIR(a.st_mode)) {
        int fa = openat(da, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW), fb = openat(db, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fa < 0)
            error(2, errno, "%s", path);
        if (fb < 0)
            differ(path, strerror(errno));
        else
            compare_dirs(fa, fb, path);
        close(fa);
        if (fb >= 0)
            close(fb);
    } else {
        nothers++;
    }
}

static void compare_dirs(int da, int db, const char *path)
{
    size_t na, nb, i = 0, j = 0;
    char **a = names_of(da, path, &na), **b = names_of(db, path, &nb);
    ndirs++;
    while (i < na || j < nb) {
        int order = i == na ? 1 : j == nb ? -1 : strcmp(a[i], b[j]);
        char *sub = join(path, order <= 0 ? a[i] : b[j]);
        if (order < 0)
            differ(sub, "is missing in the second tree");
        else if (order > 0)
            differ(sub, "is in the second tree only");
        else
            compare_entry(da, db, a[i], sub);
        free(sub);
        i += order <= 0;
        j += order >= 0;
    }
    for (i = 0; i < na; i++)
        free(a[i]);
    for (j = 0; j < nb; j++)
        free(b[j]);
    free(a);
    free(b);
}

static int by_a(const void *x, const void *y)
{
    const struct link_pair *p = x, *q = y;
    return p->a != q->a ? (p->a < q->a ? -1 : 1) : p->b != q->b ? (p->b < q->b ? -1 : 1) : 0;
}

static int by_b(const void *x, const void *y)
{
    const struct link_pair p = {((const struct link_pair *)x)->b, ((const struct link_pair *)x)->a}, q = {((const struct link_pair *)y)->b, ((const struct link_pair *)y)->a};
    return by_a(&p, &q);
}

/* Names linked to one file in one tree must be so in the other. */
static void compare_links(void)
{
    if (!nlinks)
        return;
    qsort(links, nlinks, sizeof(*links), by_a);
    for (size_t i = 1; i < nlinks; i++) {
        if (links[i].a == links[i - 1].a && links[i].b != links[i - 1].b)
            differ_number("inode", "one file has become two", (long long)links[i].b, (long long)links[i - 1].b);
    }
    qsort(links, nlinks, sizeof(*links), by_b);
    for (size_t i = 1; i < nlinks; i++) {
        if (links[i].b == links[i - 1].b && links[i].a != links[i - 1].a)
            differ_number("inode", "two files have become one", (long long)links[i].b, (long long)links[i].b);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4)
        error(2, 0, "usage: treecmp A B [-v]");
    int a = open(argv[1], O_RDONLY | O_DIRECTORY), b = open(argv[2], O_RDONLY | O_DIRECTORY);
    if (a < 0)
        error(2, errno, "%s", argv[1]);
    if (b < 0)
        error(2, errno, "%s", argv[2]);
    compare_dirs(a, b, ".");
    compare_links();
    if (ndiff)
        printf("%lu differences\n", ndiff);
    if (argc == 4)
        printf("%lu files (%llu bytes, %zu of them hard links), %lu directories, %lu other things, %lu xattrs compared\n", nfiles, nbytes, nlinks, ndirs, nothers, nxattrs);
    return ndiff ? 1 : 0;
}
