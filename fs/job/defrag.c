/* A window is SFS_EXTENT_MAX bytes of a file, which is what it is written in at best: one extent, or a few when it is compressed. A break is where one piece of it doesn't begin where the one before ends, on the disks. A window with many breaks is stored
 * anew (sfs_vfs_rewrite); what happens to the file meanwhile is the vfs's business: a piece that has changed is left. */
#include "fs/job/defrag.h"

#include <stdlib.h>
#include <string.h>

#include "fs/data/codec.h"
#include "fs/data/commit.h"
#include "fs/job/destage.h"

#define PAGE 256u
#define BREAKS_RAW 3u
#define BREAKS_COMPRESSED 12u     /* pieces of at most SFS_CODEC_RAW_MAX bytes, which groups take in turn */
#define COMMIT_BYTES (64u << 20)
#define STEP_BYTES (1u << 20)
#define SAMPLE_BYTES (64u << 10)

struct defrag {
    struct sfs_job *j;
    struct sfs_data *d;
    struct sfs_space_row set;
    struct sfs_pace pace;
    uint64_t *inos;
    size_t n, cap;
    uint64_t uncommitted;
    struct sfs_defragmented *out;
};

struct window {
    uint64_t at, to;              /* its first byte; the end of its last piece */
    unsigned pieces, breaks;
    bool compressed, raw;         /* pieces of either kind */
    struct sfs_extent_row first_raw;
};

static int progress(void *ctx, uint64_t bytes)
{
    struct defrag *g = ctx;
    int stop = sfs_job_progress(g->j, bytes);
    for (uint64_t step; !stop && bytes; bytes -= step) {
        step = bytes < STEP_BYTES ? bytes : STEP_BYTES;
        sfs_throttle_step(sfs_job_throttle(g->j), &g->pace, step);
        stop = sfs_job_stopping(g->j);
    }
    return stop;
}

/* --- which files ------------------------------------------------------------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_inos(struct defrag *g)
{
    size_t m = 0;
    if (!g->n)
        return;
    qsort(g->inos, g->n, sizeof(*g->inos), by_number);
    for (size_t i = 1; i < g->n; i++)
        if (g->inos[i] != g->inos[m])
            g->inos[++m] = g->inos[i];
    g->n = m + 1;
}

static int add_ino(struct defrag *g, uint64_t ino)
{
    if (g->n && g->inos[g->n - 1] == ino)
        return 0;
    if (g->n == g->cap) {
        sort_inos(g); /* most are there already */
        if (g->n >= g->cap / 2) {
            size_t cap = g->cap ? g->cap * 2 : 1024;
            uint64_t *v = realloc(g->inos, cap * sizeof(*v));
            if (!v)
                return -ENOMEM;
            g->inos = v;
            g->cap = cap;
        }
    }
    g->inos[g->n++] = ino;
    return 0;
}

static int add_group(struct defrag *g, uint64_t group)
{
    struct sfs_catalog *cat = sfs_data_catalog(g->d);
    struct sfs_group_use after = {0}, rows[PAGE];
    unsigned n = PAGE;
    int rc = 0;
    while (!rc && n == PAGE) {
        sfs_catalog_lock(cat);
        rc = sfs_catalog_group_uses(cat, group, &after, rows, PAGE, &n);
        sfs_catalog_unlock(cat);
        for (unsigned i = 0; !rc && i < n; i++)
            rc = add_ino(g, rows[i].ino);
        if (n)
            after = rows[n - 1];
    }
    return rc;
}

static int list_files(struct defrag *g)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(g->d, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++) {
        struct sfs_group_info info;
        if (!sfs_group_info(g->d, ids[i], &info) && info.space == g->set.id)
            rc = add_group(g, ids[i]);
    }
    if (n)
        free(ids);
    sort_inos(g);
    return rc;
}

/* --- one window --------------------------------------------------------------------------------------------------------------------------------------- */

/* Does another file name the same stored extent? */
static int is_shared(struct defrag *g, uint64_t ino, const struct sfs_extent_row *row, bool *shared)
{
    struct sfs_catalog *cat = sfs_data_catalog(g->d);
    struct sfs_group_use after = {.goff = row->goff}, rows[8];
    unsigned n;
    sfs_catalog_lock(cat);
    int rc = sfs_catalog_group_uses(cat, row->group, &after, rows, 8, &n);
    sfs_catalog_unlock(cat);
    for (unsigned i = 0; !rc && i < n && rows[i].goff == row->goff; i++)
        *shared |= rows[i].ino != ino;
    return rc;
}

static int any_shared(struct defrag *g, uint64_t ino, const struct window *w, bool *shared)
{
    struct sfs_catalog *cat = sfs_data_catalog(g->d);
    struct sfs_extent_row *rows = malloc(PAGE * sizeof(*rows));
    unsigned n = 0;
    if (!rows)
        return -ENOMEM;
    sfs_catalog_lock(cat);
    int rc = sfs_catalog_extent_list(cat, ino, w->at, rows, PAGE, &n);
    sfs_catalog_unlock(cat);
    for (unsigned i = 0; !rc && !*shared && i < n && rows[i].off < w->to; i++)
        rc = is_shared(g, ino, &rows[i], shared);
    free(rows);
    return rc;
}

