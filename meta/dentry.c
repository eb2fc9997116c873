/* Directory entries, keyed by a hash of the name (the cookie). Colliding names take the next free cookie of
 * PROBES; so a look-up reads that whole short range, whatever was deleted from it. */
#include "meta/catalog_impl.h"

#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#define PROBES 8
#define COOKIE_MIN 16
#define PATH_DEPTH_MAX 4096

uint64_t sfs_dentry_cookie(uint64_t seed, const void *name, size_t len)
{
    uint64_t h = XXH3_64bits_withSeed(name, len, seed) >> 1;
    if (h < COOKIE_MIN)
        h = COOKIE_MIN;
    if (h > INT64_MAX - PROBES)
        h = INT64_MAX - PROBES;
    return h;
}

/* Columns cookie, ino, type, name. */
static int decode(sqlite3_stmt *st, uint64_t parent, struct sfs_dentry_row *row)
{
    bool ok = true;
    size_t len;
    row->parent = parent;
    row->cookie = sfs_col_uint(st, 0, INT64_MAX, &ok);
    row->ino = sfs_col_uint(st, 1, INT64_MAX, &ok);
    row->type = (uint32_t)sfs_col_uint(st, 2, 15, &ok) << 12;
    const void *name = sfs_col_blob(st, 3, 1, SFS_FILENAME_MAX, &len, &ok);
    if (!ok || memchr(name, 0, len) || memchr(name, '/', len))
        return -EUCLEAN;
    memcpy(row->name, name, len);
    row->name[len] = '\0';
    row->name_len = (uint8_t)len;
    return 0;
}

/* Looks the name up. 0 and *row; or -ENOENT and *free_cookie: where it may go (0: all places are taken). */
static int find(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len,
                struct sfs_dentry_row *row, uint64_t *free_cookie)
{
    uint64_t first = sfs_dentry_cookie(cat->name_seed, name, len), next = first;
    sqlite3_stmt *st;
    int rc;
    if (len == 0 || len > SFS_FILENAME_MAX)
        return -ENAMETOOLONG;
    rc = sfs_stmt_open(cat, SFS_STMT_DENTRY_FIND,
                       SFS_ARGS(SFS_INT(parent), SFS_INT(first), SFS_INT(first + PROBES - 1)), &st);
    if (rc)
        return rc;
    bool found = false;
    while (!found && (rc = sfs_stmt_step(cat, st)) > 0) {
        rc = decode(st, parent, row);
        if (rc)
            break;
        if (row->cookie == next)
            next++;
        found = row->name_len == len && memcmp(row->name, name, len) == 0;
    }
    sfs_stmt_close(cat, SFS_STMT_DENTRY_FIND);
    if (rc < 0)
        return rc;
    if (free_cookie)
        *free_cookie = next < first + PROBES ? next : 0;
    return found ? 0 : -ENOENT;
}

int sfs_catalog_dentry_get(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len,
                           struct sfs_dentry_row *row)
{
    return find(cat, parent, name, len, row, NULL);
}

