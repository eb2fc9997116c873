/* Pool properties, disks, spaces. */
#include "meta/catalog_impl.h"

#include <stdlib.h>
#include <string.h>

int sfs_catalog_prop_get(struct sfs_catalog *cat, const char *key, char *out, size_t cap)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_PROP_GET, SFS_ARGS(SFS_TEXT(key)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        rc = 0;
        if ((size_t)sqlite3_column_bytes(st, 0) >= cap)
            rc = -ERANGE;
        else
            sfs_col_text(st, 0, out, cap, &ok);
        rc = rc ? rc : ok ? 0 : -EUCLEAN;
    } else if (rc == 0) {
        rc = -ENOENT;
    }
    sfs_stmt_close(cat, SFS_STMT_PROP_GET);
    return rc;
}

int sfs_catalog_prop_set(struct sfs_catalog *cat, const char *key, const char *value)
{
    int rc;
    if (value)
        rc = sfs_stmt_run(cat, SFS_STMT_PROP_SET, SFS_ARGS(SFS_TEXT(key), SFS_TEXT(value)));
    else
        rc = sfs_stmt_run(cat, SFS_STMT_PROP_DELETE, SFS_ARGS(SFS_TEXT(key)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_disk_put(struct sfs_catalog *cat, struct sfs_disk_row *row)
{
    enum sfs_stmt id = row->id ? SFS_STMT_DISK_UPDATE : SFS_STMT_DISK_INSERT;
    int64_t disk = row->id ? row->id : (int64_t)cat->next_disk;
    if (disk > INT32_MAX)
        return -EOVERFLOW;
    int rc = sfs_stmt_run(
        cat, id,
        SFS_ARGS(SFS_INT(disk), SFS_BLOB(row->uuid.b, sizeof(row->uuid.b)), SFS_TEXT(row->name),
                 SFS_INT(row->kind), SFS_INT(row->media), SFS_INT(row->usage), SFS_TEXT(row->path),
                 SFS_INT(row->capacity_slabs), SFS_INT(row->lost_since), SFS_INT(row->read_errors),
                 SFS_INT(row->write_errors), SFS_INT(row->checksum_errors), SFS_INT(row->replica),
                 SFS_INT(row->label_seen), SFS_INT(row->suspect)));
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    if (!row->id) {
        row->id = (int)disk;
        cat->next_disk++;
    }
    return 0;
}

int sfs_catalog_disk_delete(struct sfs_catalog *cat, int id)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_DISK_DELETE, SFS_ARGS(SFS_INT(id)));
    return rc < 0 ? rc : rc == 0 ? -ENOENT : 0;
}

static bool decode_disk(sqlite3_stmt *st, struct sfs_disk_row *row)
{
    bool ok = true;
    size_t len;
    memset(row, 0, sizeof(*row));
    row->id = (int)sfs_col_uint(st, 0, INT32_MAX, &ok);
    const void *uuid = sfs_col_blob(st, 1, sizeof(row->uuid.b), sizeof(row->uuid.b), &len, &ok);
    if (ok)
        memcpy(row->uuid.b, uuid, sizeof(row->uuid.b));
    sfs_col_text(st, 2, row->name, sizeof(row->name), &ok);
    row->kind = (int)sfs_col_uint(st, 3, 16, &ok);
    row->media = (int)sfs_col_uint(st, 4, 16, &ok);
    row->usage = (enum sfs_usage)sfs_col_uint(st, 5, SFS_USAGE_RETIRED, &ok);
    sfs_col_text(st, 6, row->path, sizeof(row->path), &ok);
    row->capacity_slabs = sfs_col_uint(st, 7, UINT32_MAX, &ok);
    row->lost_since = sfs_col_int(st, 8, &ok);
    row->read_errors = sfs_col_uint(st, 9, INT64_MAX, &ok);
    row->write_errors = sfs_col_uint(st, 10, INT64_MAX, &ok);
    row->checksum_errors = sfs_col_uint(st, 11, INT64_MAX, &ok);
    row->replica = sfs_col_uint(st, 12, 1, &ok) == 1;
    row->label_seen = sfs_col_uint(st, 13, INT64_MAX, &ok);
    row->suspect = sfs_col_uint(st, 14, 1, &ok) == 1;
    return ok;
}

int sfs_catalog_disk_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_disk_row *, void *), void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_DISK_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_disk_row row;
        rc = decode_disk(st, &row) ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_DISK_EACH);
    return rc;
}

