/* Allocation: blocks, or rows of parity groups, in open groups; and opening groups.
 *
 * A volume keeps several groups open of each kind that it uses, enough that all disks work (sfs_place_open_groups), fewer when slabs are scarce so that spaces and the last slabs are not split up. A group is chosen in turn; a run is found by next fit;
 * a run shorter than asked for is given only when no group has a whole one and no other group can be opened.
 * Opening: a group that has much room is opened again before new slabs are taken; any that has room when there are no slabs left.
 *
 * Groups with parity are given out by whole rows that are free in all their blocks, since a row is written at once or not at all (rule 1). Beside them a volume with parity has landing groups: copies that bear as many losses, on
 * fast disks where there are enough of them. */
#include "fs/data/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- runs --------------------------------------------------------------------------------------------------------------------------- */

static bool row_is_clear(const struct sfs_group *g, uint64_t row)
{
    return sfs_bit_find(g->bitmap, row * g->row_blocks, (row + 1) * g->row_blocks, true) == (row + 1) * g->row_blocks;
}

/* Lock held. Blocks that are free from now on. */
void sfs_bitmap_release(struct sfs_group *g, uint64_t block, uint64_t n)
{
    uint64_t end = block + n < g->blocks ? block + n : g->blocks;
    if (!g->bitmap || block >= end)
        return;
    if (!g->row_blocks) {
        g->free_blocks += sfs_bits_clear(g->bitmap, block, end);
        return;
    }
    for (uint64_t row = block / g->row_blocks; row * g->row_blocks < end; row++) {
        uint64_t from = row * g->row_blocks, to = from + g->row_blocks;
        uint64_t cleared = sfs_bits_clear(g->bitmap, from > block ? from : block, to < end ? to : end);
        g->free_blocks += cleared;
        g->clear_rows += cleared && row_is_clear(g, row);
    }
}

/* Next fit: the first run of at least `want` from the cursor on, else the longest there is. Returns its length, 0 if none. */
static uint64_t find_run(const struct sfs_group *g, uint64_t want, uint64_t *start)
{
    uint64_t best = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        uint64_t i = pass ? 0 : g->cursor, end = pass ? g->cursor : g->blocks;
        while (i < end) {
            uint64_t from = sfs_bit_find(g->bitmap, i, end, false);
            if (from == end)
                break;
            uint64_t limit = from + want < g->blocks ? from + want : g->blocks;
            uint64_t to = sfs_bit_find(g->bitmap, from, limit, true);
            if (to - from > best) {
                best = to - from;
                *start = from;
                if (best >= want)
                    return want;
            }
            i = to + 1;
        }
    }
    return best;
}

static void take(struct sfs_group *g, uint64_t start, uint64_t n)
{
    g->free_blocks -= sfs_bits_set(g->bitmap, start, start + n);
    g->cursor = start + n < g->blocks ? start + n : 0;
    sfs_group_use(g, start, n);
    g->inflight++;
}

/* --- rows ----------------------------------------------------------------------------------------------------------------------------- */

/* Next fit, as find_run: clear rows that follow each other. */
static uint64_t find_rows(const struct sfs_group *g, uint64_t want, uint64_t *start)
{
    uint64_t best = 0, rows = sfs_geometry_rows(&g->geo), cursor = g->cursor / g->row_blocks;
    for (unsigned pass = 0; pass < 2 && g->clear_rows; pass++) {
        uint64_t end = pass ? cursor : rows, n = 0;
        for (uint64_t row = pass ? 0 : cursor; row < end; row++) {
            n = row_is_clear(g, row) ? n + 1 : 0;
            if (n <= best)
                continue;
            best = n;
            *start = row + 1 - n;
            if (best == want)
                return want;
        }
    }
    return best;
}

static void take_rows(struct sfs_group *g, uint64_t row, uint64_t rows)
{
    g->clear_rows -= rows;
    take(g, row * g->row_blocks, rows * g->row_blocks);
}

/* --- opening: which ------------------------------------------------------------------------------------------------------------------- */

