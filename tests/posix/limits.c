/* Large, long, deep, many. */
#include "tests/posix/case.h"

#include <limits.h>

CASE(names_are_bytes)
{
    char name[300];
    unsigned n = 0;

    memset(name, 'n', sizeof(name));
    name[256] = '\0';
    FAILS(open(name, O_CREAT | O_WRONLY, 0644), ENAMETOOLONG);
    FAILS(mkdir(name, 0755), ENAMETOOLONG);
    FAILS(symlink("x", name), ENAMETOOLONG);
    FAILS(stat(name, &(struct stat){0}), ENAMETOOLONG);
    name[255] = '\0';
    put_file(name, "", 0);
    CHECK(link(name, "l") == 0 && unlink("l") == 0 && stat_of(name).st_nlink == 1);
    for (unsigned c = 1; c < 256; c++) { /* every byte as a name of its own */
        char one[3] = {(char)c, (char)c, 0};
        if (c == '/' || c == '.')
            continue;
        put_file(one, one, 2);
        n++;
    }
    for (unsigned c = 1; c < 256; c++) {
        char one[3] = {(char)c, (char)c, 0};
        if (c != '/' && c != '.')
            CHECK(file_is(one, one, 2));
    }
    put_file("\xc3\xa9", "composed", 8); /* é, and e with an accent: not the same */
    put_file("e\xcc\x81", "decomposed", 10);
    put_file("Case", "C", 1);
    put_file("case", "c", 1);
    CHECK(file_is("\xc3\xa9", "composed", 8) && file_is("Case", "C", 1));
    CHECK(count_entries(".") >= n + 5);
}

CASE(paths_of_path_max)
{
    static char path[PATH_MAX + 10];
    size_t len = 0;
    int fd = open(".", O_RDONLY | O_DIRECTORY), next;

    /* 15 times 255 and a slash, then what is left up to 4095 bytes */
    while (len + 256 < PATH_MAX - 1) {
        memset(path + len, 'p', 255);
        path[len + 255] = '\0';
        CHECK(mkdirat(fd, path + len, 0755) == 0);
        next = openat(fd, path + len, O_RDONLY | O_DIRECTORY);
        CHECK(next >= 0);
        close(fd);
        fd = next;
        path[len + 255] = '/';
        len += 256;
    }
    memset(path + len, 'e', PATH_MAX - 1 - len);
    path[PATH_MAX - 1] = '\0';
    CHECK(strlen(path) == PATH_MAX - 1);
    put_file(path, "deep", 4);
    CHECK(file_is(path, "deep", 4) && stat_of(path).st_size == 4);
    CHECK(chmod(path, 0600) == 0 && truncate(path, 2) == 0);
    strcat(path, "x");
    FAILS(open(path, O_RDONLY), ENAMETOOLONG);
    close(fd);
}

CASE(deep_trees)
{
    int fd = open(".", O_RDONLY | O_DIRECTORY), next;

    for (unsigned k = 0; k < 1000; k++) {
        if (mkdirat(fd, "d", 0755) < 0) {
            CHECK(!"mkdir");
            break;
        }
        next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        CHECK(next >= 0);
        close(fd);
        fd = next;
    }
    for (unsigned k = 0; k < 1000; k++) {
        next = openat(fd, "..", O_RDONLY | O_DIRECTORY);
        CHECK(next >= 0 && unlinkat(next, "d", AT_REMOVEDIR) == 0);
        close(fd);
        fd = next;
    }
    close(fd);
    CHECK(count_entries(".") == 0);
}

CASE(files_beyond_4_tib)
{
    static const off_t places[] = {(1ll << 32) - 1, (1ll << 42) + 12345, (1ll << 43) - 3};
    char back[100];
    struct stat st;
    int fd = new_file("f");

    for (unsigned k = 0; k < sizeof(places) / sizeof(places[0]); k++)
        CHECK(pwrite(fd, "here", 4, places[k]) == 4);
    CHECK(fsync(fd) == 0 && fstat(fd, &st) == 0 && st.st_size == places[2] + 4 && st.st_blocks < 2048);
    for (unsigned k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
        CHECK(pread(fd, back, 24, places[k] - 10) == (k == 2 ? 14 : 24));
        CHECK(all_zero(back, 10) && !memcmp(back + 10, "here", 4) && (k == 2 || all_zero(back + 14, 10)));
        off_t found = lseek(fd, places[k] - (1 << 20), SEEK_DATA);
        CHECK(found <= places[k] && found > places[k] - (1 << 17));
    }
    CHECK(ftruncate(fd, places[1] + 2) == 0 && pread(fd, back, 100, places[1]) == 2 &&
          !memcmp(back, "he", 2));
    CHECK(ftruncate(fd, places[2]) == 0 && pread(fd, back, 100, places[1]) == 100 && all_zero(back + 2, 98));
    if (on_fuse()) {
        CHECK(ftruncate(fd, INT64_MAX) == 0 && fstat(fd, &st) == 0 && st.st_size == INT64_MAX);
        CHECK(pwrite(fd, "end", 3, INT64_MAX - 3) == 3 && pread(fd, back, 3, INT64_MAX - 3) == 3);
        FAILS(pwrite(fd, "x", 1, INT64_MAX), EINVAL);
    }
    close(fd);
}

CASE(many_links)
{
    char name[32];
    unsigned n = 0;

    put_file("f", "x", 1);
    CHECK(mkdir("d", 0755) == 0);
    while (n < 2000) {
        snprintf(name, sizeof(name), "d/%u", n);
        if (link("f", name) < 0)
            break;
        n++;
    }
    CHECK(n == 2000 && stat_of("f").st_nlink == 2001 && count_entries("d") == 2000);
    for (unsigned k = 0; k < n; k++) {
        snprintf(name, sizeof(name), "d/%u", k);
        CHECK(unlink(name) == 0);
    }
    CHECK(stat_of("f").st_nlink == 1 && rmdir("d") == 0);
}
