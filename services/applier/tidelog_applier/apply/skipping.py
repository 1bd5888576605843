"""`on-refused = skip`: a row that the downstream refuses is written down and left out.

It is in `refused.jsonl` of the data directory, synced, before the rest of its window is applied:
what is not downstream can always be told. A window that is applied again writes its rows again.
What a full disk or a power loss left of a line is cut where the file is opened.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from tidelog.downstream import Lane, RowRefused, Work
from tidelog.errors import DiskFull
from tidelog.ports import Disk, File
from tidelog_applier import metrics
from tidelog_applier.apply.refused import RefusedRow, Search
from tidelog_applier.position import Position

log = structlog.get_logger()

REFUSED_FILE = "refused.jsonl"
CHUNK_BYTES = 1 << 20
SHOWN = 20
_NOT_SKIPPED = (
    "mend the downstream table, then start the Applier again: on-refused skips no row of a table"
    " without a key, nor of a large transaction"
)
_TOGETHER = (
    "no row of it is refused by itself, only all of them together: see the downstream's error log,"
    " then start the Applier again"
)
Connect = Callable[[], Awaitable[Lane]]


class RefusedRows:
    """The file, and the newest of its rows for the status."""

    def __init__(self, disk: Disk, position: Position) -> None:
        self._disk = disk
        self._position = position
        self._file: File | None = None
        self._newest: deque[RefusedRow] = deque(maxlen=SHOWN)
        self._synced = sys.maxsize
        """Up to there this life's file is whole; what lies behind is of a write that failed."""
        self._turn = asyncio.Lock()
        """All lanes write one file."""

    async def open(self) -> None:
        """`position.skipped` counts the rows of earlier lives, too. Raises IoFailed, DiskFull."""
        async with self._turn:
            if self._file is None and self._disk.exists(REFUSED_FILE):
                await self._opened()

    async def record(self, rows: list[RefusedRow]) -> None:
        """Raises IoFailed, DiskFull: then it may be tried again."""
        lines = [msgspec.json.encode(row) + b"\n" for row in rows]
        async with self._turn:
            file = self._file or await self._opened()
            size = file.size
            try:
                await file.append(lines, sync=True)
            except DiskFull:
                self._synced = size
                self.close()  # it takes no more
                raise
        for row in rows:
            log.error(
                "a row is skipped, as on-refused says",
                table=f"{row.db}.{row.table}",
                commit_ts=row.up_to,
                code=row.code,
                reason=row.reason,
                file=REFUSED_FILE,
            )
            metrics.SKIPPED.inc()
        self._newest.extend(rows)
        self._position.skipped += len(rows)

    async def _opened(self) -> File:
        known = self._disk.exists(REFUSED_FILE)
        file = await self._disk.open(REFUSED_FILE, create=True)
        try:
            if not known:
                await self._disk.sync_dir("")
            count, end = await _lines(file, self._synced)
            if end < file.size:
                await file.truncate(end)
        except BaseException:
            file.close()
            raise
        self._position.skipped = count
        self._file = file
        return file

    def status(self) -> dict[str, object]:
        """Without the rows' contents, which are in the file."""
        newest = [
            {"table": f"{r.db}.{r.table}", "up_to": r.up_to, "code": r.code, "reason": r.reason}
            for r in self._newest
        ]
        return {"skipped": self._position.skipped, "newest": newest}

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


async def _lines(file: File, upto: int) -> tuple[int, int]:
    """How many whole ones there are up to there, and where the last one ends."""
    count = end = at = 0
    while chunk := file.read(at, min(CHUNK_BYTES, upto - at)):
        count += chunk.count(b"\n")
        if last := chunk.rfind(b"\n") + 1:
            end = at + last
        at += len(chunk)
        await asyncio.sleep(0)
    return count, end


class SkippingLane:
    """A lane over lanes: each trial is rolled back by closing the one it went through. The rows of
    a transaction that is written piece by piece are not searched: it stops."""

    def __init__(self, lane: Lane, connect: Connect, refused: RefusedRows) -> None:
        self._lane = lane
        self._connect = connect
        self._refused = refused
        self._in_pieces = False

    async def apply(self, work: Work) -> None:
        whole = work.ends and not self._in_pieces
        self._in_pieces = not work.ends
        try:
            await self._lane.apply(work)
        except RowRefused as error:
            if not whole:
                raise _stop(error, _NOT_SKIPPED) from error
            await self._without_refused(work)

    async def _without_refused(self, work: Work) -> None:
        search = Search(work)
        while (trial := search.next()) is not None:
            refused = await self._tried(trial)
            try:
                search.told(refused)
            except RowRefused as error:
                raise _stop(error, _NOT_SKIPPED) from error
        await self._renew()
        if search.refused:
            await self._refused.record(search.refused)
        try:
            await self._lane.apply(search.rest)
        except RowRefused as error:
            raise _stop(error, _TOGETHER) from error

    async def _tried(self, trial: Work) -> RowRefused | None:
        await self._renew()
        try:
            await self._lane.apply(trial)
        except RowRefused as error:
            return error
        return None

    async def _renew(self) -> None:
        await self._lane.close()
        self._lane = await self._connect()

    async def close(self) -> None:
        await self._lane.close()


def _stop(error: RowRefused, hint: str) -> RowRefused:
    return RowRefused(error.message, error.code, hint=hint)
