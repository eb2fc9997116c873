#compdef spacesfs
# zsh completion for spacesfs, made by `spacesfs completion zsh`.
_spacesfs_pools() {
    local dir=${SFS_STATE_DIR:-} file
    if [[ -z $dir ]]; then
        dir=/var/lib/spacesfs
        (( EUID == 0 )) || dir=${XDG_STATE_HOME:-$HOME/.local/state}/spacesfs
    fi
    for file in $dir/pools/*(N.); do
        [[ $file == *'#'* ]] || print -r -- ${file:t}
    done
}
_spacesfs_spaces() { timeout 3 spacesfs space list $1 2> /dev/null | sed -n '2,$s/^\([^ ]*\).*/\1/p' }
_spacesfs_disks() { timeout 3 spacesfs disk list $1 2> /dev/null | sed -n '2,$s/^\([^ ]*\).*/\1/p' }
_spacesfs_mounts() { awk '$3 == "fuse.spacesfs" { print $2 }' /proc/mounts }

_spacesfs_about() { # COMMAND: sets args, flags, valued
    case $1 in
@TABLE@
    *) return 1 ;;
    esac
}

@WORDS@
_spacesfs_argument() { # KIND CURRENT FIRST
    case $1 in
    POOL) if [[ $2 == */* ]]; then _files; else compadd -- ${(f)"$(_spacesfs_pools)"}; fi ;;
    POOL/SPACE)
        if [[ $2 == /* || $2 == .* ]]; then _files
        elif [[ $2 == */* ]]; then compadd -- ${(f)"$(_spacesfs_spaces ${2%/*})"}
        else compadd -S / -- ${(f)"$(_spacesfs_pools)"}; fi ;;
    MOUNT) compadd -- ${(f)"$(_spacesfs_mounts)"} ;;
    MEMBER) compadd -- ${(f)"$(_spacesfs_disks $3)"} ;;
    DIR) _files -/ ;;
    DISK|PATH|FILE|NEW) _files ;;
    SHELL) compadd -- bash zsh ;;
    esac
}

_spacesfs() {
    local cur=${words[CURRENT]} prev=${words[CURRENT-1]} command=${words[2]} args flags valued word first=
    integer from=3 i n=0
    local -a kinds
    if (( CURRENT == 2 )); then compadd -- ${=_spacesfs_first}; return; fi
    if [[ " $_spacesfs_groups " == *" $command "* ]]; then
        if (( CURRENT == 3 )); then compadd -- ${="$(_spacesfs_group $command)"}; return; fi
        command="$command ${words[3]}"
        from=4
    fi
    _spacesfs_about $command || return 1
    for word in ${=valued}; do
        if [[ $prev == ${word%%=*} ]]; then
            if [[ -n ${word#*=} ]]; then compadd -- ${(s:|:)${word#*=}}; else _default; fi
            return
        fi
    done
    if [[ $cur == -* ]]; then
        compadd -- ${=flags} ${${=valued}%%=*}
        return
    fi
    for (( i = from; i < CURRENT; i++ )); do
        word=${words[i]}
        (( i > from )) && [[ " $valued" == *" ${words[i-1]}="* ]] && continue
        [[ $word == -* ]] && continue
        (( n )) || first=$word
        (( n += 1 ))
    done
    kinds=(${=args})
    (( n >= $#kinds )) && [[ ${kinds[-1]} == *... ]] && n=$(( $#kinds - 1 ))
    (( n < $#kinds )) || return 0
    _spacesfs_argument ${kinds[n+1]%...} "$cur" "$first"
}
if [[ $funcstack[1] == _spacesfs ]]; then _spacesfs "$@"; else compdef _spacesfs spacesfs; fi
