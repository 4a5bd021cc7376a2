"""Runs perf's command lines with perf and with tare, and compares the kinds of result.

perf_lines.py PERF TARE FOLDER [PATTERN]: PERF and TARE are commands, FOLDER holds the files that a run makes, PATTERN
is a regular expression that selects lines of peers/perf-command-lines.txt. One row is printed for each line that gives
different kinds of result, and the outputs are kept in FOLDER. The last rows count the lines.
"""

import collections
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TABLE = pathlib.Path(__file__).with_name("perf-command-lines.txt")
PATTERNS = {
    "profile": r"\d+\.\d+\s*%|^\s*[\d.]+,| Percent +\|| Samples +\|| Period +\||PerfTop",
    "counts": r"^\s*\d[\d,.]*[\s,;:]+\S|<not (supported|counted)>|\"counter-value\"|^\s*[\d.]+[;,: ]\s*(\d+|<not)",
    "samples": r"\d+\.\d{3,}: |PERF_RECORD_|^\s*\d+\.\d{6}|^\s*\d+ \d+\.\d+",
    "calls": r"\w+ ?\(.*\)|\w\(.*<unfinished|Summary of events|max us +call|--- (\w+:\w+|\w+-fault) ",
    "text": r"\S",
}
LOAD = """
#include <time.h>
volatile unsigned long sum;
__attribute__((noinline)) void compute(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i * sum; }
__attribute__((noinline)) void repeat(unsigned n) { while (n--) compute(1000); }
int main(int argc, char **argv) {
    struct timespec start, now;
    long limit = argc > 1 ? 3600000000000 : 200000000;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        repeat(1000);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < limit);
    return argc < 0 || argv == 0;
}
"""
RECORDINGS = {
    "perf.data": "record -g -F 999 load",
    "perf.data.old": "record -g -F 999 load",
    "group.data": "record -e {cpu-clock,page-faults} load",
    "trace.data": "record -e raw_syscalls:sys_enter,raw_syscalls:sys_exit ls /",
    "sched.data": "sched record -- sleep 0.2",
    "lock.data": "lock record -a -- sleep 0.2",
    "mem.data": "record -d -e page-faults -c 1 load",
}


def lines():
    for row in TABLE.read_text().splitlines():
        if not row.startswith("#"):
            source, kind, line = row.split(" | ", 2)
            yield source, kind, line


def wrapper(folder, command):
    folder.mkdir(parents=True)
    program = folder / "perf"
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)


class Bench:
    """A folder with the workload and the recordings, and a process that computes."""

    def __init__(self, folder, perf, tare):
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        wrapper(folder / "bin-perf", perf)
        wrapper(folder / "bin-tare", tare)
        (folder / "load").mkdir()
        (folder / "load/load.c").write_text(LOAD)
        subprocess.run(["cc", "-g", "-O1", "-fno-omit-frame-pointer", "-o", "load/load", "load/load.c"], cwd=folder, check=True)
        self.busy = subprocess.Popen([folder / "load/load", "on"])
        self.inputs = folder / "inputs"
        self.inputs.mkdir()
        for name, words in RECORDINGS.items():
            words = words.split()
            at = 2 if words[0] in ("sched", "lock") else 1
            words[at:at] = ["-o", name]
            self.run("perf", " ".join(["perf", *(f"'{word}'" for word in words)]), self.inputs)

    def run(self, tool, line, folder):
        environment = dict(os.environ, PATH=f"{self.folder}/bin-{tool}:{self.folder}/load:{os.environ['PATH']}")
        environment |= {"PID": str(self.busy.pid), "PAGER": "cat", "TERM": "dumb", "HOME": str(self.folder), "DEBUGINFOD_URLS": ""}
        # Into files: perf record writes its recording to a standard output that is a pipe.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            process = subprocess.Popen(
                ["bash", "-c", line], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=error,
                start_new_session=True,
            )
            try:
                status = process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = "timeout"
            return status, *(self.text(file) for file in (out, error))

    @staticmethod
    def text(file):
        file.seek(0)
        return file.read(1 << 20).decode(errors="replace")

    def result(self, tool, number, kind, line):
        """The status, whether the result is of the kind, and the text."""
        folder = self.folder / f"{number:03}-{tool}"
        shutil.copytree(self.inputs, folder)
        if kind == "recording":
            for name in ("perf.data", "perf.data.old"):
                if not re.search(rf"-i {name}|inject|script|report", line):
                    (folder / name).unlink()
        started = time.time()
        status, out, error = self.run(tool, line, folder)
        text = f"{out}\n{error}"
        if kind == "recording":
            file = folder / "perf.data"
            right = file.exists() and file.stat().st_size > 500 and file.stat().st_mtime >= started - 1
        elif kind == "page":
            right = (folder / "page").exists() and (folder / "page").stat().st_size > 0
        elif kind == "text":
            right = bool(out.strip()) or (status == 0 and bool(error.strip()))
        else:
            right = bool(re.search(PATTERNS[kind], text, re.M))
        shutil.rmtree(folder)
        (self.folder / f"{number:03}-{tool}.txt").write_text(f"{line}\nstatus {status}\n--- stdout\n{out[:20000]}\n--- stderr\n{error[:5000]}\n")
        return status, right, text


def judge(perf, tare):
    """The verdict on a line, from the results of both."""
    if not perf[1] or perf[0] not in (0, 124, 130):
        return "perf can't"
    if tare[1] and tare[0] in (0, 124, 130):
        return "same"
    if tare[0] == "timeout":
        return "hangs"
    if re.search(r"^tare: perf's .*`[^`]+`", tare[2], re.M):
        return "answered"
    return "wrong"


def main():
    perf, tare, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    chosen = re.compile(sys.argv[4] if len(sys.argv) > 4 else "")
    bench = Bench(folder, perf, tare)
    rows = [(number, *row) for number, row in enumerate(lines(), 1) if chosen.search(row[2])]
    verdicts, lock = collections.Counter(), threading.Lock()

    def work():
        while True:
            with lock:
                if not rows:
                    return
                number, source, kind, line = rows.pop(0)
            verdict = judge(*(bench.result(tool, number, kind, line) for tool in ("perf", "tare")))
            with lock:
                verdicts[verdict] += 1
                if verdict != "same":
                    print(f"{verdict:10} {number:03} {kind:9} {line}", flush=True)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.busy.kill()
    impossible = verdicts["perf can't"]
    runs = sum(verdicts.values()) - impossible
    print(f"{runs} command lines that perf runs here: {verdicts['same']} the same kind of result ({100 * verdicts['same'] / max(runs, 1):.1f}%), "
          f"{verdicts['answered']} answered with what to type, {verdicts['wrong'] + verdicts['hangs']} wrong; perf can't run {impossible} others")
    sys.exit(verdicts["wrong"] + verdicts["hangs"] > 0 or verdicts["same"] < 0.95 * runs)


main()
