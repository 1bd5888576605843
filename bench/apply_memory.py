"""How much memory an Applier takes for one transaction of five million rows, into MariaDB."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bench.apply import Applied, emptied, url_of
from bench.drain_memory import huge
from bench.figure import Figure, Limit
from bench.resident import forget_peak, grown, resident
from bench.stage import Stage
from bench.upstream import Upstream
from tests.servers import MariaDb

SECTION = "apply-memory"
ROWS = 5_000_000
ROW_BYTES = 210
APPLIED_S = 3600.0
LOOK_S = 0.2


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    await emptied(db)
    rows = int(ROWS * share)
    async with Stage(directory, url_of(db), profile=profile) as stage:
        await stage.start("registry", "pump-1", "drainer", "applier")
        upstream = Upstream(stage.bus, stage.pumps)
        await upstream.create_database()
        table = await upstream.create_table(100, 2)
        first = await upstream.transaction(table, [("c", table.insert(1))], "pump-1")
        await _applied(stage, first)
        pid = stage.pid("applier")
        before = resident(pid, "VmRSS")
        forget_peak(pid)
        await _applied(stage, await huge(stage, table, rows, rows * ROW_BYTES))
        name = f"Applier: a transaction of {rows} rows, {rows * ROW_BYTES >> 20} MiB, applied"
        figure = grown(name, resident(pid, "VmHWM"), before)
        return [msgspec.structs.replace(figure, section=SECTION)]


async def _applied(stage: Stage, commit_ts: int) -> None:
    applied = Applied(stage, [commit_ts])
    async with asyncio.timeout(APPLIED_S):
        while not await applied.count():
            stage.check()
            await asyncio.sleep(LOOK_S)
