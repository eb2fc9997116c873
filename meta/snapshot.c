/* Taking a snapshot: SQLite's backup copies a read transaction's pages into a sink, a one-file VFS that takes
 * what is written and hands it, compressed, to the stores. Commits go on meanwhile; only the WAL's restart
 * waits. */
#include <endian.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>
#include "meta/catalog_impl.h"
#include "meta/snapshot.h"
#include "meta/snapshot_format.h"

#define OUT_BYTES (256u << 10)
#define LEVEL 3
#define STEP_PAGES 256
#define SNAPSHOTS_LISTED 64u

struct sink {
    sqlite3_vfs vfs;
    char name[40];
    const struct sfs_store *stores;
    int *rcs; /* what became of each store; -errno: no longer written to */
    unsigned n;
    char file[32];
    ZSTD_CCtx *z;
    uint8_t *out;
    uint64_t bytes;     /* of the frame, so far */
    sqlite3_int64 size; /* of the database that is being written */
};
struct sink_file {
    sqlite3_file base;
    struct sink *s;
};

/* --- to the stores --- */

static int put(struct sink *s, const void *buf, size_t len, uint64_t off)
{
    unsigned good = 0;
    int rc = -EIO;
    for (unsigned i = 0; i < s->n; i++) {
        if (!s->rcs[i])
            s->rcs[i] = s->stores[i].ops->write(s->stores[i].ctx, s->file, buf, len, off);
        if (s->rcs[i])
            rc = s->rcs[i];
        else
            good++;
    }
    return good ? 0 : rc;
}

static int sync_all(struct sink *s)
{
    unsigned good = 0;
    int rc = -EIO;
    for (unsigned i = 0; i < s->n; i++) {
        if (!s->rcs[i])
            s->rcs[i] = s->stores[i].ops->sync(s->stores[i].ctx, s->file);
        if (s->rcs[i])
            rc = s->rcs[i];
        else
            good++;
    }
    return good ? 0 : rc;
}

static int compress(struct sink *s, const void *data, size_t len, bool end)
{
    ZSTD_inBuffer in = {data, len, 0};
    for (;;) {
        ZSTD_outBuffer out = {s->out, OUT_BYTES, 0};
        size_t left = ZSTD_compressStream2(s->z, &out, &in, end ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return -ENOMEM;
        int rc = out.pos ? put(s, s->out, out.pos, SFS_SNAPSHOT_HEADER_BYTES + s->bytes) : 0;
        if (rc)
            return rc;
        s->bytes += out.pos;
        if (end ? left == 0 : in.pos == in.size)
            return 0;
    }
}

/* --- the sink --- */

static int sink_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

/* Only asked of the empty file, before the first write. */
static int sink_read(sqlite3_file *f, void *buf, int len, sqlite3_int64 off)
{
    if (off < ((struct sink_file *)f)->s->size)
        return SQLITE_IOERR_READ;
    memset(buf, 0, (size_t)len);
    return SQLITE_IOERR_SHORT_READ;
}

static int sink_write(sqlite3_file *f, const void *buf, int len, sqlite3_int64 off)
{
    struct sink *s = ((struct sink_file *)f)->s;
    uint32_t page = htole32((uint32_t)(off / SFS_PAGE_BYTES + 1));
    if (len != (int)SFS_PAGE_BYTES || off % SFS_PAGE_BYTES)
        return SQLITE_IOERR_WRITE;
    int rc = compress(s, &page, sizeof(page), false);
    if (!rc)
        rc = compress(s, buf, (size_t)len, false);
    if (off + len > s->size)
        s->size = off + len;
    return rc == 0         ? SQLITE_OK
           : rc == -ENOSPC ? SQLITE_FULL
           : rc == -ENOMEM ? SQLITE_IOERR_NOMEM
                           : SQLITE_IOERR_WRITE;
}

static int sink_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    ((struct sink_file *)f)->s->size = size;
    return SQLITE_OK;
}

static int sink_size(sqlite3_file *f, sqlite3_int64 *size)
{
    *size = ((struct sink_file *)f)->s->size;
    return SQLITE_OK;
}

static int sink_nothing(sqlite3_file *f, int arg)
{
    (void)f;
    (void)arg;
    return SQLITE_OK;
}

static int sink_reserved(sqlite3_file *f, int *out)
{
    (void)f;
    *out = 0;
    return SQLITE_OK;
}

