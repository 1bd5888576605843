"""What a workload says its source holds (`python -m tidelog.workload --dump FILE`)."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput
from tidelog.rows.values import (
    INT_TYPES,
    STRING_TYPES,
    T_BIT,
    T_DECIMAL,
    T_DOUBLE,
    T_FLOAT,
    T_JSON,
)
from tidelog.schema.model import ColumnInfo
from tidelog.unreadable import NOT_READABLE
from tidelog.workload.source import Contents
from tidelog_cli.verify.kinds import Cell, Kind
from tidelog_cli.verify.tables import Column, Part, Table

_NUMBERS = {T_DECIMAL: Kind.DECIMAL, T_FLOAT: Kind.FLOAT, T_DOUBLE: Kind.DOUBLE, T_BIT: Kind.INT}


class DumpCells:
    """The whole dump is in memory, as it was in the workload's."""

    def __init__(self, path: str, shown: str) -> None:
        """Raises BadInput."""
        try:
            contents = msgspec.json.decode(Path(path).read_bytes(), type=Contents)
        except (OSError, *NOT_READABLE) as error:
            raise BadInput(f"{path} is not a workload's dump: {error}") from error
        self.shown = shown
        self.commit_ts = contents.commit_ts
        self._tables = {(table.db, table.table): table for table in contents.tables}

    def fix(self) -> str:
        return f"as it was at commit_ts {self.commit_ts}"

    def checkpoints(self) -> list[Checkpoint]:
        return []

    def tables(self) -> list[Table]:
        return [
            Table(*name, tuple(map(_column, table.columns)), None, len(table.rows), ranges=False)
            for name, table in self._tables.items()
        ]

    def cells(self, part: Part) -> Iterator[Sequence[Cell]]:
        table = self._tables[part.db, part.table]
        binary = {column.name for column in map(_column, table.columns) if _is_binary(column)}
        as_json = {column.name.text for column in table.columns if column.type.Tp == T_JSON}
        names = [column.name for column in part.columns]
        for row in table.rows:
            yield [_cell(row[name], name in binary, name in as_json) for name in names]

    def close(self) -> None:
        """Nothing is open."""


def _is_binary(column: Column) -> bool:
    return column.kind is Kind.LONG_BINARY


def _column(info: ColumnInfo) -> Column:
    tp = info.type.Tp
    if tp in INT_TYPES:
        kind = Kind.INT
    elif tp in STRING_TYPES:
        kind = Kind.LONG_BINARY if info.type.Charset == "binary" else Kind.LONG_TEXT
    elif tp == T_JSON:
        kind = Kind.JSON
    else:
        kind = _NUMBERS.get(tp, Kind.STORED)
    return Column(info.name.text, kind, ordered=False)


def _cell(value: Any, is_binary: bool, is_json: bool) -> Cell:
    if value is None:
        return None
    if is_json:
        return msgspec.json.encode(value).decode()
    return b64decode(value) if is_binary else value
