"""Has an OpenTelemetry collector take what `tare agent --push` sends, by HTTP and gRPC, and compares what it
passes on with the store.

usage: push.py TARE WORKLOAD COLLECTOR"""

import collections
import http.server
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time

import duckdb

SCHEMES = ["otlp+http", "otlp+grpc"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sink(http.server.BaseHTTPRequestHandler):
    """Takes the requests that the collector passes on."""

    requests = []

    def do_POST(self):
        self.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def collector_config(ports):
    return f"""
receivers:
  otlp:
    protocols:
      grpc: {{endpoint: "127.0.0.1:{ports['otlp+grpc']}"}}
      http: {{endpoint: "127.0.0.1:{ports['otlp+http']}"}}
exporters:
  otlp_http:
    profiles_endpoint: http://127.0.0.1:{ports['sink']}/v1development/profiles
    encoding: json
    compression: none
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    profiles: {{receivers: [otlp], exporters: [otlp_http]}}
"""


def wait_for(port, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit("the collector ended")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit("the collector doesn't listen")


def collected(requests):
    """Sums of weight and samples by window, service, process and innermost function."""
    sums = collections.defaultdict(lambda: [0, 0])
    for request in requests:
        tables = request["dictionary"]
        strings = tables["stringTable"]

        def text(row, field):
            return strings[row.get(field, 0)]

        def leaf(sample):
            stack = tables["stackTable"][sample.get("stackIndex", 0)]
            lines = tables["locationTable"][stack["locationIndices"][0]].get("lines", [])
            name = text(tables["functionTable"][lines[0].get("functionIndex", 0)], "nameStrindex") if lines else ""
            return "" if name.startswith("[") else name

        def attribute(sample, name):
            for index in sample.get("attributeIndices", []):
                row = tables["attributeTable"][index]
                if text(row, "keyStrindex") == name:
                    return row["value"]["stringValue"]
            return ""

        for resource in request["resourceProfiles"]:
            # The collector replaces texts by their numbers.
            labels = {
                row.get("key") or text(row, "keyStrindex"): row["value"].get("stringValue")
                or text(row["value"], "stringValueStrindex")
                for row in resource["resource"]["attributes"]
            }
            for profile in (p for scope in resource["scopeProfiles"] for p in scope["profiles"]):
                kind = text(profile["sampleType"], "typeStrindex")
                place = {"cpu": 0, "samples": 1}[kind]
                for sample in profile["samples"]:
                    key = (
                        int(profile["timeUnixNano"]) // 1000,
                        labels.get("service.name", ""),
                        attribute(sample, "process.executable.name"),
                        leaf(sample),
                    )
                    sums[key][place] += sum(map(int, sample["values"]))
    return {key: tuple(value) for key, value in sums.items()}


def stored(store):
    rows = duckdb.sql(
        f"""select epoch_us("window"), coalesce(service, ''), coalesce(process, ''),
        coalesce(function, ''), sum(weight)::bigint, sum(samples)::bigint
        from read_parquet('{store}/samples/*/*/*.parquet') group by all"""
    ).fetchall()
    return {row[:4]: row[4:] for row in rows}


def check(tare, workload, ports, scheme, folder):
    Sink.requests.clear()
    store = folder / scheme
    url = f"{scheme}://127.0.0.1:{ports[scheme]}"
    with subprocess.Popen([workload, "60", "100", "2"], stdout=subprocess.DEVNULL) as program:
        options = ["-F", "99", "-e", "cpu-clock", "--max-overhead", "50%", "--window", "10s"]
        command = [tare, "agent", "--store", store, "--push", url, "--timeout", "15000", *options]
        subprocess.run(command, check=True)
        program.kill()
    status = subprocess.run([tare, "agent", "--status", "--json", "--store", store], stdout=subprocess.PIPE)
    target = json.loads(status.stdout)["push"][0]
    for _ in range(100):
        got, expected = collected(Sink.requests), stored(store)
        if got == expected:
            break
        time.sleep(0.1)
    if got != expected or target["waiting_windows"] or target["dropped_windows"]:
        differing = [(key, got.get(key), expected.get(key)) for key in {*got, *expected}]
        print([row for row in differing if row[1] != row[2]][:10], target)
        sys.exit(f"{scheme}: the collector's sums aren't the store's")
    samples = sum(row[1] for row in expected.values())
    windows = len({key[0] for key in expected})
    print(f"{scheme}: {windows} windows, {len(expected)} rows and {samples} samples, equal to the store")


def main():
    tare, workload, collector = sys.argv[1:]
    ports = {name: free_port() for name in ["otlp+grpc", "otlp+http", "sink"]}
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", ports["sink"]), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        config = folder / "collector.yaml"
        config.write_text(collector_config(ports))
        command = [collector, "--config", config, "--feature-gates", "service.profilesSupport"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                wait_for(ports["otlp+http"], process)
                for scheme in SCHEMES:
                    check(tare, workload, ports, scheme, folder)
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
