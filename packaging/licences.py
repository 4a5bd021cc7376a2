"""Lists everything linked into tare: the crates that cargo resolves for a target, Rust's standard
library, and the C library and compiler runtime. Fails if a crate comes without a licence text.

    licences.py texts TARGET   prints the licences
    licences.py sbom TARGET    prints the list of components (CycloneDX 1.5)
"""

import json
import os
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
# What the C compiler links into a static binary.
ARCHIVES = ["libc.a", "libgcc_eh.a"]


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates(target):
    """The packages in the binary, by name and version: not those of build scripts, macros and tests."""
    lines = output("cargo", "tree", "--locked", "-p", "tare-perf", "--features", "full", "-e", "normal,no-proc-macro", "--target", target, "--prefix", "none", "-f", "{p}")
    linked = sorted({tuple(line.split()[:2]) for line in lines.splitlines() if line})
    metadata = json.loads(output("cargo", "metadata", "--locked", "--features", "tare-perf/full", "--format-version", "1", "--filter-platform", target))
    packages = {(package["name"], "v" + package["version"]): package for package in metadata["packages"]}
    return [packages[key] for key in linked], metadata["resolve"]["nodes"]


def libraries(target):
    """The Debian packages of the archives that are linked in: (name, version, copyright file)."""
    architecture = target.split("-")[0]
    compiler = "cc" if architecture == os.uname().machine else f"{architecture}-linux-gnu-gcc"
    found = set()
    for archive in ARCHIVES:
        path = os.path.realpath(output(compiler, f"-print-file-name={archive}").strip())
        name = output("dpkg-query", "--search", path).split(":")[0]
        found.add((name, output("dpkg-query", "--show", "--showformat=${Version}", name), f"/usr/share/doc/{name}/copyright"))
    return sorted(found)


def texts(folder):
    files = [file for file in folder.rglob("*") if file.is_file() and NAME.match(file.name)]
    files = [file for file in files if not UNUSED.search(str(file.relative_to(folder).parent) + "/")]
    # Source files may have such names, too.
    files = [file for file in files if file.suffix in ("", ".txt", ".md") or file.suffix[1:].isupper() or file.suffix[1:].isdigit()]
    return [file.read_text(errors="replace").strip() for file in sorted(files)]


def print_texts(target):
    users = {}
    for package in crates(target)[0]:
        if not package["source"]:
            continue
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = texts(pathlib.Path(package["manifest_path"]).parent)
        if not found:
            found = [pathlib.Path(file).read_text().strip() for id, file in SHARED.items() if id in package["license"]]
        if not found:
            sys.exit(f"licences.py: {name} has no licence text")
        for text in found:
            users.setdefault(text, []).append(name)
    for file in SHARED.values():
        users.setdefault(pathlib.Path(file).read_text().strip(), []).append("Rust's standard library (MIT OR Apache-2.0)")
    for name, _, file in libraries(target):
        users.setdefault(pathlib.Path(file).read_text(errors="replace").strip(), []).append(f"{name}, linked statically")
    print("tare contains the following libraries. Each licence text follows the libraries under it.")
    for text, names in sorted(users.items(), key=lambda item: item[1]):
        print("\n" + "=" * 80)
        print("\n".join(sorted(set(names))))
        print("-" * 80 + "\n")
        print(text)


def component(package):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    # An older form of the licence's expression has a slash.
    licence = package["license"].replace("/", " OR ")
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "licenses": [{"expression": licence}], "purl": purl}


def print_sbom(target):
    linked, nodes = crates(target)
    refs = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in linked}
    packages = {package["name"]: package for package in linked}
    components = [component(package) for package in linked if package["name"] != "tare-perf"]
    rust = output(os.environ.get("RUSTC", "rustc"), "--version").split()[1]
    components.append({"type": "library", "name": "rust-std", "version": rust, "licenses": [{"expression": "MIT OR Apache-2.0"}]})
    for name, version, _ in libraries(target):
        components.append({"type": "library", "name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{version}"})
    edges = [{"ref": refs[node["id"]], "dependsOn": sorted({refs[id] for id in node["dependencies"] if id in refs})} for node in nodes if node["id"] in refs]
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {**component(packages["tare-perf"]), "type": "application"}},
        "components": components, "dependencies": sorted(edges, key=lambda edge: edge["ref"]),
    }
    json.dump(document, sys.stdout, indent=2, sort_keys=True)
    print()


{"texts": print_texts, "sbom": print_sbom}[sys.argv[1]](sys.argv[2])
