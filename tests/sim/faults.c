/* Faults, kept within the promise: what each costs is written down before it happens.
 *
 *   away      unplugged: unsynced writes lost. Returns as it was
 *   impaired  failed a request, stalled, was away or full: data that was written meanwhile may lack its copy there, until a heal has ended well. Or it is from an earlier time: the
 *             pool has to see that by itself, and verifies all of it in that heal
 *   thin      when all disks are full, data that had been accepted is stored with fewer copies rather than lost, and an event says so
 *   rotten    bytes on it may be wrong; until it was away when a heal ended well (then nothing of it is in use)
 *
 * A disk may be hurt as long as no more than `budget` are hurt at a time. Spaces that bear fewer are damaged: from then on EIO is allowed there, wrong
 * bytes and lost names never. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/run.h"

static unsigned count(uint32_t mask)
{
    return (unsigned)__builtin_popcount(mask);
}

static uint32_t hurt_mask(const struct sim_run *r)
{
    return (r->away & ~r->healed) | r->impaired | r->rotten;
}

unsigned sim_hurt(const struct sim_run *r)
{
    return count(hurt_mask(r));
}

bool sim_any_damaged(const struct sim_run *r)
{
    for (unsigned i = 0; i < r->nspaces; i++) {
        if (r->spaces[i].damaged)
            return true;
    }
    return false;
}

static bool may_hurt(const struct sim_run *r, unsigned disk)
{
    return r->disks[disk].member && count(hurt_mask(r) | 1u << disk) <= r->budget;
}

/* Only what was done to a disk may make the pool doubt it: a crash, or being unplugged, does not. */
static void check_suspicion(struct sim_run *r, const char *text)
{
    const char *said = strstr(text, "disk-suspect ");
    unsigned n;

    if (said && sscanf(said, "disk-suspect d%u", &n) == 1 && n < r->ndisks && !(r->doubtful & 1u << n))
        sim_fail(r, "nothing happened to disk d%u that would make it suspect: %s", n, text);
}

void sim_log_line(struct sim_run *r, const char *text)
{
    const char *counts = strstr(text, "is stored with ");
    unsigned members = 0, have, want;

    for (unsigned i = 0; i < r->ndisks; i++)
        members += r->disks[i].member;
    check_suspicion(r, text);
    if (!strstr(text, "written-degraded"))
        return;
    if (counts && sscanf(counts, "is stored with %u of %u slabs", &have, &want) == 2 && members - count(r->away | r->impaired) >= want)
        r->thin = true; /* there were disks enough */
}

void sim_hurt_disk(struct sim_run *r, uint32_t *mask, unsigned disk)
{
    *mask |= 1u << disk;
    r->doubtful |= mask == &r->away ? 0 : 1u << disk;
    r->faulted = true;
    r->stats.faults++;
    for (unsigned i = 0; i < r->nspaces; i++) {
        struct sim_space *s = &r->spaces[i];

        if ((sim_hurt(r) > sfs_resiliency_tolerance(s->resiliency) || r->thin) && !s->damaged) {
            s->damaged = true;
            sim_note(r, "space %s is past its promise", s->name);
        }
    }
}

void sim_disk_away(struct sim_run *r, unsigned disk)
{
    r->healed &= ~(1u << disk);
    sim_hurt_disk(r, &r->away, disk);
    sim_note(r, "disk %s vanishes", r->disks[disk].name);
    sfs_sim_vanish(r->world, r->disks[disk].name);
}

void sim_disk_back(struct sim_run *r, unsigned disk)
{
    uint32_t bit = 1u << disk;

    if (!(r->away & bit))
        return;
    sim_note(r, "disk %s is back", r->disks[disk].name);
    sfs_sim_return(r->world, r->disks[disk].name);
    r->away &= ~bit;
    if (!(r->healed & bit))
        r->impaired |= bit; /* what was written meanwhile isn't there */
    r->healed &= ~bit;
    r->faulted = true;
}

/* Those that the pool doesn't use, as it sees it. */
static uint32_t offline_disks(const struct sim_run *r, const struct sfs_pool_info *info)
{
    uint32_t mask = 0;

    for (unsigned i = 0; i < info->ndisks; i++) {
        for (unsigned d = 0; d < r->ndisks; d++) {
            if (strcmp(info->disks[i].row.name, r->disks[d].name) == 0 && (!info->disks[i].present || info->disks[i].state != SFS_DISK_ONLINE))
                mask |= 1u << d;
        }
    }
    return mask;
}

static bool any_degraded(const struct sim_run *r, const struct sfs_pool_info *info)
{
    for (unsigned i = 0; i < info->nspaces; i++) {
        for (unsigned k = 0; k < r->nspaces; k++) {
            if (strcmp(info->spaces[i].row.name, r->spaces[k].name) == 0 && !r->spaces[k].damaged && info->spaces[i].groups_degraded)
                return true;
        }
    }
    return false;
}

