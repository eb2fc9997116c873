/* posix DIR [CASE...]: what POSIX and Linux promise of a filesystem, tried in DIR, case by case. Prints what broke; exit 0 when nothing did.
 * It is held against the host filesystem too (posix.sh), so that it asks for nothing that others don't do. */
#include "tests/mount/stream.h"

#include <dirent.h>
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char *current;
static unsigned nbroken;

static void broken(int line, const char *what)
{
    printf("%s: line %d: %s (errno %d, %s)\n", current, line, what, errno, strerror(errno));
    nbroken++;
}
#define CHECK(cond) ((cond) ? (void)0 : broken(__LINE__, #cond))
#define FAILS(call, code) (errno = 0, (call) == -1 && errno == (code) ? (void)0 : broken(__LINE__, #call " should fail with " #code))

static void put_file(const char *name, const void *data, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, data, len) == (ssize_t)len);
    CHECK(close(fd) == 0);
}

static bool file_is(const char *name, const void *data, size_t len)
{
    char *buf = malloc(len + 1);
    int fd = open(name, O_RDONLY);
    ssize_t n = 0, got = 0;
    while (fd >= 0 && buf && (size_t)got <= len && (n = read(fd, buf + got, len + 1 - (size_t)got)) > 0)
        got += n;
    bool same = fd >= 0 && n >= 0 && (size_t)got == len && !memcmp(buf, data, len);
    if (fd >= 0)
        close(fd);
    free(buf);
    return same;
}

static bool all_zero(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i])
            return false;
    }
    return true;
}

static struct stat stat_of(const char *name)
{
    struct stat st;
    memset(&st, 0, sizeof(st));
    if (lstat(name, &st) < 0)
        st.st_nlink = 0;
    return st;
}

/* --- names and directories --------------------------------------------------------------------------------------------------------------- */
static void names(void)
{
    char longest[257];
    memset(longest, 'n', 256);
    longest[256] = 0;
    FAILS(open(longest, O_CREAT | O_WRONLY, 0644), ENAMETOOLONG);
    longest[255] = 0;
    put_file(longest, "x", 1);
    CHECK(file_is(longest, "x", 1));
    char bytes[256];
    unsigned n = 0;
    for (unsigned c = 1; c < 256; c++) {
        if (c != '/')
            bytes[n++] = (char)c;
    }
    bytes[n] = 0; /* 254 bytes: every one that a name may hold */
    put_file(bytes, "y", 1);
    CHECK(file_is(bytes, "y", 1));
    static const char *const odd[] = {"...", " ", "a b", "new\nline", "caf\xc3\xa9", "cafe\xcc\x81", "\xff", "-", "*", "\\"};
    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        put_file(odd[i], odd[i], strlen(odd[i]));
    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        CHECK(file_is(odd[i], odd[i], strlen(odd[i])));
    DIR *d = opendir(".");
    unsigned seen = 0, found = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        seen++;
        found += !strcmp(e->d_name, longest) || !strcmp(e->d_name, bytes);
    }
    CHECK(seen == 2 + 2 + sizeof(odd) / sizeof(odd[0]));
    CHECK(found == 2);
    closedir(d);
    CHECK(unlink(bytes) == 0);
    FAILS(unlink(bytes), ENOENT);
    FAILS(open("", O_RDONLY), ENOENT);
}

