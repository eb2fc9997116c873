/* Extracting: disks are opened for reading only; a copy of the best catalog that they have is made beside the target and mended there; files are read by that. */
#include "fs/check/extract_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "fs/data/diskset.h"
#include "fs/data/groups.h"

struct run {
    struct sfs_check c;
    struct sfs_check_opts look, all; /* for the disks; for the copy */
    struct sfs_check_result result;
    struct sfs_scratch *scratch;
    struct sfs_catalog *cat;
    struct sfs_data *data;
    struct sfs_extract x;
};

/* --- the catalog --- */

static int open_scratch(struct run *r)
{
    struct sfs_store s;
    sfs_scratch_store(r->scratch, &s);
    return sfs_replicas_open(r->c.env, &s, 1, NULL, false, &r->c.replicas);
}

static void close_set(struct run *r)
{
    sfs_replicas_close(r->c.replicas);
    r->c.replicas = NULL;
}

/* The catalog as some stores have it now, into the copy. */
static int copy_stores(struct run *r, const struct sfs_store *stores, unsigned n)
{
    struct sfs_store s;
    struct sfs_replicas *from = NULL;
    sfs_scratch_store(r->scratch, &s);
    int rc = sfs_replicas_open(r->c.env, stores, n, NULL, true, &from);
    if (!rc)
        rc = sfs_replicas_recover(from, NULL);
    if (!rc)
        rc = sfs_snapshot_take(r->c.env, from, &s, 1, SFS_SNAPSHOT_HOURLY, 1, NULL);
    sfs_replicas_close(from);
    if (!rc)
        rc = open_scratch(r);
    if (!rc)
        rc = sfs_snapshot_restore(r->c.replicas, &s, SFS_SNAPSHOT_HOURLY "1", NULL);
    s.ops->remove(s.ctx, SFS_SNAPSHOT_HOURLY "1");
    if (rc)
        close_set(r);
    return rc;
}

static int copy_snapshot(struct run *r)
{
    struct sfs_check_candidate best;
    struct sfs_store from;
    sfs_check_best_snapshot(&r->c, &best);
    if (!best.snap.name[0])
        return -ENOENT;
    sfs_check_note(&r->c, "No copy of the catalog can be used as it is; %s on disk %s takes its place. What changed since it was taken is not found.", best.snap.name, r->c.disks[best.disk].name);
    sfs_pool_store(r->c.disks[best.disk].disk, r->c.disks[best.disk].name, (int)best.disk + 1, &from);
    int rc = open_scratch(r);
    return rc ? rc : sfs_snapshot_restore(r->c.replicas, &from, best.snap.name, r->c.err);
}

/* From all current replicas; from any disk alone that has one, the newest first; from a snapshot. */
static int get_catalog(struct run *r)
{
    struct sfs_store stores[SFS_LABEL_PEERS], older;
    int64_t seq = 0;
    unsigned n = sfs_check_stores(&r->c, true, stores);
    if (n && copy_stores(r, stores, n) == 0)
        return 0;
    int rc = sfs_check_older_replica(&r->c, &older, &seq);
    if (!rc && seq && copy_stores(r, &older, 1) == 0) {
        sfs_check_note(&r->c, "The catalog is taken from disk %s; it goes up to commit %lld.", older.name, (long long)seq);
        return 0;
    }
    rc = copy_snapshot(r);
    if (rc)
        return sfs_error_set(r->c.err, rc, "Pool %s: no disk that is here has a catalog or a snapshot of it that can be read: without one nobody can tell where files are.", r->c.result->pool);
    return 0;
}

