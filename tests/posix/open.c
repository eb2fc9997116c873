/* open, create, read, write, truncate, unlink. */
#include "tests/posix/case.h"

#include <sys/uio.h>
#include <sys/resource.h>
#include <signal.h>

CASE(open_errors)
{
    put_file("f", "x", 1);
    CHECK(mkdir("d", 0755) == 0 && symlink("f", "l") == 0 && symlink("none", "dangling") == 0);
    FAILS(open("none", O_RDONLY), ENOENT);
    FAILS(open("f/x", O_RDONLY), ENOTDIR);
    FAILS(open("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open("f", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    FAILS(open("l", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    FAILS(open("dangling", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
    FAILS(open("l", O_RDONLY | O_NOFOLLOW), ELOOP);
    FAILS(open("d", O_WRONLY), EISDIR);
    FAILS(open("d", O_RDWR | O_CREAT, 0644), EISDIR);
    FAILS(open("none/x", O_CREAT | O_WRONLY, 0644), ENOENT);
    int fd = open("dangling", O_CREAT | O_WRONLY, 0644); /* makes what the link names */
    CHECK(fd >= 0 && close(fd) == 0 && stat_of("none").st_nlink == 1);
    fd = open("d", O_RDONLY);
    char c;
    FAILS(read(fd, &c, 1), EISDIR);
    close(fd);
    fd = open("f", O_RDONLY);
    FAILS(write(fd, "x", 1), EBADF);
    FAILS(ftruncate(fd, 0), EINVAL);
    close(fd);
    fd = open("f", O_WRONLY);
    FAILS(read(fd, &c, 1), EBADF);
    close(fd);
    fd = open("f", O_PATH);
    FAILS(read(fd, &c, 1), EBADF);
    close(fd);
    CHECK(mkfifo("fifo", 0644) == 0);
    FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
}

CASE(open_creates_with_mode_and_empties)
{
    umask(027);
    int fd = open("f", O_RDWR | O_CREAT, 0666);
    umask(022);
    CHECK(fd >= 0 && mode_of("f") == 0640);
    CHECK(write(fd, "12345", 5) == 5);
    int other = open("f", O_WRONLY | O_TRUNC);
    CHECK(stat_of("f").st_size == 0);
    char c;
    CHECK(pread(fd, &c, 1, 0) == 0);
    CHECK(write(fd, "z", 1) == 1); /* at its own place: a hole before it */
    CHECK(file_is("f", "\0\0\0\0\0z", 6));
    close(other);
    close(fd);
    /* A mode without the right to write doesn't bar the one who makes the file. */
    fd = open("readonly", O_RDWR | O_CREAT | O_EXCL, 0400);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1 && close(fd) == 0);
    CHECK(mode_of("readonly") == 0400);
}

CASE(append_goes_to_the_end)
{
    int a = open("f", O_RDWR | O_CREAT | O_APPEND, 0644), b = open("f", O_RDWR);
    CHECK(write(a, "aaa", 3) == 3);
    CHECK(pwrite(b, "bbbbb", 5, 0) == 5);
    CHECK(write(a, "A", 1) == 1 && lseek(a, 0, SEEK_CUR) == 6);
    CHECK(pwrite(a, "P", 1, 0) == 1); /* on Linux, at the end all the same */
    CHECK(file_is("f", "bbbbbAP", 7));
    CHECK(fcntl(b, F_SETFL, O_APPEND) == 0);
    CHECK(write(b, "end", 3) == 3); /* set later than at open */
    CHECK(file_is("f", "bbbbbAPend", 10));
    CHECK(ftruncate(a, 2) == 0 && write(a, "!", 1) == 1);
    CHECK(file_is("f", "bb!", 3));
    close(a);
    close(b);
}

CASE(unlinked_files_live_until_closed)
{
    int fd = new_file("f");
    CHECK(write(fd, "abc", 3) == 3);
    CHECK(unlink("f") == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && st.st_size == 3);
    CHECK(fchmod(fd, 0600) == 0 && ftruncate(fd, 100000) == 0 && pwrite(fd, "end", 3, 99997) == 3);
    CHECK(fsync(fd) == 0);
    char path[64], back[3];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, O_RDONLY); /* opened anew through /proc */
    CHECK(again >= 0 && pread(again, back, 3, 99997) == 3 && !memcmp(back, "end", 3));
    close(fd);
    CHECK(pread(again, back, 3, 0) == 3 && !memcmp(back, "abc", 3));
    FAILS(linkat(AT_FDCWD, path, AT_FDCWD, "back", AT_SYMLINK_FOLLOW),
          ENOENT); /* the last name is gone for good */
    close(again);
    CHECK(count_entries(".") == 0);
    /* Unlinked and made anew: two files. */
    put_file("g", "old", 3);
    fd = open("g", O_RDONLY);
    CHECK(unlink("g") == 0);
    put_file("g", "new", 3);
    CHECK(read(fd, back, 3) == 3 && !memcmp(back, "old", 3) && file_is("g", "new", 3));
    close(fd);
}

