#include "cli/check_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/progress.h"
#include "cli/table.h"
#include "cli/ui.h"
#include "fs/check/snapshots.h"

struct report {
    bool json;
    bool shown;   /* the problem that is asked about has been printed */
    bool yes_all; /* "all" was answered */
    bool ended;   /* no more answers will come */
    bool line;    /* a line of progress is on the terminal */
    json_t *problems, *notes;
    struct sfs_progress bar;
    struct sfs_env *env;
};

static void clear_line(struct report *r)
{
    sfs_progress_end(&r->bar);
    if (r->line)
        fputs("\r\033[K", stderr);
    r->line = false;
}

static void put(const char *indent, const char *text)
{
    char clean[4096];
    printf("%s%s\n", indent, sfs_ui_clean(text, clean, sizeof(clean)));
}

static void on_note(void *ctx, const char *text)
{
    struct report *r = ctx;
    clear_line(r);
    if (r->json)
        json_array_append_new(r->notes, json_string(text));
    else
        put("", text);
}

static void show(struct report *r, const struct sfs_check_problem *p)
{
    clear_line(r);
    printf("%s%s: %" PRIu64 "%s\n", sfs_ui_tone(stdout, SFS_TONE_BOLD), p->what, p->count, sfs_ui_tone_end(stdout, SFS_TONE_BOLD));
    for (unsigned i = 0; i < p->nitems; i++)
        put("    ", p->items[i]);
    if (p->count > p->nitems && p->nitems)
        printf("    and %" PRIu64 " more\n", p->count - p->nitems);
}

static bool on_ask(void *ctx, const struct sfs_check_problem *p)
{
    struct report *r = ctx;
    char answer[16];
    show(r, p);
    r->shown = true;
    if (r->yes_all || r->ended)
        return r->yes_all;
    printf("  Shall I %s? [y]es, [n]o, [a]ll: ", p->repair);
    fflush(stdout);
    if (!fgets(answer, sizeof(answer), stdin)) {
        putchar('\n');
        r->ended = true;
        return false;
    }
    r->yes_all = answer[0] == 'a' || answer[0] == 'A';
    return r->yes_all || answer[0] == 'y' || answer[0] == 'Y';
}

static json_t *problem_json(const struct sfs_check_problem *p, enum sfs_check_outcome outcome)
{
    json_t *items = json_array();
    for (unsigned i = 0; i < p->nitems; i++) {
        char clean[4096];
        json_array_append_new(items, json_string(sfs_ui_clean(p->items[i], clean, sizeof(clean))));
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s?, s:o}", "id", p->id, "what", p->what, "count", (json_int_t)p->count, "severity",
                     p->severity == SFS_SEVERITY_SAFE ? "safe" : "loss", "outcome",
                     outcome == SFS_OUTCOME_MENDED ? "mended" : outcome == SFS_OUTCOME_LEFT ? "left" : "found", "repair", p->repair, "items", items);
}

static void on_problem(void *ctx, const struct sfs_check_problem *p, enum sfs_check_outcome outcome)
{
    struct report *r = ctx;
    if (r->json) {
        json_array_append_new(r->problems, problem_json(p, outcome));
        return;
    }
    if (!r->shown)
        show(r, p);
    r->shown = false;
    if (outcome == SFS_OUTCOME_MENDED)
        printf("  Mended: %s.\n", p->repair);
    else if (!p->repair)
        printf("  Nothing can be done about that here.\n");
    else if (outcome == SFS_OUTCOME_LEFT)
        printf("  Left as it is. What can be done: %s.\n", p->repair);
    else
        printf("  Can be mended: %s.\n", p->repair);
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct report *r = ctx;
    if (!sfs_ui_is_terminal(stderr))
        return;
    if (strcmp(what, "data") == 0) {
        sfs_progress_show(&r->bar, done, total, "verifying data");
        return;
    }
    if (total)
        fprintf(stderr, "\r\033[Kchecking %s %u %%", what, sfs_ui_percent(done, total));
    else
        fprintf(stderr, "\r\033[Kchecking %s", what);
    fflush(stderr);
    r->line = true;
}

