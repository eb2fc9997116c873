#!/bin/bash
# SQLite with a rollback journal and with a WAL, with and without mmap, several writers, killed with the daemon again and again: nothing that was committed is
# lost, nothing is damaged.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_tool sqlite3

small_pool --compression zstd
modes="delete truncate persist wal"
for mode in $modes; do
    sqlite3 "m/$mode.db" "pragma journal_mode=$mode; create table t(id integer primary key, who, n, v blob); create index i on t(who, n)" > /dev/null
    : > "acked.$mode.1"
    : > "acked.$mode.2"
done
# extra: with less, SQLite doesn't sync the removal of a rollback journal, which is what commits
writer() { # MODE WHO ROUND: commits until it fails; each acknowledged commit is a line
    local n=0 map=0
    [ "$2" = 1 ] || map=268435456
    while n=$((n + 1)) && sqlite3 "m/$1.db" "pragma mmap_size=$map" ".timeout 30000" "pragma journal_mode=$1" "pragma synchronous=extra" \
        "begin immediate; insert into t(who, n, v) values($2, $3 * 100000 + $n, randomblob(3000)); delete from t where id in (select id from t where who = $2 and n < $3 * 100000 - 100000 limit 5); commit" > /dev/null 2>&1; do
        echo $(($3 * 100000 + n)) >> "acked.$1.$2"
    done
}
for round in 1 2 3 4; do
    for mode in $modes; do
        writer "$mode" 1 $round &
        writer "$mode" 2 $round &
    done
    sleep 4
    kill_daemon "$(daemon_of p)"
    wait
    spacesfs mount p/s m
    for mode in $modes; do
        is "$(sqlite3 "m/$mode.db" 'pragma integrity_check')" ok "$mode after kill $round"
        for who in 1 2; do
            last=$(tail -n 1 "acked.$mode.$who")
            [ -z "$last" ] || [ "$(sqlite3 "m/$mode.db" "select max(n) from t where who = $who")" -ge "$last" ] || fail "$mode: commit $last of writer $who was acknowledged and is lost"
        done
    done
done
say "$(cat acked.* | wc -l) commits over 4 kills"
for mode in $modes; do
    sqlite3 "m/$mode.db" "pragma mmap_size=268435456" "vacuum" > /dev/null
    is "$(sqlite3 "m/$mode.db" 'pragma integrity_check')" ok "$mode after vacuum"
done
spacesfs umount m
