/* SQLite's view of a replica set: a sqlite3_vfs with two files, the database and its WAL. Everything else
 * that SQLite may want to open (journals, temporary files) is refused: the connections are set up so that it
 * never wants to. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "meta/replicas_impl.h"

struct vfs_file {
    sqlite3_file base;
    struct sfs_replicas *r;
    enum sfs_rfile_id id;
    struct sfs_index_user user; /* of the database file */
};

static int result(int rc, int other)
{
    switch (rc) {
    case 0:
        return SQLITE_OK;
    case -ENOSPC:
    case -EDQUOT:
    case -EFBIG:
        return SQLITE_FULL;
    case -ENOMEM:
        return SQLITE_IOERR_NOMEM;
    case -EUCLEAN:
        return SQLITE_IOERR_DATA;
    default:
        return other;
    }
}

/* Ends an operation: tells of losses, releases the lock. */
static int leave(struct sfs_replicas *r, int rc, int other)
{
    int told = sfs_rset_settle(r, false);
    sfs_mutex_unlock(&r->m);
    return result(rc ? rc : told, other);
}

static int file_close(sqlite3_file *file)
{
    struct vfs_file *f = (struct vfs_file *)file;
    if (f->id == SFS_RFILE_DB)
        sfs_wal_index_leave(f->r->index, &f->user);
    return SQLITE_OK;
}

static int file_read(sqlite3_file *file, void *buf, int len, sqlite3_int64 off)
{
    struct vfs_file *f = (struct vfs_file *)file;
    size_t got = 0;
    sfs_mutex_lock(&f->r->m);
    int rc = sfs_rset_read(f->r, f->id, buf, (size_t)len, (uint64_t)off, &got);
    sfs_rset_settle(f->r, false); /* a read is good once a store had it, whatever becomes of the others */
    sfs_mutex_unlock(&f->r->m);
    if (rc)
        return result(rc, SQLITE_IOERR_READ);
    if (got == (size_t)len)
        return SQLITE_OK;
    memset((uint8_t *)buf + got, 0, (size_t)len - got);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *file, const void *buf, int len, sqlite3_int64 off)
{
    struct vfs_file *f = (struct vfs_file *)file;
    sfs_mutex_lock(&f->r->m);
    return leave(f->r, sfs_rset_write(f->r, f->id, buf, (size_t)len, (uint64_t)off), SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct vfs_file *f = (struct vfs_file *)file;
    sfs_mutex_lock(&f->r->m);
    return leave(f->r, sfs_rset_truncate(f->r, f->id, (uint64_t)size), SQLITE_IOERR_TRUNCATE);
}

static int file_sync(sqlite3_file *file, int flags)
{
    struct vfs_file *f = (struct vfs_file *)file;
    (void)flags;
    if (f->r->readonly)
        return SQLITE_OK;
    sfs_mutex_lock(&f->r->m);
    int rc = f->id == SFS_RFILE_DB ? sfs_rset_sync_checkpoint(f->r) : sfs_rset_sync(f->r, f->id);
    return leave(f->r, rc, SQLITE_IOERR_FSYNC);
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    struct vfs_file *f = (struct vfs_file *)file;
    sfs_mutex_lock(&f->r->m);
    *size = (sqlite3_int64)f->r->file[f->id].size;
    sfs_mutex_unlock(&f->r->m);
    return SQLITE_OK;
}

static int file_lock(sqlite3_file *file, int level)
{
    struct vfs_file *f = (struct vfs_file *)file;
    return f->id == SFS_RFILE_DB ? sfs_wal_index_lock_db(f->r->index, &f->user, level) : SQLITE_OK;
}

static int file_unlock(sqlite3_file *file, int level)
{
    struct vfs_file *f = (struct vfs_file *)file;
    if (f->id == SFS_RFILE_DB)
        sfs_wal_index_unlock_db(f->r->index, &f->user, level);
    return SQLITE_OK;
}

static int file_check_reserved(sqlite3_file *file, int *out)
{
    struct vfs_file *f = (struct vfs_file *)file;
    *out = sfs_wal_index_reserved(f->r->index);
    return SQLITE_OK;
}

static int file_control(sqlite3_file *file, int op, void *arg)
{
    (void)file;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *file)
{
    (void)file;
    return (int)SFS_PAGE_BYTES;
}

static int file_characteristics(sqlite3_file *file)
{
    (void)file;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE; /* bytes beside those written stay as they are, also in a crash
                                              */
}

static int shm_map(sqlite3_file *file, int region, int bytes, int extend, void volatile **out)
{
    struct vfs_file *f = (struct vfs_file *)file;
    return sfs_wal_index_map(f->r->index, (unsigned)region, (size_t)bytes, extend != 0, out);
}

static int shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    struct vfs_file *f = (struct vfs_file *)file;
    return sfs_wal_index_lock(f->r->index, &f->user, offset, n, flags);
}

