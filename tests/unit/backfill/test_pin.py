"""What is behind a copy is held for its Applier, whoever is registered already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from tests.unit.registry.nodes import CLUSTER, Script, nodes
from tests.unit.registry.rig import join, play
from tidelog import ask_registry, subjects
from tidelog.bulk.jobs import BackfillJob
from tidelog.changes import H_LAST_TS, Watermark
from tidelog.errors import NotFound, TidelogError, Unavailable
from tidelog.feeds import Feed, Feeds
from tidelog.messages import APPLIER, PUMP, Consumer, SafePoint, SafePointRequest, encode
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus, Outgoing, StreamConfig
from tidelog.sim import World
from tidelog_backfill.snapshot.pin import SETTLE_S, Pin, consumer_of
from tidelog_registry.consumers import consumers

JOB = BackfillJob(
    source="mysql://db/", downstream="mysql://copy/", feed="f", nats_url="nats://n", cluster=CLUSTER
)
FILES = BackfillJob(
    source="mysql://db/", parquet="/lake", feed="f", nats_url="nats://n", cluster=CLUSTER
)
S = 100
OWN, HELD = Consumer(consumer_of(JOB), "f", S), Consumer("applier-f", "f", S)


class SimPin(Pin):
    def __init__(self, world: World, job: BackfillJob = JOB) -> None:
        super().__init__(job, world.ports().clock)
        self._ports = world.ports()

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[Bus]:
        yield self._ports.bus


async def known(bus: Bus) -> list[Consumer]:
    return (await nodes(bus)).consumers


def test_it_is_held_in_the_name_of_an_applier_that_is_still_to_come() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        await pin.hold(S)
        assert await known(bus) == [OWN]
        (note,) = await pin.let_go(S)
        assert "another name" in note
        assert "tidelog feed unregister f applier-f" in note
        assert await known(bus) == [HELD]
        assert not pin.held

    play(main)


def test_two_copies_of_a_feed_hold_each_what_it_needs() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        first, second = (SimPin(world, job) for job in (JOB, FILES))
        await first.hold(S)
        await second.hold(S + 50)
        assert await second.let_go(S + 50) == []
        assert await known(bus) == [OWN]

    play(main)


def test_whoever_goes_on_with_a_copy_has_its_name() -> None:
    names = {consumer_of(job) for job in (JOB, msgspec.structs.replace(JOB, chunk_rows=7))}
    assert len(names) == 1
    assert consumer_of(FILES) not in names
    secret = msgspec.structs.replace(JOB, downstream="mysql://u:first@copy/")
    again = msgspec.structs.replace(JOB, downstream="mysql://u:second@copy/")
    assert consumer_of(secret) == consumer_of(again)


def test_what_a_copy_that_ended_still_holds_is_said_or_dropped() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        assert not pin.held
        await pin.hold(S)
        assert f"`tidelog feed unregister f {OWN.name}`" in pin.held
        await pin.drop()
        assert not pin.held
        assert await known(bus) == []

    play(main)


def test_what_can_not_be_dropped_now_is_said_and_dropped_by_the_next_one() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        await pin.drop()
        await pin.hold(S)
        world.node("r").kill()
        await pin.drop()
        assert f"`tidelog feed unregister f {OWN.name}`" in pin.held
        world.node("r").restart()
        await settled(world, bus)
        assert await known(bus) == [OWN]
        await pin.drop()
        assert await known(bus) == []

    play(main)


async def settled(world: World, bus: Bus) -> None:
    """The registry answers again."""
    async with asyncio.timeout(60):
        while True:
            try:
                await known(bus)
            except TidelogError:
                await world.sleep(0.2)
            else:
                return


GIVEN = msgspec.structs.replace(JOB, snapshot_ts=S)


async def mark(bus: Bus, resolved_ts: int) -> None:
    body = encode(Watermark(resolved_ts, 0))
    told = Outgoing(subjects.changes_watermark("f"), body, {H_LAST_TS: str(resolved_ts)})
    await bus.append(subjects.changes_stream("f"), [told])


async def created(bus: Bus) -> None:
    await Feeds(bus, CLUSTER).create(Feed("f", 5))


def test_a_copy_begins_when_its_feed_was_published_that_far() -> None:
    """Its Drainer may make the stream only then."""

    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        await created(bus)
        waiting = asyncio.ensure_future(SimPin(world, GIVEN).timestamp(0))
        await world.sleep(1)
        assert await known(bus) == [OWN], "held before it is waited for"
        stream = StreamConfig(subjects.changes_stream("f"), ("changes.f.>",))
        await bus.stream_create(stream)
        for ts in (S - 1, S):
            await world.sleep(1)
            assert not waiting.done()
            await mark(bus, ts)
        assert await waiting == S

    play(main)


def test_a_feed_that_nobody_publishes_is_not_waited_for_for_ever() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        with pytest.raises(NotFound, match="no feed 'f' begins before 100"):
            await SimPin(world, GIVEN).timestamp(0)
        await created(bus)
        began = world.loop.time()
        with pytest.raises(Unavailable, match="has not been published up to 100") as raised:
            await SimPin(world, GIVEN).timestamp(0)
        assert SETTLE_S < world.loop.time() - began < SETTLE_S + 5
        assert "Drainer" in raised.value.hint

    play(main)


@pytest.mark.parametrize("at", [S - 10, S])
def test_an_applier_that_announces_itself_holds_what_is_behind_its_own_word(at: int) -> None:
    async def main(world: World, bus: Bus) -> None:
        applier = Consumer("applier-f", "f", at)
        await join(world, Script(APPLIER, "applier-f", feed="f", consumers=[applier]))
        pin = SimPin(world)
        await pin.hold(S)
        (note,) = await pin.let_go(S)
        assert f"applier-f, which stands at {at}" in note
        assert await known(bus) == [applier]

    play(main)


def test_one_that_stands_beyond_the_copy_is_another_downstreams() -> None:
    """By its name alone nobody can tell: nothing but the copy's own consumer holds then."""

    async def main(world: World, bus: Bus) -> None:
        applier = Consumer("applier-f", "f", S + 20)
        await join(world, Script(APPLIER, "applier-f", feed="f", consumers=[applier]))
        pin = SimPin(world)
        await pin.hold(S)
        (warning,) = await pin.let_go(S)
        assert f"applier-f is another's, at {S + 20}" in warning
        assert f"`tidelog feed unregister f {OWN.name}`" in warning
        assert await known(bus) == [applier, OWN]

    play(main)