static bool is_open_in(const struct sfs_volume *v, const struct sfs_group *g)
{
    for (unsigned i = 0; i < v->nopen; i++)
        if (v->open[i] == g)
            return true;
    return false;
}

/* Data lands in copies that bear as many losses as the space does. */
static enum sfs_resiliency resiliency_of(const struct sfs_volume *v, enum sfs_group_kind kind)
{
    enum sfs_resiliency r = v->row.resiliency;
    if (kind == SFS_GROUP_DATA)
        return r;
    return sfs_resiliency_tolerance(r) > 1 ? SFS_MIRROR3 : sfs_resiliency_tolerance(r) == 1 ? SFS_MIRROR2 : SFS_SIMPLE;
}

/* A group narrower than the fixed width was made when disks were away; it is used up, but not opened again while there is another way. */
static bool fits_settings(const struct sfs_volume *v, const struct sfs_group *g, bool narrower)
{
    if (g->geo.resiliency != resiliency_of(v, g->kind) || g->geo.interleave != v->row.interleave)
        return false;
    if (g->kind == SFS_GROUP_LANDING)
        return sfs_resiliency_parity(v->row.resiliency) > 0;
    return v->row.columns == 0 || g->geo.columns == v->row.columns || (narrower && g->geo.columns < v->row.columns);
}

/* Columns of a new group. online: disks that could hold slabs if they had room; free: those that have. Redundancy comes before a fixed width. */
unsigned sfs_choose_columns(const struct sfs_volume *v, unsigned online, unsigned nfree)
{
    enum sfs_resiliency r = v->row.resiliency;
    unsigned copies = sfs_resiliency_copies(r), min = sfs_resiliency_min_columns(r);
    unsigned columns = v->row.columns ? v->row.columns : sfs_geometry_auto_columns(r, nfree);
    unsigned most = online / copies;
    if (columns > most)
        columns = most;
    return columns < min ? min : columns;
}

/* Blocks that can be given out once they are released. */
uint64_t sfs_group_room_blocks(const struct sfs_group *g)
{
    return g->row_blocks ? g->free_rows * g->row_blocks : g->blocks - g->used_blocks;
}

/* Lock held. Does it have a slab on a disk that is being emptied? What is written there would have to go elsewhere. */
static bool is_leaving(struct sfs_data *d, const struct sfs_group *g)
{
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++) {
        const struct sfs_member *m = sfs_member_find(d, g->slabs[i].disk);
        if (m && m->row.usage == SFS_USAGE_RETIRED)
            return true;
    }
    return false;
}

/* Columns of a group that would be made now, and how many disks have room for a slab of it. */
static unsigned columns_of_new(struct sfs_data *d, const struct sfs_volume *v, unsigned *nfree)
{
    unsigned online = 0;
    struct sfs_member *m;
    *nfree = 0;
    LIST_FOREACH(m, &d->members, link) {
        online += sfs_member_online(m) && m->row.usage == SFS_USAGE_AUTO;
        *nfree += sfs_member_takes_slabs(m);
    }
    return sfs_choose_columns(v, online, *nfree);
}

/* Lock held. With parity: a new group would be wider, and can be made. */
static bool is_narrow(struct sfs_data *d, const struct sfs_volume *v, const struct sfs_group *g)
{
    unsigned nfree, columns = columns_of_new(d, v, &nfree);
    return g->row_blocks && g->geo.columns < columns && columns <= nfree;
}

void sfs_groups_widen(struct sfs_data *d)
{
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (g->state == SFS_GROUP_OPEN && is_narrow(d, g->volume, g))
            sfs_group_seal(g);
    SFS_UNLOCK(d);
}

