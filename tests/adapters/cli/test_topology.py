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
from tests.servers import free_port
from tidelog.actor import first_error
from tidelog.errors import DiskFull, ForeignDirectory, Unavailable
from tidelog.ports import Process, Processes
from tidelog.real.bus import NatsBus
from tidelog.real.processes import RealProcesses
from tidelog_cli import feed, state_file
from tidelog_cli import topology as module
from tidelog_cli.child import Child
from tidelog_cli.topology import Options, Topology, is_free

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


def test_a_first_start_on_a_full_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was "ready", and no command found it."""

    def full(*_: object) -> None:
        raise DiskFull("tidelog.json: No space left on device")

    monkeypatch.setattr(state_file, "write", full)

    async def scenario() -> None:
        topology = Topology(Options(tmp_path, "blackhole:"), cast(Processes, Sleeping()))
        async with asyncio.timeout(60):
            with pytest.raises(BaseExceptionGroup) as ended:
                await topology.run(asyncio.Event(), lambda _: None)
        assert isinstance(first_error(ended.value), DiskFull)
        assert not any(is_running(child) for child in topology.children)

    asyncio.run(scenario())


def is_running(child: Child) -> bool:
    return child.process is not None and child.process.returncode is None


def is_begun(topology: Topology) -> bool:
    """Once a service is there, the server is."""
    return bool(topology.children) and topology.children[0].process is not None


def is_another(topology: Topology, first: int) -> bool:
    return topology.state().pids["nats"] not in (0, first)


def test_a_second_up_of_a_directory_begins_nothing(tmp_path: Path) -> None:
    processes = cast(Processes, Sleeping())

    async def scenario() -> None:
        first, second = (Topology(Options(tmp_path, "blackhole:"), processes) for _ in "12")
        stop = asyncio.Event()
        running = asyncio.ensure_future(first.run(stop, lambda _: None))
        async with asyncio.timeout(60):
            await asyncio.to_thread(until, lambda: is_begun(first), "the topology", 30)
            with pytest.raises(ForeignDirectory, match="another `tidelog up` runs in") as refused:
                await second.run(stop, lambda _: None)
            assert refused.value.hint == "stop that one first, or give this one another --dir"
            assert second.children == []
            stop.set()
            await running

    asyncio.run(scenario())


def test_a_feed_is_created_however_long_nobody_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, created = list[str](), asyncio.Event()

    async def ensure(_bus: object, _cluster: str, name: str, _begins: int) -> None:
        asked.append(name)
        if len(asked) < 3:
            raise Unavailable("no registry yet")
        created.set()

    monkeypatch.setattr(feed, "ensure", ensure)

    async def scenario() -> None:
        topology = Topology(Options(tmp_path, "blackhole:"), cast(Processes, Sleeping()))
        stop = asyncio.Event()
        running = asyncio.ensure_future(topology.run(stop, lambda _: None))
        async with asyncio.timeout(60):
            await created.wait()
            stop.set()
            await running

    asyncio.run(scenario())
    assert asked == ["main"] * 3


def test_a_port_is_free_once_nobody_listens_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        port = free_port()
        assert await is_free(port)
        server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
        asking = asyncio.ensure_future(is_free(port))
        await asyncio.sleep(0)
        server.close()
        await server.wait_closed()
        assert await asking
        monkeypatch.setattr(module, "PORT_S", 0.0)
        async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port):
            assert not await is_free(port)

    asyncio.run(scenario())