def test_the_place_of_another_is_told_though_it_is_the_beginning() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        await ask_registry.ask(
            bus,
            CLUSTER,
            "safepoint",
            SafePointRequest(Consumer("applier-f", "f", 0)),
            SafePoint,
            timeout_s=5,
        )
        pin = SimPin(world)
        await pin.hold(S)
        (warning,) = await pin.let_go(S)
        assert "applier-f is another's, at 0)" in warning

    play(main)


def test_two_copies_into_two_databases_hold_both_what_is_behind_them() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        other = msgspec.structs.replace(JOB, downstream="mysql://other/")
        first, second = SimPin(world), SimPin(world, other)
        own = Consumer(consumer_of(other), "f", S + 50)
        await first.hold(S)
        await second.hold(S + 50)
        await first.let_go(S)
        (warning,) = await second.let_go(S + 50)
        assert f"applier-f is another's, at {S}" in warning
        assert f"`tidelog feed unregister f {own.name}`" in warning
        assert await known(bus) == [HELD, own]

    play(main)


def test_one_that_was_ended_while_it_let_go_does_so_again() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        for _ in ("ended before its plan was forgotten", "given again"):
            pin = SimPin(world)
            await pin.hold(S)
            await pin.let_go(S)
            assert await known(bus) == [HELD]

    play(main)


def test_rows_whose_commit_ts_is_fetched_late_are_in_a_copys_reach() -> None:
    """By a minute after the source's own commit, whoever says what time it is."""

    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        alone = msgspec.structs.replace(JOB, nats_url="")
        reaches = [await SimPin(world, job).reach(0) for job in (JOB, alone)]
        await world.sleep(59)
        late = await RegistryOracle(bus, CLUSTER).fresh()
        assert min(reaches) > late

    play(main)


def test_the_copys_own_pin_stays_where_the_applier_can_not_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        await pin.hold(S)
        (warning,) = await pin.let_go(S)
        assert f"consumer {OWN.name} holds" in warning
        assert await known(bus) == [OWN]

    monkeypatch.setattr(consumers, "MAX_CONSUMERS", 1)
    play(main)
