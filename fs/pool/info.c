/* What a pool looks like: the snapshot behind `status`, and where data lies. */
#include "fs/pool/pool_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/layout/placement.h"

/* --- disks --------------------------------------------------------------------------------------------------------------------------------------- */

static int add_disks(struct sfs_pool *p, struct sfs_pool_info *out)
{
    struct sfs_member_info *v = calloc(SFS_LABEL_PEERS, sizeof(*v));
    if (!v)
        return -ENOMEM;
    out->ndisks = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    out->disks = calloc(out->ndisks + 1, sizeof(*out->disks));
    for (unsigned i = 0; out->disks && i < out->ndisks; i++) {
        struct sfs_disk_info *d = &out->disks[i];
        d->row = v[i].row;
        d->present = v[i].present;
        d->state = v[i].online ? SFS_DISK_ONLINE : SFS_DISK_GONE;
        d->total_bytes = v[i].row.capacity_slabs * p->slab_bytes;
        d->free_bytes = v[i].free_slabs * p->slab_bytes;
        d->used_bytes = d->total_bytes - d->free_bytes;
        d->slabs_held = v[i].held_slabs;
        snprintf(d->why, sizeof(d->why), "%s", v[i].online ? "" : "not found");
        sfs_mutex_lock(&p->lock);
        for (unsigned k = 0; k < p->ndisks; k++) {
            const struct sfs_pool_disk *pd = &p->disks[k];
            if (!pd->used || pd->id != d->row.id)
                continue;
            d->row.replica = pd->replica;
            snprintf(d->row.path, sizeof(d->row.path), "%s", pd->path);
            if (pd->disk) {
                d->state = sfs_disk_state(pd->disk);
                snprintf(d->why, sizeof(d->why), "%s", sfs_disk_state_why(pd->disk));
            } else if (pd->away.why[0]) {
                snprintf(d->why, sizeof(d->why), "%s", pd->away.why);
            }
        }
        sfs_mutex_unlock(&p->lock);
        out->replicas += d->row.replica && d->state == SFS_DISK_ONLINE;
        if (d->state == SFS_DISK_ONLINE) {
            out->total_bytes += d->total_bytes;
            out->used_bytes += d->used_bytes;
            out->free_bytes += d->free_bytes;
        }
    }
    free(v);
    return out->disks ? 0 : -ENOMEM;
}

/* --- spaces -------------------------------------------------------------------------------------------------------------------------------------- */

struct space_rows {
    struct sfs_space_row *v;
    unsigned n;
};

static int take_space(const struct sfs_space_row *row, void *ctx)
{
    struct space_rows *r = ctx;
    if (row->destroying)
        return 0;
    struct sfs_space_row *v = realloc(r->v, (r->n + 1) * sizeof(*v));
    if (!v)
        return -ENOMEM;
    r->v = v;
    r->v[r->n++] = *row;
    return 0;
}

static void add_groups(struct sfs_pool *p, struct sfs_pool_info *out)
{
    uint64_t *ids;
    unsigned n;
    if (sfs_group_ids(p->data, &ids, &n))
        return;
    for (unsigned i = 0; i < n; i++) {
        struct sfs_group_info g;
        if (sfs_group_info(p->data, ids[i], &g))
            continue;
        for (unsigned k = 0; k < out->nspaces; k++) {
            struct sfs_space_info *s = &out->spaces[k];
            if (s->row.id != g.space)
                continue;
            s->groups++;
            s->groups_degraded += g.missing > 0 && !g.lost;
            s->groups_lost += g.lost;
            s->groups_given_up += g.lost && g.given_up;
            s->raw_bytes += (uint64_t)(g.nslabs - g.missing) * p->slab_bytes;
        }
    }
    if (n)
        free(ids);
}

/* No disk with a copy of the catalog is here any more: what can be told is told from memory. */
static bool is_stopped(struct sfs_pool *p)
{
    return sfs_replicas_count(p->replicas) == 0;
}

