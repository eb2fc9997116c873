#!/bin/bash
# Capacity that is true: spaces of every resiliency on six equal disks of the smallest size are filled to the end. They hold what the layout can, df never promised more, nobody hangs; in a full pool everything stored is right, can be cut and deleted,
# and what comes free is usable within seconds.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 1000

mkdir m
RAW=$((6 * 64 << 20))
declare -A LEAST=([simple]=990 [mirror2]=495 [mirror3]=330 [parity]=820 [parity2]=660) # of 1000 parts of the raw size

avail() { df -B1 --output=avail m | tail -n 1; }

field() { sed -n 's/.*"'"$1"'": *\([0-9]*\).*/\1/p' | head -n 1; } # < JSON
fits() { rm -f m/fits && bigfile write m/fits $((8 << 20)) 3 > /dev/null 2>&1; }

for r in simple mirror2 mirror3 parity parity2; do
    say "$r"
    disks=()
    for i in 1 2 3 4 5 6; do
        mkdir "d$i"
        disks+=("d$i,size=64M")
    done
    spacesfs pool create p "${disks[@]}" > /dev/null 2>&1
    spacesfs space create p/s --resiliency $r > /dev/null
    spacesfs mount p/s m
    promised=$(avail)
    is $(($(spacesfs space list p --json | field avail_bytes) / 4096)) $((promised / 4096)) "what space list says is free, beside df, in blocks"

    code=0
    timeout 120 bigfile write m/full $((1 << 30)) 1 > said 2>&1 || code=$?
    is $code 3 "the end of filling it"
    wrote=$(stat -c %s m/full)
    say "$wrote bytes of $RAW: $((wrote * 1000 / RAW)) of 1000 parts"
    [ $((wrote * 1000)) -ge $((LEAST[$r] * RAW)) ] || fail "$r holds $((wrote * 1000 / RAW)) of 1000 parts of the disks, not ${LEAST[$r]}"
    [ "$wrote" -ge $((promised / 1000 * 995)) ] || fail "df promised $promised bytes, $wrote could be written"
    timeout 60 sync m/full || fail "what was accepted is not stored"
    [ "$(avail)" -le $((1 << 20)) ] || fail "df says that $(avail) bytes are free in a full space"
    spacesfs umount m
    spacesfs mount p/s m
    bigfile check m/full "$wrote" 1
    health_is p healthy || { cat status; fail "a full pool isn't healthy"; }

    # Existing data can be written over, cut and deleted; what comes free is usable within seconds.
    dd if=/dev/zero of=m/full bs=64K count=1 conv=notrunc,fsync status=none || fail "nothing can be overwritten in a full pool"
    timeout 20 truncate -s $((wrote / 2)) m/full || fail "a file can't be cut in a full pool"
    within 20 fits
    bigfile check m/fits $((8 << 20)) 3
    timeout 20 rm m/full m/fits
    within 20 fits
    bigfile check m/fits $((8 << 20)) 3
    spacesfs umount m
    within 20 no_daemon
    rm -rf d? "$SFS_STATE_DIR"/*
done
