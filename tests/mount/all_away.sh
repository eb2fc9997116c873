#!/bin/bash
# All disks of a mounted pool go away at once and come back; and a disk that is there, but not as it was: status tells what is so, and what to do.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir d1 d2 m
spacesfs pool create p d1,size=1G d2,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mktree src 200 2
cp -a src m/a
sync m/a
spacesfs umount m
within 20 no_daemon
spacesfs mount p/s m
status_says() { # REGEX, over all lines
    spacesfs status p 2>&1 | tr -s ' \n' ' ' > "$T/status" || true
    grep -qE -- "$1" "$T/status"
}

say "all gone: it has stopped, and says what to do"
take d1
take d2
within 60 status_says 'has stopped: all disks .*d1, d2.* Connect them again; then unmount all spaces'
grep -q '0 % 0 B of 0 B' status && grep -q '█' status && { cat status; fail "nothing of nothing is drawn as a full bar"; }

say "back: it says so, and that they are taken in by mounting again"
bring d1
bring d2
within 300 status_says 'They are back: unmount all spaces .*spacesfs umount DIR.* mount them again'
spacesfs umount m > said 2>&1 || true
mounted m && { cat said; fail "it could not be unmounted"; }
within 30 no_daemon
spacesfs mount p/s m -o wait=0
treecmp src m/a
health_is p healthy || { cat status; fail "mounted again, and not healthy"; }

say "an image that was cut short is taken out, for that reason"
spacesfs disk add p image.img,size=1G > /dev/null 2>&1
truncate -s 300M image.img
within 60 status_says 'image.img: .*truncated'
spacesfs umount m
within 20 no_daemon
status_says 'image.img: .*truncated' || { cat status; fail "unmounted, the reason is not told"; }
