/* Geometry: exhaustive for small shapes, properties for random ones. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/env.h"
#include "fs/layout/geometry.h"

/* Every byte of a small group, block by block: a bijection between data and what isn't parity, with its
 * inverse. */
static void check_exhaustively(const struct sfs_geometry *g)
{
    uint64_t rows = sfs_geometry_rows(g), slab_blocks = rows * g->interleave / SFS_BLOCK;
    unsigned data = sfs_geometry_data_columns(g);
    bool *seen = calloc(g->columns * slab_blocks, sizeof(*seen));
    uint64_t hits = 0, back;

    for (uint64_t off = 0; off < sfs_geometry_capacity(g); off += SFS_BLOCK) {
        uint64_t at = off;
        struct sfs_piece p;

        cr_assert(sfs_geometry_next(g, &at, off + SFS_BLOCK, &p));
        cr_assert_eq(at, off + SFS_BLOCK);
        cr_assert_eq(p.len, SFS_BLOCK);
        cr_assert_lt(p.column, g->columns);
        cr_assert_lt(p.slab_off, rows * g->interleave);

        bool *s = &seen[p.column * slab_blocks + p.slab_off / SFS_BLOCK];
        uint64_t row = p.slab_off / g->interleave;

        cr_assert_not(*s, "two bytes of the group on one of a slab");
        *s = true;
        hits++;
        cr_assert_eq(row, off / sfs_geometry_stripe_bytes(g));
        for (unsigned i = 0; i < g->parity; i++)
            cr_assert_neq(p.column, sfs_geometry_parity_column(g, row, i));
        cr_assert(sfs_geometry_unmap(g, p.column, p.slab_off + 17, &back));
        cr_assert_eq(back, off + 17);
    }
    cr_assert_eq(hits, data * slab_blocks);

    for (unsigned c = 0; c < g->columns; c++) {
        for (uint64_t b = 0; b < slab_blocks; b++)
            cr_assert_eq(sfs_geometry_unmap(g, c, b * SFS_BLOCK, &back), seen[c * slab_blocks + b]);
        cr_assert_not(sfs_geometry_unmap(g, c, rows * g->interleave, &back), "beyond the last row");
    }
    cr_assert_not(sfs_geometry_unmap(g, g->columns, 0, &back), "no such column");
    free(seen);
}

/* Every stripe has every column once; over `columns` stripes, parity is on each column equally often. */
static void check_rotation(const struct sfs_geometry *g)
{
    unsigned parity_on[SFS_MAX_COLUMNS] = {0};
    unsigned data = sfs_geometry_data_columns(g);

    for (uint64_t row = 0; row < g->columns; row++) {
        unsigned mask = 0;

        for (unsigned k = 0; k < data; k++)
            mask |= 1u << sfs_geometry_data_column(g, row, k);
        for (unsigned i = 0; i < g->parity; i++) {
            unsigned c = sfs_geometry_parity_column(g, row, i);

            mask |= 1u << c;
            parity_on[c]++;
        }
        cr_assert_eq(mask, (1u << g->columns) - 1);
    }
    for (unsigned c = 0; c < g->columns; c++)
        cr_assert_eq(parity_on[c], g->parity);
}

Test(geometry, small_shapes)
{
    unsigned shapes = 0;

    for (unsigned r = 0; r < SFS_RESILIENCY_COUNT; r++) {
        for (unsigned columns = sfs_resiliency_min_columns(r); columns <= SFS_MAX_COLUMNS; columns++) {
            for (uint32_t unit = 1; unit <= 3; unit++) {
                for (uint64_t blocks = unit; blocks <= 40;
                     blocks += 13) { /* not always a multiple of the interleave */
                    struct sfs_geometry g;

                    cr_assert_eq(
                        sfs_geometry_init(&g, r, columns, unit * SFS_BLOCK, blocks * SFS_BLOCK, NULL), 0);
                    cr_assert_eq(sfs_geometry_slabs(&g), columns * sfs_resiliency_copies(r));
                    cr_assert_leq(sfs_geometry_slabs(&g), SFS_MAX_SLABS_PER_GROUP);
                    cr_assert_eq(sfs_geometry_rows(&g), blocks / unit);
                    cr_assert_eq(sfs_geometry_capacity(&g),
                                 blocks / unit * unit * SFS_BLOCK * sfs_geometry_data_columns(&g));
                    check_exhaustively(&g);
                    check_rotation(&g);
                    shapes++;
                }
            }
        }
    }
    cr_assert_gt(shapes, 500);
}

/* The formulas of the header, by hand: four columns, one parity. */
Test(geometry, parity_by_hand)
{
    static const unsigned columns[] = {0, 1, 2, /* P on 3 */ 1, 2, 3, /* P on 0 */ 2, 3, 0, /* P on 1 */ 3,
                                       0, 1 /* P on 2 */};
    uint64_t off = 0;
    struct sfs_geometry g;
    struct sfs_piece p;

    cr_assert_eq(sfs_geometry_init(&g, SFS_PARITY, 4, 8192, 1 << 20, NULL), 0);
    for (unsigned u = 0; u < 12; u++) {
        cr_assert(sfs_geometry_next(&g, &off, 12 * 8192, &p));
        cr_assert_eq(p.column, columns[u]);
        cr_assert_eq(p.slab_off, u / 3 * 8192);
    }
    cr_assert_not(sfs_geometry_next(&g, &off, 12 * 8192, &p));
    for (unsigned row = 0; row < 8; row++)
        cr_assert_eq(sfs_geometry_parity_column(&g, row, 0), (row + 3) % 4);
    cr_assert_eq(sfs_geometry_init(&g, SFS_PARITY2, 6, 8192, 1 << 20, NULL), 0);
    for (unsigned row = 0; row < 12; row++) {
        cr_assert_eq(sfs_geometry_parity_column(&g, row, 0), (row + 4) % 6);
        cr_assert_eq(sfs_geometry_parity_column(&g, row, 1), (row + 5) % 6);
    }
}

