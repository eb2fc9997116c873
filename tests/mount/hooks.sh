#!/bin/bash
# Hooks of a real daemon: a disk fails, the pool heals, a file is damaged. A hook that hangs on the pool itself doesn't stop it, and is told of once.
. "$(dirname "$0")/lib.sh"
require_fuse
require_free 2000

export SFS_HOOKS_DIR=$T/hooks.d
mkdir hooks.d d1 d2 d3 m
cat > hooks.d/10-note << EOF
#!/bin/sh
echo "\$1 \$SPACESFS_KIND \$SPACESFS_SUBJECT" >> "$T/noted"
cat >> "$T/noted.json"
EOF
printf '#!/bin/sh\nls -R %s/m > /dev/null; echo sulking >&2; exit 9\n' "$T" > hooks.d/20-bad
chmod +x hooks.d/*
spacesfs pool create p d1,size=1G d2,size=1G d3,size=1G > /dev/null 2>&1
spacesfs space create p/s --resiliency mirror2
spacesfs mount p/s m
bigfile write m/big $((64 << 20)) 1
sync m/big
noted() { grep -qx "$1" noted 2> /dev/null; }

say "a disk goes, and the pool heals"
take d1
within 40 noted "disk-failed disk-lost d1"
within 40 noted "degraded degraded "
spacesfs heal p --wait
within 40 noted "healed heal-done "
grep -q '"pool":"p","event":"disk-failed","kind":"disk-lost","severity":"error","subject":"d1"' noted.json || fail "the input isn't the event"
within 20 sh -c 'spacesfs events p | grep -q "hook 20-bad ended with 9: sulking"'
is "$(spacesfs events p --max 0 --json | grep -c '"kind": *"hook-failed"')" 1 "events that tell of the bad hook"
bring d1
within 60 health_is p healthy

say "a hook that is taken away isn't run, one that is added is"
rm hooks.d/10-note
printf '#!/bin/sh\necho added >> %s/noted\n' "$T" > hooks.d/30-added
chmod +x hooks.d/30-added
mv noted noted.before
take d2
within 40 noted added
! noted "disk-failed disk-lost d2" || fail "a hook that isn't there was run"
spacesfs heal p --wait
spacesfs umount m
within 20 no_daemon
