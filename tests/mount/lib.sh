# Sourced by every test here: a scratch folder, private state, the built programs in PATH, and an end that leaves nothing mounted or attached.
# shellcheck shell=bash
#
# SFS_BUILD: the build folder (ctest sets it; else build/gcc). SFS_TEST_TMP: where scratch folders are made (/var/tmp). SFS_TEST_KEEP=1 keeps them after a failure.
# Exit codes: 0 passed, 77 skipped (with a line "SKIP: why"), anything else failed.
set -eu -o pipefail

NAME=$(basename "$0" .sh)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SFS_BUILD=$(realpath "${SFS_BUILD:-$HERE/../../build/gcc}")
TOOLS=$SFS_BUILD/tests/mount
BIN=$SFS_BUILD/cli
export PATH=$BIN:$TOOLS:$PATH:/usr/sbin:/sbin LC_ALL=C.UTF-8
T=$(mktemp -d "${SFS_TEST_TMP:-/var/tmp}/sfs-$NAME.XXXXXX")
export SFS_STATE_DIR=$T/state SFS_RUN_DIR=$T/run
mkdir "$SFS_STATE_DIR" "$SFS_RUN_DIR"
cd "$T"

say() { printf '%s: %s\n' "$NAME" "$*"; }
fail() {
    say "FAILED: $*" >&2
    exit 1
}
skip() {
    echo "SKIP: $NAME: $*"
    exit 77
}

# --- what a test needs ---------------------------------------------------------------------------------------------------------------
require_root() { [ "$(id -u)" -eq 0 ] || skip "needs root"; }
require_fuse() {
    [ -c /dev/fuse ] && [ -r /dev/fuse ] && [ -w /dev/fuse ] || skip "needs /dev/fuse"
    [ "$(id -u)" -eq 0 ] || command -v fusermount3 > /dev/null || skip "needs root or fusermount3"
}
require_tool() {
    local tool
    for tool in "$@"; do
        command -v "$tool" > /dev/null || skip "needs $tool"
    done
}
require_free() { # MIB, in the scratch folder
    [ "$(df -Pm "$T" | awk 'NR == 2 { print $4 }')" -ge "$1" ] || skip "needs $1 MiB free in $T"
}
require_loop() {
    require_root
    require_tool losetup
    truncate -s 1M "$T/try"
    local device
    device=$(losetup -f --show "$T/try" 2> /dev/null) || skip "needs loop devices"
    losetup -d "$device"
    rm "$T/try"
}

