/* Extents: which bytes of a file lie where. */
#include "meta/catalog_impl.h"

#include <string.h>

#define BLOCK 4096u      /* SFS_BLOCK of fs/layout, which this layer doesn't see: part of the format */
#define DELETE_BATCH 64u /* rows read before they are deleted */

static unsigned csums_expected(const struct sfs_extent_row *row)
{
    if (row->codec != SFS_CODEC_NONE)
        return 1;
    return (row->rlen + SFS_CSUM_GRANULE - 1) / SFS_CSUM_GRANULE;
}

/* What holds for every row, whether it comes from a caller or from the database. */
static bool valid(const struct sfs_extent_row *row)
{
    return row->len > 0 && row->slen > 0 && row->slen <= SFS_EXTENT_MAX && row->rlen > 0 &&
           row->rlen <= SFS_EXTENT_MAX && row->skip < row->rlen && row->len <= row->rlen - row->skip &&
           row->off <= (uint64_t)INT64_MAX - row->len && row->goff % BLOCK == 0 &&
           row->goff <= (uint64_t)INT64_MAX / 2 && row->group > 0 && row->codec <= SFS_CODEC_ZSTD &&
           (row->codec != SFS_CODEC_NONE || row->rlen == row->slen) && row->ncsum == csums_expected(row);
}

/* Columns off, len, skip, grp, goff, slen, rlen, codec, csum. */
static int decode(sqlite3_stmt *st, struct sfs_extent_row *row)
{
    bool ok = true;
    size_t len;
    memset(row, 0, sizeof(*row));
    row->off = sfs_col_uint(st, 0, INT64_MAX, &ok);
    row->skip = (uint32_t)sfs_col_uint(st, 2, SFS_EXTENT_MAX, &ok);
    row->group = sfs_col_uint(st, 3, INT64_MAX, &ok);
    row->goff = sfs_col_uint(st, 4, INT64_MAX / 2 / BLOCK, &ok) * BLOCK;
    row->slen = (uint32_t)sfs_col_uint(st, 5, SFS_EXTENT_MAX, &ok);
    row->rlen = row->slen;
    if (sqlite3_column_type(st, 6) != SQLITE_NULL)
        row->rlen = (uint32_t)sfs_col_uint(st, 6, SFS_EXTENT_MAX, &ok);
    row->codec = (uint8_t)sfs_col_uint(st, 7, UINT8_MAX, &ok);
    row->len = row->rlen > row->skip ? row->rlen - row->skip : 0;
    if (sqlite3_column_type(st, 1) != SQLITE_NULL)
        row->len = (uint32_t)sfs_col_uint(st, 1, SFS_EXTENT_MAX, &ok);
    const uint8_t *p = sfs_col_blob(st, 8, 8, 8 * SFS_EXTENT_MAX_CSUMS, &len, &ok);
    if (!ok || len % 8)
        return -EUCLEAN;
    row->ncsum = (uint8_t)(len / 8);
    for (unsigned i = 0; i < row->ncsum; i++)
        for (unsigned b = 0; b < 8; b++)
            row->csum[i] |= (uint64_t)p[8 * i + b] << (8 * b);
    return valid(row) ? 0 : -EUCLEAN;
}

int sfs_catalog_extent_list(struct sfs_catalog *cat, uint64_t ino, uint64_t from, struct sfs_extent_row *rows,
                            unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    *n = 0;
    if (from > INT64_MAX)
        return 0;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_LIST, SFS_ARGS(SFS_INT(ino), SFS_INT(from)), &st);
    if (rc)
        return rc;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        rc = decode(st, &rows[*n]);
        if (rc)
            break;
        if (rows[*n].off + rows[*n].len > from)
            ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_LIST);
    return rc < 0 ? rc : 0;
}

