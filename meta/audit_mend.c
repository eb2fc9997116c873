/* What the audit's table needs code for: names in directories, lost+found, lost bytes, overlapping extents. */
#include "meta/audit_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROBES 8      /* of dentry.c */
#define BLOCK 4096u
#define LOST_FOUND "lost+found"

/* --- small things --- */

/* Prepares, binds up to four integers, runs to its end. */
static int run(struct sfs_audit *a, const char *sql, int64_t w, int64_t x, int64_t y, int64_t z)
{
    const int64_t v[] = {w, x, y, z};
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL);
    for (int i = 0; rc == SQLITE_OK && i < sqlite3_bind_parameter_count(st) && i < 4; i++)
        rc = sqlite3_bind_int64(st, i + 1, v[i]);
    if (rc == SQLITE_OK)
        while ((rc = sqlite3_step(st)) == SQLITE_ROW)
            ;
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

/* First column of the first row; -ENOENT. */
static int get(struct sfs_audit *a, const char *sql, int64_t x, int64_t y, int64_t *out)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 1, x);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(st) > 1)
        rc = sqlite3_bind_int64(st, 2, y);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *out = sqlite3_column_int64(st, 0);
        rc = sqlite3_column_type(st, 0) == SQLITE_NULL ? -ENOENT : 0;
    } else {
        rc = rc == SQLITE_DONE ? -ENOENT : sfs_db_errno(a->db, rc);
    }
    sqlite3_finalize(st);
    return rc;
}

/* The k-th thing that was found; -ENOENT behind the last. The table may be read while others are changed. */
static int found_at(struct sfs_audit *a, int64_t k, int64_t *x, int64_t *y, int64_t *z)
{
    int rc = get(a, "SELECT a FROM temp.found WHERE rowid = ?1", k, 0, x);
    if (!rc)
        rc = get(a, "SELECT b FROM temp.found WHERE rowid = ?1", k, 0, y);
    if (!rc)
        rc = get(a, "SELECT c FROM temp.found WHERE rowid = ?1", k, 0, z);
    return rc;
}

/* Numbers the rows of temp.found from 1; *n of them. */
static int number_found(struct sfs_audit *a, int64_t *n)
{
    int rc = sfs_db_exec(a->db, "CREATE TEMP TABLE f2 AS SELECT a, coalesce(b, 0) AS b, coalesce(c, 0) AS c, t, ino FROM temp.found ORDER BY rowid;"
                                "DELETE FROM temp.found; INSERT INTO temp.found (rowid, a, b, c, t, ino) SELECT rowid, a, b, c, t, ino FROM temp.f2; DROP TABLE temp.f2");
    return rc ? rc : sfs_db_int(a->db, "SELECT count(*) FROM temp.found", n);
}

static int new_id(struct sfs_audit *a, const char *counter, const char *table, const char *key, int64_t *out)
{
    char sql[200];
    snprintf(sql, sizeof(sql), "SELECT max(%s, (SELECT coalesce(max(%s), 0) + 1 FROM %s)) FROM state", counter, key, table);
    int rc = sfs_db_int(a->db, sql, out);
    snprintf(sql, sizeof(sql), "UPDATE state SET %s = ?1 + 1", counter);
    return rc ? rc : run(a, sql, *out, 0, 0, 0);
}

static int new_inode(struct sfs_audit *a, int64_t ino, int64_t space, int64_t mode, int64_t parent)
{
    static const char sql[] =
        "INSERT INTO inode (ino, space, mode, nlink, uid, gid, rdev, size, parent, flags, atime, atime_ns, mtime, mtime_ns, ctime, ctime_ns, btime, btime_ns, sectors) "
        "SELECT ?1, ?2, ?3, 2, 0, 0, 0, 0, ?4, 0, t, 0, t, 0, t, 0, t, 0, 0 FROM (SELECT CAST(strftime('%s', 'now') AS INTEGER) AS t)";
    return run(a, sql, ino, space, mode, parent);
}

/* --- names --- */