int sfs_catalog_dentry_insert(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len,
                              uint64_t ino, uint32_t type)
{
    struct sfs_dentry_row row;
    uint64_t cookie;
    int rc = find(cat, parent, name, len, &row, &cookie);
    if (rc == 0)
        return -EEXIST;
    if (rc != -ENOENT)
        return rc;
    if (!cookie)
        return -ENOSPC;
    rc = sfs_stmt_run(cat, SFS_STMT_DENTRY_INSERT,
                      SFS_ARGS(SFS_INT(parent), SFS_INT(cookie), SFS_INT(ino), SFS_INT((type & S_IFMT) >> 12),
                               SFS_BLOB(name, len)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_dentry_replace(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len,
                               uint64_t ino, uint32_t type)
{
    struct sfs_dentry_row row;
    int rc = find(cat, parent, name, len, &row, NULL);
    if (rc)
        return rc;
    rc = sfs_stmt_run(
        cat, SFS_STMT_DENTRY_REPLACE,
        SFS_ARGS(SFS_INT(parent), SFS_INT(row.cookie), SFS_INT(ino), SFS_INT((type & S_IFMT) >> 12)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_dentry_delete(struct sfs_catalog *cat, uint64_t parent, const char *name, size_t len)
{
    struct sfs_dentry_row row;
    int rc = find(cat, parent, name, len, &row, NULL);
    if (rc)
        return rc;
    rc = sfs_stmt_run(cat, SFS_STMT_DENTRY_DELETE, SFS_ARGS(SFS_INT(parent), SFS_INT(row.cookie)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_dentry_clear(struct sfs_catalog *cat, uint64_t parent)
{
    int rc = sfs_stmt_run(cat, SFS_STMT_DENTRY_CLEAR, SFS_ARGS(SFS_INT(parent)));
    return rc < 0 ? rc : 0;
}

int sfs_catalog_dentry_list(struct sfs_catalog *cat, uint64_t parent, uint64_t after_cookie,
                            struct sfs_dentry_row *rows, unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    *n = 0;
    if (after_cookie > INT64_MAX)
        return 0;
    int rc = sfs_stmt_open(cat, SFS_STMT_DENTRY_LIST,
                           SFS_ARGS(SFS_INT(parent), SFS_INT(after_cookie), SFS_INT(max)), &st);
    if (rc)
        return rc;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        rc = decode(st, parent, &rows[*n]);
        if (rc)
            break;
        ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_DENTRY_LIST);
    return rc < 0 ? rc : 0;
}

int sfs_catalog_dentry_empty(struct sfs_catalog *cat, uint64_t parent, bool *empty)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, SFS_STMT_DENTRY_LIST, SFS_ARGS(SFS_INT(parent), SFS_INT(0), SFS_INT(1)), &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    sfs_stmt_close(cat, SFS_STMT_DENTRY_LIST);
    *empty = rc == 0;
    return rc < 0 ? rc : 0;
}

/* An entry that names ino: in `parent`, or anywhere when that is 0. */
static int entry_of(struct sfs_catalog *cat, uint64_t ino, uint64_t parent, struct sfs_dentry_row *row)
{
    enum sfs_stmt id = parent ? SFS_STMT_DENTRY_IN_PARENT : SFS_STMT_DENTRY_OF_INO;
    struct sfs_arg args[2] = {SFS_INT(ino), SFS_INT(parent)};
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, id, args, parent ? 2 : 1, &st);
    if (rc)
        return rc;
    rc = sfs_stmt_step(cat, st);
    if (rc == 1) {
        bool ok = true;
        uint64_t above = sfs_col_uint(st, 4, INT64_MAX, &ok);
        rc = ok ? decode(st, above, row) : -EUCLEAN;
    } else if (rc == 0) {
        rc = -ENOENT;
    }
    sfs_stmt_close(cat, id);
    return rc;
}

int sfs_catalog_dentry_scan(struct sfs_catalog *cat, uint64_t parent, uint64_t cookie,
                            struct sfs_dentry_row *rows, unsigned max, unsigned *n)
{
    sqlite3_stmt *st;
    *n = 0;
    int rc = sfs_stmt_open(cat, SFS_STMT_DENTRY_SCAN,
                           SFS_ARGS(SFS_INT(parent), SFS_INT(cookie), SFS_INT(max)), &st);
    if (rc)
        return rc;
    while (*n < max && (rc = sfs_stmt_step(cat, st)) > 0) {
        bool ok = true;
        uint64_t above = sfs_col_uint(st, 4, INT64_MAX, &ok);
        rc = ok ? decode(st, above, &rows[*n]) : -EUCLEAN;
        if (rc)
            break;
        ++*n;
    }
    sfs_stmt_close(cat, SFS_STMT_DENTRY_SCAN);
    return rc < 0 ? rc : 0;
}

/* The path of ino, whose entry is looked for in `parent` (0: anywhere); directories know theirs. */
static int path_of(struct sfs_catalog *cat, uint64_t ino, uint64_t parent, char *out, size_t cap)
{
    struct sfs_inode_row inode;
    struct sfs_dentry_row row;
    size_t at = cap; /* built from the end */
    if (cap < 2)
        return -ERANGE;
    out[--at] = '\0';
    for (unsigned depth = 0; depth < PATH_DEPTH_MAX; depth++) {
        int rc = sfs_catalog_inode_get(cat, ino, &inode);
        if (rc)
            return rc;
        if (S_ISDIR(inode.mode) && inode.parent == ino) {
            if (out[at] == '\0')
                out[--at] = '/';
            memmove(out, out + at, cap - at);
            return 0;
        }
        rc = entry_of(cat, ino, S_ISDIR(inode.mode) ? inode.parent : depth ? 0 : parent, &row);
        if (rc)
            return rc;
        if (at < (size_t)row.name_len + 1)
            return -ERANGE;
        at -= row.name_len;
        memcpy(out + at, row.name, row.name_len);
        out[--at] = '/';
        ino = row.parent;
    }
    return -EUCLEAN; /* directories in a ring */
}

int sfs_catalog_path_of(struct sfs_catalog *cat, uint64_t ino, char *out, size_t cap)
{
    return path_of(cat, ino, 0, out, cap);
}

int sfs_catalog_path_in(struct sfs_catalog *cat, uint64_t ino, uint64_t parent, char *out, size_t cap)
{
    return path_of(cat, ino, parent, out, cap);
}
