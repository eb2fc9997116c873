#!/bin/bash
# The control socket of a mount in use: garbage, half requests, silence, far too many connections and other users do it no harm: files are written, read and compared all the while, and the pool obeys afterwards.
. "$(dirname "$0")/lib.sh"
require_fuse
small_pool > /dev/null
sock=$T/run/p.sock
[ -S "$sock" ] || fail "there is no control socket at $sock"
mktree src 60 1
cp -a src m/a
begin_load

say "garbage, of many kinds"
flood garbage "$sock" 200
flood binary "$sock" 200
flood long "$sock" 20
say "requests that make no sense"
flood nonsense "$sock" 100
say "connections that say nothing, or half of something; more than are let in"
flood silent "$sock" 500 &
silent=$!
flood half "$sock" 200
wait $silent
say "requests whose answer nobody waits for"
flood deaf "$sock" 300
! kill -0 $LOAD 2> /dev/null || say "the load is still at work"
kill -0 $LOAD || { cat load.out >&2; fail "the load was disturbed"; }
treecmp src m/a

say "and it obeys"
within 30 spacesfs pool set p heal-delay=7m
health_is p healthy || { cat status; fail "not healthy"; }
spacesfs space create p/t --resiliency mirror2 > /dev/null
end_load

if [ "$(id -u)" -eq 0 ] && command -v setpriv > /dev/null; then
    say "other users can't change things, whatever the socket's mode"
    as_user() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
    chmod 755 "$T" "$T/run"
    refused 1 'denied|not permitted' as_user flood ask "$sock" '{"cmd": "space-destroy", "space": "t"}'
    chmod 666 "$sock"
    for request in '{"cmd": "space-destroy", "space": "t"}' '{"cmd": "shutdown"}' '{"cmd": "umount", "dir": "'"$T"'/m", "lazy": true}' '{"cmd": "pool-set", "key": "heal-delay", "value": "1m"}' '{"cmd": "status"}'; do
        as_user flood ask "$sock" "$request" > said || { cat said; fail "no answer to $request"; }
        grep -q '"ok": *false' said && grep -q 'EPERM' said || { cat said; fail "another user was obeyed: $request"; }
    done
    mounted m || fail "it was unmounted"
    spacesfs space list p | has t || fail "the space is gone"
    chmod 600 "$sock"
fi
spacesfs umount m
within 20 no_daemon
spacesfs mount p/s m
treecmp src m/a
spacesfs umount m
