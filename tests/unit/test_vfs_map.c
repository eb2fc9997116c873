/* The extent map of a file, against a byte-by-byte model, and its changed ranges against a model of the
 * catalog's rows. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fs/vfs/map.h"

/* A stored extent of the tests: its byte k is (id * 31 + k) % 251 + 1; trimming to 64 KiB granules makes
 * another one. */
struct sfs_stored {
    int refs;
    uint32_t id, start, rlen;
};

static int live;       /* stored extents that somebody refers to */
static bool trim_fails;

static struct sfs_stored *new_stored(uint32_t id, uint32_t start, uint32_t rlen)
{
    struct sfs_stored *s = calloc(1, sizeof(*s));

    cr_assert(s);
    *s = (struct sfs_stored){1, id, start, rlen};
    live++;
    return s;
}

static struct sfs_stored *ref(void *ctx, struct sfs_stored *s)
{
    (void)ctx;
    s->refs++;
    return s;
}

static void unref(void *ctx, struct sfs_stored *s)
{
    (void)ctx;
    if (--s->refs == 0) {
        live--;
        free(s);
    }
}

static int trim(void *ctx, struct sfs_extent *e)
{
    struct sfs_stored *s = e->stored;
    uint32_t from = e->skip / 65536 * 65536, to = (e->skip + e->len + 65535) / 65536 * 65536;

    if (trim_fails)
        return -ENOMEM;
    if (to > s->rlen)
        to = s->rlen;
    if (from == 0 && to == s->rlen)
        return 0;
    e->stored = new_stored(s->id, s->start + from, to - from);
    e->skip -= from;
    unref(ctx, s);
    return 0;
}

static const struct sfs_map_ops ops = {ref, unref, trim};

static uint8_t stored_byte(const struct sfs_extent *e, uint64_t off)
{
    uint64_t k = off - e->off + e->skip;

    cr_assert_lt(k, e->stored->rlen);
    return (uint8_t)((e->stored->id * 31 + e->stored->start + k) % 251 + 1);
}

#define SPAN 40000u


struct model {
    struct sfs_map map;
    uint8_t bytes[SPAN];       /* what the file has */
    struct sfs_range rows[4096]; /* the catalog's rows */
    unsigned nrows;
    uint8_t catalog[SPAN];     /* what the rows say */
    uint32_t next_id;
};

static void put(struct model *m, uint64_t off, uint32_t len)
{
    struct sfs_stored *s = new_stored(++m->next_id, 0, len);
    struct sfs_extent e = {.off = off, .len = len, .stored = s};

    cr_assert_eq(sfs_map_prepare(&m->map, 1), 0);
    sfs_map_punch(&m->map, off, off + len);
    sfs_map_insert(&m->map, &e, false);
    for (uint32_t k = 0; k < len; k++)
        m->bytes[off + k] = stored_byte(&e, off + k);
}

static void punch(struct model *m, uint64_t from, uint64_t to)
{
    cr_assert_eq(sfs_map_prepare(&m->map, 0), 0);
    sfs_map_punch(&m->map, from, to);
    memset(m->bytes + from, 0, to - from);
}

static void check_bytes(struct model *m)
{
    uint8_t seen[SPAN] = {0};
    uint64_t end = 0, blocks = 0;
    unsigned n = 0;

    for (struct sfs_map_node *p = sfs_map_find(&m->map, 0); p; p = sfs_map_next(p)) {
        cr_assert_geq(p->e.off, end, "M1");
        cr_assert_gt(p->e.len, 0);
        for (uint64_t k = p->e.off; k < sfs_map_end(p); k++)
            seen[k] = stored_byte(&p->e, k);
        end = sfs_map_end(p);
        blocks += (p->e.len + 4095) / 4096;
        n++;
    }
    cr_assert_eq(n, m->map.npieces);
    cr_assert_eq(blocks, m->map.blocks);
    cr_assert_arr_eq(seen, m->bytes, SPAN);
}

static void delete_rows(struct model *m, struct sfs_range r)
{
    for (unsigned k = 0; k < m->nrows;) {
        struct sfs_range *row = &m->rows[k];
        if (row->to <= r.from || row->from >= r.to) {
            k++;
            continue;
        }
        cr_assert(row->from >= r.from && row->to <= r.to, "M2: a row straddles a changed range");
        memset(m->catalog + row->from, 0, row->to - row->from);
        *row = m->rows[--m->nrows];
    }
}

/* What a commit does; then the rows say what the file has. */
static void commit(struct model *m)
{
    struct sfs_range *deleted;
    struct sfs_extent *extents;
    unsigned nd, ne;

    cr_assert_eq(sfs_map_collect(&m->map, &deleted, &nd, &extents, &ne), 0);
    for (unsigned k = 0; k < nd; k++)
        delete_rows(m, deleted[k]);
    for (unsigned k = 0; k < ne; k++) {
        m->rows[m->nrows++] = (struct sfs_range){extents[k].off, extents[k].off + extents[k].len};
        for (uint64_t b = extents[k].off; b < extents[k].off + extents[k].len; b++) {
            cr_assert_eq(m->catalog[b], 0, "two rows for one byte");
            m->catalog[b] = stored_byte(&extents[k], b);
        }
        unref(NULL, extents[k].stored);
    }
    free(deleted);
    free(extents);
    sfs_map_handed_over(&m->map);
    cr_assert_eq(m->map.nchanged, 0);
    cr_assert_arr_eq(m->catalog, m->bytes, SPAN);
}

