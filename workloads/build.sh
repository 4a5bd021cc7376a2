#!/usr/bin/env bash
# build.sh FOLDER: compiles the workloads into FOLDER, with $CC (cc unless told); a cross compiler does as well.
# What is newer than its source stays as it is, so that several tests may call this at once.
set -euo pipefail
mkdir -p "$1"
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
build() { # build SOURCE OPTION...
    name=${1%.*}
    if [ ! "$into/$name" -nt "$1" ]; then
        ${CC:-cc} -O2 -static -o "$into/$name.$$" "$@"
        mv "$into/$name.$$" "$into/$name"
    fi
}
build_library() { # build_library SOURCE
    library=$into/${1%.*}.so
    if [ ! "$library" -nt "$1" ]; then
        ${CC:-cc} -O2 -shared -fPIC -o "$library.$$" "$1"
        mv "$library.$$" "$library"
    fi
}
# Programs whose chains of calls are known: without frame pointers (known, throws, known-rust, known-go), and with them
# (known-fp). They are linked dynamically, as most are. What has no compiler here is left out.
build_known() ( # build_known NAME COMPILER SOURCE OPTION...
    name=$1 compiler=$2
    cd known
    if [ ! "$into/$name" -nt "$3" ] && type -P "$compiler" >/dev/null; then
        shift 2
        if [ "$compiler" = go ]; then set -- build -o "$into/$name.$$" "$@"; else set -- -o "$into/$name.$$" "$@"; fi
        "$compiler" "$@"
        mv "$into/$name.$$" "$into/$name"
    fi
)
build three.S -nostdlib
build loop.S -nostdlib
build spin.c
build burner.c
build timer.c
build flood.c
build used.c
build threads.c
build calls.c
build mix.c
build waited.c waits.c
build_library waits.c
if [ -z "${CC:-}" ]; then
    build_known libext.so cc ext.c -O2 -shared -fPIC
    rest=(-O2 -pthread "$into/libext.so" -Wl,-z,lazy "-Wl,-rpath,$into")
    build_known known cc known.c -fomit-frame-pointer "${rest[@]}"
    build_known known-fp cc known.c -fno-omit-frame-pointer -DFRAME_POINTERS "${rest[@]}"
    build_known throws c++ throws.cc -O2 -fomit-frame-pointer
    build_known known-rust rustc known.rs -O -C force-frame-pointers=no
    build_known known-go go known.go
fi
cp known-chains.awk forks.sh commands.sh limits.sh recorded.sh short-python.sh "$into/"
