#!/bin/bash
# Lines of /etc/fstab, with every option that people put there, by mount(8) as root and as another user.
. "$(dirname "$0")/helpers.sh"
[ -e /etc/fstab ] || skip "needs an /etc/fstab to lay another over"
chmod 755 "$T"

mkdir d1 d2 m m2 m3
spacesfs pool create p d1,size=1G d2,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs space create p/t --resiliency simple > /dev/null

say "noauto, nofail, comments, x- options"
own_fstab << END
p/s    $T/m  fuse.spacesfs noauto,comment=ours,x-systemd.requires-mounts-for=$T/d1,x-systemd.automount,x-gvfs-hide 0 0
p/t    $T/m2 spacesfs      noatime,nodiratime,X-mount.mkdir,_netdev,x-systemd.mount-timeout=5min 0 0
gone/s $T/m3 fuse.spacesfs nofail,wait=0 0 0
END
code=0
mount -a > said 2>&1 || code=$?
[ $code -eq 0 ] || { cat said; fail "mount -a with a pool that isn't there, but nofail: $code"; }
is "$(mounts_on "$T/m") $(mounts_on "$T/m2") $(mounts_on "$T/m3")" "0 1 0" "mounts by mount -a"
findmnt -no OPTIONS m2 | has -w noatime || fail "noatime is lost"
mount "$T/m"
is "$(mounts_on "$T/m")" 1 "mounts by mount DIR"
refused 32 'already mounted' mount "$T/m"
umount "$T/m"
mount p/s # by the source
is "$(mounts_on "$T/m")" 1 "mounts by mount SOURCE"
umount p/s
is "$(mounts_on "$T/m")" 0 "mounts on m"
umount "$T/m2"
within 20 no_daemon

say "what fails is told by mount -a: 32 when all fail, 64 when some do"
own_fstab << END
gone/s $T/m3 fuse.spacesfs wait=0 0 0
END
refused 32 'gone' mount -a
own_fstab << END
gone/s $T/m3 fuse.spacesfs wait=0 0 0
p/s    $T/m  fuse.spacesfs defaults 0 0
END
refused 64 'gone' mount -a
umount "$T/m"
within 20 no_daemon

say "ro in fstab; remount keeps what fstab says, both ways"
own_fstab << END
p/s $T/m fuse.spacesfs ro,noatime 0 0
END
mount "$T/m"
refused 1 'read-only' touch m/no
mount -o remount,rw "$T/m"
touch m/yes
findmnt -no OPTIONS m | has -w rw || fail "the kernel doesn't know it is writable"
findmnt -no OPTIONS m | has -w noatime || fail "remounting forgot noatime"
mount -o remount "$T/m" # fstab says ro
refused 1 'read-only' touch m/no
refused '1|32' 'frobnicate' mount -o remount,frobnicate "$T/m"
mount -f -o remount,rw "$T/m"
refused 1 'read-only' touch m/no
umount "$T/m"
within 20 no_daemon

say "busy: remounting read-only is refused while a file is open for writing"
own_fstab << END
p/s $T/m fuse.spacesfs defaults 0 0
END
mount "$T/m"
exec 7> m/open
refused 32 'busy' mount -o remount,ro "$T/m"
echo still >&7
exec 7>&-
mount -o remount,ro "$T/m"
is "$(cat m/open)" still
umount -r "$T/m"
within 20 no_daemon

say "lazily, by force, by source, recursively, all"
mount "$T/m"
exec 7> m/open
umount -l "$T/m"
is "$(mounts_on "$T/m")" 0
refused 32 'lazily' mount "$T/m"
echo later >&7
exec 7>&-
within 20 no_daemon
mount "$T/m"
is "$(cat m/open)" later
exec 7>> m/open
refused 32 'busy' umount "$T/m"
umount -f "$T/m" 2> said || umount -l "$T/m"
exec 7>&-
within 20 no_daemon
mount -a
umount p/s
is "$(mounts_on "$T/m")" 0
within 20 no_daemon
mount -a
umount -R "$T/m"
within 20 no_daemon
mount -a
umount -a -t fuse.spacesfs
is "$(mounts_on "$T/m")" 0
within 20 no_daemon

say "a mountpoint left dead: mount clears it (mount -a takes it for mounted and never asks); umount clears it too"
mount -a
kill_daemon "$(daemon_of p)"
dead() { { ls m || true; } 2>&1 | has 'not connected'; }
within 20 dead
mount "$T/m"
is "$(cat m/open) $(mounts_on "$T/m")" "later 1" "contents, and mounts on m"
kill_daemon "$(daemon_of p)"
umount "$T/m"
is "$(mounts_on "$T/m")" 0
within 20 no_daemon

say "a space renamed while it is mounted, and its line in fstab: mount -a has nothing to do, by the old line and by the new"
own_fstab << END
p/t $T/m2 spacesfs defaults 0 0
END
mount -a
spacesfs space rename p/t renamed > /dev/null 2>&1
mount -a
own_fstab << END
p/renamed $T/m2 spacesfs defaults 0 0
END
mount -a
is "$(mounts_on "$T/m2")" 1 "mounts after mount -a by the new name"
umount "$T/m2"
within 20 no_daemon
mount -a
is "$(findmnt -no SOURCE "$T/m2")" p/renamed
umount "$T/m2"
within 20 no_daemon
spacesfs space rename p/renamed t > /dev/null

say "fsck(8): by type, by mountpoint, all of fstab; a pool in use is left alone"
own_fstab << END
p/s $T/m  fuse.spacesfs defaults,noauto 0 2
p/t $T/m2 spacesfs      defaults        0 0
END
fsck -T -t spacesfs p -n > said 2>&1 || { cat said; fail "fsck -t spacesfs: $?"; }
fsck -T -t fuse.spacesfs p/s -a > said 2>&1 || { cat said; fail "fsck -t fuse.spacesfs: $?"; }
fsck -T "$T/m" -a > said 2>&1 || { cat said; fail "fsck by mountpoint: $?"; }
has 'in order' said || { cat said; fail "nothing was checked"; }
fsck -T -A -a > said 2>&1 || { cat said; fail "fsck -A: $?"; }
is "$(grep -c 'in order' said)" 1 "lines that -A checks: not those with a 0"
mount "$T/m"
refused 8 'in use' fsck -T -t fuse.spacesfs p/s -a
fsck -T -A -M -a > said 2>&1 || { cat said; fail "fsck -A -M with it mounted: $?"; }
umount "$T/m"
within 20 no_daemon

say "names with blanks, and in UTF-8"
mkdir "m with blanks" "Größe 大"
spacesfs space rename p/t ténèbres > /dev/null
own_fstab << END
p/ténèbres $T/Größe\\040大 spacesfs defaults 0 0
p/s $T/m\\040with\\040blanks fuse.spacesfs defaults 0 0
END
mount -a
mount -a
is "$(findmnt -no SOURCE "$T/Größe 大")" p/ténèbres
is "$(grep -c fuse.spacesfs /proc/self/mountinfo)" 2 "mounts after mount -a, twice"
umount "$T/Größe 大"
umount "$T/m with blanks"
within 20 no_daemon
spacesfs fstab p/s "m with blanks" 2> /dev/null | has "m.040with.040blanks  fuse.spacesfs" || fail "spacesfs fstab doesn't quote blanks"