static void shm_barrier(sqlite3_file *file)
{
    sfs_wal_index_barrier(((struct vfs_file *)file)->r->index);
}

static int shm_unmap(sqlite3_file *file, int drop)
{
    (void)file; /* the memory goes with the last connection */
    (void)drop;
    return SQLITE_OK;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = shm_map,
    .xShmLock = shm_lock,
    .xShmBarrier = shm_barrier,
    .xShmUnmap = shm_unmap,
};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags)
{
    struct sfs_replicas *r = vfs->pAppData;
    struct vfs_file *f = (struct vfs_file *)file;
    (void)name;
    memset(f, 0, sizeof(*f));
    if (!(flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_WAL)))
        return SQLITE_CANTOPEN;
    f->r = r;
    f->id = flags & SQLITE_OPEN_WAL ? SFS_RFILE_WAL : SFS_RFILE_DB;
    sfs_mutex_lock(&r->m);
    int rc = sfs_rset_load(r);
    rc = leave(r, rc, SQLITE_CANTOPEN);
    if (rc != SQLITE_OK)
        return rc;
    if (f->id == SFS_RFILE_DB)
        sfs_wal_index_join(r->index, &f->user);
    if (out_flags) {
        *out_flags = flags;
        if (r->readonly)
            *out_flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    }
    f->base.pMethods = &file_methods;
    return SQLITE_OK;
}

static bool is_wal(const char *name)
{
    size_t len = strlen(name);
    return len >= 4 && strcmp(name + len - 4, "-wal") == 0;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    struct sfs_replicas *r = vfs->pAppData;
    (void)sync_dir;
    if (!is_wal(name))
        return SQLITE_IOERR_DELETE_NOENT;
    sfs_mutex_lock(&r->m);
    return leave(r, sfs_rset_truncate(r, SFS_RFILE_WAL, 0), SQLITE_IOERR_DELETE);
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    struct sfs_replicas *r = vfs->pAppData;
    (void)flags;
    *out = 0;
    sfs_mutex_lock(&r->m);
    if (is_wal(name))
        *out = r->file[SFS_RFILE_WAL].size > 0;
    else if (strcmp(name, SFS_CATALOG_FILE) == 0)
        *out = r->file[SFS_RFILE_DB].size > 0;
    sfs_mutex_unlock(&r->m);
    return SQLITE_OK;
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int cap, char *out)
{
    (void)vfs;
    return snprintf(out, (size_t)cap, "%s", name) < cap ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_randomness(sqlite3_vfs *vfs, int len, char *out)
{
    struct sfs_replicas *r = vfs->pAppData;
    sfs_env_rand_bytes(r->env, out, (size_t)len);
    return len;
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
    struct sfs_replicas *r = vfs->pAppData;
    sfs_env_sleep_ns(r->env, (uint64_t)us * 1000);
    return us;
}

static int vfs_time(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
    struct sfs_replicas *r = vfs->pAppData;
    struct timespec t = sfs_env_wall(r->env);
    *out = 210866760000000LL + (sqlite3_int64)t.tv_sec * 1000 +
           t.tv_nsec / 1000000; /* Julian day 2440587.5 in ms */
    return SQLITE_OK;
}

static int vfs_time_old(sqlite3_vfs *vfs, double *out)
{
    sqlite3_int64 ms = 0;
    vfs_time(vfs, &ms);
    *out = (double)ms / 86400000.0;
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int len, char *out)
{
    (void)vfs;
    (void)len;
    (void)out;
    return 0;
}

int sfs_vfs_register(struct sfs_replicas *r)
{
    static _Atomic unsigned long long next;
    /* SQLite draws its randomness (the WAL's salts) from one generator for the process: in the simulator it
     * must follow from the seed. */
    if (sfs_env_is_sim(r->env))
        sqlite3_test_control(SQLITE_TESTCTRL_PRNG_SEED, (int)(sfs_env_rand(r->env) & 0x7fffffff) | 1, NULL);
    snprintf(r->vfs_name, sizeof(r->vfs_name), "spacesfs-%llu", ++next);
    r->vfs = (sqlite3_vfs){
        .iVersion = 2,
        .szOsFile = (int)sizeof(struct vfs_file),
        .mxPathname = 255,
        .zName = r->vfs_name,
        .pAppData = r,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_pathname,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_time_old,
        .xCurrentTimeInt64 = vfs_time,
        .xGetLastError = vfs_last_error,
    };
    return sqlite3_vfs_register(&r->vfs, 0) == SQLITE_OK ? 0 : -ENOMEM;
}

void sfs_vfs_unregister(struct sfs_replicas *r)
{
    if (r->vfs.zName)
        sqlite3_vfs_unregister(&r->vfs);
}
