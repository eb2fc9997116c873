/* The files are text, a line each:
 *
 *   spacesfs pool 1
 *   uuid 5a1c…
 *   disk /path
 *   disk /another%20path
 *
 * Control characters, '%' and bytes that end a line are written as %XX. A file that isn't like this is as
 * good as none: -ENOENT, since labels can tell all of it again. */
#include "fs/pool/registry.h"

#include <limits.h>
#include <pwd.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/size.h"

#define FIRST_LINE "spacesfs pool 1"
#define LINE_BYTES (3 * SFS_PATH_BYTES + 16)

/* --- directories ------------------------------------------------------------------------------ */

/* Makes a directory and those above it. 0 or -errno. */
static int make_dirs(const char *path, mode_t mode)
{
    char part[SFS_PATH_BYTES];
    size_t len = strlen(path);

    if (len == 0 || len >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
        *p = '/';
    }
    return mkdir(part, mode) < 0 && errno != EEXIST ? -errno : 0;
}

static int put_path(char *out, size_t cap, const char *base, const char *tail)
{
    int n = snprintf(out, cap, "%s%s", base, tail);

    return n < 0 || (size_t)n >= cap || n >= (int)SFS_PATH_BYTES ? -ENAMETOOLONG : 0;
}

int sfs_registry_state_dir(char *out, size_t cap)
{
    const char *given = getenv("SFS_STATE_DIR"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (given && *given)
        return put_path(out, cap, given, "");
    if (geteuid() == 0)
        return put_path(out, cap, "/var/lib/spacesfs", "");
    if (xdg && *xdg == '/')
        return put_path(out, cap, xdg, "/spacesfs");
    if (!home || *home != '/') {
        /* mount(8) takes HOME away from its helpers. */
        const struct passwd *user = getpwuid(geteuid());

        if (!user || user->pw_dir[0] != '/')
            return -ENOENT;
        home = user->pw_dir;
    }
    return put_path(out, cap, home, "/.local/state/spacesfs");
}

int sfs_registry_run_dir(char *out, size_t cap, struct sfs_error *err)
{
    const char *given = getenv("SFS_RUN_DIR"), *xdg = getenv("XDG_RUNTIME_DIR");
    char fallback[64];
    struct stat st;
    int rc;

    snprintf(fallback, sizeof(fallback), "/tmp/spacesfs-%u", (unsigned)geteuid());
    if (given && *given)
        rc = put_path(out, cap, given, "");
    else if (geteuid() == 0)
        rc = put_path(out, cap, "/run/spacesfs", "");
    else if (xdg && *xdg == '/')
        rc = put_path(out, cap, xdg, "/spacesfs");
    else
        rc = put_path(out, cap, fallback, "");
    if (rc < 0)
        return sfs_error_set(err, rc, "the path of the run-time directory is too long");
    rc = make_dirs(out, 0700);
    if (rc < 0)
        return sfs_error_set(err, rc, "the run-time directory %s cannot be made: %s", out, strerror(-rc));
    /* Sockets and locks in it are trusted: nobody else may have made it, nor may write to it. */
    if (lstat(out, &st) < 0)
        return sfs_error_set(err, -errno, "the run-time directory %s: %s", out, strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 0022))
        return sfs_error_set(err, -EPERM,
                             "the run-time directory %s is not safe: it must be a directory of yours that "
                             "only you can write to "
                             "(remove it, or set SFS_RUN_DIR to another)",
                             out);
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static bool plain(unsigned char c)
{
    return c > 0x20 && c != 0x7f && c != '%';
}

static void write_path(FILE *f, const char *path)
{
    fputs("disk ", f);
    for (; *path; path++)
        if (plain((unsigned char)*path))
            fputc(*path, f);
        else
            fprintf(f, "%%%02X", (unsigned char)*path);
    fputc('\n', f);
}

static int pool_path(char *out, size_t cap, const char *state_dir, const char *name, const char *tail)
{
    int n;

    /* A name is what keeps this inside of the directory. */
    if (sfs_name_check(name, "pool", NULL) < 0)
        return -EINVAL;
    n = snprintf(out, cap, "%s/pools/%s%s", state_dir, name, tail);
    return n < 0 || (size_t)n >= cap ? -ENAMETOOLONG : 0;
}

static int sync_dir(const char *state_dir)
{
    char path[PATH_MAX];
    int fd, rc = 0;

    snprintf(path, sizeof(path), "%s/pools", state_dir);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fsync(fd) < 0)
        rc = -errno;
    close(fd);
    return rc;
}

