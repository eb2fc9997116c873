/* spacesfs metrics: the state of pools as text for Prometheus (its exposition format 0.0.4), from the same status
 * that `spacesfs status --json` prints. A metric is a line of a table: where it is found, and what it means. */
#include "cli/command.h"

#include <string.h>
#include "cli/request.h"
#include "cli/show.h"
#include "cli/ui.h"

enum scope { OF_POOL, OF_DISK, OF_SPACE };

struct metric {
    enum scope scope;
    const char *name, *type, *help;
    const char *key;   /* in the status: a number, a flag, or text that `when` is compared with */
    const char *when;  /* 1 when the text is this; "health": the place of a health's name; of an object: its member */
    const char *label; /* one label more, as name="value" */
};

static const struct metric metrics[] = {
    {OF_POOL, "pool_health", "gauge", "How the pool is: 0 healthy, 1 degraded, 2 data at risk or lost.", "health",
     "health", NULL},
    {OF_POOL, "pool_readonly", "gauge", "1 when nothing can be written to the pool.", "readonly", NULL, NULL},
    {OF_POOL, "pool_mounted", "gauge", "1 when a daemon serves the pool.", "mounted", NULL, NULL},
    {OF_POOL, "pool_total_bytes", "gauge", "Raw size of all disks.", "total_bytes", NULL, NULL},
    {OF_POOL, "pool_used_bytes", "gauge", "Raw bytes in use, all copies counted.", "used_bytes", NULL, NULL},
    {OF_POOL, "pool_free_bytes", "gauge", "Raw bytes that are free.", "free_bytes", NULL, NULL},
    {OF_POOL, "pool_promised_bytes", "gauge", "Raw bytes that the sizes of the spaces add up to.", "promised_bytes",
     NULL, NULL},
    {OF_POOL, "pool_catalog_replicas", "gauge", "Disks that hold a replica of the catalog.", "replicas", NULL, NULL},
    {OF_POOL, "pool_catalog_replicas_wanted", "gauge", "How many should.", "replicas_wanted", NULL, NULL},
    {OF_POOL, "pool_can_heal_largest", "gauge", "1 when the loss of the fullest disk could be healed now.",
     "can_heal_largest", NULL, NULL},
    {OF_POOL, "pool_damaged_files", "gauge", "Files that can't be read in full.", "damage", "count", NULL},
    {OF_DISK, "disk_online", "gauge", "1 when the disk is in use.", "state", "online", NULL},
    {OF_DISK, "disk_total_bytes", "gauge", "Size of the disk.", "total_bytes", NULL, NULL},
    {OF_DISK, "disk_used_bytes", "gauge", "Bytes in use on the disk.", "used_bytes", NULL, NULL},
    {OF_DISK, "disk_free_bytes", "gauge", "Bytes free on the disk.", "free_bytes", NULL, NULL},
    {OF_DISK, "disk_slabs", "gauge", "Slabs placed on the disk.", "slabs_held", NULL, NULL},
    {OF_DISK, "disk_lost_since_seconds", "gauge", "When the disk was lost, in Unix time; 0: it isn't.", "lost_since",
     NULL, NULL},
    {OF_DISK, "disk_errors_total", "counter", "Errors of the disk since it was added.", "read_errors", NULL,
     "type=\"read\""},
    {OF_DISK, "disk_errors_total", NULL, NULL, "write_errors", NULL, "type=\"write\""},
    {OF_DISK, "disk_errors_total", NULL, NULL, "checksum_errors", NULL, "type=\"checksum\""},
    {OF_SPACE, "space_health", "gauge", "How the space is: 0 healthy, 1 degraded, 2 data at risk or lost.", "health",
     "health", NULL},
    {OF_SPACE, "space_total_bytes", "gauge", "Size of the space, as df shows it.", "total_bytes", NULL, NULL},
    {OF_SPACE, "space_used_bytes", "gauge", "Bytes of files.", "used_bytes", NULL, NULL},
    {OF_SPACE, "space_avail_bytes", "gauge", "Bytes that can be written.", "avail_bytes", NULL, NULL},
    {OF_SPACE, "space_raw_bytes", "gauge", "Raw bytes on the disks, all copies counted.", "raw_bytes", NULL, NULL},
    {OF_SPACE, "space_inodes", "gauge", "Files, directories and other inodes.", "inodes", NULL, NULL},
    {OF_SPACE, "space_groups", "gauge", "Slab groups of the space.", "groups", NULL, NULL},
    {OF_SPACE, "space_groups_degraded", "gauge", "Slab groups that lack a copy.", "groups_degraded", NULL, NULL},
    {OF_SPACE, "space_groups_lost", "gauge", "Slab groups that lack all copies of something.", "groups_lost", NULL,
     NULL},
    {OF_SPACE, "space_mounts", "gauge", "Where the space is mounted: how many directories.", "mounts", NULL, NULL},
};