/* Would it pay to compress? A sample tells. */
static bool pays(struct defrag *g, const struct sfs_extent_row *row)
{
    uint32_t len = row->len < SAMPLE_BYTES ? row->len : SAMPLE_BYTES, cap = (len - 1) / SFS_BLOCK * SFS_BLOCK;
    struct sfs_read r = {.len = len};
    uint8_t *raw = malloc(len), *z = malloc(cap + 1);
    bool yes = false;
    uint64_t token = sfs_quiesce_enter(sfs_data_quiesce(g->d));
    if (raw && z && cap && !sfs_extent_from_row(g->d, row, &r.extent)) {
        r.out = raw;
        yes = !sfs_data_read(g->d, &r, 1) && sfs_codec_compress(g->set.codec, g->set.codec_level, raw, len, z, cap) > 0;
        sfs_stored_unref(g->d, r.extent.stored);
    }
    sfs_quiesce_exit(sfs_data_quiesce(g->d), token);
    free(raw);
    free(z);
    return yes;
}

static bool is_due(struct defrag *g, const struct window *w)
{
    if (w->breaks > (w->compressed ? BREAKS_COMPRESSED : BREAKS_RAW))
        return true;
    if (g->set.codec == SFS_CODEC_NONE)
        return w->compressed;
    return w->raw && !w->compressed && pays(g, &w->first_raw);
}

static int rewrite(struct defrag *g, uint64_t ino, const struct window *w)
{
    int rc = sfs_commit_rewrite(g->d, g->set.id, ino, w->at, w->to);
    if (rc == -ENOSPC && sfs_resiliency_parity(g->set.resiliency)) { /* what landed makes way */
        struct sfs_destaging s = {.d = g->d};
        rc = sfs_destage(&s, g->set.id);
        if (!rc)
            rc = sfs_commit_rewrite(g->d, g->set.id, ino, w->at, w->to);
    }
    if (rc == -EAGAIN || rc == -EIO || rc == -ENOENT || rc == -ESTALE)
        return 0; /* it has changed meanwhile, has no good copy, or is gone */
    if (rc)
        return rc;
    g->out->bytes += w->to - w->at;
    g->uncommitted += w->to - w->at;
    if (g->uncommitted >= COMMIT_BYTES) {
        rc = sfs_commit_wait(g->d, false);
        g->uncommitted = 0;
    }
    return rc ? rc : progress(g, w->to - w->at) ? -ECANCELED : 0;
}

static int judge(struct defrag *g, uint64_t ino, const struct window *w)
{
    bool shared = false;
    if (!w->pieces || !is_due(g, w))
        return 0;
    int rc = any_shared(g, ino, w, &shared);
    return rc || shared ? rc : rewrite(g, ino, w);
}

/* --- files --------------------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t window_of(const struct sfs_extent_row *r)
{
    return r->off / SFS_EXTENT_MAX * SFS_EXTENT_MAX;
}

static void add_piece(struct window *w, const struct sfs_extent_row *r, const struct sfs_extent_row *before)
{
    w->to = r->off + r->len;
    w->breaks += w->pieces && (r->group != before->group || r->goff != before->goff + (before->slen + SFS_BLOCK - 1) / SFS_BLOCK * SFS_BLOCK);
    w->pieces++;
    w->compressed |= r->codec != SFS_CODEC_NONE;
    if (r->codec == SFS_CODEC_NONE && !w->raw) {
        w->raw = true;
        w->first_raw = *r;
    }
}

static int defragment_file(struct defrag *g, uint64_t ino)
{
    struct sfs_catalog *cat = sfs_data_catalog(g->d);
    struct sfs_extent_row *rows = malloc(PAGE * sizeof(*rows)), before = {0};
    struct window w = {0};
    uint64_t from = 0, bytes = g->out->bytes;
    unsigned n = PAGE;
    int rc = rows ? 0 : -ENOMEM;
    while (!rc && n == PAGE) {
        sfs_catalog_lock(cat);
        rc = sfs_catalog_extent_list(cat, ino, from, rows, PAGE, &n);
        sfs_catalog_unlock(cat);
        for (unsigned i = 0; !rc && i < n; i++) {
            if (window_of(&rows[i]) != w.at && w.pieces) {
                rc = judge(g, ino, &w);
                w = (struct window){0};
            }
            if (!w.pieces)
                w.at = window_of(&rows[i]);
            add_piece(&w, &rows[i], &before);
            before = rows[i];
            from = rows[i].off + rows[i].len;
        }
        if (!rc && sfs_job_stopping(g->j))
            rc = -ECANCELED;
    }
    if (!rc)
        rc = judge(g, ino, &w);
    free(rows);
    g->out->files += g->out->bytes > bytes;
    return rc;
}

int sfs_defragment(struct sfs_job *j, int space, struct sfs_defragmented *out)
{
    struct defrag g = {.j = j, .d = sfs_job_data(j), .out = out};
    struct sfs_volume *v = sfs_volume_find(g.d, space);
    if (!v)
        return 0;
    sfs_volume_settings(v, &g.set);
    int rc = list_files(&g);
    for (size_t i = 0; !rc && i < g.n; i++)
        rc = defragment_file(&g, g.inos[i]);
    free(g.inos);
    if (rc == -ENODEV) { /* not mounted */
        out->unmounted++;
        rc = 0;
    }
    int last = g.uncommitted ? sfs_commit_wait(g.d, false) : 0;
    return rc ? rc : last;
}
