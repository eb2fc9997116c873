/* Making a pool, adding disks to one, destroying one. Until the labels say so durably a disk belongs to nobody; on failure every disk is as it was. */
#include "fs/pool/pool_impl.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/base/size.h"
#include "fs/layout/placement.h"

#define SLAB_PREFERRED (256ull << 20)

/* A disk that is being taken in. */
struct newcomer {
    const struct sfs_disk_spec *spec;
    struct sfs_disk_probe probe;
    struct sfs_label label;
    char path[SFS_PATH_BYTES];
    bool made_file;   /* the image file is ours */
    bool formatted;
    struct sfs_disk *disk;
};

struct newcomers {
    struct sfs_env *env;
    struct sfs_sim_world *world;
    struct newcomer *v;
    unsigned n;
    bool force;
    struct sfs_error *warn;
};

static void add_warning(struct sfs_error *warn, const char *text)
{
    if (!warn)
        return;
    size_t at = strlen(warn->text);
    warn->code = -EEXIST;
    snprintf(warn->text + at, sizeof(warn->text) - at, "%s%s", at ? "\n" : "", text);
}

/* --- checking ------------------------------------------------------------------------------------------------------------------------------------- */

/* Paths in labels are absolute, so that they mean something to everybody. An image file that isn't there is made, if a size was given. */
static int settle_path(struct newcomers *ns, struct newcomer *c, struct sfs_error *err)
{
    if (!strncmp(c->spec->path, "sim:", 4)) {
        snprintf(c->path, sizeof(c->path), "%s", c->spec->path);
        return 0;
    }
    (void)ns;
    if (access(c->spec->path, F_OK) && errno == ENOENT && c->spec->size_bytes) {
        int fd = open(c->spec->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0)
            return sfs_error_set(err, -errno, "%s: the image file could not be made: %s.", c->spec->path, strerror(errno));
        c->made_file = true;
        int rc = ftruncate(fd, (off_t)c->spec->size_bytes) ? -errno : 0;
        close(fd);
        if (rc)
            return sfs_error_set(err, rc, "%s: the image file could not be made that large: %s.", c->spec->path, strerror(-rc));
    }
    char *abs = realpath(c->spec->path, NULL);
    if (!abs)
        return sfs_error_set(err, -errno, "%s: %s. Give an existing directory, block device or image file (or an image file's name with ,size=N to make one).", c->spec->path, strerror(errno));
    bool fits = strlen(abs) < sizeof(c->path);
    if (fits)
        strcpy(c->path, abs);
    free(abs);
    return fits ? 0 : sfs_error_set(err, -ENAMETOOLONG, "%s: the path is too long (at most %d bytes).", c->spec->path, SFS_PATH_BYTES - 1);
}

/* A disk of this very pool that is not in use by it (an old half, left alone since it was used apart) may be taken in anew, as a blank one, when that is forced. */
static bool left_alone(struct sfs_pool *pool, const struct sfs_disk_probe *p)
{
    if (!pool || !sfs_uuid_equal(&p->label.pool_uuid, &pool->uuid))
        return false;
    for (unsigned i = 0; i < pool->ndisks; i++)
        if (pool->disks[i].used && pool->disks[i].disk && sfs_uuid_equal(&pool->disks[i].uuid, &p->label.disk_uuid))
            return false;
    return true;
}

