"""Tables as the simulated downstream database holds them (pure).

A table with a key is a map from the key's values; one without is a bag. Everything that a correct
Applier never does (insert over an existing row, delete an absent one, change a row from another
state than the upstream's) is a violation.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from tidelog.changes import Event
from tidelog.downstream import TableShare
from tidelog.schema.structure import ColumnStructure, TableStructure

Row = dict[str, Any]
_WHOLE = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"))
_REAL = frozenset(("float", "double"))


class Violation(AssertionError):
    """The downstream was told something that contradicts its contents."""


class Doubled(Violation):
    """The same row was put twice."""


class SimTable:
    def __init__(self, structure: TableStructure) -> None:
        self.structure = structure
        self.keyed: dict[tuple[object, ...], Row] = {}
        self.bag: Counter[bytes] = Counter()

    def rows(self) -> list[Row]:
        if self.structure.key_columns:
            return [dict(row) for _, row in sorted(self.keyed.items(), key=lambda kv: repr(kv[0]))]
        return [msgspec.json.decode(row) for row in sorted(self.bag.elements())]

    def apply(self, event: Event) -> None:
        """One event, exactly once. Raises Violation."""
        name = f"{self.structure.name} at {event.commit_ts}"
        if event.op in ("d", "u"):
            self._take(event.before or {}, name)
        if event.op in ("c", "u"):
            self._put(event.after or {}, name)

    def share(self, share: TableShare, *, safe: bool) -> None:
        """The net effect of several changes. `safe`: it may be there already. Raises Violation."""
        name = self.structure.name
        for image in share.deletes:
            if self.keyed.pop(self._key(image.row), None) is None and not safe:
                raise Violation(f"{name}: no row {image.row} to delete")
        for image in share.inserts:
            if safe:
                self.keyed.pop(self._key(image.row), None)
            self._put(image.row, name)
        for image in share.updates:
            if self.keyed.pop(self._key(image.row), None) is None and not safe:
                raise Violation(f"{name}: no row to update to {image.row}")
            self._put(image.row, name)

    def altered(self, structure: TableStructure) -> SimTable:
        """The same rows under another structure; another id (TRUNCATE) has none."""
        fresh = SimTable(structure)
        if structure.id != self.structure.id:
            return fresh
        before = {column.id: column.name for column in self.structure.columns}
        for row in self.rows():
            fresh._put(
                {
                    column.name: row[before[column.id]]
                    if before.get(column.id) in row
                    else default_of(column)
                    for column in structure.columns
                },
                structure.name,
            )
        return fresh

    def _key(self, row: Row) -> tuple[object, ...]:
        collations = {column.name: column.collation for column in self.structure.columns}
        return tuple(
            fold(row.get(name), collations.get(name, "")) for name in self.structure.key_columns
        )

    def _put(self, row: Row, what: str) -> None:
        if not self.structure.key_columns:
            self.bag[canonical(row)] += 1
            return
        key = self._key(row)
        if key in self.keyed:
            same = canonical(self.keyed[key]) == canonical(row)
            kind = Doubled if same else Violation
            raise kind(f"{what}: row {key} is there already: {self.keyed[key]}")
        self.keyed[key] = row

    def _take(self, row: Row, what: str) -> None:
        if not self.structure.key_columns:
            text = canonical(row)
            if not self.bag[text]:
                raise Violation(f"{what}: no row {row}")
            self.bag[text] -= 1
            return
        key = self._key(row)
        held = self.keyed.pop(key, None)
        if held is None:
            raise Violation(f"{what}: no row {key}")
        if canonical(held) != canonical(row):
            raise Violation(f"{what}: row {key} is {held}, not {row}")


def canonical(row: Row) -> bytes:
    return msgspec.json.encode(row, order="sorted")


def fold(value: object, collation: str) -> object:
    """A key value as its collation compares it."""
    if isinstance(value, str) and collation.endswith("_ci"):
        return value.casefold().rstrip(" ")
    return value


def default_of(column: ColumnStructure) -> object:
    """What a row older than the column holds in it."""
    text = column.origin_default
    if text is None:
        return None
    if column.base in _WHOLE:
        return int(text)
    if column.base in _REAL:
        return float(text)
    return text
