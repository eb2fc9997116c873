# What the tests of spacesfs-check share, on top of tests/mount/lib.sh.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
export PATH=$SFS_BUILD/tests/check:$PATH

# Runs spacesfs-check with ARGS, which must end with STATUS; what it says is in $T/said.
check() { # STATUS ARGS...
    local want=$1 got=0
    shift
    spacesfs-check "$@" > "$T/said" 2>&1 < /dev/null || got=$?
    if [ "$got" != "$want" ]; then
        cat "$T/said" >&2
        fail "\`spacesfs-check $*\` ended with $got, not $want"
    fi
}
says() { # REGEX
    grep -qE -- "$1" "$T/said" || { cat "$T/said" >&2; fail "it doesn't say /$1/"; }
}
clean() { check 0 -n "$1"; }
down() { # DIR: unmounted, and nobody has the pool open
    spacesfs umount "$1"
    within 20 no_daemon
}
