#!/usr/bin/env bash
# build.sh FOLDER: compiles programs with known call chains into FOLDER: in C, C++ and Rust, linked
# dynamically and without frame pointers (known-fp: with them), and in Go; in C also linked in other
# ways, for 32 bits, and without the usual unwind tables. Skips what the compilers here can't build. A
# lock lets several tests run it at once.
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
exec 9>"$into/.known"
flock 9
build() { # build NAME COMPILER SOURCE OPTION...
    local name=$1 compiler=$2
    if [ "$into/$name" -nt "$3" ] || ! type -P "$compiler" >/dev/null; then return; fi
    shift 2
    "$compiler" -o "$into/$name.$$" "$@"
    mv "$into/$name.$$" "$into/$name"
}
build libext.so cc ext.c -O2 -shared -fPIC
rest=(-O2 -pthread "$into/libext.so" "-Wl,-z,lazy" "-Wl,-rpath,$into")
build known cc known.c -fomit-frame-pointer "${rest[@]}"
build known-large cc known.c -fomit-frame-pointer -DROOM=1000 "${rest[@]}" # up to 64 KiB of stack
# Most of its time is in calls and returns, and in functions that a signal interrupts there.
build known-short cc known.c -fomit-frame-pointer -DPASSES=20 "${rest[@]}"
build known-fp cc known.c -fno-omit-frame-pointer -DFRAME_POINTERS "${rest[@]}"
# try NAME COMPILER SOURCE OPTION...: the compiler or its libraries may lack what this needs.
try() { build "$@" 2>/dev/null || rm -f "$into/$1.$$"; }
bare=(-O2 -fomit-frame-pointer -pthread)
try known-static cc known.c ext.c "${bare[@]}" -static
try known-static-pie cc known.c ext.c "${bare[@]}" -static-pie -fPIE
try known-musl musl-gcc known.c ext.c "${bare[@]}" -static
try known-32 cc known.c ext.c "${bare[@]}" -m32 -Wno-overflow
none=(-fno-asynchronous-unwind-tables -fno-unwind-tables)
try known-debug-frame cc known.c ext.c "${bare[@]}" "${none[@]}" -g
try known-no-tables cc known.c ext.c "${bare[@]}" "${none[@]}"
try known-assembly cc assembly.c "${bare[@]}"
build throws c++ throws.cc -O2 -fomit-frame-pointer
build known-rust rustc known.rs -O -C force-frame-pointers=no
if type -P go >/dev/null && ! [ "$into/known-go" -nt known.go ]; then
    GOCACHE=${GOCACHE:-$into/go-cache} go build -o "$into/known-go" known.go
fi
cp chains.awk "$into/known-chains.awk"