static int collect_spaces(struct sfs_pool *p, struct space_rows *rows)
{
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_space_each(p->cat, take_space, rows);
    sfs_catalog_unlock(p->cat);
    if (rc >= 0 || !is_stopped(p))
        return rc;
    free(rows->v);
    *rows = (struct space_rows){0};
    struct sfs_space_row *all = calloc(SFS_WATCHED_SPACES, sizeof(*all));
    unsigned n = all ? sfs_volume_rows(p->data, all, SFS_WATCHED_SPACES) : 0;
    rc = all ? 0 : -ENOMEM;
    for (unsigned i = 0; !rc && i < n; i++)
        rc = take_space(&all[i], rows);
    free(all);
    return rc;
}

/* What a space of that size takes on the disks when it is full. */
static uint64_t raw_bytes_of(const struct sfs_space_row *row, unsigned ndisks)
{
    unsigned parity = sfs_resiliency_parity(row->resiliency), columns = row->columns ? row->columns : sfs_geometry_auto_columns(row->resiliency, ndisks);
    double raw = (double)row->size_bytes * sfs_resiliency_copies(row->resiliency);
    if (parity && columns > parity)
        raw = raw * columns / (columns - parity);
    return raw < (double)INT64_MAX ? (uint64_t)raw : INT64_MAX;
}

static int add_spaces(struct sfs_pool *p, struct sfs_pool_info *out)
{
    struct space_rows rows = {0};
    int rc = collect_spaces(p, &rows);
    out->spaces = rc ? NULL : calloc(rows.n + 1, sizeof(*out->spaces));
    for (unsigned i = 0; out->spaces && i < rows.n; i++) {
        struct sfs_space_info *s = &out->spaces[out->nspaces];
        struct sfs_volume *v = sfs_volume_find(p->data, rows.v[i].id);
        if (!v)
            continue;
        s->row = rows.v[i];
        sfs_volume_stat(v, &s->stat);
        sfs_catalog_lock(p->cat);
        sfs_catalog_inode_count(p->cat, s->row.id, &s->inodes);
        sfs_catalog_unlock(p->cat);
        out->promised_bytes += raw_bytes_of(&s->row, out->ndisks);
        out->nspaces++;
    }
    free(rows.v);
    if (!out->spaces)
        return rc ? rc : -ENOMEM;
    add_groups(p, out);
    for (unsigned i = 0; i < out->nspaces; i++)
        out->spaces[i].health = out->spaces[i].groups_lost ? SFS_AT_RISK : out->spaces[i].groups_degraded ? SFS_DEGRADED : SFS_HEALTHY;
    return 0;
}

/* --- damage ---------------------------------------------------------------------------------------------------------------------------------------- */

#define DAMAGED_SHOWN 20u
#define DAMAGED_ROWS 20000u /* of the catalog for each slab group that is missing: status answers soon */

static int add_damaged(struct sfs_pool *p, struct sfs_pool_info *out)
{
    int rc = sfs_pool_damaged(p, DAMAGED_SHOWN, DAMAGED_ROWS, &out->damaged);
    if (rc && is_stopped(p)) { /* which files it is stands in the catalog */
        out->damaged = calloc(1, sizeof(*out->damaged));
        rc = out->damaged ? 0 : -ENOMEM;
    }
    uint64_t known = sfs_damage_count(p->data);
    for (unsigned i = 0; !rc && known && i < out->damaged->n; i++)
        for (unsigned k = 0; k < out->nspaces; k++)
            if (!out->damaged->v[i].missing && !strcmp(out->spaces[k].row.name, out->damaged->v[i].space))
                out->spaces[k].health = SFS_AT_RISK;
    return rc;
}

/* --- healing ------------------------------------------------------------------------------------------------------------------------------------- */

#define JOBS_SHOWN 20u

struct job_rows {
    struct sfs_job_info *v;
    unsigned n;
};

static int take_job(const struct sfs_job_row *row, void *ctx)
{
    struct job_rows *r = ctx;
    r->v[r->n++] = (struct sfs_job_info){.row = *row};
    return r->n == JOBS_SHOWN;
}

