# bash completion for spacesfs, made by `spacesfs completion bash`.
_spacesfs_pools() {
    local dir=$SFS_STATE_DIR file
    if [[ -z $dir ]]; then
        dir=/var/lib/spacesfs
        [[ $EUID -eq 0 ]] || dir=${XDG_STATE_HOME:-$HOME/.local/state}/spacesfs
    fi
    for file in "$dir"/pools/*; do
        [[ ! -f $file || $file == *'#'* ]] || printf '%s\n' "${file##*/}"
    done
}
_spacesfs_spaces() { # POOL
    timeout 3 spacesfs space list "$1" 2> /dev/null | sed -n '2,$s/^\([^ ]*\).*/\1/p'
}
_spacesfs_disks() { # POOL
    timeout 3 spacesfs disk list "$1" 2> /dev/null | sed -n '2,$s/^\([^ ]*\).*/\1/p'
}
_spacesfs_mounts() {
    awk '$3 == "fuse.spacesfs" { print $2 }' /proc/mounts
}
_spacesfs_words() { compgen -W "$1" -- "$2"; }

_spacesfs_about() { # COMMAND: sets args, flags, valued
    case $1 in
@TABLE@
    *) return 1 ;;
    esac
}

@WORDS@
_spacesfs_argument() { # KIND CURRENT FIRST: what may stand there
    case $1 in
    POOL) _spacesfs_words "$(_spacesfs_pools)" "$2"; [[ $2 != */* ]] || compgen -f -- "$2" ;;
    POOL/SPACE)
        if [[ $2 == /* || $2 == .* ]]; then
            compgen -f -- "$2"
        elif [[ $2 == */* ]]; then
            _spacesfs_words "$(_spacesfs_spaces "${2%/*}")" "$2"
        else
            _spacesfs_words "$(_spacesfs_pools | sed 's,$,/,')" "$2"
        fi ;;
    MOUNT) _spacesfs_words "$(_spacesfs_mounts)" "$2" ;;
    MEMBER) _spacesfs_words "$(_spacesfs_disks "$3")" "$2" ;;
    DIR) compgen -d -- "$2" ;;
    DISK | PATH | FILE | NEW) compgen -f -- "$2" ;;
    SHELL) _spacesfs_words 'bash zsh' "$2" ;;
    esac
}

_spacesfs() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} from=2 args flags valued i n=0 word kind first=
    local IFS=$' \t\n'
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        mapfile -t COMPREPLY < <(_spacesfs_words "$_spacesfs_first" "$cur")
        return
    fi
    case " $_spacesfs_groups " in
    *" $command "*)
        if [[ $COMP_CWORD -eq 2 ]]; then
            mapfile -t COMPREPLY < <(_spacesfs_words "$(_spacesfs_group "$command")" "$cur")
            return
        fi
        command="$command ${COMP_WORDS[2]}" from=3 ;;
    esac
    _spacesfs_about "$command" || return
    for word in $valued; do # "--size=SIZE", "-o=OPTIONS"
        [[ $prev != "${word%%=*}" ]] || { mapfile -t COMPREPLY < <(_spacesfs_words "$(tr '|' ' ' <<< "${word#*=}")" "$cur"); return; }
    done
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(_spacesfs_words "$flags $(for word in $valued; do echo "${word%%=*}"; done)" "$cur")
        return
    fi
    for ((i = from; i < COMP_CWORD; i++)); do # which argument is it?
        word=${COMP_WORDS[i]}
        [[ " $valued" != *" ${COMP_WORDS[i - 1]}="* || $i -eq $from ]] || continue
        [[ $word != -* ]] || continue
        ((n)) || first=$word
        n=$((n + 1))
    done
    set -- $args
    [[ $n -lt $# || ${*: -1} != *... ]] || n=$(($# - 1)) # the last may come again and again
    kind=${*:n + 1:1}
    kind=${kind%...}
    mapfile -t COMPREPLY < <(_spacesfs_argument "$kind" "$cur" "$first")
    [[ $kind != DISK && $kind != PATH && $kind != FILE && $kind != DIR && $kind != NEW ]] || compopt -o filenames 2> /dev/null
    [[ ${COMPREPLY[0]:-} != */ ]] || compopt -o nospace 2> /dev/null
}
complete -F _spacesfs spacesfs
