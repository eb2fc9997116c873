/* Known damage (damage.h).
 *
 * One entry a checksum granule, by its place. NEW: not in the catalog yet; STORED: it is; GONE: it is, and has to be deleted. The next commit brings the catalog in line (sfs_damage_apply), in the same transaction in
 * which rows of files change: so a place is never given to new data while an entry names it.
 *
 * Invariants: D1 an entry is added only for a place that a catalog row names (looked at again under the catalog's lock when it is stored: a reader that fails late may come after its file's end). D2 a place that
 * becomes free loses its entry in the transaction that frees it. */
#include "fs/data/damage.h"

#include <stdlib.h>
#include <string.h>

#include "fs/data/codec.h"
#include "fs/data/state.h"

#define ENTRIES_MAX 100000u
#define REPAIRED_MAX 4096u
#define ROWS 64u

static int entry_cmp(struct sfs_damage_entry *a, struct sfs_damage_entry *b)
{
    if (a->row.group != b->row.group)
        return a->row.group < b->row.group ? -1 : 1;
    return a->row.goff < b->row.goff ? -1 : a->row.goff > b->row.goff;
}

RB_GENERATE(sfs_damage_tree, sfs_damage_entry, link, entry_cmp)

static struct sfs_damage_entry *first_from(struct sfs_data *d, uint64_t group, uint64_t goff)
{
    struct sfs_damage_entry key = {.row = {.group = group, .goff = goff}};
    return RB_NFIND(sfs_damage_tree, &d->damage.tree, &key);
}

static void count(struct sfs_data *d, int delta)
{
    __atomic_add_fetch(&d->damage.n, (unsigned)delta, __ATOMIC_RELAXED);
}

unsigned sfs_damage_count(struct sfs_data *d)
{
    return __atomic_load_n(&d->damage.n, __ATOMIC_RELAXED);
}

/* --- noting and taking back; lock held unless said otherwise ------------------------------------------------------------------------------------- */

/* Is some of [off, end) on columns that nobody has who is here, and more of them than parity makes up for? */
static bool is_away(struct sfs_data *d, const struct sfs_group *g, uint64_t off, uint64_t end)
{
    struct sfs_piece p;
    unsigned gone = 0;
    bool touched = false;
    for (unsigned c = 0; c < g->geo.columns; c++)
        gone += !sfs_column_has_copy(d, g, c);
    while (gone > g->geo.parity && sfs_geometry_next(&g->geo, &off, end, &p))
        touched |= !sfs_column_has_copy(d, g, p.column);
    return touched;
}

static struct sfs_damage_entry *insert(struct sfs_data *d, const struct sfs_damage_row *row, enum sfs_damage_state state)
{
    struct sfs_damage_entry *e = sfs_damage_count(d) < ENTRIES_MAX ? calloc(1, sizeof(*e)) : NULL;
    if (!e)
        return NULL; /* one that isn't known is found again by the next reader */
    e->row = *row;
    e->state = state;
    RB_INSERT(sfs_damage_tree, &d->damage.tree, e);
    count(d, 1);
    return e;
}

static void take_back(struct sfs_data *d, struct sfs_damage_entry *e)
{
    if (e->state == SFS_DAMAGE_GONE)
        return;
    count(d, -1);
    if (e->state == SFS_DAMAGE_STORED) {
        e->state = SFS_DAMAGE_GONE;
        d->damage.dirty = true;
        return;
    }
    RB_REMOVE(sfs_damage_tree, &d->damage.tree, e);
    free(e);
}

static void place_of(const struct sfs_stored *s, unsigned i, uint64_t *from, uint64_t *to)
{
    uint32_t a, b;
    sfs_checksum_range(s->codec, (uint32_t)s->key.slen, i, &a, &b);
    *from = s->key.goff + a;
    *to = s->key.goff + b;
}

void sfs_damage_note(struct sfs_data *d, struct sfs_stored *s, unsigned i)
{
    uint64_t from, to;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, s->key.group);
    place_of(s, i, &from, &to);
    if (g && !g->dropped && s->applied && !s->detached && !is_away(d, g, from, to)) {
        struct sfs_damage_entry *e = first_from(d, g->id, from);
        struct sfs_damage_row row = {g->id, from, (uint32_t)(to - from), sfs_env_wall(d->env).tv_sec};
        if (!e || e->row.group != g->id || e->row.goff != from) {
            d->damage.dirty |= insert(d, &row, SFS_DAMAGE_NEW) != NULL;
        } else if (e->state == SFS_DAMAGE_GONE) {
            e->state = SFS_DAMAGE_STORED;
            e->told = false;
            count(d, 1);
        }
    }
    SFS_UNLOCK(d);
}

void sfs_damage_good(struct sfs_data *d, struct sfs_stored *s, unsigned i)
{
    uint64_t from, to;
    if (!sfs_damage_count(d))
        return;
    SFS_LOCK(d);
    place_of(s, i, &from, &to);
    struct sfs_damage_entry *e = first_from(d, s->key.group, from);
    if (e && e->row.group == s->key.group && e->row.goff == from)
        take_back(d, e);
    SFS_UNLOCK(d);
}