/* Data that was written since disks went out of use lacks its copies there: they count as hurt, even if all that they held before has been healed. */
static void look_at_groups(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;

    sim_members_look(r);
    if (sfs_pool_info(r->pool, &info) < 0)
        return;
    if (any_degraded(r, info)) {
        r->healed = 0;
        r->impaired |= offline_disks(r, info) & ~r->away;
    }
    sfs_pool_info_free(info);
}

bool sim_heal(struct sim_run *r)
{
    struct sfs_error err = {0};
    struct sfs_pool_info *info = NULL;
    uint32_t away = r->away, impaired = r->impaired, rotten = r->rotten, offline = 0;
    bool whole = false;
    int rc = sfs_pool_heal(r->pool, true, &err);

    sim_hash(r, (uint64_t)(int64_t)rc);
    sim_note(r, "heal: %s", rc ? err.text : "done");
    if (rc < 0 && rc != -EAGAIN && !(rc == -EUCLEAN && sim_any_damaged(r)) && !sim_crashed(r) && !r->doomed)
        sim_fail(r, "heal: %s (%s)", err.text, strerror(-rc));
    if (rc < 0 || sim_crashed(r))
        return false;
    for (int tries = 0; tries < 60 && !whole && !sim_crashed(r); tries++) { /* replicas of the catalog come back by themselves */
        if (sfs_pool_info(r->pool, &info) < 0)
            return false;
        whole = info->replicas >= info->replicas_wanted && !any_degraded(r, info);
        offline = offline_disks(r, info);
        sfs_pool_info_free(info);
        if (!whole)
            sfs_env_sleep_ns(r->env, SIM_NS_PER_S);
    }
    if (!whole || sim_crashed(r))
        return false;
    if (away == r->away && impaired == r->impaired && rotten == r->rotten) { /* nothing happened during it */
        r->healed |= r->away;
        r->thin = false;
        r->impaired &= r->stalled | r->full | r->armed | offline; /* what may yet happen isn't healed */
        for (unsigned d = 0; d < r->ndisks; d++) {
            if (r->rotten & r->away & 1u << d) { /* a lie that was to come, too */
                sfs_sim_misdirect_at(r->world, r->disks[d].name, 0);
                sfs_sim_lose_write_at(r->world, r->disks[d].name, 0);
            }
        }
        r->rotten &= ~r->away;
        r->stats.heals++;
    }
    return true;
}

/* --- one fault ---------------------------------------------------------------------------------------------------------------------------------- */

static void rot(struct sim_run *r, unsigned d)
{
    struct sim_rng *g = &r->faults;
    uint32_t slots = (uint32_t)(r->disks[d].bytes / SIM_SLAB_BYTES);
    unsigned n = (unsigned)sim_rng_between(g, 1, 20);

    sim_hurt_disk(r, &r->rotten, d);
    sim_note(r, "rot on %s in %u places", r->disks[d].name, n);
    while (n-- > 0) { /* slots are taken from the lowest: most of the rot goes there */
        uint32_t slot = (uint32_t)sim_rng_below(g, 1 + sim_rng_below(g, slots));
        uint64_t off = sim_rng_chance(g, 50) ? sim_rng_below(g, 200u << 10) : sim_rng_below(g, SIM_SLAB_BYTES);
        uint64_t len = sim_rng_chance(g, 70) ? 1 : sim_rng_between(g, 1, 65536);

        if (off + len > SIM_SLAB_BYTES)
            len = SIM_SLAB_BYTES - off;
        sfs_sim_rot(r->world, r->disks[d].name, slot, off, (uint32_t)len);
    }
}

static void rot_catalog(struct sim_run *r, unsigned d)
{
    struct sim_rng *g = &r->faults;
    const char *file = sim_rng_chance(g, 60) ? "catalog.db" : "catalog.db-wal";
    uint64_t off = sim_rng_below(g, 1 + sim_rng_below(g, 200u << 10));

    sim_hurt_disk(r, &r->rotten, d);
    sim_note(r, "rot in %s on %s at %llu", file, r->disks[d].name, (unsigned long long)off);
    sfs_sim_rot_meta(r->world, r->disks[d].name, file, off, (uint32_t)sim_rng_between(g, 1, 5000));
}

