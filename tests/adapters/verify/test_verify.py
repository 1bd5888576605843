"""`tidelog verify` on two MariaDBs, on SQLite and on a workload's dump."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest

from tests.conditions import until
from tests.servers import MariaDb, mariadb_server
from tests.topology import tidelog
from tidelog.actor import first_error
from tidelog.downstream import Checkpoint
from tidelog.errors import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_UNAVAILABLE,
    EXIT_USAGE,
    BadInput,
    TidelogError,
    Unavailable,
)
from tidelog_cli.verify import verifying
from tidelog_cli.verify.comparing import Limits
from tidelog_cli.verify.kinds import double_text
from tidelog_cli.verify.mysql_side import MysqlSide
from tidelog_cli.verify.place import Place
from tidelog_cli.verify.report import Report, TableResult
from tidelog_cli.verify.verifying import Asked

ALL_TYPES = """
CREATE TABLE d.types (
  id BIGINT UNSIGNED PRIMARY KEY, tiny TINYINT(3) ZEROFILL, bits BIT(64), y YEAR, n DECIMAL(30,10),
  f FLOAT, f73 FLOAT(7,3), x DOUBLE, c CHAR(9), v VARCHAR(300), l VARCHAR(9) CHARACTER SET latin1,
  t LONGTEXT, b VARBINARY(9), blobs LONGBLOB, e ENUM('a','B'), s SET('x','y'), dt DATETIME(3),
  ts TIMESTAMP(6) NULL, tm TIME(2), da DATE, j JSON, g INT AS (tiny + 1) VIRTUAL, p POINT
)"""
VALUES = """(
  18446744073709551615, 7, b'1111', 2024, -1.5, 0.1, 1.235, 1e300, 'é', ',''n', 'ü',
  REPEAT('ö', 70000), x'00ff', REPEAT(x'00', 70000), 'B', 'x,y', '0000-00-00 00:00:00',
  '2024-01-02 03:04:05.678901', '-12:34:56.78', '2024-02-29', '{"k": [1, null]}', DEFAULT,
  ST_GeomFromText('POINT(1 2)'))"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MariaDb, MariaDb]]:
    one, two = (tmp_path_factory.mktemp(name) for name in ("source", "downstream"))
    with mariadb_server(one) as source, mariadb_server(two) as downstream:
        yield source, downstream


@pytest.fixture
def empty(servers: tuple[MariaDb, MariaDb]) -> tuple[MariaDb, MariaDb]:
    for server in servers:
        run(server, "DROP DATABASE IF EXISTS tidb_binlog", "CREATE OR REPLACE DATABASE d")
    return servers


def run(server: MariaDb, *statements: str) -> list[Any]:
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode='', time_zone='+00:00'")
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def url(server: MariaDb) -> str:
    return f"mysql://root@{server.host}:{server.port}/"


class Silent:
    """Nobody watches."""

    def waits(self, why: str) -> None: ...
    def begins(self, tables: int, rows: int) -> None: ...
    def rows(self, count: int) -> None: ...
    def compared(self, result: TableResult) -> None: ...


def verify(source: str, downstream: str, **asked: Any) -> Report:
    return asyncio.run(verifying.verify(Asked(source, downstream, **asked), Silent()))


def refused(source: str, downstream: str, *options: str) -> tuple[int, str]:
    done = tidelog("verify", "--source", source, "--downstream", downstream, *options)
    return done.returncode, done.stderr


def results(found: Report) -> dict[str, str]:
    return {one.source or one.downstream: one.result for one in found.tables}


