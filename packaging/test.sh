#!/usr/bin/env bash
# Installs, runs and removes each package, offline, in an environment of its own. `./x package --test` calls it.
# Each environment must get from the installation to a report with function names within $limit seconds, and removal must leave
# no file of tare: the lists of files before and after are compared, without the package managers' own databases.
#   test.sh --test          makes the packages first, with a binary that is cheap to build
#   test.sh --test-built    tests the packages in target/dist
#   test.sh in NAME [ROOT]  one, once the packages are there: deb, rpm, tarball, wheel, npm, image, action, checks, guest
. "$(dirname "$0")/../scripts/lib.sh"

dist=$PWD/target/dist
work=$PWD/target/package/test
roots=$PWD/target/package/roots
made=target/package/made
# Seconds for an environment, and for all of the emulated guest.
limit=60
guest_limit=540
export DIST=$dist WORK=$work
case $(uname -m) in
x86_64) debian=amd64 ;;
*) debian=arm64 ;;
esac

need_testers() {
    need debootstrap debootstrap
    need rpm rpm
    need crun crun
    need umoci umoci
    need lintian lintian
    need rpmlint rpmlint
    need cpio cpio
    need npm npm
    need unshare util-linux
    need jq jq
    need_venv
}

# The script that records and reports in an environment: sh -c "$use" sh TARE PROGRAM RECORDING
# shellcheck disable=SC2016 # expanded there
use='set -e
tare=$1 spin=$2 file=$3
$tare record -q -g -o "$file" -- "$spin"
$tare report --stdio -i "$file" >"$file.txt"
rm "$file"
grep -q spin_inner "$file.txt" && grep -q spin_outer "$file.txt" || { cat "$file.txt"; exit 1; }
rm "$file.txt"'

# list FOLDER: its files, without package managers' own, and without the user's files of tare, which docs/install.md names.
list() {
    (cd "$1" && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./mnt -o -path ./var/lib/dpkg -o -path ./var/lib/rpm \
        -o -path ./usr/lib/sysimage/rpm -o -path ./var/log -o -path ./var/cache -o -path '*/.cache/tare' -o -path '*/.local/state/tare' -o -name __pycache__ \
        -o -name .package-lock.json -o -name package-lock.json -o -name package.json \) -prune -o ! -type d -print | sort)
}

# The archive that this machine's own packages come from.
mirror() {
    # shellcheck disable=SC2016 # $(REPO_URI) is replaced by apt
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1
}

# in_root ROOT COMMAND…: runs a command in a root, without a network, where /mnt has target/dist and the test's program.
# Mounts and processes end with it.
in_root() {
    mkdir -p "$1/mnt" "$1/proc" "$1/sys" "$1/tmp" "$1/dev"
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount --pid --fork --net --kill-child sh -c '
        set -e
        root=$1; shift
        mount --make-rprivate /
        mount -t tmpfs mnt "$root/mnt"
        mkdir "$root/mnt/dist"
        mount --bind "$DIST" "$root/mnt/dist"
        cp "$WORK/spin" "$root/mnt/"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        [ -e "$root/dev/null" ] || mount --rbind /dev "$root/dev"
        exec chroot "$root" "$@"' sh "$@"
}


# before ROOT, after ROOT: lists the files, and fails if they differ from those before.
before() { list "$1" >"$work/before"; }
after() {
    list "$1" >"$work/after"
    diff "$work/before" "$work/after"
}

test_deb() { # test_deb SUITE
    local root=$roots/$1
    before "$root"
    # shellcheck disable=SC2016 # expanded in the root
    in_root "$root" sh -c "dpkg -i /mnt/dist/tare-perf_*_$debian.deb"
    in_root "$root" sh -c "$use" sh /usr/bin/tare /mnt/spin /tmp/perf.data
    in_root "$root" dpkg --purge tare-perf
    after "$root"
}

