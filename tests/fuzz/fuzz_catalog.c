/* A pool whose catalog was tampered with, on all replicas alike: values of rows (the first byte chooses), bytes of pages (their trailers made right, so
 * that SQLite sees them), or a write-ahead log of the input's making. Then it is opened and used like any other. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pool.h"

#include <sqlite3.h>

#include "meta/page.h"
#include "meta/replicas.h"

#define DB_MAX (4u << 20)

static struct sfs_disk *open_disk(struct fuzz_pool *f, const char *path)
{
    const struct sfs_disk_opts opts = {.world = f->world};
    struct sfs_error err = {0};
    struct sfs_disk *d;
    FUZZ_CHECK(sfs_disk_open(f->env, path, &opts, &d, &err) == 0);
    return d;
}

/* --- ways to tamper ----------------------------------------------------------------------------------- */

struct columns {
    char table[64][32], column[64][32];
    unsigned n;
};

static int take_column(void *ctx, int n, char **values, char **names)
{
    struct columns *c = ctx;
    (void)names;
    FUZZ_CHECK(n == 2);
    if (c->n == 64)
        return 0;
    snprintf(c->table[c->n], sizeof(c->table[0]), "%s", values[0]);
    snprintf(c->column[c->n++], sizeof(c->column[0]), "%s", values[1]);
    return 0;
}

/* A value that somebody might put where another one was. */
static void value(struct fuzz_input *in, char *out, size_t cap)
{
    uint32_t how = fuzz_take(in, 1);
    switch (how % 8) {
    case 0:
        snprintf(out, cap, "%u", fuzz_take(in, 1));
        break;
    case 1:
        snprintf(out, cap, "%u", fuzz_take(in, 4));
        break;
    case 2:
        snprintf(out, cap, "-%u", fuzz_take(in, 2));
        break;
    case 3:
        snprintf(out, cap, "9223372036854775807 - %u", fuzz_take(in, 1));
        break;
    case 4:
        snprintf(out, cap, "zeroblob(%u)", fuzz_take(in, 2));
        break;
    case 5:
        snprintf(out, cap, "CAST(x'%08x%08x' AS TEXT)", fuzz_take(in, 4), fuzz_take(in, 4));
        break;
    case 6:
        snprintf(out, cap, "x'%08x%08x%08x%08x'", fuzz_take(in, 4), fuzz_take(in, 4), fuzz_take(in, 4), fuzz_take(in, 4));
        break;
    default:
        snprintf(out, cap, "%s", how & 8 ? "NULL" : "(SELECT max(rowid) FROM inode)");
    }
}

/* Rows that contradict each other, in a database that SQLite finds nothing wrong with. */
static uint8_t *tamper_rows(struct fuzz_input *in, uint8_t *bytes, int64_t *size)
{
    struct columns *c = calloc(1, sizeof(*c));
    sqlite3_int64 now;
    sqlite3 *db;
    FUZZ_CHECK(c && sqlite3_open(":memory:", &db) == SQLITE_OK);
    bytes[18] = bytes[19] = 1; /* a database in memory has no WAL */
    FUZZ_CHECK(sqlite3_deserialize(db, "main", bytes, *size, *size, 0) == SQLITE_OK);
    FUZZ_CHECK(sqlite3_exec(db, "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%'",
                            take_column, c, NULL) == SQLITE_OK);
    while (in->left && c->n) {
        unsigned k = fuzz_take(in, 1) % c->n, row = fuzz_take(in, 1) % 16;
        char text[128], sql[512];
        value(in, text, sizeof(text));
        snprintf(sql, sizeof(sql), "UPDATE OR IGNORE \"%s\" SET \"%s\" = %s WHERE \"%s\" IN (SELECT \"%s\" FROM \"%s\" LIMIT 1 OFFSET %u)", c->table[k], c->column[k],
                 text, c->column[k], c->column[k], c->table[k], row);
        (void)sqlite3_exec(db, sql, NULL, NULL, NULL); /* what the schema's own constraints refuse stays as it is */
    }
    uint8_t *out = sqlite3_serialize(db, "main", &now, 0), *copy = out ? malloc((size_t)now) : NULL;
    FUZZ_CHECK(copy && now % SFS_PAGE_BYTES == 0);
    memcpy(copy, out, (size_t)now);
    copy[18] = copy[19] = 2;
    for (int64_t at = 0; at < now; at += SFS_PAGE_BYTES)
        sfs_page_seal(copy + at, (uint64_t)(at / SFS_PAGE_BYTES) + 1);
    *size = now;
    sqlite3_free(out);
    sqlite3_close(db);
    free(c);
    free(bytes);
    return copy;
}

static void tamper_pages(struct fuzz_input *in, uint8_t *db, int64_t size)
{
    size_t where;
    while (fuzz_patch(in, db, (size_t)size, &where))
        sfs_page_seal(db + where / SFS_PAGE_BYTES * SFS_PAGE_BYTES, (uint64_t)(where / SFS_PAGE_BYTES) + 1);
}

static void tamper(struct fuzz_pool *f, struct sfs_disk *d)
{
    struct fuzz_input in = {f->data, f->size};
    uint32_t how = fuzz_take(&in, 1);
    int64_t size = sfs_disk_meta_size(d, SFS_CATALOG_FILE);
    FUZZ_CHECK(size > 0 && size < DB_MAX);
    uint8_t *db = malloc((size_t)size);
    FUZZ_CHECK(db && sfs_disk_meta_read(d, SFS_CATALOG_FILE, db, (size_t)size, 0) == size);
    switch (how % 4) {
    case 0:
    case 1:
        db = tamper_rows(&in, db, &size);
        break;
    case 2:
        FUZZ_CHECK(sfs_disk_meta_write(d, SFS_CATALOG_FILE "-wal", in.at, in.left, 0) == 0);
        break;
    default:
        tamper_pages(&in, db, size);
    }
    FUZZ_CHECK(sfs_disk_meta_write(d, SFS_CATALOG_FILE, db, (size_t)size, 0) == 0);
    free(db);
}

static void body(struct fuzz_pool *f)
{
    const char *const paths[] = {"sim:a", "sim:b"};
    for (unsigned i = 0; i < 2; i++) {
        struct sfs_disk *d = open_disk(f, paths[i]);
        tamper(f, d);
        sfs_disk_close(d);
    }
    for (unsigned round = 0; round < 2; round++) {
        struct sfs_pool *p = fuzz_pool_open(f, (f->data[0] & 4) != 0);
        if (!p)
            return;
        fuzz_pool_use(p, "s");
        (void)sfs_pool_close(p);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1)
        fuzz_pool_run(data, size, body);
    return 0;
}