/* Reads up to max rows that begin in [from, to). */
static int read_range(struct sfs_catalog *cat, uint64_t ino, uint64_t from, uint64_t to,
                      struct sfs_extent_row *rows, unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_RANGE,
                           SFS_ARGS(SFS_INT(ino), SFS_INT(from), SFS_INT(to), SFS_INT(max)), &st);
    if (rc)
        return rc;
    *n = 0;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        rc = decode(st, &rows[*n]);
        if (rc)
            break;
        if (rows[*n].off + rows[*n].len > to) {
            rc = -EINVAL;
            break;
        }
        ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_RANGE);
    return rc < 0 ? rc : 0;
}

int sfs_catalog_extent_delete(struct sfs_catalog *cat, uint64_t ino, uint64_t from, uint64_t to, unsigned max,
                              void (*removed)(const struct sfs_extent_row *, void *), void *ctx, unsigned *n)
{
    struct sfs_extent_row rows[DELETE_BATCH];
    if (n)
        *n = 0;
    if (to > INT64_MAX)
        to = INT64_MAX;
    for (unsigned total = 0; from < to && (max == 0 || total < max);) {
        unsigned want = max == 0 || max - total > DELETE_BATCH ? DELETE_BATCH : max - total, got = 0;
        int rc = read_range(cat, ino, from, to, rows, want, &got);
        if (rc || got == 0)
            return rc;
        rc = sfs_stmt_run(cat, SFS_STMT_EXTENT_DELETE_RANGE,
                          SFS_ARGS(SFS_INT(ino), SFS_INT(rows[0].off), SFS_INT(rows[got - 1].off)));
        if (rc < 0)
            return rc;
        for (unsigned i = 0; i < got; i++)
            if (removed)
                removed(&rows[i], ctx);
        from = rows[got - 1].off + rows[got - 1].len;
        total += got;
        if (n)
            *n = total;
        if (got < want)
            break;
    }
    return 0;
}

int sfs_catalog_extent_insert(struct sfs_catalog *cat, uint64_t ino, const struct sfs_extent_row *row)
{
    uint8_t csum[8 * SFS_EXTENT_MAX_CSUMS];
    SFS_ASSERT(valid(row));
    for (unsigned i = 0; i < row->ncsum; i++)
        for (unsigned b = 0; b < 8; b++)
            csum[8 * i + b] = (uint8_t)(row->csum[i] >> (8 * b));
    int rc = sfs_stmt_run(cat, SFS_STMT_EXTENT_INSERT,
                          SFS_ARGS(SFS_INT(ino), SFS_INT(row->off),
                                   row->len == row->rlen - row->skip ? SFS_NULL : SFS_INT(row->len),
                                   SFS_INT(row->skip), SFS_INT(row->group), SFS_INT(row->goff / BLOCK),
                                   SFS_INT(row->slen),
                                   row->codec == SFS_CODEC_NONE ? SFS_NULL : SFS_INT(row->rlen),
                                   SFS_INT(row->codec), SFS_BLOB(csum, 8u * row->ncsum)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_group_ranges(struct sfs_catalog *cat, uint64_t group, uint64_t from, uint64_t to,
                             int (*fn)(uint64_t goff, uint32_t slen, void *ctx), void *ctx)
{
    /* The longest extent that begins before `from` and reaches into the range. */
    uint64_t first = from > SFS_EXTENT_MAX ? (from - SFS_EXTENT_MAX) / BLOCK : 0;
    if (from >= to)
        return 0;
    if (to > INT64_MAX)
        to = INT64_MAX;
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_GROUP_RANGES,
                           SFS_ARGS(SFS_INT(group), SFS_INT(first), SFS_INT((to - 1) / BLOCK + 1)), &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        uint64_t goff = sfs_col_uint(st, 0, INT64_MAX / 2 / BLOCK, &ok) * BLOCK;
        uint32_t slen = (uint32_t)sfs_col_uint(st, 1, SFS_EXTENT_MAX, &ok);
        if (!ok || slen == 0) {
            rc = -EUCLEAN;
            break;
        }
        uint64_t end = goff + (slen + BLOCK - 1) / BLOCK * BLOCK;
        if (end <= from || goff >= to)
            continue;
        rc = fn(goff, slen, ctx);
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_GROUP_RANGES);
    return rc;
}

int sfs_catalog_group_extents(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff,
                              struct sfs_group_extent *rows, unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    *n = 0;
    if (from_goff > INT64_MAX)
        return 0;
    int rc =
        sfs_stmt_open(cat, SFS_STMT_EXTENT_GROUP_ROWS,
                      SFS_ARGS(SFS_INT(group), SFS_INT((from_goff + BLOCK - 1) / BLOCK), SFS_INT(max)), &st);
    if (rc)
        return rc;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        rc = decode(st, &rows[*n].row);
        rows[*n].ino = sfs_col_uint(st, 9, INT64_MAX, &ok);
        if (rc || !ok) {
            rc = -EUCLEAN;
            break;
        }
        ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_GROUP_ROWS);
    return rc < 0 ? rc : 0;
}

static int walk_group(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff, bool each,
                      int (*fn)(const struct sfs_group_extent *, void *), void *ctx)
{
    sqlite3_stmt *st;
    struct sfs_group_extent e = {0};
    if (from_goff > INT64_MAX)
        return 0;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_GROUP_ROWS,
                           SFS_ARGS(SFS_INT(group), SFS_INT((from_goff + BLOCK - 1) / BLOCK), SFS_INT(-1)), &st);
    if (rc)
        return rc;
    bool any = false;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        uint64_t goff = sfs_col_uint(st, 4, INT64_MAX / 2 / BLOCK, &ok) * BLOCK;
        uint64_t slen = sfs_col_uint(st, 5, SFS_EXTENT_MAX, &ok);
        if (!each && ok && any && goff == e.row.goff && slen == e.row.slen)
            continue; /* another piece, or a clone */
        rc = decode(st, &e.row);
        e.ino = sfs_col_uint(st, 9, INT64_MAX, &ok);
        if (!rc && !ok)
            rc = -EUCLEAN;
        if (!rc)
            rc = fn(&e, ctx);
        if (rc)
            break;
        any = true;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_GROUP_ROWS);
    return rc;
}