/* One that a crash cut short shows as interrupted until it is taken up again. */
static void add_progress(struct sfs_pool *p, struct sfs_job_info *j, const struct sfs_heal_status *heal, bool newest)
{
    struct sfs_job_state st;
    if (p->jobs && !sfs_job_state(p->jobs, j->row.id, &st)) {
        j->row = st.row;
        j->rate_bytes_s = st.rate_bytes_s;
        j->eta_s = st.eta_s;
        if (st.at_work || !strcmp(j->row.state, "paused"))
            return;
    } else if (!strcmp(j->row.kind, "heal") && !strcmp(j->row.state, "running") && heal->running && newest) {
        j->row.done = heal->done;
        j->row.total = heal->total;
        j->rate_bytes_s = heal->rate_bytes_s;
        j->eta_s = heal->eta_s;
        return;
    }
    if (!strcmp(j->row.state, "running") || !strcmp(j->row.state, "waiting"))
        snprintf(j->row.state, sizeof(j->row.state), "interrupted");
}

/* The latest jobs, newest first. */
static int add_jobs(struct sfs_pool *p, struct sfs_pool_info *out)
{
    struct job_rows rows = {.v = calloc(JOBS_SHOWN, sizeof(*out->jobs))};
    if (!rows.v)
        return -ENOMEM;
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_job_each(p->cat, take_job, &rows);
    sfs_catalog_unlock(p->cat);
    out->jobs = rows.v;
    out->njobs = rows.n;
    struct sfs_heal_status s = {0};
    if (p->heal)
        sfs_heal_status(p->heal, &s);
    bool newest = true; /* of the heal jobs */
    for (unsigned i = 0; i < out->njobs; i++) {
        add_progress(p, &out->jobs[i], &s, newest);
        newest &= strcmp(out->jobs[i].row.kind, "heal") != 0;
    }
    return rc < 0 && !is_stopped(p) ? rc : 0;
}

unsigned sfs_pool_disks_away(struct sfs_pool *p)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS), away = 0;
    for (unsigned i = 0; i < n; i++)
        away += !v[i].online;
    return away;
}

/* Could the loss of the disk that holds most be healed? Where a space bears no loss there is nothing to heal from. */
static bool can_heal(struct sfs_pool *p, const struct sfs_pool_info *out)
{
    const struct sfs_disk_info *largest = NULL;
    for (unsigned i = 0; i < out->ndisks; i++) {
        const struct sfs_disk_info *d = &out->disks[i];
        if (d->state == SFS_DISK_ONLINE && (!largest || d->slabs_held > largest->slabs_held))
            largest = d;
    }
    if (out->replicas < 2)
        return false; /* with the disk that holds the catalog all would be lost */
    struct sfs_pool_move m;
    return largest && !sfs_pool_could_move(p, largest->row.id, 0, true, &m) && m.placed == m.slabs;
}

/* --- the verdict ---------------------------------------------------------------------------------------------------------------------------------- */

/* The last run left something, and nothing has changed since that could help. */
static bool heal_is_stuck(struct sfs_pool *p, struct sfs_heal_status *s)
{
    *s = (struct sfs_heal_status){0};
    if (p->heal)
        sfs_heal_status(p->heal, s);
    return s->runs && s->last_result && p->heal_again_ns;
}

/* As many copies of the catalog as bear what the spaces were promised to bear. */
static unsigned replicas_needed(const struct sfs_pool_info *o)
{
    unsigned needed = 1;
    for (unsigned i = 0; i < o->nspaces; i++) {
        unsigned copies = sfs_resiliency_tolerance(o->spaces[i].row.resiliency) + 1;
        needed = copies > needed ? copies : needed;
    }
    return needed < o->replicas_wanted ? needed : o->replicas_wanted;
}

/* All copies of the catalog went at once: nothing can be committed any more, and nothing of what is in memory can be believed. What to do, exactly. */
static void verdict_stopped(struct sfs_pool *p, struct sfs_pool_info *o, const char *names)
{
    bool all_back = true;
    sfs_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->ndisks; i++)
        all_back &= !p->disks[i].used || !p->disks[i].id || p->disks[i].away.why[0] || (p->disks[i].disk && sfs_disk_state(p->disks[i].disk) == SFS_DISK_ONLINE);
    sfs_mutex_unlock(&p->lock);
    o->health = SFS_AT_RISK;
    snprintf(o->verdict, sizeof(o->verdict),
             "The pool has stopped: all disks with a copy of its catalog went away at once (%s). %s unmount all spaces of the pool (`spacesfs umount DIR`) and mount them again: what was stored by then is whole. "
             "What programs wrote after that, and did not hear to be stored, is lost.",
             names, all_back ? "They are back:" : "Connect them again; then");
}