static struct model *model_new(void)
{
    struct model *m = calloc(1, sizeof(*m));

    cr_assert(m);
    sfs_map_init(&m->map, &ops, NULL);
    return m;
}

static void model_free(struct model *m)
{
    sfs_map_clear(&m->map);
    free(m);
    cr_assert_eq(live, 0, "references");
}

Test(vfs_map, overwriting_cuts_to_the_byte)
{
    struct model *m = model_new();

    put(m, 1000, 9000);
    check_bytes(m);
    put(m, 3001, 500);
    check_bytes(m);
    cr_assert_eq(m->map.npieces, 3);
    punch(m, 0, 1001);
    punch(m, 9999, 10000);
    check_bytes(m);
    punch(m, 1001, 9999);
    cr_assert_eq(m->map.npieces, 0);
    check_bytes(m);
    model_free(m);
}

Test(vfs_map, only_what_changed_is_handed_over)
{
    struct model *m = model_new();
    struct sfs_range *deleted;
    struct sfs_extent *extents;
    unsigned nd, ne;

    for (uint64_t k = 0; k < 8; k++)
        put(m, k * 4096, 4096);
    commit(m);
    put(m, 3 * 4096 + 100, 10);
    cr_assert_eq(sfs_map_collect(&m->map, &deleted, &nd, &extents, &ne), 0);
    cr_assert_eq(nd, 1);
    cr_assert_eq(deleted[0].from, 3 * 4096, "the whole of the row that was cut");
    cr_assert_eq(deleted[0].to, 4 * 4096);
    cr_assert_eq(ne, 3);
    for (unsigned k = 0; k < ne; k++)
        unref(NULL, extents[k].stored);
    free(deleted);
    free(extents);
    punch(m, 30000, 39000); /* what lies there ends at 32768 */
    commit(m);
    punch(m, 33000, 39000); /* nothing there: nothing changes */
    cr_assert_eq(m->map.nchanged, 0);
    model_free(m);
}

Test(vfs_map, a_cut_piece_holds_only_its_granules)
{
    struct sfs_map map;
    struct sfs_stored *s = new_stored(1, 0, 1 << 20);
    struct sfs_extent e = {.off = 0, .len = 1 << 20, .stored = s};

    sfs_map_init(&map, &ops, NULL);
    cr_assert_eq(sfs_map_prepare(&map, 1), 0);
    sfs_map_insert(&map, &e, true);
    cr_assert_eq(map.nchanged, 0, "what is loaded has not changed");
    cr_assert_eq(sfs_map_prepare(&map, 0), 0);
    sfs_map_punch(&map, 200000, 900000);
    cr_assert_eq(sfs_map_find(&map, 0)->e.stored->rlen, 4 * 65536);
    struct sfs_map_node *right = sfs_map_find(&map, 300000);
    cr_assert_eq(right->e.off, 900000);
    cr_assert_eq(right->e.stored->start, 13 * 65536);
    cr_assert_eq(right->e.skip, 900000 - 13 * 65536);
    sfs_map_clear(&map);
    cr_assert_eq(live, 0);
}

Test(vfs_map, shifting)
{
    struct model *m = model_new();

    put(m, 0, 4096);
    put(m, 8192, 5000);
    put(m, 20000, 100);
    commit(m);
    cr_assert_eq(sfs_map_prepare(&m->map, 0), 0);
    sfs_map_shift(&m->map, 8192, 4096);
    memmove(m->bytes + 12288, m->bytes + 8192, SPAN - 12288);
    memset(m->bytes + 8192, 0, 4096);
    check_bytes(m);
    commit(m);
    cr_assert_eq(sfs_map_prepare(&m->map, 0), 0);
    sfs_map_shift(&m->map, 12288, -8192);
    memmove(m->bytes + 4096, m->bytes + 12288, SPAN - 12288);
    memset(m->bytes + SPAN - 8192, 0, 8192);
    check_bytes(m);
    commit(m);
    model_free(m);
}

/* Any sequence of writes, punches and commits: M1 to M3 hold, and the rows end up saying what the map says.
 * */
static void random_changes(unsigned seed)
{
    struct model *m = model_new();

    srand(seed);
    for (unsigned step = 0; step < 600; step++) {
        uint64_t off = (uint64_t)rand() % (SPAN - 1), len = 1 + (uint64_t)rand() % (rand() % 4 ? 700 : 9000);
        if (len > SPAN - off)
            len = SPAN - off;
        trim_fails = rand() % 5 == 0;
        switch (rand() % 8) {
        case 0:
            commit(m);
            break;
        case 1:
        case 2:
            punch(m, off, off + len);
            break;
        default:
            put(m, off, (uint32_t)len);
        }
        check_bytes(m);
    }
    commit(m);
    trim_fails = false;
    model_free(m);
}

Test(vfs_map, random_changes)
{
    for (unsigned seed = 1; seed <= 30; seed++)
        random_changes(seed);
}
