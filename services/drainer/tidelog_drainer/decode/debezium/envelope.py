"""One event a message: before, after, source, op, ts_ms, transaction. Pure.

Source: Debezium's MySQL connector, "Data change events", without the schema block
(schemas.enable=false); commit_ts, start_ts and cluster_id in `source` have TiCDC's names.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping

import msgspec

from tidelog import changes
from tidelog.changes import DdlMessage
from tidelog.decode.envelope import Ops
from tidelog.decode.errors import Undecodable
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.table_codec import AnyMutation, RowChange, TableCodec
from tidelog.rows.values import STRING_TYPES, T_JSON, Value
from tidelog.schema.history import TableAt
from tidelog.timestamps import physical_ms
from tidelog_drainer.decode.debezium.ddl import schema_change
from tidelog_drainer.decode.debezium.values import conversion

NAME = "debezium"
VERSION = "2.4.0.Final"
"""What strict readers of Debezium's take for one of its own, as TiCDC says it, too."""
CONNECTOR = "tidelog"

KEY_BYTES = 60 << 10
"""Of an event's key. It goes into a header, and JetStream stores no more than 65,535 bytes of a
message's headers: the others have 4 KiB."""

_json = msgspec.json.Encoder().encode
_HEADERS = {changes.H_ENVELOPE: NAME}

Image = dict[str, Value]


class _Orders:
    """The place of an event among those of its table in its transaction: a table may come in
    several mutations, one for each partition."""

    def __init__(self) -> None:
        self._start_ts = -1
        self._counts: dict[tuple[str, str], int] = {}

    def take(self, table: tuple[str, str], start_ts: int, before: int, count: int) -> int:
        """How many of the table's came before; `count` more do now."""
        if start_ts != self._start_ts or before == 0:
            self._start_ts = start_ts
            self._counts = {}
        found = self._counts.get(table, 0)
        self._counts[table] = found + count
        return found


class DebeziumEnvelope:
    per_message = 1
    headers: Mapping[str, str] = _HEADERS

    def __init__(self, feed: str, cluster_id: int) -> None:
        self._feed = feed
        self._cluster_id = cluster_id
        self._orders = _Orders()

    def table(self, db: str, name: str, table: TableAt) -> DebeziumTable:
        source = self._source(db, name, table.version)
        return DebeziumTable((db, name), table, source, self._orders)

    def ddl(self, message: DdlMessage) -> bytes:
        table = message.table.name if message.table is not None else ""
        source = self._source(message.db, table, message.schema_version)
        ts_ms = physical_ms(message.commit_ts)
        at = {"ts_ms": ts_ms, "commit_ts": message.commit_ts}
        return _json(schema_change(message, source | at, ts_ms))

    def _source(self, db: str, table: str, schema_version: int) -> dict[str, object]:
        """What is the same for each event of a table at one version."""
        return {
            "version": VERSION,
            "connector": CONNECTOR,
            "name": self._feed,
            "snapshot": "false",
            "cluster_id": str(self._cluster_id),
            "db": db,
            "table": table,
            "schema_version": schema_version,
        }


class DebeziumTable:
    """An event's bytes are its op, its key as JSON, a newline, and the message's body."""

    overhead = 0

    def __init__(
        self, name: tuple[str, str], table: TableAt, source: dict[str, object], orders: _Orders
    ) -> None:
        self._name = name
        self._codec = TableCodec(table.info)
        self._source = _json(source)[:-1]
        self._orders = orders
        public = [column for column in table.info.columns if column.public]
        found = ((column.name.text, conversion(column.type)) for column in public)
        self._conversions = {name: convert for name, convert in found if convert is not None}
        self._json = {column.name.text for column in public if column.type.Tp == T_JSON}
        self._bytes = {
            column.name.text
            for column in public
            if column.type.Tp in STRING_TYPES and column.type.Charset == "binary"
        }

    def events(
        self, mutation: AnyMutation, own_schema: bool, commit_ts: int, start_ts: int, before: int
    ) -> tuple[list[bytes], Ops]:
        rows = self._codec.decode(mutation, own_schema)
        of_table = self._orders.take(self._name, start_ts, before, len(rows))
        ts_ms = physical_ms(commit_ts)
        place = b',"ts_ms":%d,"commit_ts":%d,"start_ts":%d}' % (ts_ms, commit_ts, start_ts)
        source = self._source + place
        events = []
        for at, row in enumerate(rows, 1):
            body = b'{"before":%b,"after":%b,"source":%b,"op":"%b","ts_ms":%d' % (
                _json(self._image(row.before, row.b64)),
                _json(self._image(row.after, row.b64)),
                source,
                row.op.encode(),
                ts_ms,
            )
            order = b',"transaction":{"id":"%d","total_order":%d,"data_collection_order":%d}' % (
                start_ts,
                before + at,
                of_table + at,
            )
            tail = self._marks(row.b64) + b"}"
            key = self._key(mutation.table_id, row)
            if len(key) > KEY_BYTES:
                raise self._too_long(commit_ts, len(key))
            events.append(b"".join((row.op.encode(), key, b"\n", body, order, tail)))
        created = sum(row.op == "c" for row in rows)
        updated = sum(row.op == "u" for row in rows)
        return events, (created, updated, len(rows) - created - updated)

    def op(self, event: bytes) -> bytes:
        return event[:1]

    def message(self, events: list[bytes]) -> tuple[bytes, Mapping[str, str]]:
        (event,) = events
        key, _, body = event[1:].partition(b"\n")
        return body, _HEADERS | {changes.H_KEY: key.decode()}

    def _key(self, table_id: int, row: RowChange) -> bytes:
        """Of an update the old one; `null` without. In ASCII, as a header is."""
        image = row.after if row.before is None else row.before
        assert image is not None
        if not self._codec.key_columns:
            return b"null"
        shown = self._image(image, row.b64) or {}
        try:
            key = {name: shown[name] for name in self._codec.key_columns}
        except KeyError as error:
            reason = f"a row lacks the key column {error}"
            raise RowCorrupt(table_id, "sequence", -1, reason) from error
        return json.dumps(key, separators=(",", ":")).encode()

    def _too_long(self, commit_ts: int, size: int) -> Undecodable:
        return Undecodable(
            commit_ts,
            f"a row's key in {'.'.join(self._name)} takes {size} bytes as a header,"
            f" the limit is {KEY_BYTES}",
            hint="leave the table (`ignore-table`) or the transaction (`ignore-txn-commit-ts`) out;"
            " the envelope `tidelog` has no such limit: it is a feed of another name",
        )

    def _image(self, row: Image | None, marks: tuple[str, ...]) -> Image | None:
        if row is None or not self._conversions:
            return row
        shown = dict(row)
        for name, convert in self._conversions.items():
            value = shown.get(name)
            if value is None:
                continue
            if name in self._json and name in marks:
                # One of the event's two images is the literal null: both are base64 of the text.
                shown[name] = b64decode(str(value)).decode()
            else:
                shown[name] = convert(value)
        return shown

    def _marks(self, marks: tuple[str, ...]) -> bytes:
        """Which texts are base64 because they are no UTF-8: Debezium has no word for that."""
        told = [name for name in marks if name not in self._bytes and name not in self._json]
        return b',"b64":' + _json(told) if told else b""
