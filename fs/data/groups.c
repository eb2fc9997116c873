/* Slab groups: loading, state, counting what is in use. Allocation is allocate.c, freeing freeing.c.
 *
 * States: OPEN (the writer allocates in it) and SEALED (contents only shrink). OPEN -> SEALED: sfs_group_seal (full, a disk of it went out of use, other settings, a job). SEALED -> OPEN: reopen in allocate.c, only when whole,
 * with room and held by no job. The state in the catalog may lag (state_dirty): after a crash either is right, because a group that misses a slab is sealed when it is loaded. */
#include "fs/data/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sfs_group *sfs_group_find(struct sfs_data *d, uint64_t id)
{
    struct sfs_group *g;
    HASH_FIND(hh, d->groups, &id, sizeof(id), g);
    return g;
}

bool sfs_group_whole(struct sfs_data *d, const struct sfs_group *g)
{
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++)
        if (!sfs_member_online(sfs_member_find(d, g->slabs[i].disk)))
            return false;
    return true;
}

bool sfs_group_shaken(struct sfs_data *d, const struct sfs_group *g)
{
    for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++)
        if (g->slabs[i].disk && !sfs_member_online(sfs_member_find(d, g->slabs[i].disk)))
            return true;
    return false;
}

void sfs_group_seal(struct sfs_group *g)
{
    struct sfs_volume *v = g->volume;
    for (unsigned i = 0; i < v->nopen; i++)
        if (v->open[i] == g) {
            v->open[i] = v->open[--v->nopen];
            break;
        }
    if (g->state == SFS_GROUP_SEALED)
        return;
    g->state = SFS_GROUP_SEALED;
    g->state_dirty = true;
    free(g->bitmap);
    g->bitmap = NULL;
}

int sfs_group_size(struct sfs_group *g)
{
    g->blocks = sfs_geometry_capacity(&g->geo) / SFS_BLOCK;
    if (!g->geo.parity)
        return 0;
    g->row_blocks = sfs_geometry_stripe_bytes(&g->geo) / SFS_BLOCK;
    g->free_rows = sfs_geometry_rows(&g->geo);
    g->row_used = calloc(g->free_rows, sizeof(*g->row_used));
    return g->row_used ? 0 : -ENOMEM;
}

void sfs_group_free(struct sfs_group *g)
{
    if (!g)
        return;
    free(g->bitmap);
    free(g->row_used);
    free(g);
}

/* With parity: adds sign * (the blocks of [block, block + n)) to what is used of each row. */
static void count_rows(struct sfs_group *g, uint64_t block, uint64_t n, bool add)
{
    while (g->row_blocks && n) {
        uint64_t row = block / g->row_blocks, part = (row + 1) * g->row_blocks - block;
        if (part > n)
            part = n;
        uint32_t before = g->row_used[row], less = part < before ? before - (uint32_t)part : 0;
        g->row_used[row] = add ? before + (uint32_t)part : less;
        if (!before && g->row_used[row])
            g->free_rows--;
        else if (before && !g->row_used[row])
            g->free_rows++;
        block += part;
        n -= part;
    }
}

void sfs_group_use(struct sfs_group *g, uint64_t block, uint64_t n)
{
    g->used_blocks += n;
    count_rows(g, block, n, true);
}

/* Rows of the catalog that cannot be may make it less than it seems: bad bytes never abort. */
void sfs_group_unuse(struct sfs_group *g, uint64_t block, uint64_t n)
{
    if (!g->used_known)
        return;
    g->used_blocks -= n < g->used_blocks ? n : g->used_blocks;
    count_rows(g, block, n, false);
}

bool sfs_slab_is_spare(struct sfs_data *d, const struct sfs_group *g, unsigned i)
{
    unsigned column = i / g->geo.copies, gone = 0;
    for (unsigned c = 0; c < g->geo.columns; c++) {
        bool any = false;
        for (unsigned k = c * g->geo.copies; k < (c + 1) * g->geo.copies; k++)
            any |= k != i && sfs_member_online(sfs_member_find(d, g->slabs[k].disk));
        if (c == column && any)
            return true;
        gone += !any;
    }
    return gone <= g->geo.parity;
}

