/* How each fault is found and mended (audit.h). Order and dependence: the enum's. What later finders rely on (every slab has a group, every name an inode ...) holds only once earlier faults are mended; without mending they may show more
 * than there is, never less.
 *
 * Functions: geo_capacity(resiliency, columns, interleave), geo_copies(resiliency), geo_parity(resiliency), name_cookie(name), prop_ok(key, value). Temporary tables: found; own(uuid, name): what the labels say of the pool; label(uuid, name, capacity, listed), present(uuid, slot), claimed(uuid, slot): what the
 * disks say; proof(grp, col, copy, good): what reading them has proven; dying(id): spaces that are being destroyed, whose contents need not hold together. */
#include "meta/audit_impl.h"

#define FOUND "INSERT INTO temp.found(a, b, c, t, ino) "
#define BYTES(x) "length(CAST(" x " AS BLOB))"
#define TYPE "(mode >> 12)"
#define RLEN "coalesce(rlen, slen)"
#define LEN "coalesce(len, " RLEN " - skip)"
#define NOW "CAST(strftime('%s', 'now') AS INTEGER)"
#define LIVING "NOT IN (SELECT id FROM temp.dying)"
#define NO_SLAB "UPDATE slab SET disk = 0, slot = 0 WHERE (grp, col, copy) IN (SELECT a, b, c FROM temp.found)"
/* A new inode for what has lost its own. */
#define NEW_INODE                                                                                            \
    "INSERT INTO inode (ino, space, mode, nlink, uid, gid, rdev, size, parent, flags, atime, atime_ns, mtime, mtime_ns, ctime, " \
    "ctime_ns, btime, btime_ns, sectors) "
#define NEW_TIMES NOW ", 0, " NOW ", 0, " NOW ", 0, " NOW ", 0, 0"
#define FIRST_SPACE "(SELECT min(id) FROM space)"

