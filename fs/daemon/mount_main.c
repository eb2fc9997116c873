/* What a mount helper does, whatever it is called by: mount(8), fstab, `spacesfs mount`. */
#include "fs/daemon/daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/daemon/client.h"
#include "fs/daemon/mountinfo.h"
#include "fs/daemon/source.h"
#include "fs/fuse/fuse.h"
#include "fs/pool/registry.h"

/* mount(8)'s exit codes. */
#define EXIT_OK 0
#define EXIT_USAGE 1
#define EXIT_SYSTEM 2
#define EXIT_FAILED 32

/* How often to begin again when a daemon ends while we talk to it, and how long to wait in between. */
#define TRIES 300u
#define RETRY_NS 100000000ull
#define DYING_TRIES 50u

struct helper {
    struct sfs_env *env;
    struct sfs_source source;
    char dir[PATH_MAX], run_dir[SFS_PATH_BYTES];
    const struct sfs_mount_opts *opts;
    const char *options;
    bool verbose;
};

static int complain(int code, const struct sfs_error *err)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, err->text);
    return code;
}

/* --- the mountpoint --------------------------------------------------------------------------- */

/* Takes away what a dead daemon has left at dir, if it is ours to take. 0 or -errno with words. */
static int clear_dead(const char *dir, struct sfs_error *err)
{
    struct sfs_mountinfo m;

    while (sfs_is_dead_mount(dir)) {
        int rc;

        if (sfs_mountinfo_at(dir, &m) < 0 || strcmp(m.type, SFS_FUSE_TYPE) != 0)
            return sfs_error_set(err, -ENOTCONN,
                                 "%s is a dead mount, and not one of spacesfs: unmount it first", dir);
        rc = sfs_fuse_unmount_dir(dir, true);
        if (rc < 0)
            return sfs_error_set(err, rc, "%s is a dead mount that cannot be cleared: %s", dir,
                                 strerror(-rc));
    }
    return 0;
}

static int check_dir(struct helper *h, const char *dir, struct sfs_error *err)
{
    struct stat st;
    int rc;

    rc = sfs_canonical_dir(dir, h->dir);
    if (rc < 0)
        return sfs_error_set(err, rc, "mountpoint %s: %s", dir, strerror(-rc));
    rc = clear_dead(h->dir, err);
    if (rc < 0)
        return rc;
    if (stat(h->dir, &st) < 0)
        return sfs_error_set(err, -errno, "mountpoint %s: %s", h->dir, strerror(errno));
    return S_ISDIR(st.st_mode) ? 0 : sfs_error_set(err, -ENOTDIR, "mountpoint %s is not a directory", h->dir);
}

static int same_source(const struct sfs_mountinfo *m, void *ctx)
{
    const struct helper *h = ctx;

    return strcmp(m->dir, h->dir) == 0 && strcmp(m->source, h->source.given) == 0;
}

/* --- asking the daemon ------------------------------------------------------------------------ */

static bool none_runs(int rc)
{
    return rc == -ENOENT || rc == -ECONNREFUSED;
}

/* A daemon that has ended since it was found counts as one that is ending. */
static int not_asked(const struct helper *h, int rc, struct sfs_error *err)
{
    return sfs_error_set(err, none_runs(rc) || rc == -EPIPE ? -ESHUTDOWN : rc, "the daemon of pool %s cannot be asked: %s",
                         h->source.pool, strerror(-rc));
}

/* Is the daemon that answers to this name one of the pool that the disk belongs to? Two pools of one name can
 * be in a machine. */
