/* Members and their slots. A slot is taken while a slab row names it, while the metadata area has claimed it, and from the moment it is freed until no reader can
 * look at it any more (freeing.c). */
#include "fs/data/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_words(uint64_t slabs)
{
    return (slabs + 63) / 64;
}

struct sfs_member *sfs_member_find(struct sfs_data *d, int id)
{
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        if (m->row.id == id)
            return m;
    return NULL;
}

struct sfs_member *sfs_member_of(struct sfs_data *d, const struct sfs_disk *disk)
{
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        if (m->disk == disk)
            break;
    return m;
}

bool sfs_member_online(const struct sfs_member *m)
{
    return m && m->disk && sfs_disk_state(m->disk) == SFS_DISK_ONLINE;
}

/* Slots that an image's metadata area has claimed are taken. */
static void mark_claimed(struct sfs_member *m)
{
    if (sfs_disk_kind(m->disk) != SFS_DISK_IMAGE)
        return;
    for (uint64_t s = 0; s < m->row.capacity_slabs; s++) {
        uint64_t bit = 1ull << (s % 64);
        if (!(m->slots[s / 64] & bit) && sfs_disk_slot_claimed(m->disk, (uint32_t)s)) {
            m->slots[s / 64] |= bit;
            m->free_slabs -= s < m->limit;
        }
    }
}

bool sfs_member_takes_slabs(const struct sfs_member *m)
{
    return sfs_member_online(m) && m->row.usage == SFS_USAGE_AUTO && !m->full && m->free_slabs > 0;
}

int sfs_member_add(struct sfs_data *d, const struct sfs_disk_row *row, struct sfs_disk *disk)
{
    if (row->capacity_slabs > SFS_SLOTS_MAX)
        return -EUCLEAN;
    struct sfs_member *m = calloc(1, sizeof(*m));
    if (!m)
        return -ENOMEM;
    m->row = *row;
    m->disk = disk;
    m->slots = calloc(slot_words(row->capacity_slabs) + 1, sizeof(uint64_t));
    if (!m->slots) {
        free(m);
        return -ENOMEM;
    }
    m->free_slabs = m->limit = row->capacity_slabs;
    if (disk)
        mark_claimed(m);
    SFS_LOCK(d);
    LIST_INSERT_HEAD(&d->members, m, link);
    SFS_UNLOCK(d);
    sfs_groups_widen(d);
    return 0;
}

static uint64_t held_slabs(struct sfs_data *d, int id)
{
    uint64_t n = 0;
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        for (unsigned i = 0; !g->dropped && i < sfs_geometry_slabs(&g->geo); i++)
            n += g->slabs[i].disk == id;
    return n;
}

int sfs_member_remove(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    int rc = !m ? -ENOENT : held_slabs(d, id) ? -EBUSY : 0;
    for (size_t i = 0; !rc && i < d->releasing.n; i++)
        if (d->releasing.v[i].disk == id)
            d->releasing.v[i].disk = -1; /* its slot goes with it */
    if (!rc)
        LIST_REMOVE(m, link);
    SFS_UNLOCK(d);
    if (!rc) {
        free(m->slots);
        free(m);
    }
    return rc;
}

static uint64_t free_below(const struct sfs_member *m, uint64_t slot)
{
    uint64_t n = 0;
    for (uint64_t s = 0; s < slot && s < m->row.capacity_slabs; s++)
        n += !(m->slots[s / 64] >> (s % 64) & 1);
    return n;
}

static void set_limit(struct sfs_member *m, uint64_t limit)
{
    m->limit = limit;
    m->free_slabs = free_below(m, limit);
}

uint64_t sfs_member_free_slabs(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    const struct sfs_member *m = sfs_member_find(d, id);
    uint64_t n = m ? m->free_slabs : 0;
    SFS_UNLOCK(d);
    return n;
}

uint64_t sfs_member_free_below(struct sfs_data *d, int id, uint64_t slot)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    uint64_t n = m ? free_below(m, slot) : 0;
    SFS_UNLOCK(d);
    return n;
}

void sfs_member_limit(struct sfs_data *d, int id, uint64_t slabs)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    if (m)
        set_limit(m, slabs < m->row.capacity_slabs ? slabs : m->row.capacity_slabs);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        v->credit_bytes = 0;
    SFS_UNLOCK(d);
}

void sfs_member_count_errors(struct sfs_data *d, int id, uint64_t reads, uint64_t writes)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    if (m) {
        m->row.read_errors += reads;
        m->row.write_errors += writes;
    }
    SFS_UNLOCK(d);
}

void sfs_member_clear_errors(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    if (m)
        m->row.read_errors = m->row.write_errors = m->row.checksum_errors = 0;
    SFS_UNLOCK(d);
}

/* Lock held; released meanwhile. */
static void wait_opened(struct sfs_data *d)
{
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        while (v->opening)
            sfs_cond_wait(&d->changed, &d->lock);
}

void sfs_member_settle_new(struct sfs_data *d)
{
    SFS_LOCK(d);
    wait_opened(d);
    SFS_UNLOCK(d);
}

