/* Listing directories: every entry once, whatever changes; positions; types. */
#include "tests/posix/case.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>

#define N 2000

static void make_many(const char *dir, unsigned n)
{
    char name[64];

    CHECK(mkdir(dir, 0755) == 0);
    for (unsigned k = 0; k < n; k++) {
        snprintf(name, sizeof(name), "%s/%u", dir, k);
        put_file(name, "", 0);
    }
}

static bool is_dots(const struct dirent *e)
{
    return strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
}

CASE(readdir_under_change)
{
    static uint8_t seen[N];
    char name[64];
    unsigned n = 0, fresh = 0;

    make_many("d", N);
    DIR *d = opendir("d");
    for (struct dirent *e; (e = readdir(d));) {
        if (is_dots(e))
            continue;
        unsigned k = (unsigned)atoi(e->d_name);
        if (k >= N) {
            fresh++;
            continue;
        }
        CHECK(!seen[k]++); /* none twice */
        n++;
        snprintf(name, sizeof(name), "d/%u", k);
        CHECK(unlink(name) == 0);
        snprintf(name, sizeof(name), "d/%u", N + k); /* may show, or not */
        if (k % 4 == 0)
            put_file(name, "", 0);
    }
    CHECK(n == N && fresh <= N / 4); /* none left out */
    closedir(d);
    CHECK(count_entries("d") == N / 4);
}

CASE(readdir_positions)
{
    static long at[N + 2];
    static char names[N + 2][16];
    unsigned n = 0;

    make_many("d", N);
    DIR *d = opendir("d");
    for (;;) {
        at[n] = telldir(d);
        struct dirent *e = readdir(d);
        if (!e)
            break;
        CHECK(n < N + 2);
        strcpy(names[n++], e->d_name);
    }
    CHECK(n == N + 2);
    for (unsigned k = 0; k < 300; k++) { /* back and forth */
        unsigned i = k * 7919 % n;
        seekdir(d, at[i]);
        struct dirent *e = readdir(d);
        CHECK(e && strcmp(e->d_name, names[i]) == 0);
        CHECK(telldir(d) == at[i + 1]);
    }
    /* The entry that a position points at goes: the next one comes (or, until rewinding, still that). */
    unsigned i = 1000;
    if (names[i][0] == '.')
        i++;
    char path[64];
    snprintf(path, sizeof(path), "d/%s", names[i]);
    CHECK(unlink(path) == 0);
    seekdir(d, at[i]);
    struct dirent *e = readdir(d);
    CHECK(e && (strcmp(e->d_name, names[i + 1]) == 0 || strcmp(e->d_name, names[i]) == 0));
    rewinddir(d);
    unsigned left = 0;
    while (readdir(d))
        left++;
    CHECK(left == n - 1);
    put_file("d/late", "", 0); /* shows after rewinding */
    bool found = false;
    rewinddir(d);
    while ((e = readdir(d)))
        found |= strcmp(e->d_name, "late") == 0;
    CHECK(found);
    closedir(d);
}

CASE(readdir_types_and_numbers)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    static const struct {
        const char *name;
        unsigned char type;
    } want[] = {{"file", DT_REG},    {"dir", DT_DIR}, {"link", DT_LNK}, {"fifo", DT_FIFO},
                {"socket", DT_SOCK}, {".", DT_DIR},   {"..", DT_DIR}};
    struct stat st;
    unsigned found = 0;

    put_file("file", "", 0);
    CHECK(mkdir("dir", 0755) == 0 && symlink("x", "link") == 0 && mkfifo("fifo", 0644) == 0);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&address, sizeof(address)) == 0);
    DIR *d = opendir(".");
    for (struct dirent *e; (e = readdir(d));)
        for (unsigned k = 0; k < sizeof(want) / sizeof(want[0]); k++)
            if (strcmp(e->d_name, want[k].name) == 0) {
                CHECK(e->d_type == want[k].type);
                CHECK(lstat(e->d_name, &st) == 0 && st.st_ino == e->d_ino);
                found++;
            }
    closedir(d);
    close(s);
    CHECK(found == sizeof(want) / sizeof(want[0]));
}

CASE(readdir_of_what_is_gone)
{
    CHECK(mkdir("d", 0755) == 0);
    int fd = open("d", O_RDONLY | O_DIRECTORY);
    CHECK(rmdir("d") == 0);
    DIR *d = fdopendir(fd);
    errno = 0;
    struct dirent *e = readdir(d);
    CHECK(!e || is_dots(e)); /* ENOENT or nothing */
    closedir(d);
    FAILS(open("d", O_RDONLY | O_DIRECTORY), ENOENT);
    put_file("f", "", 0);
    CHECK(!opendir("f") && errno == ENOTDIR);
}