/* Random shapes and ranges: pieces join up, stay inside a unit, and both directions agree at their ends. */
Test(geometry, random_ranges)
{
    struct sfs_env *env = sfs_env_new_sim(11);

    for (int round = 0; round < 20000; round++) {
        enum sfs_resiliency r = (enum sfs_resiliency)(sfs_env_rand(env) % SFS_RESILIENCY_COUNT);
        unsigned low = sfs_resiliency_min_columns(r);
        unsigned columns = low + (unsigned)(sfs_env_rand(env) % (SFS_MAX_COLUMNS - low + 1));
        uint32_t interleave = (uint32_t)(1 + sfs_env_rand(env) % 128) * SFS_BLOCK;
        uint64_t slab_bytes = interleave + sfs_env_rand(env) % (256u << 20), off, end, expect, back;
        struct sfs_geometry g;
        struct sfs_piece p;

        cr_assert_eq(sfs_geometry_init(&g, r, columns, interleave, slab_bytes, NULL), 0);
        off = sfs_env_rand(env) % sfs_geometry_capacity(&g);
        end = off + sfs_env_rand(env) % (4u << 20);
        if (end > sfs_geometry_capacity(&g))
            end = sfs_geometry_capacity(&g);
        expect = off;
        while (sfs_geometry_next(&g, &off, end, &p)) {
            cr_assert_eq(p.group_off, expect);
            cr_assert_gt(p.len, 0);
            cr_assert_eq(p.slab_off / interleave, (p.slab_off + p.len - 1) / interleave);
            cr_assert_leq(p.slab_off + p.len, slab_bytes);
            cr_assert(sfs_geometry_unmap(&g, p.column, p.slab_off, &back));
            cr_assert_eq(back, p.group_off);
            cr_assert(sfs_geometry_unmap(&g, p.column, p.slab_off + p.len - 1, &back));
            cr_assert_eq(back, p.group_off + p.len - 1);
            expect += p.len;
            cr_assert_eq(off, expect);
        }
        cr_assert_eq(expect, end);
    }
    sfs_env_free(env);
}

Test(geometry, refuses_what_cannot_be)
{
    struct sfs_error err;
    struct sfs_geometry g;
    const uint64_t mib = 1 << 20;

    cr_assert_eq(sfs_geometry_init(&g, (enum sfs_resiliency)5, 1, 4096, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_SIMPLE, 0, 4096, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_MIRROR3, 17, 4096, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_PARITY, 2, 4096, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_PARITY2, 3, 4096, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_MIRROR2, 1, 0, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_MIRROR2, 1, 5000, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_MIRROR2, 1, 2 * mib, mib, &err), -EINVAL);
    cr_assert_eq(sfs_geometry_init(&g, SFS_MIRROR2, 1, 4096, UINT64_MAX, &err), -EINVAL);
    cr_assert_eq(err.code, -EINVAL);
    cr_assert_gt(strlen(err.text), 0);
}

Test(geometry, resiliencies)
{
    static const struct {
        const char *name;
        unsigned copies, parity, tolerance, min_disks, auto_two, auto_five, auto_forty;
    } table[SFS_RESILIENCY_COUNT] = {
        {"simple", 1, 0, 0, 1, 1, 1, 1},  {"mirror2", 2, 0, 1, 2, 1, 1, 1},  {"mirror3", 3, 0, 2, 3, 0, 1, 1},
        {"parity", 1, 1, 1, 3, 0, 5, 16}, {"parity2", 1, 2, 2, 4, 0, 5, 16},
    };
    struct sfs_error err;

    for (unsigned i = 0; i < SFS_RESILIENCY_COUNT; i++) {
        enum sfs_resiliency r;

        cr_assert_eq(sfs_resiliency_parse(table[i].name, &r, NULL), 0);
        cr_assert_eq((unsigned)r, i);
        cr_assert_str_eq(sfs_resiliency_name(r), table[i].name);
        cr_assert_eq(sfs_resiliency_copies(r), table[i].copies);
        cr_assert_eq(sfs_resiliency_parity(r), table[i].parity);
        cr_assert_eq(sfs_resiliency_tolerance(r), table[i].tolerance);
        cr_assert_eq(sfs_resiliency_min_disks(r), table[i].min_disks);
        cr_assert_eq(sfs_geometry_auto_columns(r, 0), 0);
        cr_assert_eq(sfs_geometry_auto_columns(r, 2), table[i].auto_two);
        cr_assert_eq(sfs_geometry_auto_columns(r, 5), table[i].auto_five);
        cr_assert_eq(sfs_geometry_auto_columns(r, 40), table[i].auto_forty);
    }
    enum sfs_resiliency r;

    cr_assert_eq(sfs_resiliency_parse("raid5", &r, &err), -EINVAL);
    cr_assert(strstr(err.text, "raid5") && strstr(err.text, "parity2"));
    cr_assert_str_eq(sfs_resiliency_name((enum sfs_resiliency)77), "?");
}
