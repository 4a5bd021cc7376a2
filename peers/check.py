"""Has other tools read the exports of tare, and compares their sums by function with those of tare report.

check.py TARE MIX TOOLS: TARE is the binary, MIX the workload of that name, TOOLS the folder that ./x peers installed
pprof (bin/), npm's packages (npm/) and this Python (python/) into. It prints a line for each tool and recording; the
last line counts those that passed and failed.
"""

import base64
import collections
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

import duckdb
import pandas

from chromium import Page

TARE, MIX, TOOLS = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
NODE = TOOLS / "npm/node_modules" / f"node-linux-{'arm64' if platform.machine() == 'aarch64' else 'x64'}" / "bin/node"
RECORDINGS = {
    "call chains by frame pointers": ["-g", "-F", "999"],
    "copied stacks": ["--call-graph", "dwarf", "-F", "499"],
    "several events and threads": ["-g", "-e", "cpu-clock,page-faults/period=1,name=faults/", "-F", "999"],
}


def run(*words, **options):
    words = [str(word) for word in words]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.decode()} {done.stdout.decode()[:500]}")
    return done.stdout.decode()


class Sums:
    """Weights of functions by name: their own, and the total with callees where the name is unique."""

    def __init__(self):
        self.own, self.total, self.files = collections.Counter(), {}, collections.defaultdict(set)

    def add(self, name, own, total):
        self.own[name] += own
        self.total[name] = None if name in self.total else total


def named(entry):
    if entry.get("symbol"):
        return entry["symbol"]
    dso = entry.get("dso") or "[unknown]"
    return dso if dso.startswith("[") else f"[{dso}]"


def reported(recording):
    """The report's sums, by event."""
    report = json.loads(run(TARE, "report", "--json", "--children", "-g", "none", "--sort", "sym,dso", "-i", recording))
    events = {}
    for event in report["events"]:
        sums = events[event["event"]] = Sums()
        for entry in event["entries"]:
            name = named(entry)
            sums.add(name, entry["own"]["period"], entry["total"]["period"])
            sums.files[name].add(entry.get("dso"))
            if not entry.get("symbol"):
                sums.total[name] = None
    return events


def exported(recording, form, name):
    path = recording.with_name(name)
    if path.is_dir():  # of the recording before
        shutil.rmtree(path)
    run(TARE, "export", "--format", form, "-i", recording, "-o", path)
    return path


def hold(wanted, found, unit=1):
    """Compares one event's sums; `found` has (own, total) by name. Returns the number of functions."""
    for name in set(wanted.own) | set(found):
        own, total = found.get(name, (0, 0))
        if round(own * unit) != wanted.own[name]:
            raise AssertionError(f"{name}: itself {own * unit} instead of {wanted.own[name]}")
        if wanted.total.get(name) is not None and round(total * unit) != wanted.total[name]:
            raise AssertionError(f"{name}: {total * unit} with what it calls, instead of {wanted.total[name]}")
    return len(wanted.own)


def pprof(recording, events):
    path, count = exported(recording, "pprof", "profile.pb.gz"), 0
    comments = run(TOOLS / "bin/pprof", "-symbolize=none", "-comments", path)
    assert "samples in" in comments, f"no ledger among the comments: {comments}"
    for event, wanted in events.items():
        index = "cpu" if event.endswith("-clock") else re.sub(r"\W", "_", event)
        options = ["-symbolize=none", "-noinlines", "-top", "-nodecount=1000000", "-nodefraction=0", "-unit=ns"]
        options.append(f"-sample_index={index}")
        found = {}
        for line in run(TOOLS / "bin/pprof", *options, path).splitlines():
            parts = re.match(r"\s*(\d+)(?:ns)?\s+\S+%\s+\S+%\s+(\d+)(?:ns)?\s+\S+%  (.*)", line)
            if parts:
                own, total, name = parts.groups()
                name = re.sub(r" \(inline\)$", "", name)
                before = found.get(name, (0, 0))
                found[name] = (before[0] + int(own), before[1] + int(total))
        count += hold(wanted, found)
    return count


