# shellcheck shell=bash
# Sourced by linux/build/compare.sh and linux/build/review.sh: unpacks Debian's linux-source package and applies a series of linux/.
# The caller sets $root (of this project) and $linux (6.1 or 7.3).
# shellcheck disable=SC2154 # the caller sets both
package=linux-source-$linux
# shellcheck disable=SC2154
work=$root/target/vm-kernel/$linux
patches=("$root/linux/$linux"/0*.patch)

say() { echo "vm-kernel: $*" >&2; }

die() {
    say "$*"
    exit 1
}

# tools PROGRAM:PACKAGE…: installs the packages of missing programs
tools() {
    local program missing=()
    for program; do
        command -v "${program%:*}" >/dev/null || missing+=("${program#*:}")
    done
    if [ ${#missing[@]} -gt 0 ]; then ./x install "${missing[@]}"; fi
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

in_patched() {
    GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_CEILING_DIRECTORIES=$work \
        git -C "$work/patched" -c user.name=vm-kernel -c user.email=vm-kernel@localhost "$@"
}

# patched N: applies the first N patches by `git am` to the files that they touch, in the repository patched/. All lines of context must match.
patched() { # patched N
    local patch file said
    rm -rf "$work/patched"
    mkdir -p "$work/patched" "$work/pristine"
    sed -n 's,^--- a/,,p' "${patches[@]}" | sort -u | while read -r file; do
        mkdir -p "$(dirname "$work/pristine/$file")" "$(dirname "$work/patched/$file")"
        [ -e "$work/pristine/$file" ] || cp "$work/linux/$file" "$work/pristine/$file"
        cp "$work/pristine/$file" "$work/patched/$file"
    done
    in_patched init -q
    in_patched add --all --force
    in_patched commit -q -m "Linux $version"
    for patch in "${patches[@]:0:$1}"; do
        said=$(in_patched apply --check --verbose "$patch" 2>&1) ||
            die "$patch does not apply to $package $version; update the series (linux/README.md): $said"
        # A hunk that applied at another line may be in the wrong place.
        if grep -q offset <<<"$said"; then say "$patch applied to $version at other lines: check the result in $work/patched"; fi
        in_patched am -q "$patch" || die "git am refuses $patch"
    done
}

# Copies changed files of `patched` into the source tree. Unchanged ones keep their time, by which make decides.
put_in_place() {
    local file
    (cd "$work/patched" && find . -path ./.git -prune -o -type f -print) | while read -r file; do
        cmp -s "$work/patched/$file" "$work/linux/$file" || install -D -m 644 "$work/patched/$file" "$work/linux/$file"
    done
}

# configure FOLDER CONFIG… -- MAKE…: makes a build folder with tinyconfig and these options, anew when they change.
configure() {
    local build=$work/$1 configs=()
    shift
    while [ "$1" != -- ]; do
        configs+=("$1")
        shift
    done
    shift
    mkdir -p "$build"
    if ! cmp -s <(cat "${configs[@]}") "$build/wanted"; then
        "$@" -C "$work/linux" O="$build" tinyconfig >/dev/null
        cat "${configs[@]}" >>"$build/.config"
        "$@" -C "$work/linux" O="$build" olddefconfig >/dev/null 2>&1
        cat "${configs[@]}" >"$build/wanted"
    fi
}

# Prints a hash of the sources to be built, as part of an image's name.
fingerprint() { # fingerprint CONFIG…
    { echo "$version" && cat "$@" && (cd "$work/patched" && find . -path ./.git -prune -o -type f -print | sort | xargs sha256sum); } | sha256sum | cut -c1-16
}