static void verdict(struct sfs_pool *p, struct sfs_pool_info *o)
{
    struct sfs_heal_status s;
    uint64_t lost = 0, degraded = 0;
    unsigned away = 0, needed = replicas_needed(o);
    char names[256] = "";
    for (unsigned i = 0; i < o->nspaces; i++) {
        lost += o->spaces[i].groups_lost - o->spaces[i].groups_given_up;
        degraded += o->spaces[i].groups_degraded;
    }
    for (unsigned i = 0; i < o->ndisks; i++)
        if (o->disks[i].state != SFS_DISK_ONLINE) {
            away++;
            if (strlen(names) + SFS_NAME_MAX + 4 < sizeof(names))
                snprintf(names + strlen(names), sizeof(names) - strlen(names), "%s%s", names[0] ? ", " : "", o->disks[i].row.name);
        }
    char *v = o->verdict;
    size_t cap = sizeof(o->verdict);
    char count[48];
    snprintf(count, sizeof(count), "%s%llu file%s", o->damaged->more ? "At least " : "", (unsigned long long)o->damaged->files, o->damaged->files == 1 ? "" : "s");
    bool healing = false;
    for (unsigned i = 0; i < o->njobs; i++)
        healing |= !strcmp(o->jobs[i].row.kind, "heal") && !strcmp(o->jobs[i].row.state, "running");
    if (o->readonly && !p->readonly && !o->replicas) {
        verdict_stopped(p, o, names);
    } else if (lost && o->damaged->files) {
        o->health = SFS_AT_RISK;
        snprintf(v, cap, "%s cannot be read, or not all of them, without the disks that are missing (%s). Connect those disks again. Everything else can be read.%s", count,
                 names[0] ? names : "no longer in the pool", p->readonly ? " The pool is open read-only, so that nothing on them changes." : "");
    } else if (lost) {
        o->health = SFS_AT_RISK;
        snprintf(v, cap, "Some data cannot be read without the disks that are missing (%s). Connect those disks again. Everything else can be read.%s", names[0] ? names : "no longer in the pool",
                 p->readonly ? " The pool is open read-only, so that nothing on them changes." : "");
    } else if (o->damaged->files) {
        o->health = SFS_AT_RISK;
        snprintf(v, cap, "%s %s damaged: no good copy is left of some of the data, and programs get an I/O error there. Everything else can be read%s%s. Restore %s from a backup, or delete %s.",
                 count, o->damaged->files == 1 ? "is" : "are", away ? "; missing: " : "", names, o->damaged->files == 1 ? "it" : "them", o->damaged->files == 1 ? "it" : "them");
    } else if (o->readonly && !p->readonly) {
        o->health = SFS_AT_RISK;
        snprintf(v, cap, "The pool is read-only: %s.", sfs_data_readonly_why(p->data));
    } else if (degraded) {
        o->health = SFS_DEGRADED;
        if (healing)
            snprintf(v, cap, "All data is readable, and is being given its redundancy back (%s%s). Nothing needs to be done.", away ? "missing: " : "healing", names);
        else if (heal_is_stuck(p, &s))
            snprintf(v, cap, "All data is readable, but some has less redundancy than it should, and healing is stuck: %s.", s.last_text);
        else
            snprintf(v, cap, "All data is readable, but some has less redundancy than it should%s%s. Connect the disk again, or run `spacesfs heal %s` to build what it held on the others at once.", away ? "; missing: " : "", names, p->name);
    } else if (o->replicas < needed) {
        o->health = SFS_DEGRADED;
        snprintf(v, cap, "All data is readable, but the catalog, which says where everything is and holds the small files, has only %u of the %u copies that it needs%s%s. %s", o->replicas, needed,
                 away ? "; missing: " : "", names, away ? "Connect the disk again or add one: a copy is made by itself." : "A new one is made by itself, once a disk can take it.");
    } else if (away) {
        o->health = SFS_DEGRADED;
        snprintf(v, cap, "All data has full redundancy, without the disk%s that %s missing (%s).", away > 1 ? "s" : "", away > 1 ? "are" : "is", names);
    } else if (o->replicas < o->replicas_wanted) {
        o->health = SFS_DEGRADED;
        snprintf(v, cap, "All data is safe, but the catalog has only %u of %u copies; a new one is made by itself.", o->replicas, o->replicas_wanted);
    } else {
        o->health = SFS_HEALTHY;
        snprintf(v, cap, "All disks are online and all data has full redundancy.");
    }
}