static void say_error(const struct sfs_error *err)
{
    char clean[4096];
    fflush(stdout);
    fprintf(stderr, "spacesfs-check: %s\n", sfs_ui_clean(err->text, clean, sizeof(clean)));
}

static void summary(const struct sfs_check_result *res, const struct sfs_error *err)
{
    if (res->status & SFS_CHECK_CANCELLED)
        printf("Interrupted. What had not been reported as mended before is as it was; run it again.\n");
    else if (res->status & SFS_CHECK_FAILED)
        return;
    else if (err->code)
        printf("%s\n", err->text);
    else if (res->found == 0 && res->status == 0)
        printf("Pool %s is in order.\n", res->pool);
    else
        printf("Pool %s: %" PRIu64 " problem%s found, %" PRIu64 " mended, %" PRIu64 " left.\n", res->pool, res->found, res->found == 1 ? "" : "s", res->mended, res->left);
    if (res->left && res->mended)
        printf("Run spacesfs-check again to see what is left.\n");
}

static void print_json(const struct report *r, const struct sfs_check_result *res, const struct sfs_error *err)
{
    json_t *all = json_pack("{s:s, s:i, s:I, s:I, s:I, s:s, s:O, s:O, s:s}", "pool", res->pool, "status", (int)res->status, "found", (json_int_t)res->found, "mended",
                            (json_int_t)res->mended, "left", (json_int_t)res->left, "saved", res->saved, "problems", r->problems, "notes", r->notes, "error", err->text);
    if (!all)
        sfs_ui_out_of_memory();
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

int sfs_check_report_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, bool json)
{
    struct report r = {.json = json, .problems = json_array(), .notes = json_array(), .env = env};
    struct sfs_check_ui ui = {on_note, on_ask, on_problem, on_progress, sfs_check_interrupted, &r};
    struct sfs_check_result res;
    struct sfs_error err = {0};
    sfs_progress_begin(&r.bar, env, "verifying data");
    sfs_check_run(env, which, opts, &ui, &res, &err);
    clear_line(&r);
    if (json)
        print_json(&r, &res, &err);
    else
        summary(&res, &err);
    if (res.status & SFS_CHECK_FAILED)
        say_error(&err);
    json_decref(r.problems);
    json_decref(r.notes);
    return (int)res.status;
}

/* --- snapshots --- */

static void print_snapshots(const struct sfs_check_snapshot *v, unsigned n)
{
    static const struct sfs_column columns[] = {{"NAME", false, NULL, 0}, {"DISK", false, NULL, 0}, {"TIME", false, NULL, 0}, {"COMMIT", true, NULL, 0}, {"STATE", false, NULL, 0}};
    struct sfs_table *t = sfs_table_new(columns, 5);
    char when[32];
    for (unsigned i = 0; i < n; i++) {
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", v[i].name);
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", v[i].disk);
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_time(v[i].time, when));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%" PRIu64, v[i].commit_seq);
        sfs_table_cell(t, v[i].good ? SFS_TONE_GOOD : SFS_TONE_BAD, "%s", v[i].good ? "good" : "damaged");
    }
    sfs_table_print(t, stdout, 0);
    sfs_table_free(t);
}

static void print_snapshots_json(const struct sfs_check_snapshot *v, unsigned n)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:I, s:b}", "name", v[i].name, "disk", v[i].disk, "time", (json_int_t)v[i].time, "commit", (json_int_t)v[i].commit_seq, "good", v[i].good));
    json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
}

int sfs_check_snapshots_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, bool json)
{
    struct sfs_check_snapshot *v = NULL;
    struct sfs_error err = {0};
    unsigned n = 0;
    if (sfs_check_snapshots(env, which, opts, &v, &n, &err)) {
        say_error(&err);
        return SFS_CHECK_FAILED;
    }
    if (json)
        print_snapshots_json(v, n);
    else if (n)
        print_snapshots(v, n);
    else
        printf("No snapshot of the catalog was found. The first one is taken a minute after a pool has been mounted.\n");
    free(v);
    return 0;
}
