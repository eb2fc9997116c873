# Debian packages that the project needs, in one place; sourced by ./check and ./quickstart.

# To build it.
build_packages=(
    gcc libc6-dev cmake ninja-build pkg-config
    libfuse3-dev libsqlite3-dev libzstd-dev libxxhash-dev libisal-dev libjansson-dev libblkid-dev uuid-dev libbsd-dev uthash-dev
)
# To use it: fusermount3 for unprivileged users, losetup and mount.
run_packages=(fuse3 mount util-linux)
# To test it, with both compilers and the sanitizers.
check_packages=(
    clang libclang-rt-14-dev libcriterion-dev sqlite3
    attr acl libcap2-bin e2fsprogs rsync procps psmisc man-db git jq zsh dpkg-dev file systemd
)

# For tests/apps/run --install: programs at their full size. ./check does without.
apps_packages=(
    postgresql qemu-utils borgbackup iproute2
    nfs-ganesha nfs-ganesha-vfs rpcbind libnfs-dev libnfs-utils
    samba samba-vfs-modules samba-testsuite smbclient
)

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo > /dev/null; then
        sudo "$@"
    else
        echo "Some packages are missing, and only root can install them. As root: apt-get install ${missing[*]}" >&2
        return 1
    fi
}

# Installs those of the packages that are missing; does nothing, and asks nothing, when none is.
install_missing() { # PACKAGE...
    local package
    missing=()
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Abbrev}\n' "$package" 2> /dev/null | grep -q '^.i' || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get > /dev/null; then
        echo "These Debian packages (or what they are called here) are missing: ${missing[*]}" >&2
        return 1
    fi
    echo "Installing ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update > /dev/null || true # a stale list may still do
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qy --no-install-recommends install "${missing[@]}" < /dev/null
}
