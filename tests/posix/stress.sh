#!/bin/bash
# Several processes change one tree at once; then it must hold together, before and after a remount and after the daemon was killed. SFS_STRESS_OPS: operations of each (2,500).
. "$(dirname "$0")/../mount/lib.sh"
PATH=$SFS_BUILD/tests/posix:$PATH
require_fuse
ops=${SFS_STRESS_OPS:-2500}

mkdir d1 d2 m
spacesfs pool create p d1,size=3G d2,size=3G
spacesfs space create p/s --resiliency mirror2
spacesfs space create p/z --resiliency simple --compression zstd
for space in s z; do
    spacesfs mount p/$space m
    stress m --seed 1 --ops "$ops"
    spacesfs umount m
    spacesfs mount p/$space m
    say "after a remount"
    stress m --check
    say "and on it goes"
    stress m --seed 2 --ops "$ops" --processes 8
    sync m
    spacesfs umount m
    spacesfs mount p/$space m
    stress m --check
    (stress m --seed 3 --ops 1000000 > /dev/null 2>&1 || true) &
    sleep 2
    kill_daemon "$(daemon_of p)"
    wait
    spacesfs mount p/$space m
    say "after a kill"
    stress m --check
    rm -rf m/*
    is "$(find m -mindepth 1 | wc -l)" 0 "files left"
    is "$(stat -c %h m)" 2 "links of the root"
    spacesfs umount m
done
spacesfs status p
