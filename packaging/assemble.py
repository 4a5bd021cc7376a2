"""Writes the packages that are archives of files: tarball, Python wheel, npm packages, OCI image.
The same files and SOURCE_DATE_EPOCH give the same bytes.

    assemble.py ARCHITECTURE VERSION STAGE OUT

STAGE has usr/bin/tare, usr/share/man and usr/share/doc/tare-perf. The tarball and the wheel follow
their standards; maturin makes the same wheel (bindings "bin"), but would link the binary again.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import pathlib
import stat
import sys
import tarfile
import time
import zipfile

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
SUMMARY = "A Linux profiler that measures its own cost: perf's options and files, in one static binary"
# The architecture's name for npm and for OCI.
NODE = {"x86_64": "x64", "aarch64": "arm64"}
OCI = {"x86_64": "amd64", "aarch64": "arm64"}


def tar(entries, folders=()):
    """Returns a tar file of (path, bytes, mode), and of empty folders (path, mode)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, mode in folders:
            info = tarfile.TarInfo(path)
            info.type, info.mode, info.mtime = tarfile.DIRTYPE, mode, EPOCH
            archive.addfile(info)
        for path, data, mode in sorted(entries):
            info = tarfile.TarInfo(path)
            info.size, info.mode, info.mtime = len(data), mode, EPOCH
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def compress(data):
    return gzip.compress(data, 9, mtime=0)


class Stage:
    """The staged files of one architecture."""

    def __init__(self, root):
        self.usr = pathlib.Path(root, "usr")
        self.binary = (self.usr / "bin/tare").read_bytes()

    def doc(self, name):
        return (self.usr / "share/doc/tare-perf" / name).read_bytes()

    def files(self, folder):
        """(path below usr, bytes, mode) of the files in a folder."""
        found = [file for file in (self.usr / folder).rglob("*") if file.is_file()]
        return [(str(f.relative_to(self.usr)), f.read_bytes(), 0o755 if os.access(f, os.X_OK) else 0o644) for f in sorted(found)]

    def pages(self):
        """(path below share/man, text) of the man pages, not compressed."""
        return [(path, gzip.decompress(data)) for path, data, _ in self.files("share/man")]

    def notices(self):
        """(name, text) of the licences."""
        return [(name, self.doc(name)) for name in ("LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY")]


def write_tarball(stage, architecture, version, out):
    name = f"tare-perf-{version}-{architecture}"
    entries = [(f"{name}/{path}", data, mode) for path, data, mode in stage.files("")]
    for document in ("README.md", "CHANGELOG.md"):
        entries.append((f"{name}/share/doc/tare-perf/{document}", pathlib.Path(document).read_bytes(), 0o644))
    (out / f"{name}.tar.gz").write_bytes(compress(tar(entries)))


def write_wheel(stage, architecture, version, out):
    name = f"tare_perf-{version}"
    platforms = [f"manylinux_2_17_{architecture}", f"manylinux2014_{architecture}", f"musllinux_1_1_{architecture}"]
    readme = pathlib.Path("crates/tare/README.md").read_text()
    notices = stage.notices()
    metadata = "\n".join([
        "Metadata-Version: 2.4", "Name: tare-perf", f"Version: {version}", f"Summary: {SUMMARY}",
        "License-Expression: MIT OR Apache-2.0", *(f"License-File: {notice}" for notice, _ in notices),
        "Keywords: profiler,perf,flamegraph,tracing,linux", "Classifier: Environment :: Console",
        "Classifier: Operating System :: POSIX :: Linux", "Classifier: Topic :: Software Development",
        "Requires-Python: >=3.7", "Description-Content-Type: text/markdown", "", readme,
    ])
    wheel = ["Wheel-Version: 1.0", "Generator: tare", "Root-Is-Purelib: false", *(f"Tag: py3-none-{p}" for p in platforms)]
    entries = [(f"{name}.data/scripts/tare", stage.binary, 0o755)]
    entries += [(f"{name}.data/data/{path.removesuffix('.gz')}", page, 0o644) for path, page in stage.pages()]
    entries += [(f"{name}.dist-info/licenses/{notice}", text, 0o644) for notice, text in notices]
    entries += [
        (f"{name}.dist-info/METADATA", metadata.encode(), 0o644),
        (f"{name}.dist-info/WHEEL", "\n".join([*wheel, ""]).encode(), 0o644),
        (f"{name}.dist-info/sboms/tare-perf.cdx.json", stage.doc("sbom.cdx.json"), 0o644),
    ]
    record = ""
    for path, data, _ in entries:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        record += f"{path},sha256={digest},{len(data)}\n"
    entries.append((f"{name}.dist-info/RECORD", f"{record}{name}.dist-info/RECORD,,\n".encode(), 0o644))
    # A zip file's times begin in 1980, in steps of two seconds.
    date = time.gmtime(max(EPOCH, 315532800))[:6]
    with zipfile.ZipFile(out / f"{name}-py3-none-{'.'.join(platforms)}.whl", "w") as archive:
        for path, data, mode in entries:
            info = zipfile.ZipInfo(path, date)
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, (stat.S_IFREG | mode) << 16, 3
            archive.writestr(info, data, compresslevel=9)


