/* spacesfs status: one verdict, then capacity, disks, spaces and jobs. */
#include "cli/command.h"

#include <string.h>
#include <time.h>
#include "cli/request.h"
#include "cli/show.h"

#define WATCH_NS 2000000000u
#define ENDED_JOBS_SHOWN 2u
#define BAR_COLUMNS 10u

static bool has_state(const json_t *job, const char *state)
{
    return !strcmp(sfs_json_text(job, "state"), state);
}

static void print_verdict(const json_t *status)
{
    const char *health = sfs_json_text(status, "health");
    enum sfs_tone tone = sfs_show_health_tone(health);
    char clean[2048];
    printf("%s%s: %s%s\n", sfs_ui_tone(stdout, tone),
           sfs_ui_clean(sfs_json_text(status, "pool"), clean, sizeof(clean)),
           !strcmp(health, "healthy")    ? "HEALTHY"
           : !strcmp(health, "degraded") ? "DEGRADED"
                                         : "AT RISK",
           sfs_ui_tone_end(stdout, tone));
    sfs_ui_clean(sfs_json_text(status, "verdict"), clean, sizeof(clean));
    if (*clean) {
        printf("  ");
        sfs_ui_wrap(clean, 2, 2);
    }
}

static void print_running(const struct sfs_cli *c, const json_t *status)
{
    size_t i;
    json_t *job;
    json_array_foreach(sfs_json_array(status, "jobs"), i, job)
    {
        char bar[96], done[24], total[24], rate[24], left[32];
        uint64_t has = sfs_json_u64(job, "done"), all = sfs_json_u64(job, "total"),
                 speed = sfs_json_u64(job, "rate_bytes_s"), eta = sfs_json_u64(job, "eta_s");
        if (!has_state(job, "running") || !all)
            continue;
        printf("  %-8s  %s %u %%  %s of %s", sfs_json_text(job, "kind"),
               sfs_ui_bar(has, all, BAR_COLUMNS, bar, sizeof(bar)), sfs_ui_percent(has, all),
               sfs_ui_size(c, has, done), sfs_ui_size(c, all, total));
        if (speed)
            printf(", %s/s", sfs_ui_size(c, speed, rate));
        if (eta)
            printf(", %s left", sfs_ui_duration(eta, left));
        putchar('\n');
    }
}

/* "  capacity  text", wrapped. */
static void print_fact(const char *name, const char *text)
{
    printf("  %-8s  ", name);
    sfs_ui_wrap(text, 12, 12);
}

static bool any_degraded(const json_t *status)
{
    size_t i;
    json_t *space;
    json_array_foreach(sfs_json_array(status, "spaces"), i, space)
        if (sfs_json_u64(space, "groups_degraded"))
            return true;
    return false;
}

static void print_capacity(const struct sfs_cli *c, const json_t *status)
{
    char bar[96], used_text[24], total_text[24], free_text[24], promised_text[24], text[300];
    uint64_t used = sfs_json_u64(status, "used_bytes"), total = sfs_json_u64(status, "total_bytes"),
             promised = sfs_json_u64(status, "promised_bytes");
    snprintf(text, sizeof(text), "%s %u %%  %s of %s raw used, %s free",
             sfs_ui_bar(used, total ? total : 1, BAR_COLUMNS, bar, sizeof(bar)), total ? sfs_ui_percent(used, total) : 0,
             sfs_ui_size(c, used, used_text), sfs_ui_size(c, total, total_text),
             sfs_ui_size(c, sfs_json_u64(status, "free_bytes"), free_text));
    print_fact("capacity", text);
    if (promised > total) {
        snprintf(text, sizeof(text), "%s to the spaces: more than there is",
                 sfs_ui_size(c, promised, promised_text));
        print_fact("promised", text);
    }
    unsigned long long replicas = sfs_json_u64(status, "replicas"),
                       wanted = sfs_json_u64(status, "replicas_wanted");
    int n = snprintf(text, sizeof(text), "%llu replica%s", replicas, replicas == 1 ? "" : "s");
    if (replicas < wanted)
        n += snprintf(text + n, sizeof(text) - (size_t)n, " (%llu wanted)", wanted);
    snprintf(text + n, sizeof(text) - (size_t)n, ", epoch %llu", (unsigned long long)sfs_json_u64(status, "epoch"));
    print_fact("catalog", text);
    if (json_array_size(sfs_json_array(status, "spaces")) &&
        json_array_size(sfs_json_array(status, "disks")) > 1) {
        snprintf(text, sizeof(text), "the loss of the fullest disk %s",
                 sfs_json_true(status, "can_heal_largest") ? "could be healed now"
                 : any_degraded(status)                    ? "could not be healed now; what is lost already comes first"
                                                           : "could not be healed now; add a disk to change that");
        print_fact("reserve", text);
    }
}

