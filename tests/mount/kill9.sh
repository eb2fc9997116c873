#!/bin/bash
# The daemon is killed at random moments under write load, 50 times; after each remount everything that fsync acknowledged is there, and nothing is torn.
# SFS_TEST_KILLS: how often.
. "$(dirname "$0")/lib.sh"
require_fuse

kills=${SFS_TEST_KILLS:-50}
writers=3
small_pool
mkdir m/w1 m/w2 m/w3
stored

check() {
    local i
    for ((i = 1; i <= writers; i++)); do
        fsyncer check "m/w$i" "log$i" "$i" || { cp -r "m/w$i" "found$i" || true; fail "kill $1: writer $i found the above"; }
    done
}

for ((n = 1; n <= kills; n++)); do
    pids=()
    for ((i = 1; i <= writers; i++)); do
        fsyncer write "m/w$i" "log$i" "$i" 60 &
        pids+=($!)
    done
    sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
    [ $((RANDOM % 4)) -ne 0 ] || sleep 1
    daemon=$(daemon_of p)
    [ -n "$daemon" ] || fail "kill $n: the daemon has gone by itself"
    kill_daemon "$daemon"
    for pid in "${pids[@]}"; do
        code=0
        wait "$pid" || code=$?
        [ $code -eq 3 ] || fail "kill $n: a writer ended with $code"
    done
    if [ $((n % 5)) -eq 0 ]; then # and killed again while it recovers
        spacesfs mount p/s m > /dev/null 2>&1 &
        mounter=$!
        sleep "0.0$((RANDOM % 10))$((RANDOM % 10))"
        for pid in $(our_processes); do
            [ "$pid" = $mounter ] || kill_daemon "$pid" 2> /dev/null || true
        done
        wait $mounter || true
    fi
    mounted m && ls m/w1 > /dev/null 2>&1 || spacesfs mount p/s m || fail "kill $n: it can't be mounted any more"
    check $n
    [ $((n % 10)) -ne 0 ] || say "$n kills, $(cat log1 log2 log3 | grep -c ^A) promises kept"
done
health_is p healthy || { cat status; fail "not healthy in the end"; }
spacesfs umount m
within 20 no_daemon