static int check_probe(struct newcomers *ns, struct newcomer *c, struct sfs_pool *pool, struct sfs_error *err)
{
    const struct sfs_disk_probe *p = &c->probe;
    if (p->has_label && left_alone(pool, p)) {
        if (!ns->force)
            return sfs_error_set(err, -EEXIST, "%s is a disk of this pool (%s) that the pool left alone, because it was used apart from it. To wipe it and take it in as a blank disk, use --force.", c->path,
                                 p->label.disk_name);
        return sfs_disk_wipe(ns->env, c->path, ns->world, &pool->uuid, err);
    }
    if (p->has_label)
        return sfs_error_set(err, -EEXIST, "%s is a disk of pool %s already (as %s). To use it elsewhere, remove it there or destroy that pool first.", c->path, p->label.pool_name, p->label.disk_name);
    if (p->label_rc != -ENOENT && !ns->force)
        return sfs_error_set(err, -EEXIST, "%s bears a label of a pool that is damaged or of a newer version. If nothing on it is needed, use --force.", c->path);
    if (p->signature[0] && !ns->force)
        return sfs_error_set(err, -EEXIST, "%s holds something: %s. If nothing on it is needed, use --force; it will be overwritten.", c->path, p->signature);
    if (p->holds_data && !ns->force)
        return sfs_error_set(err, -EEXIST,
                             "%s holds data (it is not a disk image of spacesfs, and not empty either). If nothing in that file is needed, use --force; it will be overwritten.", c->path);
    uint64_t size = c->spec->size_bytes ? c->spec->size_bytes : p->size_bytes;
    if (size > p->size_bytes && p->kind != SFS_DISK_DIR) {
        char a[16], b[16];
        return sfs_error_set(err, -ENOSPC, "%s: a size of %s was asked for, but it has only %s.", c->path, sfs_size_format(size, a), sfs_size_format(p->size_bytes, b));
    }
    if (size > p->size_bytes) {
        char a[16], b[16];
        return sfs_error_set(err, -ENOSPC, "%s: a size of %s was asked for, but its host filesystem has only %s free (after a reserve).", c->path, sfs_size_format(size, a), sfs_size_format(p->size_bytes, b));
    }
    return 0;
}

static int check_pairs(struct newcomers *ns, unsigned i, struct sfs_error *err)
{
    const struct newcomer *c = &ns->v[i];
    for (unsigned k = 0; k < i; k++) {
        const struct newcomer *o = &ns->v[k];
        if (c->probe.dev == o->probe.dev && c->probe.ino == o->probe.ino && c->probe.kind == o->probe.kind)
            return sfs_error_set(err, -EEXIST, "%s and %s are the same disk under two paths. Name it once.",
                                 o->spec->path, c->spec->path);
    }
    return 0;
}

/* A place where data of the pool lies, or is about to. */
struct place {
    const char *path;
    uint64_t host_dev, dev;
    enum sfs_disk_kind kind;
    bool takes_all;              /* a newcomer: a directory without a size */
    uint64_t size_bytes;
};

/* The newcomers, then the disks that the pool has; those that don't answer aren't looked at. */
static unsigned places_of(struct newcomers *ns, struct sfs_pool *p, struct place *out, unsigned max)
{
    struct sfs_disk_probe *pr = malloc(sizeof(*pr));
    unsigned n = 0;
    for (unsigned i = 0; i < ns->n && n < max; i++) {
        const struct newcomer *c = &ns->v[i];
        out[n++] = (struct place){c->path, c->probe.host_dev, c->probe.dev, c->probe.kind, c->probe.kind == SFS_DISK_DIR && !c->spec->size_bytes, c->probe.size_bytes};
    }
    for (unsigned i = 0; pr && p && i < p->ndisks && n < max; i++) {
        const struct sfs_pool_disk *pd = &p->disks[i];
        if (pd->used && pd->disk && sfs_disk_state(pd->disk) == SFS_DISK_ONLINE && !sfs_disk_probe(ns->env, pd->path, ns->world, pr, NULL))
            out[n++] = (struct place){pd->path, pr->host_dev, pr->dev, pr->kind, false, 0};
    }
    free(pr);
    return n;
}

static bool same_device(const struct place *a, const struct place *b)
{
    return a->kind != SFS_DISK_SIM && a->host_dev && a->host_dev == b->host_dev;
}