/* The next slab that a row places on the disk; forgotten in memory. group 0: none. */
static struct sfs_slab_row forget_next(struct sfs_data *d, int id)
{
    struct sfs_slab_row row = {0};
    SFS_LOCK(d);
again:
    for (struct sfs_group *g = d->groups; g && !row.group; g = g->hh.next)
        for (unsigned i = 0; !g->dropped && i < sfs_geometry_slabs(&g->geo); i++) {
            if (g->slabs[i].disk != id)
                continue;
            if (g->moving || g->inflight) { /* groups may come and go meanwhile */
                sfs_cond_wait(&d->changed, &d->lock);
                goto again;
            }
            sfs_group_seal(g);
            g->slabs[i].disk = 0;
            g->slabs[i].slot = 0;
            row = g->slabs[i];
            break;
        }
    SFS_UNLOCK(d);
    return row;
}

int sfs_member_forget_slabs(struct sfs_data *d, int id)
{
    for (;;) {
        struct sfs_slab_row row = forget_next(d, id);
        if (!row.group)
            return 0;
        sfs_catalog_lock(d->cat);
        int rc = sfs_catalog_slab_put(d->cat, &row);
        sfs_catalog_unlock(d->cat);
        if (rc)
            return rc;
    }
}

int sfs_member_update(struct sfs_data *d, const struct sfs_disk_row *row)
{
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, row->id);
    if (!m) {
        rc = -ENOENT;
        goto out;
    }
    if (row->capacity_slabs != m->row.capacity_slabs) {
        size_t old = slot_words(m->row.capacity_slabs), now = slot_words(row->capacity_slabs);
        uint64_t *slots = calloc(now + 1, sizeof(uint64_t));
        if (!slots) {
            rc = -ENOMEM;
            goto out;
        }
        memcpy(slots, m->slots, (old < now ? old : now) * sizeof(uint64_t));
        free(m->slots);
        m->slots = slots;
        m->row.capacity_slabs = row->capacity_slabs;
        set_limit(m, row->capacity_slabs);
    }
    uint64_t r = m->row.read_errors, w = m->row.write_errors, c = m->row.checksum_errors;
    m->row = *row;
    m->row.read_errors = r;
    m->row.write_errors = w;
    m->row.checksum_errors = c;
    struct sfs_volume *v; /* what they may reserve depends on it */
    LIST_FOREACH(v, &d->volumes, link)
        v->credit_bytes = 0;
out:
    SFS_UNLOCK(d);
    return rc;
}

struct sfs_disk *sfs_member_attach(struct sfs_data *d, int id, struct sfs_disk *disk)
{
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_find(d, id);
    SFS_ASSERT(m);
    struct sfs_disk *old = m->disk;
    m->disk = disk;
    m->full = false;
    if (disk) {
        m->row.lost_since = 0;
        mark_claimed(m);
    }
    SFS_UNLOCK(d);
    if (!disk)
        sfs_groups_seal_on(d, id);
    else
        sfs_groups_widen(d);
    return old;
}

static bool writes_under_way_on(struct sfs_data *d, int id)
{
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        for (unsigned i = 0; g->inflight && i < sfs_geometry_slabs(&g->geo); i++)
            if (g->slabs[i].disk == id)
                return true;
    return false;
}

int sfs_member_settle_off(struct sfs_data *d, int id)
{
    SFS_LOCK(d);
    while (writes_under_way_on(d, id)) /* what has ended on the old handle becomes pending first */
        sfs_cond_wait(&d->changed, &d->lock);
    SFS_UNLOCK(d);
    return sfs_data_readonly(d) ? -EROFS : sfs_commit_wait(d, false);
}

void sfs_member_failed(struct sfs_data *d, int id)
{
    sfs_groups_seal_on(d, id);
}

int64_t sfs_member_claim_slot(struct sfs_data *d, struct sfs_disk *disk)
{
    int64_t slot = -ENOSPC;
    SFS_LOCK(d);
    struct sfs_member *m = sfs_member_of(d, disk);
    for (uint64_t s = m ? m->limit : 0; s-- > 0;) {
        uint64_t bit = 1ull << (s % 64);
        if (m->slots[s / 64] & bit)
            continue;
        m->slots[s / 64] |= bit;
        m->free_slabs--;
        slot = (int64_t)s;
        break;
    }
    SFS_UNLOCK(d);
    return slot;
}

uint64_t sfs_data_unreadable(struct sfs_data *d)
{
    return __atomic_load_n(&d->unreadable, __ATOMIC_RELAXED);
}

void sfs_member_retry_full(struct sfs_data *d)
{
    SFS_LOCK(d);
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        m->full = false;
    SFS_UNLOCK(d);
}

unsigned sfs_member_list(struct sfs_data *d, struct sfs_member_info *out, unsigned max)
{
    unsigned n = 0;
    SFS_LOCK(d);
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link) {
        if (n == max)
            break;
        out[n].row = m->row;
        out[n].present = m->disk != NULL;
        out[n].online = sfs_member_online(m);
        out[n].repaired_blocks = m->repaired;
        out[n].free_slabs = m->free_slabs;
        out[n].held_slabs = held_slabs(d, m->row.id);
        n++;
    }
    SFS_UNLOCK(d);
    for (unsigned i = 1; i < n; i++) /* by id: the list is in order of insertion, backwards */
        for (unsigned k = i; k > 0 && out[k - 1].row.id > out[k].row.id; k--) {
            struct sfs_member_info t = out[k];
            out[k] = out[k - 1];
            out[k - 1] = t;
        }
    return n;
}
