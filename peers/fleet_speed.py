"""Times the questions of tare fleet on a store by engine, in interleaved runs, and tare's own peak memory.

Usage: fleet_speed.py TARE STORE RUNS ENGINE…, such as: fleet_speed.py tare store 5 built-in "duckdb=$(which python3)"
"""

import os
import statistics
import subprocess
import sys
import time

tare, store, runs = sys.argv[1], sys.argv[2], int(sys.argv[3])
ENGINES = sys.argv[4:]
NOON = "2026-11-26T12:00"
QUESTIONS = [
    ["top", "--by", "function"],
    ["regressions"],
    ["losses"],
    ["top"],
    ["top", "--by", "host"],
    ["top", "--by", "function", "--total"],
    ["top", "--by", "module"],
    ["top", "--by", "module", "--total"],
    ["nameless"],
    ["diff", "--by", "function", "--until", NOON, "--versus-since", NOON],
    ["regressions", "--until", NOON, "--versus-since", NOON],
    ["search", "merge::flush.*1a"],
    ["flame", "--csv"],
    ["flame", "-o", "/dev/stdout.html"],
]


def ask(question, engine):
    """Returns seconds and tare's own peak memory in MB."""
    question = [word.replace("/dev/stdout.html", f"{store}.html") for word in question]
    command = [tare, "fleet", *question, "--store", store, "--engine", engine, "--memory", "512M", "--threads", "2"]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while True:
        # A process that has ended and isn't waited for has no memory.
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        try:
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
                peak = max([peak, *(int(line.split()[1]) for line in status if line.startswith("VmHWM"))])
        except FileNotFoundError:
            pass
        if ended:
            break
        time.sleep(0.005)
    seconds = time.monotonic() - begin
    if process.wait() != 0:
        sys.exit(f"{command}: {process.returncode}")
    return seconds, peak / 1024


print("| question | " + " | ".join(f"{engine.split('=')[0]}: s | MB" for engine in ENGINES) + " |")
print("|---|" + "---|---|" * len(ENGINES))
for question in QUESTIONS:
    taken = {engine: [] for engine in ENGINES}
    for _ in range(runs):
        for engine in ENGINES:
            taken[engine].append(ask(question, engine))
    cells = []
    for engine in ENGINES:
        seconds = [seconds for seconds, _ in taken[engine]]
        cells.append(f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}) | {max(peak for _, peak in taken[engine]):.0f}")
    print(f"| {' '.join(question)} | {' | '.join(cells)} |", flush=True)
