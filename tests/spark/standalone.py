"""A real cluster of one machine: Spark's own master and worker, of the package that pip installs.

with standalone(tmp_path) as cluster:
    cluster.start_worker()
    ... cluster.url ...
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.processes import until
from tests.servers import free_port
from tests.spark.lives import below, command

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = b"CoarseGrainedExecutorBackend"
HERE = "127.0.0.1"
START_S = 60.0


class Standalone:
    """Its processes, whose logs are in the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"spark://{HERE}:{self._port}"

    def start_master(self) -> None:
        self._start("master.Master", "--port", str(self._port))
        until(self._listens, lambda: f"Spark's master, {self._directory}", START_S)

    def start_worker(self, cores: int = 2) -> None:
        """Registered some seconds later."""
        place = ["--work-dir", str(self._directory / "work")]
        self._start("worker.Worker", "--cores", str(cores), "--memory", "1g", *place, self.url)

    def executors(self) -> list[int]:
        """The JVMs that our workers have started for an application."""
        known = [pid for process in self._processes for pid in below(process.pid)]
        return [pid for pid in known if EXECUTOR in command(pid)]

    @property
    def begun(self) -> int:
        """So many executors have been started so far."""
        return len(list((self._directory / "work").glob("app-*/*")))

    def _start(self, name: str, *arguments: str) -> None:
        command = [str(SPARK_CLASS), f"{DEPLOY}.{name}", "--host", HERE, "--webui-port", "0"]
        env = os.environ | {
            "SPARK_LOCAL_IP": HERE,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen([*command, *arguments], stdout=log, stderr=log, env=env)
        self._processes.append(process)

    def _listens(self) -> bool:
        try:
            with socket.create_connection((HERE, self._port), timeout=2):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """The worker first: it ends its executors."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait(30)


@contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    """With a master and no worker yet."""
    cluster = Standalone(directory)
    try:
        cluster.start_master()
        yield cluster
    finally:
        cluster.stop()
