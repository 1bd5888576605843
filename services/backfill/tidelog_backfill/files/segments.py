"""A chunk of a Pump's log: its transactions, each Prewrite with the verdict on it.

As the Pump pairs them, the first verdict in the log counts, be it before the Prewrite; what comes
after it is a conflict and changes nothing. A chunk sees its own, and what is near behind its end;
of the others `Chunk.verdicts` tells (`files.verdicts` finds them).
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.payload import FAKE, PREWRITE, PREWRITE_HEAD, Head, head
from tidelog.rows.errors import Malformed
from tidelog.rows.payload import Payload, read_payload
from tidelog.skipped import from_key
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import UNDECIDED, Chunk
from tidelog_backfill.files.parts import following
from tidelog_backfill.files.records import LogFile, OnCorrupt, Placed, Records

NEAR = 32 << 20
"""Bytes behind a Prewrite in which its verdict is looked for by whoever reads it."""
Transaction = tuple[int, int, int, bytes | memoryview]
"""commit_ts, start_ts, the offset of the Prewrite's record, its payload."""


class Transactions:
    """Iterate once; then `waiting` has the Prewrites without a verdict so far (offsets by
    start_ts), `lone`, `starts` and `fake_ts` are as in Facts.

    The chunk's Prewrites are kept until their verdicts are known: memory is about the chunk's size.
    """

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self.records = Records(file, chunk, on_corrupt)
        self.waiting: dict[int, int] = {}
        self.lone: dict[int, int] = {}
        self.fake_ts = 0
        self._file = file
        self._chunk = chunk
        self._on_corrupt = on_corrupt
        self._prewrites: dict[int, Placed] = {}
        self._verdicts = dict(chunk.verdicts)
        """By start_ts the commit_ts, 0 = rolled back, UNDECIDED."""
        self._far = set(self._verdicts)

    @property
    def starts(self) -> tuple[int, int]:
        return min(self._prewrites, default=0), max(self._prewrites, default=0)

    def far(self) -> tuple[tuple[int, int], ...]:
        """The verdicts that a part of the chunk may not see."""
        told = self._prewrites.keys() & (self._far | self.waiting.keys())
        return tuple((one, self._verdicts.get(one, UNDECIDED)) for one in sorted(told))

    def value(self, offset: int, payload: bytes | memoryview) -> Payload | None:
        """What makes one of them; None: it is passed by. Raises Corrupt."""
        try:
            return _read(bytes(payload))
        except Malformed as error:
            self.records.lose(offset, record.HEADER_BYTES + len(payload), f"no Binlog: {error}")
            return None

    def __iter__(self) -> Iterator[Transaction]:
        """In the order of Prewrites, but for those that the chunk passes over. Raises Corrupt."""
        for step in self.records.steps():
            self._take(step)
        self._look_ahead()
        verdicts, chunk = self._verdicts, self._chunk
        for start_ts, (offset, payload) in self._prewrites.items():
            commit_ts = verdicts.get(start_ts, UNDECIDED)
            if commit_ts > 0:
                if chunk.again and chunk.passes_over(offset):
                    continue
                yield commit_ts, start_ts, offset, payload
            elif commit_ts == UNDECIDED:
                self.waiting[start_ts] = offset

    def _take(self, step: list[Placed]) -> None:
        prewrites, verdicts = self._prewrites, self._verdicts
        for placed in step:
            kind, start_ts, commit_ts = _head(self.records, placed)
            if kind == PREWRITE:
                if start_ts in verdicts:
                    self._far.add(start_ts)
                prewrites.setdefault(start_ts, placed)  # of a repeated one the first counts
            elif kind == FAKE:
                self.fake_ts = max(self.fake_ts, start_ts)
            else:
                prewrite = prewrites.get(start_ts)
                if prewrite is None:
                    self.lone.setdefault(start_ts, commit_ts)
                elif start_ts not in verdicts and placed[0] - prewrite[0] > NEAR:
                    self._far.add(start_ts)
                verdicts.setdefault(start_ts, commit_ts)

    def _look_ahead(self) -> None:
        """For verdicts that are near behind the chunk."""
        waiting = self._prewrites.keys() - self._verdicts.keys()
        if not waiting:
            return
        begin, limit = self.records.end, max(self._chunk.limit, self._chunk.end)
        self._search(self._file, self._chunk.path, begin, min(limit, begin + NEAR), waiting)
        left = NEAR - (limit - begin)
        part = following(self._chunk.path) if waiting and left > 0 else None
        if part is not None:
            with LogFile(part.path) as file:
                self._search(file, part.path, 0, min(part.end, left), waiting)

    def _search(self, file: LogFile, path: str, begin: int, end: int, waiting: set[int]) -> None:
        chunk = Chunk("segment", path, begin, end, exact=True)
        for start_ts, commit_ts in verdicts_of(file, chunk, waiting, self._on_corrupt):
            self._verdicts[start_ts] = commit_ts
            self._far.add(start_ts)
            waiting.discard(start_ts)
            if not waiting:
                return


def verdicts_of(
    file: LogFile, chunk: Chunk, wanted: set[int], on_corrupt: OnCorrupt
) -> Iterator[tuple[int, int]]:
    """(start_ts, commit_ts or 0) of an exact chunk's Commits and Rollbacks, in their order.
    `wanted` may get fewer meanwhile. Raises Corrupt."""
    records = Records(file, chunk, on_corrupt)
    for step in records.steps():
        for placed in step:
            if placed[1][:2] != PREWRITE_HEAD:
                kind, start_ts, commit_ts = _head(records, placed)
                if start_ts in wanted and kind not in (PREWRITE, FAKE):
                    yield start_ts, commit_ts


def _read(payload: bytes) -> Payload:
    """Raises Malformed, also for a record of what was skipped that the Drainer would stop at."""
    found = read_payload(payload)
    if found.is_ddl:
        return found
    try:
        skipped = from_key(found.key)
    except NOT_READABLE as error:
        raise Malformed(f"its record of what was skipped is none: {error}") from error
    if skipped is not None and found.mutations:
        raise Malformed("it records what was skipped, and has rows itself")
    return found


def _head(records: Records, placed: Placed) -> Head:
    """Of one that is skipped it is that of a fake. Raises Corrupt."""
    offset, payload = placed
    try:
        return head(payload)
    except UnparsablePayload as error:
        records.lose(offset, record.HEADER_BYTES + len(payload), error.message)
        return FAKE, 0, 0