bool sfs_column_has_copy(struct sfs_data *d, const struct sfs_group *g, unsigned column)
{
    for (unsigned k = 0; k < g->geo.copies; k++)
        if (sfs_member_online(sfs_member_find(d, g->slabs[column * g->geo.copies + k].disk)))
            return true;
    return false;
}

void sfs_slab_forget(struct sfs_data *d, struct sfs_slab_row *at)
{
    if (at->disk)
        sfs_freed_push(&d->moved, &(struct sfs_freed){.disk = at->disk, .slot = at->slot});
    at->disk = 0;
    at->slot = 0;
}

/* A group made with a slab missing (rule 4) takes writes while the slabs that it has are online. */
bool sfs_group_takes_writes(struct sfs_data *d, const struct sfs_group *g)
{
    return g->state == SFS_GROUP_OPEN && !g->dropped && g->holds == 0 && !sfs_group_shaken(d, g);
}

void sfs_groups_seal_on(struct sfs_data *d, int disk)
{
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++)
            if (disk == 0 || g->slabs[i].disk == disk) {
                sfs_group_seal(g);
                break;
            }
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        v->credit_bytes = 0;
    SFS_UNLOCK(d);
}

/* --- loading ----------------------------------------------------------------------------------------------------------------------- */

struct loading {
    struct sfs_data *d;
    struct sfs_error *err;
};

static int load_space(const struct sfs_space_row *row, void *ctx)
{
    struct loading *l = ctx;
    return sfs_volume_add(l->d, row);
}

static int load_group(const struct sfs_group_row *row, void *ctx)
{
    struct loading *l = ctx;
    struct sfs_volume *v = sfs_volume_find(l->d, row->space);
    if (!v)
        return sfs_error_set(l->err, -EUCLEAN, "slab group %llu belongs to space %d, which does not exist. Run spacesfs-check.",
                             (unsigned long long)row->id, row->space);
    struct sfs_group *g = calloc(1, sizeof(*g));
    if (!g)
        return -ENOMEM;
    struct sfs_error why = {0};
    if ((unsigned)row->resiliency >= SFS_RESILIENCY_COUNT ||
        sfs_geometry_init(&g->geo, row->resiliency, row->columns, row->interleave, l->d->slab_bytes, &why)) {
        free(g);
        return sfs_error_set(l->err, -EUCLEAN, "slab group %llu has an impossible geometry (%s). Run spacesfs-check.",
                             (unsigned long long)row->id, why.text);
    }
    g->id = row->id;
    g->volume = v;
    g->kind = row->kind;
    g->state = row->state;
    if (sfs_group_size(g)) {
        sfs_group_free(g);
        return -ENOMEM;
    }
    RB_INIT(&g->pending);
    RB_INIT(&g->applied);
    SFS_LOCK(l->d);
    HASH_ADD(hh, l->d->groups, id, sizeof(g->id), g);
    SFS_UNLOCK(l->d);
    return 0;
}

static int bad_slab(struct loading *l, const struct sfs_slab_row *row, const char *why)
{
    return sfs_error_set(l->err, -EUCLEAN, "slab %u.%u of group %llu: %s. Run spacesfs-check.", row->column, row->copy,
                         (unsigned long long)row->group, why);
}

static int load_slab(const struct sfs_slab_row *row, void *ctx)
{
    struct loading *l = ctx;
    struct sfs_data *d = l->d;
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, row->group);
    struct sfs_member *m = sfs_member_find(d, row->disk);
    if (!g) {
        rc = bad_slab(l, row, "there is no such group");
    } else if (row->column >= g->geo.columns || row->copy >= g->geo.copies) {
        rc = bad_slab(l, row, "outside of the group's geometry");
    } else if (row->disk != 0 && !m) {
        rc = bad_slab(l, row, "on a disk that the pool does not have");
    } else if (m && row->slot >= m->row.capacity_slabs) {
        rc = bad_slab(l, row, "beyond the end of its disk");
    } else if (m && (m->slots[row->slot / 64] >> (row->slot % 64) & 1)) {
        rc = bad_slab(l, row, "its slot on the disk is taken already");
    } else {
        g->slabs[row->column * g->geo.copies + row->copy] = *row;
        if (m) {
            m->slots[row->slot / 64] |= 1ull << (row->slot % 64);
            m->free_slabs -= row->slot < m->limit;
        }
    }
    SFS_UNLOCK(d);
    return rc;
}

