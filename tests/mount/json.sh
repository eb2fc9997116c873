#!/bin/bash
# What --json prints, held against spacesfs-json(5) in both directions: every key is there that the page names, with its type, and no other. And metrics against the status.
. "$(dirname "$0")/lib.sh"
require_fuse
require_tool jq
page=$HERE/../../man/spacesfs-json.5

mkdir d1 d2 d3 m
spacesfs pool create p d1,size=300M d2,size=300M d3,size=300M > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2 > /dev/null
spacesfs space create p/x --resiliency simple --json > created
is "$(jq -c . created)" '{}'
spacesfs mount p/s m
mkdir m/sub
head -c 20M /dev/urandom > m/sub/big
echo small > m/small
sync m/sub/big
take d1
spacesfs heal p --wait > /dev/null

# PATH TYPE of all values, sorted: "disks[].name string".
shape() {
    jq -r '[paths(type != "object" and type != "array") as $p
        | {p: ($p | map(if type == "number" then "[]" else . end) | join(".") | gsub("\\.\\[\\]"; "[]")), t: (getpath($p) | if type == "number" and . == floor then "integer" else type end)}]
        | unique[] | "\(.p) \(.t)"'
}
# The same, as the page says: required keys, then those that may be there.
schema() { # NAME
    sed -n '/^\.\\" schema: '"$1"'$/,/^\.\\" end$/p' "$page" | sed '/^\./d; s/\\//g'
}
holds() { # NAME EXCEPT-REGEX < JSON
    local name=$1 except=$2 path type found
    shape | sort -u > shape
    [ -n "$(schema "$name")" ] || fail "the page has no table for $name"
    while read -r path type; do
        found=$(schema "$name" | awk -v p="$path" '$1 == p { print $2 }')
        [ -n "$found" ] || fail "$name: $path ($type) is not in the page"
        case "|$(tr -d '()' <<< "$found")|" in
        *"|$type|"*) ;;
        *) fail "$name: $path is of type $type, the page says $found" ;;
        esac
    done < shape
    while read -r path type _; do
        case $type in "("*) continue ;; esac
        [[ ! $path =~ $except ]] || continue
        awk -v p="$path" '$1 == p { found = 1 } END { exit !found }' shape || fail "$name: $path is in the page, but wasn't printed"
    done < <(schema "$name")
}

say "status, pool list, jobs, disk list, space list"
spacesfs status p --json > status.json || true
holds status '^damage\.files' < status.json
spacesfs pool list --json | jq '.pools[0]' > pool.json
holds status '^damage\.files' < pool.json
is "$(jq .mounted pool.json)" true
is "$(spacesfs jobs p --json | jq -c '[keys[]]')" '["jobs","pool"]'
is "$(spacesfs jobs p --json | jq .jobs)" "$(jq .jobs status.json)" jobs
is "$(spacesfs disk list p --json | jq -c '[keys[]]')" '["disks","pool"]'
is "$(spacesfs space list p --json | jq -c '[keys[]]')" '["pool","spaces"]'
is "$(spacesfs space list --json | jq -c '.pools[0] | [keys[]]')" '["pool","spaces"]'
is "$(jq -r '.jobs[0] | "\(.kind) \(.state) \(.done == .total)"' status.json)" "heal done true"

say "events, where"
spacesfs events p --json | while read -r line; do holds event '^$' <<< "$line"; done
spacesfs where m/sub/big m/small --json | holds where '^$'

say "impact, scrub"
bring d1
within 60 health_is p healthy
spacesfs impact p d2 --json | holds impact '^$'
spacesfs scrub p --wait --json | holds scrub '^(damage|disks\[|files\[)'
is "$(spacesfs scrub p --report --json | jq -r .state)" done