# --- the end, however it comes ----------------------------------------------------------------------------------------------------------
mounts_below() { awk -v t="$T/" 'index($5, t) == 1 { print $5 }' /proc/self/mountinfo | sort -r; }
our_processes() { # programs of this build that run with this test's state
    local pid
    for pid in /proc/[0-9]*; do
        case $(readlink "$pid/exe" 2> /dev/null) in
        "$SFS_BUILD"/cli/*) ;;
        *) continue ;;
        esac
        if tr '\0' '\n' < "$pid/environ" 2> /dev/null | has -xF "SFS_RUN_DIR=$SFS_RUN_DIR"; then
            echo "${pid#/proc/}"
        fi
    done
}
on_exit=()
cleanup() {
    local code=$? dir pid device
    set +eu
    trap '' INT TERM
    cd /
    for dir in "${on_exit[@]}"; do eval "$dir"; done
    for pid in $(jobs -p); do kill -9 "$pid" 2> /dev/null; done
    while read -r dir; do
        timeout 30 umount "$dir" 2> /dev/null || timeout 20 fusermount3 -u "$dir" 2> /dev/null || umount -l "$dir" 2> /dev/null || fusermount3 -uz "$dir" 2> /dev/null
    done < <(mounts_below | sed 's/\\040/ /g')
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(our_processes)" ] || break
        sleep 0.2
    done
    for pid in $(our_processes); do
        [ $code -eq 0 ] && say "a daemon is still running after the last umount" && code=1
        kill -9 "$pid"
    done
    [ "$(id -u)" -ne 0 ] || losetup -n -O NAME,BACK-FILE 2> /dev/null | awk -v t="$T/" 'index($2, t) == 1 { print $1 }' | while read -r device; do
        losetup -d "$device"
    done
    if [ $code -ne 0 ] && [ $code -ne 77 ] && [ -n "${SFS_TEST_KEEP:-}" ]; then
        say "kept: $T"
    else
        chmod -R u+rwx "$T" 2> /dev/null
        rm -rf --one-file-system "$T"
    fi
    exit $code
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# --- disks ---------------------------------------------------------------------------------------------------------------------------------
# Makes a loop device over a new file of that size; sets LOOP.
make_loop() { # FILE SIZE
    truncate -s "$2" "$1"
    LOOP=$(losetup -f --show "$(realpath "$1")")
}

# A disk is taken away, and brought back. A pool finds a disk that merely moved beside the others; it doesn't look into a drawer.
take() { mkdir -p "$T/drawer" && mv "$1" "$T/drawer/"; }
bring() { mv "$T/drawer/$1" "$T/"; }

# --- running ---------------------------------------------------------------------------------------------------------------------------------
# Runs a command that must fail with CODE and say something that matches REGEX (extended, case ignored), without crashing.
refused() { # CODE REGEX COMMAND...
    local want=$1 regex=$2 got=0
    shift 2
    "$@" > "$T/said" 2>&1 < /dev/null || got=$?
    if ! [[ $got =~ ^($want)$ ]]; then
        cat "$T/said" >&2
        fail "\`$*\` ended with $got, not $want"
    fi
    if ! grep -qiE -- "$regex" "$T/said"; then
        cat "$T/said" >&2
        fail "\`$*\` does not say /$regex/"
    fi
}
has() { grep "$@" > /dev/null; } # reads to the end, unlike grep -q: nobody gets SIGPIPE
is() { [ "$1" = "$2" ] || fail "${3:-value}: got \"$1\", not \"$2\""; }
json() { # FILTER < JSON: a value of one key on the top level, by name
    sed -n 's/.*"'"$1"'": *"\{0,1\}\([^",}]*\).*/\1/p' | head -n 1
}
# Waits until a command succeeds; fails after SECONDS.
within() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "not within time: $*"
        sleep 0.2
    done
}
health() { # POOL: healthy, degraded, at-risk
    local code=0
    spacesfs status "$1" > "$T/status" 2>&1 || code=$?
    case $code in
    0) echo healthy ;;
    1) echo degraded ;;
    2) echo at-risk ;;
    *) cat "$T/status" >&2; echo "unknown ($code)" ;;
    esac
}
health_is() { [ "$(health "$1")" = "$2" ]; }
daemon_of() { # POOL: the process that serves it
    local pid fd
    for pid in $(our_processes); do
        for fd in "/proc/$pid/fd"/*; do
            if [ "$(readlink "$fd")" = /dev/fuse ]; then
                echo "$pid"
                return
            fi
        done
    done
}
is_gone() { ! readlink "/proc/$1/exe" > /dev/null 2>&1; } # nobody need have waited for it
kill_daemon() { # PID; returns when the kernel has cleared it away
    kill -9 "$1"
    within 20 is_gone "$1"
}
no_daemon() { [ -z "$(our_processes)" ]; }
mounted() { mountpoint -q "$1"; }
# All that was written to m is durable: umount sees to it. sync(1) of a whole filesystem doesn't reach a daemon (man mount.spacesfs, LIMITS), and a kill may come before the next commit.
stored() {
    spacesfs umount m
    spacesfs mount p/s m
}
# A load on m that is verified: files are written, read back and compared, and some deleted, until told to stop. Its only lasting word is an error.
load() {
    local i=0
    while [ ! -e "$T/stop" ]; do
        i=$((i + 1))
        bigfile write "m/load$((i % 4))" $((8 << 20)) $i && bigfile check "m/load$((i % 4))" $((8 << 20)) $i || {
            echo "round $i" >> "$T/load-failed"
            return 1
        }
    done
}
begin_load() { rm -f "$T/stop"; load > load.out 2>&1 & LOAD=$!; }
end_load() {
    touch "$T/stop"
    wait $LOAD || { cat load.out >&2; fail "the load"; }
}
# A pool "p" with a mirror2 space "s" on two directories, mounted on m.
small_pool() { # SPACE-OPTIONS...
    mkdir d1 d2 m
    spacesfs pool create p d1,size=2G d2,size=2G
    spacesfs space create p/s --resiliency mirror2 "$@"
    spacesfs mount p/s m
}
