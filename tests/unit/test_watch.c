/* Events that tell of lost redundancy and of fullness, once each. */
#include "tests/unit/care_fixture.h"

#define SECOND 1000000000ull
#define MIB ((size_t)1 << 20)

struct counted {
    const char *kind;
    unsigned n;
};

static int count_event(const struct sfs_event_row *e, void *ctx)
{
    struct counted *c = ctx;
    c->n += !strcmp(e->kind, c->kind);
    return 0;
}

static unsigned events(struct fixture *f, const char *kind)
{
    struct counted c = {.kind = kind};
    cr_assert_eq(sfs_pool_events(f->pool, 0, 10000, count_event, &c), 0);
    return c.n;
}

static void body_full(struct fixture *f)
{
    begin_care(f, (unsigned[]){64, 64}, 2, SFS_MIRROR2);
    struct sfs_error err = {0};
    uint64_t size = 20 * MIB;
    struct sfs_space_settings s = {.size_bytes = &size};
    uint64_t job;
    cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, &job, &err), 0, "%s", err.text);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    write_file("/a", 0, 13 * MIB);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    cr_assert_eq(events(f, "full-70"), 0);
    write_file("/b", 0, 2 * MIB);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    cr_assert_eq(events(f, "full-70"), 1);
    write_file("/c", 0, 4 * MIB + MIB / 4);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    cr_assert_eq(events(f, "full-80"), 0, "95 is enough");
    cr_assert_eq(events(f, "full-90"), 0);
    cr_assert_eq(events(f, "full-95"), 1);
    cr_assert(has_event(f, "full-95", "space tank/s is 96 % full"));
    /* Not again after a remount, nor when it stays. */
    unmount_space(f);
    mount_space(f);
    sfs_env_sleep_ns(f->env, 30 * SECOND);
    cr_assert_eq(events(f, "full-95"), 1);
    /* Again when it has been emptier in between. */
    cr_assert_eq(sfs_vfs_unlink(vfs, sfs_vfs_root(vfs), "c"), 0);
    cr_assert_eq(sfs_vfs_sync(vfs), 0);
    sfs_env_sleep_ns(f->env, 30 * SECOND);
    write_file("/c", 0, 4 * MIB + MIB / 4);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    cr_assert_eq(events(f, "full-95"), 2);
    unmount_space(f);
}

Test(watch, a_space_that_fills_up_is_told_of_step_by_step)
{
    in_sim(1, body_full);
}

static void body_pool_full(struct fixture *f)
{
    begin_care(f, (unsigned[]){32, 32}, 2, SFS_MIRROR2);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    for (char name[] = "/a"; name[1] <= 'y'; name[1]++)
        write_file(name, 0, MIB);
    sfs_env_sleep_ns(f->env, 10 * SECOND);
    cr_assert(events(f, "full-70") + events(f, "full-80") + events(f, "full-90") == 1);
    cr_assert(has_event(f, "full-70", "the pool is") || has_event(f, "full-80", "the pool is") || has_event(f, "full-90", "the pool is"));
    unmount_space(f);
}

Test(watch, a_pool_that_fills_up_is_told_of)
{
    in_sim(2, body_pool_full);
}

static void body_degraded(struct fixture *f)
{
    begin_care(f, (unsigned[]){40, 40, 40}, 3, SFS_MIRROR2);
    for (char name[] = "/a"; name[1] <= 'f'; name[1]++)
        write_file(name, 0, MIB);
    sfs_env_sleep_ns(f->env, 5 * SECOND);
    cr_assert_eq(events(f, "degraded"), 0);
    sfs_sim_vanish(f->world, "b");
    sfs_env_sleep_ns(f->env, 20 * SECOND);
    cr_assert_eq(events(f, "degraded"), 1);
    sfs_env_sleep_ns(f->env, 900 * SECOND); /* it has healed */
    cr_assert_eq(events(f, "degraded"), 1);
    cr_assert_eq(events(f, "redundancy-restored"), 1);
    unmount_space(f);
}

Test(watch, lost_redundancy_is_told_of_and_its_return)
{
    in_sim(3, body_degraded);
}
