#include "fs/job/scrub.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/size.h"
#include "fs/data/damage.h"
#include "fs/data/groups.h"
#include "fs/data/repair.h"
#include "fs/job/throttle.h"

#define REPAIRED 256u
#define USES 64u

/* How far it is; kept as text. */
struct place {
    uint64_t after;    /* groups up to this one are through */
    uint64_t last;     /* the highest when it began */
    uint64_t bytes;    /* read and compared, one copy counted */
    uint64_t repaired; /* blocks */
    uint64_t pages;    /* of the catalog, bad */
    uint64_t degraded; /* groups of which copies were missing, and could not be read */
};

struct scrub {
    struct sfs_job *j;
    struct sfs_data *d;
    struct sfs_catalog *cat;
    struct place at;
    uint64_t group_bytes; /* of the group under way */
    struct sfs_pace pace;
};

/* --- how far it is ----------------------------------------------------------------------------------------------------- */

static int load(struct scrub *s)
{
    char text[160];
    struct place p = {0};
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_prop_get(s->cat, SFS_SCRUB_AT, text, sizeof(text));
    sfs_catalog_unlock(s->cat);
    if (!rc && sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &p.after, &p.last, &p.bytes, &p.repaired, &p.pages, &p.degraded) == 6) {
        s->at = p;
        return 0;
    }
    return rc && rc != -ENOENT ? rc : 1; /* begins anew */
}

/* Into the catalog's transaction; that it is durable a moment later is soon enough. */
static int save(struct scrub *s)
{
    char text[160];
    const struct place *p = &s->at;
    snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, p->after, p->last, p->bytes, p->repaired, p->pages, p->degraded);
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_prop_set(s->cat, SFS_SCRUB_AT, text);
    sfs_catalog_unlock(s->cat);
    return rc;
}

