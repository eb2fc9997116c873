#!/bin/bash
# Random operations against a copy in memory, every byte compared: calls, O_DIRECT, shared mappings, holes, clones. A short run; the target fsx-million is the
# long one (all four kinds of space, with and without O_DIRECT and mappings).
#
# SFS_FSX_OPS: operations in each run (2,500). SFS_FSX_SEED: the first seed (1).
. "$(dirname "$0")/../mount/lib.sh"
PATH=$SFS_BUILD/tests/posix:$PATH
require_fuse
ops=${SFS_FSX_OPS:-2500} seed=${SFS_FSX_SEED:-1}

mkdir d1 d2 m
spacesfs pool create p d1,size=2G d2,size=2G
for kind in "mirror2 off" "simple zstd" "mirror2 zstd" "simple off"; do
    read -r resiliency compression <<< "$kind"
    name=$resiliency-$compression
    spacesfs space create "p/$name" --resiliency "$resiliency" --compression "$compression"
    spacesfs mount "p/$name" m
    for how in "" "--no-direct" "--no-mmap" "--no-direct --no-mmap"; do
        [ "$ops" -ge 100000 ] || [ -z "$how" ] || [ "$kind" = "mirror2 off" ] || continue
        rm -rf m/*
        # shellcheck disable=SC2086
        fsx m --seed "$seed" --ops "$ops" $how > said || { cat said; fail "$kind $how"; }
        say "$kind $how: $(tail -n 1 said)"
        seed=$((seed + 1))
    done
    cp m/fsx-0 m/fsx-1 m/fsx-2 .
    spacesfs umount m
    spacesfs mount "p/$name" m
    for k in 0 1 2; do cmp fsx-$k m/fsx-$k; done
    spacesfs umount m
done
spacesfs status p
