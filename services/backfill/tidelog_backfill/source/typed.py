"""Changes of one table with its columns as Spark's own types. Pure.

A row is as it was after its change; of a deletion as it was before. The columns are those of the
table's newest structure: one that a row does not have, or whose value has no place in the type (a
date with zeros), is null. Images are read into objects that have the wanted columns only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa

from tidelog.errors import BadInput, UnparsablePayload
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.column_types import arrow_type
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.odd_names import ODD
from tidelog_backfill.source.column_values import ColumnValues

BATCH_ROWS = 8192
BATCH_BYTES = 16 << 20
OWN = ("commit_ts", "op")
AS_JSON = "read it with the option tables, as JSON"
_NOTHING = msgspec.Raw()
_NAMES = msgspec.json.Decoder(list[str])


def schema(structure: TableStructure) -> pa.Schema:
    """Raises BadInput for a table whose columns are called like ours, or as nothing here can be."""
    odd = [column.name for column in structure.columns if ODD.search(column.name)]
    if odd:
        raise BadInput(
            f"the table {structure.name} has a column with quotes, backslashes or control"
            f" characters in its name, {odd[0]!r}",
            hint=AS_JSON,
        )
    taken = {column.name.lower() for column in structure.columns} & set(OWN)
    if taken:
        raise BadInput(
            f"the table {structure.name} has a column {min(taken)} of its own",
            hint=AS_JSON,
        )
    columns = [(column.name, arrow_type(column)) for column in structure.columns]
    return pa.schema([("commit_ts", pa.int64()), ("op", pa.string()), *columns])


def batches(
    bodies: Iterable[Body], structure: TableStructure, shape: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """`shape`: fields of its schema. Raises UnparsablePayload."""
    wanted = set(shape.names)
    table = _Table([column for column in structure.columns if column.name in wanted])
    rows: list[Any] = []
    size = 0
    try:
        for body in bodies:
            rows += table.events(body)
            size += len(body.body)
            if len(rows) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield table.batch(rows, shape)
                rows, size = [], 0
        if rows:
            yield table.batch(rows, shape)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a row message can't be read: {error}") from error


class _Table:
    """Of so many of its columns."""

    def __init__(self, columns: Sequence[ColumnStructure]) -> None:
        self._columns = [ColumnValues(column) for column in columns]
        image = _image(columns)
        self._empty = image()
        self._image = msgspec.json.Decoder(image | None)
        self._message: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_message(image))

    def events(self, body: Body) -> list[Any]:
        """Raises msgspec.DecodeError."""
        events: list[Any] = self._message.decode(body.body).events
        if events and events[0].commit_ts <= body.after:
            return [event for event in events if event.commit_ts > body.after]
        return events

    def batch(self, events: Sequence[Any], shape: pa.Schema) -> pa.RecordBatch:
        """Raises msgspec.DecodeError."""
        images = [event.after or self._before(event) for event in events]
        encoded = self._encoded(events)
        arrays = {
            "commit_ts": pa.array([event.commit_ts for event in events], pa.int64()),
            "op": pa.array([event.op for event in events], pa.string()),
        }
        for place, column in enumerate(self._columns):
            values = list(map(attrgetter(f"c{place}"), images))
            arrays[column.name] = column.array(values, encoded.get(column.name, ()))
        return pa.RecordBatch.from_arrays([arrays[name] for name in shape.names], schema=shape)

    def _before(self, event: Any) -> Any:
        """Of a deletion."""
        return (self._image.decode(event.before) if event.before else None) or self._empty

    def _encoded(self, events: Sequence[Any]) -> dict[str, list[int]]:
        """By column, of which rows the value is base64."""
        found: dict[str, list[int]] = {}
        for row, names in enumerate([event.b64 for event in events]):
            for name in _NAMES.decode(names) if names else ():
                found.setdefault(name, []).append(row)
        return found


def _message(image: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A RowMessage with such images. Its parts hold nothing that refers back to them."""
    event = msgspec.defstruct(
        "Event",
        [
            ("op", str),
            ("commit_ts", int),
            ("before", msgspec.Raw, _NOTHING),
            ("after", image | None, None),
            ("b64", msgspec.Raw, _NOTHING),
        ],
        gc=False,
    )
    return msgspec.defstruct("Message", [("events", list[event])], gc=False)  # type: ignore[valid-type]


def _image(columns: Sequence[ColumnStructure]) -> type[msgspec.Struct]:
    """Its fields are the columns, in order: their names need not be those of attributes."""
    fields = [
        (f"c{place}", msgspec.Raw, _NOTHING) if column.base == "json" else (f"c{place}", Any, None)
        for place, column in enumerate(columns)
    ]
    names = {f"c{place}": column.name for place, column in enumerate(columns)}
    return msgspec.defstruct("Image", fields, rename=names, gc=False)
