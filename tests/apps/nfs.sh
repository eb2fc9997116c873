#!/bin/bash
# An NFS export of a space with a real client: NFSv3 and NFSv4 by nfs-ganesha, which opens files by handle, as the kernel's server does. Files that the client holds open go on
# after the filesystem's daemon was killed and everything started anew: handles survive. (The kernel's own client and server need a kernel that has them; libnfs needs nothing.)
. "$(dirname "$0")/servers.sh"
require_tool ganesha.nfsd rpcbind nfsclient
[ -e "$(echo /usr/lib/*/ganesha/libfsalvfs.so)" ] || skip "needs nfs-ganesha-vfs"

# nfs-ganesha puts the filesystem's device number into handles, where the kernel's server has fsid=; and numbers of such devices are given anew with each mount, the lowest that is
# free. So placeholders take the lower ones while it is mounted anew, and leave them to others in between.
mkdir held
hold_up_to() { # DEVICE: takes all below
    local n=0 got
    while [ $n -lt 500 ]; do
        n=$((n + 1))
        mkdir -p held/$n
        mount -t tmpfs none held/$n
        got=$(stat -c %d held/$n)
        [ "$got" -lt "$1" ] || break
    done
    umount held/$n
    [ "$got" -eq "$1" ]
}
let_go() { mounts_below | { grep "^$T/held/" || true; } | while read -r dir; do umount "$dir"; done; }
remount() {
    local try
    for try in $(seq 60); do
        if hold_up_to "$DEVICE"; then
            spacesfs mount p/s m
            let_go
            [ "$(stat -c %d m)" != "$DEVICE" ] || return 0
            spacesfs umount m
        fi
        let_go
        sleep 1
    done
    skip "the device number that the server knew is in use by others"
}

hold_up_to $(($(stat -c %d /run) + 40)) || true
small_pool
DEVICE=$(stat -c %d m)
let_go
mkdir m/export /run/rpcbind /run/ganesha recovery
chmod 1777 m/export
cat > ganesha.conf << END
NFS_CORE_PARAM { Protocols = 3, 4; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; Plugins_Dir = "$(dirname /usr/lib/*/ganesha/libfsalvfs.so)"; }
NFSV4 { RecoveryRoot = "$T/recovery"; Graceless = true; Lease_Lifetime = 10; Only_Numeric_Owners = true; }
EXPORT { Export_Id = 7; Path = "$T/m"; Pseudo = "/m"; Protocols = 3, 4; Access_Type = RW; Squash = none; SecType = sys; FSAL { Name = VFS; } }
END
rpcbind -f -w &
on_exit+=("kill $! 2> /dev/null")
within 20 listens 111
ganesha() { serve 2049 server.log ganesha.nfsd -F -f "$T/ganesha.conf" -L "$T/ganesha.log" -p "$T/ganesha.pid" -N EVENT; }
v3="nfs://127.0.0.1$T/m/export?version=3&nfsport=2049&mountport=20048"
v4="nfs://127.0.0.1/m/export?version=4&nfsport=2049"

say "names, modes, links, times, data, by both protocols"
ganesha
nfsclient "$v3" all three
nfsclient "$v4" all four
for dir in three four; do
    is "$(cat m/export/$dir/second)" "hello, world" "$dir, seen by this side"
    is "$(stat -c '%h %a' m/export/$dir/second)" "2 640"
    is "$(readlink m/export/$dir/link)" second
done
head -c 3000000 /dev/urandom > m/export/local
nfs-cp "$v4/local" got > said 2>&1 || nfs-cp "${v4/\?//local?}" got > said 2>&1 || { cat said; fail "nfs-cp"; }
cmp got m/export/local

# What the client holds: files open by handle, before and after. It says when it is ready, and goes on when there is a line.
hold() { # NAME
    mkfifo "$1.in" "$1.out"
    nfsclient "$v3" hold "$1" < "$1.in" > "$1.out" 2> "$1.err" &
    CLIENT=$!
    exec 5> "$1.in" 6< "$1.out"
    expect ready
}
expect() { # WORD
    local line
    read -r -t 120 line <&6 || { cat ./*.err; tail -n 20 ganesha.log; fail "the client says nothing more"; }
    is "$line" "$1" "the client"
}
for how in killed ended; do
    say "the daemon is $how while a client holds files"
    hold $how
    if [ $how = killed ]; then
        kill_daemon "$(daemon_of p)"
        end_server KILL
        umount -l m 2> /dev/null || true
    else
        end_server
        spacesfs umount m
    fi
    within 20 no_daemon
    remount
    ganesha
    echo go >&5
    expect done
    exec 5>&- 6<&-
    wait $CLIENT || { cat $how.err; fail "the client ended with an error"; }
done
end_server
spacesfs umount m
spacesfs mount p/s m
is "$(tail -c 6 m/export/killed/held)" "after!" "what the client wrote behind the kill"
spacesfs umount m
