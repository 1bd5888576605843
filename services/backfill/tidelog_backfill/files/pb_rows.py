"""Rows of pb_binlog files as the stream would tell them.

By itself a file tells ENUM, SET and BIT as numbers and JSON as text, and names no key; by a table's
structure they become what the stream has.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, final

import msgspec

from tidelog.changes import Event, RowMessage
from tidelog.pb_files.values import Image, images
from tidelog.rows.column import shortest_float32
from tidelog.rows.errors import Malformed
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import Body, Chunk
from tidelog_backfill.files.pb import PbRecords, file_number
from tidelog_backfill.files.records import OnCorrupt, unreadable
from tidelog_backfill.files.spans import Spans
from tidelog_backfill.files.view import Span
from tidelog_proto import pb_binlog_pb2 as pb

_NUMBER_BITS = 40
"""Files are smaller than 2^40 bytes: a place in all of them is number and offset."""
_OPS = {pb.EventType.Insert: "c", pb.EventType.Update: "u", pb.EventType.Delete: "d"}
_json = msgspec.json.Encoder().encode
_parsed = msgspec.json.Decoder().decode
_Change = Callable[[Any], Any]


def pb_bodies(
    chunk: Chunk,
    spans: Spans,
    on_corrupt: OnCorrupt,
    left_out: Counter[str],
) -> Iterator[Body]:
    """`left_out`: of rows. Raises Corrupt."""
    base = file_number(Path(chunk.path)) << _NUMBER_BITS
    forms: dict[int, dict[tuple[str, str], _Form]] = {}
    for record, binlog in PbRecords(chunk, on_corrupt):
        span = spans.of(binlog.commit_ts) if binlog.tp == pb.BinlogType.DML else None
        if span is None or any(begin <= record.offset < end for begin, end in chunk.again):
            continue
        known = forms.get(span.until_ts)
        if known is None:
            known = forms[span.until_ts] = _forms(span)
        try:
            yield from _told(binlog, base + record.offset, spans, known, left_out)
        except Malformed as error:
            raise unreadable(chunk.path, record.offset, f"a row: {error}") from error


def _told(
    binlog: pb.Binlog,
    seq: int,
    spans: Spans,
    forms: dict[tuple[str, str], _Form],
    left_out: Counter[str],
) -> Iterator[Body]:
    """A record takes more bytes than it has rows: no two share a place. Raises Malformed."""
    runs = groupby(binlog.dml_data.events, lambda one: (one.schema_name, one.table_name))
    for (db, table), run in runs:
        events = list(run)
        reason = spans.why_not(db, table, 0)
        if reason:
            left_out[reason] += len(events)
        else:
            form = forms.get((db, table), _AS_IT_STANDS)
            told = [form.event(one, binlog.commit_ts) for one in events]
            yield Body(_json(RowMessage(db, table, form.version, told)), seq)
        seq += len(events)


def _forms(span: Span) -> dict[tuple[str, str], _Form]:
    return {(db, structure.name): _Form(structure) for db, structure in span.named}


@final
class _Form:
    """Of a table's rows; None: of one whose structure nobody knows."""

    def __init__(self, structure: TableStructure | None) -> None:
        self.version = structure.version if structure is not None else 0
        self._keys = structure.key_columns if structure is not None else ()
        columns = structure.columns if structure is not None else ()
        self._names = frozenset(column.name for column in columns)
        self._documents = [column.name for column in columns if column.base == "json"]
        changes = ((column.name, _change(column)) for column in columns)
        self._changes = {name: change for name, change in changes if change is not None}

    def event(self, event: pb.Event, commit_ts: int) -> Event:
        """Raises Malformed."""
        before, after = (self._image(one) for one in images(event))
        both = [one for one in (before, after) if one is not None]
        marks = list(dict.fromkeys(name for image in both for name in self._marks(image)))
        for image in both:
            self._documents_in(image, marks)
            for name in marks:
                _agree(image, name)
        key = self._key(before if before is not None else after)
        return Event(_OPS[event.tp], commit_ts, key, before, after, marks)

    def _image(self, image: Image | None) -> Image | None:
        """Without columns that a DDL is adding or dropping just then: the stream has none."""
        if image is None or not self._names:
            return image
        shown = {name: value for name, value in image.items() if name in self._names}
        for name, change in self._changes.items():
            value = shown.get(name)
            if value is not None:
                shown[name] = change(value)
        return shown

    def _marks(self, image: Image) -> Iterator[str]:
        """The columns whose values are bytes, and JSON's own null, which isn't SQL's."""
        for name, value in image.items():
            if isinstance(value, bytes) or (value == "null" and name in self._documents):
                yield name

    def _documents_in(self, image: Image, marks: list[str]) -> None:
        for name in self._documents:
            value = image.get(name)
            if isinstance(value, str) and name not in marks:
                try:
                    image[name] = _parsed(value)
                except NOT_READABLE as error:
                    raise Malformed(f"column {name}: {error}") from error

    def _key(self, image: Image | None) -> dict[str, Any] | None:
        if not self._keys or image is None:
            return None
        missing = [name for name in self._keys if name not in image]
        if missing:
            raise Malformed(f"it lacks the key column {missing[0]}")
        return {name: image[name] for name in self._keys}


def _agree(image: Image, name: str) -> None:
    """`b64` names a column for both images."""
    value = image.get(name)
    if isinstance(value, bytes | str):
        raw = value if isinstance(value, bytes) else value.encode()
        image[name] = b64encode(raw).decode()


def _change(column: ColumnStructure) -> _Change | None:
    """What makes of a value in a file that of the stream."""
    if column.base == "float":
        return shortest_float32
    if column.base == "enum":
        return lambda value: _element(column, value)
    if column.base == "set":
        return lambda value: _elements(column, value)
    return None


def _element(column: ColumnStructure, number: int) -> str:
    """0 is the error value, which has no text."""
    if not 0 <= number <= len(column.elems):
        raise Malformed(f"column {column.name}: ENUM has no element {number}")
    return column.elems[number - 1] if number else ""


def _elements(column: ColumnStructure, bits: int) -> str:
    if bits >> len(column.elems):
        raise Malformed(f"column {column.name}: SET has no elements {bits:b}")
    return ",".join(text for at, text in enumerate(column.elems) if bits >> at & 1)


_AS_IT_STANDS = _Form(None)
