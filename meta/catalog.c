/* The catalog: making, opening, committing, closing. The protocol is in meta/README.md. */
#include "meta/catalog_impl.h"
#include "meta/replicas_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_WAL_LIMIT (64ull << 20)
#define DEFAULT_CACHE (64ull << 20)
#define ROOM_RESERVE (8ull << 20) /* never given to operations that add: deletes and repairs need it */
#define SHORT_WAL_LIMIT (1ull << 20) /* where room is short */
#define FRAME_BYTES (SFS_PAGE_BYTES + 24u)
#define SNAPSHOT_FACTOR 4u /* the WAL may grow this much over its limit while a snapshot is read */

/* --- making --- */

static int set_up_file(sqlite3 *db)
{
    int reserve = SFS_PAGE_RESERVED, rc;
    int64_t n;
    rc = sfs_db_exec(db, "PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE; PRAGMA encoding = 'UTF-8'; "
                         "PRAGMA synchronous = FULL;"
                         "PRAGMA journal_mode = MEMORY;");
    if (!rc)
        rc = sfs_db_errno(db, sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserve));
    if (!rc)
        rc = sfs_db_exec(db, "PRAGMA journal_mode = WAL;");
    if (!rc)
        rc = sfs_db_int(db, "SELECT count(*) FROM pragma_journal_mode WHERE journal_mode = 'wal'", &n);
    return rc ? rc : n == 1 ? 0 : -EIO;
}

static int insert_pool(sqlite3 *db, struct sfs_env *env, const struct sfs_uuid *pool, const char *name)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(
        db, "INSERT INTO pool (id, uuid, name, created, name_seed) VALUES (1, ?1, ?2, ?3, ?4)", -1, &st,
        NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(st, 1, pool->b, sizeof(pool->b), SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 2, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 3, sfs_env_wall(env).tv_sec);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 4, (int64_t)sfs_env_rand(env));
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    rc = sfs_db_errno(db, rc);
    sqlite3_finalize(st);
    return rc;
}

static int fill(sqlite3 *db, struct sfs_env *env, const struct sfs_uuid *pool, const char *name)
{
    char state[200];
    snprintf(state, sizeof(state), "INSERT INTO state VALUES (1, 1, %u, 1, 1, 1); COMMIT;", SFS_FIRST_INO);
    int rc = sfs_db_exec(db, "BEGIN IMMEDIATE");
    if (!rc)
        rc = sfs_db_exec(db, sfs_schema_sql);
    if (!rc)
        rc = insert_pool(db, env, pool, name);
    return rc ? rc : sfs_db_exec(db, state);
}

int sfs_catalog_create(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_uuid *pool,
                       const char *pool_name, struct sfs_error *err)
{
    sqlite3 *db = NULL;
    int64_t n;
    int rc = sfs_db_open(r, false, &db);
    if (!rc)
        rc = sfs_db_int(db, "SELECT count(*) FROM sqlite_schema", &n);
    if (!rc && n > 0)
        rc = -EEXIST;
    if (!rc)
        rc = set_up_file(db);
    if (!rc)
        rc = fill(db, env, pool, pool_name);
    if (!rc)
        rc = sfs_db_errno(db, sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
    sqlite3_close(db);
    if (!rc)
        rc = sfs_replicas_sync_wal(r);
    if (rc == -EEXIST)
        return sfs_error_set(err, rc, "pool %s: its disks hold a catalog already.", pool_name);
    if (rc)
        return sfs_error_set(err, rc, "pool %s: the catalog could not be written: %s.", pool_name,
                             strerror(-rc));
    return 0;
}

/* --- opening --- */

int sfs_catalog_check_version(sqlite3 *db, bool readonly, struct sfs_error *err)
{
    int64_t app = 0, version = 0, ro_compat = 0, incompat = 0, reserve = 0;
    int rc = sfs_db_int(db, "PRAGMA application_id", &app);
    if (!rc)
        rc = sfs_db_int(db, "PRAGMA user_version", &version);
    if (!rc && app != SFS_APPLICATION_ID)
        return sfs_error_set(err, -EOPNOTSUPP, "The catalog isn't one of spacesfs (application id %lld).",
                             (long long)app);
    if (!rc && version != SFS_SCHEMA_VERSION)
        return sfs_error_set(
            err, -EOPNOTSUPP,
            "The catalog has format %lld; this program knows format %d. Use a newer spacesfs.",
            (long long)version, SFS_SCHEMA_VERSION);
    int bytes = -1;
    if (!rc)
        rc = sfs_db_errno(db, sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes));
    reserve = bytes;
    if (!rc && reserve != SFS_PAGE_RESERVED)
        return sfs_error_set(err, -EUCLEAN, "The catalog's pages have %lld reserved bytes instead of %u.",
                             (long long)reserve, SFS_PAGE_RESERVED);
    if (!rc)
        rc = sfs_db_int(db, "SELECT ro_compat FROM pool WHERE id = 1", &ro_compat);
    if (!rc)
        rc = sfs_db_int(db, "SELECT incompat FROM pool WHERE id = 1", &incompat);
    if (!rc && ((uint64_t)incompat & ~(uint64_t)SFS_CATALOG_INCOMPAT))
        return sfs_error_set(err, -EOPNOTSUPP,
                             "The pool uses features that this program does not know (incompat bits %llx). "
                             "Use a newer spacesfs.",
                             (unsigned long long)incompat);
    if (!rc && ((uint64_t)ro_compat & ~(uint64_t)SFS_CATALOG_RO_COMPAT) && !readonly)
        return sfs_error_set(err, -EROFS,
                             "The pool uses features that this program can only read (ro_compat bits %llx). "
                             "Mount it read-only, or use a newer spacesfs.",
                             (unsigned long long)ro_compat);
    return rc == -ENOENT ? -EUCLEAN : rc;
}