def test_every_type_equal_and_each_column_tells_a_difference(
    empty: tuple[MariaDb, MariaDb],
) -> None:
    source, downstream = empty
    for server in empty:
        run(server, ALL_TYPES, f"INSERT INTO d.types VALUES {VALUES}")
        run(server, "INSERT INTO d.types (id) VALUES (0), (1)")
    run(downstream, "ALTER TABLE d.types MODIFY l VARCHAR(9) CHARACTER SET utf8mb4 AFTER id")
    run(downstream, """UPDATE d.types SET j = '{"k":[1,null]}' WHERE tiny = 7""")
    found = verify(url(source), url(downstream))
    assert (found.equal, results(found)) == (True, {"d.types": "equal"}), found
    assert found.tables[0].source_rows == 3
    columns = [name for (name, *_) in run(source, "SHOW COLUMNS FROM d.types")]
    for column in columns:
        if column in ("id", "g"):
            continue
        run(downstream, f"UPDATE d.types SET {column} = NULL WHERE tiny = 7")
        (one,) = verify(url(source), url(downstream)).tables[0].differences
        assert (one.what, one.key) == ("changed", {"id": "18446744073709551615"})
        assert one.columns.keys() == ({"tiny", "g"} if column == "tiny" else {column})
        again = f"INSERT INTO d.types ({', '.join(columns)}) VALUES {VALUES}"
        run(downstream, "DELETE FROM d.types WHERE id > 1", again)


def fill(server: MariaDb, rows: int) -> None:
    run(
        server,
        "CREATE TABLE d.t (a INT, b VARCHAR(9) COLLATE utf8mb4_general_ci, v INT,"
        " PRIMARY KEY (a, b))",
        f"INSERT INTO d.t SELECT seq DIV 7, CONCAT('k', seq), seq FROM d.seq_1_to_{rows}",
        "CREATE TABLE d.bag (v INT, w TEXT)",
        f"INSERT INTO d.bag SELECT seq MOD 50, 'w' FROM d.seq_1_to_{rows}",
    )


def test_what_differs_is_found_in_chunks_of_a_composite_key_and_without_one(
    empty: tuple[MariaDb, MariaDb],
) -> None:
    source, downstream = empty
    for server in empty:
        fill(server, 1000)
    found = verify(url(source), url(downstream), limits=Limits(90))
    assert results(found) == {"d.t": "equal", "d.bag": "equal"}
    chunks = {one.source: one.chunks for one in found.tables}
    assert chunks["d.t"] == 12
    assert chunks["d.bag"] > 5
    run(
        downstream,
        "DELETE FROM d.t WHERE b = 'k500'",
        "UPDATE d.t SET v = -1 WHERE b IN ('k1', 'k777')",
        "INSERT INTO d.t SELECT 1000000 + seq, 'x', 0 FROM d.seq_1_to_400",
        "DELETE FROM d.bag WHERE v = 7 LIMIT 1",
        "INSERT INTO d.bag VALUES (8, 'w')",
        "CREATE TABLE d.more (id INT)",
    )
    found = verify(url(source), url(downstream), limits=Limits(90, 1000))
    assert results(found) == {"d.t": "differs", "d.bag": "differs", "d.more": "problem"}
    by_name = {one.source: one for one in found.tables}
    told = [(one.what, one.key["b"], one.columns) for one in by_name["d.t"].differences]
    assert sorted(line for line in told if line[1] != "x") == [
        ("changed", "k1", {"v": ("1", "-1")}),
        ("changed", "k777", {"v": ("777", "-1")}),
        ("missing", "k500", {}),
    ]
    assert [what for what, key, _ in told if key == "x"] == ["extra"] * 400
    bag = [(one.what, one.key) for one in by_name["d.bag"].differences]
    assert sorted(bag, key=str) == [
        ("extra", {"v": "8", "w": "w"}),
        ("missing", {"v": "7", "w": "w"}),
    ]
    few = verify(url(source), url(downstream), limits=Limits(90, 2)).tables[1]
    assert (few.differing, len(few.differences)) == (403, 2)