/* Lock held. A group that may be opened again, the one with most room; at least `min_blocks` of it. */
static struct sfs_group *reopenable(struct sfs_data *d, struct sfs_volume *v, enum sfs_group_kind kind, uint64_t min_blocks, bool quarter)
{
    struct sfs_group *best = NULL;
    uint64_t most = 0;
    for (struct sfs_group *g = d->groups; g; g = g->hh.next) {
        if (g->volume != v || g->kind != kind || g->dropped || g->holds || g->barren || g->inflight || is_open_in(v, g) || !g->used_known || !fits_settings(v, g, !quarter))
            continue;
        uint64_t space = sfs_group_room_blocks(g);
        if (space < min_blocks || space <= most || (quarter && (space < g->blocks / 4 || is_narrow(d, v, g))) || !sfs_group_whole(d, g) || is_leaving(d, g))
            continue;
        best = g;
        most = space;
    }
    return best;
}

struct picked {
    enum sfs_resiliency resiliency;
    enum sfs_group_kind kind;
    uint32_t interleave;
    unsigned columns, n;                 /* n: slabs found; the rest are missing */
    int disk[SFS_MAX_SLABS_PER_GROUP];
    uint32_t slot[SFS_MAX_SLABS_PER_GROUP];
    bool made[SFS_MAX_SLABS_PER_GROUP];
};

static unsigned open_slabs_on(const struct sfs_volume *v, int disk)
{
    unsigned n = 0;
    for (unsigned i = 0; i < v->nopen; i++)
        for (unsigned k = 0; k < sfs_geometry_slabs(&v->open[i]->geo); k++)
            n += v->open[i]->slabs[k].disk == disk;
    return n;
}

uint32_t sfs_slot_take(struct sfs_member *m)
{
    uint64_t s = sfs_bit_find(m->slots, 0, m->limit, false);
    SFS_ASSERT(s < m->limit);
    m->slots[s / 64] |= 1ull << (s % 64);
    m->free_slabs--;
    return (uint32_t)s;
}

void sfs_slot_give(struct sfs_data *d, int disk, uint32_t slot)
{
    struct sfs_member *m = sfs_member_find(d, disk);
    if (m && slot < m->row.capacity_slabs && m->slots[slot / 64] >> (slot % 64) & 1) {
        m->slots[slot / 64] &= ~(1ull << (slot % 64));
        m->free_slabs += slot < m->limit;
    }
}

/* --- opening: where landing groups go -------------------------------------------------------------------------------------------------- */

/* How much a disk is wanted for landing groups. 0: it can't take one. */
static unsigned landing_rank(const struct sfs_member *m)
{
    if (!sfs_member_online(m) || m->full || m->free_slabs == 0 || (m->row.usage != SFS_USAGE_AUTO && m->row.usage != SFS_USAGE_JOURNAL))
        return 0;
    return m->row.usage == SFS_USAGE_JOURNAL ? 3 : m->row.media == SFS_MEDIA_SSD ? 2 : 1;
}

/* Lock held. The highest rank at which there are enough disks for all copies: a fast disk gains nothing beside a slow one. */
static unsigned landing_min_rank(struct sfs_data *d, unsigned copies)
{
    unsigned n[4] = {0};
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        for (unsigned r = landing_rank(m); r > 0; r--)
            n[r]++;
    for (unsigned r = 3; r > 1; r--)
        if (n[r] >= copies)
            return r;
    return 1;
}

/* Lock held. How many landing groups a volume should have at most; one over it is emptied first. */
unsigned sfs_landing_groups_max(struct sfs_data *d)
{
    uint64_t slabs = 0;
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        slabs += m->row.capacity_slabs;
    uint64_t bytes = slabs * d->slab_bytes / 16;
    if (bytes > SFS_LANDING_MAX_BYTES)
        bytes = SFS_LANDING_MAX_BYTES;
    uint64_t n = bytes / d->slab_bytes;
    return n ? (unsigned)n : 1;
}

static unsigned landing_groups(struct sfs_data *d, const struct sfs_volume *v)
{
    unsigned n = 0;
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        n += g->volume == v && g->kind == SFS_GROUP_LANDING && !g->dropped;
    return n;
}

/* --- opening: making -------------------------------------------------------------------------------------------------------------------- */

