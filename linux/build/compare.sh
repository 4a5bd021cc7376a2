#!/usr/bin/env bash
# Builds a small arm64 kernel of Debian's linux-source package without and with a series of linux/, boots both with an emulated PMU, runs
# the workloads of linux/build/in-guest.sh, prints a table and writes target/vm-kernel/LINUX/result.json: see linux/inherited-events.md.
#
#   ./x vm-kernel              both kernels, with 1 and 2 CPUs
#   ./x vm-kernel --steps      also after each patch of the series
#   ./x vm-kernel --lockdep    only the kernel with the series, which checks its own locking (PROVE_LOCKING, DEBUG_ATOMIC_SLEEP); no table
#   ./x vm-kernel --review     the checks of kernel reviewers, and the selftest on x86-64: linux/build/review.sh
#   ./x vm-kernel --markdown   prints the tables of linux/inherited-events.md from the last result.json; builds and runs nothing
#
# --linux 6.1 or --linux 7.3 (the default) selects the version.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
linux=7.3 task=measure steps=no
while [ $# -gt 0 ]; do
    case $1 in
    --steps) steps=yes ;;
    --lockdep | --review | --markdown) task=${1#--} ;;
    --linux) linux=${2:-} && shift ;;
    --linux=*) linux=${1#*=} ;;
    *) sed -n '2,11s/^# \?//p' "$0" && exit 2 ;;
    esac
    shift
done
if [ ! -d "linux/$linux" ]; then
    echo "vm-kernel: there is no series for Linux '$linux' in linux/" >&2
    exit 2
