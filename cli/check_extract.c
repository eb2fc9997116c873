#include "cli/check_extract.h"

#include <inttypes.h>
#include <jansson.h>

#include "cli/check_report.h"
#include "cli/progress.h"
#include "cli/ui.h"
#include "fs/check/extract.h"

struct state {
    bool json;
    json_t *notes;
    struct sfs_progress bar;
};

static void on_note(void *ctx, const char *text)
{
    struct state *s = ctx;
    char clean[4096];
    sfs_progress_end(&s->bar);
    if (s->json)
        json_array_append_new(s->notes, json_string(sfs_ui_clean(text, clean, sizeof(clean))));
    else
        printf("%s\n", sfs_ui_clean(text, clean, sizeof(clean)));
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    struct state *s = ctx;
    (void)what;
    sfs_progress_show(&s->bar, done, total, "copied");
}

static void print_json(const struct state *s, const struct sfs_extract_result *r, unsigned status, const struct sfs_error *err)
{
    json_t *all = json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:s}", "pool", r->pool, "status", (int)status, "files", (json_int_t)r->files, "directories",
                            (json_int_t)r->directories, "others", (json_int_t)r->others, "bytes", (json_int_t)r->bytes, "damaged", (json_int_t)r->damaged, "lost_bytes",
                            (json_int_t)r->lost_bytes, "failed", (json_int_t)r->failed, "notes", s->notes, "error", err->text);
    if (!all)
        sfs_ui_out_of_memory();
    json_dumpf(all, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(all);
}

static void print_text(const struct sfs_extract_result *r, const char *to, unsigned status)
{
    if (status & SFS_CHECK_CANCELLED)
        printf("Interrupted. ");
    if (!(status & SFS_CHECK_FAILED) || r->files)
        printf("Copied from pool %s to %s: %" PRIu64 " files, %" PRIu64 " directories, %" PRIu64 " others.\n", r->pool, to, r->files, r->directories, r->others);
    if (r->damaged)
        printf("Of %" PRIu64 " files something could not be read: they are named NAME.damaged, and %s/damaged.txt says what is lost.\n", r->damaged, to);
    if (r->failed)
        printf("%" PRIu64 " could not be copied at all; they are named above.\n", r->failed);
}

int sfs_check_extract_main(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const char *to, bool json)
{
    struct state s = {.json = json, .notes = json_array()};
    struct sfs_check_ui ui = {.note = on_note, .progress = on_progress, .cancelled = sfs_check_interrupted, .ctx = &s};
    struct sfs_extract_result r;
    struct sfs_error err = {0};
    char clean[4096];
    sfs_progress_begin(&s.bar, env, "copied");
    unsigned status = sfs_check_extract(env, which, opts, to, &ui, &r, &err);
    sfs_progress_end(&s.bar);
    if (json)
        print_json(&s, &r, status, &err);
    else
        print_text(&r, to, status);
    fflush(stdout);
    if (status & SFS_CHECK_FAILED)
        fprintf(stderr, "spacesfs-check: %s\n", sfs_ui_clean(err.text, clean, sizeof(clean)));
    json_decref(s.notes);
    return (int)status;
}
