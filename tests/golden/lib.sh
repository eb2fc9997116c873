# What the golden pool holds, and how it is told: shared by `make` and by tests/mount/golden.sh. Sourced.
# shellcheck shell=bash
# Everything about a tree that a filesystem keeps, as text, in an order that is always the same. Times but those that were set are left out.
manifest() { # DIR
    (
        cd "$1" || exit 1
        find . -mindepth 1 -printf '%P\n' | LC_ALL=C sort | while IFS= read -r name; do
            stat -c "%n|%F|%a|%u:%g|%h links|%t:%T" -- "$name"
            case $(stat -c %F -- "$name") in
            "symbolic link") echo "  to $(readlink -- "$name")" ;;
            "regular file" | "regular empty file")
                echo "  $(stat -c "%s bytes, changed %y" -- "$name" | sed 's/ +0000$//')"
                echo "  $(sha256sum < "$name" | cut -d ' ' -f 1)"
                ;;
            esac
            getfattr -h -d -m '^user\.' -e hex -- "$name" 2> /dev/null | sed -n 's/^user/  user/p'
        done
    )
}