int sfs_pool_info(struct sfs_pool *p, struct sfs_pool_info **res)
{
    struct sfs_pool_info *o = calloc(1, sizeof(*o));
    if (!o)
        return -ENOMEM;
    snprintf(o->name, sizeof(o->name), "%s", p->name);
    o->uuid = p->uuid;
    o->readonly = sfs_pool_readonly(p);
    o->slab_bytes = p->slab_bytes;
    sfs_mutex_lock(&p->lock);
    o->epoch = p->epoch.number;
    sfs_mutex_unlock(&p->lock);
    o->replicas_wanted = sfs_pool_replicas_wanted(p);
    int rc = add_disks(p, o);
    if (!rc)
        rc = add_spaces(p, o);
    if (!rc)
        rc = add_damaged(p, o);
    if (!rc)
        rc = add_jobs(p, o);
    if (rc) {
        sfs_pool_info_free(o);
        return rc;
    }
    o->can_heal_largest = can_heal(p, o);
    verdict(p, o);
    *res = o;
    return 0;
}

void sfs_pool_info_free(struct sfs_pool_info *i)
{
    if (!i)
        return;
    free(i->disks);
    free(i->spaces);
    free(i->jobs);
    sfs_pool_damaged_free(i->damaged);
    free(i);
}

int sfs_pool_events(struct sfs_pool *p, uint64_t after_id, unsigned max, int (*fn)(const struct sfs_event_row *, void *), void *ctx)
{
    sfs_pool_flush_events(p);
    sfs_catalog_lock(p->cat);
    int rc = sfs_catalog_event_list(p->cat, after_id, max, fn, ctx);
    sfs_catalog_unlock(p->cat);
    return rc;
}

/* --- where ------------------------------------------------------------------------------------------------------------------------------------------ */

int sfs_pool_places(struct sfs_pool *p, uint64_t group, uint64_t goff, uint32_t slen, struct sfs_place *out, unsigned max, unsigned *n, char resiliency[16])
{
    struct sfs_group_info g;
    int rc = sfs_group_info(p->data, group, &g);
    if (rc)
        return rc;
    struct sfs_geometry geo;
    rc = sfs_geometry_init(&geo, g.resiliency, g.columns, g.interleave, p->slab_bytes, NULL);
    if (rc)
        return rc;
    snprintf(resiliency, 16, "%s", sfs_resiliency_name(g.resiliency));
    bool touched[SFS_MAX_SLABS_PER_GROUP] = {0};
    uint64_t off = goff, end = goff + slen;
    struct sfs_piece piece;
    while (end <= sfs_geometry_capacity(&geo) && sfs_geometry_next(&geo, &off, end, &piece)) {
        for (unsigned k = 0; k < g.copies; k++)
            touched[piece.column * g.copies + k] = true;
        for (unsigned q = 0; q < geo.parity; q++)
            touched[sfs_geometry_parity_column(&geo, piece.slab_off / geo.interleave, q)] = true;
    }
    *n = 0;
    for (unsigned i = 0; i < g.nslabs && *n < max; i++) {
        if (!touched[i])
            continue;
        struct sfs_place *pl = &out[(*n)++];
        *pl = (struct sfs_place){.column = g.slabs[i].column, .copy = g.slabs[i].copy, .slot = g.slabs[i].slot, .online = g.slab_online[i]};
        for (unsigned k = 0; k < p->ndisks; k++)
            if (g.slabs[i].disk && p->disks[k].id == g.slabs[i].disk)
                snprintf(pl->disk, sizeof(pl->disk), "%s", p->disks[k].name);
    }
    return 0;
}
