"""A reader that the stream has left behind gets what it missed, whatever fails on the way."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from tests.integration.drainer import fakes
from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, said
from tidelog import messages, subjects
from tidelog.change_reader import Change, ChangeReader, Gap
from tidelog.errors import (
    BadInput,
    DeadlineExceeded,
    Overloaded,
    Purged,
    StreamFull,
    TidelogError,
    Unavailable,
)
from tidelog.lease import TAKEOVER_S
from tidelog.ports import Request
from tidelog.questions import MAX_QUESTIONS
from tidelog.rewind import EXPIRE_S, Rewinding, RewindingReader, feed_name
from tidelog.sim.bus import SimBus
from tidelog.sim.world import World, run
from tidelog_drainer.rewind.rewinder import MAX_REPLAYS
from tidelog_drainer.service import build

COUNT = 300
TIMES = [2, 4, *range(10, 10 + 2 * COUNT, 2)]
BRIEF = msgspec.structs.replace(
    CONFIG, changes_max_age_s=5.0, batch_messages=10, source_buffer_bytes=600
)
"""The stream keeps what is published for a moment."""


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "FRAME", 512)


async def behind(world: World, **changed: Any) -> tuple[FakeRegistry, FakePump]:
    """All is published, and a reader at the beginning comes too late for most of it."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry, pump = await begin(world, msgspec.structs.replace(BRIEF, **changed))
    second = await registry.pump("p2")
    for at in range(10, 10 + 2 * COUNT, 20):
        part = [txn(ts) for ts in range(at, at + 20, 2)]
        pump.commit([*(DDLS if at == 10 else []), *part[::2]], at + 18)
        second.commit(part[1::2], at + 18)
        await world.sleep(0.1)
    node = world.node("drainer")
    await world.until(lambda: said(node).get("published_ts", 0) >= TIMES[-1], 60, "the feed")
    await world.sleep(10)
    await world.until(lambda: "d1" in registry.drainers, 30, "the Drainer's heartbeat")
    reader = ChangeReader(world.ports().bus, FEED, 0)
    with pytest.raises((Gap, Purged)):
        await reader.next(1.0)
    await reader.close()
    return registry, pump


def replay_streams(world: World) -> list[str]:
    return [name for name in world.nats.streams if name.startswith("REPLAY_")]


async def read(world: World, reader: RewindingReader, upto: int, found: list[Change]) -> None:
    async with asyncio.timeout(600):
        while (reader.position or 0) < upto:
            found += [change for change in await reader.next(0.5) if change.txns]


def times(found: list[Change]) -> list[int]:
    return [one.commit_ts for change in found for one in change.txns]


def reading(world: World, after: int = 0, name: str = "late") -> RewindingReader:
    return RewindingReader(world.ports().bus, CLUSTER, FEED, after, reader=name)


@pytest.mark.parametrize("rewind_bytes", [1 << 20, 2_000])
def test_from_a_replay_into_the_feed_itself(rewind_bytes: int) -> None:
    """One that is too small for all of it is asked for again."""

    async def main(world: World) -> None:
        await behind(world, rewind_bytes=rewind_bytes)
        reader, found = reading(world), list[Change]()
        with capture_logs() as logs:
            await read(world, reader, TIMES[-1], found)
        assert times(found) == TIMES
        rewinds = [line for line in logs if line["event"] == "a rewind begins"]
        assert (len(rewinds) > 1) == (rewind_bytes < 10_000)
        rows = [e.after for c in found for r in c.rows for e in r.events]
        assert rows == [{"id": ts} for ts in TIMES[2:]]
        assert [ddl.query for c in found for ddl in c.ddls] == [
            "CREATE DATABASE app",
            "CREATE TABLE t (id bigint)",
        ]
        await reader.close()
        await world.until(lambda: not replay_streams(world), 60, "the end of the replay")
        node = world.node("drainer")
        await world.until(lambda: not said(node, "rewinder")["rewinds"], 10, "its place")

    run(main, 1)


