/* A pool on sim disks, for tests of what lies above them. Everything runs in the simulated environment: use in_sim(fn). */
#ifndef TESTS_UNIT_POOL_FIXTURE_H
#define TESTS_UNIT_POOL_FIXTURE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fs/data/commit.h"
#include "fs/data/damage.h"
#include "fs/data/diskset.h"
#include "fs/data/groups.h"
#include "fs/data/repair.h"
#include "fs/disk/sim.h"
#include "fs/pool/pool.h"

struct fixture {
    struct sfs_env *env;
    struct sfs_sim_world *world;
    struct sfs_pool *pool;
    struct sfs_volume *vol;
    void (*body)(struct fixture *);
};

static struct sfs_env *fixture_env;

static inline void fixture_main(void *arg)
{
    struct fixture *f = arg;
    f->body(f);
}

/* Runs body in a fresh simulated environment with an empty world. */
static inline void in_sim(uint64_t seed, void (*body)(struct fixture *))
{
    struct fixture f = {.env = sfs_env_new_sim(seed), .body = body};
    fixture_env = f.env;
    f.world = sfs_sim_world_new(f.env);
    sfs_sim_run(f.env, fixture_main, &f);
    sfs_sim_world_free(f.world);
    sfs_env_free(f.env);
}

/* Disks "a", "b", … of the sizes given in MiB. */
static inline void make_pool(struct fixture *f, const unsigned *mib, unsigned n)
{
    struct sfs_disk_spec specs[16];
    char paths[16][8], name[2] = "a";
    for (unsigned i = 0; i < n; i++) {
        name[0] = (char)('a' + i);
        cr_assert_eq(sfs_sim_add(f->world, name, (uint64_t)mib[i] << 20, SFS_MEDIA_SSD), 0);
        snprintf(paths[i], sizeof(paths[i]), "sim:%c", 'a' + (int)i);
        specs[i] = (struct sfs_disk_spec){.path = paths[i]};
    }
    struct sfs_pool_create_opts o = {.slab_bytes = 1u << 20, .world = f->world};
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_create(f->env, "tank", specs, n, &o, NULL, &err), 0, "%s", err.text);
}

static inline int try_open(struct fixture *f, const char *which, struct sfs_error *err)
{
    struct sfs_pool_open_opts o = {.world = f->world};
    return sfs_pool_open(f->env, which, &o, &f->pool, err);
}

static inline void open_pool(struct fixture *f)
{
    struct sfs_error err = {0};
    cr_assert_eq(try_open(f, "sim:a", &err), 0, "%s", err.text);
}

static inline void close_pool(struct fixture *f)
{
    if (f->vol)
        sfs_pool_volume_put(f->pool, f->vol);
    f->vol = NULL;
    cr_assert_eq(sfs_pool_close(f->pool), 0);
    f->pool = NULL;
}

static inline void make_space(struct fixture *f, const char *name, enum sfs_resiliency r)
{
    struct sfs_error err = {0};
    struct sfs_space_settings s = {.resiliency = &r};
    cr_assert_eq(sfs_pool_space_create(f->pool, name, &s, &err), 0, "%s", err.text);
}

static inline void use_space(struct fixture *f, const char *name)
{
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_volume_get(f->pool, name, &f->vol, &err), 0, "%s", err.text);
}

#endif
