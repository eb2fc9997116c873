#!/bin/bash
# The catalog's copies and the labels damaged in parts, on one disk or on all.
. "$(dirname "$0")/lib.sh"
require_fuse

small_pool > /dev/null 2>&1
mktree src 200 1
cp -a src m/a
down m
cp -a d1 keep1
cp -a d2 keep2

rot() { # FILE PAGE
    printf 'rotten' | dd of="$1" bs=1 seek=$(($2 * 4096 - 100)) conv=notrunc status=none
}
again() {
    rm -rf d1 d2
    cp -a keep1 d1
    cp -a keep2 d2
}
files() {
    spacesfs mount p/s m
    treecmp src m/a
    down m
}
db() { echo "$1/.spacesfs/catalog/catalog.db"; }
pages() { echo $(($(stat -c %s "$(db "$1")") / 4096)); }

say "a bad page on one disk"
rot "$(db d1)" 3
check 4 -n p
says 'd1: 1 bad pages'
check 1 -y p
clean p
cmp "$(db d1)" "$(db d2)"
files

say "every page bad, half on each disk"
again
for ((i = 1; i <= $(pages d1); i++)); do rot "$(db d$((i % 2 + 1)))" "$i"; done
check 4 -n p
check 1 -p p
clean p
files

say "a copy is gone, or cut off, or of another time"
again
rm "$(db d2)"
check 4 -n p
says 'd2: gone'
check 1 -p p
clean p
truncate -s 8192 "$(db d2)"
check 4 -n p
check 1 -p p
clean p
files

say "a copy of the label"
again
printf 'XXXX' | dd of=d1/.spacesfs/label bs=1 seek=300 conv=notrunc status=none
check 4 -n p
says 'copies of their label'
check 1 -p p
clean p
files

say "all copies damaged, and no snapshot: nothing is changed, and it says so"
again
rot "$(db d1)" 2
rot "$(db d2)" 2
check 4 -y p
says 'damaged on all disks'
says 'no disk that is here has a good snapshot'
cmp "$(db d1)" "$(db d2)"
