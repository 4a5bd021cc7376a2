#!/usr/bin/env bash
# build.sh FOLDER: compiles each program for each architecture into FOLDER. The bytes depend only on
# the sources, the compiler and Debian's libbpf-dev: no path gets into them, and of the debug
# information only BTF remains, which the loader needs.
set -euo pipefail
into=$(cd "$1" && pwd)
cd "$(dirname "$0")"
include=$(mktemp -d)
trap 'rm -rf "$include"' EXIT
# Only libbpf's headers: the kernel's and C's own don't suit BPF.
ln -s /usr/include/bpf "$include/bpf"
for source in *.bpf.c; do
    for architecture in x86:x86_64 arm64:aarch64; do
        object=$into/${source%.bpf.c}.${architecture#*:}.o
        clang-14 -target bpf -mcpu=v3 -D__TARGET_ARCH_"${architecture%:*}" -O2 -g -Wall -Werror -nostdinc -I "$include" \
            -fdebug-compilation-dir=. -ffile-prefix-map="$include"=include -c "$source" -o "$object"
        llvm-strip-14 --strip-debug "$object"
    done
done