static void directories(void)
{
    CHECK(mkdir("a", 0751) == 0);
    CHECK((stat_of("a").st_mode & 07777) == 0751);
    CHECK(stat_of("a").st_nlink == 2 || stat_of("a").st_nlink == 1);
    FAILS(mkdir("a", 0755), EEXIST);
    CHECK(mkdir("a/b", 0755) == 0);
    FAILS(rmdir("a"), ENOTEMPTY);
    FAILS(unlink("a"), EISDIR);
    put_file("file", "", 0);
    FAILS(rmdir("file"), ENOTDIR);
    FAILS(mkdir("file/x", 0755), ENOTDIR);
    FAILS(mkdir("none/x", 0755), ENOENT);
    FAILS(open("a", O_WRONLY), EISDIR);
    CHECK(rmdir("a/b") == 0);
    CHECK(rmdir("a") == 0);
    FAILS(rmdir("a"), ENOENT);
    /* Depth. */
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    for (unsigned i = 0; i < 200; i++) {
        CHECK(mkdirat(fd, "deep", 0755) == 0);
        int next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
        CHECK(next >= 0);
        close(fd);
        fd = next;
    }
    struct stat st, up;
    CHECK(fstatat(fd, "..", &up, 0) == 0 && fstat(fd, &st) == 0 && up.st_ino != st.st_ino);
    close(fd);
    /* A directory that is removed while open stays usable as far as it must, and takes nothing new. */
    CHECK(mkdir("gone", 0755) == 0);
    fd = open("gone", O_RDONLY | O_DIRECTORY);
    CHECK(rmdir("gone") == 0);
    CHECK(fstat(fd, &st) == 0);
    FAILS(openat(fd, "x", O_CREAT | O_WRONLY, 0644), ENOENT);
    close(fd);
}

static void times_of_directory(void)
{
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    CHECK(mkdir("d", 0755) == 0);
    CHECK(utimensat(AT_FDCWD, "d", old, 0) == 0);
    put_file("d/f", "", 0);
    CHECK(stat_of("d").st_mtime > 1000);
    CHECK(utimensat(AT_FDCWD, "d", old, 0) == 0);
    CHECK(rename("d/f", "d/g") == 0);
    CHECK(stat_of("d").st_mtime > 1000);
    CHECK(utimensat(AT_FDCWD, "d", old, 0) == 0);
    CHECK(unlink("d/g") == 0);
    CHECK(stat_of("d").st_mtime > 1000);
}

static void readdir_while_changing(void)
{
    char name[32];
    CHECK(mkdir("d", 0755) == 0);
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "d/%u", i);
        put_file(name, "", 0);
    }
    static bool seen[3000];
    DIR *d = opendir("d");
    unsigned n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        unsigned i = (unsigned)atoi(e->d_name);
        CHECK(i < 3000 && !seen[i]); /* none twice */
        if (i < 3000)
            seen[i] = true;
        snprintf(name, sizeof(name), "d/%u", i);
        CHECK(unlink(name) == 0);
        n++;
    }
    CHECK(n == 3000); /* none left out */
    long at = telldir(d);
    rewinddir(d);
    seekdir(d, at);
    closedir(d);
    CHECK(rmdir("d") == 0);
}

/* --- links and renames ----------------------------------------------------------------------------------------------------------------------- */
static void hard_links(void)
{
    put_file("one", "1", 1);
    ino_t ino = stat_of("one").st_ino;
    CHECK(link("one", "two") == 0);
    CHECK(stat_of("two").st_ino == ino && stat_of("one").st_nlink == 2);
    FAILS(link("one", "two"), EEXIST);
    CHECK(mkdir("d", 0755) == 0);
    FAILS(link("d", "d2"), EPERM);
    int fd = open("two", O_WRONLY | O_APPEND);
    CHECK(write(fd, "2", 1) == 1);
    close(fd);
    CHECK(file_is("one", "12", 2));
    CHECK(unlink("one") == 0);
    CHECK(stat_of("two").st_nlink == 1 && file_is("two", "12", 2));
    char name[32];
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "d/%u", i);
        CHECK(link("two", name) == 0);
    }
    CHECK(stat_of("two").st_nlink == 1001);
}