/* Lock held. The last slabs are a landing group's, where there is none yet: without one, the little that is written at a time takes whole rows. */
static void leave_for_landing(struct sfs_data *d, const struct sfs_volume *v, struct sfs_place_disk *place, unsigned n)
{
    uint64_t slabs[SFS_LABEL_PEERS];
    for (unsigned i = 0; i < n; i++)
        slabs[i] = place[i].usable ? place[i].free_slabs : 0;
    if (!sfs_landing_set_aside(d, v, slabs, n))
        return;
    for (unsigned i = 0; i < n; i++) {
        place[i].usable &= slabs[i] > 0;
        place[i].free_slabs = place[i].usable ? slabs[i] : place[i].free_slabs;
    }
}

/* Lock held. Chooses disks and takes a slot on each. 0 or -ENOSPC. Rule 4: a slab may be missing for want of disks; for want of room only as the last resort, for data that was accepted when there was room. */
static int pick(struct sfs_data *d, struct sfs_volume *v, enum sfs_group_kind kind, bool last_resort, struct picked *p)
{
    enum sfs_resiliency r = resiliency_of(v, kind);
    unsigned copies = sfs_resiliency_copies(r), parity = sfs_resiliency_parity(r);
    bool landing = kind == SFS_GROUP_LANDING;
    unsigned rank = landing ? landing_min_rank(d, copies) : 0;
    if (landing && (landing_groups(d, v) >= sfs_landing_groups_max(d) || (!last_resort && !sfs_landing_pays(d, v))))
        return -ENOSPC;
    struct sfs_member *of[SFS_LABEL_PEERS];
    struct sfs_place_disk place[SFS_LABEL_PEERS];
    unsigned n = 0, online = 0, nfree = 0;
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link) {
        if (n == SFS_LABEL_PEERS)
            break;
        of[n] = m;
        place[n] = (struct sfs_place_disk){m->free_slabs, open_slabs_on(v, m->row.id), landing ? landing_rank(m) >= rank : sfs_member_takes_slabs(m)};
        online += sfs_member_online(m) && (m->row.usage == SFS_USAGE_AUTO || (landing && m->row.usage == SFS_USAGE_JOURNAL));
        n++;
    }
    if (!landing && !last_resort)
        leave_for_landing(d, v, place, n);
    for (unsigned i = 0; i < n; i++)
        nfree += place[i].usable;
    p->resiliency = r;
    p->kind = kind;
    p->interleave = v->row.interleave;
    p->columns = landing ? 1 : sfs_choose_columns(v, online, nfree);
    unsigned want = p->columns * copies, least = online < want ? online : want, index[SFS_MAX_SLABS_PER_GROUP];
    p->n = sfs_place_pick(place, n, want, index);
    if ((p->n < least && !last_resort) || p->n < p->columns - parity || p->n == 0)
        return -ENOSPC;
    for (unsigned i = 0; i < p->n; i++) {
        p->disk[i] = of[index[i]]->row.id;
        p->slot[i] = sfs_slot_take(of[index[i]]);
        p->made[i] = false;
    }
    return 0;
}

static void unpick(struct sfs_data *d, struct picked *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        SFS_LOCK(d);
        struct sfs_member *m = sfs_member_find(d, p->disk[i]);
        struct sfs_disk *disk = p->made[i] && sfs_member_online(m) ? sfs_disk_ref(m->disk) : NULL;
        SFS_UNLOCK(d);
        if (disk)
            sfs_disk_slab_free(disk, p->slot[i]);
        sfs_disk_put(disk);
        SFS_LOCK(d);
        if (p->disk[i])
            sfs_slot_give(d, p->disk[i], p->slot[i]);
        SFS_UNLOCK(d);
    }
}

/* Makes a slab, durably: the group's row may be committed before anything has been written to it, and a row that names a slab which a crash has undone would get its disk fenced at the first write. */
static int make_slab(struct sfs_disk *disk, uint32_t slot)
{
    struct sfs_io sync = {.op = SFS_IO_SYNC, .disk = disk};
    int rc = disk ? sfs_disk_slab_alloc(disk, slot) : -ENODEV;
    if (!rc && sfs_io_run(&sync, 1))
        rc = -ENODEV; /* fenced */
    return rc;
}

