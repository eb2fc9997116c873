#include "cli/show.h"

#include <string.h>
#include "cli/request.h"
#include "cli/table.h"
#include "fs/pool/registry.h"

enum sfs_tone sfs_show_health_tone(const char *health)
{
    if (!strcmp(health, "healthy"))
        return SFS_TONE_GOOD;
    return !strcmp(health, "degraded") ? SFS_TONE_WARN : SFS_TONE_BAD;
}

/* --- disks ----------------------------------------------------------------------------------------------- */
static void disk_row(const struct sfs_cli *c, struct sfs_table *t, const json_t *disk)
{
    char size[24], used[24], free_text[24];
    const char *state = sfs_json_text(disk, "state");
    bool online = !strcmp(state, "online");
    enum sfs_tone tone = online ? SFS_TONE_GOOD : SFS_TONE_BAD;
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(disk, "name"));
    sfs_table_cell(t, tone, "%s", !strcmp(state, "gone") ? "missing" : state);
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(disk, "kind"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(disk, "media"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(disk, "usage"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(disk, "total_bytes"), size));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(disk, "used_bytes"), used));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s",
                   online ? sfs_ui_size(c, sfs_json_u64(disk, "free_bytes"), free_text) : "-");
    uint64_t errors[3] = {sfs_json_u64(disk, "read_errors"), sfs_json_u64(disk, "write_errors"),
                          sfs_json_u64(disk, "checksum_errors")};
    sfs_table_cell(t, errors[0] || errors[1] || errors[2] ? SFS_TONE_WARN : SFS_TONE_PLAIN, "%llu/%llu/%llu",
                   (unsigned long long)errors[0], (unsigned long long)errors[1],
                   (unsigned long long)errors[2]);
    sfs_table_cell(t, SFS_TONE_DIM, "%s", sfs_json_text(disk, "path"));
}

void sfs_show_disks(const struct sfs_cli *c, const json_t *status, unsigned indent)
{
    static const struct sfs_column columns[] = {
        {"DISK", false, NULL, SFS_FIT_CUT_END},
        {"STATE", false, NULL, SFS_FIT_KEEP},
        {"KIND", false, NULL, SFS_FIT_DROP},
        {"MEDIA", false, "unknown", SFS_FIT_DROP},
        {"USAGE", false, "auto", SFS_FIT_KEEP},
        {"SIZE", true, NULL, SFS_FIT_KEEP},
        {"USED", true, NULL, SFS_FIT_KEEP},
        {"FREE", true, NULL, SFS_FIT_KEEP},
        {"ERRORS R/W/SUM", true, "0/0/0", SFS_FIT_KEEP},
        {"PATH", false, NULL, SFS_FIT_CUT_BEGIN}};
    struct sfs_table *t = sfs_table_new(columns, 10);
    size_t i;
    json_t *disk;
    json_array_foreach(sfs_json_array(status, "disks"), i, disk) disk_row(c, t, disk);
    sfs_table_print(t, stdout, indent);
    sfs_table_free(t);
}

/* --- spaces ---------------------------------------------------------------------------------------------- */
static void space_row(const struct sfs_cli *c, struct sfs_table *t, const json_t *status, const json_t *space,
                      bool with_pool)
{
    char total[24], used[24], avail[24], size[24], raw[24];
    const char *health = sfs_json_text(space, "health");
    uint64_t columns = sfs_json_u64(space, "columns"), size_bytes = sfs_json_u64(space, "size_bytes");
    const json_t *mounts = sfs_json_array(space, "mounts");
    if (with_pool)
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s/%s", sfs_json_text(status, "pool"),
                       sfs_json_text(space, "name"));
    else
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "name"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "resiliency"));
    if (columns)
        sfs_table_cell(t, SFS_TONE_PLAIN, "%llu", (unsigned long long)columns);
    else
        sfs_table_cell(t, SFS_TONE_PLAIN, "auto");
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "provisioning"));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "compression"));
    sfs_table_cell(t, sfs_show_health_tone(health), "%s", health);
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", size_bytes ? sfs_ui_size(c, size_bytes, size) : "-");
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(space, "total_bytes"), total));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(space, "used_bytes"), used));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(space, "avail_bytes"), avail));
    sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(space, "raw_bytes"), raw));
    const char *dir = json_string_value(json_array_get(mounts, 0));
    sfs_table_cell(t, SFS_TONE_DIM, "%s%s", dir ? dir : "-", json_array_size(mounts) > 1 ? ", ..." : "");
}

