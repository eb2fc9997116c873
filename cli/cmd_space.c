/* spacesfs space: create, list, set, rename, destroy. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/request.h"
#include "cli/show.h"
#include "fs/base/size.h"
#include "fs/layout/geometry.h"

static const char *const setting_keys[] = {"resiliency", "size",         "columns",
                                           "interleave", "provisioning", "compression"};
#define NSETTINGS (sizeof(setting_keys) / sizeof(setting_keys[0]))

/* Splits args[0] into pool and space; SFS_EXIT_USAGE after words. */
static int split(const struct sfs_cli *c, char which[SFS_PATH_BYTES], char space[SFS_NAME_MAX + 1])
{
    struct sfs_error err = {0};
    if (sfs_target_split(c->args[0], which, SFS_PATH_BYTES, space, &err))
        return sfs_cli_usage(c, "%s", err.text);
    return 0;
}

/* What can be seen to be wrong without the pool: sizes and counts. */
static int check_setting(const struct sfs_cli *c, const char *key, const char *value)
{
    struct sfs_error err = {0};
    uint64_t bytes;
    char what[32], *end;
    snprintf(what, sizeof(what), "%s%s", c->command->run == sfs_cmd_space_create ? "--" : "", key);
    if (!strcmp(key, "size") || !strcmp(key, "interleave"))
        sfs_size_parse(value, what, &bytes, &err);
    else if (!strcmp(key, "columns") && strcmp(value, "auto") != 0 &&
             (strtoul(value, &end, 10) < 1 || *end || value[0] < '0' || value[0] > '9'))
        sfs_error_set(&err, -EINVAL, "%s: `%s` is neither a number from 1 up nor auto.", what, value);
    else if (!strcmp(key, "provisioning") && strcmp(value, "thin") != 0 && strcmp(value, "fixed") != 0)
        sfs_error_set(&err, -EINVAL, "%s: `%s` is neither thin nor fixed.", what, value);
    return err.code ? sfs_cli_usage(c, "%s", err.text) : 0;
}

int sfs_cmd_space_create(struct sfs_cli *c)
{
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1];
    int code = split(c, which, space);
    if (code)
        return code;
    if (!sfs_cli_value(c, "resiliency"))
        return sfs_cli_usage(c, "Say what the space is to survive: --resiliency simple (no loss), mirror2 "
                                "or parity (any one disk), mirror3 or parity2 (any two).");
    json_t *request = json_pack("{s:s,s:s}", "cmd", "space-create", "name", space);
    for (unsigned i = 0; i < NSETTINGS && code == 0; i++) {
        const char *value = sfs_cli_value(c, setting_keys[i]);
        if (!value)
            continue;
        code = check_setting(c, setting_keys[i], value);
        json_object_set_new(request, setting_keys[i], json_string(value));
    }
    if (code) {
        json_decref(request);
        return code;
    }
    json_t *result = sfs_request(c, which, request, 0);
    if (!result)
        return SFS_EXIT_FAILED;
    return sfs_request_done(c, result, "Made space %s. Mount it: spacesfs mount %s DIR", c->args[0],
                            c->args[0]);
}

