"""Asks every question of tare fleet with each engine, on a generated store in several states.

Usage: fleet.py TARE GENERATOR FOLDER [--all], run by ./x fleet-test. Each engine must give the answer of
the built-in one: the same JSON, byte by byte. The printed SQL must run on the tables of ddl in DuckDB and
DataFusion and Spark, with equal rows. Spark is a cluster of processes, of which a worker is killed during a
question.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import datafusion
import duckdb
from pyspark.sql import SparkSession

import spark

tare, generator, folder = sys.argv[1:4]
store = os.path.join(folder, "store")
QUESTIONS = [
    ["top"],
    ["top", "--by", "host", "--where", "service~^service-0", "--until", "2026-11-26T11:30"],
    ["top", "--by", "version", "--where", "host!=host-001"],
    ["top", "--by", "function", "-E", "100"],
    ["top", "--by", "function", "--total", "-E", "100", "--since", "2026-11-26T11:30"],
    ["top", "--by", "module", "-E", "50"],
    ["top", "--by", "module", "--total", "-E", "50", "--where", "service=service-04"],
    ["top", "--by", "reason"],
    ["top", "--where", "service=it's\\"],
    ["losses", "--all-hosts"],
    ["losses", "--all-hosts", "--since", "2026-11-26T12:15", "--where", "host=host-001"],
    ["nameless"],
    ["diff", "--by", "function", "--where", "version=1.4.2", "--versus-where", "version=1.5.0"],
    ["diff", "--by", "module", "--total", "--until", "2026-11-26T12:00", "--versus-since", "2026-11-26T12:00"],
    ["regressions"],
    ["regressions", "--until", "2026-11-26T12:00", "--versus-since", "2026-11-26T12:00"],
    ["search", "merge::flush.*1a", "--cost-per-core-hour", "0.04"],
    ["flame"],
    ["flame", "--by", "host", "--where", "env!=test", "--since", "2026-11-26T12:00"],
]
# Through tare, Spark starts anew for each question, which takes ten seconds: it gets these, and all with --all.
SPARK_QUESTIONS = {"as written": [], "half compacted": [8, 10], "compacted": [12], "symbolized later": [11]}
STATES = [
    ("as written", "generate", "3", "2", "1", "11", "3", "6000"),
    ("half compacted", "compact", "13"),
    ("compacted", "compact"),
    ("symbolized later", "symbolize"),
]
STATE_NAMES = [state[0] for state in STATES]
EMPTY = ("reason", "service=it's\\")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr}")
    return done.stdout


def ask(question, engine):
    return run(tare, "fleet", *question, "--store", store, "--json", *engine)


class Results:
    passed = 0
    failed = 0

    def add(self, is_right, message):
        if is_right:
            self.passed += 1
        else:
            self.failed += 1
            print(message, flush=True)


results = Results()


def skip(why):
    print(f"skipped: {why}", flush=True)
    path = os.environ.get("TARE_RESULTS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"skipped {why}\n")


def compare(state, engines):
    """Compares the engines' answers with the built-in one's, and tells how long each took."""
    seconds = dict.fromkeys(engines, 0.0)
    for at, question in enumerate(QUESTIONS):
        expected = ask(question, [])
        if not json.loads(expected)["rows"] and question[-1] not in EMPTY:
            results.add(False, f"{state}: no rows: {' '.join(question)}")
        for name, engine in engines.items():
            if name == "spark" and at not in SPARK_QUESTIONS[state] and "--all" not in sys.argv:
                continue
            begin = time.monotonic()
            answer = ask(question, engine)
            seconds[name] += time.monotonic() - begin
            results.add(answer == expected, f"{state}: {name} differs: {' '.join(question)}")
    print(f"{state}: " + ", ".join(f"{name} {time:.1f} s" for name, time in seconds.items()), flush=True)


class SqlSessions:
    """DuckDB, DataFusion and Spark, with the tables of ddl. Spark's session lasts, as it is slow to start."""

    def __init__(self, cluster):
        self.spark = None
        if cluster:
            builder = SparkSession.builder.master(cluster.address).config("spark.ui.enabled", "false")
            builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.sql.shuffle.partitions", "4")
            # The other core is for tare's questions.
            builder = builder.config("spark.cores.max", "1").config("spark.executor.memory", "512m")
            self.spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
            # It warns of patterns in paths.
            self.spark.sparkContext.setLogLevel("ERROR")
        self.duckdb = duckdb.connect()
        self.datafusion = datafusion.SessionContext()
        self.defined = []

    def define(self):
        """Defines the tables of the store's files."""
        for name in ["frames", "all_frames", "segments", "samples"] if self.defined else []:
            kind = "view" if name == "frames" else "table"
            self.duckdb.execute(f"drop view {name}")
            self.datafusion.sql(f"drop {kind} {name}")
            if self.spark:
                self.spark.catalog.dropTempView(name)
        run_each = {"duckdb": self.duckdb.execute, "datafusion": self.datafusion.sql}
        if self.spark:
            run_each["spark"] = self.spark.sql
        for engine, run_statement in run_each.items():
            for statement in run(tare, "fleet", "ddl", "--engine", engine, "--store", store).split(";\n"):
                if statement.strip():
                    run_statement(statement)
        self.defined = list(run_each)

    def rows(self, engine, statement):
        if engine == "duckdb":
            return self.duckdb.execute(statement).fetchall()
        if engine == "spark":
            return [tuple(row) for row in self.spark.sql(statement).collect()]
        table = self.datafusion.sql(statement).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns)))


