/* mktree DIR FILES SEED: makes a tree of that many regular files, with everything that a copy must keep: hard links, symlinks (dangling
 * ones too), xattrs, odd names, modes, owners (as root), times before 1970 and with nanoseconds, sparse files, FIFOs, devices (as root), empty and
 * deep directories. The same seed makes the same tree. */
#include "tests/mount/stream.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_DIRS 2000

static uint64_t seed, counter;
static int root_fd, dirs[MAX_DIRS];
static char *dir_paths[MAX_DIRS];
static unsigned ndirs;
static char last_file[4096]; /* path from the root of the tree, for hard links */

static uint64_t rnd(uint64_t below)
{
    return stream_word(seed, ++counter) % below;
}

static void must(int rc, const char *what, const char *name)
{
    if (rc < 0)
        error(1, errno, "%s %s", what, name);
}

/* Most names are plain; some are of 255 bytes, of arbitrary bytes, UTF-8, or begin and end oddly. Unique by number. */
static void make_name(char out[256], const char *kind, unsigned number)
{
    static const char *const odd[] = {" leading", "trailing ", "new\nline", "-rf", "tab\there", "quote'\"", "back\\slash", "*?[x]", "\xff\xfe\x80", "caf\xc3\xa9",
                                      "\xe6\x97\xa5\xe6\x9c\xac", "\x01\x1b[31m", "#hash", ".hidden", "com.spacesfs", "%s%n"};
    size_t len = (size_t)snprintf(out, 256, "%s%u", kind, number);
    uint64_t choice = rnd(20);
    if (choice == 0) {
        while (len < 255)
            out[len++] = (char)('a' + rnd(26));
        out[len] = 0;
    } else if (choice < 4) {
        snprintf(out + len, 256 - len, "%s", odd[rnd(sizeof(odd) / sizeof(odd[0]))]);
    } else if (choice == 4) {
        for (unsigned n = 0; n < 20; n++) {
            char c = (char)(1 + rnd(255));
            out[len++] = c == '/' ? '_' : c;
        }
        out[len] = 0;
    }
}

static uint64_t file_size(void)
{
    uint64_t kind = rnd(1000);
    if (kind < 50)
        return 0;
    if (kind < 600)
        return 1 + rnd(2500);        /* around what is stored inline */
    if (kind < 950)
        return 1 + rnd(24000);
    if (kind < 980)
        return 65536 * (1 + rnd(3)) + rnd(3) - 1; /* around a checksum's granule */
    if (kind < 998)
        return rnd(400000);
    return (1u << 20) * (1 + rnd(3)) + rnd(3) - 1; /* around the largest extent */
}

static void write_file(int fd, const char *name)
{
    static uint8_t buf[1 << 16];
    uint64_t size = file_size(), content = rnd(1u << 30), off = 0;
    bool sparse = rnd(40) == 0;
    if (sparse)
        off = rnd(3) * 100000 + rnd(5000);
    for (uint64_t end = off + size; off < end;) {
        size_t len = end - off < sizeof(buf) ? end - off : sizeof(buf);
        stream_fill(content, off, buf, len);
        if (pwrite(fd, buf, len, (off_t)off) != (ssize_t)len)
            error(1, errno, "write %s", name);
        off += len;
    }
    if (sparse)
        must(ftruncate(fd, (off_t)(off + rnd(200000))), "truncate", name);
}

static void set_xattrs(int fd, const char *name)
{
    static bool unsupported;
    uint8_t value[900]; /* three of them fit into what ext4 has for them */
    for (uint64_t n = rnd(3) + 1; n > 0 && !unsupported; n--) {
        char key[64];
        snprintf(key, sizeof(key), "user.test.%lu", (unsigned long)n);
        size_t len = rnd(10) == 0 ? rnd(sizeof(value)) : rnd(60);
        stream_fill(rnd(1000), 0, value, len);
        if (fsetxattr(fd, key, value, len, 0) < 0) {
            unsupported = errno == ENOTSUP;
            if (!unsupported)
                error(1, errno, "setxattr %s", name);
            error(0, 0, "the host filesystem takes no user xattrs: the tree has none");
        }
    }
}

