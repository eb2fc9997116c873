#include "fs/daemon/mountinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/fuse/fuse.h"

/* Copies a field up to the next space, with its octal escapes undone. NULL when it does not fit, else what
 * follows the field. */
static const char *field(const char *in, char *out, size_t cap)
{
    size_t n = 0;

    while (*in && *in != ' ' && *in != '\n') {
        char c = *in++;

        if (c == '\\' && in[0] >= '0' && in[0] <= '3' && in[1] >= '0' && in[1] <= '7' && in[2] >= '0' &&
            in[2] <= '7') {
            c = (char)((in[0] - '0') * 64 + (in[1] - '0') * 8 + (in[2] - '0'));
            in += 3;
        }
        if (n + 1 >= cap)
            return NULL;
        out[n++] = c;
    }
    out[n] = '\0';
    return *in == ' ' ? in + 1 : in;
}

/* id parent major:minor root dir options optional… - type source superoptions */
bool sfs_mountinfo_parse(const char *line, struct sfs_mountinfo *out)
{
    const char *p = line, *rest;

    for (int i = 0; i < 4; i++) {
        p = strchr(p, ' ');
        if (!p)
            return false;
        p++;
    }
    p = field(p, out->dir, sizeof(out->dir));
    rest = p ? strstr(p, " - ") : NULL;
    if (!rest || out->dir[0] != '/')
        return false;
    p = field(rest + 3, out->type, sizeof(out->type));
    return p && field(p, out->source, sizeof(out->source));
}

static int each(int (*fn)(const struct sfs_mountinfo *, void *), void *ctx)
{
    struct sfs_mountinfo m;
    char *line = NULL;
    size_t cap = 0;
    int rc = 0;
    FILE *f;

    f = fopen("/proc/self/mountinfo", "re");
    if (!f)
        return -errno;
    while (rc == 0 && getline(&line, &cap, f) > 0)
        if (sfs_mountinfo_parse(line, &m))
            rc = fn(&m, ctx);
    free(line);
    fclose(f);
    return rc;
}

struct at {
    const char *dir;
    struct sfs_mountinfo *out;
    bool found;
};

static int match_dir(const struct sfs_mountinfo *m, void *ctx)
{
    struct at *at = ctx;

    if (strcmp(m->dir, at->dir) == 0) {
        *at->out = *m; /* later ones lie on top */
        at->found = true;
    }
    return 0;
}

int sfs_mountinfo_at(const char *dir, struct sfs_mountinfo *out)
{
    struct at at = {.dir = dir, .out = out};
    int rc = each(match_dir, &at);

    return rc < 0 ? rc : at.found ? 0 : -ENOENT;
}

struct ours {
    int (*fn)(const struct sfs_mountinfo *, void *);
    void *ctx;
};

static int match_type(const struct sfs_mountinfo *m, void *ctx)
{
    struct ours *o = ctx;

    return strcmp(m->type, SFS_FUSE_TYPE) == 0 ? o->fn(m, o->ctx) : 0;
}

int sfs_mountinfo_each(int (*fn)(const struct sfs_mountinfo *, void *), void *ctx)
{
    struct ours o = {.fn = fn, .ctx = ctx};

    return each(match_type, &o);
}

int sfs_canonical_dir(const char *dir, char out[PATH_MAX])
{
    char copy[PATH_MAX], above[PATH_MAX], *slash;
    const char *last;
    size_t len = strlen(dir);
    int n;

    if (realpath(dir, out))
        return 0;
    if (errno != ENOTCONN && errno != ECONNABORTED)
        return -errno;
    /* Only its name can be looked at, not the mountpoint itself. */
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len >= sizeof(copy))
        return -ENAMETOOLONG;
    memcpy(copy, dir, len);
    copy[len] = '\0';
    slash = strrchr(copy, '/');
    last = slash ? slash + 1 : copy;
    if (strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return -ENOTCONN;
    if (!realpath(!slash ? "." : slash == copy ? "/" : (*slash = '\0', copy), above))
        return -errno;
    n = snprintf(out, PATH_MAX, "%s/%s", strcmp(above, "/") == 0 ? "" : above, last);
    return n < 0 || n >= PATH_MAX ? -ENAMETOOLONG : 0;
}

bool sfs_is_dead_mount(const char *dir)
{
    struct statx st;

    /* The kernel must ask: it may still know the attributes. A question that was on its way when the daemon died comes back as
     * ECONNABORTED; the ones after it as ENOTCONN. */
    return statx(AT_FDCWD, dir, AT_STATX_FORCE_SYNC, STATX_TYPE, &st) < 0 &&
           (errno == ENOTCONN || errno == ECONNABORTED);
}