@pytest.mark.parametrize("deleted", [False, True])
def test_one_whose_end_was_not_heard_begins_anew(
    deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader leaves in the middle, the answer to the stream's deletion is lost, and the reader
    is there again before it expires: nobody would fill it any more."""
    delete, lost = SimBus.stream_delete, [0]

    async def deletes(bus: SimBus, name: str) -> None:
        if lost[0] and name.startswith("REPLAY_"):
            lost[0] -= 1
            if deleted:
                await delete(bus, name)
            raise DeadlineExceeded("no answer")
        await delete(bus, name)

    monkeypatch.setattr(SimBus, "stream_delete", deletes)

    async def main(world: World) -> None:
        await behind(world)
        reader, found = reading(world), list[Change]()
        while not reader.replaying or not found:
            found += [change for change in await reader.next(0.01) if change.txns]
        lost[0] = 1
        await reader.close()
        await world.sleep(5)
        again = reading(world, reader.position or 0)
        await read(world, again, TIMES[-1], found)
        assert lost == [0]
        assert times(found) == TIMES
        await again.close()

    run(main, 1)


async def trouble(world: World, registry: FakeRegistry, seed: int) -> None:
    """Crashes of the Drainer and of the server, and lost messages."""
    rng = world.random(f"trouble/{seed}")
    node = world.node("drainer")
    world.net.loss = rng.choice((0.0, 0.02))
    world.net.unknown = rng.choice((0.0, 0.1))
    for _ in range(5):
        await world.sleep(rng.random() * 3)
        match rng.randrange(3):
            case 0 | 1:
                node.kill(restart_after_s=rng.random())
            case 2:
                world.nats.stop()
                await world.sleep(rng.random() * 2)
                world.nats.start()
    world.net.heal()


@pytest.mark.parametrize("seed", range(12))
def test_each_transaction_once_whatever_fails(seed: int) -> None:
    """The replay goes on from its own last mark; the reader from its position."""

    async def main(world: World) -> None:
        registry, _ = await behind(world, rewind_bytes=4_000)
        reader, found = reading(world), list[Change]()
        failing = asyncio.get_running_loop().create_task(trouble(world, registry, seed))
        await read(world, reader, TIMES[-1], found)
        await failing
        assert times(found) == TIMES
        await reader.close()
        await world.until(lambda: not replay_streams(world), 3 * EXPIRE_S, "its end")

    run(main, seed)


def test_a_restart_goes_on_with_the_same_stream() -> None:
    async def main(world: World) -> None:
        await behind(world)
        rewinding = Rewinding(world.ports().bus, CLUSTER, FEED, "late")
        first = await rewinding.ask(0)
        node = world.node("drainer")

        def whole() -> bool:
            state = said(node, "rewinder").get("rewinds", {}).get("late", {})
            return bool(state.get("done"))

        await world.until(whole, 60, "the replay")
        (name,) = replay_streams(world)
        created = world.nats.streams[name].created
        node.kill()
        node.restart()
        for _ in range(20):  # it leads, and is told to be online, again
            with contextlib.suppress(Unavailable):
                again = await rewinding.ask(0)
                break
            await world.sleep(1)
        assert (again.feed, again.upto) == (first.feed, first.upto)
        await world.until(whole, 60, "the replay again")
        assert world.nats.streams[name].created == created
        assert name == subjects.changes_stream(first.feed) == f"REPLAY_{FEED.upper()}_late"

    run(main, 1)


def test_a_reader_that_is_gone_leaves_nothing_behind() -> None:
    async def main(world: World) -> None:
        await behind(world)
        await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        await world.until(lambda: bool(replay_streams(world)), 30, "the stream")
        await world.sleep(EXPIRE_S / 2)
        assert replay_streams(world)
        await world.until(lambda: not replay_streams(world), EXPIRE_S, "its end")
        node = world.node("drainer")
        await world.until(lambda: not said(node, "rewinder")["rewinds"], 10, "its place")

    run(main, 1)


def test_readers_names_are_no_labels_of_metrics() -> None:
    """A label never goes, and each reader that nobody named draws a name."""

    async def main(world: World) -> None:
        await behind(world)
        for name in ("one", "another"):
            found: list[Change] = []
            await read(world, reading(world, name=name), 20, found)
        labels = {
            value
            for metric in REGISTRY.collect()
            for sample in metric.samples
            for value in sample.labels.values()
        }
        assert f"{FEED}=replay" in labels
        assert not {f"{FEED}=one", f"{FEED}=another"} & labels

    run(main, 1)


def test_one_that_expires_while_the_registry_has_too_much_to_do_leaves_the_others_alone() -> None:
    async def refuse(request: Request) -> None:
        request.respond(messages.encode_error(Overloaded("too much changes at once")))

    async def main(world: World) -> None:
        registry, _ = await behind(world)
        await registry.bus.serve(subjects.registry(CLUSTER, "safepoint"), refuse)
        gone, other = (Rewinding(world.ports().bus, CLUSTER, FEED, n) for n in ("gone", "other"))
        await gone.ask(0)
        await other.ask(0)
        node = world.node("drainer")
        tree = node.service
        with capture_logs() as logs:
            while "gone" in said(node, "rewinder")["rewinds"]:
                await world.sleep(1)
                await other.renew()
        assert list(said(node, "rewinder")["rewinds"]) == ["other"]
        assert (node.service, tree.restarts_total) == (tree, 0)
        (told,) = [one for one in logs if "not forgotten" in one["event"]]
        assert "the registry" in told["silent"]

    run(main, 1)


def test_few_at_once_and_nothing_that_is_not_missing() -> None:
    async def main(world: World) -> None:
        await behind(world)
        bus = world.ports().bus
        ask = [Rewinding(bus, CLUSTER, FEED, f"r{n}") for n in range(MAX_REPLAYS + 1)]
        for one in ask[:-1]:
            await one.ask(0)
        with pytest.raises(Overloaded):
            await ask[-1].ask(0)
        await ask[0].end()
        await ask[-1].ask(0)
        ahead = reading(world, TIMES[-1] + 1_000, "ahead")
        nothing = await Rewinding(bus, CLUSTER, FEED, "ahead").ask(TIMES[-1] + 1_000)
        assert nothing.upto == TIMES[-1] + 1_000
        assert await ahead.next(1.0) == []
        await ahead.close()
        with pytest.raises(Unavailable, match="no Drainer of feed"):
            await Rewinding(bus, CLUSTER, "nope", "r").ask(0)

    run(main, 1)


def test_what_the_pumps_no_longer_hold_is_purged() -> None:
    """A Pump says so, or it went offline when all but this reader had read it."""

    async def main(world: World) -> None:
        registry, pump = await behind(world)
        pump.purged_below = 100
        reader = reading(world)
        with pytest.raises(Purged, match="p1"):
            await read(world, reader, TIMES[-1], [])
        pump.purged_below = 0
        await registry.record("p2", "offline", high_ts=TIMES[-1])
        with pytest.raises(Purged, match="p2 went offline"):
            await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        await registry.record("p2", left_ts=TIMES[-1])  # another one has its name
        with pytest.raises(Purged, match=f"p2 went offline with transactions up to {TIMES[-1]}"):
            await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)

    run(main, 1)


def test_a_reader_waits_while_the_bucket_of_members_is_missing() -> None:
    """It says which Pumps went offline: without it nobody knows what can't be read any more."""

    async def main(world: World) -> None:
        registry, _ = await behind(world)
        await registry.bus.stream_delete(registry.bucket.stream)
        reader, found = reading(world), list[Change]()
        for _ in range(5):
            assert await reader.next(0.5) == []
        assert not reader.replaying
        await registry.again()
        await read(world, reader, TIMES[-1], found)
        assert times(found) == TIMES

    run(main, 1)


async def goes_offline(registry: FakeRegistry, pump: FakePump) -> None:
    """All but the readers of replays have read it."""
    await registry.record(pump.node, "offline", high_ts=TIMES[-1])
    registry.pumps.remove(pump)
    await pump.close()


@pytest.mark.parametrize("settled", [False, True])
def test_a_replay_does_not_lack_a_pump_whose_tombstone_was_lost_with_its_bucket(
    settled: bool,
) -> None:
    """The registry dies between two writes of the new bucket. `settled`: it lives, and has not
    noticed the loss."""

    async def main(world: World) -> None:
        registry, _ = await behind(world)
        await goes_offline(registry, registry.pumps[1])
        await registry.bus.stream_delete(registry.bucket.stream)
        registry.settled = settled
        await registry.bucket.create()
        if not settled:
            await world.sleep(2 * BRIEF.lease_s)
        await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        await registry.record("p2", "offline", high_ts=TIMES[-1])
        await registry.again()
        with pytest.raises(Purged, match="p2 went offline"):
            await read(world, reading(world), TIMES[-1], [])

    run(main, 1)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_replay_does_not_lack_what_a_life_had_read_of_a_pump_and_not_published(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay's stream has no room for a while; meanwhile a Pump that was read goes offline."""
    append, appended, room = SimBus.append, [0], asyncio.Event()

    async def appends(bus: SimBus, stream: str, *args: Any, **kwargs: Any) -> int:
        appended[0] += stream.startswith("REPLAY_")
        if stream.startswith("REPLAY_") and appended[0] > 5 and not room.is_set():
            raise StreamFull("no room")
        return await append(bus, stream, *args, **kwargs)

    monkeypatch.setattr(SimBus, "append", appends)

    async def main(world: World) -> None:
        registry, _ = await behind(world, source_buffer_bytes=1 << 20)
        node, second = world.node("drainer"), registry.pumps[1]
        replay = await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        await world.until(lambda: second.after_ts.get(replay.feed) == TIMES[-1], 30, "its reading")
        await world.until(lambda: appended[0] > 5, 30, "the end of the room")
        await goes_offline(registry, second)
        await world.sleep(5)
        if restarts:
            node.kill()
            node.restart()
        room.set()
        found = list[Change]()
        with (
            pytest.raises(Purged, match="p2 went offline") if restarts else contextlib.nullcontext()
        ):
            await read(world, reading(world), TIMES[-1], found)
        assert times(found) == TIMES[: len(times(found))]
        assert (len(times(found)) < len(TIMES)) == restarts

    run(main, 1)


def test_the_feed_itself_goes_on_beside_a_replay() -> None:
    async def main(world: World) -> None:
        registry, pump = await behind(world)
        reader, found = reading(world), list[Change]()
        behind_it = asyncio.get_running_loop().create_task(
            read(world, reader, TIMES[-1] + 100, found)
        )
        for ts in range(TIMES[-1] + 10, TIMES[-1] + 110, 10):
            for one in registry.pumps:
                one.commit([txn(ts)] if one is pump else [], ts)
            node = world.node("drainer")
            published = partial(lambda node, ts: said(node).get("published_ts", 0) >= ts, node, ts)
            await world.until(published, 5, f"{ts} in the feed")
        await behind_it
        assert times(found) == [*TIMES, *range(TIMES[-1] + 10, TIMES[-1] + 110, 10)]

    run(main, 1)


def test_a_drainer_that_does_not_know_its_position_yet_says_nothing_of_a_reader_s() -> None:
    """Else a reader in the middle of a restart hears that nothing is missing, and gives up."""

    async def main(world: World) -> None:
        await behind(world)
        node = world.node("drainer")
        node.kill()
        node.restart()
        rewinding = Rewinding(world.ports().bus, CLUSTER, FEED, "late")
        answers = set[int]()
        while not answers:
            with contextlib.suppress(Unavailable):
                answers.add((await rewinding.ask(0)).upto)
            await world.sleep(0.001)
        assert answers.pop() >= TIMES[-1]

    for seed in range(5):
        run(main, seed)


@pytest.mark.parametrize("seed", range(6))
def test_another_drainer_that_takes_over_fills_it_from_the_reader_s_position(seed: int) -> None:
    """The one that led was frozen at any point, and woke up again: it fills nothing any more."""

    async def main(world: World) -> None:
        registry, _ = await behind(world, rewind_bytes=4_000)
        first, second = world.node("drainer"), world.node("second")
        second.start(build, msgspec.structs.replace(BRIEF, rewind_bytes=4_000, node_id="d2"))
        await world.until(lambda: "d2" in registry.drainers, 30, "the other's heartbeat")
        reader, found = reading(world), list[Change]()
        reading_on = asyncio.get_running_loop().create_task(read(world, reader, TIMES[-1], found))

        def rewinds() -> object:
            return said(first, "rewinder").get("rewinds")

        await world.until(lambda: bool(rewinds()), 30, "the replay")
        await world.sleep(world.random("when").random() * 0.2)
        world.loop.freeze("drainer", TAKEOVER_S + 2 + 5 * world.random("woken").random())
        await world.until(lambda: bool(said(second, "lease").get("leads")), 30, "the takeover")
        await reading_on
        assert times(found) == TIMES
        await reader.close()
        await world.until(lambda: not replay_streams(world), 3 * EXPIRE_S, "its end")
        await world.until(lambda: not rewinds(), 60, "its end at the first")

    run(main, seed)


def test_many_questions_at_once_are_refused_not_kept() -> None:
    async def main(world: World) -> None:
        await behind(world)
        bus = world.ports().bus

        async def ask(n: int) -> str:
            try:
                await Rewinding(bus, CLUSTER, FEED, f"r{n % 8}").ask(0)
            except TidelogError as error:
                return error.message
            return ""

        asked = await asyncio.gather(*(ask(n) for n in range(3 * MAX_QUESTIONS)))
        assert any("questions are under way" in answer for answer in asked)
        reader, found = reading(world, name="r1"), list[Change]()
        await read(world, reader, TIMES[-1], found)
        assert times(found) == TIMES

    run(main, 1)


@pytest.mark.parametrize("reader", ["", "a b", "a.b", "x" * 300])
def test_a_replays_reader_has_a_name_for_subjects(reader: str) -> None:
    with pytest.raises(BadInput, match="can't be called"):
        feed_name("shop", reader)
    assert feed_name("shop", "one") != feed_name("shop", "other")
