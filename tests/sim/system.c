/* The system under test: making, opening, closing, crashing and reopening it. */
#include <errno.h>
#include <string.h>

#include "tests/sim/run.h"

bool sim_crashed(const struct sim_run *r)
{
    return sfs_sim_crashed(r->world);
}

bool sim_alive(struct sim_run *r)
{
    uint64_t now = sfs_env_mono_ns(r->env);

    if (sim_crashed(r))
        return false;
    r->alive_ns = now;
    return true;
}

/* By the path of a disk that is there. One that was leaving when the machine went down may have left: it bears no label. */
static int open_pool(struct sim_run *r, const struct sfs_pool_open_opts *opts, struct sfs_error *err)
{
    struct sfs_pool_open_opts known = *opts; /* as the host's registry has it: a disk that was away doesn't know of one that was added meanwhile */
    const char *paths[sizeof(r->disks) / sizeof(r->disks[0])];
    int rc = -ENOENT;

    known.search = paths;
    for (unsigned i = 0; i < r->ndisks; i++)
        if (r->disks[i].member && !(r->away & 1u << i))
            paths[known.nsearch++] = r->disks[i].path;
    r->pool = NULL;
    for (unsigned i = 0; i < r->ndisks && rc == -ENOENT; i++) {
        if (!r->disks[i].member || r->away & 1u << i)
            continue;
        *err = (struct sfs_error){0};
        rc = sfs_pool_open(r->env, r->disks[i].path, &known, &r->pool, err);
        if (rc < 0)
            r->pool = NULL;
    }
    return rc;
}

static int space_open(struct sim_run *r, struct sim_space *s, bool readonly, struct sfs_error *err)
{
    struct sfs_vfs_opts opts = s->opts;
    int rc;

    opts.readonly = readonly;
    rc = sfs_pool_volume_get(r->pool, s->name, &s->volume, err);
    if (rc < 0)
        return rc;
    rc = sfs_vfs_open(s->volume, &opts, &s->vfs, err);
    if (rc < 0) {
        sfs_pool_volume_put(r->pool, s->volume);
        s->volume = NULL;
    }
    return rc;
}

/* Is it an error that what was done to the disks explains? What was accepted may not fit any more when disks are hurt; what lay on one disk only may be lost. */
static bool explained(const struct sim_run *r, const struct sim_space *s, int rc)
{
    if (rc == 0 || sim_crashed(r) || r->doomed)
        return true;
    if (rc == -ENOSPC)
        return sim_hurt(r) > 0 || r->away || r->faulted;
    return rc == -EIO && (s ? s->damaged : sim_any_damaged(r));
}

/* Closes the spaces and the pool, whatever state they are in. False: not all was stored. */
static bool shut(struct sim_run *r)
{
    bool stored = true;
    int rc;

    for (unsigned i = 0; i < r->nspaces; i++) {
        struct sim_space *s = &r->spaces[i];

        if (s->vfs) {
            rc = sfs_vfs_close(s->vfs);
            if (!explained(r, s, rc))
                sim_fail(r, "closing %s: %s", s->name, strerror(-rc));
            stored = stored && rc == 0;
        }
        if (s->volume)
            sfs_pool_volume_put(r->pool, s->volume);
        s->vfs = NULL;
        s->volume = NULL;
    }
    if (r->pool) {
        rc = sfs_pool_close(r->pool);
        if (!explained(r, NULL, rc))
            sim_fail(r, "closing the pool: %s", strerror(-rc));
        stored = stored && rc == 0;
    }
    r->pool = NULL;
    return stored;
}

int sim_system_try_open(struct sim_run *r, bool readonly, struct sfs_error *err)
{
    struct sfs_pool_open_opts opts = r->open_opts;
    int rc;

    opts.world = r->world;
    opts.readonly = readonly;
    *err = (struct sfs_error){0};
    rc = open_pool(r, &opts, err);
    for (unsigned i = 0; i < r->nspaces && rc == 0; i++)
        rc = space_open(r, &r->spaces[i], readonly, err);
    if (rc < 0)
        shut(r);
    return rc;
}

static int actors_lookup(struct sim_run *r)
{
    for (unsigned i = 0; i < r->nactors; i++) {
        struct sim_actor *a = &r->actors[i];
        struct stat st;
        int rc = sfs_vfs_lookup(a->space->vfs, sfs_vfs_root(a->space->vfs), a->dir, &st);

        if (rc < 0)
            return rc;
        if (st.st_ino != a->tree.root->ino)
            sim_fail(r, "%s/%s has inode %llu, expected %llu", a->space->name, a->dir, (unsigned long long)st.st_ino,
                     (unsigned long long)a->tree.root->ino);
        a->tree.root->lookups = 1;
    }
    return 0;
}

int sim_system_open(struct sim_run *r, bool readonly)
{
    struct sfs_error err;
    int rc = sim_system_try_open(r, readonly, &err);

    if (rc == 0) {
        rc = actors_lookup(r);
        if (rc < 0) {
            sfs_error_set(&err, rc, "a workload's directory can't be looked up: %s", strerror(-rc));
            shut(r);
        }
    }
    if (rc == 0)
        sim_members_look(r);
    if (rc < 0 && !sim_crashed(r))
        sim_fail(r, "the pool cannot be opened (%d disks hurt, away %x, budget %u): %s (%s)", sim_hurt(r), r->away, r->budget,
                 err.text, strerror(-rc));
    sim_hash(r, sfs_env_mono_ns(r->env));
    return rc;
}

