#!/bin/bash
# git at some size: many commits, branches, merges, gc, repack, clone by hard links and by copy, worktrees, bisect; fsck --strict after each and after a kill.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_tool git
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t

small_pool --compression zstd
git init -q -b main m/r
cd m/r
for k in $(seq 150); do
    for f in $(seq 20); do echo "$k $f $RANDOM" >> "file$f"; done
    git add -A
    git commit -q -m "$k"
done
for b in a b c; do
    git checkout -q -b "$b" "main~$((RANDOM % 50 + 1))"
    echo $b > "only-$b"
    git add -A
    git commit -q -m "$b"
done
git checkout -q main
git merge -q a b c -m octopus
git fsck --strict
git repack -q -ad
git gc -q --aggressive --prune=now
git fsck --strict
cd ../..
git clone -q m/r m/hard
git clone -q --no-hardlinks m/r m/copy
git -C m/r worktree add -q ../tree HEAD~3
git -C m/r bisect start -q HEAD HEAD~20 > /dev/null
git -C m/r bisect reset > /dev/null 2>&1
for d in hard copy; do is "$(git -C m/$d rev-parse HEAD)" "$(git -C m/r rev-parse main)" $d; done
diff -r -x .git m/hard m/copy
(cd m/hard && n=0 && while n=$((n + 1)) && echo $n > counter && git -c core.fsync=all add counter && git -c core.fsync=all commit -q -m $n; do echo $n > "$T/acked"; done > /dev/null 2>&1) &
sleep 5
kill_daemon "$(daemon_of p)"
wait
spacesfs mount p/s m
for d in r hard copy; do git -C m/$d fsck --strict; done
rm -f m/hard/.git/index.lock
# git syncs a branch's new file, but not the directory after renaming it: the last commit may be one that only the next would have made durable.
[ "$(git -C m/hard log -1 --format=%s)" -ge $(($(cat acked) - 1)) ] || fail "commit $(cat acked) is lost"
spacesfs umount m