/* Makes the slabs on the disks. -EAGAIN: a disk could not; it is marked, pick again. */
static int make_slabs(struct sfs_data *d, struct picked *p)
{
    for (unsigned i = 0; i < p->n; i++) {
        SFS_LOCK(d);
        struct sfs_member *m = sfs_member_find(d, p->disk[i]);
        struct sfs_disk *disk = sfs_member_online(m) ? sfs_disk_ref(m->disk) : NULL;
        SFS_UNLOCK(d);
        int rc = make_slab(disk, p->slot[i]);
        sfs_disk_put(disk);
        if (!rc) {
            p->made[i] = true;
            continue;
        }
        SFS_LOCK(d);
        m = sfs_member_find(d, p->disk[i]); /* it may have been removed meanwhile */
        if (rc == -EBUSY)
            p->disk[i] = 0;  /* claimed by the metadata area: the slot stays taken */
        else if (rc != -ENODEV && m)
            m->full = true;  /* no room for it (or no way to make it): another disk; asked again after the next release */
        SFS_UNLOCK(d);
        return -EAGAIN;
    }
    return 0;
}

static int record(struct sfs_data *d, struct sfs_group *g)
{
    struct sfs_group_row row = {.space = g->volume->row.id, .resiliency = g->geo.resiliency, .columns = g->geo.columns,
                                .interleave = g->geo.interleave, .kind = g->kind, .state = g->state};
    sfs_catalog_lock(d->cat);
    int rc = sfs_catalog_group_put(d->cat, &row);
    g->id = row.id;
    for (unsigned i = 0; !rc && i < sfs_geometry_slabs(&g->geo); i++) {
        g->slabs[i].group = g->id;
        rc = sfs_catalog_slab_put(d->cat, &g->slabs[i]);
    }
    sfs_catalog_unlock(d->cat);
    return rc;
}

static struct sfs_group *build(struct sfs_data *d, struct sfs_volume *v, const struct picked *p)
{
    struct sfs_group *g = calloc(1, sizeof(*g));
    struct sfs_error why;
    if (!g || sfs_geometry_init(&g->geo, p->resiliency, p->columns, p->interleave, d->slab_bytes, &why)) {
        free(g);
        return NULL;
    }
    g->volume = v;
    g->kind = p->kind;
    int rc = sfs_group_size(g);
    g->free_blocks = g->blocks;
    g->clear_rows = g->free_rows;
    g->used_known = true;
    g->bitmap = calloc((g->blocks + 63) / 64 + 1, sizeof(uint64_t));
    if (rc || !g->bitmap) {
        sfs_group_free(g);
        return NULL;
    }
    RB_INIT(&g->pending);
    RB_INIT(&g->applied);
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++) {
        /* The first copy of every column comes first: what is missing is a further copy. */
        unsigned column = i % p->columns, copy = i / p->columns;
        struct sfs_slab_row *s = &g->slabs[column * g->geo.copies + copy];
        *s = (struct sfs_slab_row){.column = column, .copy = copy};
        if (i < p->n) {
            s->disk = p->disk[i];
            s->slot = p->slot[i];
        }
    }
    return g;
}

static int open_new(struct sfs_data *d, struct sfs_volume *v, enum sfs_group_kind kind, bool last_resort)
{
    struct picked p;
    int rc;
    for (unsigned tries = 0;; tries++) {
        SFS_LOCK(d);
        rc = tries < 2 * SFS_LABEL_PEERS ? pick(d, v, kind, last_resort, &p) : -ENOSPC;
        SFS_UNLOCK(d);
        if (rc)
            return rc;
        rc = make_slabs(d, &p);
        if (!rc)
            break;
        unpick(d, &p);
    }
    struct sfs_group *g = build(d, v, &p);
    rc = g ? record(d, g) : -ENOMEM;
    if (rc) {
        sfs_group_free(g);
        unpick(d, &p);
        return rc;
    }
    SFS_LOCK(d);
    HASH_ADD(hh, d->groups, id, sizeof(g->id), g);
    v->open[v->nopen++] = g;
    SFS_UNLOCK(d);
    if (p.n < sfs_geometry_slabs(&g->geo))
        sfs_data_event(d, "warning", "written-degraded", 0, "too few disks can take data: new data of space %s is stored with %u of %u slabs until a disk can take the rest",
                       v->row.name, p.n, sfs_geometry_slabs(&g->geo));
    return 0;
}

