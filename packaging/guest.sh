#!/bin/sh
# Runs in the arm64 guest: installs, runs and removes the deb, the tarball and the wheel in a root of Debian's packages.
set -e
root=/tmp/root
mkdir $root
tar -xf /job/arm64.tar -C $root
mkdir -p $root/job
mount -o bind /job $root/job
mount -t proc proc $root/proc
mount -o bind /sys $root/sys
mount -o bind /dev $root/dev

list() {
    (cd $root && find . -xdev \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./job -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache \
        -o -path '*/.cache/tare' -o -path '*/.local/state/tare' -o -name __pycache__ \) -prune -o ! -type d -print | sort)
}

inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot $root "$@"; }

use() { # use TARE: records and reports with function names.
    inside "$1" record -q -g -o /tmp/perf.data -- /job/spin
    inside "$1" report --stdio -i /tmp/perf.data >/tmp/report
    rm $root/tmp/perf.data
    if ! grep -q spin_inner /tmp/report || ! grep -q spin_outer /tmp/report; then
        cat /tmp/report
        exit 1
    fi
}

gone() { # gone NAME: removal left no file.
    list >/tmp/after
    diff /tmp/before /tmp/after
    echo "ok $1 on $(uname -m), Linux $(uname -r)"
}

inside python3 -m venv --without-pip /venv
list >/tmp/before
inside sh -c 'dpkg -i /job/tare-perf_*_arm64.deb'
use /usr/bin/tare
inside dpkg --purge tare-perf
gone deb
inside /job/install.sh --prefix /usr/local
use /usr/local/bin/tare
inside /job/install.sh --uninstall --prefix /usr/local
gone tarball
# pip runs from the root: an installation of it into the environment takes minutes of emulation.
pip() { inside env PYTHONPATH=/usr/lib/python3/dist-packages /venv/bin/python -B -m pip "$@" --disable-pip-version-check --quiet; }
pip install --no-index --no-compile --find-links /job tare-perf
use /venv/bin/tare
pip uninstall --yes tare-perf
gone wheel
