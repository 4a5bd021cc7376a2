"""Reads and writes a store in a bucket of moto's S3 server, with outages.

Usage: bucket.py TARE GENERATOR FOLDER [SECONDS], run by ./x fleet-test. Answers about the bucket
must be those about the same store in a folder, also by DuckDB, before and after compaction. As root,
an agent writes into the bucket; meanwhile the server is away for SECONDS (12 by default) and agents
are killed. Then each window must be there once, each loss be counted, and every file be readable.
"""

import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

import boto3
import duckdb
import s3fs
from moto.server import ThreadedMotoServer

tare, generator, folder = sys.argv[1:4]
outage = float(sys.argv[4]) if len(sys.argv) > 4 else 12
port = 5577
endpoint = f"http://127.0.0.1:{port}"
os.environ.update(
    AWS_ENDPOINT_URL=endpoint,
    AWS_ACCESS_KEY_ID="key",
    AWS_SECRET_ACCESS_KEY="secret",
    AWS_REGION="us-east-1",
    XDG_CACHE_HOME=os.path.join(folder, "cache"),
)
os.makedirs(os.environ["XDG_CACHE_HOME"], exist_ok=True)
QUESTIONS = [
    ["top"],
    ["top", "--by", "function", "--total", "-E", "100", "--since", "2026-11-26T11:30"],
    ["losses", "--all-hosts"],
    ["nameless"],
    ["diff", "--by", "function", "--where", "version=1.4.2", "--versus-where", "version=1.5.0"],
    ["diff", "--until", "2026-11-26T12:00", "--versus-since", "2026-11-26T12:00"],
]
passed = failed = 0


def check(what, holds):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    print(f"{'ok' if holds else 'FAILED'}: {what}", flush=True)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr}")
    return done.stdout


logging.getLogger("werkzeug").setLevel(logging.ERROR)


def serve():
    server = ThreadedMotoServer(port=port, verbose=False)
    server.start()
    return server


def database():
    """DuckDB with the bucket as a file system."""
    connection = duckdb.connect()
    # s3fs caches listings otherwise.
    connection.register_filesystem(s3fs.S3FileSystem(use_listings_cache=False, skip_instance_cache=True))
    return connection


def services(bucket):
    """Samples and weight by service and event, as DuckDB reads the bucket."""
    files = f"read_parquet('{bucket}/samples/*/*/*.parquet')"
    rows = f"select service, event, sum(samples)::bigint, sum(weight)::bigint from {files} group by all order by all"
    return database().sql(rows).fetchall()


def compare(state, store, bucket):
    for question in QUESTIONS:
        for engine in ([], ["--engine", f"duckdb={sys.executable}", "--memory", "512M"]):
            ask = [tare, "fleet", *question, "--json", *engine, "--store"]
            check(f"{state}: {' '.join(question)} {' '.join(engine[:1])}", run(*ask, bucket) == run(*ask, store))
    local = duckdb.sql(
        "select service, event, sum(samples)::bigint, sum(weight)::bigint "
        f"from '{store}/samples/*/*/*.parquet' group by all order by all"
    ).fetchall()
    check(f"{state}: DuckDB's sums by service", services(bucket) == local)
    run(tare, "store", "verify", "--store", bucket)


def agent(bucket, spool, *options):
    command = [tare, "agent", "--store", bucket, "--spool", spool, "--window", "10s", "-F", "49", *options]
    environment = {**os.environ, "RUNTIME_DIRECTORY": os.path.join(folder, "run")}
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)


def status(bucket, spool):
    done = subprocess.run(
        [tare, "agent", "--status", "--json", "--store", bucket, "--spool", spool], capture_output=True, text=True
    )
    return json.loads(done.stdout) if done.stdout else {}


def wait(what, holds, seconds=120):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what}: waited in vain")
        time.sleep(0.2)


def write_and_fail(server, bucket, spool):
    """An agent through an outage and two kills; returns the server that runs then."""
    sent = lambda: status(bucket, spool).get("bucket") or {"windows": 0}
    running = agent(bucket, spool)
    wait("a window is sent", lambda: sent()["windows"] >= 1)
    server.stop()
    time.sleep(outage)
    wait("windows wait", lambda: sent()["waiting_windows"] >= 1)
    print(f"after {outage:g} s without server: {json.dumps(sent())}", flush=True)
    running.send_signal(signal.SIGKILL)
    running.wait()
    running = agent(bucket, spool)
    wait("it runs", lambda: status(bucket, spool).get("pid") == running.pid)
    server = serve()
    wait("all is sent", lambda: sent()["windows"] >= 1 and sent()["waiting_windows"] == 0)
    running.send_signal(signal.SIGKILL)
    running.wait()
    running = agent(bucket, spool)
    # The note of the killed agent stays until this one has begun.
    wait("it notes samples", lambda: status(bucket, spool).get("pid") == running.pid and noted(spool) > 0)
    running.terminate()
    began = time.monotonic()
    running.wait(timeout=60)
    print(f"ended within {time.monotonic() - began:.1f} s")
    return server


def noted(spool):
    try:
        return json.loads(pathlib.Path(spool, ".agent", "open-window").read_text())["samples"]
    except (OSError, ValueError):
        return 0


def check_written(bucket):
    connection = database()
    connection.sql(f"create view segments as select * from read_parquet('{bucket}/segments/*/*.parquet')")
    connection.sql(f"create view samples as select * from read_parquet('{bucket}/samples/*/*/*.parquet')")
    windows, gaps = (
        connection.sql(f"select count(*), sum(samples)::bigint from segments where kind = '{kind}'").fetchall()[0]
        for kind in ("window", "gap")
    )
    summed = connection.sql("select sum(samples)::bigint from samples").fetchall()[0][0]
    check(f"{windows[0]} windows have the {summed} samples of their rows", windows[1] == summed)
    check(f"{gaps[0]} gaps count {gaps[1]} lost samples", gaps[0] == 2)
    spans = connection.sql('select start, "end" from segments order by start').fetchall()
    check("no time is there twice", all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:])))
    apart = [(begin - end).total_seconds() for (_, end), (begin, _) in zip(spans, spans[1:])]
    check(f"at most {max(apart):.1f} s are neither a window nor a gap", max(apart) < 10)
    told = json.loads(run(tare, "store", "status", "--json", "--store", bucket))["hosts"][0]
    check("tare store status says the same", told["samples"] == summed and told["gap_samples"] == gaps[1])


def main():
    server = serve()
    client = boto3.client("s3")
    client.create_bucket(Bucket="fleet")
    store, bucket = os.path.join(folder, "bucket-store"), "s3://fleet/team/a"
    run(generator, "generate", store, "3", "2", "1", "11")
    for path in pathlib.Path(store).rglob("*.parquet"):
        client.upload_file(str(path), "fleet", f"team/a/{path.relative_to(store)}")
    compare("as written", store, bucket)
    run(tare, "store", "compact", "--store", bucket)
    compare("compacted", store, bucket)
    if os.geteuid() == 0:
        bucket, spool = "s3://fleet/agents", os.path.join(folder, "spool")
        server = write_and_fail(server, bucket, spool)
        check_written(bucket)
        run(tare, "store", "verify", "--store", bucket)
    else:
        print("skipped: only root may sample the whole machine")
    server.stop()
    results = os.environ.get("TARE_RESULTS")
    if results:
        with open(results, "a", encoding="utf-8") as file:
            file.write(f"passed {passed}\n" + (f"failed {failed}\n" if failed else ""))
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
