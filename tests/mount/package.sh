#!/bin/bash
# The Debian package: built, installed by dpkg over a copy of this system that nobody else sees, used by mount(8) and man(1), its units held against systemd, removed, purged: nothing stays.
. "$(dirname "$0")/helpers.sh"
require_tool cpack dpkg dpkg-shlibdeps systemd-analyze man
[ -f "$SFS_BUILD/CPackConfig.cmake" ] || skip "needs a build by CMake"

say "building it"
cpack -G DEB --config "$SFS_BUILD/CPackConfig.cmake" -B "$T/pkg" > pkg.log 2>&1 || { cat pkg.log; fail "cpack"; }
rm -rf "$T/pkg/_CPack_Packages"
deb=$(echo pkg/spacesfs_*.deb)
[ -f "$deb" ] || fail "no package was made"
dpkg-deb -f "$deb" Depends | has fuse3 || fail "it doesn't depend on fuse3"
dpkg-deb -c "$deb" > list
has '/sbin/mount.fuse.spacesfs -> mount.spacesfs' list || fail "no mount.fuse.spacesfs"
for name in fsck.spacesfs fsck.fuse.spacesfs; do has "/sbin/$name\\( \\|$\\)" list || fail "no $name"; done
grep -v ' root/root ' list && fail "files that aren't root's"

# This system, with a layer of our own in memory on top: what is written there is what the package did. Its /sbin is the true one.
umount "$(readlink -f /sbin)"
mkdir layer root
mount -t tmpfs -o mode=755 none layer
mkdir layer/upper layer/work
mount -t overlay -o "lowerdir=/,upperdir=$T/layer/upper,workdir=$T/layer/work" none root 2> /dev/null || skip "needs overlayfs"
on_exit+=('umount -R -l "$T/root"') # before anything else is cleared away
mount -t proc none root/proc
for dir in dev run; do mount -t tmpfs -o dev,mode=755 none root/$dir; done
for node in null:1:3 zero:1:5 random:1:8 urandom:1:9 tty:5:0 fuse:10:229; do
    IFS=: read -r name major minor <<< "$node"
    mknod -m 666 "root/dev/$name" c "$major" "$minor" || skip "needs to make device nodes"
done
mount -t tmpfs -o mode=1777 none root/tmp
in_root() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot root "$@"; }
leftovers() { # what is in the layer, without what is deleted there (devices 0:0) and what dpkg keeps for itself and tools' caches
    (cd layer/upper && find . -mindepth 1 ! -type d ! -type c | grep -vE '^\./(var/lib/dpkg/|var/log/|var/cache/|etc/ld\.so\.cache|tmp/|var/lib/systemd/deb-systemd-helper-masked/)' | sort) || true
}
before=$(leftovers)
on_exit=('end_daemons' "${on_exit[@]}")
end_daemons() { # daemons in there have programs that our_processes doesn't know
    local pid
    for pid in /proc/[0-9]*; do
        [ "$(readlink "$pid/root" 2> /dev/null)" != "$T/root" ] || kill -9 "${pid#/proc/}" 2> /dev/null
    done
}
in_root dpkg -s spacesfs > /dev/null 2>&1 && skip "this system has the package already"

say "installing"
cp "$deb" root/tmp/spacesfs.deb
in_root dpkg -i /tmp/spacesfs.deb > dpkg.log 2>&1 || { cat dpkg.log; has 'dependency problems' dpkg.log && skip "its dependencies are not installed here"; fail "dpkg -i"; }
is "$(in_root dpkg-query -W -f '${Status}' spacesfs)" "install ok installed"
in_root spacesfs --version | has '^spacesfs [0-9]' || fail "spacesfs --version"
for page in spacesfs mount.spacesfs umount.fuse.spacesfs spacesfs-pool spacesfs-json; do
    in_root man -w $page > /dev/null 2>&1 || [ -n "$(find layer/upper/usr/share/man -name "$page.*")" ] || fail "no page $page"
done
[ -s root/usr/share/bash-completion/completions/spacesfs ] || fail "no completion for bash"
[ -s root/usr/share/zsh/vendor-completions/_spacesfs ] || fail "no completion for zsh"

say "units"
in_root systemd-analyze verify --man=no $(cd layer/upper && find usr/lib/systemd/system -type f | sed 's,^,/,; s,@\.,@tank.,') > verify.log 2>&1 || { cat verify.log; fail "systemd-analyze verify"; }
has spacesfs verify.log && { cat verify.log; fail "systemd-analyze verify has something to say"; }
find layer/upper/etc/systemd -name spacesfs-import.service | has . || fail "spacesfs-import.service isn't enabled"
in_root spacesfs pool import --none-ok > said 2>&1 || { cat said; fail "what the unit runs"; }

say "a pool, a space, an fstab line, mount -a; removal is refused while it is mounted"
in_root mkdir -p /srv/a /srv/b /srv/docs
in_root spacesfs pool create tank /srv/a,size=300M /srv/b,size=300M > /dev/null 2>&1 || fail "pool create"
in_root spacesfs space create tank/docs --resiliency mirror2 > /dev/null
in_root spacesfs fstab tank/docs /srv/docs -o nofail,x-systemd.mount-timeout=5min > root/etc/fstab
in_root mount -a || fail "mount -a"
in_root cp /etc/services /srv/docs/
in_root mount -o remount,ro /srv/docs
in_root touch /srv/docs/no 2> /dev/null && fail "it isn't read-only"
in_root dpkg -r spacesfs > said 2>&1 && fail "removed while mounted"
has 'umount /srv/docs' said || { cat said; fail "dpkg -r doesn't say what is mounted"; }
in_root umount /srv/docs
in_root mount /srv/docs
in_root cmp /etc/services /srv/docs/services || fail "what was written isn't there"
in_root umount /srv/docs

say "the mount unit that systemd makes of the line"
generator=$(find /usr/lib/systemd/system-generators /lib/systemd/system-generators -name systemd-fstab-generator 2> /dev/null | head -n 1)
if [ -n "$generator" ]; then
    mkdir units
    SYSTEMD_FSTAB=$T/root/etc/fstab "$generator" units units units
    unit=units/srv-docs.mount
    [ -f $unit ] || { ls units; fail "no unit for the mount"; }
    for line in What=tank/docs Type=fuse.spacesfs; do
        has -x "$line" $unit || { cat $unit; fail "the unit doesn't say $line"; }
    done
    has 'RequiresMountsFor=.*/srv/a' $unit && has 'RequiresMountsFor=.*/srv/b' $unit || { cat $unit; fail "the unit doesn't wait for what the disks lie on"; }
    has -E '^(After|Requires|BindsTo)=.*\.device' $unit && { cat $unit; fail "the unit waits for a device"; }
    cp $unit root/run/
    in_root systemd-analyze verify --man=no /run/srv-docs.mount > verify.log 2>&1 || { cat verify.log; fail "systemd-analyze verify of the mount unit"; }
fi

say "removing, purging"
in_root spacesfs pool destroy tank --yes > /dev/null
in_root dpkg -r spacesfs > dpkg.log 2>&1 || { cat dpkg.log; fail "dpkg -r"; }
[ -d root/var/lib/spacesfs ] || fail "removing took what only purging may"
in_root dpkg -P spacesfs > dpkg.log 2>&1 || { cat dpkg.log; fail "dpkg -P"; }
in_root rm -rf /srv/a /srv/b /srv/docs
[ ! -e root/var/lib/spacesfs ] || fail "/var/lib/spacesfs stays"
is "$(leftovers | grep -v '^\./etc/fstab$')" "$before" "what stays"