int sfs_catalog_group_stored(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff,
                             int (*fn)(const struct sfs_group_extent *, void *), void *ctx)
{
    return walk_group(cat, group, from_goff, false, fn, ctx);
}

int sfs_catalog_group_rows(struct sfs_catalog *cat, uint64_t group, uint64_t from_goff,
                           int (*fn)(const struct sfs_group_extent *, void *), void *ctx)
{
    return walk_group(cat, group, from_goff, true, fn, ctx);
}

int sfs_catalog_group_move(struct sfs_catalog *cat, uint64_t group, uint64_t from, uint64_t to,
                           uint64_t new_group, uint64_t goff)
{
    SFS_ASSERT(from % BLOCK == 0 && to % BLOCK == 0 && goff % BLOCK == 0 && group != new_group);
    int rc = sfs_stmt_run(cat, SFS_STMT_EXTENT_GROUP_MOVE,
                          SFS_ARGS(SFS_INT(group), SFS_INT(from / BLOCK), SFS_INT(to / BLOCK),
                                   SFS_INT(new_group), SFS_INT(goff / BLOCK)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_group_uses(struct sfs_catalog *cat, uint64_t group, const struct sfs_group_use *after,
                           struct sfs_group_use *rows, unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    *n = 0;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_GROUP_USES,
                           SFS_ARGS(SFS_INT(group), SFS_INT(after->goff / BLOCK), SFS_INT(after->slen),
                                    SFS_INT(after->ino), SFS_INT(after->off), SFS_INT(max)),
                           &st);
    if (rc)
        return rc;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        struct sfs_group_use *u = &rows[*n];
        u->goff = sfs_col_uint(st, 0, INT64_MAX / 2 / BLOCK, &ok) * BLOCK;
        u->slen = sfs_col_uint(st, 1, SFS_EXTENT_MAX, &ok);
        u->ino = sfs_col_uint(st, 2, INT64_MAX, &ok);
        u->off = sfs_col_uint(st, 3, INT64_MAX, &ok);
        if (!ok || u->slen == 0) {
            rc = -EUCLEAN;
            break;
        }
        ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_EXTENT_GROUP_USES);
    return rc < 0 ? rc : 0;
}
