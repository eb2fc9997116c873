#!/bin/bash
# What POSIX and Linux ask of a filesystem, case by case: of the host first, so that nothing is asked for that others don't do; then of a mirror without
# and a simple space with compression. File handles, as NFS exports use them, live through restarts and kills of the daemon. An overlay has its upper layer here.
. "$(dirname "$0")/../mount/lib.sh"
PATH=$SFS_BUILD/tests/posix:$PATH
require_fuse

mkdir host
posix_cases host > said || { cat said; fail "the host filesystem doesn't do what the cases ask for"; }
say "the host: $(tail -n 1 said)"

mkdir d1 d2 m n
spacesfs pool create p d1,size=3G d2,size=3G
spacesfs space create p/s --resiliency mirror2
spacesfs space create p/z --resiliency simple --compression zstd
spacesfs mount p/s m
spacesfs mount p/z n
for dir in m n; do
    mkdir $dir/cases
    posix_cases $dir/cases || fail "cases on $dir"
done

say "what it left is the same after a remount"
# Terabytes to compare; paths too long below another directory; more attributes than the host bears.
rm -r m/cases/files_beyond_4_tib m/cases/paths_of_path_max m/cases/xattr_limits
cp -a m/cases copy
spacesfs umount m
spacesfs mount p/s m
treecmp copy m/cases
getfacl -RPn --absolute-names m/cases > acls # what they are, and that none is refused
has default: < acls || fail "no default access list is left"
spacesfs umount n

if [ "$(id -u)" -eq 0 ]; then # open_by_handle_at is root's
    say "handles"
    mkdir -p m/h/sub
    for i in 1 2 3 4 5; do echo "contents $i" > m/h/f$i; done
    ln -s f1 m/h/link
    mkfifo m/h/fifo
    handles make m/h made # and . itself
    rm m/h/f3
    rmdir m/h/sub
    echo another > m/h/f3
    is "$(handles check m made)" "7 good, 2 stale" "handles"
    spacesfs umount m
    spacesfs mount p/s m
    is "$(handles check m made)" "7 good, 2 stale" "handles after a remount"
    sync m/h m/h/f?
    kill_daemon "$(daemon_of p)"
    spacesfs mount p/s m
    is "$(handles check m made)" "7 good, 2 stale" "handles after a kill"

    say "an overlay's upper layer"
    mkdir m/upper m/work lower merged
    mkdir lower/dir
    echo low > lower/file
    echo low > lower/other
    echo low > lower/dir/file
    if mount -t overlay overlay -o "lowerdir=$T/lower,upperdir=$T/m/upper,workdir=$T/m/work" merged 2> said; then
        on_exit+=("umount $T/merged 2> /dev/null")
        echo new >> merged/file
        rm merged/other
        mv merged/dir merged/moved
        chmod 600 merged/moved/file
        mkdir merged/other
        is "$(cat merged/file)" $'low\nnew'
        is "$(cd merged && find . | sort | tr '\n' ' ')" ". ./file ./moved ./moved/file ./other "
        umount merged
        spacesfs umount m
        spacesfs mount p/s m
        mount -t overlay overlay -o "lowerdir=$T/lower,upperdir=$T/m/upper,workdir=$T/m/work" merged
        is "$(cd merged && find . | sort | tr '\n' ' ')" ". ./file ./moved ./moved/file ./other " "after a remount"
        umount merged
    else
        say "no overlays here: $(cat said)"
    fi
fi
spacesfs umount m
spacesfs status p
