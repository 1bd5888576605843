"""Two Drainers of one feed: one leads, the other stands by and takes over; the stream stays whole.

Whatever happens to the leader, killed, frozen at any point and woken, cut off: each transaction
comes once, in order, each mark links to the one before, and nobody needs a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, remembered, said
from tidelog import changes, subjects
from tidelog.changes import Marker, Watermark
from tidelog.feeds import Feeds
from tidelog.kv import Bucket
from tidelog.lease import TAKEOVER_S
from tidelog.messages import CLOSING, OFFLINE, ONLINE, PAUSED, PAUSING, Consumer
from tidelog.ports import Outgoing
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.publish.beginning import FEED_FILE, FOLLOW_S
from tidelog_drainer.service import build, sources

CONFIGS = {name: msgspec.structs.replace(CONFIG, node_id=name) for name in ("d1", "d2")}
AIM_S = TAKEOVER_S + 1


def leads(node: Node) -> bool:
    return bool(said(node, "lease").get("leads"))


def goes_on(node: Node) -> bool:
    """It leads, and has begun to publish."""
    return leads(node) and not said(node)["not_ready"]


def leader(world: World) -> Node | None:
    return next((world.node(name) for name in CONFIGS if goes_on(world.node(name))), None)


def other(world: World, node: Node) -> Node:
    return next(world.node(name) for name in CONFIGS if name != node.name)


def stream(world: World) -> bool:
    """Is it there?"""
    return subjects.changes_stream(FEED) in world.nats.streams


def published(world: World) -> list[int]:
    """The commit_ts of all markers; each mark links to the marker before it."""
    found = [0]
    for slot in world.nats.streams[subjects.changes_stream(FEED)].slots:
        assert slot is not None
        message = slot.message
        if message.subject == subjects.changes_txn(FEED):
            marker = msgspec.json.decode(message.data, type=Marker)
            assert marker.prev_commit_ts == found[-1]
            found += [one.commit_ts for one in marker.txns]
        elif message.subject == subjects.changes_watermark(FEED):
            watermark = msgspec.json.decode(message.data, type=Watermark)
            assert watermark.prev_commit_ts == found[-1] <= watermark.resolved_ts
    return found[1:]


def writers(world: World) -> set[str]:
    """The Drainers that wrote what stands in the stream."""
    slots = world.nats.streams[subjects.changes_stream(FEED)].slots
    epochs = [slot.message.headers[changes.H_EPOCH] for slot in slots if slot is not None]
    return {epoch.partition(":")[2] for epoch in epochs}


class Scene:
    """d1 leads, d2 stands by; `times`: what the Pump has committed."""

    def __init__(self, world: World, registry: FakeRegistry, pump: FakePump) -> None:
        self.world, self.registry, self.pump = world, registry, pump
        self.times = [2, 4, 10]
        self.first, self.second = world.node("d1"), world.node("d2")

    @asynccontextmanager
    async def load(self, every_s: float = 0.05) -> AsyncIterator[None]:
        async def commit() -> None:
            while True:
                self.times.append(self.times[-1] + 2)
                self.pump.commit([txn(self.times[-1])], self.times[-1])
                await self.world.sleep(every_s)

        committing = asyncio.get_running_loop().create_task(commit())
        try:
            yield
        finally:
            committing.cancel()

    async def leads(self, node: Node, within_s: float = 30) -> float:
        """Virtual seconds until it leads and publishes."""
        began = self.world.loop.time()
        await self.world.until(lambda: goes_on(node), within_s, f"{node.name} leads")
        return self.world.loop.time() - began

    async def whole(self) -> None:
        """All arrives; one leads, the other one stands by, and none was ended."""
        last = self.times[-1]
        await self.world.until(lambda: published(self.world)[-1:] == [last], 60, "everything")
        await self.world.sleep(TAKEOVER_S + 2)
        assert published(self.world) == self.times
        assert [leads(self.first), leads(self.second)].count(True) == 1
        for node in (self.first, self.second):
            assert (node.failures, node.stopped) == ([], [])
            assert said(node)["error"] == said(node)["not_ready"] == ""
            assert bool(said(node, "lease")["standby"]) != leads(node)


async def scene(world: World) -> Scene:
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    registry.consumers = [Consumer("reader", FEED, 0)]
    pump = await registry.pump("p1")
    pump.commit([*DDLS, txn(10)], 10)
    made = Scene(world, registry, pump)
    made.first.start(build, CONFIGS["d1"])
    await made.leads(made.first)
    made.second.start(build, CONFIGS["d2"])
    await world.until(lambda: bool(said(made.second, "lease").get("standby")), 10, "the standby")
    return made


def test_the_second_says_who_leads_and_is_ready() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        assert said(made.second, "lease")["standby"].startswith("d1 at 127.0.0.1:0 (since 20")
        assert said(made.second)["not_ready"] == ""
        await world.until(lambda: made.registry.details.get("d2", {}).keys() == {"standby"}, 9)
        assert made.registry.details["d1"] == {}
        async with made.load():
            await world.sleep(2)
        await made.whole()
        assert writers(world) == {"d1"}

    run(main, 1)


@pytest.mark.parametrize("seed", range(2))
def test_both_begin_a_new_feed_at_once_and_one_leads(seed: int) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry = FakeRegistry(world.ports().bus)
        await registry.start()
        registry.settled = False
        pump = await registry.pump("p1")
        pump.commit([*DDLS, txn(10)], 10)
        made = Scene(world, registry, pump)
        for name, config in CONFIGS.items():
            world.node(name).start(build, config)
        await world.sleep(2)
        registry.settled = True
        await world.until(lambda: leader(world) is not None, 30, "one that leads")
        await made.whole()

    run(main, seed)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("how", ["kill", "freeze", "cut", "stop"])
def test_the_other_takes_over(how: str, seed: int) -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        async with made.load():
            await world.sleep(world.random("when").random())
            match how:
                case "kill":
                    made.first.kill(restart_after_s=20)
                case "freeze":
                    world.loop.freeze("d1", 20)
                case "cut":
                    made.first.partition(cut=True)
                    world.loop.call_later(20, made.first.partition, False)
                case "stop":
                    made.first.restart_gracefully(20)
            took = await made.leads(made.second)
            assert took <= (1 if how == "stop" else AIM_S)
            await world.sleep(21)
        await made.whole()
        assert leads(made.second)

    run(main, seed)


@pytest.mark.parametrize("seed", range(5))
def test_frozen_at_any_point_and_woken_the_old_leader_stands_by(seed: int) -> None:
    """Again and again, also while its successor begins, and while batches are on their way."""

    async def main(world: World) -> None:
        rng = world.random("freezes")
        made = await scene(world)
        world.net.tail_chance, world.net.tail_s = 0.05, 0.3
        world.net.unknown, world.net.late = 0.02, 0.5
        taken = 0
        async with made.load(0.02):
            for _ in range(4):
                await world.until(lambda: leader(world) is not None, 40, "a leader")
                old = leader(world)
                assert old is not None
                await world.sleep(rng.random() * 0.3)
                world.loop.freeze(old.name, TAKEOVER_S + rng.random() * 1.5)
                await world.sleep(TAKEOVER_S + rng.random())
                taken += leads(other(world, old))
        world.net.heal()
        await made.whole()
        assert taken >= 1

    run(main, seed)


@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_is_lost_leaves_one_leader(seed: int) -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        reader = [Consumer("reader", FEED, 10)]
        async with made.load():
            await world.sleep(1)
            made.registry.consumers = reader
            world.nats.stop()
            world.nats.delete_store()
            await world.sleep(world.random("down").random() * 8)
            world.nats.start()
            await made.registry.again()
            await world.until(lambda: leader(world) is not None, 40, "a leader")
        last = made.times[-1]

        def marks() -> list[int]:
            there = subjects.changes_stream(FEED) in world.nats.streams
            return refilled(world) if there else []

        await world.until(lambda: marks()[-1:] == [last], 60, "everything")
        assert marks() == [ts for ts in made.times if ts > 10]
        assert [leads(made.first), leads(made.second)].count(True) == 1

    run(main, seed)


@pytest.mark.parametrize("how", ["deleted", "lost"])
def test_a_record_that_is_gone_stays_its_holders(how: str) -> None:
    """Who stands by looks four times as often as the holder renews."""

    async def main(world: World) -> None:
        made = await scene(world)
        bucket = Bucket(world.ports().bus, subjects.feeds_bucket(CLUSTER))
        epoch = said(made.first, "lease")["epoch"]
        for _ in range(8):
            if how == "lost":
                await world.ports().bus.stream_delete(bucket.stream)
            else:
                (key,) = [one for one in (await bucket.entries())[0] if "lease" in one]
                await bucket.delete(key)
            await world.sleep(1.3)
            assert said(made.first, "lease")["epoch"] == epoch
            assert not leads(made.second)
        await made.whole()

    run(main, 1)


def refilled(world: World) -> list[int]:
    markers = [
        msgspec.json.decode(slot.message.data, type=Marker)
        for slot in world.nats.streams[subjects.changes_stream(FEED)].slots
        if slot is not None and slot.message.subject == subjects.changes_txn(FEED)
    ]
    return [one.commit_ts for marker in markers for one in marker.txns]


def test_a_standby_knows_the_pumps_and_their_tombstones() -> None:
    """Should the membership be lost while a Pump is down, it can tell of that Pump (ADR 6)."""

    async def main(world: World) -> None:
        made = await scene(world)

        def known() -> list[str]:
            told: list[str] = said(made.second, "collector")["known"]
            assert sources({"collector": said(made.second, "collector")}) == told
            return told

        await world.until(lambda: known() == ["p1"], 10, "the first")
        await made.registry.record("p2", "joining")
        await world.until(lambda: known() == ["p1", "p2"], 10, "the second")
        assert set(remembered(made.second)) == {"p1", "p2"}
        await made.registry.record("p2", OFFLINE)
        await world.until(lambda: known() == ["p1"], 10, "the tombstone")
        assert set(remembered(made.second)) == {"p1"}
        await made.whole()

    run(main, 1)


# Orders.


async def told(made: Scene, node: str, state: str, reached: str) -> None:
    made.registry.tells_to[node] = state
    await made.world.until(lambda: made.registry.said.get(node) == reached, 30, reached)


@pytest.mark.parametrize("killed", [False, True])
def test_while_the_leader_is_paused_nobody_publishes(killed: bool) -> None:
    """Nor when it dies then: the pause was of the feed."""

    async def main(world: World) -> None:
        made = await scene(world)
        await told(made, "d1", PAUSING, PAUSED)
        before = published(world)
        made.times.append(20)
        made.pump.commit([txn(20)], 20)
        if killed:
            made.first.kill()
        await world.sleep(TAKEOVER_S * 3)
        assert published(world) == before
        assert not leads(made.second)
        made.registry.tells_to["d1"] = ONLINE
        if killed:
            await made.leads(made.second)
            made.first.restart()
        await made.whole()
        assert leads(made.second) == killed

    run(main, 1)


def test_a_paused_standby_takes_nothing_over() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        await told(made, "d2", PAUSING, PAUSED)
        made.first.kill()
        await world.sleep(TAKEOVER_S * 2)
        assert not leads(made.second)
        made.registry.tells_to["d2"] = ONLINE
        await made.leads(made.second)
        made.first.restart()
        await made.whole()

    run(main, 1)


def test_one_that_is_taken_offline_hands_over_at_once() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        async with made.load():
            await told(made, "d1", CLOSING, OFFLINE)
            made.registry.tells_to["d1"] = OFFLINE
            assert await made.leads(made.second) < 4
            await world.sleep(1)
        last = made.times[-1]
        await world.until(lambda: published(world)[-1:] == [last], 60, "everything")
        assert published(world) == made.times

    run(main, 1)


# Who asks no lease of ours.


def test_a_stranger_that_publishes_the_feed_is_a_typed_stop() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        stream = subjects.changes_stream(FEED)
        mark = msgspec.json.encode(Watermark(10, 10))
        headers = {
            changes.H_EPOCH: "99:elsewhere",
            changes.H_ATTEMPT: "99:elsewhere",
            changes.H_INDEX: "0",
        }
        await made.registry.bus.append(
            stream, [Outgoing(subjects.changes_watermark(FEED), mark, headers)]
        )
        await world.until(lambda: bool(said(made.first)["error"]), 30, "the stop")
        assert "epoch 99:elsewhere writes to" in said(made.first)["error"]
        assert (made.first.failures, leads(made.first)) == ([], True)

    run(main, 1)


async def fenced_by_d2(made: Scene) -> None:
    """d2 has written late, and is silent."""
    await made.world.until(lambda: published(made.world)[-1:] == [10], 30, "all there is")
    await written_by_d2(made)


async def written_by_d2(made: Scene) -> None:
    mark = msgspec.json.encode(Watermark(10, 10))
    names = (changes.H_EPOCH, changes.H_ATTEMPT)
    headers = dict.fromkeys(names, "99:d2") | {changes.H_INDEX: "0"}
    await made.registry.bus.append(
        subjects.changes_stream(FEED),
        [Outgoing(subjects.changes_watermark(FEED), mark, headers)],
    )


def test_one_of_ours_that_wrote_late_and_is_silent_stops_nobody() -> None:
    """It has lost the lease since: the leader begins anew, behind what it wrote."""

    async def main(world: World) -> None:
        made = await scene(world)
        await fenced_by_d2(made)
        async with made.load(0.5):
            await world.until(lambda: said(made.first)["epoch"] == "100:d1", 30, "a new beginning")
        await made.whole()
        assert leads(made.first)

    run(main, 1)


def test_one_that_still_writes_and_has_lost_the_lease_is_begun_anew_behind() -> None:
    """Seed 11232: both led for a moment, and the other had written once more meanwhile."""

    async def main(world: World) -> None:
        made = await scene(world)
        await fenced_by_d2(made)
        async with made.load(0.5):
            await world.until(lambda: "99:d2" in said(made.first)["waiting"], 30, "the fence")
            await world.sleep(TAKEOVER_S / 2)
            await written_by_d2(made)
            await world.until(lambda: said(made.first)["epoch"] == "100:d1", 30, "a new beginning")
        await made.whole()

    run(main, 1)


def test_nor_does_it_when_the_stream_is_lost_while_the_leader_looks() -> None:
    """Seed 2961: a stream that is gone was taken for one that somebody publishes to."""

    async def main(world: World) -> None:
        made = await scene(world)
        await fenced_by_d2(made)
        async with made.load(0.5):
            await world.until(lambda: "99:d2" in said(made.first)["waiting"], 30, "the fence")
            await made.registry.bus.stream_delete(subjects.changes_stream(FEED))
            await world.until(lambda: stream(world) and goes_on(made.first), 30, "a new beginning")
        await made.whole()

    run(main, 1)


def test_nor_when_nobody_can_say_yet_whether_it_is_one_of_ours() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        await fenced_by_d2(made)
        made.registry.silent = True
        async with made.load(0.5):
            await world.sleep(4 * TAKEOVER_S)
            assert said(made.first)["error"] == ""
            assert "99:d2" in said(made.first)["waiting"]
            made.registry.silent = False
            await world.until(lambda: goes_on(made.first), 30, "a new beginning")
        await made.whole()

    run(main, 1)


# The feed's record.


def test_who_stands_by_knows_the_feed_when_all_else_has_forgotten_it() -> None:
    async def main(world: World) -> None:
        made = await scene(world)
        bus, feeds = made.registry.bus, Feeds(made.registry.bus, CLUSTER)
        await world.until(lambda: FEED_FILE in made.second.disk.image().names, 10, "its copy")
        made.first.kill()
        made.pump.after_ts.clear()
        await feeds.remove(FEED)
        await bus.stream_delete(subjects.changes_stream(FEED))
        await made.leads(made.second)
        await world.until(lambda: published(world)[-1:] == [10], 30, "everything")
        assert await feeds.get(FEED) is not None

    run(main, 1)


def test_who_stands_by_puts_the_record_back() -> None:
    """The leader may be one that met the feed after the loss."""

    async def main(world: World) -> None:
        made = await scene(world)
        feeds = Feeds(made.registry.bus, CLUSTER)
        await world.until(lambda: FEED_FILE in made.second.disk.image().names, 10, "its copy")
        before = await feeds.get(FEED)
        await feeds.remove(FEED)
        await world.sleep(2 * FOLLOW_S)
        assert before is not None
        assert await feeds.get(FEED) == before
        await made.whole()

    run(main, 1)
