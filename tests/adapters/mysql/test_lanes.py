"""Lanes on a real MariaDB: each change once, whatever breaks in between; marks; lost statements."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from msgspec.structs import replace

from tests.acceptance.upstream.binlog import OPTIONS, BinaryLog, Committed
from tests.adapters.mysql.lanes_rig import LanesRig, event, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, ddl, ranges, table
from tidelog import failpoints
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, TableShare, Work
from tidelog.downstreams.mysql_session import MysqlSession, WorkRolledBack
from tidelog.errors import Unavailable

ID = column("id", "int(11)", nullable=False, id=1)
V = column("v", "varchar(20)", id=2)
T = table("t", ID, V, key=("id",))
BAG = table("bag", ID, V)
PLAIN = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))"
KEYLESS = "CREATE TABLE d.bag (id INT, v VARCHAR(20))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    options = ("--innodb-lock-wait-timeout=1", *OPTIONS)
    with mariadb_server(tmp_path_factory.mktemp("lanes"), *options) as found:
        yield found


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


def row(number: int, text: str = "a") -> dict[str, Any]:
    return {"id": number, "v": text}


def added(number: int, commit_ts: int) -> Event:
    return event("c", None, row(number), commit_ts)


@pytest.mark.parametrize("place", ["applier.lane.commit", "applier.lane.committed"])
def test_rows_without_a_key_are_written_once_over_a_crash(server: MariaDb, place: str) -> None:
    work = [added(1, 5), added(1, 5), event("d", row(1), None, 6), added(2, 6)]

    class Crash(Exception):
        pass

    def crash() -> None:
        raise Crash

    async def scenario(rig: LanesRig) -> None:
        await rig.save(1)
        await rig.write(BAG, added(0, 4))
        failpoints.arm(place, crash, 1)
        with pytest.raises(Crash):
            await rig.write(BAG, *work)
        failpoints.disarm_all()
        await rig.open()
        rig.lanes.clear()
        await rig.write(BAG, *work, safe=True, lane=1)
        await rig.write(BAG, *work, added(3, 7), safe=True, lane=2)

    rig = run(server, scenario, KEYLESS)
    assert rig.sql("SELECT id FROM d.bag ORDER BY id") == [(0,), (1,), (2,), (3,)]
    assert rig.sql("SELECT commit_ts, `rows` FROM tidb_binlog.progress") == [(7, 1)]


def test_who_begins_at_another_checkpoint_takes_no_progress_away(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.save(1)
        await rig.write(BAG, added(1, 5))
        other = LanesRig(rig.server, checkpoint_table="tidb_binlog.other")
        await other.open()
        await other.write(BAG, added(2, 5), safe=True)
        await other.downstream.close()
        again = LanesRig(rig.server)
        await again.open()
        await again.write(BAG, added(1, 5), added(3, 6), safe=True)
        await again.downstream.close()

    rig = run(server, scenario, KEYLESS)
    assert rig.sql("SELECT id FROM d.bag ORDER BY id") == [(1,), (2,), (3,)]


def test_progress_stands_within_a_large_transaction(server: MariaDb) -> None:
    """Its pieces are transactions of their own; a replay is cut elsewhere."""
    events = [added(number, 9) for number in range(10)]

    async def scenario(rig: LanesRig) -> None:
        await rig.save(1)
        lane = await rig.lane()
        for start, end in ((0, 4), (4, 7)):
            piece = TableShare("d", BAG, events=events[start:end], offset=start)
            await lane.apply(Work([piece]))
        await rig.open()
        lane = await rig.lane()
        for start, end in ((0, 6), (6, 10)):
            piece = TableShare("d", BAG, events=events[start:end], offset=start)
            await lane.apply(Work([piece], safe=True))

    found = run(server, scenario, KEYLESS).sql("SELECT id FROM d.bag ORDER BY id")
    assert found == [(number,) for number in range(10)]


def test_a_downstream_begun_anew_has_no_old_progress(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.save(1)
        await rig.write(BAG, added(1, 9))
        rig.sql("DELETE FROM tidb_binlog.checkpoint")
        rig.sql("TRUNCATE TABLE d.bag")
        await rig.open()
        rig.lanes.clear()
        await rig.write(BAG, added(1, 5), safe=True)

    assert run(server, scenario, KEYLESS).sql("SELECT id FROM d.bag") == [(1,)]


def test_a_lane_connects_anew_while_the_control_connection_is_lost(server: MariaDb) -> None:
    """The other way round it would wait for ever: that one waits for the lanes."""

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1, 4))
        work = Work(await rig.shares(T, added(2, 5)))
        for (number,) in rig.sql(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
            " AND USER = 'root'"
        ):
            rig.sql(f"KILL {number}")
        with pytest.raises(Unavailable):
            await rig.save(4)
        with pytest.raises(Unavailable):
            await rig.lanes[0].apply(work)
        await (await rig.lane()).apply(work)

    assert run(server, scenario, PLAIN).sql("SELECT id FROM d.t") == [(1,), (2,)]


def test_rows_and_checkpoint_in_one_transaction(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        lane = await rig.lane()
        await lane.apply(Work(await rig.shares(T, added(1, 5)), ends=False))
        assert rig.sql("SELECT * FROM d.t") == []
        last = Work(await rig.shares(T, added(2, 5)), checkpoint=Checkpoint(5, consistent=True))
        await lane.apply(last)
        opened = await rig.open()
        assert opened.checkpoint is not None
        assert opened.checkpoint.commit_ts == 5

    assert len(run(server, scenario, PLAIN).sql("SELECT * FROM d.t")) == 2


def test_every_transaction_marks_its_channel(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        assert rig.sql("SELECT id, channel_id, val, channel_info FROM mine._drainer_repl_mark") == [
            (number, 6, 1, "") for number in range(4)
        ]
        rig.sql("DELETE FROM mine._drainer_repl_mark WHERE id = 1")
        for lane, times in ((0, 1), (1, 1), (2, 3)):
            for number in range(times):
                await rig.write(T, added(10 * lane + number, 5), lane=lane)

    options: dict[str, Any] = {"loopback": True, "channel_id": 6, "mark_schema": "mine"}
    rig = run(server, scenario, PLAIN, "DROP DATABASE IF EXISTS mine", **options)
    assert rig.sql("SELECT val FROM mine._drainer_repl_mark ORDER BY id") == [
        (2,),
        (1,),
        (4,),
        (1,),
    ]


def test_a_ddl_that_moves_rows_marks_its_channel(server: MariaDb) -> None:
    """Rows of a partition that the downstream knows by their values alone; the server's binary log
    says what a Drainer there would get."""
    parted = table("r", ID, V, key=("id",), number=20, partitioning=ranges(("p0", "10", 21)))
    emptied = replace(parted, partitioning=ranges(("p0", "10", 22)))
    plain = replace(T, id=22)
    exchanged = replace(emptied, partitioning=ranges(("p0", "10", 10)))

    async def scenario(rig: LanesRig) -> None:
        await rig.write(parted, added(1, 5), added(20, 5))
        await rig.write(T, added(2, 6))
        log.read()
        for message in (
            ddl("truncate_partition", (parted, emptied)),
            ddl("exchange_partition", (emptied, exchanged), (T, plain)),
        ):
            await rig.downstream.apply_ddl(message, Checkpoint(7))

    definitions = (PLAIN, PLAIN.replace("d.t", "d.r"))
    log = BinaryLog(server)
    rig = run(server, scenario, *definitions, loopback=True, channel_id=6)
    assert (rig.sql("SELECT id FROM d.r ORDER BY id"), rig.sql("SELECT * FROM d.t")) == (
        [(2,), (20,)],
        [],
    )
    written = [one.rows for one in log.read() if isinstance(one, Committed)]
    moved = [rows for rows in written if any(row.db == "d" for row in rows)]
    assert [[row.table for row in rows if row.db == "retl"] for rows in moved] == [
        ["_drainer_repl_mark"],
        ["_drainer_repl_mark"],
    ]


def test_a_lock_that_somebody_holds_is_waited_for(server: MariaDb) -> None:
    """Longer than one wait of the server: the lane does its transaction again."""
    tries: list[int] = []

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1, 5))
        other = pymysql.connect(host=server.host, port=server.port, user="root")
        with contextlib.closing(other), other.cursor() as cursor:
            cursor.execute("UPDATE d.t SET v = 'theirs' WHERE id = 1")

            def begun() -> None:
                tries.append(1)
                if len(tries) == 2:
                    other.rollback()

            failpoints.arm("applier.lane.begin", begun, 1)
            await rig.write(T, event("d", row(1), None, 6), added(2, 6))
            cursor.execute("UPDATE d.t SET v = 'theirs' WHERE id = 2")
            with pytest.raises(WorkRolledBack):
                await rig.write(T, event("d", row(2), None, 7))

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(2, "a")]
    assert len(tries) > 2


def test_statements_cancelled_at_random_leave_the_same(server: MariaDb) -> None:
    """T14: one in a hundred is cancelled wherever it stands; nobody reads another's answer."""
    dice = random.Random(14)
    rows: dict[int, str] = {}
    bag: Counter[int] = Counter()
    cut = 0

    def changes(lane: int, commit_ts: int) -> tuple[list[Event], list[Event]]:
        """To rows of this lane's own, so that lanes may overtake each other."""
        some: list[Event] = []
        for _ in range(dice.randrange(1, 12)):
            number = dice.randrange(50) * 4 + lane
            before = row(number, rows[number]) if number in rows else None
            after = row(number, f"{commit_ts}.{dice.random():.6f}") if dice.random() < 0.7 else None
            if after is not None:
                rows[number] = after["v"]
                some.append(event("u" if before else "c", before, after, commit_ts))
            elif before is not None:
                del rows[number]
                some.append(event("d", before, None, commit_ts))
        keyless = (
            [added(number, commit_ts) for number in range(dice.randrange(3))] if lane == 0 else []
        )
        bag.update(one.after["id"] for one in keyless if one.after is not None)
        return some, keyless

    async def write(rig: LanesRig, lane: int, commit_ts: int) -> None:
        nonlocal cut
        some, keyless = changes(lane, commit_ts)
        shares = await rig.shares(T, *some, safe=True) if some else []
        shares += await rig.shares(BAG, *keyless) if keyless else []
        again = False
        while True:
            if lane not in rig.lanes:
                await rig.lane(lane)
            writing = asyncio.create_task(rig.lanes[lane].apply(Work(shares, safe=again)))
            if dice.random() < 0.05:
                for _ in range(dice.randrange(12)):
                    await asyncio.sleep(0)
                writing.cancel()
            try:
                await writing
                return
            except asyncio.CancelledError:
                cut += 1
                again = True
                rig.lanes.pop(lane)

    async def scenario(rig: LanesRig) -> None:
        await rig.save(1)

        async def stream(lane: int) -> None:
            for number in range(150):
                await write(rig, lane, 100 + number)
                (mine,) = await rig.lanes[lane]._session.rows(f"SELECT {lane}, {number}")  # type: ignore[attr-defined]
                assert mine == (lane, number)

        await asyncio.gather(*[stream(lane) for lane in range(4)])

    rig = run(server, scenario, PLAIN, KEYLESS)
    assert cut > 10
    assert dict(rig.sql("SELECT id, v FROM d.t")) == rows
    assert Counter(number for (number,) in rig.sql("SELECT id FROM d.bag")) == bag


def test_a_transaction_costs_two_round_trips(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements' packet, and COMMIT once the fence has answered; more only for more bytes."""
    packets: list[int] = []
    query = MysqlSession._query

    async def counted(self: MysqlSession, text: str | bytes) -> Any:
        packets.append(len(text))
        return await query(self, text)

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1, 5))
        changes = [event("d", row(1), None, 6), *[added(number, 6) for number in range(2, 3000)]]
        work = Work([*await rig.shares(T, *changes), *await rig.shares(BAG, added(1, 6))])
        monkeypatch.setattr(MysqlSession, "_query", counted)
        await rig.lanes[0].apply(work)
        monkeypatch.undo()

    run(server, scenario, PLAIN, KEYLESS, loopback=True)
    assert len(packets) == 2
    assert packets[-1] == len("COMMIT")
