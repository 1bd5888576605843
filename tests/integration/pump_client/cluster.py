"""A registry and Pumps as processes, on a private NATS server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.processes import until
from tests.servers import NatsServer, nats_server

READY_S = 30.0


@dataclass
class Service:
    """One process; `start` again after `kill` uses the same data directory: `directory`, or `data`
    where that is to be another place than its log's."""

    module: str
    directory: Path
    flags: list[str]
    process: subprocess.Popen[bytes] | None = None
    env: dict[str, str] = field(default_factory=dict)
    data: Path | None = None

    @property
    def data_dir(self) -> Path:
        return self.data or self.directory

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.data_dir / "http").unlink(missing_ok=True)
        argv = [sys.executable, "-m", self.module, "--data-dir", str(self.data_dir), *self.flags]
        with (self.directory / "log").open("ab") as log:
            env = os.environ | self.env
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=env)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Whoever looks meanwhile, from another thread, finds none: not one that ended by itself.
        One that does not end in time stays, so that it can be killed."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            if process.poll() is None:
                os.kill(process.pid, how)
            process.wait(30)
        except subprocess.TimeoutExpired:
            self.process = process
            raise

    def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            address = (self.data_dir / "http").read_text().strip()
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def wait(self) -> None:
        until(self.ready, self.log, READY_S)

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-3000:]


@dataclass
class Cluster:
    nats: NatsServer
    registry: Service
    pumps: list[Service] = field(default_factory=list)

    def workload(self, directory: Path, *flags: str) -> subprocess.Popen[str]:
        """`python -m tidelog.workload`, its dump and ledger in `directory`."""
        argv = [sys.executable, "-m", "tidelog.workload", "--nats", self.nats.url]
        argv += ["--dump", str(directory / "dump.json"), "--ledger", str(directory / "ledger")]
        return subprocess.Popen(
            [*argv, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


def summary(process: subprocess.Popen[str], timeout_s: float) -> dict[str, int]:
    """The JSON line a workload ends with."""
    out, err = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, err
    told: dict[str, int] = json.loads(out.splitlines()[-1])
    return told


@contextmanager
def cluster(directory: Path, pumps: int = 2) -> Iterator[Cluster]:
    with nats_server(directory) as nats:
        common = ["--nats-url", nats.url]
        made = Cluster(nats, Service("tidelog_registry", directory / "registry", common))
        for number in range(1, pumps + 1):
            flags = [*common, "--node-id", f"pump-{number}", "--grpc-addr", "127.0.0.1:0"]
            made.pumps.append(Service("tidelog_pump", directory / f"pump-{number}", flags))
        try:
            for service in (made.registry, *made.pumps):
                service.start()
            for service in (made.registry, *made.pumps):
                service.wait()
            yield made
        finally:
            for service in (*made.pumps, made.registry):
                service.kill()
