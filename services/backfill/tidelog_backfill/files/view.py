"""What a reader of chunks has to know of the schema. Travels to executors as msgpack."""

from __future__ import annotations

import msgspec

from tidelog.schema.structure import TableStructure

NOT_WANTED, NO_STRUCTURE = "not_wanted", "no_structure"
"""Reasons beside the Drainer's under which is counted what is left out: the job did not ask for it;
it lost its structure with damage that was skipped."""


class TableView(msgspec.Struct, frozen=True):
    """How rows of one table id at one schema version are decoded, and under which names they are
    told. `version`: what their PrewriteValue says; `known_version`: that of the table as readers
    know it (a RowMessage's `schema_version`); `info`: JSON of the TableInfo (TiDB's own) then;
    `ignored`: mutation types that an event filter leaves out."""

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
    marks: list[TableView] = []
    """Tables that mark transactions: one with a mark of `View.channel_id` is left out whole."""
    named: list[tuple[str, TableStructure]] = []
    """Of pb files, with their databases: what their rows are told by. Rows of others are told as
    the file has them."""


class View(msgspec.Struct, frozen=True):
    """Spans in order, none overlapping. `only`: `db.table` patterns (`files.names`) of the tables
    that are wanted of relays and pb files; empty: all. `ignored_txns`: commit_ts of transactions
    that are left out. `lacking`: `schema_key`s of a relay's rows that are left out, as their
    structure is nowhere."""

    spans: list[Span]
    only: tuple[str, ...] = ()
    channel_id: int = 0
    ignored_txns: frozenset[int] = frozenset()
    lacking: frozenset[str] = frozenset()
