"""A MySQL downstream on a real MariaDB, and DDLs to crash in, for the tests beside this file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pymysql

from tests.servers import MariaDb
from tests.unit.downstreams.shapes import column, ddl, ranges, share, table
from tidelog.changes import DdlMessage, Event
from tidelog.downstream import Checkpoint, DownstreamOptions, Work
from tidelog.downstreams.ddl_mysql import hidden_name
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.target import Target
from tidelog.schema.structure import TableStructure

ID = column("id", "int(11)", nullable=False, id=1)
V = column("v", "varchar(20)", id=2)
T = table("t", ID, V, key=("id",), number=10)
N = column("n", "int(11)", default="7", origin_default="3", id=3)
UNSYNCED = ("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0", "--sync-frm=0")
"""For a server that is never killed."""
START_TS = 10_000 << 18
WIDE = table("t", ID, V, column("n", "int(11)", default="7", id=3), key=("id",), number=10)
ADD_N = ddl("add_column", (T, WIDE))
WAITS = "Waiting for table metadata lock"


class Crash(Exception):
    """Stands for the process's end."""


class Rig:
    """A downstream whose position moves with every call, and a look at the database beside it."""

    def __init__(self, server: MariaDb, feed: str = "feed") -> None:
        self.server, self.feed = server, feed
        url = f"mysql://root@{server.host}:{server.port}/"
        self.options = DownstreamOptions(url=url)
        if feed != "feed":
            self.options = DownstreamOptions(url=url, checkpoint_table=f"tidb_binlog.{feed}")
        self.downstream = MysqlDownstream(Target.parse(url), self.options)
        self.commit_ts = START_TS

    def sql(self, text: str) -> list[Any]:
        connection = pymysql.connect(
            host=self.server.host,
            port=self.server.port,
            user="root",
            charset="utf8mb4",
            autocommit=True,
            init_command="SET foreign_key_checks = 0",
        )
        try:
            with connection.cursor() as cursor:
                cursor.execute(text)
                return list(cursor.fetchall())
        finally:
            connection.close()

    async def rows(self, structure: TableStructure, *events: Event) -> None:
        self.commit_ts += 1
        rule = await self.downstream.rule("d", structure)
        shares = share("d", structure, rule, events)
        lane = await self.downstream.lane(0)
        await lane.apply(Work(shares, checkpoint=Checkpoint(self.commit_ts, feed=self.feed)))

    async def ddl(self, message: DdlMessage) -> list[str]:
        self.commit_ts += 1
        return await self.again(message)

    async def again(self, message: DdlMessage) -> list[str]:
        message = msgspec.structs.replace(message, commit_ts=self.commit_ts)
        return await self.downstream.apply_ddl(message, Checkpoint(self.commit_ts, feed=self.feed))


def run(server: MariaDb, scenario: Callable[[Rig], Coroutine[Any, Any, None]]) -> Rig:
    rig = Rig(server)
    for name in ("d", "tidb_binlog"):
        rig.sql(f"DROP DATABASE IF EXISTS {name}")

    async def whole() -> None:
        await rig.downstream.open("feed")
        await rig.ddl(ddl("create_schema"))
        try:
            await scenario(rig)
        finally:
            await rig.downstream.close()

    asyncio.run(whole())
    return rig


WIDER = table("t", ID, msgspec.structs.replace(V, name="w"), N, key=("id",), number=10)
EMPTIED = msgspec.structs.replace(T, id=11)
MOVED = msgspec.structs.replace(T, name="moved")
PARTED = table("r", ID, V, key=("id",), number=20, partitioning=ranges(("p0", "10", 21)))
SWAPPED = msgspec.structs.replace(PARTED, partitioning=ranges(("p0", "10", 10)))
HIDDEN = hidden_name(T, "feed")
FINAL: dict[str, tuple[DdlMessage, list[tuple[str, list[Any]]]]] = {
    "alter": (
        ddl("multi_schema_change", (T, WIDER)),
        [("SELECT id, w, n FROM d.t", [(1, "a", 3)])],
    ),
    "truncate": (
        ddl("truncate_table", (T, EMPTIED)),
        [
            ("SELECT * FROM d.t", []),
            (f"SELECT v FROM tidb_binlog.{HIDDEN}", [("a",)]),
        ],
    ),
    "drop": (
        ddl("drop_table", (T, None)),
        [
            ("SHOW TABLES FROM d LIKE 't'", []),
            (f"SELECT v FROM tidb_binlog.{HIDDEN}", [("a",)]),
        ],
    ),
    "rename": (ddl("rename_table", (T, MOVED)), [("SELECT v FROM d.moved", [("a",)])]),
    "ring": (
        ddl(
            "rename_tables",
            (T, msgspec.structs.replace(T, name="r")),
            (PARTED, msgspec.structs.replace(PARTED, name="t")),
        ),
        [("SELECT v FROM d.r", [("a",)]), ("SELECT v FROM d.t", [("z",)])],
    ),
    "exchange": (
        ddl("exchange_partition", (PARTED, SWAPPED), (T, msgspec.structs.replace(T, id=21))),
        [("SELECT v FROM d.r", [("a",)]), ("SELECT v FROM d.t", [("z",)])],
    ),
}


STEPS = {"alter": 2, "truncate": 2, "drop": 1, "rename": 1, "ring": 3}
CRASHES = [
    *(
        (what, place, at)
        for what, steps in STEPS.items()
        for place in ("applier.ddl.recorded", "applier.ddl.run")
        for at in range(1, steps + 1)
    ),
    ("exchange", "applier.ddl.swap", 1),
    ("exchange", "never", 1),
]


class Reader:
    """Somebody who has read the table in a transaction that doesn't end: a DDL waits for it."""

    def __init__(self, server: MariaDb) -> None:
        self._connection = pymysql.connect(host=server.host, port=server.port, user="root")

    def begin(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT * FROM d.t")

    def end(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        self._connection.close()


async def seen(rig: Rig, wanted: str) -> str:
    """Look until it is there."""
    async with asyncio.timeout(60):
        while True:
            if wanted in (found := await rig.downstream.ddl_progress()):
                return found
            await asyncio.sleep(0.01)
