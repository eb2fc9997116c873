/* Spaces and pool properties. Bad input gets words that name the thing and say what to do. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/size.h"
#include "fs/data/codec.h"

#define INTERLEAVE_DEFAULT (256u << 10)
#define INTERLEAVE_MAX (16u << 20)
#define SCRUB_EVERY_MIN_NS 3600000000000ull

int sfs_pool_writable(struct sfs_pool *p, struct sfs_error *err)
{
    if (p->readonly)
        return sfs_error_set(err, -EROFS, "pool %s is open read-only.", p->name);
    if (sfs_data_readonly(p->data))
        return sfs_error_set(err, -EROFS, "pool %s is read-only: %s.", p->name, sfs_data_readonly_why(p->data));
    return 0;
}

/* --- settings of a space ------------------------------------------------------------------------------------------------------------------------- */

struct disk_count {
    unsigned all, online;
};

static struct disk_count count_disks(struct sfs_pool *p)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    struct disk_count c = {0};
    for (unsigned i = 0; i < n; i++) {
        c.all += v[i].row.usage == SFS_USAGE_AUTO;
        c.online += v[i].online && v[i].row.usage == SFS_USAGE_AUTO;
    }
    return c;
}

static int check_layout(struct sfs_pool *p, const struct sfs_space_row *row, struct sfs_error *err)
{
    enum sfs_resiliency r = row->resiliency;
    unsigned copies = sfs_resiliency_copies(r), min = sfs_resiliency_min_disks(r);
    struct disk_count c = count_disks(p);
    if (c.all < min)
        return sfs_error_set(err, -EINVAL, "%s needs at least %u disks; pool %s has %u. Add disks, or choose another resiliency.", sfs_resiliency_name(r), min, p->name, c.all);
    if (row->columns && row->columns < sfs_resiliency_min_columns(r))
        return sfs_error_set(err, -EINVAL, "%s needs at least %u columns.", sfs_resiliency_name(r), sfs_resiliency_min_columns(r));
    if (row->columns > SFS_MAX_COLUMNS || row->columns * copies > SFS_MAX_SLABS_PER_GROUP)
        return sfs_error_set(err, -EINVAL, "%u columns are too many: at most %u.", row->columns, SFS_MAX_COLUMNS);
    if (row->columns * copies > c.all)
        return sfs_error_set(err, -EINVAL, "%u columns of %s need %u disks; pool %s has %u. Use fewer columns, or auto.", row->columns, sfs_resiliency_name(r), row->columns * copies, p->name, c.all);
    return 0;
}

/* A fixed space is sure of its size: no other gets that room. */
static int check_fixed(struct sfs_pool *p, const struct sfs_space_row *row, struct sfs_error *err)
{
    char want[16], have[16];
    if (!row->fixed)
        return 0;
    if (!row->size_bytes)
        return sfs_error_set(err, -EINVAL, "fixed provisioning needs a size: add --size.");
    uint64_t most = sfs_volume_could_hold(p->data, row);
    if (row->size_bytes <= most)
        return 0;
    return sfs_error_set(err, -ENOSPC, "%s don't fit: with %s, pool %s has room for %s beside what is stored and promised. Choose a smaller size, add disks, or use thin provisioning.",
                         sfs_size_format(row->size_bytes, want), sfs_resiliency_name(row->resiliency), p->name, sfs_size_format(most, have));
}

