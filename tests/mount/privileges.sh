#!/bin/bash
# What a write takes away: set-id bits, unless the writer may keep them, and capabilities, whoever writes. And files without a name (O_TMPFILE).
. "$(dirname "$0")/lib.sh"
require_fuse
require_root
require_tool setpriv setcap getcap
chmod 755 "$T"
small_pool

as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
fresh() {
    rm -f m/t
    cp /bin/true m/t
    chmod "$1" m/t
}
mode() { stat -c %a m/t; }

say "set-id bits"
fresh 6777
echo x >> m/t
is "$(mode)" 6777 "after root has written"
as_user sh -c 'echo x >> m/t'
is "$(mode)" 777 "after another user has written"
fresh 6777
as_user sh -c ': > m/t'
is "$(mode)" 777 "after O_TRUNC by another user"
fresh 6777
as_user truncate -s 5 m/t
is "$(mode)" 777 "after truncate by another user"
fresh 2767
as_user sh -c 'echo x >> m/t'
is "$(mode)" 2767 "set-gid without execution by the group"
fresh 6777
chown 1 m/t
is "$(mode)" 777 "after chown"

say "capabilities"
for change in 'echo x >> m/t' 'truncate -s 5 m/t' 'chown 1 m/t'; do
    fresh 755
    setcap cap_net_raw+ep m/t
    getcap m/t | has cap_net_raw || fail "no capability was set"
    sh -c "$change"
    is "$(getcap m/t)" "" "after $change"
done
setcap cap_net_raw+ep m/t
setfattr -n user.other -v 1 m/t
echo x >> m/t
is "$(getcap m/t)" "" "set again, after a write"
is "$(getfattr --only-values -n user.other m/t)" 1 "another attribute"

say "files without a name"
(
    exec 3<> m/three
    rm m/three
    echo gone >&3
    refused 1 'No such file' cat m/three
)
tmpfile m named "text that came with it"
is "$(cat m/named)" "text that came with it"
is "$(stat -c %h:%a m/named)" 1:640
spacesfs umount m
spacesfs mount p/s m
is "$(cat m/named)" "text that came with it" "after a remount"
is "$(ls m | sort | tr '\n' ' ')" "named t "
spacesfs umount m