/* One warning for each device that a newcomer shares, however many disks lie on it. */
static void warn_of_shared_devices(struct newcomers *ns, const struct place *v, unsigned n)
{
    for (unsigned i = 0; i < ns->n; i++) {
        char list[SFS_PATH_BYTES], text[SFS_PATH_BYTES + 160];
        size_t len = 0;
        unsigned count = 0, more = 0, told = 0;
        for (unsigned k = 0; k < i; k++)
            told += same_device(&v[i], &v[k]);
        for (unsigned k = i; k < n && !told; k++) {
            if (!same_device(&v[i], &v[k]))
                continue;
            count++;
            if (more || len + strlen(v[k].path) + 8 > sizeof(list))
                more++;
            else
                len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", v[k].path);
        }
        if (count < 2)
            continue;
        if (more)
            snprintf(text, sizeof(text), "%s and %u more lie on the same device: if it fails, all %u are lost at once.",
                     list, more, count);
        else
            snprintf(text, sizeof(text), "%s lie on the same device: if it fails, %s are lost at once.", list,
                     count == 2 ? "both" : "all of them");
        add_warning(ns->warn, text);
    }
}

/* A directory that is to give all that its filesystem has free, and another disk that lives on the same. */
static void warn_of_shared_room(struct newcomers *ns, const struct place *v, unsigned n)
{
    char text[2 * SFS_PATH_BYTES + 300], size[16];
    for (unsigned i = 0; i < ns->n; i++) {
        unsigned other = n;
        for (unsigned k = 0; v[i].takes_all && k < n && other == n; k++)
            if (k != i && v[k].dev == v[i].dev && (v[k].kind == SFS_DISK_DIR || v[k].kind == SFS_DISK_IMAGE))
                other = k;
        if (other == n)
            continue;
        snprintf(text, sizeof(text), "%s is to give %s, all that its filesystem has free now, but %s lies on that filesystem, too: what one of them takes the other lacks. Give it a size of its own (%s,size=N).",
                 v[i].path, sfs_size_format(v[i].size_bytes, size), v[other].path, ns->v[i].spec->path);
        add_warning(ns->warn, text);
    }
}

static void warn_of_neighbours(struct newcomers *ns, struct sfs_pool *p)
{
    unsigned max = ns->n + SFS_LABEL_PEERS;
    struct place *v = ns->warn ? calloc(max, sizeof(*v)) : NULL;
    unsigned n = v ? places_of(ns, p, v, max) : 0;
    if (n) {
        warn_of_shared_devices(ns, v, n);
        warn_of_shared_room(ns, v, n);
    }
    free(v);
}

static bool name_taken(const struct newcomers *ns, unsigned i, struct sfs_pool *p, const char *name)
{
    for (unsigned k = 0; k < ns->n; k++)
        if (k != i && !strcmp(ns->v[k].label.disk_name, name))
            return true;
    return p && sfs_pool_disk_by_name(p, name);
}

/* The name asked for. */
static int settle_given_name(struct newcomers *ns, unsigned i, struct sfs_pool *p, struct sfs_error *err)
{
    struct newcomer *c = &ns->v[i];
    int rc = sfs_name_check(c->spec->name, "disk name", err);
    if (!rc && name_taken(ns, i, p, c->spec->name))
        rc = sfs_error_set(err, -EEXIST, "there is a disk named %s already.", c->spec->name);
    if (!rc)
        snprintf(c->label.disk_name, SFS_NAME_MAX + 1, "%s", c->spec->name);
    return rc;
}

/* A name made from the path's last part. */
static void settle_own_name(struct newcomers *ns, unsigned i, struct sfs_pool *p)
{
    struct newcomer *c = &ns->v[i];
    char *out = c->label.disk_name;
    const char *last = strrchr(c->path, '/'), *base = last ? last + 1 : c->path;
    if (!strncmp(base, "sim:", 4))
        base += 4;
    char stem[SFS_NAME_MAX - 7];
    snprintf(stem, sizeof(stem), "%.*s", (int)sizeof(stem) - 1, base);
    for (char *q = stem; *q; q++)
        if (!((*q >= 'a' && *q <= 'z') || (*q >= 'A' && *q <= 'Z') || (*q >= '0' && *q <= '9') || (q != stem && strchr("-_.+", *q))))
            *q = '_';
    if (!stem[0])
        strcpy(stem, "disk");
    snprintf(out, SFS_NAME_MAX + 1, "%s", stem);
    for (unsigned k = 2; name_taken(ns, i, p, out); k++)
        snprintf(out, SFS_NAME_MAX + 1, "%s-%u", stem, k);
}