void sfs_damage_freed(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to)
{
    if (RB_EMPTY(&d->damage.tree))
        return;
    struct sfs_damage_entry *next, *e = first_from(d, group, from > SFS_EXTENT_MAX ? from - SFS_EXTENT_MAX : 0);
    for (; e && e->row.group == group && e->row.goff < to; e = next) {
        next = RB_NEXT(sfs_damage_tree, &d->damage.tree, e);
        if (e->row.goff + e->row.len > from)
            take_back(d, e);
    }
}

/* --- the catalog ------------------------------------------------------------------------------------------------------------------------------------ */

struct changes {
    struct sfs_damage_row *put, *gone;
    size_t nput, ngone;
};

/* What the catalog has to learn; the entries count as stored, or are forgotten, from here on. */
static int collect(struct sfs_data *d, struct changes *c)
{
    struct sfs_damage_entry *e, *next;
    size_t n = 0;
    RB_FOREACH(e, sfs_damage_tree, &d->damage.tree)
        n += e->state != SFS_DAMAGE_STORED;
    c->put = calloc(2 * n + 1, sizeof(*c->put));
    if (!c->put)
        return -ENOMEM;
    c->gone = c->put + n;
    for (e = RB_MIN(sfs_damage_tree, &d->damage.tree); e; e = next) {
        next = RB_NEXT(sfs_damage_tree, &d->damage.tree, e);
        if (e->state == SFS_DAMAGE_NEW) {
            c->put[c->nput++] = e->row;
            e->state = SFS_DAMAGE_STORED;
        } else if (e->state == SFS_DAMAGE_GONE) {
            c->gone[c->ngone++] = e->row;
            RB_REMOVE(sfs_damage_tree, &d->damage.tree, e);
            free(e);
        }
    }
    d->damage.dirty = false;
    return 0;
}

static int any(uint64_t goff, uint32_t slen, void *ctx)
{
    (void)goff;
    (void)slen;
    (void)ctx;
    return 1;
}

/* D1. 1: rows name the place; 0; -errno. */
static int is_named(struct sfs_data *d, const struct sfs_damage_row *r)
{
    return sfs_catalog_group_ranges(d->cat, r->group, r->goff, r->goff + r->len, any, NULL);
}

static void forget(struct sfs_data *d, const struct sfs_damage_row *r)
{
    SFS_LOCK(d);
    struct sfs_damage_entry *e = first_from(d, r->group, r->goff);
    if (e && e->row.group == r->group && e->row.goff == r->goff)
        take_back(d, e);
    SFS_UNLOCK(d);
}

int sfs_damage_apply(struct sfs_data *d)
{
    struct changes c = {0};
    SFS_LOCK(d);
    int rc = d->damage.dirty ? collect(d, &c) : 0;
    SFS_UNLOCK(d);
    for (size_t i = 0; !rc && i < c.ngone; i++)
        rc = sfs_catalog_damage_delete(d->cat, c.gone[i].group, c.gone[i].goff);
    for (size_t i = 0; !rc && i < c.nput; i++) {
        rc = is_named(d, &c.put[i]);
        if (rc == 1)
            rc = sfs_catalog_damage_put(d->cat, &c.put[i]);
        else if (rc == 0)
            forget(d, &c.put[i]);
    }
    free(c.put);
    return rc;
}

static int load_one(const struct sfs_damage_row *row, void *ctx)
{
    struct sfs_data *d = ctx;
    SFS_LOCK(d);
    struct sfs_damage_entry *e = insert(d, row, SFS_DAMAGE_STORED);
    if (e)
        e->told = true;
    if (e && !sfs_group_find(d, row->group))
        take_back(d, e); /* of a group that is gone */
    SFS_UNLOCK(d);
    return 0;
}

int sfs_damage_load(struct sfs_data *d)
{
    sfs_catalog_lock(d->cat);
    int rc = sfs_catalog_damage_each(d->cat, load_one, d);
    sfs_catalog_unlock(d->cat);
    return rc;
}

/* --- looking -------------------------------------------------------------------------------------------------------------------------------------------- */

int sfs_damage_list(struct sfs_data *d, struct sfs_damage_row **out, unsigned *n)
{
    struct sfs_damage_entry *e;
    SFS_LOCK(d);
    *n = 0;
    *out = calloc(sfs_damage_count(d) + 1, sizeof(**out));
    RB_FOREACH(e, sfs_damage_tree, &d->damage.tree)
        if (*out && e->state != SFS_DAMAGE_GONE)
            (*out)[(*n)++] = e->row;
    SFS_UNLOCK(d);
    return *out ? 0 : -ENOMEM;
}

