"""A real MariaDB under a replay: what it has no table for, a DDL that waits, a connection that is
killed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tests.adapters.backfill.copies_rig import PLAIN, sql, url
from tests.adapters.mysql.mysql_rig import WAITS, Reader
from tests.fixtures.test_downstream_sets import clean
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, created, ddl, share, table
from tidelog.changes import structure_key
from tidelog.downstream import DownstreamOptions, PartDone, TableRule, Work
from tidelog.real.clock import RealClock
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay import target as replay_target
from tidelog_backfill.replay import write
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.target import DatabaseTarget
from tidelog_backfill.replay.write import LaneWriting, PartLane

T = table("t", column("id", "int(11)"), column("v", "varchar(9)"), key=("id",))
WIDER = table("t", *T.columns, column("n", "int(11)"), key=("id",), version=2)
GONE = table("gone", column("id", "int(11)"), key=("id",), number=2)
CREATE = "create table d.t (id int primary key, v varchar(9)) character set utf8mb4"


@pytest.fixture
def server(mariadb: MariaDb) -> MariaDb:
    clean(mariadb)
    sql(mariadb, "create database d", CREATE)
    return mariadb


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("target"), *PLAIN) as found:
        yield found


class Opened:
    """A replay's target, until its scenario has ended."""

    def __init__(self, server: MariaDb) -> None:
        self.target = DatabaseTarget(DownstreamOptions(url=url(server), lanes=2), "feed", 100)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def main() -> None:
            await self.target.open()
            try:
                await scenario
            finally:
                await self.target.close()

        asyncio.run(main())

    async def rules(self, *tables: TableStructure) -> list[tuple[str, TableStructure, TableRule]]:
        return await self.target.rules({structure_key("d", one): one for one in tables})


def test_a_table_that_is_not_there_has_no_rule_and_keeps_nobody_from_the_others(
    server: MariaDb,
) -> None:
    opened = Opened(server)

    async def scenario() -> None:
        found = await opened.rules(GONE, T)
        assert [(db, structure.name) for db, structure, _ in found] == [("d", "t")]
        sql(server, "create table d.gone (id int primary key)")
        assert [structure.name for _, structure, _ in await opened.rules(GONE)] == ["gone"]

    opened.run(scenario())


def test_tables_of_the_downstreams_own_keep_nobody_from_the_others(server: MariaDb) -> None:
    """The upstream has no geometries."""
    sql(server, "create table d.places (id int primary key, place point)")
    opened = Opened(server)

    async def scenario() -> None:
        assert list(await opened.target.present(["d"])) == [("d", "t")]

    opened.run(scenario())


def test_a_ddl_that_waits_is_told_of_until_it_is_through(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_target, "WATCH_S", 0.01)
    opened = Opened(server)
    said: list[str] = []
    add = msgspec.structs.replace(ddl("add_column", (T, WIDER)), schema_version=2)

    async def scenario() -> None:
        with closing(Reader(server)) as reader:
            reader.begin()

            def told(text: str) -> None:
                said.append(text)
                if WAITS in text:
                    reader.end()

            async with asyncio.timeout(60):
                assert await opened.target.ddl(add, told) == []
        assert opened.target.position.ddls_done == (2,)
        count = len(said)
        assert await opened.target.ddl(add, told) == [], "it was run"
        assert len(said) == count

    opened.run(scenario())
    assert any(one.startswith(f"{WAITS}, ") for one in said)
    assert sql(server, "show columns from d.t like 'n'")


def test_a_part_whose_connection_is_killed_goes_on_through_another(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "PAUSE_S", 0.01)
    opened = Opened(server)
    segment = Segment(0, 9, [], View([Span(1, 9)]), [], {})

    async def scenario() -> None:
        target = opened.target
        await target.save(target.position.at(1, reach=9))
        (rule,) = await opened.rules(T)
        writing, _ = await target.step(segment, routing([rule], 1))
        assert isinstance(writing, LaneWriting)
        lane = PartLane(writing, 0, RealClock())

        async def put(number: int) -> None:
            row = created({"id": number, "v": str(number)})
            await lane.apply(Work(share("d", T, rule[2], [row]), safe=True))

        await put(1)
        # The newest connection but the one that asks.
        newest = "select max(id) from information_schema.processlist where id <> connection_id()"
        ((number,),) = sql(server, newest)
        sql(server, f"kill {number}")
        await put(2)
        await lane.apply(Work([], safe=True, done=PartDone(writing.step, 0)))
        await lane.close()
        _, done = await target.step(segment, routing([rule], 1))
        assert done == {0}

    opened.run(scenario())
    assert sql(server, "select id, v from d.t order by id") == [(1, "1"), (2, "2")]
