#!/bin/bash
# The contract with fsck(8) and with people: exit statuses, names, options, a pool in use, nothing changed with -n.
. "$(dirname "$0")/lib.sh"
require_fuse

small_pool > /dev/null 2>&1
mktree src 100 1
cp -a src m/a

say "a pool in use is refused"
check 8 -y p
says 'in use'
check 8 -n "$T/d1"
says 'in use'
down m

say "a sound pool is clean in every mode, by name and by disk"
for mode in -n -p -a -y; do check 0 $mode p; done
says 'in order'
check 0 -n "$T/d2"
check 0 -n -f -v p "$T/d1" "$T/d2"

say "as fsck finds it"
for name in fsck.spacesfs fsck.fuse.spacesfs; do
    "$name" -a p/s > said 2>&1 || { cat said; fail "$name p/s: $?"; }
    "$name" -a "$T/d1/s" > said 2>&1 || { cat said; fail "$name PATH/s: $?"; }
done

say "through fsck(8), with what it and systemd pass on; a pool in use is 8 there, too"
if [ "$(id -u)" -eq 0 ] && command -v fsck unshare > /dev/null; then
    through_fsck() { # STATUS ARGS...: our programs are where fsck looks for them, for it alone
        local want=$1 got=0
        shift
        unshare -m bash -c 'mkdir sbin work 2> /dev/null; mount -t overlay overlay -o "lowerdir=/sbin,upperdir=$PWD/sbin,workdir=$PWD/work" /sbin 2> /dev/null || exit 99
            for name in fsck.spacesfs fsck.fuse.spacesfs; do ln -sf "$BIN/spacesfs-check" /sbin/$name; done; exec fsck "$@"' fsck "$@" > said 2>&1 < /dev/null || got=$?
        [ $got -eq 99 ] || is "$got" "$want" "fsck $*: $(cat said)"
    }
    export BIN
    for type in spacesfs fuse.spacesfs; do # it takes paths only
        through_fsck 8 -t $type "$T/d1" # nobody to ask
        through_fsck 0 -a -T -M -C3 -t $type "$T/d1"
        through_fsck 0 -t $type "$T/d1/s" -- -p
        through_fsck 0 -n -t $type "$T/d1/s"
    done
    spacesfs mount p/s m
    through_fsck 8 -a -t spacesfs "$T/d1/s"
    down m
    poke "UPDATE inode SET nlink = 7 WHERE ino = (SELECT max(ino) FROM inode WHERE mode >> 12 = 8)" d1 d2
    through_fsck 1 -a -t spacesfs "$T/d1"
fi
for options in -a -p '-a -C0' '-p -C' '-a -f -v -C7'; do
    # shellcheck disable=SC2086 (several words)
    fsck.spacesfs $options p/s > said 2>&1 || { cat said; fail "fsck.spacesfs $options p/s: $?"; }
done

say "used wrongly: 16; not there: 8; nobody to ask: 8"
check 16
check 16 --nonsense p
check 16 -n -y p
check 16 --extract p
check 8 -n nosuch
says 'no pool named nosuch'
check 8 p
says 'terminal'
check 0 --help
says 'Exit status'

say "-n changes nothing"
sums() { find d1 d2 -type f -exec sha256sum {} + | sort; }
poke "UPDATE inode SET nlink = 7 WHERE ino = (SELECT max(ino) FROM inode WHERE mode >> 12 = 8)" d1 d2
sums > before
check 4 -n p
says 'Wrong link counts: 1'
check 4 -n --json p
says '"id": "nlink"'
sums > after
cmp before after || fail "-n has changed something"

say "asked, it does what is answered"
answer() { # TEXT STATUS
    local got=0
    command -v script > /dev/null || return 0
    (sleep 0.5; printf '%s\n' "$1"; sleep 0.5) | script -qec "spacesfs-check p" /dev/null > said 2>&1 || got=$?
    is "$got" "$2" "status after answering $1"
}
answer n 4
clean_not() { check 4 -n p; }
clean_not
answer y 1
clean p

say "preening mends what is safe, and leaves what loses something"
poke "UPDATE inode SET nlink = 7 WHERE ino = (SELECT max(ino) FROM inode WHERE mode >> 12 = 8); INSERT INTO dentry SELECT root_ino, 4711, 99999, 8, x'78' FROM space" d1 d2
check 5 -p p
says 'Mended: set them to what is there'
says 'Left as it is. What can be done: take the names away'
check 1 -y p
clean p
spacesfs mount p/s m
treecmp src m/a
down m
