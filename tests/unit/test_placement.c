/* Placement: the greedy choice, slab by slab, against the closed formulas. */
#include <criterion/criterion.h>
#include <string.h>

#include "fs/base/env.h"
#include "fs/layout/placement.h"

#define MAX_DISKS 64u

static struct sfs_env *env;

static void setup(void)
{
    env = sfs_env_new_sim(5);
}

static void teardown(void)
{
    sfs_env_free(env);
}

TestSuite(placement, .init = setup, .fini = teardown);

static unsigned below(unsigned n)
{
    return (unsigned)(sfs_env_rand(env) % n);
}

/* Disk sets as people have them: alike, all different, one huge, some empty. */
static unsigned random_disks(uint64_t *slabs, unsigned max_disks)
{
    unsigned n = 1 + below(max_disks), kind = below(4);

    for (unsigned i = 0; i < n; i++) {
        slabs[i] = kind == 0 ? 37 : below(kind == 1 ? 200 : 20);
        if (kind == 3 && i == 0)
            slabs[i] = 1000;
    }
    return n;
}

/* Takes groups of `width(free disks)` slabs until there are no more. Returns groups; *data_slabs gets the
 * slabs that are not parity. */
static uint64_t fill(const uint64_t *slabs, unsigned n, unsigned fixed, enum sfs_resiliency r,
                     uint64_t *data_slabs)
{
    struct sfs_place_disk disks[MAX_DISKS];
    unsigned out[MAX_DISKS];
    uint64_t groups = 0;

    *data_slabs = 0;
    for (unsigned i = 0; i < n; i++)
        disks[i] = (struct sfs_place_disk){.free_slabs = slabs[i], .usable = true};
    for (;;) {
        unsigned free_disks = 0, width, seen = 0;

        for (unsigned i = 0; i < n; i++)
            free_disks += disks[i].free_slabs > 0;
        width = fixed ? fixed : sfs_geometry_auto_columns(r, free_disks) * sfs_resiliency_copies(r);
        if (width == 0 || sfs_place_pick(disks, n, width, out) < width)
            return groups;
        for (unsigned i = 0; i < width; i++) {
            for (unsigned j = 0; j < i; j++)
                seen += out[i] == out[j];
            disks[out[i]].free_slabs--;
        }
        cr_assert_eq(seen, 0, "one disk twice in a group");
        groups++;
        *data_slabs += width / sfs_resiliency_copies(r) - sfs_resiliency_parity(r);
    }
}

Test(placement, greedy_reaches_the_optimum)
{
    uint64_t slabs[MAX_DISKS], unused;

    for (int round = 0; round < 3000; round++) {
        unsigned n = random_disks(slabs, 20), c = 1 + below(n < 12 ? n + 1 : 12);

        cr_assert_eq(fill(slabs, n, c, SFS_SIMPLE, &unused), sfs_place_optimum(slabs, n, c),
                     "round %d: %u disks, %u slabs", round, n, c);
    }
}

Test(placement, optimum_is_its_definition)
{
    uint64_t slabs[MAX_DISKS];

    for (int round = 0; round < 2000; round++) {
        unsigned n = random_disks(slabs, 10), c = 1 + below(n);
        uint64_t best = 0, sum = 0, largest = 0;

        for (uint64_t k = 1; k <= 2000; k++) {
            uint64_t have = 0;

            for (unsigned i = 0; i < n; i++)
                have += slabs[i] < k ? slabs[i] : k;
            if (have >= c * k)
                best = k;
        }
        for (unsigned i = 0; i < n; i++) {
            sum += slabs[i];
            largest = slabs[i] > largest ? slabs[i] : largest;
        }
        if (c > 1) /* a single disk's thousand is beyond the loop only for c = 1 */
            cr_assert_eq(sfs_place_optimum(slabs, n, c), best);
        else
            cr_assert_eq(sfs_place_optimum(slabs, n, 1), sum);
        if (n >= 2)
            cr_assert_eq(sfs_place_optimum(slabs, n, 2), sum / 2 < sum - largest ? sum / 2 : sum - largest);
    }
}

