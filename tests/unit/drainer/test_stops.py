"""A typed stop: what stands in front of it is published, its position told, no join waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, TABLE, OneTable, txn
from tests.unit.registry import nodes as scripts
from tidelog import messages, subjects
from tidelog.change_reader import ChangeReader
from tidelog.ddl_history import FileHistory
from tidelog.errors import ConfigError, Corrupt, Forbidden, TidelogError, Unavailable
from tidelog.messages import ONLINE, Consumer, Empty, PumpOnline
from tidelog.ports import Message
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import DdlJob
from tidelog.sealed import unseal
from tidelog.sim.bus import SimBus
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.sources import SOURCES_FILE, Kept
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation
from tidelog_registry import service as registry_service
from tidelog_registry.config import RegistryConfig

CONFIG = DrainerConfig(node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=1.0)
BAD_TS = 5000


@pytest.fixture(autouse=True)
def _logs_are_kept() -> Iterator[None]:
    """Whatever earlier tests of this process silenced."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


def written(commit_ts: int, mutations: list[TableMutation], schema_version: int = 2) -> Txn:
    value = PrewriteValue(schema_version=schema_version, mutations=mutations).SerializeToString()
    start_ts = commit_ts - 1
    binlog = Binlog(start_ts=start_ts, commit_ts=commit_ts, prewrite_value=value)
    return commit_ts, start_ts, binlog.SerializeToString()


def stranger(commit_ts: int) -> Txn:
    """A row of a table that no history knows."""
    row = TableCodec(TABLE).encode_insert({"id": 1}, 1)
    mutation = TableMutation(table_id=999, inserted_rows=[row], sequence=[Insert])
    return written(commit_ts, [mutation])


class Removed(OneTable):
    """A file that is taken away once it was read."""

    def __init__(self) -> None:
        self.reads = 0

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        self.reads += 1
        if self.reads > 1:
            raise ConfigError("the DDL history can't be read")
        async for page in super().jobs(after_job_id):
            yield page


async def begin(world: World, config: DrainerConfig = CONFIG) -> tuple[FakeRegistry, FakePump]:
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    registry.consumers = [Consumer("reader", FEED, 0)]
    pump = await registry.pump("p1")
    world.node("drainer").start(build, config)
    return registry, pump


def said(node: Node, actor: str = "publisher") -> dict[str, Any]:
    if not node.running or node.service is None:
        return {}
    found: dict[str, Any] = node.service.status().get(actor, {})
    return found


async def everything(world: World, after_ts: int = 0) -> list[int]:
    """The commit_ts of all that stands in the stream, read until nothing comes."""
    reader = ChangeReader(world.ports().bus, FEED, after_ts)
    found: list[int] = []
    quiet = 0
    while quiet < 4:
        changes = await reader.next(0.5)
        quiet = 0 if any(change.txns for change in changes) else quiet + 1
        found.extend(one.commit_ts for change in changes for one in change.txns)
    await reader.close()
    return found


BAD = {
    "no binlog": ((BAD_TS, BAD_TS - 1, b"\x08\x01junk"), OneTable),
    "unknown table": (stranger(BAD_TS), OneTable),
    "history gone": (stranger(BAD_TS), Removed),
}


@pytest.mark.parametrize("batch_messages", [2, 1000])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("what", BAD)
def test_what_was_acked_in_front_of_a_bad_transaction_is_published(
    what: str, dropped: bool, batch_messages: int
) -> None:
    """All of it came in one pull. A dropped transaction in between moves the position, too."""
    bad, history = BAD[what]
    good = [txn(ts) for ts in range(10, 610, 2)]
    front = [*DDLS, *good, *([written(700, [])] if dropped else [])]

    async def main(world: World) -> None:
        made = history()
        world.open_ddl_history = lambda url, bus: made
        _, pump = await begin(world, msgspec.structs.replace(CONFIG, batch_messages=batch_messages))
        node = world.node("drainer")
        pump.commit([*front, bad, txn(BAD_TS + 2)], BAD_TS + 2)
        with capture_logs() as logs:
            await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
        assert await everything(world) == [ts for ts, _, _ in [*DDLS, *good]]
        assert said(node)["published_ts"] == front[-1][0]
        assert f"transaction {BAD_TS}" in said(node)["error"]
        assert said(node)["not_ready"] == said(node)["error"]
        (line,) = [line for line in logs if line["event"] == "the feed stops"]
        assert (line["commit_ts"], line["published_ts"]) == (BAD_TS, front[-1][0])
        assert line["kind"] == "Undecodable"
        assert (node.starts, node.failures) == (1, [])

    run(main, 1)


