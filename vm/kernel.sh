#!/usr/bin/env bash
# Builds a small arm64 kernel of Debian's linux-source package without and with the series in patches/linux, boots both with an emulated PMU, runs
# the workloads of vm/kernel-run.sh, prints one table and writes target/vm-kernel/result.json: see docs/kernel.md.
#
#   ./x vm-kernel             both kernels, with 1 and 2 CPUs
#   ./x vm-kernel --steps     also after each patch of the series
#   ./x vm-kernel --lockdep   the kernel with the series checks its own locking (PROVE_LOCKING, DEBUG_ATOMIC_SLEEP); no table
#   ./x vm-kernel --markdown  the tables of docs/kernel.md, from the result.json that is there; builds and runs nothing
set -euo pipefail
cd "$(dirname "$0")/.."
package=linux-source-6.1
root=$PWD
work=$root/target/vm-kernel
cross=(make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
# name:package of what the host needs
programs=(make:make gcc:gcc flex:flex bison:bison bc:bc perl:perl patch:patch xz:xz-utils jq:jq)
# A timer of QEMU's that runs out 20,000 times a second. QEMU lets the CPUs take turns until the next timer runs out; without it turns are so long that
# counters pass several periods before their CPU gets to see an interrupt, and one of two busy CPUs loses a quarter of its samples.
export RIG_QEMU="-netdev hubport,id=net,hubid=0 -object filter-buffer,id=turns,netdev=net,interval=50"
export RIG_TIMEOUT=1500

say() { echo "vm-kernel: $*" >&2; }

die() {
    say "$*"
    exit 1
}

tools() {
    local program missing=()
    for program in "${programs[@]}"; do
        command -v "${program%:*}" >/dev/null || missing+=("${program#*:}")
    done
    if [ ${#missing[@]} -gt 0 ]; then ./x install "${missing[@]}"; fi
    vm/rig.sh setup
}

source_tree() {
    if [ ! -e "$work/linux/.complete" ]; then
        say "fetching and unpacking $package"
        rm -rf "$work"
        mkdir -p "$work"
        vm/rig.sh unpack "$package" "$work/package"
        mkdir "$work/linux"
        tar xf "$work/package/usr/src/$package.tar.xz" -C "$work/linux" --strip-components=1
        rm -rf "$work/package"
        touch "$work/linux/.complete"
    fi
    version=$(make -s -C "$work/linux" kernelversion)
}

# What the first N patches make of the files that they touch, below patched/; says so when one doesn't apply.
patched() { # patched N
    local patch file said
    rm -rf "$work/patched"
    mkdir -p "$work/patched" "$work/pristine"
    sed -n 's,^+++ b/,,p' patches/linux/*.patch | sort -u | while read -r file; do
        mkdir -p "$work/pristine/${file%/*}" "$work/patched/${file%/*}"
        [ -e "$work/pristine/$file" ] || cp "$work/linux/$file" "$work/pristine/$file"
        cp "$work/pristine/$file" "$work/patched/$file"
    done
    for patch in "${patches[@]:0:$1}"; do
        said=$(patch --forward --fuzz=0 --no-backup-if-mismatch -p1 -d "$work/patched" <"$patch") ||
            die "$patch does not apply to $package $version any more: bring the series up to date, see patches/linux/README.md: $said"
        # With one line of context, a change that moved may have found a wrong place.
        if grep -q offset <<<"$said"; then say "$patch was made for another version than $version: read what it did in $work/patched"; fi
    done
}

# Puts what `patched` made where it is built, if it is another text: make goes by the time of a change.
put_in_place() {
    local file
    (cd "$work/patched" && find . -type f) | while read -r file; do
        cmp -s "$work/patched/$file" "$work/linux/$file" || cp "$work/patched/$file" "$work/linux/$file"
    done
}

# The image of the kernel with the first N patches; built unless it is there.
image() { # image N
    local kind=build image configs=(vm/kernel.config)
    if [ "$lockdep" = yes ]; then
        kind=build-lockdep
        configs+=(vm/kernel-lockdep.config)
    fi
    patched "$1"
    image=$work/images/$kind-$({ echo "$version" && cat "${configs[@]}" && (cd "$work/patched" && find . -type f | sort | xargs sha256sum); } | sha256sum | cut -c1-16)
    if [ ! -e "$image" ]; then
        say "building $version with $1 patches ($kind)"
        put_in_place
        mkdir -p "$work/$kind" "$work/images"
        if ! cmp -s <(cat "${configs[@]}") "$work/$kind/wanted"; then
            "${cross[@]}" -C "$work/linux" O="$work/$kind" tinyconfig >/dev/null
            cat "${configs[@]}" >>"$work/$kind/.config"
            "${cross[@]}" -C "$work/linux" O="$work/$kind" olddefconfig >/dev/null 2>&1
            cat "${configs[@]}" >"$work/$kind/wanted"
        fi
        nice "${cross[@]}" -C "$work/linux" O="$work/$kind" -j"$(nproc)" Image >"$work/$kind.log" 2>&1 || die "the kernel does not build: $work/$kind.log"
        cp "$work/$kind/arch/arm64/boot/Image" "$image"
    fi
    echo "$image"
}

measure() { # measure NAME IMAGE CPUS
    local log=$work/log.$1.$3
    RIG_IMAGE=$2 RIG_CPUS=$3 vm/rig.sh run "$work/job" >"$log" || die "the guest failed: $log"
    grep '^{' "$log" | jq -c --arg kernel "$1" --argjson cpus "$3" -f vm/kernel-row.jq >"$work/rows.$1.$3"
}

both_sizes() { # both_sizes NAME IMAGE: with 1 and 2 CPUs at a time
    local one
    say "running the workloads: $1"
    measure "$1" "$2" 1 &
    one=$!
    measure "$1" "$2" 2
    wait $one
}

job() {
    rm -rf "$work/job"
    mkdir -p "$work/job"
    aarch64-linux-gnu-gcc -O2 -static -Wall -Wextra -pthread -o "$work/job/kernel-measure" vm/kernel-measure.c
    cp vm/kernel-run.sh "$work/job/run.sh"
    cp target/aarch64-unknown-linux-gnu/release/tare "$work/job/"
    if [ "$lockdep" = yes ]; then touch "$work/job/checking"; fi
}

style() {
    local patch
    for patch in "${patches[@]}"; do # from stdin: what git knows is taken for source text
        if perl "$work/linux/scripts/checkpatch.pl" --root="$work/linux" --no-signoff --strict --terse - <"$patch" >"$work/checkpatch" 2>&1; then
            echo "ok checkpatch, ${patch##*/}"
        else
            cat "$work/checkpatch"
            echo "FAILED checkpatch, ${patch##*/}"
        fi
    done
}

table() {
    cat "$work"/rows.*.[12] | jq -s --slurpfile meta <(jq -n --arg linux "$version" '{linux: $linux}') '{linux: $meta[0].linux, rows: .}' >"$work/result.json"
    jq -r -L vm -f vm/kernel-table.jq "$work/result.json" | awk -F '\t' '
        { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > wide[i]) wide[i] = length($i) } fields[NR] = NF }
        END { for (r = 1; r <= NR; r++) { for (i = 1; i <= fields[r]; i++) printf i <= 3 ? "%-*s  " : "%*s  ", wide[i], cell[r, i]; print "" } }'
    echo
    jq -r -L vm -f vm/kernel-verdicts.jq "$work/result.json"
    grep -h '^FAILED ' "$work"/log.* | sort -u || true
}

