"""What a server or a proxy does to our sessions can't corrupt a value."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiomysql.connection as driver
import pytest
import uvloop

from tests.cycles import left_in_cycles
from tests.servers import mariadb_server
from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import Image, TableRule
from tidelog.downstreams import mysql_session
from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.downstreams.statements import TableStatements
from tidelog.downstreams.target import Target
from tidelog.downstreams.writing import writing
from tidelog.errors import ConfigError, Unavailable

RULE = TableRule(False, True, ())
HOSTILE = (
    "--sql-mode=ANSI_QUOTES,PIPES_AS_CONCAT,NO_ZERO_DATE",
    "--init-connect=SET sql_mode='', NAMES gbk, foreign_key_checks=1",
    "--character-set-server=gbk",
    "--collation-server=gbk_bin",
    "--skip-character-set-client-handshake",
)


def test_a_session_sets_what_it_needs_whatever_the_server_begins_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = table("t", column("id", "int(11)"), column("v", "varchar(90)"), key=("id",))
    plan = writing(shape, {"id": False, "v": False}, None)
    values = ["it's \\' é中\U0001f40b", "\\", "'", "\0", "縗'"]

    async def scenario(url: str, plain: str) -> None:
        root = await MysqlSession.connect(Target.parse(url))
        await root.run("CREATE DATABASE d")
        await root.run("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(90)) CHARSET utf8mb4")
        await root.run("CREATE USER plain@'%'")
        await root.run("GRANT ALL ON d.* TO plain@'%'")  # init_connect is not for a SUPER account
        session = await MysqlSession.connect(Target.parse(plain))
        build = TableStatements("d", "t", plan, session.max_packet, rule=RULE)
        images = [Image({"id": i, "v": one}) for i, one in enumerate(values)]
        for statement in build.put(images, new=True):
            await session.run(statement.sql)
        found = await session.rows("SELECT v FROM d.t ORDER BY id")
        assert [one for (one,) in found] == values
        kept = mysql_session._SETTINGS
        for lost in ("sql_mode", "NAMES", "foreign_key_checks"):
            monkeypatch.setattr(
                mysql_session, "_SETTINGS", tuple(one for one in kept if lost not in one)
            )
            with pytest.raises(ConfigError, match="does not keep what a session sets"):
                await MysqlSession.connect(Target.parse(plain))
        await session.close()
        await root.close()

    with mariadb_server(tmp_path, *HOSTILE) as server:
        where = f"{server.host}:{server.port}/"
        asyncio.run(scenario(f"mysql://root@{where}", f"mysql://plain@{where}"))


def test_a_server_whose_machine_is_gone_is_noticed_within_minutes(tmp_path: Path) -> None:
    async def scenario(url: str) -> list[int]:
        session = await MysqlSession.connect(Target.parse(url))
        link = session._connection._writer.transport.get_extra_info("socket")
        asked = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        found = [link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)]
        found += [link.getsockopt(socket.IPPROTO_TCP, one) for one in asked]
        found.append(link.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
        await session.close()
        return found

    with mariadb_server(tmp_path) as server:
        url = f"mysql://root@{server.host}:{server.port}/"
        alive, idle, every, count, unanswered_ms = asyncio.run(scenario(url))
    assert alive
    assert idle + every * count <= 120
    assert 0 < unanswered_ms <= 120_000


Run = Callable[[Coroutine[Any, Any, None]], None]
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])


@LOOPS
def test_a_connection_that_is_lost_between_two_statements_is_told_as_lost(
    tmp_path: Path, run: Run
) -> None:
    async def scenario(url: str) -> None:
        session, idle = [await MysqlSession.connect(Target.parse(url)) for _ in range(2)]
        for one in (session, idle):
            writer = one._connection._writer
            writer.transport.abort()
            await writer.wait_closed()
        with pytest.raises(Unavailable, match="lost"):
            await session.run("SELECT 1")
        assert session.closed
        await idle.close()
        assert idle.closed

    with mariadb_server(tmp_path) as server:
        run(scenario(f"mysql://root@{server.host}:{server.port}/"))


@LOOPS
def test_a_session_that_is_discarded_when_its_answer_begins_is_told_as_lost(
    tmp_path: Path, run: Run
) -> None:
    """As the watch of a DDL is, that ends while it looks."""

    async def scenario(url: str) -> None:
        session = await MysqlSession.connect(Target.parse(url))
        asking = asyncio.ensure_future(session.run("SELECT SLEEP(60)"))
        while session._connection._reader._waiter is None:  # noqa: ASYNC110 (a turn of the loop)
            await asyncio.sleep(0)
        session._connection._reader.feed_data(b"\x01\0\0\x01")  # a packet's header
        session.discard()
        with pytest.raises(Unavailable, match="lost"):
            await asking

    with mariadb_server(tmp_path) as server:
        run(scenario(f"mysql://root@{server.host}:{server.port}/"))


@LOOPS
def test_a_close_that_is_cancelled_cuts_the_connection(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(url: str) -> None:
        session = await MysqlSession.connect(Target.parse(url))
        transport = session._connection._writer.transport
        monkeypatch.setattr(session._connection, "ensure_closed", asyncio.Event().wait)
        closing = asyncio.create_task(session.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert session.closed
        assert transport.is_closing()

    with mariadb_server(tmp_path) as server:
        run(scenario(f"mysql://root@{server.host}:{server.port}/"))


@LOOPS
def test_a_connection_that_is_reset_before_the_login_is_lost_and_wants_no_tls(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No ConfigError, with which an Applier would stop."""
    opened = driver._open_connection

    async def reset(*given: Any) -> Any:
        reader, writer = await opened(*given)
        writer.transport.abort()
        await writer.wait_closed()
        return reader, writer

    async def scenario() -> None:
        gone = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()
            await writer.wait_closed()
            gone.set()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(Unavailable, match="lost"):
                await MysqlSession.connect(Target.parse(f"mysql://root@127.0.0.1:{port}/"))
            await gone.wait()

    monkeypatch.setattr(driver, "_open_connection", reset)
    run(scenario())


def test_a_statement_that_is_refused_is_gone_with_its_error(tmp_path: Path) -> None:
    """It may have megabytes, and a lane whose rows are refused sends many."""

    async def scenario(url: str) -> None:
        session = await MysqlSession.connect(Target.parse(url))
        with left_in_cycles() as left:
            for _ in range(3):
                with contextlib.suppress(StatementRefused):
                    await session.run("SELECT nothing FROM nowhere.at_all")
        await session.close()
        assert left["StatementRefused"] == left["frame"] == 0, left

    with mariadb_server(tmp_path) as server:
        uvloop.run(scenario(f"mysql://root@{server.host}:{server.port}/"))
