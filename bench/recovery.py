"""How long changes stand still when a process is killed (SIGKILL) and started again at once.

Two Pumps, each with a writer that begins a transaction a moment after the one before; whatever is
refused or has no answer is asked for again, as a real writer does. From the kill until a row is
visible in MariaDB that was begun after it: on every Pump, so that one that is dead counts. Beside
it: how long the same process takes from its start until it is ready, when nothing else happens.
Last a Drainer that is not started again while another one stands by: beside it the lease, which
that one waits for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiomysql

from bench.apply import emptied, url_of
from bench.binlogs import commit, prewrite, prewrite_value
from bench.drain import builds, python_path
from bench.figure import Figure, Limit
from bench.latency import Watcher
from bench.limits_sql import connect
from bench.stage import CLUSTER, Stage, actors_of
from bench.tables import BenchTable
from bench.upstream import Upstream
from tests.servers import MariaDb
from tidelog.errors import TidelogError
from tidelog.lease import TAKEOVER_S
from tidelog.oracle import RegistryOracle

SECTION = "recovery"
PUMPS = 2
PAUSE_S = 0.04
AGAIN_S = 0.02
ANSWER_S = 1.0
STANDS_STILL_S = 120.0
CALM_S = 1.0
LOOK_BACK = 2000
"""Transactions of a Pump: more than it takes while anything stands still."""
DRAINERS = ("drainer", "drainer-2")
LOST = "Drainer, not started again, another stands by"

T = TypeVar("T")
Act = Callable[[], Coroutine[Any, Any, None]]


class Victim(NamedTuple):
    """`kill` returns when its successor runs; `stop` and `start` are for when nothing else
    happens."""

    name: str
    kill: Act
    stop: Act
    start: Act


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    """Each once; several runs say how far apart they are."""
    figures: list[Figure] = []
    await emptied(db)
    with python_path(builds()[-1][1]):
        async with Stage(directory, url_of(db), pumps=PUMPS, profile=profile) as stage:
            await stage.start("registry", *stage.pumps, "drainer", "applier")
            upstream = Upstream(stage.bus, stage.pumps)
            await upstream.create_database()
            table = await upstream.create_table(100, 6)
            victims = _victims(stage, db)
            starts = [Limit("its start by itself", await starting(v), "s") for v in victims]
            async with flowing(stage, db, table) as flow:
                for victim, limit in zip(victims, starts, strict=True):
                    figures.append(await _killed(flow, victim.name, victim.kill, limit))
                    stage.check()
                await stage.start(DRAINERS[1])
                lost = partial(stage.lose, await _leader(stage))
                lease = Limit("the lease that it leaves", TAKEOVER_S, "s")
                figures.append(await _killed(flow, LOST, lost, lease))
                stage.check()
    return figures


def _victims(stage: Stage, db: MariaDb) -> list[Victim]:
    def service(name: str, label: str) -> Victim:
        of = (partial(act, name) for act in (stage.kill, stage.stop, stage.start))
        return Victim(label, *of)

    async def stop_db() -> None:
        await asyncio.to_thread(db.stop)  # else its start repeats the log of all sections before

    async def start_db() -> None:
        await asyncio.to_thread(db.start)

    async def restart_db() -> None:
        await asyncio.to_thread(db.kill)
        await start_db()

    return [
        service("drainer", "Drainer"),
        service("pump-1", f"Pump, one of {PUMPS}"),
        service("applier", "Applier"),
        service("registry", "registry"),
        Victim("nats-server", stage.kill_nats, stage.stop_nats, stage.start_nats),
        Victim("MariaDB", restart_db, stop_db, start_db),
    ]


async def _leader(stage: Stage) -> str:
    """Of two Drainers, once the other one stands by."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(STANDS_STILL_S):
        while True:
            urls = [stage.status_url(name) for name in DRAINERS]
            found = [await loop.run_in_executor(None, actors_of, url) for url in urls]
            leads = [bool(actors["lease"].get("leads")) for actors in found]
            standing_by = [bool(actors["lease"].get("standby")) for actors in found]
            if sum(leads) == 1 and standing_by == [not one for one in leads]:
                return DRAINERS[leads.index(True)]
            await asyncio.sleep(AGAIN_S)