static int add_count(struct sfs_catalog *cat, int space)
{
    struct sfs_inode_count *v = realloc(cat->counts, (cat->ncounts + 1) * sizeof(*v));
    if (!v)
        return -ENOMEM;
    cat->counts = v;
    v[cat->ncounts++] = (struct sfs_inode_count){.space = space};
    return 0;
}

int sfs_catalog_space_put(struct sfs_catalog *cat, struct sfs_space_row *row)
{
    enum sfs_stmt id = row->id ? SFS_STMT_SPACE_UPDATE : SFS_STMT_SPACE_INSERT;
    int64_t space = row->id ? row->id : (int64_t)cat->next_space;
    if (space > INT32_MAX)
        return -EOVERFLOW;
    int rc =
        sfs_stmt_run(cat, id,
                     SFS_ARGS(SFS_INT(space), SFS_TEXT(row->name), SFS_INT(row->root_ino),
                              SFS_INT(row->resiliency), SFS_INT(row->columns), SFS_INT(row->interleave),
                              SFS_INT(row->size_bytes), SFS_INT(row->fixed), SFS_INT(row->codec),
                              SFS_INT(row->codec_level), SFS_INT(row->created), SFS_INT(row->destroying)));
    if (rc < 0)
        return rc;
    if (rc == 0)
        return -ENOENT;
    if (!row->id) {
        rc = add_count(cat, (int)space);
        if (rc) {
            sfs_catalog_break(cat); /* the row is there, its counter isn't */
            return rc;
        }
        row->id = (int)space;
        cat->next_space++;
    }
    return 0;
}

int sfs_catalog_space_delete(struct sfs_catalog *cat, int id)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_SPACE_DELETE, SFS_ARGS(SFS_INT(id)));
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < cat->ncounts; i++) {
        if (cat->counts[i].space == id) {
            cat->counts[i] = cat->counts[--cat->ncounts];
            break;
        }
    }
    return rc == 0 ? -ENOENT : 0;
}

static bool decode_space(sqlite3_stmt *st, struct sfs_space_row *row)
{
    bool ok = true;
    memset(row, 0, sizeof(*row));
    row->id = (int)sfs_col_uint(st, 0, INT32_MAX, &ok);
    sfs_col_text(st, 1, row->name, sizeof(row->name), &ok);
    row->root_ino = sfs_col_uint(st, 2, INT64_MAX, &ok);
    row->resiliency = (int)sfs_col_uint(st, 3, 4, &ok);
    row->columns = (unsigned)sfs_col_uint(st, 4, 64, &ok);
    row->interleave = (uint32_t)sfs_col_uint(st, 5, UINT32_MAX, &ok);
    row->size_bytes = sfs_col_uint(st, 6, INT64_MAX, &ok);
    row->fixed = sfs_col_uint(st, 7, 1, &ok) == 1;
    row->codec = (enum sfs_codec)sfs_col_uint(st, 8, SFS_CODEC_ZSTD, &ok);
    row->codec_level = (int)sfs_col_int(st, 9, &ok);
    row->created = sfs_col_int(st, 10, &ok);
    row->destroying = sfs_col_uint(st, 11, 1, &ok) == 1;
    return ok;
}

int sfs_catalog_space_each(struct sfs_catalog *cat, int (*fn)(const struct sfs_space_row *, void *),
                           void *ctx)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_SPACE_EACH, SFS_NO_ARGS, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        struct sfs_space_row row;
        rc = decode_space(st, &row) ? fn(&row, ctx) : -EUCLEAN;
        if (rc)
            break;
    }
    sfs_stmt_close(cat, SFS_STMT_SPACE_EACH);
    return rc;
}
