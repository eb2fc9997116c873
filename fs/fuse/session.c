/* A mount from beginning to end.
 *
 * libfuse's multi-threaded loop runs in sfs_fuse_run. It ends by itself when the kernel says ENODEV
 * (unmounted or aborted). To end it from outside, libfuse's way is a signal: its loop waits in sem_wait and
 * looks at its exit flag on EINTR. So sfs_fuse_stop sets the flag and sends SIGUSR1 (with an empty handler)
 * to the loop's thread until the loop has noticed. This is the one place above fs/base that touches a
 * pthread. */
#include "fs/fuse/ops.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/base/log.h"
#include "fs/fuse/tune.h"

/* Requests served at once. A request may wait as long as a stalled disk's time-out: there must be enough
 * others. */
#define MAX_THREADS 64u
#define STOP_RETRY_NS 20000000ull

extern char **environ;

/* What libfuse last complained of in this thread, for the error of the call under way. */
static _Thread_local char last_complaint[512];

static void __attribute__((format(printf, 2, 0)))
on_fuse_log(enum fuse_log_level level, const char *fmt, va_list ap)
{
    char text[512];
    size_t len;

    vsnprintf(text, sizeof(text), fmt, ap);
    len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        text[--len] = '\0';
    if (level <= FUSE_LOG_ERR)
        memcpy(last_complaint, text, len + 1);
    sfs_log(level <= FUSE_LOG_ERR ? SFS_LOG_WARN : SFS_LOG_DEBUG, "libfuse: %s", text);
}

static void on_wakeup(int sig)
{
    (void)sig;
}

static int install_wakeup(void)
{
    struct sigaction sa = {.sa_handler = on_wakeup};

    return sigaction(SIGUSR1, &sa, NULL) < 0 ? -errno : 0;
}

/* --- mounting --------------------------------------------------------------------------------- */

static int add_flag(char **opts, bool set, const char *name)
{
    return set ? fuse_opt_add_opt(opts, name) : 0;
}

static int build_args(struct fuse_args *args, const struct sfs_fuse_opts *o)
{
    char *opts = NULL, *fsname = NULL;
    int rc = -ENOMEM;

    if (asprintf(&fsname, "fsname=%s", o->source) < 0)
        return -ENOMEM;
    /* dev and suid: libfuse's own default is without; that default is for users, whose fusermount3 insists on
     * it anyway. */
    if (fuse_opt_add_opt_escaped(&opts, fsname) || add_flag(&opts, true, "subtype=spacesfs") ||
        add_flag(&opts, true, "default_permissions") || add_flag(&opts, o->allow_other, "allow_other") ||
        add_flag(&opts, o->readonly, "ro") || add_flag(&opts, o->noatime, "noatime") ||
        add_flag(&opts, o->noexec, "noexec") || add_flag(&opts, o->sync, "sync") ||
        add_flag(&opts, !o->nodev && geteuid() == 0, "dev") ||
        add_flag(&opts, !o->nosuid && geteuid() == 0, "suid"))
        goto out;
    if (fuse_opt_add_arg(args, "spacesfs") || fuse_opt_add_arg(args, "-o") || fuse_opt_add_arg(args, opts))
        goto out;
    rc = 0;
out:
    free(opts);
    free(fsname);
    return rc;
}

/* For users libfuse runs fusermount3, which explains failures on stderr only. A daemon has none: they are
 * caught in a memory file. */
struct caught {
    int saved, file;
};

static void catch_stderr(struct caught *c)
{
    c->saved = -1;
    c->file = geteuid() == 0 ? -1 : memfd_create("fusermount3-stderr", MFD_CLOEXEC);
    if (c->file < 0)
        return;
    c->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (c->saved < 0 || dup2(c->file, STDERR_FILENO) < 0) {
        close(c->file);
        c->file = -1;
    }
}

static void release_stderr(struct caught *c, char *text, size_t cap)
{
    ssize_t n = 0;

    if (c->file >= 0) {
        n = pread(c->file, text, cap - 1, 0);
        dup2(c->saved, STDERR_FILENO);
        close(c->file);
    }
    if (c->saved >= 0)
        close(c->saved);
    if (n < 0)
        n = 0;
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n] = '\0';
}