async def starting(victim: Victim) -> float:
    """Seconds from its start until it is ready."""
    await victim.stop()
    began = time.perf_counter()
    await victim.start()
    return time.perf_counter() - began


async def _killed(flow: Flow, name: str, kill: Act, limit: Limit) -> Figure:
    await flow.calm()
    began = time.perf_counter()
    killing = asyncio.get_running_loop().create_task(kill())
    stood_still = await flow.again(began) - began
    await killing
    return Figure(
        SECTION,
        name,
        stood_still,
        "s",
        limit,
        lower_is_better=True,
        note=f"{flow.refused()} requests of the writers had to be repeated",
    )


class Flow:
    """Writers and a reader of MariaDB, and what they know of each other."""

    def __init__(self, stage: Stage, table: BenchTable, watcher: Watcher) -> None:
        self._stage = stage
        self._table = table
        self._watcher = watcher
        self._upstream = Upstream(stage.bus, stage.pumps, ANSWER_S)
        self._oracle = RegistryOracle(stage.bus, CLUSTER, timeout_s=ANSWER_S)
        self._begun: dict[str, list[tuple[float, int]]] = {pump: [] for pump in stage.pumps}
        """When each row's transaction began, ascending."""
        self._next = 0
        self._refused = 0

    async def write(self, pump: str) -> None:
        """One transaction after another, for ever."""
        while True:
            row, self._next = self._next, self._next + 1
            self._begun[pump].append((time.perf_counter(), row))
            self._watcher.expect(row)
            start_ts = await self._surely(lambda: self._oracle.take(1))
            # After the database and its table the schema has version 2.
            value = prewrite_value(2, self._table.info.id, [("c", self._table.insert(row))])
            await self._written(pump, prewrite(start_ts, value))
            commit_ts = await self._surely(lambda: self._oracle.take(1))
            await self._written(pump, commit(start_ts, commit_ts))
            await asyncio.sleep(PAUSE_S)

    async def _written(self, pump: str, payload: bytes) -> None:
        await self._surely(lambda: self._upstream.write(pump, [payload]))

    async def _surely(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Again and again: who gives up with an open Prewrite would hold everybody back."""
        while True:
            try:
                return await ask()
            except (TidelogError, RuntimeError):
                self._refused += 1
                await asyncio.sleep(AGAIN_S)

    def refused(self) -> int:
        """Since it was last asked."""
        found, self._refused = self._refused, 0
        return found

    async def calm(self) -> None:
        """Until what was begun a second ago is visible, all of it."""
        await self.again(time.perf_counter())
        await asyncio.sleep(CALM_S)  # as after a while of nothing: connections, caches, leases
        await self.again(time.perf_counter())
        self.refused()

    async def again(self, since: float) -> float:
        """When a row of each Pump was visible that was begun after `since`. Raises TimeoutError,
        RuntimeError."""
        async with asyncio.timeout(STANDS_STILL_S):
            return max([await self._visible(pump, since) for pump in self._begun])

    async def _visible(self, pump: str, since: float) -> float:
        while True:
            seen = self._watcher.seen
            # Not one that was on its way already.
            fresh = [
                row for began, row in reversed(self._begun[pump][-LOOK_BACK:]) if began > since
            ]
            found = [seen[row] for row in fresh if row in seen]
            if found:
                return min(found)
            await asyncio.sleep(AGAIN_S / 10)


@asynccontextmanager
async def flowing(stage: Stage, db: MariaDb, table: BenchTable) -> AsyncIterator[Flow]:
    watcher = Watcher(await connect(db), table.name)
    flow = Flow(stage, table, watcher)

    async def look() -> None:
        while True:
            try:
                await watcher.run()
            except (aiomysql.MySQLError, OSError):
                watcher.look_by(await _connected(db))

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(look()), *(loop.create_task(flow.write(p)) for p in stage.pumps)]
    try:
        yield flow
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _connected(db: MariaDb) -> aiomysql.Connection:
    while True:
        try:
            return await connect(db)
        except (aiomysql.MySQLError, OSError):
            await asyncio.sleep(AGAIN_S)