/* Names that were asked for come first: what is made of a path gives way to them. */
static int settle_names(struct newcomers *ns, struct sfs_pool *p, struct sfs_error *err)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < ns->n; i++)
        if (ns->v[i].spec->name)
            rc = settle_given_name(ns, i, p, err);
    for (unsigned i = 0; !rc && i < ns->n; i++)
        if (!ns->v[i].spec->name)
            settle_own_name(ns, i, p);
    return rc;
}

static int examine(struct newcomers *ns, const struct sfs_disk_spec *specs, struct sfs_pool *p, struct sfs_error *err)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < ns->n; i++) {
        struct newcomer *c = &ns->v[i];
        c->spec = &specs[i];
        rc = settle_path(ns, c, err);
        if (!rc)
            rc = sfs_disk_probe(ns->env, c->path, ns->world, &c->probe, err);
        if (!rc)
            rc = check_probe(ns, c, p, err);
        if (!rc)
            rc = check_pairs(ns, i, err);
    }
    if (!rc)
        rc = settle_names(ns, p, err);
    if (!rc)
        warn_of_neighbours(ns, p);
    return rc;
}

/* --- making ---------------------------------------------------------------------------------------------------------------------------------------- */

static int format_all(struct newcomers *ns, const struct sfs_label *common, struct sfs_error *err)
{
    for (unsigned i = 0; i < ns->n; i++) {
        struct newcomer *c = &ns->v[i];
        char name[SFS_NAME_MAX + 1];
        memcpy(name, c->label.disk_name, sizeof(name));
        c->label = *common;
        memcpy(c->label.disk_name, name, sizeof(name));
        sfs_uuid_generate(ns->env, &c->label.disk_uuid);
        int rc = sfs_disk_format(ns->env, c->path, ns->world, c->spec->size_bytes, ns->force, &c->label, err);
        if (rc)
            return rc;
        c->formatted = true;
        struct sfs_disk_opts opts = {.world = ns->world, .workers = sfs_env_is_sim(ns->env) ? 2 : 0};
        rc = sfs_disk_open(ns->env, c->path, &opts, &c->disk, err);
        if (rc)
            return rc;
    }
    return 0;
}

static void undo(struct newcomers *ns, const struct sfs_uuid *pool)
{
    for (unsigned i = 0; i < ns->n; i++) {
        struct newcomer *c = &ns->v[i];
        sfs_disk_close(c->disk);
        c->disk = NULL;
        if (c->formatted)
            sfs_disk_wipe(ns->env, c->path, ns->world, pool, NULL);
        if (c->made_file)
            unlink(c->path);
    }
}

static void fill_row(const struct newcomer *c, struct sfs_disk_row *row)
{
    *row = (struct sfs_disk_row){.uuid = c->label.disk_uuid, .kind = c->probe.kind, .media = c->probe.media, .capacity_slabs = c->label.capacity_slabs, .replica = c->label.replica};
    snprintf(row->name, sizeof(row->name), "%s", c->label.disk_name);
    snprintf(row->path, sizeof(row->path), "%s", c->path);
}

static int write_labels(struct newcomers *ns)
{
    struct sfs_label *l = malloc(sizeof(*l));
    if (!l)
        return -ENOMEM;
    int rc = 0;
    for (unsigned i = 0; !rc && i < ns->n; i++) {
        *l = ns->v[i].label;
        l->npeers = 0;
        for (unsigned k = 0; k < ns->n; k++) {
            struct sfs_label_peer *q = &l->peers[l->npeers++];
            memset(q, 0, sizeof(*q));
            q->uuid = ns->v[k].label.disk_uuid;
            q->replica = ns->v[k].label.replica;
            snprintf(q->name, sizeof(q->name), "%s", ns->v[k].label.disk_name);
            snprintf(q->path, sizeof(q->path), "%s", ns->v[k].path);
        }
        rc = sfs_disk_write_label(ns->v[i].disk, l);
    }
    free(l);
    return rc;
}