static int mount_session(struct sfs_fuse *f, const struct sfs_fuse_opts *opts, struct sfs_error *err)
{
    struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
    struct fuse_lowlevel_ops ops = {0};
    struct caught caught;
    char said[512];
    int rc;

    last_complaint[0] = '\0';
    rc = build_args(&args, opts);
    if (rc < 0) {
        sfs_error_set(err, rc, "out of memory");
        goto out;
    }
    sfs_fuse_ops_init(&ops);
    f->session = fuse_session_new(&args, &ops, sizeof(ops), f);
    if (!f->session) {
        rc = sfs_error_set(err, -EINVAL, "FUSE refuses the mount options: %s", last_complaint);
        goto out;
    }
    catch_stderr(&caught);
    rc = fuse_session_mount(f->session, f->dir);
    release_stderr(&caught, said, sizeof(said));
    if (rc == 0) {
        rc = sfs_wire_attach(f->session);
        if (rc < 0)
            sfs_error_set(err, rc, "%s cannot be served: %s", f->dir, strerror(-rc));
    } else {
        const char *why = said[0] ? said : last_complaint[0] ? last_complaint : "no reason given";

        rc = sfs_error_set(
            err, -EIO, "%s cannot be mounted: %s%s", f->dir, why,
            access("/dev/fuse", F_OK) < 0 ? " (there is no /dev/fuse: is the fuse module loaded?)" : "");
    }
out:
    fuse_opt_free_args(&args);
    return rc;
}

int sfs_fuse_mount(struct sfs_env *env, struct sfs_vfs *vfs, const char *dir,
                   const struct sfs_fuse_opts *opts, struct sfs_fuse **out, struct sfs_error *err)
{
    struct sfs_fuse *f;
    int rc;

    fuse_set_log_func(on_fuse_log);
    rc = install_wakeup();
    if (rc < 0)
        return sfs_error_set(err, rc, "no handler for SIGUSR1: %s", strerror(-rc));
    f = calloc(1, sizeof(*f));
    if (!f)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    f->env = env;
    f->vfs = vfs;
    f->root = sfs_vfs_root(vfs);
    sfs_mutex_init(&f->lock, env, SFS_RANK_LEAF);
    sfs_cond_init(&f->changed, env);
    f->dir = strdup(dir);
    rc = f->dir ? mount_session(f, opts, err) : sfs_error_set(err, -ENOMEM, "out of memory");
    if (rc < 0) {
        f->detached = true; /* nothing was mounted */
        sfs_fuse_free(f);
        return rc;
    }
    *out = f;
    return 0;
}

void sfs_fuse_free(struct sfs_fuse *f)
{
    if (!f)
        return;
    if (f->session) {
        /* It unmounts by name: that may be another mount by now if ours was detached. Closing the device ends
         * ours either way. */
        if (!f->detached)
            fuse_session_unmount(f->session);
        fuse_session_destroy(f->session);
    }
    sfs_cond_destroy(&f->changed);
    sfs_mutex_destroy(&f->lock);
    free(f->dir);
    free(f);
}

/* --- serving ---------------------------------------------------------------------------------- */

int sfs_fuse_run(struct sfs_fuse *f)
{
    struct fuse_loop_config *config;
    int rc = -ENOMEM;

    sfs_mutex_lock(&f->lock);
    SFS_ASSERT(!f->running);
    f->running = true;
    f->loop_thread = pthread_self();
    sfs_mutex_unlock(&f->lock);

    config = fuse_loop_cfg_create();
    if (config) {
        fuse_loop_cfg_set_clone_fd(config, 1);
        fuse_loop_cfg_set_max_threads(config, MAX_THREADS);
        rc = fuse_session_loop_mt(f->session, config);
        fuse_loop_cfg_destroy(config);
    }

    sfs_mutex_lock(&f->lock);
    f->ended = true;
    if (f->stopping)
        rc = 0;
    sfs_cond_broadcast(&f->changed);
    sfs_mutex_unlock(&f->lock);
    return rc > 0 ? -EIO : rc;
}

int sfs_fuse_wait_ready(struct sfs_fuse *f, struct sfs_error *err)
{
    bool ready;

    sfs_mutex_lock(&f->lock);
    while (!f->ready && !f->ended)
        sfs_cond_wait(&f->changed, &f->lock);
    ready = f->ready;
    sfs_mutex_unlock(&f->lock);
    if (!ready)
        return sfs_error_set(
            err, -EIO, "%s: the mount ended before the kernel had made contact (the log says more)", f->dir);
    sfs_fuse_tune(f->dir);
    return 0;
}

