"""A DDL that takes long on a real MariaDB: it is told how far it is, and ended after its time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import ADD_N, UNSYNCED, WAITS, Reader, Rig, T, run, seen
from tests.servers import MariaDb, free_port, mariadb_server
from tests.unit.downstreams.shapes import created, ddl
from tidelog.downstreams.ddl_watch import DdlWatch, told
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.target import Target
from tidelog.errors import Stopped, Unavailable


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("watch"), *UNSYNCED) as found:
        yield found


def target_of(server: MariaDb) -> Target:
    return Target.parse(f"mysql://root@{server.host}:{server.port}/")


async def until_done(rig: Rig, ending: asyncio.Future[Any]) -> None:
    """Look again and again, as the Applier does."""
    async with asyncio.timeout(60):
        while not ending.done():
            await rig.downstream.ddl_progress()
            await asyncio.sleep(0.01)
        await ending


def test_a_waiting_ddl_tells_so_and_goes_on(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        assert await rig.downstream.ddl_progress() == ""
        with closing(Reader(server)) as reader:
            reader.begin()

            async def look() -> None:
                assert (await seen(rig, WAITS)).startswith(f"{WAITS}, ")
                reader.end()

            await asyncio.gather(rig.ddl(ADD_N), look())
        assert await rig.downstream.ddl_progress() == ""

    assert run(server, scenario).sql("SHOW COLUMNS FROM d.t LIKE 'n'")


def test_a_ddl_above_its_time_is_ended_and_an_operator_asked(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        url = f"mysql://root@{server.host}:{server.port}/"
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.downstream.close()
        options = msgspec.structs.replace(rig.options, ddl_timeout_s=1)
        rig.downstream = MysqlDownstream(Target.parse(url), options)
        await rig.downstream.open("feed")
        with closing(Reader(server)) as reader:
            reader.begin()

            async def run_it() -> None:
                with pytest.raises(Stopped, match="ddl-timeout") as caught:
                    await rig.ddl(ADD_N)
                assert "tidelog ddl again feed" in caught.value.hint

            ending = asyncio.gather(run_it())
            await until_done(rig, ending)
            assert not rig.sql("SHOW COLUMNS FROM d.t LIKE 'n'")
        await rig.downstream.open("feed")
        await rig.again(ADD_N)

    assert run(server, scenario).sql("SELECT n FROM d.t") == [(7,)]


def test_an_order_to_end_a_ddl_that_got_lost_is_given_again(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, orders = MysqlSession.run, list[str]()

    async def losing(session: MysqlSession, sql: str | bytes) -> int:
        if isinstance(sql, str) and sql.startswith("KILL"):
            orders.append(sql)
            if len(orders) == 1:
                session.discard()
                raise Unavailable("the connection is lost")
        return await kept(session, sql)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        options = msgspec.structs.replace(rig.options, ddl_timeout_s=1)
        await rig.downstream.close()
        rig.downstream = MysqlDownstream(target_of(server), options)
        await rig.downstream.open("feed")
        monkeypatch.setattr(MysqlSession, "run", losing)
        with closing(Reader(server)) as reader:
            reader.begin()

            async def run_it() -> None:
                with pytest.raises(Stopped, match="ddl-timeout"):
                    await rig.ddl(ADD_N)

            await until_done(rig, asyncio.ensure_future(run_it()))
        assert len(orders) == 2

    run(server, scenario)


def test_who_can_t_ask_how_far_a_ddl_is_leaves_it_alone(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        watched = await MysqlSession.connect(target_of(server))
        nowhere = Target.parse(f"mysql://root@{server.host}:{free_port()}/")
        watch = DdlWatch(nowhere, Flavor("mariadb", frozenset()), watched, 1)
        await watch.begin()
        assert await watch.look() == ""
        assert (await watched.rows("SELECT 1"), watch.overran) == ([(1,)], False)
        watch.end()
        await watched.close()

    run(server, scenario)


def test_a_ddl_whose_connection_the_server_ended_is_tried_again(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        with closing(Reader(server)) as reader:
            reader.begin()

            async def kill() -> None:
                await seen(rig, WAITS)
                ((number,),) = rig.sql(
                    f"SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = '{WAITS}'"
                )
                rig.sql(f"KILL {number}")

            async def run_it() -> None:
                with pytest.raises(Unavailable):
                    await rig.ddl(ADD_N)

            await asyncio.gather(run_it(), kill())
        await rig.downstream.open("feed")
        await rig.again(ADD_N)

    assert run(server, scenario).sql("SHOW COLUMNS FROM d.t LIKE 'n'")


def test_a_connection_that_the_server_no_longer_has_is_cut_and_who_waits_told(
    server: MariaDb,
) -> None:
    """The news of its end may get lost on the way: nothing would ever come."""

    async def scenario(rig: Rig) -> None:
        watched = await MysqlSession.connect(target_of(server))
        watch = DdlWatch(target_of(server), Flavor("mariadb", frozenset()), watched, 0)
        await watch.begin()
        assert await watch.look() != ""
        ((number,),) = await watched.rows("SELECT CONNECTION_ID()")
        rig.sql(f"KILL {number}")
        async with asyncio.timeout(60):
            while not watched.closed:
                await watch.look()
        watch.end()

    run(server, scenario)


def test_another_server_behind_the_same_address_is_not_believed(
    server: MariaDb, tmp_path: Path
) -> None:
    """It doesn't have the connection; that says nothing."""

    async def scenario(rig: Rig) -> None:
        watched = await MysqlSession.connect(target_of(server))
        with mariadb_server(tmp_path, *UNSYNCED) as another:
            watch = DdlWatch(target_of(another), Flavor("mariadb", frozenset()), watched, 0)
            await watch.begin()
            assert await watch.look() == ""
            assert not watched.closed
            watch.end()
        await watched.close()

    run(server, scenario)


def test_who_waits_on_a_connection_that_is_cut_is_told(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        session = await MysqlSession.connect(target_of(server))
        with closing(Reader(server)) as reader:
            reader.begin()

            async def cut() -> None:
                waiting = f"SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = '{WAITS}'"
                async with asyncio.timeout(60):
                    while True:
                        if rig.sql(waiting):
                            break
                        await asyncio.sleep(0.01)
                session.discard()

            async def wait() -> None:
                with pytest.raises(Unavailable):
                    await session.run("ALTER TABLE d.t ADD n INT")

            await asyncio.gather(wait(), cut())

    run(server, scenario)


@pytest.mark.parametrize(
    ("shown", "stage", "stages", "percent", "text"),
    [
        ("copy to tmp table", 1, 2, 43.4, "copy to tmp table 43 %, stage 1 of 2, 9 s"),
        ("altering table", 1, 1, 7.0, "altering table 7 %, 9 s"),
        ("", 0, 0, 0.0, "running, 9 s"),
    ],
)
def test_what_is_told(shown: str, stage: int, stages: int, percent: float, text: str) -> None:
    assert told(shown, 9, stage, stages, percent) == text
