"""What a reader of chunks has to know of the schema. Travels to executors as msgpack."""

from __future__ import annotations

import msgspec


class TableView(msgspec.Struct, frozen=True):
    """How rows of one table id at one schema version are decoded, and under which names they are
    told. `info`: JSON of the TableInfo (TiDB's own); `version`: the schema version that readers
    know the table by; `ignored`: mutation types that an event filter leaves out."""

    table_id: int
    version: int
    known_version: int
    db: str
    name: str
    info: bytes
    ignored: frozenset[int] = frozenset()


class Span(msgspec.Struct, frozen=True):
    """Row changes with after_ts < commit_ts <= until_ts: no DDL lies between them. A Pump's table
    ids that are not in `tables` are left out, `dropped` says why; relays and pb files name their
    tables themselves."""

    after_ts: int
    until_ts: int
    tables: list[TableView] = []
    dropped: dict[int, str] = {}


class View(msgspec.Struct, frozen=True):
    """Spans in order, none overlapping. `whole`: path -> Facts.whole of a relay's file."""

    spans: list[Span]
    whole: dict[str, list[tuple[int, int, int]]] = {}
