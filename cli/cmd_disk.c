/* spacesfs disk: list, add, set. Those that go: cmd_disk_leave.c. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/disk_spec.h"
#include "cli/request.h"
#include "cli/show.h"

int sfs_cmd_disk_list(struct sfs_cli *c)
{
    json_t *status = sfs_request(c, c->args[0], json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    if (c->json) {
        json_t *disks = json_pack("{s:s,s:O?}", "pool", sfs_json_text(status, "pool"), "disks",
                                  sfs_json_array(status, "disks"));
        if (!disks)
            sfs_ui_out_of_memory();
        sfs_json_print(c, disks);
        json_decref(disks);
    } else {
        sfs_show_disks(c, status, 0);
    }
    json_decref(status);
    return SFS_EXIT_OK;
}

/* Paths are made absolute: the daemon's current directory is another one. A file that is still to be made has
 * an absolute directory. */
static json_t *absolute_path(const char *path)
{
    char *whole = realpath(path, NULL), *joined = NULL;
    json_t *text = NULL;
    if (!whole) {
        const char *slash = strrchr(path, '/');
        char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
        char *real = dir ? realpath(dir, NULL) : NULL;
        if (real && asprintf(&joined, "%s/%s", strcmp(real, "/") ? real : "", slash ? slash + 1 : path) < 0)
            joined = NULL;
        free(dir);
        free(real);
    }
    text = json_string(whole ? whole : joined ? joined : path);
    free(whole);
    free(joined);
    return text;
}

json_t *sfs_disk_add_request(const struct sfs_cli *c, const struct sfs_disk_args *disks)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < disks->n; i++) {
        const struct sfs_disk_spec *spec = &disks->specs[i];
        json_t *disk = json_pack("{s:o}", "path", absolute_path(spec->path));
        if (disk && spec->name)
            json_object_set_new(disk, "name", json_string(spec->name));
        if (disk && spec->size_bytes)
            json_object_set_new(disk, "size", json_integer((json_int_t)spec->size_bytes));
        if (json_array_append_new(list, disk)) {
            json_decref(list);
            return NULL;
        }
    }
    return json_pack("{s:s,s:o,s:b}", "cmd", "disk-add", "disks", list, "force", c->force);
}

int sfs_cmd_disk_add(struct sfs_cli *c)
{
    struct sfs_disk_args disks;
    int code = sfs_disk_args_parse(c, c->args + 1, c->nargs - 1, &disks);
    if (code == 0 && !sfs_disk_args_confirm(c, &disks))
        code = SFS_EXIT_FAILED;
    if (code == 0) {
        json_t *result = sfs_request(c, c->args[0], sfs_disk_add_request(c, &disks), 0);
        code = result ? sfs_request_done(
                            c, result,
                            "Added %u disk%s to %s. New data uses %s at once; see: spacesfs disk list %s",
                            disks.n, disks.n == 1 ? "" : "s", c->args[0], disks.n == 1 ? "it" : "them",
                            c->args[0])
                      : SFS_EXIT_FAILED;
    }
    sfs_disk_args_free(&disks);
    return code;
}

static const char *const disk_keys[] = {"name", "usage", "capacity"};

static bool is_disk_key(const char *key)
{
    for (unsigned i = 0; i < sizeof(disk_keys) / sizeof(disk_keys[0]); i++) {
        if (!strcmp(disk_keys[i], key))
            return true;
    }
    return false;
}

/* What a job has to move first is said, when nobody has waited for it. */
static void say_set(const struct sfs_cli *c, const char *disk, const char *key, const char *value, const json_t *result)
{
    unsigned long long job = sfs_json_u64(result, "job");
    if (!job || *sfs_json_text(result, "text"))
        printf("%s: disk %s: %s is now %s.\n", c->args[0], disk, key, value);
    else
        printf("%s: disk %s: %s becomes %s; job %llu moves its data first. Watch it: spacesfs jobs %s --watch\n",
               c->args[0], disk, key, value, job, c->args[0]);
}

int sfs_cmd_disk_set(struct sfs_cli *c)
{
    const char *disk = c->args[1];
    json_t *all = json_object();
    char key[32];
    int code = SFS_EXIT_OK;
    for (unsigned i = 2; i < c->nargs && code == SFS_EXIT_OK; i++) {
        snprintf(key, sizeof(key), "%.*s", (int)strcspn(c->args[i], "="), c->args[i]);
        if (!strchr(c->args[i], '='))
            code = sfs_cli_usage(c, "`%s` is not of the form KEY=VALUE.", c->args[i]);
        else if (!is_disk_key(key))
            code = sfs_cli_usage(c, "A disk has no setting `%s`. There are: name, usage, capacity.", key);
    }
    for (unsigned i = 2; i < c->nargs && code == SFS_EXIT_OK; i++) {
        const char *value = strchr(c->args[i], '=') + 1;
        snprintf(key, sizeof(key), "%.*s", (int)(value - 1 - c->args[i]), c->args[i]);
        json_t *result = sfs_request(
            c, c->args[0],
            json_pack("{s:s,s:s,s:s,s:s,s:b}", "cmd", "disk-set", "disk", disk, "key", key, "value", value,
                      "wait", sfs_cli_flag(c, "wait")),
            SFS_REQUEST_WAIT_IN_PROCESS);
        if (!result) {
            code = SFS_EXIT_FAILED;
            break;
        }
        json_object_set_new(all, key, json_string(value));
        if (!c->json)
            say_set(c, disk, key, value, result);
        json_decref(result);
        if (!strcmp(key, "name"))
            disk = value;
    }
    if (c->json && code == SFS_EXIT_OK)
        sfs_json_print(c, all);
    json_decref(all);
    return code;
}
