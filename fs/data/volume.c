/* Volumes: the data side of a space: settings, how much room there is, reservations. */
#include "fs/data/state.h"

#include <stdlib.h>
#include <string.h>

int sfs_volume_add(struct sfs_data *d, const struct sfs_space_row *row)
{
    if ((unsigned)row->resiliency >= SFS_RESILIENCY_COUNT || row->interleave == 0 || row->interleave % SFS_BLOCK || row->columns > SFS_MAX_COLUMNS ||
        row->columns * sfs_resiliency_copies(row->resiliency) > SFS_MAX_SLABS_PER_GROUP)
        return -EUCLEAN;
    struct sfs_volume *v = calloc(1, sizeof(*v));
    if (!v)
        return -ENOMEM;
    v->data = d;
    v->row = *row;
    SFS_LOCK(d);
    LIST_INSERT_HEAD(&d->volumes, v, link);
    SFS_UNLOCK(d);
    return 0;
}

void sfs_volume_update(struct sfs_data *d, const struct sfs_space_row *row)
{
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (v->row.id == row->id)
            break;
    SFS_ASSERT(v);
    bool geometry = v->row.resiliency != row->resiliency || v->row.columns != row->columns || v->row.interleave != row->interleave;
    v->row = *row;
    v->credit_bytes = 0;
    if (geometry)
        for (struct sfs_group *g = d->groups; g; g = g->hh.next)
            if (g->volume == v)
                sfs_group_seal(g);
    SFS_UNLOCK(d);
}

int sfs_volume_remove(struct sfs_data *d, int space)
{
    int rc = 0;
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (v->row.id == space)
            break;
    if (!v)
        rc = -ENOENT;
    else if (v->users)
        rc = -EBUSY;
    for (struct sfs_group *g = d->groups; !rc && g; g = g->hh.next)
        if (g->volume == v)
            rc = -EBUSY;
    if (!rc) {
        LIST_REMOVE(v, link);
        LIST_INSERT_HEAD(&d->removed, v, link);
    }
    SFS_UNLOCK(d);
    return rc;
}

bool sfs_volume_has_groups(struct sfs_volume *v)
{
    bool has = false;
    SFS_LOCK(v->data);
    for (struct sfs_group *g = v->data->groups; g && !has; g = g->hh.next)
        has = g->volume == v;
    SFS_UNLOCK(v->data);
    return has;
}

unsigned sfs_volumes_destroying(struct sfs_data *d, int *ids, unsigned max)
{
    unsigned n = 0;
    struct sfs_volume *v;
    SFS_LOCK(d);
    LIST_FOREACH(v, &d->volumes, link)
        if (v->row.destroying && n < max)
            ids[n++] = v->row.id;
    SFS_UNLOCK(d);
    return n;
}

unsigned sfs_volumes_tolerance(struct sfs_data *d)
{
    unsigned most = 0;
    struct sfs_volume *v;
    SFS_LOCK(d);
    LIST_FOREACH(v, &d->volumes, link) {
        unsigned tolerance = sfs_resiliency_tolerance((enum sfs_resiliency)v->row.resiliency);
        most = tolerance > most ? tolerance : most;
    }
    SFS_UNLOCK(d);
    return most;
}

unsigned sfs_volume_ids(struct sfs_data *d, int *spaces, unsigned max)
{
    unsigned n = 0;
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (!v->row.destroying && n < max)
            spaces[n++] = v->row.id;
    SFS_UNLOCK(d);
    return n;
}

struct sfs_volume *sfs_volume_find(struct sfs_data *d, int space)
{
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (v->row.id == space)
            break;
    SFS_UNLOCK(d);
    return v;
}

unsigned sfs_volume_rows(struct sfs_data *d, struct sfs_space_row *out, unsigned max)
{
    unsigned n = 0;
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (n < max)
            out[n++] = v->row;
    SFS_UNLOCK(d);
    return n;
}

struct sfs_volume *sfs_volume_find_name(struct sfs_data *d, const char *name)
{
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (!v->row.destroying && !strcmp(v->row.name, name))
            break;
    SFS_UNLOCK(d);
    return v;
}

unsigned sfs_volume_use(struct sfs_volume *v, int delta)
{
    SFS_LOCK(v->data);
    v->users = (unsigned)((int)v->users + delta);
    unsigned n = v->users;
    SFS_UNLOCK(v->data);
    return n;
}

struct sfs_data *sfs_volume_data(struct sfs_volume *v)
{
    return v->data;
}

int sfs_volume_space_id(const struct sfs_volume *v)
{
    return v->row.id;
}

void sfs_volume_settings(struct sfs_volume *v, struct sfs_space_row *out)
{
    SFS_LOCK(v->data);
    *out = v->row;
    SFS_UNLOCK(v->data);
}

