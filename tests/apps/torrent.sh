#!/bin/bash
# A file as a torrent client makes it: preallocated, written in pieces in any order through two descriptors and a mapping, verified while others still come;
# then the daemon is killed, and what had been synced is there.
. "$(dirname "$0")/../mount/lib.sh"
PATH=$SFS_BUILD/tests/apps:$PATH
require_fuse

small_pool
torrent write m/a 300000000 1
spacesfs umount m
spacesfs mount p/s m
torrent check m/a 300000000 1
torrent write m/b 100000000 2 sync > acked & # a line for each piece that is synced
pid=$!
sleep 3
kill_daemon "$(daemon_of p)"
wait $pid || true
spacesfs mount p/s m
say "$(wc -l < acked) pieces were acknowledged"
[ "$(wc -l < acked)" -gt 3 ] || fail "too few to mean anything"
torrent pieces m/b 100000000 2 < acked
torrent check m/a 300000000 1
spacesfs umount m
