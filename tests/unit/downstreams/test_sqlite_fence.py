"""A SQLite downstream that another Applier has taken over: what the first one still tries to write
is refused (docs/operating.md)."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.downstreams.shapes import column, ddl, share, table
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, TakenOver, Work
from tidelog.downstreams import sqlite as module
from tidelog.downstreams.sqlite import SqliteDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import Unavailable
from tidelog.schema.structure import TableStructure

BAG = table("bag", column("v", "int(11)"), number=11)
T = table("t", column("id", "int(11)"), column("v", "int(11)"), key=("id",), number=10)


def of(path: Path) -> SqliteDownstream:
    return SqliteDownstream(Target.parse(f"sqlite:///{path}"))


async def work(
    one: SqliteDownstream,
    structure: TableStructure,
    commit_ts: int,
    event: Event,
    *,
    ends: bool = True,
) -> Work:
    rule = await one.rule("d", structure)
    saved = Checkpoint(commit_ts, True) if ends else None
    return Work(share("d", structure, rule, [event]), checkpoint=saved, ends=ends, up_to=commit_ts)


async def begun(path: Path) -> SqliteDownstream:
    first = of(path)
    await first.open("shop")
    await first.apply_ddl(ddl("create_table", (None, BAG), commit_ts=1), Checkpoint(1))
    await first.apply_ddl(ddl("create_table", (None, T), commit_ts=2), Checkpoint(2))
    return first


def told(path: Path, table_name: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(f"SELECT * FROM `{table_name}`").fetchall()


def test_a_leader_that_was_frozen_in_a_transaction_writes_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_S", 0.1)

    async def main() -> None:
        path = tmp_path / "copy.db"
        first = await begun(path)
        lane = await first.lane(0)
        insert = Event("c", 3, None, None, {"v": 1})
        # It is frozen between the rows and the COMMIT of a transaction, for so long that another
        # one takes over: that waits for it.
        await lane.apply(await work(first, BAG, 3, insert, ends=False))
        second = of(path)
        with pytest.raises(Unavailable, match="locked"):
            await second.open("shop")
        await lane.apply(Work([], checkpoint=Checkpoint(3, True)))
        found = (await second.open("shop")).checkpoint
        assert found is not None
        assert found.commit_ts == 3, "what the first one has written is not written again"
        assert told(path, "d.bag") == [(1,)]

    asyncio.run(main())


def test_a_leader_that_was_taken_over_writes_nothing_more(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "copy.db"
        first = await begun(path)
        lane = await first.lane(0)
        late = await work(first, T, 3, Event("c", 3, {"id": 1}, None, {"id": 1, "v": 3}))
        # The one that stands by takes over, and applies up to 20.
        second = of(path)
        await second.open("shop")
        other = await second.lane(0)
        await other.apply(
            await work(second, T, 20, Event("c", 20, {"id": 1}, None, {"id": 1, "v": 20}))
        )
        # What the first one had in hand when it was frozen (or cut off from NATS) comes now.
        with pytest.raises(TakenOver):
            await lane.apply(late)
        assert told(path, "d.t") == [(1, 20)]
        found = await second.open("shop")
        assert found.checkpoint is not None
        assert found.checkpoint.commit_ts == 20

    asyncio.run(main())


def test_a_leader_that_was_taken_over_opens_no_more_and_is_in_nobody_s_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Applier opens its downstream anew behind an error; what it looks in is a transaction."""
    monkeypatch.setattr(module, "BUSY_S", 0.1)

    async def main() -> None:
        path = tmp_path / "copy.db"
        first = await begun(path)
        second = of(path)
        await second.open("shop")
        with pytest.raises(TakenOver, match="another Applier has taken over sqlite:"):
            await first.open("shop")
        lane = await second.lane(0)
        event = Event("c", 3, {"id": 1}, None, {"id": 1, "v": 3})
        await lane.apply(await work(second, T, 3, event))
        assert told(path, "d.t") == [(1, 3)]
        found = (await second.open("shop")).checkpoint
        assert found == Checkpoint(3, True, feed="shop")
        await first.close()
        await second.close()

    asyncio.run(main())