static int sink_control(sqlite3_file *f, int op, void *arg)
{
    (void)f;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int sink_sector(sqlite3_file *f)
{
    (void)f;
    return (int)SFS_PAGE_BYTES;
}

static int sink_flags(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static int sink_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
    static const sqlite3_io_methods methods = {
        .iVersion = 1,
        .xClose = sink_close,
        .xRead = sink_read,
        .xWrite = sink_write,
        .xTruncate = sink_truncate,
        .xSync = sink_nothing,
        .xFileSize = sink_size,
        .xLock = sink_nothing,
        .xUnlock = sink_nothing,
        .xCheckReservedLock = sink_reserved,
        .xFileControl = sink_control,
        .xSectorSize = sink_sector,
        .xDeviceCharacteristics = sink_flags,
    };
    (void)name;
    f->pMethods = NULL;
    if (!(flags & SQLITE_OPEN_MAIN_DB))
        return SQLITE_CANTOPEN;
    ((struct sink_file *)f)->s = vfs->pAppData;
    f->pMethods = &methods;
    if (out_flags)
        *out_flags = flags;
    return SQLITE_OK;
}

static int sink_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    (void)vfs;
    (void)name;
    (void)sync_dir;
    return SQLITE_OK;
}

static int sink_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    (void)name;
    (void)flags;
    *out = 0;
    return SQLITE_OK;
}

static int sink_path(sqlite3_vfs *vfs, const char *name, int cap, char *out)
{
    (void)vfs;
    return snprintf(out, (size_t)cap, "%s", name) < cap ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int sink_random(sqlite3_vfs *vfs, int len, char *out)
{
    (void)vfs;
    memset(out, 0, (size_t)len);
    return len;
}

static int sink_sleep(sqlite3_vfs *vfs, int us)
{
    (void)vfs;
    return us;
}

static int sink_time(sqlite3_vfs *vfs, double *out)
{
    (void)vfs;
    *out = 2440587.5;
    return SQLITE_OK;
}

static int sink_start(struct sink *s)
{
    static _Atomic unsigned long long next;
    snprintf(s->name, sizeof(s->name), "spacesfs-sink-%llu", ++next);
    s->vfs = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = (int)sizeof(struct sink_file),
        .mxPathname = 255,
        .zName = s->name,
        .pAppData = s,
        .xOpen = sink_open,
        .xDelete = sink_delete,
        .xAccess = sink_access,
        .xFullPathname = sink_path,
        .xRandomness = sink_random,
        .xSleep = sink_sleep,
        .xCurrentTime = sink_time,
    };
    s->z = ZSTD_createCCtx();
    s->out = malloc(OUT_BYTES);
    s->rcs = calloc(s->n ? s->n : 1, sizeof(*s->rcs));
    if (!s->z || !s->out || !s->rcs ||
        ZSTD_isError(ZSTD_CCtx_setParameter(s->z, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(s->z, ZSTD_c_checksumFlag, 1)))
        return -ENOMEM;
    return sqlite3_vfs_register(&s->vfs, 0) == SQLITE_OK ? 0 : -ENOMEM;
}

static void sink_stop(struct sink *s)
{
    sqlite3_vfs_unregister(&s->vfs);
    ZSTD_freeCCtx(s->z);
    free(s->out);
    free(s->rcs);
}

/* --- taking one --- */

static int copy_pages(struct sink *s, sqlite3 *from, struct sfs_env *env)
{
    sqlite3 *to = NULL;
    int rc = sqlite3_open_v2("sink", &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                             s->name);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = 64;",
                          NULL, NULL, NULL);
    sqlite3_backup *b = rc == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
    if (b) {
        while ((rc = sqlite3_backup_step(b, STEP_PAGES)) == SQLITE_OK)
            sfs_env_yield(env);
        int end = sqlite3_backup_finish(b);
        rc = rc == SQLITE_DONE ? end : rc;
    } else if (rc == SQLITE_OK) {
        rc = sqlite3_errcode(to);
    }
    rc = sfs_db_errno(to, rc);
    sqlite3_close(to);
    return rc;
}

static int read_pool(sqlite3 *db, struct sfs_snapshot_header *h)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT uuid, commit_seq FROM pool, state", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW && sqlite3_column_bytes(st, 0) == (int)sizeof(h->pool)) {
        memcpy(h->pool, sqlite3_column_blob(st, 0), sizeof(h->pool));
        h->commit_seq = htole64((uint64_t)sqlite3_column_int64(st, 1));
        rc = 0;
    } else {
        rc = rc == SQLITE_ROW || rc == SQLITE_DONE ? -EUCLEAN : sfs_db_errno(db, rc);
    }
    sqlite3_finalize(st);
    return rc;
}

static int write_frame(struct sink *s, sqlite3 *db, struct sfs_env *env, struct sfs_snapshot_header *h)
{
    static const uint8_t blank[SFS_SNAPSHOT_HEADER_BYTES];
    uint32_t end = 0;
    int64_t pages = 0;
    int rc = put(s, blank, sizeof(blank), 0); /* no header: not a snapshot yet */
    if (!rc)
        rc = copy_pages(s, db, env);
    if (!rc)
        rc = sfs_db_int(db, "PRAGMA page_count", &pages);
    if (!rc)
        rc = compress(s, &end, sizeof(end), true);
    h->pages = htole64((uint64_t)pages);
    h->frame_bytes = htole64(s->bytes);
    return rc ? rc : sync_all(s);
}

