#!/bin/bash
# Healing by itself after the delay; killed in the middle; offline; and what it says when it can't.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 3000

mkdir d1 d2 d3 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mktree src 500 6
cp -a src m/a
bigfile write m/big $((300 << 20)) 1
stored
missing_copies() { spacesfs status p --json > status.json 2> /dev/null || true; json groups_degraded < status.json; }
whole() { [ "$(missing_copies)" = 0 ]; }
holed() { ! whole; }

say "after the delay, by itself"
is "$(spacesfs pool get p heal-delay)" "heal-delay=5m"
spacesfs pool set p heal-delay=3s
take d1
within 40 holed
within 60 whole
spacesfs jobs p | grep done | has ' %' && { spacesfs jobs p; fail "a job that is done isn't at its end"; }
spacesfs jobs p | has -E '^ *[0-9]+ +heal .*done' || { spacesfs jobs p; fail "no job tells of it"; }
spacesfs events p | has heal || fail "no event tells of it"
treecmp src m/a
bigfile check m/big $((300 << 20)) 1
spacesfs pool set p heal-delay=1h
bring d1
within 60 health_is p healthy

say "the daemon is killed in the middle of healing"
take d2
within 40 holed
spacesfs heal p
sleep 0.3
kill_daemon "$(daemon_of p)"
spacesfs mount p/s m -o wait=0
treecmp src m/a
spacesfs heal p --wait
whole || fail "not whole after healing"
bigfile check m/big $((300 << 20)) 1

say "offline"
spacesfs umount m
within 20 no_daemon
bring d2
take d3
spacesfs heal p --wait
take d1
spacesfs mount p/s m -o wait=0
treecmp src m/a
bigfile check m/big $((300 << 20)) 1

say "with one disk left it can't, and says so"
refused 1 'disk|room' spacesfs heal p --wait
spacesfs umount m
within 20 no_daemon

say "a new disk takes the place of those that are gone"
mkdir d4
spacesfs disk add p d4,size=1G > /dev/null 2>&1
spacesfs mount p/s m -o wait=0
spacesfs heal p --wait
whole || fail "not whole after adding a disk"
take d2
treecmp src m/a
bigfile check m/big $((300 << 20)) 1
spacesfs umount m
