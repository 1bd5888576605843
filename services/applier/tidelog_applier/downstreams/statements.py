"""Multi-row statements for MySQL-speaking servers, sized by rows and bytes (design section 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelog.downstream import Image, RowRefused
from tidelog.errors import Stopped
from tidelog.schema.structure import ColumnStructure
from tidelog_applier.downstreams import row_text
from tidelog_applier.downstreams.failures import PACKET_TOO_LARGE, failure
from tidelog_applier.downstreams.literals import CODES, Kind, matches, name, table_name
from tidelog_applier.downstreams.row_text import RowText, text_literal
from tidelog_applier.downstreams.writing import Writing, Written

STATEMENT_ROWS = 1000
STATEMENT_CHARS = 128 << 10
"""About what a socket buffer takes at once, so that the next statement is built meanwhile."""
PACKET_RESERVE = 1024


class Statement(msgspec.Struct, frozen=True, gc=False):
    """SQL in the session's character set. `lenient`: it stores an ENUM's error value, which strict
    mode refuses. `rows`: how many rows it must match, -1 = any number."""

    sql: bytes
    lenient: bool = False
    rows: int = -1


class TableStatements:
    """Builds the statements of one table. `native_json`: the server has the type JSON.

    All raise RowRefused for a row that no packet takes, Stopped for a value that is none of its
    type."""

    def __init__(
        self,
        db: str,
        table: str,
        writing: Writing,
        key: Sequence[str],
        max_packet: int,
        *,
        native_json: bool = False,
    ) -> None:
        self.table = table_name(db, table)
        self.columns = writing.columns
        self._max_packet = max_packet
        self._max_chars = min(STATEMENT_CHARS, (max_packet - PACKET_RESERVE) // 4)
        self._native_json = native_json
        names = [name(column.name) for column in self.columns]
        extra = [name(column) for column, _ in writing.extra]
        # A column only the downstream has may have no default: strict mode would refuse the row.
        self._lenient = bool(extra)
        tail = "".join(f",{_origin(structure)}" for _, structure in writing.extra)
        self._rows = RowText([(c.name, _code(c)) for c in self.columns], "(", tail + ")")
        self._each = [
            (c.name, RowText([(c.name, _code(c))], f"{name(c.name)}=", "")) for c in self.columns
        ]
        self._into = f"INTO {self.table} ({','.join(names + extra)}) VALUES "
        self._upsert = ""
        if extra and writing.unique_keys == 1:
            self._upsert = " ON DUPLICATE KEY UPDATE " + ",".join(f"{n}=VALUES({n})" for n in names)
        kinds = {column.name: column.kind for column in self.columns}
        keyed = [(column, _compared(kinds[column])) for column in key if column in kinds]
        self._keys = RowText(keyed, "(", ")") if len(key) > 1 else RowText(keyed, "", "")
        listed = ",".join(name(column) for column in key)
        self._by_key = f"DELETE FROM {self.table} WHERE ({listed}) IN ("

    def put(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Rows that must exist afterwards, replacing what has one of their keys."""
        verb = "INSERT " if self._upsert else "REPLACE "
        return self._cut(verb + self._into, self._rows, images, self._upsert, self._lenient)

    def insert(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Rows of a table without a key."""
        return self._cut("INSERT " + self._into, self._rows, images, "", self._lenient)

    def delete(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Delete by key."""
        return self._cut(self._by_key, self._keys, images, ")", False)

    def delete_one(self, image: Image) -> Statement:
        """Delete one of the rows that equal `image` in every column."""
        return self._statement(
            f"DELETE FROM {self.table} WHERE {self._where(image)} LIMIT 1", False, 1
        )

    def update_one(self, before: Image, after: Image) -> Statement:
        """Update one of the rows that equal `before` in every column."""
        sets: list[str] = []
        lenient = False
        for column, only in self._each:
            if column in after.row:
                text, _, loose = self._take(only, [after], 0, 0)
                sets.append(text)
                lenient = lenient or loose
        where = self._where(before)
        return self._statement(
            f"UPDATE {self.table} SET {','.join(sets)} WHERE {where} LIMIT 1", lenient, 1
        )

    def _where(self, image: Image) -> str:
        row, b64 = image.row, image.b64
        return " AND ".join(
            matches(
                column.kind,
                name(column.name),
                row[column.name],
                column.name in b64,
                native_json=self._native_json,
            )
            for column in self.columns
            if column.name in row
        )

    def _cut(
        self, head: str, rows: RowText, images: Sequence[Image], tail: str, lenient: bool
    ) -> Iterator[Statement]:
        room = self._max_chars - len(head) - len(tail)
        at = 0
        while at < len(images):
            text, at, loose = self._take(rows, images, at, room)
            yield self._statement(f"{head}{text}{tail}", lenient or loose)

    def _take(
        self, rows: RowText, images: Sequence[Image], at: int, room: int
    ) -> tuple[str, int, bool]:
        try:
            return rows.take(images, at, STATEMENT_ROWS, room)
        except ValueError as error:
            raise Stopped(f"a value of {self.table} is none of its type: {error}") from error

    def _statement(self, sql: str, lenient: bool, rows: int = -1) -> Statement:
        raw = sql.encode()
        if len(raw) + PACKET_RESERVE > self._max_packet:
            raise RowRefused(
                f"a row of {self.table} makes a statement of {len(raw)} bytes, above"
                f" max_allowed_packet, {self._max_packet}",
                PACKET_TOO_LARGE,
                hint=failure(PACKET_TOO_LARGE).hint,
            )
        return Statement(raw, lenient, rows)


def _code(column: Written) -> int:
    if column.elements and "" not in column.elements:
        return row_text.ENUM
    return CODES[column.kind]


def _compared(kind: Kind) -> int:
    return row_text.EXACT_FLOAT if kind is Kind.FLOAT else CODES[kind]


def _origin(structure: ColumnStructure | None) -> str:
    """What a row older than the column holds in it."""
    if structure is None or structure.origin_default is None:
        return "DEFAULT"
    origin = structure.origin_default
    return origin if structure.base == "bit" else text_literal(origin)
