#!/bin/bash
# Labels destroyed in both copies, on a directory and on an image: the pool goes on without the disk; the check proves whose disk it is, makes the label anew, and the disk is verified when the pool is used.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir d1 d3 m
spacesfs pool create p d1,size=2G img,size=2G d3,size=2G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs mount p/s m
mktree src 60 1
cp -a src m/a
bigfile write m/big $((30 << 20)) 1
down m
files() {
    spacesfs mount p/s m
    treecmp src m/a
    bigfile check m/big $((30 << 20)) 1
    within 60 health_is p healthy || { cat status; fail "not healthy"; }
    down m
}
# What is destroyed is the label alone: a directory's two files, an image's first and last pages.
lose() { # DISK
    local disk size
    for disk in "$@"; do
        if [ -d "$disk" ]; then
            printf 'rubbish%.0s' {1..600} | dd of="$disk/.spacesfs/label" conv=notrunc status=none
            printf 'rubbish%.0s' {1..600} | dd of="$disk/.spacesfs/label.copy" conv=notrunc status=none
        else
            size=$(stat -c %s "$disk")
            dd if=/dev/zero of="$disk" bs=4096 count=10 conv=notrunc status=none
            dd if=/dev/zero of="$disk" bs=4096 seek=$((size / 4096 - 10)) count=10 conv=notrunc status=none
        fi
    done
}

say "a directory"
lose d3
refused 8 'damaged' spacesfs-check -n "$T/d3"
spacesfs mount p/s m -o wait=0
treecmp src m/a
down m
check 4 -n p
says 'lost their label, in both copies: 1'
check 1 -p p
clean p
files
check 0 -n --data p

say "an image"
lose img
check 4 -n p
says 'lost their label'
check 1 -p p
clean p
files
check 0 -n --data p

say "two of three at once"
lose d3 img
check 1 -y p
says '\(.*/d3\)'
says '\(.*/img\)'
clean p
files

say "one that was moved meanwhile is found where a person says"
lose d3
mkdir elsewhere
mv d3 elsewhere/d3
check 1 -y p "$T/elsewhere/d3"
says 'elsewhere/d3'
clean p
mv elsewhere/d3 d3

say "something else in its place is not taken for it, and left alone"
lose img
mv img away
truncate -s 2G img
before=$(head -c 1M img | sha256sum)
check 0 -n p
says 'nothing on it proves'
check 0 -y p
is "$(head -c 1M img | sha256sum)" "$before" "what is there"
mv away img
check 1 -y p
clean p
files
