#!/bin/bash
# Images that are not what they were while the pool was closed: a copy from before put back, made shorter and longer again. Noticed, verified, made good, with nothing asked.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 700

told() { # KIND TIMES: events of that kind, so far
    local n
    n=$(spacesfs events p --json | grep -o -- "\"$1\"" | wc -l)
    [ "$n" -eq "$2" ]
}
fresh_mount() { spacesfs mount p/s m -o wait=0; }
away() {
    spacesfs umount m
    within 20 no_daemon
}
# Everything can be read from the disk alone that was in doubt.
alone() { # IMAGE
    local image
    for image in ?.img; do [ "$image" = "$1" ] || take "$image"; done
    spacesfs mount "$T/$1/s" m -o wait=0,degraded=ro
    treecmp src m/a
    away
    for image in drawer/*; do bring "${image#drawer/}"; done
    fresh_mount
    spacesfs heal p --wait
    away
}

mkdir m kept
spacesfs pool create p a.img,size=160M b.img,size=160M
spacesfs space create p/s --resiliency mirror2
fresh_mount
mktree one 100 4
cp -a one m/a
away

say "a copy from before is put back"
cp --sparse=always b.img kept/b.img
mktree src 400 7
fresh_mount
rm -rf m/a
cp -a src m/a
away
cp --sparse=always kept/b.img b.img
fresh_mount
treecmp src m/a
within 60 told disk-suspect 1
within 60 told disk-verified 1
health_is p healthy || { cat status; fail "it isn't whole again"; }
away
alone b.img

say "cut to half, and long again"
size=$(stat -c %s a.img)
truncate -s $((size / 2)) a.img
truncate -s "$size" a.img
fresh_mount
treecmp src m/a
within 60 told disk-suspect 2
within 60 told disk-verified 2
away
alone a.img

say "nothing is in doubt any more"
fresh_mount
told disk-suspect 2 || { spacesfs events p; fail "a disk is in doubt again"; }
away
