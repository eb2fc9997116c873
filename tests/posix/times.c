/* Times: which call moves which, relatime, nanoseconds, far years. */
#include "tests/posix/case.h"

#include <sys/xattr.h>
#include <time.h>

#define OLD 1000000000 /* 2001 */

static void age(const char *name)
{
    CHECK(utimensat(AT_FDCWD, name, (struct timespec[2]){{OLD, 1}, {OLD, 2}}, AT_SYMLINK_NOFOLLOW) == 0);
}

static bool is_old(struct timespec t)
{
    return t.tv_sec == OLD;
}

/* Did the ctime of `name` move across `call`? The clock of a file system ticks every few milliseconds. */
#define MOVES_CTIME(name, call)                                                                              \
    do {                                                                                                     \
        struct timespec c0 = stat_of(name).st_ctim, c1;                                                      \
        nanosleep(&(struct timespec){0, 12000000}, NULL);                                                    \
        CHECK((call) == 0);                                                                                  \
        c1 = stat_of(name).st_ctim;                                                                          \
        CHECK(c1.tv_sec > c0.tv_sec || (c1.tv_sec == c0.tv_sec && c1.tv_nsec > c0.tv_nsec));                 \
    } while (0)

CASE(times_by_operation)
{
    put_file("f", "x", 1);
    age("f");
    MOVES_CTIME("f", chmod("f", 0600));
    CHECK(is_old(stat_of("f").st_mtim) && is_old(stat_of("f").st_atim));
    MOVES_CTIME("f", link("f", "g"));
    MOVES_CTIME("f", unlink("g"));
    CHECK(link("f", "g") == 0);
    MOVES_CTIME("g", rename("f", "h"));
    MOVES_CTIME("h", setxattr("h", "user.a", "1", 1, 0));
    if (is_root())
        MOVES_CTIME("h", chown("h", 1, 1));
    CHECK(is_old(stat_of("h").st_mtim));
    MOVES_CTIME("h", truncate("h", 100));
    CHECK(!is_old(stat_of("h").st_mtim));
    age("h");
    int fd = open("h", O_RDWR);
    CHECK(write(fd, "y", 1) == 1 && !is_old(stat_of("h").st_mtim));
    age("h");
    CHECK(write(fd, "", 0) == 0 && is_old(stat_of("h").st_mtim)); /* nothing written */
    CHECK(fallocate(fd, 0, 0, 10000) == 0 && !is_old(stat_of("h").st_mtim));
    age("h");
    int again = open("h", O_WRONLY | O_TRUNC);
    CHECK(!is_old(stat_of("h").st_mtim));
    close(again);
    close(fd);
}

CASE(times_of_directories)
{
    CHECK(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0);
    put_file("d/f", "", 0);
    age("d");
    put_file("d/f", "contents", 8); /* no change of names */
    CHECK(is_old(stat_of("d").st_mtim));
    CHECK(chmod("d/f", 0600) == 0 && is_old(stat_of("d").st_mtim));
    CHECK(link("d/f", "d/g") == 0 && !is_old(stat_of("d").st_mtim));
    age("d");
    CHECK(mkdir("d/sub", 0755) == 0 && !is_old(stat_of("d").st_mtim));
    age("d");
    CHECK(rmdir("d/sub") == 0 && !is_old(stat_of("d").st_mtim));
    age("d");
    age("e");
    CHECK(rename("d/f", "e/f") == 0 && !is_old(stat_of("d").st_mtim) && !is_old(stat_of("e").st_mtim));
    age("d");
    CHECK(symlink("x", "d/l") == 0 && !is_old(stat_of("d").st_mtim));
    age("d");
    CHECK(unlink("d/l") == 0 && !is_old(stat_of("d").st_mtim));
    age("d");
    FAILS(rmdir("d/none"), ENOENT);
    CHECK(is_old(stat_of("d").st_mtim));
}

CASE(times_can_be_set)
{
    static const struct timespec far[] = {{-1, 999999999}, {0, 0}, {4102444800, 123456789}, {-2000000000, 5}};

    put_file("f", "", 0);
    for (unsigned k = 0; k < sizeof(far) / sizeof(far[0]); k++) {
        CHECK(utimensat(AT_FDCWD, "f", (struct timespec[2]){far[k], far[k]}, 0) == 0);
        struct stat st = stat_of("f");
        CHECK(st.st_mtim.tv_sec == far[k].tv_sec && st.st_mtim.tv_nsec == far[k].tv_nsec);
        CHECK(st.st_atim.tv_sec == far[k].tv_sec && st.st_atim.tv_nsec == far[k].tv_nsec);
    }
    CHECK(utimensat(AT_FDCWD, "f", (struct timespec[2]){{0, UTIME_OMIT}, {42, 43}}, 0) == 0);
    CHECK(stat_of("f").st_atim.tv_sec == -2000000000 && stat_of("f").st_mtim.tv_nsec == 43);
    CHECK(utimensat(AT_FDCWD, "f", (struct timespec[2]){{0, UTIME_NOW}, {0, UTIME_OMIT}}, 0) == 0);
    CHECK(stat_of("f").st_atim.tv_sec > OLD && stat_of("f").st_mtim.tv_sec == 42);
    FAILS(utimensat(AT_FDCWD, "f", (struct timespec[2]){{0, 1000000000}, {0, 0}}, 0), EINVAL);
    int fd = open("f", O_RDONLY);
    CHECK(futimens(fd, (struct timespec[2]){{7, 0}, {8, 0}}) == 0 && stat_of("f").st_mtim.tv_sec == 8);
    close(fd);
}

static void others(void)
{
    CHECK(utimensat(AT_FDCWD, "shared", NULL, 0) == 0); /* who may write may touch */
    FAILS(utimensat(AT_FDCWD, "shared", (struct timespec[2]){{1, 0}, {1, 0}}, 0), EPERM);
    FAILS(utimensat(AT_FDCWD, "f", NULL, 0), EACCES);
}

CASE(times_by_others)
{
    if (!is_root())
        return;
    put_file("f", "", 0);
    put_file("shared", "", 0);
    CHECK(chmod("shared", 0666) == 0);
    as_user(30001, 30001, 0, 0, others);
}

/* By relatime: reading moves the access time when it isn't later than the last change, or is a day old. What
 * the kernel has in its cache it reads without the file system (LIMITS): so O_DIRECT. */
CASE(access_times_are_relative)
{
    char c, *block = NULL;
    int fd;

    CHECK(posix_memalign((void **)&block, 4096, 4096) == 0);
    memset(block, 'x', 4096);
    put_file("f", block, 4096);
    fd = open("f", O_RDONLY | O_DIRECT);
    if (fd < 0) {
        free(block);
        return; /* not all file systems have it */
    }
    age("f");
    nanosleep(&(struct timespec){0, 12000000}, NULL);
    CHECK(read(fd, block, 4096) == 4096 && !is_old(stat_of("f").st_atim)); /* older than the ctime */
    struct timespec t = stat_of("f").st_atim;
    nanosleep(&(struct timespec){0, 12000000}, NULL);
    CHECK(pread(fd, block, 4096, 0) == 4096 && stat_of("f").st_atim.tv_nsec == t.tv_nsec); /* not again */
    close(fd);
    age("f");
    fd = open("f", O_RDONLY | O_DIRECT | O_NOATIME);
    CHECK(read(fd, block, 4096) == 4096 && is_old(stat_of("f").st_atim));
    close(fd);
    free(block);
    CHECK(symlink("f", "l") == 0 && readlink("l", &c, 1) == 1);
}
