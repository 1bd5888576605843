"""Multi-row statements for MySQL-speaking servers, sized by rows and bytes (design section 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tidelog.changes import Event
from tidelog.downstream import Image, RowRefused, TableRule, TableShare
from tidelog.downstreams import row_text
from tidelog.downstreams.failures import PACKET_TOO_LARGE, failure
from tidelog.downstreams.literals import CODES, Kind, matches, name, table_name
from tidelog.downstreams.row_text import RowText, text_literal
from tidelog.downstreams.structure_ddl import origin_default
from tidelog.downstreams.writing import Writing, Written
from tidelog.errors import Stopped
from tidelog.schema.structure import ColumnStructure

STATEMENT_ROWS = 1000
STATEMENT_CHARS = 128 << 10
"""About what a socket buffer takes at once, so that the next statement is built meanwhile."""
PACKET_RESERVE = 1024


class Statement(msgspec.Struct, frozen=True, gc=False):
    """SQL in the session's character set. `lenient`: it stores what strict mode refuses. `rows`:
    how many rows it must affect, -1 = any number. `otherwise`: run if it affects none."""

    sql: bytes
    lenient: bool = False
    rows: int = -1
    otherwise: tuple[bytes, ...] = ()


class TableStatements:
    """Builds the statements of one table by its `rule`. `triggers`: a row that was there is
    updated, not inserted again, as its triggers expect. `native_json`: the server has the type
    JSON; `json_equals`: it has that function.

    All raise RowRefused for a row that no packet takes, Stopped for a value that is none of its
    type."""

    def __init__(
        self,
        db: str,
        table: str,
        writing: Writing,
        max_packet: int,
        *,
        rule: TableRule,
        triggers: bool = False,
        native_json: bool = False,
        json_equals: bool = False,
    ) -> None:
        self.table = table_name(db, table)
        self.columns = writing.columns
        self.rule = rule
        self._max_packet = max_packet
        self._max_chars = min(STATEMENT_CHARS, (max_packet - PACKET_RESERVE) // 4)
        self._native_json = native_json
        self._json_equals = json_equals
        self._triggers = triggers
        # With several keys, a REPLACE of another lane may have cleared the row before.
        self._is_exact = len(rule.keys) == 1 and not rule.ordered
        names = [name(column.name) for column in self.columns]
        known = [(column, origin) for column, one in writing.extra if (origin := _origin(one))]
        self._lenient = writing.lenient
        tail = "".join(f",{origin}" for _, origin in known)
        self._rows = RowText([(c.name, _code(c)) for c in self.columns], "(", tail + ")")
        self._each = [
            (c.name, RowText([(c.name, _code(c))], f"{name(c.name)}=", "")) for c in self.columns
        ]
        listed = ",".join([*names, *(name(column) for column, _ in known)])
        self._into = f"INTO {self.table} ({listed}) VALUES "
        self._upsert = ""
        if not rule.replaceable:
            self._upsert = " ON DUPLICATE KEY UPDATE " + ",".join(f"{n}=VALUES({n})" for n in names)
        keyed = [(column.name, _compared(column.kind)) for column in writing.key]
        self._keys = RowText(keyed, "(", ")") if len(keyed) > 1 else RowText(keyed, "", "")
        self._has_key = f"({','.join(name(column) for column, _ in keyed)}) IN (" if keyed else ""
        self._texts = [column for column in writing.key if column.kind is Kind.TEXT]

    def put(self, images: Sequence[Image], *, new: bool) -> Iterator[Statement]:
        """Rows that must exist afterwards, replacing what has one of their keys. `new`: they were
        not there before."""
        if self._triggers and not new:
            for image in images:
                yield self.move(image, image)
            return
        verb = "INSERT " if self._upsert else "REPLACE "
        exact = new and self._is_exact
        yield from self._cut(
            verb + self._into, self._rows, images, self._upsert, self._lenient, exact
        )

    def insert(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Rows of an ordered table."""
        return self._cut("INSERT " + self._into, self._rows, images, "", self._lenient, False)

    def delete(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Delete by key."""
        head = f"DELETE FROM {self.table} WHERE {self._has_key}"
        return self._cut(head, self._keys, images, ")", False, self._is_exact)

    def move(self, before: Image, after: Image) -> Statement:
        """A row that is not replaced, whose key may change. What the downstream alone has of it
        stays. If it is not there, it is put."""
        key, _, _ = self._take(self._keys, [before], 0, 0)
        sets, lenient = self._sets(after)
        (put,) = self._cut("INSERT " + self._into, self._rows, [after], self._upsert, False, False)
        where = f"{self._has_key}{key})"
        return self._statement(
            f"UPDATE {self.table} SET {sets} WHERE {where}",
            lenient or self._lenient or put.lenient,
            1,
            (put.sql,),
        )

    def settle(self, before: Image, after: Image) -> list[Statement]:
        """In place of a `move` whose new key is there already, from an earlier attempt."""
        (put,) = self._cut("INSERT " + self._into, self._rows, [after], self._upsert, True, False)
        (gone,) = self.delete([before])
        return [msgspec.structs.replace(gone, rows=-1), put]

    def delete_one(self, image: Image) -> Statement:
        """Delete a row of an ordered table: by its key, else one that equals it entirely."""
        return self._statement(
            f"DELETE FROM {self.table} WHERE {self._where(image)} LIMIT 1", False, 1
        )

    def update_one(self, before: Image, after: Image) -> Statement:
        """Update a row of an ordered table: by its key, else one that equals `before` entirely."""
        sets, lenient = self._sets(after)
        where = self._where(before)
        return self._statement(f"UPDATE {self.table} SET {sets} WHERE {where} LIMIT 1", lenient, 1)

    def _sets(self, after: Image) -> tuple[str, bool]:
        sets: list[str] = []
        lenient = False
        for column, only in self._each:
            if column in after.row:
                text, _, loose = self._take(only, [after], 0, 0)
                sets.append(text)
                lenient = lenient or loose
        return ",".join(sets), lenient

    def _where(self, image: Image) -> str:
        if self._has_key:
            key, _, _ = self._take(self._keys, [image], 0, 0)
            return f"{self._has_key}{key}){self._nearest(image)}"
        return self._equals(image, self.columns)

    def _nearest(self, image: Image) -> str:
        """A key that the downstream does not enforce may be several rows' under its collation: the
        one that has it letter by letter comes first."""
        return f" ORDER BY {self._equals(image, self._texts)} DESC" if self._texts else ""

    def _equals(self, image: Image, columns: Sequence[Written]) -> str:
        row, b64 = image.row, image.b64
        return " AND ".join(
            matches(
                column.kind,
                name(column.name),
                row[column.name],
                column.name in b64,
                native_json=self._native_json,
                json_equals=self._json_equals,
            )
            for column in columns
            if column.name in row
        )

    def _cut(
        self,
        head: str,
        rows: RowText,
        images: Sequence[Image],
        tail: str,
        lenient: bool,
        exact: bool,
    ) -> Iterator[Statement]:
        room = self._max_chars - len(head) - len(tail)
        at = 0
        while at < len(images):
            begin = at
            text, at, loose = self._take(rows, images, begin, room)
            expected = at - begin if exact else -1
            yield self._statement(f"{head}{text}{tail}", lenient or loose, expected)

    def _take(
        self, rows: RowText, images: Sequence[Image], at: int, room: int
    ) -> tuple[str, int, bool]:
        try:
            return rows.take(images, at, STATEMENT_ROWS, room)
        except ValueError as error:
            raise Stopped(f"a value of {self.table} is none of its type: {error}") from error

    def _statement(
        self, sql: str, lenient: bool, rows: int = -1, otherwise: tuple[bytes, ...] = ()
    ) -> Statement:
        raw = sql.encode()
        if len(raw) + PACKET_RESERVE > self._max_packet:
            raise RowRefused(
                f"a row of {self.table} makes a statement of {len(raw)} bytes, above"
                f" max_allowed_packet, {self._max_packet}",
                PACKET_TOO_LARGE,
                hint=failure(PACKET_TOO_LARGE).hint,
            )
        return Statement(raw, lenient, rows, otherwise)


def folded(statements: TableStatements, share: TableShare) -> Iterator[Statement]:
    """A share's net effect per key."""
    if share.deletes:
        yield from statements.delete(share.deletes)
    if share.inserts:
        yield from statements.put(share.inserts, new=True)
    if share.updates:
        yield from statements.put(share.updates, new=False)


def in_order(statements: TableStatements, events: Sequence[Event]) -> Iterator[Statement]:
    """Each change by itself, inserts in runs."""
    run: list[Image] = []
    for event in events:
        if event.before is None and event.after is not None:
            run.append(Image(event.after, event.b64))
            continue
        if run:
            yield from statements.insert(run)
            run = []
        if event.before is None:
            continue
        before = Image(event.before, event.b64)
        if event.after is None:
            yield statements.delete_one(before)
        else:
            yield statements.update_one(before, Image(event.after, event.b64))
    if run:
        yield from statements.insert(run)


def _code(column: Written) -> int:
    if column.elements and "" not in column.elements:
        return row_text.ENUM
    return CODES[column.kind]


def _compared(kind: Kind) -> int:
    return row_text.EXACT_FLOAT if kind is Kind.FLOAT else CODES[kind]


def _origin(structure: ColumnStructure | None) -> str:
    """What a row older than the column holds in it; "" = the downstream's default."""
    origin = origin_default(structure) if structure is not None else None
    if structure is None or origin is None:
        return ""
    return origin if structure.base == "bit" else text_literal(origin)