static int write_file(const char *path, const struct sfs_registry_pool *p)
{
    char uuid[SFS_UUID_STRLEN];
    FILE *f;
    int fd, rc = 0;

    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    f = fdopen(fd, "w");
    if (!f) {
        rc = -errno;
        close(fd);
        return rc;
    }
    sfs_uuid_format(&p->uuid, uuid);
    fprintf(f, FIRST_LINE "\nuuid %s\n", uuid);
    for (unsigned i = 0; i < p->npaths; i++)
        if (p->paths[i][0]) /* a disk that has not been seen anywhere */
            write_path(f, p->paths[i]);
    if (fflush(f) != 0 || ferror(f) || fsync(fd) < 0)
        rc = errno ? -errno : -EIO;
    if (fclose(f) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

int sfs_registry_save(const char *state_dir, const struct sfs_registry_pool *p, struct sfs_error *err)
{
    char path[PATH_MAX], temp[PATH_MAX], tail[32], dir[PATH_MAX];
    int rc;

    /* '#' is in no name: such a file is never taken for a pool. */
    snprintf(tail, sizeof(tail), "#%d", (int)getpid());
    rc = pool_path(path, sizeof(path), state_dir, p->name, "");
    if (rc == 0)
        rc = pool_path(temp, sizeof(temp), state_dir, p->name, tail);
    if (rc < 0)
        return sfs_error_set(err, rc, "pool %s cannot be recorded: %s", p->name, strerror(-rc));
    snprintf(dir, sizeof(dir), "%s/pools", state_dir);
    rc = make_dirs(dir, 0755);
    if (rc == 0)
        rc = write_file(temp, p);
    if (rc == 0 && rename(temp, path) < 0)
        rc = -errno;
    if (rc == 0)
        rc = sync_dir(state_dir);
    if (rc < 0) {
        unlink(temp);
        return sfs_error_set(err, rc, "pool %s cannot be recorded in %s: %s", p->name, dir, strerror(-rc));
    }
    return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* 0, or -ENOENT for what cannot be a path. */
static int read_path(const char *text, char out[SFS_PATH_BYTES])
{
    size_t n = 0;

    for (; *text; text++) {
        char c = *text;

        if (c == '%') {
            int high = hex(text[1]), low = high < 0 ? -1 : hex(text[2]);

            if (low < 0 || (high == 0 && low == 0))
                return -ENOENT;
            c = (char)(high * 16 + low);
            text += 2;
        }
        if (n + 1 >= SFS_PATH_BYTES)
            return -ENOENT;
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0 ? 0 : -ENOENT;
}

static int add_path(struct sfs_registry_pool *out, const char *text)
{
    char(*more)[SFS_PATH_BYTES];

    if (out->npaths == SFS_LABEL_PEERS)
        return -ENOENT;
    more = realloc(out->paths, (out->npaths + 1) * sizeof(*more));
    if (!more)
        return -ENOMEM;
    out->paths = more;
    if (read_path(text, out->paths[out->npaths]) < 0)
        return -ENOENT;
    out->npaths++;
    return 0;
}

static int read_file(FILE *f, struct sfs_registry_pool *out)
{
    char line[LINE_BYTES];
    unsigned number = 0;
    int rc = 0;

    while (rc == 0 && fgets(line, sizeof(line), f)) {
        size_t len = strlen(line);

        if (len == 0 || line[len - 1] != '\n')
            return -ENOENT;
        line[len - 1] = '\0';
        if (number == 0)
            rc = strcmp(line, FIRST_LINE) == 0 ? 0 : -ENOENT;
        else if (number == 1)
            rc = strncmp(line, "uuid ", 5) == 0 && sfs_uuid_parse(line + 5, &out->uuid) == 0 ? 0 : -ENOENT;
        else if (strncmp(line, "disk ", 5) == 0)
            rc = add_path(out, line + 5);
        number++;
    }
    if (rc == 0 && ferror(f))
        rc = -EIO;
    return rc == 0 && number < 2 ? -ENOENT : rc;
}

int sfs_registry_load(const char *state_dir, const char *name, struct sfs_registry_pool *out)
{
    char path[PATH_MAX];
    struct stat st;
    FILE *f;
    int fd, rc;

    *out = (struct sfs_registry_pool){0};
    if (pool_path(path, sizeof(path), state_dir, name, "") < 0)
        return -ENOENT;
    snprintf(out->name, sizeof(out->name), "%s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP ? -ENOENT : -errno;
    f = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fdopen(fd, "r") : NULL;
    if (!f) {
        close(fd);
        return -ENOENT;
    }
    rc = read_file(f, out);
    fclose(f);
    if (rc < 0)
        sfs_registry_free(out);
    return rc;
}

int sfs_registry_remove(const char *state_dir, const char *name)
{
    char path[PATH_MAX];
    int rc = pool_path(path, sizeof(path), state_dir, name, "");

    if (rc < 0)
        return rc;
    if (unlink(path) < 0)
        return -errno;
    return sync_dir(state_dir);
}

int sfs_registry_each(const char *state_dir, int (*fn)(const struct sfs_registry_pool *, void *), void *ctx)
{
    char path[PATH_MAX];
    struct dirent **names = NULL;
    int n, rc = 0;

    snprintf(path, sizeof(path), "%s/pools", state_dir);
    n = scandir(path, &names, NULL, alphasort);
    if (n < 0)
        return errno == ENOENT ? 0 : -errno;
    for (int i = 0; i < n; i++) {
        struct sfs_registry_pool p;

        if (rc == 0 && sfs_registry_load(state_dir, names[i]->d_name, &p) == 0) {
            rc = fn(&p, ctx);
            sfs_registry_free(&p);
        }
        free(names[i]);
    }
    free(names);
    return rc;
}

void sfs_registry_free(struct sfs_registry_pool *p)
{
    if (!p)
        return;
    free(p->paths);
    p->paths = NULL;
    p->npaths = 0;
}
