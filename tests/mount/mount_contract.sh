#!/bin/bash
# What mount(8), umount(8) and fstab expect of a filesystem's helpers.
. "$(dirname "$0")/helpers.sh"

mkdir d1 d2 m m2
spacesfs pool create p d1,size=1G d2,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs space create p/t --resiliency mirror2

say "mount -t fuse.spacesfs"
mount -t fuse.spacesfs p/s m
is "$(findmnt -no SOURCE,FSTYPE m | tr -s ' ')" "p/s fuse.spacesfs"
findmnt -no OPTIONS m | has allow_other || fail "no allow_other: other users can't use it"
findmnt -no OPTIONS m | has default_permissions || fail "no default_permissions"
echo one > m/file
daemon=$(daemon_of p)

say "a second mount is refused with 32, and says where the first is"
refused 32 "$T/m" mount -t fuse.spacesfs p/s m2
refused 32 "mounted" mount -t fuse.spacesfs p/s m
is "$(grep -c " $T/m " /proc/self/mountinfo)" 1 "mounts stacked on m"

say "another space on the same directory is refused too, and what is there is named"
refused 32 "p/s is mounted on $T/m" mount -t fuse.spacesfs p/t m
is "$(grep -c " $T/m " /proc/self/mountinfo)" 1 "mounts stacked on m"

say "-f only pretends"
mount -f -t fuse.spacesfs p/t m2
mounted m2 && fail "mount -f really mounted"

say "remount to ro and back"
mount -o remount,ro m
refused 1 'read-only' touch m/refused
is "$(cat m/file)" one
findmnt -no OPTIONS m | has -w ro || fail "the kernel doesn't know it is read-only"
mount -o remount,rw m
touch m/accepted
is "$(daemon_of p)" "$daemon" "daemon after remounting"

say "umount returns when all is stored, and the daemon ends with the last mount"
mount -t spacesfs p/t m2
is "$(findmnt -no FSTYPE m2)" fuse.spacesfs "type when mounted with -t spacesfs"
is "$(our_processes)" "$daemon" "daemons"
head -c 20M /dev/urandom > data
cp data m/data
umount m
[ -d "/proc/$daemon" ] || fail "the daemon ended with a mount left"
kill_daemon "$daemon" # what umount promised must be there
umount -l m2
mount -t fuse.spacesfs p/s m
cmp data m/data
umount m
within 20 no_daemon

say "a mount point left dead by a killed daemon is cleared"
mount -t fuse.spacesfs p/s m
kill_daemon "$(daemon_of p)"
sleep 0.3
refused 2 'not connected' ls m
mount -t fuse.spacesfs p/s m
cmp data m/data
is "$(grep -c " $T/m " /proc/self/mountinfo)" 1 "mounts on m"
umount m
within 20 no_daemon

say "fstab, both kinds, by mount -a, twice"
cat > fstab << END
p/s $T/m fuse.spacesfs defaults 0 0
p/t $T/m2 spacesfs noatime,nofail 0 0
END
for round in 1 2; do
    mount -a -T fstab || fail "mount -a, round $round"
    is "$(grep -c " $T/m " /proc/self/mountinfo)$(grep -c " $T/m2 " /proc/self/mountinfo)" 11 "mounts, round $round"
done
is "$(our_processes | wc -w)" 1 "daemons"
umount m2
umount m
within 20 no_daemon

say "the line that spacesfs fstab prints works"
spacesfs fstab p/s m > fstab
mount -a -T fstab
cmp data m/data
findmnt --verify --tab-file fstab > said 2>&1 || { cat fstab said; fail "findmnt --verify"; }
umount m
within 20 no_daemon

say "a file of the source's name in the current directory"
mkdir -p cwd/p
touch cwd/p/s
(cd cwd && mount -t fuse.spacesfs p/s "$T/m")
cmp data m/data
umount m
within 20 no_daemon

say "by the path of a disk"
mount -t fuse.spacesfs "$T/d1/s" m
cmp data m/data
umount m
within 20 no_daemon

say "read-only"
mount -t fuse.spacesfs -o ro p/s m
refused 1 'read-only' touch m/refused
umount m
mount -r -t spacesfs p/s m
refused 1 'read-only' touch m/refused
umount m
within 20 no_daemon

say "exit codes"
refused 32 'nope' mount -t fuse.spacesfs p/nope m
refused 32 'nopool' mount -t fuse.spacesfs nopool/s m
refused '1|32' 'frobnicate' mount -t fuse.spacesfs -o frobnicate p/s m
refused 32 '.' mount -t fuse.spacesfs p/s nowhere
within 20 no_daemon
is "$(ls m)" ""

say "busy: umount says so, and goes on later"
mount -t fuse.spacesfs p/s m
(cd m && exec sleep 100) &
sleeper=$!
sleep 0.2
refused 32 'busy' umount m
kill $sleeper
wait $sleeper 2> /dev/null || true
umount m
within 20 no_daemon
refused '1|32' 'not mounted|not a mount' umount m

say "another user's files, and another user"
mount -t fuse.spacesfs p/s m
mkdir -m 1777 m/shared
if command -v setpriv > /dev/null; then
    chmod 755 "$T"
    setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'echo theirs > m/shared/theirs'
    is "$(stat -c %u m/shared/theirs)" 65534 "owner"
fi
umount m
within 20 no_daemon
