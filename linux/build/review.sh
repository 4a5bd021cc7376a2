#!/usr/bin/env bash
# Runs the checks of kernel reviewers over a series of linux/. linux/build/compare.sh calls it for `./x vm-kernel --review`, with the Linux version.
#
# After each patch kernel/events is built with W=1 and sparse: for arm64 with its PMU, for arm64 with CONFIG_PERF_EVENTS but no PMU, and for a 32-bit x86;
# a new warning of the compiler or of sparse is a failure. Then an x86-64 kernel without and with the series is booted in QEMU without
# acceleration and runs the kernel's own tests of perf events: inherit_samples must fail on the first and pass on the second, others must say the same on both.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
linux=$1
. linux/build/tree.sh
arm64=(make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-)
x86=(make -s ARCH=x86_64)
i386=(make -s ARCH=i386)
verdicts=$work/review
tests=tools/testing/selftests/perf_events

verdict() {
    echo "$*" | tee -a "$verdicts"
}

# Prints the warnings of one build of kernel/events, without line numbers. Linux 7.3 skips sparse 0.6.4, which doesn't know __typeof_unqual__, unless it is defined.
warnings() { # warnings FOLDER MAKE…
    local build=$work/$1
    shift
    "$@" -C "$work/linux" O="$build" -j"$(nproc)" W=1 C=2 CF=-D__typeof_unqual__=__typeof__ kernel/events/ >"$build.log" 2>&1 || return 1
    if grep 'sparse is not available' "$build.log" >&2 || [ ! -e "$build/kernel/events/core.o" ]; then return 1; fi
    { grep -E 'warning:|error:' "$build.log" || true; } | sed -E 's/:[0-9]+(:[0-9]+)?:/:/' | sort | uniq -c
}

# Builds after each patch of the series, for one kind of kernel.
each_patch() { # each_patch WHAT FOLDER CONFIG… -- MAKE…
    local what=$1 folder=$2 configs=() n new
    shift 2
    while [ "$1" != -- ]; do
        configs+=("$1")
        shift
    done
    shift
    patched 0 && put_in_place
    configure "$folder" "${configs[@]}" -- "$@"
    "$@" -C "$work/linux" O="$work/$folder" prepare >"$work/$folder.log" 2>&1 || die "no $what: $work/$folder.log"
    for ((n = 0; n <= ${#patches[@]}; n++)); do
        patched "$n" && put_in_place
        if ! warnings "$folder" "$@" >"$work/$folder.warnings.$n"; then
            verdict "FAILED $what: kernel/events does not build after $n patches: $work/$folder.log"
            return
        fi
    done
    for ((n = 1; n <= ${#patches[@]}; n++)); do
        new=$(diff "$work/$folder.warnings.0" "$work/$folder.warnings.$n" | grep '^>' || true)
        if [ -n "$new" ]; then
            echo "$new"
            verdict "FAILED $what, W=1 and sparse: new warnings after $n patches"
            return
        fi
    done
    verdict "ok $what, W=1 and sparse: kernel/events builds after each of ${#patches[@]} patches, with the $(wc -l <"$work/$folder.warnings.0") warnings of the stock kernel"
}

# Builds the tests by their makefile, but static, as the guest has no libraries.
x86_tests() {
    "${x86[@]}" -C "$work/linux" O="$work/build-x86" headers >"$work/build-x86.log" 2>&1 || die "no headers: $work/build-x86.log"
    rm -rf "$work/job-x86"
    mkdir -p "$work/job-x86"
    make -s -C "$work/linux/$tests" OUTPUT="$work/job-x86" top_srcdir="$work/linux" \
        KHDR_INCLUDES="-isystem $work/build-x86/usr/include" LDFLAGS="-static -pthread" >"$work/tests.log" 2>&1 || die "the tests do not build: $work/tests.log"
    cat >"$work/job-x86/run.sh" <<'END'
for test in ./*; do
    [ "$test" != ./run.sh ] || continue
    $test >/tmp/said 2>&1
    echo "test ${test#./}: $?"
    sed 's/^/    /' /tmp/said
done
exit 0
END
}

boot_x86() { # boot_x86 NAME
    local place=$work/initrd-x86
    "${x86[@]}" -C "$work/linux" O="$work/build-x86" -j"$(nproc)" bzImage >"$work/build-x86.log" 2>&1 || die "the x86-64 kernel does not build: $work/build-x86.log"
    rm -rf "$place"
    mkdir -p "$place"/{bin,sbin,usr/bin,usr/sbin,proc,sys,dev,tmp}
    cp "$(type -P busybox)" "$place/bin/busybox"
    ln -s busybox "$place/bin/sh"
    cp vm/init "$place/init"
    cp -r "$work/job-x86" "$place/job"
    (cd "$place" && find . | cpio -o -H newc --quiet) >"$work/initrd-x86.cpio"
    timeout 600 qemu-system-x86_64 -accel tcg -cpu max -smp 2 -m 1024 -nographic -no-reboot -nic none -kernel "$work/build-x86/arch/x86/boot/bzImage" \
        -initrd "$work/initrd-x86.cpio" -append "console=ttyS0 quiet panic=-1" </dev/null 2>&1 | tr -d '\r' >"$work/log.x86.$1" || true
    grep -q '^rig: status 0' "$work/log.x86.$1" || die "the x86-64 guest did not finish: $work/log.x86.$1"
    rm -rf "$place" "$work/initrd-x86.cpio"
}

result() { # result NAME TEST: prints its exit status
    sed -n "s/^test $2: //p" "$work/log.x86.$1"
}

x86_64() {
    local test stock series
    patched "${#patches[@]}" && put_in_place
    configure build-x86 linux/build/x86.config -- "${x86[@]}"
    x86_tests
    boot_x86 series
    patched 0 && put_in_place
    boot_x86 stock
    for test in "$work"/job-x86/*; do
        test=${test##*/}
        [ "$test" != run.sh ] || continue
        stock=$(result stock "$test") series=$(result series "$test")
        if [ "$test" = inherit_samples ] && [ "$series" = 0 ] && [ "$stock" = 1 ]; then
            verdict "ok x86-64, $test: fails on the stock kernel, passes with the series"
            sed -n '/^test inherit_samples/,/^test/p' "$work/log.x86.stock" "$work/log.x86.series" | grep -E 'counted|ok |SKIP' || true
        elif [ "$test" != inherit_samples ] && [ "$series" = "$stock" ]; then
            verdict "ok x86-64, $test: status $series on both kernels"
        else
            verdict "FAILED x86-64, $test: status $stock on the stock kernel, $series with the series"
        fi
    done
}

tools make:make gcc:gcc flex:flex bison:bison bc:bc perl:perl git:git xz:xz-utils sparse:sparse cpio:cpio busybox:busybox-static qemu-system-x86_64:qemu-system-x86
[ -e /usr/include/gelf.h ] || ./x install libelf-dev # objtool
vm/rig.sh setup-base
source_tree
: >"$verdicts"
each_patch "arm64" build-review-arm64 linux/build/arm64.config -- "${arm64[@]}"
each_patch "arm64 without a PMU" build-review-none linux/build/arm64.config linux/build/no-pmu.config -- "${arm64[@]}"
each_patch "32-bit x86" build-review-i386 linux/build/i386.config -- "${i386[@]}"
x86_64
if grep -q '^FAILED ' "$verdicts"; then exit 1; fi
