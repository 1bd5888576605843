"""Every class of failure, provoked on a real MariaDB: how it is taken, and what it says to do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.processes import until
from tests.servers import MariaDb, free_port, mariadb_server
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, TidelogError, Unavailable


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("failures")) as found:
        sql(found, "CREATE DATABASE d")
        sql(found, "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(3)) ENGINE = InnoDB")
        sql(found, "INSERT INTO d.t VALUES (1, 'a'), (2, 'b')")
        yield found


def sql(server: MariaDb, *statements: str) -> list[Any]:
    """As the operator, on a connection of his own."""
    connection = pymysql.connect(
        host=server.host, port=server.port, user="root", autocommit=True, charset="utf8mb4"
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


@contextlib.contextmanager
def account(server: MariaDb, *rights: str) -> Iterator[str]:
    """The URL of an account with these rights only."""
    sql(server, "CREATE USER plain@'%' IDENTIFIED BY 'secret'")
    try:
        sql(server, *(f"GRANT {right} TO plain@'%'" for right in rights))
        yield f"mysql://plain:secret@{server.host}:{server.port}/"
    finally:
        sql(server, "DROP USER plain@'%'")


@contextlib.contextmanager
def variable(server: MariaDb, name: str, value: str) -> Iterator[None]:
    (before,) = sql(server, f"SELECT @@GLOBAL.{name}")
    sql(server, f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        sql(server, f"SET GLOBAL {name} = {before[0]}")


@contextlib.asynccontextmanager
async def session(url: str) -> AsyncIterator[MysqlSession]:
    opened = await MysqlSession.connect(Target.parse(url))
    try:
        yield opened
    finally:
        await opened.close()


def root(server: MariaDb) -> str:
    return f"mysql://root@{server.host}:{server.port}/"


def told(kind: type[TidelogError], scenario: Coroutine[Any, Any, Any]) -> str:
    """What the operator reads; it never holds the password."""
    with pytest.raises(kind) as caught:
        asyncio.run(scenario)
    assert isinstance(caught.value, kind), caught.value
    assert "secret" not in str(caught.value)
    return str(caught.value)


async def ran(url: str, *statements: str) -> None:
    async with session(url) as opened:
        for statement in statements:
            await opened.run(statement)


def test_a_wrong_password_and_a_server_that_is_not_there(server: MariaDb) -> None:
    with account(server, "ALL ON *.*") as url:
        said = told(ConfigError, ran(url.replace("secret", "secretly")))
        assert "user and password" in said
    said = told(Unavailable, ran(f"mysql://root@127.0.0.1:{free_port()}/"))
    assert "is the downstream running" in said


def test_a_missing_privilege(server: MariaDb) -> None:
    with account(server, "SELECT ON d.*") as url:
        for refused in (
            "UPDATE d.t SET v = 'x'",
            "CREATE DATABASE tidb_binlog",
            "SELECT * FROM mysql.user",
        ):
            assert "GRANT ALL" in told(ConfigError, ran(url, refused))


def test_a_read_only_server(server: MariaDb) -> None:
    with account(server, "ALL ON d.*") as url, variable(server, "read_only", "1"):
        assert "writable server" in told(Unavailable, ran(url, "UPDATE d.t SET v = 'x'"))
    assert sql(server, "SELECT v FROM d.t WHERE id = 1") == [("a",)]


def test_a_statement_above_the_largest_packet_is_refused_before_it_is_sent(
    server: MariaDb,
) -> None:
    async def scenario() -> None:
        async with session(root(server)) as opened:
            assert opened.max_packet == 65536
            await opened.run("SELECT " + " " * (65534 - 8) + "1")
            with pytest.raises(StatementRefused) as caught:
                await opened.run("SELECT " + " " * (65535 - 8) + "1")
            assert (caught.value.code, "raise max_allowed_packet" in str(caught.value)) == (
                1153,
                True,
            )
            # The connection is still good, and so is what was begun on it.
            assert await opened.rows("SELECT 1") == [(1,)]

    with variable(server, "max_allowed_packet", "65536"):
        asyncio.run(scenario())


def test_a_killed_connection_and_a_killed_query(server: MariaDb) -> None:
    async def scenario(how: str) -> None:
        async with session(root(server)) as opened:
            ((number,),) = await opened.rows("SELECT CONNECTION_ID()")
            waiting = asyncio.ensure_future(opened.run("SELECT SLEEP(60) FROM d.t"))
            await asyncio.to_thread(until, lambda: sleeps(server, number), "the query runs", 10)
            sql(server, f"{how} {number}")
            try:
                await waiting
            finally:
                assert opened.closed

    assert "can't be used now" in told(Unavailable, scenario("KILL"))
    assert "see who kills" in told(Unavailable, scenario("KILL QUERY"))


def sleeps(server: MariaDb, number: int) -> bool:
    found = sql(server, f"SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = {number}")
    return str(found[0][0]).startswith("SELECT SLEEP")


def test_a_server_that_shuts_down(tmp_path: Path) -> None:
    async def scenario(server: MariaDb) -> None:
        async with session(root(server)) as opened:
            server.stop()
            await opened.run("SELECT 1")

    with mariadb_server(tmp_path) as stopping:
        said = told(Unavailable, scenario(stopping))
    assert "is the downstream running" in said or "runs again" in said


def test_a_deadlock_and_a_lock_that_is_held_too_long(server: MariaDb) -> None:
    async def crossed() -> None:
        async with session(root(server)) as one, session(root(server)) as two:
            for opened, row in ((one, 1), (two, 2)):
                await opened.run("BEGIN")
                await opened.run(f"UPDATE d.t SET v = 'x' WHERE id = {row}")
            both = await asyncio.gather(
                one.run("UPDATE d.t SET v = 'y' WHERE id = 2"),
                two.run("UPDATE d.t SET v = 'y' WHERE id = 1"),
                return_exceptions=True,
            )
            (error,) = [found for found in both if isinstance(found, BaseException)]
            raise error

    async def held() -> None:
        async with session(root(server)) as one, session(root(server)) as two:
            await one.run("BEGIN")
            await one.run("UPDATE d.t SET v = 'x' WHERE id = 1")
            await two.run("SET SESSION innodb_lock_wait_timeout = 0")
            await two.run("UPDATE d.t SET v = 'y' WHERE id = 1")

    assert "(1213)" in told(Unavailable, crossed())
    assert "SHOW PROCESSLIST" in told(Unavailable, held())
    assert sql(server, "SELECT v FROM d.t") == [("a",), ("b",)]


def test_too_many_connections(server: MariaDb) -> None:
    with account(server, "ALL ON d.*") as url:
        sql(server, "GRANT USAGE ON *.* TO plain@'%' WITH MAX_USER_CONNECTIONS 1")

        async def second() -> None:
            async with session(url), session(url):
                pass

        assert "max_connections" in told(Unavailable, second())


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("INSERT INTO d.t VALUES (3, 'too long')", "widen it"),
        ("INSERT INTO d.t VALUES (99999999999, 'a')", "widen it"),
        ("INSERT INTO d.t VALUES (1, 'a')", "who else writes there"),
        ("INSERT INTO d.missing VALUES (1)", "backfill it"),
        ("INSERT INTO missing.t VALUES (1)", "backfill it"),
        ("INSERT INTO d.t (id, w) VALUES (1, 1)", "backfill it"),
        ("SELEKT 1", "start the Applier again"),
    ],
)
def test_what_the_server_refuses_is_for_the_policy(
    server: MariaDb, statement: str, advice: str
) -> None:
    assert advice in told(StatementRefused, ran(root(server), statement))


def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """InnoDB's file may not grow: what a row meets on a full disk, without filling one."""
    small = ("--innodb-data-file-path=ibdata1:12M", "--skip-innodb-file-per-table")
    grow = "INSERT INTO d.t (v) VALUES (REPEAT('x', 4000000))"
    with mariadb_server(tmp_path, *small) as server:
        sql(server, "CREATE DATABASE d", "CREATE TABLE d.t (v LONGTEXT)")
        said = told(Unavailable, ran(root(server), *[grow] * 4))
        assert "free space on the downstream's disk" in said
