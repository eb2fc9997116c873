#!/bin/bash
# qcow2 and raw images: made with and without preallocation, written at random, snapshots, converted, compared, checked; O_DIRECT and cached.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_tool qemu-img qemu-io

small_pool
for how in off metadata falloc; do
    qemu-img create -q -f qcow2 -o preallocation=$how m/$how.qcow2 256M
done
qemu-img create -q -f raw m/raw.img 256M
script=()
for k in $(seq 200); do
    off=$((RANDOM * 8192 % (250 << 20))) len=$(((RANDOM % 64 + 1) * 512))
    case $((k % 5)) in
    0) script+=(-c "read $off 64k") ;;
    1) script+=(-c "write -z $off 128k") ;;
    *) script+=(-c "write -P $((k % 255)) $off $len") ;;
    esac
    [ $((k % 20)) -ne 0 ] || script+=(-c flush)
done
for cache in none writeback directsync; do
    for image in off metadata falloc; do qemu-io -f qcow2 -t $cache "${script[@]}" m/$image.qcow2 > said 2>&1 || { cat said; fail "$image, cache $cache"; }; done
    qemu-io -f raw -t $cache "${script[@]}" m/raw.img > said 2>&1 || { cat said; fail "raw, cache $cache"; }
done
for image in off metadata falloc; do
    qemu-img check -q m/$image.qcow2
    qemu-img compare -q m/$image.qcow2 m/raw.img
done
qemu-img snapshot -c one m/off.qcow2
qemu-io -f qcow2 -c "write -P 9 0 64M" m/off.qcow2 > said
qemu-img snapshot -a one m/off.qcow2
qemu-img check -q m/off.qcow2
qemu-img compare -q m/off.qcow2 m/raw.img
qemu-img convert -q -O qcow2 -c m/off.qcow2 m/packed.qcow2
qemu-img convert -q -O raw m/packed.qcow2 m/again.img
qemu-img compare -q m/again.img m/raw.img

say "discards: what a guest trims is given back, by every way of opening, and nothing else changes"
blocks() { du -k "$1" | cut -f 1; }
used() { df --output=used -k m | tail -n 1 | tr -d ' '; }
for cache in none writeback directsync; do
    for format in qcow2 raw; do
        image=m/trim.$format
        rm -f $image "host.$format"
        script=(-c "write -P 7 0 64M" -c "write -P 8 64M 64M" -c flush)
        for k in $(seq 40); do # whole clusters: less than that qcow2 doesn't discard
            off=$((RANDOM % 1900 * 65536)) len=$(((RANDOM % 40 + 1) * 65536))
            case $((k % 3)) in
            0) script+=(-c "write -P $((k + 10)) $off $len") ;;
            1) script+=(-c "write -z -u $off $len") ;;
            *) script+=(-c "discard $off $len") ;;
            esac
        done
        for at in "$image" "host.$format"; do
            qemu-img create -q -f $format "$at" 256M
            qemu-io -f $format -d unmap -t $cache "${script[@]}" -c flush "$at" > said 2>&1 || { cat said; fail "$at, cache $cache"; }
        done
        qemu-img compare -q -f $format -F $format $image host.$format
        sync $image
        before=$(blocks $image)
        df_before=$(used)
        qemu-io -f $format -d unmap -t $cache -c "discard 0 64M" -c flush $image > said 2>&1 || { cat said; fail "discard, cache $cache"; }
        qemu-io -f $format -d unmap -t $cache -c "discard 0 64M" -c flush host.$format > said
        after=$(blocks $image)
        [ "$after" -le 70000 ] && [ "$after" -lt "$before" ] || fail "$format, cache $cache: $before KiB before the discard, $after KiB behind it"
        is "$(qemu-io -f $format -c "read -P 0 0 64M" $image | grep -c 'Pattern verification failed')" 0 "discarded, and not zeros"
        qemu-img compare -q -f $format -F $format $image host.$format
        sync $image
        [ "$(used)" -le $((df_before - (before - after) / 2)) ] || fail "$format, cache $cache: df says $df_before KiB, then $(used) KiB"
    done
    qemu-img check -q m/trim.qcow2
done
spacesfs umount m
spacesfs mount p/s m
for format in qcow2 raw; do qemu-img compare -q -f $format -F $format m/trim.$format host.$format; done

qemu-img create -q -f qcow2 -b off.qcow2 -F qcow2 m/child.qcow2
qemu-io -f qcow2 -c "write -P 3 1M 1M" m/child.qcow2 > said
qemu-img commit -q m/child.qcow2
spacesfs umount m
spacesfs mount p/s m
qemu-img check -q m/off.qcow2
cp m/raw.img raw
qemu-img compare -q raw m/again.img
spacesfs umount m
