/* Which files are damaged: from places without a good copy (fs/data/damage.h), and from slab groups whose slabs are on disks that are missing. And telling of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/pool/files.h"
#include "fs/pool/pool_impl.h"

#define NEW_AT_ONCE 256u
#define TOLD_BY_NAME 10u
#define RECHECK_AT_ONCE 64u

/* --- the list ------------------------------------------------------------------------------------------------------------------------------------------ */

/* Columns of a group that nobody has, if they are more than its parity makes up for. */
static bool lost_columns(const struct sfs_group_info *g, bool hit[SFS_MAX_COLUMNS])
{
    unsigned gone = 0;
    for (unsigned c = 0; c < g->columns; c++) {
        hit[c] = true;
        for (unsigned k = 0; k < g->copies; k++)
            hit[c] &= !g->slab_online[c * g->copies + k];
        gone += hit[c];
    }
    return gone > sfs_resiliency_parity(g->resiliency);
}

/* Files in groups that have lost columns: to disks that are away, or (given_up) for good. */
static int files_missing(struct sfs_pool *p, bool given_up, uint64_t max_rows, struct sfs_files *f, bool *more)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(p->data, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n && !*more; i++) {
        struct sfs_group_info g;
        bool hit[SFS_MAX_COLUMNS];
        if (!sfs_group_info(p->data, ids[i], &g) && g.lost && g.given_up == given_up && lost_columns(&g, hit))
            rc = sfs_files_of_group(p, &g, hit, max_rows, f, more);
    }
    if (n)
        free(ids);
    sfs_files_merge(f);
    return rc;
}

static int files_of_rows(struct sfs_pool *p, const struct sfs_damage_row *v, unsigned n, struct sfs_files *f)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(p->data, v[i].group, &g))
            rc = sfs_files_of_place(p, g.id, g.space, v[i].goff, v[i].len, f);
    }
    sfs_files_merge(f);
    return rc;
}

static int files_damaged(struct sfs_pool *p, struct sfs_files *f)
{
    struct sfs_damage_row *v;
    unsigned n;
    int rc = sfs_damage_list(p->data, &v, &n);
    if (rc)
        return rc;
    rc = files_of_rows(p, v, n, f);
    free(v);
    return rc;
}

static void take(struct sfs_pool *p, struct sfs_damaged *out, const struct sfs_files *f, unsigned max, bool missing)
{
    for (size_t i = 0; i < f->n; i++) {
        struct sfs_volume *v = sfs_volume_find(p->data, f->v[i].space);
        struct sfs_space_row row = {0};
        if (v)
            sfs_volume_settings(v, &row);
        if (!v || row.destroying)
            continue;
        out->files++;
        if (out->n == max)
            continue;
        struct sfs_damaged_file *d = &out->v[out->n++];
        *d = (struct sfs_damaged_file){.ino = f->v[i].ino, .bytes = f->v[i].bytes, .missing = missing};
        snprintf(d->space, sizeof(d->space), "%s", row.name);
    }
}

static int name_them(struct sfs_pool *p, struct sfs_damaged *o)
{
    uint64_t *inos = calloc(o->n + 1, sizeof(*inos));
    char **paths = calloc(o->n + 1, sizeof(*paths));
    int rc = inos && paths ? 0 : -ENOMEM;
    for (unsigned i = 0; !rc && i < o->n; i++)
        inos[i] = o->v[i].ino;
    if (!rc)
        rc = sfs_pool_paths(p, inos, o->n, paths);
    for (unsigned i = 0; !rc && i < o->n; i++)
        o->v[i].path = paths[i];
    free(paths);
    free(inos);
    return rc;
}

