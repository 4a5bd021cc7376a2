"""Makes the Debian package from the staged files, with what only Debian's packages have: a changelog
in Debian's form, the copyright file, the agent's unit, and reasons for two findings of lintian.

    debian.py ARCHITECTURE VERSION STAGE OUT
"""

import email.utils
import gzip
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
MAINTAINER = "The tare authors <tare@packages.invalid>"
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
CONTROL = """\
Package: tare-perf
Version: {version}-1
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kib}
Section: devel
Priority: optional
Description: Linux profiler that measures its own cost
 tare counts, samples and traces programs with perf's options and file format,
 excludes its own overhead from the result, and states what the measurement
 cost and what it missed. It works on virtual machines without hardware
 counters, without root and in containers.
"""
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: tare

Files: *
Copyright: the tare authors
License: MIT or Apache-2.0
Comment: The licences of the libraries that are linked in are in
 /usr/share/doc/tare-perf/THIRD-PARTY.

License: MIT
{mit}
License: Apache-2.0
 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.
"""


def write_documents(root, version):
    """Writes what Debian's policy requires beside the files of all packages."""
    doc = root / "usr/share/doc/tare-perf"
    date = email.utils.formatdate(EPOCH)
    changelog = (
        f"tare-perf ({version}-1) stable; urgency=medium\n\n"
        f"  * Release {version}.\n\n"
        f" -- {MAINTAINER}  {date}\n"
    )
    (doc / "changelog.Debian.gz").write_bytes(gzip.compress(changelog.encode(), 9, mtime=0))
    mit = pathlib.Path("LICENSE-MIT").read_text()
    mit = "".join(f" {line or '.'}\n" for line in mit.splitlines())
    (doc / "copyright").write_text(COPYRIGHT.format(mit=mit))
    # Not enabled: whoever installs a profiler may not want it always on.
    unit = root / "usr/lib/systemd/system/tare-agent.service"
    unit.parent.mkdir(parents=True)
    unit.write_text(pathlib.Path("packaging/tare-agent.service").read_text())
    overrides = root / "usr/share/lintian/overrides/tare-perf"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(pathlib.Path("packaging/lintian-overrides").read_text())


def write_control(root, architecture, version):
    files = sorted(file for file in root.rglob("*") if file.is_file())
    kib = sum(-(-file.stat().st_size // 1024) for file in files)
    control = CONTROL.format(architecture=DEBIAN[architecture], version=version, maintainer=MAINTAINER, kib=kib)
    sums = "".join(f"{hashlib.md5(file.read_bytes()).hexdigest()}  {file.relative_to(root)}\n" for file in files)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(control)
    (root / "DEBIAN/md5sums").write_text(sums)


def main(architecture, version, stage, out):
    root = pathlib.Path(stage).with_name("debian")
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(stage, root)
    write_documents(root, version)
    write_control(root, architecture, version)
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", root], check=True)
    package = pathlib.Path(out, f"tare-perf_{version}_{DEBIAN[architecture]}.deb")
    # One thread: the blocks of several depend on the number of CPUs.
    command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", root, package]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


main(*sys.argv[1:])
