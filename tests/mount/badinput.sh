#!/bin/bash
# Bad input gets a clear error, and nothing is lost.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool mkfs.ext4

create() { spacesfs pool create "$@"; }
mkdir d1 d2 d3 m
echo mine > d1/mine
say "sizes that make no sense"
for size in 0 -1 abc 1K 5X 1.2.3G 99999999E '' 10,5; do
    refused '[12]' '.' create p "d1,size=$size" d2,size=1G
done
refused '[12]' 'size' create p d1,size=1000P d2,size=1G
refused '[12]' 'size|exist' create p new.img
refused '[12]' 'slab' create p d1,size=1G d2,size=1G --slab-size 3M
say "names"
for name in a/b 'a b' $'a\nb' $'a\001b' '' .. . -x "$(printf '%070d' 0)" 'ä/ö'; do
    refused '[12]' '.' create "$name" d1,size=1G
done
refused '[12]' 'character|allowed|name' create p $'d1,size=1G,name=a\tb'
refused '[12]' 'allowed|name' create p d1,size=1G,name=a/b
say "things that are no disks"
refused 1 'does not exist|no such' create p nowhere d2,size=1G
refused 1 'neither' create p /dev/null d2,size=1G
echo short > short
refused 1 'short|small' create p short d2,size=1G
is "$(cat short)" short "a file that was refused"
mkfifo fifo
refused 1 'neither' timeout 10 spacesfs pool create p fifo d2,size=1G
say "a disk that bears a filesystem"
truncate -s 300M ext4.img
mkfs.ext4 -q ext4.img
before=$(sha256sum < ext4.img)
refused 1 'ext4' create p d1,size=1G ext4.img
is "$(sha256sum < ext4.img)" "$before" "the filesystem that was refused"
say "a file full of somebody's data"
mkdir d
seq 4000000 > d/backup.txt
before=$(sha256sum < d/backup.txt)
refused 1 'backup.txt holds data.*--force' create p d/backup.txt
refused 1 'backup.txt holds data.*--force' create p d1,size=1G d/backup.txt
create keeper d3,size=1G > said 2>&1 || { cat said; fail "a pool on d3"; }
refused 1 'backup.txt holds data.*--force' spacesfs disk add keeper d/backup.txt
refused 1 'backup.txt holds data.*--force' spacesfs disk replace keeper d3 d/backup.txt
spacesfs pool destroy keeper --yes > said
is "$(sha256sum < d/backup.txt)" "$before" "the file that was refused"
say "the same disk twice"
ln -s d1 alias
refused 1 'same|twice' create p d1,size=1G ./d1,size=1G
refused 1 'same|twice' create p d1,size=1G alias,size=1G
say "after all this nothing was left anywhere"
is "$(ls -A d1 d2 d3 | tr '\n' ' ')" "d1: mine  d2:  d3: " "directories"
is "$(ls state/pools 2> /dev/null)" "" "known pools"

say "two disks on one device: allowed, warned about"
create p d1,size=1G d2,size=1G > said 2>&1 || { cat said; fail "two directories on one device"; }
grep -qi 'same device' said || { cat said; fail "no warning about two disks on one device"; }
spacesfs disk add p d3,size=1G > said 2>&1 || { cat said; fail "a third on that device"; }
tr -s ' \n' ' ' < said | grep -qE "d3, .*same device" || { cat said; fail "disk add doesn't warn about disks on one device"; }
spacesfs disk remove p d3 --wait > /dev/null
spacesfs disk add p d3 > said 2>&1 || { cat said; fail "a third that takes all there is"; }
tr -s ' \n' ' ' < said | grep -qE "d3 is to give [0-9.]+ .*all that its filesystem has free now, but .*lies on that filesystem" || { cat said; fail "disk add doesn't warn about a directory that takes all there is"; }
spacesfs disk remove p d3 --wait > /dev/null
is "$(cat d1/mine)" mine "a file of the user's in a member directory"
refused 1 'p' create p d3,size=1G
refused 1 'pool' create q d1,size=1G d3,size=1G
refused 1 'pool' create q d1,size=1G d3,size=1G --force --yes
[ ! -e d3/.spacesfs ] || fail "a refused pool left something behind"

say "spaces"
refused '[12]' 'mirror3|disks' spacesfs space create p/s --resiliency mirror3
refused '[12]' 'simple|mirror2' spacesfs space create p/s --resiliency raid5
refused 2 'resiliency' spacesfs space create p/s
refused '[12]' 'size' spacesfs space create p/s --resiliency mirror2 --size nonsense
refused '[12]' '.' spacesfs space create p/s --resiliency mirror2 --columns 900
refused '[12]' '.' spacesfs space create p/s --resiliency mirror2 --interleave 5
refused '[12]' 'compression|zstd' spacesfs space create p/s --resiliency mirror2 --compression rar
for name in p/ /s p 'p/a b' $'p/a\nb' p/a/b p/..; do
    refused '[12]' '.' spacesfs space create "$name" --resiliency mirror2