def test_a_restart_stops_at_the_same_place_and_repeats_nothing() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        _, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10), BAD["no binlog"][0]], BAD_TS)
        for _ in range(2):
            await world.until(lambda: bool(said(node).get("error")), 30, "the stop")
            assert said(node)["published_ts"] == 10
            node.kill()
            node.restart()
        assert await everything(world) == [2, 4, 10]

    run(main, 1)


def test_a_stream_lost_while_the_stop_waits_is_filled_up_to_it() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        await world.until(lambda: bool(said(node).get("sequence")), 30, "the beginning")
        world.net.loss = 0.5
        world.nats.delete_store()
        pump.commit([*DDLS, txn(10), BAD["no binlog"][0]], BAD_TS)
        await world.sleep(1)
        await registry.again()
        world.net.heal()
        await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
        assert await everything(world) == [2, 4, 10]

    run(main, 1)


# Joins (I4): a Drainer without a merge passes nobody.


async def joins(world: World, node: str, timeout_s: float = 2.0) -> None:
    subject = subjects.drainer(CLUSTER, "d1", "pump-online")
    body = messages.encode(PumpOnline(node))
    answer = await world.ports().bus.request(subject, body, timeout_s=timeout_s)
    messages.decode_reply(answer.data, Empty)


def remembered(node: Node) -> dict[str, int | None]:
    return unseal(node.ports().disk.read_file(SOURCES_FILE), Kept).pumps


async def unplaced(world: World) -> tuple[FakeRegistry, FakePump]:
    """A feed that was pulled once, and of which neither a stream nor a reader is left."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    pump = await registry.pump("p1")
    pump.after_ts[FEED] = 77
    world.node("drainer").start(build, CONFIG)
    await world.until(lambda: bool(said(world.node("drainer")).get("error")), 30, "the stop")
    return registry, pump


def test_a_feed_that_stopped_at_its_start_keeps_nobody_from_joining_and_forgets_nobody() -> None:
    async def main(world: World) -> None:
        registry, _ = await unplaced(world)
        node = world.node("drainer")
        await joins(world, "p8")
        await asyncio.gather(joins(world, "p9"), joins(world, "p8"))
        assert set(remembered(node)) == {"p8", "p9"}
        assert said(node, "collector")["state"] == "no merge: the feed stopped"
        node.kill()
        node.restart()
        await world.until(lambda: bool(said(node).get("error")), 30, "the stop again")
        await world.until(lambda: "state" in said(node, "collector"), 10, "the collector")
        await world.sleep(1)
        await joins(world, "p10")
        assert set(remembered(node)) == {"p8", "p9", "p10"}
        # Mended. No bucket tells of these Pumps, as if it had been lost: they are waited for.
        registry.consumers = [Consumer("reader", FEED, 0)]
        node.kill()
        node.restart()
        await world.until(lambda: bool(said(node, "collector").get("sources")), 30, "the merge")
        await world.sleep(3)
        assert {"p1", "p8", "p9", "p10"} == set(said(node, "collector")["sources"])
        assert said(node, "collector")["emitted_ts"] == 0
        # A tombstone takes one out.
        for gone in ("p8", "p9", "p10"):
            await registry.record(gone, "offline")
        await world.until(
            lambda: set(said(node, "collector")["sources"]) == {"p1"}, 30, "the tombstones"
        )

    run(main, 1)


def test_a_feed_that_stopped_on_its_way_keeps_nobody_from_joining() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        _, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, BAD["no binlog"][0]], BAD_TS)
        await world.until(lambda: bool(said(node).get("error")), 30, "the stop")
        assert remembered(node) == {"p1": None}
        await joins(world, "p9")
        assert set(remembered(node)) == {"p1", "p9"}

    run(main, 1)


def test_while_the_position_is_not_known_a_pump_is_kept_for_the_merge() -> None:
    """Where a feed begins was decided when it was created: no join changes that."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry = FakeRegistry(world.ports().bus)
        await registry.start()
        registry.settled = False
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.sleep(3)
        assert "the feed has not begun" in said(node)["not_ready"]
        for _ in range(2):
            await joins(world, "p9")
        assert remembered(node) == {"p9": None}
        registry.settled = True
        await world.until(lambda: bool(said(node, "collector").get("sources")), 30, "the merge")
        assert "p9" in said(node, "collector")["sources"]

    run(main, 1)


