"""Asks every question of tare fleet with each engine, on a generated store in several states.

Usage: fleet.py TARE GENERATOR FOLDER, run by ./x fleet-test. Each engine must give the answer of the
built-in one: the same JSON, byte by byte. The printed SQL must run on the tables of ddl.
"""

import json
import os
import subprocess
import sys

import duckdb

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
    ["top", "--where", "service=it's"],
    ["losses", "--all-hosts"],
    ["losses", "--all-hosts", "--since", "2026-11-26T12:15", "--where", "host=host-001"],
    ["nameless"],
    ["diff", "--by", "function", "--where", "version=1.4.2", "--versus-where", "version=1.5.0"],
    ["diff", "--by", "module", "--total", "--until", "2026-11-26T12:00", "--versus-since", "2026-11-26T12:00"],
    ["regressions"],
    ["regressions", "--until", "2026-11-26T12:00", "--versus-since", "2026-11-26T12:00"],
    ["search", "merge::flush.*1a", "--cost-per-core-hour", "0.04"],
]
ENGINES = {"duckdb": ["--engine", f"duckdb={sys.executable}", "--memory", "512M"]}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.returncode}\n{done.stderr}")
    return done.stdout


def ask(question, engine):
    return run(tare, "fleet", *question, "--store", store, "--json", *engine)


def compare(state):
    failed = 0
    for question in QUESTIONS:
        expected = ask(question, [])
        rows = len(json.loads(expected)["rows"])
        for name, engine in ENGINES.items():
            if ask(question, engine) != expected:
                failed += 1
                print(f"{state}: {name} differs: {' '.join(question)}")
        if rows == 0 and question[-1] not in ("reason", "service=it's", "nameless"):
            failed += 1
            print(f"{state}: no rows: {' '.join(question)}")
    return failed


def check_statements():
    """The text of --show-sql runs on the tables of ddl, and has a row for each one of the answer."""
    failed = 0
    database = duckdb.connect()
    count = "select event, count(*) as n, sum(samples) as s from samples where samples > 0 group by event order by event"
    free = run(tare, "fleet", "sql", count + ";", "--store", store, "--csv", "--where", "host!=host-001", *ENGINES["duckdb"])
    files = f"read_parquet('{store}/samples/*/*/*.parquet') where host <> 'host-001' and"
    rows = duckdb.sql(count.replace("samples where", files)).fetchall()
    if free != "event,n,s\n" + "".join(f"{event},{n},{s}\n" for event, n, s in rows):
        failed += 1
        print(f"sql gives {free} in place of {rows}")
    database.execute(run(tare, "fleet", "ddl", "--store", store))
    for question in QUESTIONS:
        text = run(tare, "fleet", *question, "--store", store, "--show-sql")
        statements = [statement for statement in text.split(";\n") if statement]
        rows = [len(database.execute(statement).fetchall()) for statement in statements]
        answered = len(json.loads(ask(question, []))["rows"])
        if question[0] in ("top", "losses", "nameless") and rows != [answered]:
            failed += 1
            print(f"--show-sql has {rows} rows, the answer {answered}: {' '.join(question)}")
    return failed


failed = 0
run(generator, "generate", store, "3", "2", "1", "11")
failed += compare("as written")
run(generator, "compact", store, "13")
failed += compare("half compacted")
run(generator, "compact", store)
failed += compare("compacted")
failed += check_statements()
passed = 3 * len(QUESTIONS) * len(ENGINES) + len(QUESTIONS) - failed
results = os.environ.get("TARE_RESULTS")
if results:
    with open(results, "a", encoding="utf-8") as file:
        file.write(f"passed {passed}\n" + (f"failed {failed}\n" if failed else ""))
print(f"{passed} answers and statements are right, {failed} aren't")
sys.exit(failed != 0)
