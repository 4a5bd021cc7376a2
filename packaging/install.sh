#!/bin/sh
# Installs tare from the archive beside this script, after comparing it with SHA256SUMS, which must
# come from a source that you trust.
#   install.sh [--prefix FOLDER]               installs below FOLDER (/usr/local)
#   install.sh --uninstall [--prefix FOLDER]   removes what was installed there
set -eu
version=@VERSION@
prefix=/usr/local
uninstall=no

die() {
    echo "install.sh: $*" >&2
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
    --prefix) [ $# -gt 1 ] || die "--prefix needs a folder"; prefix=$2; shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --uninstall) uninstall=yes ;;
    *) die "usage: install.sh [--uninstall] [--prefix FOLDER]" ;;
    esac
    shift
done
list=$prefix/share/doc/tare-perf/installed

if [ $uninstall = yes ]; then
    [ -e "$list" ] || die "$list does not exist: nothing was installed below $prefix"
    sed -n "s,^file ,$prefix/,p" "$list" | while IFS= read -r file; do rm -f "$file"; done
    folders=$(sed -n "s,^folder ,$prefix/,p" "$list")
    rm -f "$list"
    # Only folders that installing created, the innermost first, and only empty ones.
    echo "$folders" | while IFS= read -r folder; do
        if [ -n "$folder" ]; then rmdir "$folder" 2>/dev/null || true; fi
    done
    echo "removed tare from $prefix"
    exit
fi

case $(uname -m) in
x86_64 | amd64) architecture=x86_64 ;;
aarch64 | arm64) architecture=aarch64 ;;
*) die "there is no archive for $(uname -m); build from source: cargo install --locked tare-perf" ;;
esac
cd "$(dirname "$0")"
name=tare-perf-$version-$architecture
[ -e "$name.tar.gz" ] || die "$name.tar.gz must be in the folder of this script"
line=$(grep "  $name.tar.gz\$" SHA256SUMS) || die "SHA256SUMS has no line for $name.tar.gz"
echo "$line" | sha256sum -c - >/dev/null 2>&1 || die "$name.tar.gz differs from SHA256SUMS: download it again"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$name.tar.gz" -C "$work"
(cd "$work/$name" && find . -mindepth 1 -type d | sed 's,^\./,,') >"$work/folders"
mkdir -p "$prefix"
sort "$work/folders" | while IFS= read -r folder; do
    if [ ! -d "$prefix/$folder" ]; then
        mkdir "$prefix/$folder"
        echo "folder $folder"
    fi
done | sort -r >"$work/installed"
(cd "$work/$name" && find . -type f | sed 's,^\./,,' | sort) | while IFS= read -r file; do
    # Not overwritten in place, which fails while the program runs.
    rm -f "$prefix/$file"
    cp -p "$work/$name/$file" "$prefix/$file"
    echo "file $file"
done >>"$work/installed"
# An update keeps the folders that an earlier installation created.
if [ -e "$list" ]; then grep '^folder ' "$list" >>"$work/installed" || true; fi
cp "$work/installed" "$list"
echo "installed tare $version below $prefix; remove it with: $0 --uninstall --prefix $prefix"
