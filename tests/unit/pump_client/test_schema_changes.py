"""Schema changes on a simulated cluster: in the stream, by several clients, and died half way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.unit.pump_client.dying import after, before
from tests.unit.pump_client.shop import CREATE_SHOP
from tests.unit.pump_client.shore import Shore, writer
from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import (
    BadInput,
    Corrupt,
    DiskFull,
    Forbidden,
    Refused,
    TidelogError,
    Unavailable,
)
from tidelog.pump_client import DdlResult, Writer
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.decisions.journal import Journal
from tidelog.pump_client.errors import CommitUnknown
from tidelog.pump_client.schema_changer import PENDING_PATH, SchemaChanger
from tidelog.pump_client.two_phase import Upstream
from tidelog.schema.model import DdlJob
from tidelog.sim import World, run

CREATE = "create table shop.t (id bigint primary key, a varchar(9), b int)"


def test_rows_and_schema_changes_come_in_their_order() -> None:
    results: list[DdlResult] = []

    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            async def ddl(query: str) -> None:
                results.append(await client.ddl(query))

            await ddl("create database shop;")
            await ddl(CREATE)
            async with client.transaction() as txn:
                txn.insert("shop.t", {"id": 1, "a": "x", "b": 2})
            await ddl("alter table shop.t add column c decimal(5,2) not null default 1.5 first")
            async with client.transaction() as txn:
                txn.insert("shop.t", {"id": 2})
            await ddl("alter table shop.t drop column b")
            await ddl("alter table shop.t modify column a varchar(20)")
            await ddl("create unique index i on shop.t (a)")
            await ddl("alter table shop.t drop index i")
            await ddl("rename table shop.t to shop.u")
            async with client.transaction() as txn:
                txn.update("shop.u", {"id": 2, "a": None, "c": "1.50"}, {"a": "twelve letters"})
            await ddl("truncate table shop.u")
            async with client.transaction() as txn:
                txn.insert("shop.u", {"id": 9})
            with pytest.raises(DdlRefused):
                await ddl("drop table shop.t")
            await ddl("drop table if exists shop.t")
            await ddl("drop table shop.u")
            await ddl("drop database shop")

        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: "drop database shop;" in shore.queries())
        told = [ddl for change in shore.changes for ddl in change.ddls]
        done = [result for result in results if result.commit_ts]
        assert [result.commit_ts for result in results].count(0) == 1
        assert [(d.commit_ts, d.schema_version) for d in told] == [
            (r.commit_ts, r.schema_version) for r in done
        ]
        assert [d.kind for d in told] == [
            "create_schema",
            "create_table",
            "add_column",
            "drop_column",
            "modify_column",
            "add_index",
            "drop_index",
            "rename_table",
            "truncate_table",
            "drop_table",
            "drop_schema",
        ]
        assert [[after for _, _, after in rows] for rows in shore.rows().values()] == [
            [{"id": 1, "a": "x", "b": 2}],
            [{"c": "1.50", "id": 2, "a": None, "b": None}],
            [{"c": "1.50", "id": 2, "a": "twelve letters"}],
            [{"c": "1.50", "id": 9, "a": None}],
        ]

    run(main)


@pytest.mark.parametrize("seed", range(4))
def test_clients_that_change_the_schema_at_once_take_turns(seed: int) -> None:
    results: list[DdlResult] = []

    async def main(world: World) -> None:
        def app(name: str) -> Callable[[Writer], Any]:
            async def work(client: Writer) -> None:
                await client.ddl("create database if not exists shop")
                for number in range(4):
                    results.append(await client.ddl(f"create table shop.{name}{number} (a int)"))
                    async with client.transaction() as txn:
                        txn.insert(f"shop.{name}{number}", {"a": number})

            return work

        shore = Shore(world)
        for name in ("one", "two", "three"):
            shore.start(name, app(name))
        await shore.read_until(lambda: len(shore.rows()) == 12)
        versions = sorted(result.schema_version for result in results)
        assert versions == list(range(2, 14))
        jobs = [job async for page in shore.history.jobs(0) for job in page]
        assert [job.version for job in jobs] == list(range(1, 14))
        ids = [i for job in jobs for i in (job.id, job.binlog and job.binlog.table_info)]
        assert len({getattr(i, "id", i) for i in ids}) == 13 + 12 + 1

    run(main, seed)


def test_a_job_that_somebody_else_had_kept_meanwhile_is_planned_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its ids are not ours to foresee: another kind of upstream may leave gaps."""
    append = EmbeddedHistory.append
    theirs = [msgspec.structs.replace(CREATE_SHOP, id=900, schema_id=901)]

    async def overtaken(self: Any, job: bytes, *, after: int | None = None) -> None:
        if theirs:
            await append(self, msgspec.json.encode(theirs.pop()))
        await append(self, job, after=after)

    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            await client.ddl("create database other")

        monkeypatch.setattr(EmbeddedHistory, "append", overtaken)
        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: bool(shore.queries()))
        kept = [(j.id, j.schema_id, j.version) async for p in shore.history.jobs(0) for j in p]
        assert kept == [(900, 901, 1), (902, 903, 2)]

    run(main)


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("pause_s", [5, 180])
def test_one_cancelled_while_its_decision_is_recorded_is_told_once(
    pause_s: float, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much later the next `ddl` or the next life asks what became of it, and however few
    decisions are kept, and for however short a time."""
    monkeypatch.setattr("tidelog.pump_client.decisions.decisions.KEEP_S", 60.0)
    monkeypatch.setattr("tidelog.pump_client.decisions.coordinator.SPARE_RECORDS", -1)
    append, cut, done = Journal.append, list[asyncio.Task[DdlResult]](), asyncio.Event()

    async def cancelled(self: Any, decisions: Any) -> None:
        while cut:
            cut.pop().cancel()
        await append(self, decisions)

    async def main(world: World) -> None:
        async def first(client: Writer) -> None:
            await client.ddl("create database shop")
            assert await client.flush(10)
            monkeypatch.setattr(Journal, "append", cancelled)
            task = asyncio.ensure_future(client.ddl("create table shop.a (id int)"))
            cut.append(task)
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.sleep(pause_s)
            async with client.transaction() as txn:
                txn.insert("shop.a", {"id": 1})
            assert await client.flush(10)
            if dies:
                monkeypatch.setattr("tidelog.pump_client.decisions.decisions.MAX_UNACKED", 1)
                node.kill()
            await second(client)

        async def second(client: Writer) -> None:
            await client.ddl("create table shop.b (id int)")
            done.set()

        shore = Shore(world)
        node = shore.start("app", first)
        if dies:
            await shore.world.until(lambda: node.kills == 1, pause_s + 60)
            shore.start("app", second)
        await shore.read_until(
            lambda: done.is_set() and any("shop.b" in query for query in shore.queries()),
            pause_s + 120,
        )
        assert [query.split()[2] for query in shore.queries()] == ["shop;", "shop.a", "shop.b"]

    run(main)


POINTS: dict[str, Callable[..., None]] = {
    "before the job": partial(before, owner=EmbeddedHistory, name="append", when=bool),
    "after the job": partial(after, owner=EmbeddedHistory, name="append", when=bool),
    "before the Prewrite": partial(before, owner=PumpClient, when=lambda b: b.tp == 0),
    "after the Prewrite": partial(after, owner=PumpClient, when=lambda b: b.tp == 0),
    # The Pumps ask the same oracle, so its own call would be anybody's.
    "with a commit_ts": partial(before, owner=Upstream, name="_enter", when=bool),
    "before the decision": partial(before, owner=Journal, name="append", when=bool),
    "after the decision": partial(after, owner=Journal, name="append", when=bool),
    "before the Commit": partial(before, owner=PumpClient, when=lambda b: b.tp == 1),
    "before it is forgotten": partial(
        before, owner=SchemaChanger, name="_clear", when=lambda: True
    ),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    "query", ["alter table shop.t add column c int", "alter table shop.t drop b"]
)
def test_a_change_that_died_half_way_is_finished_in_the_next_life(
    point: str, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers hear of it exactly once, and before rows that need it."""

    async def main(world: World) -> None:
        async def first(client: Writer) -> None:
            await client.ddl("create database shop")
            await client.ddl(CREATE)
            assert await client.flush(10)
            POINTS[point](patch=monkeypatch, hit=[node])
            await client.ddl(query)

        async def second(client: Writer) -> None:
            async with client.transaction() as txn:
                txn.insert("shop.t", {"id": 1})
            await client.ddl("create database after_all")

        shore = Shore(world)
        node = world.node("app")
        shore.start("app", first)
        await world.until(lambda: node.kills == 1, 60)
        await world.sleep(2)
        shore.start("app", second)
        await shore.read_until(lambda: "create database after_all;" in shore.queries(), 60)
        await shore.read_up_to_now()
        kinds = [(ddl.kind, ddl.schema_version) for c in shore.changes for ddl in c.ddls]
        assert len(kinds) == len(set(kinds)) == 4
        (rows,) = shore.rows().values()
        assert rows[0][2] == (
            {"id": 1, "a": None, "b": None, "c": None} if "add" in query else {"id": 1, "a": None}
        )

    run(main)


def test_a_change_that_was_cancelled_is_finished_by_the_next() -> None:
    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            await client.ddl("create database shop")
            for pump in shore.pumps:
                pump.partition(cut=True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(20):
                    await client.ddl(CREATE)
            for pump in shore.pumps:
                pump.partition(cut=False)
            await client.ddl("create database other")

        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: "create database other;" in shore.queries(), 300)
        assert shore.queries() == ["create database shop;", CREATE + ";", "create database other;"]

    run(main)


@pytest.mark.parametrize("error", [Refused("no more are kept"), BadInput("it is too long")])
def test_a_change_that_the_registry_refuses_is_over(
    error: TidelogError, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, refusals = EmbeddedHistory.append, [error]

    async def refused(self: Any, job: bytes, *, after: int | None = None) -> None:
        if refusals:
            raise refusals.pop()
        await append(self, job, after=after)

    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            with pytest.raises(type(error), match=error.message):
                await client.ddl("create database shop")
            await client.ddl("create database other")

        monkeypatch.setattr(EmbeddedHistory, "append", refused)
        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: bool(shore.queries()))
        assert shore.queries() == ["create database other;"]
        assert world.node("app").failures == []

    run(main)


def test_a_refused_change_that_stays_noted_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """A next life would go on with it."""
    append = EmbeddedHistory.append

    async def main(world: World) -> None:
        node = world.node("app")

        async def refused(self: Any, job: bytes, *, after: int | None = None) -> None:
            if not shore.queries():
                node.disk.fail_nth(1)
                raise Refused("no more are kept")
            await append(self, job, after=after)

        async def app(client: Writer) -> None:
            with pytest.raises(CommitUnknown, match="no more are kept"):
                await client.ddl("create database shop")
            monkeypatch.setattr(EmbeddedHistory, "append", append)
            await client.ddl("create database other")

        monkeypatch.setattr(EmbeddedHistory, "append", refused)
        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: bool(shore.queries()))
        assert shore.queries() == ["create database other;"]

    run(main)


