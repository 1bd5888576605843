"""How long a single transaction takes from its Commit's ack until a reader of the feed has it, when
nothing else happens: three real Pumps, two of which hold nothing back but have to be asked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figure import Figure, Limit, spread
from bench.stage import Stage
from bench.tables import BenchTable
from bench.upstream import Upstream
from tidelog.change_reader import ChangeReader

SECTION = "idle"
PUMPS = 3
LATE_S = 30.0
AIM_P99_MS = 20.0
ORIGINAL = "into MariaDB: p50 2060, p99 3983"


class Pace(NamedTuple):
    """Seconds between a transaction's end and the next."""

    pause_s: float
    transactions: int


PACES = (Pace(0.5, 60), Pace(0.05, 300))


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    return await measured(directory, PUMPS, PACES, limits, share, profile)


async def measured(
    directory: Path,
    pumps: int,
    paces: Sequence[Pace],
    limits: Mapping[str, Limit],
    share: float,
    profile: str = "",
) -> list[Figure]:
    async with Stage(directory, pumps=pumps, profile=profile) as stage:
        await stage.start("registry", *stage.pumps, "drainer")
        upstream = Upstream(stage.bus, stage.pumps)
        await upstream.create_database()
        table = await upstream.create_table(100, 6)
        reader = ChangeReader(stage.bus, "main", 0)
        try:
            run = Run(stage, upstream, table, reader)
            await run.one(0)  # the stream, the table's structure, everybody's connection
            steps = [limits[key].spread for key in ("nats-1-256", "batch-2")]
            total = sum(step.p50_ms for step in steps if step is not None)
            floor = Limit("pull answer + batch of 2, p50", total, "ms")
            return [figure for pace in paces for figure in await run.figures(pace, share, floor)]
        finally:
            await reader.close()


class Run:
    def __init__(
        self, stage: Stage, upstream: Upstream, table: BenchTable, reader: ChangeReader
    ) -> None:
        self._stage = stage
        self._upstream = upstream
        self._table = table
        self._reader = reader
        self._next = 0

    async def figures(self, pace: Pace, share: float, floor: Limit) -> list[Figure]:
        taken: list[float] = []
        cpu = self._stage.cpu()
        for _ in range(max(10, int(pace.transactions * share))):
            taken.append(await self.one(self._next))
            await asyncio.sleep(pace.pause_s)
        self._stage.check()
        found = spread(taken)
        usage, count = cpu.usage(), len(self._stage.pumps)
        return [
            Figure(
                SECTION,
                f"{name}, a transaction each {pace.pause_s:g} s, {count} Pump{'s' * (count > 1)}",
                value,
                "ms",
                floor,
                aim,
                lower_is_better=True,
                original=ORIGINAL,
                spread=found,
                usage=usage if name == "p50" else None,
                units_per_s=1 / pace.pause_s,
                note=f"{found.n} transactions",
            )
            for name, value, aim in (
                ("p50", found.p50_ms, None),
                (*found.tail, AIM_P99_MS),
            )
        ]

    async def one(self, number: int) -> float:
        """Seconds from the ack until it was read; none if it was read before the ack came."""
        self._next = number + 1
        seen = asyncio.get_running_loop().create_task(self._seen())
        pumps = self._stage.pumps
        pump = pumps[number % len(pumps)]
        await self._upstream.transaction(self._table, [("c", self._table.insert(number))], pump)
        acked = time.perf_counter()
        async with asyncio.timeout(LATE_S):
            return max(0.0, await seen - acked)

    async def _seen(self) -> float:
        while True:
            found = await self._reader.next(1.0)
            now = time.perf_counter()
            if any(txn.rows for change in found for txn in change.txns):
                return now
