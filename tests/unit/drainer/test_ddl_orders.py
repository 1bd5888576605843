"""A DDL nobody decided about: the feed waits at it, and goes on by an operator's word (T10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, TABLE, txn
from tests.unit.drainer.test_stops import CONFIG, begin, everything, said, written
from tidelog import messages, subjects
from tidelog.drainer_control import NOTED_KEY, ORDERS_KEY, DrainerRequest, FeedDdls, NotedDdls
from tidelog.errors import BadInput, Corrupt, Refused
from tidelog.kv import Bucket
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import ColumnInfo, DBInfo, DdlJob, FieldType, HistoryInfo, Name, TableInfo
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.schema.errors import HistoryTooShort
from tidelog_drainer.schema.store import SchemaStore
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, Insert, TableMutation

UNKNOWN, AT = "unknown_999", 20
WIDER = msgspec.structs.replace(
    TABLE, cols=(*TABLE.columns, ColumnInfo(2, Name("n", "n"), 1, FieldType(8, 0)))
)


def job(number: int, kind: int, info: TableInfo | None = None) -> DdlJob:
    history = HistoryInfo(number, table_info=info, finished_ts=100 * number)
    return DdlJob(number, kind, 9, 100, "app", "t", query=f"ALTER TABLE t {number}", binlog=history)


class Future:
    """A history with job types of a TiDB that is newer than we are."""

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        schema = HistoryInfo(1, DBInfo(9, Name("app", "app")), finished_ts=100)
        made = [
            DdlJob(1, 1, 9, 0, "app", binlog=schema),
            job(2, 3, TABLE),
            job(3, 999, WIDER),
            job(4, 999, WIDER),
        ]
        yield [one for one in made if one.id > after_job_id]


def ddl(commit_ts: int, number: int) -> Txn:
    query = f"ALTER TABLE t {number}".encode()
    binlog = Binlog(start_ts=commit_ts - 1, commit_ts=commit_ts, ddl_query=query)
    binlog.ddl_job_id, binlog.ddl_schema_state = number, 5
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


def wide(commit_ts: int) -> Txn:
    """A row that has the new column already."""
    row = TableCodec(WIDER).encode_insert({"id": commit_ts, "n": 7}, commit_ts)
    mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
    return written(commit_ts, [mutation], 3)


async def order(world: World, verb: str, node: str = "d1", **asked: Any) -> FeedDdls:
    subject = subjects.drainer(CLUSTER, node, "control")
    body = messages.encode(DrainerRequest(verb, **asked))
    answer = await world.ports().bus.request(subject, body, timeout_s=5)
    return messages.decode_reply(answer.data, FeedDdls)


async def stopped(
    world: World, front: list[Txn], config: DrainerConfig = CONFIG
) -> tuple[FakeRegistry, FakePump]:
    """A feed that stands at AT, with a transaction behind it."""
    world.open_ddl_history = lambda url, bus: Future()
    registry, pump = await begin(world, config)
    pump.commit([*DDLS, txn(10), *front, txn(30)], 30)
    await stands(world)
    assert await everything(world) == [2, 4, 10]
    return registry, pump


async def stands(world: World) -> None:
    node = world.node("drainer")
    await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
    await world.sleep(1)  # a position is told at once; who serves, the server learns a moment later


async def again(world: World) -> None:
    """Power loss, and the next life has begun."""
    node = world.node("drainer")
    before = node.service
    node.kill()
    node.restart()
    await world.until(lambda: node.service is not before, 10, "the next life")


async def published(node: Node, world: World, commit_ts: int) -> None:
    await world.until(lambda: said(node).get("published_ts", 0) >= commit_ts, 60, "the feed")
    assert said(node)["error"] == said(node)["not_ready"] == ""


def test_it_stands_there_and_names_the_command_and_no_crash_loop_follows() -> None:
    async def main(world: World) -> None:
        await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        for life in (1, 2, 3):
            await stands(world)
            assert f"`tidelog ddl pass {FEED} {AT}`" in said(node)["error"]
            assert f"`tidelog ddl policy {FEED} {UNKNOWN}=skip`" in said(node)["error"]
            assert said(node)["not_ready"] == said(node)["error"]
            at = (await order(world, "ddls")).stands_at
            assert at is not None
            assert (at.commit_ts, at.job_id, at.kind) == (AT, 3, UNKNOWN)
            assert (at.db, at.query) == ("app", "ALTER TABLE t 3")
            await world.sleep(30)
            assert (node.starts, node.failures) == (life, [])
            await again(world)
        assert await everything(world) == [2, 4, 10]

    run(main, 1)


@pytest.mark.parametrize(("verb", "wanted"), [("ddl-skip", []), ("ddl-pass", [AT])])
def test_by_an_order_the_same_process_goes_on_and_its_next_lives_do(
    verb: str, wanted: list[int]
) -> None:
    async def main(world: World) -> None:
        registry, _ = await stopped(world, [ddl(AT, 3), txn(24)])
        node = world.node("drainer")
        for _ in range(2):  # its answer may have been lost
            answer = await order(world, verb, ts=AT)
            assert answer.stands_at is None
        await published(node, world, 30)
        assert node.starts == 1
        assert await everything(world) == [2, 4, 10, *wanted, 24, 30]
        world.nats.delete_store()  # all is met again
        await registry.again()
        await again(world)
        await published(node, world, 30)
        assert await everything(world) == [2, 4, 10, *wanted, 24, 30]
        found = await order(world, "ddls")
        assert [(one.commit_ts, one.why) for one in found.ddls] == [
            (AT, "ddl_order") for _ in range(not wanted)
        ]

    run(main, 1)


def test_an_order_holds_for_a_life_that_never_heard_it_and_for_another_drainer() -> None:
    async def main(world: World) -> None:
        _, pump = await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        await order(world, "ddl-policy", kind=UNKNOWN, action="skip")
        await again(world)
        await published(node, world, 30)
        node.kill()
        other = world.node("other")
        other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        pump.commit([ddl(40, 4), txn(50)], 50)
        await published(other, world, 50)
        assert await everything(world) == [2, 4, 10, 30, 50]
        found = await order(world, "ddls", node="d2")
        assert found.policy == {UNKNOWN: "skip"}
        assert [(one.commit_ts, one.why) for one in found.ddls] == [
            (AT, "ddl_policy"),
            (40, "ddl_policy"),
        ]

    run(main, 1)


def test_a_policy_is_undone_and_configuration_holds_again() -> None:
    async def main(world: World) -> None:
        _, pump = await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        await order(world, "ddl-policy", kind=UNKNOWN, action="forward")
        await published(node, world, 30)
        await Bucket(world.ports().bus, subjects.ddl_bucket(FEED)).delete(ORDERS_KEY)
        assert (await order(world, "ddl-policy", kind=UNKNOWN)).policy == {}
        pump.commit([ddl(40, 4)], 40)
        await stands(world)
        assert (await everything(world))[-2:] == [AT, 30]

    run(main, 1)


def test_a_ddl_found_early_is_asked_about_at_the_transaction_that_needs_it() -> None:
    async def main(world: World) -> None:
        await stopped(world, [wide(AT), ddl(24, 3)])
        node = world.node("drainer")
        assert said(node)["published_ts"] == 10
        await order(world, "ddl-pass", ts=AT)
        await published(node, world, 30)
        assert await everything(world) == [2, 4, 10, AT, 30]
        assert said(node)["dropped"] == {"early": 1}

    run(main, 1)


def test_orders_that_mean_nothing_are_refused() -> None:
    async def main(world: World) -> None:
        await stopped(world, [ddl(AT, 3)])
        with pytest.raises(Refused, match=f"stands at {AT}"):
            await order(world, "ddl-skip", ts=30)
        for wrong in ({"kind": UNKNOWN, "action": "jump"}, {"action": "skip"}):
            with pytest.raises(BadInput, match="KIND="):
                await order(world, "ddl-policy", **wrong)
        with pytest.raises(BadInput, match="nearest is 'truncate_table'"):
            await order(world, "ddl-policy", kind="trunctate table", action="skip")
        with pytest.raises(BadInput, match="ddl-policy"):
            await order(world, "sing")
        await order(world, "ddl-skip", ts=AT)
        await published(world.node("drainer"), world, 30)
        with pytest.raises(Refused, match="stands at no DDL"):
            await order(world, "ddl-pass", ts=AT)

    run(main, 1)


@pytest.mark.parametrize("seed", range(6))
def test_under_lost_answers_an_order_is_kept_or_said_to_be_unknown(seed: int) -> None:
    """Whatever the operator was told, repeating the order ends in the feed going on."""

    async def main(world: World) -> None:
        await stopped(world, [ddl(AT, 3)])
        node = world.node("drainer")
        world.net.unknown, world.net.loss = 0.4, 0.2
        while said(node).get("published_ts", 0) < 30:
            try:
                await order(world, "ddl-skip", ts=AT)
            except Refused as refused:
                raise AssertionError("it was kept, and known") from refused
            except Exception:  # noqa: BLE001
                await world.sleep(0.5)
            if world.random("kill").random() < 0.3:
                await again(world)
            await world.sleep(1)
        world.net.heal()
        await published(node, world, 30)
        assert await everything(world) == [2, 4, 10, 30]
        found = await order(world, "ddls")
        assert [one.commit_ts for one in found.decided] == [AT]
        assert [one.commit_ts for one in found.ddls] == [AT]

    run(main, seed)


def test_the_list_is_bounded_and_the_bucket_does_not_grow() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Many()
        _, pump = await begin(world, CONFIG)
        pump.commit([*DDLS, *(ddl(100 + n, 10 + n) for n in range(Many.count))], 1000)
        await published(world.node("drainer"), world, 100 + Many.count - 1)
        found = await order(world, "ddls")
        assert len(found.ddls) == 100
        assert found.older == {"ddl_policy": Many.count - 100}
        assert found.ddls[-1].commit_ts == 100 + Many.count - 1
        state = await Bucket(world.ports().bus, subjects.ddl_bucket(FEED)).state()
        assert state is not None
        assert state.messages == 1

    run(main, 1)


class Many(Future):
    count = 250

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        async for page in super().jobs(after_job_id):
            yield [one for one in page if one.id < 3]
        made = [job(10 + n, 57) for n in range(self.count)]  # cache_table
        made = [msgspec.structs.replace(one, binlog=HistoryInfo(one.id)) for one in made]
        yield [one for one in made if one.id > after_job_id]


def _published(node: Node, ts: int) -> bool:
    return bool(said(node).get("published_ts", 0) >= ts)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_noted_while_the_last_is_written_is_written_with_the_next(seed: int) -> None:
    """DDLs that are dropped, pairs a moment apart: each is kept before the stream passes it."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Future()
        _, pump = await begin(world)
        node, rng = world.node("drainer"), world.random("pairs")
        pump.commit(DDLS, 4)
        for ts in range(10, 210, 4):
            binlog = Binlog(start_ts=ts - 1, commit_ts=ts, ddl_query=b"SELECT SETVAL(s, 1)")
            binlog.ddl_job_id, binlog.ddl_schema_state = 1000 + ts, 5
            pump.commit([(ts, ts - 1, binlog.SerializeToString()), txn(ts + 2)], ts + 2)
            if ts % 8 == 2:
                await world.sleep(rng.random() * 0.02)
                continue
            published = partial(_published, node, ts + 2)
            await world.until(published, 60, "all")
            await world.sleep(5)
            entry = await Bucket(world.ports().bus, subjects.ddl_bucket(FEED)).get(NOTED_KEY)
            assert entry is not None
            kept = msgspec.json.decode(entry.value, type=NotedDdls)
            assert [one.commit_ts for one in kept.ddls][-2:] == [ts - 4, ts]

    run(main, seed)


