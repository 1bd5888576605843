"""Rows of one table as events of the change stream: the JSON of tidelog.changes.Event, in bytes.

Byte for byte what msgspec makes of an Event with the same images; put together here because the
struct in between costs as much as the encoding.
"""

from __future__ import annotations

import msgspec

from tidelog.rows.errors import RowCorrupt
from tidelog.rows.table_codec import AnyMutation, Images, TableCodec

_json = msgspec.json.Encoder().encode


class EventCodec:
    """Precomputed for one TableInfo; callers cache it per (table id, version)."""

    def __init__(self, codec: TableCodec) -> None:
        self._codec = codec
        self._keys: list[tuple[bytes, str]] = []
        """Of each key column what stands before its value, and its name."""
        for name in codec.key_columns:
            opening = b',"key":{' if not self._keys else b","
            self._keys.append((opening + _json(name) + b":", name))

    def events(
        self, mutation: AnyMutation, own_schema: bool, commit_ts: int
    ) -> tuple[list[bytes], int, int]:
        """The rows in order, and how many of them are created and updated. `own_schema` as in
        TableCodec.decode. Raises RowCorrupt."""
        position = b'","commit_ts":%d' % commit_ts
        events: list[bytes] = []
        created = updated = 0
        for images in self._codec.images(mutation, own_schema):
            op = images[0]
            if op == "c":
                created += 1
            elif op == "u":
                updated += 1
            try:
                events.append(self._event(position, images))
            except KeyError as error:
                reason = f"a row lacks the key column {error}"
                raise RowCorrupt(mutation.table_id, "sequence", -1, reason) from error
        return events, created, updated

    def _event(self, position: bytes, images: Images) -> bytes:
        op, before, after, marks = images
        parts = [b'{"op":"', op.encode(), position]
        image = after if before is None else before
        if self._keys and image is not None:
            for opening, name in self._keys:
                parts.append(opening)
                parts.append(_json(image[name]))
            parts.append(b"}")
        if before is not None:
            parts.append(b',"before":')
            parts.append(_json(before))
        if after is not None:
            parts.append(b',"after":')
            parts.append(_json(after))
        if marks:
            parts.append(b',"b64":')
            parts.append(_json(marks))
        parts.append(b"}")
        return b"".join(parts)