@pytest.mark.parametrize("error", [DiskFull("no space left"), Forbidden("it may not")])
@pytest.mark.parametrize("died", [False, True])
def test_a_change_that_may_be_in_the_history_is_not_ended_by_a_refusal(
    error: TidelogError, died: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was kept, and its answer got lost, or who asked died: readers would never hear of it."""
    append, refusals = EmbeddedHistory.append, list[TidelogError]()
    lost = [] if died else [Unavailable("the answer got lost")]

    async def refused(self: Any, job: bytes, *, after: int | None = None) -> None:
        if refusals:
            raise refusals.pop()
        await append(self, job, after=after)
        if lost:
            refusals.append(error)
            raise lost.pop()

    async def main(world: World) -> None:
        async def shop(client: Writer) -> None:
            with pytest.raises(CommitUnknown, match=error.message):
                await client.ddl("create database shop")
            await after_all(client)

        async def after_all(client: Writer) -> None:
            await client.ddl("create database after_all")

        shore = Shore(world)
        node = world.node("app")
        monkeypatch.setattr(EmbeddedHistory, "append", refused)
        if died:
            after(monkeypatch, EmbeddedHistory, bool, [node], "append")
        shore.start("app", shop)
        if died:
            await world.until(lambda: node.kills == 1, 60)
            refusals.append(error)
            shore.start("app", after_all)
            await world.until(lambda: bool(node.failures), 60, "its end, before a next life")
            assert isinstance(node.failures[0], Refused)
            node.failures.clear()
        await shore.read_until(lambda: "create database after_all;" in shore.queries(), 120)
        assert shore.queries() == ["create database shop;", "create database after_all;"]

    run(main)


def test_a_registry_that_is_away_at_a_change_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    append, tries = EmbeddedHistory.append, list[bytes]()

    async def away(self: Any, job: bytes, *, after: int | None = None) -> None:
        tries.append(job)
        if len(tries) in (1, 3):
            raise Unavailable("no answer")
        await append(self, job, after=after)
        if len(tries) == 2:
            raise Unavailable("the answer got lost")

    async def main(world: World) -> None:
        async def app(client: Writer) -> None:
            await client.ddl("create database shop")

        monkeypatch.setattr(EmbeddedHistory, "append", away)
        shore = Shore(world)
        shore.start("app", app)
        await shore.read_until(lambda: bool(shore.queries()))
        assert tries == tries[:1] * 4
        assert len([job async for page in shore.history.jobs(0) for job in page]) == 1

    run(main)


def test_a_change_of_an_earlier_life_that_can_t_be_read_is_named() -> None:
    async def main(world: World) -> None:
        ports = world.node("app").ports()
        await ports.disk.write_file(PENDING_PATH, b"{")
        client = writer(ports.bus, ports.clock, ports.rng, ports.disk)
        for _ in range(2):  # the directory is free again
            with pytest.raises(Corrupt, match=f"{PENDING_PATH} can't be read") as refused:
                await client.__aenter__()
            assert "whether readers have the last one" in refused.value.hint

    run(main)


def test_a_job_of_an_earlier_release_stays_the_bytes_that_it_was() -> None:
    """A client that died half way says it again: the registry knows it by its bytes."""
    kept = (
        b'{"id":12,"type":4,"schema_id":1,"table_id":7,"schema_name":"shop","table_name":"t",'
        b'"state":6,"schema_state":5,"query":"DROP TABLE t;","binlog":{"SchemaVersion":7,'
        b'"DBInfo":null,"TableInfo":null,"FinishedTS":1099511627776,"MultipleTableInfos":null}}'
    )
    assert msgspec.json.encode(msgspec.json.decode(kept, type=DdlJob)) == kept
