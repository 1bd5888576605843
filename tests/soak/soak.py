"""A part of a soak: load, a reader of the stream and kills, for so long; then all is compared."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
import urllib.error
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.commit import commit
from tests.integration.membership.stream import Stream
from tests.soak.so_far import SoFar
from tests.soak.watch import Watch
from tests.topology import Running
from tests.wrong import Wrong
from tidelog.actor import first_error
from tidelog.config import ServiceConfig
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.timestamps import compose, physical_ms
from tidelog.workload import Workload, WorkloadConfig, compare
from tidelog.workload.ledger import Committed
from tidelog.workload.runs import take
from tidelog_cli.readback import sqlite_reader

CLUSTER, FEED = "default", "main"
VICTIMS = ("pump-1", "drainer", "applier", "pump-2", "registry", "nats")
LOOK_S = 1.0
LAG_S = 2.0
"""The downstream is there again when it is no further behind."""
BACK_S = 60.0
"""How long that may take after a kill, on a machine with other work."""
FLUSH_S = 120.0
SPARED_S = 3600.0
"""At the end of a soak of twice as long and more, all but these live: what a process collects while
it runs does not show in three minutes of life."""
KILLED_TO_THE_END = ("pump-1", "nats")


@dataclass
class Soak:
    """`seconds` of this part; `home`: what the parts have in common."""

    seconds: float
    home: Path
    so_far: SoFar

    async def run(self, running: Running, database: Path) -> int:
        """Bytes of nats-server's newest files at the end. Raises Wrong."""
        so_far, sources = self.so_far, commit()
        seed = so_far.seed + len(so_far.commits)
        watch = Watch(running.directory, so_far, running.process.pid)
        bus = await NatsBus.connect(running.nats, timeout_s=10)
        ports = real_ports(ServiceConfig(), RealDisk(self.home / "load"), bus)
        config = WorkloadConfig(
            cluster=CLUSTER,
            seed=seed,
            seconds=0,
            rate=so_far.asked.rate,
            clients=64,
            ddl_share=0.0005,
            dead_share=0.002,
            lock_ttl_s=1.5,
        )
        runs = RealDisk(self.home / "runs")
        lock = take(runs)
        load = Workload(ports, config, self._commit, runs)
        self._stream = Stream(bus, FEED, lambda: "soak", so_far.position)
        self._read_before = so_far.read
        stop = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(load.run(stop))
                reading = group.create_task(self._stream.run())
                looking = group.create_task(self._look(watch))
                await self._suffer(running, random.Random(seed))
                await self._end(load, running)
                contents = load.source.contents()
                reading.cancel()
                looking.cancel()
                stop.set()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            await bus.close()
            lock.release()
        so_far.read, so_far.position = self._read, self._stream.position
        so_far.seconds += self.seconds
        so_far.commits.append(sources)
        if (now := commit()) != sources:
            so_far.wrong.append(f"it began on {sources}; who was killed started anew on {now}")
        if so_far.read != so_far.committed:
            so_far.wrong.append(f"{so_far.committed} committed, and {so_far.read} were read")
        so_far.wrong += (await compare(contents, sqlite_reader(database, contents))).differences
        return watch.blocks

    def _commit(self, entry: Committed) -> None:
        self._stream.ledger.add(entry)
        self.so_far.committed += entry.kind != "nothing"

    @property
    def _read(self) -> int:
        return self._read_before + self._stream.checked

    async def _look(self, watch: Watch) -> None:
        while True:
            watch.look()
            await asyncio.sleep(LOOK_S)

    async def _suffer(self, running: Running, rng: random.Random) -> None:
        """The load alone first, then a kill each so often, one after the other in another order."""
        began, asked = time.monotonic(), self.so_far.asked
        ends, pause_s = began + self.seconds, asked.kill_each_s / 2
        await self._within(self._flows(running), "the load to arrive")
        victims: list[str] = []
        kills = self.so_far.kills
        while (left := ends - time.monotonic()) > pause_s:
            await asyncio.sleep(min(pause_s, left))
            at_s = self.so_far.seconds + time.monotonic() - began
            some = victims_at(at_s, asked.seconds)
            victims = [one for one in victims if one in some] or rng.sample(some, len(some))
            victim, at = victims.pop(), time.monotonic()
            os.kill(running.pid(victim), signal.SIGKILL)
            since = compose(int(time.time() * 1000))
            await self._within(self._flows(running, since), f"the flow after a kill of {victim}")
            took = time.monotonic() - at
            kills.append((victim, took))
            read = f"{self._read} of {self.so_far.committed} read"
            print(f"kill {len(kills)}: {victim}, {took:.1f} s, {read}", flush=True)
            await asyncio.sleep(max(0.0, pause_s - took))
        await asyncio.sleep(max(0.0, ends - time.monotonic()))

    def _flows(self, running: Running, beyond: int = 0) -> Callable[[], Awaitable[bool]]:
        """Is the downstream near the clock, and has it what was committed after `beyond`?"""

        async def look() -> bool:
            applied = await asyncio.to_thread(_applied_ts, running)
            behind_s = time.time() - physical_ms(applied) / 1000
            return applied > beyond and behind_s < LAG_S

        return look

    async def _within(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline = time.monotonic() + BACK_S
        while not await condition():
            if time.monotonic() > deadline:
                raise Wrong(f"waited {BACK_S} s for {what}")
            await asyncio.sleep(0.1)  # a process's status can't be awaited

    async def _end(self, load: Workload, running: Running) -> None:
        load.end()
        async with asyncio.timeout(FLUSH_S):
            await load.finished.wait()
        if not await load.client.flush(FLUSH_S):
            raise Wrong(f"{load.client.unacked} Commits and Rollbacks are not acked")
        last = load.source.last_commit_ts

        async def applied() -> bool:
            there = await asyncio.to_thread(_applied_ts, running)
            return there >= last and self._stream.has(last)

        await self._within(applied, "everything to be applied and read")


def victims_at(at_s: float, whole_s: float) -> tuple[str, ...]:
    """Who may be killed then, in a soak of so long."""
    spared = whole_s >= 2 * SPARED_S and at_s >= whole_s - SPARED_S
    return KILLED_TO_THE_END if spared else VICTIMS


def _applied_ts(running: Running) -> int:
    """0 while the Applier does not answer."""
    try:
        return int(running.said("applier")["applied_ts"])
    except (OSError, urllib.error.URLError, KeyError, ValueError, json.JSONDecodeError):
        return 0
