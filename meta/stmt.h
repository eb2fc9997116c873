/* Prepared statements of the catalog: all SQL text that runs after opening is in one table (stmt.c), prepared
 * at first use and kept.
 *
 * Use: sfs_stmt_run for what returns no rows; sfs_stmt_open, sfs_stmt_step until 0, sfs_stmt_close for what
 * does. A statement that is open can't be opened again (asserted): callbacks of the *_each functions may call
 * other queries, but not the one that is calling them. */
#ifndef SFS_META_STMT_H
#define SFS_META_STMT_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sfs_catalog;

enum sfs_stmt {
    SFS_STMT_STATE_SET,
    SFS_STMT_COUNT_SET,
    SFS_STMT_PROP_GET,
    SFS_STMT_PROP_SET,
    SFS_STMT_PROP_DELETE,
    SFS_STMT_DISK_INSERT,
    SFS_STMT_DISK_UPDATE,
    SFS_STMT_DISK_DELETE,
    SFS_STMT_DISK_EACH,
    SFS_STMT_SPACE_INSERT,
    SFS_STMT_SPACE_UPDATE,
    SFS_STMT_SPACE_DELETE,
    SFS_STMT_SPACE_EACH,
    SFS_STMT_GROUP_INSERT,
    SFS_STMT_GROUP_UPDATE,
    SFS_STMT_GROUP_DELETE,
    SFS_STMT_GROUP_EACH,
    SFS_STMT_SLAB_PUT,
    SFS_STMT_SLAB_DELETE_GROUP,
    SFS_STMT_SLAB_EACH,
    SFS_STMT_SLAB_OF_GROUP,
    SFS_STMT_INODE_GET,
    SFS_STMT_INODE_INSERT,
    SFS_STMT_INODE_UPDATE,
    SFS_STMT_INODE_DELETE,
    SFS_STMT_INODE_ORPHAN,
    SFS_STMT_INODE_NEXT,
    SFS_STMT_INLINE_GET,
    SFS_STMT_INLINE_SET,
    SFS_STMT_INLINE_DELETE,
    SFS_STMT_DENTRY_FIND,
    SFS_STMT_DENTRY_INSERT,
    SFS_STMT_DENTRY_REPLACE,
    SFS_STMT_DENTRY_DELETE,
    SFS_STMT_DENTRY_CLEAR,
    SFS_STMT_DENTRY_LIST,
    SFS_STMT_DENTRY_OF_INO,
    SFS_STMT_DENTRY_IN_PARENT,
    SFS_STMT_XATTR_GET,
    SFS_STMT_XATTR_INSERT,
    SFS_STMT_XATTR_PUT,
    SFS_STMT_XATTR_UPDATE,
    SFS_STMT_XATTR_DELETE,
    SFS_STMT_XATTR_DELETE_ALL,
    SFS_STMT_XATTR_LIST,
    SFS_STMT_EXTENT_LIST,
    SFS_STMT_EXTENT_RANGE,
    SFS_STMT_EXTENT_DELETE_RANGE,
    SFS_STMT_EXTENT_INSERT,
    SFS_STMT_EXTENT_ANY,
    SFS_STMT_EXTENT_GROUP_RANGES,
    SFS_STMT_EXTENT_GROUP_ROWS,
    SFS_STMT_EXTENT_GROUP_ANY,
    SFS_STMT_EXTENT_GROUP_MOVE,
    SFS_STMT_EXTENT_GROUP_USES,
    SFS_STMT_DENTRY_SCAN,
    SFS_STMT_DAMAGE_PUT,
    SFS_STMT_DAMAGE_DELETE,
    SFS_STMT_DAMAGE_EACH,
    SFS_STMT_FINDING_ADD,
    SFS_STMT_FINDING_CLEAR,
    SFS_STMT_FINDING_EACH,
    SFS_STMT_FINDING_COUNT,
    SFS_STMT_JOB_INSERT,
    SFS_STMT_JOB_UPDATE,
    SFS_STMT_JOB_EACH,
    SFS_STMT_EVENT_INSERT,
    SFS_STMT_EVENT_TRIM,
    SFS_STMT_EVENT_LIST,
    SFS_STMT_COUNT
};

/* A value to bind. */
struct sfs_arg {
    enum { SFS_ARG_NULL, SFS_ARG_INT, SFS_ARG_BLOB, SFS_ARG_TEXT } type;
    int64_t i;
    const void *p;
    size_t len;
};
#define SFS_NULL ((struct sfs_arg){.type = SFS_ARG_NULL})
#define SFS_INT(v) ((struct sfs_arg){.type = SFS_ARG_INT, .i = (int64_t)(v)})
#define SFS_BLOB(ptr, n) ((struct sfs_arg){.type = SFS_ARG_BLOB, .p = (ptr), .len = (n)})
#define SFS_TEXT(s) ((struct sfs_arg){.type = SFS_ARG_TEXT, .p = (s)})
/* Arguments in the order of ?1, ?2, … The values must live until the statement is closed. */
#define SFS_ARGS(...)                                                                                        \
    (const struct sfs_arg[]){__VA_ARGS__},                                                                   \
        sizeof((const struct sfs_arg[]){__VA_ARGS__}) / sizeof(struct sfs_arg)
#define SFS_NO_ARGS NULL, 0

/* Binds and opens. 0 or -errno (-EROFS: a statement that writes, on a catalog that is broken or read-only).
 */
int sfs_stmt_open(struct sfs_catalog *cat, enum sfs_stmt id, const struct sfs_arg *args, size_t nargs,
                  sqlite3_stmt **out);
int sfs_stmt_step(struct sfs_catalog *cat, sqlite3_stmt *st); /* 1 a row, 0 no more, or -errno */
void sfs_stmt_close(struct sfs_catalog *cat, enum sfs_stmt id);
/* Opens, steps through, closes. Number of rows changed, or -errno. */
int sfs_stmt_run(struct sfs_catalog *cat, enum sfs_stmt id, const struct sfs_arg *args, size_t nargs);
void sfs_stmt_free_all(struct sfs_catalog *cat);

/* Columns, checked: what is read from the database is untrusted. They clear *ok when the value is not of the
 * type or not in the range. */
uint64_t sfs_col_uint(sqlite3_stmt *st, int col, uint64_t max, bool *ok);
int64_t sfs_col_int(sqlite3_stmt *st, int col, bool *ok);
void sfs_col_text(sqlite3_stmt *st, int col, char *out, size_t cap, bool *ok);
/* A blob of min to max bytes; valid until the next step. */
const void *sfs_col_blob(sqlite3_stmt *st, int col, size_t min, size_t max, size_t *len, bool *ok);

#endif
