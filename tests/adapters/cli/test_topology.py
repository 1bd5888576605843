"""A topology's NATS server, which `up` keeps alive as it does the services."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.processes import until
from tidelog.ports import Process, Processes
from tidelog.real.bus import NatsBus
from tidelog.real.processes import RealProcesses
from tidelog_cli import topology as module
from tidelog_cli.topology import Options, Topology

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
ENDS = (sys.executable, "-c", "raise SystemExit('the port is taken')")


class Sleeping:
    """Real processes; no service does anything, and NATS ends at once while it `fails`."""

    def __init__(self) -> None:
        self.fails = 0

    async def start(self, argv: Sequence[str], **more: Any) -> Process:
        if "-m" in argv:
            argv = SLEEPS
        elif self.fails:
            self.fails -= 1
            argv = ENDS
        return await RealProcesses().start(argv, **more)


def test_a_nats_server_that_can_t_be_started_again_is_told_and_tried_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", (0.0, 0.05))
    processes, said, told = Sleeping(), list[str](), asyncio.Event()

    def tell(line: str) -> None:
        said.append(line)
        if "can't be started" in line:
            told.set()

    async def scenario() -> None:
        options = Options(tmp_path, "blackhole:", pumps=1)
        topology, stop = Topology(options, cast(Processes, processes), tell), asyncio.Event()
        running = asyncio.ensure_future(topology.run(stop, lambda _: None))
        async with asyncio.timeout(60):
            await asyncio.to_thread(until, lambda: is_begun(topology), "the topology", 30)
            bus = await NatsBus.connect(topology.nats_url)
            processes.fails = 2
            first = topology.state().pids["nats"]
            os.kill(first, signal.SIGKILL)
            await told.wait()
            await asyncio.to_thread(until, lambda: is_another(topology, first), "another one", 30)
            await (await NatsBus.connect(topology.nats_url, timeout_s=30)).close()
            await bus.close()
            stop.set()
            await running

    asyncio.run(scenario())
    troubles = [line.partition(":")[0] for line in said if "nats-server" in line]
    assert troubles == [
        "nats-server ended with -9; it is started again",
        "nats-server can't be started now",
        "nats-server can't be started now",
    ]
    assert all("the port is taken" in line for line in said if "can't be started" in line)


def is_begun(topology: Topology) -> bool:
    """Once a service is there, the server is."""
    return bool(topology.children) and topology.children[0].process is not None


def is_another(topology: Topology, first: int) -> bool:
    return topology.state().pids["nats"] not in (0, first)
