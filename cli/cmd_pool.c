/* spacesfs pool: create, list, export, destroy, set, get. (import: cmd_import.c; status: cmd_status.c) */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/disk_spec.h"
#include "cli/request.h"
#include "cli/show.h"
#include "cli/table.h"
#include "cli/ui.h"
#include "fs/base/size.h"
#include "fs/pool/registry.h"

/* --- create ---------------------------------------------------------------------------------------------- */
static int make_pool(struct sfs_cli *c, const char *name, const struct sfs_disk_args *disks,
                     uint64_t slab_bytes)
{
    struct sfs_pool_create_opts opts = {
        .slab_bytes = slab_bytes, .force = c->force, .state_dir = c->state_dir};
    struct sfs_error warn = {0}, err = {0};
    if (!sfs_disk_args_confirm(c, disks))
        return SFS_EXIT_FAILED;
    int rc = sfs_pool_create(c->env, name, disks->specs, disks->n, &opts, &warn, &err);
    if (warn.text[0])
        sfs_ui_warning(warn.text);
    if (rc) {
        sfs_ui_error("%s", err.text[0] ? err.text : strerror(-rc));
        return SFS_EXIT_FAILED;
    }
    json_t *status = sfs_request(c, name, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    if (c->json) {
        sfs_json_print(c, status);
    } else {
        char total[24], slab[24];
        printf("Made pool %s of %u disk%s: %s in all, in slabs of %s.\n\n", name, disks->n,
               disks->n == 1 ? "" : "s", sfs_ui_size(c, sfs_json_u64(status, "total_bytes"), total),
               sfs_ui_size(c, sfs_json_u64(status, "slab_bytes"), slab));
        sfs_show_disks(c, status, 2);
        printf("\nNext, make a space in it: spacesfs space create %s/NAME --resiliency %s\n", name,
               disks->n > 1 ? "mirror2" : "simple");
    }
    json_decref(status);
    return SFS_EXIT_OK;
}

int sfs_cmd_pool_create(struct sfs_cli *c)
{
    struct sfs_error err = {0};
    struct sfs_disk_args disks;
    uint64_t slab_bytes = 0;
    const char *slab = sfs_cli_value(c, "slab-size");
    if (sfs_name_check(c->args[0], "pool", &err))
        return sfs_cli_usage(c, "%s", err.text);
    if (slab && sfs_size_parse(slab, "--slab-size", &slab_bytes, &err))
        return sfs_cli_usage(c, "%s", err.text);
    if (slab && (slab_bytes < 1u << 20 || slab_bytes > 1ull << 32 || (slab_bytes & (slab_bytes - 1))))
        return sfs_cli_usage(c, "--slab-size: `%s` is not a power of two from 1M to 4G.", slab);
    int code = sfs_disk_args_parse(c, c->args + 1, c->nargs - 1, &disks);
    if (code == 0)
        code = make_pool(c, c->args[0], &disks, slab_bytes);
    sfs_disk_args_free(&disks);
    return code;
}

/* --- list ------------------------------------------------------------------------------------------------ */
static void list_row(struct sfs_cli *c, struct sfs_table *t, const json_t *pool)
{
    char size[24], used[24], free_text[24];
    unsigned mounted = 0;
    size_t i;
    json_t *space;
    const json_t *spaces = sfs_json_array(pool, "spaces");
    json_array_foreach(spaces, i, space) mounted += json_array_size(sfs_json_array(space, "mounts")) > 0;
    const char *health = sfs_json_text(pool, "health");
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(pool, "pool"));
    sfs_table_cell(t, sfs_show_health_tone(health), "%s", health);
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(pool, "total_bytes"), size));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(pool, "used_bytes"), used));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(pool, "free_bytes"), free_text));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%zu", json_array_size(sfs_json_array(pool, "disks")));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%zu", json_array_size(spaces));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%u", mounted);
}

