/* spacesfs pool import: finds pools by the labels of their disks, and notes where they are. No pool is
 * opened. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/request.h"
#include "cli/scan.h"
#include "cli/ui.h"
#include "fs/pool/registry.h"

static const struct sfs_label *label_of(const struct sfs_scan *s, unsigned i)
{
    return &s->disks[i]->probe.label;
}

/* The label of the newest epoch among the disks of a pool: what it says of the others is the least outdated.
 */
static const struct sfs_label *newest_label(const struct sfs_scan *s, const struct sfs_uuid *pool)
{
    const struct sfs_label *best = NULL;
    for (unsigned i = 0; i < s->n; i++) {
        const struct sfs_label *l = label_of(s, i);
        if (sfs_uuid_equal(&l->pool_uuid, pool) && (!best || l->epoch.number > best->epoch.number))
            best = l;
    }
    return best;
}

static const char *path_of(const struct sfs_scan *s, const struct sfs_uuid *disk)
{
    for (unsigned i = 0; i < s->n; i++) {
        if (sfs_uuid_equal(&label_of(s, i)->disk_uuid, disk))
            return s->disks[i]->path;
    }
    return NULL;
}

/* Labels say where the pool's other disks were last seen: often they still are. */
static void follow_hints(struct sfs_cli *c, struct sfs_scan *s)
{
    for (unsigned i = 0; i < s->n; i++) { /* those that it finds are looked at in turn */
        const struct sfs_label *label = label_of(s, i);
        for (unsigned k = 0; k < label->npeers; k++) {
            if (!path_of(s, &label->peers[k].uuid) && label->peers[k].path[0] == '/')
                sfs_scan_hint(c, s, label->peers[k].path, &label->pool_uuid);
        }
    }
}

static void warn_of_twins(const struct sfs_scan *s)
{
    for (unsigned i = 0; i < s->n; i++) {
        const char *first = path_of(s, &label_of(s, i)->disk_uuid);
        if (first != s->disks[i]->path) {
            char text[1600];
            snprintf(text, sizeof(text),
                     "%s and %s bear the same label (disk %s of pool %s): one is a copy of the other. Take "
                     "the copy away, or destroy its label.",
                     first, s->disks[i]->path, label_of(s, i)->disk_name, label_of(s, i)->pool_name);
            sfs_ui_warning(text);
        }
    }
}

/* Notes one pool. report gets what was done, for --json and for words. 0 or -errno with words. */
static int note_pool(struct sfs_cli *c, const struct sfs_scan *s, const struct sfs_label *label,
                     json_t **report, struct sfs_error *err)
{
    struct sfs_registry_pool known = {0}, noted = {.uuid = label->pool_uuid};
    char uuid[SFS_UUID_STRLEN];
    int rc = sfs_registry_load(c->state_dir, label->pool_name, &known);
    if (rc == 0 && !sfs_uuid_equal(&known.uuid, &label->pool_uuid))
        rc = sfs_error_set(err, -EEXIST,
                           "%s: another pool of that name is known on this host. Export that one first: "
                           "spacesfs pool export %s",
                           label->pool_name, label->pool_name);
    else
        rc = 0; /* not known yet, or its file is damaged: it is written anew */
    sfs_registry_free(&known);
    if (rc)
        return rc;
    json_t *missing = json_array();
    unsigned found = 0;
    snprintf(noted.name, sizeof(noted.name), "%s", label->pool_name);
    noted.paths = calloc(label->npeers ? label->npeers : 1, sizeof(*noted.paths));
    if (!noted.paths || !missing)
        sfs_ui_out_of_memory();
    for (unsigned i = 0; i < label->npeers; i++) {
        const struct sfs_label_peer *peer = &label->peers[i];
        const char *path = path_of(s, &peer->uuid);
        found += path != NULL;
        if (!path)
            json_array_append_new(missing, json_pack("{s:s,s:s}", "disk", peer->name, "path", peer->path));
        path = path ? path : peer->path;
        if (*path && strlen(path) < SFS_PATH_BYTES)
            strcpy(noted.paths[noted.npaths++], path);
    }
    rc = sfs_registry_save(c->state_dir, &noted, err);
    free(noted.paths);
    sfs_uuid_format(&label->pool_uuid, uuid);
    *report = json_pack("{s:s,s:s,s:i,s:i,s:o}", "pool", label->pool_name, "uuid", uuid, "disks",
                        (int)label->npeers, "found", (int)found, "missing", missing);
    if (!*report)
        sfs_ui_out_of_memory();
    return rc;
}