static void symlinks(void)
{
    char target[PATH_MAX], got[PATH_MAX];
    CHECK(symlink("nowhere", "dangling") == 0);
    FAILS(open("dangling", O_RDONLY), ENOENT);
    CHECK(readlink("dangling", got, sizeof(got)) == 7 && !memcmp(got, "nowhere", 7));
    CHECK(S_ISLNK(stat_of("dangling").st_mode) && stat_of("dangling").st_size == 7);
    memset(target, 't', sizeof(target));
    target[PATH_MAX - 1] = 0;
    CHECK(symlink(target, "longest") == 0);
    CHECK(readlink("longest", got, sizeof(got)) == PATH_MAX - 1);
    put_file("file", "f", 1);
    CHECK(symlink("file", "link") == 0);
    CHECK(file_is("link", "f", 1));
    FAILS(open("link", O_RDONLY | O_NOFOLLOW), ELOOP);
    FAILS(symlink("x", "link"), EEXIST);
    CHECK(symlink("loop2", "loop1") == 0 && symlink("loop1", "loop2") == 0);
    FAILS(open("loop1", O_RDONLY), ELOOP);
    struct timespec t[2] = {{.tv_sec = 5, .tv_nsec = 6}, {.tv_sec = 7, .tv_nsec = 8}};
    CHECK(utimensat(AT_FDCWD, "link", t, AT_SYMLINK_NOFOLLOW) == 0);
    CHECK(stat_of("link").st_mtim.tv_nsec == 8);
}

static void renames(void)
{
    put_file("a", "a", 1);
    put_file("b", "b", 1);
    ino_t a = stat_of("a").st_ino;
    int fd = open("b", O_RDONLY);
    CHECK(rename("a", "b") == 0);
    FAILS(open("a", O_RDONLY), ENOENT);
    CHECK(stat_of("b").st_ino == a && file_is("b", "a", 1));
    char c = 0;
    CHECK(read(fd, &c, 1) == 1 && c == 'b'); /* what was open goes on */
    close(fd);
    put_file("c", "c", 1);
    FAILS(renameat2(AT_FDCWD, "b", AT_FDCWD, "c", RENAME_NOREPLACE), EEXIST);
    CHECK(renameat2(AT_FDCWD, "b", AT_FDCWD, "c", RENAME_EXCHANGE) == 0);
    CHECK(file_is("b", "c", 1) && file_is("c", "a", 1));
    CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0 && mkdir("empty", 0755) == 0);
    FAILS(rename("d", "d/e/f"), EINVAL);
    FAILS(rename("c", "d"), EISDIR);
    FAILS(rename("d", "c"), ENOTDIR);
    FAILS(rename("empty", "d"), ENOTEMPTY);
    CHECK(rename("d", "empty") == 0);
    CHECK(S_ISDIR(stat_of("empty/e").st_mode));
    struct stat up, here;
    CHECK(mkdir("other", 0755) == 0 && rename("empty/e", "other/e") == 0);
    CHECK(stat("other/e/..", &up) == 0 && stat("other", &here) == 0 && up.st_ino == here.st_ino);
    CHECK(link("c", "same") == 0 && rename("c", "same") == 0);
    CHECK(stat_of("c").st_nlink == 2); /* two names of one file: nothing is done */
    FAILS(rename("none", "x"), ENOENT);
}

/* --- data ---------------------------------------------------------------------------------------------------------------------------------- */
static void unlinked_while_open(void)
{
    uint8_t buf[100000], back[100000];
    stream_fill(1, 0, buf, sizeof(buf));
    int fd = open("f", O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(write(fd, buf, 50000) == 50000);
    CHECK(unlink("f") == 0);
    FAILS(open("f", O_RDONLY), ENOENT);
    CHECK(write(fd, buf + 50000, 50000) == 50000);
    CHECK(fsync(fd) == 0);
    CHECK(pread(fd, back, sizeof(back), 0) == sizeof(back) && !memcmp(buf, back, sizeof(buf)));
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == sizeof(buf));
    CHECK(close(fd) == 0);
}

