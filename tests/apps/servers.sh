# Sourced in place of tests/mount/lib.sh by tests of network servers: a network of one's own, where only 127.0.0.1 is, and a /run of one's own. So ports and sockets are nobody else's.
# shellcheck shell=bash
if [ -z "${SFS_IN_NAMESPACE:-}" ] && unshare -m -n true 2> /dev/null; then
    SFS_IN_NAMESPACE=1 exec unshare -m -n --propagation slave bash "$0"
fi
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
PATH=$SFS_BUILD/tests/apps:$PATH
require_fuse
require_root
require_tool ip
[ -n "${SFS_IN_NAMESPACE:-}" ] || skip "needs namespaces of its own"
mount -t tmpfs -o mode=755 none /run
ip link set lo up

listens() { { : <> "/dev/tcp/127.0.0.1/$1"; } 2> /dev/null; }
# Runs a server in the background until it is told to end, or the test ends; in a group of its own, since smbd ends the whole group that it is in.
SERVER=
serve() { # PORT LOG COMMAND...
    local port=$1 log=$2
    shift 2
    setsid "$@" >> "$log" 2>&1 &
    SERVER=$!
    within 60 answers "$port" $SERVER "$log"
}
answers() { # PORT PID LOG
    listens "$1" && return
    ! is_gone "$2" || { tail -n 20 "$3"; fail "the server ended"; }
    return 1
}
end_server() { # [SIGNAL]
    [ -n "$SERVER" ] || return 0
    kill "-${1:-TERM}" -- -$SERVER 2> /dev/null || true
    wait $SERVER 2> /dev/null || true
    SERVER=
}
on_exit+=('end_server KILL')