/* Everything that the workload holds in the spaces. */
static void let_go(struct sim_run *r)
{
    for (unsigned i = 0; i < r->nactors; i++) {
        struct sim_actor *a = &r->actors[i];
        struct sim_inode *n;

        sim_close_files(a);
        TAILQ_FOREACH(n, &a->tree.inodes, all)
        {
            if (n->lookups && a->space->vfs)
                sfs_vfs_forget(a->space->vfs, n->ino, n->lookups);
            n->lookups = 0;
        }
    }
}

bool sim_system_close(struct sim_run *r)
{
    bool stored;

    let_go(r);
    stored = shut(r);
    sim_hash(r, stored);
    return stored && !sim_crashed(r);
}

void sim_system_crash(struct sim_run *r, bool kill_only)
{
    if (!sim_crashed(r))
        sfs_sim_crash(r->world, kill_only);
    let_go(r);
    shut(r);
    sfs_sim_crash_at(r->world, 0, false);
    sfs_sim_revive(r->world);
}

/* --- making it ------------------------------------------------------------------------------------------------------------------------ */

static void create_space(struct sim_run *r, struct sim_space *s)
{
    struct sfs_error err = {0};
    int rc, level = 1;
    struct sfs_space_settings settings = {
        .resiliency = &s->resiliency,
        .columns = &s->columns,
        .interleave = &s->interleave,
        .codec = &s->codec,
        .codec_level = &level,
    };

    sim_note(r, "space %s: %s, columns %u, interleave %u, %s, commits every %llu ms", s->name, sfs_resiliency_name(s->resiliency),
             s->columns, s->interleave, s->codec ? "zstd" : "raw", (unsigned long long)(s->opts.commit_interval_ns / 1000000));
    rc = sfs_pool_space_create(r->pool, s->name, &settings, &err);
    if (rc < 0)
        sim_fail(r, "space %s (%s, %u columns) cannot be made: %s", s->name, sfs_resiliency_name(s->resiliency), s->columns, err.text);
}

static void create_actor(struct sim_actor *a)
{
    struct sim_run *r = a->run;
    struct sfs_cred cred = {.uid = 1000, .gid = 1000, .privileged = true};
    struct stat st;
    int rc = sfs_vfs_mkdir(a->space->vfs, sfs_vfs_root(a->space->vfs), a->dir, 0755, &cred, &st);

    if (rc < 0)
        sim_fail(r, "mkdir %s in a new space: %s", a->dir, strerror(-rc));
    sim_tree_init(&a->tree, st.st_ino, 0755);
    a->tree.root->uid = 1000;
    a->tree.root->gid = 1000;
    a->tree.root->lookups = 1;
    sim_tree_push(&a->tree, r->clock, r->clock, sfs_env_mono_ns(r->env));
}

void sim_system_create(struct sim_run *r)
{
    struct sfs_disk_spec specs[SIM_MAX_DISKS];
    struct sfs_error warn = {0}, err = {0};
    struct sfs_pool_create_opts opts = {.slab_bytes = SIM_SLAB_BYTES, .world = r->world};
    int rc;

    for (unsigned i = 0; i < r->ndisks; i++) {
        rc = sfs_sim_add(r->world, r->disks[i].name, r->disks[i].bytes, i % 2 ? SFS_MEDIA_HDD : SFS_MEDIA_SSD);
        if (rc < 0)
            sim_fail(r, "sim disk %s: %s", r->disks[i].name, strerror(-rc));
        specs[i] = (struct sfs_disk_spec){.path = r->disks[i].path, .name = r->disks[i].name};
        sim_note(r, "disk %s: %llu MiB", r->disks[i].name, (unsigned long long)(r->disks[i].bytes >> 20));
    }
    rc = sfs_pool_create(r->env, "tank", specs, r->ndisks, &opts, &warn, &err);
    if (rc < 0)
        sim_fail(r, "the pool cannot be made: %s", err.text);
    rc = sfs_pool_open(r->env, r->disks[0].path, &(struct sfs_pool_open_opts){.world = r->world}, &r->pool, &err);
    if (rc < 0)
        sim_fail(r, "the new pool cannot be opened: %s", err.text);
    for (unsigned i = 0; i < r->nspaces; i++)
        create_space(r, &r->spaces[i]);
    rc = sfs_pool_close(r->pool);
    r->pool = NULL;
    if (rc < 0)
        sim_fail(r, "the new pool cannot be closed: %s", strerror(-rc));
    rc = sim_system_try_open(r, false, &err);
    if (rc < 0)
        sim_fail(r, "the new spaces cannot be opened: %s", err.text);
    for (unsigned i = 0; i < r->nactors; i++)
        create_actor(&r->actors[i]);
    for (unsigned i = 0; i < r->nspaces; i++) {
        rc = sfs_vfs_sync(r->spaces[i].vfs);
        if (rc < 0)
            sim_fail(r, "sync of a new space: %s", strerror(-rc));
    }
}