steps=no lockdep=no
for option; do
    case $option in
    --steps) steps=yes ;;
    --lockdep) lockdep=yes ;;
    --markdown)
        [ -e "$work/result.json" ] || die "there are no figures yet: ./x vm-kernel"
        exec jq -r -L vm -f vm/kernel-markdown.jq "$work/result.json"
        ;;
    *) sed -n '2,8s/^# \?//p' "$0" && exit 2 ;;
    esac
done
patches=("$root"/patches/linux/0*.patch)
tools
source_tree
patched "${#patches[@]}"
job
if [ "$lockdep" = yes ]; then
    series=$(image "${#patches[@]}")
    both_sizes lockdep "$series"
    grep -hE '^(ok|FAILED) |WARNING|BUG' "$work"/log.lockdep.[12] | tee "$work/verdicts"
else
    kernels=(0)
    if [ "$steps" = yes ]; then
        for ((n = 1; n < ${#patches[@]}; n++)); do kernels+=("$n"); done
    fi
    kernels+=("${#patches[@]}")
    names=() images=()
    for n in "${kernels[@]}"; do # all first: what doesn't build shall not cost the time to measure
        names+=("patch-$n")
        images+=("$(image "$n")")
    done
    names[0]=stock names[-1]=series
    rm -f "$work"/rows.* "$work"/log.*
    for n in "${!names[@]}"; do both_sizes "${names[$n]}" "${images[$n]}"; done
    { table && style; } | tee "$work/verdicts"
fi
if grep -q '^FAILED ' "$work/verdicts"; then exit 1; fi
