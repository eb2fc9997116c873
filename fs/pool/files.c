#include "fs/pool/files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fs/pool/pool_impl.h"

#define ROWS 512u

/* --- a set of files --------------------------------------------------------------------------------------------------------------------------------- */

static int by_ino(const void *a, const void *b)
{
    const struct sfs_file_tally *x = a, *y = b;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

void sfs_files_merge(struct sfs_files *f)
{
    size_t m = 0;
    if (!f->n)
        return;
    qsort(f->v, f->n, sizeof(*f->v), by_ino);
    for (size_t i = 1; i < f->n; i++) {
        if (f->v[i].ino == f->v[m].ino)
            f->v[m].bytes += f->v[i].bytes;
        else
            f->v[++m] = f->v[i];
    }
    f->n = m + 1;
}

int sfs_files_add(struct sfs_files *f, uint64_t ino, int space, uint64_t bytes)
{
    if (f->n && f->v[f->n - 1].ino == ino) {
        f->v[f->n - 1].bytes += bytes;
        return 0;
    }
    if (f->n == f->cap) {
        sfs_files_merge(f);
        if (f->n >= f->cap / 2) {
            size_t cap = f->cap ? f->cap * 2 : 64;
            struct sfs_file_tally *v = realloc(f->v, cap * sizeof(*v));
            if (!v)
                return -ENOMEM;
            f->v = v;
            f->cap = cap;
        }
    }
    f->v[f->n++] = (struct sfs_file_tally){ino, bytes, space};
    return 0;
}

void sfs_files_free(struct sfs_files *f)
{
    free(f->v);
    *f = (struct sfs_files){0};
}

/* --- who uses a group --------------------------------------------------------------------------------------------------------------------------------- */

/* Bytes of [goff, goff + slen) on the columns that are hit. */
static uint64_t bytes_hit(const struct sfs_geometry *geo, const struct sfs_group_use *u, const bool *hit)
{
    uint64_t off = u->goff, end = u->goff + u->slen, sum = 0;
    struct sfs_piece piece;
    while (end <= sfs_geometry_capacity(geo) && sfs_geometry_next(geo, &off, end, &piece))
        sum += hit[piece.column] ? piece.len : 0;
    return sum;
}

/* Calls fn for each use after *at, a chunk at a time, until it returns non-zero. */
static int each_use(struct sfs_pool *p, uint64_t group, struct sfs_group_use at, int (*fn)(void *ctx, const struct sfs_group_use *u), void *ctx)
{
    struct sfs_group_use *rows = malloc(ROWS * sizeof(*rows));
    int rc = rows ? 0 : -ENOMEM;
    for (unsigned n = ROWS; !rc && n == ROWS;) {
        sfs_catalog_lock(p->cat);
        rc = sfs_catalog_group_uses(p->cat, group, &at, rows, ROWS, &n);
        sfs_catalog_unlock(p->cat);
        for (unsigned i = 0; !rc && i < n; i++)
            rc = fn(ctx, &rows[i]);
        if (n)
            at = rows[n - 1];
    }
    free(rows);
    return rc;
}

struct group_walk {
    const struct sfs_group_info *g;
    struct sfs_geometry geo;
    const bool *hit;
    uint64_t left; /* rows that may still be looked at */
    struct sfs_files *f;
    bool *more;
};

static int take_use(void *ctx, const struct sfs_group_use *u)
{
    struct group_walk *w = ctx;
    if (!w->left) {
        *w->more = true;
        return 1;
    }
    w->left--;
    uint64_t bytes = bytes_hit(&w->geo, u, w->hit);
    return bytes ? sfs_files_add(w->f, u->ino, w->g->space, bytes) : 0;
}

int sfs_files_of_group(struct sfs_pool *p, const struct sfs_group_info *g, const bool *hit, uint64_t max_rows, struct sfs_files *f, bool *more)
{
    struct group_walk w = {.g = g, .hit = hit, .left = max_rows ? max_rows : UINT64_MAX, .f = f, .more = more};
    int rc = sfs_geometry_init(&w.geo, g->resiliency, g->columns, g->interleave, p->slab_bytes, NULL);
    if (!rc)
        rc = each_use(p, g->id, (struct sfs_group_use){0}, take_use, &w);
    return rc > 0 ? 0 : rc;
}

struct place_walk {
    uint64_t goff, len;
    int space;
    struct sfs_files *f;
};

static int take_place(void *ctx, const struct sfs_group_use *u)
{
    struct place_walk *w = ctx;
    if (u->goff >= w->goff + w->len)
        return 1;
    return u->goff + u->slen > w->goff ? sfs_files_add(w->f, u->ino, w->space, w->len) : 0;
}

int sfs_files_of_place(struct sfs_pool *p, uint64_t group, int space, uint64_t goff, uint64_t len, struct sfs_files *f)
{
    struct place_walk w = {goff, len, space, f};
    struct sfs_group_use from = {.goff = goff > SFS_EXTENT_MAX ? goff - SFS_EXTENT_MAX : 0};
    int rc = each_use(p, group, from, take_place, &w);
    return rc > 0 ? 0 : rc;
}

/* --- names ------------------------------------------------------------------------------------------------------------------------------------------------ */

/* What an inode's directory was when its path was last looked for: saves the pass over all names while it is so. */
static uint64_t hint_of(struct sfs_pool *p, uint64_t ino)
{
    uint64_t parent = 0;
    sfs_mutex_lock(&p->leaf);
    for (unsigned i = 0; i < SFS_PATH_HINTS; i++)
        if (p->path_hints[i].ino == ino)
            parent = p->path_hints[i].parent;
    sfs_mutex_unlock(&p->leaf);
    return parent;
}

static void remember(struct sfs_pool *p, uint64_t ino, uint64_t parent)
{
    sfs_mutex_lock(&p->leaf);
    unsigned at = p->path_hint_next++ % SFS_PATH_HINTS;
    for (unsigned i = 0; i < SFS_PATH_HINTS; i++)
        if (p->path_hints[i].ino == ino)
            at = i;
    p->path_hints[at].ino = ino;
    p->path_hints[at].parent = parent;
    sfs_mutex_unlock(&p->leaf);
}

struct wanted {
    uint64_t ino;
    unsigned at;
};

struct search {
    struct sfs_pool *p;
    struct wanted *v; /* by inode */
    unsigned n, found;
    char **paths;
    char *path;       /* scratch, PATH_MAX */
};

static int by_wanted(const void *a, const void *b)
{
    const struct wanted *x = a, *y = b;
    return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Catalog lock held. */
static int take_path(struct search *s, const struct wanted *w, uint64_t parent)
{
    int rc = sfs_catalog_path_in(s->p->cat, w->ino, parent, s->path, PATH_MAX);
    if (rc)
        return rc == -ENOENT || rc == -ERANGE ? 0 : rc; /* too deep for a path: it stays without one */
    s->paths[w->at] = strdup(s->path);
    if (!s->paths[w->at])
        return -ENOMEM;
    s->found++;
    remember(s->p, w->ino, parent);
    return 0;
}

static int use_hints(struct search *s)
{
    int rc = 0;
    sfs_catalog_lock(s->p->cat);
    for (unsigned i = 0; !rc && i < s->n; i++) {
        uint64_t parent = hint_of(s->p, s->v[i].ino);
        if (parent)
            rc = take_path(s, &s->v[i], parent);
    }
    sfs_catalog_unlock(s->p->cat);
    return rc;
}

static int match(struct search *s, const struct sfs_dentry_row *row)
{
    struct wanted key = {.ino = row->ino};
    const struct wanted *w = bsearch(&key, s->v, s->n, sizeof(*s->v), by_wanted);
    return w && !s->paths[w->at] ? take_path(s, w, row->parent) : 0;
}

static int scan(struct search *s)
{
    struct sfs_dentry_row *rows = malloc(ROWS * sizeof(*rows));
    uint64_t parent = 0, cookie = 0;
    int rc = rows ? 0 : -ENOMEM;
    for (unsigned n = ROWS; !rc && n == ROWS && s->found < s->n;) {
        sfs_catalog_lock(s->p->cat);
        rc = sfs_catalog_dentry_scan(s->p->cat, parent, cookie, rows, ROWS, &n);
        for (unsigned i = 0; !rc && i < n; i++)
            rc = match(s, &rows[i]);
        sfs_catalog_unlock(s->p->cat);
        if (n) {
            parent = rows[n - 1].parent;
            cookie = rows[n - 1].cookie;
        }
    }
    free(rows);
    return rc;
}

int sfs_pool_paths(struct sfs_pool *p, const uint64_t *inos, unsigned n, char **paths)
{
    struct search s = {.p = p, .n = n, .paths = paths, .v = calloc(n + 1, sizeof(*s.v)), .path = malloc(PATH_MAX)};
    memset(paths, 0, n * sizeof(*paths));
    for (unsigned i = 0; s.v && i < n; i++)
        s.v[i] = (struct wanted){inos[i], i};
    if (s.v)
        qsort(s.v, n, sizeof(*s.v), by_wanted);
    int rc = s.v && s.path ? use_hints(&s) : -ENOMEM;
    if (!rc && s.found < n)
        rc = scan(&s);
    free(s.path);
    free(s.v);
    for (unsigned i = 0; rc && i < n; i++) {
        free(paths[i]);
        paths[i] = NULL;
    }
    return rc;
}