static void truncates(void)
{
    static uint8_t buf[3 << 20], back[3 << 20];
    static const uint64_t sizes[] = {0, 1, 1000, 2047, 2048, 2049, 4095, 4096, 4097, 65535, 65536, 65537, 131072, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 2500000};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    stream_fill(2, 0, buf, sizeof(buf));
    for (unsigned i = 0; i < N; i++) {
        for (unsigned k = 0; k < N; k += 3) {
            uint64_t big = sizes[N - 1], cut = sizes[i], grown = sizes[k] > cut ? sizes[k] : cut + 5000;
            put_file("f", buf, big);
            int fd = open("f", O_RDWR);
            if (i % 2)
                CHECK(fsync(fd) == 0);
            CHECK(ftruncate(fd, (off_t)cut) == 0);
            struct stat st;
            CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size == cut);
            if (k % 2)
                CHECK(fsync(fd) == 0);
            CHECK(ftruncate(fd, (off_t)grown) == 0);
            CHECK(pread(fd, back, sizeof(back), 0) == (ssize_t)grown);
            CHECK(!memcmp(back, buf, cut));
            CHECK(all_zero(back + cut, grown - cut)); /* never the old bytes */
            close(fd);
        }
    }
    FAILS(truncate("f", -1), EINVAL);
}

static void sparse(void)
{
    uint8_t byte = 7, back[10000];
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    off_t far = (off_t)1 << 40;
    CHECK(pwrite(fd, &byte, 1, far) == 1);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_size == far + 1);
    CHECK(fsync(fd) == 0);
    CHECK(fstat(fd, &st) == 0 && st.st_blocks < 10000);
    CHECK(pread(fd, back, sizeof(back), 12345) == sizeof(back) && all_zero(back, sizeof(back)));
    CHECK(pread(fd, back, sizeof(back), far - 10) == 11 && all_zero(back, 10) && back[10] == 7);
    off_t data = lseek(fd, 0, SEEK_DATA);
    CHECK(data > 0 && data <= far && data > far - (1 << 20));
    CHECK(lseek(fd, far, SEEK_HOLE) == far + 1);
    CHECK(lseek(fd, 0, SEEK_HOLE) == 0);
    FAILS(lseek(fd, far + 1, SEEK_DATA), ENXIO);
    close(fd);
}

/* Random writes, truncations and holes against a copy in memory. */
static void random_writes(void)
{
    enum { SIZE = 4 << 20 };
    static uint8_t model[SIZE], buf[300000];
    size_t size = 0;
    uint64_t c = 0;
    memset(model, 0, sizeof(model));
    int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (unsigned step = 0; step < 3000; step++) {
        uint64_t kind = stream_word(3, ++c) % 100, off = stream_word(4, c) % SIZE, len = stream_word(5, c) % (kind < 70 ? 9000 : sizeof(buf));
        if (kind % 5 == 0)
            off &= ~4095ull;
        if (off + len > SIZE)
            len = SIZE - off;
        if (kind < 80) {
            stream_fill(c, 0, buf, len);
            CHECK(pwrite(fd, buf, len, (off_t)off) == (ssize_t)len);
            memcpy(model + off, buf, len);
            if (len && off + len > size)
                size = off + len;
        } else if (kind < 88) {
            ssize_t n = pread(fd, buf, len, (off_t)off);
            size_t want = off >= size ? 0 : off + len > size ? size - off : len;
            CHECK(n == (ssize_t)want && !memcmp(buf, model + off, want));
        } else if (kind < 92) {
            CHECK(ftruncate(fd, (off_t)off) == 0);
            if (off < size)
                memset(model + off, 0, size - off);
            size = off;
        } else if (kind < 95 && len) {
            if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len) == 0) {
                size_t end = off + len < size ? off + len : size;
                if (off < end)
                    memset(model + off, 0, end - off);
            } else {
                CHECK(errno == EOPNOTSUPP);
            }
        } else if (kind < 98) {
            CHECK(fsync(fd) == 0);
        } else {
            close(fd);
            fd = open("f", O_RDWR);
        }
    }
    close(fd);
    CHECK(file_is("f", model, size));
}