static int check_pool(const struct helper *h, struct sfs_error *err)
{
    json_t *request = json_pack("{s:s}", "cmd", "ping"), *reply = NULL;
    char uuid[SFS_UUID_STRLEN];
    const char *theirs;
    int rc;

    if (sfs_uuid_is_null(&h->source.uuid)) {
        json_decref(request);
        return 0;
    }
    rc = request ? sfs_control_ask(h->run_dir, h->source.pool, request, NULL, NULL, &reply) : -ENOMEM;
    rc = rc < 0 ? not_asked(h, rc, err) : sfs_client_result(reply, err);
    sfs_uuid_format(&h->source.uuid, uuid);
    theirs = json_string_value(json_object_get(json_object_get(reply, "result"), "uuid"));
    if (rc == 0 && (!theirs || strcmp(theirs, uuid) != 0))
        rc = sfs_error_set(
            err, -EBUSY,
            "another pool of the name %s is in use: one of the two must be renamed, or unmounted first",
            h->source.pool);
    json_decref(request);
    json_decref(reply);
    return rc;
}

static int ask_mount(struct helper *h, struct sfs_error *err)
{
    json_t *request, *reply = NULL;
    const char *warning;
    int rc;

    request = json_pack("{s:s, s:s, s:s, s:s, s:s}", "cmd", "mount", "space", h->source.space, "dir", h->dir,
                        "source", h->source.given, "options", h->options ? h->options : "");
    if (!request)
        return sfs_error_set(err, -EILSEQ, "the mountpoint, the source or an option is not valid UTF-8");
    rc = sfs_control_ask(h->run_dir, h->source.pool, request, NULL, NULL, &reply);
    json_decref(request);
    if (rc < 0)
        return not_asked(h, rc, err);
    rc = sfs_client_result(reply, err);
    warning = json_string_value(json_object_get(reply, "warning"));
    if (rc == 0 && warning)
        fprintf(stderr, "%s: warning: %s\n", program_invocation_short_name, warning);
    json_decref(reply);
    return rc;
}

static int ask_until_answered(struct helper *h, struct sfs_error *err)
{
    for (unsigned i = 0; i < TRIES; i++) {
        int fd = sfs_client_connect(h->run_dir, h->source.pool), rc = 0;

        if (fd >= 0) {
            close(fd);
        } else if (none_runs(fd)) {
            if (h->verbose)
                printf("%s: starting the daemon of pool %s\n", program_invocation_short_name, h->source.pool);
            fflush(stdout);
            rc = sfs_daemon_start(h->source.which, h->opts, false, h->source.pool, err);
        } else {
            rc = sfs_error_set(err, fd, "the daemon of pool %s cannot be reached: %s", h->source.pool,
                               strerror(-fd));
        }
        if (rc == 0)
            rc = check_pool(h, err);
        if (rc == 0)
            rc = ask_mount(h, err);
        /* It is ending, or has ended, or the space is being unmounted: presently there will be a free place.
         */
        if (rc != -ESHUTDOWN && rc != -EAGAIN && rc != -ECONNRESET && rc != -ECONNREFUSED)
            return rc;
        sfs_env_sleep_ns(h->env, RETRY_NS);
    }
    return err->code;
}

/* --- mounting and remounting ------------------------------------------------------------------ */

/* Does the pool have a daemon that answers? A socket whose owner is being killed can still be connected to. */
static bool daemon_answers(const struct helper *h)
{
    json_t *request = json_pack("{s:s}", "cmd", "ping"), *reply = NULL;
    int rc = request ? sfs_control_ask(h->run_dir, h->source.pool, request, NULL, NULL, &reply) : -ENOMEM;

    json_decref(request);
    json_decref(reply);
    return !none_runs(rc) && rc != -ECONNRESET && rc != -EPIPE;
}

/* Is it mounted there already? A daemon that was killed takes a moment to die, and its mount with it: what is mounted has a daemon
 * that answers. */
