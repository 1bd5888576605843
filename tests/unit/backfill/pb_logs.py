"""pb_binlog files for tests."""

from __future__ import annotations

from pathlib import Path

from tidelog.changes import Event
from tidelog.downstreams import pb_rows
from tidelog.downstreams.pb_rows import RowEncoder
from tidelog.pb_files.framing import frame
from tidelog.pb_files.names import file_name
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType

SECOND = 1000 << 18
"""Of commit_ts."""


def ints(name: str, *columns: str, version: int = 1) -> TableStructure:
    """A table of integers, as far as rows need it."""
    made = tuple(ColumnStructure(one, "int", "int") for one in columns)
    return TableStructure(name, version, columns=made)


def ddl(commit_ts: int, query: str, db: str = "shop") -> bytes:
    text = f"use `{db}`; {query};;" if db else f"{query};;"
    return Binlog(
        tp=BinlogType.DDL, commit_ts=commit_ts, ddl_query=text.encode()
    ).SerializeToString()


def rows(commit_ts: int, structure: TableStructure, *events: Event, db: str = "shop") -> bytes:
    encoder = RowEncoder(db, structure)
    return pb_rows.dml(commit_ts, [encoder.encode(one) for one in events])


def inserted(commit_ts: int, table: str, db: str = "shop", **row: int) -> bytes:
    """One row."""
    event = Event("c", commit_ts, after=dict(row))
    return rows(commit_ts, ints(table, *row), event, db=db)


def write(directory: Path, *records: bytes, number: int = 0) -> Path:
    """A file of them."""
    path = directory / file_name(number, SECOND)
    path.write_bytes(b"".join(b"".join(map(bytes, frame(one))) for one in records))
    return path


def facts(directory: Path, *records: bytes) -> list[Facts]:
    write(directory, *records)
    return [survey(chunk) for chunk in found(directory).chunks()]
