#!/bin/bash
# A Borg repository on a space: its segments and index are made durable by fsync of files and directories and by renames. Archives of a changing tree, killed with the daemon while it
# writes: every archive whose creation was acknowledged is there and whole, the repository checks clean, pruning and compaction go on.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_tool borg

small_pool
export BORG_BASE_DIR=$T/borg BORG_PASSPHRASE=secret BORG_RELOCATED_REPO_ACCESS_IS_OK=yes BORG_HOSTNAME_IS_UNIQUE=yes
mkdir borg src
change() { # ROUND: some files are new, some changed, some gone
    local k
    for k in $(seq 40); do head -c $((RANDOM % 60000)) /dev/urandom > "src/$1.$k"; done
    head -c 3000000 /dev/urandom > src/big
    rm -f "src/$(($1 - 2))".*
}
archive() { # NAME: acknowledged when it returns 0
    borg create --lock-wait 60 --compression lz4 "m/repo::$1" src
}
whole() { # every acknowledged archive is there, and its files are those that went into it
    local name
    borg break-lock m/repo
    borg check --verify-data m/repo > said 2>&1 || { cat said; fail "borg check"; }
    borg list --short m/repo > list
    while read -r name; do has -x "$name" list || fail "archive $name was acknowledged and is lost"; done < acked
}
: > acked
borg init --encryption=repokey-blake2 m/repo
for round in 1 2 3; do
    change $round
    archive "at-ease-$round"
    echo "at-ease-$round" >> acked
done
whole
for round in 4 5 6 7; do
    say "killed while it writes, the $((round - 3)). time"
    (n=0 && while n=$((n + 1)) && change $round && archive "$round-$n"; do echo "$round-$n" >> acked; done > "log.$round" 2>&1) &
    sleep 4
    kill_daemon "$(daemon_of p)"
    wait
    spacesfs mount p/s m
    whole
done
say "$(wc -l < acked) archives were acknowledged"
[ "$(wc -l < acked)" -gt 4 ] || fail "too few to mean anything"

say "going on: an archive, extracted again; pruned, compacted"
change 8
archive last
echo last >> acked
mkdir out
(cd out && borg extract "$T/m/repo::last")
diff -r src out/src
before=$(du -sk m/repo | cut -f 1)
: > acked
borg prune --keep-last 1 m/repo
borg compact --threshold 0 m/repo
[ "$(du -sk m/repo | cut -f 1)" -lt "$before" ] || fail "compaction freed nothing of $before KiB"
echo last >> acked
spacesfs umount m
spacesfs mount p/s m
whole
spacesfs umount m
