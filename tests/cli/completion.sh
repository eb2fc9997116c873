#!/bin/bash
# Completion of command lines in bash and zsh, held against the help: every command, every option, arguments by their kind.
# usage: completion.sh PROGRAM
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export SFS_STATE_DIR="$work/state" SFS_RUN_DIR="$work/run" LC_ALL=C.UTF-8
mkdir -p "$work/state/pools" "$work/run" "$work/bin" "$work/files/folder"
touch "$work/files/file"
chmod 700 "$work/run"
ln -s "$program" "$work/bin/spacesfs"
PATH=$work/bin:$PATH
cd "$work/files" || exit 1
failed=0
fail() { echo "FAIL: $*"; failed=1; }

spacesfs completion bash > "$work/bash" || fail "completion bash"
spacesfs completion zsh > "$work/zsh" || fail "completion zsh"
spacesfs completion fish > /dev/null 2>&1 && fail "completion fish: there is none"
bash -n "$work/bash" || fail "bash refuses the script"
spacesfs pool create tank "$work/a.img,size=80M" "$work/b.img,size=80M,name=bee" --slab-size 1M > /dev/null 2>&1 || fail "pool create"
spacesfs space create tank/docs -r mirror2 > /dev/null || fail "space create"

# Each prints what would be offered for the last word, a line each, sorted.
in_bash() {
    bash --norc -c '. "$1"; shift; COMP_WORDS=(spacesfs "$@"); COMP_CWORD=$#; _spacesfs; printf "%s\n" "${COMPREPLY[@]}"' - "$work/bash" "$@" 2>&1 | sort -u | sed '/^$/d'
}
# zsh itself matches what is typed: here that is done by hand.
in_zsh() {
    zsh -f -c '
        compdef() { : }
        _files() { [[ $1 == -/ ]] && compadd -- *(/N) || compadd -- *(N) }
        _default() { : }
        compadd() { local tail=; [[ $1 == -S ]] && { tail=$2; shift 2 }; shift; local w; for w; do [[ $w == ${words[CURRENT]}* ]] && print -r -- $w$tail; done; return 0 }
        . $1; shift; words=(spacesfs "$@"); CURRENT=$(($# + 1)); _spacesfs' - "$work/zsh" "$@" 2>&1 | sort -u | sed '/^$/d'
}
shells=(in_bash)
if command -v zsh > /dev/null; then
    zsh -n "$work/zsh" || fail "zsh refuses the script"
    shells+=(in_zsh)
else
    echo "zsh is not installed: only bash was tried"
fi

offers() { # EXPECTED WORDS...
    local expected=$1 shell got
    shift
    for shell in "${shells[@]}"; do
        got=$($shell "$@" | tr '\n' ' ')
        [ "$got" = "${expected:+$expected }" ] || fail "$shell: $* offers \"$got\", not \"$expected\""
    done
}

# Commands and options, as the help has them.
spacesfs --help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)\(  .*\|\)$/\1/p' > "$work/commands"
first=$({ printf '%s\n' --help --version; cut -d ' ' -f 1 "$work/commands"; } | sort -u | tr '\n' ' ')
offers "${first% }" ''
for group in pool disk space; do
    second=$({ echo --help; sed -n "s/^$group //p" "$work/commands"; } | sort -u | tr '\n' ' ')
    offers "${second% }" $group ''
done
while read -r command; do
    # shellcheck disable=SC2086 (the command is one or two words)
    options=$(spacesfs $command --help | grep -e '^  -' | grep -o -e '^  -[a-zA-Z],* ' -e '--[a-z][a-z-]*' | tr -d ' ,' | grep -e '^--' | sort -u | tr '\n' ' ')
    for shell in "${shells[@]}"; do
        # shellcheck disable=SC2086
        got=$($shell $command --  | tr '\n' ' ')
        [ "$got" = "$options" ] || fail "$shell: options of $command: \"$got\", the help has \"$options\""
    done
done < "$work/commands"

# Arguments.
offers 'tank' status ''
offers 'tank' pool destroy --yes ta
offers 'tank/' mount ''
offers 'tank/docs' mount tank/
offers 'folder' mount tank/docs ''
offers 'folder' mount -o noatime tank/docs ''
offers 'file folder' where ''
offers 'file folder' where file ''
offers 'file folder' disk add tank ''
offers 'a.img bee' disk set tank ''
offers '' disk list tank ''
offers 'mirror2 mirror3' space create tank/x --resiliency mir
offers 'fixed thin' space create tank/x --provisioning ''
offers 'off zstd' space create tank/x --compression ''
offers 'bash zsh' completion ''
offers '' nonsense ''
exit $failed
