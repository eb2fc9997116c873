#!/bin/sh
# Bad input: exit status and words. Nothing here needs a pool, and nothing may be made.
# usage: usage.sh PROGRAM
set -u
program=$1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export SFS_STATE_DIR="$work/state" SFS_RUN_DIR="$work/run" LC_ALL=C.UTF-8
mkdir "$work/run" "$work/disk"
failed=0

# expect STATUS PATTERN ARGUMENTS...: the exit status, and an extended regular expression that standard error has to match as a whole.
expect() {
    status=$1 pattern=$2
    shift 2
    "$program" "$@" > "$work/out" 2> "$work/err" < /dev/null
    got=$?
    if [ "$got" -ne "$status" ] || ! grep -Eqx -e "spacesfs: $pattern" "$work/err"; then
        echo "FAIL: spacesfs $*"
        echo "  exit status $got, expected $status; expected text: spacesfs: $pattern; got:"
        sed 's/^/    /' "$work/err"
        failed=1
    fi
    if [ -s "$work/out" ]; then
        echo "FAIL: spacesfs $*: an error, yet there is output:"
        sed 's/^/    /' "$work/out"
        failed=1
    fi
}
see() { printf '%s' " See \`spacesfs $1 --help\`."; }

# Commands
expect 2 'No command given\. `spacesfs --help` lists what there is\.'
expect 2 'There is no command `stats`\. Did you mean `spacesfs status`\?' stats
expect 2 'There is no command `pool crate`\. Did you mean `spacesfs pool create`\?' pool crate tank x
expect 2 'There is no command `xyzzy`\. `spacesfs --help` lists what there is\.' xyzzy
expect 2 'There is no command `disk xyzzy`\. `spacesfs disk --help` lists what there is\.' disk xyzzy
expect 2 '`spacesfs space` needs a command\. .*' space
expect 2 'There is no command `pool create`\. .*' 'pool create' tank x

# Arguments and options
expect 2 "pool create: There are too few arguments\. Usage: spacesfs pool create POOL DISK\.\.\.\.$(see 'pool create')" pool create tank
expect 2 "jobs: There are too few arguments\..*" jobs
expect 2 "pool list: \`x\` is one argument too many\. Usage: spacesfs pool list\..*" pool list x
expect 2 "heal: There is no option --wiat\. Did you mean --wait\?$(see heal)" heal tank --wiat
expect 2 "heal: There is no option -x\.$(see heal)" heal tank -x
expect 2 "heal: Option --wait takes no value \(--wait=1\)\.$(see heal)" heal tank --wait=1
expect 2 "space create: Option --size needs a value: --size SIZE\.$(see 'space create')" space create tank/a --size
expect 2 "events: --max: \`-1\` is not a number\..*" events tank --max=-1
# `status` keeps 1 and 2 for what it finds.
expect 3 "status: There is no option --jsno\. Did you mean --json\?$(see status)" status --jsno
expect 3 "pool status: There is no option --jsno\..*" pool status --jsno

# Names
expect 2 'pool create: .*ta/nk.*' pool create ta/nk "$work/disk"
expect 2 'pool create: .*' pool create -- -tank "$work/disk"
expect 2 'pool create: .*' pool create "$(printf 'ta\nnk')" "$work/disk"
expect 2 'pool create: .*' pool create "$(printf 'ta\033[31mnk')" "$work/disk"
expect 2 'pool create: .*' pool create '' "$work/disk"
expect 2 'space create: .*`tank` doesn.t name a space\. Give POOL/SPACE, as in tank/docs\..*' space create tank -r simple
expect 2 'space create: .*`tank/` doesn.t name a space\..*' space create tank/ -r simple
expect 2 'space rename: `other/b` lies in another pool: a space can.t move between pools\..*' space rename tank/a other/b

# Values
expect 2 'pool create: .*--slab-size.*' pool create tank "$work/disk" --slab-size 12Q
expect 2 'pool create: --slab-size: `3M` is not a power of two from 1M to 4G\..*' pool create tank "$work/disk" --slab-size 3M
expect 2 'pool create: .*size=0 makes no sense: leave it out to take all there is\..*' pool create tank "$work/disk,size=0"
expect 2 'pool create: .*size.*' pool create tank "$work/disk,size=much"
expect 2 'pool create: .*`sise` is not a setting of a disk\. Write PATH\[,size=SIZE\]\[,name=NAME\]\..*' pool create tank "$work/disk,sise=1G"
expect 2 'pool create: `,size=1G` doesn.t begin with a path\..*' pool create tank ,size=1G
expect 2 'space create: Say what the space is to survive: --resiliency .*' space create tank/a
expect 2 'space create: --columns: `0` is neither a number from 1 up nor auto\..*' space create tank/a -r simple --columns 0
expect 2 'space create: --provisioning: `thick` is neither thin nor fixed\..*' space create tank/a -r simple --provisioning thick
expect 2 'space set: A space has no setting `sise`\. Did you mean size\?.*' space set tank/a sise=3
expect 2 'space set: `size` is not of the form KEY=VALUE\..*' space set tank/a size
expect 2 'pool set: `heal-delay` is not of the form KEY=VALUE\..*' pool set tank heal-delay
expect 2 'disk set: `name` is not of the form KEY=VALUE\..*' disk set tank d1 name
expect 2 'disk set: A disk has no setting `nmae`\. There are: name, usage, capacity\..*' disk set tank d1 nmae=x

# Pools that aren't there
expect 1 '.*tank.*' pool get tank
expect 1 '.*tank.*' space list tank
expect 3 '.*tank.*' status tank
expect 1 'tank: no pool of that name is known on this host\. `spacesfs pool list` shows those that are\.' pool export tank
expect 1 '.*tank.*' pool destroy tank --yes
expect 1 ".*$work/disk.*" space list "$work/disk"
expect 1 '.*/nonexistent/disk.*' pool create tank /nonexistent/disk
expect 1 '/nonexistent/file: No such file or directory\.' where /nonexistent/file
expect 1 '.*not in a mounted space\.' where "$work/disk"
expect 1 "No disk of a pool was found in $work/disk\..*" pool import "$work/disk"
expect 1 '.*/nonexistent.*' pool import /nonexistent

# What was asked for in vain has left nothing behind.
if [ -n "$(ls -A "$work/disk")" ] || [ -n "$(ls -A "$work/state/pools" 2> /dev/null)" ]; then
    echo "FAIL: something was made:"
    ls -A "$work/disk" "$work/state/pools"
    failed=1
fi

# Not errors
"$program" --version | grep -Eq '^spacesfs [0-9]+\.[0-9]+\.[0-9]+$' || { echo "FAIL: --version"; failed=1; }
[ "$("$program" pool list --json | tr -d ' \n')" = '{"pools":[]}' ] || { echo "FAIL: pool list --json without pools"; failed=1; }
"$program" status > /dev/null || { echo "FAIL: status without pools"; failed=1; }
exit $failed