static int find_name(struct sfs_audit *a, int64_t dir, const void *name, size_t len, int64_t *ino)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, "SELECT ino FROM dentry WHERE parent = ?1 AND name = ?2", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 1, dir);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(st, 2, name, (int)len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    *ino = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    rc = rc == SQLITE_DONE ? -ENOENT : sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

/* The first free cookie for a name; -ENOSPC when all its places are taken. */
static int free_cookie(struct sfs_audit *a, int64_t dir, const void *name, size_t len, int64_t *out)
{
    int64_t first = (int64_t)sfs_dentry_cookie(a->name_seed, name, len), taken;
    for (*out = first; *out < first + PROBES; ++*out) {
        int rc = get(a, "SELECT 1 FROM dentry WHERE parent = ?1 AND cookie = ?2", dir, *out, &taken);
        if (rc)
            return rc == -ENOENT ? 0 : rc;
    }
    return -ENOSPC;
}

static int add_name(struct sfs_audit *a, int64_t dir, const void *name, size_t len, int64_t ino, int64_t type)
{
    sqlite3_stmt *st = NULL;
    int64_t cookie;
    int rc = free_cookie(a, dir, name, len, &cookie);
    if (rc)
        return rc;
    rc = sqlite3_prepare_v2(a->db, "INSERT INTO dentry (parent, cookie, ino, type, name) VALUES (?1, ?2, ?3, ?4, ?5)", -1, &st, NULL);
    const int64_t v[] = {dir, cookie, ino, type};
    for (int i = 0; rc == SQLITE_OK && i < 4; i++)
        rc = sqlite3_bind_int64(st, i + 1, v[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_blob(st, 5, name, (int)len, SQLITE_STATIC);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    return rc;
}

/* The name again, where looking it up finds it. One that finds no place there is dropped, and its inode goes to lost+found. */
static int replace_name(struct sfs_audit *a, int64_t dir, int64_t cookie)
{
    sqlite3_stmt *st = NULL;
    uint8_t name[SFS_FILENAME_MAX];
    int64_t ino = 0, type = 0;
    int len = 0;
    int rc = sqlite3_prepare_v2(a->db, "SELECT ino, type, name FROM dentry WHERE parent = ?1 AND cookie = ?2", -1, &st, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 1, dir);
    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 2, cookie);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        ino = sqlite3_column_int64(st, 0);
        type = sqlite3_column_int64(st, 1);
        len = sqlite3_column_bytes(st, 2);
        if (len > 0 && len <= SFS_FILENAME_MAX)
            memcpy(name, sqlite3_column_blob(st, 2), (size_t)len);
    }
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    if (rc || len <= 0 || len > SFS_FILENAME_MAX)
        return rc;
    rc = run(a, "DELETE FROM dentry WHERE parent = ?1 AND cookie = ?2", dir, cookie, 0, 0);
    if (!rc)
        rc = add_name(a, dir, name, (size_t)len, ino, type);
    return rc == -ENOSPC ? 0 : rc;
}

int sfs_audit_mend_cookies(struct sfs_audit *a)
{
    int64_t n, dir, cookie, ino;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &dir, &cookie, &ino);
        if (!rc)
            rc = replace_name(a, dir, cookie);
    }
    return rc;
}

/* --- roots and lost+found --- */

static int mend_root(struct sfs_audit *a, int64_t space)
{
    int64_t root = 0, there;
    int rc = get(a, "SELECT root_ino FROM space WHERE id = ?1", space, 0, &root);
    if (rc)
        return rc;
    rc = get(a, "SELECT 1 FROM inode WHERE ino = ?1 AND space = ?2 AND mode >> 12 = 4", root, space, &there);
    if (!rc)
        return run(a, "UPDATE inode SET parent = ino, nlink = max(nlink, 2) WHERE ino = ?1", root, 0, 0, 0);
    if (rc != -ENOENT)
        return rc;
    rc = get(a, "SELECT 1 FROM inode WHERE ino = ?1", root, 0, &there);
    if (rc && rc != -ENOENT)
        return rc;
    if (rc == 0 || root <= 0) { /* the number is another's */
        rc = new_id(a, "next_ino", "inode", "ino", &root);
        if (!rc)
            rc = run(a, "UPDATE space SET root_ino = ?1 WHERE id = ?2", root, space, 0, 0);
        if (rc)
            return rc;
    }
    return new_inode(a, root, space, S_IFDIR | 0755, root);
}

