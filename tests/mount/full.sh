#!/bin/bash
# A pool of images is filled, first with data, then with names. The catalog, which lies in the same images, keeps room: what doesn't fit is refused, deleting works, makes room again, and the pool can be mounted after a kill.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 1500

dirs() { # NAME: makes directories until one is refused; says how many
    local n=0
    while [ $n -lt 40000 ] && mkdir $(seq -f "m/$1/%.0f" $n $((n + 499))) 2> said; do
        n=$((n + 500))
    done
    [ $n -lt 40000 ] || fail "nothing was refused"
    has 'No space left' < said || { cat said; fail "refused for another reason"; }
    rm -f said
    find "m/$1" -mindepth 1 | wc -l
}

mkdir m
spacesfs pool create p a.img,size=300M b.img,size=300M c.img,size=300M > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mkdir m/one m/two
bigfile write m/kept $((64 << 20)) 1
cat /dev/zero > m/rest 2> said || true
has 'No space left' < said || { cat said; fail "it never became full"; }

say "full of data, then of names"
one=$(dirs one)
is "$(health p)" healthy "a full pool"
kill_daemon "$(daemon_of p)"
spacesfs mount p/s m
bigfile check m/kept $((64 << 20)) 1

say "deleting makes room for names"
rm -r m/one
spacesfs umount m
spacesfs mount p/s m
mkdir m/one
again=$(dirs one)
[ "$again" -ge $((one / 2)) ] || fail "$one names fitted, after they were deleted only $again do"
rm -r m/one

say "and for data"
rm m/rest
stored
bigfile write m/other $((64 << 20)) 2
spacesfs umount m
spacesfs-check -n --data p