CASE(read_and_write_at_any_place)
{
    static char data[300000], back[300000];
    fill(data, sizeof(data), 1);
    int fd = new_file("f");
    CHECK(write(fd, data, 0) == 0);
    CHECK(pwrite(fd, data, sizeof(data), 1000) == (ssize_t)sizeof(data));
    CHECK(pread(fd, back, 10, 301000) == 0 && pread(fd, back, 10, 300995) == 5);
    CHECK(pread(fd, back, sizeof(back), 1000) == (ssize_t)sizeof(back) && !memcmp(back, data, sizeof(back)));
    FAILS(pread(fd, back, 1, -1), EINVAL);
    FAILS(pwrite(fd, back, 1, -1), EINVAL);
    FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
    CHECK(lseek(fd, 0, SEEK_END) == 301000);
    CHECK(lseek(fd, 1ll << 43, SEEK_SET) == 1ll << 43 && read(fd, back, 1) == 0);
    struct iovec out[3] = {{data, 5}, {data + 100, 0}, {data + 10, 7}}, in[2] = {{back, 3}, {back + 3, 9}};
    CHECK(pwritev(fd, out, 3, 7) == 12 && preadv(fd, in, 2, 7) == 12);
    CHECK(!memcmp(back, data, 5) && !memcmp(back + 5, data + 10, 7));
    CHECK(pwritev2(fd, out, 1, -1, RWF_APPEND) == 5 && stat_of("f").st_size == 301005);
    CHECK(pwritev2(fd, out, 1, 0, RWF_DSYNC) == 5 && pwritev2(fd, out, 1, 0, RWF_SYNC) == 5);
    close(fd);
}

CASE(truncate_and_its_errors)
{
    static char data[10000], back[20000];
    fill(data, sizeof(data), 3);
    put_file("f", data, sizeof(data));
    CHECK(mkdir("d", 0755) == 0);
    FAILS(truncate("f", -1), EINVAL);
    FAILS(truncate("d", 0), EISDIR);
    FAILS(truncate("none", 0), ENOENT);
    FAILS(truncate("f/x", 0), ENOTDIR);
    CHECK(mkfifo("fifo", 0644) == 0);
    FAILS(truncate("fifo", 0), EINVAL);
    int fd = open("f", O_RDWR);
    CHECK(ftruncate(fd, 5001) == 0 && ftruncate(fd, 20000) == 0);
    CHECK(pread(fd, back, sizeof(back), 0) == (ssize_t)sizeof(back));
    CHECK(!memcmp(back, data, 5001) && all_zero(back + 5001, sizeof(back) - 5001));
    CHECK(fsync(fd) == 0 && ftruncate(fd, 0) == 0 && ftruncate(fd, 20000) == 0);
    CHECK(pread(fd, back, sizeof(back), 0) == (ssize_t)sizeof(back) && all_zero(back, sizeof(back)));
    close(fd);
}

static void over_the_limit(void)
{
    struct rlimit limit = {.rlim_cur = 5000, .rlim_max = 5000};
    char data[4000] = {1};
    int fd = new_file("limited");

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(write(fd, data, 4000) == 4000);
    CHECK(write(fd, data, 4000) == 1000); /* up to the limit */
    FAILS(write(fd, data, 1), EFBIG);
    FAILS(ftruncate(fd, 5001), EFBIG);
    CHECK(stat_of("limited").st_size == 5000);
    close(fd);
}

CASE(file_size_limit)
{
    in_child(over_the_limit);
}

CASE(sync_flags_and_fsync)
{
    int fd = open("f", O_RDWR | O_CREAT | O_SYNC, 0644), dir = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(write(fd, "synced", 6) == 6 && fdatasync(fd) == 0 && fsync(fd) == 0);
    int d = open("f", O_WRONLY | O_DSYNC);
    CHECK(pwrite(d, "S", 1, 0) == 1);
    CHECK(fsync(dir) == 0 && fdatasync(dir) == 0);
    int ro = open("f", O_RDONLY);
    CHECK(fsync(ro) == 0); /* needs no right to write */
    CHECK(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
    CHECK(syncfs(dir) == 0);
    FAILS(fsync(-1), EBADF);
    CHECK(file_is("f", "Synced", 6));
    close(fd);
    close(d);
    close(ro);
    close(dir);
}

CASE(temporary_files_without_a_name)
{
    int fd = open(".", O_TMPFILE | O_RDWR, 0600);

    if (fd < 0) { /* man mount.spacesfs, LIMITS */
        CHECK(errno == EOPNOTSUPP);
        return;
    }
    char path[64];
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0);
    CHECK(write(fd, "x", 1) == 1);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW) == 0 && file_is("named", "x", 1));
    close(fd);
}