static void appends(void)
{
    int a = open("f", O_WRONLY | O_CREAT | O_APPEND, 0644), b = open("f", O_WRONLY | O_APPEND);
    for (unsigned i = 0; i < 500; i++) {
        CHECK(write(a, "aaaa", 4) == 4);
        CHECK(write(b, "bb", 2) == 2);
    }
    CHECK(stat_of("f").st_size == 3000);
    close(a);
    close(b);
    /* Several programs: no record is torn or lost. */
    for (unsigned k = 0; k < 4; k++) {
        if (fork() == 0) {
            char record[100];
            memset(record, 'A' + (int)k, sizeof(record));
            int fd = open("g", O_WRONLY | O_CREAT | O_APPEND, 0644);
            for (unsigned i = 0; i < 200; i++) {
                if (write(fd, record, sizeof(record)) != sizeof(record))
                    _exit(1);
            }
            _exit(0);
        }
    }
    for (unsigned k = 0; k < 4; k++) {
        int status = 1;
        CHECK(wait(&status) > 0 && status == 0);
    }
    char record[100];
    unsigned counts[4] = {0};
    int fd = open("g", O_RDONLY);
    while (read(fd, record, sizeof(record)) == sizeof(record)) {
        for (unsigned i = 1; i < sizeof(record); i++)
            CHECK(record[i] == record[0]);
        counts[(record[0] - 'A') & 3]++;
    }
    CHECK(counts[0] == 200 && counts[1] == 200 && counts[2] == 200 && counts[3] == 200);
    close(fd);
}

static void mapped(void)
{
    enum { LEN = 300000 };
    uint8_t back[LEN];
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    CHECK(ftruncate(fd, LEN) == 0);
    uint8_t *m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(m != MAP_FAILED);
    if (m == MAP_FAILED)
        return;
    stream_fill(6, 0, m, LEN);
    CHECK(msync(m, LEN, MS_SYNC) == 0);
    CHECK(pread(fd, back, LEN, 0) == LEN && stream_differs(6, 0, back, LEN) == LEN);
    CHECK(pwrite(fd, "change", 6, 100000) == 6);
    CHECK(!memcmp(m + 100000, "change", 6));
    m[5] = 0xaa;
    CHECK(munmap(m, LEN) == 0);
    CHECK(fsync(fd) == 0);
    close(fd);
    fd = open("f", O_RDONLY);
    m = mmap(NULL, LEN, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(m != MAP_FAILED && m[5] == 0xaa && !memcmp(m + 100000, "change", 6));
    munmap(m, LEN);
    close(fd);
}

static void preallocation(void)
{
    int fd = open("f", O_RDWR | O_CREAT, 0644);
    uint8_t back[20000];
    if (fallocate(fd, 0, 0, 100000) < 0) {
        CHECK(errno == EOPNOTSUPP);
        close(fd);
        return;
    }
    CHECK(stat_of("f").st_size == 100000);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 200000) == 0 && stat_of("f").st_size == 100000);
    memset(back, 'x', sizeof(back));
    CHECK(pwrite(fd, back, sizeof(back), 30000) == sizeof(back));
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 35000, 5000) == 0);
    CHECK(pread(fd, back, sizeof(back), 30000) == sizeof(back));
    CHECK(back[4999] == 'x' && all_zero(back + 5000, 5000) && back[10000] == 'x');
    CHECK(posix_fallocate(fd, 0, 150000) == 0 && stat_of("f").st_size == 150000);
    close(fd);
}

