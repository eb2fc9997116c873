#!/bin/bash
# Random overwriting costs no more than 1.3 times the live data: what is dead in half-overwritten extents is got back by itself, while a program goes on writing.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 3000

small_pool
MB=48
BLOCKS=$((MB * 256))
used() { df -k --output=used m | tail -n 1; }
within_bound() { [ "$(used)" -le $((MB * 1024 * 13 / 10)) ]; }

say "twice over: where dead space is at its most"
overwrite write m/f $BLOCKS $((2 * BLOCKS)) 1 512
within 60 within_bound
overwrite check m/f $BLOCKS $((2 * BLOCKS)) 1
say "ten times over"
rm m/f
overwrite write m/f $BLOCKS $((10 * BLOCKS)) 2 4096
within 60 within_bound
overwrite check m/f $BLOCKS $((10 * BLOCKS)) 2
spacesfs umount m
within 20 no_daemon
spacesfs mount p/s m
overwrite check m/f $BLOCKS $((10 * BLOCKS)) 2
within_bound || fail "after a remount it takes $(used) KiB"
spacesfs umount m
