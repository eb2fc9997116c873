/* Finding a pool's disks by their labels, and judging what the labels say together (DESIGN.md sections 4 and 7). */
#include "fs/pool/pool_impl.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct sfs_env *env;
    const struct sfs_pool_open_opts *opts;
    struct sfs_discovery *out;
    bool have_pool;            /* out->pool is known */
    struct sfs_error clone;    /* the same disk twice: a copy beside the original */
    struct sfs_error newer;    /* a label of a later format */
    char given[SFS_PATH_BYTES]; /* the path of a disk that the pool was named by; "" : it was named by name */
};

void sfs_discovery_free(struct sfs_discovery *d)
{
    free(d->v);
    *d = (struct sfs_discovery){0};
}

static struct sfs_found *found_disk(struct sfs_discovery *d, const struct sfs_uuid *uuid)
{
    for (unsigned i = 0; i < d->n; i++)
        if (sfs_uuid_equal(&d->v[i].label.disk_uuid, uuid))
            return &d->v[i];
    return NULL;
}

static bool same_place(struct sfs_env *env, struct sfs_sim_world *world, const char *a, const struct sfs_disk_probe *pb)
{
    struct sfs_disk_probe *pa = malloc(sizeof(*pa));
    bool same = pa && !sfs_disk_probe(env, a, world, pa, NULL) && pa->dev == pb->dev && pa->ino == pb->ino;
    free(pa);
    return same;
}

static void note(struct search *s, const char *path, const struct sfs_disk_probe *p)
{
    struct sfs_found *f = found_disk(s->out, &p->label.disk_uuid);
    if (f) {
        if (strcmp(f->path, path) && !same_place(s->env, s->opts->world, f->path, p))
            sfs_error_set(&s->clone, -EEXIST, "%s and %s bear the same disk's label (%s): one is a copy of the other. Take one away, and try again.", f->path, path,
                          p->label.disk_name);
        return;
    }
    struct sfs_found *v = realloc(s->out->v, (s->out->n + 1) * sizeof(*v));
    if (!v)
        return;
    s->out->v = v;
    f = &v[s->out->n++];
    f->label = p->label;
    f->label_stale = p->label_stale;
    snprintf(f->path, sizeof(f->path), "%s", path);
}

/* Looks at one path; notes it when it is a disk of the pool (any pool, while none is known). */
static bool look(struct search *s, const char *path)
{
    struct sfs_disk_probe *p = calloc(1, sizeof(*p));
    struct sfs_error err = {0};
    bool ours = false;
    if (p && !sfs_disk_probe(s->env, path, s->opts->world, p, &err)) {
        if (p->has_label && (!s->have_pool || sfs_uuid_equal(&p->label.pool_uuid, &s->out->pool))) {
            if (!s->have_pool) {
                s->out->pool = p->label.pool_uuid;
                s->have_pool = true;
            }
            note(s, path, p);
            ours = true;
        } else if (p->label_rc == -EOPNOTSUPP) {
            sfs_error_set(&s->newer, -EOPNOTSUPP, "%s was written by a newer spacesfs. Update this one.", path);
        }
    }
    free(p);
    return ours;
}

/* --- where to look ---------------------------------------------------------------------------------------------------------------------------- */

/* The newer epoch; of one epoch the label that names more disks (one that was being added when the machine went down names none). */
static bool knows_more(const struct sfs_label *a, const struct sfs_label *b)
{
    if (a->epoch.number != b->epoch.number)
        return a->epoch.number > b->epoch.number;
    return a->npeers != b->npeers ? a->npeers > b->npeers : a->replica && !b->replica;
}

static const struct sfs_label *newest_label(const struct sfs_discovery *d)
{
    const struct sfs_label *best = NULL;
    for (unsigned i = 0; i < d->n; i++)
        if (!best || knows_more(&d->v[i].label, best))
            best = &d->v[i].label;
    return best;
}

static void find_newest(struct sfs_discovery *d)
{
    d->newest = 0;
    for (unsigned i = 1; i < d->n; i++)
        if (knows_more(&d->v[i].label, &d->v[d->newest].label))
            d->newest = i;
}

