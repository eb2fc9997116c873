#!/bin/bash
# A Samba share on a space with a real client on loopback: smbclient puts, gets, renames, deletes whole trees, sets DOS attributes and access lists (kept in xattrs); smbtorture goes
# through what SMB2 asks of a filesystem: locks, renames, streams, sparse files, server-side copies. Then the daemon is killed, and the share is as it was.
. "$(dirname "$0")/servers.sh"
require_tool smbd smbclient smbpasswd smbcacls
[ -e "$(echo /usr/lib/*/samba/vfs/streams_xattr.so)" ] || skip "needs samba-vfs-modules"

small_pool
mkdir host m/share samba samba/private samba/state samba/cache samba/lock samba/pid samba/ncalrpc
cat > smb.conf << END
[global]
server role = standalone server
workgroup = T
interfaces = lo
bind interfaces only = yes
smb ports = 445
private dir = $T/samba/private
state directory = $T/samba/state
cache directory = $T/samba/cache
lock directory = $T/samba/lock
pid directory = $T/samba/pid
server min protocol = NT1
client min protocol = NT1
ncalrpc dir = $T/samba/ncalrpc
passdb backend = tdbsam
log file = $T/samba/log
log level = 1
load printers = no
disable spoolss = yes
[share]
path = $T/m/share
read only = no
vfs objects = acl_xattr streams_xattr
acl_xattr:ignore system acls = no
store dos attributes = yes
ea support = yes
strict sync = yes
sync always = no
strict allocate = yes
create mask = 0777
[host]
copy = share
path = $T/host
END
printf 'secret\nsecret\n' | smbpasswd -c "$T/smb.conf" -a -s root > said 2>&1 || { cat said; fail "smbpasswd"; }
samba() { serve 445 server.log smbd --foreground --no-process-group --configfile="$T/smb.conf"; }
smb() { # COMMANDS
    smbclient -s "$T/smb.conf" -U 'root%secret' //127.0.0.1/share -c "$1" > said 2>&1 || { cat said; tail -n 20 samba/log; fail "smbclient: $1"; }
    ! grep -E 'NT_STATUS_[A-Z]' said || fail "smbclient: $1"
}
# With an error that is asked for.
smb_refuses() { # STATUS COMMANDS
    smbclient -s "$T/smb.conf" -U 'root%secret' //127.0.0.1/share -c "$2" > said 2>&1 || true
    has "NT_STATUS_$1" said || { cat said; fail "not $1: $2"; }
}

say "files there and back"
samba
mkdir tree tree/sub back
head -c 5000000 /dev/urandom > tree/big
for k in $(seq 50); do echo "file $k" > "tree/sub/name $k"; done
echo "Größe" > "tree/sub/Größe 大"
smb "prompt; recurse; mput tree"
diff -r tree m/share/tree
smb "prompt; recurse; lcd $T/back; mget tree"
diff -r tree back/tree
smb 'cd tree; rename big other; mkdir made; rename other made\big; rename sub Sub'
cmp tree/big m/share/tree/made/big
[ -f "m/share/tree/Sub/name 7" ] || fail "the renamed directory isn't there"
smb_refuses OBJECT_NAME_COLLISION 'mkdir tree'
smb_refuses DIRECTORY_NOT_EMPTY 'rmdir tree'
smb_refuses OBJECT_NAME_NOT_FOUND 'get none -'
smb 'cd tree/Sub; del "name 7"; get "NAME 8" eight' # whatever the case
is "$(cat eight)" "file 8"
[ ! -e "m/share/tree/Sub/name 7" ] || fail "a deleted file is there"

say "DOS attributes, times, streams, access lists"
smb 'cd tree/made; setmode big +rsh'
smb 'cd tree/made; allinfo big'
has -E '^attributes: RHS' said || { cat said; fail "attributes are lost"; }
getfattr -h -n user.DOSATTRIB m/share/tree/made/big > /dev/null 2>&1 || fail "no user.DOSATTRIB"
echo "in a stream" > stream
smb 'cd tree; put stream "Sub/name 9:mine"; get "Sub/name 9:mine" streamed; allinfo "Sub/name 9"'
cmp stream streamed
has ':mine:\$DATA' said || { cat said; fail "the stream isn't listed"; }
smbcacls -s "$T/smb.conf" -U 'root%secret' //127.0.0.1/share 'tree/Sub/name 10' -a 'ACL:Everyone:ALLOWED/0x0/READ' > said 2>&1 || { cat said; fail "smbcacls"; }
acl() { smbcacls -s "$T/smb.conf" -U 'root%secret' //127.0.0.1/share 'tree/Sub/name 10' 2> said; }
acl > before || { cat said; fail "smbcacls"; }
has Everyone before || fail "the access list isn't what was set"

say "what smbtorture asks"
# What smbd doesn't pass on a directory of the host either isn't the filesystem's.
tests="base.rename base.delete base.lock base.rw1 base.open raw.rename raw.write raw.lock raw.streams
    smb2.rw smb2.lock smb2.dir smb2.rename smb2.streams smb2.read smb2.getinfo smb2.ioctl smb2.create smb2.sharemode smb2.timestamps"
torture() { # SHARE TEST
    rm -rf "torture.$1"
    timeout 200 smbtorture --configfile="$T/smb.conf" -U 'root%secret' "//127.0.0.1/$1" "$2" > "torture.$1" 2>&1
}
if command -v smbtorture > /dev/null; then
    for test in $tests; do
        if torture share "$test"; then
            echo "$test" >> good
        else
            torture host "$test" && { grep -vE '^time:' torture.share | tail -n 30; fail "smbtorture $test passes on the host's filesystem, but not here"; }
            # Of the parts of a suite, those that pass there pass here.
            sed -n 's/^success: //p' torture.host | sort > there
            sed -n 's/^success: //p' torture.share | sort > here
            is "$(comm -23 there here)" "" "smbtorture $test: passed on the host's filesystem, and not here"
            echo "$test: $(grep -c . here || true) parts" >> partly
        fi
    done
    say "passed: $(tr '\n' ' ' < good)"
    say "in part, as on the host's filesystem: $(tr '\n' ' ' < partly)"
else
    say "not here: smbtorture (the package samba-testsuite)"
fi

say "after a kill of the daemon"
smb "put $T/tree/big synced" # smbd syncs when a client flushes or closes, by strict sync
sync m/share/synced m/share m/share/tree m/share/tree/* m/share/tree/Sub/*
kill_daemon "$(daemon_of p)"
end_server
umount -l m 2> /dev/null || true
spacesfs mount p/s m
cmp tree/big m/share/synced
samba
smb 'cd tree; get "Sub/name 9:mine" streamed'
cmp stream streamed
smb 'cd tree/made; allinfo big'
has -E '^attributes: RHS' said || { cat said; fail "attributes are lost"; }
acl > after || { cat said; fail "smbcacls"; }
cmp before after
smb 'cd tree/made; setmode big -rsh; cd ..; deltree made; deltree Sub'
end_server
spacesfs umount m
