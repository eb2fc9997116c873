#!/bin/bash
# A file of 4 GiB, written, read back after a remount, deleted; and a sparse one of many TiB.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 10500

mkdir d1 d2 m
spacesfs pool create p d1,size=6G d2,size=6G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m

size=$((4 << 30))
say "writing 4 GiB"
bigfile write m/big $size 1
is "$(stat -c %s m/big)" $size "size"
used=$(df -B1 --output=used m | tail -1)
[ "$used" -ge $size ] && [ "$used" -lt $((size * 11 / 10)) ] || fail "df says $used bytes are used"
spacesfs umount m
spacesfs mount p/s m
say "reading it"
bigfile check m/big $size 1

say "a sparse one"
truncate -s 8T m/sparse
printf end >> m/sparse
printf middle | dd of=m/sparse bs=1M seek=3000000 conv=notrunc status=none
is "$(stat -c %s m/sparse)" $(((8 << 40) + 3)) "size"
is "$(tail -c 3 m/sparse)" end
is "$(dd if=m/sparse bs=1M skip=3000000 count=1 status=none | head -c 6)" middle
[ "$(du -k m/sparse | cut -f 1)" -lt 3000 ] || fail "the sparse file takes $(du -h m/sparse)"

say "deleting gives the space back"
rm m/big m/sparse
given_back() { [ "$(df -B1 --output=used m | tail -1)" -lt $((64 << 20)) ]; }
within 30 given_back
say "and it can be used again"
bigfile write m/again $((3 << 30)) 2
bigfile check m/again $((3 << 30)) 2
spacesfs umount m
