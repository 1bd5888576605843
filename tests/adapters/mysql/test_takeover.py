"""Two Appliers at one MariaDB: whoever came last writes, the other one changes nothing any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.adapters.mysql.lanes_rig import FEED, LanesRig, event, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event
from tidelog.downstream import TakenOver, Work
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.errors import Stopped, Unavailable

ID = column("id", "int(11)", nullable=False, id=1)
T = table("t", ID, key=("id",))
PLAIN = "CREATE TABLE d.t (id INT PRIMARY KEY)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("takeover")) as found:
        yield found


def added(number: int) -> Event:
    return event("c", None, {"id": number})


def test_who_was_taken_over_is_fenced_whatever_it_does(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1))
        await rig.save(10)
        other = LanesRig(server, lanes=2)
        opened = await other.open()
        assert opened.checkpoint is not None
        assert (opened.checkpoint.commit_ts, opened.epoch) == (10, 2)
        with pytest.raises(Unavailable):
            await rig.write(T, added(2))
        for number in range(4):
            with pytest.raises(TakenOver):
                await rig.downstream.lane(number)
        with pytest.raises(Unavailable):
            await rig.save(11)
        with pytest.raises(TakenOver):
            await rig.open()
        await other.write(T, added(3))
        await other.save(12)
        await other.downstream.close()

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(1,), (3,)]


class AnswersLost:
    """Of the next `times` COMMITs that raise the epoch."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.times = 0
        run, before = MysqlSession.run, [""]

        async def losing(session: MysqlSession, sql: str) -> int:
            done = await run(session, sql)
            raised, before[0] = sql == "COMMIT" and "`worker` SET epoch" in before[0], sql
            if self.times and raised:
                self.times -= 1
                session.discard()
                raise Unavailable("the answer was lost")
            return done

        patch.setattr(MysqlSession, "run", losing)

    async def raising(self, rig: LanesRig, times: int) -> None:
        """So many openings never hear that theirs is the epoch."""
        self.times = times
        for _ in range(times):
            with pytest.raises(Unavailable):
                await rig.open()
        assert not self.times


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> AnswersLost:
    return AnswersLost(monkeypatch)


@pytest.mark.parametrize("times", [1, 2])
def test_who_did_not_hear_that_it_took_over_is_let_in(
    server: MariaDb, lost: AnswersLost, times: int
) -> None:
    """Nobody else writes: a person would be asked for nothing."""

    async def scenario(rig: LanesRig) -> None:
        await rig.save(10)
        await lost.raising(rig, times)
        opened = await rig.open()
        assert opened.epoch == 2 + times
        rig.lanes.clear()
        await rig.write(T, added(1))
        await rig.save(11)

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(1,)]


def test_who_did_not_hear_that_its_lanes_are_void_is_let_in(
    server: MariaDb, lost: AnswersLost
) -> None:
    async def scenario(rig: LanesRig) -> None:
        lost.times = 1
        with pytest.raises(Unavailable):
            await rig.downstream.renew()
        assert (await rig.open()).epoch == 3
        assert await rig.downstream.renew() == 4

    run(server, scenario, PLAIN)


@pytest.mark.parametrize("writes", [False, True])
def test_who_did_not_hear_that_it_took_over_gives_way_to_who_did_after_it(
    server: MariaDb, lost: AnswersLost, *, writes: bool
) -> None:
    async def scenario(rig: LanesRig) -> None:
        await lost.raising(rig, 1)
        other = LanesRig(server)
        await other.open()
        if writes:
            await other.save(12)
        with pytest.raises(TakenOver):
            await rig.open()
        await other.write(T, added(2))
        await other.downstream.close()

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(2,)]


def test_the_epoch_alone_fences_every_transaction(server: MariaDb) -> None:
    """As where the two have no locks in common: nothing ends the old one's connections."""

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1))
        await rig.save(10)
        rig.sql("UPDATE tidb_binlog.worker SET epoch = 9")
        for lane in (0, 1):
            with pytest.raises(TakenOver):
                await rig.write(T, added(2), lane=lane)
        with pytest.raises(TakenOver):
            await rig.save(11)

    rig = run(server, scenario, PLAIN)
    assert rig.sql("SELECT * FROM d.t") == [(1,)]
    assert '"commitTS":10' in rig.sql("SELECT checkPoint FROM tidb_binlog.checkpoint")[0][0]


def test_a_transaction_that_hangs_is_rolled_back(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        lane = await rig.lane()
        await lane.apply(Work(await rig.shares(T, added(1)), ends=False))
        other = LanesRig(server)
        await other.open()
        await other.write(T, added(2))
        with pytest.raises(Unavailable):
            await lane.apply(Work(await other.shares(T, added(3))))
        await other.downstream.close()

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(2,)]


