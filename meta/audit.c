/* The audit's connection: opening, what the disks say, SQLite's own check, the transaction. */
#include "meta/audit_impl.h"
#include "meta/replicas_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* --- functions that the table uses --- */

static void geo_capacity(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sfs_audit *a = sqlite3_user_data(ctx);
    (void)n;
    uint64_t bytes =
        a->geo.capacity(a->geo.ctx, sqlite3_value_int64(v[0]), sqlite3_value_int64(v[1]), sqlite3_value_int64(v[2]));
    sqlite3_result_int64(ctx, bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes);
}

static void geo_copies(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sfs_audit *a = sqlite3_user_data(ctx);
    int64_t r = sqlite3_value_int64(v[0]);
    (void)n;
    sqlite3_result_int64(ctx, r >= 0 && r <= 4 ? a->geo.copies(r) : 1);
}

static void geo_parity(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sfs_audit *a = sqlite3_user_data(ctx);
    int64_t r = sqlite3_value_int64(v[0]);
    (void)n;
    sqlite3_result_int64(ctx, r >= 0 && r <= 4 ? a->geo.parity(r) : 0);
}

static void prop_ok(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sfs_audit *a = sqlite3_user_data(ctx);
    const char *key = (const char *)sqlite3_value_text(v[0]), *value = (const char *)sqlite3_value_text(v[1]);
    (void)n;
    sqlite3_result_int(ctx, key && value && (!a->geo.prop_ok || a->geo.prop_ok(key, value)));
}

static void name_cookie(sqlite3_context *ctx, int n, sqlite3_value **v)
{
    struct sfs_audit *a = sqlite3_user_data(ctx);
    const void *name = sqlite3_value_blob(v[0]);
    (void)n;
    sqlite3_result_int64(ctx, (int64_t)sfs_dentry_cookie(a->name_seed, name ? name : "", (size_t)sqlite3_value_bytes(v[0])));
}

static int add_functions(struct sfs_audit *a)
{
    static const struct {
        const char *name;
        int args;
        void (*fn)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {{"geo_capacity", 3, geo_capacity}, {"geo_copies", 1, geo_copies}, {"geo_parity", 1, geo_parity}, {"name_cookie", 1, name_cookie}, {"prop_ok", 2, prop_ok}};
    int rc = SQLITE_OK;
    for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]) && rc == SQLITE_OK; i++)
        rc = sqlite3_create_function_v2(a->db, functions[i].name, functions[i].args, SQLITE_UTF8 | SQLITE_DETERMINISTIC, a, functions[i].fn, NULL, NULL, NULL);
    return sfs_db_errno(a->db, rc);
}

/* --- opening and closing --- */

static const char temp_tables[] =
    "CREATE TEMP TABLE found (a INTEGER, b INTEGER, c INTEGER, t, ino INTEGER);"
    "CREATE TEMP TABLE own (uuid BLOB, zero INTEGER, name TEXT, one INTEGER);"
    "CREATE TEMP TABLE label (uuid BLOB PRIMARY KEY, name TEXT, capacity INTEGER, listed INTEGER);"
    "CREATE TEMP TABLE present (uuid BLOB, slot INTEGER, PRIMARY KEY (uuid, slot)) WITHOUT ROWID;"
    "CREATE TEMP TABLE claimed (uuid BLOB, slot INTEGER, PRIMARY KEY (uuid, slot)) WITHOUT ROWID;"
    "CREATE TEMP TABLE proof (grp INTEGER, col INTEGER, copy INTEGER, good INTEGER, PRIMARY KEY (grp, col, copy)) WITHOUT ROWID;"
    "CREATE TEMP TABLE dying AS SELECT id FROM main.space WHERE destroying = 1";

static int open_db(struct sfs_audit *a, struct sfs_error *err)
{
    int64_t v = 0;
    int rc = sfs_db_open(a->r, a->readonly, &a->db);
    if (!rc)
        rc = sfs_catalog_check_version(a->db, a->readonly, err);
    if (!rc)
        rc = sfs_db_int(a->db, "SELECT name_seed FROM pool WHERE id = 1", &v);
    a->name_seed = (uint64_t)v;
    if (!rc)
        rc = sfs_db_int(a->db, "SELECT rootpage FROM sqlite_schema WHERE name = 'state'", &v);
    if (!rc)
        sfs_rset_set_last_page(a->r, (uint64_t)v);
    if (!rc)
        rc = add_functions(a);
    if (!rc)
        rc = sfs_db_exec(a->db, "PRAGMA synchronous = FULL; PRAGMA cache_size = -65536;");
    if (!rc)
        rc = sfs_db_exec(a->db, temp_tables);
    if (!rc)
        rc = sfs_db_exec(a->db, a->readonly ? "BEGIN" : "BEGIN IMMEDIATE");
    a->in_tx = rc == 0;
    return rc == -ENOENT ? -EUCLEAN : rc;
}

