#!/bin/bash
# The whole product as another user than root, on that user's own directories, through fusermount3.
. "$(dirname "$0")/helpers.sh"
require_tool setpriv fusermount3
[ -e /etc/fstab ] && [ -e /etc/fuse.conf ] || skip "needs an /etc/fstab and an /etc/fuse.conf to lay others over"

# Debian lets everybody open it; where that is not so, a node of our own lies over it.
if ! setpriv --reuid 61234 --regid 61234 --clear-groups --inh-caps=-all sh -c ': 3<> /dev/fuse' 2> /dev/null; then
    mkdir dev
    mount -t tmpfs -o dev,mode=755 none dev
    mknod -m 666 dev/fuse c 10 229 2> /dev/null && mount --bind dev/fuse /dev/fuse || skip "needs /dev/fuse for everybody"
fi

USER_ID=61234 OTHER_ID=61235
chmod 755 "$T"
mkdir home
{
    cat /etc/passwd
    printf 'sfs%s:x:%s:%s::%s:/bin/sh\n' $USER_ID $USER_ID $USER_ID "$T/home" $OTHER_ID $OTHER_ID $OTHER_ID "$T"
} > passwd
mount --bind passwd /etc/passwd
chown $USER_ID:$USER_ID home
# A user of this machine, without root's privileges, groups and state.
as() { # UID COMMAND...
    local id=$1
    shift
    env -u SFS_STATE_DIR -u SFS_RUN_DIR -u XDG_STATE_HOME HOME="$T/home" XDG_RUNTIME_DIR="$T/run.$id" \
        setpriv --reuid "$id" --regid "$id" --clear-groups --inh-caps=-all "$@"
}
us() { as $USER_ID "$@"; }
our_daemons() {
    local pid
    for pid in /proc/[0-9]*; do
        case $(readlink "$pid/exe" 2> /dev/null) in
        "$SFS_BUILD"/cli/*) [ "$(stat -c %u "$pid" 2> /dev/null)" != $USER_ID ] || echo "${pid#/proc/}" ;;
        esac
    done
}
none_of_ours() { [ -z "$(our_daemons)" ]; }
on_exit+=('for pid in $(our_daemons); do kill -9 $pid; done')
own_fuse_conf() { # LINES
    printf '%s\n' "$@" > fuse.conf
    mountpoint -q /etc/fuse.conf || mount --bind fuse.conf /etc/fuse.conf
}
own_fuse_conf '# nothing'
for id in $USER_ID $OTHER_ID; do
    mkdir -m 700 "run.$id"
    chown "$id:$id" "run.$id"
done
us mkdir -m 700 home/away home/a home/b home/m home/m2

say "a pool, a space, a mount, by the command line"
us spacesfs pool create mine home/a,size=300M home/b,size=300M home/c.img,size=300M > said 2>&1 || { cat said; fail "pool create"; }
us spacesfs space create mine/s --resiliency mirror2 > /dev/null
us spacesfs mount mine/s home/m
is "$(findmnt -no SOURCE,FSTYPE home/m | tr -s ' ')" "mine/s fuse.spacesfs"
options=$(findmnt -no OPTIONS home/m)
has -w nosuid <<< "$options" && has -w nodev <<< "$options" || fail "without nosuid, nodev: $options"
has allow_other <<< "$options" && fail "allow_other, unasked: $options"
us cp -a "$HERE/../../fs" home/m/tree
us diff -r "$HERE/../../fs" home/m/tree
us spacesfs status mine > said || { cat said; fail "status"; }
is "$(us stat -c %u home/m/tree)" $USER_ID "owner"

say "nobody else: neither the mount nor the daemon"
chmod 755 home
refused 2 'denied' as $OTHER_ID ls home/m
refused '1|3' '.' as $OTHER_ID spacesfs status "$T/home/a"
is "$(stat -c %a run.$USER_ID/spacesfs)" 700 "the folder of sockets"
refused 1 'who mounted it' as $OTHER_ID spacesfs umount home/m
is "$(mounts_on "$T/home/m")" 1 "mounts after somebody else's umount"

say "remounting needs root, and says so; a second mount says where the first is"
refused '1|32' 'root|superuser' us spacesfs mount mine/s home/m -o remount,ro
refused 1 "$T/home/m" us spacesfs mount mine/s home/m2

say "umount(8) by its owner; all is stored"
us umount home/m || fail "umount by the user"
is "$(mounts_on "$T/home/m")" 0
within 20 none_of_ours
mkdir theirs
refused 1 'theirs' us spacesfs mount mine/s theirs
us spacesfs mount mine/s home/m
us diff -r "$HERE/../../fs" home/m/tree

say "killed, dead, cleared, by the user"
kill_daemon "$(our_daemons)"
dead() { { us ls home/m || true; } 2>&1 | has 'not connected'; }
within 20 dead
us spacesfs mount mine/s home/m
us diff -r "$HERE/../../fs" home/m/tree
is "$(mounts_on "$T/home/m")" 1 "mounts"

say "a disk is lost and healed, by the user"
us mv home/a home/away/a
us spacesfs heal mine --wait > said 2>&1 || { cat said; fail "heal"; }
us diff -r "$HERE/../../fs" home/m/tree
us mv home/away/a home/a
us spacesfs umount home/m
within 20 none_of_ours

say "allow_other where /etc/fuse.conf allows it"
refused 1 'user_allow_other' us spacesfs mount mine/s home/m -o allow_other
within 20 none_of_ours
own_fuse_conf user_allow_other
us spacesfs mount mine/s home/m -o allow_other
as $OTHER_ID ls home/m/tree > /dev/null || fail "allow_other, but others can't look"
us fusermount3 -u home/m # somebody who knows no better
within 20 none_of_ours

say "fstab with user: mount(8) by the user"
own_fstab << END
mine/s $T/home/m fuse.spacesfs noauto,user 0 0
END
us mount "$T/home/m"
options=$(findmnt -no OPTIONS home/m)
has -w noexec <<< "$options" || fail "user implies noexec: $options"
refused 2 'denied' as $OTHER_ID ls home/m
refused '1|32' 'who mounted it|permi' as $OTHER_ID umount "$T/home/m"
us umount "$T/home/m"
within 20 none_of_ours
own_fstab << END
mine/s $T/home/m spacesfs noauto,users,exec,nofail 0 0
END
us mount "$T/home/m"
findmnt -no OPTIONS home/m | has -w noexec && fail "exec is lost"
us umount "$T/home/m"
within 20 none_of_ours

say "root may look at it; its owner destroys it"
spacesfs status "$T/home/a" > said || { cat said; fail "status as root"; }
us spacesfs pool destroy mine --yes > /dev/null
is "$(us ls -A home/a home/b)" "$(printf 'home/a:\n\nhome/b:')" "what is left"