static int by_id(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Ids of the groups that are left, in order; malloc'ed. */
static int groups_left(struct scrub *s, uint64_t **ids, unsigned *n)
{
    unsigned all, m = 0;
    int rc = sfs_group_ids(s->d, ids, &all);
    if (rc)
        return rc;
    for (unsigned i = 0; i < all; i++)
        if ((*ids)[i] > s->at.after && (*ids)[i] <= s->at.last)
            (*ids)[m++] = (*ids)[i];
    if (m)
        qsort(*ids, m, sizeof(**ids), by_id);
    if (!m && all) {
        free(*ids);
        *ids = NULL;
    }
    *n = m;
    return 0;
}

static int begin_anew(struct scrub *s)
{
    struct sfs_repaired old[REPAIRED];
    uint64_t *ids;
    unsigned n;
    s->at = (struct place){.last = UINT64_MAX};
    int rc = groups_left(s, &ids, &n);
    if (rc)
        return rc;
    s->at.last = n ? ids[n - 1] : 0;
    if (n)
        free(ids);
    while (sfs_repaired_take(s->d, old, REPAIRED)) /* what was repaired before is not this scrub's */
        ;
    sfs_catalog_lock(s->cat);
    rc = sfs_catalog_finding_clear(s->cat);
    sfs_catalog_unlock(s->cat);
    return rc ? rc : save(s);
}

/* --- findings ------------------------------------------------------------------------------------------------------------- */

/* Catalog lock held. Under each file that has the place. */
static int add_finding(struct scrub *s, const struct sfs_repaired *r)
{
    struct sfs_group_use rows[USES], from = {.goff = r->goff};
    unsigned n;
    int rc = sfs_catalog_group_uses(s->cat, r->group, &from, rows, USES, &n);
    for (unsigned i = 0; !rc && i < n && rows[i].goff == r->goff; i++) {
        if (i && rows[i].ino == rows[i - 1].ino)
            continue;
        struct sfs_finding_row f = {rows[i].ino, r->disk, r->blocks};
        rc = sfs_catalog_finding_add(s->cat, &f);
    }
    return rc == -ENOSPC ? 0 : rc; /* enough are named */
}

static int take_findings(struct scrub *s)
{
    struct sfs_repaired v[REPAIRED];
    unsigned n;
    int rc = 0;
    while (!rc && (n = sfs_repaired_take(s->d, v, REPAIRED))) {
        sfs_catalog_lock(s->cat);
        for (unsigned i = 0; !rc && i < n; i++) {
            s->at.repaired += v[i].blocks;
            rc = add_finding(s, &v[i]);
        }
        sfs_catalog_unlock(s->cat);
    }
    return rc;
}

/* --- the work -------------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_left(struct scrub *s, const uint64_t *ids, unsigned n)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        if (!sfs_group_info(s->d, ids[i], &g))
            sum += g.used_bytes;
    }
    return sum;
}

static int progress(void *ctx, uint64_t bytes)
{
    struct scrub *s = ctx;
    s->group_bytes += bytes;
    sfs_throttle_step(sfs_job_throttle(s->j), &s->pace, bytes);
    return sfs_job_progress(s->j, bytes);
}

static int scrub_group(struct scrub *s, uint64_t id)
{
    struct sfs_group_info g;
    uint64_t bad, lost;
    s->group_bytes = 0;
    bool known = !sfs_group_info(s->d, id, &g);
    int rc = known ? sfs_verify_group(s->d, id, progress, s, &bad, &lost) : 0;
    int found = take_findings(s);
    if (rc || found)
        return rc ? rc : found;
    s->at.after = id;
    s->at.bytes += s->group_bytes;
    s->at.degraded += known && g.missing > 0;
    return save(s);
}

static int scrub_groups(struct scrub *s)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_groups_count_used(s->d);
    if (!rc)
        rc = groups_left(s, &ids, &n);
    if (rc)
        return rc;
    for (unsigned i = 0; !rc && i < n; i++) {
        sfs_job_left(s->j, bytes_left(s, ids + i, n - i));
        rc = sfs_job_stopping(s->j) ? -ECANCELED : scrub_group(s, ids[i]);
    }
    if (n)
        free(ids);
    return rc;
}

/* --- its end ------------------------------------------------------------------------------------------------------------------ */

static void say_result(struct scrub *s)
{
    const struct place *p = &s->at;
    char all[16], mended[16], text[256];
    unsigned damaged = sfs_damage_count(s->d);
    size_t n = (size_t)snprintf(text, sizeof(text), "%s were read on every disk and compared", sfs_size_format(p->bytes, all));
    if (!p->repaired && !p->pages && !damaged)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ": every copy is good");
    if (p->repaired)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "; %s of bad copies were rewritten from good ones", sfs_size_format(p->repaired * SFS_BLOCK, mended));
    if (p->pages)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "; %" PRIu64 " bad pages of the catalog were mended", p->pages);
    if (damaged)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "; some files are damaged: `spacesfs damage` lists them");
    if (p->degraded && n < sizeof(text))
        snprintf(text + n, sizeof(text) - n, "; of some data copies are missing, and could not be read");
    sfs_job_says(s->j, "%s", text);
}

static int finish(struct scrub *s)
{
    char now[32];
    snprintf(now, sizeof(now), "%lld", (long long)sfs_env_wall(sfs_data_env(s->d)).tv_sec);
    say_result(s);
    sfs_catalog_lock(s->cat);
    int rc = sfs_catalog_prop_set(s->cat, SFS_SCRUB_LAST, now);
    if (!rc)
        rc = sfs_catalog_prop_set(s->cat, SFS_SCRUB_AT, NULL);
    sfs_catalog_unlock(s->cat);
    return rc;
}

int sfs_scrub(struct sfs_job *j, const struct sfs_scrub_ops *ops)
{
    struct scrub s = {.j = j, .d = sfs_job_data(j), .cat = sfs_data_catalog(sfs_job_data(j))};
    uint64_t pages = 0;
    int rc = load(&s);
    if (rc == 1) {
        rc = begin_anew(&s);
        if (!rc)
            rc = ops->catalog(ops->ctx, &pages);
        s.at.pages = pages;
        if (!rc)
            rc = save(&s);
    }
    if (!rc)
        rc = scrub_groups(&s);
    return rc ? rc : finish(&s);
}

void sfs_scrub_forget(struct sfs_data *d)
{
    struct sfs_catalog *cat = sfs_data_catalog(d);
    sfs_catalog_lock(cat);
    sfs_catalog_prop_set(cat, SFS_SCRUB_AT, NULL);
    sfs_catalog_unlock(cat);
}