int sfs_audit_open(struct sfs_env *env, struct sfs_replicas *r, const struct sfs_audit_geometry *geo, bool readonly, struct sfs_audit **out, struct sfs_error *err)
{
    struct sfs_error said = {0};
    struct sfs_audit *a = calloc(1, sizeof(*a));
    if (!a)
        return sfs_error_set(err, -ENOMEM, "Out of memory.");
    a->env = env;
    a->r = r;
    a->geo = *geo;
    a->readonly = readonly || r->readonly;
    int rc = open_db(a, &said);
    if (rc) {
        sfs_audit_close(a);
        if (said.code)
            return sfs_error_set(err, said.code, "%s", said.text);
        return sfs_error_set(err, rc, "The catalog could not be opened: %s.", strerror(-rc));
    }
    *out = a;
    return 0;
}

void sfs_audit_close(struct sfs_audit *a)
{
    if (!a)
        return;
    if (a->in_tx && !sqlite3_get_autocommit(a->db))
        sqlite3_exec(a->db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(a->db);
    free(a);
}

/* --- what the disks say --- */

static int insert(struct sfs_audit *a, const char *sql, const struct sfs_uuid *uuid, const char *name, int64_t x, int64_t y)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(st, 1, uuid->b, sizeof(uuid->b), SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 2, x);
    if (rc == SQLITE_OK && name)
        rc = sqlite3_bind_text(st, 3, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK && name)
        rc = sqlite3_bind_int64(st, 4, y);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

int sfs_audit_pool(struct sfs_audit *a, const struct sfs_uuid *uuid, const char *name)
{
    int rc = sfs_db_exec(a->db, "DELETE FROM temp.own");
    return rc ? rc : insert(a, "INSERT INTO temp.own (uuid, zero, name, one) VALUES (?1, ?2, ?3, ?4)", uuid, name, 0, 1);
}

int sfs_audit_disk(struct sfs_audit *a, const struct sfs_uuid *uuid, const char *name, uint64_t capacity_slabs, bool listed)
{
    return insert(a, "INSERT OR REPLACE INTO temp.label (uuid, capacity, name, listed) VALUES (?1, ?2, ?3, ?4)", uuid, name, (int64_t)capacity_slabs, listed);
}

int sfs_audit_slot_present(struct sfs_audit *a, const struct sfs_uuid *disk, uint32_t slot)
{
    return insert(a, "INSERT OR IGNORE INTO temp.present (uuid, slot) VALUES (?1, ?2)", disk, NULL, slot, 0);
}

int sfs_audit_slot_claimed(struct sfs_audit *a, const struct sfs_uuid *disk, uint32_t slot)
{
    return insert(a, "INSERT OR IGNORE INTO temp.claimed (uuid, slot) VALUES (?1, ?2)", disk, NULL, slot, 0);
}

int sfs_audit_slots_unknown(struct sfs_audit *a, int (*fn)(void *ctx, const struct sfs_uuid *disk, uint32_t slot), void *ctx)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db,
                                "SELECT p.uuid, p.slot FROM temp.present p JOIN disk d ON d.uuid = p.uuid "
                                "WHERE NOT EXISTS (SELECT 1 FROM slab s WHERE s.disk = d.id AND s.slot = p.slot AND s.disk <> 0)",
                                -1, &st, NULL);
    int stop = 0;
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        struct sfs_uuid uuid;
        memcpy(uuid.b, sqlite3_column_blob(st, 0), sizeof(uuid.b)); /* ours: from sfs_audit_slot_present */
        stop = fn(ctx, &uuid, (uint32_t)sqlite3_column_int64(st, 1));
        if (stop)
            break;
    }
    rc = stop ? stop : sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

/* --- SQLite's own check --- */

struct complaints {
    void (*fn)(void *ctx, const char *text);
    void *ctx;
    uint64_t *n;
};

static void complain(struct complaints *c, const char *text)
{
    ++*c->n;
    if (c->fn)
        c->fn(c->ctx, text);
}

static int each_text(sqlite3 *db, const char *sql, int (*fn)(void *ctx, sqlite3_stmt *row), void *ctx)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &st, NULL), stop = 0;
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        stop = fn(ctx, st);
        if (stop)
            break;
    }
    rc = stop ? stop : sfs_db_errno(db, rc);
    sqlite3_finalize(st);
    return rc;
}