/* Slabs without a row are missing; a group that misses one is sealed. */
static void settle(struct sfs_data *d)
{
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next) {
        for (unsigned i = 0; i < sfs_geometry_slabs(&g->geo); i++) {
            g->slabs[i].group = g->id;
            g->slabs[i].column = i / g->geo.copies;
            g->slabs[i].copy = i % g->geo.copies;
        }
        if (!sfs_group_whole(d, g))
            sfs_group_seal(g);
    }
    SFS_UNLOCK(d);
}

int sfs_groups_load(struct sfs_data *d, struct sfs_error *err)
{
    struct loading l = {d, err};
    sfs_catalog_lock(d->cat);
    int rc = sfs_catalog_space_each(d->cat, load_space, &l);
    if (!rc)
        rc = sfs_catalog_group_each(d->cat, load_group, &l);
    if (!rc)
        rc = sfs_catalog_slab_each(d->cat, 0, load_slab, &l);
    sfs_catalog_unlock(d->cat);
    if (rc) {
        if (err && !err->code)
            sfs_error_set(err, rc, "the catalog's slab groups could not be loaded: %s. Run spacesfs-check.", strerror(-rc));
        return rc;
    }
    settle(d);
    return 0;
}

struct orphans {
    struct sfs_data *d;
    int disk;
    uint32_t *slots;
    size_t n, cap;
};

/* The slot is taken while its file is being deleted, so that nobody makes a slab there meanwhile. */
static void note_orphan(uint32_t slot, void *ctx)
{
    struct orphans *o = ctx;
    SFS_LOCK(o->d);
    struct sfs_member *m = sfs_member_find(o->d, o->disk);
    bool take = m && slot < m->row.capacity_slabs && !(m->slots[slot / 64] >> (slot % 64) & 1);
    if (take && o->n == o->cap) {
        size_t cap = o->cap ? o->cap * 2 : 64;
        uint32_t *v = realloc(o->slots, cap * sizeof(*v));
        take = v != NULL; /* else it is found again at the next mount */
        o->slots = v ? v : o->slots;
        o->cap = v ? cap : o->cap;
    }
    if (take) {
        m->slots[slot / 64] |= 1ull << (slot % 64);
        m->free_slabs -= slot < m->limit;
        o->slots[o->n++] = slot;
    }
    SFS_UNLOCK(o->d);
}

static void free_orphans_on(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    struct sfs_disk *disk = sfs_member_online(m) ? sfs_disk_ref(m->disk) : NULL;
    SFS_UNLOCK(d);
    if (!disk)
        return;
    struct orphans o = {.d = d, .disk = id};
    sfs_disk_slab_list(disk, note_orphan, &o);
    for (size_t k = 0; k < o.n; k++) {
        sfs_disk_slab_free(disk, o.slots[k]); /* best effort: found again at the next mount */
        SFS_LOCK(d);
        sfs_slot_give(d, id, o.slots[k]);
        SFS_UNLOCK(d);
    }
    free(o.slots);
    sfs_disk_put(disk);
}