static void set_owner_and_times(int dir, const char *name)
{
    if (geteuid() == 0 && rnd(4) == 0)
        must(fchownat(dir, name, (uid_t)rnd(70000), (gid_t)rnd(70000), AT_SYMLINK_NOFOLLOW), "chown", name);
    struct stat st;
    must(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), "stat", name);
    if (!S_ISLNK(st.st_mode) && rnd(3) == 0) {
        mode_t mode = (mode_t)rnd(01000);
        if (S_ISDIR(st.st_mode))
            mode |= 0700 | (rnd(5) == 0 ? 01000 : 0) | (rnd(5) == 0 ? 02000 : 0);
        else if (geteuid() == 0 && rnd(5) == 0)
            mode |= (mode_t)rnd(8) << 9;
        else if (geteuid() != 0)
            mode |= 0400; /* or it could not be copied */
        must(fchmodat(dir, name, mode, 0), "chmod", name);
    }
    struct timespec times[2] = {{.tv_sec = (time_t)rnd(2000000000), .tv_nsec = (long)rnd(1000000000)},
                                {.tv_sec = (time_t)rnd(2000000000) - (rnd(20) == 0 ? 1500000000 : 0), .tv_nsec = (long)rnd(1000000000)}};
    must(utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW), "utimens", name);
}

static void make_dir(void)
{
    /* A third of them in one of the newest directories, so that some are deep. */
    unsigned parent = (unsigned)(rnd(3) == 0 && ndirs > 8 ? ndirs - 1 - rnd(8) : rnd(ndirs));
    char name[256], path[4096];
    make_name(name, "d", ndirs);
    if (strlen(dir_paths[parent]) + strlen(name) > 3000)
        parent = 0;
    snprintf(path, sizeof(path), "%s%s/", dir_paths[parent], name);
    must(mkdirat(dirs[parent], name, 0755), "mkdir", name);
    dirs[ndirs] = openat(dirs[parent], name, O_RDONLY | O_DIRECTORY);
    must(dirs[ndirs], "open", name);
    dir_paths[ndirs++] = strdup(path);
}

static void make_other(unsigned number, unsigned dir)
{
    char name[256], target[256];
    uint64_t kind = rnd(10);
    make_name(name, kind < 5 ? "hard" : "other", number);
    if (kind < 5) {
        if (last_file[0])
            must(linkat(root_fd, last_file, dirs[dir], name, 0), "link", name);
    } else if (kind < 9) {
        make_name(target, rnd(2) ? "../nowhere" : "/nowhere/at/all", number);
        if (rnd(10) == 0) { /* a target too long to be stored beside the inode by most */
            memset(target, 'x', sizeof(target) - 1);
            target[sizeof(target) - 1] = 0;
        }
        must(symlinkat(target, dirs[dir], name), "symlink", name);
        set_owner_and_times(dirs[dir], name);
    } else {
        bool device = geteuid() == 0 && rnd(2);
        must(mknodat(dirs[dir], name, (device ? S_IFCHR : S_IFIFO) | 0640, device ? makedev(1, 3) : 0), "mknod", name);
        set_owner_and_times(dirs[dir], name);
    }
}

static void make_file(unsigned number)
{
    unsigned dir = (unsigned)rnd(ndirs);
    char name[256];
    make_name(name, "f", number);
    int fd = openat(dirs[dir], name, O_WRONLY | O_CREAT | O_EXCL, 0644);
    must(fd, "create", name);
    write_file(fd, name);
    if (rnd(8) == 0)
        set_xattrs(fd, name);
    must(close(fd), "close", name);
    set_owner_and_times(dirs[dir], name);
    if (strlen(dir_paths[dir]) < sizeof(last_file) - sizeof(name))
        strcat(strcpy(last_file, dir_paths[dir]), name);
    if (rnd(10) == 0)
        make_other(number, dir);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        error(2, 0, "usage: mktree DIR FILES SEED");
    unsigned files = (unsigned)strtoul(argv[2], NULL, 10);
    seed = strtoull(argv[3], NULL, 10);
    umask(0);
    must(mkdir(argv[1], 0755), "mkdir", argv[1]);
    root_fd = open(argv[1], O_RDONLY | O_DIRECTORY);
    must(root_fd, "open", argv[1]);
    dirs[ndirs] = root_fd;
    dir_paths[ndirs++] = strdup("");
    unsigned want_dirs = files / 25 + 1 < 900 ? files / 25 + 1 : 900; /* below the usual limit of open files */
    while (ndirs < want_dirs)
        make_dir();
    for (unsigned n = 0; n < files; n++)
        make_file(n);
    for (unsigned n = ndirs - 1; n > 0; n--) { /* directories last: their times change with what is made in them */
        if (rnd(8) == 0)
            set_xattrs(dirs[n], dir_paths[n]);
        char self[] = ".";
        set_owner_and_times(dirs[n], self);
    }
    return 0;
}