def package_json(name, version, more):
    fields = {"name": name, "version": version, "description": SUMMARY, "license": "MIT OR Apache-2.0",
              "keywords": ["profiler", "perf", "flamegraph", "tracing"], "os": ["linux"], **more}
    return (json.dumps(fields, indent=2) + "\n").encode()


def write_npm(stage, architecture, version, out):
    """Writes the package of one architecture, and the package that depends on those of all."""
    notices = [(f"package/{name}", text, 0o644) for name, text in stage.notices()]
    sbom = ("package/sbom.cdx.json", stage.doc("sbom.cdx.json"), 0o644)
    readme = ("package/README.md", pathlib.Path("crates/tare/README.md").read_bytes(), 0o644)
    binary = f"tare-perf-linux-{NODE[architecture]}"
    fields = {"cpu": [NODE[architecture]], "preferUnplugged": True}
    entries = [("package/package.json", package_json(binary, version, fields), 0o644),
               ("package/bin/tare", stage.binary, 0o755), readme, sbom, *notices]
    (out / f"{binary}-{version}.tgz").write_bytes(compress(tar(entries)))
    pages = [(f"package/man/{path.rsplit('/', 1)[1].removesuffix('.gz')}", page, 0o644) for path, page in stage.pages()]
    fields = {"bin": {"tare": "bin/tare.js"}, "man": sorted(f"./{path.removeprefix('package/')}" for path, *_ in pages),
              "optionalDependencies": {f"tare-perf-linux-{cpu}": version for cpu in sorted(NODE.values())}}
    entries = [("package/package.json", package_json("tare-perf", version, fields), 0o644),
               ("package/bin/tare.js", pathlib.Path("packaging/npm.js").read_bytes(), 0o755), readme, sbom, *pages, *notices]
    # The SBOM and the licences are those of the first architecture.
    target = out / f"tare-perf-{version}.tgz"
    if not target.exists():
        target.write_bytes(compress(tar(entries)))


def write_image(stage, architecture, version, out):
    """Writes an image from scratch as a tar file of the OCI layout: the binary and the authorities' certificates."""
    certificates = pathlib.Path("/etc/ssl/certs/ca-certificates.crt").read_bytes()
    files = [("usr/bin/tare", stage.binary, 0o755), ("etc/ssl/certs/ca-certificates.crt", certificates, 0o644)]
    files += [(f"usr/{path}", data, mode) for path, data, mode in stage.files("share/doc/tare-perf")]
    folders = [(path, 0o755) for path in ("etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "usr/share", "usr/share/doc", "usr/share/doc/tare-perf")]
    layer = tar(files, [*folders, ("tmp", 0o1777)])
    compressed = compress(layer)
    blobs = {}

    def add(data, kind, **more):
        digest = hashlib.sha256(data).hexdigest()
        blobs[digest] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data), **more}

    def encode(fields):
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()

    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    labels = {"org.opencontainers.image.title": "tare", "org.opencontainers.image.version": version,
              "org.opencontainers.image.licenses": "MIT OR Apache-2.0", "org.opencontainers.image.description": SUMMARY}
    platform = {"architecture": OCI[architecture], "os": "linux"}
    config = add(encode({
        **platform, "created": created,
        "config": {"Entrypoint": ["/usr/bin/tare"], "WorkingDir": "/tmp", "Labels": labels,
                   "Env": ["PATH=/usr/bin:/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "./x package"}],
    }), "config.v1+json")
    manifest = add(encode({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                           "layers": [add(compressed, "layer.v1.tar+gzip")]}), "manifest.v1+json",
                   platform=platform, annotations={"org.opencontainers.image.ref.name": version})
    entries = [("oci-layout", encode({"imageLayoutVersion": "1.0.0"}), 0o644),
               ("index.json", encode({"schemaVersion": 2, "manifests": [manifest]}), 0o644)]
    entries += [(f"blobs/sha256/{digest}", data, 0o644) for digest, data in blobs.items()]
    archive = tar(entries, [("blobs", 0o755), ("blobs/sha256", 0o755)])
    (out / f"tare-perf-{version}-{OCI[architecture]}.oci.tar").write_bytes(archive)


def main(architecture, version, root, out):
    stage, out = Stage(root), pathlib.Path(out)
    for write in (write_tarball, write_wheel, write_npm, write_image):
        write(stage, architecture, version, out)


main(*sys.argv[1:])
