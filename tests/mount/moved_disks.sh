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
say "changed places while the pool is in use"
returned() { spacesfs events p --json | grep -c '"disk-returned"' || true; }
both_returned() { [ "$(returned)" -ge $((before + 2)) ]; }
spacesfs mount p/s m -o wait=0
before=$(returned)
mv d2 swap
mv elsewhere/one d2
mv swap elsewhere/one
within 60 both_returned
within 60 health_is p healthy
treecmp src m/a
spacesfs umount m
within 20 no_daemon

say "all moved together, and named by the path of one: the others are found beside it"
mkdir -p w/deep more/w2 more/far
spacesfs pool export p
rm -rf d2 elsewhere
mkdir w/a w/b w/c
spacesfs pool create q w/a,size=1G w/b,size=1G w/c,size=1G 2> /dev/null
spacesfs space create q/s --resiliency mirror2
spacesfs mount q/s m
cp -a src m/a
spacesfs umount m
within 20 no_daemon
cp state/pools/q known
mv w/a w/b w/c more/w2/
spacesfs mount "$T/more/w2/a/s" m -o wait=0
treecmp src m/a
health_is q healthy || { cat status; fail "the others were not found beside the one that was named"; }
spacesfs umount m
within 20 no_daemon
is "$(grep -c "^disk $T/more/w2/" state/pools/q)" 3 "places known on this host"

say "moved together, each in a directory of its own"
mkdir more/w2/1 more/w2/2 more/w2/3
mv more/w2/a more/w2/1/; mv more/w2/b more/w2/2/; mv more/w2/c more/w2/3/
spacesfs pool import more/w2/1 more/w2/2 more/w2/3 > said
spacesfs mount q/s m -o wait=0
health_is q healthy || { cat status; fail "imported"; }
spacesfs umount m
within 20 no_daemon
mv more/w2 more/w3
rm -rf state/pools
spacesfs mount "$T/more/w3/2/b/s" m -o wait=0
treecmp src m/a
health_is q healthy || { cat status; fail "the others went the same way, and were not found"; }
spacesfs umount m
within 20 no_daemon

say "one is named and found, the rest can't be: what is known of them stays known"
cp state/pools/q known
mv more/w3/2/b more/far/b
mv more/w3 hidden
spacesfs status "$T/more/far/b" > said 2>&1 || true
for line in $(grep '^disk' known | grep -v '/2/b' | cut -d' ' -f2); do
    grep -qxF "disk $line" state/pools/q || { cat known state/pools/q; fail "$line was forgotten"; }
done
grep -qxF "disk $T/more/far/b" state/pools/q || { cat state/pools/q; fail "where the one was found isn't known"; }

say "a question makes no pool known"
rm state/pools/q
spacesfs status "$T/more/far/b" > said 2>&1 || true
[ ! -e state/pools/q ] || fail "status has made the pool known on this host"
