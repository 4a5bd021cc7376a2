#!/usr/bin/env bash
# build.sh FOLDER: compiles programs with known call chains into FOLDER: in C, C++ and Rust, linked
# dynamically and without frame pointers (known-fp: with them), and in Go. Skips languages without a
# compiler. A lock lets several tests run it at once.
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
build known-fp cc known.c -fno-omit-frame-pointer -DFRAME_POINTERS "${rest[@]}"
build throws c++ throws.cc -O2 -fomit-frame-pointer
build known-rust rustc known.rs -O -C force-frame-pointers=no
if type -P go >/dev/null && ! [ "$into/known-go" -nt known.go ]; then
    GOCACHE=${GOCACHE:-$into/go-cache} go build -o "$into/known-go" known.go
fi
cp chains.awk "$into/known-chains.awk"
