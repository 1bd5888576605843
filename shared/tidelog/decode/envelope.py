"""How changes are written for readers: rows as events, events as messages, DDLs. Pure.

A feed has one envelope. Whatever it is, subjects, batches, markers and watermarks stay the same, so
that every reader sees gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from tidelog.changes import DdlMessage
from tidelog.rows.event_json import EventCodec
from tidelog.rows.payload import MutationRows
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.history import TableAt

Ops = tuple[int, int, int]
"""Counts of c, u and d."""

UNLIMITED = 1 << 30

_json = msgspec.json.Encoder().encode


class TableEnvelope(Protocol):
    """Writes the changes of one table at one version. Made once for each, used for every row."""

    overhead: int
    """Bytes of a message beside its events and a byte between any two of them."""

    def events(
        self, mutation: MutationRows, own_schema: bool, commit_ts: int, start_ts: int, before: int
    ) -> tuple[list[bytes], Ops]:
        """The rows of a mutation, or of a part of one, in order, each as bytes. `own_schema` as in
        TableCodec.decode; `before` rows of the transaction stand before these. Raises RowCorrupt.
        """
        ...

    def op(self, event: bytes) -> bytes:
        """c, u or d: what one of `events` is."""
        ...

    def message(self, events: list[bytes]) -> tuple[bytes, Mapping[str, str]]:
        """The body of a message of these events, and what headers it has of its own."""
        ...


class Envelope(Protocol):
    """What a feed's configuration names."""

    per_message: int
    """How many events a message may hold; 1 = each is a message of its own."""

    headers: Mapping[str, str]
    """Of every DDL, beside the batcher's; `message` has a row's."""

    def table(self, db: str, name: str, table: TableAt) -> TableEnvelope:
        """For rows that readers meet as `db`.`name`."""
        ...

    def ddl(self, message: DdlMessage) -> bytes:
        """The body of a DDL."""
        ...


class TidelogTable:
    """Many events in a message: RowMessage and Event of tidelog.changes."""

    def __init__(self, db: str, name: str, table: TableAt) -> None:
        self._codec = EventCodec(TableCodec(table.info))
        self._head = b'{"db":%b,"table":%b,"schema_version":%d,"events":[' % (
            _json(db),
            _json(name),
            table.version,
        )
        self.overhead = len(self._head) + 2

    def events(
        self, mutation: MutationRows, own_schema: bool, commit_ts: int, start_ts: int, before: int
    ) -> tuple[list[bytes], Ops]:
        events, created, updated = self._codec.events(mutation, own_schema, commit_ts)
        return events, (created, updated, len(events) - created - updated)

    def op(self, event: bytes) -> bytes:
        return event[7:8]  # {"op":"c"

    def message(self, events: list[bytes]) -> tuple[bytes, Mapping[str, str]]:
        return self._head + b",".join(events) + b"]}", {}


class TidelogEnvelope:
    """The default one: what tidelog.change_reader and the Applier read."""

    per_message = UNLIMITED
    headers: Mapping[str, str] = {}

    def table(self, db: str, name: str, table: TableAt) -> TableEnvelope:
        return TidelogTable(db, name, table)

    def ddl(self, message: DdlMessage) -> bytes:
        return _json(message)


TIDELOG: Envelope = TidelogEnvelope()
