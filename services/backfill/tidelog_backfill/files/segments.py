"""A chunk of a Pump's log: its transactions, each Prewrite with the verdict on it. Of a Commit that
comes later in the log, be it in another file, only the first few bytes are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.payload import Facts, Kind, classify, commit_head
from tidelog.ports import Buffer
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.parts import following
from tidelog_backfill.files.records import FEW, LogFile, OnCorrupt, Records, corrupt

PREWRITE_HEAD = b"\x08\x00"
"""tp = 0, as every writer puts it first; one that doesn't is classified."""


class Prewrite(NamedTuple):
    """`offset`: of its record. `body`: where the fields after tp and timestamps begin in
    `payload`."""

    start_ts: int
    offset: int
    payload: Buffer
    body: int

    def committed(self, commit_ts: int) -> bytes:
        """What a reader of the Pump gets: the Prewrite with the head of its Commit."""
        head = commit_head(self.start_ts, commit_ts)
        return b"".join((head, memoryview(self.payload)[self.body :]))


Transaction = tuple[int, Prewrite]
"""commit_ts, and what was committed."""


class Transactions:
    """Iterate once; then `open` Prewrites of the chunk had no verdict up to the log's end, the
    first few of them at the offsets `open_at`.

    The chunk's Prewrites are kept until their verdicts are known: memory is about the chunk's size.
    """

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self.records = Records(file, chunk, on_corrupt)
        self.open = 0
        self.open_at: list[int] = []
        self._file = file
        self._chunk = chunk
        self._on_corrupt = on_corrupt
        self._prewrites: dict[int, Prewrite] = {}
        self._verdicts: dict[int, int] = {}
        """By start_ts the commit_ts, 0 = rolled back."""

    def __iter__(self) -> Iterator[Transaction]:
        """In the order of Prewrites. Raises Corrupt."""
        for step in self.records.steps():
            for offset, payload in step:
                self._take(offset, payload)
        self._look_ahead()
        for start_ts, prewrite in self._prewrites.items():
            commit_ts = self._verdicts.get(start_ts)
            if commit_ts:
                yield commit_ts, prewrite
            elif commit_ts is None:
                self.open += 1
                if self.open <= FEW + 1:
                    self.open_at.append(prewrite.offset)

    def _take(self, offset: int, payload: memoryview) -> None:
        facts = _classified(self.records, offset, payload)
        if facts is None:
            return
        if facts.kind == Kind.PREWRITE:
            one = Prewrite(facts.start_ts, offset, facts.payload, facts.body)
            self._prewrites.setdefault(facts.start_ts, one)  # of a repeated one the first counts
        elif facts.kind != Kind.FAKE:
            self._judge(self._chunk.path, offset, facts.start_ts, facts.commit_ts)

    def _judge(self, path: str, offset: int, start_ts: int, commit_ts: int) -> None:
        before = self._verdicts.get(start_ts)
        if before and commit_ts and before != commit_ts:
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
            for offset, payload in step:
                if payload[:2] == PREWRITE_HEAD:
                    continue
                facts = _classified(records, offset, payload)
                if facts is None or facts.start_ts not in waiting:
                    continue
                if facts.kind in (Kind.COMMIT, Kind.ROLLBACK):
                    self._judge(chunk.path, offset, facts.start_ts, facts.commit_ts)
                    waiting.discard(facts.start_ts)
            if not waiting:
                return


def _classified(records: Records, offset: int, payload: memoryview) -> Facts | None:
    """None: it is skipped. Raises Corrupt."""
    try:
        return classify(payload)
    except UnparsablePayload as error:
        records.lose(offset, record.HEADER_BYTES + len(payload), error.message)
        return None
