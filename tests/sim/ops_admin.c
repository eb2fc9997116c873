/* Time, administration and checks as operations of the workload. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/pattern.h"
#include "tests/sim/run.h"

static void op_idle(struct sim_actor *a)
{
    uint64_t left = sim_rng_below(&a->rng, 3 * a->space->opts.commit_interval_ns);

    sim_op_begin(a, "idle");
    for (uint64_t n; left > 0 && sim_alive(a->run); left -= n) {
        n = left < SIM_NS_PER_S / 20 ? left : SIM_NS_PER_S / 20;
        sfs_env_sleep_ns(a->run->env, n);
    }
}

/* A year back, ten years on: nothing that matters may follow the wall clock. */
static void op_clock_jump(struct sim_actor *a)
{
    int64_t days = (int64_t)sim_rng_below(&a->rng, 4000) - 1000;

    sim_op_begin(a, "clock jump");
    sfs_sim_jump_wall(a->run->env, days * 86400 * (int64_t)SIM_NS_PER_S);
}

static void op_check_live(struct sim_actor *a)
{
    sim_op_begin(a, "check");
    if (!a->run->stop && !sim_crashed(a->run))
        sim_check_live(a->run, a);
    if (sim_crashed(a->run))
        a->run->stop = true;
}

static void op_check_space(struct sim_actor *a)
{
    sim_op_begin(a, "figures");
    sim_check_space(a->run);
}

static void op_heal(struct sim_actor *a)
{
    if (a->run->opt.plan.on)
        return;
    sim_op_begin(a, "heal");
    sim_heal(a->run);
    if (sim_crashed(a->run))
        a->run->stop = true;
}

/* Settings that change online: new data takes them. */
static void op_space_set(struct sim_actor *a)
{
    const struct sim_space *s = a->space;
    uint32_t interleave = 4096u << sim_rng_below(&a->rng, 7);
    enum sfs_codec codec = sim_rng_chance(&a->rng, 50) ? SFS_CODEC_ZSTD : SFS_CODEC_NONE;
    int level = (int)sim_rng_between(&a->rng, 1, 3);
    struct sfs_space_settings settings = {.codec = &codec, .codec_level = &level};
    struct sfs_error err = {0};
    uint64_t job;
    int rc;

    if (sim_rng_chance(&a->rng, 50))
        settings.interleave = &interleave;
    sim_op_begin(a, "space set");
    rc = sfs_pool_space_set(a->run->pool, s->name, &settings, &job, &err);
    if (rc == -ENOSPC && settings.interleave)
        return; /* the disks could not carry the conversion */
    sim_op_done(a, rc, 0, 4096);
}

static void op_disk_add(struct sim_actor *a)
{
    struct sim_run *r = a->run;
    struct sfs_error warn = {0}, err = {0};
    struct sim_disk *d = &r->disks[r->ndisks];
    struct sfs_disk_spec spec = {.path = d->path, .name = d->name};
    int rc;

    if (r->ndisks == SIM_MAX_DISKS || r->opt.plan.on || !sim_rng_chance(&a->rng, 30))
        return;
    r->ndisks++;
    d->bytes = sim_rng_between(&a->rng, 8, 64) * SIM_SLAB_BYTES;
    sim_note(r, "disk %s: %llu MiB, added", d->name, (unsigned long long)(d->bytes >> 20));
    rc = sfs_sim_add(r->world, d->name, d->bytes, SFS_MEDIA_SSD);
    if (rc < 0)
        sim_fail(r, "sim disk %s: %s", d->name, strerror(-rc));
    sim_op_begin(a, "disk add");
    rc = sfs_pool_disk_add(r->pool, &spec, 1, false, &warn, &err);
    if (sim_op_done(a, rc, 0, 4096) && rc == 0 && !sim_crashed(r))
        d->member = true; /* one whose adding was cut short is left alone: whether it belongs to the pool isn't known */
}

/* A space that comes and goes. */
static void scratch_use(struct sim_actor *a, const char *name)
{
    struct sim_run *r = a->run;
    struct sfs_cred cred = {.privileged = true};
    size_t len = sim_rng_between(&a->rng, 1, 300000), n = 0;
    struct sfs_volume *v = NULL;
    struct sfs_vfs *vfs = NULL;
    struct sfs_file *f = NULL;
    struct sfs_error err = {0};
    struct stat st;
    uint8_t *data = malloc(2 * len);
    int rc;

    SFS_ASSERT(data);
    sim_pattern_fill(data, r->next_tag++, 0, len);
    rc = sfs_pool_volume_get(r->pool, name, &v, &err);
    if (rc == 0)
        rc = sfs_vfs_open(v, &(struct sfs_vfs_opts){0}, &vfs, &err);
    if (rc == 0)
        rc = sfs_vfs_create(vfs, sfs_vfs_root(vfs), "file", 0644, O_RDWR | O_CREAT, &cred, &st, &f);
    if (rc == 0)
        rc = sfs_vfs_write(f, data, len, 0, false, false, &n);
    if (rc == 0)
        rc = sfs_vfs_fsync(f, false);
    if (rc == 0 && n > 0)
        rc = sfs_vfs_read(f, data + len, len, 0, &n);
    if (rc == 0 && memcmp(data, data + len, n) != 0)
        sim_fail(r, "a file in a new space reads wrong");
    sfs_vfs_release(f);
    if (rc < 0 && rc != -ENOSPC && !sim_op_maybe(a, rc, len)) /* its first group takes whole slabs: there may be none */
        sim_fail(r, "a file in a new space: %s %s", strerror(-rc), err.text);
    if (vfs)
        sfs_vfs_close(vfs);
    if (v)
        sfs_pool_volume_put(r->pool, v);
    free(data);
}

static void op_scratch_space(struct sim_actor *a)
{
    struct sim_run *r = a->run;
    struct sfs_space_settings settings = {.resiliency = &a->space->resiliency};
    struct sfs_error err = {0};
    char name[32];
    int rc;

    if (r->opt.plan.on || sim_hurt(r) > 0 || r->away)
        return;
    snprintf(name, sizeof(name), "scratch%u", r->next_tag++);
    sim_op_begin(a, "space create");
    rc = sfs_pool_space_create(r->pool, name, &settings, &err);
    if (!sim_op_done(a, rc, 0, 1u << 20) || rc < 0)
        return;
    scratch_use(a, name);
    sim_op_begin(a, "space destroy");
    sim_op_done(a, sfs_pool_space_destroy(r->pool, name, NULL, &err), 0, 0);
}

const struct sim_op sim_admin_ops[] = {
    {"idle", 40, op_idle},           {"clock jump", 4, op_clock_jump}, {"check", 6, op_check_live}, {"figures", 8, op_check_space},
    {"heal", 2, op_heal},            {"space set", 3, op_space_set},   {"disk add", 2, op_disk_add}, {"scratch space", 1, op_scratch_space},
    {0},
};
