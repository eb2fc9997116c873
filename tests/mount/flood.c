/* flood KIND SOCKET N: N connections to a control socket, each of which misbehaves as KIND says.
 * flood ask SOCKET REQUEST: sends one line and prints what comes back; fails when nothing does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int dial(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct timeval timeout = {.tv_sec = 20};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
        return -1;
    strcpy(addr.sun_path, path);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Whoever is thrown out in between gets EPIPE: that is as it should be. */
static void put(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

static void drain(int fd)
{
    char buf[4096];
    shutdown(fd, SHUT_WR);
    while (recv(fd, buf, sizeof(buf), 0) > 0)
        ;
}

static int ask(const char *path, const char *request)
{
    char buf[8192];
    int fd = dial(path);
    if (fd < 0) {
        perror(path);
        return 1;
    }
    put(fd, request, strlen(request));
    put(fd, "\n", 1);
    shutdown(fd, SHUT_WR);
    ssize_t n, all = 0;
    while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
        fwrite(buf, 1, (size_t)n, stdout);
        all += n;
    }
    close(fd);
    return all == 0;
}

static const char *const nonsense[] = {
    "[]\n", "null\n", "{}\n", "\"cmd\"\n", "{\"cmd\": 7}\n", "{\"cmd\": \"no-such\"}\n", "{\"cmd\": \"mount\"}\n", "{\"cmd\": \"mount\", \"space\": [], \"dir\": {}}\n",
    "{\"cmd\": \"umount\", \"dir\": \"\\u0000\"}\n", "{\"cmd\": \"status\", \"cmd\": \"shutdown\"}\n", "{\"cmd\": \"disk-add\", \"disks\": \"/\"}\n", "{\"cmd\": \"job-cancel\", \"id\": -1}\n",
    "{\"cmd\": \"space-set\", \"space\": \"../..\", \"columns\": 1e308}\n", "{\"cmd\": \"where\", \"path\": \"\"}\n",
};

static void misbehave(const char *kind, int fd, unsigned i)
{
    static char big[300000];
    if (!strcmp(kind, "garbage")) {
        put(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n}{][\"\n\n\n", 38);
        drain(fd);
    } else if (!strcmp(kind, "binary")) {
        for (unsigned k = 0; k < 2000; k++)
            big[k] = (char)((i * 2654435761u + k * 40503u) >> 7);
        put(fd, big, 2000);
        drain(fd);
    } else if (!strcmp(kind, "long")) {
        memset(big, '[', sizeof(big));
        put(fd, big, sizeof(big));
        drain(fd);
    } else if (!strcmp(kind, "nonsense")) {
        const char *line = nonsense[i % (sizeof(nonsense) / sizeof(nonsense[0]))];
        put(fd, line, strlen(line));
        drain(fd);
    } else if (!strcmp(kind, "half")) {
        put(fd, "{\"cmd\": \"sta", 12);
    } else if (!strcmp(kind, "deaf")) {
        for (unsigned k = 0; k < 20; k++)
            put(fd, "{\"cmd\": \"status\"}\n", 18);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    if (!strcmp(argv[1], "ask"))
        return ask(argv[2], argv[3]);
    unsigned n = (unsigned)atoi(argv[3]), kept = 0;
    int *fds = calloc(n, sizeof(*fds));
    int keep = !strcmp(argv[1], "silent") || !strcmp(argv[1], "half");
    for (unsigned i = 0; fds && i < n; i++) {
        int fd = dial(argv[2]);
        if (fd < 0)
            continue; /* it is full, or has thrown us out */
        misbehave(argv[1], fd, i);
        if (keep && kept < n)
            fds[kept++] = fd;
        else
            close(fd);
    }
    if (keep)
        sleep(3);
    free(fds); /* and what is open is closed by our end */
    return 0;
}
