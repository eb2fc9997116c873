#include "cli/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cli/progress.h"
#include "cli/ui.h"
#include "fs/base/size.h"
#include "fs/daemon/control.h"
#include "fs/pool/registry.h"

#define BUSY_TRIES 50u /* a daemon that comes or goes holds the disks without answering */
#define BUSY_PAUSE_NS 100000000u

const char *sfs_json_text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));
    return s ? s : "";
}

uint64_t sfs_json_u64(const json_t *object, const char *key)
{
    json_int_t v = json_integer_value(json_object_get(object, key));
    return v > 0 ? (uint64_t)v : 0;
}

bool sfs_json_true(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

const json_t *sfs_json_array(const json_t *object, const char *key)
{
    return json_object_get(object, key); /* jansson takes what isn't an array for an empty one */
}

void sfs_json_print(const struct sfs_cli *c, const json_t *value)
{
    if (json_dumpf(value, stdout, c->watch ? JSON_COMPACT : JSON_INDENT(2)) < 0)
        sfs_ui_out_of_memory();
    putchar('\n');
}

int sfs_request_done(struct sfs_cli *c, json_t *result, const char *fmt, ...)
{
    if (c->json) {
        sfs_json_print(c, result);
    } else {
        char text[1024], clean[2048];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        printf("%s\n", sfs_ui_clean(text, clean, sizeof(clean)));
    }
    json_decref(result);
    return SFS_EXIT_OK;
}

/* A disk's label tells the pool. */
static int read_label(struct sfs_cli *c, struct sfs_target *t, struct sfs_error *err)
{
    struct sfs_disk_probe *probe = malloc(sizeof(*probe));
    if (!probe)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    int rc = sfs_disk_probe(c->env, t->which, NULL, probe, err);
    if (rc == 0 && !probe->has_label) {
        if (probe->label_rc == -EUCLEAN)
            rc = sfs_error_set(err, -EUCLEAN,
                               "%s: its label is damaged, so that it doesn't say which pool it belongs to. "
                               "Name the pool, or another of its disks.",
                               t->which);
        else if (probe->label_rc == -EOPNOTSUPP)
            rc = sfs_error_set(err, -EOPNOTSUPP, "%s was written by a newer spacesfs. Update this one.",
                               t->which);
        else
            rc = sfs_error_set(
                err, -ENOENT,
                "%s: it is not a disk of a pool (no label was found). Name the pool, or one of its disks.",
                t->which);
    }
    if (rc == 0) {
        snprintf(t->pool, sizeof(t->pool), "%s", probe->label.pool_name);
        t->uuid = probe->label.pool_uuid;
    }
    free(probe);
    return rc;
}

int sfs_target_resolve(struct sfs_cli *c, const char *which, struct sfs_target *out, struct sfs_error *err)
{
    memset(out, 0, sizeof(*out));
    if (!strchr(which, '/')) {
        int rc = sfs_name_check(which, "pool", err);
        snprintf(out->pool, sizeof(out->pool), "%s", rc ? "" : which);
        snprintf(out->which, sizeof(out->which), "%s", out->pool);
        return rc;
    }
    char *real = realpath(which, NULL);
    int rc = real ? 0 : sfs_error_set(err, -errno, "%s: %s.", which, strerror(errno));
    if (rc == 0 && snprintf(out->which, sizeof(out->which), "%s", real) >= (int)sizeof(out->which))
        rc = sfs_error_set(err, -ENAMETOOLONG, "%s: the path is too long.", which);
    free(real);
    return rc ? rc : read_label(c, out, err);
}

int sfs_target_split(const char *text, char *which, size_t cap, char space[SFS_NAME_MAX + 1],
                     struct sfs_error *err)
{
    const char *slash = strrchr(text, '/');
    if (!slash || slash == text || !slash[1])
        return sfs_error_set(err, -EINVAL, "`%s` doesn't name a space. Give POOL/SPACE, as in tank/docs.",
                             text);
    int rc = sfs_name_check(slash + 1, "space", err);
    if (rc)
        return rc;
    if ((size_t)(slash - text) >= cap)
        return sfs_error_set(err, -ENAMETOOLONG, "`%.40s...` is too long for POOL/SPACE.", text);
    snprintf(which, cap, "%.*s", (int)(slash - text), text);
    snprintf(space, SFS_NAME_MAX + 1, "%s", slash + 1);
    return strchr(which, '/') ? 0 : sfs_name_check(which, "pool", err);
}

static void on_progress(void *ctx, json_t *progress)
{
    const json_t *p = json_object_get(progress, "progress");
    if (!p)
        p = progress;
    sfs_progress_show(ctx, sfs_json_u64(p, "done"), sfs_json_u64(p, "total"), sfs_json_text(p, "text"));
}

/* Takes a reply apart (and frees it). */
static int unwrap(json_t *reply, json_t **result, struct sfs_error *err)
{
    int rc = 0;
    *result = NULL;
    if (sfs_json_true(reply, "ok")) {
        sfs_ui_warning(sfs_json_text(reply, "warning"));
        *result = json_incref(json_object_get(reply, "result"));
        if (!*result)
            *result = json_object();
        if (!*result)
            rc = sfs_error_set(err, -ENOMEM, "out of memory");
    } else {
        const json_t *e = json_object_get(reply, "error");
        int code = (int)sfs_json_u64(e, "errno");
        const char *text = sfs_json_text(e, "text");
        rc = sfs_error_set(err, code > 0 ? -code : -EIO, "%s",
                           *text ? text : "the request failed, without a reason given.");
    }
    json_decref(reply);
    return rc;
}

static int ask(struct sfs_cli *c, const struct sfs_target *t, const json_t *request, json_t **reply,
               struct sfs_error *err)
{
    char run_dir[SFS_PATH_BYTES];
    struct sfs_progress bar;
    int rc = sfs_registry_run_dir(run_dir, sizeof(run_dir), err);
    if (rc)
        return rc;
    sfs_progress_begin(&bar, c->env, sfs_json_text(request, "cmd"));
    rc = sfs_control_ask(run_dir, t->pool, request, on_progress, &bar, reply);
    sfs_progress_end(&bar);
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        return -ENOENT;
    if (rc == -EACCES || rc == -EPERM)
        return sfs_error_set(
            err, rc, "%s: its daemon runs for another user, who alone may ask it. Become that user (sudo).",
            t->pool);
    if (rc)
        return sfs_error_set(err, rc, "%s: its daemon could not be asked: %s.", t->pool, strerror(-rc));
    return 0;
}

/* A path led to a pool by its label: the daemon of that name must be of that very pool. */
static int check_same_pool(struct sfs_cli *c, const struct sfs_target *t, struct sfs_error *err)
{
    char uuid[SFS_UUID_STRLEN];
    json_t *request = json_pack("{s:s}", "cmd", "ping"), *reply = NULL, *result = NULL;
    if (!request)
        return sfs_error_set(err, -ENOMEM, "out of memory");
    int rc = ask(c, t, request, &reply, err);
    if (rc == 0)
        rc = unwrap(reply, &result, err);
    sfs_uuid_format(&t->uuid, uuid);
    if (rc == 0 && strcmp(uuid, sfs_json_text(result, "uuid")) != 0)
        rc = sfs_error_set(err, -EEXIST,
                           "%s belongs to a pool named %s, but another pool of that name is mounted. Unmount "
                           "that one first.",
                           t->which, t->pool);
    json_decref(result);
    json_decref(request);
    return rc;
}

int sfs_request_daemon(struct sfs_cli *c, const struct sfs_target *t, const json_t *request, json_t **result,
                       struct sfs_error *err)
{
    json_t *reply = NULL;
    *result = NULL;
    int rc = sfs_uuid_is_null(&t->uuid) ? 0 : check_same_pool(c, t, err);
    if (rc == 0)
        rc = ask(c, t, request, &reply, err);
    return rc ? rc : unwrap(reply, result, err);
}

/* not_opened: the failure is one of opening, not an answer to the request. */
static int run_here(struct sfs_cli *c, const struct sfs_target *t, json_t *request, unsigned flags,
                    json_t **result, struct sfs_error *err, bool *not_opened)
{
    struct sfs_pool_open_opts opts = {
        .readonly = flags & SFS_REQUEST_READONLY,
        .degraded = SFS_DEGRADED_RW, /* who asks for a change wants it made, whatever is missing */
        .state_dir = c->state_dir,
        .known_only = true,
        .no_jobs = true};
    struct sfs_pool *pool = NULL;
    struct sfs_progress bar;
    int rc = sfs_pool_open(c->env, t->which, &opts, &pool, err);
    *not_opened = rc != 0;
    if (rc)
        return rc;
    if ((flags & SFS_REQUEST_WAIT_IN_PROCESS) && json_object_set_new(request, "wait", json_true()))
        sfs_ui_out_of_memory();
    sfs_progress_begin(&bar, c->env, sfs_json_text(request, "cmd"));
    json_t *reply = sfs_control_run(pool, request, on_progress, &bar);
    sfs_progress_end(&bar);
    rc = unwrap(reply, result, err);
    int closed = sfs_pool_close(pool);
    if (rc == 0 && closed && !(flags & SFS_REQUEST_READONLY)) {
        json_decref(*result);
        *result = NULL;
        rc =
            sfs_error_set(err, closed, "%s: the change could not be stored: %s.", t->pool, strerror(-closed));
    }
    return rc;
}

int sfs_request_try(struct sfs_cli *c, const char *which, json_t *request, unsigned flags, json_t **result,
                    struct sfs_error *err)
{
    struct sfs_target t;
    *result = NULL;
    err->code = 0;
    err->text[0] = '\0';
    if (!request)
        return sfs_error_set(err, -EILSEQ, "What was given is not UTF-8 text, and can't be asked about.");
    int rc = sfs_target_resolve(c, which, &t, err);
    for (unsigned tries = 0; rc == 0; tries++) {
        bool not_opened = false;
        c->by_daemon = true;
        rc = sfs_request_daemon(c, &t, request, result, err);
        bool ended = rc == -ECONNRESET &&
                     (flags & SFS_REQUEST_READONLY); /* while it was asked: asking again does no harm */
        if (!ended &&
            (rc != -ENOENT || err->text[0])) /* with words the ENOENT is the answer to the request */
            break;
        err->text[0] = '\0';
        c->by_daemon = false;
        rc = run_here(c, &t, request, flags, result, err, &not_opened);
        if (rc != -EBUSY || !not_opened || tries >= BUSY_TRIES)
            break;
        err->text[0] = '\0';
        rc = 0;
        sfs_env_sleep_ns(c->env, BUSY_PAUSE_NS);
    }
    if (rc && !err->text[0])
        sfs_error_set(err, rc, "%s: %s.", which, strerror(-rc));
    json_decref(request);
    return rc;
}

json_t *sfs_request(struct sfs_cli *c, const char *which, json_t *request, unsigned flags)
{
    struct sfs_error err;
    json_t *result;
    if (sfs_request_try(c, which, request, flags, &result, &err) == 0)
        return result;
    sfs_ui_error("%s", err.text);
    return NULL;
}
