/* Dirty blocks of a file: what is dirty, what is being written, what comes back after a failed write. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fs/vfs/dirty.h"

#define B SFS_BLOCK

static void add(struct sfs_dirty *d, uint64_t block, uint64_t stamp, int fill)
{
    bool made;
    uint8_t *p = sfs_dirty_add(d, block * B, stamp, false, &made);

    cr_assert(p);
    memset(p, fill, B);
}

static uint8_t *take(struct sfs_dirty *d, bool full, uint64_t limit, uint64_t *off, unsigned *n)
{
    if (!sfs_dirty_pick(d, full, limit, off, n))
        return NULL;
    uint8_t *out = malloc((size_t)*n * B);
    cr_assert(out);
    sfs_dirty_take(d, *off, *n, out);
    return out;
}

Test(vfs_dirty, runs_stay_in_their_chunk_and_are_contiguous)
{
    struct sfs_dirty d;
    uint64_t off;
    unsigned n;

    sfs_dirty_init(&d);
    for (uint64_t b = 250; b < 260; b++)
        add(&d, b, 1, (int)b);
    add(&d, 262, 1, 1);
    uint8_t *out = take(&d, false, 1, &off, &n);
    cr_assert_eq(off, 250 * B);
    cr_assert_eq(n, 6);
    for (unsigned k = 0; k < n; k++)
        cr_assert_eq(out[k * B], 250 + k);
    sfs_dirty_written(&d, off, n);
    free(out);
    out = take(&d, false, 1, &off, &n);
    cr_assert_eq(off, 256 * B);
    cr_assert_eq(n, 4);
    sfs_dirty_written(&d, off, n);
    free(out);
    cr_assert_eq(d.ndirty, 1);
    sfs_dirty_clear(&d);
}

Test(vfs_dirty, what_is_being_written_is_not_taken_again)
{
    struct sfs_dirty d;
    uint64_t off;
    unsigned n;

    sfs_dirty_init(&d);
    add(&d, 3, 1, 'a');
    uint8_t *out = take(&d, false, UINT64_MAX, &off, &n);
    cr_assert(sfs_dirty_is_writing(&d, 3 * B));
    cr_assert_null(sfs_dirty_get(&d, 3 * B));
    add(&d, 3, 2, 'b');
    cr_assert_not(sfs_dirty_pick(&d, false, UINT64_MAX, &off, &n), "W1");
    cr_assert_eq(sfs_dirty_lowest(&d, 0), 3 * B);
    sfs_dirty_written(&d, 3 * B, 1);
    cr_assert(sfs_dirty_pick(&d, false, UINT64_MAX, &off, &n));
    cr_assert_eq(*sfs_dirty_get(&d, 3 * B), 'b');
    free(out);
    sfs_dirty_clear(&d);
}

Test(vfs_dirty, a_failed_write_restores_what_is_not_newer)
{
    struct sfs_dirty d;
    uint64_t off;
    unsigned n;

    sfs_dirty_init(&d);
    add(&d, 0, 1, 'a');
    add(&d, 1, 1, 'a');
    uint8_t *out = take(&d, false, UINT64_MAX, &off, &n);
    cr_assert_eq(n, 2);
    add(&d, 1, 2, 'b');
    cr_assert_eq(d.nfresh, 2);
    cr_assert_eq(sfs_dirty_restore(&d, off, n, out, 3), 1);
    cr_assert_eq(*sfs_dirty_get(&d, 0), 'a');
    cr_assert_eq(*sfs_dirty_get(&d, B), 'b');
    cr_assert_eq(d.nwriting, 0);
    cr_assert_eq(d.nfresh, 2);
    cr_assert_not(sfs_dirty_pick(&d, false, 2, &off, &n), "not in the same flush again");
    cr_assert(sfs_dirty_pick(&d, false, 3, &off, &n));
    free(out);
    sfs_dirty_clear(&d);
}

Test(vfs_dirty, full_chunks_only)
{
    struct sfs_dirty d;
    uint64_t off;
    unsigned n;

    sfs_dirty_init(&d);
    for (uint64_t b = 256; b < 511; b++)
        add(&d, b, 1, 1);
    cr_assert_not(sfs_dirty_pick(&d, true, UINT64_MAX, &off, &n));
    add(&d, 511, 1, 1);
    cr_assert_eq(d.nfull, 1);
    uint8_t *out = take(&d, true, UINT64_MAX, &off, &n);
    cr_assert_eq(off, SFS_CHUNK);
    cr_assert_eq(n, 256);
    cr_assert_eq(d.nfull, 0);
    sfs_dirty_written(&d, off, n);
    free(out);
    sfs_dirty_clear(&d);
}

Test(vfs_dirty, dropping_spares_what_is_outside)
{
    struct sfs_dirty d;
    uint64_t off;
    uint8_t *data;

    sfs_dirty_init(&d);
    for (uint64_t b = 0; b < 600; b += 3)
        add(&d, b, 1, (int)(b % 100));
    cr_assert_eq(sfs_dirty_drop(&d, 10 * B, 500 * B), 163);
    cr_assert(sfs_dirty_next(&d, 9 * B, UINT64_MAX, &off, &data));
    cr_assert_eq(off, 9 * B);
    cr_assert(sfs_dirty_next(&d, 10 * B, UINT64_MAX, &off, &data));
    cr_assert_eq(off, 501 * B);
    cr_assert_not(sfs_dirty_next(&d, 10 * B, 501 * B, &off, &data));
    cr_assert_eq(d.ndirty, d.nfresh);
    sfs_dirty_clear(&d);
    cr_assert_eq(d.ndirty, 0);
}

#define BLOCKS 700u

/* Against arrays. Up to two runs are under way at any time. */
Test(vfs_dirty, random_changes)
{
    struct sfs_dirty d;
    uint8_t dirty[BLOCKS] = {0}, writing[BLOCKS] = {0}, fresh[BLOCKS] = {0};
    struct { uint64_t off; unsigned n; uint8_t *data; } run[2] = {{0}};
    uint64_t stamp = 1;

    srand(7);
    sfs_dirty_init(&d);
    for (unsigned step = 0; step < 20000; step++) {
        unsigned b = (unsigned)rand() % BLOCKS, k = (unsigned)rand() % 2;
        switch (rand() % 6) {
        case 0:
        case 1:
        case 2:
            if (!dirty[b] && !writing[b])
                fresh[b] = 1;
            dirty[b] = (uint8_t)(1 + rand() % 255);
            add(&d, b, stamp++, dirty[b]);
            break;
        case 3: {
            unsigned end = b + (unsigned)rand() % 20;
            sfs_dirty_drop(&d, (uint64_t)b * B, (uint64_t)end * B);
            for (; b < end && b < BLOCKS; b++) {
                dirty[b] = 0;
                fresh[b] &= writing[b] != 0;
            }
            break;
        }
        case 4:
            if (run[k].data)
                break;
            run[k].data = take(&d, false, UINT64_MAX, &run[k].off, &run[k].n);
            for (unsigned i = 0; run[k].data && i < run[k].n; i++) {
                uint64_t at = run[k].off / B + i;
                cr_assert(dirty[at] && !writing[at]);
                cr_assert_eq(run[k].data[i * B + 77], dirty[at]);
                writing[at] = dirty[at];
                dirty[at] = 0;
            }
            break;
        default:
            if (!run[k].data)
                break;
            bool fails = rand() % 2;
            if (fails)
                sfs_dirty_restore(&d, run[k].off, run[k].n, run[k].data, stamp++);
            else
                sfs_dirty_written(&d, run[k].off, run[k].n);
            for (unsigned i = 0; i < run[k].n; i++) {
                uint64_t at = run[k].off / B + i;
                if (fails && !dirty[at])
                    dirty[at] = writing[at];
                writing[at] = 0;
                fresh[at] &= fails; /* else something is stored below now */
            }
            free(run[k].data);
            run[k].data = NULL;
        }
        unsigned ndirty = 0, nwriting = 0, nfresh = 0;
        for (unsigned i = 0; i < BLOCKS; i++) {
            ndirty += dirty[i] != 0;
            nwriting += writing[i] != 0;
            nfresh += fresh[i];
        }
        cr_assert_eq(d.ndirty, ndirty);
        cr_assert_eq(d.nwriting, nwriting);
        cr_assert_eq(d.nfresh, nfresh);
        uint8_t *p = sfs_dirty_get(&d, (uint64_t)(step % BLOCKS) * B);
        cr_assert_eq(p ? p[5] : 0, dirty[step % BLOCKS]);
    }
    for (unsigned k = 0; k < 2; k++)
        if (run[k].data) {
            sfs_dirty_written(&d, run[k].off, run[k].n);
            free(run[k].data);
        }
    sfs_dirty_clear(&d);
}
