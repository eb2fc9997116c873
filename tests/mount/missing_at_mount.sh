#!/bin/bash
# Disks that are missing when the pool is mounted: waited for, worked without, healed; degraded=no and =ro; too many missing; coming back; an empty directory in a disk's place.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir d1 d2 d3 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mktree src 300 3
cp -a src m/a
spacesfs umount m
within 20 no_daemon

say "an empty directory where a disk was is never written to"
take d1
mkdir d1
spacesfs mount p/s m -o wait=0
treecmp src m/a
cp -a src m/b
health_is p degraded || { cat status; fail "a missing disk doesn't show"; }
grep -q d1 status || { cat status; fail "status doesn't name the missing disk"; }
spacesfs umount m
within 20 no_daemon
is "$(ls -A d1)" "" "the empty directory"
rmdir d1

say "degraded=no refuses, degraded=ro mounts for reading"
refused 1 'd1|missing|degraded' spacesfs mount p/s m -o wait=0,degraded=no
mounted m && fail "mounted all the same"
spacesfs mount p/s m -o wait=0,degraded=ro
treecmp src m/b
refused 1 'read-only' touch m/new
spacesfs umount m
within 20 no_daemon

say "it is waited for"
(sleep 2 && bring d1) &
start=$SECONDS
spacesfs mount p/s m -o wait=20
[ $((SECONDS - start)) -lt 15 ] || fail "waited $((SECONDS - start)) s though the disk had come"
wait
treecmp src m/a
treecmp src m/b
within 30 health_is p healthy
spacesfs umount m
within 20 no_daemon

say "healed without it, and then another goes"
take d2
spacesfs mount p/s m -o wait=0
spacesfs heal p --wait
cp -a src m/c
spacesfs umount m
within 20 no_daemon
take d3
spacesfs mount p/s m -o wait=0
treecmp src m/a
treecmp src m/b
treecmp src m/c
spacesfs umount m
within 20 no_daemon

say "an old disk alone, mounted without a thought or looked at: what it has is right or an error, and nothing changes"
take d1
bring d2
labels() { cat d2/.spacesfs/label* | cksum; }
before=$(labels)
for options in wait=0 wait=0,ro wait=0,degraded=ro; do
    spacesfs mount p/s m -o "$options" 2> said
    [ $options != wait=0 ] || grep -q 'read-only.*missing' said || { cat said; fail "no word of being read-only"; }
    refused 1 'read-only' touch m/new
    health_is p at-risk || { cat status; fail "data that cannot be read doesn't show"; }
    grep -q read-only status || { cat status; fail "status doesn't say that it is read-only"; }
    treecmp src m/a > said || true
    grep -vE ': (Input/output error|No such file)|differences$' said && fail "wrong bytes instead of an error"
    spacesfs umount m
    within 20 no_daemon
    is "$(labels)" "$before" "the labels of a disk that was only looked at"
done

say "with the others it is behind: they decide"
bring d1
bring d3
spacesfs mount p/s m
treecmp src m/a
treecmp src m/c
spacesfs heal p --wait
within 30 health_is p healthy
spacesfs umount m
within 20 no_daemon

say "two halves used apart are never merged in silence"
take d1
take d2
spacesfs mount p/s m -o wait=0
spacesfs umount m
within 20 no_daemon
bring d1
bring d2
take d3
spacesfs mount p/s m -o wait=0
echo kept > m/kept
spacesfs umount m
within 20 no_daemon
bring d3
refused 1 'split|apart' spacesfs mount p/s m -o wait=0
refused 1 'split|apart' spacesfs heal p --wait
say "one half is chosen by connecting it alone, and goes on"
take d3
spacesfs mount p/s m -o wait=0
is "$(cat m/kept)" kept
treecmp src m/c
spacesfs heal p --wait
spacesfs umount m
within 20 no_daemon

say "none there at all"
within 20 no_daemon
take d1
take d2
refused 1 'p|disk' spacesfs mount p/s m -o wait=0
bring d1
bring d2
spacesfs mount p/s m -o wait=0
treecmp src m/a
spacesfs umount m
within 20 no_daemon

say "each space by itself: a mirror goes on, a simple space that misses some of its data is read-only unless told otherwise"
spacesfs space create p/x --resiliency simple
spacesfs mount p/x m
bigfile write m/big $((64 << 20)) 1
spacesfs umount m
within 20 no_daemon
take d1
mkdir x
spacesfs mount p/s m -o wait=0
spacesfs mount p/x x -o wait=0 2> said
grep -q 'read-only.*missing' said || { cat said; fail "no word of being read-only"; }
refused 1 'read-only' touch x/new
touch m/new
spacesfs umount x
spacesfs mount p/x x -o wait=0,degraded=rw 2> said
is "$(cat said)" "" "what was said"
touch x/new
spacesfs umount x
spacesfs umount m
within 20 no_daemon
bring d1
spacesfs mount p/x m
bigfile check m/big $((64 << 20)) 1
spacesfs umount m