def test_a_row_twice_is_not_another_row_twice(empty: tuple[MariaDb, MariaDb]) -> None:
    source, downstream = empty
    for server, values in ((source, "(1),(1),(2),(2)"), (downstream, "(2),(2),(3),(3)")):
        run(server, "CREATE TABLE d.bag (v INT)", f"INSERT INTO d.bag VALUES {values}")
    (found,) = verify(url(source), url(downstream)).tables
    told = sorted((str(one.what), str(one.key["v"])) for one in found.differences)
    assert told == [("extra", "3"), ("extra", "3"), ("missing", "1"), ("missing", "1")]


def test_tables_by_pattern_under_other_names(empty: tuple[MariaDb, MariaDb]) -> None:
    source, downstream = empty
    fill(source, 10)
    fill(downstream, 10)
    run(downstream, "RENAME TABLE d.t TO d.copy_t")
    options = ("--table", "d.t", "--map", "d.*=d.copy_*")
    places = ("--source", url(source), "--downstream", url(downstream))
    done = tidelog("verify", *places, *options, "--json")
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["tables"]
    assert (told["downstream"], told["result"]) == ("d.copy_t", "equal")
    done = tidelog("verify", *places, "--table", "d.t")
    assert done.returncode == EXIT_FAILED
    assert "missing downstream" in done.stdout


def save(server: MariaDb, checkpoint: Checkpoint) -> None:
    text = msgspec.json.encode(checkpoint).decode()
    run(
        server,
        "CREATE DATABASE IF NOT EXISTS tidb_binlog",
        "CREATE TABLE IF NOT EXISTS tidb_binlog.checkpoint (clusterID BIGINT, checkPoint TEXT)",
        f"INSERT INTO tidb_binlog.checkpoint VALUES (0, '{text}')",
    )


def test_waits_for_the_commit_ts_and_says_where_the_downstream_stands(
    empty: tuple[MariaDb, MariaDb],
) -> None:
    source, downstream = empty
    for server in empty:
        fill(server, 10)
    code, told = refused(url(source), url(downstream), "--commit-ts", "5")
    assert (code, "no checkpoint" in told) == (EXIT_USAGE, True)
    save(downstream, Checkpoint(4, feed="main"))
    run(downstream, "DELETE FROM d.t LIMIT 1")
    code, told = refused(url(source), url(downstream), "--commit-ts", "5", "--timeout", "0.5")
    assert (code, "stands at 4" in told) == (EXIT_UNAVAILABLE, True)
    found = verify(url(source), url(downstream), commit_ts=4)
    assert (found.equal, found.commit_ts) == (False, 4)
    assert any("--pause" in note for note in found.notes)
    save(downstream, Checkpoint(9, feed="other"))
    with pytest.raises(BadInput, match="main, other"):
        verify(url(source), url(downstream))
    assert verify(url(source), url(downstream), feed="other").commit_ts == 9


def test_sqlite_against_mariadb(empty: tuple[MariaDb, MariaDb], tmp_path: Path) -> None:
    source, _ = empty
    run(
        source,
        "CREATE TABLE d.t (id BIGINT UNSIGNED PRIMARY KEY, n DECIMAL(30,10), f FLOAT, x DOUBLE,"
        " v VARCHAR(9), b BLOB, j JSON, dt DATETIME(3))",
        "INSERT INTO d.t VALUES (18446744073709551615, -1.5, 0.1, 1e-30, 'é', x'00ff',"
        """ '{"k": 1}', '2024-01-02 03:04:05.6'), (1, NULL, NULL, 1e15, '', '', NULL, NULL)""",
    )
    place = tmp_path / "copy.db"
    with closing(sqlite3.connect(place)) as file:
        file.execute(
            'CREATE TABLE "d.t" (id TEXT PRIMARY KEY, n TEXT, f REAL, x REAL, v TEXT, b BLOB,'
            " j TEXT, dt TEXT)"
        )
        rows: list[tuple[Any, ...]] = [
            ("18446744073709551615", "-1.5000000000", 0.1, 1e-30, "é", b"\0\xff", '{"k":1}',
             "2024-01-02 03:04:05.600"),
            ("1", None, None, 1e15, "", b"", None, None),
        ]  # fmt: skip
        file.executemany('INSERT INTO "d.t" VALUES (?, ?, ?, ?, ?, ?, ?, ?)', rows)
        file.commit()
        found = verify(url(source), f"sqlite:///{place}")
        assert found.equal, found
        file.execute("""UPDATE "d.t" SET x = 2, j = '{"k":2}' WHERE n IS NOT NULL""")
        file.commit()
    (one,) = verify(url(source), f"sqlite:///{place}").tables[0].differences
    assert one.columns.keys() == {"x", "j"}


