#!/bin/bash
# rsync -aHAX both ways and tar with all its features: hard links, access lists, attributes, sparse files, set-id bits, devices, times.
. "$(dirname "$0")/../mount/lib.sh"
require_fuse
require_root
require_tool rsync tar setfacl getfacl setfattr getfattr

small_pool --compression zstd
make_tree() { # DIR
    mkdir -p "$1/dir/deep/deeper" "$1/empty"
    (
        cd "$1"
        for k in $(seq 200); do head -c $((k * 97)) /dev/urandom > "dir/f$k"; done
        ln dir/f1 dir/deep/hard
        ln -s ../f1 dir/deep/soft
        mkfifo fifo
        mknod null c 1 3
        printf x | dd of=sparse bs=1 seek=20M status=none
        printf y | dd of=sparse bs=1 seek=5M conv=notrunc status=none
        truncate -s 30M sparse
        find . -exec touch -h -d '2020-01-02 03:04:05.678901234' {} +
        touch -d '1965-03-04 05:06:07.123456789' dir/f2
        touch -d '2096-03-04 05:06:07.987654321' dir/deep/deeper
        chown 12345:54321 dir/f3
        chmod 6711 dir/f4
        chmod 1777 empty
        setfattr -n user.note -v 'a note' dir/f5
        setfattr -n trusted.note -v 'for root' dir/f6
        setfacl -m u:12345:rw,g:54321:r dir/f7
        setfacl -d -m u:12345:rwx dir/deep
        touch $'dir/new\nline' $'dir/\xff\xfe' 'dir/-dash' 'dir/ blank '
        touch -d '2021-01-02 03:04:05.678901234' dir # rsync doesn't set a directory's time that is right to the second
    )
}
# Everything that a listing, getfacl and getfattr tell, and the contents.
describe() { # DIR
    (
        cd "$1"
        find . -printf '%p %y %m %U %G %n %l %T@' -a \( -type d -printf '\n' -o -printf ' %s\n' \) | sort
        find . ! -type l -print0 | sort -z | xargs -0 getfacl -Pn 2> /dev/null
        find . -print0 | sort -z | xargs -0 getfattr -hd -m '^(user|trusted|system)\.' 2> /dev/null
        find . -type f -print0 | sort -z | xargs -0 sha256sum
    )
}
same() { # A B
    describe "$1" > "$T/a"
    describe "$2" > "$T/b"
    diff "$T/a" "$T/b" > "$T/said" || { head -n 20 "$T/said"; fail "$1 and $2 differ"; }
}

make_tree host
say "rsync there and back"
rsync -aHAX --sparse host/ m/copy/
same host m/copy
[ "$(du -k m/copy/sparse | cut -f 1)" -lt 500 ] || fail "the sparse file takes $(du -h m/copy/sparse)"
spacesfs umount m
spacesfs mount p/s m
same host m/copy
is "$(rsync -aHAXn --checksum --itemize-changes --delete host/ m/copy/)" "" "rsync finds differences"
rsync -aHAX --sparse m/copy/ back/
same host back
echo more >> m/copy/dir/f9
rm m/copy/dir/f10
rsync -aHAX --delete --inplace host/ m/copy/
same host m/copy

say "tar"
make_tree m/made
tar -C m/made --acls --xattrs --xattrs-include='*' --sparse -cf m/made.tar .
mkdir m/out out
tar -C m/out --acls --xattrs --xattrs-include='*' --same-owner -xpf m/made.tar
same m/made m/out
tar -C out --acls --xattrs --xattrs-include='*' --same-owner -xpf m/made.tar
same m/made out
[ "$(stat -c %s m/made.tar)" -lt 12000000 ] || fail "tar saw no holes: $(stat -c %s m/made.tar) bytes"
say "incremental backups by times and change"
tar -C m -cf /dev/null --listed-incremental=snar made
touch m/made/dir/f11
tar -C m -cf inc.tar --listed-incremental=snar made
is "$(tar -tf inc.tar | grep -vc '/$')" 1 "files in the increment"
cp -a --reflink=auto m/made m/clone
same m/made m/clone
spacesfs umount m
