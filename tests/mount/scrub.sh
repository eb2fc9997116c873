#!/bin/bash
# Slabs rot on the disks under a mounted pool: scrub finds, repairs and tells; what can't be repaired is known by path, over remounts, until it is mended. Killed in the middle it goes on.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool jq
require_free 2500

mkdir d1 d2 d3 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs space create p/one --resiliency simple > /dev/null
spacesfs mount p/s m
mkdir m/dir
mktree src 300 4
cp -a src m/tree
bigfile write m/big $((200 << 20)) 1
head -c 300000 /dev/urandom > keep
cp keep m/dir/a
cp keep m/dir/b
sync m/big m/dir/a m/dir/b
stored
disks_of() { spacesfs where "$1" --json | jq -r '.files[0].pieces[0].places[].disk'; }
# Overwrites what a disk has of a file's contents, wherever in the slab it is: the bytes are found by themselves.
rot() { # FILE DISK
    local slab at
    slab=$(grep -rlaF -f "$T/needle" "$2/.spacesfs/slabs" | sed -n 1p)
    [ -n "$slab" ] || fail "$1 isn't found on $2"
    at=$(grep -aboF -f "$T/needle" "$slab" | sed -n 1p | cut -d: -f1)
    printf 'rotten rotten rotten' | dd of="$slab" bs=1 seek="$at" conv=notrunc status=none
}
mark() { # FILE: written anew, with a text that is in this file alone
    printf 'needle in %s %s' "$1" "$RANDOM$RANDOM" > needle
    dd if=needle of=keep bs=1 seek=100000 conv=notrunc status=none
    cp keep "$1"
    sync "$1"
}
drop() { # nothing is answered from memory
    spacesfs umount m
    within 20 no_daemon
    spacesfs mount p/s m
}

say "all is good"
spacesfs scrub p --wait > said
has 'every copy is good' < said || { cat said; fail "a new pool isn't good"; }
spacesfs damage p | has 'no file is known to be damaged'
spacesfs where m/dir/a | has 'all copies are there'

say "one copy rots"
mark m/dir/a
cp m/dir/a keep.a
first=$(disks_of m/dir/a | sed -n 1p)
drop
rot m/dir/a "$first"
spacesfs scrub p --wait > said || { cat said; fail "scrub ends badly"; }
has -E "^ *s +$first +4.00 KiB +/dir/a" < said || { cat said; fail "the report doesn't name the file"; }
cmp m/dir/a keep.a
spacesfs disk list p | has -E "^ *$first .*/1 " || { spacesfs disk list p; fail "the error isn't counted"; }
within 20 sh -c 'spacesfs events p | grep -q "of bad copies were rewritten from good ones"'

say "both copies rot"
mark m/dir/b
cp m/dir/b keep.b
drop
for disk in $(disks_of m/dir/b); do rot m/dir/b "$disk"; done
spacesfs scrub p --wait > said && fail "scrub of damaged data ends with 0"
has -E '^ *s +64.0 KiB +damaged +/dir/b' < said || { cat said; fail "the damaged file isn't named"; }
cat m/dir/b > /dev/null 2>&1 && fail "damaged data is read"
is "$(dd if=m/dir/b bs=64K count=1 status=none | cmp - <(head -c 65536 keep.b) && echo same)" same "what is before the damage"
cmp m/dir/a keep.a
is "$(health p)" at-risk
has -E '1 file is damaged' < status || { cat status; fail "the verdict"; }
has '/dir/b' < status || { cat status; fail "status doesn't name the file"; }
spacesfs where m/dir/b | has -E 'damaged: no good copy is left of 64.0 KiB' || { spacesfs where m/dir/b; fail "where doesn't say it"; }
within 20 sh -c 'spacesfs events p | grep -q "/dir/b in p/s: no good copy is left"'
drop
is "$(health p)" at-risk "after a remount"
mv m/dir/b m/renamed
spacesfs damage p > said && fail "damage ends with 0"
has -E ' /renamed$' < said || { cat said; fail "not under its new name"; }
cp keep.b m/renamed
sync m/renamed
within 20 health_is p healthy
cmp m/renamed keep.b

say "killed in the middle"
spacesfs pool set p job-rate=40M
spacesfs scrub p | has 'runs in the background'
refused 1 'being done already' spacesfs scrub p
sleep 1.5
spacesfs jobs p | has 'scrub .*running'
kill_daemon "$(daemon_of p)"
spacesfs mount p/s m
job() { spacesfs jobs p --json | jq -r '.jobs[0] | "\(.kind) \(.state)"'; }
spacesfs pool set p job-rate=unlimited
job_done() { [ "$(job)" = "scrub done" ]; }
within 60 job_done
spacesfs scrub p --report | has 'every copy is good'

say "stopped, and turned off"
spacesfs pool set p job-rate=1M
spacesfs scrub p > /dev/null
spacesfs scrub p --stop | has 'was stopped'
refused 1 'not being scrubbed' spacesfs scrub p --stop
spacesfs pool set p scrub-every=off job-rate=auto
spacesfs scrub p --report | has 'None begins by itself'
refused 1 'scrub-every' spacesfs pool set p scrub-every=1m
refused 2 'three different things' spacesfs scrub p --wait --stop

say "impact, and what comes of it"
spacesfs impact p d3 > said || { cat said; fail "impact of a disk of a mirror"; }
has 'Nothing would be lost' < said && has 'have room for all that it holds' < said || { cat said; fail "impact"; }
refused 1 'no disk named d9' spacesfs impact p d9
take d3
within 40 health_is p degraded
spacesfs impact p d3 | has 'is away'
treecmp src m/tree
bring d3
within 60 health_is p healthy
spacesfs umount m
within 20 no_daemon

say "offline"
spacesfs scrub p | has 'every copy is good'
