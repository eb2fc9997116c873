#!/bin/bash
# Under load a disk goes, each time in another way. No program sees an error; the loss is seen, told and recorded; the pool heals; and the disk that comes back is taken in again.
. "$(dirname "$0")/lib.sh"
require_fuse
require_loop
require_free 3000

mkdir d1 d2 d3 m
make_loop l1.img 1G
l1=$LOOP
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G "$l1",name=loop image.img,name=image,size=1G
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
mktree src 800 2

load() { # writes, reads and compares until told to end; any error is final
    local n=0
    while [ ! -e "$T/stop" ]; do
        n=$((n + 1))
        cp -a src "m/load$1.$n" && treecmp src "m/load$1.$n" && rm -rf "m/load$1.$((n - 1))" || return 1
    done
}
start_load() {
    rm -f stop
    load a > load.a 2>&1 &
    load_a=$!
    load b > load.b 2>&1 &
    load_b=$!
    sleep 1.5
}
end_load() {
    touch stop
    wait $load_a || { cat load.a; fail "a program saw an error after: $1"; }
    wait $load_b || { cat load.b; fail "a program saw an error after: $1"; }
    local dir
    for dir in m/load*; do treecmp src "$dir" || fail "after: $1"; done
    rm -rf m/load*
}
unwell() { [ "$(health p)" != healthy ]; }
state_is() { # DISK STATE
    spacesfs disk list p | grep -E "^ *$1 " | has " $2 "
}
healed() { # WHAT: everything, with the disk away
    spacesfs heal p --wait || fail "healing fails after: $1"
    spacesfs status p > status || true
    say "$1: $(head -n 2 status | tr -s ' \n' ' ')"
}
lost() { # DISK HOW
    within 45 unwell
    grep -q "$1" status || { cat status; fail "status doesn't name $1"; }
    state_is "$1" missing || state_is "$1" failed || { spacesfs disk list p; fail "$1 is not shown as missing"; }
    spacesfs events p | has "$1" || fail "no event tells of $1"
}

say "a directory is renamed"
start_load
take d1
sleep 2
end_load "renaming a directory"
lost d1
healed "a directory renamed"

say "it comes back"
bring d1
within 60 state_is d1 online
within 60 health_is p healthy

say "an image is truncated"
start_load
truncate -s 0 image.img
sleep 2
end_load "truncating an image"
lost image
healed "an image truncated"

say "a loop device is detached"
start_load
losetup -d "$l1"
sleep 2
end_load "detaching a loop device"
lost loop
healed "a loop device detached"

say "it comes back under another name"
l1=$(losetup -f --show "$T/l1.img")
within 60 state_is loop online

say "a directory's slabs are deleted"
start_load
rm -rf d2/.spacesfs
sleep 2
end_load "deleting a directory's contents"
lost d2
healed "a directory emptied"

say "what is left holds everything"
cp -a src m/last
spacesfs umount m
within 20 no_daemon
spacesfs mount p/s m -o wait=0
treecmp src m/last
spacesfs umount m
