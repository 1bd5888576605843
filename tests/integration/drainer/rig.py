"""A Drainer on a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec

from tests.integration.drainer.fakes import CLUSTER, FEED, FakeRegistry
from tidelog.change_reader import Change, ChangeReader
from tidelog.ddl_history import with_ddl_history
from tidelog.ports import Bus, DdlHistory, Ports
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build

DEADLINE_S = 20.0


async def until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition. Raises AssertionError after `deadline_s`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline_s
    while not condition():
        assert loop.time() < end, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.01)


class Rig:
    def __init__(self, bus: Bus, directory: Path, history: DdlHistory) -> None:
        self.bus = bus
        self.directory = directory
        self.history = history
        self.registry = FakeRegistry(bus)
        self.config = DrainerConfig(
            node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=0.2, data_dir=str(directory)
        )

    def ports(self, node: str) -> Ports:
        ports = real_ports(self.config, RealDisk(self.directory / node), self.bus)
        return with_ddl_history(ports, self.history)

    @contextlib.asynccontextmanager
    async def drainer(self, **changed: object) -> AsyncIterator[Callable[[], dict[str, object]]]:
        """Run the real tree; yields its status."""
        config = msgspec.structs.replace(self.config, **changed)
        tree = build(config, self.ports(config.node))
        stop = asyncio.Event()
        running = asyncio.get_running_loop().create_task(tree.run(stop))
        try:
            await until(lambda: tree.ready or running.done(), "the tree is up")
            yield tree.status  # type: ignore[misc]
            assert not running.done(), running.exception()
        except BaseException:
            print(tree.status())
            raise
        finally:
            stop.set()
            await running

    async def read(self, count: int, after_ts: int | None = 0) -> list[Change]:
        """Changes with transactions from the stream, until `count` transactions came. Not one more
        within DEADLINE_S is an error."""
        reader = ChangeReader(self.bus, FEED, after_ts)
        found: list[Change] = []
        clock = asyncio.get_running_loop().time
        end = clock() + DEADLINE_S
        try:
            while sum(len(change.txns) for change in found) < count:
                assert clock() < end, f"only {len(found)} changes came"
                if more := [change for change in await reader.next(0.2) if change.txns]:
                    found += more
                    end = clock() + DEADLINE_S
        finally:
            await reader.close()
        return found


async def rig_on(url: str, directory: Path, history: DdlHistory) -> tuple[Rig, Bus]:
    bus = await NatsBus.connect(url, timeout_s=10)
    rig = Rig(bus, directory, history)
    await rig.registry.start()
    return rig, bus


def run(
    url: str, directory: Path, history: DdlHistory, body: Callable[[Rig], Awaitable[None]]
) -> None:
    """Run `body` with a rig on the server at `url`."""

    async def main() -> None:
        rig, bus = await rig_on(url, directory, history)
        try:
            await body(rig)
            for pump in rig.registry.pumps:
                await pump.close()
        finally:
            await bus.close()

    asyncio.run(main())


def commit_times(found: list[Change]) -> list[int]:
    return [txn.commit_ts for change in found for txn in change.txns]
