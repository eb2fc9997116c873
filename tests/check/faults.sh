#!/bin/bash
# Faults in the catalog of a real pool, of directories and of images: found, mended, clean in the second run, and the files are there after mounting. The whole table of faults is in tests/unit/test_audit.c.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir d1 m
spacesfs pool create p d1,size=2G img,size=2G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs mount p/s m
mktree src 60 1
cp -a src m/a
mkdir -p m/dir/sub
bigfile write m/dir/big $((20 << 20)) 1
echo hello > m/dir/small
ino_of() { stat -c %i "$1"; }
big=$(ino_of m/dir/big) dir=$(ino_of m/dir) small=$(ino_of m/dir/small)
down m
clean p

fault() { # WHAT SQL SAYS
    say "$1"
    poke "$2" d1 img
    check 4 -n p
    says "$3"
    check 1 -y p
    says 'The catalog as it was is kept as saved-'
    clean p
}
files() {
    spacesfs mount p/s m
    treecmp src m/a
    "$@"
    down m
}
whole() { bigfile check m/dir/big $((20 << 20)) 1; is "$(cat m/dir/small)" hello; }

fault "a name is gone" "DELETE FROM dentry WHERE ino = $big" "Files and directories without a name: 1"
files bigfile check "m/lost+found/#$big" $((20 << 20)) 1

fault "a directory is gone" "DELETE FROM inode WHERE ino = $dir; DELETE FROM dentry WHERE ino = $dir" "Names in directories that are not there: 1"
files grep -q hello "m/lost+found/#$dir/small"

fault "the root is gone" "DELETE FROM inode WHERE ino = (SELECT root_ino FROM space)" "Spaces without a root directory: 1"
files grep -q hello "m/lost+found/#$dir/small"

fault "an inode is gone" "DELETE FROM inode WHERE ino = $big; DELETE FROM dentry WHERE ino = $big" "Contents of files that have no inode: 1"
files bigfile check "m/lost+found/#$big" $((20 << 20)) 1

fault "the space is gone" "DELETE FROM space" "Spaces that the catalog has lost: 1"
spacesfs space rename p/recovered-1 s
files grep -q hello "m/lost+found/#$dir/small"

say "one copy's place is unknown: built anew"
poke "UPDATE slab SET disk = 99 WHERE copy = 1" d1 img
check 4 -n p
says 'on disk 99'
check 1 -y p
clean p
spacesfs heal p --wait
files true
health_is p healthy || { cat status; fail "not healthy after healing"; }

say "an extent is nowhere: the bytes are an error, never zeros; the rest is there"
poke "UPDATE extent SET grp = 999 WHERE ino = $big AND off = (SELECT max(off) FROM extent WHERE ino = $big AND off < 8388608)" d1 img
check 4 -n p
says 'Extents in no slab group: 1'
check 1 -y p
clean p
lost_part() {
    refused 1 'Input/output error' cat "m/lost+found/#$big"
    head -c 4194304 "m/lost+found/#$big" > /dev/null || fail "the beginning of the file is gone as well"
    rm "m/lost+found/#$big"
}
files lost_part
clean p

say "a repair can be undone"
poke "DELETE FROM dentry WHERE ino = $small" d1 img
check 1 -y p
saved=$(sed -n 's/.*kept as \(saved-[0-9]*\).*/\1/p' said)
check 0 --snapshots p
says "$saved.*good"
check 1 --restore "$saved" -y p
check 1 -y p
clean p
files grep -q hello "m/lost+found/#$small"