static void copies(void)
{
    static uint8_t buf[500000], back[500000];
    stream_fill(8, 0, buf, sizeof(buf));
    put_file("from", buf, sizeof(buf));
    int in = open("from", O_RDONLY), out = open("to", O_RDWR | O_CREAT, 0644);
    off_t from = 0, to = 0;
    while (from < (off_t)sizeof(buf)) {
        ssize_t n = copy_file_range(in, &from, out, &to, sizeof(buf) - (size_t)from, 0);
        CHECK(n > 0);
        if (n <= 0)
            break;
    }
    CHECK(pwrite(out, "changed", 7, 4096) == 7); /* the source keeps its own */
    CHECK(file_is("from", buf, sizeof(buf)));
    memcpy(buf + 4096, "changed", 7);
    CHECK(pread(out, back, sizeof(back), 0) == sizeof(back) && !memcmp(back, buf, sizeof(buf)));
    close(in);
    close(out);
}

static void sync_flags(void)
{
    int fd = open("f", O_WRONLY | O_CREAT | O_SYNC, 0644);
    for (unsigned i = 0; i < 5; i++)
        CHECK(write(fd, "0123456789", 10) == 10);
    CHECK(fdatasync(fd) == 0);
    CHECK(syncfs(fd) == 0);
    close(fd);
    fd = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(fsync(fd) == 0);
    close(fd);
    fd = open(".", O_TMPFILE | O_RDWR, 0600);
    CHECK(fd >= 0 && write(fd, "tmp", 3) == 3);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0);
    close(fd);
    CHECK(file_is("named", "tmp", 3));
}

/* --- attributes ------------------------------------------------------------------------------------------------------------------------------ */
static void modes(void)
{
    put_file("f", "x", 1);
    static const mode_t all[] = {0, 0400, 0644, 0755, 0777, 01644, 02755, 04755, 07777};
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        CHECK(chmod("f", all[i]) == 0);
        CHECK((stat_of("f").st_mode & 07777) == all[i]);
    }
    mode_t old = umask(027);
    int fd = open("masked", O_WRONLY | O_CREAT, 0666);
    close(fd);
    CHECK((stat_of("masked").st_mode & 0777) == 0640);
    umask(old);
    if (geteuid() == 0) {
        CHECK(chown("f", 12345, 54321) == 0);
        CHECK(stat_of("f").st_uid == 12345 && stat_of("f").st_gid == 54321);
        CHECK(chown("f", (uid_t)-1, 7) == 0 && stat_of("f").st_uid == 12345 && stat_of("f").st_gid == 7);
        CHECK(symlink("f", "l") == 0 && lchown("l", 3, 4) == 0);
        CHECK(stat_of("l").st_uid == 3 && stat_of("f").st_uid == 12345);
        CHECK(mkdir("sgid", 0755) == 0 && chown("sgid", 0, 999) == 0 && chmod("sgid", 02755) == 0);
        CHECK(mkdir("sgid/sub", 0755) == 0);
        put_file("sgid/file", "", 0);
        CHECK(stat_of("sgid/sub").st_gid == 999 && (stat_of("sgid/sub").st_mode & 02000));
        CHECK(stat_of("sgid/file").st_gid == 999);
    }
    FAILS(chmod("none", 0644), ENOENT);
}

static void permissions(void)
{
    if (geteuid() != 0)
        return;
    CHECK(chmod(".", 0755) == 0);
    put_file("mine", "x", 1);
    CHECK(chmod("mine", 0600) == 0);
    put_file("setuid", "x", 1);
    CHECK(chmod("setuid", 04777) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) || setuid(65534))
            _exit(9);
        if (open("mine", O_RDONLY) != -1 || errno != EACCES)
            _exit(1);
        if (open("new", O_WRONLY | O_CREAT, 0644) != -1 || errno != EACCES)
            _exit(2);
        if (chmod("mine", 0777) != -1 || errno != EPERM)
            _exit(3);
        int fd = open("setuid", O_WRONLY);
        if (fd < 0 || write(fd, "y", 1) != 1)
            _exit(4);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) != 0)
        printf("%s: as another user, step %d\n", current, WEXITSTATUS(status)), nbroken++;
    CHECK(!(stat_of("setuid").st_mode & 04000)); /* a write by another takes the bit away */
}

