#!/bin/bash
# A pool is found by name after its disks have moved, and from any one of its disks; on a host that has never seen it, too.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir d1 d2 m
spacesfs pool create p d1,size=1G d2,size=1G image.img,size=1G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mktree src 300 4
cp -a src m/a
spacesfs umount m
within 20 no_daemon

say "two of three have moved: found by import, then by name"
mkdir elsewhere
mv d1 elsewhere/one
mv image.img elsewhere/other.img
spacesfs pool import elsewhere
spacesfs mount p/s m -o wait=0
treecmp src m/a
health_is p healthy || { cat status; fail "a moved disk wasn't found"; }
spacesfs umount m
within 20 no_daemon

say "known from then on where they are"
spacesfs mount p/s m -o wait=0
health_is p healthy || { cat status; fail "places weren't remembered"; }
spacesfs umount m
within 20 no_daemon

say "from any one disk, without having known the pool"
for disk in d2 elsewhere/one elsewhere/other.img; do
    rm -rf state
    mkdir state
    spacesfs mount "$T/$disk/s" m -o wait=0 || fail "from $disk"
    treecmp src m/a
    health_is p healthy || { cat status; fail "from $disk not all were found"; }
    spacesfs umount m
    within 20 no_daemon
done
spacesfs status "$T/d2"

say "moved among each other"
mv d2 swap
mv elsewhere/one d2
mv swap elsewhere/one
spacesfs mount p/s m -o wait=0
treecmp src m/a
health_is p healthy || { cat status; fail "disks that changed places were mistaken"; }
spacesfs umount m
within 20 no_daemon

say "exported and imported"
spacesfs pool export p
refused 1 'p' spacesfs mount p/s m -o wait=0
spacesfs pool import d2
spacesfs mount p/s m -o wait=0
treecmp src m/a
spacesfs umount m
