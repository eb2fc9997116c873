#!/bin/bash
# Each calamity of the recovery section of spacesfs-check(8), made, and then mended by the very commands that stand there.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 1000
page=$(realpath "$HERE/../../man/spacesfs-check.8")

steps() { # HEADING [N]: the commands below it (of the N-th block of them), for this test's pool
    awk -v want=".SS $1" -v block="${2:-0}" '/^\.S[SH]/ { inside = $0 == want; n = 0 } inside && /^\.nf/ { code = 1; n++; next } /^\.fi/ { code = 0 } inside && code && (!block || block == n) { print }' "$page" |
        sed -e 's/^ *//' -e 's/\\-/-/g' -e "s/\\btank\\b/p/g" -e "s|\\bp/space\\b|p/s|g" -e "s|\\bforget p other\\b|forget p d2|g" -e "s|/path/of/other/disk|$T/d2|g" -e "s|/path/of/a/disk|$T/d1|g" -e "s|/path/of/new/disk|$T/d9,size=1G|g" -e "s|/mnt\\b|$T/m|g" -e "s|/path/of/disk|$T/d|g" -e "s|/rescued|$T/rescued|g"
}
follow() { # HEADING [N]: statuses 0, 1, 4 are those of a check that ran
    local line ran=0 status
    while read -r line; do
        ran=$((ran + 1))
        status=0
        bash -c "$line" > said 2>&1 < /dev/null || status=$?
        case $line:$status in
        *:0 | spacesfs-check*:1 | spacesfs-check*:4 | 'spacesfs status'*:[12]) ;;
        *)
            cat said >&2
            fail "\`$line\` ended with $status"
            ;;
        esac
    done < <(steps "$@")
    [ $ran -gt 0 ] || fail "the page has no steps for: $1"
}
rot() { # FILE PAGE...
    local file=$1 at
    shift
    for at in "$@"; do printf 'rotten' | dd of="$file" bs=1 seek=$((at * 4096 - 100)) conv=notrunc status=none; done
}
db() { echo "$1/.spacesfs/catalog/catalog.db"; }

mkdir d1 d2 m
spacesfs pool create p d1,size=1G d2,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs mount p/s m
mktree src 150 1
cp -a src m/a
down m
poke snapshot d1 d2
spacesfs mount p/s m
echo later > m/later
down m
rm -rf keep && mkdir keep && cp -a d1 d2 state/pools/p keep/
again() {
    rm -rf d1 d2 d9 rescued
    cp -a keep/d1 keep/d2 .
    cp keep/p state/pools/p
}
works() {
    spacesfs mount p/s m
    treecmp src m/a
    down m
}

say "a disk died"
mkdir d9
rm -rf d2
follow "A disk died"
works
rm -rf d1 d2 d9
again

say "a program got an I/O error"
spacesfs mount p/s m
find d1/.spacesfs/slabs d2/.spacesfs/slabs -type f | while read -r slab; do dd if=/dev/zero of="$slab" bs=4096 count=2 conv=notrunc status=none; done
follow "A program got an I/O error"
grep -q 'no good copy is left' said || { cat said; fail "the damaged file is not named"; }
again

say "the catalog is damaged on one disk, and on all"
rot "$(db d1)" 1 2 3
follow "The pool can't be opened: the catalog is damaged"
works
rot "$(db d1)" 1 2 3 4 5
rot "$(db d2)" 1 2 3 4 5
refused 1 'spacesfs-check' spacesfs mount p/s m -o wait=0
follow "The pool can't be opened: the catalog is damaged"
grep -q 'go back to that' said || { cat said; fail "it doesn't say that it went back"; }
works
clean p
[ -e d1/.spacesfs/catalog/damaged.db ] || fail "the damaged catalog was not kept"
again

say "a disk has lost its label"
for label in d2/.spacesfs/label d2/.spacesfs/label.copy; do printf 'rubbish%.0s' {1..600} | dd of=$label conv=notrunc status=none; done
follow "A disk has lost its label"
works
clean p
again

say "the disks with the newest catalog are lost"
rm -rf d1 d2 state/pools/p
mkdir d1 d2 d3 d4 d5
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G d4,size=1G d5,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs mount p/s m
echo small > m/small
down m
replicas=$(for disk in d?; do [ ! -e "$(db "$disk")" ] || echo "$disk"; done)
# shellcheck disable=SC2086 (several words)
poke snapshot $replicas
for disk in d?; do cp -n "${replicas%%$'\n'*}"/.spacesfs/catalog/snapshot-1 "$disk"/.spacesfs/catalog/; done
echo "$replicas" | xargs rm -rf
[ -e d1 ] || mv "$(ls -d d? | head -n 1)" d1
refused 1 'spacesfs-check can fall back' spacesfs mount p/s m -o wait=0
follow "The disks with the newest catalog are lost"
grep -q 'go back to that' said || { cat said; fail "it doesn't say that it went back"; }
spacesfs mount p/s m -o wait=0
is "$(cat m/small)" small
down m
rm -rf d? state/pools/p
again
check 0 -n "$T/d1"

say "the pool is split"
half() { # KEPT OTHER FILE: used alone
    take "$2"
    spacesfs mount p/s m -o wait=0
    rm m/later
    mkdir "m/$3"
    down m
    bring "$2"
}
half d1 d2 one
half d2 d1 two
refused 1 'was split' spacesfs mount p/s m -o wait=0
check 8 -y p
says 'was split'
take d1
follow "The pool is split" 1
treecmp src rescued/s/a
[ -d rescued/s/two ] || fail "what the other half had is not copied out"
take d2
bring d1
follow "The pool is split" 2
treecmp src m/a
[ -d m/one ] && [ ! -e m/two ] || fail "the wrong half goes on"
bring d2
follow "The pool is split" 3
down m
works
health_is p healthy || { cat status; fail "not healthy"; }
check 0 --data -n p
again

say "files have lost their names"
poke "DELETE FROM dentry WHERE name = CAST('a' AS BLOB)" d1 d2
check 1 -y p
spacesfs mount p/s m
treecmp src m/lost+found/\#*
down m
again

say "nothing else helps"
poke "DELETE FROM space" d1 d2
rm -rf d2
follow "Nothing else helps: copy out what can be read"
treecmp src rescued/recovered-1/a
again

say "a repair was not what you wanted"
poke "DELETE FROM dentry WHERE name = CAST('later' AS BLOB)" d1 d2
check 1 -y p
says 'kept as saved-1'
follow "A repair was not what you wanted"
check 1 -y p
clean p
