#!/bin/bash
# What a pool says of itself in each state, word by word, against tests/words. Dates, sizes, bars and paths are left out of it.
# SFS_WORDS_WRITE=1 writes down what is said now: read it as somebody would who has never seen the manual, before committing it.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool jq
require_free 2000
words=$HERE/../words
export COLUMNS=200

mkdir d1 d2 d3 m
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs mount p/s m
spacesfs pool set p heal-delay=1h > /dev/null
head -c 300000 /dev/urandom > keep
printf 'a needle in the file' | dd of=keep bs=1 seek=100000 conv=notrunc status=none
for i in 1 2 3 4 5 6; do cp keep "m/file$i"; done # on every disk
sync m/file*
plain() { # which two of the three disks a file is on may differ
    sed -E "s|$T|/tmp|g; s/d[123][+]d[123]/DISK+DISK/g; s/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}/DATE/g; s/[0-9.]+ ([KMGT]iB|B)(\/s)?/SIZE/g; s/[0-9]+ %/N %/g; s/(epoch|slab groups?|job) [0-9]+/\1 N/g; s/[0-9]+ (slab|copy|copies|blocks|files|cop)/N \1/g; s/[█▉▊▋▌▍▎▏░─━# =.-]{12,}/ /g; s/ +/ /g; s/ $//"
}
said() { # STATE COMMAND...: compares what it says now
    local file=$1.txt
    shift
    "$@" 2>&1 | plain > now || true
    if [ -n "${SFS_WORDS_WRITE:-}" ]; then
        cp now "$words/$file"
    else
        diff -u "$words/$file" now || fail "other words than in tests/words/$file"
    fi
}
verdict() { spacesfs status p | sed -n '1,/^$/p'; }
last_words() { spacesfs events p --max 0 --json | jq -r 'select(.kind == $ARGS.positional[0]) | "\(.severity): \(.text)"' --args "$1" | tail -n 1; }

say "healthy"
within 30 health_is p healthy
said healthy-status verdict
said healthy-jobs spacesfs jobs p
said healthy-where spacesfs where m/file1
said healthy-damage spacesfs damage p

say "a disk is away"
take d3
within 40 health_is p degraded
said degraded-status verdict
said degraded-impact-of-it sh -c "spacesfs impact p d3 | head -n 2"
within 20 sh -c 'spacesfs events p --max 0 --json | grep -q "\"degraded\""'
said degraded-event last_words degraded
said lost-event last_words disk-lost

say "healed without it"
spacesfs heal p --wait > /dev/null
said healed-status verdict
said healed-event last_words redundancy-restored
bring d3
within 60 health_is p healthy
said returned-event last_words disk-returned

say "damaged"
spacesfs umount m
within 20 no_daemon
grep -rlaF 'a needle in the file' d?/.spacesfs/slabs | while read -r slab; do
    grep -aboF 'a needle in the file' "$slab" | cut -d: -f1 | while read -r at; do
        printf 'rotten' | dd of="$slab" bs=1 seek="$at" conv=notrunc status=none
    done
done
rm -f keep
spacesfs mount p/s m
rm m/file[2-6]
cat m/file1 > /dev/null 2>&1 && fail "damaged data is read"
within 20 health_is p at-risk
said damaged-status verdict
said damaged-list spacesfs damage p
said damaged-where spacesfs where m/file1
within 20 sh -c 'spacesfs events p | grep -q "no good copy is left"'
said damaged-event last_words damage
spacesfs umount m
within 20 no_daemon