class Silent(OneTable):
    """A TiDB that doesn't answer until it is `back`."""

    back = False

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        if not self.back:
            raise Unavailable("no TiDB answers")
        async for page in super().jobs(after_job_id):
            yield page


def test_an_unreachable_history_keeps_nobody_from_joining() -> None:
    async def main(world: World) -> None:
        made = Silent()
        world.open_ddl_history = lambda url, bus: made
        _, pump = await begin(world)
        node = world.node("drainer")
        await world.sleep(5)
        await joins(world, "p9")
        assert "no TiDB answers" in said(node)["not_ready"]
        assert {"p1", "p9"} == set(said(node, "collector")["sources"])
        pump.commit([*DDLS, txn(10)], 10)
        other = FakePump(world.ports().bus, "p9")
        await other.start()
        other.commit([txn(12)], 12)
        await world.sleep(5)
        made.back = True
        await world.until(lambda: said(node)["published_ts"] >= 10, 30, "the feed")
        assert said(node)["not_ready"] == ""
        assert (await everything(world))[:3] == [2, 4, 10]

    run(main, 1)


def test_the_registry_lets_a_new_pump_in_beside_a_feed_that_stopped() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        cluster = scripts.CLUSTER
        world.node("r").start(registry_service.build, RegistryConfig(cluster=cluster))
        old = scripts.pump("p1")
        old.feeds = {FEED: 900}
        world.node("p1").start(scripts.build, old)
        await world.until(lambda: bool(old.told), 15, "the first Pump")
        drainer = world.node("drainer")
        drainer.start(build, msgspec.structs.replace(CONFIG, cluster=cluster))
        await world.until(lambda: bool(said(drainer).get("error")), 30, "the stop")
        new = scripts.pump("p2")
        world.node("p2").start(scripts.build, new)
        await world.until(lambda: bool(new.told), 15, "the second Pump")
        assert new.told[0][0] == ONLINE
        assert "p2" in remembered(drainer)
        alive = {n.nodeId for n in (await scripts.nodes(world.ports().bus)).nodes if n.isAlive}
        assert "d1" in alive

    run(main, 1)


# A wrong ddl-history.


class Broken(OneTable):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        if after_job_id >= 0:
            raise self._error
        yield []


@pytest.mark.parametrize("error", [ConfigError("can't be read"), Corrupt("holds something else")])
def test_a_wrong_file_of_jobs_ends_the_start(error: TidelogError) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Broken(error)
        await begin(world, msgspec.structs.replace(CONFIG, ddl_history="file:/nope"))
        node = world.node("drainer")
        await world.until(lambda: bool(node.failures), 10, "the refusal")
        assert [type(failure) for failure in node.failures] == [ConfigError]
        assert str(node.failures[0]).startswith(error.message)

    run(main, 1)


def test_a_file_that_is_not_there_is_named() -> None:
    async def main() -> None:
        async for _ in FileHistory("/nope").jobs(0):
            raise AssertionError("there is no such file")

    with pytest.raises(ConfigError, match="the DDL history /nope can't be read"):
        asyncio.run(main())


def test_rows_ahead_of_the_history_wait_once_for_each_version_and_are_counted() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        _, pump = await begin(world)
        row = TableCodec(TABLE).encode_insert({"id": 1}, 1)
        mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
        ahead = [written(ts, [mutation], 7) for ts in (10, 11)]
        pump.commit([*DDLS, *ahead, written(12, [mutation], 8)], 12)
        node = world.node("drainer")
        await world.until(lambda: said(node).get("published_ts", 0) >= 12, 30, "the feed")
        assert said(node)["schema"]["unknown_versions"] == 2

    run(main, 1)


def test_a_pump_that_may_not_be_asked_keeps_the_drainer_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever wrote the permissions forgot it: the feed waits for it, and says why."""
    denied = [False]
    request = SimBus.request

    async def asks(bus: SimBus, subject: str, data: bytes, **how: Any) -> Message:
        if denied[0] and subject.endswith(".p2.pull"):
            raise Forbidden(f"may not publish to {subject}")
        return await request(bus, subject, data, **how)

    monkeypatch.setattr(SimBus, "request", asks)

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        second = await registry.pump("p2")
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        second.commit([], 100)
        await world.until(lambda: said(node).get("published_ts", 0) >= 100, 30, "100")
        denied[0] = True
        await world.sleep(3)
        pump.commit([txn(120)], 200)
        await world.sleep(60)
        assert (node.starts, node.stopped) == (1, [])
        denied[0] = False
        second.commit([], 200)
        await world.until(lambda: said(node)["published_ts"] >= 200, 60, "200")

    run(main, 1)