static void times(void)
{
    put_file("f", "x", 1);
    static const struct timespec all[] = {{0, 0}, {1, 1}, {1234567890, 123456789}, {-1, 999999999}, {-2000000000, 5}, {4000000000, 999999999}};
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct timespec t[2] = {all[i], all[sizeof(all) / sizeof(all[0]) - 1 - i]};
        CHECK(utimensat(AT_FDCWD, "f", t, 0) == 0);
        struct stat st = stat_of("f");
        CHECK(st.st_atim.tv_sec == t[0].tv_sec && st.st_atim.tv_nsec == t[0].tv_nsec);
        CHECK(st.st_mtim.tv_sec == t[1].tv_sec && st.st_mtim.tv_nsec == t[1].tv_nsec);
    }
    struct timespec omit[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 42, .tv_nsec = 43}};
    struct stat before = stat_of("f");
    CHECK(utimensat(AT_FDCWD, "f", omit, 0) == 0);
    CHECK(stat_of("f").st_atim.tv_sec == before.st_atim.tv_sec && stat_of("f").st_mtim.tv_nsec == 43);
    CHECK(utimensat(AT_FDCWD, "f", NULL, 0) == 0);
    CHECK(stat_of("f").st_mtim.tv_sec > 1600000000);
    /* A write sets mtime and ctime, a chmod ctime only. */
    CHECK(utimensat(AT_FDCWD, "f", omit, 0) == 0);
    CHECK(chmod("f", 0600) == 0);
    CHECK(stat_of("f").st_mtim.tv_sec == 42 && stat_of("f").st_ctim.tv_sec > 1600000000);
    int fd = open("f", O_WRONLY);
    CHECK(write(fd, "y", 1) == 1);
    close(fd);
    CHECK(stat_of("f").st_mtim.tv_sec > 1600000000);
}

static void xattrs(void)
{
    char value[4000], back[65536], list[65536];
    put_file("f", "x", 1);
    if (setxattr("f", "user.a", "1", 1, 0) < 0 && errno == ENOTSUP)
        return; /* a host without them */
    CHECK(getxattr("f", "user.a", back, sizeof(back)) == 1 && back[0] == '1');
    CHECK(setxattr("f", "user.a", "22", 2, XATTR_REPLACE) == 0);
    FAILS(setxattr("f", "user.a", "3", 1, XATTR_CREATE), EEXIST);
    FAILS(setxattr("f", "user.b", "3", 1, XATTR_REPLACE), ENODATA);
    CHECK(getxattr("f", "user.a", NULL, 0) == 2);
    FAILS(getxattr("f", "user.a", back, 1), ERANGE);
    FAILS(getxattr("f", "user.none", back, 10), ENODATA);
    CHECK(setxattr("f", "user.empty", "", 0, 0) == 0 && getxattr("f", "user.empty", back, sizeof(back)) == 0);
    stream_fill(9, 0, (uint8_t *)value, 2000);
    CHECK(setxattr("f", "user.big", value, 2000, 0) == 0);
    CHECK(getxattr("f", "user.big", back, sizeof(back)) == 2000 && !memcmp(back, value, 2000));
    ssize_t n = listxattr("f", list, sizeof(list));
    unsigned found = 0;
    for (ssize_t i = 0; i < n; i += (ssize_t)strlen(list + i) + 1)
        found += !strcmp(list + i, "user.a") || !strcmp(list + i, "user.empty") || !strcmp(list + i, "user.big");
    CHECK(found == 3);
    CHECK(removexattr("f", "user.a") == 0);
    FAILS(removexattr("f", "user.a"), ENODATA);
    CHECK(mkdir("d", 0755) == 0 && setxattr("d", "user.dir", "d", 1, 0) == 0 && getxattr("d", "user.dir", back, sizeof(back)) == 1);
    if (geteuid() == 0)
        CHECK(setxattr("f", "trusted.t", "t", 1, 0) == 0 && getxattr("f", "trusted.t", back, sizeof(back)) == 1);
    CHECK(rename("f", "g") == 0 && getxattr("g", "user.big", back, sizeof(back)) == 2000);
}

