"""What a MariaDB commits, read from its binary log: whole transactions, and statements that change
the schema, in order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import QueryEvent, XidEvent
from pymysqlreplication.row_event import (
    DeleteRowsEvent,
    RowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)

from tests.servers import MariaDb
from tidelog.rows.values import T_BIT, T_JSON, T_SET, T_TIMESTAMP
from tidelog.schema.model import ColumnInfo

OPTIONS = ("--log-bin=log", "--server-id=1", "--binlog-format=ROW", "--binlog-row-metadata=FULL")
"""Of a server whose log is read."""
READER_ID = 4242
NOT_NULL = {
    "empty set": "",
    "out of date range": "0000-00-00",
    "out of datetime range": "0000-00-00 00:00:00",
    "out of datetime2 range": "0000-00-00 00:00:00",
}
"""What the reader gives as None although it is no NULL."""


class Image:
    """A row as the log has it."""

    def __init__(self, values: dict[str, Any], why_none: dict[str, str]) -> None:
        self._values = values
        self._why_none = why_none

    def of(self, column: ColumnInfo) -> object:
        """A column's value as an application would give it."""
        name = column.name.text
        value = self._values[name]
        if value is None:
            return NOT_NULL.get(self._why_none.get(name, ""))
        match column.type.Tp:
            case tp if tp == T_BIT:
                return int(value, 2)
            case tp if tp == T_SET:
                return ",".join(value)
            case tp if tp == T_JSON:
                return json.loads(value)
            case tp if tp == T_TIMESTAMP and isinstance(value, datetime):
                return value.astimezone(UTC)
        return value


@dataclass(frozen=True)
class RowChange:
    db: str
    table: str
    before: Image | None
    after: Image | None


@dataclass(frozen=True)
class Committed:
    """One transaction."""

    rows: list[RowChange]


@dataclass(frozen=True)
class Statement:
    """`db`: the one that names without a database mean."""

    db: str
    text: str


class BinaryLog:
    """Reads on from where it was. Not while the server is down."""

    def __init__(self, server: MariaDb) -> None:
        self._server = server
        self._file = "log.000001"
        self._position = 4

    def read(self) -> list[Committed | Statement]:
        """All that is committed by now."""
        settings = {"host": self._server.host, "port": self._server.port, "user": "root"}
        log = BinLogStreamReader(
            connection_settings=settings,
            pymysql_wrapper=_connect,
            server_id=READER_ID,
            resume_stream=True,
            log_file=self._file,
            log_pos=self._position,
            only_events=[QueryEvent, XidEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        )
        found: list[Committed | Statement] = []
        rows: list[RowChange] = []
        try:
            for event in log:
                if isinstance(event, RowsEvent):
                    rows += _changes(event)
                elif isinstance(event, XidEvent):
                    found.append(Committed(rows))
                    rows = []
                else:
                    found.append(Statement(event.schema.decode(), event.query))
            self._file, self._position = log.log_file, log.log_pos
        finally:
            log.close()
        return found


def _connect(db: str | None = None, **settings: Any) -> pymysql.Connection:
    """By the name that the argument has today."""
    return pymysql.connect(database=db, **settings)


def _changes(event: RowsEvent) -> Iterator[RowChange]:
    for row in event.rows:
        before = after = None
        if isinstance(event, UpdateRowsEvent):
            before = Image(row["before_values"], row.get("before_none_sources", {}))
            after = Image(row["after_values"], row.get("after_none_sources", {}))
        elif isinstance(event, WriteRowsEvent):
            after = Image(row["values"], row.get("none_sources", {}))
        else:
            before = Image(row["values"], row.get("none_sources", {}))
        yield RowChange(event.schema, event.table, before, after)
