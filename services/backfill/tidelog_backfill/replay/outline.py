"""What a log says of its order, whatever kind it is: stretches of rows between DDLs."""

from __future__ import annotations

import msgspec

from tidelog.changes import DdlMessage
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.view import TableView


class Stretch(msgspec.Struct, frozen=True):
    """Rows with after_ts < commit_ts <= until_ts, behind `ddls`. `structures` by structure_key,
    of every table at every version that they may name; the rest as in Span."""

    after_ts: int
    until_ts: int
    ddls: list[DdlMessage] = []
    tables: list[TableView] = []
    dropped: dict[int, str] = {}
    marks: list[TableView] = []
    structures: dict[str, TableStructure] = {}


class Outline(msgspec.Struct, frozen=True):
    """Stretches in order from the beginning of the log to its end; the rest as in Plan."""

    begins: int
    ends: int
    stretches: list[Stretch]
    left_out: dict[str, int] = {}
    warnings: list[str] = []


def position_before(ddl: DdlMessage) -> int:
    """Everything up to there stands before the DDL."""
    return ddl.commit_ts - 1


def position_after(ddl: DdlMessage) -> int:
    """The checkpoint once it is done. An early one comes with the rows of its commit_ts, which
    stand behind it (docs/adr/0005)."""
    return ddl.commit_ts - 1 if ddl.early else ddl.commit_ts