def test_an_order_does_not_end_another_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema can't be kept, which is found while the feed stands at a DDL."""
    failing: list[int] = []

    async def keep(store: SchemaStore, passed_ts: int, *_: object) -> None:
        failing.append(passed_ts)
        await asyncio.sleep(3)
        raise HistoryTooShort("the DDL history begins at job 7, it began at 1")

    monkeypatch.setattr(SchemaStore, "keep", keep)

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Future()
        _, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 10)
        await world.until(lambda: bool(failing), 60, "the schema to be kept")
        pump.commit([ddl(AT, 3), txn(30)], 30)
        await world.until(lambda: bool(said(node).get("error")), 30, "the DDL")
        await world.until(lambda: "begins at job 7" in said(node)["error"], 30, "the other stop")
        await order(world, "ddl-skip", ts=AT)
        await world.sleep(10)
        assert "begins at job 7" in said(node)["error"]
        assert said(node)["published_ts"] == 10

    run(main, 1)


@pytest.mark.parametrize("key", [ORDERS_KEY, NOTED_KEY])
def test_what_cannot_be_read_in_the_bucket_is_named(key: str) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Future()
        bucket = Bucket(world.ports().bus, subjects.ddl_bucket(FEED))
        await bucket.create()
        await bucket.put(key, b"x")
        await begin(world)
        node = world.node("drainer")
        await world.until(lambda: bool(node.failures), 30, "the refusal")
        (error,) = node.failures[:1]
        assert isinstance(error, Corrupt)
        assert f"{key} in bucket {bucket.name}" in error.message
        assert f"nats kv del {bucket.name} {key}" in error.hint

    run(main, 1)