void sfs_groups_free_orphans(struct sfs_data *d)
{
    struct sfs_member_info infos[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(d, infos, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < n; i++)
        free_orphans_on(d, infos[i].row.id);
}

/* --- slabs that should be there and are not ------------------------------------------------------------------------------------------- */

struct present {
    uint64_t *bits, slabs;
};

static void note_present(uint32_t slot, void *ctx)
{
    struct present *p = ctx;
    if (slot < p->slabs)
        p->bits[slot / 64] |= 1ull << (slot % 64);
}

/* The next slab of the disk that has no file although a row names it, and that the others can rebuild; forgotten in memory. group 0: none. */
static struct sfs_slab_row forget_absent(struct sfs_data *d, int id, const struct present *p)
{
    struct sfs_slab_row row = {0};
    SFS_LOCK(d);
    for (struct sfs_group *g = d->groups; g && !row.group; g = g->hh.next)
        for (unsigned i = 0; !g->dropped && !g->inflight && !g->holds && i < sfs_geometry_slabs(&g->geo); i++) {
            struct sfs_slab_row *s = &g->slabs[i];
            if (s->disk != id || p->bits[s->slot / 64] >> (s->slot % 64) & 1)
                continue;
            if (!sfs_slab_is_spare(d, g, i))
                continue;
            sfs_group_seal(g);
            sfs_slab_forget(d, s);
            row = *s;
            break;
        }
    SFS_UNLOCK(d);
    return row;
}

int sfs_groups_check_slabs(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    struct sfs_disk *disk = sfs_member_online(m) && sfs_disk_kind(m->disk) != SFS_DISK_IMAGE ? sfs_disk_ref(m->disk) : NULL;
    struct present p = {.slabs = m ? m->row.capacity_slabs : 0};
    SFS_UNLOCK(d);
    if (!disk)
        return 0; /* an image has its slabs at fixed places */
    p.bits = calloc(p.slabs / 64 + 1, sizeof(uint64_t));
    int rc = p.bits ? sfs_disk_slab_list(disk, note_present, &p) : -ENOMEM;
    if (rc && rc != -ENOMEM) { /* what is on it cannot be told: the others go on without it */
        sfs_disk_fence(disk, SFS_DISK_FAILED, "read error: its slabs could not be listed");
        free(p.bits);
        sfs_disk_put(disk);
        return 0;
    }
    sfs_catalog_lock(d->cat);
    unsigned n = 0;
    while (!rc) {
        struct sfs_slab_row row = forget_absent(d, id, &p);
        if (!row.group)
            break;
        n++;
        rc = sfs_catalog_slab_put(d->cat, &row);
    }
    sfs_catalog_unlock(d->cat);
    if (n)
        sfs_data_event(d, "warning", "slabs-missing", id, "%u slabs that the disk should hold are not on it; they are built anew from their other copies", n);
    free(p.bits);
    sfs_disk_put(disk);
    return rc;
}

/* --- counting what is in use --------------------------------------------------------------------------------------------------------- */

static void use_map(struct sfs_group *g, const struct sfs_group_map *m)
{
    g->used_blocks = 0;
    for (uint64_t at = 0; at < g->blocks;) {
        uint64_t from = sfs_bit_find(m->bits, at, g->blocks, true), to = sfs_bit_find(m->bits, from, g->blocks, false);
        sfs_group_use(g, from, to - from);
        at = to;
    }
    g->used_known = true;
}

/* Catalog lock held: rows cannot change meanwhile. What waits to be examined (candidates) still counts: it is subtracted when it is found free. */
static int count_group(struct sfs_data *d, uint64_t id)
{
    struct sfs_group_map m;
    int rc = sfs_group_map_rows(d, id, &m);
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    if (!rc && g && !g->used_known) {
        sfs_group_map_pending(d, g, &m);
        use_map(g, &m);
    }
    SFS_UNLOCK(d);
    sfs_group_map_free(&m);
    return rc == -ENOENT ? 0 : rc;
}

int sfs_groups_count_used(struct sfs_data *d)
{
    uint64_t *ids;
    unsigned n;
    int rc = sfs_group_ids(d, &ids, &n);
    for (unsigned i = 0; !rc && i < n; i++) {
        SFS_LOCK(d);
        struct sfs_group *g = sfs_group_find(d, ids[i]);
        bool known = !g || g->used_known;
        SFS_UNLOCK(d);
        if (known)
            continue;
        sfs_catalog_lock(d->cat);
        rc = count_group(d, ids[i]);
        sfs_catalog_unlock(d->cat);
    }
    if (n)
        free(ids);
    return rc;
}

/* --- looking --------------------------------------------------------------------------------------------------------------------------- */

int sfs_group_ids(struct sfs_data *d, uint64_t **ids, unsigned *n)
{
    SFS_LOCK(d);
    unsigned count = HASH_COUNT(d->groups), i = 0;
    uint64_t *v = malloc((count + 1) * sizeof(*v));
    if (v)
        for (struct sfs_group *g = d->groups; g; g = g->hh.next)
            if (!g->dropped)
                v[i++] = g->id;
    SFS_UNLOCK(d);
    *n = i;
    *ids = v;
    if (v && !i) {
        free(v);
        *ids = NULL;
    }
    return v ? 0 : -ENOMEM;
}

/* More slabs gone than the resiliency bears: some data has no copy. */
static bool group_is_lost(const struct sfs_geometry *geo, const bool *online)
{
    unsigned gone_columns = 0;
    for (unsigned c = 0; c < geo->columns; c++) {
        bool any = false;
        for (unsigned k = 0; k < geo->copies; k++)
            any |= online[c * geo->copies + k];
        gone_columns += !any;
    }
    return gone_columns > geo->parity;
}

/* Of copies: the column with fewest left counts. */
static unsigned losses_left(const struct sfs_geometry *geo, const bool *online)
{
    unsigned gone = 0, least = UINT32_MAX;
    for (unsigned c = 0; c < geo->columns; c++) {
        unsigned n = 0;
        for (unsigned k = 0; k < geo->copies; k++)
            n += online[c * geo->copies + k];
        gone += n == 0;
        least = n < least ? n : least;
    }
    if (geo->parity)
        return gone < geo->parity ? geo->parity - gone : 0;
    return least ? least - 1 : 0;
}

static uint64_t held_bytes(const struct sfs_group *g)
{
    if (!g->used_known)
        return 0;
    return (g->row_blocks ? (sfs_geometry_rows(&g->geo) - g->free_rows) * g->row_blocks : g->used_blocks) * SFS_BLOCK;
}

int sfs_group_info(struct sfs_data *d, uint64_t id, struct sfs_group_info *out)
{
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    if (!g || g->dropped) {
        SFS_UNLOCK(d);
        return -ENOENT;
    }
    *out = (struct sfs_group_info){.id = id, .space = g->volume->row.id, .resiliency = g->geo.resiliency, .columns = g->geo.columns,
                                   .copies = g->geo.copies, .interleave = g->geo.interleave, .kind = g->kind, .state = g->state, .capacity_bytes = g->blocks * SFS_BLOCK,
                                   .used_bytes = g->used_blocks * SFS_BLOCK, .held_bytes = held_bytes(g), .nslabs = sfs_geometry_slabs(&g->geo),
                                   .tolerance = sfs_resiliency_tolerance(g->geo.resiliency)};
    bool known[SFS_MAX_SLABS_PER_GROUP];
    for (unsigned i = 0; i < out->nslabs; i++) {
        out->slabs[i] = g->slabs[i];
        known[i] = g->slabs[i].disk != 0;
        out->slab_online[i] = sfs_member_online(sfs_member_find(d, g->slabs[i].disk));
        out->missing += !out->slab_online[i];
    }
    out->spare = losses_left(&g->geo, out->slab_online);
    out->lost = group_is_lost(&g->geo, out->slab_online);
    out->given_up = group_is_lost(&g->geo, known);
    SFS_UNLOCK(d);
    return 0;
}

bool sfs_group_has_slab_on(struct sfs_data *d, uint64_t id, int disk)
{
    bool has = false;
    SFS_LOCK(d);
    struct sfs_group *g = sfs_group_find(d, id);
    for (unsigned i = 0; g && !g->dropped && i < sfs_geometry_slabs(&g->geo); i++)
        has |= g->slabs[i].disk == disk;
    SFS_UNLOCK(d);
    return has;
}
