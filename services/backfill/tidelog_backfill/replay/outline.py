"""What a log says of its order, whatever kind it is: stretches of rows between DDLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidelog.changes import DdlMessage
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.view import TableView


class Stretch(msgspec.Struct, frozen=True):
    """Rows with after_ts < commit_ts <= until_ts, behind `ddls`. `structures` by structure_key,
    of every table at every version that they may name; the rest as in Span."""

    after_ts: int
    until_ts: int
    ddls: list[DdlMessage] = []
    tables: list[TableView] = []
    dropped: dict[int, str] = {}
    marks: list[TableView] = []
    structures: dict[str, TableStructure] = {}


class Limit(msgspec.Struct, frozen=True, order=True):
    """What a replay is right up to, by these logs: `why`, and what becomes of the rest for one who
    goes on all the same (`beyond`)."""

    upto: int
    why: str
    beyond: str


class Outline(msgspec.Struct, frozen=True):
    """Stretches in order from the beginning of the log to its end; the rest as in Plan."""

    begins: int
    ends: int
    stretches: list[Stretch]
    left_out: dict[str, int] = {}
    warnings: list[str] = []
    lacking: frozenset[str] = frozenset()
    """As in View."""
    limits: list[Limit] = []


def joined(stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """One of neighbours without a DDL between them, where rows mean the same in both."""
    last: _Joining | None = None
    for stretch in stretches:
        if last is not None and not stretch.ddls and last.fits(stretch):
            last.add(stretch)
            continue
        if last is not None:
            yield last.stretch()
        last = _Joining(stretch)
    if last is not None:
        yield last.stretch()


class _Joining:
    def __init__(self, first: Stretch) -> None:
        self._first = first
        self._until = first.until_ts
        self._tables = _by_key(first.tables)
        self._marks = _by_key(first.marks)
        self._dropped = dict(first.dropped)
        self._structures = dict(first.structures)
        self._ids = {one.table_id for one in first.tables}

    def fits(self, other: Stretch) -> bool:
        known = self._tables | self._marks
        same = all(
            known.get((one.table_id, one.version), one) == one and one.table_id not in self._dropped
            for one in (*other.tables, *other.marks)
        )
        return same and self._ids.isdisjoint(other.dropped)

    def add(self, other: Stretch) -> None:
        self._until = other.until_ts
        self._tables |= _by_key(other.tables)
        self._marks |= _by_key(other.marks)
        self._dropped |= other.dropped
        self._structures |= other.structures
        self._ids |= {one.table_id for one in other.tables}

    def stretch(self) -> Stretch:
        return msgspec.structs.replace(
            self._first,
            until_ts=self._until,
            tables=[self._tables[key] for key in sorted(self._tables)],
            dropped=self._dropped,
            marks=[self._marks[key] for key in sorted(self._marks)],
            structures=self._structures,
        )


def _by_key(views: Iterable[TableView]) -> dict[tuple[int, int], TableView]:
    return {(one.table_id, one.version): one for one in views}


def position_before(ddl: DdlMessage) -> int:
    """Everything up to there stands before the DDL."""
    return ddl.commit_ts - 1


def position_after(ddl: DdlMessage) -> int:
    """The checkpoint once it is done. An early one comes with the rows of its commit_ts, which
    stand behind it (docs/adr/0005)."""
    return ddl.commit_ts - 1 if ddl.early else ddl.commit_ts
