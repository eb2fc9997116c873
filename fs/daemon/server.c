#include "fs/daemon/server.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/daemon/control_impl.h"
#include "fs/daemon/lines.h"

#define REQUEST_MAX (64u << 10)
#define CONNECTIONS_MAX 64u
#define REQUEST_TIMEOUT_MS 10000
#define REPLY_TIMEOUT_S 30

struct connection {
    LIST_ENTRY(connection) link;
    struct sfs_server *server;
    struct sfs_thread *thread;
    int fd;     /* open until the connection is freed */
    bool ended; /* its thread is about to return; guarded by the server's lock */
    bool deaf;  /* its thread's own: the client no longer reads */
};

struct sfs_server {
    struct sfs_pool *pool;
    struct sfs_mounts *mounts;
    struct sfs_env *env;
    void (*shutdown)(void *);
    void *shutdown_ctx;
    int dir, fd, wake; /* run_dir, the socket, an eventfd that ends the accepting thread */
    struct sockaddr_un addr;
    struct sfs_thread *thread;
    struct sfs_mutex lock; /* SFS_RANK_LEAF: guards the list, `ended` and `stopping` */
    struct sfs_cond one_ended;
    LIST_HEAD(, connection) connections;
    unsigned nconnections;
    bool stopping;
};

/* --- commands of a daemon --------------------------------------------------------------------- */

static json_t *cmd_mount(struct sfs_server *s, const json_t *request)
{
    const char *space, *dir, *options = "", *source;
    struct sfs_error err = {0}, note = {0};
    int rc;

    rc = sfs_control_args(request, &err, "{s:s, s:s, s?s, s:s !}", "space", &space, "dir", &dir, "options",
                          &options, "source", &source);
    if (rc == 0 && dir[0] != '/')
        rc = sfs_error_set(&err, -EINVAL, "mountpoint %s: the path must begin with /", dir);
    if (rc == 0)
        rc = sfs_mounts_add(s->mounts, space, dir, source, options, &note, &err);
    return rc < 0 ? sfs_control_fail(rc, &err) : sfs_control_ok(json_pack("{s:s}", "dir", dir), &note);
}

static json_t *cmd_remount(struct sfs_server *s, const json_t *request)
{
    const char *dir, *options = "";
    struct sfs_error err = {0};
    int rc;

    rc = sfs_control_args(request, &err, "{s:s, s?s !}", "dir", &dir, "options", &options);
    if (rc == 0)
        rc = sfs_mounts_remount(s->mounts, dir, options, &err);
    return sfs_control_done(rc, &err);
}

static json_t *cmd_umount(struct sfs_server *s, const json_t *request)
{
    struct sfs_error err = {0}, warn = {0};
    const char *dir;
    bool last = false;
    int lazy = 0, rc;

    rc = sfs_control_args(request, &err, "{s:s, s?b !}", "dir", &dir, "lazy", &lazy);
    if (rc == 0)
        rc = sfs_mounts_umount(s->mounts, dir, lazy != 0, &last, &warn, &err);
    return rc < 0 ? sfs_control_fail(rc, &err) : sfs_control_ok(json_pack("{s:b}", "last", (int)last), &warn);
}

static json_t *cmd_mounts(struct sfs_server *s, const json_t *request)
{
    struct sfs_error err = {0};
    int rc = sfs_control_args(request, &err, "{!}");

    return rc < 0 ? sfs_control_fail(rc, &err)
                  : sfs_control_ok(json_pack("{s:o}", "mounts", sfs_mounts_list(s->mounts)), NULL);
}

static json_t *cmd_shutdown(struct sfs_server *s, const json_t *request)
{
    struct sfs_error err = {0};
    int rc = sfs_control_args(request, &err, "{!}");

    if (rc == 0 && !sfs_mounts_close(s->mounts, true))
        rc = sfs_error_set(&err, -EBUSY, "spaces of pool %s are mounted: unmount them first",
                           sfs_pool_name(s->pool));
    if (rc == 0)
        s->shutdown(s->shutdown_ctx);
    return sfs_control_done(rc, &err);
}

/* Adds to each space of a status where it is mounted. */
static void add_mounts(struct sfs_server *s, const json_t *reply)
{
    json_t *mounts = sfs_mounts_list(s->mounts), *space, *mount;
    size_t i, k;

    json_array_foreach(json_object_get(json_object_get(reply, "result"), "spaces"), i, space)
        json_array_foreach(
            mounts, k, mount) if (json_equal(json_object_get(space, "name"), json_object_get(mount, "space")))
            json_array_append(json_object_get(space, "mounts"), json_object_get(mount, "dir"));
    json_decref(mounts);
}

