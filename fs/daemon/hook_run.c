#include "fs/daemon/hook_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_MS 20
#define GRACE_NS 2000000000ull /* between asking it to end and ending it */
#define SAID_MAX 160u

/* The first line that it prints; the rest is read and dropped, so that it never waits for us. */
struct said {
    char line[SAID_MAX + 1];
    size_t n;
    bool full;
};

static void listen_to(int fd, struct said *s)
{
    char buf[512];
    ssize_t n;
    while ((n = read(fd, buf, sizeof(buf))) > 0)
        for (ssize_t i = 0; i < n && !s->full; i++) {
            if ((buf[i] == '\n' && s->n) || s->n == SAID_MAX)
                s->full = true;
            else if (buf[i] != '\n')
                s->line[s->n++] = buf[i];
        }
}

static int spawn(const char *path, char *const argv[], char *const envp[], int stdin_fd, int out_fd, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int rc = posix_spawn_file_actions_init(&files);
    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc) {
        posix_spawn_file_actions_destroy(&files);
        return rc;
    }
    posix_spawn_file_actions_adddup2(&files, stdin_fd, 0);
    posix_spawn_file_actions_adddup2(&files, out_fd, 1);
    posix_spawn_file_actions_adddup2(&files, out_fd, 2);
    posix_spawn_file_actions_addclosefrom_np(&files, 3);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    /* The daemon blocks signals and ignores SIGPIPE; the hook gets what programs expect. */
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawn(pid, path, &files, &attr, argv, envp);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return rc;
}

/* True: it has ended, with *status. */
static bool look(pid_t pid, int fd, struct said *s, int *status)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    poll(&p, 1, LOOK_MS);
    listen_to(fd, s);
    if (p.revents & POLLHUP) /* it has closed its output: poll would not wait any more */
        poll(NULL, 0, LOOK_MS);
    return waitpid(pid, status, WNOHANG) == pid;
}

static bool wait_until(struct sfs_env *env, pid_t pid, int fd, struct said *s, uint64_t deadline_ns, int *status)
{
    bool ended = look(pid, fd, s, status);
    while (!ended && sfs_env_mono_ns(env) < deadline_ns)
        ended = look(pid, fd, s, status);
    return ended;
}

static int verdict(int status, bool late, const struct said *s, char *why, size_t cap)
{
    char how[64];
    if (late)
        snprintf(how, sizeof(how), "took too long, and was ended");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status))
        snprintf(how, sizeof(how), "ended with %d", WEXITSTATUS(status));
    else
        return 0;
    snprintf(why, cap, "%s%s%s", how, s->n ? ": " : "", s->line);
    return 1;
}

int sfs_hook_run(struct sfs_env *env, const char *path, char *const argv[], char *const envp[], int stdin_fd, uint64_t deadline_ns, char *why, size_t cap)
{
    struct said said = {0};
    int fds[2], status = 0;
    pid_t pid;
    if (pipe2(fds, O_CLOEXEC) < 0) {
        snprintf(why, cap, "could not be started: %s", strerror(errno));
        return 1;
    }
    int rc = fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0 ? errno : spawn(path, argv, envp, stdin_fd, fds[1], &pid);
    close(fds[1]);
    if (rc) {
        close(fds[0]);
        snprintf(why, cap, "could not be started: %s%s", strerror(rc), rc == ENOEXEC ? " (a script begins with #!, as in #!/bin/sh)" : "");
        return 1;
    }
    bool late = !wait_until(env, pid, fds[0], &said, deadline_ns, &status);
    if (late) {
        kill(-pid, SIGTERM);
        if (!wait_until(env, pid, fds[0], &said, sfs_env_mono_ns(env) + GRACE_NS, &status)) {
            kill(-pid, SIGKILL);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        }
    }
    kill(-pid, SIGKILL); /* what it has left running */
    close(fds[0]);
    return verdict(status, late, &said, why, cap);
}