static int check_free(struct helper *h, const char *dir, struct sfs_error *err)
{
    for (unsigned i = 0; sfs_mountinfo_each(same_source, h) > 0; i++) {
        int rc;

        if (i == DYING_TRIES || daemon_answers(h))
            return sfs_error_set(err, -EBUSY, "%s is already mounted at %s", h->source.given, h->dir);
        sfs_env_sleep_ns(h->env, RETRY_NS);
        rc = check_dir(h, dir, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Is another space mounted there? It would be hidden, still in use. One whose daemon has just been killed goes in a moment; where one lives the daemon that is asked to mount says what it makes of it. */
static int check_not_covered(struct helper *h, const char *dir, struct sfs_error *err)
{
    struct sfs_mountinfo m;

    for (unsigned i = 0; sfs_mountinfo_at(h->dir, &m) == 0 && strcmp(m.type, SFS_FUSE_TYPE) == 0; i++) {
        int fd = sfs_client_find_mount(h->run_dir, h->dir), rc;

        if (fd >= 0) {
            close(fd);
            return 0;
        }
        if (i == DYING_TRIES)
            return sfs_error_set(err, -EBUSY, "%s is mounted on %s already: unmount it first (spacesfs umount %s), or choose another directory", m.source, h->dir,
                                 h->dir);
        sfs_env_sleep_ns(h->env, RETRY_NS);
        rc = check_dir(h, dir, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int mount_space(struct helper *h, const char *source, const char *dir, struct sfs_error *err)
{
    int rc;

    rc = sfs_source_resolve(h->env, source, &h->source, err);
    if (rc < 0)
        return rc;
    if (h->opts->fake)
        return 0;
    rc = check_dir(h, dir, err);
    if (rc < 0)
        return rc;
    rc = check_free(h, dir, err);
    if (rc == 0)
        rc = check_not_covered(h, dir, err);
    if (rc < 0)
        return rc;
    rc = ask_until_answered(h, err);
    if (rc == 0 && h->verbose)
        printf("%s: %s mounted on %s.\n", program_invocation_short_name, h->source.given, h->dir);
    return rc;
}

static int remount(struct helper *h, const char *dir, struct sfs_error *err)
{
    json_t *request, *reply = NULL;
    int fd, rc;

    rc = sfs_canonical_dir(dir, h->dir);
    if (rc < 0)
        return sfs_error_set(err, rc, "mountpoint %s: %s", dir, strerror(-rc));
    if (h->opts->fake)
        return 0;
    fd = sfs_client_find_mount(h->run_dir, h->dir);
    if (fd < 0)
        return sfs_error_set(err, -EINVAL, "%s: no daemon has anything mounted there", h->dir);
    request = json_pack("{s:s, s:s, s:s}", "cmd", "remount", "dir", h->dir, "options",
                        h->options ? h->options : "");
    rc = request ? sfs_client_request(fd, request, NULL, NULL, &reply) : -EILSEQ;
    rc = rc < 0 ? sfs_error_set(err, rc, "the daemon cannot be asked: %s", strerror(-rc))
                : sfs_client_result(reply, err);
    json_decref(request);
    json_decref(reply);
    close(fd);
    return rc;
}

int sfs_mount_main(const char *source, const char *dir, const struct sfs_mount_opts *opts,
                   const char *options, bool verbose)
{
    struct helper h = {.opts = opts, .options = options, .verbose = verbose};
    struct sfs_error err = {0};
    int rc;

    rc = sfs_registry_run_dir(h.run_dir, sizeof(h.run_dir), &err);
    if (rc < 0)
        return complain(EXIT_SYSTEM, &err);
    h.env = sfs_env_new_real();
    if (!h.env) {
        sfs_error_set(&err, -ENOMEM, "out of memory");
        return complain(EXIT_SYSTEM, &err);
    }
    rc = opts->remount ? remount(&h, dir, &err) : mount_space(&h, source, dir, &err);
    sfs_env_free(h.env);
    if (rc == 0)
        return EXIT_OK;
    /* What is not there is no failure when fstab says nofail. */
    if (opts->nofail && !opts->remount && (rc == -ENOENT || rc == -ENODEV))
        return EXIT_OK;
    return complain(EXIT_FAILED, &err);
}
