#!/bin/bash
# Several spaces of different resiliency in one pool, each mounted on its own. df tells the truth: what it says is free can be written, and no more than the pool can hold.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool jq
require_free 3500

mkdir d1 d2 d3 m1 m2 m3
spacesfs pool create p d1,size=1G d2,size=1G d3,size=512M
spacesfs space create p/one --resiliency simple
spacesfs space create p/two --resiliency mirror2
spacesfs space create p/three --resiliency mirror3 --size 100M
spacesfs mount p/one m1
spacesfs mount p/two m2
spacesfs mount p/three m3
is "$(our_processes | wc -w)" 1 "daemons of one pool"

avail() { df -B1 --output=avail "$1" | tail -1; }
size() { df -B1 --output=size "$1" | tail -1; }
MIB=$((1 << 20))
between() { # VALUE LOW HIGH WHAT, in MiB
    [ $(($1 / MIB)) -ge "$2" ] && [ $(($1 / MIB)) -le "$3" ] || fail "$4: $(($1 / MIB)) MiB, not between $2 and $3"
}
# 2.5 GiB raw; two copies on disks of 1, 1 and 0.5 GiB: 1.25 GiB; three copies: 0.5 GiB, but no more than its size.
between "$(avail m1)" 2200 2560 "simple"
between "$(avail m2)" 1100 1280 "mirror2"
between "$(avail m3)" 90 100 "mirror3 of 100 MiB"
between "$(size m3)" 90 100 "size of mirror3"

say "what one takes, the others no longer have"
head -c 300M /dev/urandom > data
cp data m2/data
sync m2/data
between "$(avail m1)" 1500 1960 "simple after 600 MiB raw were taken"
between "$(avail m2)" 750 980 "mirror2 after 300 MiB"

say "a space's size is a limit"
code=0
head -c 150M /dev/urandom > m3/too-much 2> err || code=$?
[ $code -ne 0 ] && grep -q 'No space' err || fail "150 MiB went into 100"
rm m3/too-much
given_back() { [ "$(avail m3)" -gt $((85 * MIB)) ]; }
within 30 given_back
head -c 60M data > m3/fits
cmp -n $((60 * MIB)) data m3/fits

say "filled to the end, df was right to within 5 %"
said=$(avail m2)
code=0
bigfile write m2/fill $((3 << 30)) 1 > err 2>&1 || code=$?
is $code 3 "the end of filling it"
sync m2/fill || true
wrote=$(stat -c %s m2/fill)
bigfile check m2/fill "$wrote" 1
[ "$wrote" -ge $((said / 100 * 95)) ] && [ "$wrote" -le $((said / 100 * 102)) ] || fail "df promised $((said / MIB)) MiB, $((wrote / MIB)) could be written"
between "$(avail m2)" 0 60 "free when full"
cmp data m2/data
say "full, and still: delete, truncate, overwrite, rename, read"
cmp -n 1000000 data m3/fits
mv m2/fill m2/renamed
dd if=data of=m2/data bs=1M count=8 conv=notrunc status=none || fail "existing data can't be overwritten in a full pool"
truncate -s $((wrote / 2)) m2/renamed
rm m2/renamed
more() { [ "$(avail m2)" -gt $((700 * MIB)) ]; }
within 30 more
head -c 200M data > m2/again
cmp -n $((200 * MIB)) data m2/again
cmp data m2/data

say "renamed while it is mounted and in use"
exec 7>> m2/data
spacesfs space rename p/two deux > said 2>&1
has 'Space p/two is now p/deux' < said || fail "the new name is not told"
has "it stays mounted at $T/m2 .* former name .p/two." < said || fail "not told how the mount goes on"
echo more >&7
exec 7>&-
is "$(tail -c 5 m2/data)" more
truncate -s 300M m2/data
cmp data m2/data
spacesfs where m2/data | has 'all copies are there' || fail "where doesn't know it by its new name"
spacesfs status p --json | jq -e --arg dir "$T/m2" '.spaces[] | select(.name == "deux") | .mounts == [$dir]' > /dev/null || fail "status doesn't say where it is mounted"
refused 1 'mounted' spacesfs space destroy p/deux --yes
mkdir m4
refused '1|32' 'p/deux is already mounted at' spacesfs mount p/deux m4
spacesfs mount p/deux m2 2> said || fail "mounting it where it is mounted isn't taken for done"
has 'p/deux is mounted at .*/m2 already; the system lists it there as p/two' < said || fail "no words for a mount by a former name"
say "its former name is free"
spacesfs space create p/two --resiliency simple > /dev/null
spacesfs mount p/two m4
echo other > m4/data
is "$(spacesfs where m4/data --json | jq '.files[0].size')" 6 "size of the other space's file"
spacesfs where m2/data --json | jq -e '.files[0].size == 314572800' > /dev/null || fail "where mixes the two up"
spacesfs umount m4
spacesfs space destroy p/two --yes --wait
spacesfs space rename p/deux two > /dev/null 2>&1

say "one unmounted, the others go on"
spacesfs umount m2
echo more > m1/more
is "$(cat m1/more)" more
mounted m3 || fail "another mount ended, too"
refused 1 'mounted' spacesfs space destroy p/one --yes
spacesfs space rename p/two zwei
spacesfs mount p/zwei m2
cmp data m2/data
spacesfs umount m2
spacesfs space destroy p/zwei --yes
spacesfs umount m1
spacesfs umount m3
within 20 no_daemon
refused 1 'two|zwei|space' spacesfs mount p/zwei m2