int sfs_cmd_pool_list(struct sfs_cli *c)
{
    static const struct sfs_column columns[] = {
        {"POOL", false, NULL, SFS_FIT_CUT_END}, {"HEALTH", false, NULL, SFS_FIT_KEEP},
        {"RAW SIZE", true, NULL, SFS_FIT_KEEP}, {"USED", true, NULL, SFS_FIT_KEEP},
        {"FREE", true, NULL, SFS_FIT_KEEP},     {"DISKS", true, NULL, SFS_FIT_KEEP},
        {"SPACES", true, NULL, SFS_FIT_KEEP},   {"MOUNTED", true, NULL, SFS_FIT_KEEP}};
    json_t *pools = sfs_show_collect(c), *pool;
    struct sfs_table *t = sfs_table_new(columns, 8);
    size_t i;
    json_array_foreach(pools, i, pool)
    {
        if (!json_object_get(pool, "error")) {
            list_row(c, t, pool);
            continue;
        }
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(pool, "pool"));
        sfs_table_cell(t, SFS_TONE_BAD, "unavailable");
        for (unsigned k = 2; k < 8; k++)
            sfs_table_cell(t, SFS_TONE_DIM, "-");
    }
    if (c->json)
        sfs_show_json_pools(c, pools);
    else if (sfs_table_rows(t))
        sfs_table_print(t, stdout, 0);
    else
        sfs_show_no_pools();
    if (!c->json) /* why a pool is unavailable, after the table */
        sfs_show_errors(pools);
    sfs_table_free(t);
    json_decref(pools);
    return SFS_EXIT_OK;
}

/* --- export, destroy ------------------------------------------------------------------------------------- */
/* Makes sure that no daemon has the pool: refuses while anything is mounted, ends an idle one. 0 or -errno
 * with words. */
static int end_daemon(struct sfs_cli *c, const struct sfs_target *t, struct sfs_error *err)
{
    json_t *request = json_pack("{s:s}", "cmd", "mounts"), *stop = json_pack("{s:s}", "cmd", "shutdown"),
           *result = NULL;
    if (!request || !stop)
        sfs_ui_out_of_memory();
    int rc = sfs_request_daemon(c, t, request, &result, err);
    if (rc == 0) {
        const json_t *mounts = sfs_json_array(result, "mounts");
        const json_t *first = json_array_get(mounts, 0);
        if (first)
            rc = sfs_error_set(err, -EBUSY,
                               "%s: in use: %s/%s is mounted on %s%s. Unmount first: spacesfs umount %s",
                               t->pool, t->pool, sfs_json_text(first, "space"), sfs_json_text(first, "dir"),
                               json_array_size(mounts) > 1 ? ", and there are more mounts" : "",
                               sfs_json_text(first, "dir"));
    }
    json_decref(result);
    result = NULL;
    if (rc == 0)
        rc = sfs_request_daemon(c, t, stop, &result, err);
    json_decref(result);
    json_decref(request);
    json_decref(stop);
    return rc == -ENOENT && !err->text[0] ? 0 : rc;
}

int sfs_cmd_pool_export(struct sfs_cli *c)
{
    struct sfs_target t;
    struct sfs_error err = {0};
    struct sfs_registry_pool known = {0};
    int rc = sfs_target_resolve(c, c->args[0], &t, &err);
    if (rc == 0) {
        rc = sfs_registry_load(c->state_dir, t.pool, &known);
        if (rc == -ENOENT)
            sfs_error_set(
                &err, rc,
                "%s: no pool of that name is known on this host. `spacesfs pool list` shows those that are.",
                t.pool);
        else if (rc)
            sfs_error_set(&err, rc, "%s: what is noted about it in %s can't be read: %s.", t.pool,
                          c->state_dir, strerror(-rc));
        sfs_registry_free(&known);
    }
    if (rc == 0)
        rc = end_daemon(c, &t, &err);
    if (rc == 0) {
        rc = sfs_registry_remove(c->state_dir, t.pool);
        if (rc)
            sfs_error_set(&err, rc, "%s: it can't be taken off the list in %s: %s.", t.pool, c->state_dir,
                          strerror(-rc));
    }
    if (rc) {
        sfs_ui_error("%s", err.text);
        return SFS_EXIT_FAILED;
    }
    return sfs_request_done(
        c, json_pack("{s:s}", "pool", t.pool),
        "Exported pool %s. Its disks keep everything; `spacesfs pool import` makes it known again.", t.pool);
}

