#!/usr/bin/env bash
# Runs an arm64 guest with an emulated PMU, to count hardware events where the machine has no counters: see docs/vm.md.
#
#   vm/rig.sh setup          installs packages, and fetches kernels and the guest's file system, unless they are there
#   vm/rig.sh setup-base     the same without kernels, for a RIG_IMAGE of your own
#   vm/rig.sh rustc          prints the path of a Rust compiler for the guest, from Debian's packages
#   vm/rig.sh emulator       prints the path of a QEMU that gives all CPUs of a guest turns of equal length
#   vm/rig.sh unpack PACKAGE FOLDER   fetches a Debian package for the guest and unpacks it
#   vm/rig.sh run FOLDER     boots, runs FOLDER/run.sh in the guest (FOLDER is /job there), exits with its status
#
# Variables for run: RIG_IMAGE (kernel: a path, Image, or Image-newest; default Image), RIG_CPUS (1), RIG_TIMEOUT (300 seconds), RIG_QEMU (further
# options of QEMU), RIG_KERNEL (additions to the kernel's command line), RIG_EMULATOR (the QEMU to run; default qemu-system-aarch64).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/tare/vm
libraries=/usr/aarch64-linux-gnu/lib
newest_suite=trixie-backports
# program:package that the host needs
programs=(qemu-system-aarch64:qemu-system-arm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu cpio:cpio)

say() { echo "rig: $*" >&2; }

host_packages() {
    local program missing=()
    for program in "${programs[@]}"; do
        command -v "${program%:*}" >/dev/null || missing+=("${program#*:}")
    done
    [ -e $libraries/libc.a ] || missing+=(libc6-dev-arm64-cross)
    if [ ${#missing[@]} -gt 0 ]; then "$here/../x" install "${missing[@]}"; fi
}

# apt for arm64 packages with its own state: the host's apt and dpkg never see that architecture.
guest_apt() {
    apt_in "$cache/apt" "$@"
}

guest_apt_setup() {
    apt_setup "$cache/apt" arm64 $newest_suite
}

# apt_in FOLDER COMMAND…: runs one of apt's commands with the state that apt_setup made there.
apt_in() {
    APT_CONFIG=$1/apt.conf "${@:2}"
}

# apt_setup FOLDER ARCHITECTURE SUITE: creates the state of an apt that has the host's Debian sources and SUITE of the same archive. It uses SUITE for packages
# that no other has, and for those requested as PACKAGE/SUITE.
apt_setup() {
    local root=$1 suite=$3
    mkdir -p "$root"/{state/lists/partial,cache/archives/partial,etc/sources.list.d,etc/apt.conf.d,etc/preferences.d,etc/trusted.gpg.d}
    : >"$root/state/status"
    rm -f "$root"/etc/sources.list.d/*
    # Sources come in the new form (deb822) or the old one.
    cp /etc/apt/sources.list.d/debian.sources "$root/etc/sources.list.d/" 2>/dev/null ||
        grep -h '^deb .*debian' /etc/apt/sources.list >"$root/etc/sources.list"
    cat >"$root/apt.conf" <<END
Dir::State "$root/state"; Dir::State::status "$root/state/status"; Dir::Cache "$root/cache"; Dir::Etc "$root/etc";
APT::Architecture "$2"; APT::Architectures { "$2"; }; APT::Sandbox::User "root"; Acquire::Languages "none";
END
    apt_in "$root" apt-get -qq update
    # shellcheck disable=SC2016 # $(REPO_URI) is replaced by apt
    apt_in "$root" apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1 |
        sed "s|.*|deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] & $suite main|" >"$root/etc/sources.list.d/$suite.list"
    apt_in "$root" apt-get -qq update
}

# unpack PACKAGE FOLDER: downloads a package for the guest and unpacks it.
unpack() {
    unpack_by "$cache/apt" "$1" "$2"
}

# unpack_by APT PACKAGE[/SUITE] FOLDER: the same, with the apt state in the folder APT.
unpack_by() {
    mkdir -p "$3" "$cache/debs"
    (cd "$cache/debs" && apt_in "$1" apt-get -qq download "$2" && dpkg -x "${2%/*}"_*.deb "$3")
}

# kernel FILE PACKAGE…: fetches a kernel for the guest, and of its modules the one that runs a benchmark when it is loaded.
kernel() {
    local image=$1 package
    shift
    rm -rf "$cache/kernel"
    for package in "$@"; do unpack "$package" "$cache/kernel" || return; done
    find "$cache/kernel" -name 'vmlinuz*' -type f -exec mv {} "$image" \;
    # shellcheck disable=SC2016 # $1 and $2 belong to the inner shell
    find "$cache/kernel" -path '*/modules/*/raid6_pq.ko*' -exec sh -c '
        release=${1#*/modules/}
        folder=$2/${release%%/*}
        mkdir -p "$folder" && mv "$1" "$folder/" && echo "${1##*/}:" >"$folder/modules.dep"' sh {} "$cache/modules" \;
    rm -rf "$cache/kernel"
    [ -e "$image" ]
}

# Makes the guest's file system: busybox and init.
base_file_system() {
    local root=$cache/base
    rm -rf "$root"
    mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,proc,sys,dev,tmp,lib}
    if [ -e "$cache/modules" ]; then cp -r "$cache/modules" "$root/lib/"; fi
    cp "$cache/busybox/bin/busybox" "$root/bin/"
    ln -s busybox "$root/bin/sh"
    cp "$here/init" "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$cache/base.cpio"
    rm -rf "$root"
}