/* What is wrong with it is mended in the copy, as spacesfs-check -y would. */
static int mend_copy(struct run *r)
{
    static const struct sfs_check_ui silent;
    const struct sfs_check_ui *ui = r->c.ui;
    r->c.opts = &r->all;
    r->c.ui = &silent;
    r->c.extracting = true;
    int rc = sfs_check_catalog(&r->c);
    r->c.opts = &r->look;
    r->c.ui = ui;
    sfs_audit_close(r->c.audit);
    r->c.audit = NULL;
    if (!rc && r->result.found)
        sfs_check_note(&r->c, "%llu problems in the catalog were mended in a working copy; the disks are left as they are.", (unsigned long long)r->result.found);
    return rc;
}

/* --- the data --- */

static int add_member(const struct sfs_disk_row *row, void *ctx)
{
    struct run *r = ctx;
    struct sfs_disk *disk = NULL;
    for (unsigned i = 0; i < r->c.ndisks; i++)
        if (sfs_uuid_equal(&r->c.disks[i].uuid, &row->uuid))
            disk = r->c.disks[i].disk;
    return sfs_member_add(r->data, row, disk);
}

struct rows {
    struct sfs_disk_row v[SFS_LABEL_PEERS];
    unsigned n;
};

static int take_row(const struct sfs_disk_row *row, void *ctx)
{
    struct rows *l = ctx;
    if (l->n == SFS_LABEL_PEERS)
        return -EUCLEAN;
    l->v[l->n++] = *row;
    return 0;
}

static void on_event(void *ctx, const char *severity, const char *kind, int disk, const char *text)
{
    (void)ctx, (void)severity, (void)kind, (void)disk, (void)text; /* each lost byte is told of where it belongs */
}

static int open_data(struct run *r)
{
    struct sfs_catalog_opts o = {.readonly = true};
    struct sfs_data_events ev = {on_event, NULL};
    struct rows *rows = calloc(1, sizeof(*rows));
    int rc = rows ? sfs_catalog_open(r->c.env, r->c.replicas, &o, &r->cat, r->c.err) : -ENOMEM;
    if (!rc) {
        r->data = sfs_data_new(r->c.env, r->cat, r->c.slab_bytes, &ev);
        rc = r->data ? 0 : -ENOMEM;
    }
    if (!rc) {
        sfs_data_open_readonly(r->data);
        sfs_catalog_lock(r->cat);
        rc = sfs_catalog_disk_each(r->cat, take_row, rows);
        sfs_catalog_unlock(r->cat);
    }
    for (unsigned i = 0; !rc && i < rows->n; i++)
        rc = add_member(&rows->v[i], r);
    if (!rc)
        rc = sfs_groups_load(r->data, r->c.err);
    free(rows);
    return rc;
}

/* --- spaces --- */

struct spaces {
    struct sfs_space_row *v;
    unsigned n;
};

static int take_space(const struct sfs_space_row *row, void *ctx)
{
    struct spaces *l = ctx;
    struct sfs_space_row *v = realloc(l->v, (l->n + 1) * sizeof(*v));
    if (!v)
        return -ENOMEM;
    l->v = v;
    v[l->n++] = *row;
    return 0;
}

static int extract_one(struct run *r, const struct sfs_space_row *row)
{
    struct sfs_vfs_opts o = {.readonly = true, .noatime = true};
    struct sfs_volume *v = sfs_volume_find(r->data, row->id);
    struct sfs_vfs *vfs = NULL;
    struct sfs_error why = {0};
    int rc = v ? sfs_vfs_open(v, &o, &vfs, &why) : -ENOENT;
    if (!rc)
        rc = sfs_extract_space(&r->x, vfs, row->name);
    sfs_vfs_close(vfs);
    if (rc == -EEXIST)
        return sfs_error_set(r->c.err, rc, "There is a %s in the target directory already, and nothing is written over. Name another directory with --to.", row->name);
    if (rc == -ECANCELED)
        return rc;
    if (rc)
        return sfs_error_set(r->c.err, rc, "Space %s could not be copied: %s", row->name, why.code ? why.text : strerror(-rc));
    return 0;
}

