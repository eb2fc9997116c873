/* stress DIR [--seed N] [--processes N] [--ops N]: several processes change one tree at once, without any
 * order between them; then the tree is walked and must hold together. stress --check DIR: only the walk,
 * after a remount say.
 *
 * Each process makes, writes, appends, truncates, links, renames (also with NOREPLACE and EXCHANGE), removes
 * and lists, in directories shared by all. What is refused because another was faster (ENOENT, EEXIST,
 * ENOTEMPTY …) is no failure; any other errno is.
 *
 * What must hold: a file consists of records of 64 bytes, each written by one write or one append, that name
 * their file's number and have a checksum: never torn, mixed, or another file's; zeros only where a file was
 * cut and grown. A directory's link count is 2 and its subdirectories; a file's is the number of names found;
 * .. leads to where one came from; each entry is found by name, with the type and number that the listing
 * told; nothing is left when all is deleted. */
#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/mount/stream.h"

#define DIRS 12u
#define NAMES 40u

struct record {
    uint64_t ino, seed, op, off;
    uint64_t pad[3];
    uint64_t sum;
};
_Static_assert(sizeof(struct record) == 64, "record");

static uint64_t seed, op, drawn;
static unsigned bad;

static uint64_t draw(uint64_t below)
{
    return stream_word(seed, ++drawn) % below;
}

static void __attribute__((format(printf, 1, 2))) wrong(const char *fmt, ...)
{
    va_list ap;
    int e = errno;

    va_start(ap, fmt);
    printf("process %lu op %lu: ", seed % 1000, op);
    vprintf(fmt, ap);
    printf(" (errno %d, %s)\n", e, strerror(e));
    va_end(ap);
    if (++bad > 20)
        exit(1);
}

/* May a call fail like this when others are at work in the same place? */
static bool is_race(int e)
{
    static const int races[] = {ENOENT, EEXIST,  ENOTEMPTY, ENOTDIR, EISDIR,
                                EINVAL, ENODATA, ELOOP,     EBUSY,   ESTALE};

    for (unsigned k = 0; k < sizeof(races) / sizeof(races[0]); k++)
        if (races[k] == e)
            return true;
    return false;
}

#define TRY(call) ((call) < 0 && !is_race(errno) ? wrong("%s", #call) : (void)0)

static void draw_dir(char *out, size_t cap)
{
    uint64_t k = draw(DIRS);

    if (k < DIRS / 2)
        snprintf(out, cap, "d%lu", k);
    else
        snprintf(out, cap, "d%lu/d%lu", draw(DIRS / 2), k);
}

static void draw_path(char *out, size_t cap)
{
    char dir[40];

    draw_dir(dir, sizeof(dir));
    snprintf(out, cap, "%s/f%lu", dir, draw(NAMES));
}

static uint64_t sum_of(const struct record *r)
{
    return stream_word(r->ino ^ r->seed << 20, r->op ^ r->off << 24);
}

static void make_records(struct record *r, unsigned n, uint64_t ino, uint64_t off)
{
    for (unsigned k = 0; k < n; k++) {
        r[k] = (struct record){.ino = ino, .seed = seed, .op = op, .off = off + k * sizeof(*r)};
        r[k].sum = sum_of(&r[k]);
    }
}

/* --- what a process does
 * ------------------------------------------------------------------------------------ */

static void write_file(bool append)
{
    static struct record r[600];
    char path[64];
    struct stat st;
    unsigned n = draw(4) ? 1 + (unsigned)draw(20) : 1 + (unsigned)draw(600);
    uint64_t off = append ? UINT64_MAX / 64 * 64 : draw(2000) * sizeof(*r);

    draw_path(path, sizeof(path));
    int fd = open(path, O_WRONLY | (draw(2) ? O_CREAT : 0) | (append ? O_APPEND : 0), 0644);
    if (fd < 0) {
        if (!is_race(errno))
            wrong("open %s", path);
        return;
    }
    if (fstat(fd, &st) < 0)
        wrong("fstat %s", path);
    make_records(r, n, st.st_ino, off);
    ssize_t len = (ssize_t)(n * sizeof(*r));
    if ((append ? write(fd, r, (size_t)len) : pwrite(fd, r, (size_t)len, (off_t)off)) != len)
        wrong("write %s", path);
    if (draw(30) == 0 && fsync(fd) < 0)
        wrong("fsync %s", path);
    if (close(fd) < 0)
        wrong("close %s", path);
}

