#include "fs/daemon/lines.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "fs/base/size.h"

#define CHUNK 4096u

void sfs_lines_init(struct sfs_lines *l, int fd, size_t max_bytes)
{
    *l = (struct sfs_lines){.fd = fd, .max = max_bytes};
}

void sfs_lines_fini(struct sfs_lines *l)
{
    free(l->buf);
    l->buf = NULL;
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int wait_readable(int fd, int64_t deadline)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    for (;;) {
        int64_t left = deadline < 0 ? -1 : deadline - now_ms();
        int n;

        if (deadline >= 0 && left <= 0)
            return -ETIMEDOUT;
        n = poll(&p, 1, (int)left);
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

/* Reads more into the buffer: bytes, 0 at the end, -errno. */
static ssize_t fill(struct sfs_lines *l, int64_t deadline)
{
    ssize_t n;
    int rc;

    if (l->cap - l->used < CHUNK) {
        size_t cap = l->cap ? l->cap * 2 : CHUNK;
        char *more = realloc(l->buf, cap);

        if (!more)
            return -ENOMEM;
        l->buf = more;
        l->cap = cap;
    }
    rc = wait_readable(l->fd, deadline);
    if (rc < 0)
        return rc;
    do
        n = recv(l->fd, l->buf + l->used, l->cap - l->used, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    l->used += (size_t)n;
    return n;
}

int sfs_lines_next(struct sfs_lines *l, int timeout_ms, const char **line, size_t *len)
{
    int64_t deadline = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
    size_t looked = 0;

    if (l->taken > 0) {
        memmove(l->buf, l->buf + l->taken, l->used - l->taken);
        l->used -= l->taken;
        l->taken = 0;
    }
    for (;;) {
        char *end = l->used > looked ? memchr(l->buf + looked, '\n', l->used - looked) : NULL;
        ssize_t n;

        if (end) {
            *line = l->buf;
            *len = (size_t)(end - l->buf);
            l->taken = *len + 1;
            return *len > l->max ? -EMSGSIZE : 1;
        }
        looked = l->used;
        if (l->used > l->max)
            return -EMSGSIZE;
        n = fill(l, deadline);
        if (n <= 0)
            return (int)n;
    }
}

int sfs_lines_send(int fd, const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    size_t len, done = 0;
    int rc = 0;

    if (!text)
        return -ENOMEM;
    len = strlen(text);
    text[len] = '\n'; /* in place of the NUL */
    while (done < len + 1) {
        ssize_t n = send(fd, text + done, len + 1 - done, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = errno == EAGAIN || errno == EWOULDBLOCK ? -ETIMEDOUT : -errno;
            break;
        }
        done += (size_t)n;
    }
    free(text);
    return rc;
}

int sfs_sock_address(int dir_fd, const char *pool, struct sockaddr_un *out)
{
    int n;

    if (sfs_name_check(pool, "pool", NULL) < 0)
        return -EINVAL;
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%s.sock", dir_fd, pool);
    return n < 0 || (size_t)n >= sizeof(out->sun_path) ? -ENAMETOOLONG : 0;
}
