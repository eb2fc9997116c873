#!/bin/sh
# A pool's life by the command line alone, never mounted: every command opens it for a moment. Directories and image files; no privilege is needed.
# usage: lifecycle.sh PROGRAM
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export SFS_STATE_DIR="$work/state" SFS_RUN_DIR="$work/run" LC_ALL=C.UTF-8
mkdir "$work/run"
chmod 700 "$work/run"
cd "$work" || exit 1
failed=0

# run STATUS ARGUMENTS...: output in ./out and ./err.
run() {
    status=$1
    shift
    "$program" "$@" > out 2> err < /dev/null
    got=$?
    if [ "$got" -ne "$status" ]; then
        echo "FAIL: spacesfs $*: exit status $got, expected $status"
        cat out err | head -n 25 | sed 's/^/    /'
        failed=1
    fi
}
# has FILE PATTERN...: each pattern matches some line.
has() {
    file=$1
    shift
    for pattern; do
        grep -Eq -e "$pattern" "$file" && continue
        echo "FAIL: nothing like /$pattern/ in:"
        head -n 25 "$file" | sed 's/^/    /'
        failed=1
    done
}
hasnt() {
    ! grep -Eq -e "$2" "$1" || { echo "FAIL: /$2/ in:"; sed 's/^/    /' "$1"; failed=1; }
}

echo "== making"
mkdir a b c
echo mine > a/mine
run 0 pool create tank a,size=80M b,size=80M,name=bee c,size=96M img,size=100M --slab-size 1M
has out 'Made pool tank of 4 disks' '^  DISK ' '^  a +online +dir ' '^  bee +online ' '^  img +online +image ' 'spacesfs space create tank/NAME'
[ -f img ] && [ -e a/.spacesfs/label ] || { echo "FAIL: no disks were made"; failed=1; }
run 0 pool list
has out '^POOL +HEALTH' '^tank +healthy .* 4 +0 +0$'
run 0 status tank
has out '^tank: HEALTHY' 'No spaces yet' '^  catalog +4 replicas, epoch'
run 0 status tank --json
has out '"pool": "tank"' '"health": "healthy"' '"exit": 0' '"slab_bytes": 1048576' '"replicas": 4'
run 0 pool status --json
has out '"pools": \[' '"mounted": false'

echo "== refusals"
run 1 pool create other a
has err 'a .*tank'
run 1 pool create tank "$work/d"
mkdir d
run 1 pool create tank d
has err '^spacesfs: .*tank'
run 1 pool create other d d
has err 'd'
ln -s d dlink
run 1 pool create other d dlink
[ -z "$(ls -A d)" ] || { echo "FAIL: a refused disk was touched"; failed=1; }
run 1 space create tank/a -r mirrow2
has err '^spacesfs: .*mirror2'
run 1 space create tank/a -r mirror2 --compression lzma
run 1 space create tank/a -r mirror2 --interleave 5000
run 1 space list nosuch
has err '^spacesfs: .*nosuch'
run 1 disk set tank nosuch name=x
has err 'nosuch'
run 1 disk set tank a name=bee
has err bee
run 1 pool set tank heal-dealy=3m
has err 'heal-de'
run 1 pool set tank heal-delay=soon
run 1 heal nosuch

echo "== spaces"
run 0 space create tank/docs --resiliency mirror2 --size 40M --compression zstd:5
has out '^Made space tank/docs\. Mount it: spacesfs mount tank/docs DIR$'
run 0 space create tank/media -r mirror3
run 0 space create ./a/scratch -r simple
run 1 space create tank/docs -r simple
has err 'docs'
run 0 space list tank
has out '^tank/docs +mirror2 .*zstd:5 .*healthy +40\.0 MiB' '^tank/media +mirror3' '^tank/scratch +simple'
run 0 space list --bytes
has out '^tank/docs .* 41943040 '
run 0 space set tank/docs size=50M compression=off
run 0 space list tank --json
has out '"size_bytes": 52428800' '"compression": "off"'
run 0 space rename tank/scratch heap
run 0 space list tank
has out '^tank/heap +simple'
hasnt out scratch
run 1 space rename tank/heap docs
run 1 space destroy tank/heap
has err 'tank/heap.*--yes'
run 0 space destroy tank/heap --yes
run 0 space list tank
hasnt out heap
run 1 space destroy tank/heap --yes
has err 'heap'

echo "== properties and disks"
run 0 pool get tank
has out '^heal-delay=5m$'
run 0 pool set tank heal-delay=90s
run 0 pool get tank heal-delay --json
has out '"heal-delay": "90s"'
run 0 disk add tank d,size=64M
run 0 disk set tank d name=delta
run 0 disk list tank
has out '^delta +online +dir '
run 0 events tank
run 0 events tank --json --max 0
run 0 jobs tank
run 0 heal tank
run 0 fstab tank/docs "$work" -o noatime
has out "^tank/docs  $work  fuse\.spacesfs  noatime"

echo "== found again"
run 0 pool export tank
run 0 pool list
has out '^No pools are known'
run 3 status tank
run 0 status "$work/a"
has out '^tank: HEALTHY'
run 0 pool list # a question by path makes nothing known
has out '^No pools are known'
mkdir elsewhere
mv a b c d img elsewhere/
run 0 pool import elsewhere
has out '^Imported pool tank: all of its 5 disks were found\.$'
run 0 status tank --json
has out "\"path\": \"$work/elsewhere/a\"" "\"path\": \"$work/elsewhere/img\""
run 0 pool get tank heal-delay
has out '^heal-delay=90s$'
run 0 pool export tank
mv elsewhere/a elsewhere/b elsewhere/c elsewhere/d elsewhere/img .
run 0 pool import a --json
has out '"pool": "tank"' '"disks": 5'

echo "== a disk is missing"
mv b/.spacesfs b/.away # its filesystem isn't mounted: an empty directory, as far as we can tell
begin=$(date +%s)
run 1 status tank
[ $(($(date +%s) - begin)) -lt 15 ] || { echo "FAIL: status waited for the missing disk"; failed=1; }
has out '^tank: DEGRADED' '^  bee +missing ' '^  bee: '
run 1 pool status
run 0 space list tank
[ ! -e b/.spacesfs ] || { echo "FAIL: something was written to a directory without a label"; failed=1; }
mv b/.away b/.spacesfs
run 0 status tank

echo "== destroying"
run 1 pool destroy tank
has err 'There is no terminal to ask on.*--yes'
run 0 pool destroy tank --yes
has out '^Destroyed pool tank\.$'
run 3 status tank
for disk in a b c d; do
    [ ! -e $disk/.spacesfs/label ] || { echo "FAIL: $disk still has a label"; failed=1; }
done
[ "$(cat a/mine)" = mine ] || { echo "FAIL: a file that isn't ours is gone"; failed=1; }
run 1 pool import a b c d img
run 0 pool create tank a,size=80M b,size=80M --slab-size 1M
run 0 pool destroy tank --yes

echo "== names that were asked for come first; one warning a device"
run 0 pool create tank a,size=80M b,size=80M,name=a c,size=80M,name=a-2 --slab-size 1M
has out '^  a-3 +online .*/a$' '^  a +online .*/b$' '^  a-2 +online .*/c$'
[ "$(grep -c 'lie on the same device' err)" -eq 1 ] || { echo "FAIL: not one warning about the device:"; cat err; failed=1; }
has err "^spacesfs: warning: $work/a, $work/b, $work/c lie on the same device: if it fails, all of them are lost at once\.$"
run 1 disk add tank d,size=80M,name=a-3
has err 'disk named a-3'
run 0 pool destroy tank --yes
exit $failed