void sfs_show_spaces(const struct sfs_cli *c, const json_t *const *statuses, unsigned n, bool with_pool,
                     unsigned indent)
{
    static const struct sfs_column columns[] = {
        {"SPACE", false, NULL, SFS_FIT_CUT_END},
        {"RESILIENCY", false, NULL, SFS_FIT_KEEP},
        {"COLUMNS", false, "auto", SFS_FIT_DROP},
        {"PROVISIONING", false, "thin", SFS_FIT_DROP},
        {"COMPRESSION", false, "off", SFS_FIT_DROP},
        {"HEALTH", false, NULL, SFS_FIT_KEEP},
        {"SIZE", true, "-", SFS_FIT_DROP},
        {"TOTAL", true, NULL, SFS_FIT_KEEP},
        {"USED", true, NULL, SFS_FIT_KEEP},
        {"AVAIL", true, NULL, SFS_FIT_KEEP},
        {"ON DISK", true, NULL, SFS_FIT_DROP},
        {"MOUNTED ON", false, "-", SFS_FIT_CUT_BEGIN}};
    struct sfs_table *t = sfs_table_new(columns, 12);
    for (unsigned k = 0; k < n; k++) {
        size_t i;
        json_t *space;
        json_array_foreach(sfs_json_array(statuses[k], "spaces"), i, space)
            space_row(c, t, statuses[k], space, with_pool);
    }
    if (sfs_table_rows(t))
        sfs_table_print(t, stdout, indent);
    else
        printf("%*sNo spaces yet. Make one: spacesfs space create %s/NAME --resiliency mirror2\n",
               (int)indent, "", n == 1 ? sfs_json_text(statuses[0], "pool") : "POOL");
    sfs_table_free(t);
}

/* --- jobs ------------------------------------------------------------------------------------------------ */
/* list: "disks" or "spaces". NULL: none has that number. */
static const char *name_in(const json_t *status, const char *list, unsigned long long id)
{
    size_t i;
    json_t *entry;
    json_array_foreach(sfs_json_array(status, list), i, entry)
    {
        if (sfs_json_u64(entry, "id") == id)
            return sfs_json_text(entry, "name");
    }
    return NULL;
}

/* What a job is about, for people: a disk's or a space's number becomes its name, if it still has one. */
static const char *job_subject(const json_t *status, const json_t *job, char *out, size_t cap)
{
    const char *what = sfs_json_text(job, "what"), *to = strstr(what, "to=");
    unsigned long long id, other;
    snprintf(out, cap, "%s", what);
    if (sscanf(what, "space=%llu", &id) == 1) {
        const char *space = name_in(status, "spaces", id);
        snprintf(out, cap, "%s%s", space ? "space " : "a space that is gone", space ? space : "");
        return out;
    }
    if (sscanf(what, "disk=%llu", &id) != 1)
        return out;
    const char *name = name_in(status, "disks", id), *by = to && sscanf(to, "to=%llu", &other) == 1 ? name_in(status, "disks", other) : NULL;
    if (name)
        snprintf(out, cap, "disk %s%s%s", name, by ? " by " : "", by ? by : "");
    else
        snprintf(out, cap, "a disk that has left");
    return out;
}