int sfs_audit_mend_roots(struct sfs_audit *a)
{
    int64_t n, space, x, y;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &space, &x, &y);
        if (!rc)
            rc = mend_root(a, space);
    }
    return rc;
}

/* The directory lost+found of a space, made if need be. */
static int lost_found(struct sfs_audit *a, int64_t space, int64_t *out)
{
    char name[40] = LOST_FOUND;
    int64_t root, there, ino;
    int rc = get(a, "SELECT root_ino FROM space WHERE id = ?1", space, 0, &root);
    for (unsigned k = 2; !rc; k++) { /* a file may have the name */
        rc = find_name(a, root, name, strlen(name), &ino);
        if (rc == -ENOENT)
            break;
        if (!rc && get(a, "SELECT 1 FROM inode WHERE ino = ?1 AND mode >> 12 = 4", ino, 0, &there) == 0) {
            *out = ino;
            return 0;
        }
        snprintf(name, sizeof(name), LOST_FOUND "-%u", k);
    }
    if (rc != -ENOENT)
        return rc;
    rc = new_id(a, "next_ino", "inode", "ino", &ino);
    if (!rc)
        rc = new_inode(a, ino, space, S_IFDIR | 0700, root);
    if (!rc)
        rc = add_name(a, root, name, strlen(name), ino, S_IFDIR >> 12);
    if (!rc)
        rc = run(a, "UPDATE inode SET nlink = nlink + 1 WHERE ino = ?1", root, 0, 0, 0);
    if (!rc)
        rc = run(a, "UPDATE space SET inodes = inodes + 1 WHERE id = ?1", space, 0, 0, 0);
    *out = ino;
    return rc;
}

static int attach(struct sfs_audit *a, int64_t ino, int64_t space, int64_t type)
{
    char name[48];
    int64_t dir, there;
    int rc = lost_found(a, space, &dir);
    snprintf(name, sizeof(name), "#%lld", (long long)ino);
    for (unsigned k = 2; !rc; k++) {
        rc = find_name(a, dir, name, strlen(name), &there);
        if (rc == -ENOENT) {
            rc = add_name(a, dir, name, strlen(name), ino, type);
            if (rc != -ENOSPC)
                break;
            rc = 0;
        }
        snprintf(name, sizeof(name), "#%lld-%u", (long long)ino, k);
    }
    if (rc)
        return rc;
    if (type != S_IFDIR >> 12)
        return run(a, "UPDATE inode SET nlink = 1, parent = 0 WHERE ino = ?1", ino, 0, 0, 0);
    rc = run(a, "UPDATE inode SET parent = ?2, nlink = 2 + (SELECT count(*) FROM dentry WHERE parent = ?1 AND type = 4) WHERE ino = ?1", ino, dir, 0, 0);
    return rc ? rc : run(a, "UPDATE inode SET nlink = nlink + 1 WHERE ino = ?1", dir, 0, 0, 0);
}

int sfs_audit_mend_unattached(struct sfs_audit *a)
{
    int64_t n, ino, space, type;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &ino, &space, &type);
        if (!rc)
            rc = attach(a, ino, space, type);
    }
    return rc;
}

/* --- lost bytes --- */

/* A group of one slab that is nowhere, of that space. */
static int lost_group(struct sfs_audit *a, int64_t space, uint64_t bytes)
{
    if (a->lost_group && a->lost_space == space && a->lost_used + bytes <= a->lost_capacity)
        return 0;
    uint64_t capacity = a->geo.capacity(a->geo.ctx, 0, 1, SFS_AUDIT_INTERLEAVE);
    int64_t id;
    if (capacity < bytes)
        return -EINVAL;
    int rc = new_id(a, "next_group", "slab_group", "id", &id);
    if (!rc)
        rc = run(a, "INSERT INTO slab_group (id, space, resiliency, columns, interleave, kind, state) VALUES (?1, ?2, 0, 1, ?3, 0, 1)", id, space, SFS_AUDIT_INTERLEAVE, 0);
    if (!rc)
        rc = run(a, "INSERT INTO slab (grp, col, copy, disk, slot) VALUES (?1, 0, 0, 0, 0)", id, 0, 0, 0);
    if (rc)
        return rc;
    a->lost_group = id;
    a->lost_space = space;
    a->lost_used = 0;
    a->lost_capacity = capacity;
    return 0;
}