unsigned sfs_discovery_missing(const struct sfs_discovery *d)
{
    const struct sfs_label *l = newest_label(d);
    unsigned n = 0;
    for (unsigned i = 0; l && i < l->npeers; i++)
        n += !found_disk((struct sfs_discovery *)d, &l->peers[i].uuid);
    return n;
}

static void look_at_peers(struct search *s)
{
    const struct sfs_label *l = newest_label(s->out);
    struct sfs_label *copy = l ? malloc(sizeof(*copy)) : NULL;
    if (!copy)
        return;
    *copy = *l; /* noting moves the labels */
    for (unsigned i = 0; i < copy->npeers; i++)
        if (!found_disk(s->out, &copy->peers[i].uuid) && copy->peers[i].path[0])
            look(s, copy->peers[i].path);
    free(copy);
}

/* A directory itself, and what lies in it. */
static void look_in(struct search *s, const char *dir)
{
    look(s, dir);
    DIR *d = opendir(dir);
    struct dirent *e;
    for (unsigned n = 0; d && n < 4096 && (e = readdir(d)); n++) {
        if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_REG && e->d_type != DT_LNK && e->d_type != DT_BLK))
            continue;
        char path[SFS_PATH_BYTES];
        if (snprintf(path, sizeof(path), "%s/%s", !strcmp(dir, "/") ? "" : dir, e->d_name) < (int)sizeof(path))
            look(s, path);
    }
    if (d)
        closedir(d);
}

/* Neighbours of where disks were last seen: a renamed directory, a moved image. */
static void look_near(struct search *s)
{
    const struct sfs_label *l = newest_label(s->out);
    struct sfs_label *copy = l ? malloc(sizeof(*copy)) : NULL;
    if (!copy)
        return;
    *copy = *l;
    for (unsigned i = 0; i < copy->npeers; i++) {
        char *slash = strrchr(copy->peers[i].path, '/');
        if (!slash || slash == copy->peers[i].path || found_disk(s->out, &copy->peers[i].uuid) || !strncmp(copy->peers[i].path, "/dev/", 5))
            continue;
        *slash = '\0';
        look_in(s, copy->peers[i].path);
    }
    free(copy);
}

static void look_at_registry(struct search *s)
{
    struct sfs_registry_pool reg;
    if (!s->opts->state_dir || !s->out->n || sfs_registry_load(s->opts->state_dir, newest_label(s->out)->pool_name, &reg))
        return;
    for (unsigned i = 0; i < reg.npaths && sfs_uuid_equal(&reg.uuid, &s->out->pool); i++)
        look(s, reg.paths[i]);
    sfs_registry_free(&reg);
}

/* Where a disk would be if it had moved as another did: from[..from_len] has become to[..to_len]. */
static void look_moved(struct search *s, const char *path, const char *from, size_t from_len, const char *to, size_t to_len)
{
    char moved[SFS_PATH_BYTES];
    if (!strncmp(path, from, from_len) && path[from_len] == '/' && snprintf(moved, sizeof(moved), "%.*s%s", (int)to_len, to, path + from_len) < (int)sizeof(moved))
        look(s, moved);
}

/* The disk that was named has moved: perhaps the others went the same way. Whatever ends its old and its new path have in common may be the part that stayed. */
static void look_along(struct search *s)
{
    const struct sfs_label *l = newest_label(s->out);
    struct sfs_label *copy = l && s->given[0] ? malloc(sizeof(*copy)) : NULL;
    const char *old = NULL, *to = s->given;
    if (!copy)
        return;
    *copy = *l;
    for (unsigned i = 0; i < copy->npeers; i++) {
        const struct sfs_found *f = found_disk(s->out, &copy->peers[i].uuid);
        if (f && !strcmp(f->path, s->given))
            old = copy->peers[i].path;
    }
    size_t a = old ? strlen(old) : 0, b = strlen(to);
    while (a && b && old[a - 1] == to[b - 1] && strcmp(old, to)) {
        a--;
        b--;
        if (old[a] != '/')
            continue;
        for (unsigned i = 0; i < copy->npeers; i++)
            if (!found_disk(s->out, &copy->peers[i].uuid))
                look_moved(s, copy->peers[i].path, old, a, to, b);
    }
    free(copy);
}