static void fail(struct sim_run *r, unsigned d)
{
    static const enum sfs_io_op ops[] = {SFS_IO_READ, SFS_IO_WRITE, SFS_IO_SYNC};
    enum sfs_io_op op = ops[sim_rng_below(&r->faults, 3)];
    uint64_t nth = sim_rng_between(&r->faults, 1, 30);
    bool sticky = sim_rng_chance(&r->faults, 40);

    sim_hurt_disk(r, &r->impaired, d);
    r->armed |= 1u << d;
    sim_note(r, "disk %s fails at the %lluth call of kind %d%s", r->disks[d].name, (unsigned long long)nth, op,
             sticky ? " and from then on" : "");
    sfs_sim_fail_at(r->world, r->disks[d].name, op, nth, sticky);
}

static void stall(struct sim_run *r, unsigned d)
{
    sim_hurt_disk(r, &r->impaired, d);
    r->stalled |= 1u << d;
    sim_note(r, "disk %s stalls", r->disks[d].name);
    sfs_sim_stall(r->world, r->disks[d].name, true);
}

static void fill(struct sim_run *r, unsigned d)
{
    sim_hurt_disk(r, &r->impaired, d);
    r->full |= 1u << d;
    sim_note(r, "disk %s is full", r->disks[d].name);
    sfs_sim_full(r->world, r->disks[d].name, true);
}

static void lie(struct sim_run *r, unsigned d)
{
    uint64_t nth = sim_rng_between(&r->faults, 1, 20);
    bool lose = sim_rng_chance(&r->faults, 50);

    sim_hurt_disk(r, &r->rotten, d);
    sim_note(r, "disk %s will %s its %lluth write", r->disks[d].name, lose ? "lose" : "misdirect", (unsigned long long)nth);
    if (lose)
        sfs_sim_lose_write_at(r->world, r->disks[d].name, nth);
    else
        sfs_sim_misdirect_at(r->world, r->disks[d].name, nth);
}

static bool end_one(struct sim_run *r)
{
    uint32_t over = r->away | r->stalled | r->full;
    unsigned d;

    if (!over)
        return false;
    do {
        d = (unsigned)sim_rng_below(&r->faults, r->ndisks);
    } while (!(over & 1u << d));
    if (r->stalled & 1u << d)
        sfs_sim_stall(r->world, r->disks[d].name, false);
    if (r->full & 1u << d)
        sfs_sim_full(r->world, r->disks[d].name, false);
    r->stalled &= ~(1u << d);
    r->full &= ~(1u << d);
    sim_disk_back(r, d);
    return true;
}

void sim_faults_step(struct sim_run *r)
{
    struct sim_rng *g = &r->faults;
    unsigned d = (unsigned)sim_rng_below(g, r->ndisks);
    uint64_t kind = sim_rng_below(g, 10);

    if (r->opt.no_faults || r->opt.plan.on || sim_crashed(r))
        return;
    look_at_groups(r);
    if (kind < 2 && end_one(r))
        return;
    if (kind < 4 && sim_hurt(r) > 0) {
        sim_heal(r);
        return;
    }
    if (!may_hurt(r, d) || ((r->away | r->stalled) & 1u << d))
        return;
    switch (sim_rng_below(g, 9)) {
    case 0:
    case 1:
        sim_disk_away(r, d);
        break;
    case 2:
        rot(r, d);
        break;
    case 3:
        rot_catalog(r, d);
        break;
    case 4:
    case 5:
        fail(r, d);
        break;
    case 6:
        stall(r, d);
        break;
    case 7:
        fill(r, d);
        break;
    default:
        lie(r, d);
        break;
    }
}

/* The pool is closed. What was armed is disarmed, what stood still moves again; disks that are away may be back, or come back older than they were. */
void sim_faults_epoch(struct sim_run *r)
{
    for (unsigned d = 0; d < r->ndisks; d++) {
        const char *name = r->disks[d].name;

        sfs_sim_fail_at(r->world, name, SFS_IO_READ, 0, false);
        sfs_sim_fail_at(r->world, name, SFS_IO_WRITE, 0, false);
        sfs_sim_fail_at(r->world, name, SFS_IO_SYNC, 0, false);
        sfs_sim_misdirect_at(r->world, name, 0);
        sfs_sim_lose_write_at(r->world, name, 0);
        sfs_sim_stall(r->world, name, false);
        sfs_sim_full(r->world, name, false);
        if ((r->away & 1u << d) && sim_rng_chance(&r->faults, 50))
            sim_disk_back(r, d);
        if (r->disks[d].saved && may_hurt(r, d) && !(r->away & 1u << d) && sim_rng_chance(&r->faults, 50)) {
            sim_hurt_disk(r, &r->impaired, d);
            sim_note(r, "disk %s is as it was before", name);
            sfs_sim_restore(r->world, name);
        }
        r->disks[d].saved = false;
        if (!r->opt.no_faults && !r->opt.plan.on && sim_rng_chance(&r->faults, 20)) {
            sfs_sim_save(r->world, name);
            r->disks[d].saved = true;
        }
    }
    r->stalled = r->full = r->armed = 0;
}
