"""Has hyperfine's own scripts read what `tare bench` exports.

hyperfine.py TARE HYPERFINE SCRIPTS: TARE and HYPERFINE are binaries, SCRIPTS the folder of hyperfine's scripts. It prints
a line for each script, and fails if one can't read the file, or if a field of hyperfine's results is missing.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TARE, HYPERFINE, SCRIPTS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
PLOTS = ["plot_whisker", "plot_histogram", "plot_progression"]
failed = []


def run(*words):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=300, env=environment)


def check(name, done):
    print(f"{'ok' if done.returncode == 0 else 'FAILED'}  {name}")
    if done.returncode != 0:
        failed.append(name)
        print(done.stdout[-500:], done.stderr[-500:])


def script(name, *words):
    check(f"hyperfine's {name}.py", run(sys.executable, SCRIPTS / f"{name}.py", *words))


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    two, scan, theirs = folder / "two.json", folder / "scan.json", folder / "theirs.json"
    options = ["-N", "--style", "none", "-r", "10"]
    check("tare bench", run(TARE, "bench", *options, "--export-json", two, "true", "sleep 0.01"))
    check("tare bench -P", run(TARE, "bench", *options, "--export-json", scan, "-P", "t", "1", "3", "sleep 0.0{t}"))
    check("hyperfine", run(HYPERFINE, *options, "--export-json", theirs, "true", "sleep 0.01"))
    for name in PLOTS:
        script(name, "-o", folder / f"{name}.png", two)
    script("plot_parametrized", "-o", folder / "scan.png", scan)
    script("plot_benchmark_comparison", "-o", folder / "bars.png", two, theirs)
    script("advanced_statistics", two)
    script("welch_ttest", two)
    fields = [set(json.loads(file.read_text())["results"][0]) for file in (theirs, two)]
    if missing := fields[0] - fields[1]:
        failed.append("fields")
        print(f"FAILED  fields of hyperfine's results that tare lacks: {sorted(missing)}")

print(f"{len(failed)} failed")
sys.exit(1 if failed else 0)