static int take_complaint(void *ctx, sqlite3_stmt *row)
{
    const char *text = (const char *)sqlite3_column_text(row, 0);
    if (text && strcmp(text, "ok") != 0)
        complain(ctx, text);
    return 0;
}

/* A database in memory made from schema.sql: what the tables should be. */
static int open_model(sqlite3 **out)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    rc = rc == SQLITE_OK ? sfs_db_exec(db, sfs_schema_sql) : -ENOMEM;
    if (rc)
        sqlite3_close(db);
    else
        *out = db;
    return rc;
}

struct compare {
    struct sfs_audit *a;
    struct complaints *c;
};

static int same_sql(sqlite3 *db, const char *name, const char *sql, bool *same)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT 1 FROM main.sqlite_schema WHERE name = ?1 AND sql = ?2", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 2, sql, -1, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    *same = rc == SQLITE_ROW;
    rc = sfs_db_errno(db, rc);
    sqlite3_finalize(st);
    return rc;
}

static int compare_one(void *ctx, sqlite3_stmt *row)
{
    struct compare *v = ctx;
    const char *name = (const char *)sqlite3_column_text(row, 0), *sql = (const char *)sqlite3_column_text(row, 1);
    char text[160];
    bool same = false;
    int rc = name && sql ? same_sql(v->a->db, name, sql, &same) : -ENOMEM;
    if (!rc && !same) {
        snprintf(text, sizeof(text), "%s %s is missing or different", (const char *)sqlite3_column_text(row, 2), name);
        complain(v->c, text);
    }
    return rc;
}

int sfs_audit_integrity(struct sfs_audit *a, void (*fn)(void *ctx, const char *text), void *ctx, uint64_t *n)
{
    struct complaints c = {fn, ctx, n};
    struct compare v = {a, &c};
    sqlite3 *model = NULL;
    *n = 0;
    int rc = each_text(a->db, "PRAGMA main.integrity_check(200)", take_complaint, &c);
    if (rc == -EUCLEAN && *n == 0) {
        complain(&c, sqlite3_errmsg(a->db));
        return 0;
    }
    if (!rc)
        rc = open_model(&model);
    if (!rc)
        rc = each_text(model, "SELECT name, sql, type FROM sqlite_schema WHERE sql IS NOT NULL", compare_one, &v);
    sqlite3_close(model);
    return rc;
}

struct remake {
    struct sfs_audit *a;
    bool drop;
};

static int remake_one(void *ctx, sqlite3_stmt *row)
{
    struct remake *v = ctx;
    char drop[100];
    bool there = false;
    const char *name = (const char *)sqlite3_column_text(row, 0), *sql = (const char *)sqlite3_column_text(row, 1);
    if (!name || !sql)
        return -ENOMEM;
    snprintf(drop, sizeof(drop), "DROP INDEX IF EXISTS main.\"%.60s\"", name);
    int rc = v->drop ? sfs_db_exec(v->a->db, drop) : 0;
    if (!rc && !v->drop)
        rc = same_sql(v->a->db, name, sql, &there);
    return rc || there ? rc : v->drop && strstr(sql, "UNIQUE") ? 0 : sfs_db_exec(v->a->db, sql);
}

/* drop: all anew, but for those that are unique, whose tables may hold doubles still; else those that aren't there. */
static int remake_indexes(struct sfs_audit *a, bool drop)
{
    struct remake v = {a, drop};
    sqlite3 *model = NULL;
    int rc = open_model(&model);
    if (!rc)
        rc = each_text(model, "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL", remake_one, &v);
    sqlite3_close(model);
    return rc;
}

int sfs_audit_reindex(struct sfs_audit *a)
{
    if (a->readonly)
        return -EROFS;
    a->changed = true;
    int rc = remake_indexes(a, true);
    return rc ? rc : sfs_db_exec(a->db, "REINDEX main.disk; REINDEX main.space;");
}

/* --- faults --- */

int sfs_audit_find(struct sfs_audit *a, enum sfs_fault fault, uint64_t *n)
{
    const struct sfs_audit_rule *rule = &sfs_audit_rules[fault];
    int64_t count = 0;
    int rc = sfs_db_exec(a->db, "DELETE FROM temp.found");
    if (!rc)
        rc = rule->find_fn ? rule->find_fn(a) : sfs_db_exec(a->db, rule->find);
    if (!rc)
        rc = sfs_db_int(a->db, "SELECT count(*) FROM temp.found", &count);
    *n = (uint64_t)count;
    return rc;
}

