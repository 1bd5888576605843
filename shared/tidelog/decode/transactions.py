"""What the decoder gives the batcher: DDLs, and rows by table as JSON events."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from tidelog.changes import DdlMessage
from tidelog.decode.routes import Route
from tidelog.decode.wire import Readable
from tidelog.schema.structure import TableStructure
from tidelog.skipped import Skipped

Txn = tuple[int, int, bytes | Readable]
"""commit_ts, start_ts, payload (binlog.Binlog): of a large one, the file that holds it."""


class TableRows(msgspec.Struct, gc=False):
    """Events of one mutation, in order, as JSON; `ops` counts c, u and d."""

    route: Route
    events: list[bytes]
    ops: tuple[int, int, int]


class DdlTxn(msgspec.Struct):
    """A DDL to publish, and the structures it names: key in SCHEMAS_<FEED> -> structure.

    `outstanding`: schema versions published early whose own binlogs are still to come. `highest`:
    the newest that was passed, this one included; `behind`: those below it that were not.
    """

    commit_ts: int
    start_ts: int
    subject: str
    message: DdlMessage
    structures: dict[str, TableStructure]
    outstanding: tuple[int, ...] = ()
    highest: int = 0
    behind: tuple[int, ...] = ()


class RowTxn(msgspec.Struct):
    """A transaction with rows to publish, and the early DDLs that must stand before them: with
    these it may turn out to have no row. `skipped`: no rows, but a record for the readers."""

    commit_ts: int
    start_ts: int
    tables: list[TableRows]
    rows: int
    size: int
    ddls: list[DdlTxn] = []
    skipped: Skipped | None = None


class LargeTxn(msgspec.Struct):
    """A transaction whose rows lie in a file. `slices` reads them from the beginning, some hundred
    at a time (None: let others run) and raises Undecodable; `close` gives the file back. `ddls` as
    in RowTxn."""

    commit_ts: int
    start_ts: int
    slices: Callable[[], Iterator[TableRows | None]]
    close: Callable[[], None]
    ddls: list[DdlTxn] = []