static int no_replica_lost(void *ctx, int id, int why)
{
    (void)ctx;
    (void)id;
    return why < 0 ? why : -EIO; /* while a pool is being made nothing may fail */
}

static int make_catalog(struct newcomers *ns, const struct sfs_uuid *pool, const char *name, struct sfs_error *err)
{
    struct sfs_store stores[SFS_LABEL_PEERS];
    unsigned n = 0;
    for (unsigned i = 0; i < ns->n; i++)
        if (ns->v[i].label.replica)
            sfs_pool_store(ns->v[i].disk, ns->v[i].label.disk_name, (int)i + 1, &stores[n++]);
    struct sfs_replicas_events ev = {.on_lost = no_replica_lost};
    struct sfs_replicas *r = NULL;
    struct sfs_catalog *cat = NULL;
    int rc = sfs_replicas_open(ns->env, stores, n, &ev, false, &r);
    if (!rc)
        rc = sfs_catalog_create(ns->env, r, pool, name, err);
    struct sfs_catalog_opts opts = {0};
    if (!rc)
        rc = sfs_catalog_open(ns->env, r, &opts, &cat, err);
    if (!rc) {
        sfs_catalog_lock(cat);
        for (unsigned i = 0; !rc && i < ns->n; i++) {
            struct sfs_disk_row row;
            fill_row(&ns->v[i], &row);
            rc = sfs_catalog_disk_put(cat, &row);
        }
        if (!rc)
            rc = sfs_catalog_commit(cat, NULL);
        sfs_catalog_unlock(cat);
        if (!rc)
            rc = sfs_catalog_commit_sync(cat);
    }
    sfs_catalog_close(cat);
    sfs_replicas_close(r);
    return rc;
}

static uint64_t smallest(const struct newcomers *ns)
{
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < ns->n; i++) {
        uint64_t size = ns->v[i].spec->size_bytes ? ns->v[i].spec->size_bytes : ns->v[i].probe.size_bytes;
        least = size < least ? size : least;
    }
    return least;
}

static int choose_slab(const struct newcomers *ns, uint64_t asked, uint64_t *out, struct sfs_error *err)
{
    if (asked && (asked & (asked - 1) || asked < (1u << 20) || asked > (4ull << 30)))
        return sfs_error_set(err, -EINVAL, "--slab-size: %llu bytes is not a power of two between 1 MiB and 4 GiB.", (unsigned long long)asked);
    *out = asked ? asked : sfs_place_slab_bytes(smallest(ns), SLAB_PREFERRED);
    char size[16];
    if (!*out)
        return sfs_error_set(err, -ENOSPC, "the smallest disk has only %s: a disk needs room for 64 slabs of 1 MiB and its metadata (about 70 MiB).", sfs_size_format(smallest(ns), size));
    return 0;
}

static void record(const struct newcomers *ns, const struct sfs_label *common, const char *state_dir, struct sfs_error *warn)
{
    struct sfs_registry_pool r = {.uuid = common->pool_uuid};
    snprintf(r.name, sizeof(r.name), "%s", common->pool_name);
    r.paths = calloc(ns->n, sizeof(*r.paths));
    for (unsigned i = 0; r.paths && i < ns->n; i++)
        snprintf(r.paths[r.npaths++], sizeof(r.paths[0]), "%s", ns->v[i].path);
    struct sfs_error err = {0};
    if (r.paths && sfs_registry_save(state_dir, &r, &err))
        add_warning(warn, err.text);
    free(r.paths);
}

