/* Space in files: fallocate, holes and data, copy_file_range, blocks, statfs. */
#include "tests/posix/case.h"

#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>

#define MIB (1 << 20)

static char data[2 * MIB], back[4 * MIB];

static int file_with(const char *name, size_t len)
{
    int fd = new_file(name);

    fill(data, len, 9);
    CHECK(pwrite(fd, data, len, 0) == (ssize_t)len);
    return fd;
}

static off_t size_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? st.st_size : -1;
}

CASE(fallocate_modes)
{
    int fd = file_with("f", 100000);
    CHECK(fallocate(fd, 0, 50000, 100000) == 0 && size_of(fd) == 150000);
    CHECK(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1000000) == 0 && size_of(fd) == 150000);
    CHECK(pread(fd, back, sizeof(back), 0) == 150000 && !memcmp(back, data, 100000) &&
          all_zero(back + 100000, 50000));
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5000, 20001) == 0);
    memset(data + 5000, 0, 20001);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 200000, 4096) == 0 &&
          size_of(fd) == 150000);
    CHECK(pread(fd, back, sizeof(back), 0) == 150000 && !memcmp(back, data, 100000));
    if (fallocate(fd, FALLOC_FL_ZERO_RANGE, 90000, 70000) == 0) {
        memset(data + 90000, 0, 10000);
        CHECK(size_of(fd) == 160000 && pread(fd, back, sizeof(back), 0) == 160000 &&
              !memcmp(back, data, 100000));
        CHECK(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 159000, 10000) == 0 &&
              size_of(fd) == 160000);
    } else {
        CHECK(errno == EOPNOTSUPP && !on_fuse());
    }
    FAILS(fallocate(fd, 0, -1, 10), EINVAL);
    FAILS(fallocate(fd, 0, 0, 0), EINVAL);
    FAILS(fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 4096), EOPNOTSUPP);
    if (on_fuse()) { /* LIMITS */
        FAILS(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), EOPNOTSUPP);
        FAILS(fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, 4096), EOPNOTSUPP);
        FAILS(fallocate(fd, 0, 0, INT64_MAX), ENOSPC); /* that much isn't there */
    }
    close(fd);
    fd = open("f", O_RDONLY);
    FAILS(fallocate(fd, 0, 0, 10), EBADF);
    close(fd);
    CHECK(mkfifo("fifo", 0644) == 0);
    fd = open("fifo", O_RDWR);
    FAILS(fallocate(fd, 0, 0, 10), ESPIPE);
    close(fd);
    CHECK(posix_fallocate(fd = new_file("g"), 0, 12345) == 0 && size_of(fd) == 12345);
    close(fd);
}

CASE(punching_frees_and_holes_show)
{
    struct stat st;
    int fd = file_with("f", 2 * MIB);
    CHECK(fsync(fd) == 0 && fstat(fd, &st) == 0 && st.st_blocks * 512 >= 2 * MIB);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, MIB / 2, MIB) == 0);
    CHECK(fsync(fd) == 0 && fstat(fd, &st) == 0 && st.st_blocks * 512 <= 3 * MIB / 2);
    CHECK(lseek(fd, 0, SEEK_HOLE) == MIB / 2 && lseek(fd, MIB / 2, SEEK_DATA) == 3 * MIB / 2);
    CHECK(lseek(fd, MIB / 2 + 5, SEEK_HOLE) == MIB / 2 + 5 && lseek(fd, 7, SEEK_DATA) == 7);
    CHECK(lseek(fd, 3 * MIB / 2, SEEK_HOLE) == 2 * MIB);
    FAILS(lseek(fd, 2 * MIB, SEEK_DATA), ENXIO);
    FAILS(lseek(fd, 2 * MIB, SEEK_HOLE), ENXIO);
    FAILS(lseek(fd, -1, SEEK_DATA), ENXIO);
    CHECK(ftruncate(fd, 4 * MIB) == 0);
    FAILS(lseek(fd, 2 * MIB, SEEK_DATA), ENXIO);
    CHECK(lseek(fd, 2 * MIB, SEEK_HOLE) == 2 * MIB);
    CHECK(pwrite(fd, "x", 1, 3 * MIB) == 1); /* not yet stored, and data all the same */
    off_t found = lseek(fd, 2 * MIB, SEEK_DATA);
    CHECK(found > 3 * MIB - 65536 && found <= 3 * MIB);
    close(fd);
    fd = new_file("empty");
    FAILS(lseek(fd, 0, SEEK_DATA), ENXIO);
    close(fd);
    fd = new_file("small");
    CHECK(write(fd, "abc", 3) == 3 && lseek(fd, 0, SEEK_DATA) == 0 && lseek(fd, 0, SEEK_HOLE) == 3);
    CHECK(fsync(fd) == 0 && lseek(fd, 1, SEEK_DATA) == 1 && lseek(fd, 1, SEEK_HOLE) == 3);
    CHECK(fstat(fd, &st) == 0 && st.st_blocks > 0);
    close(fd);
}