/* The free map of a group comes from the extent index, what is pending, and what is freed but not yet released (rule 7). A write under way is in none of them: such a group is not opened. */
static int reopen(struct sfs_data *d, struct sfs_volume *v, uint64_t id)
{
    struct sfs_group_map m;
    sfs_catalog_lock(d->cat);
    int rc = sfs_group_map_rows(d, id, &m);
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    if (!rc && (!g || g->dropped || g->holds || g->inflight || is_open_in(v, g) || !sfs_group_whole(d, g)))
        rc = -EAGAIN;
    if (!rc) {
        sfs_group_map_pending(d, g, &m);
        sfs_group_map_freed(d, g, &m);
        free(g->bitmap);
        g->bitmap = m.bits;
        m.bits = NULL;
        g->free_blocks = g->blocks - m.used;
        g->clear_rows = 0;
        for (uint64_t row = 0; g->row_blocks && row < sfs_geometry_rows(&g->geo); row++)
            g->clear_rows += row_is_clear(g, row);
        g->cursor = 0;
        g->barren = g->row_blocks ? g->clear_rows == 0 : g->free_blocks == 0;
        g->state_dirty |= g->state != SFS_GROUP_OPEN;
        g->state = SFS_GROUP_OPEN;
        v->open[v->nopen++] = g;
    }
    SFS_UNLOCK(d);
    sfs_catalog_unlock(d->cat);
    sfs_group_map_free(&m);
    return rc == -ENOENT ? -EAGAIN : rc;
}

/* Opens one more group for v. 0; -ENOSPC; -EAGAIN: look again (another thread has opened one). */
static int open_group(struct sfs_volume *v, enum sfs_group_kind kind, bool last_resort)
{
    struct sfs_data *d = v->data;
    int rc = sfs_groups_count_used(d); /* what a group holds must be known before one is opened again; nothing to do but after a mount */
    if (rc)
        return rc;
    SFS_LOCK(d);
    if (v->opening) {
        while (v->opening)
            sfs_cond_wait(&d->changed, &d->lock);
        SFS_UNLOCK(d);
        return -EAGAIN;
    }
    if (v->nopen == SFS_MAX_OPEN) { /* make room: the fullest is sealed */
        struct sfs_group *fullest = v->open[0];
        for (unsigned i = 1; i < v->nopen; i++)
            if (v->open[i]->free_blocks < fullest->free_blocks)
                fullest = v->open[i];
        sfs_group_seal(fullest);
    }
    v->opening = true;
    struct sfs_group *g = reopenable(d, v, kind, SFS_EXTENT_MAX / SFS_BLOCK, true);
    uint64_t id = g ? g->id : 0;
    SFS_UNLOCK(d);

    rc = id ? reopen(d, v, id) : open_new(d, v, kind, last_resort);
    if (rc == -ENOSPC) {
        SFS_LOCK(d);
        g = reopenable(d, v, kind, 1, false);
        id = g ? g->id : 0;
        SFS_UNLOCK(d);
        if (id)
            rc = reopen(d, v, id);
    }
    SFS_LOCK(d);
    v->opening = false;
    sfs_cond_broadcast(&d->changed);
    SFS_UNLOCK(d);
    return rc;
}

#define TRIES 1000u /* other threads may use up what they open, group after group, before this one has a turn */

/* --- allocating ------------------------------------------------------------------------------------------------------------------------- */

