/* Every fault that the audit knows: made, found, mended, and gone in the second run, where nothing else is found
 * either. */
#include <criterion/criterion.h>
#include <sys/stat.h>
#include "fs/layout/geometry.h"
#include "meta/audit_impl.h"
#include "tests/unit/catalog_fixture.h"

#define SLAB_BYTES (1u << 20)

static uint64_t capacity(void *ctx, int64_t r, int64_t columns, int64_t interleave)
{
    struct sfs_geometry g;
    (void)ctx;
    if (r < 0 || r > 4 || columns < 0 || columns > 64 || interleave < 0 || interleave > UINT32_MAX ||
        sfs_geometry_init(&g, (enum sfs_resiliency)r, (unsigned)columns, (uint32_t)interleave, SLAB_BYTES, NULL))
        return 0;
    return sfs_geometry_capacity(&g);
}

static unsigned copies(int64_t r)
{
    return sfs_resiliency_copies((enum sfs_resiliency)r);
}

static unsigned parity(int64_t r)
{
    return sfs_resiliency_parity((enum sfs_resiliency)r);
}

static bool prop_ok(const char *key, const char *value)
{
    return strcmp(key, "known") != 0 || strcmp(value, "sense") == 0;
}

static const struct sfs_audit_geometry geometry = {capacity, copies, parity, NULL, prop_ok};

/* Two disks; space 1 with root 16, directory 17, in it file 18 (an extent in mirror group 1), symlink 19, small file 20
 * with an xattr; directory 21 in directory 17; space 2 with root 22, empty, and the empty group 2. */
static const char base[] =
    "INSERT INTO disk VALUES (1, x'a1000000000000000000000000000000', 'd1', 1, 1, 0, '/d1', 8, 0, 0, 0, 0, 1, 1, 0),"
    " (2, x'a2000000000000000000000000000000', 'd2', 2, 1, 0, '/d2', 8, 0, 0, 0, 0, 1, 1, 0),"
    " (3, x'a3000000000000000000000000000000', 'd3', 2, 1, 0, '/d3', 8, 0, 0, 0, 0, 1, 1, 0);"
    "INSERT INTO space VALUES (1, 's', 16, 1, 0, 262144, 0, 0, 0, 3, 1, 0, 6), (2, 't', 22, 0, 0, 262144, 0, 0, 0, 3, 1, 0, 1);"
    "INSERT INTO slab_group VALUES (1, 1, 1, 1, 262144, 0, 1), (2, 2, 3, 3, 262144, 0, 1);"
    "INSERT INTO slab VALUES (1, 0, 0, 1, 0), (1, 0, 1, 2, 0), (2, 0, 0, 1, 1), (2, 1, 0, 2, 1), (2, 2, 0, 3, 1);"
    "INSERT INTO inode SELECT column1, column2, column3, column4, 0, 0, 0, column5, column6, column7, 1, 0, 1, 0, 1, 0, 1, 0, CASE column1 WHEN 18 THEN 16 WHEN 20 THEN 1 ELSE 0 END FROM (VALUES "
    "(16, 1, 16877, 3, 0, 16, 0), (17, 1, 16877, 3, 0, 16, 0), (18, 1, 33188, 1, 8192, 0, 0), (19, 1, 41471, 1, 6, 0, 0),"
    " (20, 1, 33188, 1, 5, 0, 1), (21, 1, 16877, 2, 0, 17, 0), (22, 2, 16877, 2, 0, 22, 0));"
    "INSERT INTO inline_data VALUES (19, CAST('target' AS BLOB)), (20, x'68656c6c6f');"
    "INSERT INTO xattr VALUES (20, CAST('user.a' AS BLOB), x'01');"
    "INSERT INTO extent VALUES (18, 0, NULL, 0, 1, 0, 4096, NULL, 0, x'0102030405060708'), (18, 4096, NULL, 0, 1, 1, 4096, NULL, 0, x'0102030405060709');"
    "UPDATE state SET next_ino = 23, next_disk = 4, next_space = 3, next_group = 3;"
    "INSERT INTO job VALUES (1, 'heal', 'done', '', 0, 0, 1, 2, '');"
    "INSERT INTO event VALUES (1, 1, 'info', 'x', 'y', 'z');";

#define ADD_INODE(ino, space, mode, nlink, size, parent)                                                     \
    "INSERT INTO inode VALUES (" #ino ", " #space ", " #mode ", " #nlink ", 0, 0, 0, " #size ", " #parent         \
    ", 0, 1, 0, 1, 0, 1, 0, 1, 0, 0);"
