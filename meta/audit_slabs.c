/* Slabs and what should lie in them, for who can read disks and compare: which of two slabs a slot really holds, and whose disk one is that has lost its label. */
#include "meta/audit_impl.h"

#include <string.h>

#define SLAB_COLUMNS "s.grp, s.col, s.copy, s.slot, g.resiliency, g.columns, g.interleave, d.uuid "
#define SLAB_TABLES "FROM slab s NOT INDEXED JOIN slab_group g ON g.id = s.grp JOIN disk d ON d.id = s.disk "
#define SOUND "s.slot BETWEEN 0 AND 4294967295 AND length(d.uuid) = 16 AND geo_capacity(g.resiliency, g.columns, g.interleave) > 0 AND s.col BETWEEN 0 AND g.columns - 1 AND s.copy BETWEEN 0 AND geo_copies(g.resiliency) - 1 "

struct slab_walk {
    int (*fn)(void *ctx, const struct sfs_audit_slab *s);
    void *ctx;
};

static int take_slab(void *ctx, sqlite3_stmt *row)
{
    struct slab_walk *w = ctx;
    struct sfs_audit_slab s = {
        .grp = sqlite3_column_int64(row, 0), .col = (unsigned)sqlite3_column_int64(row, 1), .copy = (unsigned)sqlite3_column_int64(row, 2), .slot = (uint32_t)sqlite3_column_int64(row, 3),
        .resiliency = (int)sqlite3_column_int64(row, 4), .columns = (unsigned)sqlite3_column_int64(row, 5), .interleave = (uint32_t)sqlite3_column_int64(row, 6)};
    memcpy(s.disk.b, sqlite3_column_blob(row, 7), sizeof(s.disk.b)); /* SOUND: 16 bytes */
    return w->fn(w->ctx, &s);
}

/* blob: 16 bytes for the parameter, else number. */
static int each_row(struct sfs_audit *a, const char *sql, const void *blob, int64_t number, int (*fn)(void *ctx, sqlite3_stmt *row), void *ctx)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL), stop = 0;
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(st) > 0)
        rc = blob ? sqlite3_bind_blob(st, 1, blob, 16, SQLITE_STATIC) : sqlite3_bind_int64(st, 1, number);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        stop = fn(ctx, st);
        if (stop)
            break;
    }
    rc = stop ? stop : sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

int sfs_audit_slabs_on(struct sfs_audit *a, const struct sfs_uuid *disk, int (*fn)(void *ctx, const struct sfs_audit_slab *s), void *ctx)
{
    struct slab_walk w = {fn, ctx};
    return each_row(a, "SELECT " SLAB_COLUMNS SLAB_TABLES "WHERE d.uuid = ?1 AND " SOUND "ORDER BY s.slot, s.grp", disk->b, 0, take_slab, &w);
}

int sfs_audit_slabs_contested(struct sfs_audit *a, int (*fn)(void *ctx, const struct sfs_audit_slab *s), void *ctx)
{
    struct slab_walk w = {fn, ctx};
    int rc = sfs_db_exec(a->db, "DELETE FROM temp.proof");
    return rc ? rc : each_row(a, "SELECT " SLAB_COLUMNS SLAB_TABLES "JOIN (SELECT disk, slot FROM slab NOT INDEXED WHERE disk <> 0 GROUP BY disk, slot HAVING count(*) > 1) x ON x.disk = s.disk AND x.slot = s.slot WHERE " SOUND "ORDER BY s.disk, s.slot, s.grp",
                              NULL, 0, take_slab, &w);
}

int sfs_audit_slab_proven(struct sfs_audit *a, const struct sfs_audit_slab *s, int64_t good)
{
    const int64_t v[] = {s->grp, s->col, s->copy, good};
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, "INSERT OR REPLACE INTO temp.proof (grp, col, copy, good) VALUES (?1, ?2, ?3, ?4)", -1, &st, NULL);
    for (int i = 0; rc == SQLITE_OK && i < 4; i++)
        rc = sqlite3_bind_int64(st, i + 1, v[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

struct extent_walk {
    int (*fn)(void *ctx, const struct sfs_audit_extent *e);
    void *ctx;
};

static int take_extent(void *ctx, sqlite3_stmt *row)
{
    struct extent_walk *w = ctx;
    struct sfs_audit_extent e = {.off = (uint64_t)sqlite3_column_int64(row, 0) * SFS_AUDIT_BLOCK, .slen = (uint32_t)sqlite3_column_int64(row, 1), .codec = (int)sqlite3_column_int64(row, 2),
                                 .csum = sqlite3_column_blob(row, 3), .ncsum = (unsigned)sqlite3_column_bytes(row, 3) / 8};
    return e.csum ? w->fn(w->ctx, &e) : 0;
}

int sfs_audit_group_extents(struct sfs_audit *a, int64_t grp, int (*fn)(void *ctx, const struct sfs_audit_extent *e), void *ctx)
{
    struct extent_walk w = {fn, ctx};
    return each_row(a, "SELECT goff, slen, codec, csum FROM extent WHERE grp = ?1 AND goff BETWEEN 0 AND 1125899906842623 AND slen BETWEEN 1 AND 1048576 AND codec IN (0, 1) "
                       "AND length(csum) = 8 * CASE codec WHEN 0 THEN (slen + 65535) / 65536 ELSE 1 END ORDER BY goff",
                    NULL, grp, take_extent, &w);
}

struct disk_walk {
    struct sfs_audit_disk_row *out;
};

static int take_disk(void *ctx, sqlite3_stmt *row)
{
    struct sfs_audit_disk_row *out = ((struct disk_walk *)ctx)->out;
    out->capacity_slabs = (uint64_t)sqlite3_column_int64(row, 0);
    out->kind = (int)sqlite3_column_int64(row, 1);
    return 1;
}

int sfs_audit_disk_find(struct sfs_audit *a, const struct sfs_uuid *disk, struct sfs_audit_disk_row *out)
{
    struct disk_walk w = {out};
    int rc = each_row(a, "SELECT capacity_slabs, kind FROM disk WHERE uuid = ?1 AND capacity_slabs BETWEEN 1 AND 268435456", disk->b, 0, take_disk, &w);
    return rc == 1 ? 0 : rc ? rc : -ENOENT;
}