/* An extent that can only give an error: its checksum is that of nothing. */
static int put_lost(struct sfs_audit *a, int64_t ino, int64_t space, uint64_t off, uint64_t len)
{
    static const char sql[] = "INSERT INTO extent (ino, off, len, skip, grp, goff, slen, rlen, codec, csum) VALUES (?1, ?2, NULL, 0, ?5, ?3, ?4, NULL, 0, randomblob(8 * ((?4 + 65535) / 65536)))";
    int rc = lost_group(a, space, len);
    sqlite3_stmt *st = NULL;
    if (rc)
        return rc;
    rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL);
    const int64_t v[] = {ino, (int64_t)off, (int64_t)(a->lost_used / BLOCK), (int64_t)len, a->lost_group};
    for (int i = 0; rc == SQLITE_OK && i < 5; i++)
        rc = sqlite3_bind_int64(st, i + 1, v[i]);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    rc = sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    a->lost_used += (len + BLOCK - 1) / BLOCK * BLOCK;
    return rc;
}

/* How far a row reaches whose own word can't be relied on: not over the next row, at most a granule beyond what it says. */
static int reach(struct sfs_audit *a, int64_t ino, int64_t off, uint64_t *len)
{
    int64_t says = 0, next = 0;
    int rc = get(a, "SELECT coalesce(len, coalesce(rlen, slen) - skip) FROM extent WHERE ino = ?1 AND off = ?2", ino, off, &says);
    if (rc && rc != -ENOENT)
        return rc;
    *len = !rc && says > 0 && says <= SFS_EXTENT_MAX ? (uint64_t)says : SFS_CSUM_GRANULE;
    rc = get(a, "SELECT min(off) FROM extent WHERE ino = ?1 AND off > ?2", ino, off, &next);
    if (!rc && (uint64_t)(next - off) < *len)
        *len = (uint64_t)(next - off);
    if (off > INT64_MAX - (int64_t)*len)
        *len = (uint64_t)(INT64_MAX - off);
    return rc == -ENOENT ? 0 : rc;
}

static int lose(struct sfs_audit *a, int64_t ino, int64_t off)
{
    int64_t space = 0;
    uint64_t len = 0;
    int rc = get(a, "SELECT space FROM inode WHERE ino = ?1", ino, 0, &space);
    if (!rc && off >= 0)
        rc = reach(a, ino, off, &len);
    if (!rc)
        rc = run(a, "DELETE FROM extent WHERE ino = ?1 AND off = ?2", ino, off, 0, 0);
    return rc || !len ? rc : put_lost(a, ino, space, (uint64_t)off, len);
}

int sfs_audit_lose(struct sfs_audit *a, uint64_t ino, uint64_t off)
{
    if (a->readonly)
        return -EROFS;
    if (ino > INT64_MAX || off > INT64_MAX)
        return -EINVAL;
    a->changed = true;
    return lose(a, (int64_t)ino, (int64_t)off);
}

int sfs_audit_mend_lost(struct sfs_audit *a)
{
    int64_t n, ino, off, group;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &ino, &off, &group);
        if (!rc)
            rc = lose(a, ino, off);
    }
    return rc;
}

/* Contents of what has none go; of a file that are too long: lost, as far as no extent has them. */
static int drop_inline(struct sfs_audit *a, int64_t ino, int64_t bytes, int64_t type)
{
    int64_t space = 0, taken;
    int rc = run(a, "DELETE FROM inline_data WHERE ino = ?1", ino, 0, 0, 0);
    if (rc || type != S_IFREG >> 12)
        return rc;
    if (get(a, "SELECT 1 FROM extent WHERE ino = ?1 AND off < ?2", ino, bytes, &taken) == 0)
        return 0;
    rc = get(a, "SELECT space FROM inode WHERE ino = ?1", ino, 0, &space);
    return rc ? rc : put_lost(a, ino, space, 0, bytes > SFS_EXTENT_MAX ? SFS_EXTENT_MAX : (uint64_t)bytes);
}