void sfs_fuse_stop(struct sfs_fuse *f)
{
    sfs_mutex_lock(&f->lock);
    f->stopping = true;
    fuse_session_exit(f->session);
    while (f->running && !f->ended) {
        pthread_kill(f->loop_thread, SIGUSR1);
        sfs_cond_wait_until(&f->changed, &f->lock, sfs_env_mono_ns(f->env) + STOP_RETRY_NS);
    }
    sfs_mutex_unlock(&f->lock);
}

/* --- unmounting and remounting ---------------------------------------------------------------- */

static const char *fusermount(void)
{
    static const char *const paths[] = {"/usr/bin/fusermount3", "/bin/fusermount3",
                                        "/usr/local/bin/fusermount3"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (access(paths[i], X_OK) == 0)
            return paths[i];
    return NULL;
}

/* Runs it; what it says goes to the file `said`. Its exit status, or -errno. */
static int run_fusermount(const char *program, const char *const *argv, int said)
{
    posix_spawn_file_actions_t actions;
    int status, rc;
    pid_t pid;

    rc = posix_spawn_file_actions_init(&actions);
    if (rc != 0)
        return -rc;
    rc = posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    if (rc == 0)
        rc = posix_spawn(&pid, program, &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        return -rc;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

/* 0, or -errno: what umount2(2) would have said, as far as fusermount3 tells. */
static int unmount_as_user(const char *dir, bool lazy)
{
    const char *program = fusermount();
    const char *argv[] = {"fusermount3",     "-u", lazy ? "-z" : "--", lazy ? "--" : dir,
                          lazy ? dir : NULL, NULL};
    char text[512];
    ssize_t n;
    int said, rc;

    if (!program)
        return -ENOENT;
    said = memfd_create("fusermount3-stderr", MFD_CLOEXEC);
    if (said < 0)
        return -errno;
    rc = run_fusermount(program, argv, said);
    if (rc > 0) {
        n = pread(said, text, sizeof(text) - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        rc = strstr(text, strerrordesc_np(EBUSY)) ? -EBUSY : -EPERM;
    }
    close(said);
    return rc;
}

int sfs_fuse_unmount_dir(const char *dir, bool lazy)
{
    if (geteuid() != 0)
        return unmount_as_user(dir, lazy);
    return umount2(dir, (lazy ? MNT_DETACH : 0) | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

int sfs_fuse_unmount(struct sfs_fuse *f, bool lazy, struct sfs_error *err)
{
    int rc = sfs_fuse_unmount_dir(f->dir, lazy);

    switch (rc) {
    case 0:
        if (lazy) {
            sfs_mutex_lock(&f->lock);
            f->detached = true;
            sfs_mutex_unlock(&f->lock);
        }
        return 0;
    case -EBUSY:
        return sfs_error_set(
            err, rc, "%s is busy: a program has files open there, or works there (fuser -vm shows which)",
            f->dir);
    case -ENOENT:
        return sfs_error_set(err, rc, "%s cannot be unmounted: fusermount3 is not installed", f->dir);
    case -EPERM:
        return sfs_error_set(err, rc, "%s can be unmounted only by who mounted it, or by root", f->dir);
    default:
        return sfs_error_set(err, rc, "%s cannot be unmounted: %s", f->dir, strerror(-rc));
    }
}

int sfs_fuse_remount(struct sfs_fuse *f, const struct sfs_fuse_opts *o, struct sfs_error *err)
{
    unsigned long flags = MS_REMOUNT;

    flags |= o->readonly ? MS_RDONLY : 0;
    flags |= o->noatime ? MS_NOATIME : 0;
    flags |= o->nodev ? MS_NODEV : 0;
    flags |= o->nosuid ? MS_NOSUID : 0;
    flags |= o->noexec ? MS_NOEXEC : 0;
    flags |= o->sync ? MS_SYNCHRONOUS : 0;
    if (mount(NULL, f->dir, NULL, flags, NULL) == 0)
        return 0;
    if (errno == EPERM)
        return sfs_error_set(err, -EPERM,
                             "%s: only root can change the options of a mount; unmount it and mount it anew",
                             f->dir);
    if (errno == EBUSY)
        return sfs_error_set(
            err, -EBUSY, "%s is busy: a program has files open for writing (fuser -vm shows which)", f->dir);
    return sfs_error_set(err, -errno, "%s cannot be remounted: %s", f->dir, strerror(errno));
}
