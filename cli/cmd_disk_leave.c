/* spacesfs disk remove, replace, forget: disks that go. And what all commands that begin a job say. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/disk_spec.h"
#include "cli/request.h"
#include "cli/show.h"
#include "cli/ui.h"

static json_t *status_of(struct sfs_cli *c, const char *pool)
{
    return sfs_request(c, pool, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
}

/* Asks for what begins a job; prints how it ended, or how to follow it. what: "Removing disk a from tank" */
static int run_job(struct sfs_cli *c, json_t *request, const char *what)
{
    bool wait = sfs_cli_flag(c, "wait");
    if (request)
        json_object_set_new(request, "wait", json_boolean(wait));
    json_t *result = sfs_request(c, c->args[0], request, SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    char clean[512];
    if (wait || !c->by_daemon) {
        sfs_ui_clean(sfs_json_text(result, "text"), clean, sizeof(clean));
        return sfs_request_done(c, result, "%s: %s.", what, clean);
    }
    unsigned long long id = sfs_json_u64(result, "job");
    return sfs_request_done(c, result, "%s: job %llu runs in the background. Watch it: spacesfs jobs %s --watch", what, id,
                            c->args[0]);
}

int sfs_cmd_disk_remove(struct sfs_cli *c)
{
    char what[200];
    snprintf(what, sizeof(what), "Removing disk %s from %s", c->args[1], c->args[0]);
    return run_job(c, json_pack("{s:s,s:s}", "cmd", "disk-remove", "disk", c->args[1]), what);
}

/* --- replace --------------------------------------------------------------------------------------------- */
static const char *name_by(const json_t *status, const char *key, const char *value)
{
    size_t i;
    json_t *disk;
    json_array_foreach(sfs_json_array(status, "disks"), i, disk)
    {
        if (!strcmp(sfs_json_text(disk, key), value))
            return sfs_json_text(disk, "name");
    }
    return NULL;
}

/* Takes a new disk into the pool; name gets what it is called there. */
static int add_new(struct sfs_cli *c, const struct sfs_disk_args *disks, char *name, size_t cap)
{
    json_t *request = sfs_disk_add_request(c, disks);
    const char *path = json_string_value(json_object_get(json_array_get(json_object_get(request, "disks"), 0), "path"));
    char where[SFS_PATH_BYTES];
    snprintf(where, sizeof(where), "%s", path ? path : "");
    json_t *result = sfs_request(c, c->args[0], request, 0);
    if (!result)
        return SFS_EXIT_FAILED;
    json_decref(result);
    json_t *status = status_of(c, c->args[0]);
    const char *found = status ? name_by(status, "path", where) : NULL;
    snprintf(name, cap, "%s", found ? found : "");
    json_decref(status);
    if (!*name)
        sfs_ui_error("%s: the new disk was added, but is not there now. See: spacesfs disk list %s", where, c->args[0]);
    return *name ? SFS_EXIT_OK : SFS_EXIT_FAILED;
}

static int replace_with(struct sfs_cli *c, const char *name)
{
    char what[300];
    snprintf(what, sizeof(what), "Replacing disk %s of %s with %s", c->args[1], c->args[0], name);
    return run_job(c, json_pack("{s:s,s:s,s:s}", "cmd", "disk-replace", "disk", c->args[1], "with", name), what);
}

/* NEW isn't a disk of the pool yet. When the replacement is refused, it is taken out again: all is as it was. */
static int replace_with_new(struct sfs_cli *c)
{
    struct sfs_disk_args disks;
    char name[SFS_NAME_MAX + 1];
    int code = sfs_disk_args_parse(c, c->args + 2, 1, &disks);
    if (code == 0 && !sfs_disk_args_confirm(c, &disks))
        code = SFS_EXIT_FAILED;
    if (code == 0)
        code = add_new(c, &disks, name, sizeof(name));
    sfs_disk_args_free(&disks);
    if (code)
        return code;
    json_t *status = status_of(c, c->args[0]);
    unsigned long long before = json_array_size(sfs_json_array(status, "jobs"));
    json_decref(status);
    code = replace_with(c, name);
    status = code ? status_of(c, c->args[0]) : NULL;
    if (status && json_array_size(sfs_json_array(status, "jobs")) == before)
        json_decref(sfs_request(c, c->args[0], json_pack("{s:s,s:s,s:b}", "cmd", "disk-remove", "disk", name, "wait", true), 0));
    json_decref(status);
    return code;
}

int sfs_cmd_disk_replace(struct sfs_cli *c)
{
    json_t *status = status_of(c, c->args[0]);
    if (!status)
        return SFS_EXIT_FAILED;
    bool old = name_by(status, "name", c->args[1]) != NULL, known = name_by(status, "name", c->args[2]) != NULL;
    json_decref(status);
    return !old || known ? replace_with(c, c->args[2]) : replace_with_new(c);
}

/* --- forget ---------------------------------------------------------------------------------------------- */
static bool confirm_forget(struct sfs_cli *c, const json_t *look)
{
    char size[24], spaces[600] = "";
    uint64_t lost = sfs_json_u64(look, "lost_bytes"), slabs = sfs_json_u64(look, "slabs"),
             rebuilt = sfs_json_u64(look, "rebuilt");
    size_t i, n = 0;
    json_t *space;
    if (!slabs)
        return true;
    json_array_foreach(sfs_json_array(look, "spaces"), i, space)
    {
        if (n < sizeof(spaces))
            n += (size_t)snprintf(spaces + n, sizeof(spaces) - n, "%s%s (%s)", n ? ", " : "", sfs_json_text(space, "name"),
                                  sfs_ui_size(c, sfs_json_u64(space, "bytes"), size));
    }
    if (!lost)
        return sfs_ui_confirm(c, "Disk %s holds %llu slabs. All of them have other copies: nothing is lost, they are built anew on "
                              "the other disks.", c->args[1], (unsigned long long)slabs);
    return sfs_ui_confirm(c, "Forgetting disk %s LOSES up to %s for good, of: %s. Of its %llu slabs %llu have other copies and are "
                          "built anew; the rest is only there. Reading what is lost gives an error.",
                          c->args[1], sfs_ui_size(c, lost, size), spaces, (unsigned long long)slabs,
                          (unsigned long long)rebuilt);
}

/* The files that would be lost, by name as far as the pool tells. On stderr, as the question after it. */
static void list_lost(struct sfs_cli *c)
{
    unsigned long long files = 0, named;
    char clean[SFS_PATH_BYTES];
    size_t i;
    json_t *one, *impact = sfs_request(c, c->args[0], json_pack("{s:s,s:s}", "cmd", "impact", "disk", c->args[1]), SFS_REQUEST_READONLY);
    if (!impact)
        return;
    json_array_foreach(sfs_json_array(impact, "spaces"), i, one)
        files += sfs_json_u64(json_object_get(one, "lost"), "files");
    named = files ? json_array_size(sfs_json_array(impact, "examples")) : 0;
    fprintf(stderr, "%llu file%s %s data that is on disk %s only:\n", files, files == 1 ? "" : "s", files == 1 ? "has" : "have", c->args[1]);
    json_array_foreach(sfs_json_array(impact, "examples"), i, one)
        if (i < named)
            fprintf(stderr, "  %s%s\n", sfs_json_text(one, "space"), sfs_ui_clean(sfs_json_text(one, "path"), clean, sizeof(clean)));
    if (files > named)
        fprintf(stderr, "  and %llu more; `spacesfs damage %s` lists all files that can't be read whole\n", files - named, c->args[0]);
    json_decref(impact);
}

int sfs_cmd_disk_forget(struct sfs_cli *c)
{
    const char *pool = c->args[0], *disk = c->args[1];
    json_t *look = sfs_request(c, pool, json_pack("{s:s,s:s,s:b}", "cmd", "disk-forget", "disk", disk, "look", true), 0);
    if (!look)
        return SFS_EXIT_FAILED;
    if (sfs_json_u64(look, "lost_bytes") && !c->json)
        list_lost(c);
    bool yes = confirm_forget(c, look);
    json_decref(look);
    if (!yes)
        return SFS_EXIT_FAILED;
    json_t *result = sfs_request(c, pool, json_pack("{s:s,s:s}", "cmd", "disk-forget", "disk", disk), 0);
    if (!result)
        return SFS_EXIT_FAILED;
    char size[24], lost[80] = "";
    if (sfs_json_u64(result, "lost_bytes"))
        snprintf(lost, sizeof(lost), " %s are lost.", sfs_ui_size(c, sfs_json_u64(result, "lost_bytes"), size));
    return sfs_request_done(c, result, "Forgot disk %s of %s.%s What has other copies is built anew%s; see: spacesfs status %s", disk, pool,
                            lost, c->by_daemon ? "" : " with `spacesfs heal`, or once the pool is mounted", pool);
}
