"""A MySQL downstream of several lanes on a real MariaDB, for the tests beside this file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pymysql

from tests.servers import MariaDb
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, DownstreamOptions, Lane, Opened, TableShare, Work
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.target import Target
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog.schema.structure import TableStructure

FEED = "feed"


def event(op: str, before: Any, after: Any, commit_ts: int = 1) -> Event:
    return Event(op, commit_ts, None, before, after)


class LanesRig:
    """`user`: the account of the downstream; looks at the database are root's."""

    def __init__(self, server: MariaDb, *, user: str = "root", **options: Any) -> None:
        self.server = server
        url = f"mysql://{user}@{server.host}:{server.port}/"
        chosen = {"lanes": 4} | options
        self.downstream = MysqlDownstream(Target.parse(url), DownstreamOptions(url=url, **chosen))
        self.lanes: dict[int, Lane] = {}

    def sql(self, text: str) -> list[Any]:
        with (
            pymysql.connect(
                host=self.server.host,
                port=self.server.port,
                user="root",
                charset="utf8mb4",
                autocommit=True,
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(text)
            return list(cursor.fetchall())

    async def open(self) -> Opened:
        return await self.downstream.open(FEED)

    async def lane(self, number: int = 0) -> Lane:
        self.lanes[number] = await self.downstream.lane(number)
        return self.lanes[number]

    async def shares(
        self, structure: TableStructure, *events: Event, safe: bool = False
    ) -> list[TableShare]:
        """As the planner gives them to a single lane."""
        rule = await self.downstream.rule("d", structure)
        plan = Planner(1).plan(0, [TableEvents("d", structure, rule, list(events))], safe=safe)
        assert plan is not None
        return plan[0]

    async def write(
        self, structure: TableStructure, *events: Event, safe: bool = False, lane: int = 0
    ) -> None:
        work = Work(await self.shares(structure, *events, safe=safe), safe=safe)
        await (self.lanes.get(lane) or await self.lane(lane)).apply(work)

    async def save(self, commit_ts: int) -> None:
        await self.downstream.save_checkpoint(Checkpoint(commit_ts))


def run(
    server: MariaDb,
    scenario: Callable[[LanesRig], Coroutine[Any, Any, None]],
    *definitions: str,
    **options: Any,
) -> LanesRig:
    """A fresh database `d` with the tables of `definitions`, opened."""
    rig = LanesRig(server, **options)
    for name in ("d", "tidb_binlog", "retl", "elsewhere"):
        rig.sql(f"DROP DATABASE IF EXISTS {name}")
    rig.sql("CREATE DATABASE d")
    for sql in definitions:
        rig.sql(sql)

    async def whole() -> None:
        await rig.open()
        try:
            await scenario(rig)
        finally:
            await rig.downstream.close()

    asyncio.run(whole())
    return rig
