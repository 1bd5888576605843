"""What a server says, or sends, that ends a copy of it: typed, and with what a person can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pymysql
import pytest

from tests.cycles import left_in_cycles
from tests.unit.downstreams.shapes import column, table
from tidelog.errors import Stopped, Unavailable
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable

S = 100
TABLE = CopiedTable("d", table("t", column("v", "varchar(9)"), key=("v",)))
Answer = Callable[[str], Iterator[Any]]
"""Rows of a statement."""


class Cursor:
    """Of a TiDB, as the driver gives it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, sql: str) -> None:
        is_version = sql == "SELECT VERSION()"
        self._rows = iter([("8.0.11-TiDB-v7.5.0",)]) if is_version else self._answer(sql)

    def fetchall(self) -> list[Any]:
        return list(self._rows)

    def fetchone(self) -> Any:
        return next(self._rows, None)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], list[Any]]:
    """A table of a server that answers so."""

    def found(answer: Answer) -> list[Any]:
        connection = SimpleNamespace(cursor=lambda *_: Cursor(answer), close=lambda: None)
        monkeypatch.setattr(pymysql, "connect", lambda **_: connection)
        source = MysqlSource("mysql://u@db/", "")
        with source.read(TABLE, Chunk(0, 0), S, 10) as batches:
            return [row for batch in batches for row in batch]

    return found


Read = Callable[[Answer], list[Any]]


def test_a_text_that_is_no_utf8_stops_with_the_tables_name(read: Read) -> None:
    def answer(sql: str) -> Iterator[Any]:
        if sql.startswith("SELECT"):
            for text in (b"a", b"caf\xe9"):
                yield (text.decode(),)

    with pytest.raises(Stopped, match=r"no UTF-8: b'caf\\xe9': d\.t: SELECT `v`") as stopped:
        read(answer)
    assert "leave the table out" in stopped.value.hint


@pytest.mark.parametrize(
    ("code", "begins"), [(8055, "SET SESSION tidb_snapshot"), (9006, "SELECT `v`")]
)
def test_a_copy_that_outlived_tidbs_garbage_says_what_to_set(
    read: Read, code: int, begins: str
) -> None:
    """It stops: to ask again would bring the same."""

    def answer(sql: str) -> Iterator[Any]:
        if sql.startswith(begins):
            raise pymysql.err.OperationalError(code, "too old")
        return iter([])

    with pytest.raises(Stopped, match=rf"timestamp no more \({code}\)") as stopped:
        read(answer)
    assert "SET GLOBAL tidb_gc_life_time to more than a copy takes" in stopped.value.hint


def test_a_server_that_is_gone_again_and_again_leaves_nothing(read: Read) -> None:
    def gone(_: str) -> Iterator[Any]:
        raise pymysql.err.OperationalError(2013, "lost")

    with left_in_cycles() as left:
        for _ in range(3):
            with suppress(Unavailable):
                read(gone)
    assert left["Unavailable"] == left["OperationalError"] == 0, left