/* A space that is mounted has been renamed: the mount goes on, but the kernel keeps what it was told when it was mounted. */
static void warn_of_former_name(struct sfs_server *s, const json_t *request, json_t *reply)
{
    json_t *mounts = sfs_mounts_list(s->mounts), *mount;
    struct sfs_error warn;
    size_t i;

    json_array_foreach(mounts, i, mount)
        if (json_is_true(json_object_get(reply, "ok")) && json_equal(json_object_get(mount, "space"), json_object_get(request, "to"))) {
            const char *dir = json_string_value(json_object_get(mount, "dir"));
            sfs_error_set(&warn, -EALREADY, "it stays mounted at %s and nothing changes for programs; `mount` and `df` list it there by its former name (%s) until it is unmounted", dir,
                          json_string_value(json_object_get(mount, "source")));
            json_object_set_new(reply, "warning", sfs_control_text(warn.text));
        }
    json_decref(mounts);
}

static const struct {
    const char *name;
    json_t *(*run)(struct sfs_server *s, const json_t *request);
} commands[] = {
    {"mount", cmd_mount},   {"remount", cmd_remount},   {"umount", cmd_umount},
    {"mounts", cmd_mounts}, {"shutdown", cmd_shutdown},
};

/* --- connections ------------------------------------------------------------------------------ */

static void send_progress(void *ctx, json_t *progress)
{
    struct connection *c = ctx;
    json_t *line = json_pack("{s:O}", "progress", progress);

    if (line && !c->deaf && sfs_lines_send(c->fd, line) < 0)
        c->deaf = true;
    json_decref(line);
}

static bool cancelled(void *ctx)
{
    struct connection *c = ctx;
    bool stopping;

    sfs_mutex_lock(&c->server->lock);
    stopping = c->server->stopping;
    sfs_mutex_unlock(&c->server->lock);
    return stopping || c->deaf;
}

static struct sfs_vfs *get_vfs(void *ctx, const char *space)
{
    return sfs_mounts_vfs_get(((struct connection *)ctx)->server->mounts, space);
}

static void put_vfs(void *ctx, struct sfs_vfs *vfs)
{
    sfs_mounts_vfs_put(((struct connection *)ctx)->server->mounts, vfs);
}

static json_t *run(struct connection *c, const json_t *request)
{
    const char *name = json_string_value(json_object_get(request, "cmd"));
    struct sfs_control_call call = {
        .pool = c->server->pool,
        .request = request,
        .progress = send_progress,
        .progress_ctx = c,
        .cancelled = cancelled,
        .vfs_get = get_vfs,
        .vfs_put = put_vfs,
        .ctx = c,
    };
    json_t *reply;

    for (size_t i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(c->server, request);
    reply = sfs_control_call(&call);
    if (name && strcmp(name, "status") == 0)
        add_mounts(c->server, reply);
    if (name && strcmp(name, "space-rename") == 0)
        warn_of_former_name(c->server, request, reply);
    return reply;
}

/* One request line. False: the connection is of no use any more. */
static bool answer(struct connection *c, const char *line, size_t len)
{
    json_error_t why;
    json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &why), *reply;
    int rc;

    reply = json_is_object(request) ? run(c, request)
                                    : sfs_control_error(-EINVAL, "malformed request: not a JSON object");
    rc = c->deaf ? -EPIPE : sfs_lines_send(c->fd, reply);
    json_decref(request);
    json_decref(reply);
    return rc == 0;
}

static void serve(void *arg)
{
    struct connection *c = arg;
    struct sfs_server *s = c->server;
    struct sfs_lines lines;
    const char *line;
    size_t len;
    int rc;

    sfs_lines_init(&lines, c->fd, REQUEST_MAX);
    for (;;) {
        rc = sfs_lines_next(&lines, REQUEST_TIMEOUT_MS, &line, &len);
        if (rc <= 0 || !answer(c, line, len))
            break;
    }
    if (rc == -EMSGSIZE) {
        json_t *reply = sfs_control_error(-EMSGSIZE, "the request is too long");

        sfs_lines_send(c->fd, reply); /* whether it hears or not, it is over */
        json_decref(reply);
    }
    sfs_lines_fini(&lines);

    sfs_mutex_lock(&s->lock);
    /* Told at once that it is over; but a server that is stopping keeps silent until the pool is closed
     * (sfs_server_stop). */
    if (!s->stopping)
        shutdown(c->fd, SHUT_RDWR);
    c->ended = true;
    sfs_cond_signal(&s->one_ended);
    sfs_mutex_unlock(&s->lock);
}

static void connection_free(struct connection *c)
{
    sfs_thread_join(c->thread);
    close(c->fd);
    free(c);
}

static bool trusted(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == 0 || peer.uid == geteuid());
}

/* Takes over fd. */
static void admit(struct sfs_server *s, int fd)
{
    const struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};
    struct connection *c;

    if (!trusted(fd) || s->nconnections >= CONNECTIONS_MAX) {
        json_t *reply =
            trusted(fd) ? sfs_control_error(-EBUSY, "too many connections to the daemon: try again later")
                        : sfs_control_error(-EPERM, "only root and the owner of the daemon may talk to it");

        sfs_lines_send(fd, reply);
        json_decref(reply);
        close(fd);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    c = calloc(1, sizeof(*c));
    if (!c || (c->server = s, c->fd = fd, sfs_thread_start(s->env, "control", serve, c, &c->thread)) < 0) {
        close(fd);
        free(c);
        return;
    }
    sfs_mutex_lock(&s->lock);
    LIST_INSERT_HEAD(&s->connections, c, link);
    s->nconnections++;
    sfs_mutex_unlock(&s->lock);
}