void sfs_show_jobs(const struct sfs_cli *c, const json_t *status, unsigned ended_max, unsigned indent)
{
    static const struct sfs_column columns[] = {
        {"ID", true, NULL, SFS_FIT_KEEP},
        {"JOB", false, NULL, SFS_FIT_KEEP},
        {"ABOUT", false, "", SFS_FIT_CUT_END},
        {"STATE", false, NULL, SFS_FIT_KEEP},
        {"DONE", true, NULL, SFS_FIT_KEEP},
        {"RATE", true, "-", SFS_FIT_KEEP},
        {"LEFT", true, "-", SFS_FIT_KEEP},
        {"STARTED", false, NULL, SFS_FIT_DROP},
        {"RESULT", false, "", SFS_FIT_WRAP}};
    struct sfs_table *t = sfs_table_new(columns, 9);
    unsigned ended = 0;
    size_t i;
    json_t *job;
    json_array_foreach(sfs_json_array(status, "jobs"), i, job)
    {
        char text[32], rate[24], subject[160];
        const char *state = sfs_json_text(job, "state");
        bool running = !strcmp(state, "running") || !strcmp(state, "paused") || !strcmp(state, "waiting");
        uint64_t done = sfs_json_u64(job, "done"), total = sfs_json_u64(job, "total");
        uint64_t speed = sfs_json_u64(job, "rate_bytes_s"), eta = sfs_json_u64(job, "eta_s");
        if (!running && ended++ >= ended_max)
            continue;
        sfs_table_cell(t, SFS_TONE_PLAIN, "%llu", (unsigned long long)sfs_json_u64(job, "id"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(job, "kind"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", job_subject(status, job, subject, sizeof(subject)));
        sfs_table_cell(t,
                       running                    ? SFS_TONE_WARN
                       : !strcmp(state, "failed") ? SFS_TONE_BAD
                                                  : SFS_TONE_GOOD,
                       "%s", state);
        if (done < total)
            sfs_table_cell(t, SFS_TONE_PLAIN, "%u %% of %s", sfs_ui_percent(done, total),
                           sfs_ui_size(c, total, rate));
        else
            sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, done, rate));
        if (running && speed)
            sfs_table_cell(t, SFS_TONE_PLAIN, "%s/s", sfs_ui_size(c, speed, rate));
        else
            sfs_table_cell(t, SFS_TONE_PLAIN, "-");
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", running && eta ? sfs_ui_duration(eta, text) : "-");
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_time((int64_t)sfs_json_u64(job, "started"), text));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(job, "result"));
    }
    if (sfs_table_rows(t)) {
        if (indent)
            putchar('\n');
        sfs_table_print(t, stdout, indent);
    }
    sfs_table_free(t);
}

/* --- pools known here ------------------------------------------------------------------------------------ */
struct collect {
    struct sfs_cli *c;
    json_t *pools;
};

static int collect_one(const struct sfs_registry_pool *known, void *ctx)
{
    struct collect *k = ctx;
    struct sfs_error err = {0};
    json_t *status;
    if (sfs_request_try(k->c, known->name, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY, &status,
                        &err) == 0)
        json_object_set_new(status, "mounted", json_boolean(k->c->by_daemon));
    else
        status = json_pack("{s:s,s:s}", "pool", known->name, "error", err.text);
    if (!status || json_array_append_new(k->pools, status))
        sfs_ui_out_of_memory();
    return 0;
}

json_t *sfs_show_collect(struct sfs_cli *c)
{
    struct collect k = {.c = c, .pools = json_array()};
    if (!k.pools)
        sfs_ui_out_of_memory();
    int rc = sfs_registry_each(c->state_dir, collect_one, &k);
    if (rc < 0 && rc != -ENOENT)
        sfs_ui_error("%s: the list of pools can't be read: %s.", c->state_dir, strerror(-rc));
    return k.pools;
}

void sfs_show_json_pools(const struct sfs_cli *c, json_t *pools)
{
    json_t *all = json_pack("{s:O}", "pools", pools);
    if (!all)
        sfs_ui_out_of_memory();
    sfs_json_print(c, all);
    json_decref(all);
}

void sfs_show_errors(const json_t *pools)
{
    size_t i;
    json_t *pool;
    json_array_foreach(pools, i, pool)
    {
        if (json_object_get(pool, "error"))
            sfs_ui_error("%s", sfs_json_text(pool, "error"));
    }
}

void sfs_show_no_pools(void)
{
    printf("No pools are known on this host. Make one (spacesfs pool create POOL DISK...) or find one "
           "(spacesfs pool import [PATH...]).\n");
}