/* --- room: lock held ---------------------------------------------------------------------------------------------------------------------- */

/* What a group can still take: with parity whole rows that are free. */
static uint64_t room_of(struct sfs_data *d, const struct sfs_group *g)
{
    if (g->dropped)
        return 0;
    if (sfs_group_takes_writes(d, g) && g->bitmap)
        return (g->row_blocks ? g->clear_rows * g->row_blocks : g->free_blocks) * SFS_BLOCK;
    uint64_t blocks = g->used_known && g->holds == 0 && sfs_group_whole(d, g) ? sfs_group_room_blocks(g) : 0;
    return blocks > g->waiting_blocks ? (blocks - g->waiting_blocks) * SFS_BLOCK : 0;
}

/* Would the writer open it (again)? */
static bool is_laid_out_right(const struct sfs_volume *v, const struct sfs_group *g)
{
    if (g->kind == SFS_GROUP_LANDING)
        return true;
    return g->geo.resiliency == (enum sfs_resiliency)v->row.resiliency && g->geo.interleave == v->row.interleave && (!v->row.columns || g->geo.columns <= v->row.columns);
}

static uint64_t room_in_groups(struct sfs_data *d, const struct sfs_volume *v, enum sfs_group_kind kind)
{
    uint64_t bytes = 0;
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (g->volume == v && g->kind == kind && is_laid_out_right(v, g))
            bytes += room_of(d, g);
    return bytes;
}

static uint64_t used_bytes(struct sfs_data *d, const struct sfs_volume *v)
{
    uint64_t blocks = 0;
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (g->volume == v && !g->dropped)
            blocks += g->used_blocks;
    uint64_t bytes = blocks * SFS_BLOCK;
    return bytes > v->moving_bytes ? bytes - v->moving_bytes : 0;
}

/* What w is sure of beyond what it uses: a fixed space all of its size. */
static uint64_t promised_to(struct sfs_data *d, const struct sfs_volume *w)
{
    uint64_t promised = w->reserved_bytes + w->credit_bytes, used = used_bytes(d, w);
    if (w->row.fixed && !w->row.destroying && w->row.size_bytes > used + promised)
        promised = w->row.size_bytes - used;
    return promised;
}

/* Takes what volume w will need beyond the groups that it has off the disks with most free slabs: whole groups, since a group belongs to one space. */
static void set_aside(struct sfs_data *d, const struct sfs_volume *w, uint64_t *slabs, unsigned n)
{
    uint64_t promised = promised_to(d, w), have = room_in_groups(d, w, SFS_GROUP_DATA);
    if (promised <= have)
        return;
    unsigned columns = w->row.columns ? w->row.columns : sfs_geometry_auto_columns(w->row.resiliency, n);
    unsigned parity = sfs_resiliency_parity(w->row.resiliency), copies = sfs_resiliency_copies(w->row.resiliency);
    if (columns <= parity)
        return;
    uint64_t group = (uint64_t)(columns - parity) * d->slab_bytes, groups = (promised - have + group - 1) / group;
    for (uint64_t k = 0; k < groups * columns * copies; k++) {
        unsigned most = 0;
        for (unsigned i = 1; i < n; i++)
            if (slabs[i] > slabs[most])
                most = i;
        if (n == 0 || slabs[most] == 0)
            return;
        slabs[most]--;
    }
}

static bool has_landing(struct sfs_data *d, const struct sfs_volume *v)
{
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (g->volume == v && g->kind == SFS_GROUP_LANDING && !g->dropped)
            return true;
    return false;
}

/* Takes a slab off the `copies` disks that have most. False: there are too few. */
static bool take_copies(uint64_t *slabs, unsigned n, unsigned copies)
{
    bool taken[SFS_LABEL_PEERS] = {false};
    for (unsigned k = 0; k < copies; k++) {
        unsigned most = n;
        for (unsigned i = 0; i < n; i++)
            if (!taken[i] && slabs[i] && (most == n || slabs[i] > slabs[most]))
                most = i;
        if (most == n)
            return false;
        taken[most] = true;
        slabs[most]--;
    }
    return true;
}

bool sfs_landing_set_aside(struct sfs_data *d, const struct sfs_volume *v, uint64_t *slabs, unsigned n)
{
    unsigned copies = sfs_resiliency_tolerance(v->row.resiliency) + 1, journals = 0;
    struct sfs_member *m;
    LIST_FOREACH(m, &d->members, link)
        journals += sfs_member_online(m) && m->row.usage == SFS_USAGE_JOURNAL && m->free_slabs && !m->full;
    if (!sfs_resiliency_parity(v->row.resiliency) || journals >= copies || has_landing(d, v))
        return false;
    return take_copies(slabs, n, copies);
}

