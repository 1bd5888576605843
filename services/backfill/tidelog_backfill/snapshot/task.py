"""What a Spark task does: chunks from the source to the target. Runs in executors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from tidelog.config import Secret
from tidelog.leftovers import settle
from tidelog.real.clock import RealClock
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable
from tidelog_backfill.snapshot.sources import open_source
from tidelog_backfill.snapshot.target import Way
from tidelog_backfill.snapshot.values import RowImages, stored
from tidelog_backfill.task_errors import errors_carried


class Copied(msgspec.Struct, frozen=True):
    """A chunk is written."""

    chunk: int
    rows: int


class CopyTask(msgspec.Struct, frozen=True):
    """What all tasks are told. `rows_per_s`: at most, of all that are at work at once; 0 = no
    limit."""

    source: str
    password: Secret
    tables: list[CopiedTable]
    ts: int
    way: Way
    work_rows: int
    rows_per_s: float = 0

    def one_of(self, at_once: int) -> CopyTask:
        """Of so many, each with its share of the rate."""
        return msgspec.structs.replace(self, rows_per_s=self.rows_per_s / at_once)

    def __call__(self, lane: int, chunks: Iterable[Chunk]) -> Iterator[Copied]:
        """Raises TaskFailed; Spark tries the task again then."""
        settle()
        for chunk in chunks:
            with errors_carried():
                rows = asyncio.run(self._copy(lane, chunk))
            yield Copied(chunk.number, rows)

    async def _copy(self, lane: int, chunk: Chunk) -> int:
        table = self.tables[chunk.table]
        source = open_source(self.source, self.password.reveal())
        images = RowImages(stored(table.structure))
        pace = Pace(self.rows_per_s)
        rows = 0
        writer = await self.way.chunk(lane, table, chunk, self.ts)
        try:
            with source.read(table, chunk, self.ts, self.work_rows) as batches:
                for batch in batches:
                    await writer.write(images.of(batch))
                    rows += len(batch)
                    await pace.passed(rows)
            await writer.done()
        finally:
            await writer.close()
        return rows


class Pace:
    """Waits where more rows passed than may."""

    def __init__(self, rows_per_s: float) -> None:
        self._rows_per_s = rows_per_s
        self._clock = RealClock()
        self._began = self._clock.monotonic()

    async def passed(self, rows: int) -> None:
        """So many by now."""
        if self._rows_per_s:
            due = self._began + rows / self._rows_per_s
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
