"""Runs perf's shell tests with perf and with tare in its place.

perf_tests.py PERF TARE TESTS FOLDER [PATTERN]: PERF and TARE are commands, TESTS is the folder tools/perf/tests of the
kernel's sources, FOLDER gets the outputs, PATTERN is a regular expression that selects tests by name. The tests are run
as they are. Where they call `perf test`, `perf bench` or `perf check`, perf itself answers: these run the tests' own
programs, and say what perf was built with. Exit statuses are perf's: 0 passed, 2 skipped.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

LIMIT_SECONDS = 120


def wrapper(folder, perf, command):
    folder.mkdir(parents=True)
    program = folder / "perf"
    program.write_text(f'#!/bin/sh\ncase $1 in\ntest | bench | check) exec {perf} "$@" ;;\nesac\nexec {command} "$@"\n')
    program.chmod(0o755)
    return folder


def run(test, tests, programs, log):
    """Runs a test and returns its result."""
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", PERF_EXEC_PATH="/usr/libexec/perf-core", PAGER="cat")
    with open(log, "wb") as out:
        process = subprocess.Popen(
            ["bash", str(test)], cwd=tests, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            status = None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    return {0: "passes", 2: "skips", None: "hangs"}.get(status, "fails")


def main():
    perf, tare = sys.argv[1:3]
    tests, folder = (pathlib.Path(word).resolve() for word in sys.argv[3:5])
    chosen = re.compile(sys.argv[5] if len(sys.argv) > 5 else "")
    shutil.rmtree(folder, ignore_errors=True)
    tools = {"perf": wrapper(folder / "bin-perf", perf, perf), "tare": wrapper(folder / "bin-tare", perf, tare)}
    programs = [test for test in sorted((tests / "shell").glob("*.sh")) if chosen.search(test.name)]
    passed = {"perf": 0, "tare": 0}
    for test in programs:
        results = {}
        for tool, path in tools.items():
            # tare is tried where perf passes.
            if tool == "tare" and results["perf"] != "passes":
                continue
            started = time.monotonic()
            results[tool] = run(test, tests, path, folder / f"{test.stem}-{tool}.txt")
            passed[tool] += results[tool] == "passes"
            results[tool + " time"] = time.monotonic() - started
        print(f"{test.name:45} perf {results['perf']:7} {results['perf time']:5.1f} s"
              + (f"   tare {results['tare']:7} {results['tare time']:5.1f} s" if "tare" in results else ""), flush=True)
    print(f"{len(programs)} tests: perf passes {passed['perf']}, and tare {passed['tare']} of these")
    sys.exit(passed["tare"] < 0.75 * passed["perf"])


main()