/* Beside the disk that was named. */
static void look_beside(struct search *s)
{
    char dir[SFS_PATH_BYTES];
    snprintf(dir, sizeof(dir), "%s", s->given);
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir || !strncmp(dir, "/dev/", 5))
        return;
    *slash = '\0';
    look_in(s, dir);
}

static void look_at_block_devices(struct search *s)
{
    FILE *f = fopen("/proc/partitions", "re");
    char line[256], name[128], path[SFS_PATH_BYTES];
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, " %*u %*u %*u %127s", name) == 1) {
            snprintf(path, sizeof(path), "/dev/%s", name);
            look(s, path);
        }
    if (f)
        fclose(f);
}

/* Directories that are disks are often mount points of their own. */
static void look_at_mountpoints(struct search *s)
{
    FILE *f = fopen("/proc/self/mountinfo", "re");
    char line[4096], dir[SFS_PATH_BYTES], type[64];
    while (f && fgets(line, sizeof(line), f)) {
        char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %*s %511s", dir) != 1 || sscanf(dash, " - %63s", type) != 1)
            continue;
        if (strncmp(type, "fuse", 4) && strcmp(type, "proc") && strcmp(type, "sysfs") && strcmp(type, "autofs") && !strstr(type, "cgroup") && strncmp(type, "nfs", 3))
            look(s, dir);
    }
    if (f)
        fclose(f);
}

static void look_everywhere(struct search *s)
{
    look_at_peers(s);
    for (unsigned i = 0; i < s->opts->nsearch; i++)
        look_in(s, s->opts->search[i]);
    static void (*const places[])(struct search *) = {look_at_registry, look_along, look_near, look_beside, look_at_block_devices, look_at_mountpoints};
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]) && !s->opts->world && sfs_discovery_missing(s->out); i++)
        places[i](s);
}

/* --- which pool ---------------------------------------------------------------------------------------------------------------------------------- */

static int by_name(struct search *s, const char *name, struct sfs_error *err)
{
    struct sfs_registry_pool reg;
    int rc = s->opts->state_dir ? sfs_registry_load(s->opts->state_dir, name, &reg) : -ENOENT;
    if (rc)
        return sfs_error_set(err, -ENOENT, "no pool named %s is known on this host. Name one of its disks by path instead, or run `spacesfs pool import PATH...` with the places where its disks are.", name);
    s->out->pool = reg.uuid;
    s->have_pool = true;
    for (unsigned i = 0; i < reg.npaths; i++)
        look(s, reg.paths[i]);
    struct sfs_error newer = s->newer; /* where its disks were: of this pool, not of just any */
    if (!s->out->n && !s->opts->world) {
        for (unsigned i = 0; i < reg.npaths; i++) { /* all have moved: near where they were */
            char *slash = strrchr(reg.paths[i], '/');
            if (slash && slash != reg.paths[i] && strncmp(reg.paths[i], "/dev/", 5)) {
                *slash = '\0';
                look_in(s, reg.paths[i]);
            }
        }
        look_at_block_devices(s);
        look_at_mountpoints(s);
    }
    unsigned npaths = reg.npaths;
    sfs_registry_free(&reg);
    if (!s->out->n)
        look_everywhere(s);
    if (!s->out->n && newer.code)
        return sfs_error_set(err, newer.code, "pool %s: %s", name, newer.text);
    if (!s->out->n)
        return sfs_error_set(err, -ENODEV, "pool %s: none of its %u known disks was found. Connect or mount them, or run `spacesfs pool import PATH...` with the places where they are now.", name, npaths);
    return 0;
}

