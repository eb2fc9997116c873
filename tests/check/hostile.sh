#!/bin/bash
# Disks that somebody has tampered with: no file but the disk's own is read or written, nothing hangs, memory stays bounded. Everything runs under a limit of memory, and with a time limit.
. "$(dirname "$0")/lib.sh"
require_fuse

small_pool > /dev/null 2>&1
mktree src 60 1
cp -a src m/a
down m
poke snapshot d1 d2
cp -a d1 keep1
cp -a d2 keep2
echo precious > victim
again() {
    rm -rf d1 d2
    cp -a keep1 d1
    cp -a keep2 d2
}
# A run of any status but one by a signal, a time-out or a failed assertion; the victim stays as it is.
survives() { # COMMAND...
    local got=0
    (ulimit -v 6000000; exec timeout 60 "$@") > said 2>&1 < /dev/null || got=$?
    [ "$got" -lt 64 ] || { cat said; fail "\`$*\` ended with $got"; }
    is "$(cat victim)" precious "another's file"
}
tried() { # what a disk is subjected to by people
    survives spacesfs-check --data -n p
    survives spacesfs mount p/s m -o wait=0
    if mounted m; then
        treecmp src m/a
        echo more > m/more 2> /dev/null || true # without the other disk there may be no room
        down m
    fi
    survives spacesfs-check --data -y p
    rm -rf out
    survives spacesfs-check --extract --to out p
}
slabs() { find "$1/.spacesfs/slabs" -type f | sort; }

say "slabs that are links, FIFOs, devices, directories"
plant() { # HOW
    local slab
    for slab in $(slabs d1); do
        rm -f "$slab"
        case $1 in
        link) ln -s "$T/victim" "$slab" ;;
        fifo) mkfifo "$slab" ;;
        device) mknod "$slab" c 1 3 ;;
        directory) mkdir "$slab" ;;
        esac
    done
}
for how in link fifo device directory; do
    [ $how != device ] || [ "$(id -u)" -eq 0 ] || continue
    again
    plant $how
    tried
    spacesfs mount p/s m
    treecmp src m/a
    down m
done

say "metadata that is a link, a FIFO, a device"
for name in catalog.db catalog.db-wal snapshot-1; do
    for how in link fifo device; do
        [ $how != device ] || [ "$(id -u)" -eq 0 ] || continue
        again
        rm -f d1/.spacesfs/catalog/$name
        case $how in
        link) ln -s "$T/victim" d1/.spacesfs/catalog/$name ;;
        fifo) mkfifo d1/.spacesfs/catalog/$name ;;
        device) mknod d1/.spacesfs/catalog/$name c 1 5 ;;
        esac
        survives spacesfs-check -n p
        survives spacesfs-check -y p
    done
done

say "labels, the lock and whole folders that are links"
for name in label label.copy label.new lock slabs catalog; do
    again
    rm -rf d1/.spacesfs/$name
    if [ -d keep1/.spacesfs/$name ]; then
        mkdir -p folder
        ln -s "$T/folder" d1/.spacesfs/$name
    else
        ln -s "$T/victim" d1/.spacesfs/$name
    fi
    tried
    [ ! -d folder ] || is "$(ls -A folder)" "" "another's folder after $name"
done
again
mv d1/.spacesfs elsewhere
ln -s "$T/elsewhere" d1/.spacesfs
before=$(find elsewhere -type f -exec sha256sum {} + | sort | sha256sum)
tried
is "$(find elsewhere -type f -exec sha256sum {} + | sort | sha256sum)" "$before" "what a linked .spacesfs leads to"
rm -rf elsewhere

say "more files than there can be, and sizes that cannot be"
again
for ((i = 0; i < 2000; i++)); do : > d1/.spacesfs/catalog/x$i; done
tried
for file in catalog.db catalog.db-wal snapshot-1; do
    again
    truncate -s 4T d1/.spacesfs/catalog/$file 2> /dev/null || truncate -s 1T d1/.spacesfs/catalog/$file
    tried
    again
    for disk in d1 d2; do truncate -s 1T $disk/.spacesfs/catalog/$file; done
    survives spacesfs-check -n p
    survives spacesfs mount p/s m -o wait=0
    ! mounted m || down m
done
again
for slab in $(slabs d1); do truncate -s 0 "$slab"; done
tried

say "slots and places that cannot be, in the catalog of all disks"
for sql in 'UPDATE slab SET slot = 4294967295 WHERE copy = 1' 'UPDATE slab SET slot = 9223372036854775807 WHERE copy = 0' 'UPDATE slab SET slot = -1' 'UPDATE slab SET disk = -7 WHERE copy = 1' \
    'UPDATE extent SET goff = 1125899906842623' 'UPDATE extent SET goff = -1' 'UPDATE extent SET slen = 9223372036854775807' 'UPDATE extent SET off = 9223372036854775807 - off WHERE off > 0' \
    'UPDATE slab_group SET interleave = 4096, columns = 16' 'UPDATE disk SET capacity_slabs = 4294967295' 'UPDATE space SET root_ino = -1' "UPDATE disk SET path = '/etc'" \
    "UPDATE dentry SET name = CAST('../../victim' AS BLOB)" "UPDATE dentry SET name = CAST('..' AS BLOB)"; do
    again
    poke "$sql" d1 d2
    survives spacesfs-check -n p
    survives spacesfs mount p/s m -o wait=0
    if mounted m; then
        find m > /dev/null 2>&1 || true
        cat m/a/* > /dev/null 2>&1 || true
        spacesfs umount m > said 2>&1 || grep -q unmounted said || fail "umount after $sql"
        within 20 no_daemon
    fi
    rm -rf out
    survives spacesfs-check --extract --to out p
    survives spacesfs-check -y p
    is "$(cat victim)" precious "another's file after $sql"
done