setup_base() {
    host_packages
    mkdir -p "$cache"
    if [ ! -e "$cache/busybox" ]; then
        guest_apt_setup
        unpack busybox-static "$cache/busybox"
        rm -rf "$cache/debs"
    fi
    if [ ! "$cache/base.cpio" -nt "$here/init" ] || [ ! "$cache/base.cpio" -nt "$cache/modules" ]; then base_file_system; fi
}

setup() {
    host_packages
    mkdir -p "$cache"
    if [ ! -e "$cache/Image" ] || [ ! -e "$cache/Image-newest" ] || [ ! -e "$cache/modules" ]; then
        local version
        say "fetching two kernels for the guest into $cache"
        rm -rf "$cache/debs"
        guest_apt_setup
        rm -rf "$cache/modules"
        mkdir -p "$cache/modules"
        kernel "$cache/Image" "$(guest_apt apt-cache depends linux-image-cloud-arm64 | sed -n 's/.*Depends: //p' | head -n 1)"
        # Newer kernels are in a package without the signature for boot loaders.
        version=$(guest_apt apt-cache pkgnames linux-binary-unsigned- | sed -n 's/^linux-binary-unsigned-\(.*-cloud-arm64\)$/\1/p' | sort -V | tail -n 1)
        kernel "$cache/Image-newest" "linux-binary-unsigned-$version" "linux-modules-$version" || say "no newest kernel: $newest_suite has none, or can't be reached"
        rm -rf "$cache/debs"
    fi
    setup_base
}

# Debian's Rust for this machine, with the guest's standard library added.
rustc() {
    local libraries=$cache/rust/lib/rustlib
    if [ ! -x "$cache/rustc" ]; then
        "$here/../x" install rustc-web libstd-rust-web-dev >&2
        guest_apt_setup
        unpack libstd-rust-web-dev "$cache/rust-guest"
        rm -rf "$cache/rust"
        mkdir -p "$libraries"
        ln -sfn "/usr/lib/rustlib/$(uname -m)-unknown-linux-gnu" "$libraries/"
        mv "$cache/rust-guest/usr/lib/rustlib/aarch64-unknown-linux-gnu" "$libraries/"
        rm -rf "$cache/rust-guest"
        printf '#!/bin/sh\nexec /usr/bin/rustc --sysroot "%s" "$@"\n' "$cache/rust" >"$cache/rustc"
        chmod +x "$cache/rustc"
    fi
    echo "$cache/rustc"
}

