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
qemu-img create -q -f qcow2 -b off.qcow2 -F qcow2 m/child.qcow2
qemu-io -f qcow2 -c "write -P 3 1M 1M" m/child.qcow2 > said
qemu-img commit -q m/child.qcow2
spacesfs umount m
spacesfs mount p/s m
qemu-img check -q m/off.qcow2
cp m/raw.img raw
qemu-img compare -q raw m/again.img
spacesfs umount m
