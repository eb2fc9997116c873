#!/bin/bash
# A space gets another resiliency, columns and interleave while it is in use: under a load that is verified, the daemon killed in the middle, a disk lost in the middle; what the disks cannot carry is refused.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 4000

mkdir d1 d2 d3 d4 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G d4,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs space create p/other --resiliency simple
spacesfs mount p/s m
spacesfs pool set p heal-delay=1h
mktree src 300 5
cp -a src m/a
bigfile write m/big $((150 << 20)) 1
stored

all_right() {
    treecmp src m/a
    bigfile check m/big $((150 << 20)) 1
}
layouts() { find m -type f -size +100k | LC_ALL=C grep -av '[^ -~]' | head -n 200 | tr '\n' '\0' | xargs -0 -n 50 spacesfs where --json | grep -o '"resiliency": *"[a-z0-9]*"' | sort -u | tr -d ' \n'; } # of all that lies in slabs
only() { is "$(layouts)" "\"resiliency\":\"$1\"" "what the files are stored as"; }
raw() { spacesfs space list p --json | grep -A40 '"name": "s"' | sed -n 's/.*"raw_bytes": *\([0-9]*\).*/\1/p' | head -n 1; }
used() { df -k --output=used m | tail -n 1; }
ended() { ! spacesfs jobs p | grep convert | has -E 'running|waiting|interrupted'; }

say "mirror2 to mirror3 under load"
before=$(used)
begin_load
spacesfs space set p/s resiliency=mirror3 | has 'Job [0-9]* converts'
within 120 ended
end_load
spacesfs jobs p | has 'convert .*space s .*done' || { spacesfs jobs p; fail "no job tells of it"; }
rm m/load*
sync m
only mirror3
all_right
as_before() { sync m && [ "$(used)" -le $((before + before / 50 + 4096)) ]; }
within 20 as_before
health_is p healthy

say "two disks may be lost now"
take d1
take d2
within 40 health_is p degraded
all_right
bring d1
bring d2
within 60 health_is p healthy

say "columns and interleave"
spacesfs space set p/s interleave=64K --wait > /dev/null
all_right
only mirror3
refused 1 'interleave' spacesfs space set p/s interleave=5000
refused 1 'column|disk' spacesfs space set p/s columns=5

say "less redundancy is asked first; the daemon is killed in the middle, twice"
refused 1 'bears' spacesfs space set p/s resiliency=simple
spacesfs pool set p job-rate=1M # minutes, so that it is not over before it is looked at
begin_load
spacesfs space set p/s resiliency=simple columns=2 --yes > /dev/null
sleep 2
kill_daemon "$(daemon_of p)"
wait $LOAD || true
for _ in 1 2; do
    spacesfs mount p/s m -o wait=0
    all_right
    sleep 1
    spacesfs jobs p | has -E 'convert .*running' || { spacesfs jobs p; fail "it doesn't go on"; }
    kill_daemon "$(daemon_of p)"
done
spacesfs mount p/s m -o wait=0
spacesfs pool set p job-rate=unlimited
within 120 ended
rm -f m/load*
sync m
only simple
all_right

say "back to mirror2, a disk lost in the middle"
spacesfs space set p/s resiliency=mirror2 columns=auto --wait > /dev/null
all_right
only mirror2
spacesfs pool set p job-rate=8M
spacesfs space set p/s resiliency=mirror3 > /dev/null
sleep 2
take d4
within 40 health_is p degraded
all_right
spacesfs pool set p job-rate=unlimited
bring d4
within 120 ended
within 60 health_is p healthy
only mirror3
all_right

say "what the disks cannot carry is refused, and nothing changes"
spacesfs space set p/s resiliency=mirror2 --yes --wait > /dev/null
bigfile write m/more $((1300 << 20)) 2
sync m/more
refused 1 'holds .* free there now' spacesfs space set p/s resiliency=mirror3
only mirror2
rm m/more
sync m

say "offline, and the other space is as it was"
spacesfs umount m
within 20 no_daemon
spacesfs space set p/s resiliency=mirror3 > /dev/null
spacesfs mount p/s m
only mirror3
all_right
spacesfs optimize p --wait > /dev/null
all_right
spacesfs umount m