/* Free slabs of the disks that take data, and how many disks could if they had room. */
static unsigned free_slabs(struct sfs_data *d, uint64_t *slabs, unsigned *online)
{
    unsigned n = 0;
    struct sfs_member *m;
    *online = 0;
    LIST_FOREACH(m, &d->members, link) {
        *online += sfs_member_online(m) && m->row.usage == SFS_USAGE_AUTO;
        if (sfs_member_takes_slabs(m) && n < SFS_LABEL_PEERS)
            slabs[n++] = m->free_slabs;
    }
    return n;
}

#define SLABS_PLENTY 8ull /* free on a disk, on average */

bool sfs_landing_pays(struct sfs_data *d, const struct sfs_volume *v)
{
    uint64_t slabs[SFS_LABEL_PEERS], all = 0;
    unsigned online, n = free_slabs(d, slabs, &online), columns = v->row.columns ? sfs_choose_columns(v, online, n) : 0;
    for (unsigned i = 0; i < n; i++)
        all += slabs[i];
    if (!has_landing(d, v) || all >= SLABS_PLENTY * n)
        return true;
    uint64_t rows = sfs_place_capacity(slabs, n, v->row.resiliency, columns, d->slab_bytes);
    take_copies(slabs, n, sfs_resiliency_tolerance(v->row.resiliency) + 1);
    return sfs_place_capacity(slabs, n, v->row.resiliency, columns, d->slab_bytes) + d->slab_bytes >= rows;
}

/* With too few disks for all copies groups are made of what there is (rule 4, pick in allocate.c): a slab on each disk, as long as the data can be read from them. */
static uint64_t room_degraded(struct sfs_data *d, const struct sfs_volume *v, const uint64_t *slabs, unsigned n, unsigned online)
{
    unsigned data = sfs_resiliency_min_columns(v->row.resiliency) - sfs_resiliency_parity(v->row.resiliency);
    return online < data ? 0 : sfs_place_optimum(slabs, n, online) * data * d->slab_bytes;
}

/* Slabs on too few disks for a group with parity: landing groups are made of them. */
static uint64_t room_in_rest(struct sfs_data *d, const struct sfs_volume *v, const uint64_t *slabs, unsigned n)
{
    if (!sfs_resiliency_parity(v->row.resiliency))
        return 0;
    uint64_t have = 0, most = sfs_landing_groups_max(d), groups = sfs_place_optimum(slabs, n, sfs_resiliency_tolerance(v->row.resiliency) + 1);
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        have += g->volume == v && g->kind == SFS_GROUP_LANDING && !g->dropped;
    most = most > have ? most - have : 0;
    return (groups < most ? groups : most) * d->slab_bytes;
}

/* What can be made of free slabs: groups of v's resiliency; *landing: landing groups beside them. */
static uint64_t room_in_slabs(struct sfs_data *d, const struct sfs_volume *v, uint64_t *landing)
{
    uint64_t slabs[SFS_LABEL_PEERS];
    unsigned online, n = free_slabs(d, slabs, &online);
    struct sfs_volume *w;
    LIST_FOREACH(w, &d->volumes, link)
        if (w != v && promised_to(d, w))
            set_aside(d, w, slabs, n);
    *landing = sfs_landing_set_aside(d, v, slabs, n) ? d->slab_bytes : 0;
    if (online && online < sfs_resiliency_min_columns(v->row.resiliency) * sfs_resiliency_copies(v->row.resiliency))
        return room_degraded(d, v, slabs, n, online);
    uint64_t rows = sfs_place_capacity(slabs, n, v->row.resiliency, v->row.columns ? sfs_choose_columns(v, online, n) : 0, d->slab_bytes);
    if (!rows)
        *landing += room_in_rest(d, v, slabs, n);
    return rows;
}

uint32_t sfs_volume_write_unit_bytes(struct sfs_volume *v)
{
    SFS_LOCK(v->data);
    uint64_t bytes = sfs_resiliency_parity(v->row.resiliency) ? sfs_stripe_bytes_of_new(v->data, v) : SFS_EXTENT_MAX;
    SFS_UNLOCK(v->data);
    return (uint32_t)bytes;
}

/* What stays back so that overwriting, deleting and metadata work on a full pool. With parity it is less: a landing group took what full rows would make more of. */
static uint64_t reserve_bytes(const struct sfs_volume *v, uint64_t total)
{
    uint64_t r = total / (sfs_resiliency_parity(v->row.resiliency) ? 1024 : 256);
    if (r < 256u << 10)
        r = 256u << 10;
    if (r > 1u << 30)
        r = 1u << 30;
    return r;
}

#define ROWS_KEPT 4u /* as many flushes at once */