static int check_settings(struct sfs_pool *p, const struct sfs_space_row *row, struct sfs_error *err)
{
    if (row->codec == SFS_CODEC_ZSTD && (row->codec_level < SFS_ZSTD_LEVEL_MIN || row->codec_level > SFS_ZSTD_LEVEL_MAX))
        return sfs_error_set(err, -EINVAL, "zstd level %d does not exist: %d to %d.", row->codec_level, SFS_ZSTD_LEVEL_MIN, SFS_ZSTD_LEVEL_MAX);
    if (row->interleave < SFS_BLOCK || row->interleave % SFS_BLOCK || row->interleave > INTERLEAVE_MAX || p->slab_bytes % row->interleave)
        return sfs_error_set(err, -EINVAL, "an interleave of %u bytes cannot be: it must be a multiple of 4 KiB, at most 16 MiB, and divide the slab size (%llu MiB).", row->interleave, (unsigned long long)(p->slab_bytes >> 20));
    if (row->size_bytes && row->size_bytes < (1u << 20))
        return sfs_error_set(err, -EINVAL, "a size of %llu bytes makes no sense: at least 1 MiB, or none for as much as the pool can hold.", (unsigned long long)row->size_bytes);
    return 0;
}

static void take_settings(struct sfs_space_row *row, const struct sfs_space_settings *s)
{
    if (s->resiliency)
        row->resiliency = *s->resiliency;
    if (s->columns)
        row->columns = *s->columns;
    if (s->interleave)
        row->interleave = *s->interleave;
    if (s->size_bytes)
        row->size_bytes = *s->size_bytes;
    if (s->fixed)
        row->fixed = *s->fixed;
    if (s->codec)
        row->codec = *s->codec;
    if (s->codec_level)
        row->codec_level = *s->codec_level;
}

/* --- spaces ---------------------------------------------------------------------------------------------------------------------------------------- */

int sfs_pool_no_such_space(struct sfs_pool *p, const char *name, struct sfs_error *err)
{
    struct sfs_pool_info *info;
    char names[600] = "";
    if (sfs_pool_info(p, &info))
        return -ENOMEM;
    for (unsigned i = 0; i < info->nspaces && strlen(names) + SFS_NAME_MAX + 4 < sizeof(names); i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", i ? ", " : "", info->spaces[i].row.name);
    sfs_pool_info_free(info);
    if (names[0])
        return sfs_error_set(err, -ENOENT, "pool %s has no space named %s. It has: %s.", p->name, name, names);
    return sfs_error_set(err, -ENOENT, "pool %s has no space named %s; it has none yet. Make one with `spacesfs space create %s/%s --resiliency mirror2`.", p->name, name, p->name, name);
}

static int insert_space(struct sfs_pool *p, struct sfs_space_row *row)
{
    struct timespec now = sfs_env_wall(p->env);
    struct sfs_time t = {now.tv_sec, (uint32_t)now.tv_nsec};
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_room(p->cat, 16384);
    row->created = now.tv_sec;
    row->root_ino = sfs_catalog_ino_alloc(p->cat);
    if (!rc)
        rc = sfs_catalog_space_put(p->cat, row);
    if (!rc) {
        struct sfs_inode_row root = {.ino = row->root_ino, .space = row->id, .mode = S_IFDIR | 0755, .nlink = 2, .uid = geteuid(), .gid = getegid(), .atime = t, .mtime = t, .ctime = t, .btime = t,
                                     .parent = row->root_ino};
        rc = sfs_catalog_inode_insert(p->cat, &root);
    }
    sfs_catalog_unlock(p->cat);
    return rc;
}

int sfs_pool_space_create(struct sfs_pool *p, const char *name, const struct sfs_space_settings *s, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    if (!rc)
        rc = sfs_name_check(name, "space name", err);
    if (rc)
        return rc;
    struct sfs_space_row row = {.resiliency = SFS_MIRROR2, .interleave = INTERLEAVE_DEFAULT, .codec_level = SFS_ZSTD_LEVEL_DEFAULT};
    if (INTERLEAVE_DEFAULT > p->slab_bytes / 4)
        row.interleave = (uint32_t)(p->slab_bytes / 4);
    snprintf(row.name, sizeof(row.name), "%s", name);
    take_settings(&row, s);
    sfs_mutex_lock(&p->admin);
    rc = check_settings(p, &row, err);
    if (!rc)
        rc = check_layout(p, &row, err);
    if (!rc)
        rc = check_fixed(p, &row, err);
    if (!rc && sfs_volume_find_name(p->data, name))
        rc = sfs_error_set(err, -EEXIST, "pool %s has a space named %s already.", p->name, name);
    if (!rc)
        rc = insert_space(p, &row);
    if (!rc)
        rc = sfs_volume_add(p->data, &row);
    if (!rc)
        rc = sfs_commit_wait(p->data, false);
    sfs_mutex_unlock(&p->admin);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "space %s/%s could not be made: %s.", p->name, name, strerror(-rc));
    if (!rc)
        sfs_pool_event(p, "info", "space-created", name, "space %s/%s was made (%s)", p->name, name, sfs_resiliency_name(row.resiliency));
    return rc;
}