static int write_header(struct sink *s, struct sfs_env *env, struct sfs_snapshot_header *h)
{
    memcpy(h->magic, SFS_SNAPSHOT_MAGIC, sizeof(h->magic));
    h->version = htole32(SFS_SNAPSHOT_VERSION);
    h->page_bytes = htole32(SFS_PAGE_BYTES);
    h->time = (int64_t)htole64((uint64_t)sfs_env_wall(env).tv_sec);
    h->sum = htole64(XXH3_64bits(h, offsetof(struct sfs_snapshot_header, sum)));
    int rc = put(s, h, sizeof(*h), 0);
    return rc ? rc : sync_all(s);
}

struct numbers {
    const char *prefix;
    uint64_t v[SNAPSHOTS_LISTED]; /* the highest, in falling order */
    unsigned n;
};

static void note_number(const char *name, uint64_t size, void *arg)
{
    struct numbers *o = arg;
    char *end;
    (void)size;
    if (strncmp(name, o->prefix, strlen(o->prefix)) != 0)
        return;
    uint64_t number = strtoull(name + strlen(o->prefix), &end, 10);
    if (*end || number == 0 || number > INT64_MAX)
        return;
    unsigned at = o->n;
    while (at > 0 && o->v[at - 1] < number)
        at--;
    if (at == SNAPSHOTS_LISTED)
        return;
    if (o->n < SNAPSHOTS_LISTED)
        o->n++;
    memmove(&o->v[at + 1], &o->v[at], (o->n - 1 - at) * sizeof(o->v[0]));
    o->v[at] = number;
}

static void remove_old(const struct sfs_store *s, const char *prefix, unsigned keep)
{
    struct numbers o = {.prefix = prefix};
    char name[32];
    if (s->ops->list(s->ctx, note_number, &o))
        return;
    for (unsigned i = keep; i < o.n; i++) {
        snprintf(name, sizeof(name), "%s%llu", prefix, (unsigned long long)o.v[i]);
        s->ops->remove(s->ctx, name);
    }
}

static uint64_t next_number(const struct sfs_store *stores, unsigned n, const char *prefix)
{
    uint64_t next = 1;
    for (unsigned i = 0; i < n; i++) {
        struct numbers o = {.prefix = prefix};
        if (stores[i].ops->list(stores[i].ctx, note_number, &o) == 0 && o.n > 0 && o.v[0] >= next)
            next = o.v[0] + 1;
    }
    return next;
}

static int take(struct sfs_env *env, struct sfs_replicas *r, struct sink *s)
{
    struct sfs_snapshot_header h = {.version = 0};
    sqlite3 *db = NULL;
    int rc = sfs_db_open(r, true, &db);
    if (!rc)
        rc = sfs_db_exec(db, "PRAGMA cache_size = -512; BEGIN;");
    if (!rc)
        rc = read_pool(db, &h); /* from here on this commit is what the connection sees */
    if (!rc)
        rc = write_frame(s, db, env, &h);
    sqlite3_close(db);
    return rc ? rc : write_header(s, env, &h);
}

int sfs_snapshot_take(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_store *stores, unsigned n,
                      const char *prefix, unsigned keep, struct sfs_error *err)
{
    struct sink s = {.stores = stores, .n = n};
    char failed[300] = "";
    if (n == 0)
        return sfs_error_set(err, -EINVAL, "No disk to write a snapshot of the catalog to.");
    snprintf(s.file, sizeof(s.file), "%s%llu", prefix, (unsigned long long)next_number(stores, n, prefix));
    int rc = sink_start(&s);
    if (!rc)
        rc = take(env, r, &s);
    int first = rc;
    for (unsigned i = 0; i < n && s.rcs; i++) {
        if (rc || s.rcs[i])
            stores[i].ops->remove(stores[i].ctx, s.file);
        else
            remove_old(&stores[i], prefix, keep ? keep : 1);
        size_t at = strlen(failed);
        if (s.rcs[i])
            snprintf(failed + at, sizeof(failed) - at, "%s%s", at ? ", " : "", stores[i].name);
        if (!first)
            first = s.rcs[i];
    }
    sink_stop(&s);
    if (rc)
        return sfs_error_set(err, rc, "The snapshot of the catalog could not be written: %s.", strerror(-rc));
    if (first)
        return sfs_error_set(err, first, "The snapshot of the catalog is missing on %s: %s.", failed,
                             strerror(-first));
    return 0;
}

int sfs_catalog_snapshot(struct sfs_catalog *cat, const struct sfs_store *stores, unsigned n, unsigned keep,
                         struct sfs_error *err)
{
    cat->snapshots++;
    int rc = sfs_snapshot_take(cat->env, cat->r, stores, n, SFS_SNAPSHOT_HOURLY, keep, err);
    cat->snapshots--;
    return rc;
}
