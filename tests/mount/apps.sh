#!/bin/bash
# Programs that people use: git, SQLite, tar, rsync, a compiler; and each of them finds its files whole after the daemon was killed.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool git sqlite3 rsync tar cc

small_pool --compression zstd
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t

say "tar and git: the source tree, committed in pieces, cloned, collected"
mkdir m/src
tar -C "$HERE/../.." --exclude=./build --exclude=./.git -cf - . | tar -C m/src -xf -
(
    cd m/src
    git init -q
    for dir in fs meta cli tests .; do
        git add "$dir"
        git commit -q -m "$dir"
    done
    git gc -q
    git fsck --strict
) > said 2>&1 || { cat said; fail "git"; }
git clone -q m/src m/clone
diff -r -x .git m/src m/clone

say "SQLite: both journals, with fsync, several programs at once"
for mode in delete wal; do
    sqlite3 "m/$mode.db" "pragma journal_mode=$mode; create table t(id integer primary key, v blob)" > /dev/null
    for k in 1 2 3; do
        (for i in $(seq 20); do
            sqlite3 "m/$mode.db" ".timeout 20000" "insert into t(v) values(randomblob(2000))"
            echo "$i" > "acked.$mode.$k"
        done) &
    done
    wait
    is "$(sqlite3 "m/$mode.db" 'pragma integrity_check; select count(*) from t')" $'ok\n60' "$mode"
done

say "killed while both write"
(while sqlite3 m/wal.db ".timeout 20000" "pragma synchronous=full; insert into t(v) values(randomblob(5000))" 2> /dev/null; do echo >> acked.lines; done) &
(cd m/clone && i=0 && while i=$((i + 1)) && echo $i > counter && git -c core.fsync=all add counter && git -c core.fsync=all commit -q -m "$i"; do echo $i > "$T/acked.commit"; done > /dev/null 2>&1) &
sleep 3
kill_daemon "$(daemon_of p)"
wait
spacesfs mount p/s m
is "$(sqlite3 m/wal.db 'pragma integrity_check')" ok "integrity after the kill"
rows=$(sqlite3 m/wal.db 'select count(*) from t')
[ "$rows" -ge $((60 + $(wc -l < acked.lines))) ] || fail "$rows rows, $((60 + $(wc -l < acked.lines))) were committed"
git -C m/clone fsck --strict > said 2>&1 || { cat said; fail "git after the kill"; }
# git syncs a branch's new file, but not the directory after renaming it: the last commit may be one that only the next would have made durable.
[ "$(git -C m/clone log --format=%s -1)" -ge $(($(cat acked.commit) - 1)) ] || fail "commit $(cat acked.commit) was acknowledged, $(git -C m/clone log --format=%s -1) is there"

say "a compiler, and rsync"
cc -O1 -I"$HERE/../.." -D_GNU_SOURCE -o m/treecmp m/src/tests/mount/treecmp.c
m/treecmp m/src m/src
rsync -aHX --checksum m/src/ m/copy/
is "$(rsync -aHXn --checksum --itemize-changes --delete m/src/ m/copy/)" "" "rsync finds differences"
echo changed >> m/src/README.md
rsync -aHX --inplace m/src/ m/copy/
cmp m/src/README.md m/copy/README.md
spacesfs umount m
