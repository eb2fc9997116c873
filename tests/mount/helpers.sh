# Sourced in place of lib.sh by tests that go through mount(8) and umount(8): a mount namespace of one's own, in which /sbin has this build's helpers.
# shellcheck shell=bash
if [ -z "${SFS_IN_NAMESPACE:-}" ] && unshare -m --propagation slave true 2> /dev/null; then
    # In a mount namespace of its own, where /sbin and /etc/fstab can be laid over without anyone seeing it.
    SFS_IN_NAMESPACE=1 exec unshare -m --propagation slave bash "$0"
fi
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
require_fuse
require_root
[ -n "${SFS_IN_NAMESPACE:-}" ] || skip "needs a mount namespace of its own (not inside a chroot)"

lay_over_sbin() {
    local sbin program helper
    sbin=$(readlink -f /sbin)
    mkdir real sbin
    mount --bind "$sbin" real
    mount -t tmpfs -o mode=755 none sbin
    for program in real/*; do ln -s "$T/$program" "sbin/${program#real/}"; done
    for helper in mount umount; do
        [ -x "$BIN/$helper.spacesfs" ] || fail "$helper.spacesfs was not built"
        ln -sf "$BIN/$helper.spacesfs" "sbin/$helper.spacesfs"
        ln -sf "$BIN/$helper.spacesfs" "sbin/$helper.fuse.spacesfs"
    done
    for helper in fsck.spacesfs fsck.fuse.spacesfs; do ln -sf "$BIN/spacesfs-check" "sbin/$helper"; done
    mount --move sbin "$sbin"
}
lay_over_sbin

# /etc/fstab, as this test alone sees it.
own_fstab() {
    cat > "$T/etc-fstab"
    chmod 644 "$T/etc-fstab"
    mountpoint -q /etc/fstab || mount --bind "$T/etc-fstab" /etc/fstab
}
mounts_on() { grep -c " $1 " /proc/self/mountinfo || true; }
