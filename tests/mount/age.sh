#!/bin/bash
# What nobody synced, but is older than a few commits, is there after a SIGKILL: empty, small, inline and big files, names, renames, deletions, attributes, and of files that grow or are
# overwritten without a pause all but the last seconds. A commit comes every five seconds by itself; here it has twenty-five, since other tests may keep the machine busy.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 1500

mkdir d1 d2 m
spacesfs pool create p d1,size=2G d2,size=2G > /dev/null 2>&1
for kind in "mirror2 off" "simple zstd"; do
    read -r resiliency compression <<< "$kind"
    spacesfs space create p/s --resiliency "$resiliency" --compression "$compression" > /dev/null
    spacesfs mount p/s m
    say "$kind: nothing is synced"
    touch m/gone
    sync m/gone m # so that its deletion is what is to be kept
    bigfile write m/big $((200 << 20)) 1
    : > m/empty
    echo tiny > m/tiny
    head -c 60000 /dev/zero | tr '\0' s > m/small
    mkdir -p m/a/b
    echo moved > m/a/b/from
    mv m/a/b/from m/to
    ln m/to m/link
    ln -s to m/soft
    setfattr -n user.note -v kept m/tiny
    chmod 640 m/tiny
    truncate -s 5M m/sparse
    rm m/gone
    # A line each tenth of a second, into one file that grows and into another that is overwritten, with the time at which it was written.
    (exec 7> m/grows; while [ ! -e "$T/stop" ]; do
        printf '%12d\n' "$SECONDS" >&7
        printf '%12d\n' "$SECONDS" 1<> m/overwritten
        sleep 0.1
    done) &
    writer=$!
    sleep 5
    old=$SECONDS # from here on, what was written until now has time enough
    sleep 25
    kill_daemon "$(daemon_of p)"
    touch stop
    wait $writer 2> /dev/null || true
    rm stop
    spacesfs mount p/s m
    bigfile check m/big $((200 << 20)) 1
    is "$(stat -c %s m/empty) $(cat m/tiny) $(stat -c %a m/tiny)" "0 tiny 640"
    is "$(tr -d s < m/small | wc -c) $(stat -c %s m/small)" "0 60000" "the small file"
    is "$(cat m/to) $(cat m/link) $(readlink m/soft) $(stat -c %h m/to)" "moved moved to 2"
    is "$(getfattr --only-values -n user.note m/tiny 2> /dev/null)" kept
    is "$(stat -c %s m/sparse) $(ls m/a/b | wc -l)" "5242880 0"
    [ ! -e m/gone ] || fail "a file that was deleted long ago is back"
    for name in grows overwritten; do
        last=$(tail -n 1 m/$name)
        [ "${last:-0}" -ge "$old" ] || fail "$name: the last line is from $last, what is from $old should be there"
    done
    is "$(grep -vcxE ' *[0-9]+' m/grows || true)" 0 "lines that nobody wrote"
    spacesfs umount m
    spacesfs space destroy p/s --yes > /dev/null
done
