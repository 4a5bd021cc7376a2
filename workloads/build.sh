#!/usr/bin/env bash
# build.sh FOLDER: compiles the workloads into FOLDER with $CC (default cc), which may be a cross
# compiler. Skips programs newer than their source, and renames the others into place, so that
# several tests may run it at once.
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
build three.S -nostdlib
build loop.S -nostdlib
build spin.c
build burner.c
build locked.c
build timer.c
build flood.c
build used.c
build starts.c
build wakes.c
build left.c -pthread
build threads.c
build calls.c
build syscalls.c
build refuse.c
build peak.c
build mix.c
build blocked.c
build pipeline.c
build contended.c
build deadlock.c -pthread
build steps.c -fno-omit-frame-pointer
build ran.c
build waited.c waits.c
build latency.c
build usdt.c
build_library waits.c
for script in forks.sh commands.sh limits.sh recorded.sh short-python.sh; do
    cp "$script" "$into/$script.$$"
    mv "$into/$script.$$" "$into/$script"
done
