/* The table of commands, and what they share. */
#include "fs/daemon/control_impl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *ping(struct sfs_control_call *c)
{
    char uuid[SFS_UUID_STRLEN];
    struct sfs_error err;
    int rc;

    rc = sfs_control_args(c->request, &err, "{!}");
    if (rc < 0)
        return sfs_control_fail(rc, &err);
    sfs_uuid_format(sfs_pool_uuid(c->pool), uuid);
    return sfs_control_ok(json_pack("{s:s, s:s, s:i, s:s}", "pool", sfs_pool_name(c->pool), "uuid", uuid,
                                    "pid", (int)getpid(), "version", SFS_VERSION),
                          NULL);
}

static json_t *sync_pool(struct sfs_control_call *c)
{
    struct sfs_error err;
    int rc;

    rc = sfs_control_args(c->request, &err, "{!}");
    if (rc == 0) {
        rc = sfs_pool_sync(c->pool);
        if (rc < 0)
            sfs_error_set(&err, rc, "not everything could be stored: %s", strerror(-rc));
    }
    return sfs_control_done(rc, &err);
}

static const struct {
    const char *name;
    json_t *(*run)(struct sfs_control_call *c); /* NULL: a daemon's only, see server.c */
} commands[] = {
    {"ping", ping},
    {"status", sfs_control_status},
    {"events", sfs_control_events},
    {"space-create", sfs_control_space_create},
    {"space-set", sfs_control_space_set},
    {"space-rename", sfs_control_space_rename},
    {"space-destroy", sfs_control_space_destroy},
    {"disk-add", sfs_control_disk_add},
    {"disk-set", sfs_control_disk_set},
    {"disk-remove", sfs_control_disk_remove},
    {"disk-replace", sfs_control_disk_replace},
    {"disk-forget", sfs_control_disk_forget},
    {"rebalance", sfs_control_rebalance},
    {"optimize", sfs_control_optimize},
    {"job-pause", sfs_control_job_pause},
    {"job-resume", sfs_control_job_resume},
    {"job-cancel", sfs_control_job_cancel},
    {"pool-set", sfs_control_pool_set},
    {"pool-get", sfs_control_pool_get},
    {"heal", sfs_control_heal},
    {"where", sfs_control_where},
    {"damage", sfs_control_damage},
    {"impact", sfs_control_impact},
    {"scrub", sfs_control_scrub},
    {"scrub-report", sfs_control_scrub_report},
    {"sync", sync_pool},
    {"mount", NULL},
    {"remount", NULL},
    {"umount", NULL},
    {"mounts", NULL},
    {"shutdown", NULL},
};

json_t *sfs_control_call(struct sfs_control_call *c)
{
    const char *name = json_string_value(json_object_get(c->request, "cmd"));
    struct sfs_error err;

    if (!name)
        return sfs_control_error(-EINVAL, "a request is an object with a member \"cmd\"");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i].name) == 0) {
            if (commands[i].run)
                return commands[i].run(c);
            return sfs_control_error(-ENOTSUP, "the pool is not mounted: no daemon runs that could do this");
        }
    return sfs_control_fail(
        sfs_error_set(&err, -ENOSYS, "unknown command \"%.40s\" (is another version of spacesfs running?)",
                      name),
        &err);
}

json_t *sfs_control_run(struct sfs_pool *p, const json_t *request, sfs_control_progress progress, void *ctx)
{
    struct sfs_control_call c = {.pool = p, .request = request, .progress = progress, .progress_ctx = ctx};

    return sfs_control_call(&c);
}

/* --- requests and replies --------------------------------------------------------------------- */

int sfs_control_args(const json_t *request, struct sfs_error *err, const char *fmt, ...)
{
    json_t *args =
        json_copy((json_t *)(uintptr_t)request); /* shallow: what is taken out of it belongs to the request */
    json_error_t why = {.text = "out of memory"};
    va_list ap;
    int rc;

    if (args)
        json_object_del(args, "cmd");
    va_start(ap, fmt);
    rc = args ? json_vunpack_ex(args, &why, 0, fmt, ap) : -1;
    va_end(ap);
    json_decref(args);
    return rc == 0 ? 0 : sfs_error_set(err, -EINVAL, "malformed request: %s", why.text);
}

/* There is always a reply, even when memory has run out: this one is made before it is needed. */
static json_t *make_error(int code, const char *text)
{
    const char *name = strerrorname_np(code);
    json_t *words = sfs_control_text(text);

    return json_pack("{s:b, s:{s:s, s:i, s:o}}", "ok", 0, "error", "code", name ? name : "EIO", "errno", code,
                     "text", words ? words : json_string(""));
}

json_t *sfs_control_error(int code, const char *text)
{
    json_t *reply;

    if (code < 0)
        code = -code;
    reply = make_error(code, text && *text ? text : strerror(code));
    SFS_ASSERT(reply); /* a few hundred bytes: without those nothing can go on */
    return reply;
}

json_t *sfs_control_fail(int rc, const struct sfs_error *err)
{
    return sfs_control_error(rc, err && err->code ? err->text : NULL);
}

json_t *sfs_control_ok(json_t *result, const struct sfs_error *warning)
{
    json_t *reply;

    if (!result)
        return sfs_control_error(-ENOMEM, NULL);
    reply = json_pack("{s:b, s:o}", "ok", 1, "result", result);
    if (!reply)
        return sfs_control_error(-ENOMEM, NULL);
    if (warning && warning->text[0])
        json_object_set_new(reply, "warning", sfs_control_text(warning->text));
    return reply;
}

json_t *sfs_control_done(int rc, const struct sfs_error *err)
{
    return rc < 0 ? sfs_control_fail(rc, err) : sfs_control_ok(json_object(), NULL);
}

/* Length of the UTF-8 sequence at s, 0 if it isn't one. json_string checks again: this only finds where it
 * would stop. */
static size_t utf8_len(const unsigned char *s)
{
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    json_t *one;

    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if (n < 3)
        return n;
    one = json_stringn((const char *)s, n); /* overlong forms and surrogates */
    json_decref(one);
    return one ? n : 0;
}

json_t *sfs_control_text(const char *text)
{
    json_t *clean = json_string(text);
    size_t len = strlen(text), n = 0;
    char *copy;

    if (clean)
        return clean;
    copy = malloc(3 * len + 1);
    if (!copy)
        return NULL;
    while (*text) {
        size_t k = utf8_len((const unsigned char *)text);

        memcpy(copy + n, k ? text : "\xef\xbf\xbd", k ? k : 3);
        n += k ? k : 3;
        text += k ? k : 1;
    }
    clean = json_stringn(copy, n);
    free(copy);
    return clean;
}