def firefox(recording, events):
    path, count = exported(recording, "firefox", "profile.json"), 0
    tracks = json.loads(path.read_text())["threads"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        cli = [NODE, TOOLS / "npm/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"]
        options = {"env": {**os.environ, "HOME": home}}
        try:
            run(*cli, "load", path, **options)
        except RuntimeError as error:
            # The tool waits only half a second for its own daemon to start.
            if "did not become ready" not in str(error):
                raise
        end = time.time() + 60
        while True:
            try:
                info = json.loads(run(*cli, "profile", "info", "--json", **options))
                break
            except (RuntimeError, ValueError):
                if time.time() > end:
                    raise
                time.sleep(1)
        try:
            # If the tool takes the file for perf's text, tracks are missing and samples have equal weights.
            assert info["threadCount"] == len(tracks), f"{info['threadCount']} of {len(tracks)} threads"
            found = {event: collections.defaultdict(lambda: (0, 0)) for event in events}
            for at, track in enumerate(tracks):
                words = ["thread", "functions", "--thread", f"t-{at}", "--limit", "0", "--include-idle", "--json"]
                functions = json.loads(run(*cli, *words, **options))
                kind = track["samples"]["weightType"]
                assert functions["weightType"] == kind, f"weights are {functions['weightType']}, not {kind}"
                event = next((event for event in events if track["name"].endswith(f"({event})")), next(iter(events)))
                unit = 1e6 if kind == "tracing-ms" else 1
                for function in functions["functions"]:
                    own, total = found[event][function["name"]]
                    sums = [round(function[key] * unit) for key in ("selfSamples", "totalSamples")]
                    found[event][function["name"]] = (own + sums[0], total + sums[1])
            for event, wanted in events.items():
                count += hold(wanted, found[event])
        finally:
            run(*cli, "stop", "--all", **options)
    return count


def speedscope(recording, events):
    path, count = exported(recording, "speedscope", "profile.speedscope.json"), 0
    document = json.loads(path.read_text())
    # The file's own sums are exact.
    for profile in document["profiles"]:
        found = collections.defaultdict(lambda: (0, 0))
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            names = [document["shared"]["frames"][frame]["name"] for frame in stack[1:]]
            for name in set(names):
                own, total = found[name]
                found[name] = (own + (weight if name == names[-1] else 0), total + weight)
        count += hold(events[profile["name"]], found)
    # The page rounds the figures of the first profile to the digits that it shows.
    script = path.with_name("profile.js")
    script.write_text(f'speedscope.loadFileFromBase64("profile", "{base64.b64encode(path.read_bytes()).decode()}")')
    page = Page(f"file://{TOOLS}/npm/node_modules/speedscope/dist/release/index.html#localProfilePath={script}")
    try:
        page.wait("document.body && document.body.innerText.includes('Sandwich')")
        page.key("3")
        # Rows of functions have percentages; the page has other rows too.
        rows = "[...document.querySelectorAll('tr')].map((row) => row.innerText)"
        page.wait(f"{rows}.filter((row) => row.includes('%)')).length > 2")
        shown = page.js(rows)
    finally:
        page.close()
    wanted, units, seen = events[document["profiles"][0]["name"]], {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "": 1}, 0
    for row in shown:
        parts = re.match(r"([\d.,]+)(ns|µs|ms|s|) \([\d.]+%\)\s+([\d.,]+)(ns|µs|ms|s|) \([\d.]+%\)\s+(.*)", row)
        if not parts or len(wanted.files.get(parts.group(5), ())) != 1 or parts.group(5) not in wanted.total:
            continue
        name = parts.group(5)
        for text, unit, value in [(*parts.group(1, 2), wanted.total[name]), (*parts.group(3, 4), wanted.own[name])]:
            text = text.replace(",", "")
            digits = len(text.partition(".")[2])
            if abs(float(text) - value / units[unit]) > 0.51 * 10**-digits:
                raise AssertionError(f"{name}: the page shows {text}{unit} instead of {value}")
        seen += 1
    assert seen > 2, f"the page shows no functions: {shown[:5]}"
    return count + seen


def hold_tables(wanted, own, total):
    """Compares one event's sums of a store, whose frames have no name if only unwind tables know the function."""
    named = {name: (int(own.get(name, 0)), int(sum_)) for name, sum_ in total.items() if name}
    for name, (of_it, with_calls) in named.items():
        assert of_it == wanted.own[name], f"{name}: itself {of_it} instead of {wanted.own[name]}"
        expected = wanted.total.get(name)
        assert expected in (None, with_calls), f"{name}: {with_calls} with what it calls, instead of {expected}"
    assert sum(own.values()) == sum(wanted.own.values()), "the sum of all samples"
    assert len(named) > 2, f"functions: {named}"
    return len(named)


def parquet_duckdb(recording, events):
    path, count = exported(recording, "parquet", "duckdb-tables"), 0
    run(TARE, "store", "verify", "--store", path)
    connection = duckdb.connect()
    connection.execute(run(TARE, "fleet", "ddl", "--store", path))
    for event, wanted in events.items():
        rows = f"(select * from samples where event = '{event}')"
        own = dict(connection.sql(f"select function, sum(weight)::bigint from {rows} group by 1").fetchall())
        chains = "(select distinct stack_id, function from frames)"
        query = f"select c.function, sum(weight)::bigint from {rows} join {chains} c using (stack_id) group by 1"
        count += hold_tables(wanted, own, dict(connection.sql(query).fetchall()))
    return count


def parquet_pandas(recording, events):
    path, count = exported(recording, "parquet", "pandas-tables"), 0
    samples, frames = (pandas.concat(map(pandas.read_parquet, sorted((path / table).rglob("*.parquet")))) for table in ("samples", "frames"))
    chains = frames[["stack_id", "function"]].drop_duplicates()
    for event, wanted in events.items():
        rows = samples[samples.event == event]
        own = rows.groupby("function", dropna=False).weight.sum().to_dict()
        total = rows.merge(chains, on="stack_id", suffixes=("_leaf", "")).groupby("function").weight.sum().to_dict()
        count += hold_tables(wanted, own, total)
    return count


def tried(reads, name, recording, events):
    """Whether a peer reads the same sums. Callers try twice, as browsers and daemons may fail to start."""
    try:
        print(f"{reads.__name__}: {name}: {reads(recording, events)} functions are the report's", flush=True)
    except Exception as error:  # a peer may fail in any way
        print(f"FAILED {reads.__name__}: {name}: {type(error).__name__}: {error}", flush=True)
        return False
    return True


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, options in RECORDINGS.items():
            recording = pathlib.Path(folder) / "perf.data"
            run(TARE, "record", "-q", *options, "-o", recording, "--", MIX, "1", "90", "3")
            events = {event: sums for event, sums in reported(recording).items() if sums.own}
            assert len(events) == (2 if "-e" in options else 1), f"events of {name}: {list(events)}"
            for reads in (pprof, firefox, speedscope, parquet_duckdb, parquet_pandas):
                found = tried(reads, name, recording, events) or tried(reads, name, recording, events)
                passed, failed = passed + found, failed + (not found)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