done
refused 1 'nopool|known' spacesfs space create nopool/s --resiliency mirror2
spacesfs space create p/s --resiliency mirror2
refused 1 'exist|already' spacesfs space create p/s --resiliency mirror2
spacesfs space list p | has ' s ' || spacesfs space list p | has 's' || fail "the space isn't listed"

say "mounting"
refused 1 'nope' spacesfs mount p/nope m
refused 1 'nowhere|exist' spacesfs mount p/s nowhere
refused 1 'directory' spacesfs mount p/s short
refused '[12]' 'frobnicate' spacesfs mount p/s m -o frobnicate
within 20 no_daemon
spacesfs mount p/s m
mktree src 200 5
cp -a src m/a
mkdir m2
refused 1 "mounted.*$T/m|$T/m.*mounted" spacesfs mount p/s m2
refused 1 'mounted' spacesfs pool export p
refused 1 'mounted|use' spacesfs pool destroy p --yes
refused 1 'mounted|use' spacesfs space destroy p/s --yes
say "a pool that another process has open"
mkdir run2
SFS_RUN_DIR=$T/run2 refused 1 'use|another|open' spacesfs mount p/s m2 -o wait=0
SFS_RUN_DIR=$T/run2 refused 1 'use|another|open' spacesfs pool set p heal-delay=1m
refused 1 'p|use' create q d2,size=1G --force --yes
treecmp src m/a
spacesfs umount m
within 20 no_daemon
refused 1 'mount' spacesfs umount m

say "a label, and a page of the catalog, damaged on one disk: mended"
spacesfs disk add p image.img,size=1G > /dev/null 2>&1
for label in image.img d1/.spacesfs/label; do printf 'rubbish%.0s' {1..600} | dd of="$label" conv=notrunc status=none; done
spacesfs mount p/s m -o wait=0
treecmp src m/a
health_is p healthy || { cat status; fail "a damaged label was not mended"; }
spacesfs umount m
within 20 no_daemon
catalog() { ls "$1"/.spacesfs/catalog/catalog.db; }
damage() { # FILE: something into each of its pages after the first
    local size off
    size=$(stat -c %s "$1")
    for ((off = 5000; off < size; off += 8192)); do printf 'rubbish' | dd of="$1" bs=1 seek=$off conv=notrunc status=none; done
}
damage "$(catalog d1)"
spacesfs mount p/s m -o wait=0
treecmp src m/a
spacesfs umount m
within 20 no_daemon
take d2 # only the one that was damaged, and the image
spacesfs mount p/s m -o wait=0
treecmp src m/a
spacesfs umount m
within 20 no_daemon
bring d2
spacesfs mount p/s m
within 30 health_is p healthy
spacesfs umount m
within 20 no_daemon

say "and on all: refused, with words"
mkdir aside
cp -a d1 d2 image.img aside
damage "$(catalog d1)"
damage "$(catalog d2)"
head -c 700M /dev/zero | tr '\0' 'x' | dd of=image.img bs=64K seek=1 conv=notrunc status=none
refused 1 'catalog|damaged' spacesfs mount p/s m -o wait=0
is "$(ls m)" "" "nothing mounted"
rm -rf d1 d2 image.img
mv aside/* .
for label in d?/.spacesfs/label*; do printf 'rubbish%.0s' {1..600} | dd of="$label" conv=notrunc status=none; done
take image.img
refused 1 'label|damaged|disk' spacesfs mount p/s m -o wait=0
bring image.img

say "a directory that cannot be written"
if [ "$(id -u)" -eq 0 ]; then
    mkdir ro
    mount -t tmpfs -o ro,size=1G none ro
    refused 1 'read-only|permission' create r ro,size=500M d3,size=1G
    umount ro
else
    mkdir -m 555 ro
    refused 1 'permission' create r ro,size=500M d3,size=1G
fi
[ ! -e d3/.spacesfs ] || fail "a refused pool left something behind"

say "a device that is mounted"
if [ "$(id -u)" -eq 0 ]; then
    make_loop other.img 300M
    mkfs.ext4 -q "$LOOP"
    mkdir other
    mount "$LOOP" other
    echo kept > other/file
    refused 1 'use|mounted' create r "$LOOP" d3,size=1G --force --yes
    is "$(cat other/file)" kept
    umount other
    e2fsck -fn "$LOOP" > said 2>&1 || { cat said; fail "the filesystem on the device was harmed"; }
fi

say "overwritten only when asked to"
create r ext4.img d3,size=300M --force --yes > said 2>&1 || { cat said; fail "--force --yes"; }
refused 1 'yes|ask|terminal|confirm' spacesfs pool destroy r
spacesfs pool destroy r --yes
[ ! -e d3/.spacesfs ] || fail "destroy left something behind: $(find d3)"
create r ext4.img d3,size=300M > said 2>&1 || { cat said; fail "disks of a destroyed pool can't be used again"; }
