/* rename and renameat2, link, symlink, unlink, mkdir, rmdir: results, link counts, and every refusal. */
#include "tests/posix/case.h"

#include <limits.h>
#include <linux/fs.h>
#include <sys/sysmacros.h>

static int rename_with(const char *from, const char *to, unsigned flags)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
}

CASE(rename_replaces)
{
    put_file("a", "a", 1);
    put_file("b", "b", 1);
    CHECK(link("b", "b2") == 0);
    ino_t a = stat_of("a").st_ino;
    CHECK(rename("a", "b") == 0);
    CHECK(stat_of("a").st_nlink == 0 && stat_of("b").st_ino == a && stat_of("b2").st_nlink == 1);
    CHECK(file_is("b", "a", 1) && file_is("b2", "b", 1));
    CHECK(link("b", "same") == 0 && rename("b", "same") == 0 &&
          stat_of("b").st_nlink == 2); /* one file: nothing */
    CHECK(symlink("none", "l") == 0 && rename("l", "m") == 0 && S_ISLNK(stat_of("m").st_mode));
    CHECK(rename("b", "m") == 0 && S_ISREG(stat_of("m").st_mode)); /* the link itself is replaced */
}

CASE(rename_directories)
{
    CHECK(mkdir("p", 0755) == 0 && mkdir("q", 0755) == 0 && mkdir("p/d", 0755) == 0 &&
          mkdir("p/d/e", 0755) == 0);
    CHECK(stat_of("p").st_nlink == 3 && stat_of("q").st_nlink == 2);
    CHECK(rename("p/d", "q/d") == 0);
    CHECK(stat_of("p").st_nlink == 2 && stat_of("q").st_nlink == 3);
    struct stat up, q;
    CHECK(stat("q/d/..", &up) == 0 && stat("q", &q) == 0 && up.st_ino == q.st_ino);
    FAILS(rename("q", "q/d/x"), EINVAL);
    FAILS(rename("q", "q/x"), EINVAL);
    FAILS(rename("p", "q/d"), ENOTEMPTY);
    CHECK(rename("p", "q/d/e") == 0 && stat_of("p").st_nlink == 0); /* over an empty one */
    CHECK(stat_of("q/d").st_nlink == 3);
    put_file("f", "", 0);
    FAILS(rename("f", "q"), EISDIR);
    FAILS(rename("q", "f"), ENOTDIR);
    FAILS(rename("q/.", "x"), EBUSY);
    FAILS(rename("q/..", "x"), EBUSY);
    FAILS(rename("none", "x"), ENOENT);
    FAILS(rename("f", "none/x"), ENOENT);
    FAILS(rename("f", "f/x"), ENOTDIR);
    FAILS(rename("f", "x/"), ENOTDIR);
}

CASE(rename_noreplace)
{
    put_file("a", "a", 1);
    put_file("b", "b", 1);
    CHECK(mkdir("d", 0755) == 0);
    FAILS(rename_with("a", "b", RENAME_NOREPLACE), EEXIST);
    FAILS(rename_with("a", "a", RENAME_NOREPLACE), EEXIST);
    FAILS(rename_with("a", "d", RENAME_NOREPLACE), EEXIST);
    CHECK(rename_with("a", "d/a", RENAME_NOREPLACE) == 0 && file_is("d/a", "a", 1));
    FAILS(rename_with("none", "x", RENAME_NOREPLACE), ENOENT);
    FAILS(rename_with("b", "x", RENAME_NOREPLACE | RENAME_EXCHANGE), EINVAL);
    FAILS(rename_with("b", "x", 1u << 20), EINVAL);
}

CASE(rename_exchange)
{
    put_file("f", "f", 1);
    CHECK(mkdir("p", 0755) == 0 && mkdir("p/d", 0755) == 0 && mkdir("q", 0755) == 0);
    put_file("q/g", "g", 1);
    CHECK(rename_with("p/d", "q/g", RENAME_EXCHANGE) == 0);
    CHECK(file_is("p/d", "g", 1) && S_ISDIR(stat_of("q/g").st_mode));
    CHECK(stat_of("p").st_nlink == 2 && stat_of("q").st_nlink == 3);
    struct stat up, q;
    CHECK(stat("q/g/..", &up) == 0 && stat("q", &q) == 0 && up.st_ino == q.st_ino);
    CHECK(rename_with("f", "q/g", RENAME_EXCHANGE) == 0 && S_ISDIR(stat_of("f").st_mode));
    CHECK(rename_with("p", "q", RENAME_EXCHANGE) == 0 && file_is("q/d", "g", 1));
    FAILS(rename_with("p", "none", RENAME_EXCHANGE), ENOENT);
    FAILS(rename_with("p", "p/g", RENAME_EXCHANGE), EINVAL);
    FAILS(rename_with("p/g", "p", RENAME_EXCHANGE), EINVAL);
    CHECK(symlink("x", "l") == 0 && rename_with("l", "q", RENAME_EXCHANGE) == 0 &&
          S_ISLNK(stat_of("q").st_mode));
}

