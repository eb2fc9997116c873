/* spacesfs events. */
#include "cli/command.h"

#include <stdlib.h>
#include <string.h>
#include "cli/request.h"
#include "cli/ui.h"

#define PAGE 500
#define DEFAULT_SHOWN 100u
#define FOLLOW_NS 1000000000u

static void print_event(const struct sfs_cli *c, const json_t *event)
{
    if (c->json) {
        if (json_dumpf(event, stdout, JSON_COMPACT) < 0)
            sfs_ui_out_of_memory();
        putchar('\n');
        return;
    }
    const char *severity = sfs_json_text(event, "severity");
    enum sfs_tone tone = !strcmp(severity, "error")     ? SFS_TONE_BAD
                         : !strcmp(severity, "warning") ? SFS_TONE_WARN
                                                        : SFS_TONE_PLAIN;
    char when[32], text[2048], subject[512];
    sfs_ui_clean(sfs_json_text(event, "subject"), subject, sizeof(subject));
    printf("%s  %s%-7s%s  %s%s%s\n", sfs_ui_time((int64_t)sfs_json_u64(event, "time"), when),
           sfs_ui_tone(stdout, tone), severity, sfs_ui_tone_end(stdout, tone), subject, *subject ? ": " : "",
           sfs_ui_clean(sfs_json_text(event, "text"), text, sizeof(text)));
}

/* All events after *last, in order; moves *last on. NULL after words on stderr. */
static json_t *fetch(struct sfs_cli *c, uint64_t *last)
{
    json_t *all = json_array(), *event;
    size_t i, n;
    do {
        json_t *page =
            sfs_request(c, c->args[0],
                        json_pack("{s:s,s:I,s:i}", "cmd", "events", "after", (json_int_t)*last, "max", PAGE),
                        SFS_REQUEST_READONLY);
        if (!page) {
            json_decref(all);
            return NULL;
        }
        uint64_t before = *last;
        json_array_foreach(sfs_json_array(page, "events"), i, event)
        {
            *last = sfs_json_u64(event, "id") > *last ? sfs_json_u64(event, "id") : *last;
            json_array_append(all, event);
        }
        n = *last > before ? json_array_size(sfs_json_array(page, "events")) : 0;
        json_decref(page);
    } while (n > 0);
    return all;
}

static void print_newest(const struct sfs_cli *c, const json_t *events, size_t max)
{
    size_t n = json_array_size(events);
    for (size_t i = max && n > max ? n - max : 0; i < n; i++)
        print_event(c, json_array_get(events, i));
}

int sfs_cmd_events(struct sfs_cli *c)
{
    const char *max_text = sfs_cli_value(c, "max");
    char *end = NULL;
    unsigned long max = max_text ? strtoul(max_text, &end, 10) : DEFAULT_SHOWN;
    if (max_text && (*max_text < '0' || *max_text > '9' || *end))
        return sfs_cli_usage(c, "--max: `%s` is not a number.", max_text);
    uint64_t last = 0;
    json_t *events = fetch(c, &last);
    if (!events)
        return SFS_EXIT_FAILED;
    print_newest(c, events, max);
    json_decref(events);
    while (sfs_cli_flag(c, "follow") && fflush(stdout) == 0) {
        if (!c->by_daemon) {
            sfs_ui_error("%s: it is not mounted, so nothing happens that could be followed.", c->args[0]);
            return SFS_EXIT_FAILED;
        }
        sfs_env_sleep_ns(c->env, FOLLOW_NS);
        events = fetch(c, &last);
        if (!events)
            return SFS_EXIT_FAILED;
        print_newest(c, events, 0);
        json_decref(events);
    }
    return SFS_EXIT_OK;
}
