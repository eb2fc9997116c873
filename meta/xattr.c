/* Extended attributes. */
#include "meta/catalog_impl.h"

#include <string.h>

#define XATTR_NAME_LIMIT 255u
#define XATTR_VALUE_LIMIT 65536u

int sfs_catalog_xattr_get(struct sfs_catalog *cat, uint64_t ino, const char *name, void *buf, size_t cap,
                          size_t *len)
{
    sqlite3_stmt *st;
    int rc =
        sfs_stmt_open(cat, SFS_STMT_XATTR_GET, SFS_ARGS(SFS_INT(ino), SFS_BLOB(name, strlen(name))), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        const void *p = sfs_col_blob(st, 0, 0, XATTR_VALUE_LIMIT, len, &ok);
        rc = !ok ? -EUCLEAN : cap && *len > cap ? -ERANGE : 0;
        if (!rc && cap && *len)
            memcpy(buf, p, *len);
    } else if (rc == 0) {
        rc = -ENODATA;
    }
    sfs_stmt_close(cat, SFS_STMT_XATTR_GET);
    return rc;
}

int sfs_catalog_xattr_set(struct sfs_catalog *cat, uint64_t ino, const char *name, const void *value,
                          size_t len, bool create, bool replace)
{
    size_t name_len = strlen(name);
    if (name_len == 0 || name_len > XATTR_NAME_LIMIT)
        return -ERANGE;
    if (len > XATTR_VALUE_LIMIT)
        return -E2BIG;
    enum sfs_stmt id = create ? SFS_STMT_XATTR_INSERT : replace ? SFS_STMT_XATTR_UPDATE : SFS_STMT_XATTR_PUT;
    int rc = sfs_stmt_run(cat, id, SFS_ARGS(SFS_INT(ino), SFS_BLOB(name, name_len), SFS_BLOB(value, len)));
    if (rc == 0)
        return create ? -EEXIST : -ENODATA;
    return rc < 0 ? rc : 0;
}

int sfs_catalog_xattr_delete(struct sfs_catalog *cat, uint64_t ino, const char *name)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_XATTR_DELETE, SFS_ARGS(SFS_INT(ino), SFS_BLOB(name, strlen(name))));
    return rc < 0 ? rc : rc == 0 ? -ENODATA : 0;
}

int sfs_catalog_xattr_list(struct sfs_catalog *cat, uint64_t ino, char *buf, size_t cap, size_t *len)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_XATTR_LIST, SFS_ARGS(SFS_INT(ino)), &st);
    if (rc)
        return rc;
    *len = 0;
    while ((rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        size_t n;
        const void *name = sfs_col_blob(st, 0, 1, XATTR_NAME_LIMIT, &n, &ok);
        if (!ok || memchr(name, 0, n)) {
            rc = -EUCLEAN;
            break;
        }
        if (cap && *len + n + 1 > cap) {
            rc = -ERANGE;
            break;
        }
        if (cap) {
            memcpy(buf + *len, name, n);
            buf[*len + n] = '\0';
        }
        *len += n + 1;
    }
    sfs_stmt_close(cat, SFS_STMT_XATTR_LIST);
    return rc;
}