static int make_pool(struct newcomers *ns, struct sfs_label *common, const struct sfs_pool_create_opts *o, struct sfs_error *err)
{
    int rc = choose_slab(ns, o->slab_bytes, &common->slab_bytes, err);
    if (!rc)
        rc = format_all(ns, common, err);
    for (unsigned i = 0; !rc && i < ns->n; i++) {
        ns->v[i].label.replica = ns->n <= 4 || i < 3;
        if (ns->v[i].label.capacity_slabs < 2) {
            char size[16];
            rc = sfs_error_set(err, -ENOSPC, "%s has room for %llu slabs of %s only. Use larger disks, or a smaller --slab-size.", ns->v[i].path, (unsigned long long)ns->v[i].label.capacity_slabs,
                               sfs_size_format(common->slab_bytes, size));
        }
    }
    if (!rc)
        rc = make_catalog(ns, &common->pool_uuid, common->pool_name, err);
    if (!rc)
        rc = write_labels(ns); /* from here on it is a pool */
    if (rc && err && !err->code)
        sfs_error_set(err, rc, "pool %s could not be made: %s. Its disks are as they were.", common->pool_name, strerror(-rc));
    return rc;
}

int sfs_pool_create(struct sfs_env *env, const char *name, const struct sfs_disk_spec *disks, unsigned n, const struct sfs_pool_create_opts *o, struct sfs_error *warn, struct sfs_error *err)
{
    int rc = sfs_name_check(name, "pool name", err);
    if (!rc && (n == 0 || n > SFS_LABEL_PEERS))
        rc = sfs_error_set(err, -EINVAL, "a pool has 1 to %d disks; %u were given.", SFS_LABEL_PEERS, n);
    struct sfs_registry_pool known;
    if (!rc && o->state_dir && !sfs_registry_load(o->state_dir, name, &known)) {
        rc = sfs_error_set(err, -EEXIST, "a pool named %s is known on this host already. Choose another name, or forget that one with `spacesfs pool export %s`.", name, name);
        sfs_registry_free(&known);
    }
    if (rc)
        return rc;
    struct newcomers ns = {.env = env, .world = o->world, .n = n, .force = o->force, .warn = warn, .v = calloc(n, sizeof(*ns.v))};
    struct sfs_label *common = calloc(1, sizeof(*common));
    rc = ns.v && common ? examine(&ns, disks, NULL, err) : -ENOMEM;
    if (!rc) {
        common->format = SFS_FORMAT_VERSION;
        sfs_uuid_generate(env, &common->pool_uuid);
        snprintf(common->pool_name, sizeof(common->pool_name), "%s", name);
        common->epoch.number = 1;
        sfs_uuid_generate(env, &common->epoch.id);
        rc = make_pool(&ns, common, o, err);
    }
    if (ns.v) {
        if (rc)
            undo(&ns, common ? &common->pool_uuid : NULL);
        else if (o->state_dir)
            record(&ns, common, o->state_dir, warn);
        for (unsigned i = 0; i < n; i++)
            sfs_disk_close(ns.v[i].disk);
    }
    free(ns.v);
    free(common);
    return rc;
}

/* --- adding disks ------------------------------------------------------------------------------------------------------------------------------------ */

/* Into the catalog, the data layer and the pool's array, in this order: what fails half way is taken back. */
static int adopt(struct sfs_pool *p, struct newcomer *c)
{
    struct sfs_disk_row row;
    fill_row(c, &row);
    row.replica = false;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_disk_put(p->cat, &row);
    sfs_catalog_unlock(p->cat);
    if (rc)
        return rc;
    rc = sfs_member_add(p->data, &row, c->disk);
    if (rc) {
        sfs_catalog_lock(p->cat);
        sfs_catalog_disk_delete(p->cat, row.id);
        sfs_catalog_unlock(p->cat);
        return rc;
    }
    sfs_mutex_lock(&p->lock);
    unsigned at = 0; /* the place of one that has left, else a new one */
    while (at < p->ndisks && p->disks[at].used)
        at++;
    struct sfs_pool_disk *pd = &p->disks[at];
    *pd = (struct sfs_pool_disk){.used = true, .id = row.id, .uuid = row.uuid, .disk = c->disk, .pool = p};
    snprintf(pd->name, sizeof(pd->name), "%s", row.name);
    snprintf(pd->path, sizeof(pd->path), "%s", c->path);
    p->ndisks += at == p->ndisks;
    sfs_mutex_unlock(&p->lock);
    sfs_pool_adopt_handle(p, pd);
    c->disk = NULL;
    c->formatted = c->made_file = false; /* no longer to be undone: it is a disk of the pool, and those before it too */
    return 0;
}

