"""The real tree on the simulator with transactions of many parts: whatever fails, and between which
parts, a reader gets each transaction whole and once; what finds no room waits and says so."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.drainer import fakes
from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import CODEC, DDLS, OneTable, trouble, txn
from tests.unit.drainer.test_stops import said
from tidelog import changes, subjects
from tidelog.change_reader import Change, ChangeReader
from tidelog.decode import survey
from tidelog.messages import Consumer
from tidelog.rows.values import Value
from tidelog.sim.nats import SimNats
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.spool import KEPT_FREE
from tidelog_drainer.publish import batcher
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, DeleteRow, Insert, PrewriteValue, TableMutation

CONFIG = DrainerConfig(
    node_id="d1",
    cluster=CLUSTER,
    feed=FEED,
    lease_s=1.0,
    spool_above=1000,
    batch_messages=3,
    batch_bytes=2000,
)
ROWS = 150
STREAM = subjects.changes_stream(FEED)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "FRAME", 700)
    monkeypatch.setattr(batcher, "MESSAGE_BYTES", 500)
    monkeypatch.setattr(survey, "SLICE_ROWS", 7)


def large(commit_ts: int, rows: int = ROWS) -> Txn:
    """Inserts of ids from 1000 * commit_ts on, the first two deleted again."""
    ids = [1000 * commit_ts + i for i in range(rows)]
    mutation = TableMutation(
        table_id=100,
        inserted_rows=[CODEC.encode_insert({"id": one}, one) for one in ids],
        deleted_rows=[CODEC.encode_delete({"id": one}, one) for one in ids[:2]],
        sequence=[*[Insert] * rows, *[DeleteRow] * 2],
    )
    value = PrewriteValue(schema_version=2, mutations=[mutation]).SerializeToString()
    binlog = Binlog(start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_value=value)
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


def ids_of(change: Change, commit_ts: int) -> list[tuple[str, Value]]:
    return [
        (event.op, (event.after or event.before or {})["id"])
        for rows in change.rows
        for event in rows.events
        if event.commit_ts == commit_ts
    ]


def expected(commit_ts: int, rows: int = ROWS) -> list[tuple[str, Value]]:
    ids: list[Value] = [1000 * commit_ts + i for i in range(rows)]
    return [("c", one) for one in ids] + [("d", one) for one in ids[:2]]


async def begin(world: World) -> tuple[FakeRegistry, list[FakePump]]:
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    pumps = [await registry.pump("p1"), await registry.pump("p2")]
    registry.consumers = [Consumer("reader", FEED, 0)]
    return registry, pumps


async def under_way(world: World, second_ts: int = 10) -> tuple[Node, list[FakePump]]:
    """Published up to 10; the second Pump has nothing up to `second_ts`."""
    _, pumps = await begin(world)
    node = world.node("drainer")
    node.start(build, CONFIG)
    pumps[0].commit([*DDLS, txn(10)], 10)
    pumps[1].commit([], second_ts)
    await world.until(lambda: said(node).get("published_ts", 0) >= 10, 30, "the feed")
    return node, pumps


def abandoned(nats: SimNats) -> int:
    """Attempts in the stream that no marker ends, and another attempt follows."""
    seen: list[str] = []
    marked = set()
    for slot in nats.streams[STREAM].slots:
        if slot is None:
            continue
        attempt = slot.message.headers[changes.H_ATTEMPT]
        if not seen or seen[-1] != attempt:
            seen.append(attempt)
        if ".row." not in slot.message.subject:
            marked.add(attempt)
    return sum(attempt not in marked for attempt in seen[:-1])


async def read_all(world: World, wanted: int, timeout_s: float = 300) -> list[Change]:
    reader = ChangeReader(world.ports().bus, FEED, 0)
    found: list[Change] = []
    end = world.loop.time() + timeout_s
    while sum(len(change.txns) for change in found) < wanted:
        assert world.loop.time() < end, f"{len(found)} changes"
        found += [change for change in await reader.next(0.5) if change.txns]
    await reader.close()
    return found


def check(found: list[Change], times: list[int], sizes: dict[int, int]) -> None:
    assert [one.commit_ts for change in found for one in change.txns] == times
    for change in found:
        for one in change.txns:
            if one.commit_ts in sizes:
                assert ids_of(change, one.commit_ts) == expected(
                    one.commit_ts, sizes[one.commit_ts]
                )
                assert len(change.txns) == 1


async def load(world: World, pumps: list[FakePump]) -> tuple[list[int], dict[int, int]]:
    """Small transactions, and large ones among them, on both Pumps; some on both."""
    rng = world.random("workload")
    pumps[0].commit(DDLS, 4)
    times, sizes = [2, 4], {}
    ts = 10
    for _ in range(60):
        ts += rng.randrange(2, 9)
        times.append(ts)
        made = txn(ts)
        if rng.random() < 0.3:
            sizes[ts] = rng.randrange(100, 400)
            made = large(ts, sizes[ts])
        which = rng.randrange(2)
        pumps[which].commit([made], ts)
        if rng.random() < 0.2:
            pumps[1 - which].commit([made], ts)
        await world.sleep(rng.random() * 0.3)
    return times, sizes


@pytest.mark.parametrize("seed", range(6))
def test_each_whole_and_once_whatever_fails(seed: int) -> None:
    async def main(world: World) -> None:
        registry, pumps = await begin(world)
        world.node("drainer").start(build, CONFIG)
        failing = asyncio.get_running_loop().create_task(trouble(world, registry))
        times, sizes = await load(world, pumps)
        await failing
        world.net.heal()
        check(await read_all(world, len(times)), times, sizes)

    run(main, f"large-{seed}")


@pytest.mark.parametrize("seed", range(3))
def test_killed_between_the_parts(seed: int) -> None:
    """Again and again in the middle of an attempt: what a reader had of it is thrown away."""

    async def main(world: World) -> None:
        _, pumps = await begin(world)
        node = world.node("drainer")
        node.start(build, CONFIG)
        rng = world.random("kills")
        loading = asyncio.get_running_loop().create_task(load(world, pumps))
        kills = 0
        while kills < 12 and not loading.done():
            stream = world.nats.streams.get(STREAM)
            newest = stream.slots[-1] if stream is not None and stream.slots else None
            if newest is not None and ".row." in newest.message.subject:
                await world.sleep(rng.random() * 0.002)
                node.kill(restart_after_s=rng.random() * 0.2)
                kills += 1
                await world.sleep(0.3)
            await world.sleep(0.0005)
        times, sizes = await loading
        check(await read_all(world, len(times)), times, sizes)
        assert abandoned(world.nats) >= 2

    run(main, f"parts-{seed}")


def test_a_full_disk_is_waited_for_and_named() -> None:
    async def main(world: World) -> None:
        node, pumps = await under_way(world)
        node.disk.faults.capacity = node.disk.used() + KEPT_FREE + 50
        pumps[0].commit([large(20), txn(30)], 30)
        pumps[1].commit([txn(25)], 30)

        def source() -> dict[str, object]:
            return node.service.status()["collector"]["sources"]["p1"]  # type: ignore[no-any-return]

        await world.until(lambda: "finds no room" in str(source().get("error")), 30, "the error")
        assert "transaction 20" in str(source()["error"])
        assert "data-dir" in str(source()["error"])
        await world.sleep(10)
        assert said(node)["published_ts"] < 20
        node.disk.faults.capacity = 1 << 40
        found = await read_all(world, 6)
        check(found, [2, 4, 10, 20, 25, 30], {20: ROWS})
        assert "error" not in source()

    run(main, 1)


def test_a_full_stream_is_waited_for_and_named() -> None:
    """The collector takes no more than its buffers hold, and all goes on when there is room."""

    async def main(world: World) -> None:
        node, pumps = await under_way(world)
        world.nats.streams[STREAM].full = True
        pumps[0].commit([large(20), txn(30)], 30)
        pumps[1].commit([], 30)
        await world.until(lambda: "max_file_store" in said(node)["waiting"], 30, "the wait")
        assert said(node)["not_ready"] == ""
        await world.sleep(20)
        world.nats.streams[STREAM].full = False
        check(await read_all(world, 5), [2, 4, 10, 20, 30], {20: ROWS})
        await world.until(lambda: said(node)["waiting"] == "", 30, "no wait")

    run(main, 1)


def test_a_stream_that_one_transaction_overflows_stops_typed() -> None:
    async def main(world: World) -> None:
        node, pumps = await under_way(world, 40)
        stream = world.nats.streams[STREAM]
        stream.config = type(stream.config)(
            stream.config.name, stream.config.subjects, max_bytes=12_000
        )
        node.kill(restart_after_s=0.1)
        pumps[0].commit([txn(19), large(20, 300), txn(30)], 30)
        await world.until(lambda: bool(said(node).get("error")), 30, "the stop")
        assert "changes-max-bytes" in said(node)["error"]
        assert said(node)["published_ts"] == 19
        stream.config = type(stream.config)(
            stream.config.name, stream.config.subjects, max_bytes=1 << 30
        )
        node.kill(restart_after_s=0.1)
        reader = ChangeReader(world.ports().bus, FEED, 19)
        found: list[Change] = []
        while sum(len(change.txns) for change in found) < 2:
            found += [change for change in await reader.next() if change.txns]
        await reader.close()
        check(found, [20, 30], {20: 300})

    run(main, 1)


def test_a_row_that_is_damaged_stops_the_feed_in_front_of_it() -> None:
    """What readers have of that attempt stays without a marker; what came before it is whole."""

    async def main(world: World) -> None:
        _, pumps = await begin(world)
        node = world.node("drainer")
        node.start(build, CONFIG)
        commit_ts, start_ts, payload = large(20)
        assert isinstance(payload, bytes)
        binlog = Binlog.FromString(payload)
        value = PrewriteValue.FromString(binlog.prewrite_value)
        value.mutations[0].inserted_rows[140] = b"\xff"
        binlog.prewrite_value = value.SerializeToString()
        pumps[0].commit([*DDLS, large(10), (20, start_ts, binlog.SerializeToString())], commit_ts)
        pumps[1].commit([], 30)
        await world.until(lambda: bool(said(node).get("error")), 30, "the stop")
        assert "inserted_rows[140]" in said(node)["error"]
        assert said(node)["published_ts"] == 10
        check(await read_all(world, 3), [2, 4, 10], {10: ROWS})

    run(main, 1)


def test_bytes_that_are_no_binlog_stop_the_feed_in_front_of_them() -> None:
    async def main(world: World) -> None:
        _, pumps = await begin(world)
        node = world.node("drainer")
        node.start(build, CONFIG)
        pumps[0].commit([*DDLS, large(10), (20, 19, b"\x2a\xff\xff\x03" + b"x" * 3000)], 20)
        pumps[1].commit([], 30)
        await world.until(lambda: bool(said(node).get("error")), 30, "the stop")
        assert "transaction 20: its bytes are no binlog" in said(node)["error"]
        assert said(node)["published_ts"] == 10
        check(await read_all(world, 3), [2, 4, 10], {10: ROWS})

    run(main, 1)