int sfs_pool_store_space(struct sfs_pool *p, struct sfs_space_row *row)
{
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_space_put(p->cat, row);
    sfs_catalog_unlock(p->cat);
    if (rc)
        return rc;
    sfs_volume_update(p->data, row);
    return sfs_commit_wait(p->data, false);
}

int sfs_pool_space_set(struct sfs_pool *p, const char *name, const struct sfs_space_settings *s, uint64_t *job, struct sfs_error *err)
{
    *job = 0;
    int rc = sfs_pool_writable(p, err);
    if (rc)
        return rc;
    sfs_mutex_lock(&p->admin);
    struct sfs_volume *v = sfs_volume_find_name(p->data, name);
    struct sfs_space_row row, old;
    struct sfs_volume_stat st;
    if (v) {
        sfs_volume_settings(v, &old);
        row = old;
        take_settings(&row, s);
        sfs_volume_stat(v, &st);
        rc = check_settings(p, &row, err);
        /* What the disks could carry when it was made isn't asked again: they may be fewer now, and that doesn't change. */
        bool shape = row.resiliency != old.resiliency || row.columns != old.columns;
        if (!rc && shape)
            rc = check_layout(p, &row, err);
        if (!rc && (shape || row.fixed != old.fixed || row.size_bytes != old.size_bytes))
            rc = check_fixed(p, &row, err);
        if (!rc && (shape || row.interleave != old.interleave))
            rc = sfs_pool_check_conversion(p, &row, err);
        char a[16], b[16];
        if (!rc && row.size_bytes && row.size_bytes < st.used_bytes)
            rc = sfs_error_set(err, -ENOSPC, "space %s/%s holds %s; it cannot be made smaller than that (%s was asked for).", p->name, name, sfs_size_format(st.used_bytes, a), sfs_size_format(row.size_bytes, b));
        if (!rc)
            rc = sfs_pool_convert(p, &row, job, err);
    }
    sfs_mutex_unlock(&p->admin);
    if (!v)
        return sfs_pool_no_such_space(p, name, err);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "space %s/%s could not be changed: %s.", p->name, name, strerror(-rc));
    return rc;
}

int sfs_pool_space_rename(struct sfs_pool *p, const char *name, const char *newname, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    if (!rc)
        rc = sfs_name_check(newname, "space name", err);
    if (rc)
        return rc;
    sfs_mutex_lock(&p->admin);
    struct sfs_volume *v = sfs_volume_find_name(p->data, name);
    if (v && sfs_volume_find_name(p->data, newname))
        rc = sfs_error_set(err, -EEXIST, "pool %s has a space named %s already.", p->name, newname);
    if (v && !rc) {
        struct sfs_space_row row;
        sfs_volume_settings(v, &row);
        snprintf(row.name, sizeof(row.name), "%s", newname);
        rc = sfs_pool_store_space(p, &row);
    }
    sfs_mutex_unlock(&p->admin);
    if (!v)
        return sfs_pool_no_such_space(p, name, err);
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "space %s/%s could not be renamed: %s.", p->name, name, strerror(-rc));
    if (!rc)
        sfs_pool_event(p, "info", "space-renamed", newname, "space %s/%s is now %s/%s", p->name, name, p->name, newname);
    return rc;
}