static int load_counts(struct sfs_catalog *cat)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(cat->db, "SELECT id, inodes FROM space ORDER BY id", -1, &st, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        struct sfs_inode_count *v = realloc(cat->counts, (cat->ncounts + 1) * sizeof(*v));
        if (!v) {
            sqlite3_finalize(st);
            return -ENOMEM;
        }
        cat->counts = v;
        v[cat->ncounts++] = (struct sfs_inode_count){.space = sqlite3_column_int(st, 0),
                                                     .count = sqlite3_column_int64(st, 1)};
    }
    rc = sfs_db_errno(cat->db, rc);
    sqlite3_finalize(st);
    return rc;
}

static int load_state(struct sfs_catalog *cat)
{
    static const char *const columns[] = {"commit_seq", "next_ino", "next_disk", "next_space", "next_group"};
    uint64_t *const values[] = {&cat->seq, &cat->next_ino, &cat->next_disk, &cat->next_space,
                                &cat->next_group};
    int64_t v = 0;
    int rc = 0;
    for (unsigned i = 0; i < sizeof(columns) / sizeof(columns[0]) && !rc; i++) {
        char sql[80];
        snprintf(sql, sizeof(sql), "SELECT %s FROM state WHERE id = 1", columns[i]);
        rc = sfs_db_int(cat->db, sql, &v);
        if (!rc && v <= 0)
            rc = -EUCLEAN;
        *values[i] = (uint64_t)v;
    }
    if (!rc)
        rc = sfs_db_int(cat->db, "SELECT name_seed FROM pool WHERE id = 1", &v);
    cat->name_seed = (uint64_t)v;
    if (!rc)
        rc = sfs_db_int(cat->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'state'", &v);
    if (!rc)
        sfs_rset_set_last_page(cat->r, (uint64_t)v);
    if (!rc)
        rc = load_counts(cat);
    return rc == -ENOENT ? -EUCLEAN : rc;
}

static int on_wal(void *ctx, sqlite3 *db, const char *name, int frames)
{
    struct sfs_catalog *cat = ctx;
    (void)db;
    (void)name;
    cat->wal_frames = frames > 0 ? (uint64_t)frames : 0;
    if (cat->wal_most < cat->wal_frames)
        cat->wal_most = cat->wal_frames;
    return SQLITE_OK;
}

static int begin(struct sfs_catalog *cat)
{
    int64_t pages = 0;
    int rc = sfs_db_exec(cat->db, cat->opts.readonly ? "BEGIN" : "BEGIN IMMEDIATE");
    cat->in_tx = rc == 0;
    if (!rc)
        rc = sfs_db_int(cat->db, "PRAGMA freelist_count", &pages);
    cat->free_pages = (uint64_t)pages;
    return rc;
}

static int open_writer(struct sfs_catalog *cat, struct sfs_error *err)
{
    char pragma[100];
    int rc = sfs_db_open(cat->r, cat->opts.readonly, &cat->db);
    if (rc)
        return rc;
    rc = sfs_catalog_check_version(cat->db, cat->opts.readonly, err);
    if (!rc)
        rc = load_state(cat);
    /* No sync by SQLite when it commits: sfs_catalog_commit_sync does that, outside the lock, for several
     * commits at once. */
    snprintf(pragma, sizeof(pragma), "PRAGMA synchronous = OFF; PRAGMA cache_size = -%llu;",
             (unsigned long long)(cat->opts.cache_bytes / 1024));
    if (!rc)
        rc = sfs_db_exec(cat->db, pragma);
    sqlite3_wal_hook(cat->db, on_wal, cat);
    if (!rc)
        rc = begin(cat);
    if (!rc && !cat->opts.readonly)
        rc = sfs_checkpointer_start(cat, &cat->ckpt);
    return rc;
}

int sfs_catalog_open(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_catalog_opts *opts,
                     struct sfs_catalog **out, struct sfs_error *err)
{
    struct sfs_catalog *cat = calloc(1, sizeof(*cat));
    struct sfs_error said = {0};
    if (!cat)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    cat->env = env;
    cat->r = r;
    if (opts)
        cat->opts = *opts;
    if (r->readonly)
        cat->opts.readonly = true;
    if (!cat->opts.wal_limit_bytes)
        cat->opts.wal_limit_bytes = DEFAULT_WAL_LIMIT;
    if (!cat->opts.cache_bytes)
        cat->opts.cache_bytes = DEFAULT_CACHE;
    sfs_mutex_init(&cat->lock, env, SFS_RANK_CATALOG);
    int rc = open_writer(cat, &said);
    if (rc) {
        cat->broken = true; /* nothing to checkpoint */
        sfs_catalog_close(cat);
        if (said.code)
            return sfs_error_set(err, said.code, "%s", said.text);
        if (rc == -EUCLEAN)
            return sfs_error_set(err, rc, "The catalog is damaged on all its disks. Run spacesfs-check.");
        return sfs_error_set(err, rc, "The catalog could not be opened: %s.", strerror(-rc));
    }
    *out = cat;
    return 0;
}

void sfs_catalog_close(struct sfs_catalog *cat)
{
    if (!cat)
        return;
    sfs_stmt_free_all(cat);
    if (cat->in_tx && !sqlite3_get_autocommit(cat->db))
        sqlite3_exec(cat->db, "ROLLBACK", NULL, NULL, NULL);
    sfs_checkpointer_stop(cat->ckpt);
    if (cat->db && !cat->broken && !cat->opts.readonly) {
        /* So that the next open finds nothing to recover. If it doesn't work, recovery will do it. */
        int rc = sfs_db_exec(cat->db, "PRAGMA synchronous = FULL");
        if (!rc)
            rc = sfs_db_errno(
                cat->db, sqlite3_wal_checkpoint_v2(cat->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
        if (!rc)
            sfs_replicas_sync_wal(cat->r);
    }
    sqlite3_close(cat->db);
    free(cat->counts);
    sfs_mutex_destroy(&cat->lock);
    free(cat);
}

/* --- committing --- */

void sfs_catalog_lock(struct sfs_catalog *cat)
{
    sfs_mutex_lock(&cat->lock);
}

void sfs_catalog_unlock(struct sfs_catalog *cat)
{
    sfs_mutex_unlock(&cat->lock);
}

void sfs_catalog_break(struct sfs_catalog *cat)
{
    cat->broken = true;
}

bool sfs_catalog_broken(struct sfs_catalog *cat)
{
    return cat->broken;
}

void sfs_catalog_count_inodes(struct sfs_catalog *cat, int space, int delta)
{
    for (unsigned i = 0; i < cat->ncounts; i++) {
        if (cat->counts[i].space == space) {
            cat->counts[i].count += delta;
            cat->counts[i].dirty = true;
        }
    }
}

static int write_state(struct sfs_catalog *cat)
{
    for (unsigned i = 0; i < cat->ncounts; i++) {
        struct sfs_inode_count *c = &cat->counts[i];
        if (!c->dirty)
            continue;
        int rc = sfs_stmt_run(cat, SFS_STMT_COUNT_SET, SFS_ARGS(SFS_INT(c->space), SFS_INT(c->count)));
        if (rc < 0)
            return rc;
        c->dirty = false;
    }
    int rc = sfs_stmt_run(cat, SFS_STMT_STATE_SET,
                          SFS_ARGS(SFS_INT(cat->seq + 1), SFS_INT(cat->next_ino), SFS_INT(cat->next_disk),
                                   SFS_INT(cat->next_space), SFS_INT(cat->next_group)));
    return rc < 0 ? rc : rc == 1 ? 0 : -EUCLEAN;
}

/* Room is so short that growth is refused, or about to be. */
static bool room_is_short(struct sfs_catalog *cat)
{
    return cat->opts.free_bytes && cat->opts.free_bytes(cat->opts.ctx) < 2 * ROOM_RESERVE;
}

/* Over the limit, or over a small one where room is short, waits for a checkpoint so that the next commit begins the WAL anew. Not while a snapshot is
 * being read: that pins the WAL, and the wait would be for nothing; then the WAL may grow further, up to a
 * bound. */
static void hold_back(struct sfs_catalog *cat)
{
    uint64_t bytes = cat->wal_frames * FRAME_BYTES, limit = cat->opts.wal_limit_bytes;
    if (bytes >= SHORT_WAL_LIMIT && bytes < limit && room_is_short(cat))
        limit = SHORT_WAL_LIMIT;
    if (bytes < limit || (cat->snapshots && bytes < limit * SNAPSHOT_FACTOR))
        return;
    sfs_checkpointer_wait(
        cat->ckpt); /* failing is not the commit's concern: the WAL grows on, until the disks are full */
}

int sfs_catalog_commit(struct sfs_catalog *cat, bool *changed)
{
    int rc;
    sfs_mutex_assert_held(&cat->lock);
    if (changed)
        *changed = false;
    if (cat->broken)
        return -EROFS;
    if (!cat->changed)
        return 0;
    rc = write_state(cat);
    if (!rc)
        rc = sfs_db_exec(cat->db, "COMMIT");
    cat->in_tx = !sqlite3_get_autocommit(cat->db);
    if (!rc)
        rc = sfs_replicas_flush_wal(cat->r);
    if (!rc) {
        cat->seq++;
        cat->changed = false;
        cat->pending_bytes = 0;
        sfs_checkpointer_note(cat->ckpt, cat->wal_frames);
        hold_back(cat);
        rc = begin(cat);
    }
    if (rc) {
        sfs_catalog_break(cat);
        return rc;
    }
    if (changed)
        *changed = true;
    return 0;
}

int sfs_catalog_commit_sync(struct sfs_catalog *cat)
{
    if (cat->broken)
        return -EROFS;
    if (cat->opts.readonly)
        return 0;
    int rc = sfs_replicas_sync_wal(cat->r);
    if (rc)
        sfs_catalog_break(cat);
    return rc;
}

uint64_t sfs_catalog_commit_seq(struct sfs_catalog *cat)
{
    sfs_mutex_assert_held(&cat->lock);
    return cat->seq;
}

uint64_t sfs_catalog_pending_bytes(struct sfs_catalog *cat)
{
    return cat->pending_bytes;
}

int sfs_catalog_room(struct sfs_catalog *cat, uint64_t bytes)
{
    if (!cat->opts.free_bytes)
        return 0;
    /* What is added lies in the WAL first, then in the database; both files have room within that deleting has left. */
    uint64_t wal = bytes + cat->pending_bytes, db = wal, most = cat->wal_most, frames = cat->wal_frames;
    uint64_t in_wal = (most > frames ? most - frames : 0) * FRAME_BYTES, in_db = cat->free_pages * SFS_PAGE_BYTES;
    uint64_t has = cat->opts.free_bytes(cat->opts.ctx);
    db -= db < in_db ? db : in_db;
    return db <= has && db + wal + ROOM_RESERVE <= has + in_wal ? 0 : -ENOSPC;
}
