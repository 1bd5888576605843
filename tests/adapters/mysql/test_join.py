"""Lanes of one opening in another process: what the bulk pipeline's tasks do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from tests.adapters.mysql.lanes_rig import FEED, LanesRig, event, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, share, table
from tidelog.downstream import DownstreamOptions, PartDone, TakenOver, Work
from tidelog.downstreams import open_downstream
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import BadInput, InvariantBroken, Unavailable
from tidelog.schema.structure import TableStructure

ID = column("id", "int(11)", nullable=False, id=1)
N = column("n", "int(11)", default="7", origin_default="3", id=2)
T = table("t", ID, key=("id",))
WIDE = table("t", ID, N, key=("id",), version=2)
PLAIN = "CREATE TABLE d.t (id INT PRIMARY KEY)"
STEP, OTHER = "1" * 32, "2" * 32


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("join")) as found:
        yield found


def joiner(rig: LanesRig) -> MysqlDownstream:
    """As in another process: nothing is shared but the address."""
    url = f"mysql://root@{rig.server.host}:{rig.server.port}/"
    return MysqlDownstream(Target.parse(url), DownstreamOptions(url=url))


async def work(rig: LanesRig, number: int, structure: TableStructure = T) -> Work:
    rule = await rig.downstream.rule("d", structure)
    return Work(share("d", structure, rule, [event("c", None, {"id": number})]), safe=True)


def test_a_lane_of_an_opening_elsewhere_writes_until_it_is_taken_over(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        other = joiner(rig)
        await other.join(FEED, (await rig.open()).epoch)
        lane = await other.lane(1)
        await lane.apply(await work(rig, 1))
        await rig.open()
        with pytest.raises((TakenOver, Unavailable)):
            await lane.apply(await work(rig, 2))
        with pytest.raises(TakenOver):
            await other.lane(1)
        await other.close()

    assert run(server, scenario, PLAIN).sql("SELECT id FROM d.t") == [(1,)]


def test_who_comes_last_has_the_lane(server: MariaDb) -> None:
    """A task that was given up and lives on, and the one in its place."""

    async def scenario(rig: LanesRig) -> None:
        old, new = joiner(rig), joiner(rig)
        opened = await rig.open()
        for one in (old, new):
            await one.join(FEED, opened.epoch)
        zombie = await old.lane(0)
        await zombie.apply(msgspec.structs.replace(await work(rig, 1), ends=False))
        lane = await new.lane(0)
        await lane.apply(await work(rig, 2))
        with pytest.raises(Unavailable):
            await zombie.apply(await work(rig, 3))
        await new.close()

    assert run(server, scenario, PLAIN).sql("SELECT id FROM d.t") == [(2,)]


def test_lanes_of_before_are_void_once_the_opening_is_renewed(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        other = joiner(rig)
        await other.join(FEED, (await rig.open()).epoch)
        lane = await other.lane(0)
        await lane.apply(await work(rig, 1))
        epoch = await rig.downstream.renew()
        with pytest.raises(TakenOver):
            await lane.apply(await work(rig, 2))
        with pytest.raises(TakenOver):
            await other.lane(1)
        await other.join(FEED, epoch)
        await (await other.lane(0)).apply(await work(rig, 3))
        await other.close()
        await rig.save(12)

    assert run(server, scenario, PLAIN).sql("SELECT id FROM d.t") == [(1,), (3,)]


def test_parts_are_remembered_with_their_rows_and_by_step(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        assert await rig.downstream.parts_done(STEP) == frozenset()
        other = joiner(rig)
        await other.join(FEED, (await rig.open()).epoch)
        lane = await other.lane(1)
        done = msgspec.structs.replace(await work(rig, 1), done=PartDone(STEP, 1))
        await lane.apply(done)
        begun = msgspec.structs.replace(done, done=PartDone(STEP, 0), ends=False)
        await lane.apply(begun)
        await other.close()
        assert await rig.downstream.parts_done(STEP) == frozenset({1})
        assert await rig.downstream.parts_done(OTHER) == frozenset()
        assert await rig.downstream.parts_done(STEP) == frozenset(), "those of other steps stay"

    run(server, scenario, PLAIN)


def test_what_was_written_is_forgotten_under_the_fence(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.open()
        rig.sql(f"REPLACE INTO tidb_binlog.replay VALUES ('{FEED}', '{STEP}', 1)")
        for table_of in ("t", "other"):
            rig.sql(f"REPLACE INTO tidb_binlog.progress VALUES ('{FEED}', 'd', '{table_of}', 7, 2)")
        await rig.downstream.forget_written([("d", "t")])
        assert await rig.downstream.parts_done(STEP) == frozenset()
        found = rig.sql("SELECT `table`, commit_ts, `rows` FROM tidb_binlog.progress ORDER BY 1")
        assert found == [("other", 7, 2), ("t", 0, 0)]
        rig.sql("UPDATE tidb_binlog.worker SET epoch = epoch + 1")
        with pytest.raises(TakenOver):
            await rig.downstream.forget_written([("d", "other")])
        assert ("other", 7, 2) in rig.sql(
            "SELECT `table`, commit_ts, `rows` FROM tidb_binlog.progress"
        )

    run(server, scenario, PLAIN)


def test_who_has_no_checkpoint_begins_without_parts(server: MariaDb) -> None:
    """Whoever emptied the downstream and begins anew would pass them by."""

    async def scenario(rig: LanesRig) -> None:
        await rig.save(12)
        other = joiner(rig)
        await other.join(FEED, (await rig.open()).epoch)
        lane = await other.lane(1)
        await lane.apply(msgspec.structs.replace(await work(rig, 1), done=PartDone(STEP, 1)))
        await other.close()
        await rig.open()
        assert await rig.downstream.parts_done(STEP) == frozenset({1})
        rig.sql("DELETE FROM tidb_binlog.checkpoint")
        await rig.open()
        assert await rig.downstream.parts_done(STEP) == frozenset()

    run(server, scenario, PLAIN)


def test_a_row_of_before_a_ddl_gets_what_the_ddl_gave_all_rows(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        other = joiner(rig)
        await other.join(FEED, (await rig.open()).epoch, [("d", WIDE)])
        lane = await other.lane(0)
        await lane.apply(await work(rig, 1))
        await other.close()

    found = run(server, scenario, "CREATE TABLE d.t (id INT PRIMARY KEY, n INT DEFAULT 7)")
    assert found.sql("SELECT id, n FROM d.t") == [(1, 3)]


def test_who_joined_is_not_the_one_that_decides(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        other = joiner(rig)
        with pytest.raises(InvariantBroken):
            await other.lane(0)
        await other.join(FEED, (await rig.open()).epoch)
        with pytest.raises(InvariantBroken):
            await other.parts_done(STEP)

    run(server, scenario, PLAIN)


@pytest.mark.parametrize("url", ["sqlite:////nowhere/x.db", "file:///nowhere"])
def test_one_process_writes_a_file(url: str) -> None:
    with pytest.raises(BadInput, match="several processes"):
        asyncio.run(open_downstream(DownstreamOptions(url=url)).join(FEED, 1))
