"""What a pb_binlog file holds: DDLs as texts, and which tables' rows lie between them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tidelog.pb_files.framing import Record
from tidelog_backfill.files.chunk import Chunk, Facts, FoundDdl, FoundVersion
from tidelog_backfill.files.pb import PbRecords, is_packed, writer
from tidelog_backfill.files.records import CUT_BYTES, OnCorrupt
from tidelog_backfill.files.runs import Piece, runs
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType, Column, Event

_NAME = 0x0A
"""What a Column begins with: its name, as protobuf has fields of bytes."""


class _Seen(msgspec.Struct):
    """Rows of one form of a table between two DDLs."""

    first_ts: int
    last_ts: int
    rows: int = 0


_Shape = tuple[str, str, tuple[str, ...]]


def in_log(facts: Facts, reached: tuple[int, int], on_corrupt: OnCorrupt) -> Facts:
    """Of a file behind others that have `reached` that, as Facts has it: what they hold already is
    there again. Raises Corrupt."""
    if not facts.opens_ts:
        return msgspec.structs.replace(facts, reached=reached)
    return facts if facts.opens_ts > reached[0] else pb_survey(facts.chunk, on_corrupt, reached)


def pb_survey(chunk: Chunk, on_corrupt: OnCorrupt, reached: tuple[int, int] = (0, 0)) -> Facts:
    """`reached`: by the files before it. Raises Corrupt."""
    records = PbRecords(chunk, on_corrupt)
    packed = is_packed(Path(chunk.path))
    found = _Found()
    order = _Order(chunk, reached)
    cuts = [chunk.begin]
    count = 0
    for record, binlog in records:
        count += 1
        if order.is_again(binlog.commit_ts, record):
            continue
        begin, end = (chunk.begin, chunk.end) if packed else (record.offset, record.offset + 1)
        if begin - cuts[-1] >= CUT_BYTES:
            cuts.append(begin)
        if binlog.tp == BinlogType.DDL:
            found.ddl(binlog, record.offset, record.payload)
        else:
            found.rows(binlog, begin, end, len(record.payload))
    exact = msgspec.structs.replace(chunk, cuts=tuple(cuts[1:]), again=tuple(order.again))
    facts = found.facts(exact)
    return msgspec.structs.replace(
        facts,
        records=count,
        opens_ts=order.opens_ts,
        reached=order.reached,
        skipped=records.skipped,
        skipped_at=records.skipped_at,
    )


class _Order:
    """Which records a drainer wrote again after it had died. `again` as in Chunk, `opens_ts` as in
    Facts.

    Ours has none: what the savepoint does not cover is cut before it goes on. The original goes on
    behind its savepoint, and has a record for each transaction: what is not above all before it is
    there again. Without a savepoint either may have written them (the original may be told to keep
    it in another directory): a transaction may be several records, equal ones too, so only what
    begins with something older is there again, and may have more of them than are there."""

    def __init__(self, chunk: Chunk, reached: tuple[int, int]) -> None:
        self.again: list[tuple[int, int]] = []
        self.opens_ts = 0
        self._writer = writer(Path(chunk.path))
        self._highest, self._count = reached
        self._met = self._count
        """Of those with the highest commit_ts, since something older came."""

    @property
    def reached(self) -> tuple[int, int]:
        return self._highest, self._count

    def is_again(self, commit_ts: int, record: Record) -> bool:
        self.opens_ts = self.opens_ts or commit_ts
        if commit_ts > self._highest:
            self._highest, self._count, self._met = commit_ts, 1, 1
            return False
        if self._is_new(commit_ts):
            self._count += commit_ts == self._highest
            return False
        if self.again and self.again[-1][1] == record.offset:
            self.again[-1] = self.again[-1][0], record.end
        else:
            self.again.append((record.offset, record.end))
        return True

    def _is_new(self, commit_ts: int) -> bool:
        """Of one that is not above all before it."""
        if self._writer:
            return self._writer == "ours"
        if commit_ts < self._highest:
            self._met = 0
            return False
        self._met += 1
        return self._met > self._count


class _Found:
    def __init__(self) -> None:
        self._ddls: list[FoundDdl] = []
        self._versions: list[FoundVersion] = []
        self._seen: dict[_Shape, _Seen] = {}
        """Since the last DDL."""
        self._pieces: list[Piece] = []
        self._first = self._last = 0

    def ddl(self, binlog: Binlog, offset: int, payload: bytes) -> None:
        self._close()
        self._ddls.append(FoundDdl(binlog.commit_ts, 0, payload, offset))

    def rows(self, binlog: Binlog, begin: int, end: int, size: int) -> None:
        ts, events = binlog.commit_ts, binlog.dml_data.events
        if not events:
            return
        for event in events:
            shape = event.schema_name, event.table_name, _columns(event)
            seen = self._seen.get(shape)
            if seen is None:
                seen = self._seen[shape] = _Seen(ts, ts)
            seen.first_ts, seen.last_ts = min(seen.first_ts, ts), max(seen.last_ts, ts)
            seen.rows += 1
        self._first = min(self._first or ts, ts)
        self._last = max(self._last, ts)
        self._pieces.append((ts, ts, len(events), size, begin, end))

    def _close(self) -> None:
        for (db, table, columns), seen in self._seen.items():
            one = FoundVersion(
                0, seen.first_ts, seen.last_ts, seen.rows, db=db, table=table, columns=columns
            )
            self._versions.append(one)
        self._seen = {}

    def facts(self, chunk: Chunk) -> Facts:
        self._close()
        return Facts(
            chunk,
            chunk.begin,
            chunk.end,
            rows=sum(one[2] for one in self._pieces),
            size=sum(one[3] for one in self._pieces),
            first_ts=self._first,
            last_ts=self._last,
            ddls=self._ddls,
            versions=self._versions,
            runs=runs(self._pieces, (ddl.commit_ts for ddl in self._ddls)),
        )


def _columns(event: Event) -> tuple[str, ...]:
    """Names alone: what else a column tells isn't read."""
    return tuple([_name(column) for column in event.row])


def _name(column: bytes) -> str:
    length = column[1]
    if column[0] != _NAME or length >= 0x80:  # a MySQL name may take two bytes for its length
        return str(Column.FromString(column).name)
    return column[2 : 2 + length].decode()
