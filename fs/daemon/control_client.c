#include "fs/daemon/client.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fs/daemon/lines.h"

/* A reply has no bound by contract; this one keeps a daemon gone mad from taking all memory. */
#define REPLY_MAX (256u << 20)

int sfs_client_connect(const char *run_dir, const char *pool)
{
    struct sockaddr_un addr;
    int dir, fd, rc;

    dir = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    rc = sfs_sock_address(dir, pool, &addr);
    if (rc < 0) {
        close(dir);
        return rc == -EINVAL ? -ENOENT : rc;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        rc = -errno;
    while (fd >= 0 && rc == 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        if (errno != EINTR && errno != EAGAIN)
            rc = -errno;
        else
            poll(NULL, 0, 10); /* EAGAIN: its backlog is full */
    close(dir);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

int sfs_client_request(int fd, const json_t *request, sfs_control_progress progress, void *ctx,
                       json_t **reply)
{
    struct sfs_lines lines;
    const char *line;
    size_t len;
    int rc;

    rc = sfs_lines_send(fd, request);
    if (rc < 0)
        return rc == -EPIPE ? -ECONNRESET : rc;
    sfs_lines_init(&lines, fd, REPLY_MAX);
    for (;;) {
        json_t *object;

        rc = sfs_lines_next(&lines, -1, &line, &len);
        if (rc <= 0) {
            rc = rc == 0 ? -ECONNRESET : rc;
            break;
        }
        object = json_loadb(line, len, 0, NULL);
        if (json_is_boolean(json_object_get(object, "ok"))) {
            *reply = object;
            rc = 0;
            break;
        }
        if (!json_is_object(object)) {
            json_decref(object);
            rc = -EPROTO;
            break;
        }
        if (progress && json_is_object(json_object_get(object, "progress")))
            progress(ctx, json_object_get(object, "progress"));
        json_decref(object);
    }
    sfs_lines_fini(&lines);
    return rc;
}

void sfs_client_wait_end(int fd, int timeout_ms)
{
    struct sfs_lines lines;
    const char *line;
    size_t len;

    sfs_lines_init(&lines, fd, REPLY_MAX);
    while (sfs_lines_next(&lines, timeout_ms, &line, &len) > 0)
        ;
    sfs_lines_fini(&lines);
}

int sfs_client_result(const json_t *reply, struct sfs_error *err)
{
    const json_t *error = json_object_get(reply, "error");
    const char *text = json_string_value(json_object_get(error, "text"));
    json_int_t number = json_integer_value(json_object_get(error, "errno"));

    if (json_is_true(json_object_get(reply, "ok")))
        return 0;
    if (number <= 0 || number > 4095)
        number = EPROTO;
    return sfs_error_set(err, -(int)number, "%s", text && *text ? text : strerror((int)number));
}

int sfs_control_ask(const char *run_dir, const char *pool, const json_t *request,
                    sfs_control_progress progress, void *ctx, json_t **reply)
{
    int fd = sfs_client_connect(run_dir, pool), rc;

    if (fd < 0)
        return fd;
    rc = sfs_client_request(fd, request, progress, ctx, reply);
    close(fd);
    return rc;
}

/* --- which daemon has a mount ----------------------------------------------------------------- */

static bool has_mount(int fd, const char *dir)
{
    json_t *request = json_pack("{s:s}", "cmd", "mounts"), *reply = NULL, *mount;
    bool found = false;
    size_t i;

    if (request && sfs_client_request(fd, request, NULL, NULL, &reply) == 0)
        json_array_foreach(json_object_get(json_object_get(reply, "result"), "mounts"), i, mount)
        {
            const char *at = json_string_value(json_object_get(mount, "dir"));

            if (at && strcmp(at, dir) == 0)
                found = true;
        }
    json_decref(request);
    json_decref(reply);
    return found;
}

int sfs_client_find_mount(const char *run_dir, const char *dir)
{
    struct dirent *entry;
    int found = -ENOENT;
    DIR *d;

    d = opendir(run_dir);
    if (!d)
        return -ENOENT;
    while (found < 0 && (entry = readdir(d))) {
        size_t len = strlen(entry->d_name);
        char pool[SFS_NAME_MAX + 1];
        int fd;

        if (len <= 5 || len - 5 > SFS_NAME_MAX || strcmp(entry->d_name + len - 5, ".sock") != 0)
            continue;
        memcpy(pool, entry->d_name, len - 5);
        pool[len - 5] = '\0';
        fd = sfs_client_connect(run_dir, pool);
        if (fd < 0)
            continue;
        if (has_mount(fd, dir))
            found = fd;
        else
            close(fd);
    }
    closedir(d);
    return found;
}