/* Room for new data of v, before v's own reservations; what other volumes were promised counts as taken. */
static uint64_t room(struct sfs_volume *v, bool rewriting)
{
    struct sfs_data *d = v->data;
    uint64_t used = used_bytes(d, v), landing, avail = room_in_slabs(d, v, &landing);
    avail += room_in_groups(d, v, SFS_GROUP_DATA);
    landing += room_in_groups(d, v, SFS_GROUP_LANDING);
    if (sfs_resiliency_parity(v->row.resiliency)) { /* where little can land, what is written at a time may leave the end of a row unused */
        uint64_t ends = ROWS_KEPT * sfs_stripe_bytes_of_new(d, v);
        ends = landing < ends ? ends - landing : 0;
        avail = avail > ends ? avail - ends : 0;
    }
    avail += landing;
    uint64_t keep = rewriting ? 0 : reserve_bytes(v, used + avail);
    avail = avail > keep ? avail - keep : 0;
    if (v->row.size_bytes) {
        uint64_t left = v->row.size_bytes > used ? v->row.size_bytes - used : 0;
        if (avail > left)
            avail = left;
    }
    return avail;
}

uint64_t sfs_volume_cut_bytes(struct sfs_data *d, int space, bool reset, uint64_t *used)
{
    uint64_t cut = 0;
    *used = 0;
    SFS_LOCK(d);
    struct sfs_volume *v;
    LIST_FOREACH(v, &d->volumes, link)
        if (v->row.id == space) {
            cut = v->cut_bytes;
            *used = used_bytes(d, v);
            if (reset)
                v->cut_bytes = 0;
        }
    SFS_UNLOCK(d);
    return cut;
}

uint64_t sfs_volume_could_hold(struct sfs_data *d, const struct sfs_space_row *row)
{
    struct sfs_volume fresh = {.data = d}, *v;
    sfs_groups_count_used(d);
    SFS_LOCK(d);
    LIST_FOREACH(v, &d->volumes, link)
        if (row->id && v->row.id == row->id)
            break;
    if (!v)
        v = &fresh;
    struct sfs_space_row was = v->row;
    v->row = *row;
    v->row.size_bytes = 0;
    uint64_t bytes = used_bytes(d, v) + room(v, false);
    v->row = was;
    SFS_UNLOCK(d);
    return bytes;
}

static bool all_known(struct sfs_data *d)
{
    for (struct sfs_group *g = d->groups; g; g = g->hh.next)
        if (!g->used_known)
            return false;
    return true;
}

void sfs_volume_stat(struct sfs_volume *v, struct sfs_volume_stat *out)
{
    struct sfs_data *d = v->data;
    SFS_LOCK(d);
    bool known = all_known(d);
    SFS_UNLOCK(d);
    if (!known)
        sfs_groups_count_used(d);
    SFS_LOCK(d);
    uint64_t avail = room(v, false);
    out->used_bytes = used_bytes(d, v);
    out->avail_bytes = avail > v->reserved_bytes ? avail - v->reserved_bytes : 0;
    out->total_bytes = out->used_bytes + v->reserved_bytes + out->avail_bytes;
    SFS_UNLOCK(d);
}

/* Working out the room visits every group: a part of what is found is credit for the calls that follow. Small when room is short, so that it cannot run out unseen. */
int sfs_volume_reserve(struct sfs_volume *v, uint64_t bytes, bool rewriting)
{
    struct sfs_data *d = v->data;
    if (sfs_data_readonly(d))
        return -EROFS;
    int rc = 0;
    SFS_LOCK(d);
    bool known = v->credit_bytes >= bytes || all_known(d);
    SFS_UNLOCK(d);
    if (!known)
        rc = sfs_groups_count_used(d); /* after a mount: what groups hold isn't known before it is counted */
    if (rc)
        return rc;
    SFS_LOCK(d);
    if (v->credit_bytes >= bytes) {
        v->credit_bytes -= bytes;
    } else {
        uint64_t r = room(v, rewriting);
        if (v->reserved_bytes + bytes > r)
            rc = -ENOSPC;
        else
            v->credit_bytes = (r - v->reserved_bytes - bytes) / 16;
        v->tight = r / 2 < v->reserved_bytes + bytes;
        if (v->credit_bytes > 256u << 20)
            v->credit_bytes = 256u << 20;
    }
    if (!rc)
        v->reserved_bytes += bytes;
    SFS_UNLOCK(d);
    return rc;
}

void sfs_volume_unreserve(struct sfs_volume *v, uint64_t bytes)
{
    SFS_LOCK(v->data);
    SFS_ASSERT(v->reserved_bytes >= bytes);
    v->reserved_bytes -= bytes;
    SFS_UNLOCK(v->data);
}