# QEMU 7.2 gives one CPU all the time until the next timer expires, so another may wait for more than a millisecond. QEMU 10 divides that time among
# the CPUs. If the host's QEMU is older, this unpacks the one of Debian's backports into the cache; it runs with the host's libraries.
emulator() {
    local version suite apt=$cache/apt-host folder=$cache/qemu program
    host_packages
    version=$(qemu-system-aarch64 --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
    if [ "$version" -ge 10 ]; then
        command -v qemu-system-aarch64
        return
    fi
    if [ ! -x "$folder/run" ]; then
        suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)-backports
        say "fetching a newer QEMU than $version from $suite into $folder"
        rm -rf "$folder" "$cache/debs"
        apt_setup "$apt" "$(dpkg --print-architecture)" "$suite" >&2
        for program in qemu-system-arm qemu-system-common qemu-system-data; do unpack_by "$apt" "$program/$suite" "$folder" >&2; done
        rm -rf "$apt" "$cache/debs"
        program=$folder/usr/bin/qemu-system-aarch64
        "$program" --version >/dev/null
        printf '#!/bin/sh\nQEMU_MODULE_DIR="%s" exec "%s" -L "%s" "$@"\n' "$(dirname "$folder"/usr/lib/*/qemu/*.so | head -n 1)" "$program" "$folder/usr/share/qemu" >"$folder/run.new"
        chmod +x "$folder/run.new"
        mv "$folder/run.new" "$folder/run"
    fi
    echo "$folder/run"
}

run() {
    local work status=0 reported image=${RIG_IMAGE:-Image}
    case $image in /*) ;; *) image=$cache/$image ;; esac
    if [ ! -e "$image" ]; then
        echo "skipped: $image could not be fetched"
        exit
    fi
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # expanded now: `work` is local, and unset when the shell exits
    trap "rm -rf '$work'" EXIT
    mkdir "$work/job"
    cp -rL "$1"/. "$work/job/"
    # The kernel unpacks concatenated archives as one file system.
    (cd "$work" && cat "$cache/base.cpio" && find job | cpio -o -H newc --quiet) >"$work/initrd"
    # icount: each instruction takes one nanosecond of virtual time, so counts are exact and the same on every run.
    # shellcheck disable=SC2086 # RIG_QEMU is several words
    timeout "${RIG_TIMEOUT:-300}" "${RIG_EMULATOR:-qemu-system-aarch64}" -M virt -cpu max,pauth-impdef=on -smp "${RIG_CPUS:-1}" -m 1024 -icount shift=0 \
        -nographic -no-reboot -nic none ${RIG_QEMU:-} -kernel "$image" -initrd "$work/initrd" \
        -append "console=ttyAMA0 quiet panic=-1 ${RIG_KERNEL:-}" </dev/null >"$work/log" 2>&1 || status=$?
    tr -d '\r' <"$work/log" | sed '/^rig: status /d; s/\x1b\[[0-9;]*[A-Za-z]//g'
    reported=$(tr -d '\r' <"$work/log" | sed -n 's/^rig: status \([0-9]*\)$/\1/p' | tail -n 1)
    if [ -z "$reported" ]; then
        say "the guest did not finish (qemu ended with $status; 124 means that RIG_TIMEOUT ran out)"
        exit 125
    fi
    exit "$reported"
}

case ${1:-} in
setup) setup ;;
setup-base) setup_base ;;
rustc) rustc ;;
emulator) emulator ;;
unpack) [ -e "$cache/apt/apt.conf" ] || guest_apt_setup; unpack "$2" "$3" ;;
run) run "$2" ;;
*) sed -n '2,12s/^# \?//p' "$0" ;;
esac