test_tarball() { # test_tarball SUITE
    local root=$roots/$1
    before "$root"
    in_root "$root" /mnt/dist/install.sh --prefix /usr/local
    in_root "$root" sh -c "$use" sh /usr/local/bin/tare /mnt/spin /tmp/perf.data
    in_root "$root" /mnt/dist/install.sh --uninstall --prefix /usr/local
    after "$root"
    # A user without rights, whose home can't be written.
    # shellcheck disable=SC2016 # expanded in the root
    in_root "$root" setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent sh -c '
        set -e
        mkdir /tmp/own
        /mnt/dist/install.sh --prefix /tmp/own/prefix
        sh -c "$0" sh /tmp/own/prefix/bin/tare /mnt/spin /tmp/own/perf.data
        /mnt/dist/install.sh --uninstall --prefix /tmp/own/prefix
        rmdir /tmp/own/prefix /tmp/own' "$use"
    after "$root"
    # A damaged archive is refused.
    rm -rf "$work/damaged"
    cp -r "$dist" "$work/damaged"
    for archive in "$work"/damaged/*.tar.gz; do echo >>"$archive"; done
    if "$work/damaged/install.sh" --prefix "$work/damaged/prefix" 2>"$work/error"; then die "a damaged archive was installed"; fi
    grep -q 'differs from SHA256SUMS' "$work/error"
    rm -rf "$work/damaged"
}

# A root without anything: the static program and tare are all that runs there, called by name instead of by a shell.
test_rpm() {
    local root=$work/rpm-root
    rm -rf "$root"
    mkdir -p "$root"/{var/lib/rpm,mnt,proc,sys,dev,tmp}
    rpm --root "$root" --initdb
    before "$root"
    rpm --root "$root" --install --ignoreos "$dist"/tare-perf-*."$(uname -m)".rpm
    record_alone in_root "$root" /usr/bin/tare
    cp "$root/tmp/report" "$work/report"
    rm "$root/tmp/perf.data" "$root/tmp/report"
    rpm --root "$root" --erase tare-perf
    after "$root"
    rm -rf "$root"
}

# record_alone COMMAND… ROOT TARE: records in a root that has no shell.
record_alone() {
    local root=$2
    in_root "$root" "$3" record -q -g -o /tmp/perf.data -- /mnt/spin
    in_root "$root" "$3" report --stdio -i /tmp/perf.data >"$root/tmp/report"
    grep -q spin_inner "$root/tmp/report"
    grep -q spin_outer "$root/tmp/report"
}

# without_network COMMAND…: the package manager can't download anything.
without_network() { unshare --net --pid --fork --kill-child "$@"; }

test_wheel() {
    rm -rf "$work/venv"
    python3 -m venv "$work/venv"
    before "$work/venv"
    without_network "$work/venv/bin/pip" install --quiet --no-index --no-compile --find-links "$dist" tare-perf
    sh -c "$use" sh "$work/venv/bin/tare" "$work/spin" "$work/venv.data"
    [ -e "$work/venv/share/man/man1/tare-record.1" ]
    "$work/venv/bin/pip" uninstall --quiet --yes tare-perf
    after "$work/venv"
}

test_npm() {
    rm -rf "$work/node" "$work/npm-cache"
    mkdir -p "$work/node"
    (
        cd "$work/node"
        export npm_config_cache=$work/npm-cache npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
        echo '{"name":"project","version":"1.0.0","private":true}' >package.json
        before .
        without_network npm install --offline --loglevel=error "$dist"/tare-perf-linux-"$(node -p process.arch)"-*.tgz "$dist"/tare-perf-[0-9]*.tgz
        sh -c "$use" sh "$PWD/node_modules/.bin/tare" "$work/spin" "$work/npm.data"
        status=0
        node_modules/.bin/tare stat -o /dev/null -- sh -c 'exit 7' || status=$?
        [ $status = 7 ]
        without_network npm uninstall --offline --loglevel=error tare-perf "tare-perf-linux-$(node -p process.arch)"
        rmdir node_modules 2>/dev/null || true
        after .
    )
    rm -rf "$work/npm-cache"
}

# An image from scratch has no program but tare: the test's is mounted into it.
test_image() {
    local bundle=$work/bundle layout=$work/layout name=tare-test-$$
    rm -rf "$bundle" "$layout"
    mkdir -p "$layout"
    tar -xf "$dist"/tare-perf-*-"$debian".oci.tar -C "$layout"
    umoci unpack --image "$layout:$(jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$layout/index.json")" "$bundle"
    [ -e "$bundle/rootfs/etc/ssl/certs/ca-certificates.crt" ]
    [ -e "$bundle/rootfs/usr/share/doc/tare-perf/THIRD-PARTY" ]
    mkdir "$bundle/rootfs/mnt"
    cp "$bundle/config.json" "$bundle/made.json"
    run_image "$bundle" "$name" record -q -g -o /tmp/perf.data -- /mnt/spin
    run_image "$bundle" "$name" report --stdio -i /tmp/perf.data >"$work/report"
    grep -q spin_inner "$work/report"
    grep -q spin_outer "$work/report"
    rm -rf "$bundle" "$layout"
}

# run_image BUNDLE NAME ARGUMENT…: runs the image's program without a network, with the capability that docs/containers.md names.
run_image() {
    local arguments
    arguments=$(printf '%s\n' "${@:3}" | jq -R . | jq -s .)
    jq --arg work "$work" --argjson arguments "$arguments" '.process.args = (.process.args[:1] + $arguments) | .process.terminal = false
        | .mounts += [{destination: "/mnt", type: "bind", source: $work, options: ["bind", "ro"]}]
        | .linux.namespaces = [.linux.namespaces[] | select(.type != "cgroup" and .type != "user")]
        | del(.linux.resources, .linux.uidMappings, .linux.gidMappings)
        | .process.capabilities |= with_entries(.value += ["CAP_PERFMON"])' <"$1/made.json" >"$1/config.json"
    # crun refuses a machine that has both versions of cgroups mounted: show it the second alone.
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare --mount sh -c 'mount --make-rprivate / && mount -t cgroup2 cgroup /sys/fs/cgroup && exec crun --cgroup-manager=disabled run --bundle "$1" "$2"' sh "$1" "$2"
}

# The steps of the GitHub action, with the tarball.
test_action() {
    rm -rf "$work/action"
    mkdir -p "$work/action"
    local status=0
    TARE_COMMAND="$work/spin; exit 7" TARE_PACKAGES=$dist TARE_PREFIX=$work/action/prefix TARE_OUTPUT=$work/action/out \
        GITHUB_STEP_SUMMARY=$work/action/summary without_network action/run.sh || status=$?
    [ $status = 7 ]
    grep -q spin_inner "$work/action/summary"
    grep -q spin_inner "$work/action/out/flame.html"
    rm -rf "$work/action"
}

# What the package managers' own checks say. Each override states its reason in the package.
test_checks() {
    local package
    lintian --fail-on error --allow-root "$dist"/*.deb
    local unit=usr/lib/systemd/system/tare-agent.service
    for package in "$dist"/*.deb; do dpkg-deb --fsys-tarfile "$package" | tar -xO "./$unit" | cmp - packaging/tare-agent.service; done
    for package in "$dist"/*.rpm; do rpm2cpio "$package" | cpio --quiet -i --to-stdout "./$unit" | cmp - packaging/tare-agent.service; done
    [ "$(grep -vc '^#' packaging/lintian-overrides)" -le 2 ]
    [ "$(grep -c '^ *"' packaging/rpmlint.toml)" -le 2 ]
    for package in "$dist"/*.rpm; do rpmlint --config packaging/rpmlint.toml "$package"; done
    if [ ! -x "$work/twine/bin/twine" ]; then
        python3 -m venv "$work/twine"
        "$work/twine/bin/pip" install --quiet twine==7.0.0
    fi
    "$work/twine/bin/twine" check --strict "$dist"/*.whl
    for package in "$dist"/*.tgz; do npm pack --dry-run --loglevel=error "$package"; done
}

# The deb, the tarball and the wheel of arm64, in the guest: packaging/guest.sh.
test_guest() {
    rm -rf "$work/job"
    mkdir -p "$work/job"
    cp "$dist"/*_arm64.deb "$dist"/*-aarch64.tar.gz "$dist"/*_aarch64.whl "$dist/install.sh" "$dist/SHA256SUMS" "$roots/arm64.tar" "$work/job/"
    cp packaging/guest.sh "$work/job/run.sh"
    aarch64-linux-gnu-gcc -O0 -fno-omit-frame-pointer -static -o "$work/job/spin" packaging/spin.c
    RIG_TIMEOUT=$guest_limit vm/rig.sh run "$work/job"
    rm -rf "$work/job"
}

# A binary of the profile dist has no path of this machine: two builds in different folders have the same bytes.
test_paths() {
    local binary place
    for binary in "$made"/*/tare; do
        # The release profile keeps them.
        if [ "$binary" != "$made/aarch64/tare" ] && cmp -s "$binary" "$release/tare"; then continue; fi
        for place in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$HOME"; do
            if grep -aqF "$place/" "$binary"; then die "$binary contains $place"; fi
        done
        echo "$binary contains no path"
    done
}

