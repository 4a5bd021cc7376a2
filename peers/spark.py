"""A Spark standalone cluster of separate processes on loopback: a master and two workers.

The classes come with the Python package pyspark; Java must be there.
"""

import os
import re
import signal
import subprocess
import time

import pyspark

HOME = os.path.dirname(pyspark.__file__)


class Cluster:
    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.environment = {**os.environ, "SPARK_HOME": HOME, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": folder, "SPARK_WORKER_DIR": folder}
        self.address = None
        self.start("master", "--port", "0", "--webui-port", "0")
        self.address = self.find("master", r"Starting Spark master at (spark://\S+)")
        self.workers = [self.add_worker(name) for name in ("worker-1", "worker-2")]

    def start(self, name, *arguments):
        part = name.partition("-")[0]
        command = [f"{HOME}/bin/spark-class", f"org.apache.spark.deploy.{part}.{part.capitalize()}", "--host", "127.0.0.1", *arguments]
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self.environment, start_new_session=True)
        self.processes.append(process)
        return process

    def add_worker(self, name):
        worker = self.start(name, "--cores", "1", "--memory", "1g", "--webui-port", "0", self.address)
        self.find(name, "(Successfully registered with master)")
        return worker

    def find(self, name, pattern):
        """Waits for a line of a log."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            with open(os.path.join(self.folder, name), encoding="utf-8") as log:
                found = re.search(pattern, log.read())
            if found:
                return found[1]
            time.sleep(0.1)
        raise TimeoutError(f"{name}: no line matches {pattern}")

    def executors(self, worker):
        """Processes of a worker that run a question's tasks."""
        with open(f"/proc/{worker.pid}/task/{worker.pid}/children", encoding="ascii") as children:
            return [int(pid) for pid in children.read().split()]

    def kill(self, worker):
        """Kills a worker and its executors at once."""
        for pid in [worker.pid, *self.executors(worker)]:
            os.kill(pid, signal.SIGKILL)

    def end(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
