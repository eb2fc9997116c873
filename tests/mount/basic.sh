#!/bin/bash
# Files: what POSIX promises, through a real mount; all of it again after a remount; as another user sees it.
. "$(dirname "$0")/lib.sh"
require_fuse

mkdir host
posix host > said || { cat said; fail "the host filesystem doesn't do what posix.c asks for"; }

small_pool
is "$(stat -f -c %T m)" fuseblk "type" 2> /dev/null || is "$(findmnt -no FSTYPE m)" fuse.spacesfs "type"
mkdir m/posix
posix m/posix

say "a directory, a file and links live on after a remount"
mkdir -m 2770 m/keep
printf 'contents' > m/keep/file
ln m/keep/file m/keep/hard
ln -s file m/keep/soft
touch -d '2001-02-03 04:05:06.123456789' m/keep/file
ino=$(stat -c %i m/keep/file)
rm -r m/posix/sparse # a TiB to compare
cp -a m/posix copy
spacesfs umount m
within 10 no_daemon
spacesfs mount p/s m
is "$(cat m/keep/file)" contents
is "$(stat -c '%i %h %y' m/keep/file)" "$ino 2 2001-02-03 04:05:06.123456789 +0000" "attributes"
is "$(stat -c %i m/keep/hard)" "$ino" "hard link"
is "$(readlink m/keep/soft)" file
is "$(stat -c %a m/keep)" 2770
treecmp copy m/posix

say "programs are built and run in it"
cat > m/hello.c << 'END'
#include <stdio.h>
int main(void) { puts("built here"); return 0; }
END
if command -v cc > /dev/null; then
    cc -o m/hello m/hello.c
    is "$(m/hello)" "built here"
fi

say "100,000 files in one directory"
mkdir m/many
(cd m/many && seq -f 'file-%06.0f' 1 100000 | xargs -n 1000 touch)
is "$(find m/many -type f | wc -l)" 100000 "files found"
is "$(ls -f m/many | sort -u | wc -l)" 100002 "names listed"
spacesfs umount m
spacesfs mount p/s m
is "$(ls -f m/many | sort -u | wc -l)" 100002 "names listed after a remount"
[ -e m/many/file-077777 ] || fail "a file of the many is missing"
rm -r m/many
[ ! -e m/many ] || fail "the many are still there"

say "several programs at once"
for i in 1 2 3 4; do
    (mkdir "m/par$i" && cd "m/par$i" && for k in $(seq 50); do
        head -c $((RANDOM * 10)) /dev/urandom > "f$k"
        sha256sum "f$k"
    done > "$T/sums$i") &
done
wait
for i in 1 2 3 4; do (cd "m/par$i" && sha256sum --quiet -c "$T/sums$i"); done

spacesfs umount m
within 10 no_daemon
is "$(ls m)" ""
spacesfs status p
