"""What a TiDB is asked for in order: rows that a second try must meet as the first one did."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.schema.structure import ColumnStructure
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable

NUMBER = column("k", "int(11)", nullable=False)
ENUM = column("k", "enum('a','b')", nullable=False, elems=("a", "b"))


class Asked(MysqlSource):
    """A TiDB that has no rows."""

    def __init__(self) -> None:
        super().__init__("mysql://u@db:3306/", "")
        self._product = "tidb"
        self.cursor = MagicMock()
        self.cursor.fetchone.return_value = None

    @contextmanager
    def _connected(self, begin: Any) -> Iterator[Any]:
        connection = MagicMock()
        connection.cursor().__enter__.return_value = self.cursor
        yield connection


@pytest.mark.parametrize(
    ("of", "key", "ordered", "by"),
    [
        (NUMBER, ("k",), False, " ORDER BY `k`"),
        (NUMBER, ("k",), True, " ORDER BY `k`"),
        (ENUM, ("k", "v"), True, " ORDER BY `k`, `v`"),
        (ENUM, ("k",), False, ""),
        (NUMBER, (), True, " ORDER BY `_tidb_rowid`"),
    ],
)
def test_rows_that_are_passed_by_by_their_count_come_in_one_order(
    of: ColumnStructure, key: tuple[str, ...], ordered: bool, by: str
) -> None:
    source = Asked()
    copied = CopiedTable("d", table("t", of, column("v", "int(11)"), key=key), ordered=ordered)
    with source.read(copied, Chunk(0, 0), 5, 10) as batches:
        assert list(batches) == []
    source.cursor.execute.assert_called_once_with(f"SELECT `k`, `v` FROM `d`.`t`{by}")
