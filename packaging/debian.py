"""Adds to a staging tree what only Debian's packages have: a changelog in Debian's form, the
copyright file, and reasons for two findings of lintian.

    debian.py VERSION STAGE
"""

import email.utils
import gzip
import os
import pathlib
import sys

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


def main(version, stage):
    stage = pathlib.Path(stage)
    doc = stage / "usr/share/doc/tare-perf"
    date = email.utils.formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    changelog = (
        f"tare-perf ({version}-1) stable; urgency=medium\n\n"
        f"  * Release {version}.\n\n"
        f" -- The tare authors <tare@packages.invalid>  {date}\n"
    )
    (doc / "changelog.Debian.gz").write_bytes(gzip.compress(changelog.encode(), 9, mtime=0))
    mit = pathlib.Path("LICENSE-MIT").read_text()
    mit = "".join(f" {line or '.'}\n" for line in mit.splitlines())
    (doc / "copyright").write_text(COPYRIGHT.format(mit=mit))
    overrides = stage / "usr/share/lintian/overrides/tare-perf"
    overrides.parent.mkdir(parents=True)
    overrides.write_text(pathlib.Path("packaging/lintian-overrides").read_text())


main(*sys.argv[1:])