static void reap(struct sfs_server *s)
{
    struct connection *c, *next;
    LIST_HEAD(, connection) ended = LIST_HEAD_INITIALIZER(ended);

    sfs_mutex_lock(&s->lock);
    for (c = LIST_FIRST(&s->connections); c; c = next) {
        next = LIST_NEXT(c, link);
        if (!c->ended)
            continue;
        LIST_REMOVE(c, link);
        s->nconnections--;
        LIST_INSERT_HEAD(&ended, c, link);
    }
    sfs_mutex_unlock(&s->lock);
    while ((c = LIST_FIRST(&ended))) {
        LIST_REMOVE(c, link);
        connection_free(c);
    }
}

static void accept_loop(void *arg)
{
    struct sfs_server *s = arg;
    struct pollfd fds[] = {{.fd = s->fd, .events = POLLIN}, {.fd = s->wake, .events = POLLIN}};

    for (;;) {
        int n = poll(fds, 2, 1000), fd;

        if (n < 0 && errno != EINTR)
            sfs_log(SFS_LOG_ERROR, "the control socket: %s", strerror(errno));
        reap(s);
        if (n > 0 && fds[1].revents)
            return;
        if (n <= 0 || !fds[0].revents)
            continue;
        fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            admit(s, fd);
        else if (errno == EMFILE || errno == ENFILE)
            sfs_env_sleep_ns(s->env, 100000000ull); /* it stays in the backlog until there are descriptors */
    }
}

/* --- the server ------------------------------------------------------------------------------- */

static int listen_at(struct sfs_server *s, const char *run_dir, struct sfs_error *err)
{
    int rc;

    s->dir = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    rc = s->dir < 0 ? -errno : sfs_sock_address(s->dir, sfs_pool_name(s->pool), &s->addr);
    if (rc == 0) {
        s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        rc = s->fd < 0 ? -errno : 0;
    }
    if (rc == 0 && unlink(s->addr.sun_path) < 0 && errno != ENOENT)
        rc = -errno;
    /* The mode of a socket file is that of the descriptor at bind: no moment in which others may connect. */
    if (rc == 0 &&
        (fchmod(s->fd, 0600) < 0 || bind(s->fd, (struct sockaddr *)&s->addr, sizeof(s->addr)) < 0 ||
         listen(s->fd, CONNECTIONS_MAX) < 0))
        rc = -errno;
    return rc < 0
               ? sfs_error_set(err, rc, "the control socket in %s cannot be made: %s", run_dir, strerror(-rc))
               : 0;
}

int sfs_server_start(struct sfs_pool *pool, struct sfs_mounts *mounts, const char *run_dir,
                     void (*on_shutdown)(void *), void *ctx, struct sfs_server **out, struct sfs_error *err)
{
    struct sfs_server *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    s->pool = pool;
    s->mounts = mounts;
    s->env = sfs_pool_env(pool);
    s->shutdown = on_shutdown;
    s->shutdown_ctx = ctx;
    s->dir = s->fd = -1;
    sfs_mutex_init(&s->lock, s->env, SFS_RANK_LEAF);
    sfs_cond_init(&s->one_ended, s->env);
    LIST_INIT(&s->connections);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc =
        s->wake < 0 ? sfs_error_set(err, -errno, "eventfd: %s", strerror(errno)) : listen_at(s, run_dir, err);
    if (rc == 0) {
        rc = sfs_thread_start(s->env, "accept", accept_loop, s, &s->thread);
        if (rc < 0)
            sfs_error_set(err, rc, "no thread for the control socket: %s", strerror(-rc));
    }
    if (rc < 0) {
        sfs_server_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void sfs_server_stop(struct sfs_server *s)
{
    const uint64_t one = 1;
    struct connection *c;

    if (write(s->wake, &one, sizeof(one)) < 0)
        sfs_log(SFS_LOG_ERROR, "eventfd: %s", strerror(errno));
    sfs_thread_join(s->thread);
    s->thread = NULL;
    unlink(s->addr.sun_path); /* who comes now finds nobody, and waits for the pool's lock */
    sfs_mutex_lock(&s->lock);
    s->stopping = true;
    LIST_FOREACH(c, &s->connections, link)
    shutdown(c->fd, SHUT_RD); /* wakes those that wait for a request */
    for (;;) {
        LIST_FOREACH(c, &s->connections, link)
        if (!c->ended)
            break;
        if (!c)
            break;
        sfs_cond_wait(&s->one_ended, &s->lock);
    }
    sfs_mutex_unlock(&s->lock);
}

void sfs_server_free(struct sfs_server *s)
{
    if (!s)
        return;
    reap(s);
    if (s->fd >= 0)
        close(s->fd);
    if (s->dir >= 0)
        close(s->dir);
    if (s->wake >= 0)
        close(s->wake);
    sfs_cond_destroy(&s->one_ended);
    sfs_mutex_destroy(&s->lock);
    free(s);
}
