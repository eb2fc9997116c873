/* What the loss of a disk would mean, foretold and then put to the test. */
#include "tests/unit/care_fixture.h"

#define MIB ((size_t)1 << 20)

static struct sfs_impact *impact(struct fixture *f, const char *disk)
{
    struct sfs_impact *i;
    struct sfs_error err = {0};
    cr_assert_eq(sfs_pool_impact(f->pool, disk, &i, &err), 0, "%s", err.text);
    return i;
}

static uint64_t files(const struct sfs_impact *i, int fate)
{
    uint64_t n = 0;
    for (unsigned k = 0; k < i->nspaces; k++)
        n += fate == 0 ? i->spaces[k].lost.files : fate == 1 ? i->spaces[k].risk.files : i->spaces[k].weaker.files;
    return n;
}

static void write_files(unsigned n)
{
    char name[16];
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "/f%u", i);
        write_file(name, 0, MIB / 2);
    }
}

static unsigned unreadable(unsigned n)
{
    char name[16];
    unsigned bad = 0;
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "/f%u", i);
        bad += read_file(name, MIB / 2) > 0;
    }
    return bad;
}

static void body_simple(struct fixture *f)
{
    begin_care(f, (unsigned[]){40, 40, 40}, 3, SFS_SIMPLE);
    write_files(12);
    struct sfs_impact *i = impact(f, "b");
    uint64_t lost = files(i, 0);
    cr_assert(i->online);
    cr_assert(lost > 0 && lost < 12, "%llu", (unsigned long long)lost);
    cr_assert_eq(files(i, 1) + files(i, 2), 0);
    cr_assert_gt(i->nexamples, 0);
    cr_assert_eq(i->examples[0].path[0], '/');
    cr_assert_eq(i->slabs_hopeless, i->slabs);
    cr_assert_eq(i->replicas_left, 2);
    sfs_pool_impact_free(i);
    sfs_sim_vanish(f->world, "b");
    sfs_env_sleep_ns(f->env, 5000000000ull);
    cr_assert_eq(unreadable(12), lost, "as foretold");
    i = impact(f, "b");
    cr_assert_not(i->online);
    cr_assert_eq(files(i, 0), lost);
    sfs_pool_impact_free(i);
    i = impact(f, "a"); /* only what isn't lost already */
    cr_assert(files(i, 0) > 0 && files(i, 0) + lost <= 12);
    sfs_pool_impact_free(i);
    unmount_space(f);
}

Test(impact, of_the_only_copy_is_loss)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_simple);
}

static void body_mirror(struct fixture *f)
{
    struct sfs_error err = {0};
    begin_care(f, (unsigned[]){40, 40, 40}, 3, SFS_MIRROR2);
    write_files(12);
    struct sfs_impact *i = impact(f, "c");
    cr_assert_eq(files(i, 0), 0);
    cr_assert_gt(files(i, 1), 0);
    cr_assert_eq(i->nspaces, 1);
    cr_assert_str_eq(i->spaces[0].resiliency, "mirror2");
    cr_assert(i->can_heal);
    cr_assert_gt(i->slabs, 0);
    cr_assert_eq(i->slabs_placed, i->slabs);
    sfs_pool_impact_free(i);
    sfs_sim_vanish(f->world, "c");
    sfs_env_sleep_ns(f->env, 5000000000ull);
    cr_assert_eq(unreadable(12), 0);
    i = impact(f, "a"); /* a second loss, before anything has healed */
    uint64_t lost = files(i, 0);
    cr_assert_gt(lost, 0);
    sfs_pool_impact_free(i);
    sfs_sim_vanish(f->world, "a");
    sfs_env_sleep_ns(f->env, 5000000000ull);
    cr_assert_eq(unreadable(12), lost, "as foretold");
    cr_assert_eq(sfs_pool_impact(f->pool, "nosuch", &i, &err), -ENOENT);
    cr_assert(strstr(err.text, "no disk named nosuch"));
    unmount_space(f);
}

Test(impact, of_one_copy_is_risk_and_of_the_second_loss)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        in_sim(seed, body_mirror);
}

static void body_mirror3(struct fixture *f)
{
    begin_care(f, (unsigned[]){24, 24, 24}, 3, SFS_MIRROR3);
    write_files(4);
    struct sfs_impact *i = impact(f, "b");
    cr_assert_eq(files(i, 0) + files(i, 1), 0);
    cr_assert_eq(files(i, 2), 4);
    cr_assert_not(i->can_heal, "no disk outside of the groups");
    cr_assert_eq(i->slabs_placed, 0);
    sfs_pool_impact_free(i);
    unmount_space(f);
}

Test(impact, of_one_copy_in_three_is_neither)
{
    in_sim(5, body_mirror3);
}