# debian_root SUITE: makes an empty Debian in a tar file, unless it is there.
debian_root() {
    [ ! -e "$roots/$1.tar" ] || return 0
    debootstrap --variant=minbase "$1" "$roots/$1" "$(mirror)"
    rm -rf "$roots/$1"/var/cache/apt/archives/*.deb
    tar -C "$roots/$1" -cf "$roots/new.tar" .
    mv "$roots/new.tar" "$roots/$1.tar"
}

# guest_root: makes the root of the guest's test in a tar file, unless it is there: Debian's packages for arm64, unpacked, without an
# installation of each.
guest_root() {
    local deb root=$roots/arm64
    [ ! -e "$root.tar" ] || return 0
    rm -rf "$root"
    debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,python3-pip-whl bookworm "$root" "$(mirror)"
    for deb in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$deb" "$root"; done
    python3 -m zipfile -e "$root"/usr/share/python-wheels/pip-*.whl "$root/usr/lib/python3/dist-packages"
    # Emulated, this takes minutes. The guest takes the files if this machine's Python has the same version.
    python3 -m compileall -q --invalidation-mode unchecked-hash "$root/usr/lib/python3.11" "$root/usr/lib/python3/dist-packages" || true
    rm -rf "$root"/debootstrap "$root"/var/{cache,lib/apt}/* "$root"/usr/share/{doc,locale,man,zoneinfo,i18n} "$root"/usr/lib/*/gconv
    : >"$root/var/lib/dpkg/status"
    tar -C "$root" -cf "$roots/new.tar" .
    mv "$roots/new.tar" "$root.tar"
    rm -rf "$root"
}

