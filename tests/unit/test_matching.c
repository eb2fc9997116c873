/* Where slabs that have to leave can go: against trying everything, on small shapes. */
#include <criterion/criterion.h>
#include <string.h>

#include "fs/layout/matching.h"

static unsigned best_of(const struct sfs_match_slab *slabs, unsigned n, uint64_t *room, unsigned disks)
{
    if (!n)
        return 0;
    unsigned best = best_of(slabs + 1, n - 1, room, disks);
    for (unsigned d = 0; d < disks; d++)
        if (slabs[0].may >> d & 1 && room[d]) {
            room[d]--;
            unsigned with = 1 + best_of(slabs + 1, n - 1, room, disks);
            room[d]++;
            best = with > best ? with : best;
        }
    return best;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

Test(matching, finds_as_many_places_as_there_can_be)
{
    uint64_t state = 1;
    for (unsigned round = 0; round < 3000; round++) {
        struct sfs_match_slab slabs[6];
        uint64_t room[4], left[4] = {0};
        unsigned n = (unsigned)(next(&state) % 7), disks = 1 + (unsigned)(next(&state) % 4), placed = 0;
        for (unsigned d = 0; d < disks; d++)
            room[d] = next(&state) % 3;
        for (unsigned i = 0; i < n; i++)
            slabs[i] = (struct sfs_match_slab){.may = next(&state) % (1u << disks), .prefer = next(&state)};
        unsigned got = sfs_match(slabs, n, room, disks);
        for (unsigned i = 0; i < n; i++) {
            if (slabs[i].to < 0)
                continue;
            placed++;
            cr_assert(slabs[i].may >> slabs[i].to & 1, "round %u: slab %u went where it may not", round, i);
            left[slabs[i].to]++;
        }
        for (unsigned d = 0; d < disks; d++)
            cr_assert(left[d] <= room[d], "round %u: disk %u got %lu of %lu", round, d, left[d], room[d]);
        cr_assert_eq(got, placed);
        cr_assert_eq(got, best_of(slabs, n, room, disks), "round %u: %u of %u", round, got, n);
    }
}

Test(matching, others_make_way)
{
    /* Greedy would give the one place of disk 1 to the first. */
    struct sfs_match_slab slabs[] = {{.may = 3, .prefer = 2}, {.may = 2}};
    cr_assert_eq(sfs_match(slabs, 2, (uint64_t[]){1, 1}, 2), 2);
    cr_assert_eq(slabs[0].to, 0);
    cr_assert_eq(slabs[1].to, 1);
}

Test(matching, preferred_disks_come_first_then_those_with_most_room)
{
    struct sfs_match_slab slabs[] = {{.may = 7, .prefer = 1}, {.may = 6}};
    cr_assert_eq(sfs_match(slabs, 2, (uint64_t[]){1, 2, 9}, 3), 2);
    cr_assert_eq(slabs[0].to, 0);
    cr_assert_eq(slabs[1].to, 2);
}

Test(matching, many_slabs_of_a_full_pool_take_no_time)
{
    static struct sfs_match_slab slabs[20000];
    uint64_t room[64];
    for (unsigned d = 0; d < 64; d++)
        room[d] = 100;
    for (unsigned i = 0; i < 20000; i++)
        slabs[i] = (struct sfs_match_slab){.may = UINT64_MAX};
    cr_assert_eq(sfs_match(slabs, 20000, room, 64), 6400);
}