/* What would be lost, in words. A pool that can't be opened may be destroyed all the same. */
static bool confirm_destroy(struct sfs_cli *c, const struct sfs_target *t)
{
    struct sfs_error err = {0};
    json_t *status = NULL;
    char used[24];
    if (c->yes)
        return true;
    if (sfs_request_try(c, t->which, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY, &status,
                        &err))
        return sfs_ui_confirm(c,
                              "Pool %s can't be opened (%s) Destroying it takes labels and slabs off all "
                              "disks of it that are found.",
                              t->pool, err.text);
    size_t spaces = json_array_size(sfs_json_array(status, "spaces"));
    bool yes = sfs_ui_confirm(c,
                              "Destroying pool %s takes it off %zu disk%s; %zu space%s and all files in %s, "
                              "%s on the disks, will be lost for good.",
                              t->pool, json_array_size(sfs_json_array(status, "disks")),
                              json_array_size(sfs_json_array(status, "disks")) == 1 ? "" : "s", spaces,
                              spaces == 1 ? "" : "s", spaces == 1 ? "it" : "them",
                              sfs_ui_size(c, sfs_json_u64(status, "used_bytes"), used));
    json_decref(status);
    return yes;
}

int sfs_cmd_pool_destroy(struct sfs_cli *c)
{
    struct sfs_target t;
    struct sfs_error err = {0};
    struct sfs_pool_open_opts opts = {.state_dir = c->state_dir, .no_jobs = true};
    int rc = sfs_target_resolve(c, c->args[0], &t, &err);
    if (rc == 0)
        rc = end_daemon(c, &t, &err);
    if (rc == 0 && !confirm_destroy(c, &t))
        return SFS_EXIT_FAILED;
    if (rc == 0)
        rc = sfs_pool_destroy(c->env, t.which, &opts, &err);
    if (rc) {
        sfs_ui_error("%s", err.text[0] ? err.text : strerror(-rc));
        return SFS_EXIT_FAILED;
    }
    sfs_registry_remove(c->state_dir, t.pool); /* gone already, as a rule */
    return sfs_request_done(c, json_pack("{s:s}", "pool", t.pool), "Destroyed pool %s.", t.pool);
}

/* --- properties ------------------------------------------------------------------------------------------ */
static const char *const pool_keys[] = {"heal-delay", "job-rate", "error-limit", "scrub-every"};

int sfs_cmd_pool_set(struct sfs_cli *c)
{
    for (unsigned i = 1; i < c->nargs; i++) {
        if (!strchr(c->args[i], '=') || c->args[i][0] == '=')
            return sfs_cli_usage(c, "`%s` is not of the form KEY=VALUE.", c->args[i]);
    }
    json_t *all = json_object();
    for (unsigned i = 1; i < c->nargs; i++) {
        char key[64];
        const char *value = strchr(c->args[i], '=') + 1;
        snprintf(key, sizeof(key), "%.*s", (int)(value - 1 - c->args[i]), c->args[i]);
        json_t *result = sfs_request(
            c, c->args[0], json_pack("{s:s,s:s,s:s}", "cmd", "pool-set", "key", key, "value", value), 0);
        if (!result) {
            json_decref(all);
            return SFS_EXIT_FAILED;
        }
        json_decref(result);
        json_object_set_new(all, key, json_string(value));
        if (!c->json)
            printf("%s: %s is now %s.\n", c->args[0], key, value);
    }
    if (c->json)
        sfs_json_print(c, all);
    json_decref(all);
    return SFS_EXIT_OK;
}

int sfs_cmd_pool_get(struct sfs_cli *c)
{
    unsigned n = c->nargs > 1 ? c->nargs - 1 : sizeof(pool_keys) / sizeof(pool_keys[0]);
    json_t *all = json_object();
    for (unsigned i = 0; i < n; i++) {
        const char *key = c->nargs > 1 ? c->args[i + 1] : pool_keys[i];
        json_t *result = sfs_request(c, c->args[0], json_pack("{s:s,s:s}", "cmd", "pool-get", "key", key),
                                     SFS_REQUEST_READONLY);
        if (!result) {
            json_decref(all);
            return SFS_EXIT_FAILED;
        }
        if (!c->json)
            printf("%s=%s\n", key, sfs_json_text(result, "value"));
        json_object_set_new(all, key, json_string(sfs_json_text(result, "value")));
        json_decref(result);
    }
    if (c->json)
        sfs_json_print(c, all);
    json_decref(all);
    return SFS_EXIT_OK;
}
