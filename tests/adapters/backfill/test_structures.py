"""What MariaDB says of its tables is read as it is meant, and what a copy lacks is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.backfill.copies_rig import PLAIN, sql, url
from tests.servers import MariaDb, mariadb_server
from tidelog.errors import Stopped
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.plan import Chunk
from tidelog_backfill.snapshot.source import Found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("source"), *PLAIN) as server:
        sql(server, "create database d")
        yield server


def found(source: MariaDb, *names: str) -> Found:
    return MysqlSource(url(source), "").found(tuple(f"D.{name}" for name in names), 0)


def test_backslashes_and_quotes(source: MariaDb) -> None:
    sql(
        source,
        r"create table d.e (id int primary key, e enum('a','b''c','back\\slash','x,y','n\nl'),"
        r" s set('\\','q'), v varchar(20) default 'a\'b\\c', c int default (1 + 2))"
        " character set utf8mb4",
    )
    told = found(source, "e")
    columns = {one.name: one for one in told.tables[0].structure.columns}
    assert columns["e"].elems == ("a", "b'c", "back\\slash", "x,y", "n\nl")
    assert columns["s"].elems == ("\\", "q")
    assert (columns["v"].default, columns["v"].default_is_expr) == ("a'b\\c", False)
    assert columns["c"].default_is_expr
    assert told.warnings == []


def test_the_key_is_the_first_that_was_made_and_none_that_rows_lack(source: MariaDb) -> None:
    sql(
        source,
        "create table d.two (a int not null, b int not null, unique zz (a), unique aa (b))",
        "create table d.made (a int, b int not null, g int as (a + 1) virtual, unique u (g))",
        "alter table d.made add unique zz (b), add c int not null, add unique aa (c)",
    )
    keys = {one.structure.name: one.structure.key_columns for one in found(source, "*").tables}
    assert (keys["two"], keys["made"]) == (("a",), ("b",))


def test_what_a_copy_lacks_is_said(source: MariaDb) -> None:
    sql(
        source,
        "create table d.l (id int primary key, j json, a int check (a > 0), i int invisible,"
        " t varchar(9) character set latin1, constraint big check (a < 1000))",
        "create table d.v (id int primary key) with system versioning",
        "create view d.w as select 1 as a",
    )
    told = found(source, "l", "v", "w")
    assert [one.shown for one in told.tables] == ["d.l"]
    assert told.warnings == [
        "d.l: the copy lacks the CHECK a",
        "d.l: the copy lacks the CHECK big",
        "d.l: the copy lacks INVISIBLE of column i",
        "d.l: the copy lacks latin1 of column t, which is utf8mb4_bin there",
        "d.v is not copied: system versioned",
        "d.w is not copied: view",
    ]


def test_a_statement_that_the_source_refuses_is_not_the_downstreams(source: MariaDb) -> None:
    sql(source, "create table d.gone (id int primary key)")
    (table,) = found(source, "gone").tables
    sql(source, "drop table d.gone")
    with (
        pytest.raises(Stopped, match=r"refused a statement \(1146\)") as refused,
        MysqlSource(url(source), "").read(table, Chunk(0, 0), 0, 10),
    ):
        pass
    assert "downstream" not in str(refused.value)