/* Lock held. Seals what can take nothing more. */
static void tidy_open(struct sfs_data *d, struct sfs_volume *v)
{
    for (unsigned i = v->nopen; i-- > 0;)
        if (!sfs_group_takes_writes(d, v->open[i]) || (v->open[i]->row_blocks ? v->open[i]->clear_rows : v->open[i]->free_blocks) == 0 || !fits_settings(v, v->open[i], true))
            sfs_group_seal(v->open[i]);
}

/* Lock held. Should one more group be opened although those that are open have room? */
static bool wants_more(struct sfs_data *d, const struct sfs_volume *v, enum sfs_group_kind kind)
{
    unsigned n = 0, spaces = 0, copies = sfs_resiliency_copies(resiliency_of(v, kind));
    bool landing = kind == SFS_GROUP_LANDING;
    unsigned rank = landing ? landing_min_rank(d, copies) : 0;
    uint64_t slabs = 0;
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        if (landing ? landing_rank(m) >= rank : sfs_member_takes_slabs(m)) {
            n++;
            slabs += m->free_slabs;
        }
    struct sfs_volume *w;
    LIST_FOREACH(w, &d->volumes, link)
        spaces++;
    unsigned c = landing ? copies : copies * (v->row.columns ? v->row.columns : sfs_geometry_auto_columns(v->row.resiliency, n));
    if (c == 0 || n < c || (landing && landing_groups(d, v) >= sfs_landing_groups_max(d)))
        return false;
    unsigned target = sfs_place_open_groups(n, c), have = 0;
    for (unsigned i = 0; i < v->nopen; i++)
        have += v->open[i]->kind == kind;
    return have < target && slabs >= 4ull * target * c * spaces;
}

/* Lock held. Does the next open group in turn have a whole run; else (unless whole_only) the longest of all. */
static struct sfs_group *choose(struct sfs_volume *v, enum sfs_group_kind kind, uint64_t want, bool whole_only, uint64_t *start, uint64_t *got)
{
    struct sfs_group *best = NULL;
    *got = 0;
    for (unsigned i = 0; i < v->nopen; i++) {
        struct sfs_group *g = v->open[(v->turn + i) % v->nopen];
        uint64_t at = 0, len = g->kind == kind && !g->row_blocks ? find_run(g, want, &at) : 0;
        if (len <= *got)
            continue;
        best = g;
        *start = at;
        *got = len;
        if (len == want) {
            v->turn = (v->turn + i + 1) % v->nopen;
            break;
        }
    }
    return best && (!whole_only || *got == want) ? best : NULL;
}

int sfs_allocate(struct sfs_volume *v, enum sfs_group_kind kind, uint64_t want, unsigned flags, struct sfs_group **out, uint64_t *block, uint64_t *got)
{
    struct sfs_data *d = v->data;
    bool no_more = false, last_resort = false, contiguous = flags & SFS_ALLOCATE_WHOLE;
    for (unsigned opened = 0, tries = 0;; tries++) {
        if (opened == SFS_MAX_OPEN || tries == TRIES)
            no_more = true; /* no whole run to be had: what can be opened is as fragmented as what is open */
        SFS_LOCK(d);
        bool stale = kind == SFS_GROUP_DATA && sfs_resiliency_parity(v->row.resiliency);
        tidy_open(d, v);
        bool more = !no_more && !v->opening && wants_more(d, v, kind);
        struct sfs_group *g = more || stale ? NULL : choose(v, kind, want, contiguous || !no_more, block, got);
        if (g) {
            take(g, *block, *got);
            *out = g;
        }
        SFS_UNLOCK(d);
        if (g)
            return 0;
        if (stale)
            return -ESTALE;
        if (no_more && (last_resort || contiguous || !(flags & SFS_ALLOCATE_LAST)))
            return -ENOSPC;
        last_resort = no_more;
        int rc = open_group(v, kind, last_resort);
        if (rc == -ENOSPC)
            no_more = true;
        else if (rc && rc != -EAGAIN)
            return rc;
        opened += !rc;
    }
}