uint64_t sfs_damage_bytes(struct sfs_data *d, uint64_t group, uint64_t from, uint64_t to)
{
    uint64_t sum = 0;
    if (!sfs_damage_count(d))
        return 0;
    SFS_LOCK(d);
    struct sfs_damage_entry *e = first_from(d, group, from > SFS_EXTENT_MAX ? from - SFS_EXTENT_MAX : 0);
    for (; e && e->row.group == group && e->row.goff < to; e = RB_NEXT(sfs_damage_tree, &d->damage.tree, e)) {
        uint64_t end = e->row.goff + e->row.len;
        if (e->state != SFS_DAMAGE_GONE && end > from)
            sum += (end < to ? end : to) - (e->row.goff > from ? e->row.goff : from);
    }
    SFS_UNLOCK(d);
    return sum;
}

unsigned sfs_damage_take_new(struct sfs_data *d, struct sfs_damage_row *out, unsigned max)
{
    struct sfs_damage_entry *e;
    unsigned n = 0;
    if (!sfs_damage_count(d))
        return 0;
    SFS_LOCK(d);
    RB_FOREACH(e, sfs_damage_tree, &d->damage.tree) {
        if (e->told || e->state == SFS_DAMAGE_GONE || n == max)
            continue;
        e->told = true;
        out[n++] = e->row;
    }
    SFS_UNLOCK(d);
    return n;
}

/* Every copy of the stored extent is read, and repaired if one is good; the reader notes what it finds. */
static int recheck(struct sfs_data *d, const struct sfs_damage_row *r)
{
    struct sfs_group_extent *rows = malloc(ROWS * sizeof(*rows));
    uint64_t from = r->goff > SFS_EXTENT_MAX ? r->goff - SFS_EXTENT_MAX : 0;
    unsigned n = rows ? ROWS : 0;
    bool found = false;
    int rc = rows ? 0 : -ENOMEM;
    while (!rc && !found && n == ROWS && from <= r->goff) {
        uint64_t token = sfs_quiesce_enter(d->quiesce);
        sfs_catalog_lock(d->cat);
        rc = sfs_catalog_group_extents(d->cat, r->group, from, rows, ROWS, &n);
        sfs_catalog_unlock(d->cat);
        for (unsigned i = 0; !rc && !found && i < n; i++) {
            struct sfs_extent_row *x = &rows[i].row;
            struct sfs_extent e;
            from = x->goff + SFS_BLOCK;
            if (x->goff > r->goff || x->goff + x->slen < r->goff + r->len)
                continue;
            found = true;
            rc = sfs_extent_from_row(d, x, &e);
            if (rc)
                break;
            uint64_t bad = 0, lost = 0;
            rc = sfs_check_stored(d, e.stored, &bad, &lost);
            sfs_stored_unref(d, e.stored);
        }
        sfs_quiesce_exit(d->quiesce, token);
    }
    free(rows);
    if (!rc && !found)
        forget(d, r);
    return rc;
}

bool sfs_damage_recheck(struct sfs_data *d, struct sfs_damage_row *cursor, unsigned max)
{
    struct sfs_damage_row *v;
    unsigned n, done = 0, i = 0;
    if (!sfs_damage_count(d) || sfs_damage_list(d, &v, &n))
        return false;
    while (i < n && (v[i].group < cursor->group || (v[i].group == cursor->group && v[i].goff <= cursor->goff)))
        i++;
    for (; i < n && done < max; i++, done++) {
        *cursor = v[i];
        if (recheck(d, &v[i]))
            break;
    }
    free(v);
    return i < n;
}

/* --- repairs ---------------------------------------------------------------------------------------------------------------------------------------------- */

void sfs_repaired_note(struct sfs_data *d, const struct sfs_stored *s, int disk)
{
    struct sfs_damage_set *set = &d->damage;
    struct sfs_repaired *last = set->nrepaired ? &set->repaired[set->nrepaired - 1] : NULL;
    for (unsigned back = 0; last && back < 4 && last >= set->repaired; back++, last--) /* the copies of one extent take turns */
        if (last->group == s->key.group && last->goff == s->key.goff && last->disk == disk) {
            last->blocks++;
            return;
        }
    if (!set->repaired)
        set->repaired = calloc(REPAIRED_MAX, sizeof(*set->repaired));
    if (set->repaired && set->nrepaired < REPAIRED_MAX)
        set->repaired[set->nrepaired++] = (struct sfs_repaired){s->key.group, s->key.goff, disk, 1};
}

unsigned sfs_repaired_take(struct sfs_data *d, struct sfs_repaired *out, unsigned max)
{
    struct sfs_damage_set *set = &d->damage;
    SFS_LOCK(d);
    unsigned n = set->nrepaired < max ? set->nrepaired : max;
    if (n) {
        memcpy(out, set->repaired, n * sizeof(*out));
        memmove(set->repaired, set->repaired + n, (set->nrepaired - n) * sizeof(*out));
        set->nrepaired -= n;
    }
    SFS_UNLOCK(d);
    return n;
}

void sfs_damage_fini(struct sfs_data *d)
{
    struct sfs_damage_entry *e;
    while ((e = RB_MIN(sfs_damage_tree, &d->damage.tree))) {
        RB_REMOVE(sfs_damage_tree, &d->damage.tree, e);
        free(e);
    }
    free(d->damage.repaired);
}
