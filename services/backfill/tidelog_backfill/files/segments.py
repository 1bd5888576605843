"""A chunk of a Pump's log: its transactions, each Prewrite with the verdict on it. Of a Commit that
comes later in the log, be it in another file, only the first few bytes are read."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.payload import COMMIT, FAKE, PREWRITE, PREWRITE_HEAD, ROLLBACK, Head, head
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.parts import following
from tidelog_backfill.files.records import FEW, LogFile, OnCorrupt, Placed, Records, corrupt

Transaction = tuple[int, int, int, bytes | memoryview]
"""commit_ts, start_ts, the offset of the Prewrite's record, its payload."""


class Transactions:
    """Iterate once; then `open` Prewrites of the chunk had no verdict up to the log's end, the
    first few of them at the offsets `open_at`; `open_ts` is their smallest start_ts. `fake_ts`:
    of the newest fake.

    The chunk's Prewrites are kept until their verdicts are known: memory is about the chunk's size.
    """

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self.records = Records(file, chunk, on_corrupt)
        self.open = 0
        self.open_at: list[int] = []
        self.open_ts = self.fake_ts = 0
        self._file = file
        self._chunk = chunk
        self._on_corrupt = on_corrupt
        self._prewrites: dict[int, Placed] = {}
        self._verdicts: dict[int, int] = {}
        """By start_ts the commit_ts, 0 = rolled back."""

    def __iter__(self) -> Iterator[Transaction]:
        """In the order of Prewrites. Raises Corrupt."""
        for step in self.records.steps():
            self._take(step)
        self._look_ahead()
        verdicts = self._verdicts
        for start_ts, (offset, payload) in self._prewrites.items():
            commit_ts = verdicts.get(start_ts)
            if commit_ts:
                yield commit_ts, start_ts, offset, payload
            elif commit_ts is None:
                self.open += 1
                self.open_ts = min(self.open_ts or start_ts, start_ts)
                if self.open <= FEW + 1:
                    self.open_at.append(offset)

    def _take(self, step: list[Placed]) -> None:
        prewrites, verdicts = self._prewrites, self._verdicts
        for placed in step:
            kind, start_ts, commit_ts = _head(self.records, placed)
            if kind == PREWRITE:
                prewrites.setdefault(start_ts, placed)  # of a repeated one the first counts
            elif kind == FAKE:
                self.fake_ts = max(self.fake_ts, start_ts)
            elif verdicts.setdefault(start_ts, commit_ts) != commit_ts:
                self._judge_again(self._chunk.path, placed[0], start_ts, commit_ts)

    def _judge_again(self, path: str, offset: int, start_ts: int, commit_ts: int) -> None:
        before = self._verdicts[start_ts]
        if before and commit_ts:
            what = f"transaction {start_ts} is committed at {commit_ts}, before that at {before}"
            raise corrupt(path, offset, what)
        self._verdicts[start_ts] = before or commit_ts

    def _look_ahead(self) -> None:
        """For the verdicts that are not in the chunk."""
        waiting = self._prewrites.keys() - self._verdicts.keys()
        if not waiting:
            return
        chunk = self._chunk
        limit = max(chunk.limit, chunk.end)
        rest = Chunk("segment", chunk.path, self.records.end, limit, exact=True)
        self._search(self._file, rest, waiting)
        for part in following(chunk.path) if waiting else ():
            with LogFile(part.path) as file:
                whole = Chunk("segment", part.path, 0, part.end, exact=True)
                self._search(file, whole, waiting)
            if not waiting:
                return

    def _search(self, file: LogFile, chunk: Chunk, waiting: set[int]) -> None:
        records = Records(file, chunk, self._on_corrupt)
        for step in records.steps():
            for placed in step:
                if placed[1][:2] == PREWRITE_HEAD:
                    continue
                kind, start_ts, commit_ts = _head(records, placed)
                if start_ts in waiting and kind in (COMMIT, ROLLBACK):
                    self._verdicts[start_ts] = commit_ts
                    waiting.discard(start_ts)
            if not waiting:
                return


def _head(records: Records, placed: Placed) -> Head:
    """Of one that is skipped it is that of a fake. Raises Corrupt."""
    offset, payload = placed
    try:
        return head(payload)
    except UnparsablePayload as error:
        records.lose(offset, record.HEADER_BYTES + len(payload), error.message)
        return FAKE, 0, 0
