#!/bin/sh
# Runs the hooks that stand as examples in spacesfs-hooks(5), with a mail and a curl that say what they were given.
# usage: hook_examples.sh MAN_DIR
set -u
man=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; cat "$work"/out* 2> /dev/null; exit 1; }

# Each .EX that begins with #! becomes a file.
sed -e 's/\\-/-/g' -e 's/\\e/\\/g' "$man/spacesfs-hooks.5" | awk -v dir="$work" '
    /^\.EX/ { first = 1; next }
    /^\.EE/ { if (name) close(name); name = ""; next }
    first { first = 0; if (/^#!/) name = dir "/hook" ++n }
    name { print > name }'
[ -f "$work/hook2" ] && [ ! -f "$work/hook3" ] || fail "there are not two examples"
chmod +x "$work"/hook?
mkdir "$work/bin"
for tool in mail curl; do
    printf '#!/bin/sh\necho "%s $*"\ncat\n' $tool > "$work/bin/$tool"
done
chmod +x "$work"/bin/*
run() { # HOOK KIND EVENT
    echo '{"event": "it"}' | env -i PATH="$work/bin:$PATH" SPACESFS_POOL=tank SPACESFS_EVENT="$3" SPACESFS_KIND="$2" SPACESFS_SEVERITY=error \
        SPACESFS_SUBJECT=d1 SPACESFS_TEXT="disk d1 is out of use: 100 %" SPACESFS_TIME=2026-11-30T22:05:00Z "$work/$1" "$3" > "$work/out" 2>&1
}
run hook1 disk-lost disk-failed || fail "the mail hook ends with $?"
printf 'mail -s spacesfs: disk-failed on tank root\ndisk d1 is out of use: 100 %%\n\ndisk-lost on pool tank, 2026-11-30T22:05:00Z\n' > "$work/want"
cmp -s "$work/out" "$work/want" || fail "the mail hook does something else"
run hook2 disk-lost disk-failed || fail "the web hook ends with $?"
grep -q '^curl .*--data-binary @- https://example.org' "$work/out" && grep -q '^{"event": "it"}$' "$work/out" || fail "the web hook does something else"
run hook2 full-80 full || fail "the web hook ends with $? for full-80"
[ ! -s "$work/out" ] || fail "the web hook is called for full-80"
