"""Prints the licences of everything linked into tare: the crates that cargo resolves for a target,
Rust's standard library, and the C library. Fails if a crate comes without a licence text.

    licences.py TARGET
"""

import json
import pathlib
import re
import subprocess
import sys

# Names of licence files, at the top of a crate and of the C sources that it includes.
NAME = re.compile(r"^(un)?licen[cs]e|^copying|^notice|^copyright", re.IGNORECASE)
# Sources of programs that are built but not linked.
UNUSED = re.compile(r"/(tests?|examples?|benches|fuzz|programs|contrib)/")
# Texts for crates that name their licences but don't include them.
SHARED = {"MIT": "LICENSE-MIT", "Apache-2.0": "LICENSE-APACHE"}
# Debian's package of the C library has the compiler's runtime's terms beside its own.
LIBRARIES = ["libc6", "libc6-dev-arm64-cross", "libc6-dev", "gcc-12-base", "gcc-14-base"]


def cargo(*arguments):
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(target):
    """The names and versions of the crates in the binary: not those of build scripts, macros and tests."""
    lines = cargo("tree", "-p", "tare-perf", "-e", "normal,no-proc-macro", "--target", target, "--prefix", "none", "-f", "{p}")
    return sorted({tuple(line.split()[:2]) for line in lines.splitlines() if line})


def texts(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and NAME.match(file.name)]
    files = [file for file in files if not UNUSED.search(str(file.relative_to(folder).parent) + "/")]
    # Source files may have such names, too.
    files = [file for file in files if file.suffix in ("", ".txt", ".md") or file.suffix[1:].isupper() or file.suffix[1:].isdigit()]
    return [file.read_text(errors="replace").strip() for file in sorted(files)]


def main(target):
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    packages = {(package["name"], "v" + package["version"]): package for package in metadata["packages"]}
    users = {}
    for key in linked(target):
        package = packages[key]
        if not package["source"]:
            continue
        name = f"{key[0]} {key[1][1:]} ({package['license']})"
        found = texts(pathlib.Path(package["manifest_path"]).parent)
        if not found:
            found = [pathlib.Path(file).read_text().strip() for id, file in SHARED.items() if id in package["license"]]
        if not found:
            sys.exit(f"licences.py: {name} has no licence text")
        for text in found:
            users.setdefault(text, []).append(name)
    rust = "Rust's standard library (MIT OR Apache-2.0)"
    for file in SHARED.values():
        users.setdefault(pathlib.Path(file).read_text().strip(), []).append(rust)
    for library in LIBRARIES:
        file = pathlib.Path("/usr/share/doc", library, "copyright")
        if file.exists():
            users.setdefault(file.read_text(errors="replace").strip(), []).append(f"{library}, linked statically")
    print("tare contains the following libraries. Each licence text follows the libraries under it.")
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        print("\n" + "=" * 80)
        print("\n".join(sorted(set(names))))
        print("-" * 80 + "\n")
        print(text)


main(*sys.argv[1:])