static uint64_t used(void)
{
    struct statvfs v;

    CHECK(statvfs(".", &v) == 0);
    return (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
}

CASE(copies_share_what_they_can)
{
    int in = file_with("f", 2 * MIB), out = new_file("g");
    off_t off_in = 0, off_out = 0;
    size_t left = 2 * MIB;
    CHECK(fsync(in) == 0);
    uint64_t before = used();
    while (left) {
        ssize_t n = copy_file_range(in, &off_in, out, &off_out, left, 0);
        CHECK(n > 0);
        if (n <= 0)
            break;
        left -= (size_t)n;
    }
    CHECK(off_in == 2 * MIB && off_out == 2 * MIB);
    CHECK(pread(out, back, sizeof(back), 0) == 2 * MIB && !memcmp(back, data, 2 * MIB));
    CHECK(fsync(out) == 0);
    if (on_fuse())
        CHECK(used() < before + MIB / 2);        /* by reference */
    CHECK(pwrite(out, "changed", 7, 1000) == 7); /* and yet they are two */
    CHECK(pread(in, back, 2000, 0) == 2000 && !memcmp(back, data, 2000));
    CHECK(unlink("f") == 0 && ftruncate(in, 0) == 0);
    CHECK(pread(out, back, sizeof(back), 0) == 2 * MIB && !memcmp(back + 1007, data + 1007, 2 * MIB - 1007));
    close(in);
    close(out);
}

CASE(copies_at_odd_places)
{
    int in = file_with("f", 300000), out = new_file("g");
    off_t a = 12345, b = 777;
    CHECK(copy_file_range(in, &a, out, &b, 100000, 0) == 100000 && a == 112345 && b == 100777);
    CHECK(pread(out, back, sizeof(back), 0) == 100777 && all_zero(back, 777) &&
          !memcmp(back + 777, data + 12345, 100000));
    a = 299990;
    CHECK(copy_file_range(in, &a, out, NULL, 100, 0) == 10); /* up to the end */
    CHECK(copy_file_range(in, &a, out, NULL, 100, 0) == 0);
    a = 0, b = 4096;
    CHECK(copy_file_range(out, &a, out, &b, 4096, 0) == 4096); /* within one file */
    a = 0, b = 100;
    FAILS(copy_file_range(out, &a, out, &b, 4096, 0), EINVAL); /* overlapping */
    FAILS(copy_file_range(in, NULL, out, NULL, 10, 1), EINVAL);
    CHECK(lseek(in, 0, SEEK_SET) == 0 && lseek(out, 0, SEEK_SET) == 0);
    CHECK(sendfile(out, in, NULL, 5000) == 5000 && pread(out, back, 5000, 0) == 5000 &&
          !memcmp(back, data, 5000));
    int ro = open("g", O_RDONLY), append = open("g", O_WRONLY | O_APPEND);
    FAILS(copy_file_range(in, NULL, ro, NULL, 10, 0), EBADF);
    FAILS(copy_file_range(in, NULL, append, NULL, 10, 0), EBADF);
    close(ro);
    close(append);
    close(in);
    close(out);
}

CASE(statfs_tells)
{
    struct statvfs v;

    CHECK(statvfs(".", &v) == 0 && v.f_namemax == 255 && v.f_bsize >= 512 && v.f_blocks > 0);
    CHECK(v.f_bfree <= v.f_blocks && v.f_bavail <= v.f_bfree && (v.f_files == 0 || v.f_ffree <= v.f_files));
    uint64_t before = used();
    int fd = file_with("f", 2 * MIB);
    CHECK(fsync(fd) == 0);
    if (on_fuse()) /* elsewhere others write and delete; it may be stored compressed */
        CHECK(used() > before);
    close(fd);
    CHECK(pathconf(".", _PC_NAME_MAX) == 255 && pathconf(".", _PC_PATH_MAX) == 4096);
    FAILS(statvfs("none", &v), ENOENT);
}
