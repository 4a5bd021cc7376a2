# shellcheck shell=bash
# Sourced by every script of this folder: works from the root of the workspace, and offers what several scripts need.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

host=$(uname -m)-unknown-linux-gnu
# The target is always named: with crt-static and no target, proc macros don't build.
# shellcheck disable=SC2034 # scripts use it
release=target/$host/release
# The dist profile has a target folder of its own: in the usual one, cargo would put files among the packages in target/dist.
distributed=target/distributed
# shellcheck disable=SC2034
dist=$distributed/$host/dist
logs=target/x

say() { printf '\n== %s\n' "$*" >&2; }

die() {
    echo "x: $*" >&2
    exit 1
}

# How long a script waits for apt's and dpkg's locks, in seconds: a fresh cloud machine updates itself for minutes.
lock_wait=600

# apt ARGUMENT…: runs apt-get, and waits while another process has the lists or the database locked. DPkg::Lock::Timeout covers
# the database alone.
apt() {
    local errors end=$((SECONDS + lock_wait)) told=
    errors=$(mktemp)
    until DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=20 "$@" >/dev/null 2>"$errors"; do
        if ! grep -q 'Could not get lock\|Unable to acquire the dpkg' "$errors" || [ $SECONDS -ge $end ]; then
            cat "$errors" >&2
            rm "$errors"
            return 1
        fi
        if [ -z "$told" ]; then say "waiting for another process that installs packages: $(grep -m 1 -o 'Could not get lock.*' "$errors")"; fi
        told=yes
        sleep 1
    done
    rm "$errors"
}

# install PACKAGE…: installs Debian packages as root, or names them.
install() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "please install these packages (named as in Debian), then try again: $*"
    fi
    say "installing $*"
    apt update
    apt install -y --no-install-recommends --no-remove "$@"
}

need() { # need PROGRAM PACKAGE
    type -P "$1" >/dev/null || install "$2"
}

need_build_tools() {
    command -v cargo >/dev/null || die "please install Rust with rustup, then try again"
    need cc gcc
    [ -e "$(cc -print-file-name=libc.a)" ] || install libc6-dev
}

# The header with the macros of USDT probes.
need_sdt() {
    echo '#include <sys/sdt.h>' | cc -E - >/dev/null 2>&1 || install systemtap-sdt-dev
}

need_venv() {
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || install python3-venv
}

# Compilers and runtimes of the programs that symbols are looked up in, and tools to compare with.
need_languages() {
    need c++ g++
    need go golang-go
    need objcopy binutils
    need llvm-symbolizer-19 llvm-19
    need node nodejs
    need javac default-jdk-headless
    need python3 python3
}

# need_cargo_tool NAME: installs a subcommand of cargo, without optimization, which would take longer
# than it saves.
need_cargo_tool() {
    if ! cargo "${1#cargo-}" --version >/dev/null 2>&1; then
        say "building $1"
        cargo install --quiet --locked --debug "$1"
    fi
}

# The sampling profiler samply, below target/peers.
need_samply() {
    PATH=$PWD/target/peers/bin:$PATH
    type -P samply >/dev/null || { say "building samply" && cargo install --quiet --locked --root target/peers samply@0.13.1; }
}

# build_static TARGET [PROFILE [FEATURES]]: builds tare as one static file, with all features unless others are named. Profiles: demo and
# release (cheap to build), dist (distributed and measured), profiling (dist with debug info).
build_static() {
    local profile=${2:-release} folder=target
    if [ "$profile" = dist ]; then folder=$distributed; fi
    # A fixed address needs no relocation at start-up, which saves 4% of running the smallest command.
    local flags=(-C target-feature=+crt-static -C relocation-model=static) names=${CFLAGS:-}
    if [ "$profile" = dist ]; then # the same bytes wherever the sources lie
        local registry=${CARGO_HOME:-$HOME/.cargo}
        flags+=("--remap-path-prefix=$PWD=tare" "--remap-path-prefix=$registry=cargo")
        names+=" -ffile-prefix-map=$PWD=tare -ffile-prefix-map=$registry=cargo"
    fi
    # A relative path: cargo links in the workspace's folder, and an absolute one would change the hash in every symbol's name.
    if [ "$1" = "$host" ] && [[ $profile != @(release|demo) ]]; then flags+=(-C linker=crates/tare/ordered-cc); fi
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") CFLAGS=$names \
        cargo build --quiet --locked --profile "$profile" --target-dir "$folder" --target "$1" -p tare-perf --no-default-features --features "${3-full}"
}

# temporary_folder: makes the folder $temporary, removed when the script ends.
temporary_folder() {
    temporary=$(mktemp -d)
    trap 'rm -rf "$temporary"' EXIT
}

# Results. `./x test` names a file in TARE_RESULTS, to which each script that it runs appends its part.
result() { # result passed|failed NUMBER, result skipped WHY, result retried NAME
    if [ -n "${TARE_RESULTS:-}" ]; then echo "$*" >>"$TARE_RESULTS"; fi
}

skip() { # skip WHY
    echo "skipped: $*"
    result skipped "$*"
}

# collect_results: begins to collect, unless the caller does.
collect_results() {
    export TARE_RESULTS=$PWD/$logs/results
    mkdir -p "$logs"
    : >"$TARE_RESULTS"
}

# step NAME COMMAND…: a step of the tests. One that fails counts as a failed test, and the next steps still run.
step() {
    local failed_before
    failed_before=$(grep -c '^failed ' "$TARE_RESULTS" || true)
    "${@:2}" && return
    # The step may have counted its failures already.
    if [ "$(grep -c '^failed ' "$TARE_RESULTS" || true)" = "$failed_before" ]; then
        echo "FAILED $1"
        result failed 1
    fi
}

# Lists why tests were skipped and which passed at the second try, then prints the sums. CI reads the last line.
print_results() {
    sed -n 's/^skipped /skipped: /p' "$TARE_RESULTS" | sort | uniq -c
    sed -n 's/^retried /passed at the second try: /p' "$TARE_RESULTS"
    awk '{ sum[$1] += $1 == "skipped" ? 1 : $2 }
        END { printf "\n%d passed, %d failed, %d skipped\n", sum["passed"], sum["failed"], sum["skipped"]; exit sum["failed"] != 0 }' "$TARE_RESULTS"
}