# attempt LIMIT NAME [SUITE]: runs a test within a number of seconds, and counts it.
attempt() {
    local began=$SECONDS log=$work/log-$2
    if timeout "$1" packaging/test.sh in "${@:2}" >"$log" 2>&1; then
        echo "ok ${*:2} ($((SECONDS - began)) s)"
        result passed 1
    else
        cat "$log"
        echo "FAILED ${*:2} (after $((SECONDS - began)) of $1 s)"
        result failed 1
    fi
}

if [ "${1:-}" = in ]; then
    "test_$2" "${@:3}"
    exit
fi
called_by_test=${TARE_RESULTS:-}
[ -n "$called_by_test" ] || collect_results
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    skip "the packages are installed into roots made of Debian packages, which takes root and apt-get"
else
    need_testers
    mkdir -p "$work" "$roots"
    if [ "${1:-}" = --test-built ]; then
        [ -e "$dist/SHA256SUMS" ] || die "there are no packages in $dist: ./x package"
    elif scripts/package --for-test; then
        result passed 1
    else
        result failed 1
        die "the packages weren't made, or differ between two folders"
    fi
    # Static, so that it runs in a root without libraries.
    cc -O0 -fno-omit-frame-pointer -static -o "$work/spin" packaging/spin.c
    # The emulated guest needs one CPU for minutes, so the other tests run beside it.
    guest=
    if [ -e "$made/aarch64/tare" ]; then
        say "a root of Debian for the arm64 guest"
        vm/rig.sh setup
        if guest_root >"$work/log" 2>&1; then :; else cat "$work/log"; fi
        attempt $guest_limit guest >"$work/guest" 2>&1 &
        guest=$!
        # timeout, its child, ends the guest on SIGTERM.
        # shellcheck disable=SC2046 # words
        trap 'if [ -n "$guest" ]; then kill $(cat /proc/$guest/task/$guest/children) 2>/dev/null; fi' EXIT
    else
        skip "packages for arm64 are tested on x86-64"
    fi
    for suite in bookworm trixie; do
        say "an empty root of Debian $suite"
        rm -rf "${roots:?}/$suite"
        debian_root "$suite" >"$work/log" 2>&1 || cat "$work/log"
        mkdir -p "$roots/$suite"
        tar -C "$roots/$suite" -xf "$roots/$suite.tar"
        attempt $limit deb $suite
    done
    attempt $limit tarball bookworm
    for name in rpm wheel npm image action; do attempt $limit $name; done
    attempt $limit paths
    attempt 300 checks
    if [ -n "$guest" ]; then
        wait "$guest"
        guest=
        cat "$work/guest"
    fi
fi
[ -n "$called_by_test" ] || print_results