int sfs_pool_damaged(struct sfs_pool *p, unsigned max, uint64_t max_rows, struct sfs_damaged **res)
{
    struct sfs_files damaged = {0}, missing = {0};
    struct sfs_damaged *o = calloc(1, sizeof(*o));
    int rc = o ? files_damaged(p, &damaged) : -ENOMEM;
    if (!rc)
        rc = files_missing(p, true, max_rows, &damaged, &o->more);
    if (!rc)
        rc = files_missing(p, false, max_rows, &missing, &o->more);
    size_t n = damaged.n + missing.n < max ? damaged.n + missing.n : max;
    if (!rc) {
        o->v = calloc(n + 1, sizeof(*o->v));
        rc = o->v ? 0 : -ENOMEM;
    }
    if (!rc) {
        take(p, o, &damaged, (unsigned)n, false);
        take(p, o, &missing, (unsigned)n, true);
        rc = name_them(p, o);
    }
    sfs_files_free(&damaged);
    sfs_files_free(&missing);
    if (rc) {
        sfs_pool_damaged_free(o);
        return rc;
    }
    *res = o;
    return 0;
}

void sfs_pool_damaged_free(struct sfs_damaged *o)
{
    if (!o)
        return;
    for (unsigned i = 0; o->v && i < o->n; i++)
        free(o->v[i].path);
    free(o->v);
    free(o);
}

uint64_t sfs_pool_damaged_bytes(struct sfs_pool *p, uint64_t group, uint64_t goff, uint32_t slen)
{
    return sfs_damage_bytes(p->data, group, goff, goff + slen);
}

/* --- telling -------------------------------------------------------------------------------------------------------------------------------------------- */

static void tell_file(struct sfs_pool *p, const struct sfs_file_tally *f, const char *path)
{
    struct sfs_volume *v = sfs_volume_find(p->data, f->space);
    struct sfs_space_row row = {0};
    char size[16], subject[SFS_NAME_MAX + 1];
    if (v)
        sfs_volume_settings(v, &row);
    snprintf(subject, sizeof(subject), "%s", row.name);
    sfs_pool_event(p, "error", "damage", subject, "%.300s in %s/%s: no good copy is left of %s of it. Programs get an I/O error there; the rest of the file can be read. Restore it from a backup, or delete it",
                   path ? path : "a file without a name (deleted while it is in use)", p->name, row.name, sfs_size_format(f->bytes, size));
}

void sfs_pool_tell_damage(struct sfs_pool *p)
{
    struct sfs_damage_row *v = calloc(NEW_AT_ONCE, sizeof(*v));
    struct sfs_files f = {0};
    uint64_t inos[TOLD_BY_NAME];
    char *paths[TOLD_BY_NAME];
    unsigned n = v ? sfs_damage_take_new(p->data, v, NEW_AT_ONCE) : 0;
    if (n && !files_of_rows(p, v, n, &f)) {
        unsigned named = f.n < TOLD_BY_NAME ? (unsigned)f.n : TOLD_BY_NAME;
        for (unsigned i = 0; i < named; i++)
            inos[i] = f.v[i].ino;
        if (named && !sfs_pool_paths(p, inos, named, paths))
            for (unsigned i = 0; i < named; i++) {
                tell_file(p, &f.v[i], paths[i]);
                free(paths[i]);
            }
        if (f.n > named)
            sfs_pool_event(p, "error", "damage", "", "%llu more files have damaged data: `spacesfs damage %s` lists them", (unsigned long long)(f.n - named), p->name);
        p->damage_told = true;
        sfs_commit_kick(p->data); /* so that it is known after a crash, too */
    }
    if (p->damage_told && !sfs_damage_count(p->data)) {
        p->damage_told = false;
        sfs_pool_event(p, "info", "damage-gone", "", "no damaged data is left: what was damaged was good again, rewritten, or deleted");
    }
    free(v);
    sfs_files_free(&f);
}

/* A disk has come (back): what had no good copy may have one now. A few places at a time. */
void sfs_pool_recheck_damage(struct sfs_pool *p)
{
    if (p->damage_recheck)
        p->damage_recheck = sfs_damage_recheck(p->data, &p->damage_cursor, RECHECK_AT_ONCE);
}

void sfs_pool_want_recheck(struct sfs_pool *p)
{
    p->damage_cursor = (struct sfs_damage_row){0};
    p->damage_recheck = true;
}
