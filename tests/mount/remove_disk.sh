#!/bin/bash
# Disks leave a pool under load: removed, replaced, forgotten; the daemon killed in the middle, a second disk lost in the middle.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 4000

mkdir d1 d2 d3 d4 d5 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G d4,size=1G d5,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
spacesfs pool set p heal-delay=1h
mktree src 500 6
cp -a src m/a
bigfile write m/big $((300 << 20)) 1
stored

all_right() {
    treecmp src m/a
    bigfile check m/big $((300 << 20)) 1
}
has_disk() { spacesfs disk list p --json | has "\"name\": \"$1\""; }
gone() { ! has_disk "$1"; }
blank() { [ ! -e "$1/.spacesfs" ]; }

say "removed under load"
begin_load
spacesfs disk remove p d1 | has 'job [0-9]* runs'
refused 1 'already' spacesfs disk remove p d1
within 60 gone d1
within 20 blank d1
end_load
all_right
health_is p healthy || { cat status; fail "not healthy"; }
spacesfs jobs p | has 'remove .*left .*done' || { spacesfs jobs p; fail "no job tells of it"; }

say "the daemon is killed in the middle, and again"
spacesfs pool set p job-rate=12M
begin_load
spacesfs disk remove p d2 > /dev/null
sleep 1
kill_daemon "$(daemon_of p)"
wait $LOAD || true
for _ in 1 2; do
    spacesfs mount p/s m -o wait=0
    has_disk d2 || fail "d2 has left already: nothing was interrupted"
    spacesfs jobs p | has 'remove .*running' || { spacesfs jobs p; fail "the job doesn't go on"; }
    sleep 0.7
    kill_daemon "$(daemon_of p)"
done
spacesfs mount p/s m -o wait=0
spacesfs pool set p job-rate=unlimited
within 60 gone d2
within 20 blank d2
all_right

say "another disk is lost in the middle"
mkdir d6 d7
spacesfs disk add p d6,size=1G d7,size=1G > /dev/null 2>&1
spacesfs pool set p job-rate=60M
begin_load
spacesfs disk remove p d3 > /dev/null
sleep 0.5
take d4
end_load
spacesfs pool set p job-rate=unlimited
spacesfs heal p --wait
within 90 gone d3
all_right
take d5
all_right
bring d5
within 30 health_is p degraded
spacesfs heal p --wait

say "the lost one never returns"
spacesfs disk forget p d4 # nothing depends on it any more: nothing to ask
gone d4 || fail "d4 is still there"
within 60 health_is p healthy
bring d4
sleep 2
health_is p healthy || fail "a forgotten disk was taken in again"
all_right

say "a dead disk is replaced by a smaller, new one"
take d5
mkdir d8
refused 1 'd5 is not here' spacesfs disk replace p d6 d5
spacesfs disk replace p d5 d8,size=800M --wait > /dev/null
gone d5 || fail "d5 is still there"
all_right
health_is p healthy || { cat status; fail "not healthy"; }

say "what cannot be is refused with the numbers"
refused 1 'no disk named' spacesfs disk remove p d77
spacesfs disk remove p d6 --wait > /dev/null
refused 1 'needs 2' spacesfs disk remove p d7
refused 1 'needs 2' spacesfs disk set p d7 usage=retired
refused 1 'not one of' spacesfs disk set p d7 usage=spare
refused 1 'itself|own place' spacesfs disk replace p d7 d7
refused 1 'less than one slab' spacesfs disk set p d7 capacity=1K
all_right

say "offline"
spacesfs umount m
within 20 no_daemon
mkdir d9
spacesfs disk replace p d7 d9 --wait > /dev/null
gone d7 || fail "d7 is still there"
blank d7 || fail "something is left on d7"
spacesfs mount p/s m
all_right
spacesfs umount m