int sfs_pool_disk_add(struct sfs_pool *p, const struct sfs_disk_spec *disks, unsigned n, bool force, struct sfs_error *warn, struct sfs_error *err)
{
    if (sfs_pool_readonly(p))
        return sfs_error_set(err, -EROFS, "pool %s is read-only: no disk can be added.", p->name);
    sfs_mutex_lock(&p->admin);
    struct newcomers ns = {.env = p->env, .world = p->world, .n = n, .force = force, .warn = warn, .v = calloc(n ? n : 1, sizeof(*ns.v))};
    struct sfs_label *common = calloc(1, sizeof(*common));
    int rc = ns.v && common ? 0 : -ENOMEM;
    unsigned have = 0;
    for (unsigned i = 0; i < p->ndisks; i++)
        have += p->disks[i].used;
    if (!rc && (n == 0 || have + n > SFS_LABEL_PEERS))
        rc = sfs_error_set(err, -EINVAL, "pool %s has %u disks; it can have %d at most.", p->name, have, SFS_LABEL_PEERS);
    if (!rc)
        rc = examine(&ns, disks, p, err);
    if (!rc) {
        common->format = SFS_FORMAT_VERSION;
        common->pool_uuid = p->uuid;
        snprintf(common->pool_name, sizeof(common->pool_name), "%s", p->name);
        common->slab_bytes = p->slab_bytes;
        sfs_mutex_lock(&p->lock);
        common->epoch = p->epoch;
        sfs_mutex_unlock(&p->lock);
        rc = format_all(&ns, common, err);
    }
    for (unsigned i = 0; !rc && i < n; i++)
        if (ns.v[i].label.capacity_slabs < 1)
            rc = sfs_error_set(err, -ENOSPC, "%s has no room for a slab of this pool (%llu MiB).", ns.v[i].path, (unsigned long long)(p->slab_bytes >> 20));
    for (unsigned i = 0; !rc && i < n; i++)
        rc = adopt(p, &ns.v[i]);
    if (!rc)
        rc = sfs_commit_wait(p->data, false);
    if (!rc)
        rc = sfs_pool_write_labels(p);
    if (rc && ns.v && common)
        undo(&ns, &p->uuid);
    sfs_mutex_unlock(&p->admin);
    if (!rc) {
        sfs_pool_mend_replicas(p);
        sfs_pool_save_registry(p);
        sfs_pool_event(p, "info", "disk-added", "", "%u disk%s added; new data uses %s at once", n, n == 1 ? " was" : "s were", n == 1 ? "it" : "them");
        sfs_pool_flush_events(p);
        p->heal_again_ns = 0;
        sfs_heal_wake(p->heal);
        sfs_jobs_wake(p->jobs);
    } else if (err && !err->code) {
        sfs_error_set(err, rc, "pool %s: the disk could not be added: %s.", p->name, strerror(-rc));
    }
    free(common);
    free(ns.v);
    return rc;
}

/* --- destroying ----------------------------------------------------------------------------------------------------------------------------------------- */

int sfs_pool_destroy(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_error *err)
{
    struct sfs_discovery d;
    int rc = sfs_discover(env, which, opts, &d, err);
    if (rc)
        return rc;
    struct sfs_disk_opts o = {.world = opts->world};
    for (unsigned i = 0; !rc && i < d.n; i++) { /* nobody may have it open: each lock once */
        struct sfs_disk *disk;
        rc = sfs_disk_open(env, d.v[i].path, &o, &disk, err);
        if (!rc)
            sfs_disk_close(disk);
    }
    for (unsigned i = 0; !rc && i < d.n; i++)
        rc = sfs_disk_wipe(env, d.v[i].path, opts->world, &d.pool, err);
    if (!rc && opts->state_dir)
        sfs_registry_remove(opts->state_dir, d.v[d.newest].label.pool_name);
    sfs_discovery_free(&d);
    return rc;
}
