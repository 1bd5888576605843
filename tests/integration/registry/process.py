"""A registry as a process of its own, and nodes in ours, on a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.servers import NatsServer
from tests.unit.registry.nodes import CLUSTER, Script, build
from tidelog.config import ServiceConfig
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports


class Registry:
    """`python -m tidelog_registry`; `start` after `kill` uses the same data directory."""

    def __init__(self, server: NatsServer, data_dir: Path, *options: str) -> None:
        self._argv = [
            *(sys.executable, "-m", "tidelog_registry"),
            *("--cluster", CLUSTER, "--nats-url", server.url, "--data-dir", str(data_dir)),
            *options,
        ]
        self.log = data_dir.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdout=log, stderr=log)

    def end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, how)
        return process.wait(20)

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self._process is not None
        code = self._process.wait(30)
        self._process = None
        return code

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@asynccontextmanager
async def living(server: NatsServer, directory: Path, *scripts: Script) -> AsyncIterator[NatsBus]:
    """These nodes, each with its own connection; yields one for the test."""
    stop = asyncio.Event()
    buses = [await NatsBus.connect(server.url) for _ in range(len(scripts) + 1)]
    runs = []
    for script, bus in zip(scripts, buses, strict=False):
        ports = real_ports(ServiceConfig(), RealDisk(directory / script.node), bus)
        runs.append(asyncio.ensure_future(build(script, ports).run(stop)))
    try:
        yield buses[-1]
    finally:
        stop.set()
        await asyncio.gather(*runs, return_exceptions=True)
        for bus in buses:
            await bus.close()
