#include "meta/catalog_impl.h"

#include <string.h>

#define INODE_COLUMNS                                                                                        \
    "ino, space, mode, nlink, uid, gid, rdev, size, parent, flags, atime, atime_ns, mtime, mtime_ns, "       \
    "ctime, ctime_ns, "                                                                                      \
    "btime, btime_ns, sectors"
#define EXTENT_COLUMNS "off, len, skip, grp, goff, slen, rlen, codec, csum"
#define JOB_COLUMNS "id, kind, state, what, done, total, started, ended, result"

static const struct {
    bool writes;
    const char *sql;
} stmt_table[SFS_STMT_COUNT] = {
    [SFS_STMT_STATE_SET] =
        {true, "UPDATE state SET commit_seq = ?1, next_ino = ?2, next_disk = ?3, next_space = ?4, "
               "next_group = ?5 WHERE id = 1"},
    [SFS_STMT_COUNT_SET] = {true, "UPDATE space SET inodes = ?2 WHERE id = ?1"},
    [SFS_STMT_PROP_GET] = {false, "SELECT value FROM prop WHERE key = ?1"},
    [SFS_STMT_PROP_SET] = {true, "INSERT OR REPLACE INTO prop (key, value) VALUES (?1, ?2)"},
    [SFS_STMT_PROP_DELETE] = {true, "DELETE FROM prop WHERE key = ?1"},
    [SFS_STMT_DISK_INSERT] =
        {true, "INSERT INTO disk (id, uuid, name, kind, media, usage, path, capacity_slabs, lost_since, "
               "read_errors, write_errors, checksum_errors, replica, label_seen, suspect) "
               "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"},
    [SFS_STMT_DISK_UPDATE] =
        {true, "UPDATE disk SET uuid = ?2, name = ?3, kind = ?4, media = ?5, usage = ?6, path = ?7, "
               "capacity_slabs = ?8, lost_since = ?9, read_errors = ?10, write_errors = ?11, "
               "checksum_errors = ?12, replica = ?13, label_seen = ?14, suspect = ?15 WHERE id = ?1"},
    [SFS_STMT_DISK_DELETE] = {true, "DELETE FROM disk WHERE id = ?1"},
    [SFS_STMT_DISK_EACH] =
        {false, "SELECT id, uuid, name, kind, media, usage, path, capacity_slabs, lost_since, read_errors, "
                "write_errors, checksum_errors, replica, label_seen, suspect FROM disk ORDER BY id"},
    [SFS_STMT_SPACE_INSERT] =
        {true, "INSERT INTO space (id, name, root_ino, resiliency, columns, interleave, size_bytes, fixed, "
               "codec, codec_level, created, destroying) "
               "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"},
    [SFS_STMT_SPACE_UPDATE] =
        {true, "UPDATE space SET name = ?2, root_ino = ?3, resiliency = ?4, columns = ?5, interleave = ?6, "
               "size_bytes = ?7, fixed = ?8, codec = ?9, codec_level = ?10, created = ?11, "
               "destroying = ?12 WHERE id = ?1"},
    [SFS_STMT_SPACE_DELETE] = {true, "DELETE FROM space WHERE id = ?1"},
    [SFS_STMT_SPACE_EACH] =
        {false, "SELECT id, name, root_ino, resiliency, columns, interleave, size_bytes, fixed, codec, "
                "codec_level, created, destroying FROM space ORDER BY id"},
    [SFS_STMT_GROUP_INSERT] =
        {true, "INSERT INTO slab_group (id, space, resiliency, columns, interleave, kind, state) "
               "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
    [SFS_STMT_GROUP_UPDATE] =
        {true, "UPDATE slab_group SET space = ?2, resiliency = ?3, columns = ?4, interleave = ?5, kind = ?6, "
               "state = ?7 WHERE id = ?1"},
    [SFS_STMT_GROUP_DELETE] = {true, "DELETE FROM slab_group WHERE id = ?1"},
    [SFS_STMT_GROUP_EACH] =
        {false, "SELECT id, space, resiliency, columns, interleave, kind, state FROM slab_group ORDER BY id"},
    [SFS_STMT_SLAB_PUT] = {true, "INSERT INTO slab (grp, col, copy, disk, slot) VALUES (?1, ?2, ?3, ?4, ?5) "
                                 "ON CONFLICT (grp, col, copy) DO UPDATE SET disk = ?4, slot = ?5"},
    [SFS_STMT_SLAB_DELETE_GROUP] = {true, "DELETE FROM slab WHERE grp = ?1"},
    [SFS_STMT_SLAB_EACH] = {false, "SELECT grp, col, copy, disk, slot FROM slab ORDER BY grp, col, copy"},
    [SFS_STMT_SLAB_OF_GROUP] =
        {false, "SELECT grp, col, copy, disk, slot FROM slab WHERE grp = ?1 ORDER BY col, copy"},
    [SFS_STMT_INODE_GET] = {false, "SELECT " INODE_COLUMNS " FROM inode WHERE ino = ?1"},
    [SFS_STMT_INODE_INSERT] = {true, "INSERT INTO inode (" INODE_COLUMNS
                                     ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
                                     "?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"},
    [SFS_STMT_INODE_UPDATE] =
        {true,
         "UPDATE inode SET space = ?2, mode = ?3, nlink = ?4, uid = ?5, gid = ?6, rdev = ?7, size = ?8, "
         "parent = ?9, flags = ?10, atime = ?11, atime_ns = ?12, mtime = ?13, mtime_ns = ?14, "
         "ctime = ?15, ctime_ns = ?16, btime = ?17, btime_ns = ?18, sectors = ?19 WHERE ino = ?1"},
    [SFS_STMT_INODE_DELETE] = {true, "DELETE FROM inode WHERE ino = ?1"},
    [SFS_STMT_INODE_NEXT] = {false,
                             "SELECT ino FROM inode WHERE space = ?1 AND ino > ?2 ORDER BY ino LIMIT 1"},
    [SFS_STMT_INODE_ORPHAN] =
        {false, "SELECT ino FROM inode WHERE space = ?1 AND ino > ?2 AND nlink = 0 ORDER BY ino LIMIT 1"},
    [SFS_STMT_INLINE_GET] = {false, "SELECT data FROM inline_data WHERE ino = ?1"},
    [SFS_STMT_INLINE_SET] = {true, "INSERT OR REPLACE INTO inline_data (ino, data) VALUES (?1, ?2)"},
    [SFS_STMT_INLINE_DELETE] = {true, "DELETE FROM inline_data WHERE ino = ?1"},
    [SFS_STMT_DENTRY_FIND] =
        {false, "SELECT cookie, ino, type, name FROM dentry WHERE parent = ?1 AND cookie BETWEEN ?2 AND ?3 "
                "ORDER BY cookie"},
    [SFS_STMT_DENTRY_INSERT] =
        {true, "INSERT INTO dentry (parent, cookie, ino, type, name) VALUES (?1, ?2, ?3, ?4, ?5)"},
    [SFS_STMT_DENTRY_REPLACE] = {true,
                                 "UPDATE dentry SET ino = ?3, type = ?4 WHERE parent = ?1 AND cookie = ?2"},
    [SFS_STMT_DENTRY_CLEAR] = {true, "DELETE FROM dentry WHERE parent = ?1"},
    [SFS_STMT_DENTRY_DELETE] = {true, "DELETE FROM dentry WHERE parent = ?1 AND cookie = ?2"},
    [SFS_STMT_DENTRY_LIST] = {false,
                              "SELECT cookie, ino, type, name FROM dentry WHERE parent = ?1 AND cookie > ?2 "
                              "ORDER BY cookie LIMIT ?3"},
    [SFS_STMT_DENTRY_OF_INO] = {false,
                                "SELECT cookie, ino, type, name, parent FROM dentry WHERE ino = ?1 LIMIT 1"},
    [SFS_STMT_DENTRY_IN_PARENT] =
        {false, "SELECT cookie, ino, type, name, parent FROM dentry WHERE parent = ?2 AND ino = ?1 LIMIT 1"},
    [SFS_STMT_XATTR_GET] = {false, "SELECT value FROM xattr WHERE ino = ?1 AND name = ?2"},
    [SFS_STMT_XATTR_INSERT] = {true, "INSERT OR IGNORE INTO xattr (ino, name, value) VALUES (?1, ?2, ?3)"},
    [SFS_STMT_XATTR_PUT] = {true, "INSERT OR REPLACE INTO xattr (ino, name, value) VALUES (?1, ?2, ?3)"},
    [SFS_STMT_XATTR_UPDATE] = {true, "UPDATE xattr SET value = ?3 WHERE ino = ?1 AND name = ?2"},
    [SFS_STMT_XATTR_DELETE] = {true, "DELETE FROM xattr WHERE ino = ?1 AND name = ?2"},
    [SFS_STMT_XATTR_DELETE_ALL] = {true, "DELETE FROM xattr WHERE ino = ?1"},
    [SFS_STMT_XATTR_LIST] = {false, "SELECT name FROM xattr WHERE ino = ?1 ORDER BY name"},
    [SFS_STMT_EXTENT_LIST] = {false, "SELECT " EXTENT_COLUMNS
                                     " FROM extent WHERE ino = ?1 AND off >= coalesce((SELECT max(off) FROM "
                                     "extent WHERE ino = ?1 AND off <= ?2), 0) ORDER BY off"},
    [SFS_STMT_EXTENT_RANGE] = {false, "SELECT " EXTENT_COLUMNS
                                      " FROM extent WHERE ino = ?1 AND off >= ?2 AND off < ?3 "
                                      "ORDER BY off LIMIT ?4"},
    [SFS_STMT_EXTENT_DELETE_RANGE] = {true, "DELETE FROM extent WHERE ino = ?1 AND off >= ?2 AND off <= ?3"},
    [SFS_STMT_EXTENT_INSERT] = {true, "INSERT INTO extent (ino, " EXTENT_COLUMNS ") "
                                      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"},
    [SFS_STMT_EXTENT_ANY] = {false, "SELECT 1 FROM extent WHERE ino = ?1 LIMIT 1"},
    [SFS_STMT_EXTENT_GROUP_RANGES] = {false,
                                      "SELECT goff, slen FROM extent INDEXED BY extent_by_group "
                                      "WHERE grp = ?1 AND goff >= ?2 AND goff < ?3 ORDER BY goff, slen"},
    [SFS_STMT_EXTENT_GROUP_ROWS] = {false,
                                    "SELECT " EXTENT_COLUMNS ", ino FROM extent INDEXED BY extent_by_group "
                                    "WHERE grp = ?1 AND goff >= ?2 ORDER BY goff, slen, ino, off LIMIT ?3"},
    [SFS_STMT_EXTENT_GROUP_MOVE] =
        {true, "UPDATE extent INDEXED BY extent_by_group SET grp = ?4, goff = goff - ?2 + ?5 "
               "WHERE grp = ?1 AND goff >= ?2 AND goff < ?3 AND goff * 4096 + slen <= ?3 * 4096"},
    [SFS_STMT_EXTENT_GROUP_ANY] = {false,
                                   "SELECT 1 FROM extent INDEXED BY extent_by_group WHERE grp = ?1 LIMIT 1"},
    [SFS_STMT_EXTENT_GROUP_USES] =
        {false, "SELECT goff, slen, ino, off FROM extent INDEXED BY extent_by_group "
                "WHERE grp = ?1 AND (goff, slen, ino, off) > (?2, ?3, ?4, ?5) "
                "ORDER BY goff, slen, ino, off LIMIT ?6"},
    [SFS_STMT_DENTRY_SCAN] = {false,
                              "SELECT cookie, ino, type, name, parent FROM dentry "
                              "WHERE (parent, cookie) > (?1, ?2) ORDER BY parent, cookie LIMIT ?3"},
    [SFS_STMT_DAMAGE_PUT] =
        {true, "INSERT OR REPLACE INTO damage (grp, goff, len, found) VALUES (?1, ?2, ?3, ?4)"},
    [SFS_STMT_DAMAGE_DELETE] = {true, "DELETE FROM damage WHERE grp = ?1 AND goff = ?2"},
    [SFS_STMT_DAMAGE_EACH] = {false, "SELECT grp, goff, len, found FROM damage ORDER BY grp, goff"},
    [SFS_STMT_FINDING_ADD] = {true, "INSERT INTO scrub_finding (ino, disk, blocks) VALUES (?1, ?2, ?3) "
                                    "ON CONFLICT (ino, disk) DO UPDATE SET blocks = blocks + ?3"},
    [SFS_STMT_FINDING_CLEAR] = {true, "DELETE FROM scrub_finding"},
    [SFS_STMT_FINDING_EACH] = {false, "SELECT ino, disk, blocks FROM scrub_finding ORDER BY ino, disk"},
    [SFS_STMT_FINDING_COUNT] = {false, "SELECT count(*) FROM scrub_finding"},
    [SFS_STMT_JOB_INSERT] = {true, "INSERT INTO job (kind, state, what, done, total, started, ended, result) "
                                   "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
    [SFS_STMT_JOB_UPDATE] =
        {true,
         "UPDATE job SET kind = ?1, state = ?2, what = ?3, done = ?4, total = ?5, started = ?6, ended = ?7, "
         "result = ?8 WHERE id = ?9"},
    [SFS_STMT_JOB_EACH] = {false, "SELECT " JOB_COLUMNS " FROM job ORDER BY id DESC"},
    [SFS_STMT_EVENT_INSERT] =
        {true, "INSERT INTO event (time, severity, kind, subject, text) VALUES (?1, ?2, ?3, ?4, ?5)"},
    [SFS_STMT_EVENT_TRIM] = {true, "DELETE FROM event WHERE id <= (SELECT max(id) FROM event) - 10000"},
    [SFS_STMT_EVENT_LIST] =
        {false,
         "SELECT id, time, severity, kind, subject, text FROM event WHERE id > ?1 ORDER BY id LIMIT ?2"},
};

static int bind_all(sqlite3_stmt *st, const struct sfs_arg *args, size_t nargs)
{
    int rc = SQLITE_OK;
    SFS_ASSERT((int)nargs == sqlite3_bind_parameter_count(st));
    for (size_t i = 0; i < nargs && rc == SQLITE_OK; i++) {
        const struct sfs_arg *a = &args[i];
        int at = (int)i + 1;
        switch (a->type) {
        case SFS_ARG_NULL:
            rc = sqlite3_bind_null(st, at);
            break;
        case SFS_ARG_INT:
            rc = sqlite3_bind_int64(st, at, a->i);
            break;
        case SFS_ARG_BLOB: /* a NULL pointer would bind NULL */
            rc = sqlite3_bind_blob64(st, at, a->p ? a->p : "", a->len, SQLITE_STATIC);
            break;
        case SFS_ARG_TEXT:
            rc = sqlite3_bind_text(st, at, a->p, -1, SQLITE_STATIC);
            break;
        }
    }
    return rc;
}

/* Rough bytes that a row change adds to the WAL, so that commits come by volume. */
static uint64_t change_bytes(const struct sfs_arg *args, size_t nargs)
{
    uint64_t n = 512;
    for (size_t i = 0; i < nargs; i++)
        n += args[i].type == SFS_ARG_BLOB ? args[i].len : 0;
    return n;
}

/* The first change after a commit. If a checkpoint has emptied the WAL meanwhile, a transaction that begins
 * now may begin the WAL anew. */
static int first_change(struct sfs_catalog *cat)
{
    int rc = 0;
    if (cat->in_tx && cat->ckpt && sfs_checkpointer_all_done(cat->ckpt)) {
        bool open = false;
        for (int i = 0; i < SFS_STMT_COUNT; i++)
            open |= cat->stmt_busy[i];
        if (!open)
            rc = sfs_db_exec(cat->db, "ROLLBACK; BEGIN IMMEDIATE");
    }
    if (rc)
        sfs_catalog_break(cat);
    else
        cat->changed = true;
    return rc;
}

int sfs_stmt_open(struct sfs_catalog *cat, enum sfs_stmt id, const struct sfs_arg *args, size_t nargs,
                  sqlite3_stmt **out)
{
    bool writes = stmt_table[id].writes;
    sfs_mutex_assert_held(&cat->lock);
    if (writes && (cat->opts.readonly || cat->broken))
        return -EROFS;
    if (writes && !cat->changed) {
        int rc = first_change(cat);
        if (rc)
            return rc;
    }
    SFS_ASSERT(!cat->stmt_busy[id]);
    int rc = SQLITE_OK;
    if (!cat->stmts[id])
        rc = sqlite3_prepare_v3(cat->db, stmt_table[id].sql, -1, SQLITE_PREPARE_PERSISTENT, &cat->stmts[id],
                                NULL);
    if (rc == SQLITE_OK)
        rc = bind_all(cat->stmts[id], args, nargs);
    if (rc != SQLITE_OK) {
        rc = sfs_db_errno(cat->db, rc);
        if (writes || (cat->in_tx && sqlite3_get_autocommit(cat->db)))
            sfs_catalog_break(cat);
        return rc;
    }
    if (writes)
        cat->pending_bytes += change_bytes(args, nargs);
    cat->stmt_busy[id] = true;
    *out = cat->stmts[id];
    return 0;
}

int sfs_stmt_step(struct sfs_catalog *cat, sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    bool writes = !sqlite3_stmt_readonly(st);
    int err = sfs_db_errno(cat->db, rc);
    /* A constraint undoes its own statement only. Anything else in a write is doubt; and some errors make
     * SQLite roll back even when only reading. */
    if ((writes && (rc & 0xff) != SQLITE_CONSTRAINT) || (cat->in_tx && sqlite3_get_autocommit(cat->db)))
        sfs_catalog_break(cat);
    return err;
}

void sfs_stmt_close(struct sfs_catalog *cat, enum sfs_stmt id)
{
    if (!cat->stmt_busy[id])
        return;
    sqlite3_reset(cat->stmts[id]);
    sqlite3_clear_bindings(cat->stmts[id]);
    cat->stmt_busy[id] = false;
}

int sfs_stmt_run(struct sfs_catalog *cat, enum sfs_stmt id, const struct sfs_arg *args, size_t nargs)
{
    sqlite3_stmt *st;
    int rc = sfs_stmt_open(cat, id, args, nargs, &st);
    if (rc)
        return rc;
    while ((rc = sfs_stmt_step(cat, st)) > 0)
        ;
    sfs_stmt_close(cat, id);
    return rc ? rc : sqlite3_changes(cat->db);
}

void sfs_stmt_free_all(struct sfs_catalog *cat)
{
    for (int i = 0; i < SFS_STMT_COUNT; i++) {
        sqlite3_finalize(cat->stmts[i]);
        cat->stmts[i] = NULL;
        cat->stmt_busy[i] = false;
    }
}

uint64_t sfs_col_uint(sqlite3_stmt *st, int col, uint64_t max, bool *ok)
{
    int64_t v = sfs_col_int(st, col, ok);
    if (v < 0 || (uint64_t)v > max) {
        *ok = false;
        return 0;
    }
    return (uint64_t)v;
}

int64_t sfs_col_int(sqlite3_stmt *st, int col, bool *ok)
{
    if (sqlite3_column_type(st, col) != SQLITE_INTEGER)
        *ok = false;
    return sqlite3_column_int64(st, col);
}

void sfs_col_text(sqlite3_stmt *st, int col, char *out, size_t cap, bool *ok)
{
    const unsigned char *text = sqlite3_column_text(st, col);
    size_t len = (size_t)sqlite3_column_bytes(st, col);
    out[0] = '\0';
    if (!text || len >= cap || memchr(text, 0, len)) {
        *ok = false;
        return;
    }
    memcpy(out, text, len);
    out[len] = '\0';
}

const void *sfs_col_blob(sqlite3_stmt *st, int col, size_t min, size_t max, size_t *len, bool *ok)
{
    const void *p = sqlite3_column_blob(st, col);
    *len = (size_t)sqlite3_column_bytes(st, col);
    if (sqlite3_column_type(st, col) != SQLITE_BLOB || *len < min || *len > max || (!p && *len > 0)) {
        *ok = false;
        *len = 0;
    }
    return p;
}
