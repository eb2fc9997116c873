-- The catalog of a pool: where everything is. One database, replicated on the pool's disks (meta/README.md).
--
-- Rules for this file
--   * All tables are STRICT. Numbers are integers, names and contents are blobs (a file name is bytes, not text).
--   * PRAGMA user_version counts incompatible layouts of this schema; smaller changes get a feature bit in pool.compat,
--     pool.ro_compat or pool.incompat (an unknown compat bit is ignored, an unknown ro_compat bit allows reading only,
--     an unknown incompat bit refuses the pool).
--   * What can be derived isn't stored: free space is what no extent names (extent_by_group).
--   * Ids come from the counters in `state` and are never used twice.
--   * Every page ends in 8 reserved bytes: XXH3-64 of the rest, seeded with the page number. The program checks them; the
--     ordinary sqlite3 shell ignores them.

PRAGMA user_version = 1;
PRAGMA application_id = 0x73706366; -- "spcf"

-- The pool itself, one row.
CREATE TABLE pool (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    uuid        BLOB    NOT NULL,           -- 16 bytes, as in the labels
    name        TEXT    NOT NULL,
    created     INTEGER NOT NULL,           -- unix seconds
    name_seed   INTEGER NOT NULL,           -- secret seed of the hash of file names (dentry.cookie)
    compat      INTEGER NOT NULL DEFAULT 0, -- feature bits, see above
    ro_compat   INTEGER NOT NULL DEFAULT 0,
    incompat    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Counters, one row, written by every commit. This table's page is the last that a checkpoint writes: a replica whose database file bears
-- commit N holds all of commit N (meta/README.md, recovery).
CREATE TABLE state (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    commit_seq  INTEGER NOT NULL,           -- commits so far: the replica with the highest is the newest
    next_ino    INTEGER NOT NULL,
    next_disk   INTEGER NOT NULL,
    next_space  INTEGER NOT NULL,
    next_group  INTEGER NOT NULL
) STRICT;

-- Pool properties ("heal-delay" …).
CREATE TABLE prop (
    key         TEXT PRIMARY KEY,
    value       TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The pool's disks.
CREATE TABLE disk (
    id              INTEGER PRIMARY KEY,
    uuid            BLOB    NOT NULL UNIQUE,    -- 16 bytes
    name            TEXT    NOT NULL UNIQUE,
    kind            INTEGER NOT NULL,           -- 1 dir, 2 image, 3 sim
    media           INTEGER NOT NULL,           -- 0 unknown, 1 ssd, 2 hdd
    usage           INTEGER NOT NULL,           -- 0 auto, 1 journal, 2 hot-spare, 3 retired
    path            TEXT    NOT NULL,           -- where it was last seen
    capacity_slabs  INTEGER NOT NULL,
    lost_since      INTEGER NOT NULL,           -- unix seconds, 0 = present
    read_errors     INTEGER NOT NULL,
    write_errors    INTEGER NOT NULL,
    checksum_errors INTEGER NOT NULL,
    replica         INTEGER NOT NULL,           -- 1: holds a replica of this catalog
    label_seen      INTEGER NOT NULL,           -- generation of its label that is known to be on it: a lower one means the disk is from an earlier time
    suspect         INTEGER NOT NULL            -- 1: what is on it may not be what was written to it: to be verified whole
) STRICT;

-- Spaces: the filesystems in the pool.
CREATE TABLE space (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    root_ino    INTEGER NOT NULL,
    resiliency  INTEGER NOT NULL,           -- 0 simple, 1 mirror2, 2 mirror3, 3 parity, 4 parity2
    columns     INTEGER NOT NULL,           -- 0 = auto
    interleave  INTEGER NOT NULL,           -- bytes
    size_bytes  INTEGER NOT NULL,           -- 0 = as large as the pool allows
    fixed       INTEGER NOT NULL,           -- 1: provisioned fully, 0: thin
    codec       INTEGER NOT NULL,           -- 0 none, 1 zstd
    codec_level INTEGER NOT NULL,
    created     INTEGER NOT NULL,           -- unix seconds
    destroying  INTEGER NOT NULL,           -- 1: gone for the user, its contents are being freed
    inodes      INTEGER NOT NULL DEFAULT 0  -- how many rows of inode are this space's; so that df needs no scan
) STRICT;

-- Slab groups carry their own geometry.
CREATE TABLE slab_group (
    id          INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    resiliency  INTEGER NOT NULL,
    columns     INTEGER NOT NULL,
    interleave  INTEGER NOT NULL,
    kind        INTEGER NOT NULL,           -- 0 data, 1 landing
    state       INTEGER NOT NULL            -- 0 open, 1 sealed
) STRICT;

-- Where the slabs of a group lie.
CREATE TABLE slab (
    grp         INTEGER NOT NULL,
    col         INTEGER NOT NULL,
    copy        INTEGER NOT NULL,
    disk        INTEGER NOT NULL,           -- 0 = missing: made with too few healthy disks, to be healed
    slot        INTEGER NOT NULL,
    PRIMARY KEY (grp, col, copy)
) STRICT, WITHOUT ROWID;
-- No slot serves two slabs.
CREATE UNIQUE INDEX slab_slot ON slab (disk, slot) WHERE disk <> 0;

-- Files, directories and the rest. Numbers are pool-wide.
CREATE TABLE inode (
    ino         INTEGER PRIMARY KEY,
    space       INTEGER NOT NULL,
    mode        INTEGER NOT NULL,           -- as st_mode
    nlink       INTEGER NOT NULL,           -- 0: unlinked, to be reaped
    uid         INTEGER NOT NULL,
    gid         INTEGER NOT NULL,
    rdev        INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    parent      INTEGER NOT NULL,           -- directories: the directory above (a root: itself), else 0
    flags       INTEGER NOT NULL,           -- 1: may have xattrs
    atime       INTEGER NOT NULL,           -- seconds since 1970 …
    atime_ns    INTEGER NOT NULL,           -- … and nanoseconds
    mtime       INTEGER NOT NULL,
    mtime_ns    INTEGER NOT NULL,
    ctime       INTEGER NOT NULL,
    ctime_ns    INTEGER NOT NULL,
    btime       INTEGER NOT NULL,
    btime_ns    INTEGER NOT NULL,
    sectors     INTEGER NOT NULL            -- what its contents take, in units of 512 bytes, as st_blocks: so that stat reads no extents, which decide
) STRICT;
CREATE INDEX inode_orphan ON inode (space, ino) WHERE nlink = 0;

-- Contents of small files, targets of symlinks.
CREATE TABLE inline_data (
    ino         INTEGER PRIMARY KEY,
    data        BLOB NOT NULL
) STRICT;

-- Directory entries. cookie: hash of the name, so that readdir's positions stay valid whatever happens to the directory.
CREATE TABLE dentry (
    parent      INTEGER NOT NULL,
    cookie      INTEGER NOT NULL,
    ino         INTEGER NOT NULL,
    type        INTEGER NOT NULL,           -- S_IFMT bits >> 12
    name        BLOB    NOT NULL,
    PRIMARY KEY (parent, cookie)
) STRICT, WITHOUT ROWID;

CREATE TABLE xattr (
    ino         INTEGER NOT NULL,
    name        BLOB    NOT NULL,
    value       BLOB    NOT NULL,
    PRIMARY KEY (ino, name)
) STRICT, WITHOUT ROWID;

-- Runs of a file's bytes, each a piece of a stored extent. Several rows may name one stored extent (clones, and what is left of one partly
-- overwritten); it is free when the last is gone.
CREATE TABLE extent (
    ino         INTEGER NOT NULL,
    off         INTEGER NOT NULL,           -- in the file, bytes
    len         INTEGER,                    -- bytes of the file; NULL = all of the stored extent from skip on
    skip        INTEGER NOT NULL,           -- first byte of the piece within the stored extent's raw bytes
    grp         INTEGER NOT NULL,
    goff        INTEGER NOT NULL,           -- where it is stored in the group: bytes / 4096
    slen        INTEGER NOT NULL,           -- stored bytes
    rlen        INTEGER,                    -- raw bytes; NULL = slen (codec 0)
    codec       INTEGER NOT NULL,           -- 0 none, 1 zstd
    csum        BLOB    NOT NULL,           -- XXH3-64, 8 bytes each, little-endian: codec 0 one per 64 KiB of raw bytes, else one of the stored bytes
    PRIMARY KEY (ino, off)
) STRICT, WITHOUT ROWID;
-- What of a group is in use; covering for free-space maps.
CREATE INDEX extent_by_group ON extent (grp, goff, slen);

-- Places whose bytes have no good copy on the disks that are here: a checksum granule each, of compressed extents the whole. Which files they
-- belong to is what `extent` says. A row goes when nothing names its place any more, and when its bytes are found good again.
CREATE TABLE damage (
    grp         INTEGER NOT NULL,
    goff        INTEGER NOT NULL,           -- bytes / 4096
    len         INTEGER NOT NULL,           -- bytes
    found       INTEGER NOT NULL,           -- unix seconds
    PRIMARY KEY (grp, goff)
) STRICT, WITHOUT ROWID;

-- What the last scrub found, by file and disk; the first 10,000.
CREATE TABLE scrub_finding (
    ino         INTEGER NOT NULL,
    disk        INTEGER NOT NULL,
    blocks      INTEGER NOT NULL,           -- of 4096 bytes, rewritten from good copies
    PRIMARY KEY (ino, disk)
) STRICT, WITHOUT ROWID;

-- Background work, kept so that it goes on after a restart.
CREATE TABLE job (
    id          INTEGER PRIMARY KEY,
    kind        TEXT    NOT NULL,           -- heal, remove …
    state       TEXT    NOT NULL,           -- running, waiting, paused: unfinished; done, failed, cancelled, incomplete
    what        TEXT    NOT NULL,           -- "pool"; "disk=3 to=5": words KEY=VALUE, disks and spaces by number
    done        INTEGER NOT NULL,           -- bytes
    total       INTEGER NOT NULL,
    started     INTEGER NOT NULL,           -- unix seconds
    ended       INTEGER NOT NULL,
    result      TEXT    NOT NULL
) STRICT;

-- What happened; the newest 10,000 are kept.
CREATE TABLE event (
    id          INTEGER PRIMARY KEY,
    time        INTEGER NOT NULL,           -- unix seconds
    severity    TEXT    NOT NULL,           -- info, warning, error
    kind        TEXT    NOT NULL,
    subject     TEXT    NOT NULL,
    text        TEXT    NOT NULL
) STRICT;