/* What overlayfs hides lower files with. */
CASE(rename_leaves_a_whiteout)
{
    if (!is_root())
        return;
    put_file("a", "a", 1);
    put_file("b", "b", 1);
    CHECK(rename_with("a", "c", RENAME_WHITEOUT) == 0);
    CHECK(S_ISCHR(stat_of("a").st_mode) && stat_of("a").st_rdev == makedev(0, 0) &&
          stat_of("a").st_nlink == 1);
    CHECK(file_is("c", "a", 1));
    CHECK(rename_with("b", "c", RENAME_WHITEOUT) == 0 && file_is("c", "b", 1));
    CHECK(S_ISCHR(stat_of("b").st_mode) && stat_of("b").st_ino != stat_of("a").st_ino);
    CHECK(mkdir("p", 0755) == 0 && mkdir("p/d", 0755) == 0 && mkdir("q", 0755) == 0);
    CHECK(rename_with("p/d", "q/d", RENAME_WHITEOUT | RENAME_NOREPLACE) == 0);
    CHECK(S_ISCHR(stat_of("p/d").st_mode) && stat_of("p").st_nlink == 2 && stat_of("q").st_nlink == 3);
    FAILS(rename_with("q/d", "p/d", RENAME_WHITEOUT | RENAME_EXCHANGE), EINVAL);
    CHECK(unlink("p/d") == 0 && rmdir("p") == 0);
}

CASE(rename_keeps_open_files)
{
    put_file("a", "a", 1);
    put_file("b", "b", 1);
    int fd = open("b", O_RDWR);
    CHECK(rename("a", "b") == 0);
    char c = 0;
    CHECK(read(fd, &c, 1) == 1 && c == 'b' && pwrite(fd, "B", 1, 0) == 1);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_nlink == 0 && file_is("b", "a", 1));
    close(fd);
    CHECK(mkdir("d", 0755) == 0 && mkdir("e", 0755) == 0);
    fd = open("e", O_RDONLY | O_DIRECTORY);
    CHECK(rename("d", "e") == 0);
    FAILS(openat(fd, "x", O_CREAT | O_WRONLY, 0644), ENOENT);
    FAILS(mkdirat(fd, "x", 0755), ENOENT);
    close(fd);
}

CASE(link_counts_and_errors)
{
    put_file("f", "1", 1);
    CHECK(mkdir("d", 0755) == 0 && symlink("f", "l") == 0);
    CHECK(link("f", "g") == 0 && link("f", "d/h") == 0 && stat_of("g").st_nlink == 3);
    CHECK(link("l", "l2") == 0 && S_ISLNK(stat_of("l2").st_mode)); /* the link itself */
    CHECK(linkat(AT_FDCWD, "l", AT_FDCWD, "f2", AT_SYMLINK_FOLLOW) == 0 && stat_of("f").st_nlink == 4);
    FAILS(link("f", "g"), EEXIST);
    FAILS(link("d", "d2"), EPERM);
    FAILS(link("none", "x"), ENOENT);
    FAILS(link("f", "none/x"), ENOENT);
    FAILS(link("f", "f/x"), ENOTDIR);
    CHECK(mkfifo("fifo", 0644) == 0 && link("fifo", "fifo2") == 0 && stat_of("fifo").st_nlink == 2);
    CHECK(unlink("f") == 0 && unlink("g") == 0 && unlink("f2") == 0 && stat_of("d/h").st_nlink == 1);
    FAILS(unlink("d"), EISDIR);
    FAILS(unlink("none"), ENOENT);
    FAILS(unlink("d/h/x"), ENOTDIR);
}

CASE(directories_and_their_links)
{
    CHECK(stat_of(".").st_nlink == 2);
    CHECK(mkdir("a", 0755) == 0 && stat_of("a").st_nlink == 2 && stat_of(".").st_nlink == 3);
    CHECK(mkdir("a/b", 0755) == 0 && mkdir("a/c", 0755) == 0 && stat_of("a").st_nlink == 4);
    FAILS(mkdir("a", 0755), EEXIST);
    FAILS(mkdir(".", 0755), EEXIST);
    FAILS(mkdir("..", 0755), EEXIST);
    FAILS(mkdir("x/y", 0755), ENOENT);
    FAILS(rmdir("a"), ENOTEMPTY);
    FAILS(rmdir("a/."), EINVAL);
    FAILS(rmdir("a/b/.."), ENOTEMPTY);
    put_file("f", "", 0);
    FAILS(rmdir("f"), ENOTDIR);
    FAILS(mkdir("f", 0755), EEXIST);
    CHECK(mkdir("slash/", 0755) == 0 && rmdir("slash/") == 0);
    CHECK(rmdir("a/b") == 0 && stat_of("a").st_nlink == 3);
    CHECK(rmdir("a/c") == 0 && rmdir("a") == 0 && stat_of(".").st_nlink == 2);
    FAILS(rmdir("a"), ENOENT);
}

CASE(symlinks_and_loops)
{
    char longest[PATH_MAX + 1], back[PATH_MAX];
    memset(longest, 'x', sizeof(longest));
    longest[PATH_MAX] = '\0';
    FAILS(symlink(longest, "l"), ENAMETOOLONG);
    longest[PATH_MAX - 1] = '\0';
    CHECK(symlink(longest, "l") == 0 && stat_of("l").st_size == PATH_MAX - 1);
    CHECK(readlink("l", back, sizeof(back)) == PATH_MAX - 1 && !memcmp(back, longest, PATH_MAX - 1));
    CHECK(readlink("l", back, 5) == 5);
    FAILS(symlink("", "e"), ENOENT);
    FAILS(symlink("x", "l"), EEXIST);
    put_file("f", "", 0);
    FAILS(readlink("f", back, sizeof(back)), EINVAL);
    FAILS(readlink("none", back, sizeof(back)), ENOENT);
    CHECK(symlink("b", "a") == 0 && symlink("a", "b") == 0);
    FAILS(open("a", O_RDONLY), ELOOP);
    FAILS(stat("a/x", &(struct stat){0}), ELOOP);
    CHECK((stat_of("a").st_mode & 07777) == 0777);
}
