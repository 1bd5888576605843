"""Changes as rows of a replay's Parquet files: whether the row is there, and its values. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, final

import msgspec

from tidelog.changes import Event
from tidelog.errors import Stopped
from tidelog.schema.structure import TableStructure
from tidelog_backfill.replay.bundles import EVENT, GONE, Change
from tidelog_backfill.snapshot.values import stored

_ROW = msgspec.json.Decoder(dict[str, Any])
_EVENT = msgspec.json.Decoder(Event)
_json = msgspec.json.Encoder().encode
Row = dict[str, Any]


@final
class Rows:
    """Of one table at one version."""

    def __init__(self, structure: TableStructure) -> None:
        columns = stored(structure)
        self._texts = frozenset(one.name for one in columns if not one.binary)
        self._documents = [one.name for one in columns if one.base == "json"]
        self._key = structure.key_columns

    def of(self, change: Change) -> Iterator[tuple[str, Row]]:
        """`_op` and columns, at least the key's. Raises Stopped for a text that is no UTF-8."""
        if change.kind != EVENT:
            op, row = "d" if change.kind == GONE else "u", _ROW.decode(change.payload)
            yield op, self._shown(row, change.b64)
            return
        event = _EVENT.decode(change.payload)
        for op, row in self._told(event):
            yield op, self._shown(row, event.b64)

    def _told(self, event: Event) -> Iterator[tuple[str, Row]]:
        """An update that takes the key from a row makes two of it, as every one does without a key:
        else nothing would say that the old row is gone."""
        old = event.key if self._key else event.before
        op = event.op
        if op == "u" and old is not None and self._moves(old, event.after or {}):
            yield "d", dict(old)
            op = op if self._key else "c"
        row = event.after if event.after is not None else old
        yield op, dict(row or {})

    def _moves(self, old: Row, new: Row) -> bool:
        return not self._key or any(old.get(name) != new.get(name) for name in self._key)

    def _shown(self, row: Row, marked: Sequence[str]) -> Row:
        """Documents are texts. One that came in base64 is one by then: JSON's own null, or what
        shares its event with that."""
        for name in self._documents:
            if row.get(name) is not None and name not in marked:
                row[name] = _json(row[name]).decode()
        for name in self._texts.intersection(marked):
            if row.get(name) is not None:
                row[name] = _text(row[name], name)
        return row


def _text(base64: str, name: str) -> str:
    """Of an event of which some image is not UTF-8."""
    try:
        return b64decode(base64).decode()
    except UnicodeDecodeError as error:
        raise Stopped(
            f"a text of column {name} is not UTF-8: Parquet can't have it",
            hint="leave the table out, or replay into a database",
        ) from error