Test(placement, optimum_extremes)
{
    uint64_t huge[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, none[] = {0, 0};

    cr_assert_eq(sfs_place_optimum(huge, 3, 3), UINT64_MAX);
    cr_assert_eq(sfs_place_optimum(huge, 1, 1), UINT64_MAX);
    cr_assert_eq(sfs_place_optimum(huge, 3, 4), 0);
    cr_assert_eq(sfs_place_optimum(none, 2, 1), 0);
    cr_assert_eq(sfs_place_optimum(NULL, 0, 1), 0);
    cr_assert_eq(sfs_place_capacity(huge, 3, SFS_MIRROR2, 0, 256 << 20), INT64_MAX);
}

Test(placement, capacity_of_auto_columns)
{
    uint64_t slabs[MAX_DISKS], data_slabs;

    for (int round = 0; round < 1000; round++) {
        for (unsigned r = 0; r < SFS_RESILIENCY_COUNT; r++) {
            unsigned n = random_disks(slabs, 16);

            fill(slabs, n, 0, r, &data_slabs);
            cr_assert_eq(sfs_place_capacity(slabs, n, r, 0, 1 << 20), data_slabs << 20, "round %d", round);
        }
    }
}

/* More disks than columns: never more than there is, and all but a group's worth of slabs. */
Test(placement, capacity_of_auto_columns_on_many_disks)
{
    uint64_t slabs[MAX_DISKS], data_slabs, told;

    for (int round = 0; round < 1000; round++) {
        for (unsigned r = SFS_PARITY; r <= SFS_PARITY2; r++) {
            unsigned n = random_disks(slabs, MAX_DISKS);

            fill(slabs, n, 0, r, &data_slabs);
            told = sfs_place_capacity(slabs, n, r, 0, 1);
            cr_assert_leq(told, data_slabs, "round %d", round);
            cr_assert_leq(data_slabs - told, SFS_MAX_COLUMNS, "round %d: %lu of %lu", round, told,
                          data_slabs);
        }
    }
}

Test(placement, capacity_of_fixed_columns)
{
    uint64_t slabs[MAX_DISKS], data_slabs;

    for (int round = 0; round < 1000; round++) {
        for (unsigned r = 0; r < SFS_RESILIENCY_COUNT; r++) {
            unsigned n = random_disks(slabs, 24), columns = sfs_resiliency_min_columns(r) + below(5);

            fill(slabs, n, columns * sfs_resiliency_copies(r), r, &data_slabs);
            cr_assert_eq(sfs_place_capacity(slabs, n, r, columns, 4096), data_slabs * 4096);
        }
    }
    slabs[0] = slabs[1] = slabs[2] = 10;
    cr_assert_eq(sfs_place_capacity(slabs, 3, SFS_PARITY, 2, 4096), 0, "too few columns to be");
    cr_assert_eq(sfs_place_capacity(slabs, 3, SFS_SIMPLE, 17, 4096), 0);
}

Test(placement, capacity_is_fast)
{
    uint64_t slabs[MAX_DISKS];
    struct sfs_env *real = sfs_env_new_real();
    uint64_t start = sfs_env_mono_ns(real);

    for (unsigned i = 0; i < MAX_DISKS; i++)
        slabs[i] = 1000000 + i * 7919;
    for (int i = 0; i < 100; i++)
        cr_assert_gt(sfs_place_capacity(slabs, MAX_DISKS, SFS_PARITY2, 0, 1 << 20), 0);
    /* 6.4e9 slabs; counted one by one this would be minutes. */
    cr_assert_lt(sfs_env_mono_ns(real) - start, 5000000000ull);
    sfs_env_free(real);
}

Test(placement, pick_order)
{
    struct sfs_place_disk disks[] = {
        {.free_slabs = 5, .usable = true},
        {.free_slabs = 9, .usable = false},
        {.free_slabs = 7, .open = 2, .usable = true},
        {.free_slabs = 7, .open = 1, .usable = true},
        {.free_slabs = 0, .usable = true},
        {.free_slabs = 5, .usable = true},
    };
    static const unsigned order[] = {3, 2, 0, 5};
    unsigned out[7];

    for (unsigned want = 0; want <= 6; want++) {
        unsigned expect = want < 4 ? want : 4;

        out[expect] = 99;
        cr_assert_eq(sfs_place_pick(disks, 6, want, out), expect);
        for (unsigned i = 0; i < expect; i++)
            cr_assert_eq(out[i], order[i]);
        cr_assert_eq(out[expect], 99, "wrote more than it found");
    }
}

Test(placement, slab_size)
{
    const uint64_t mib = 1 << 20, gib = mib << 10;

    cr_assert_eq(sfs_place_slab_bytes(100 * gib, 0), 256 * mib);
    cr_assert_eq(sfs_place_slab_bytes(16 * gib, 256 * mib), 256 * mib);
    cr_assert_eq(sfs_place_slab_bytes(16 * gib - 1, 256 * mib), 128 * mib);
    cr_assert_eq(sfs_place_slab_bytes(gib, 256 * mib), 16 * mib);
    cr_assert_eq(sfs_place_slab_bytes(64 * mib, 256 * mib), mib);
    cr_assert_eq(sfs_place_slab_bytes(64 * mib - 1, 256 * mib), 0);
    cr_assert_eq(sfs_place_slab_bytes(100 * gib, 4 * mib), 4 * mib);
    cr_assert_eq(sfs_place_slab_bytes(100 * gib, 3 * mib), 0, "not a power of two");
    cr_assert_eq(sfs_place_slab_bytes(100 * gib, mib / 2), 0, "too small");
}

Test(placement, open_groups)
{
    cr_assert_eq(sfs_place_open_groups(3, 2), 3);
    cr_assert_eq(sfs_place_open_groups(4, 2), 2);
    cr_assert_eq(sfs_place_open_groups(5, 2), 5);
    cr_assert_eq(sfs_place_open_groups(6, 6), 1);
    cr_assert_eq(sfs_place_open_groups(16, 1), 8);
    cr_assert_eq(sfs_place_open_groups(0, 2), 1);
    cr_assert_eq(sfs_place_open_groups(0, 0), 1);
}
