/* posix_cases DIR [CASE...]: runs the cases, each in a directory of its own below DIR. Prints what broke; 0
 * when nothing did. --list names them. */
#include "tests/posix/case.h"

#include <dirent.h>
#include <error.h>
#include <grp.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

static struct test_case *cases;
static const char *current;
static unsigned nbroken;

void case_add(struct test_case *c)
{
    struct test_case **at = &cases;

    while (*at && (strcmp((*at)->file, c->file) < 0 || ((*at)->file == c->file)))
        at = &(*at)->next;
    c->next = *at;
    *at = c;
}

void broken(const char *file, int line, const char *what)
{
    const char *base = strrchr(file, '/');

    printf("%s: %s:%d: %s (errno %d, %s)\n", current, base ? base + 1 : file, line, what, errno,
           strerror(errno));
    nbroken++;
}

bool on_fuse(void)
{
    struct statfs s;

    return statfs(".", &s) == 0 && s.f_type == FUSE_SUPER_MAGIC;
}

bool is_root(void)
{
    return geteuid() == 0;
}

static void finish_child(pid_t pid)
{
    int status = 0;

    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status))
        nbroken += (unsigned)WEXITSTATUS(status);
    else
        broken(__FILE__, __LINE__, "a child was killed by a signal");
}

static void end_child(unsigned before)
{
    fflush(stdout);
    _exit(nbroken - before > 100 ? 100 : (int)(nbroken - before));
}

void as_user(uid_t uid, gid_t gid, gid_t extra1, gid_t extra2, void (*fn)(void))
{
    gid_t groups[2] = {extra1, extra2};
    unsigned before = nbroken;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (setgroups(extra2   ? 2
                      : extra1 ? 1
                               : 0,
                      groups) < 0 ||
            setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
            broken(__FILE__, __LINE__, "becoming another user");
        else
            fn();
        end_child(before);
    }
    finish_child(pid);
}

void in_child(void (*fn)(void))
{
    unsigned before = nbroken;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        fn();
        end_child(before);
    }
    finish_child(pid);
}

void put_file(const char *name, const void *data, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

    CHECK(fd >= 0);
    CHECK(write(fd, data, len) == (ssize_t)len);
    CHECK(close(fd) == 0);
}

bool file_is(const char *name, const void *data, size_t len)
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

void fill(void *out, size_t len, unsigned seed)
{
    uint8_t *p = out;

    for (size_t k = 0; k < len; k++)
        p[k] = (uint8_t)((k * 131 + (k >> 8) * 7 + (k >> 16) + seed * 17) | 1);
}

bool all_zero(const void *p, size_t len)
{
    const uint8_t *b = p;

    for (size_t k = 0; k < len; k++)
        if (b[k])
            return false;
    return true;
}

struct stat stat_of(const char *name)
{
    struct stat st;

    memset(&st, 0, sizeof(st));
    if (lstat(name, &st) < 0)
        st.st_nlink = 0;
    return st;
}

mode_t mode_of(const char *name)
{
    return stat_of(name).st_mode & 07777;
}

unsigned count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    unsigned n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (d)
        closedir(d);
    return n;
}

int new_file(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);

    CHECK(fd >= 0);
    return fd;
}

static void run(const struct test_case *c)
{
    current = c->name;
    if (mkdir(c->name, 0777) < 0 || chmod(c->name, 0777) < 0 || chdir(c->name) < 0)
        error(2, errno, "%s", c->name);
    umask(022);
    c->run();
    umask(022);
    if (chdir("..") < 0)
        error(2, errno, "%s", c->name);
}

int main(int argc, char **argv)
{
    unsigned ran = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (const struct test_case *c = cases; c; c = c->next)
            puts(c->name);
        return 0;
    }
    if (argc < 2 || chdir(argv[1]) < 0)
        error(2, errno, "usage: posix_cases DIR [CASE...] | --list");
    for (const struct test_case *c = cases; c; c = c->next) {
        bool wanted = argc == 2;
        for (int k = 2; k < argc; k++)
            wanted = wanted || strcmp(argv[k], c->name) == 0;
        if (!wanted)
            continue;
        run(c);
        ran++;
    }
    printf("%u cases, %u things broken\n", ran, nbroken);
    return nbroken || !ran ? 1 : 0;
}
