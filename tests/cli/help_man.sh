#!/bin/sh
# Holds the help texts against the manual, in both directions: every command stands in spacesfs.8 and has a section in one of the pages; that section
# names exactly the options that the command's --help names.
# usage: help_man.sh PROGRAM MAN_DIR
set -u
program=$1 man=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "FAIL: $*"; failed=1; }

# Manual pages as plain text: no font changes, hyphens as hyphens.
for page in "$man"/*.[1-9]; do
    sed -e 's/\\f[BIRP]//g' -e 's/\\-/-/g' "$page" > "$work/${page##*/}"
done

# Lines of a help that begin with two blanks and a word name a command or an option.
"$program" --help > "$work/help" || fail "spacesfs --help: exit status $?"
sed -n 's/^  \([a-z][a-z ]*[a-z]\)\(  .*\|\)$/\1/p' "$work/help" > "$work/commands"
count=$(wc -l < "$work/commands")
[ "$count" -ge 20 ] || fail "only $count commands were found in the help"

options_of() { grep -o -e '--[a-z][a-z-]*' | sort -u; }

while read -r command; do
    grep -q "^\.B spacesfs $command\$" "$work/spacesfs.8" || fail "spacesfs.8 doesn't list: $command"
    # The section: from ".SS spacesfs COMMAND" (then a blank and arguments, or the end) to the next heading.
    cat "$work"/*.8 | awk -v want=".SS spacesfs $command" '
        /^\.S[SH]/ { inside = ($0 == want || index($0, want " ") == 1); if (inside) seen = 1 }
        inside && /^--|^-[a-z], --/ { print }
        END { exit !seen }' > "$work/section" || fail "no page has a section on: $command"
    options_of < "$work/section" > "$work/in_man"
    # shellcheck disable=SC2086 (the command is one or two words)
    "$program" $command --help > "$work/text" || fail "spacesfs $command --help: exit status $?"
    grep -e '^  -' "$work/text" | sed 's/^\(  -[a-z],\)* *\(--[a-z-]*\).*/\2/' | options_of > "$work/in_help"
    if ! cmp -s "$work/in_help" "$work/in_man"; then
        fail "options of $command differ (< help, > manual):"
        diff "$work/in_help" "$work/in_man"
    fi
    # Nothing in a help is wider than a terminal.
    awk -v command="$command" 'length($0) > 80 { print "FAIL: too wide in the help of " command ": " $0; bad = 1 } END { exit bad }' "$work/text" || failed=1
done < "$work/commands"

for group in pool disk job space; do
    "$program" $group --help > "$work/group" || fail "spacesfs $group --help: exit status $?"
    grep -q "spacesfs-$group(8)" "$work/group" || fail "spacesfs $group --help doesn't name its page"
    [ -f "$man/spacesfs-$group.8" ] || fail "there is no page spacesfs-$group.8"
done
exit $failed