int sfs_audit_mend_inline(struct sfs_audit *a)
{
    int64_t n, ino, bytes, type;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &ino, &bytes, &type);
        if (!rc)
            rc = drop_inline(a, ino, bytes, type);
    }
    return rc;
}

/* --- overlaps in a file --- */

/* Two extents give the same bytes, and nobody knows which is right: the bytes that both have are lost, what only one has stays. */
static int part(struct sfs_audit *a, int64_t ino, int64_t off, int64_t next)
{
    int64_t end1 = 0, end2 = 0, space = 0;
    int rc = get(a, "SELECT off + coalesce(len, coalesce(rlen, slen) - skip) FROM extent WHERE ino = ?1 AND off = ?2", ino, off, &end1);
    if (!rc)
        rc = get(a, "SELECT off + coalesce(len, coalesce(rlen, slen) - skip) FROM extent WHERE ino = ?1 AND off = ?2", ino, next, &end2);
    if (!rc)
        rc = get(a, "SELECT space FROM inode WHERE ino = ?1", ino, 0, &space);
    if (rc)
        return rc == -ENOENT ? 0 : rc; /* an earlier round has taken it */
    if (end1 <= next)
        return 0;
    int64_t both = end1 < end2 ? end1 : end2;
    if (end1 != end2) { /* the tail that one of them has alone */
        static const char tail[] =
            "INSERT OR IGNORE INTO extent (ino, off, len, skip, grp, goff, slen, rlen, codec, csum) SELECT ino, ?3, ?4 - ?3, skip + ?3 - off, grp, goff, slen, rlen, codec, csum FROM extent WHERE ino = ?1 AND off = ?2";
        rc = run(a, tail, ino, end1 > end2 ? off : next, both, end1 > end2 ? end1 : end2);
    }
    if (!rc)
        rc = run(a, "UPDATE extent SET len = ?3 - off WHERE ino = ?1 AND off = ?2", ino, off, next, 0);
    if (!rc)
        rc = run(a, "DELETE FROM extent WHERE ino = ?1 AND off = ?2", ino, next, 0, 0);
    return rc ? rc : put_lost(a, ino, space, (uint64_t)next, (uint64_t)(both - next));
}

int sfs_audit_mend_overlap(struct sfs_audit *a)
{
    int64_t n, ino, off, next;
    int rc = number_found(a, &n);
    for (int64_t k = 1; !rc && k <= n; k++) {
        rc = found_at(a, k, &ino, &off, &next);
        if (!rc)
            rc = part(a, ino, off, next);
    }
    return rc;
}

/* --- two contents for the same bytes of a group --- */

/* A stored extent that reaches over the place where the scan is. */
struct stored {
    int64_t goff, end;      /* blocks */
    uint32_t slen, rlen;
    int codec;
    unsigned csum_bytes;
    int64_t ino, off;       /* of a row */
    uint8_t csum[8 * SFS_EXTENT_MAX_CSUMS];
};

/* Do two say the same about the bytes that they share? Pieces of one extent do: their granules are its granules. */
static bool agree(const struct stored *x, const struct stored *y)
{
    if (x->codec != y->codec)
        return false;
    if (x->goff == y->goff && x->slen == y->slen)
        return x->rlen == y->rlen && x->csum_bytes == y->csum_bytes && memcmp(x->csum, y->csum, x->csum_bytes) == 0;
    int64_t apart = y->goff - x->goff; /* not below 0 */
    if (x->codec != SFS_CODEC_NONE || apart * BLOCK % SFS_CSUM_GRANULE)
        return false;
    unsigned skip = (unsigned)(apart * BLOCK / SFS_CSUM_GRANULE);
    for (unsigned i = 0; 8 * (i + 1) <= y->csum_bytes && 8 * (skip + i + 1) <= x->csum_bytes; i++) {
        uint64_t from_x = (uint64_t)(skip + i) * SFS_CSUM_GRANULE, from_y = (uint64_t)i * SFS_CSUM_GRANULE;
        uint64_t len_x = x->slen - from_x < SFS_CSUM_GRANULE ? x->slen - from_x : SFS_CSUM_GRANULE;
        uint64_t len_y = y->slen - from_y < SFS_CSUM_GRANULE ? y->slen - from_y : SFS_CSUM_GRANULE;
        if (len_x != len_y || memcmp(x->csum + 8 * (skip + i), y->csum + 8 * i, 8) != 0)
            return false;
    }
    return true;
}

