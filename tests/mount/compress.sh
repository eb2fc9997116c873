#!/bin/bash
# A compressed space takes less room, returns what was written, at random offsets too, and keeps doing so when the setting changes.
. "$(dirname "$0")/lib.sh"
require_fuse

small_pool --compression zstd:3
yes 'line after line of text that compresses well, 0123456789' | head -c 200M > text || true
head -c 30M /dev/urandom > noise
used() { df -B1 --output=used m | tail -1; }
raw() { spacesfs space list p --json | json raw_bytes; }

cp text noise m/
sync m/text m/noise
cmp text m/text
cmp noise m/noise
[ "$(used)" -ge $((30 << 20)) ] && [ "$(used)" -lt $((60 << 20)) ] || fail "df says $(used) bytes are used for 30 MiB of noise and 200 MiB of text"
[ "$(raw)" -lt $((400 << 20)) ] || fail "$(raw) bytes are taken on the disks"

say "overwriting in the middle"
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    off=$((RANDOM * 6000 % 200000000))
    head -c $((RANDOM + 1)) /dev/urandom > piece
    dd if=piece of=text bs=64k seek=$off oflag=seek_bytes conv=notrunc status=none
    dd if=piece of=m/text bs=64k seek=$off oflag=seek_bytes conv=notrunc status=none
done
cmp text m/text

say "off, other levels, on again"
for setting in off zstd:1 zstd:9 zstd off; do
    spacesfs space set p/s compression=$setting
    head -c 5M text > "m/with-$setting"
    cmp -n 5242880 text "m/with-$setting"
done
spacesfs umount m
spacesfs mount p/s m
cmp text m/text
cmp noise m/noise
for setting in off zstd:1 zstd:9 zstd; do cmp -n 5242880 text "m/with-$setting"; done
posix_dir=m/posix
mkdir $posix_dir
spacesfs space set p/s compression=zstd
posix $posix_dir random_writes truncates mapped copies
spacesfs umount m
