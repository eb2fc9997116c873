#!/bin/bash
# A tree of 20,000 files goes into a mirror2 space on five disks of different sizes (two directories, two loop devices, one image file). A disk is lost in the middle
# of it; the pool heals; another is lost; and after a remount every byte, mode, owner, time, link and xattr is as in the original.
. "$(dirname "$0")/lib.sh"
require_fuse
require_loop
require_free 4000

say "making the tree"
mktree src 20000 "${SFS_TEST_SEED:-1}"
[ "$(find src -type f -printf x | wc -c)" -ge 20000 ] || fail "the tree is too small"
# Real files too.
cp -a "$HERE/../.." src/source 2> /dev/null || true
rm -rf src/source/build src/source/.git

mkdir d1 d2 m
make_loop l1.img 2G
l1=$LOOP
make_loop l2.img 1500M
l2=$LOOP
spacesfs pool create p d1,size=3G d2,size=1G "$l1",name=one "$l2",name=two image.img,size=1G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
health_is p healthy || { cat status; fail "not healthy to begin with"; }

say "copying, and losing a directory in the middle"
cp -a src m/copy &
copier=$!
half() { [ "$(find m -type f | wc -l)" -gt 8000 ] || ! kill -0 $copier 2> /dev/null; }
within 200 half
kill -0 $copier 2> /dev/null || fail "the copy was over before the disk was taken"
take d1
wait $copier || fail "cp saw an error"
seen() { [ "$(health p)" != healthy ]; }
within 60 seen
treecmp src m/copy || fail "with one disk lost"

say "healing"
spacesfs heal p --wait
treecmp src m/copy || fail "after healing"

say "losing a loop device"
losetup -d "$l1"
truncate -s 0 l1.img
treecmp src m/copy || fail "with the second disk lost"

say "remounting without both"
spacesfs umount m
within 20 no_daemon
spacesfs mount p/s m -o wait=0
treecmp src m/copy -v || fail "after the remount"

say "healing once more"
spacesfs heal p --wait
spacesfs status p || true
treecmp src m/copy || fail "after healing twice"
rm -rf m/copy
spacesfs umount m