static void special_files(void)
{
    CHECK(mkfifo("fifo", 0640) == 0 && S_ISFIFO(stat_of("fifo").st_mode));
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open("fifo", O_WRONLY);
        _exit(write(fd, "through", 7) == 7 ? 0 : 1);
    }
    char back[10];
    int fd = open("fifo", O_RDONLY), status = 1;
    CHECK(read(fd, back, sizeof(back)) == 7 && !memcmp(back, "through", 7));
    close(fd);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&address, sizeof(address)) == 0 && S_ISSOCK(stat_of("socket").st_mode));
    CHECK(listen(s, 1) == 0);
    int c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(connect(c, (struct sockaddr *)&address, sizeof(address)) == 0);
    close(c);
    close(s);
    if (geteuid() == 0) {
        CHECK(mknod("null", S_IFCHR | 0666, makedev(1, 3)) == 0 && S_ISCHR(stat_of("null").st_mode) && stat_of("null").st_rdev == makedev(1, 3));
        CHECK(mknod("block", S_IFBLK | 0600, makedev(7, 300)) == 0 && stat_of("block").st_rdev == makedev(7, 300));
    }
}

static void locks(void)
{
    int a = open("f", O_RDWR | O_CREAT, 0644), status = 0;
    CHECK(flock(a, LOCK_EX) == 0);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
    CHECK(fcntl(a, F_SETLK, &l) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        int b = open("f", O_RDWR);
        struct flock m = l;
        if (flock(b, LOCK_EX | LOCK_NB) != -1 || errno != EWOULDBLOCK)
            _exit(1);
        if (fcntl(b, F_SETLK, &m) != -1)
            _exit(2);
        m.l_start = 20;
        _exit(fcntl(b, F_SETLK, &m) == 0 ? 0 : 3);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    close(a);
}

static void statistics(void)
{
    struct statvfs v;
    CHECK(statvfs(".", &v) == 0);
    CHECK(v.f_namemax == 255);
    CHECK(v.f_blocks > 0 && v.f_bfree <= v.f_blocks && v.f_bavail <= v.f_bfree);
    CHECK(v.f_files == 0 || v.f_ffree <= v.f_files); /* btrfs: no limit */
    struct stat st;
    put_file("f", "12345", 5);
    CHECK(stat("f", &st) == 0 && st.st_size == 5 && st.st_nlink == 1 && S_ISREG(st.st_mode) && st.st_uid == geteuid());
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
#define CASE(name) {#name, name}
    CASE(names),    CASE(directories), CASE(times_of_directory), CASE(readdir_while_changing), CASE(hard_links), CASE(symlinks),      CASE(renames),  CASE(unlinked_while_open),
    CASE(truncates), CASE(sparse),     CASE(random_writes),      CASE(appends),                CASE(mapped),     CASE(preallocation), CASE(copies),   CASE(sync_flags),
    CASE(modes),    CASE(permissions), CASE(times),              CASE(xattrs),                 CASE(special_files), CASE(locks),      CASE(statistics),
};

int main(int argc, char **argv)
{
    if (argc < 2 || chdir(argv[1]) < 0)
        error(2, errno, "usage: posix DIR [CASE...]");
    unsigned ran = 0;
    umask(022);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool wanted = argc == 2;
        for (int k = 2; k < argc; k++)
            wanted = wanted || !strcmp(argv[k], cases[i].name);
        if (!wanted)
            continue;
        current = cases[i].name;
        if (mkdir(current, 0755) < 0 || chdir(current) < 0)
            error(2, errno, "%s", current);
        cases[i].run();
        if (chdir("..") < 0)
            error(2, errno, "%s", current);
        ran++;
    }
    printf("%u cases, %u things broken\n", ran, nbroken);
    return nbroken || !ran ? 1 : 0;
}
