#!/bin/bash
# --extract: everything comes out of a sound pool, all that can be read out of a broken one, and nothing on the disks changes.
. "$(dirname "$0")/lib.sh"
require_fuse

small_pool > /dev/null 2>&1
spacesfs space create p/t --resiliency simple > /dev/null
mktree src 150 1
cp -a src m/a
mkdir m/dir
ln m/dir/../a/"$(ls -A src | head -n 1)" m/hard 2> /dev/null || echo x > m/hard
mkfifo m/fifo
bigfile write m/big $((30 << 20)) 1
truncate -s 40M m/sparse
mkdir m2
spacesfs mount p/t m2
echo simple > m2/one
spacesfs umount m2
spacesfs umount m
within 20 no_daemon
sums() { find d1 d2 -type f -exec sha256sum {} + | sort; }
sums > before
unchanged() { sums > after && cmp before after || fail "something on the disks has changed"; }

say "a sound pool"
check 0 --extract --to out p
treecmp src out/s/a
bigfile check out/s/big $((30 << 20)) 1
is "$(stat -c %s out/s/sparse)" 41943040
[ "$(stat -c %b out/s/sparse)" -lt 1000 ] || fail "holes were filled"
[ -p out/s/fifo ] || fail "the fifo is not there"
is "$(cat out/t/one)" simple
[ ! -e out/damaged.txt ] || fail "something is said to be damaged"
[ -z "$(ls -A out | grep '^\.')" ] || fail "the working copy was left behind"
unchanged

say "nothing is written over"
check 8 --extract --to out p
says 'already'

say "one disk is left, named by its path: the mirrored space is whole, the other one as far as it goes"
take d2
rm -rf out2
spacesfs-check --extract --to out2 "$T/d1" > said 2>&1 || [ $? -eq 4 ] || { cat said; fail "from one disk"; }
treecmp src out2/s/a
bigfile check out2/s/big $((30 << 20)) 1
bring d2
unchanged

say "the catalog is damaged in its rows, and on one disk in its pages"
poke "DELETE FROM dentry WHERE name = CAST('big' AS BLOB); UPDATE slab SET disk = 77 WHERE grp = (SELECT min(grp) FROM slab) AND copy = 1" d1 d2
for page in 1 2 3; do printf 'rotten' | dd of=d1/.spacesfs/catalog/catalog.db bs=1 seek=$((page * 4096 - 100)) conv=notrunc status=none; done
sums > before
check 0 --extract --to out3 p
treecmp src out3/s/a
bigfile check out3/s/lost+found/\#* $((30 << 20)) 1
unchanged

say "data is rotten on both disks: what can be read is read, what can't is named"
find d1/.spacesfs/slabs d2/.spacesfs/slabs -type f | while read -r slab; do dd if=/dev/urandom of="$slab" bs=4096 seek=1000 count=20 conv=notrunc status=none; done
sums > before
check 4 --extract --json --to out4 p
says '"lost_bytes": [1-9]'
[ -s out4/damaged.txt ] || fail "damaged.txt says nothing"
[ -n "$(find out4 -name '*.damaged')" ] || fail "no damaged file is marked"
unchanged