static int list_one(struct sfs_cli *c)
{
    json_t *status = sfs_request(c, c->args[0], json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    if (c->json) {
        json_t *spaces = json_pack("{s:s,s:O?}", "pool", sfs_json_text(status, "pool"), "spaces",
                                   sfs_json_array(status, "spaces"));
        if (!spaces)
            sfs_ui_out_of_memory();
        sfs_json_print(c, spaces);
        json_decref(spaces);
    } else {
        const json_t *one = status;
        sfs_show_spaces(c, &one, 1, true, 0);
    }
    json_decref(status);
    return SFS_EXIT_OK;
}

static int list_all(struct sfs_cli *c)
{
    json_t *pools = sfs_show_collect(c), *pool, *out = json_array();
    size_t i, n = json_array_size(pools);
    const json_t **good = calloc(n + 1, sizeof(json_t *));
    unsigned ngood = 0;
    if (!good)
        sfs_ui_out_of_memory();
    json_array_foreach(pools, i, pool)
    {
        if (json_object_get(pool, "error"))
            continue;
        good[ngood++] = pool;
        json_array_append_new(out, json_pack("{s:s,s:O?}", "pool", sfs_json_text(pool, "pool"), "spaces",
                                             sfs_json_array(pool, "spaces")));
    }
    if (c->json)
        sfs_show_json_pools(c, out);
    else if (ngood)
        sfs_show_spaces(c, good, ngood, true, 0);
    else if (n == 0)
        sfs_show_no_pools();
    sfs_show_errors(pools);
    free(good);
    json_decref(out);
    json_decref(pools);
    return ngood == n ? SFS_EXIT_OK : SFS_EXIT_FAILED;
}

int sfs_cmd_space_list(struct sfs_cli *c)
{
    return c->nargs ? list_one(c) : list_all(c);
}

/* One KEY=VALUE into the request; SFS_EXIT_USAGE after words. */
static int take_setting(const struct sfs_cli *c, const char *arg, json_t *request)
{
    char key[32];
    size_t len = strcspn(arg, "=");
    snprintf(key, sizeof(key), "%.*s", (int)len, arg);
    if (!arg[len])
        return sfs_cli_usage(c, "`%s` is not of the form KEY=VALUE.", arg);
    for (unsigned i = 0; i < NSETTINGS; i++) {
        if (strcmp(key, setting_keys[i]) != 0)
            continue;
        json_object_set_new(request, key, json_string(arg + len + 1));
        return check_setting(c, key, arg + len + 1);
    }
    const char *near = sfs_help_nearest(key, setting_keys, NSETTINGS);
    return sfs_cli_usage(c, "A space has no setting `%s`.%s%s%s", key, near ? " Did you mean " : "",
                         near ? near : "", near ? "?" : "");
}

/* Disks that a space of that resiliency bears the loss of; -1: there is no such resiliency. */
static int tolerance_of(const char *resiliency)
{
    enum sfs_resiliency r;
    return sfs_resiliency_parse(resiliency, &r, NULL) ? -1 : (int)sfs_resiliency_tolerance(r);
}

static const char *bears(int disks)
{
    return disks == 0 ? "the loss of no disk" : disks == 1 ? "the loss of any one disk" : "the loss of any two disks";
}

/* What lowers redundancy is asked first. 0 to go on; else an exit code. */
static int confirm_set(struct sfs_cli *c, const char *which, const char *space, const char *resiliency)
{
    size_t i;
    json_t *one;
    int to = resiliency ? tolerance_of(resiliency) : -1;
    if (c->yes || to < 0)
        return 0;
    json_t *status = sfs_request(c, which, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    bool yes = true;
    json_array_foreach(sfs_json_array(status, "spaces"), i, one)
    {
        const char *now = sfs_json_text(one, "resiliency");
        if (!strcmp(sfs_json_text(one, "name"), space) && tolerance_of(now) > to)
            yes = sfs_ui_confirm(c, "Space %s is %s now, and bears %s. As %s it bears %s.", c->args[0], now,
                                 bears(tolerance_of(now)), resiliency, bears(to));
    }
    json_decref(status);
    return yes ? 0 : SFS_EXIT_FAILED;
}

int sfs_cmd_space_set(struct sfs_cli *c)
{
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1];
    int code = split(c, which, space);
    if (code)
        return code;
    json_t *request =
        json_pack("{s:s,s:s,s:b}", "cmd", "space-set", "name", space, "wait", sfs_cli_flag(c, "wait"));
    for (unsigned i = 1; i < c->nargs && code == 0; i++)
        code = take_setting(c, c->args[i], request);
    if (code == 0)
        code = confirm_set(c, which, space, json_string_value(json_object_get(request, "resiliency")));
    if (code) {
        json_decref(request);
        return code;
    }
    json_t *result = sfs_request(c, which, request, SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    unsigned long long job = sfs_json_u64(result, "job");
    if (!job || *sfs_json_text(result, "text"))
        return sfs_request_done(c, result, "Changed space %s.", c->args[0]);
    return sfs_request_done(c, result,
                            "Changed space %s. Job %llu converts what it holds. Watch it: spacesfs jobs %s --watch",
                            c->args[0], job, which);
}

int sfs_cmd_space_rename(struct sfs_cli *c)
{
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1];
    struct sfs_error err = {0};
    int code = split(c, which, space);
    if (code)
        return code;
    /* NEWNAME may be written POOL/NEWNAME with the same POOL. */
    const char *to = c->args[1];
    size_t len = strlen(which);
    if (!strncmp(to, which, len) && to[len] == '/')
        to += len + 1;
    if (strchr(to, '/'))
        return sfs_cli_usage(c, "`%s` lies in another pool: a space can't move between pools.", c->args[1]);
    if (sfs_name_check(to, "space", &err))
        return sfs_cli_usage(c, "%s", err.text);
    json_t *result =
        sfs_request(c, which, json_pack("{s:s,s:s,s:s}", "cmd", "space-rename", "name", space, "to", to), 0);
    return result ? sfs_request_done(c, result, "Space %s is now %s/%s.", c->args[0], which, to)
                  : SFS_EXIT_FAILED;
}

/* 0 to go on; else an exit code. */
static int confirm_destroy(struct sfs_cli *c, const char *which, const char *space)
{
    char used[24];
    size_t i;
    json_t *one;
    if (c->yes)
        return 0;
    json_t *status = sfs_request(c, which, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    bool found = false, yes = false;
    json_array_foreach(sfs_json_array(status, "spaces"), i, one)
    {
        if (found || strcmp(sfs_json_text(one, "name"), space) != 0)
            continue;
        found = true;
        yes = sfs_ui_confirm(
            c, "Destroying space %s deletes its %llu files and directories, %s of data, for good.",
            c->args[0], (unsigned long long)sfs_json_u64(one, "inodes"),
            sfs_ui_size(c, sfs_json_u64(one, "used_bytes"), used));
    }
    json_decref(status);
    return yes || !found ? 0 : SFS_EXIT_FAILED; /* one that isn't there: the request says so */
}

int sfs_cmd_space_destroy(struct sfs_cli *c)
{
    char which[SFS_PATH_BYTES], space[SFS_NAME_MAX + 1];
    int code = split(c, which, space);
    if (code == 0)
        code = confirm_destroy(c, which, space);
    if (code)
        return code;
    bool wait = sfs_cli_flag(c, "wait");
    json_t *result = sfs_request(c, which, json_pack("{s:s,s:s,s:b}", "cmd", "space-destroy", "name", space, "wait", wait),
                                 SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    return sfs_request_done(c, result, c->by_daemon && !wait ? "Destroyed space %s. What it held is given back in the background." : "Destroyed space %s.", c->args[0]);
}
