#!/bin/bash
# How it looks: on a terminal of 80 columns no line is wider, with names of wide characters and long paths; colour only there, and not with NO_COLOR; elsewhere a row a line, with everything in it.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool script stty
export TERM=xterm
unset NO_COLOR

long="a directory with a long name/and another one in it/文件夹/for the disk"
mkdir -p "$long" d2 d3 m "a mountpoint with a name that is longer than most others are"
spacesfs pool create größe "$long,size=300M,name=磁盘一号" d2,size=300M,name=d2 d3,size=300M,name=a-disk-whose-name-has-64-bytes-which-is-as-many-as-there-may-be- > /dev/null 2>&1
spacesfs space create größe/文档 --resiliency mirror2 --compression zstd --size 200M --columns 1 > /dev/null
spacesfs space create größe/x --resiliency simple > /dev/null
spacesfs mount größe/文档 m
spacesfs mount größe/x "a mountpoint with a name that is longer than most others are"
head -c 40M /dev/urandom > m/big
sync m/big

# On a terminal: what was shown, with and without what colours it.
on_terminal() { # COLUMNS COMMAND...
    local columns=$1
    shift
    script -qec "stty cols $columns rows 50; $*" /dev/null < /dev/null | tr -d '\r' > shown || true
    sed 's/\x1b\[[0-9;]*[mKHJ]//g' shown > plain
}
fits() { # COLUMNS
    local width
    width=$(wc -L < plain)
    [ "$width" -le "$1" ] || { cat plain; fail "a line of $width columns"; }
}

say "progress, and everything with a disk lost, in 80 columns"
take d2
on_terminal 80 spacesfs heal größe --wait
fits 80
has 'all that can be healed has been' plain || { cat plain; fail "heal --wait says nothing"; }
for command in "status größe" "status" "jobs größe" "space list" "disk list größe" "pool list" "where m/big" "where -p m/big" "events größe" "pool get größe" "--help" "heal --help"; do
    on_terminal 80 spacesfs $command
    [ -s plain ] || fail "nothing was shown by: $command"
    case $command in
    events*) ;; # a line each, for eyes and grep
    *) fits 80 ;;
    esac
done
on_terminal 80 spacesfs status größe
for word in 'größe: DEGRADED' 磁盘一号 文档 'd2 .*missing' '….*/for the disk' HEALTH AVAIL 'Next: '; do
    has -E "$word" plain || { cat plain; fail "status doesn't show $word"; }
done
on_terminal 50 spacesfs jobs größe
fits 60

say "errors, wrapped between words"
on_terminal 80 spacesfs status nosuchpool
fits 80
on_terminal 80 spacesfs pool create other "'$T/there is no such place/whatever the length of its name may be, it is not there'"
is "$(head -c 9 plain)" "spacesfs:"
on_terminal 80 spacesfs mount größe/文档 m
has 'already mounted' plain || fail "no error"

say "colour: on a terminal, not with NO_COLOR, not on a dumb one, not elsewhere"
coloured() { grep -q $'\e\[[0-9;]*m' shown; }
on_terminal 80 spacesfs status größe
coloured || fail "no colour"
on_terminal 80 NO_COLOR=1 spacesfs status größe
coloured && fail "colour with NO_COLOR"
on_terminal 80 TERM=dumb spacesfs status größe
grep -q $'\e' shown && fail "escapes on a dumb terminal"
spacesfs status größe > shown || true
grep -q $'\e' shown && fail "escapes in a file"
has -F "$T/$long" shown || { cat shown; fail "a path is cut in a file"; }
LC_ALL=C spacesfs status größe > shown || true
grep -q '█' shown && fail "a bar of UTF-8 in another locale"

say "where columns begin: aligned by what is seen"
on_terminal 120 spacesfs disk list größe
# Byte offsets differ, columns don't: everything before STATE is padded to the same width.
is "$(sed -n 's/\(.*\)\(online\|missing\|STATE\).*/\1/p' plain | while IFS= read -r line; do printf '%s\n' "$line" | wc -L; done | sort -u | wc -l)" 1 "starts of the column STATE"
spacesfs umount m
spacesfs umount "a mountpoint with a name that is longer than most others are"
