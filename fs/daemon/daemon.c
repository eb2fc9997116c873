/* The daemon of a pool, from its start to its end.
 *
 * Start: sfs_daemon_start resolves the pool's name and forks. The child takes <run_dir>/POOL.lock; whoever
 * has it is the pool's daemon, or is about to be. If another has it, the child waits until that one answers
 * (then there is nothing to start) or has ended (then the lock is free). With the lock it opens the pool
 * (threads and SQLite begin in the child only), listens, and tells the parent through a pipe:
 * "+POOL" or "-ERRNO words".
 *
 * End: the last mount has ended, nobody has mounted anything within 10 s, a client asked for it, or a signal
 * came. In this order: nothing new is mounted; mounts end and store what they have; the server answers what
 * it has begun; the pool is closed; connections end; the lock is free. So a client that waits for the end of
 * its connection, and one that waits for the lock, find a closed pool.
 *
 * A pool is locked by its labels as well (fs/disk). The lock here only keeps two daemons from racing for one
 * socket. */
#include "fs/daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/daemon/client.h"
#include "fs/daemon/hooks.h"
#include "fs/daemon/server.h"
#include "fs/daemon/source.h"
#include "fs/pool/registry.h"

#define IDLE_NS (10ull * 1000000000ull) /* without a mount from the start */
#define LOCK_LOOK_NS 20000000ull
#define LOCK_WAIT_NS (120ull * 1000000000ull) /* beyond what the other daemon itself waits for disks */
#define BUSY_WAIT_NS (10ull * 1000000000ull)  /* for a command that has the pool open */

struct daemon {
    struct sfs_env *env;
    struct sfs_pool *pool;
    struct sfs_mounts *mounts;
    struct sfs_server *server;
    struct sfs_hooks *hooks; /* NULL: there is no place for them */
    char run_dir[SFS_PATH_BYTES], state_dir[SFS_PATH_BYTES];
    char name[SFS_NAME_MAX + 1];
    int lock, wake, signals;
};

/* --- the lock --------------------------------------------------------------------------------- */

static bool answers(const char *run_dir, const char *pool)
{
    json_t *request = json_pack("{s:s}", "cmd", "ping"), *reply = NULL;
    bool ok;

    ok = request && sfs_control_ask(run_dir, pool, request, NULL, NULL, &reply) == 0 &&
         sfs_client_result(reply, NULL) == 0;
    json_decref(request);
    json_decref(reply);
    return ok;
}

