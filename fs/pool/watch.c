/* What changes by itself and people want to be told of once: redundancy that is lost and is back, and fullness (70, 80, 90, 95 %).
 *
 * What holds when the pool is opened was told when it came to be so, and isn't told again. A step of fullness is told again only after usage has fallen two percent below it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/pool/pool_impl.h"

#define FULL_EVERY_NS 5000000000ull
#define SLACK_PERCENT 2u

static const unsigned steps[] = {70, 80, 90, 95};
#define NSTEPS (sizeof(steps) / sizeof(steps[0]))

/* --- redundancy -------------------------------------------------------------------------------------------------------------------------------- */

void sfs_pool_tell_missing(struct sfs_pool *p, uint64_t groups)
{
    sfs_pool_event(p, "error", "data-missing", "", "%llu slab group%s no copy of some of %s data on the disks that are here: reading that data gives an error until a disk with it returns. `spacesfs damage %s` lists the files",
                   (unsigned long long)groups, groups == 1 ? " has" : "s have", groups == 1 ? "its" : "their", p->name);
}

static void watch_redundancy(struct sfs_pool *p)
{
    struct sfs_pool_watch *w = &p->watch;
    uint64_t *ids, degraded = 0, lost = 0;
    unsigned n;
    if (sfs_group_ids(p->data, &ids, &n))
        return;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(p->data, ids[i], &g))
            continue;
        degraded += g.missing > 0;
        lost += g.lost;
    }
    if (n)
        free(ids);
    if (w->known && degraded > lost && !w->degraded)
        sfs_pool_event(p, "warning", "degraded", "", "%llu slab group%s fewer copies than %s should: all of %s data can be read, but another loss may cost some. `spacesfs status %s` says what is done about it",
                       (unsigned long long)(degraded - lost), degraded - lost == 1 ? " has" : "s have", degraded - lost == 1 ? "it" : "they", degraded - lost == 1 ? "its" : "their", p->name);
    if (w->known && lost && !w->missing)
        sfs_pool_tell_missing(p, lost);
    if (w->known && !degraded && (w->degraded || w->missing))
        sfs_pool_event(p, "info", "redundancy-restored", "", "everything has full redundancy again");
    w->degraded = degraded > 0;
    w->missing = lost > 0;
}

/* --- fullness ----------------------------------------------------------------------------------------------------------------------------------- */

static unsigned percent(uint64_t part, uint64_t all)
{
    return all ? (unsigned)((double)part * 100 / (double)all) : 0;
}

/* Raw: slabs that are taken on the disks that take any. */
static unsigned pool_percent(struct sfs_pool *p)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    uint64_t all = 0, free_slabs = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!v[i].online || v[i].row.usage != SFS_USAGE_AUTO)
            continue;
        all += v[i].row.capacity_slabs;
        free_slabs += v[i].free_slabs;
    }
    return percent(all - (free_slabs < all ? free_slabs : all), all);
}

static unsigned step_of(unsigned full)
{
    unsigned n = 0;
    while (n < NSTEPS && full >= steps[n])
        n++;
    return n;
}

static struct sfs_pool_full *entry(struct sfs_pool_watch *w, int space)
{
    for (unsigned i = 0; i < w->nfull; i++)
        if (w->full[i].space == space)
            return &w->full[i];
    if (w->nfull == SFS_WATCHED_SPACES)
        return NULL;
    w->full[w->nfull] = (struct sfs_pool_full){.space = space};
    return &w->full[w->nfull++];
}

/* True: a step further has been reached. */
static bool moved_up(struct sfs_pool_watch *w, int space, unsigned full)
{
    struct sfs_pool_full *f = entry(w, space);
    unsigned now = step_of(full);
    bool up = f && now > f->step && w->full_known;
    if (f && (now > f->step || step_of(full + SLACK_PERCENT) < f->step))
        f->step = now;
    return up;
}

static void tell_full(struct sfs_pool *p, const char *space, unsigned full, const char *left)
{
    unsigned step = steps[step_of(full) - 1];
    char kind[16];
    snprintf(kind, sizeof(kind), "full-%u", step);
    if (*space)
        sfs_pool_event(p, step >= 90 ? "warning" : "info", kind, space, "space %s/%s is %u %% full, %s is left. Delete something, or make it larger: `spacesfs space set %s/%s size=SIZE`", p->name,
                       space, full, left, p->name, space);
    else
        sfs_pool_event(p, step >= 90 ? "warning" : "info", kind, "", "the pool is %u %% full, %s is left for its spaces. Delete something, or add a disk: `spacesfs disk add %s DISK`", full,
                       left, p->name);
}

struct spaces {
    int *id;
    unsigned n;
};

static int take_space(const struct sfs_space_row *row, void *ctx)
{
    struct spaces *s = ctx;
    if (!row->destroying && s->n < SFS_WATCHED_SPACES)
        s->id[s->n++] = row->id;
    return 0;
}

/* A space without a size of its own is as full as the pool is for it. */
static void watch_fullness(struct sfs_pool *p)
{
    struct spaces s = {.id = calloc(SFS_WATCHED_SPACES, sizeof(int))};
    unsigned full = pool_percent(p);
    uint64_t left = 0;
    char text[16];
    if (!s.id)
        return;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_space_each(p->cat, take_space, &s);
    sfs_catalog_unlock(p->cat);
    for (unsigned i = 0; !rc && i < s.n; i++) {
        struct sfs_volume *v = sfs_volume_find(p->data, s.id[i]);
        struct sfs_space_row row;
        struct sfs_volume_stat st;
        if (!v)
            continue;
        sfs_volume_settings(v, &row);
        sfs_volume_stat(v, &st);
        unsigned its = percent(st.used_bytes, st.used_bytes + st.avail_bytes);
        left = st.avail_bytes > left ? st.avail_bytes : left;
        if (!row.size_bytes)
            full = its > full ? its : full;
        else if (moved_up(&p->watch, row.id, percent(st.used_bytes, row.size_bytes)))
            tell_full(p, row.name, percent(st.used_bytes, row.size_bytes), sfs_size_format(st.avail_bytes, text));
    }
    if (moved_up(&p->watch, 0, full))
        tell_full(p, "", full, sfs_size_format(left, text));
    free(s.id);
    p->watch.full_known = true;
}

void sfs_pool_watch_begin(struct sfs_pool *p)
{
    watch_redundancy(p);
    p->watch.known = true;
}

void sfs_pool_watch(struct sfs_pool *p)
{
    uint64_t now = sfs_env_mono_ns(p->env);
    watch_redundancy(p);
    if (now < p->watch.full_ns)
        return;
    watch_fullness(p);
    p->watch.full_ns = now + FULL_EVERY_NS;
}
