# shellcheck shell=bash
# Sourced by scripts/perf-lines and scripts/perf-tests: installs perf 7.3 and a small Debian below target/perf-root.
# With PERF_RELEASE=6.12 these are perf 6.12, below target/perf-root-6.12.
#
# The packages come from Debian's trixie and trixie-backports. A package manager of its own keeps them apart from those
# of this machine, which stay as they are.
perf_root=$PWD/target/perf-root
perf_release=${PERF_RELEASE:-7.3}
case $perf_release in
7.3) perf_suite=trixie-backports ;;
6.12) perf_suite=trixie perf_root+=-6.12 ;;
*) die "PERF_RELEASE is 7.3 or 6.12, not $perf_release" ;;
esac

# Packages that perf's shell tests and the command lines use, beside those that these depend on.
perf_packages=(
    base-files base-passwd bash binutils bzip2 coreutils dash debianutils diffutils file findutils gawk gcc grep gzip hostname
    libc-bin libc6-dev mawk ncurses-bin perl procps python3 sed tar util-linux xz-utils zstd
)

install_perf() {
    local apt=$perf_root/apt package mirror
    [ "$(id -u)" = 0 ] || die "perf runs in a root of its own here, which takes root"
    need apt-get apt
    need_sources
    [ ! -e "$perf_root/installed" ] || return 0
    say "installing perf $perf_release below ${perf_root#"$PWD"/}"
    rm -rf "$perf_root"
    mkdir -p "$apt"/{lists/partial,archives/partial,state} "$perf_root/system"
    : >"$apt/status"
    # The mirror that this machine uses.
    # shellcheck disable=SC2016 # apt-get expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | awk '/\/debian\/$/ { uri = $0 } END { print uri }')
    [ -n "$mirror" ] || die "this machine has no mirror of Debian among its package sources"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' \
        "$mirror" trixie "$mirror" trixie-backports >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$apt/state";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
    APT_CONFIG=$apt/apt.conf apt-get -qq update
    APT_CONFIG=$apt/apt.conf apt-get -qq install -y --download-only --no-install-recommends "${perf_packages[@]}" \
        "linux-perf/$perf_suite" "linux-source-$perf_release/$perf_suite" >/dev/null
    # base-files has the links /bin, /lib and /sbin, which files of other packages pass through.
    dpkg-deb -x "$apt"/archives/base-files_*.deb "$perf_root/system"
    for package in "$apt"/archives/*.deb; do
        case $package in
        */linux-source-*) dpkg-deb --fsys-tarfile "$package" | tar -xO --wildcards './usr/src/linux-source-*.tar.xz' >"$apt/linux.tar.xz" ;;
        *) dpkg-deb -x "$package" "$perf_root/system" ;;
        esac
    done
    tar -xJf "$apt/linux.tar.xz" -C "$perf_root" --strip-components=1 "linux-source-$perf_release/tools/perf/tests"
    rm "$apt/linux.tar.xz"
    # What the packages' scripts would have done.
    ln -sf mawk "$perf_root/system/usr/bin/awk"
    ln -sf gcc "$perf_root/system/usr/bin/cc"
    cp "$perf_root"/system/usr/share/base-passwd/passwd.master "$perf_root/system/etc/passwd"
    cp "$perf_root"/system/usr/share/base-passwd/group.master "$perf_root/system/etc/group"
    touch "$perf_root/installed"
}

# The keys of Debian's archives.
need_sources() {
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || install debian-archive-keyring
}

# in_perf_root COMMAND…: runs a command in the installed system, in the folder of this project, with the kernel's file
# systems and an empty /tmp. The mounts, and the files of /tmp, end with the command.
in_perf_root() {
    # shellcheck disable=SC2016 # the inner shells expand these
    unshare --mount --propagation private bash -e -c '
        root=$1 project=$2 target=$3
        shift 3
        for folder in /proc /sys /dev; do mount --rbind "$folder" "$root$folder"; done
        mount -t tmpfs tmpfs "$root/tmp"
        for folder in "$project" "$target"; do
            mkdir -p "$root$folder"
            mount --bind "$folder" "$root$folder"
        done
        exec chroot "$root" env -u TMPDIR PATH=/usr/bin:/usr/sbin HOME=/tmp LC_ALL=C.UTF-8 bash -c "cd \"\$0\" && exec \"\$@\"" "$project" "$@"
    ' in_perf_root "$perf_root/system" "$PWD" "$(readlink -f target)" "$@"
}