static unsigned check_records(const char *path, uint64_t ino, const struct record *r, size_t n)
{
    static const struct record zero;

    for (size_t k = 0; k < n; k++) {
        if (r[k].sum == sum_of(&r[k]) && r[k].ino == ino)
            continue;
        if (memcmp(&r[k], &zero, sizeof(zero)) == 0)
            continue;
        if (op && r[k].sum != sum_of(&r[k]))
            continue; /* others are writing: Linux doesn't make reads wait for that */
        wrong("%s: record %zu is of inode %lu (seed %lu, op %lu, at %lu), %s; the file is %lu", path, k,
              r[k].ino, r[k].seed, r[k].op, r[k].off, r[k].sum == sum_of(&r[k]) ? "whole" : "broken", ino);
        return 1;
    }
    return 0;
}

static void check_fd(const char *path, int fd)
{
    static struct record r[4096];
    struct stat st;
    ssize_t n;
    off_t off = 0;

    if (fstat(fd, &st) < 0)
        wrong("fstat %s", path);
    while ((n = pread(fd, r, sizeof(r), off)) > 0) {
        if (check_records(path, st.st_ino, r, (size_t)n / sizeof(*r)))
            break;
        off += n;
    }
    if (n < 0)
        wrong("read %s", path);
}

static void read_file(void)
{
    char path[64];

    draw_path(path, sizeof(path));
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        if (!is_race(errno))
            wrong("open %s", path);
        return;
    }
    check_fd(path, fd);
    close(fd);
}

static void list(const char *dir, bool quiet);

static void names(void)
{
    static const unsigned flags[] = {0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE};
    char a[64], b[64], value[100];

    draw_path(a, sizeof(a));
    draw_path(b, sizeof(b));
    switch (draw(9)) {
    case 0:
        TRY(unlink(a));
        break;
    case 1:
        TRY(link(a, b));
        break;
    case 2:
    case 3:
        TRY(renameat2(AT_FDCWD, a, AT_FDCWD, b, flags[draw(4)]));
        break;
    case 4: /* directories, too: these move below each other */
        draw_dir(a, sizeof(a));
        draw_dir(b, sizeof(b));
        TRY(renameat2(AT_FDCWD, a, AT_FDCWD, b, flags[draw(4)]));
        break;
    case 5:
        draw_dir(a, sizeof(a));
        TRY(draw(3) ? mkdir(a, 0755) : rmdir(a));
        break;
    case 6:
        draw_dir(a, sizeof(a));
        list(a, true);
        break;
    case 7:
        TRY(draw(2) ? chmod(a, 0600 | (mode_t)draw(0200)) : utimensat(AT_FDCWD, a, NULL, 0));
        break;
    default:
        memset(value, 'v', sizeof(value));
        TRY(draw(3) ? setxattr(a, "user.stress", value, draw(100), 0) : removexattr(a, "user.stress"));
        break;
    }
}

static void cut(void)
{
    char path[64];

    draw_path(path, sizeof(path));
    TRY(truncate(path, (off_t)(draw(3000) * sizeof(struct record))));
}

static void work(uint64_t ops)
{
    for (op = 1; op <= ops; op++) {
        switch (draw(10)) {
        case 0:
        case 1:
            write_file(false);
            break;
        case 2:
        case 3:
            write_file(true);
            break;
        case 4:
            read_file();
            break;
        case 5:
            if (draw(2))
                cut();
            break;
        default:
            names();
        }
    }
}

/* --- what must hold
 * ----------------------------------------------------------------------------------------- */

struct found {
    uint64_t ino;
    unsigned names, nlink;
};
static struct found *inodes;
static size_t ninodes, cap_inodes;
static unsigned ndirs;

static void count_name(const struct stat *st)
{
    for (size_t k = 0; k < ninodes; k++)
        if (inodes[k].ino == st->st_ino) {
            inodes[k].names++;
            return;
        }
    if (ninodes == cap_inodes) {
        cap_inodes = cap_inodes ? cap_inodes * 2 : 256;
        inodes = realloc(inodes, cap_inodes * sizeof(*inodes));
        if (!inodes)
            error(2, ENOMEM, "inodes");
    }
    inodes[ninodes++] = (struct found){st->st_ino, 1, (unsigned)st->st_nlink};
}