say "what begins jobs, gives them orders; disks that leave"
mkdir d4
is "$(spacesfs disk add p d4,size=300M --json | jq -c .)" '{}'
spacesfs scrub p --json | holds job '^$'
spacesfs optimize p --wait --json | holds job '^$'
spacesfs space set p/s compression=zstd --json > set.json
holds job '^$' < set.json
is "$(jq .job set.json)" 0
spacesfs pool set p job-rate=64K --json > /dev/null
disk=$(spacesfs where m/sub/big --json | jq -r '.files[0].pieces[0].places[0].disk')
spacesfs disk remove p "$disk" --json > begun.json
holds job '^$' < begun.json
job=$(jq .job begun.json)
for order in pause resume cancel; do
    spacesfs job $order p "$job" --json > order.json || fail "job $order"
    holds job '^$' < order.json
    is "$(jq .job order.json)" "$job"
done
spacesfs pool set p job-rate=unlimited --json > /dev/null
spacesfs disk set p "$disk" usage=auto > /dev/null
spacesfs disk remove p d4 --wait --json > left.json
holds job '^$' < left.json
[ "$(jq -r .text left.json)" != null ] || fail "how it ended isn't told"
spacesfs disk add p d4,size=300M > /dev/null
take d4
within 40 health_is p degraded
spacesfs disk forget p d4 --yes --json | holds forget '^spaces'
within 60 health_is p healthy
take d1
within 40 health_is p degraded

say "metrics say what the status says"
spacesfs metrics p > metrics
spacesfs status p --json > status.json || true
metric() { # NAME{LABELS}
    awk -v n="spacesfs_$1" 'substr($0, 1, length(n)) == n && substr($0, length(n) + 1, 1) == " " { print $2 }' metrics
}
is "$(metric 'pool_up{pool="p"}')" 1
is "$(metric 'pool_health{pool="p"}')" "$(jq .exit status.json)"
is "$(metric 'pool_total_bytes{pool="p"}')" "$(jq .total_bytes status.json)"
is "$(metric 'disk_online{pool="p",disk="d1"}')" 0
is "$(metric 'disk_online{pool="p",disk="d2"}')" 1
is "$(metric 'space_mounts{pool="p",space="s"}')" 1
is "$(metric 'space_mounts{pool="p",space="x"}')" 0
is "$(metric 'space_groups{pool="p",space="s"}')" "$(jq '.spaces[] | select(.name == "s").groups' status.json)"
# The format: a name, labels, a number; each name has its type once, before its first line, and its lines together.
awk '
    /^# HELP / { next }
    /^# TYPE / { if ($3 in type) exit 1; type[$3] = $4; now = $3; next }
    !/^spacesfs_[a-z_]+\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\} [0-9]+$/ { print "bad: " $0; exit 1 }
    { name = $0; sub(/\{.*/, "", name); if (name != now) { print "out of place: " $0; exit 1 } }' metrics || fail "metrics: not the format of Prometheus"
spacesfs umount m
within 20 no_daemon

say "a pool that is not mounted, one that is not there, import, export, destroy"
bring d1
spacesfs metrics > metrics
is "$(metric 'pool_mounted{pool="p"}')" 0
spacesfs pool get p --json | jq -e '."heal-delay" == "5m"' > /dev/null || fail "pool get"
is "$(spacesfs pool export p --json | jq -c .)" '{"pool":"p"}'
take d2
spacesfs pool import d1 d3 --json > import.json 2> /dev/null || true
holds import '^$' < import.json
bring d2
is "$(spacesfs pool import --none-ok "$T/m" --json | jq -c .)" '{"imported":[]}'
for disk in d1 d2 d3; do take $disk; done
spacesfs metrics > metrics 2> said || fail "metrics of a pool that isn't there"
is "$(metric 'pool_up{pool="p"}')" 0
has p said || fail "metrics don't say why the pool can't be read"
is "$(spacesfs pool list --json 2> /dev/null | jq -c '.pools[0] | [keys[]]')" '["error","pool"]'
for disk in d1 d2 d3; do bring $disk; done
is "$(spacesfs pool destroy p --yes --json | jq -c .)" '{"pool":"p"}'
