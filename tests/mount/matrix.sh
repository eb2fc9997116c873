#!/bin/bash
# Every resiliency on pools of the fewest disks it takes, 3, 4, 5 and 7, of one size and of several: all is read without any disks that it bears to lose, healed where there are disks to heal on, and read again after
# the next loss; beyond the promise what survives is read, and the rest is an error and listed.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 3000

declare -A done_=() MIN=([simple]=1 [mirror2]=2 [mirror3]=3 [parity]=3 [parity2]=4) BEARS=([simple]=0 [mirror2]=1 [mirror3]=2 [parity]=1 [parity2]=2)
mkdir m
mktree src 60 5
stream_bytes=$((7 << 20))

size_of() { [ "$1" = equal ] && echo 96M || echo $((64 + ($2 * 37) % 64))M; }

make() { # RESILIENCY DISKS SIZES
    local i disks=()
    for ((i = 1; i <= $2; i++)); do
        mkdir -p "d$i"
        disks+=("d$i,size=$(size_of "$3" "$i")")
    done
    spacesfs pool create p "${disks[@]}" > /dev/null 2>&1
    spacesfs pool set p heal-delay=1h > /dev/null
    spacesfs space create p/s --resiliency "$1" > /dev/null
    spacesfs mount p/s m
    cp -a src m/a
    bigfile write m/big $stream_bytes 1
    for i in 1 2 3; do # small and synchronous, too
        bigfile write "m/small$i" 20000 "$i"
        sync "m/small$i"
    done
    stored
}

right() {
    treecmp src m/a
    bigfile check m/big $stream_bytes 1
    for i in 1 2 3; do bigfile check "m/small$i" 20000 "$i"; done
}

gone() {
    spacesfs umount m 2> /dev/null || true
    within 20 no_daemon
    rm -rf d? drawer "$SFS_STATE_DIR"/*
}

# As many disks as it bears are away; the last and the first, or the first two, among them.
losses() { # RESILIENCY DISKS SIZES
    local bears=${BEARS[$1]} a b
    ((bears > 0)) || return 0
    for a in $([ "$3" = mixed ] || echo 1) "$2"; do
        b=$((a % $2 + 1))
        spacesfs umount m
        within 20 no_daemon
        take "d$a"
        ((bears < 2)) || take "d$b"
        spacesfs mount p/s m -o wait=0,degraded=ro 2> /dev/null
        right
        spacesfs umount m
        within 20 no_daemon
        bring "d$a"
        ((bears < 2)) || bring "d$b"
        spacesfs mount p/s m -o wait=0
    done
}

healed() { # RESILIENCY DISKS: one goes for good, what can be is healed, then the next
    local bears=${BEARS[$1]}
    ((bears > 0)) || return 0
    take "d$2"
    right
    bigfile write m/later 300000 9
    sync m/later
    if (($2 > MIN[$1])); then
        spacesfs heal p --wait > /dev/null
    fi
    if (($2 > MIN[$1] || bears > 1)); then
        take d1
        right
        bigfile check m/later 300000 9
    fi
}

beyond() { # RESILIENCY DISKS: more than it bears: an error or the right bytes, names whole
    local bears=${BEARS[$1]} i
    (($2 > bears)) || return 0
    spacesfs umount m
    within 20 no_daemon
    for ((i = 1; i <= $2; i++)); do
        [ ! -d "drawer/d$i" ] || bring "d$i"
    done
    for ((i = 1; i <= bears + 1 && i < $2; i++)); do take "d$((i + 1))"; done
    spacesfs mount p/s m -o wait=0,degraded=ro > /dev/null 2>&1 || return 0
    diff <(cd src && find . | sort) <(cd m/a && find . | sort) || fail "names are missing"
    (cd src && find . -type f -print0) | while IFS= read -r -d '' f; do
        cat "m/a/$f" > got 2> /dev/null || continue
        cmp -s got "src/$f" || fail "$f reads wrong"
    done
}

for r in ${MATRIX:-simple mirror2 mirror3 parity parity2}; do
    for n in "${MIN[$r]}" 3 4 5 7; do
        ((n >= MIN[$r])) || continue
        for sizes in equal mixed; do
            [ -z "${done_[$r$n$sizes]-}" ] || continue
            done_["$r$n$sizes"]=1
            say "$r on $n disks, $sizes"
            make "$r" "$n" "$sizes"
            right
            losses "$r" "$n" "$sizes"
            healed "$r" "$n"
            beyond "$r" "$n"
            gone
        done
    done
done