/* Every name twice or never in one listing: even while others change it, each that stays comes once. */
static void list(const char *dir, bool quiet)
{
    char seen[NAMES + DIRS][8];
    unsigned n = 0;
    DIR *d = opendir(dir);

    if (!d) {
        if (!quiet || !is_race(errno))
            wrong("opendir %s", dir);
        return;
    }
    for (struct dirent *e; (e = readdir(d));) {
        for (unsigned k = 0; k < n; k++)
            if (strcmp(seen[k], e->d_name) == 0)
                wrong("%s: %s is listed twice", dir, e->d_name);
        if (e->d_name[0] != '.' && strlen(e->d_name) < 8 && n < NAMES + DIRS)
            strcpy(seen[n++], e->d_name);
    }
    closedir(d);
}

static void check_tree(int parent, const char *name, uint64_t parent_ino);

static void check_entry(int dir, const struct dirent *e, uint64_t dir_ino, unsigned *subdirs)
{
    struct stat st;

    if (fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        wrong("%s is listed, but not there", e->d_name);
        return;
    }
    if (st.st_ino != e->d_ino || (mode_t)DTTOIF(e->d_type) != (st.st_mode & S_IFMT))
        wrong("%s: the listing says inode %lu, type %u", e->d_name, e->d_ino, e->d_type);
    if (S_ISDIR(st.st_mode)) {
        ++*subdirs;
        check_tree(dir, e->d_name, dir_ino);
        return;
    }
    count_name(&st);
    int fd = openat(dir, e->d_name, O_RDONLY);
    if (fd < 0) {
        wrong("open %s", e->d_name);
        return;
    }
    if (st.st_size % (off_t)sizeof(struct record))
        wrong("%s has %ld bytes", e->d_name, (long)st.st_size);
    check_fd(e->d_name, fd);
    close(fd);
}

static void check_tree(int parent, const char *name, uint64_t parent_ino)
{
    int dir = openat(parent, name, O_RDONLY | O_DIRECTORY);
    DIR *d = dir < 0 ? NULL : fdopendir(dir);
    struct stat st, up;
    unsigned subdirs = 0;

    if (!d || fstat(dir, &st) < 0 || fstatat(dir, "..", &up, 0) < 0) {
        wrong("%s cannot be listed", name);
        return;
    }
    ndirs++;
    if (parent_ino && up.st_ino != parent_ino)
        wrong("%s: .. is inode %lu, not %lu", name, up.st_ino, parent_ino);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            check_entry(dir, e, st.st_ino, &subdirs);
    if (st.st_nlink != 2 + subdirs)
        wrong("%s: %lu links, %u subdirectories", name, st.st_nlink, subdirs);
    closedir(d);
}

static int check(void)
{
    op = 0;
    check_tree(AT_FDCWD, ".", 0);
    for (size_t k = 0; k < ninodes; k++)
        if (inodes[k].names != inodes[k].nlink)
            wrong("inode %lu has %u names and %u links", inodes[k].ino, inodes[k].names, inodes[k].nlink);
    printf("%u directories, %zu files: %u things wrong\n", ndirs, ninodes, bad);
    return bad ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", 1, NULL, 's'},
                                            {"processes", 1, NULL, 'p'},
                                            {"ops", 1, NULL, 'o'},
                                            {"check", 0, NULL, 'c'},
                                            {NULL, 0, NULL, 0}};
    uint64_t first = 1, ops_each = 3000;
    unsigned processes = 6, ill = 0;
    bool only_check = false;
    int c, status;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 's')
            first = strtoull(optarg, NULL, 0);
        else if (c == 'p')
            processes = (unsigned)strtoul(optarg, NULL, 0);
        else if (c == 'o')
            ops_each = strtoull(optarg, NULL, 0);
        else if (c == 'c')
            only_check = true;
        else
            return 2;
    }
    if (optind + 1 != argc || chdir(argv[optind]) < 0)
        error(2, errno, "usage: stress DIR [--seed N] [--processes N] [--ops N] [--check]");
    if (only_check)
        return check();
    for (unsigned k = 0; k < processes; k++) {
        fflush(stdout);
        if (fork() == 0) {
            setvbuf(stdout, NULL, _IOLBF, 0);
            seed = first * 1000 + k;
            work(ops_each);
            fflush(stdout);
            _exit(bad ? 1 : 0);
        }
    }
    while (wait(&status) > 0)
        ill += status != 0;
    if (ill)
        printf("%u processes met what must not be\n", ill);
    return check() || ill ? 1 : 0;
}