static int lock_file(const char *run_dir, const char *pool)
{
    char path[SFS_PATH_BYTES + SFS_NAME_MAX + 8];
    int fd, rc;

    snprintf(path, sizeof(path), "%s/%s.lock", run_dir, pool);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    do
        rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
    while (rc == -EINTR);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* 0: we have the lock. -EALREADY: another daemon runs and answers. */
static int take_lock(struct daemon *d, uint64_t wait_ns, struct sfs_error *err)
{
    uint64_t deadline = sfs_env_mono_ns(d->env) + wait_ns + LOCK_WAIT_NS;

    for (;;) {
        int fd = lock_file(d->run_dir, d->name);

        if (fd >= 0) {
            d->lock = fd;
            return 0;
        }
        if (fd != -EWOULDBLOCK)
            return sfs_error_set(err, fd, "the lock %s/%s.lock cannot be taken: %s", d->run_dir, d->name,
                                 strerror(-fd));
        if (answers(d->run_dir, d->name))
            return sfs_error_set(err, -EALREADY, "the daemon of pool %s runs already", d->name);
        if (sfs_env_mono_ns(d->env) > deadline)
            return sfs_error_set(err, -EBUSY, "another daemon has pool %s but does not answer", d->name);
        sfs_env_sleep_ns(d->env, LOCK_LOOK_NS);
    }
}

/* --- hooks ----------------------------------------------------------------------------------- */

static void on_event(void *ctx, const char *pool, const struct sfs_event_row *e)
{
    struct daemon *d = ctx;

    if (d->hooks)
        sfs_hooks_event(d->hooks, pool, e);
}

static void on_bad_hook(void *ctx, const char *hook, const char *text)
{
    struct daemon *d = ctx;
    struct sfs_pool *pool = __atomic_load_n(&d->pool, __ATOMIC_ACQUIRE);

    if (pool)
        sfs_pool_event(pool, "warning", "hook-failed", hook, "hook %s %s", *hook ? hook : "directory", text);
    else
        sfs_log(SFS_LOG_WARN, "hook %s %s", *hook ? hook : "directory", text);
}

static void start_hooks(struct daemon *d)
{
    struct sfs_hooks_opts opts = {.report = on_bad_hook, .ctx = d};
    char dir[SFS_PATH_BYTES];
    int rc;

    rc = sfs_hooks_dir(dir, sizeof(dir));
    opts.dir = dir;
    if (rc == 0)
        rc = sfs_hooks_start(d->env, &opts, &d->hooks);
    if (rc < 0)
        sfs_log(SFS_LOG_WARN, "no hooks are run: %s", strerror(-rc));
}

/* --- opening ---------------------------------------------------------------------------------- */

static int open_pool(struct daemon *d, const char *which, const struct sfs_mount_opts *o,
                     struct sfs_error *err)
{
    struct sfs_pool_open_opts opts = {.degraded = o->degraded,
                                      .wait_ns = o->wait_ns,
                                      .state_dir = d->state_dir,
                                      .on_event = on_event,
                                      .event_ctx = d};
    uint64_t deadline = sfs_env_mono_ns(d->env) + BUSY_WAIT_NS;
    struct sfs_pool *pool = NULL;
    int rc;

    if (o->readonly && o->degraded == SFS_DEGRADED_YES)
        opts.degraded = SFS_DEGRADED_RO; /* who only wants to look changes nothing on a part of the disks */
    for (;;) {
        rc = sfs_pool_open(d->env, which, &opts, &pool, err);
        /* A command may have it open for a moment. */
        if (rc != -EBUSY || sfs_env_mono_ns(d->env) > deadline)
            break;
        sfs_env_sleep_ns(d->env, 5 * LOCK_LOOK_NS);
    }
    /* A read-only mount of disks that cannot be written to. */
    if ((rc == -EROFS || rc == -EACCES) && o->readonly) {
        opts.readonly = true;
        rc = sfs_pool_open(d->env, which, &opts, &pool, err);
    }
    __atomic_store_n(&d->pool, pool, __ATOMIC_RELEASE); /* the hooks' thread looks at it */
    return rc;
}

/* The pool goes by another name than we thought (it was renamed, or the registry is wrong): its socket and
 * its lock have the true one. */
static int check_name(struct daemon *d, struct sfs_error *err)
{
    int fd;

    if (strcmp(sfs_pool_name(d->pool), d->name) == 0)
        return 0;
    fd = lock_file(d->run_dir, sfs_pool_name(d->pool));
    if (fd < 0)
        return sfs_error_set(err, fd, "pool %s is called %s, and the lock of that name cannot be taken: %s",
                             d->name, sfs_pool_name(d->pool), strerror(-fd));
    close(d->lock);
    d->lock = fd;
    snprintf(d->name, sizeof(d->name), "%s", sfs_pool_name(d->pool));
    return 0;
}

static void wake(void *ctx)
{
    const uint64_t one = 1;
    struct daemon *d = ctx;

    if (write(d->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
        sfs_log(SFS_LOG_ERROR, "eventfd: %s", strerror(errno));
}

static int open_signals(struct daemon *d, struct sfs_error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    /* Before any thread begins: they inherit it. */
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return sfs_error_set(err, -errno, "sigprocmask: %s", strerror(errno));
    signal(SIGPIPE, SIG_IGN);
    d->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    d->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (d->signals < 0 || d->wake < 0)
        return sfs_error_set(err, -errno, "signalfd, eventfd: %s", strerror(errno));
    return 0;
}

/* Best effort, each for a reason. */
static void set_limits(void)
{
    struct rlimit files;

    /* Many slab files are open at once. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
#ifdef PR_SET_IO_FLUSHER
    /* When memory is short, the kernel must not wait for this file system on behalf of the process that
     * serves it. */
    prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
#endif
}

static void close_all(struct daemon *d)
{
    int rc = 0;

    if (d->server)
        sfs_server_stop(d->server);
    sfs_mounts_free(d->mounts);
    if (d->pool)
        sfs_pool_tell_events(d->pool);
    sfs_hooks_stop(d->hooks); /* while what they have to say can still be kept */
    if (d->pool) {
        char name[SFS_NAME_MAX + 1];

        snprintf(name, sizeof(name), "%s", sfs_pool_name(d->pool));
        rc = sfs_pool_close(d->pool);
        if (rc < 0)
            sfs_log(SFS_LOG_ERROR, "pool %s: not everything could be stored: %s", name, strerror(-rc));
    }
    sfs_hooks_free(d->hooks);
    sfs_server_free(d->server);
    if (d->lock >= 0)
        close(d->lock);
    if (d->wake >= 0)
        close(d->wake);
    if (d->signals >= 0)
        close(d->signals);
}

static int open_all(struct daemon *d, const char *which, const struct sfs_mount_opts *opts,
                    struct sfs_error *err)
{
    int rc;

    rc = open_signals(d, err);
    if (rc == 0)
        rc = take_lock(d, opts->wait_ns, err);
    if (rc == 0) {
        start_hooks(d);
        rc = open_pool(d, which, opts, err);
    }
    if (rc == 0)
        rc = check_name(d, err);
    if (rc < 0)
        return rc;
    d->mounts = sfs_mounts_new(d->pool, wake, d);
    if (!d->mounts)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    return sfs_server_start(d->pool, d->mounts, d->run_dir, wake, d, &d->server, err);
}

/* --- running ---------------------------------------------------------------------------------- */

/* True: a signal says that it is time to end. */
static bool take_signal(struct daemon *d)
{
    struct signalfd_siginfo info;

    while (read(d->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGHUP)
            return true;
    return false;
}

/* Has it nothing left to live for? Then nothing new is mounted any more. */
static bool is_over(struct daemon *d, uint64_t started_ns)
{
    if (sfs_mounts_reap(d->mounts) > 0)
        return false;
    if (!sfs_mounts_used(d->mounts) && sfs_env_mono_ns(d->env) < started_ns + IDLE_NS)
        return false;
    return sfs_mounts_close(d->mounts, true);
}

static void run(struct daemon *d)
{
    struct pollfd fds[] = {{.fd = d->wake, .events = POLLIN}, {.fd = d->signals, .events = POLLIN}};
    uint64_t started_ns = sfs_env_mono_ns(d->env), woken;

    while (!is_over(d, started_ns)) {
        if (poll(fds, 2, 1000) < 0)
            continue;
        if (fds[0].revents && read(d->wake, &woken, sizeof(woken)) < 0 && errno != EAGAIN)
            sfs_log(SFS_LOG_ERROR, "eventfd: %s", strerror(errno));
        if (fds[1].revents && take_signal(d)) {
            sfs_log(SFS_LOG_INFO, "pool %s: ending by signal", d->name);
            break;
        }
        if (sfs_mounts_closed(d->mounts))
            break;
    }
    sfs_mounts_close(d->mounts, false);
    sfs_mounts_end_all(d->mounts);
}

static void to_syslog(enum sfs_log_level level, const char *text, void *ctx)
{
    static const int priority[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

    (void)ctx;
    syslog(priority[level], "%s", text);
}

static void set_log(bool foreground)
{
    const char *level = getenv("SFS_LOG");

    if (!foreground) {
        openlog("spacesfsd", LOG_PID, LOG_DAEMON);
        sfs_log_set_sink(to_syslog, NULL);
    }
    if (level && strcmp(level, "debug") == 0)
        sfs_log_set_level(SFS_LOG_DEBUG);
}

/* Says how the start went; the other end reads to the end. */
static void report(int fd, int rc, const char *text)
{
    char line[1200];
    int n;

    if (fd < 0)
        return;
    n = rc == 0 ? snprintf(line, sizeof(line), "+%s", text)
                : snprintf(line, sizeof(line), "-%d %s", -rc, text);
    if (n > 0 && write(fd, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
        sfs_log(SFS_LOG_DEBUG, "nobody waits for the daemon's start: %s", strerror(errno));
    close(fd);
}

/* The daemon's life. report_fd: where to tell of the start, or -1. */
static int live(struct daemon *d, const char *which, const struct sfs_mount_opts *opts, int report_fd,
                struct sfs_error *err)
{
    int rc;

    set_limits();
    d->env = sfs_env_new_real();
    if (!d->env) {
        report(report_fd, -ENOMEM, "out of memory");
        return sfs_error_set(err, -ENOMEM, "out of memory");
    }
    rc = open_all(d, which, opts, err);
    report(report_fd, rc == -EALREADY ? 0 : rc, rc < 0 && rc != -EALREADY ? err->text : d->name);
    if (rc == 0) {
        sfs_log(SFS_LOG_INFO, "pool %s is open", d->name);
        run(d);
    }
    close_all(d);
    sfs_env_free(d->env);
    return rc;
}

/* --- starting --------------------------------------------------------------------------------- */

static int prepare(struct daemon *d, struct sfs_error *err)
{
    int rc;

    *d = (struct daemon){.lock = -1, .wake = -1, .signals = -1};
    rc = sfs_registry_run_dir(d->run_dir, sizeof(d->run_dir), err);
    if (rc < 0)
        return rc;
    rc = sfs_registry_state_dir(d->state_dir, sizeof(d->state_dir));
    return rc < 0 ? sfs_error_set(err, rc, "there is no directory for what is known of pools (is HOME set?)")
                  : 0;
}

/* In the child: nothing of the caller's is held open, and no terminal can be had. Does not return. */
static void become_daemon(struct daemon *d, const char *which, const struct sfs_mount_opts *opts,
                          int report_fd)
{
    struct sfs_error err = {0};
    int null;

    if (setsid() < 0 || fork() != 0)
        _exit(0);
    if (report_fd != 3)
        dup3(report_fd, 3, O_CLOEXEC);
    closefrom(4);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        dup2(null, fd);
    umask(022);
    prctl(PR_SET_NAME, "spacesfsd"); /* not the name of the helper that it was */
    if (chdir("/") < 0)
        _exit(1);
    set_log(false);
    _exit(live(d, which, opts, 3, &err) < 0 ? 1 : 0);
}

/* Reads the report. */
static int hear(int fd, char pool_name[SFS_NAME_MAX + 1], struct sfs_error *err)
{
    char line[1200], *words;
    size_t n = 0;
    ssize_t got;

    while (n < sizeof(line) - 1 &&
           ((got = read(fd, line + n, sizeof(line) - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    line[n] = '\0';
    if (line[0] == '+') {
        snprintf(pool_name, SFS_NAME_MAX + 1, "%.*s", SFS_NAME_MAX, line + 1);
        return 0;
    }
    if (line[0] == '-') {
        long code = strtol(line + 1, &words, 10);

        return sfs_error_set(err, code > 0 && code < 4096 ? -(int)code : -EIO, "%s",
                             *words ? words + 1 : "unknown error");
    }
    return sfs_error_set(err, -EIO,
                         "the daemon died while it opened the pool (the system's log may say more)");
}

static int start_background(struct daemon *d, const char *which, const struct sfs_mount_opts *opts,
                            char pool_name[SFS_NAME_MAX + 1], struct sfs_error *err)
{
    int fds[2], rc;
    pid_t pid;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return sfs_error_set(err, -errno, "pipe: %s", strerror(errno));
    fflush(NULL); /* what is buffered is the parent's to write */
    pid = fork();
    if (pid < 0) {
        rc = sfs_error_set(err, -errno, "fork: %s", strerror(errno));
        close(fds[0]);
        close(fds[1]);
        return rc;
    }
    if (pid == 0)
        become_daemon(d, which, opts, fds[1]);
    close(fds[1]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    rc = hear(fds[0], pool_name, err);
    close(fds[0]);
    return rc;
}

int sfs_daemon_start(const char *which, const struct sfs_mount_opts *opts, bool foreground,
                     char pool_name[SFS_NAME_MAX + 1], struct sfs_error *err)
{
    struct sfs_source source;
    struct sfs_error own = {0};
    struct sfs_env *env;
    struct daemon d;
    int rc;

    if (!err)
        err = &own;
    rc = prepare(&d, err);
    if (rc < 0)
        return rc;
    env = sfs_env_new_real(); /* this process's: the daemon has one of its own */
    if (!env)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    rc = sfs_source_which(env, which, &source, err);
    sfs_env_free(env);
    if (rc < 0)
        return rc;
    memcpy(d.name, source.pool, sizeof(d.name));
    if (!foreground)
        return start_background(&d, source.which, opts, pool_name, err);
    set_log(true);
    rc = live(&d, source.which, opts, -1, err);
    snprintf(pool_name, SFS_NAME_MAX + 1, "%s", d.name);
    return rc;
}
