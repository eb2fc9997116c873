/* What follows from a disk's usage by itself: hot spares step in, disks with too many errors are retired, those that may not hold
 * data are emptied. */
#include "fs/pool/pool_impl.h"

#include <stdlib.h>
#include <string.h>

/* --- hot spares ----------------------------------------------------------------------------------------------------- */

/* The smallest that holds all of it, else the largest. */
static int choose_spare(struct sfs_pool *p, uint64_t held)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    const struct sfs_member_info *best = NULL;
    for (unsigned i = 0; i < n; i++) {
        if (!v[i].online || v[i].row.usage != SFS_USAGE_HOT_SPARE)
            continue;
        bool fits = v[i].free_slabs >= held, best_fits = best && best->free_slabs >= held;
        if (!best || (fits && !best_fits) || (fits == best_fits && (v[i].free_slabs < best->free_slabs) == fits))
            best = &v[i];
    }
    return best ? best->row.id : 0;
}

static uint64_t held_by(struct sfs_pool *p, int id)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < n; i++)
        if (v[i].row.id == id)
            return v[i].held_slabs;
    return 0;
}

bool sfs_pool_spare_steps_in(struct sfs_pool *p, struct sfs_pool_disk *lost)
{
    char name[SFS_NAME_MAX + 1];
    uint64_t held = held_by(p, lost->id);
    int spare = held && !sfs_pool_readonly(p) ? choose_spare(p, held) : 0;
    if (!spare || sfs_pool_store_usage(p, spare, SFS_USAGE_AUTO))
        return false;
    __atomic_store_n(&lost->away.urgent, true, __ATOMIC_RELAXED);
    p->heal_again_ns = 0;
    sfs_pool_disk_name(p, spare, name);
    sfs_pool_event(p, "warning", "hot-spare", name, "hot spare %s takes the place of disk %s: what that held is built anew without delay", name, lost->name);
    return true;
}

/* --- too many errors ------------------------------------------------------------------------------------------------ */

static uint64_t error_limit(struct sfs_pool *p)
{
    char text[64];
    return sfs_pool_prop_get(p, "error-limit", text, sizeof(text), NULL) ? 0 : strtoull(text, NULL, 10);
}

/* The last disk that takes data isn't retired: a bad place for data is better than none. */
static void retire_bad_disks(struct sfs_pool *p)
{
    struct sfs_member_info v[SFS_LABEL_PEERS];
    uint64_t limit = error_limit(p);
    unsigned n = sfs_member_list(p->data, v, SFS_LABEL_PEERS), left = 0;
    for (unsigned i = 0; i < n; i++)
        left += v[i].online && v[i].row.usage == SFS_USAGE_AUTO;
    for (unsigned i = 0; limit && i < n && left > 1; i++) {
        const struct sfs_disk_row *r = &v[i].row;
        uint64_t errors = r->read_errors + r->write_errors + r->checksum_errors;
        if (errors <= limit || (r->usage != SFS_USAGE_AUTO && r->usage != SFS_USAGE_HOT_SPARE))
            continue;
        if (sfs_pool_store_usage(p, r->id, SFS_USAGE_RETIRED))
            continue;
        left -= r->usage == SFS_USAGE_AUTO;
        sfs_pool_event(p, "error", "disk-retired", r->name,
                       "disk %s was retired: %llu read, %llu write and %llu checksum errors are more than error-limit (%llu) allows. What it holds is moved to "
                       "other disks; replace it",
                       r->name, (unsigned long long)r->read_errors, (unsigned long long)r->write_errors, (unsigned long long)r->checksum_errors, (unsigned long long)limit);
    }
}

/* A disk that was missing when the pool was opened, or a spare that came later: after the usual delay. */
static void spares_for_missing(struct sfs_pool *p)
{
    for (unsigned i = 0; i < p->ndisks; i++) {
        struct sfs_pool_disk *pd = &p->disks[i];
        if (pd->used && pd->id && pd->away.told && !pd->away.urgent && sfs_pool_lost_for_long(p, pd->id))
            sfs_pool_spare_steps_in(p, pd);
    }
}

void sfs_pool_look_after_usage(struct sfs_pool *p)
{
    uint64_t job;
    if (sfs_pool_readonly(p))
        return;
    sfs_mutex_lock(&p->admin);
    retire_bad_disks(p);
    spares_for_missing(p);
    sfs_pool_empty_by_usage(p, &job);
    sfs_mutex_unlock(&p->admin);
}