#define ADD_EXTENT(ino, off, grp, goff)                                                                      \
    "INSERT INTO extent VALUES (" #ino ", " #off ", NULL, 0, " #grp ", " #goff ", 4096, NULL, 0, x'0102030405060708');"

struct row {
    enum sfs_fault fault;
    const char *make;
    const char *after; /* what holds once it is mended: SQL that gives 1 */
};

/* One or more for every fault. */
static const struct row rows[] = {
    {SFS_FAULT_POOL_ROW, "UPDATE pool SET uuid = x'ff000000000000000000000000000000'", "SELECT uuid = x'0102030405060708090a0b0c0d0e0f10' FROM pool"},
    {SFS_FAULT_POOL_ROW, "UPDATE pool SET name = 'other'", "SELECT name = 'tank' FROM pool"},
    {SFS_FAULT_PROP_BAD, "INSERT INTO prop VALUES ('known', 'nonsense'), ('unknown', 'x')", "SELECT count(*) = 1 FROM prop WHERE key = 'unknown'"},
    {SFS_FAULT_PROP_BAD, "INSERT INTO prop VALUES ('known', 'sense'), ('', 'x'), ('long', printf('%300d', 1))", "SELECT count(*) = 1 FROM prop"},
    {SFS_FAULT_DISK_UUID, "UPDATE disk SET uuid = x'ff000000000000000000000000000000' WHERE id = 2", "SELECT uuid = x'a2000000000000000000000000000000' FROM disk WHERE id = 2"},
    {SFS_FAULT_DISK_BAD, "UPDATE disk SET usage = 77 WHERE id = 2", "SELECT usage = 0 FROM disk WHERE id = 2"},
    {SFS_FAULT_DISK_BAD, "UPDATE disk SET name = '', read_errors = -1 WHERE id = 2", "SELECT name = 'disk-2' FROM disk WHERE id = 2"},
    {SFS_FAULT_DISK_CAPACITY, "UPDATE disk SET capacity_slabs = 100 WHERE id = 1", "SELECT capacity_slabs = 8 FROM disk WHERE id = 1"},
    {SFS_FAULT_SPACE_BAD, "UPDATE space SET resiliency = 9, interleave = 5, name = '' WHERE id = 1", "SELECT resiliency = 1 AND interleave = 262144 AND name = 'recovered-1' FROM space WHERE id = 1"},
    {SFS_FAULT_SPACE_LOST, "DELETE FROM space WHERE id = 1", "SELECT root_ino = 16 AND resiliency = 1 AND inodes = 6 FROM space WHERE id = 1"},
    {SFS_FAULT_GROUP_GEOMETRY, "UPDATE slab_group SET interleave = 7 WHERE id = 1", "SELECT count(*) = 0 FROM slab WHERE grp = 1"},
    {SFS_FAULT_GROUP_BAD, "UPDATE slab_group SET state = 9 WHERE id = 1", "SELECT state = 1 FROM slab_group WHERE id = 1"},
    {SFS_FAULT_GROUP_SPACE, "UPDATE slab_group SET space = 9 WHERE id = 1", "SELECT space = 1 FROM slab_group WHERE id = 1"},
    {SFS_FAULT_GROUP_SPACE, "UPDATE slab_group SET space = 9 WHERE id = 2", "SELECT count(*) = 0 FROM slab_group WHERE id = 2"},
    {SFS_FAULT_SLAB_GROUP, "INSERT INTO slab VALUES (7, 0, 0, 1, 5)", "SELECT count(*) = 0 FROM slab WHERE grp = 7"},
    {SFS_FAULT_SLAB_PLACE, "INSERT INTO slab VALUES (1, 3, 0, 1, 5)", "SELECT count(*) = 2 FROM slab WHERE grp = 1"},
    {SFS_FAULT_SLAB_DISK, "UPDATE slab SET disk = 9 WHERE grp = 1 AND copy = 1", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 1"},
    {SFS_FAULT_SLAB_SLOT, "UPDATE slab SET slot = 8 WHERE grp = 1 AND copy = 1", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 1"},
    {SFS_FAULT_SLAB_CLAIMED, "UPDATE slab SET slot = 7 WHERE grp = 1 AND copy = 1", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 1"},
    {SFS_FAULT_SLAB_TWICE, "DROP INDEX slab_slot; UPDATE slab SET slot = 0 WHERE grp = 2 AND disk = 2", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 1"},
    {SFS_FAULT_SLAB_SAME_DISK, "UPDATE slab SET disk = 1, slot = 4 WHERE grp = 1 AND copy = 1", "SELECT count(*) = 1 FROM slab WHERE grp = 1 AND disk = 1"},
    {SFS_FAULT_SLAB_SAME_DISK, "UPDATE slab SET disk = 1, slot = 4 WHERE grp = 2 AND col = 2", "SELECT disk = 0 FROM slab WHERE grp = 2 AND col = 2"},
    {SFS_FAULT_SLAB_ROW, "DELETE FROM slab WHERE grp = 1 AND copy = 1", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 1"},
    {SFS_FAULT_SLAB_ABSENT, "UPDATE slab SET slot = 3 WHERE grp = 1 AND copy = 0", "SELECT disk = 0 FROM slab WHERE grp = 1 AND copy = 0"},
    {SFS_FAULT_INODE_BAD, "UPDATE inode SET mode = 420, mtime_ns = -1, nlink = -5 WHERE ino = 18", "SELECT mode = 33188 AND nlink = 1 FROM inode WHERE ino = 18"},
    {SFS_FAULT_INODE_BAD, "UPDATE inode SET mode = 420 WHERE ino = 17", "SELECT mode >> 12 = 4 FROM inode WHERE ino = 17"},
    {SFS_FAULT_INODE_BAD, "UPDATE inode SET size = -1 WHERE ino = 18", "SELECT size = 8192 FROM inode WHERE ino = 18"},
    {SFS_FAULT_SPACE_ROOT, "DELETE FROM inode WHERE ino = 16", "SELECT mode >> 12 = 4 FROM inode WHERE ino = 16"},
    {SFS_FAULT_SPACE_ROOT, "UPDATE space SET root_ino = 18 WHERE id = 1", "SELECT count(*) = 1 FROM inode WHERE ino = (SELECT root_ino FROM space WHERE id = 1) AND mode >> 12 = 4"},
    {SFS_FAULT_SPACE_ROOT, "UPDATE inode SET parent = 17 WHERE ino = 16", "SELECT parent = 16 FROM inode WHERE ino = 16"},
    {SFS_FAULT_EXTENT_INODE, "DELETE FROM inode WHERE ino = 18", "SELECT size = 8192 AND nlink = 1 AND space = 1 FROM inode WHERE ino = 18"},
    {SFS_FAULT_INLINE_INODE, "DELETE FROM xattr; DELETE FROM inode WHERE ino = 20", "SELECT size = 5 AND nlink = 1 FROM inode WHERE ino = 20"},
    {SFS_FAULT_XATTR_INODE, "INSERT INTO xattr VALUES (99, x'61', x'61')", "SELECT count(*) = 1 FROM xattr"},
    {SFS_FAULT_DENTRY_NAME, "UPDATE dentry SET name = CAST('a/b' AS BLOB) WHERE ino = 18", "SELECT hex(name) = '233138' FROM dentry WHERE ino = 18"},
    {SFS_FAULT_DENTRY_INODE, "INSERT INTO dentry VALUES (17, 1000, 99, 8, x'61')", "SELECT count(*) = 0 FROM dentry WHERE ino = 99"},
    {SFS_FAULT_DENTRY_NOTDIR, "UPDATE dentry SET parent = 18 WHERE ino = 19", "SELECT name = CAST('#19' AS BLOB) FROM dentry WHERE ino = 19"},
    {SFS_FAULT_DENTRY_PARENT, "DELETE FROM inode WHERE ino = 17; DELETE FROM dentry WHERE ino = 17", "SELECT parent = 17 FROM dentry WHERE ino = 18"},
    {SFS_FAULT_INODE_SPACE, "UPDATE inode SET space = 0 WHERE ino = 18", "SELECT space = 1 FROM inode WHERE ino = 18"},
    {SFS_FAULT_DENTRY_SPACE, ADD_INODE(30, 2, 33188, 1, 0, 0) "INSERT INTO dentry VALUES (17, 1000, 30, 8, x'61')", "SELECT name = CAST('#30' AS BLOB) FROM dentry WHERE ino = 30"},
    {SFS_FAULT_DENTRY_ROOT, "INSERT INTO dentry VALUES (17, 1000, 16, 4, x'61')", "SELECT count(*) = 0 FROM dentry WHERE ino = 16"},
    {SFS_FAULT_DENTRY_TWICE, "INSERT INTO dentry SELECT parent, cookie + 1, 20, type, name FROM dentry WHERE ino = 18", "SELECT count(*) = 1 FROM dentry WHERE ino = 18"},
    {SFS_FAULT_DENTRY_COOKIE, "UPDATE dentry SET cookie = 1000 WHERE ino = 18", "SELECT cookie <> 1000 AND name = CAST('file' AS BLOB) FROM dentry WHERE ino = 18"},
    {SFS_FAULT_DENTRY_TYPE, "UPDATE dentry SET type = 4 WHERE ino = 18", "SELECT type = 8 FROM dentry WHERE ino = 18"},
    {SFS_FAULT_DIR_TWICE, "INSERT INTO dentry SELECT 16, cookie, 21, 4, name FROM dentry WHERE ino = 21", "SELECT parent = 17 FROM dentry WHERE ino = 21"},
    {SFS_FAULT_DIR_LOOP, "UPDATE dentry SET parent = 21 WHERE ino = 17; UPDATE inode SET parent = 21 WHERE ino = 17", "SELECT count(*) = 1 FROM dentry WHERE name = CAST('lost+found' AS BLOB) AND parent = 16"},
    {SFS_FAULT_DIR_PARENT, "UPDATE inode SET parent = 16 WHERE ino = 21", "SELECT parent = 17 FROM inode WHERE ino = 21"},
    {SFS_FAULT_INLINE_BAD, "INSERT INTO inline_data VALUES (17, x'61')", "SELECT count(*) = 2 FROM inline_data"},
    {SFS_FAULT_INLINE_BAD, "UPDATE inline_data SET data = zeroblob(3000) WHERE ino = 20", "SELECT count(*) = 1 FROM extent WHERE ino = 20"},
    {SFS_FAULT_INLINE_EXTENT, "INSERT INTO inline_data VALUES (18, x'61')", "SELECT count(*) = 0 FROM inline_data WHERE ino = 18"},
    {SFS_FAULT_EXTENT_TYPE, ADD_EXTENT(17, 0, 1, 9), "SELECT count(*) = 0 FROM extent WHERE ino = 17"},
    {SFS_FAULT_SYMLINK_EMPTY, "DELETE FROM inline_data WHERE ino = 19", "SELECT count(*) = 0 FROM inode WHERE ino = 19"},
    {SFS_FAULT_XATTR_BAD, "INSERT INTO xattr VALUES (20, x'', x'01')", "SELECT count(*) = 1 FROM xattr"},
    {SFS_FAULT_XATTR_FLAG, "UPDATE inode SET flags = 0 WHERE ino = 20", "SELECT flags = 1 FROM inode WHERE ino = 20"},
    {SFS_FAULT_UNATTACHED, "DELETE FROM dentry WHERE ino = 18", "SELECT name = CAST('#18' AS BLOB) FROM dentry WHERE ino = 18"},
    {SFS_FAULT_UNATTACHED, "DELETE FROM dentry WHERE ino = 17", "SELECT i.parent = d.parent AND d.parent <> 16 FROM dentry d JOIN inode i ON i.ino = 17 WHERE d.ino = 17"},
    {SFS_FAULT_UNATTACHED, "INSERT INTO dentry SELECT 16, cookie, 18, 8, CAST('#17' AS BLOB) FROM dentry WHERE 0; DELETE FROM dentry WHERE ino IN (17, 18, 20)", "SELECT count(*) = 2 FROM dentry d WHERE d.parent = (SELECT ino FROM dentry WHERE name = CAST('lost+found' AS BLOB)) AND ino IN (17, 18)"},
    {SFS_FAULT_NLINK, "UPDATE inode SET nlink = 5 WHERE ino = 18", "SELECT nlink = 1 FROM inode WHERE ino = 18"},
    {SFS_FAULT_NLINK, "UPDATE inode SET nlink = 0 WHERE ino = 18", "SELECT nlink = 1 FROM inode WHERE ino = 18"},
    {SFS_FAULT_NLINK, "UPDATE inode SET nlink = 9 WHERE ino = 17", "SELECT nlink = 3 FROM inode WHERE ino = 17"},
    {SFS_FAULT_EXTENT_BAD, "UPDATE extent SET csum = x'01' WHERE ino = 18 AND off = 0", "SELECT grp > 2 AND slen = 4096 FROM extent WHERE ino = 18 AND off = 0"},
    {SFS_FAULT_EXTENT_BAD, "UPDATE extent SET slen = 0 WHERE ino = 18 AND off = 0", "SELECT grp > 2 AND slen = 4096 FROM extent WHERE ino = 18 AND off = 0"},
    {SFS_FAULT_EXTENT_BAD, ADD_EXTENT(18, -4096, 1, 9), "SELECT count(*) = 2 FROM extent WHERE ino = 18"},
    {SFS_FAULT_EXTENT_GROUP, "UPDATE extent SET grp = 9 WHERE ino = 18", "SELECT count(*) = 2 FROM extent e JOIN slab s ON s.grp = e.grp AND s.disk = 0 WHERE e.ino = 18"},
    {SFS_FAULT_EXTENT_END, "UPDATE extent SET goff = 256 WHERE ino = 18 AND off = 0", "SELECT s.disk = 0 FROM extent e JOIN slab s ON s.grp = e.grp WHERE e.ino = 18 AND e.off = 0"},
    {SFS_FAULT_EXTENT_OVERLAP, "UPDATE extent SET slen = 8192, goff = 8 WHERE ino = 18 AND off = 0", "SELECT count(*) = 2 AND sum(coalesce(len, slen)) = 8192 AND max(grp) > 2 FROM extent WHERE ino = 18"},
    {SFS_FAULT_EXTENT_OVERLAP, "UPDATE extent SET slen = 12288, goff = 8 WHERE ino = 18 AND off = 0", "SELECT count(*) = 3 AND sum(coalesce(len, slen)) = 12288 FROM extent WHERE ino = 18"},
    {SFS_FAULT_GROUP_FOREIGN, "UPDATE slab_group SET space = 2 WHERE id = 1", "SELECT space = 1 FROM slab_group WHERE id = 1"},
    {SFS_FAULT_SECTORS, "UPDATE inode SET sectors = 99 WHERE ino = 18", "SELECT sectors = 16 FROM inode WHERE ino = 18"},
    {SFS_FAULT_SPACE_COUNT, "UPDATE space SET inodes = 99 WHERE id = 1", "SELECT inodes = 6 FROM space WHERE id = 1"},
    {SFS_FAULT_COUNTER, "UPDATE state SET next_ino = 17", "SELECT next_ino = 23 FROM state"},
    {SFS_FAULT_COUNTER, "UPDATE state SET next_group = 1", "SELECT next_group = 3 FROM state"},
    {SFS_FAULT_DAMAGE_BAD, "INSERT INTO damage VALUES (9, 0, 4096, 1)", "SELECT count(*) = 0 FROM damage"},
    {SFS_FAULT_DAMAGE_BAD, "INSERT INTO scrub_finding VALUES (18, -1, 4)", "SELECT count(*) = 0 FROM scrub_finding"},
    {SFS_FAULT_JOB_BAD, "UPDATE job SET done = -1", "SELECT count(*) = 0 FROM job"},
    {SFS_FAULT_EVENT_BAD, "UPDATE event SET kind = printf('%100d', 1)", "SELECT count(*) = 0 FROM event"},
};

/* Runs SQL on the catalog as it is, past all rules; the page of the commit counter is made known, as always. */
static void poke(struct fixture *x, const char *sql)
{
    struct sfs_audit *a = NULL;
    CHECK_RC(sfs_audit_open(x->env, x->r, &geometry, false, &a, &x->err), 0);
    CHECK_RC(sfs_audit_exec(a, sql), 0);
    CHECK_RC(sfs_audit_exec(a, "COMMIT"), 0); /* sfs_audit_commit would make missing indexes again */
    sfs_audit_close(a);
}

static int64_t ask(struct fixture *x, const char *sql)
{
    sqlite3 *db = NULL;
    int64_t v = -1;
    CHECK_RC(sfs_db_open(x->r, true, &db), 0);
    CHECK_RC(sfs_db_int(db, sql, &v), 0);
    sqlite3_close(db);
    return v;
}

static void tell_disks(struct sfs_audit *a)
{
    struct sfs_uuid d1 = {{0xa1}}, d2 = {{0xa2}}, d3 = {{0xa3}};
    struct sfs_uuid pool = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    CHECK_RC(sfs_audit_pool(a, &pool, "tank"), 0);
    CHECK_RC(sfs_audit_disk(a, &d1, "d1", 8, true), 0);
    CHECK_RC(sfs_audit_disk(a, &d2, "d2", 8, false), 0);
    CHECK_RC(sfs_audit_disk(a, &d3, "d3", 8, false), 0);
    for (uint32_t slot = 0; slot < 8; slot++)
        if (slot != 3)
            CHECK_RC(sfs_audit_slot_present(a, &d1, slot), 0);
    CHECK_RC(sfs_audit_slot_claimed(a, &d2, 7), 0);
}

/* One run over all faults; how often `fault` was found, and how many other things. */
static void run_all(struct fixture *x, bool mend, enum sfs_fault fault, uint64_t *hits, uint64_t *others, char *which)
{
    struct sfs_audit *a = NULL;
    uint64_t complaints = 0, n;
    *hits = *others = 0;
    CHECK_RC(sfs_audit_open(x->env, x->r, &geometry, !mend, &a, &x->err), 0);
    tell_disks(a);
    CHECK_RC(sfs_audit_integrity(a, NULL, NULL, &complaints), 0);
    if (complaints && mend)
        CHECK_RC(sfs_audit_reindex(a), 0);
    *others += complaints;
    for (int f = 0; f < SFS_FAULT_COUNT; f++) {
        int rc = sfs_audit_find(a, (enum sfs_fault)f, &n);
        if (rc)
            fprintf(stderr, "finding fault %d: %s\n", f, sqlite3_errmsg(a->db));
        CHECK_RC(rc, 0);
        if (f == (int)fault)
            *hits = n;
        else
            *others += n;
        if (n && f != (int)fault)
            sprintf(which + strlen(which), " %d", f);
        if (n && mend)
            rc = sfs_audit_mend(a, (enum sfs_fault)f);
        if (rc)
            fprintf(stderr, "mending fault %d: %s\n", f, sqlite3_errmsg(a->db));
        CHECK_RC(rc, 0);
    }
    if (mend && sfs_audit_changed(a))
        CHECK_RC(sfs_audit_commit(a), 0);
    sfs_audit_close(a);
}

static void make_base(struct fixture *x)
{
    struct sfs_audit *a = NULL;
    static const struct {
        int64_t parent, ino, type;
        const char *name;
    } names[] = {{16, 17, 4, "dir"}, {17, 18, 8, "file"}, {17, 19, 10, "link"}, {17, 20, 8, "small"}, {17, 21, 4, "sub"}};
    CHECK_RC(fx_create(x), 0);
    CHECK_RC(sfs_audit_open(x->env, x->r, &geometry, false, &a, &x->err), 0);
    CHECK_RC(sfs_audit_exec(a, base), 0);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char sql[200];
        snprintf(sql, sizeof(sql), "INSERT INTO dentry VALUES (%lld, name_cookie(CAST('%s' AS BLOB)), %lld, %lld, CAST('%s' AS BLOB))", (long long)names[i].parent,
                 names[i].name, (long long)names[i].ino, (long long)names[i].type, names[i].name);
        CHECK_RC(sfs_audit_exec(a, sql), 0);
    }
    CHECK_RC(sfs_audit_commit(a), 0);
    sfs_audit_close(a);
}

static void one_row(struct sfs_env *env, void *arg)
{
    const struct row *row = arg;
    struct fixture x;
    uint64_t hits, others;
    char which[400] = "";
    fx_init(&x, env, 2, 1);
    make_base(&x);
    run_all(&x, false, row->fault, &hits, &others, which);
    cr_expect(hits == 0 && others == 0, "the sound catalog is not:%s", which);
    poke(&x, row->make);
    run_all(&x, true, row->fault, &hits, &others, which);
    cr_expect(hits > 0, "fault %d is not found: %s (found:%s)", row->fault, row->make, which);
    which[0] = '\0';
    run_all(&x, false, row->fault, &hits, &others, which);
    cr_expect(hits == 0 && others == 0, "fault %d: not clean in the second run (itself %d,%s): %s", row->fault, (int)hits, which, row->make);
    cr_expect(ask(&x, row->after) == 1, "fault %d: %s gives not: %s", row->fault, row->make, row->after);
    fx_free(&x);
}

Test(audit, every_fault_is_found_and_mended)
{
    bool seen[SFS_FAULT_COUNT] = {false};
    seen[SFS_FAULT_EXTENT_SHARED] = true; /* needs data: tests/unit/test_check.c */
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fx_sim(i + 1, one_row, (void *)&rows[i]);
        seen[rows[i].fault] = true;
    }
    for (int f = 0; f < SFS_FAULT_COUNT; f++)
        cr_expect(seen[f], "fault %d has no row here", f);
}
