"""Multi-row statements for MySQL-speaking servers, sized by rows and bytes (design section 9)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidelog.downstream import Image, Row
from tidelog.errors import Stopped
from tidelog.schema.structure import ColumnStructure
from tidelog_applier.downstreams.literals import (
    ENCODERS,
    MARKED,
    Encode,
    matches,
    name,
    quote,
    table_name,
)
from tidelog_applier.downstreams.writing import Writing

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
    """Builds the statements of one table."""

    def __init__(
        self, db: str, table: str, writing: Writing, key: Sequence[str], max_packet: int
    ) -> None:
        self.table = table_name(db, table)
        self.columns = writing.columns
        self._kinds = {column.name: column.kind for column in self.columns}
        self._key = tuple(key)
        self._max_packet = max_packet
        self._max_chars = min(STATEMENT_CHARS, (max_packet - PACKET_RESERVE) // 4)
        self._encoders: dict[tuple[str, ...], list[tuple[str, Encode]]] = {}
        self._enums = [(c.name, frozenset(c.elements)) for c in self.columns if c.elements]
        names = [name(column.name) for column in self.columns]
        extra = [name(column) for column, _ in writing.extra]
        # A column only the downstream has may have no default: strict mode would refuse the row.
        self._lenient = bool(extra)
        self._tail = "".join(f",{_origin(structure)}" for _, structure in writing.extra) + ")"
        self._into = f"INTO {self.table} ({','.join(names + extra)}) VALUES "
        self._upsert = ""
        if extra and writing.unique_keys == 1:
            self._upsert = " ON DUPLICATE KEY UPDATE " + ",".join(f"{n}=VALUES({n})" for n in names)

    def put(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Rows that must exist afterwards, replacing what has one of their keys."""
        verb = "INSERT " if self._upsert else "REPLACE "
        return self._rows(verb + self._into, images, self._upsert)

    def insert(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Rows of a table without a key."""
        return self._rows("INSERT " + self._into, images, "")

    def delete(self, images: Sequence[Image]) -> Iterator[Statement]:
        """Delete by key."""
        encode = [(column, ENCODERS[self._kinds[column]]) for column in self._key]
        head = f"DELETE FROM {self.table} WHERE "
        if len(self._key) == 1:
            head += f"{name(self._key[0])} IN "
        else:
            head += f"({','.join(name(column) for column in self._key)}) IN "
        texts = (self._key_text(image, encode) for image in images)
        for chunk, _ in self._chunks(((text, False) for text in texts), len(head) + 2):
            yield self._statement(f"{head}({','.join(chunk)})", False)

    def delete_one(self, image: Image) -> Statement:
        """Delete one of the rows that equal `image` in every column."""
        return self._statement(
            f"DELETE FROM {self.table} WHERE {self._where(image)} LIMIT 1", False, 1
        )

    def update_one(self, before: Image, after: Image) -> Statement:
        """Update one of the rows that equal `before` in every column."""
        encode = self._for(after.b64)
        sets = ",".join(f"{name(n)}={e(after.row[n])}" for n, e in encode if n in after.row)
        where = self._where(before)
        lenient = self._has_error_value(after.row)
        return self._statement(f"UPDATE {self.table} SET {sets} WHERE {where} LIMIT 1", lenient, 1)

    def _where(self, image: Image) -> str:
        row, b64 = image.row, image.b64
        return " AND ".join(
            matches(column.kind, name(column.name), row[column.name], column.name in b64)
            for column in self.columns
            if column.name in row
        )

    def _key_text(self, image: Image, encode: list[tuple[str, Encode]]) -> str:
        parts = [
            (MARKED[self._kinds[column]] if column in image.b64 else encoder)(image.row[column])
            for column, encoder in encode
        ]
        return parts[0] if len(parts) == 1 else f"({','.join(parts)})"

    def _for(self, b64: Sequence[str]) -> list[tuple[str, Encode]]:
        marked = tuple(b64)
        found = self._encoders.get(marked)
        if found is None:
            found = [
                (c.name, MARKED[c.kind] if c.name in marked else ENCODERS[c.kind])
                for c in self.columns
            ]
            if len(self._encoders) < 256:
                self._encoders[marked] = found
        return found

    def _rows(self, head: str, images: Sequence[Image], tail: str) -> Iterator[Statement]:
        for chunk, lenient in self._chunks(self._tuples(images), len(head) + len(tail)):
            yield self._statement(f"{head}{','.join(chunk)}{tail}", lenient)

    def _tuples(self, images: Iterable[Image]) -> Iterator[tuple[str, bool]]:
        plain = self._for(())
        enums, lenient, tail = bool(self._enums), self._lenient, self._tail
        for image in images:
            row = image.row
            encode = self._for(image.b64) if image.b64 else plain
            try:
                text = "(" + ",".join([e(row[n]) for n, e in encode]) + tail
            except KeyError:
                # The upstream is dropping a column and has left it out of its rows.
                parts = [e(row[n]) if n in row else "DEFAULT" for n, e in encode]
                yield f"({','.join(parts)}{tail}", True
                continue
            yield text, lenient or (enums and self._has_error_value(row))

    def _has_error_value(self, row: Row) -> bool:
        return any(row.get(n) == "" and "" not in elements for n, elements in self._enums)

    def _chunks(
        self, texts: Iterable[tuple[str, bool]], overhead: int
    ) -> Iterator[tuple[list[str], bool]]:
        chunk: list[str] = []
        chars, lenient = overhead, False
        for text, is_lenient in texts:
            if chunk and (chars + len(text) > self._max_chars or len(chunk) == STATEMENT_ROWS):
                yield chunk, lenient
                chunk, chars, lenient = [], overhead, False
            chunk.append(text)
            chars += len(text) + 1
            lenient = lenient or is_lenient
        if chunk:
            yield chunk, lenient

    def _statement(self, sql: str, lenient: bool, rows: int = -1) -> Statement:
        raw = sql.encode()
        if len(raw) + PACKET_RESERVE > self._max_packet:
            raise Stopped(
                f"a row of {self.table} makes a statement of {len(raw)} bytes",
                hint=f"raise the downstream's max_allowed_packet, now {self._max_packet}",
            )
        return Statement(raw, lenient, rows)


def _origin(structure: ColumnStructure | None) -> str:
    """What a row older than the column holds in it."""
    if structure is None or structure.origin_default is None:
        return "DEFAULT"
    origin = structure.origin_default
    return origin if structure.base == "bit" else quote(origin)