/* What ails each disk that isn't online. */
static void print_lost_disks(const json_t *status)
{
    size_t i;
    json_t *disk;
    json_array_foreach(sfs_json_array(status, "disks"), i, disk)
    {
        char clean[1024], line[1200], when[32];
        uint64_t held = sfs_json_u64(disk, "slabs_held"), since = sfs_json_u64(disk, "lost_since");
        if (!strcmp(sfs_json_text(disk, "state"), "online"))
            continue;
        int n = snprintf(line, sizeof(line), "%s:", sfs_json_text(disk, "name"));
        if (since)
            n += snprintf(line + n, sizeof(line) - (size_t)n, " lost since %s;",
                          sfs_ui_time((int64_t)since, when));
        if (*sfs_json_text(disk, "why"))
            n += snprintf(line + n, sizeof(line) - (size_t)n, " %s;", sfs_json_text(disk, "why"));
        if (held)
            snprintf(line + n, sizeof(line) - (size_t)n, " %llu slab%s wait%s for it or for healing.",
                     (unsigned long long)held, held == 1 ? "" : "s", held == 1 ? "s" : "");
        else
            snprintf(line + n, sizeof(line) - (size_t)n, " no data depends on it any more.");
        printf("  ");
        sfs_ui_wrap(sfs_ui_clean(line, clean, sizeof(clean)), 2, 4);
    }
}

static bool any_disk_missing(const json_t *status)
{
    size_t i;
    json_t *disk;
    json_array_foreach(sfs_json_array(status, "disks"), i, disk)
    {
        if (strcmp(sfs_json_text(disk, "state"), "online") != 0)
            return true;
    }
    return false;
}

static bool any_copy_missing(const json_t *status)
{
    size_t i;
    json_t *space;
    json_array_foreach(sfs_json_array(status, "spaces"), i, space)
    {
        if (sfs_json_u64(space, "groups_degraded") || sfs_json_u64(space, "groups_lost"))
            return true;
    }
    return false;
}

static bool any_job_running(const json_t *status)
{
    size_t i;
    json_t *job;
    json_array_foreach(sfs_json_array(status, "jobs"), i, job)
    {
        if (has_state(job, "running"))
            return true;
    }
    return false;
}

#define DAMAGED_SHOWN 10u

/* The first files that can't be read in full. */
static void print_damage(const struct sfs_cli *c, const json_t *status)
{
    const json_t *damage = json_object_get(status, "damage");
    uint64_t count = sfs_json_u64(damage, "count");
    if (!count)
        return;
    putchar('\n');
    sfs_show_damage(c, damage, DAMAGED_SHOWN, 2);
    if (count > DAMAGED_SHOWN || sfs_json_true(damage, "more"))
        printf("  ... and more: spacesfs damage %s\n", sfs_json_text(status, "pool"));
}

/* The command to type next, when there is one. */
static void print_next(const struct sfs_cli *c, const json_t *status)
{
    const char *pool = sfs_json_text(status, "pool");
    bool missing = any_disk_missing(status), copies = any_copy_missing(status);
    char text[700];
    int n = snprintf(text, sizeof(text), "Next: %s", missing ? "bring the missing disk back if you can" : "");
    if (!strcmp(sfs_json_text(status, "health"), "healthy"))
        return;
    if (any_job_running(status))
        n = snprintf(text, sizeof(text), "Next: wait; follow it with `spacesfs jobs %s --watch`", pool);
    else if (copies)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%sheal without waiting: `spacesfs heal %s`%s",
                      missing ? ", or " : "", pool,
                      c->by_daemon ? "" : " (by itself the pool heals only while it is mounted)");
    else if (missing)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ", or add another: `spacesfs disk add %s DISK`",
                      pool);
    else
        return; /* it is being seen to, and there is nothing to type */
    snprintf(text + n, sizeof(text) - (size_t)n, "; what happened: `spacesfs events %s`.", pool);
    printf("\n  ");
    sfs_ui_wrap(text, 2, 8);
}