struct scan {
    struct sfs_audit *a;
    sqlite3_stmt *add;
    int64_t group;
    struct stored *v;
    unsigned n, cap;
};

static bool take_stored(sqlite3_stmt *row, struct stored *s)
{
    const void *csum = sqlite3_column_blob(row, 5);
    *s = (struct stored){.goff = sqlite3_column_int64(row, 1), .slen = (uint32_t)sqlite3_column_int64(row, 2), .rlen = (uint32_t)sqlite3_column_int64(row, 3), .codec = sqlite3_column_int(row, 4), .ino = sqlite3_column_int64(row, 6), .off = sqlite3_column_int64(row, 7)};
    s->csum_bytes = (unsigned)sqlite3_column_bytes(row, 5);
    if (!csum || s->csum_bytes > sizeof(s->csum) || s->slen == 0 || s->slen > SFS_EXTENT_MAX)
        return false; /* a fault of its own */
    s->end = s->goff + (s->slen + BLOCK - 1) / BLOCK;
    memcpy(s->csum, csum, s->csum_bytes);
    return true;
}

static int note_shared(struct scan *s, const struct stored *x)
{
    sqlite3_bind_int64(s->add, 1, x->ino);
    sqlite3_bind_int64(s->add, 2, x->off);
    sqlite3_bind_int64(s->add, 3, s->group);
    int rc = sqlite3_step(s->add);
    sqlite3_reset(s->add);
    return rc == SQLITE_DONE ? 0 : sfs_db_errno(s->a->db, rc);
}

static int scan_row(struct scan *s, sqlite3_stmt *row)
{
    struct stored now;
    if (!take_stored(row, &now))
        return 0;
    if (sqlite3_column_int64(row, 0) != s->group) {
        s->group = sqlite3_column_int64(row, 0);
        s->n = 0;
    }
    bool known = false, shared = false;
    unsigned kept = 0;
    int rc = 0;
    for (unsigned i = 0; !rc && i < s->n; i++) {
        if (s->v[i].end <= now.goff)
            continue;
        s->v[kept] = s->v[i];
        known |= s->v[kept].goff == now.goff && s->v[kept].slen == now.slen && agree(&s->v[kept], &now);
        if (!agree(&s->v[kept], &now)) {
            shared = true;
            rc = note_shared(s, &s->v[kept]);
        }
        kept++;
    }
    if (rc)
        return rc;
    s->n = kept;
    if (!known && s->n == s->cap) {
        unsigned cap = s->cap ? 2 * s->cap : 64;
        struct stored *v = realloc(s->v, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        s->v = v;
        s->cap = cap;
    }
    if (!known)
        s->v[s->n++] = now;
    return shared ? note_shared(s, &now) : 0;
}

int sfs_audit_find_shared(struct sfs_audit *a)
{
    static const char sql[] = "SELECT grp, goff, slen, coalesce(rlen, slen), codec, csum, ino, off FROM extent ORDER BY grp, goff, slen DESC";
    struct scan s = {.a = a};
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(a->db, sql, -1, &st, NULL), stop = 0;
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(a->db, "INSERT INTO temp.found (a, b, c, t, ino) VALUES (?1, ?2, ?3, '', ?1)", -1, &s.add, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        stop = scan_row(&s, st);
        if (stop)
            break;
    }
    rc = stop ? stop : sfs_db_errno(a->db, rc);
    sqlite3_finalize(st);
    sqlite3_finalize(s.add);
    free(s.v);
    if (!rc)
        rc = sfs_db_exec(a->db, "DELETE FROM temp.found WHERE rowid NOT IN (SELECT min(rowid) FROM temp.found GROUP BY a, b)");
    return rc;
}