static int by_path(struct search *s, const char *path, struct sfs_error *err)
{
    struct sfs_disk_probe *p = calloc(1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    int rc = sfs_disk_probe(s->env, path, s->opts->world, p, err);
    if (!rc && !p->has_label) {
        if (p->label_rc == -EOPNOTSUPP)
            rc = sfs_error_set(err, -EOPNOTSUPP, "%s was written by a newer spacesfs. Update this one.", path);
        else if (p->label_rc == -EUCLEAN)
            rc = sfs_error_set(err, -EUCLEAN, "%s: its label is damaged, in both copies. Name the pool, or another disk of it: it works without this one as if it were missing. `spacesfs-check` of the unmounted pool makes the label anew.", path);
        else
            rc = sfs_error_set(err, -ENOENT, "%s is not a disk of any pool (it bears no label). Name a pool, or a disk of one. If it has been one and its label is lost, `spacesfs-check POOL` makes that anew.", path);
    }
    free(p);
    /* Paths in labels and the registry are absolute, so that they mean something to everybody. */
    char *abs = !rc && strncmp(path, "sim:", 4) ? realpath(path, NULL) : NULL;
    if (!rc) {
        look(s, abs ? abs : path);
        snprintf(s->given, sizeof(s->given), "%s", abs ? abs : path);
    }
    free(abs);
    return rc;
}

int sfs_discover_any(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_discovery *out, struct sfs_error *err)
{
    *out = (struct sfs_discovery){0};
    struct search s = {.env = env, .opts = opts, .out = out};
    bool path = strchr(which, '/') || !strncmp(which, "sim:", 4);
    int rc = path ? by_path(&s, which, err) : by_name(&s, which, err);
    if (!rc && !out->n)
        rc = sfs_error_set(err, -ENODEV, "no disk of pool %s was found.", which);
    if (!rc)
        look_everywhere(&s);
    if (!rc && s.clone.code)
        rc = sfs_error_set(err, s.clone.code, "%s", s.clone.text);
    if (rc)
        sfs_discovery_free(out);
    else
        find_newest(out);
    return rc;
}

int sfs_discover(struct sfs_env *env, const char *which, const struct sfs_pool_open_opts *opts, struct sfs_discovery *out, struct sfs_error *err)
{
    int rc = sfs_discover_any(env, which, opts, out, err);
    if (!rc)
        rc = sfs_discovery_judge(out, err);
    if (rc)
        sfs_discovery_free(out);
    return rc;
}

/* --- judging ------------------------------------------------------------------------------------------------------------------------------------- */

/* The words for two halves that were used apart. */
static int split(const struct sfs_found *a, const struct sfs_found *b, struct sfs_error *err)
{
    return sfs_error_set(err, -EUCLEAN,
                         "pool %s was split: the disk at %s and the disk at %s were used apart from each other, and each has changes that the other lacks. Nothing was changed. Decide which half to keep, "
                         "disconnect the disks of the other half, and open the pool again: the kept half carries on and heals. Copy from the other half first what only it has (connect it alone).",
                         a->label.pool_name, a->path, b->path);
}

/* See open_disk in pool.c. */
bool sfs_discovery_is_replica(const struct sfs_label *newest, const struct sfs_label *l)
{
    if (l->epoch.number == newest->epoch.number)
        return l->replica;
    for (unsigned i = 0; i < newest->npeers && l->epoch.number + 1 == newest->epoch.number; i++)
        if (sfs_uuid_equal(&newest->peers[i].uuid, &l->disk_uuid))
            return newest->peers[i].replica;
    return false;
}

int sfs_discovery_judge(struct sfs_discovery *d, struct sfs_error *err)
{
    find_newest(d);
    const struct sfs_found *n = &d->v[d->newest];
    for (unsigned i = 0; i < d->n; i++)
        if (!sfs_epoch_descends(&n->label.epoch, &d->v[i].label.epoch))
            return split(n, &d->v[i], err);
    bool replica = false;
    char missing[512] = "";
    for (unsigned i = 0; i < d->n; i++)
        replica |= sfs_discovery_is_replica(&n->label, &d->v[i].label);
    if (replica)
        return 0;
    for (unsigned i = 0; i < n->label.npeers; i++)
        if (n->label.peers[i].replica && !found_disk(d, &n->label.peers[i].uuid) && strlen(missing) + 80 < sizeof(missing))
            snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing), "%s%s", missing[0] ? ", " : "", n->label.peers[i].name);
    return sfs_error_set(err, -ENODEV,
                         "pool %s: the disks found hold only older copies of its catalog, or none; the newest are on disks that are missing (%s). Connect at least one of those and try again. "
                         "If they are lost for good, spacesfs-check can fall back on what is left.",
                         n->label.pool_name, missing[0] ? missing : "unknown");
}