fi
. linux/build/tree.sh
if [ "$task" = review ]; then exec linux/build/review.sh "$linux"; fi
cross=(make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
# This network filter sets a timer of 50 us. QEMU's CPUs take turns, and each turn lasts until the next timer expires. Without this timer
# turns are longer than whole periods of a counter, and its CPU sees the interrupts too late.
export RIG_QEMU="-netdev hubport,id=net,hubid=0 -object filter-buffer,id=turns,netdev=net,interval=50"
export RIG_TIMEOUT=3000
# Boots of the stock kernel with 2 CPUs, at most, until enough of the rows are measurable.
boots=3

# image N: prints the path of the kernel image with the first N patches, and builds it unless it is there.
image() { # image N
    local kind=build image configs=(linux/build/arm64.config)
    if [ "$task" = lockdep ]; then
        kind="build-lockdep"
        configs+=(linux/build/lockdep.config)
    fi
    patched "$1"
    image=$work/images/$kind-$(fingerprint "${configs[@]}")
    if [ ! -e "$image" ]; then
        say "building $version with $1 patches ($kind)"
        put_in_place
        mkdir -p "$work/images"
        configure "$kind" "${configs[@]}" -- "${cross[@]}"
        nice "${cross[@]}" -C "$work/linux" O="$work/$kind" -j"$(nproc)" Image >"$work/$kind.log" 2>&1 || die "the kernel does not build: $work/$kind.log"
        cp "$work/$kind/arch/arm64/boot/Image" "$image"
    fi
    echo "$image"
}

measure() { # measure NAME IMAGE CPUS [BOOT]
    local log=$work/log.$1.$3
    RIG_IMAGE=$2 RIG_CPUS=$3 vm/rig.sh run "$work/job-$task" >"$log" || die "the guest failed: $log"
    grep '^{' "$log" | jq -c --arg kernel "$1" --argjson cpus "$3" --argjson boot "${4:-1}" -f linux/build/row.jq >"$work/rows.$1.$3"
}

# Whether the last boot of the stock kernel makes enough of the rows with 2 CPUs measurable.
measurable() {
    jq -es -L linux/build 'include "rows"; controls as $controls | map(select(is_promised and .cpus == 2 and is_measurable($controls))) | length >= enough_measurable' "$work/rows.stock.2" >/dev/null
}

# Runs every kernel with 1 CPU, one after the other, and at the same time every kernel with 2. A guest takes one CPU of the host; those with 1 CPU finish first.
all_of() { # all_of NAME IMAGE [NAME IMAGE]…
    local one
    with_one "$@" &
    one=$!
    with_two "$@"
    wait $one
}

with_one() {
    for (( ; $# > 0; )); do
        measure "$1" "$2" 1
        shift 2
    done
}

with_two() {
    local boot
    for (( ; $# > 0; )); do
        say "running the workloads: $1"
        for ((boot = 1; ; boot++)); do
            measure "$1" "$2" 2 $boot
            if [ "$1" != stock ] || [ $boot = $boots ] || measurable; then break; fi
            say "too few rows with 2 CPUs are measurable: booting the stock kernel again"
            jq -c -L linux/build 'include "rows"; select(is_control)' "$work/rows.stock.2" >"$work/rows.boot-$boot.2"
        done
        shift 2
    done
}

job() { # job PID: prepares the guest's folder, once process PID has built tare
    local selftest=$work/patched/tools/testing/selftests/perf_events/inherit_samples.c
    wait "$1" || die "tare does not build for the guest"
    rm -rf "$work/job-$task"
    mkdir -p "$work/job-$task"
    aarch64-linux-gnu-gcc -O2 -static -Wall -Wextra -pthread -o "$work/job-$task/kernel-measure" linux/build/measure.c
    if [ -e "$selftest" ]; then
        aarch64-linux-gnu-gcc -O2 -static -Wall -I "$work/linux/tools/testing/selftests" -I "$work/linux/tools/testing/selftests/perf_events" \
            -o "$work/job-$task/selftest" "$selftest"
    fi
    cp linux/build/in-guest.sh "$work/job-$task/run.sh"
    cp target/distributed/aarch64-unknown-linux-gnu/dist/tare "$work/job-$task/"
    if [ "$task" = lockdep ]; then touch "$work/job-$task/checking"; fi
}

style() {
    local patch
    for patch in "${patches[@]}"; do # from stdin, as checkpatch takes a file that git knows for source text
        if perl "$work/linux/scripts/checkpatch.pl" --root="$work/linux" --no-signoff --strict --terse - <"$patch" >"$work/checkpatch" 2>&1; then
            echo "ok checkpatch, ${patch##*/}"
        else
            cat "$work/checkpatch"
            echo "FAILED checkpatch, ${patch##*/}"
        fi
    done
}

table() {
    cat "$work"/rows.*.[12] | jq -s --arg linux "$version" '{linux: $linux, rows: .}' >"$work/result.json"
    jq -r -L linux/build -f linux/build/table.jq "$work/result.json" | awk -F '\t' '
        { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > wide[i]) wide[i] = length($i) } fields[NR] = NF }
        END { for (r = 1; r <= NR; r++) { for (i = 1; i <= fields[r]; i++) printf i <= 3 ? "%-*s  " : "%*s  ", wide[i], cell[r, i]; print "" } }'
    echo
    jq -r -L linux/build -f linux/build/verdicts.jq "$work/result.json"
    grep -h '^FAILED ' "$work"/log.* | sort -u || true
}

if [ "$task" = markdown ]; then
    [ -e "$work/result.json" ] || die "there is no result.json; make one with ./x vm-kernel --linux $linux"
    exec jq -r -L linux/build -f linux/build/markdown.jq "$work/result.json"
fi
tools make:make gcc:gcc flex:flex bison:bison bc:bc perl:perl git:git xz:xz-utils jq:jq
vm/rig.sh setup-base
RIG_EMULATOR=$(vm/rig.sh emulator) || die "QEMU 10 or later is needed, and neither the host nor Debian's backports have it: please install it"
export RIG_EMULATOR
source_tree
./x build-for-guest & # its last step takes one CPU only
guest_tare=$!
if [ "$task" = lockdep ]; then
    series=$(image "${#patches[@]}")
    job $guest_tare
    all_of lockdep "$series"
    grep -hE '^(ok|FAILED) |WARNING|BUG' "$work"/log.lockdep.[12] | tee "$work/verdicts"
else
    kernels=(0)
    if [ "$steps" = yes ]; then
        for ((n = 1; n < ${#patches[@]}; n++)); do # a patch that only adds a test changes no kernel
            if grep -q '^+++ b/kernel/' "${patches[n - 1]}" && sed -n 's,^+++ b/,,p' "${patches[@]:n}" | grep -q '^kernel/'; then kernels+=("$n"); fi
        done
    fi
    kernels+=("${#patches[@]}")
    measured=()
    for n in "${kernels[@]}"; do # all before measuring, so that one that doesn't build fails early
        case $n in
        0) name=stock ;;
        "${#patches[@]}") name=series ;;
        *) name=patch-$n ;;
        esac
        image=$(image "$n")
        measured+=("$name" "$image")
    done
    job $guest_tare
    rm -f "$work"/rows.* "$work"/log.*
    all_of "${measured[@]}"
    { table && style; } | tee "$work/verdicts"
fi
if grep -q '^FAILED ' "$work/verdicts"; then exit 1; fi
