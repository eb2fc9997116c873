#!/bin/bash
# Very many inodes in one space: made, counted, found by name, there after a remount and after a kill, deleted, and nothing left. The target million-inodes makes a million; by itself
# it makes 5,000.
#
# SFS_INODES: how many, in thousands (5).
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
thousands=${SFS_INODES:-5}

mkdir d1 d2 m
spacesfs pool create p d1,size=4G d2,size=4G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
inodes() { df --output=iused m | tail -n 1 | tr -d ' '; }
before=$(inodes)
for ((d = 0; d < thousands; d++)); do
    mkdir m/$d
    (cd m/$d && seq -f 'file %g' 1000 | xargs -d '\n' touch)
    [ $(((d + 1) % 100)) -ne 0 ] || say "$((d + 1)),000 at $SECONDS s"
done
all_there() { # WHEN
    is "$(find m -type f | wc -l)" $((thousands * 1000)) "files $1"
    is "$(inodes)" $((before + thousands * 1001)) "inodes that df counts $1"
    for ((d = 0; d < thousands; d += 7)); do
        [ -f "m/$d/file $((d * 31 % 1000 + 1))" ] || fail "a file isn't there $1"
    done
}
all_there "when made"
stored
all_there "after a remount"
say "one file in a thousand is written and synced, then the daemon is killed"
for ((d = 0; d < thousands; d++)); do
    echo "contents $d" > "m/$d/file 500"
    sync "m/$d/file 500"
done
kill_daemon "$(daemon_of p)"
spacesfs mount p/s m
all_there "after a kill"
is "$(cat m/*/'file 500' | sort -u | wc -l)" "$thousands" "files that were written"
say "deleting"
rm -r m/*
sync m
is "$(inodes)" "$before" "inodes left"
spacesfs umount m
spacesfs status p
