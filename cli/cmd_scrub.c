/* spacesfs scrub: begin, stop, and what it has found. */
#include "cli/command.h"

#include <errno.h>
#include <string.h>
#include "cli/request.h"
#include "cli/show.h"
#include "cli/table.h"

#define FILES_SHOWN 50u

static void print_disks(const struct sfs_cli *c, const json_t *report)
{
    static const struct sfs_column columns[] = {{"DISK", false, NULL, SFS_FIT_CUT_END},
                                                {"REWRITTEN", true, NULL, SFS_FIT_KEEP}};
    struct sfs_table *t = sfs_table_new(columns, 2);
    char size[24];
    size_t i;
    json_t *disk;
    json_array_foreach(sfs_json_array(report, "disks"), i, disk)
    {
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(disk, "disk"));
        sfs_table_cell(t, SFS_TONE_WARN, "%s", sfs_ui_size(c, sfs_json_u64(disk, "bytes"), size));
    }
    if (sfs_table_rows(t)) {
        printf("\n  Bad copies that were rewritten from good ones:\n");
        sfs_table_print(t, stdout, 2);
    }
    sfs_table_free(t);
}

static void print_files(const struct sfs_cli *c, const json_t *report)
{
    static const struct sfs_column columns[] = {
        {"SPACE", false, NULL, SFS_FIT_CUT_END},
        {"DISK", false, NULL, SFS_FIT_CUT_END},
        {"REWRITTEN", true, NULL, SFS_FIT_KEEP},
        {"FILE", false, NULL, SFS_FIT_WRAP}};
    struct sfs_table *t = sfs_table_new(columns, 4);
    char size[24], clean[2048];
    size_t i, n = json_array_size(sfs_json_array(report, "files"));
    json_t *file;
    json_array_foreach(sfs_json_array(report, "files"), i, file)
    {
        const char *path = json_string_value(json_object_get(file, "path"));
        if (i == FILES_SHOWN)
            break;
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(file, "space"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(file, "disk"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(file, "bytes"), size));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s",
                       path ? sfs_ui_clean(path, clean, sizeof(clean)) : "(deleted, but still in use)");
    }
    if (n) {
        putchar('\n');
        sfs_table_print(t, stdout, 2);
    }
    if (n > FILES_SHOWN)
        printf("  ... and %zu more (--json shows all)\n", n - FILES_SHOWN);
    sfs_table_free(t);
}

static void print_report(const struct sfs_cli *c, const json_t *report)
{
    const char *pool = c->args[0], *state = sfs_json_text(report, "state"), *result = sfs_json_text(report, "result");
    char when[32], text[400], clean[600];
    if (!*state)
        printf("%s: it has not been scrubbed yet.", pool);
    else if (!strcmp(state, "done"))
        printf("%s: last scrubbed %s.", pool, sfs_ui_time((int64_t)sfs_json_u64(report, "ended"), when));
    else
        printf("%s: a scrub that began %s is %s.", pool, sfs_ui_time((int64_t)sfs_json_u64(report, "started"), when), state);
    if (sfs_json_u64(report, "next"))
        printf(" The next begins by itself %s.\n", sfs_ui_time((int64_t)sfs_json_u64(report, "next"), when));
    else
        printf(" None begins by itself (scrub-every=off).\n");
    if (*result) {
        snprintf(text, sizeof(text), "%s.", result);
        printf("  ");
        sfs_ui_wrap(sfs_ui_clean(text, clean, sizeof(clean)), 2, 2);
    }
    print_disks(c, report);
    print_files(c, report);
    const json_t *damage = json_object_get(report, "damage");
    if (sfs_json_u64(damage, "count")) {
        printf("\n  Files that can't be read in full:\n");
        sfs_show_damage(c, damage, FILES_SHOWN, 2);
    }
}

/* Exit status: 1 when there is damage. */
static int show_report(struct sfs_cli *c)
{
    json_t *report =
        sfs_request(c, c->args[0], json_pack("{s:s}", "cmd", "scrub-report"), SFS_REQUEST_READONLY);
    if (!report)
        return SFS_EXIT_FAILED;
    if (c->json)
        sfs_json_print(c, report);
    else
        print_report(c, report);
    int code = sfs_json_u64(json_object_get(report, "damage"), "count") ? SFS_EXIT_FAILED : SFS_EXIT_OK;
    json_decref(report);
    return code;
}

int sfs_cmd_scrub(struct sfs_cli *c)
{
    const char *pool = c->args[0];
    bool wait = sfs_cli_flag(c, "wait"), stop = sfs_cli_flag(c, "stop"), report = sfs_cli_flag(c, "report");
    if (wait + stop + report > 1)
        return sfs_cli_usage(c, "--wait, --stop and --report are three different things to do: give one of them.");
    if (report)
        return show_report(c);
    json_t *result = stop ? sfs_request(c, pool, json_pack("{s:s,s:b}", "cmd", "scrub", "stop", 1), 0)
                          : sfs_request(c, pool, json_pack("{s:s,s:b}", "cmd", "scrub", "wait", wait),
                                        SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    if (stop)
        return sfs_request_done(c, result, "%s: the scrub was stopped; the next one begins anew.", pool);
    if (c->by_daemon && !wait)
        return sfs_request_done(c, result, "%s: scrubbing runs in the background. Watch it: spacesfs jobs %s --watch. "
                                           "What it finds: spacesfs scrub %s --report",
                                pool, pool, pool);
    json_decref(result);
    return show_report(c);
}
