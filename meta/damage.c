/* Damaged places, and what the last scrub found. */
#include "meta/catalog_impl.h"

#include <string.h>

#define BLOCK 4096u /* SFS_BLOCK of fs/layout, which this layer doesn't see: part of the format */
#define FINDINGS_MAX 10000

int sfs_catalog_damage_put(struct sfs_catalog *cat, const struct sfs_damage_row *row)
{
    SFS_ASSERT(row->goff % BLOCK == 0 && row->len > 0 && row->len <= SFS_EXTENT_MAX);
    int rc = sfs_stmt_run(cat, SFS_STMT_DAMAGE_PUT,
                          SFS_ARGS(SFS_INT(row->group), SFS_INT(row->goff / BLOCK), SFS_INT(row->len),
                                   SFS_INT(row->found)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_damage_delete(struct sfs_catalog *cat, uint64_t group, uint64_t goff)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_DAMAGE_DELETE, SFS_ARGS(SFS_INT(group), SFS_INT(goff / BLOCK)));
    return rc < 0 ? rc : 0;
}

static bool decode_damage(sqlite3_stmt *st, struct sfs_damage_row *row)
{
    bool ok = true;
    row->group = sfs_col_uint(st, 0, INT64_MAX, &ok);
    row->goff = sfs_col_uint(st, 1, INT64_MAX / 2 / BLOCK, &ok) * BLOCK;
    row->len = (uint32_t)sfs_col_uint(st, 2, SFS_EXTENT_MAX, &ok);
    row->found = sfs_col_int(st, 3, &ok);
    return ok && row->len > 0;
}

int sfs_catalog_damage_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_damage_row *, void *), void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_DAMAGE_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_damage_row row;
        rc = decode_damage(st, &row) ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_DAMAGE_EACH);
    return rc;
}

static int count_findings(struct sfs_catalog *cat, uint64_t *count)
{
    sqlite3_stmt *st;
    bool ok = true;
    int rc = sfs_stmt_open(cat, SFS_STMT_FINDING_COUNT, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    *count = rc == 1 ? sfs_col_uint(st, 0, INT64_MAX, &ok) : 0;
    sfs_stmt_close(cat, SFS_STMT_FINDING_COUNT);
    return rc < 0 ? rc : ok ? 0 : -EUCLEAN;
}

int sfs_catalog_finding_add(struct sfs_catalog *cat, const struct sfs_finding_row *row)
{
    uint64_t count;
    int rc = count_findings(cat, &count);
    if (!rc && count >= FINDINGS_MAX)
        return -ENOSPC;
    if (!rc)
        rc = sfs_stmt_run(cat, SFS_STMT_FINDING_ADD,
                          SFS_ARGS(SFS_INT(row->ino), SFS_INT(row->disk), SFS_INT(row->blocks)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_finding_clear(struct sfs_catalog *cat)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_FINDING_CLEAR, SFS_NO_ARGS);
    return rc < 0 ? rc : 0;
}

int sfs_catalog_finding_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_finding_row *, void *), void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_FINDING_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        struct sfs_finding_row row = {.ino = sfs_col_uint(st, 0, INT64_MAX, &ok)};
        row.disk = (int)sfs_col_uint(st, 1, INT32_MAX, &ok);
        row.blocks = sfs_col_uint(st, 2, INT64_MAX, &ok);
        rc = ok ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_FINDING_EACH);
    return rc;
}