const struct sfs_audit_rule sfs_audit_rules[SFS_FAULT_COUNT] = {
    /* t = the name that it says */
    [SFS_FAULT_POOL_ROW] = {
        .find = FOUND "SELECT 1, 0, 0, coalesce((SELECT name FROM pool WHERE id = 1), ''), 0 FROM temp.own o WHERE NOT EXISTS (SELECT 1 FROM pool p WHERE p.id = 1 AND p.uuid = o.uuid AND p.name = o.name)",
        .mend = "UPDATE pool SET uuid = (SELECT uuid FROM temp.own), name = (SELECT name FROM temp.own) WHERE id = 1"},
    /* t = key */
    [SFS_FAULT_PROP_BAD] = {
        .find = FOUND "SELECT 0, 0, 0, key, 0 FROM prop WHERE " BYTES("key") " NOT BETWEEN 1 AND 63 OR " BYTES("value") " > 255 OR instr(key || value, char(0)) OR NOT prop_ok(key, value)",
        .mend = "DELETE FROM prop WHERE key IN (SELECT t FROM temp.found)"},
    /* a = disk; t = name */
    [SFS_FAULT_DISK_UUID] = {
        .find = FOUND "SELECT d.id, 0, 0, d.name, 0 FROM disk d JOIN temp.label l ON l.name = d.name WHERE l.uuid <> d.uuid "
                      "AND d.uuid NOT IN (SELECT uuid FROM temp.label) AND l.uuid NOT IN (SELECT uuid FROM disk)",
        .mend = "UPDATE disk SET uuid = (SELECT uuid FROM temp.label l WHERE l.name = disk.name) WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_DISK_BAD] = {
        .find = FOUND "SELECT id, 0, 0, name, 0 FROM disk WHERE id NOT BETWEEN 1 AND 2147483647 OR length(uuid) <> 16 "
                      "OR " BYTES("name") " NOT BETWEEN 1 AND 64 OR instr(name, char(0)) OR kind NOT BETWEEN 1 AND 3 OR media NOT BETWEEN 0 AND 2 "
                      "OR usage NOT BETWEEN 0 AND 3 OR " BYTES("path") " > 511 OR instr(path, char(0)) OR capacity_slabs NOT BETWEEN 1 AND 4294967295 "
                      "OR read_errors < 0 OR write_errors < 0 OR checksum_errors < 0 OR replica NOT IN (0, 1) OR label_seen < 0 OR suspect NOT IN (0, 1)",
        .mend = "DELETE FROM disk WHERE id NOT BETWEEN 1 AND 2147483647;"
                "UPDATE disk SET uuid = CASE length(uuid) WHEN 16 THEN uuid ELSE randomblob(16) END, "
                "name = CASE WHEN " BYTES("name") " BETWEEN 1 AND 64 AND NOT instr(name, char(0)) THEN name ELSE 'disk-' || id END, "
                "kind = CASE WHEN kind BETWEEN 1 AND 3 THEN kind ELSE 1 END, media = CASE WHEN media BETWEEN 0 AND 2 THEN media ELSE 0 END, "
                "usage = CASE WHEN usage BETWEEN 0 AND 3 THEN usage ELSE 0 END, "
                "path = CASE WHEN " BYTES("path") " > 511 OR instr(path, char(0)) THEN '' ELSE path END, "
                "capacity_slabs = CASE WHEN capacity_slabs BETWEEN 1 AND 4294967295 THEN capacity_slabs ELSE "
                "coalesce((SELECT capacity FROM temp.label l WHERE l.uuid = disk.uuid), (SELECT max(slot) + 1 FROM slab WHERE disk = disk.id), 1) END, "
                "read_errors = max(read_errors, 0), write_errors = max(write_errors, 0), checksum_errors = max(checksum_errors, 0), "
                "replica = replica = 1, label_seen = max(label_seen, 0), suspect = suspect <> 0 WHERE id IN (SELECT a FROM temp.found)"},
    /* a = disk, b = what the label says, c = what the row says; t = name */
    [SFS_FAULT_DISK_CAPACITY] = {
        .find = FOUND "SELECT d.id, l.capacity, d.capacity_slabs, d.name, 0 FROM disk d JOIN temp.label l ON l.uuid = d.uuid WHERE l.capacity <> d.capacity_slabs",
        .mend = "UPDATE disk SET capacity_slabs = (SELECT b FROM temp.found WHERE a = disk.id) WHERE id IN (SELECT a FROM temp.found)"},
    /* a = space; t = name */
    [SFS_FAULT_SPACE_BAD] = {
        .find = FOUND "SELECT id, 0, 0, name, 0 FROM space WHERE id NOT BETWEEN 1 AND 2147483647 OR " BYTES("name") " NOT BETWEEN 1 AND 64 "
                      "OR instr(name, char(0)) OR root_ino < 0 OR resiliency NOT BETWEEN 0 AND 4 OR columns NOT BETWEEN 0 AND 16 "
                      "OR interleave <= 0 OR interleave > 4294967295 OR interleave % 4096 OR size_bytes < 0 OR fixed NOT IN (0, 1) "
                      "OR codec NOT IN (0, 1) OR codec_level NOT BETWEEN -2147483648 AND 2147483647 OR destroying NOT IN (0, 1)",
        .mend = "DELETE FROM space WHERE id NOT BETWEEN 1 AND 2147483647;"
                "UPDATE space SET name = CASE WHEN " BYTES("name") " BETWEEN 1 AND 64 AND NOT instr(name, char(0)) THEN name ELSE 'recovered-' || id END, "
                "root_ino = max(root_ino, 0), resiliency = CASE WHEN resiliency BETWEEN 0 AND 4 THEN resiliency ELSE "
                "coalesce((SELECT resiliency FROM slab_group g WHERE g.space = space.id AND resiliency BETWEEN 0 AND 4 ORDER BY id DESC LIMIT 1), 0) END, "
                "columns = CASE WHEN columns BETWEEN 0 AND 16 THEN columns ELSE 0 END, "
                "interleave = CASE WHEN interleave <= 0 OR interleave > 4294967295 OR interleave % 4096 THEN 262144 ELSE interleave END, "
                "size_bytes = max(size_bytes, 0), fixed = fixed = 1, codec = codec = 1, "
                "codec_level = CASE WHEN codec_level BETWEEN 1 AND 19 THEN codec_level ELSE 3 END, destroying = destroying = 1 WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_SPACE_LOST] = {
        .find = FOUND "SELECT space, count(*), 0, '', 0 FROM inode WHERE space BETWEEN 1 AND 2147483647 AND space NOT IN (SELECT id FROM space) GROUP BY space",
        .mend = "INSERT INTO space (id, name, root_ino, resiliency, columns, interleave, size_bytes, fixed, codec, codec_level, created, destroying, inodes) "
                "SELECT a, 'recovered-' || a, coalesce((SELECT ino FROM inode WHERE space = a AND parent = ino AND " TYPE " = 4 ORDER BY ino LIMIT 1), 0), "
                "coalesce((SELECT resiliency FROM slab_group WHERE space = a AND resiliency BETWEEN 0 AND 4 ORDER BY id DESC LIMIT 1), 0), "
                "0, 262144, 0, 0, 0, 3, " NOW ", 0, b FROM temp.found"},
    /* a = group, b = space */
    [SFS_FAULT_GROUP_GEOMETRY] = {
        .find = FOUND "SELECT id, space, 0, '', 0 FROM slab_group WHERE geo_capacity(resiliency, columns, interleave) = 0",
        .mend = "DELETE FROM slab WHERE grp IN (SELECT a FROM temp.found); DELETE FROM slab_group WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_GROUP_BAD] = {
        .find = FOUND "SELECT id, space, 0, '', 0 FROM slab_group WHERE id <= 0 OR kind NOT IN (0, 1) OR state NOT IN (0, 1)",
        .mend = "DELETE FROM slab_group WHERE id <= 0;"
                "UPDATE slab_group SET kind = CASE WHEN kind IN (0, 1) THEN kind ELSE 0 END, state = 1 WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_GROUP_SPACE] = {
        .find = FOUND "SELECT id, space, 0, '', 0 FROM slab_group WHERE space NOT IN (SELECT id FROM space)",
        .mend = "UPDATE slab_group SET space = coalesce((SELECT i.space FROM extent e JOIN inode i ON i.ino = e.ino WHERE e.grp = slab_group.id AND i.space IN (SELECT id FROM space) LIMIT 1), "
                "(SELECT min(s.id) FROM space s WHERE EXISTS (SELECT 1 FROM extent e WHERE e.grp = slab_group.id)), space) WHERE id IN (SELECT a FROM temp.found);"
                "DELETE FROM slab WHERE grp IN (SELECT a FROM temp.found JOIN slab_group g ON g.id = a WHERE g.space NOT IN (SELECT id FROM space));"
                "DELETE FROM slab_group WHERE id IN (SELECT a FROM temp.found) AND space NOT IN (SELECT id FROM space)"},
    /* a = group, b = column, c = copy; t = disk */
    [SFS_FAULT_SLAB_GROUP] = {
        .find = FOUND "SELECT grp, col, copy, '', 0 FROM slab WHERE grp NOT IN (SELECT id FROM slab_group)",
        .mend = "DELETE FROM slab WHERE grp NOT IN (SELECT id FROM slab_group)"},
    [SFS_FAULT_SLAB_PLACE] = {
        .find = FOUND "SELECT s.grp, s.col, s.copy, '', 0 FROM slab s JOIN slab_group g ON g.id = s.grp WHERE s.col NOT BETWEEN 0 AND g.columns - 1 "
                      "OR s.copy NOT BETWEEN 0 AND geo_copies(g.resiliency) - 1",
        .mend = "DELETE FROM slab WHERE (grp, col, copy) IN (SELECT a, b, c FROM temp.found)"},
    [SFS_FAULT_SLAB_DISK] = {
        .find = FOUND "SELECT grp, col, copy, disk, 0 FROM slab WHERE disk <> 0 AND disk NOT IN (SELECT id FROM disk)",
        .mend = NO_SLAB},
    [SFS_FAULT_SLAB_SLOT] = {
        .find = FOUND "SELECT s.grp, s.col, s.copy, d.name, 0 FROM slab s JOIN disk d ON d.id = s.disk WHERE s.slot < 0 OR s.slot >= d.capacity_slabs",
        .mend = NO_SLAB},
    [SFS_FAULT_SLAB_CLAIMED] = {
        .find = FOUND "SELECT s.grp, s.col, s.copy, d.name, 0 FROM slab s JOIN disk d ON d.id = s.disk JOIN temp.claimed x ON x.uuid = d.uuid AND x.slot = s.slot",
        .mend = NO_SLAB},
    [SFS_FAULT_SLAB_TWICE] = { /* the one whose bytes are there keeps it; where that is none, the youngest group */
        .find = FOUND "SELECT s.grp, s.col, s.copy, d.name, 0 FROM (SELECT t.grp, t.col, t.copy, t.disk, min(coalesce(p.good, 0)) OVER (PARTITION BY t.disk, t.slot) AS least, "
                      "row_number() OVER (PARTITION BY t.disk, t.slot ORDER BY coalesce(p.good, 0) DESC, t.grp DESC, t.col, t.copy) AS k "
                      "FROM slab t NOT INDEXED LEFT JOIN temp.proof p ON p.grp = t.grp AND p.col = t.col AND p.copy = t.copy WHERE t.disk <> 0) s JOIN disk d ON d.id = s.disk WHERE k > 1 AND least >= 0",
        .mend = "DROP INDEX IF EXISTS slab_slot; " NO_SLAB},
    [SFS_FAULT_SLAB_SAME_DISK] = { /* only where all is there: else the second one may be needed */
        .find = FOUND "SELECT s.grp, s.col, s.copy, d.name, 0 FROM slab s JOIN slab_group g ON g.id = s.grp JOIN disk d ON d.id = s.disk "
                      "WHERE NOT EXISTS (SELECT 1 FROM slab m WHERE m.grp = s.grp AND m.disk = 0) AND EXISTS (SELECT 1 FROM slab o WHERE o.grp = s.grp AND o.disk = s.disk "
                      "AND ((o.col = s.col AND o.copy < s.copy) OR (geo_parity(g.resiliency) > 0 AND o.col < s.col)))",
        .mend = "UPDATE slab SET disk = 0, slot = 0 WHERE (grp, col, copy) IN (SELECT f.a, f.b, f.c FROM temp.found f JOIN slab_group g ON g.id = f.a WHERE geo_parity(g.resiliency) = 0 OR "
                "(SELECT count(*) FROM temp.found p WHERE p.a = f.a AND p.rowid <= f.rowid) <= geo_parity(g.resiliency))"},
    [SFS_FAULT_SLAB_ROW] = {
        .find = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 47) " FOUND
                "SELECT g.id, n.i / geo_copies(g.resiliency), n.i % geo_copies(g.resiliency), '', 0 FROM slab_group g JOIN n ON n.i < g.columns * geo_copies(g.resiliency) "
                "WHERE geo_capacity(g.resiliency, g.columns, g.interleave) > 0 AND NOT EXISTS (SELECT 1 FROM slab s WHERE s.grp = g.id AND s.col = n.i / geo_copies(g.resiliency) AND s.copy = n.i % geo_copies(g.resiliency))",
        .mend = "INSERT INTO slab (grp, col, copy, disk, slot) SELECT a, b, c, 0, 0 FROM temp.found"},
    [SFS_FAULT_SLAB_ABSENT] = {
        .find = FOUND "SELECT s.grp, s.col, s.copy, d.name, 0 FROM slab s JOIN disk d ON d.id = s.disk JOIN temp.label l ON l.uuid = d.uuid AND l.listed "
                      "WHERE NOT EXISTS (SELECT 1 FROM temp.present p WHERE p.uuid = d.uuid AND p.slot = s.slot)",
        .mend = NO_SLAB},
    /* a = inode, b = space */
    [SFS_FAULT_INODE_BAD] = {
        .find = FOUND "SELECT ino, space, 0, '', ino FROM inode WHERE ino <= 0 OR mode NOT BETWEEN 0 AND 65535 OR " TYPE " NOT IN (1, 2, 4, 6, 8, 10, 12) OR nlink NOT BETWEEN 0 AND 4294967295 "
                      "OR uid NOT BETWEEN 0 AND 4294967295 OR gid NOT BETWEEN 0 AND 4294967295 OR size < 0 OR parent < 0 OR flags NOT BETWEEN 0 AND 4294967295 "
                      "OR atime_ns NOT BETWEEN 0 AND 999999999 OR mtime_ns NOT BETWEEN 0 AND 999999999 OR ctime_ns NOT BETWEEN 0 AND 999999999 OR btime_ns NOT BETWEEN 0 AND 999999999 "
                      "OR (" TYPE " <> 4 AND parent <> 0) OR sectors < 0",
        .mend = "DELETE FROM inode WHERE ino <= 0;"
                "UPDATE inode SET mode = CASE WHEN mode BETWEEN 0 AND 65535 AND " TYPE " IN (1, 2, 4, 6, 8, 10, 12) THEN mode ELSE (mode & 4095) | "
                "CASE WHEN EXISTS (SELECT 1 FROM dentry d WHERE d.parent = inode.ino) OR EXISTS (SELECT 1 FROM space WHERE root_ino = inode.ino) THEN 16384 ELSE 32768 END END "
                "WHERE ino IN (SELECT a FROM temp.found);"
                "UPDATE inode SET nlink = CASE WHEN nlink BETWEEN 0 AND 4294967295 THEN nlink ELSE 1 END, uid = CASE WHEN uid BETWEEN 0 AND 4294967295 THEN uid ELSE 0 END, "
                "gid = CASE WHEN gid BETWEEN 0 AND 4294967295 THEN gid ELSE 0 END, size = CASE WHEN size >= 0 THEN size ELSE "
                "coalesce((SELECT max(off + " LEN ") FROM extent e WHERE e.ino = inode.ino), (SELECT length(data) FROM inline_data d WHERE d.ino = inode.ino), 0) END, "
                "parent = CASE WHEN " TYPE " = 4 THEN max(parent, 0) ELSE 0 END, flags = flags & 4294967295, "
                "atime_ns = min(max(atime_ns, 0), 999999999), mtime_ns = min(max(mtime_ns, 0), 999999999), ctime_ns = min(max(ctime_ns, 0), 999999999), "
                "btime_ns = min(max(btime_ns, 0), 999999999), sectors = max(sectors, 0) WHERE ino IN (SELECT a FROM temp.found)"},
    /* a = space, b = the inode that should be its root; t = name */
    [SFS_FAULT_SPACE_ROOT] = {
        .find = FOUND "SELECT s.id, s.root_ino, 0, s.name, 0 FROM space s WHERE s.id " LIVING " AND NOT EXISTS (SELECT 1 FROM inode i WHERE i.ino = s.root_ino "
                      "AND i.space = s.id AND i.mode >> 12 = 4 AND i.parent = i.ino AND i.nlink > 0)",
        .mend_fn = sfs_audit_mend_roots},
    /* a = inode, b = how many, c = space */
    [SFS_FAULT_EXTENT_INODE] = {
        .find = FOUND "SELECT ino, n, coalesce((SELECT g.space FROM slab_group g WHERE g.id = grp AND g.space IN (SELECT id FROM space)), " FIRST_SPACE "), '', 0 "
                      "FROM (SELECT ino, count(*) AS n, min(grp) AS grp FROM extent WHERE ino NOT IN (SELECT ino FROM inode) GROUP BY ino)",
        .mend = "DELETE FROM extent WHERE ino IN (SELECT a FROM temp.found WHERE a <= 0 OR c IS NULL);" NEW_INODE
                "SELECT a, c, 33152, 1, 0, 0, 0, max((SELECT coalesce(max(off + " LEN "), 0) FROM extent WHERE ino = a), 0), 0, 0, " NEW_TIMES " FROM temp.found WHERE a > 0 AND c IS NOT NULL"},
    [SFS_FAULT_INLINE_INODE] = {
        .find = FOUND "SELECT ino, length(data), " FIRST_SPACE ", '', 0 FROM inline_data WHERE ino NOT IN (SELECT ino FROM inode)",
        .mend = "DELETE FROM inline_data WHERE ino IN (SELECT a FROM temp.found WHERE a <= 0 OR c IS NULL);" NEW_INODE
                "SELECT a, c, 33152, 1, 0, 0, 0, b, 0, 0, " NEW_TIMES " FROM temp.found WHERE a > 0 AND c IS NOT NULL"},
    [SFS_FAULT_XATTR_INODE] = {
        .find = FOUND "SELECT ino, count(*), 0, '', 0 FROM xattr WHERE ino NOT IN (SELECT ino FROM inode) GROUP BY ino",
        .mend = "DELETE FROM xattr WHERE ino NOT IN (SELECT ino FROM inode)"},
    /* a = directory, b = cookie, c = inode; t = name */
    [SFS_FAULT_DENTRY_NAME] = {
        .find = FOUND "SELECT parent, cookie, ino, hex(name), parent FROM dentry WHERE length(name) NOT BETWEEN 1 AND 255 OR instr(name, x'00') OR instr(name, x'2f') OR name IN (x'2e', x'2e2e') OR cookie < 0 OR ino <= 0",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DENTRY_INODE] = {
        .find = FOUND "SELECT parent, cookie, ino, name, parent FROM dentry WHERE ino NOT IN (SELECT ino FROM inode) AND parent NOT IN (SELECT ino FROM inode WHERE space IN (SELECT id FROM temp.dying))",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DENTRY_NOTDIR] = {
        .find = FOUND "SELECT d.parent, d.cookie, d.ino, d.name, d.parent FROM dentry d JOIN inode p ON p.ino = d.parent WHERE p.mode >> 12 <> 4",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    /* a = directory, b = how many, c = space */
    [SFS_FAULT_DENTRY_PARENT] = {
        .find = FOUND "SELECT d.parent, count(*), coalesce(min(i.space), " FIRST_SPACE "), '', 0 FROM dentry d LEFT JOIN inode i ON i.ino = d.ino WHERE d.parent NOT IN (SELECT ino FROM inode) GROUP BY d.parent "
                      "HAVING coalesce(min(i.space), 0) " LIVING,
        .mend = "DELETE FROM dentry WHERE parent IN (SELECT a FROM temp.found WHERE a <= 0 OR c IS NULL);" NEW_INODE
                "SELECT a, c, 16832, 2, 0, 0, 0, 0, 0, 0, " NEW_TIMES " FROM temp.found WHERE a > 0 AND c IS NOT NULL"},
    /* a = inode, b = space */
    [SFS_FAULT_INODE_SPACE] = {
        .find = FOUND "SELECT ino, space, 0, '', ino FROM inode WHERE space NOT IN (SELECT id FROM space) AND " FIRST_SPACE " IS NOT NULL",
        .mend = "CREATE TEMP TABLE above AS SELECT d.ino AS ino, min(p.space) AS space FROM dentry d JOIN inode p ON p.ino = d.parent JOIN space s ON s.id = p.space WHERE d.ino IN (SELECT a FROM temp.found) GROUP BY d.ino;"
                "UPDATE inode SET space = coalesce((SELECT x.space FROM temp.above x WHERE x.ino = inode.ino), " FIRST_SPACE ") WHERE ino IN (SELECT a FROM temp.found); DROP TABLE temp.above"},
    /* a = directory, b = cookie, c = inode; t = name */
    [SFS_FAULT_DENTRY_SPACE] = {
        .find = FOUND "SELECT d.parent, d.cookie, d.ino, d.name, d.parent FROM dentry d JOIN inode p ON p.ino = d.parent JOIN inode i ON i.ino = d.ino WHERE p.space <> i.space",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DENTRY_ROOT] = {
        .find = FOUND "SELECT parent, cookie, ino, name, parent FROM dentry WHERE ino IN (SELECT root_ino FROM space)",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DENTRY_TWICE] = {
        .find = FOUND "SELECT parent, cookie, ino, name, parent FROM (SELECT d.*, row_number() OVER (PARTITION BY parent, name ORDER BY cookie < name_cookie(name) OR cookie > name_cookie(name) + 7, cookie) AS k FROM dentry d) WHERE k > 1",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DENTRY_COOKIE] = {
        .find = FOUND "SELECT parent, cookie, ino, name, parent FROM dentry WHERE cookie NOT BETWEEN name_cookie(name) AND name_cookie(name) + 7",
        .mend_fn = sfs_audit_mend_cookies},
    [SFS_FAULT_DENTRY_TYPE] = {
        .find = FOUND "SELECT d.parent, d.cookie, d.ino, d.name, d.ino FROM dentry d JOIN inode i ON i.ino = d.ino WHERE d.type <> i.mode >> 12",
        .mend = "UPDATE dentry SET type = (SELECT mode >> 12 FROM inode i WHERE i.ino = dentry.ino) WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    [SFS_FAULT_DIR_TWICE] = { /* the name that ".." leads to stays */
        .find = FOUND "SELECT parent, cookie, ino, name, parent FROM (SELECT d.*, row_number() OVER (PARTITION BY d.ino ORDER BY d.parent <> i.parent, d.parent, d.cookie) AS k "
                      "FROM dentry d JOIN inode i ON i.ino = d.ino WHERE i.mode >> 12 = 4) WHERE k > 1",
        .mend = "DELETE FROM dentry WHERE (parent, cookie) IN (SELECT a, b FROM temp.found)"},
    /* a = a directory of the ring: from one that cannot be reached upwards, until one comes again */
    [SFS_FAULT_DIR_LOOP] = {
        .find = "CREATE TEMP TABLE tree (ino INTEGER PRIMARY KEY, parent INTEGER); CREATE INDEX temp.tree_parent ON tree (parent);"
                "CREATE TEMP TABLE reached (ino INTEGER PRIMARY KEY); CREATE TEMP TABLE up (k INTEGER PRIMARY KEY, ino INTEGER);"
                "INSERT OR IGNORE INTO temp.tree SELECT d.ino, d.parent FROM dentry d JOIN inode i ON i.ino = d.ino WHERE i.mode >> 12 = 4;"
                "WITH RECURSIVE r(ino) AS (SELECT root_ino FROM space UNION SELECT parent FROM temp.tree WHERE parent NOT IN (SELECT ino FROM temp.tree) "
                "UNION SELECT t.ino FROM r JOIN temp.tree t ON t.parent = r.ino) INSERT INTO temp.reached SELECT ino FROM r;"
                "WITH RECURSIVE x(ino) AS (SELECT min(ino) FROM temp.tree WHERE ino NOT IN (SELECT ino FROM temp.reached) "
                "UNION SELECT t.parent FROM x JOIN temp.tree t ON t.ino = x.ino) INSERT INTO temp.up (ino) SELECT ino FROM x WHERE ino IS NOT NULL;" FOUND
                "SELECT ino, 0, 0, '', 0 FROM temp.up ORDER BY k DESC LIMIT 1; DROP TABLE temp.tree; DROP TABLE temp.reached; DROP TABLE temp.up",
        .mend = "DELETE FROM dentry WHERE ino IN (SELECT a FROM temp.found)",
        .again = true},
    /* a = directory, b = where its name is, c = where ".." leads */
    [SFS_FAULT_DIR_PARENT] = {
        .find = FOUND "SELECT i.ino, d.parent, i.parent, '', d.parent FROM dentry d JOIN inode i ON i.ino = d.ino WHERE i.mode >> 12 = 4 AND i.parent <> d.parent AND i.ino NOT IN (SELECT root_ino FROM space)",
        .mend = "UPDATE inode SET parent = (SELECT b FROM temp.found f WHERE f.a = inode.ino) WHERE ino IN (SELECT a FROM temp.found)"},
    /* a = inode, b = bytes, c = type */
    [SFS_FAULT_INLINE_BAD] = {
        .find = FOUND "SELECT d.ino, length(d.data), i.mode >> 12, '', d.ino FROM inline_data d JOIN inode i ON i.ino = d.ino WHERE i.mode >> 12 NOT IN (8, 10) OR length(d.data) > CASE i.mode >> 12 WHEN 8 THEN 2048 ELSE 4095 END",
        .mend_fn = sfs_audit_mend_inline},
    [SFS_FAULT_INLINE_EXTENT] = { /* the extents are newer: what brings them takes the inline contents away */
        .find = FOUND "SELECT d.ino, length(d.data), 0, '', d.ino FROM inline_data d JOIN inode i ON i.ino = d.ino AND i.mode >> 12 = 8 WHERE length(d.data) > 0 AND EXISTS (SELECT 1 FROM extent e WHERE e.ino = d.ino AND e.off < 4096)",
        .mend = "DELETE FROM inline_data WHERE ino IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_EXTENT_TYPE] = {
        .find = FOUND "SELECT e.ino, count(*), 0, '', e.ino FROM extent e JOIN inode i ON i.ino = e.ino WHERE i.mode >> 12 <> 8 GROUP BY e.ino",
        .mend = "DELETE FROM extent WHERE ino IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_SYMLINK_EMPTY] = {
        .find = FOUND "SELECT i.ino, 0, 0, '', i.ino FROM inode i WHERE i.mode >> 12 = 10 AND i.nlink > 0 AND i.space " LIVING " AND coalesce((SELECT length(data) FROM inline_data d WHERE d.ino = i.ino), 0) = 0",
        .mend = "DELETE FROM dentry WHERE ino IN (SELECT a FROM temp.found); DELETE FROM inline_data WHERE ino IN (SELECT a FROM temp.found);"
                "DELETE FROM xattr WHERE ino IN (SELECT a FROM temp.found); DELETE FROM inode WHERE ino IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_XATTR_BAD] = {
        .find = FOUND "SELECT ino, length(value), 0, hex(name), ino FROM xattr WHERE length(name) NOT BETWEEN 1 AND 255 OR instr(name, x'00') OR length(value) > 65536",
        .mend = "DELETE FROM xattr WHERE length(name) NOT BETWEEN 1 AND 255 OR instr(name, x'00') OR length(value) > 65536"},
    [SFS_FAULT_XATTR_FLAG] = {
        .find = FOUND "SELECT ino, 0, 0, '', ino FROM inode WHERE NOT flags & 1 AND ino IN (SELECT ino FROM xattr)",
        .mend = "UPDATE inode SET flags = flags | 1 WHERE ino IN (SELECT a FROM temp.found)"},
    /* a = inode, b = space, c = type */
    [SFS_FAULT_UNATTACHED] = {
        .find = FOUND "SELECT i.ino, i.space, i.mode >> 12, s.name, 0 FROM inode i JOIN space s ON s.id = i.space WHERE i.ino NOT IN (SELECT ino FROM dentry) AND i.ino NOT IN (SELECT root_ino FROM space) "
                      "AND i.space " LIVING " AND (i.nlink > 0 OR EXISTS (SELECT 1 FROM dentry d WHERE d.parent = i.ino))",
        .mend_fn = sfs_audit_mend_unattached},
    /* a = inode, b = links that it has, c = links that its row says */
    [SFS_FAULT_NLINK] = {
        .find = "CREATE TEMP TABLE links (ino INTEGER PRIMARY KEY, n INTEGER, dirs INTEGER);"
                "INSERT INTO temp.links SELECT ino, count(*), 0 FROM dentry GROUP BY ino;"
                "INSERT INTO temp.links SELECT parent, 0, count(*) FROM dentry WHERE type = 4 GROUP BY parent ON CONFLICT DO UPDATE SET dirs = excluded.dirs;" FOUND
                "SELECT i.ino, CASE i.mode >> 12 WHEN 4 THEN 2 + coalesce(l.dirs, 0) ELSE l.n END, i.nlink, '', i.ino FROM inode i LEFT JOIN temp.links l ON l.ino = i.ino WHERE i.space " LIVING " AND "
                "(i.ino IN (SELECT root_ino FROM space) OR coalesce(l.n, 0) > 0) AND i.nlink <> CASE i.mode >> 12 WHEN 4 THEN 2 + coalesce(l.dirs, 0) ELSE l.n END; DROP TABLE temp.links",
        .mend = "UPDATE inode SET nlink = (SELECT b FROM temp.found f WHERE f.a = inode.ino) WHERE ino IN (SELECT a FROM temp.found)"},
    /* a = inode, b = offset, c = group */
    [SFS_FAULT_EXTENT_BAD] = {
        .find = FOUND "SELECT ino, off, grp, '', ino FROM extent WHERE NOT (off >= 0 AND skip >= 0 AND goff BETWEEN 0 AND 1125899906842623 AND slen BETWEEN 1 AND 1048576 AND " RLEN " BETWEEN 1 AND 1048576 "
                      "AND skip < " RLEN " AND " LEN " BETWEEN 1 AND " RLEN " - skip AND off <= 9223372036854775807 - " LEN " AND codec IN (0, 1) AND (codec = 1 OR " RLEN " = slen) "
                      "AND length(csum) = 8 * CASE codec WHEN 0 THEN (" RLEN " + 65535) / 65536 ELSE 1 END)",
        .mend_fn = sfs_audit_mend_lost},
    [SFS_FAULT_EXTENT_GROUP] = {
        .find = FOUND "SELECT ino, off, grp, '', ino FROM extent WHERE grp NOT IN (SELECT id FROM slab_group)",
        .mend_fn = sfs_audit_mend_lost},
    [SFS_FAULT_EXTENT_END] = {
        .find = FOUND "SELECT e.ino, e.off, e.grp, '', e.ino FROM extent e JOIN (SELECT id, geo_capacity(resiliency, columns, interleave) / 4096 AS blocks FROM slab_group) g ON g.id = e.grp WHERE e.goff + (e.slen + 4095) / 4096 > g.blocks",
        .mend_fn = sfs_audit_mend_lost},
    [SFS_FAULT_EXTENT_OVERLAP] = {
        .find = FOUND "SELECT ino, off, next, '', ino FROM (SELECT ino, off, off + " LEN " AS ends, lead(off) OVER (PARTITION BY ino ORDER BY off) AS next FROM extent) WHERE ends > next",
        .mend_fn = sfs_audit_mend_overlap, .again = true},
    [SFS_FAULT_EXTENT_SHARED] = {.find_fn = sfs_audit_find_shared},
    /* a = inode, b = units of 512 bytes that it takes, c = units that its row says */
    [SFS_FAULT_SECTORS] = {
        .find = FOUND "SELECT i.ino, coalesce(e.n, 0) * 8 + (coalesce(length(d.data), 0) + 511) / 512, i.sectors, '', i.ino FROM inode i "
                      "LEFT JOIN (SELECT ino, sum((" LEN " + 4095) / 4096) AS n FROM extent GROUP BY ino) e ON e.ino = i.ino LEFT JOIN inline_data d ON d.ino = i.ino "
                      "WHERE i.mode >> 12 = 8 AND i.nlink > 0 AND i.space " LIVING " AND i.sectors <> coalesce(e.n, 0) * 8 + (coalesce(length(d.data), 0) + 511) / 512",
        .mend = "UPDATE inode SET sectors = (SELECT b FROM temp.found f WHERE f.a = inode.ino) WHERE ino IN (SELECT a FROM temp.found)"},
    /* a = group, b = the space it is, c = the space it says */
    [SFS_FAULT_GROUP_FOREIGN] = {
        .find = FOUND "SELECT g.id, min(i.space), g.space, '', 0 FROM extent e JOIN inode i ON i.ino = e.ino JOIN slab_group g ON g.id = e.grp GROUP BY g.id HAVING min(i.space) = max(i.space) AND min(i.space) <> g.space",
        .mend = "UPDATE slab_group SET space = (SELECT b FROM temp.found f WHERE f.a = slab_group.id) WHERE id IN (SELECT a FROM temp.found)"},
    /* a = space, b = inodes that it has, c = inodes that its row says; t = name */
    [SFS_FAULT_SPACE_COUNT] = {
        .find = FOUND "SELECT s.id, coalesce(n.n, 0), s.inodes, s.name, 0 FROM space s LEFT JOIN (SELECT space, count(*) AS n FROM inode GROUP BY space) n ON n.space = s.id WHERE s.inodes <> coalesce(n.n, 0)",
        .mend = "UPDATE space SET inodes = (SELECT b FROM temp.found f WHERE f.a = space.id) WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_COUNTER] = {
        .find = FOUND "SELECT 0, 0, 0, '', 0 FROM state WHERE next_ino < 16 OR next_ino <= (SELECT coalesce(max(ino), 0) FROM inode) OR next_disk < 1 OR next_disk <= (SELECT coalesce(max(id), 0) FROM disk) "
                      "OR next_space < 1 OR next_space <= (SELECT coalesce(max(id), 0) FROM space) OR next_group < 1 OR next_group <= (SELECT coalesce(max(id), 0) FROM slab_group)",
        .mend = "UPDATE state SET next_ino = max(next_ino, 16, (SELECT coalesce(max(ino), 0) + 1 FROM inode)), next_disk = max(next_disk, 1, (SELECT coalesce(max(id), 0) + 1 FROM disk)), "
                "next_space = max(next_space, 1, (SELECT coalesce(max(id), 0) + 1 FROM space)), next_group = max(next_group, 1, (SELECT coalesce(max(id), 0) + 1 FROM slab_group))"},
    /* a = group or inode */
    [SFS_FAULT_DAMAGE_BAD] = {
        .find = FOUND "SELECT grp, goff, 0, '', 0 FROM damage WHERE grp NOT IN (SELECT id FROM slab_group) OR goff NOT BETWEEN 0 AND 1125899906842623 OR len NOT BETWEEN 1 AND 1048576;"
                FOUND "SELECT ino, disk, 1, '', 0 FROM scrub_finding WHERE ino <= 0 OR disk NOT BETWEEN 0 AND 2147483647 OR blocks < 0",
        .mend = "DELETE FROM damage WHERE (grp, goff) IN (SELECT a, b FROM temp.found WHERE c = 0); DELETE FROM scrub_finding WHERE (ino, disk) IN (SELECT a, b FROM temp.found WHERE c = 1)"},
    /* a = id */
    [SFS_FAULT_JOB_BAD] = {
        .find = FOUND "SELECT id, 0, 0, '', 0 FROM job WHERE id <= 0 OR " BYTES("kind") " > 15 OR " BYTES("state") " > 15 OR " BYTES("what") " > 127 OR " BYTES("result") " > 255 OR done < 0 OR total < 0 "
                      "OR instr(kind || state || what || result, char(0))",
        .mend = "DELETE FROM job WHERE id IN (SELECT a FROM temp.found)"},
    [SFS_FAULT_EVENT_BAD] = {
        .find = FOUND "SELECT id, 0, 0, '', 0 FROM event WHERE id <= 0 OR " BYTES("severity") " > 11 OR " BYTES("kind") " > 31 OR " BYTES("subject") " > 129 OR " BYTES("text") " > 511 "
                      "OR instr(severity || kind || subject || text, char(0))",
        .mend = "DELETE FROM event WHERE id IN (SELECT a FROM temp.found)"},
};