static int extract_spaces(struct run *r)
{
    struct spaces l = {0};
    sfs_catalog_lock(r->cat);
    int rc = sfs_catalog_space_each(r->cat, take_space, &l);
    sfs_catalog_unlock(r->cat);
    for (unsigned i = 0; !rc && i < l.n; i++)
        if (!l.v[i].destroying)
            rc = extract_one(r, &l.v[i]);
    free(l.v);
    return rc;
}

/* --- the whole --- */

static int open_target(struct run *r, const char *to)
{
    if (mkdir(to, 0700) != 0 && errno != EEXIST)
        return sfs_error_set(r->c.err, -errno, "%s cannot be made: %s.", to, strerror(errno));
    r->x.to_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->x.to_fd < 0)
        return sfs_error_set(r->c.err, -errno, "%s cannot be opened: %s.", to, strerror(errno));
    int rc = sfs_scratch_new(r->x.to_fd, &r->scratch);
    return rc ? sfs_error_set(r->c.err, rc, "%s cannot be written to: %s.", to, strerror(-rc)) : 0;
}

static int extract(struct run *r, const char *which, const char *to)
{
    int rc = sfs_check_find_disks(&r->c, which);
    if (rc == -EUCLEAN && r->c.found.n) { /* split: each half is copied as far as the newest label knows it */
        r->c.err->code = 0;
        rc = sfs_check_list_disks(&r->c);
    }
    if (!rc)
        rc = sfs_check_open_disks(&r->c);
    if (!rc)
        rc = open_target(r, to);
    if (!rc)
        rc = get_catalog(r);
    if (!rc)
        rc = mend_copy(r);
    if (rc == -EUCLEAN && r->c.replicas) { /* its structure doesn't hold together */
        close_set(r);
        rc = copy_snapshot(r);
        if (!rc)
            rc = mend_copy(r);
    }
    if (!rc)
        rc = open_data(r);
    return rc ? rc : extract_spaces(r);
}

static void close_run(struct run *r)
{
    if (r->data)
        sfs_data_stop(r->data);
    sfs_catalog_close(r->cat);
    close_set(r);
    sfs_data_free(r->data);
    sfs_check_close(&r->c);
    sfs_scratch_free(r->scratch);
    if (r->x.list)
        fclose(r->x.list);
    if (r->x.to_fd >= 0)
        close(r->x.to_fd);
    sfs_discovery_free(&r->c.found);
    free(r->c.shared);
    free(r);
}

unsigned sfs_check_extract(struct sfs_env *env, const char *which, const struct sfs_check_opts *opts, const char *to, const struct sfs_check_ui *ui, struct sfs_extract_result *res, struct sfs_error *err)
{
    struct run *r = calloc(1, sizeof(*r));
    *res = (struct sfs_extract_result){.files = 0};
    if (!r) {
        sfs_error_set(err, -ENOMEM, "Out of memory.");
        return SFS_CHECK_FAILED;
    }
    r->look = r->all = *opts;
    r->look.mode = SFS_CHECK_LOOK;
    r->all.mode = SFS_CHECK_ALL;
    r->c = (struct sfs_check){.env = env, .opts = &r->look, .ui = ui, .result = &r->result, .err = err};
    r->x = (struct sfs_extract){.c = &r->c, .to_fd = -1, .res = res};
    int rc = extract(r, which, to);
    if (rc && rc != -ECANCELED && !err->code)
        sfs_error_set(err, rc, "Pool %s could not be read: %s.", r->result.pool[0] ? r->result.pool : which, strerror(-rc));
    snprintf(res->pool, sizeof(res->pool), "%s", r->result.pool);
    close_run(r);
    if (rc == -ECANCELED)
        return SFS_CHECK_CANCELLED | SFS_CHECK_LEFT;
    return rc ? SFS_CHECK_FAILED : res->damaged || res->failed ? SFS_CHECK_LEFT : SFS_CHECK_CLEAN;
}
