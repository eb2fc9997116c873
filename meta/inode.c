/* Inodes, inline contents, orphans. */
#include "meta/catalog_impl.h"

#include <string.h>

uint64_t sfs_catalog_ino_alloc(struct sfs_catalog *cat)
{
    sfs_mutex_assert_held(&cat->lock);
    return cat->next_ino++;
}

static void time_of(sqlite3_stmt *st, int col, struct sfs_time *out, bool *ok)
{
    out->sec = sfs_col_int(st, col, ok);
    out->nsec = (uint32_t)sfs_col_uint(st, col + 1, 999999999, ok);
}

int sfs_catalog_inode_get(struct sfs_catalog *cat, uint64_t ino, struct sfs_inode_row *row)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_INODE_GET, SFS_ARGS(SFS_INT(ino)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        memset(row, 0, sizeof(*row));
        row->ino = sfs_col_uint(st, 0, INT64_MAX, &ok);
        row->space = (int)sfs_col_uint(st, 1, INT32_MAX, &ok);
        row->mode = (uint32_t)sfs_col_uint(st, 2, UINT32_MAX, &ok);
        row->nlink = (uint32_t)sfs_col_uint(st, 3, UINT32_MAX, &ok);
        row->uid = (uint32_t)sfs_col_uint(st, 4, UINT32_MAX, &ok);
        row->gid = (uint32_t)sfs_col_uint(st, 5, UINT32_MAX, &ok);
        row->rdev = (uint64_t)sfs_col_int(st, 6, &ok);
        row->size = sfs_col_uint(st, 7, INT64_MAX, &ok);
        row->parent = sfs_col_uint(st, 8, INT64_MAX, &ok);
        row->flags = (uint32_t)sfs_col_uint(st, 9, UINT32_MAX, &ok);
        time_of(st, 10, &row->atime, &ok);
        time_of(st, 12, &row->mtime, &ok);
        time_of(st, 14, &row->ctime, &ok);
        time_of(st, 16, &row->btime, &ok);
        row->sectors = sfs_col_uint(st, 18, INT64_MAX, &ok);
        rc = ok ? 0 : -EUCLEAN;
    } else if (rc == 0) {
        rc = -ENOENT;
    }
    sfs_stmt_close(cat, SFS_STMT_INODE_GET);
    return rc;
}

static int put(struct sfs_catalog *cat, enum sfs_stmt id, const struct sfs_inode_row *row)
{
    if (row->size > INT64_MAX)
        return -EFBIG;
    return sfs_stmt_run(
        cat, id,
        SFS_ARGS(SFS_INT(row->ino), SFS_INT(row->space), SFS_INT(row->mode), SFS_INT(row->nlink),
                 SFS_INT(row->uid), SFS_INT(row->gid), SFS_INT(row->rdev), SFS_INT(row->size),
                 SFS_INT(row->parent), SFS_INT(row->flags), SFS_INT(row->atime.sec), SFS_INT(row->atime.nsec),
                 SFS_INT(row->mtime.sec), SFS_INT(row->mtime.nsec), SFS_INT(row->ctime.sec),
                 SFS_INT(row->ctime.nsec), SFS_INT(row->btime.sec), SFS_INT(row->btime.nsec),
                 SFS_INT(row->sectors)));
}

int sfs_catalog_inode_insert(struct sfs_catalog *cat, const struct sfs_inode_row *row)
{
    int rc = put(cat, SFS_STMT_INODE_INSERT, row);
    if (rc < 0)
        return rc;
    sfs_catalog_count_inodes(cat, row->space, 1);
    return 0;
}

int sfs_catalog_inode_update(struct sfs_catalog *cat, const struct sfs_inode_row *row)
{
    int rc = put(cat, SFS_STMT_INODE_UPDATE, row);
    if (rc < 0)
        return rc;
    return rc > 0 ? 0 : -ENOENT;
}

static int any(struct sfs_catalog *cat, enum sfs_stmt id, uint64_t key)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, id, SFS_ARGS(SFS_INT(key)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    sfs_stmt_close(cat, id);
    return rc;
}

int sfs_catalog_inode_delete(struct sfs_catalog *cat, uint64_t ino)
{
    struct sfs_inode_row row;
    int rc = sfs_catalog_inode_get(cat, ino, &row);
    if (rc)
        return rc;
    rc = any(cat, SFS_STMT_EXTENT_ANY, ino);
    if (rc)
        return rc < 0 ? rc : -EBUSY;
    rc = sfs_stmt_run(cat, SFS_STMT_INLINE_DELETE, SFS_ARGS(SFS_INT(ino)));
    if (rc >= 0 && (row.flags & SFS_INODE_HAS_XATTR))
        rc = sfs_stmt_run(cat, SFS_STMT_XATTR_DELETE_ALL, SFS_ARGS(SFS_INT(ino)));
    if (rc >= 0)
        rc = sfs_stmt_run(cat, SFS_STMT_INODE_DELETE, SFS_ARGS(SFS_INT(ino)));
    if (rc < 0)
        return rc;
    sfs_catalog_count_inodes(cat, row.space, -1);
    return 0;
}

int sfs_catalog_inline_get(struct sfs_catalog *cat, uint64_t ino, void *buf, size_t cap, size_t *len)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_INLINE_GET, SFS_ARGS(SFS_INT(ino)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        const void *p = sfs_col_blob(st, 0, 0, SFS_INLINE_LIMIT, len, &ok);
        rc = !ok ? -EUCLEAN : *len > cap ? -ERANGE : 0;
        if (!rc && *len)
            memcpy(buf, p, *len);
    } else if (rc == 0) {
        rc = -ENOENT;
    }
    sfs_stmt_close(cat, SFS_STMT_INLINE_GET);
    return rc;
}

int sfs_catalog_inline_set(struct sfs_catalog *cat, uint64_t ino, const void *data, size_t len)
{
    int rc;
    if (len > SFS_INLINE_LIMIT)
        return -EFBIG;
    if (!data && len == 0)
        rc = sfs_stmt_run(cat, SFS_STMT_INLINE_DELETE, SFS_ARGS(SFS_INT(ino)));
    else
        rc = sfs_stmt_run(cat, SFS_STMT_INLINE_SET, SFS_ARGS(SFS_INT(ino), SFS_BLOB(data, len)));
    return rc < 0 ? rc : 0;
}

static int next_of(struct sfs_catalog *cat, enum sfs_stmt which, int space, uint64_t after, uint64_t *ino)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, which, SFS_ARGS(SFS_INT(space), SFS_INT(after)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        *ino = sfs_col_uint(st, 0, INT64_MAX, &ok);
        rc = ok ? 0 : -EUCLEAN;
    } else if (rc == 0) {
        rc = -ENOENT;
    }
    sfs_stmt_close(cat, which);
    return rc;
}

int sfs_catalog_orphan_next(struct sfs_catalog *cat, int space, uint64_t after, uint64_t *ino)
{
    return next_of(cat, SFS_STMT_INODE_ORPHAN, space, after, ino);
}

int sfs_catalog_space_inode_next(struct sfs_catalog *cat, int space, uint64_t after, uint64_t *ino)
{
    return next_of(cat, SFS_STMT_INODE_NEXT, space, after, ino);
}

int sfs_catalog_inode_count(struct sfs_catalog *cat, int space, uint64_t *count)
{
    sfs_mutex_assert_held(&cat->lock);
    for (unsigned i = 0; i < cat->ncounts; i++) {
        if (cat->counts[i].space == space) {
            *count = cat->counts[i].count > 0 ? (uint64_t)cat->counts[i].count : 0;
            return 0;
        }
    }
    return -ENOENT;
}