int sfs_pool_volume_get(struct sfs_pool *p, const char *space, struct sfs_volume **out, struct sfs_error *err)
{
    sfs_mutex_lock(&p->admin);
    struct sfs_volume *v = sfs_volume_find_name(p->data, space);
    if (v)
        sfs_volume_use(v, 1);
    sfs_mutex_unlock(&p->admin);
    *out = v;
    return v ? 0 : sfs_pool_no_such_space(p, space, err);
}

void sfs_pool_volume_put(struct sfs_pool *p, struct sfs_volume *v)
{
    (void)p;
    sfs_volume_use(v, -1);
}

/* --- properties ----------------------------------------------------------------------------------------------------------------------------- */

static int check_delay(const char *value, struct sfs_error *err)
{
    uint64_t ns;
    return sfs_duration_parse(value, "heal-delay", &ns, err);
}

static int check_rate(const char *value, struct sfs_error *err)
{
    uint64_t rate;
    if (!strcmp(value, "auto") || !strcmp(value, "unlimited"))
        return 0;
    if (sfs_size_parse(value, "job-rate", &rate, NULL) || rate < SFS_BLOCK)
        return sfs_error_set(err, -EINVAL, "job-rate: \"%.40s\" is not auto, unlimited, or bytes a second as in 50M.", value);
    return 0;
}

static int check_limit(const char *value, struct sfs_error *err)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || n > 1000000000ul)
        return sfs_error_set(err, -EINVAL, "error-limit: \"%.40s\" is not a number of errors (0: no limit).", value);
    return 0;
}

static int check_scrub(const char *value, struct sfs_error *err)
{
    uint64_t ns;
    if (!strcmp(value, "off"))
        return 0;
    if (sfs_duration_parse(value, "scrub-every", &ns, NULL) || ns < SCRUB_EVERY_MIN_NS)
        return sfs_error_set(err, -EINVAL, "scrub-every: \"%.40s\" is not off, or a duration of at least an hour, as in 30d.", value);
    return 0;
}

static const struct property {
    const char *key, *value; /* its default */
    int (*check)(const char *value, struct sfs_error *err);
} properties[] = {{"heal-delay", "5m", check_delay}, {"job-rate", "auto", check_rate}, {"error-limit", "100", check_limit},
                  {"scrub-every", "30d", check_scrub}};

static const struct property *property_named(const char *key, struct sfs_error *err)
{
    for (unsigned i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
        if (!strcmp(properties[i].key, key))
            return &properties[i];
    sfs_error_set(err, -EINVAL, "a pool has no property %s. There are: heal-delay, job-rate, error-limit, scrub-every.", key);
    return NULL;
}

bool sfs_pool_prop_ok(const char *key, const char *value)
{
    const struct property *prop = property_named(key, NULL);
    return !prop || prop->check(value, NULL) == 0;
}

int sfs_pool_prop_set(struct sfs_pool *p, const char *key, const char *value, struct sfs_error *err)
{
    int rc = sfs_pool_writable(p, err);
    const struct property *prop = rc ? NULL : property_named(key, err);
    if (!rc)
        rc = prop ? prop->check(value, err) : -EINVAL;
    if (rc)
        return rc;
    sfs_catalog_lock(p->cat);
    rc = sfs_catalog_prop_set(p->cat, key, value);
    sfs_catalog_unlock(p->cat);
    if (!rc)
        rc = sfs_commit_wait(p->data, false);
    sfs_pool_apply_rate(p);
    sfs_pool_wake(p);
    return rc;
}

int sfs_pool_prop_get(struct sfs_pool *p, const char *key, char *out, size_t cap, struct sfs_error *err)
{
    const struct property *prop = property_named(key, err);
    if (!prop)
        return -EINVAL;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_prop_get(p->cat, key, out, cap);
    sfs_catalog_unlock(p->cat);
    if (rc == -ENOENT) {
        snprintf(out, cap, "%s", prop->value);
        rc = 0;
    }
    return rc;
}
