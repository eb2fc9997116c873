/* Slab groups and their slabs. */
#include "meta/catalog_impl.h"

#include <string.h>

#define COLUMNS_LIMIT 64u
#define COPIES_LIMIT 8u
#define RESILIENCY_LIMIT 4u

int sfs_catalog_group_put(struct sfs_catalog *cat, struct sfs_group_row *row)
{
    enum sfs_stmt id = row->id ? SFS_STMT_GROUP_UPDATE : SFS_STMT_GROUP_INSERT;
    uint64_t group = row->id ? row->id : cat->next_group;
    int rc = sfs_stmt_run(cat, id,
                          SFS_ARGS(SFS_INT(group), SFS_INT(row->space), SFS_INT(row->resiliency),
                                   SFS_INT(row->columns), SFS_INT(row->interleave), SFS_INT(row->kind),
                                   SFS_INT(row->state)));
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    if (!row->id) {
        row->id = group;
        cat->next_group++;
    }
    return 0;
}

int sfs_catalog_group_delete(struct sfs_catalog *cat, uint64_t id)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_EXTENT_GROUP_ANY, SFS_ARGS(SFS_INT(id)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    sfs_stmt_close(cat, SFS_STMT_EXTENT_GROUP_ANY);
    if (rc)
        return rc < 0 ? rc : -EBUSY; /* extents lie in it */
    rc = sfs_stmt_run(cat, SFS_STMT_SLAB_DELETE_GROUP, SFS_ARGS(SFS_INT(id)));
    if (rc < 0)
        return rc;
    rc = sfs_stmt_run(cat, SFS_STMT_GROUP_DELETE, SFS_ARGS(SFS_INT(id)));
    return rc < 0 ? rc : rc == 0 ? -ENOENT : 0;
}

int sfs_catalog_group_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_group_row *, void *),
                           void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_GROUP_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_group_row row = {0};
        bool ok = true;
        row.id = sfs_col_uint(st, 0, INT64_MAX, &ok);
        row.space = (int)sfs_col_uint(st, 1, INT32_MAX, &ok);
        row.resiliency = (int)sfs_col_uint(st, 2, RESILIENCY_LIMIT, &ok);
        row.columns = (unsigned)sfs_col_uint(st, 3, COLUMNS_LIMIT, &ok);
        row.interleave = (uint32_t)sfs_col_uint(st, 4, UINT32_MAX, &ok);
        row.kind = (enum sfs_group_kind)sfs_col_uint(st, 5, SFS_GROUP_LANDING, &ok);
        row.state = (enum sfs_group_state)sfs_col_uint(st, 6, SFS_GROUP_SEALED, &ok);
        rc = ok ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_GROUP_EACH);
    return rc;
}

int sfs_catalog_slab_put(struct sfs_catalog *cat, const struct sfs_slab_row *row)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_SLAB_PUT,
                          SFS_ARGS(SFS_INT(row->group), SFS_INT(row->column), SFS_INT(row->copy),
                                   SFS_INT(row->disk), SFS_INT(row->slot)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_slab_each(struct sfs_catalog *cat, uint64_t group,
                          int (*fn)(const struct sfs_slab_row *, void *), void *ctx)
{
    enum sfs_stmt id = group ? SFS_STMT_SLAB_OF_GROUP : SFS_STMT_SLAB_EACH;
    struct sfs_arg arg = SFS_INT(group);
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, id, &arg, group ? 1 : 0, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_slab_row row = {0};
        bool ok = true;
        row.group = sfs_col_uint(st, 0, INT64_MAX, &ok);
        row.column = (unsigned)sfs_col_uint(st, 1, COLUMNS_LIMIT - 1, &ok);
        row.copy = (unsigned)sfs_col_uint(st, 2, COPIES_LIMIT - 1, &ok);
        row.disk = (int)sfs_col_uint(st, 3, INT32_MAX, &ok);
        row.slot = (uint32_t)sfs_col_uint(st, 4, UINT32_MAX, &ok);
        rc = ok ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, id);
    return rc;
}