static void print_status(const struct sfs_cli *c, const json_t *status)
{
    print_verdict(status);
    putchar('\n');
    print_running(c, status);
    print_capacity(c, status);
    putchar('\n');
    sfs_show_disks(c, status, 2);
    print_lost_disks(status);
    putchar('\n');
    sfs_show_spaces(c, &status, 1, false, 2);
    print_damage(c, status);
    sfs_show_jobs(c, status, ENDED_JOBS_SHOWN, 2);
    print_next(c, status);
}

static int exit_of(const json_t *status)
{
    const char *health = sfs_json_text(status, "health");
    return !strcmp(health, "healthy") ? SFS_EXIT_OK : !strcmp(health, "degraded") ? 1 : 2;
}

static void begin_screen(const struct sfs_cli *c)
{
    char when[32];
    if (!c->watch || c->json)
        return;
    if (sfs_ui_is_terminal(stdout))
        printf("\033[H\033[J");
    printf("%s, every 2 s; end with Ctrl-C\n\n", sfs_ui_time((int64_t)time(NULL), when));
}

static int status_one(struct sfs_cli *c)
{
    json_t *status = sfs_request(c, c->args[0], json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_UNKNOWN;
    begin_screen(c);
    if (c->json)
        sfs_json_print(c, status);
    else
        print_status(c, status);
    int code = exit_of(status);
    json_decref(status);
    return code;
}

/* The worst of all: at risk, then could not tell, then degraded. */
static int worse(int a, int b)
{
    static const int rank[] = {0, 1, 3, 2};
    return rank[a] >= rank[b] ? a : b;
}

static int status_all(struct sfs_cli *c)
{
    json_t *pools = sfs_show_collect(c), *status;
    int code = SFS_EXIT_OK;
    size_t i;
    begin_screen(c);
    if (c->json)
        sfs_show_json_pools(c, pools);
    else if (json_array_size(pools) == 0)
        sfs_show_no_pools();
    json_array_foreach(pools, i, status)
    {
        bool known = !json_object_get(status, "error");
        code = worse(code, known ? exit_of(status) : SFS_EXIT_UNKNOWN);
        if (c->json || !known)
            continue;
        if (i)
            putchar('\n');
        c->by_daemon = sfs_json_true(status, "mounted");
        print_status(c, status);
    }
    sfs_show_errors(pools);
    json_decref(pools);
    return code;
}

static int watched(struct sfs_cli *c, int (*once)(struct sfs_cli *c))
{
    int code = once(c);
    while (c->watch && fflush(stdout) == 0) {
        sfs_env_sleep_ns(c->env, WATCH_NS);
        code = once(c);
    }
    return code;
}

int sfs_cmd_status(struct sfs_cli *c)
{
    return watched(c, c->nargs ? status_one : status_all);
}

static int jobs_once(struct sfs_cli *c)
{
    json_t *status = sfs_request(c, c->args[0], json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    begin_screen(c);
    if (c->json) {
        json_t *jobs = json_pack("{s:s,s:O?}", "pool", sfs_json_text(status, "pool"), "jobs",
                                 sfs_json_array(status, "jobs"));
        if (!jobs)
            sfs_ui_out_of_memory();
        sfs_json_print(c, jobs);
        json_decref(jobs);
    } else if (json_array_size(sfs_json_array(status, "jobs"))) {
        sfs_show_jobs(c, status, UINT32_MAX, 0);
    } else {
        printf("%s: no background work has run yet.\n", sfs_json_text(status, "pool"));
    }
    json_decref(status);
    return SFS_EXIT_OK;
}

int sfs_cmd_jobs(struct sfs_cli *c)
{
    return watched(c, jobs_once);
}