uint64_t sfs_stripe_bytes_of_new(struct sfs_data *d, const struct sfs_volume *v)
{
    unsigned nfree;
    return (uint64_t)(columns_of_new(d, v, &nfree) - sfs_resiliency_parity(v->row.resiliency)) * v->row.interleave;
}

/* Lock held. Blocks in a row of a group that would be made now; 0: none can be. */
static uint64_t row_of_new(struct sfs_data *d, const struct sfs_volume *v)
{
    unsigned nfree, parity = sfs_resiliency_parity(v->row.resiliency), columns = columns_of_new(d, v, &nfree);
    return columns > nfree + parity ? 0 : (uint64_t)(columns - parity) * (v->row.interleave / SFS_BLOCK);
}

/* Lock held. The next open group in turn with rows that `blocks` fill; the one with the longest run of them unless one has all that are wanted. */
static struct sfs_group *choose_rows(struct sfs_volume *v, uint64_t blocks, bool pad, uint64_t *row, uint64_t *rows)
{
    struct sfs_group *best = NULL;
    uint64_t most = 0;
    for (unsigned i = 0; i < v->nopen; i++) {
        struct sfs_group *g = v->open[(v->turn + i) % v->nopen];
        if (!g->row_blocks)
            continue;
        uint64_t want = (blocks + (pad ? g->row_blocks - 1 : 0)) / g->row_blocks, at = 0, n = want ? find_rows(g, want, &at) : 0;
        if (n * g->row_blocks <= most)
            continue;
        best = g;
        most = n * g->row_blocks;
        *row = at;
        *rows = n;
        if (n == want) {
            v->turn = (v->turn + i + 1) % v->nopen;
            break;
        }
    }
    return best;
}

int sfs_allocate_rows(struct sfs_volume *v, uint64_t blocks, uint64_t whole_blocks, unsigned flags, struct sfs_group **out, uint64_t *row, uint64_t *rows)
{
    struct sfs_data *d = v->data;
    bool pad = flags & SFS_ALLOCATE_PAD, no_more = false, last_resort = false;
    for (unsigned opened = 0, tries = 0;; tries++) {
        no_more |= opened == SFS_MAX_OPEN || tries == TRIES;
        SFS_LOCK(d);
        bool stale = !sfs_resiliency_parity(v->row.resiliency), any = false;
        tidy_open(d, v);
        bool more = !no_more && !v->opening && wants_more(d, v, SFS_GROUP_DATA);
        struct sfs_group *g = more || stale ? NULL : choose_rows(v, blocks, pad, row, rows);
        for (unsigned i = 0; i < v->nopen; i++)
            any |= v->open[i]->row_blocks > 0;
        uint64_t fresh = row_of_new(d, v), need = whole_blocks < blocks ? whole_blocks : blocks;
        if (g && (no_more || *rows * g->row_blocks >= need)) {
            take_rows(g, *row, *rows);
            *out = g;
        } else {
            g = NULL;
        }
        SFS_UNLOCK(d);
        if (g)
            return 0;
        if (stale)
            return -ESTALE;
        if (!pad && blocks < fresh && (any || !no_more))
            return -EAGAIN; /* it fills no row */
        if (no_more && (last_resort || !(flags & SFS_ALLOCATE_LAST)))
            return !pad && any ? -EAGAIN : -ENOSPC;
        last_resort = no_more;
        int rc = open_group(v, SFS_GROUP_DATA, last_resort);
        if (rc == -ENOSPC)
            no_more = true;
        else if (rc && rc != -EAGAIN)
            return rc;
        opened += !rc;
    }
}

void sfs_rows_give_back(struct sfs_data *d, struct sfs_group *g, uint64_t block, uint64_t n)
{
    SFS_LOCK(d);
    sfs_group_unuse(g, block, n);
    sfs_bitmap_release(g, block, n);
    SFS_UNLOCK(d);
}

void sfs_allocate_done(struct sfs_data *d, struct sfs_group *g)
{
    SFS_LOCK(d);
    SFS_ASSERT(g->inflight > 0);
    g->inflight--;
    sfs_cond_broadcast(&d->changed);
    SFS_UNLOCK(d);
}