def test_a_ddl_that_runs_ends_with_its_connection(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        session = rig.downstream._living()
        running = asyncio.create_task(session.run("ALTER TABLE d.t ADD COLUMN slow INT, FORCE"))
        held = asyncio.create_task(session_sleep())
        other = LanesRig(server)
        await other.open()
        await asyncio.gather(running, held, return_exceptions=True)
        (alive,) = other.sql(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'ALTER%'"
        )
        assert alive == (0,)
        await other.downstream.close()

    async def session_sleep() -> None:
        """Nothing: only that the first task has begun."""

    run(server, scenario, PLAIN)


def test_who_may_not_end_the_other_one_says_so(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        rig.sql("CREATE OR REPLACE USER plain@'%'")
        rig.sql("GRANT ALL ON d.* TO plain@'%'")
        rig.sql("GRANT ALL ON tidb_binlog.* TO plain@'%'")
        other = LanesRig(server, user="plain")
        with pytest.raises(Unavailable, match="another account holds") as caught:
            await other.open()
        assert "CONNECTION ADMIN" in caught.value.hint
        await rig.write(T, added(1))

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(1,)]


def test_checkpoint_tables(server: MariaDb) -> None:
    """A row is a feed's; its key is the cluster's id as soon as that is known."""

    async def scenario(rig: LanesRig) -> None:
        await rig.save(10)
        with pytest.raises(Stopped, match="belongs to feed feed") as caught:
            await rig.downstream.open("other")
        assert "checkpoint-table" in caught.value.hint
        known = LanesRig(server, cluster_id=7)
        opened = await known.open()
        assert opened.checkpoint is not None
        assert rig.sql("SELECT clusterID FROM tidb_binlog.checkpoint") == [(7,)]
        await known.save(20)
        await known.downstream.close()
        unknown = LanesRig(server)
        opened = await unknown.open()
        assert opened.checkpoint is not None
        assert opened.checkpoint.commit_ts == 20
        await unknown.save(30)
        await unknown.downstream.close()
        # One that an earlier release left at key 0 is older than that, and goes.
        left = """'{"commitTS":10,"feed":"feed","epoch":1}'"""
        rig.sql(f"INSERT INTO tidb_binlog.checkpoint VALUES (0, {left})")
        again = LanesRig(server, cluster_id=7)
        opened = await again.open()
        assert opened.checkpoint is not None
        assert opened.checkpoint.commit_ts == 30
        assert rig.sql("SELECT clusterID FROM tidb_binlog.checkpoint") == [(7,)]
        await again.downstream.close()
        # Another cluster's row is not ours to mind.
        foreign = LanesRig(server, cluster_id=8)
        assert (await foreign.downstream.open("other")).checkpoint is None
        await foreign.save(11)
        await foreign.downstream.close()
        elsewhere = LanesRig(server, checkpoint_table="elsewhere.mine")
        assert (await elsewhere.downstream.open("third")).checkpoint is None
        await elsewhere.save(12)
        await elsewhere.downstream.close()
        assert len(rig.sql("SELECT * FROM tidb_binlog.checkpoint")) == 2
        assert len(rig.sql("SELECT * FROM elsewhere.mine")) == 1

    run(server, scenario, PLAIN)


def test_epochs_survive_the_rows_of_lanes(server: MariaDb) -> None:
    """Fewer lanes than before: the rows of the others rise too."""

    async def scenario(rig: LanesRig) -> None:
        await rig.downstream.close()
        fewer = LanesRig(server, lanes=1)
        assert (await fewer.open()).lanes == 1
        found = rig.sql(f"SELECT DISTINCT epoch FROM tidb_binlog.worker WHERE feed = '{FEED}'")
        assert found == [(2,)]
        await fewer.downstream.close()

    run(server, scenario, PLAIN)


def test_lanes_go_on_without_the_control_connection(server: MariaDb) -> None:
    """What is on its way must land before that one is opened again."""

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, added(1))
        work = Work(await rig.shares(T, added(2)))
        for (connection,) in rig.sql(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
            " AND USER = 'root'"
        ):
            rig.sql(f"KILL {connection}")
        with pytest.raises(Unavailable):
            await rig.save(5)
        with pytest.raises(Unavailable):
            await rig.lanes[0].apply(work)
        await (await rig.lane()).apply(work)
        await rig.open()
        await rig.save(5)

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(1,), (2,)]