static void print_report(const json_t *report)
{
    const char *pool = sfs_json_text(report, "pool");
    const json_t *missing = sfs_json_array(report, "missing");
    unsigned long long disks = sfs_json_u64(report, "disks"), found = sfs_json_u64(report, "found");
    if (found == disks)
        printf("Imported pool %s: all of its %llu disks were found.\n", pool, disks);
    else
        printf("Imported pool %s: %llu of its %llu disks were found.\n", pool, found, disks);
    size_t i;
    json_t *disk;
    json_array_foreach(missing, i, disk)
    {
        char clean[2 * SFS_PATH_BYTES];
        printf("  not found: %s, last seen at %s\n", sfs_json_text(disk, "disk"),
               sfs_ui_clean(sfs_json_text(disk, "path"), clean, sizeof(clean)));
    }
    printf("  See how it is: spacesfs status %s\n", pool);
}

static int note_all(struct sfs_cli *c, const struct sfs_scan *s)
{
    json_t *reports = json_array(), *report;
    int code = SFS_EXIT_OK;
    for (unsigned i = 0; i < s->n; i++) {
        const struct sfs_uuid *pool = &label_of(s, i)->pool_uuid;
        bool done = false;
        for (unsigned k = 0; k < i; k++)
            done = done || sfs_uuid_equal(&label_of(s, k)->pool_uuid, pool);
        if (done)
            continue;
        struct sfs_error err = {0};
        report = NULL;
        if (note_pool(c, s, newest_label(s, pool), &report, &err)) {
            sfs_ui_error("%s", err.text);
            code = SFS_EXIT_FAILED;
            json_decref(report);
            continue;
        }
        if (!c->json)
            print_report(report);
        json_array_append_new(reports, report);
    }
    if (c->json) {
        json_t *all = json_pack("{s:O}", "imported", reports);
        sfs_json_print(c, all);
        json_decref(all);
    }
    json_decref(reports);
    return code;
}

int sfs_cmd_pool_import(struct sfs_cli *c)
{
    struct sfs_scan scan = {0};
    int code = SFS_EXIT_OK;
    if (c->nargs == 0)
        sfs_scan_host(c, &scan);
    for (unsigned i = 0; i < c->nargs; i++) {
        struct sfs_error err = {0};
        if (sfs_scan_path(c, &scan, c->args[i], &err)) {
            sfs_ui_error("%s", err.text);
            code = SFS_EXIT_FAILED;
        }
    }
    follow_hints(c, &scan);
    warn_of_twins(&scan);
    if (scan.n) {
        int noted = note_all(c, &scan);
        code = noted ? noted : code;
    } else if (sfs_cli_flag(c, "none-ok") && code == SFS_EXIT_OK) {
        if (c->json)
            code = note_all(c, &scan);
    } else {
        sfs_ui_error(
            "No disk of a pool was found%s%s. Give the paths of disks, or of directories that hold them.",
            c->nargs ? " in " : "", c->nargs ? c->args[0] : "");
        code = SFS_EXIT_FAILED;
        if (scan.unreadable) {
            char text[120];
            snprintf(text, sizeof(text), "%u could not be looked at; another user (root) may see more.",
                     scan.unreadable);
            sfs_ui_warning(text);
        }
    }
    sfs_scan_free(&scan);
    return code;
}
