#!/bin/bash
# A pool that was made when format 1 was: every later version opens it, reads all that is in it, with any disk gone, and writes to it. And pools of a newer spacesfs than this:
# refused, or opened read-only, with words.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool xz getfattr
require_free 400
export PATH=$SFS_BUILD/tests/check:$PATH TZ=UTC
golden=$HERE/../golden
# shellcheck source=../golden/lib.sh
. "$golden/lib.sh"

spaces="mirror packed parity simple"
fresh() {
    rm -f ./*.img
    tar -xJf "$golden/$format.tar.xz"
}
away() {
    spacesfs umount m
    within 20 no_daemon
}
same() { # SPACE
    manifest m > found.txt
    diff "$golden/$format.txt" found.txt > differs || { head -n 20 differs >&2; fail "$1 of $format isn't what it was"; }
}
mkdir m

for format in format1; do
    fresh
    spacesfs pool import a.img b.img c.img
    say "$format: as it is"
    for space in $spaces; do
        spacesfs mount golden/$space m
        same "$space"
        away
    done
    spacesfs-check -n a.img b.img c.img || fail "the check finds something"
    say "$format: without any one disk"
    for gone in a b c; do
        take $gone.img
        for space in mirror packed parity; do
            spacesfs mount golden/$space m -o ro,wait=0,degraded=ro
            same "$space without $gone"
            away
        done
        bring $gone.img
    done
    say "$format: verified, written to, and opened again"
    spacesfs mount golden/parity m
    spacesfs scrub golden --wait
    health_is golden healthy || { cat status; fail "it isn't whole"; }
    mktree src 60 3
    cp -a src m/new
    away
    spacesfs mount golden/parity m
    treecmp src m/new
    rm -rf m/new
    same parity
    away
done

# A version that doesn't know what a newer one did. Each fault is in all labels, or in all copies of the catalog.
newer() { # WHAT LABEL-CHANGE-OR-SQL
    say "newer: $*"
    fresh
    case $1 in
    label) poke label "$2" a.img b.img c.img ;;
    catalog) poke "$2" a.img b.img c.img ;;
    esac
    sha256sum ./*.img > before
}
untouched() { sha256sum --quiet -c before || fail "a pool that is not for this program was written to"; }
format=format1
for change in "label format=2" "label incompat=1" "catalog PRAGMA user_version = 2" "catalog UPDATE pool SET incompat = 1"; do
    newer "${change%% *}" "${change#* }"
    for options in rw ro ro,degraded=ro; do
        refused 1 'newer spacesfs' spacesfs mount golden/mirror m -o $options,wait=0
        refused 32 'newer spacesfs' mount.spacesfs golden/mirror m -o $options,wait=0
    done
    ! mounted m || fail "it was mounted"
    [ "${change%% *}" = catalog ] || refused '[1-9][0-9]*' 'newer spacesfs' spacesfs pool import "$T/a.img" # which looks at labels only
    refused '8|4|16' 'newer' spacesfs-check -n a.img b.img c.img
    refused '8|4|16' 'newer' spacesfs-check -y a.img b.img c.img
    untouched
done
for change in "label ro_compat=1" "catalog UPDATE pool SET ro_compat = 1"; do
    newer "${change%% *}" "${change#* }"
    refused 1 'read-only.*newer spacesfs|newer spacesfs.*read-only' spacesfs mount golden/mirror m -o wait=0
    untouched
    spacesfs mount golden/mirror m -o ro
    same mirror
    refused 1 'read-only' touch m/new
    refused '[1-9][0-9]*' 'read-only' "$SFS_BUILD/cli/mount.spacesfs" golden/mirror "$T/m" -o remount,rw
    away
    untouched
done
say "a disk of a newer kind beside others is not taken for an empty one"
newer label incompat=1
refused '[1-9][0-9]*' 'newer' spacesfs pool create other a.img
untouched