static void copy_text(sqlite3_stmt *st, int col, char *out)
{
    const char *text = sqlite3_column_blob(st, col);
    int len = sqlite3_column_bytes(st, col);
    if (len > (int)SFS_AUDIT_TEXT)
        len = (int)SFS_AUDIT_TEXT;
    if (text && len)
        memcpy(out, text, (size_t)len);
    out[text && len > 0 ? len : 0] = '\0';
}

/* "SPACE:/dir/file", as far as names lead up; "" for what has none. */
static void path_of(struct sfs_audit *a, int64_t ino, char *out)
{
    static const char sql[] = "SELECT d.parent, d.name, (SELECT name FROM space WHERE root_ino = ?1) FROM (SELECT 1) LEFT JOIN "
                              "(SELECT parent, name FROM dentry WHERE ino = ?1 LIMIT 1) d";
    char path[SFS_AUDIT_TEXT + 1] = "", next[SFS_AUDIT_TEXT + 1], name[SFS_AUDIT_TEXT + 1];
    sqlite3_stmt *st = NULL;
    bool more = ino != 0 && sqlite3_prepare_v2(a->db, sql, -1, &st, NULL) == SQLITE_OK;
    for (unsigned depth = 0; more && depth < 64; depth++) {
        sqlite3_reset(st);
        sqlite3_bind_int64(st, 1, ino);
        more = sqlite3_step(st) == SQLITE_ROW;
        if (!more)
            break;
        bool root = sqlite3_column_type(st, 2) != SQLITE_NULL;
        more = !root && sqlite3_column_type(st, 0) != SQLITE_NULL;
        copy_text(st, root ? 2 : 1, name);
        int n = root   ? snprintf(next, sizeof(next), "%.64s:%.230s", name, path[0] ? path : "/")
                : more ? snprintf(next, sizeof(next), "/%s%s", name, path)
                       : snprintf(next, sizeof(next), "%s", path);
        if (n < 0 || n >= (int)sizeof(next))
            break;
        memcpy(path, next, sizeof(path));
        ino = sqlite3_column_int64(st, 0);
    }
    sqlite3_finalize(st);
    memcpy(out, path, sizeof(path));
}

struct each {
    struct sfs_audit *a;
    void (*fn)(void *ctx, const struct sfs_audit_item *);
    void *ctx;
};

static int each_item(void *ctx, sqlite3_stmt *row)
{
    struct each *e = ctx;
    struct sfs_audit_item item = {.a = sqlite3_column_int64(row, 0), .b = sqlite3_column_int64(row, 1), .c = sqlite3_column_int64(row, 2)};
    copy_text(row, 3, item.text);
    path_of(e->a, sqlite3_column_int64(row, 4), item.path);
    e->fn(e->ctx, &item);
    return 0;
}

int sfs_audit_each(struct sfs_audit *a, unsigned max, void (*fn)(void *ctx, const struct sfs_audit_item *), void *ctx)
{
    char sql[100];
    struct each e = {a, fn, ctx};
    snprintf(sql, sizeof(sql), "SELECT a, b, c, t, ino FROM temp.found ORDER BY rowid LIMIT %u", max);
    return each_text(a->db, sql, each_item, &e);
}

int sfs_audit_mend(struct sfs_audit *a, enum sfs_fault fault)
{
    const struct sfs_audit_rule *rule = &sfs_audit_rules[fault];
    if (a->readonly)
        return -EROFS;
    a->changed = true;
    for (unsigned rounds = 0; rounds < 1000000; rounds++) {
        uint64_t n = 0;
        int rc = rule->mend_fn ? rule->mend_fn(a) : rule->mend ? sfs_db_exec(a->db, rule->mend) : -EOPNOTSUPP;
        if (rc || !rule->again)
            return rc;
        rc = sfs_audit_find(a, fault, &n);
        if (rc || n == 0)
            return rc;
    }
    return -ELOOP;
}

int sfs_audit_exec(struct sfs_audit *a, const char *sql)
{
    a->changed = true;
    return sfs_db_exec(a->db, sql);
}

bool sfs_audit_changed(const struct sfs_audit *a)
{
    return a->changed;
}

int sfs_audit_commit(struct sfs_audit *a)
{
    if (a->readonly)
        return -EROFS;
    int rc = remake_indexes(a, false);
    if (!rc || rc == -EEXIST) /* doubles that were not to be mended: the index waits */
        rc = sfs_db_exec(a->db, "UPDATE state SET commit_seq = commit_seq + 1; COMMIT");
    a->in_tx = !sqlite3_get_autocommit(a->db);
    if (!rc)
        rc = sfs_replicas_sync_wal(a->r);
    if (!rc)
        rc = sfs_db_errno(a->db, sqlite3_wal_checkpoint_v2(a->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL));
    return rc ? rc : sfs_replicas_sync_wal(a->r);
}