static void print_label(const char *name, const char *value, const char *before)
{
    printf("%s%s=\"", before, name);
    for (; *value; value++) {
        if (*value == '\n')
            fputs("\\n", stdout);
        else if (*value == '"' || *value == '\\')
            printf("\\%c", *value);
        else
            putchar(*value);
    }
    putchar('"');
}

static uint64_t value_of(const struct metric *m, const json_t *object)
{
    const json_t *value = json_object_get(object, m->key);
    const char *text = sfs_json_text(object, m->key);
    if (json_is_object(value))
        return sfs_json_u64(value, m->when);
    if (m->when && !strcmp(m->when, "health"))
        return !strcmp(text, "healthy") ? 0 : !strcmp(text, "degraded") ? 1 : 2;
    if (m->when)
        return !strcmp(text, m->when);
    if (json_is_array(value))
        return json_array_size(value);
    return json_is_boolean(value) ? json_is_true(value) : sfs_json_u64(object, m->key);
}

static void print_sample(const struct metric *m, const json_t *pool, const char *kind, const json_t *object)
{
    printf("spacesfs_%s", m->name);
    print_label("pool", sfs_json_text(pool, "pool"), "{");
    if (kind)
        print_label(kind, sfs_json_text(object, "name"), ",");
    printf("%s%s} %llu\n", m->label ? "," : "", m->label ? m->label : "", (unsigned long long)value_of(m, object));
}

static void print_metric(const struct metric *m, const json_t *pools)
{
    size_t i, k;
    json_t *pool, *object;
    if (m->help)
        printf("# HELP spacesfs_%s %s\n# TYPE spacesfs_%s %s\n", m->name, m->help, m->name, m->type);
    json_array_foreach(pools, i, pool)
    {
        if (json_object_get(pool, "error"))
            continue;
        if (m->scope == OF_POOL)
            print_sample(m, pool, NULL, pool);
        json_array_foreach(sfs_json_array(pool, m->scope == OF_DISK ? "disks" : "spaces"), k, object)
        {
            if (m->scope != OF_POOL)
                print_sample(m, pool, m->scope == OF_DISK ? "disk" : "space", object);
        }
    }
}

/* Work under way; a pool at rest has no such lines. */
static void print_jobs(const json_t *pools, const char *key, const char *help)
{
    size_t i, k;
    json_t *pool, *job;
    printf("# HELP spacesfs_job_%s_bytes %s\n# TYPE spacesfs_job_%s_bytes gauge\n", key, help, key);
    json_array_foreach(pools, i, pool)
        json_array_foreach(sfs_json_array(pool, "jobs"), k, job)
        {
            if (strcmp(sfs_json_text(job, "state"), "running") != 0)
                continue;
            printf("spacesfs_job_%s_bytes", key);
            print_label("pool", sfs_json_text(pool, "pool"), "{");
            print_label("kind", sfs_json_text(job, "kind"), ",");
            printf("} %llu\n", (unsigned long long)sfs_json_u64(job, key));
        }
}

static void print_all(const json_t *pools)
{
    size_t i;
    json_t *pool;
    printf("# HELP spacesfs_pool_up 1 when the state of the pool could be read.\n# TYPE spacesfs_pool_up gauge\n");
    json_array_foreach(pools, i, pool)
    {
        printf("spacesfs_pool_up");
        print_label("pool", sfs_json_text(pool, "pool"), "{");
        printf("} %d\n", json_object_get(pool, "error") == NULL);
    }
    for (i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        print_metric(&metrics[i], pools);
    print_jobs(pools, "done", "What a job under way has done.");
    print_jobs(pools, "total", "What it has to do.");
}

static json_t *only(struct sfs_cli *c, const char *which)
{
    json_t *status = sfs_request(c, which, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return NULL;
    json_object_set_new(status, "mounted", json_boolean(c->by_daemon));
    return json_pack("[o]", status);
}

int sfs_cmd_metrics(struct sfs_cli *c)
{
    json_t *pools = c->nargs ? only(c, c->args[0]) : sfs_show_collect(c);
    if (!pools)
        return SFS_EXIT_FAILED;
    print_all(pools);
    sfs_show_errors(pools);
    json_decref(pools);
    return SFS_EXIT_OK;
}
