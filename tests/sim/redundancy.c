/* The promise, tried: disks are taken away and everything is read. And the figures: what is free, what is used, what is left when all is deleted. */
#include <errno.h>
#include <string.h>

#include "fs/layout/placement.h"
#include "tests/sim/run.h"

/* --- figures -------------------------------------------------------------------------------------------------------------------------------- */

void sim_check_space(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;
    uint64_t raw = 0;
    int rc;

    for (unsigned i = 0; i < r->ndisks; i++)
        raw += r->disks[i].bytes;
    for (unsigned i = 0; i < r->nspaces && !sim_crashed(r); i++) {
        struct sim_space *s = &r->spaces[i];
        struct sfs_vfs_statfs fs;
        uint64_t most = sim_hurt(r) || r->away ? raw : raw / sfs_resiliency_copies(s->resiliency); /* with too few disks the pool goes on with fewer copies */

        rc = sfs_vfs_statfs(s->vfs, &fs);
        if (rc < 0)
            sim_fail(r, "statfs of %s: %s", s->name, strerror(-rc));
        sim_hash(r, fs.bfree);
        if (fs.bavail > fs.bfree || fs.bfree > fs.blocks)
            sim_fail(r, "statfs of %s: %llu blocks, %llu free, %llu available", s->name, (unsigned long long)fs.blocks,
                     (unsigned long long)fs.bfree, (unsigned long long)fs.bavail);
        if (fs.bavail * fs.block_bytes > most)
            sim_fail(r, "statfs of %s (%s): %llu bytes free on disks of %llu bytes", s->name, sfs_resiliency_name(s->resiliency),
                     (unsigned long long)(fs.bavail * fs.block_bytes), (unsigned long long)raw);
    }
    if (sim_crashed(r))
        return;
    rc = sfs_pool_info(r->pool, &info);
    if (rc < 0)
        sim_fail(r, "pool info: %s", strerror(-rc));
    if (info->used_bytes > raw || info->free_bytes > raw)
        sim_fail(r, "the pool says %llu used and %llu free, of %llu bytes", (unsigned long long)info->used_bytes,
                 (unsigned long long)info->free_bytes, (unsigned long long)raw);
    sfs_pool_info_free(info);
}

/* --- everything deleted ------------------------------------------------------------------------------------------------------------------------- */

static void delete_all(struct sim_actor *a, struct sim_inode *dir)
{
    while (dir->ndentries > 0) {
        struct sim_dentry *d = &dir->dentries[dir->ndentries - 1];
        struct sim_inode *i = d->inode;
        bool is_dir = S_ISDIR(i->mode);
        int rc;

        if (is_dir)
            delete_all(a, i);
        sim_op_begin(a, is_dir ? "rmdir" : "unlink");
        if (sim_hold_dir(a, dir) < 0)
            return;
        rc = is_dir ? sfs_vfs_rmdir(a->space->vfs, dir->ino, d->name) : sfs_vfs_unlink(a->space->vfs, dir->ino, d->name);
        if (!sim_op_done(a, rc, 0, 0))
            return;
        sim_tree_unlink(&a->tree, dir, d->name);
        sim_op_state(a);
        if (i->nlink == 0)
            sim_forget(a, i);
    }
}

void sim_check_empty(struct sim_run *r)
{
    struct sfs_pool_info *info = NULL;
    int rc;

    for (unsigned k = 0; k < r->nactors; k++) {
        sim_close_files(&r->actors[k]);
        delete_all(&r->actors[k], r->actors[k].tree.root);
    }
    /* Orphans go in the background; what is freed is free at the next commit, slabs after it. */
    for (unsigned tries = 0; tries < 8; tries++) {
        for (unsigned i = 0; i < r->nspaces; i++) {
            rc = sfs_vfs_sync(r->spaces[i].vfs);
            if (rc < 0)
                sim_fail(r, "sync after deleting everything: %s", strerror(-rc));
        }
        sfs_env_sleep_ns(r->env, 6 * SIM_NS_PER_S);
    }
    rc = sfs_pool_info(r->pool, &info);
    if (rc < 0)
        sim_fail(r, "pool info: %s", strerror(-rc));
    for (unsigned i = 0; i < info->nspaces; i++) {
        const struct sfs_space_info *s = &info->spaces[i];

        if (s->row.destroying || strncmp(s->row.name, "scratch", 7) == 0)
            continue;
        if (s->stat.used_bytes != 0)
            sim_fail(r, "everything in %s is deleted, and %llu bytes are in use", s->row.name, (unsigned long long)s->stat.used_bytes);
    }
    sfs_pool_info_free(info);
}

/* --- disks taken away ------------------------------------------------------------------------------------------------------------------------------ */

static void read_without(struct sim_run *r, uint32_t mask)
{
    unsigned lost = (unsigned)__builtin_popcount(mask);

    for (unsigned d = 0; d < r->ndisks; d++) {
        if (mask & 1u << d)
            sfs_sim_vanish(r->world, r->disks[d].name);
    }
    r->away |= mask; /* for finding a disk to open the pool by */
    sim_note(r, "reading everything without disks %x", mask);
    if (sim_system_open(r, true) < 0)
        sim_fail(r, "the world has crashed by itself");
    for (unsigned k = 0; k < r->nactors; k++) {
        struct sim_actor *a = &r->actors[k];
        bool before = a->space->damaged;

        if (sfs_resiliency_tolerance(a->space->resiliency) < lost)
            a->space->damaged = true;
        sim_check_live(r, a);
        a->space->damaged = before;
    }
    sim_system_close(r);
    r->away &= ~mask;
    for (unsigned d = 0; d < r->ndisks; d++) {
        if (mask & 1u << d)
            sfs_sim_return(r->world, r->disks[d].name);
    }
    r->stats.losses_checked++;
}

/* All sets of that many disks if they are few, else some. */
static void try_sets(struct sim_run *r, unsigned lost)
{
    unsigned done = 0;

    for (uint32_t mask = 1; mask < 1u << r->ndisks; mask++) {
        bool members = true;

        if ((unsigned)__builtin_popcount(mask) != lost)
            continue;
        for (unsigned d = 0; d < r->ndisks; d++)
            members = members && (!(mask & 1u << d) || r->disks[d].member);
        if (!members || (r->ndisks > 4 && !sim_rng_chance(&r->faults, r->ndisks > 6 ? 10 : 30)))
            continue;
        read_without(r, mask);
        if (++done == 8)
            break;
    }
}

void sim_check_redundancy(struct sim_run *r)
{
    unsigned tolerance = 0;

    for (unsigned i = 0; i < r->nspaces; i++) {
        unsigned t = sfs_resiliency_tolerance(r->spaces[i].resiliency);

        if (t > tolerance)
            tolerance = t;
    }
    for (unsigned lost = 1; lost <= tolerance && lost < r->ndisks; lost++)
        try_sets(r, lost);
}
