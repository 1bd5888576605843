"""The life of a cluster under load: `python -m tests.integration.membership.rig`.

A real nats-server, registry, Drainer and Pumps, the workload's clients, of whom some leave. Under
that load Pumps join, pause, are killed, leave (`script.py`), registry and NATS are killed. All
that was committed is in the Drainer's stream once, in order, as it was written; nothing else is.
Between two steps it waits for what must come true, never for a time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from rich.console import Console

from tests.integration.membership import processes
from tests.integration.membership.processes import CLUSTER, FEED, Processes, pump_name
from tests.integration.membership.script import PUMPS, Change, Outage, Step, script
from tests.integration.membership.stream import Stall, Stream
from tests.last_line import last_line
from tests.servers import NatsServer, nats_server
from tests.wrong import Wrong
from tidelog.actor import first_error
from tidelog.config import ServiceConfig
from tidelog.errors import TidelogError
from tidelog.logs import configure
from tidelog.messages import OFFLINE, ONLINE, PAUSED
from tidelog.oracle import RegistryOracle
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.workload import Committed, Workload, WorkloadConfig
from tidelog.workload.timestamps import fresh

RATE = 500.0
CLIENTS = 64
TABLES = 40
FEWEST = 100
"""Commits between two steps, at least; a quiet run proves nothing."""
STUCK_S = 60.0
AGAIN_S = 0.02
AIM_S = 6.0 + 2.0
"""The longest stall that is aimed at: a lease and 2 s."""

Condition = Callable[[], Awaitable[bool]]


class Rig:
    def __init__(self, nats: NatsServer, directory: Path, *, seed: int) -> None:
        self.processes = Processes(nats, directory, PUMPS)
        self.committed = self.last_commit_ts = 0
        self.writers = Stall(lambda: self.doing)
        self.doing = "start"
        self.steps = 0
        self.seconds = 0.0
        self._directory = directory
        self._seed = seed
        self._url = nats.url

    async def run(
        self, steps: Sequence[Step], on_step: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        try:
            await processes.create_feed(self._url)
            await asyncio.to_thread(self._begin)
            async with self._loaded():
                for step in steps:
                    self.doing = str(step)
                    on_step(self.doing)
                    await self._step(step)
                    await self._flowing()
                    self.steps += 1
                self.doing = "end"
        finally:
            self.seconds = time.monotonic() - began
            await asyncio.to_thread(self.processes.kill)

    def _begin(self) -> None:
        cluster = self.processes
        first = (cluster.registry, cluster.drainer, cluster.pumps[pump_name(1)])
        for service in first:
            service.start()
        for service in first:
            service.wait()

    @contextlib.asynccontextmanager
    async def _loaded(self) -> AsyncIterator[None]:
        """The load and its reader; at the end every transaction is decided, and was read."""
        self.bus = await NatsBus.connect(self._url, timeout_s=10)
        ports = real_ports(ServiceConfig(), RealDisk(self._directory / "load"), self.bus)
        config = WorkloadConfig(
            cluster=CLUSTER, seed=self._seed, seconds=3600, rate=RATE, clients=CLIENTS,
            tables=TABLES, ddl_share=0.002, dead_share=0.01, lock_ttl_s=1.5,
        )  # fmt: skip
        self.load = Workload(ports, config, self._commit)
        self.stream = Stream(self.bus, FEED, lambda: self.doing)
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.load.run(stop))
                reading = group.create_task(self.stream.run())
                await self._flowing()
                yield
                await self._end()
                reading.cancel()
                stop.set()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            await self.bus.close()

    def _commit(self, entry: Committed) -> None:
        """A DDL binlog that changes nothing is not in the stream."""
        self.stream.ledger.add(entry)
        self.committed += entry.kind != "nothing"
        self.last_commit_ts = max(self.last_commit_ts, entry.commit_ts)
        self.writers.move()

    async def _end(self) -> None:
        self.load.end()
        await self._until(self._decided, "every transaction to be decided")
        if not await self.load.client.flush(STUCK_S):
            raise Wrong(f"{self.load.client.unacked} Commits and Rollbacks are not acked")
        upto = await fresh(RegistryOracle(self.bus, CLUSTER), RealClock(), self.last_commit_ts)
        await self._until(self._read(upto), "everything to be read")
        if self.stream.checked != self.committed:
            raise Wrong(f"{self.committed} committed, and {self.stream.checked} were read")

    async def _decided(self) -> bool:
        return self.load.finished.is_set()

    # What is waited for -------------------------------------------------------------------------

    async def _until(self, condition: Condition, what: str) -> None:
        """Raises Wrong when it takes too long, or a process ended."""
        deadline = time.monotonic() + STUCK_S
        while not await condition():
            self.processes.check()
            if time.monotonic() > deadline:
                told = [f"{n.nodeId} {n.state} {n.detail}" for n in await processes.nodes(self.bus)]
                lines = "\n".join([*told, self.processes.logs()])
                raise Wrong(f"{self.doing}: waited {STUCK_S:.0f} s in vain for {what}\n{lines}")
            await asyncio.sleep(AGAIN_S)

    async def _flowing(self) -> None:
        """Transactions commit, and what was committed when that was known is in the stream."""
        await self._writing()
        await self._until(self._has_all, "the stream")

    async def _writing(self) -> None:
        enough = self.committed + FEWEST

        async def written() -> bool:
            return self.committed >= enough

        await self._until(written, "commits")

    async def _has_all(self) -> bool:
        return self.stream.has(self.last_commit_ts)

    def _read(self, upto: int) -> Condition:
        async def read() -> bool:
            return self.stream.position >= upto

        return read

    def _is(self, name: str, state: str) -> Condition:
        """Reachable, in that state."""

        async def reached() -> bool:
            status = await processes.node(self.bus, name)
            return status is not None and status.isAlive and status.state == state

        return reached

    def _serves(self, name: str) -> Condition:
        """Online, and the clients know."""
        online = self._is(name, ONLINE)

        async def served() -> bool:
            available = self.load.client.status()["available"]
            assert isinstance(available, list)
            return name in available and await online()

        return served

    # What is done -------------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        name = pump_name(step.pump)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._change(step.change, name))
                group.create_task(self._suffer(step.outages))
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors

    async def _change(self, change: Change, name: str) -> None:
        service = self.processes.pumps[name]
        match change:
            case Change.JOIN:
                service.start()
                await self._until(self._serves(name), f"{name} to join")
            case Change.JOIN_FROZEN:
                async with self._frozen():
                    service.start()
                    await self._until(self._serves(name), f"{name} to join")
                    await self._writing()
            case Change.PAUSE:
                await self._order(name, "pause", PAUSED)
            case Change.RESUME:
                await self._order(name, "resume", ONLINE)
                await self._until(self._serves(name), f"{name} to serve again")
            case Change.KILL:
                await asyncio.to_thread(service.kill)
                service.start()
                await self._until(self._serves(name), f"{name} to come back")
            case Change.OFFLINE:
                await self._offline(name)
            case Change.OFFLINE_FROZEN:
                async with self._frozen():
                    await self._until(self._ordered(name, "offline"), "the order")
                    # The Drainer's lease has run out: still it is waited for.
                    await self._until(self._drained(name), f"{name} to have drained")
                    if await self._is(name, OFFLINE)():
                        raise Wrong(f"{name} went offline before the Drainer had read it")
                await self._offline(name)

    async def _suffer(self, outages: Sequence[Outage]) -> None:
        cluster = self.processes
        for outage in outages:
            if outage is Outage.REGISTRY:
                await asyncio.to_thread(cluster.registry.kill)
                cluster.registry.start()
            else:
                await asyncio.to_thread(cluster.restart_nats)
            await self._writing()

    async def _order(self, name: str, action: str, state: str) -> None:
        await self._until(self._ordered(name, action), f"the order to {action} {name}")
        await self._until(self._is(name, state), f"{name} to be {state}")

    def _ordered(self, name: str, action: str) -> Condition:
        async def ordered() -> bool:
            return await processes.order(self.bus, name, action)

        return ordered

    def _drained(self, name: str) -> Condition:
        """Nothing keeps it but the Drainer, says the registry, or not even that."""

        async def drained() -> bool:
            status = await processes.node(self.bus, name)
            if status is None:
                return False
            return status.state == OFFLINE or f"feed {FEED}" in status.detail.get("closing", "")

        return drained

    async def _offline(self, name: str) -> None:
        """Everything that was committed on it by then is read: `Stream` holds the feed to that."""
        await self._order(name, "offline", OFFLINE)
        await self._flowing()
        await asyncio.to_thread(self.processes.end, self.processes.pumps[name])

    @contextlib.asynccontextmanager
    async def _frozen(self) -> AsyncIterator[None]:
        """The Drainer is frozen, its lease has run out."""
        self.processes.freeze_drainer()

        async def gone() -> bool:
            status = await processes.drainer(self.bus)
            return status is not None and not status.isAlive

        async def back() -> bool:
            status = await processes.drainer(self.bus)
            return status is not None and status.isAlive

        await self._until(gone, "the frozen Drainer's lease to run out")
        yield
        self.processes.thaw_drainer()
        await self._until(back, "the Drainer to be back")

    def summary(self) -> str:
        return (
            f"{self.steps} steps, {self.committed} committed, {self.stream.checked} checked,"
            f" longest stall of writers {self.writers}, of the stream {self.stream.stall} (aim"
            f" {AIM_S:.0f} s); {self.seconds:.0f} s, {self.committed / self.seconds:.0f}/s\n"
            + last_line("membership", self.steps, f"seed {self._seed}")
        )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quarter", action="store_true", help="one kill of registry and NATS each")
    options = parser.parse_args(argv)
    configure("auto", "error")
    console = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="membership-rig-") as directory,
        nats_server(Path(directory)) as nats,
    ):
        rig = Rig(nats, Path(directory), seed=options.seed)
        try:
            asyncio.run(rig.run(script(options.seed, quarter=options.quarter), console.log))
        except (Wrong, TidelogError) as error:
            print(f"{rig.doing}, seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
