#!/bin/bash
# A pool that loses so many disks that no full copy can be made goes on for programs, as long as all can be read; what was written meanwhile is made whole when a disk is back, or a new one there; and status
# and impact say what it means.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 3000

mktree src 400 5
mkdir m

go_on() { # RESILIENCY DISKS LOST
    local i disks=()
    say "$1 on $2 disks, $3 lost"
    for ((i = 1; i <= $2; i++)); do
        mkdir "d$i"
        disks+=("d$i,size=600M")
    done
    spacesfs pool create p "${disks[@]}" 2> /dev/null
    spacesfs space create p/s --resiliency "$1"
    spacesfs mount p/s m
    cp -a src m/before
    for ((i = 1; i <= $3; i++)); do take "d$i"; done
    unwell() { [ "$(health p)" != healthy ]; }
    within 30 unwell
    bigfile write m/big $((250 << 20)) 7 || fail "a large file could not be written"
    cp -a src m/meanwhile || fail "small files could not be written"
    bigfile check m/big $((250 << 20)) 7
    treecmp src m/before
    treecmp src m/meanwhile
    health_is p degraded || { cat status; fail "that copies are missing doesn't show"; }
}

whole_again() { # DISKS LOST-NOW...: all disks are there; what was written can bear these losses
    local i
    well() { health_is p healthy; }
    spacesfs heal p --wait > heal.out 2>&1 || true
    within 60 well || cat status
    shift
    for i in "$@"; do take "$i"; done
    spacesfs umount m
    spacesfs mount p/s m -o wait=0
    bigfile check m/big $((250 << 20)) 7
    treecmp src m/before
    treecmp src m/meanwhile
    spacesfs umount m
    within 20 no_daemon
    rm -rf --one-file-system d? drawer
    rm -rf state
    mkdir state
}

go_on mirror2 2 1
grep -q 'catalog.*1 of the 2 copies' status || grep -q 'less redundancy' status || { cat status; fail "status doesn't say what is missing"; }
refused 1 'everything would be lost' spacesfs impact p d2
say "  the same disk comes back"
bring d1
whole_again 2 d2

go_on mirror2 2 1
say "  another disk takes its place"
mkdir d3
spacesfs disk add p d3,size=600M > add.out 2>&1 || { cat add.out; fail "a disk could not be added"; }
spacesfs heal p --wait > heal.out 2>&1 || { cat heal.out; fail "not healed"; }
grep -qi 'full redundancy' heal.out || { cat heal.out; fail "heal doesn't say that it is done"; }
take d2
treecmp src m/meanwhile
bigfile check m/big $((250 << 20)) 7
spacesfs umount m
within 20 no_daemon
rm -rf --one-file-system d? drawer state
mkdir state

go_on mirror3 3 2
bring d1
bring d2
whole_again 3 d2 d3

go_on parity 3 1
bring d1
whole_again 3 d3

go_on parity2 4 2
bring d1
bring d2
whole_again 4 d3 d4

say "with nothing but small files the copies of the catalog are what counts"
mkdir d1 d2
spacesfs pool create p d1,size=600M d2,size=600M 2> /dev/null
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
for i in $(seq 100); do echo "$i" > "m/f$i"; done
sync m/f100
take d1
few() { health_is p degraded && grep -q '1 of the 2 copies' status; }
within 30 few
refused 1 'everything would be lost' spacesfs impact p d2
echo more > m/more
is "$(cat m/f7 m/more | tr '\n' ' ')" "7 more " "small files"
bring d1
well() { health_is p healthy; }
within 60 well
spacesfs umount m