def test_who_can_not_be_asked_is_told_without_the_password(
    empty: tuple[MariaDb, MariaDb], tmp_path: Path
) -> None:
    source = url(empty[0])
    wrong = f"mysql://nobody:secret@{empty[0].host}:{empty[0].port}/"
    for downstream, code in (
        (wrong, EXIT_CONFIG),
        ("oracle://secret@x/", EXIT_CONFIG),
        ("mysql://root:secret@127.0.0.1:1/", EXIT_UNAVAILABLE),
        (f"sqlite:///{tmp_path}/secret/none.db", EXIT_USAGE),
    ):
        found, told = refused(source, downstream)
        assert found == code, told
        assert downstream.startswith("sqlite") or "secret" not in told


def test_a_side_that_answers_nothing_is_named_and_its_connection_closed(
    empty: tuple[MariaDb, MariaDb],
) -> None:
    """While whoever asked still runs: the account has few queries an hour, and connections."""
    source, _ = empty
    run(source, "CREATE OR REPLACE USER few WITH MAX_QUERIES_PER_HOUR 3")
    asked = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER='few'"
    place = Place.parse(f"mysql://few@{source.host}:{source.port}/", "source")

    async def scenario() -> None:
        with pytest.raises(BadInput, match=r"refused to be compared \(1226\): .*max_queries"):
            await MysqlSide.connect(place, "tidb_binlog.checkpoint")
        await until(lambda: run(source, asked) == [(0,)])

    asyncio.run(scenario())


def test_doubles_are_printed_as_the_server_does(empty: tuple[MariaDb, MariaDb]) -> None:
    numbers = [m * 10.0**e for m in (1, -1.5, 1.2345678901234567) for e in range(-30, 31)]
    numbers += [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.0]
    values = ",".join(f"({number!r})" for number in numbers)
    run(empty[0], "CREATE TABLE d.x (n INT AUTO_INCREMENT PRIMARY KEY, x DOUBLE)")
    run(empty[0], f"INSERT INTO d.x (x) VALUES {values}")
    found = run(empty[0], "SELECT CAST(x+0e0 AS CHAR) FROM d.x ORDER BY n")
    assert [text for (text,) in found] == [double_text(number) for number in numbers]


@pytest.mark.parametrize(
    ("meanwhile", "error", "said"),
    [
        ("KILL {id}", Unavailable, "can't be used"),
        ("ALTER TABLE d.t ADD n INT, ALGORITHM=COPY", Unavailable, "was altered meanwhile"),
        ("DROP TABLE d.t", BadInput, "refused to be compared (1"),
    ],
)
def test_a_side_that_is_lost_while_it_is_read_is_named(
    empty: tuple[MariaDb, MariaDb], meanwhile: str, error: type[TidelogError], said: str
) -> None:
    source, downstream = empty
    for server in empty:
        run(server, "CREATE TABLE d.t (id INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1)")

    class Meddling(Silent):
        """Once it is known what there is to compare."""

        def begins(self, tables: int, rows: int) -> None:
            theirs = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root'"
            ((number,),) = run(downstream, f"{theirs} AND ID <> CONNECTION_ID()")
            run(downstream, meanwhile.format(id=number))

    asked = Asked(url(source), url(downstream))
    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(verifying.verify(asked, Meddling()))
    told = first_error(caught.value)
    assert isinstance(told, error)
    assert f":{downstream.port}" in told.message
    assert said in told.message