def check_statements(state, sessions):
    """The text of --show-sql runs on the tables of ddl, with equal rows, and as many as the answer has."""
    sessions.define()
    for at, question in enumerate(QUESTIONS):
        # DataFusion reads no JSON.
        words = [word.replace("env!=test", "host!=host-002") for word in question]
        rows = {}
        for engine in sessions.defined:
            # Without --all, Spark runs those of a quarter of the questions in each state, so each of them once.
            if engine == "spark" and at % len(STATES) != STATE_NAMES.index(state) and "--all" not in sys.argv:
                continue
            text = run(tare, "fleet", *words, "--engine", engine, "--store", store, "--show-sql")
            statements = [statement for statement in text.split(";\n") if statement]
            rows[engine] = [sessions.rows(engine, statement) for statement in statements]
            results.add(rows[engine] == rows["duckdb"], f"{state}: rows of {engine} differ: {' '.join(question)}")
        if question[0] in ("top", "losses", "nameless"):
            answered = len(json.loads(ask(question, []))["rows"])
            counts = [len(part) for part in rows["duckdb"]]
            results.add(counts == [answered], f"{state}: --show-sql has other rows than the answer: {' '.join(question)}")


def check_sql(engines):
    """A statement gets the selection's rows, each once."""
    count = "select event, count(*) as n, sum(samples) as s from samples where samples > 0 group by event order by event"
    files = f"read_parquet('{store}/samples/*/*/*.parquet') where host <> 'host-001' and"
    rows = duckdb.sql(count.replace("samples where", files)).fetchall()
    expected = "event,n,s\n" + "".join(f"{event},{n},{s}\n" for event, n, s in rows)
    common = "with events as (select distinct event from samples) select count(*) as n from events"
    for name, engine in engines.items():
        answer = run(tare, "fleet", "sql", count + ";", "--store", store, "--csv", "--where", "host!=host-001", *engine)
        results.add(answer == expected, f"sql: {name} gives {answer} in place of {expected}")
        answer = run(tare, "fleet", "sql", common, "--store", store, "--csv", *engine)
        results.add(answer == f"n\n{len(rows)}\n", f"sql: {name} gives {answer}")


def kill_worker(cluster, engine):
    """A worker dies with its executors while they run a question."""
    question = ["flame"]
    expected = ask(question, [])
    worker = cluster.workers[0]
    killed = []

    def kill():
        while not cluster.executors(worker):
            time.sleep(0.05)
        # Its executor has started, and gets tasks.
        time.sleep(1)
        killed.extend(cluster.executors(worker))
        cluster.kill(worker)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    answer = ask(question, engine)
    killer.join(60)
    results.add(bool(killed), "spark: the question ended before a worker was killed")
    results.add(answer == expected, "spark: another answer after a worker was killed")


def main():
    # Ends the cluster too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    served = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "clickhouse.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    engines = {
        "duckdb": ["--engine", f"duckdb={sys.executable}", "--memory", "512M"],
        "clickhouse": ["--engine", f"clickhouse=http://127.0.0.1:{served.stdout.readline().strip()}"],
    }
    cluster = None
    if "--no-spark" in sys.argv:
        skip("Spark: --no-spark")
    elif not shutil.which("java"):
        skip("Spark: there is no Java")
    else:
        cluster = spark.Cluster(folder)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        engines["spark"] = ["--engine", f"spark={cluster.address}", "--threads", "1", "--memory", "512M"]
    try:
        sessions = SqlSessions(cluster)
        for state, *change in STATES:
            run(generator, change[0], store, *change[1:])
            compare(state, engines)
            check_statements(state, sessions)
            if state == "half compacted":
                check_sql(engines)
        if cluster:
            sessions.spark.stop()
            kill_worker(cluster, ["--engine", f"spark={cluster.address}"])
    finally:
        served.stdin.close()
        served.wait()
        if cluster:
            cluster.end()


main()
path = os.environ.get("TARE_RESULTS")
if path:
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"passed {results.passed}\n" + (f"failed {results.failed}\n" if results.failed else ""))
print(f"{results.passed} answers and statements are right, {results.failed} aren't")
sys.exit(results.failed != 0)
