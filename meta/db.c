/* SQLite connections on the replica set. */
#include "meta/catalog_impl.h"

#include <string.h>

int sfs_db_errno(sqlite3 *db, int rc)
{
    int extended = db ? sqlite3_extended_errcode(db) : rc;
    if ((extended & 0xff) != (rc & 0xff))
        extended = rc;
    switch (rc & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return 0;
    case SQLITE_CONSTRAINT:
        return extended == SQLITE_CONSTRAINT_UNIQUE || extended == SQLITE_CONSTRAINT_PRIMARYKEY ||
                       extended == SQLITE_CONSTRAINT_ROWID
                   ? -EEXIST
                   : -EINVAL;
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_NOMEM:
        return -ENOMEM;
    case SQLITE_ERROR: /* our statements are right: the tables aren't */
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EUCLEAN;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_IOERR:
        return extended == SQLITE_IOERR_DATA ? -EUCLEAN : extended == SQLITE_IOERR_NOMEM ? -ENOMEM : -EIO;
    default:
        return -EIO;
    }
}

int sfs_db_exec(sqlite3 *db, const char *sql)
{
    return sfs_db_errno(db, sqlite3_exec(db, sql, NULL, NULL, NULL));
}

int sfs_db_int(sqlite3 *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *out = sqlite3_column_int64(st, 0);
        rc = sqlite3_column_type(st, 0) == SQLITE_INTEGER ? 0 : -EUCLEAN;
    } else {
        rc = rc == SQLITE_DONE ? -ENOENT : sfs_db_errno(db, rc);
    }
    sqlite3_finalize(st);
    return rc;
}

int sfs_db_open(struct sfs_replicas *r, bool readonly, sqlite3 **out)
{
    int flags = readonly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(SFS_CATALOG_FILE, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                             sfs_replicas_vfs_name(r));
    if (rc == SQLITE_OK) {
        sqlite3_extended_result_codes(db, 1);
        sqlite3_busy_timeout(db, 10000);
        /* We checkpoint when we want to, never as a side effect. */
        sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        rc = sqlite3_exec(db,
                          "PRAGMA temp_store = MEMORY; PRAGMA secure_delete = OFF; PRAGMA cache_spill = OFF;"
                          "PRAGMA wal_autocheckpoint = 0; PRAGMA foreign_keys = OFF; PRAGMA mmap_size = 0;"
                          "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
                          NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        rc = db ? sfs_db_errno(db, rc) : -ENOMEM;
        sqlite3_close(db);
        return rc;
    }
    *out = db;
    return 0;
}
