#!/bin/bash
# A disk that doesn't answer: the filesystem under it is a FUSE whose process is stopped. Programs go on, the disk is taken out of use, and in again; healing works
# without it. Then data that only a dead disk held: errors there, and only there.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 3000

mkdir d1 d2 d3 below m mb
spacesfs pool create below below,size=2G > /dev/null 2>&1
spacesfs space create below/s --resiliency simple
spacesfs mount below/s mb
mkdir mb/d4
stopped=$(daemon_of below)
on_exit+=("kill -CONT $stopped 2> /dev/null")
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G mb/d4,size=512M > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
spacesfs pool set p heal-delay=1h
mktree src 300 6
cp -a src m/a
bigfile write m/big $((200 << 20)) 1
stored
state_of() { spacesfs disk list p --json | grep -A 20 "\"name\": \"$1\"" | sed -n 's/.*"state": "\([a-z]*\)".*/\1/p' | head -n 1; }
state_is() { [ "$(state_of "$1")" = "$2" ]; }

say "it stalls"
kill -STOP "$stopped"
bigfile write m/more $((64 << 20)) 2 & writer=$!
within 120 state_is d4 stalled
wait $writer || fail "the write failed"
bigfile check m/more $((64 << 20)) 2
treecmp src m/a
bigfile check m/big $((200 << 20)) 1
spacesfs heal p --wait
within 30 health_is p degraded # without that disk, but whole
spacesfs status p --json 2> /dev/null > status.json || true
is "$(json groups_degraded < status.json)" 0 "degraded groups"

say "it answers again"
kill -CONT "$stopped"
within 90 state_is d4 online
within 60 health_is p healthy
treecmp src m/a
bigfile check m/big $((200 << 20)) 1
spacesfs events p | has stalled || fail "no event tells of it"

say "removed, and all is there"
spacesfs disk remove p d4 --wait > /dev/null
treecmp src m/a
bigfile check m/big $((200 << 20)) 1
spacesfs umount m

say "what only a dead disk held is lost, and nothing else"
spacesfs space create p/simple --resiliency simple
spacesfs mount p/simple m
for i in 1 2 3 4 5 6 7 8 9; do bigfile write m/f$i $((40 << 20)) $i; done
spacesfs umount m # and with it what the kernel has cached
spacesfs mount p/simple m
take d3
sleep 3
readable() { local n=0 i; for i in 1 2 3 4 5 6 7 8 9; do bigfile check m/f$i $((40 << 20)) $i > /dev/null 2>&1 && n=$((n + 1)); done; echo $n; }
before=$(readable)
[ "$before" -lt 9 ] || fail "nothing of it was on d3 alone"
refused 1 'no other copy' spacesfs disk remove p d3
refused 1 'LOSES' spacesfs disk forget p d3
has -E '[0-9]+ files? ha(s|ve) data that is on disk d3 only:' < said || { cat said; fail "the files that would be lost are not counted"; }
has -E '^  simple/f[1-9]$' < said || { cat said; fail "the files that would be lost are not named"; }
spacesfs disk forget p d3 --yes > /dev/null
is "$(readable)" "$before" "readable files"
health_is p at-risk || fail "lost data isn't told of"
spacesfs damage p > damaged 2>&1 || true
has '/f[0-9]' < damaged || { cat damaged; fail "the damaged files aren't named"; }
for i in 1 2 3 4 5 6 7 8 9; do bigfile check m/f$i $((40 << 20)) $i > /dev/null 2>&1 || rm m/f$i; done
sync m # the directory: what was deleted
within 40 health_is p healthy
spacesfs umount m
spacesfs umount mb
