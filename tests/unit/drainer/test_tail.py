"""The stream's end under our hands: a server that is away, streams that go, lost answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import msgspec
import pytest

from tidelog import changes, subjects
from tidelog.errors import Purged, StreamMissing, Unavailable
from tidelog.ports import Bus, Outgoing, Ports, StreamConfig
from tidelog.sim.world import World, run
from tidelog_drainer.publish.lives import Epoch, Risen
from tidelog_drainer.publish.position import Start
from tidelog_drainer.publish.tail import Fenced, StreamTail, StreamTooSmall, TailLost
from tidelog_drainer.schema.stream_floor import TRIES, oldest_ts

FEED = "f"
STREAM = subjects.changes_stream(FEED)
OURS, EARLIER, ANOTHER = Epoch(5, "d1"), Epoch(4, "d1"), Epoch(6, "d2")
LIFE = Risen(OURS.number, OURS.node)


class Shaky:
    """A bus whose next calls fail by their names; `after` runs before a failure is raised."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.failing: dict[str, list[Exception]] = {}
        self.after: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.bus, name)

        async def call(*given: Any, **more: Any) -> Any:
            if self.failing.get(name):
                if name in self.after:
                    await self.after.pop(name)(*given, **more)
                raise self.failing[name].pop(0)
            return await real(*given, **more)

        return call if name in self.failing else real


class Bed:
    """A feed's stream with one message in it, and our hand on its end."""

    def __init__(self, world: World) -> None:
        ports = world.ports("drainer")
        self.shaky = Shaky(ports.bus)
        self.ports: Ports = replace(ports, bus=cast(Bus, self.shaky))
        self.bus = ports.bus

    async def begin(self, max_bytes: int = 0) -> StreamTail:
        await self.bus.stream_create(
            StreamConfig(STREAM, (f"changes.{FEED}.>",), max_bytes=max_bytes)
        )
        await self.bus.append(STREAM, [message(1, EARLIER)])
        state = await self.bus.stream_state(STREAM)
        assert state is not None
        return StreamTail(self.ports, FEED, Start(1, 0, state, 0, (), (), False, LIFE))

    async def last(self) -> int:
        state = await self.bus.stream_state(STREAM)
        assert state is not None
        return state.last_seq


def message(commit_ts: int, epoch: Epoch = OURS, size: int = 1) -> Outgoing:
    headers = {
        changes.H_EPOCH: epoch.text,
        changes.H_ATTEMPT: f"{epoch.text}/{commit_ts}",
        changes.H_INDEX: "0",
        changes.H_LAST_TS: str(commit_ts),
        changes.H_FIRST_TS: str(commit_ts),
    }
    return Outgoing(subjects.changes_watermark(FEED), b"x" * size, headers)


def away(times: int = 2) -> list[Exception]:
    return [Unavailable("no server") for _ in range(times)]


def test_a_lost_answer_is_looked_up_however_long_the_server_is_away() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        tail = await bed.begin()
        # It arrived: appended once.
        bed.shaky.failing = {"append": away(1), "stream_state": away(), "last_message": away()}
        bed.shaky.after["append"] = bed.bus.append
        await tail.append([message(2)])
        assert (tail.sequence, await bed.last(), tail.waiting) == (2, 2, "")
        # It did not: appended again.
        bed.shaky.failing = {"append": away(3)}
        await tail.append([message(3)])
        assert (tail.sequence, await bed.last(), tail.waiting) == (3, 3, "")

    run(main, 1)


@pytest.mark.parametrize("call", ["append", "last_message"])
def test_a_stream_that_is_gone_is_a_lost_tail(call: str) -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        tail = await bed.begin()
        bed.shaky.failing = {call: [StreamMissing("no such stream")]}
        if call == "last_message":
            bed.shaky.failing["append"] = away(1)
            bed.shaky.after["append"] = bed.bus.append
        with pytest.raises(TailLost, match="is gone"):
            await tail.append([message(2)])

    run(main, 2)


def test_a_stream_deleted_or_made_anew_behind_a_lost_answer_is_a_lost_tail() -> None:
    async def main(world: World) -> None:
        for again in (False, True):
            bed = Bed(world)
            tail = await bed.begin()

            async def deleted(*_: Any, bed: Bed = bed, again: bool = again, **__: Any) -> None:
                await bed.bus.stream_delete(STREAM)
                if again:
                    await world.sleep(1)
                    await bed.bus.stream_create(StreamConfig(STREAM, (f"changes.{FEED}.>",)))

            bed.shaky.failing = {"append": away(1)}
            bed.shaky.after["append"] = deleted
            with pytest.raises(TailLost, match="made anew" if again else "is gone"):
                await tail.append([message(2)])
            if again:
                await bed.bus.stream_delete(STREAM)

    run(main, 3)


def test_what_another_wrote_is_a_fence_and_what_we_wrote_earlier_a_new_beginning() -> None:
    async def main(world: World) -> None:
        for wrote, raised in ((ANOTHER, Fenced), (EARLIER, TailLost)):
            bed = Bed(world)
            tail = await bed.begin()
            await bed.bus.append(STREAM, [message(2, wrote)])
            with pytest.raises(raised) as ended:
                await tail.append([message(2)])
            assert wrote.text in str(ended.value)
            if isinstance(ended.value, Fenced):
                assert ended.value.by == ANOTHER.node
            await bed.bus.stream_delete(STREAM)

    run(main, 4)


def test_a_transaction_larger_than_the_stream_stops_unless_somebody_makes_it_larger() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        tail = await bed.begin(max_bytes=4000)
        bed.shaky.failing = {"stream_state": away()}
        with pytest.raises(StreamTooSmall) as stopped:
            await tail.append([message(2, size=5000)])
        assert "holds 4000 bytes" in stopped.value.message
        assert "nats stream edit" in stopped.value.hint
        assert await bed.last() == 1
        state = await bed.bus.stream_state(STREAM)
        assert state is not None

        async def larger(_: str) -> Any:
            return msgspec.structs.replace(state, max_bytes=40_000)

        bed.shaky.failing = {}
        bed.shaky.__dict__["stream_state"] = larger
        await tail.append([message(3, size=5000)])
        assert tail.sequence == await bed.last() == 2

    run(main, 5)


def test_a_stream_gone_while_its_room_is_asked_for_is_a_lost_tail() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        tail = await bed.begin(max_bytes=4000)
        await bed.bus.stream_delete(STREAM)
        with pytest.raises(TailLost, match="is gone"):
            await tail.append([message(2, size=5000)])

    run(main, 6)


def test_a_look_waits_for_a_server_and_says_so() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        tail = await bed.begin()
        bed.shaky.failing = {"stream_state": away(3)}
        state = await tail.look()
        assert state is not None
        assert (state.last_seq, tail.waiting) == (1, "no server")
        await bed.bus.stream_delete(STREAM)
        assert await tail.look() is None

    run(main, 7)


def test_the_oldest_message_is_found_although_older_ones_go_meanwhile() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        assert await oldest_ts(bed.bus, FEED) is None
        await bed.begin()
        shaky: Any = bed.shaky
        shaky.failing = {"read": []}
        real = bed.bus.read
        misses: list[Exception] = [Purged("gone"), StreamMissing("gone")]

        class Reader:
            def __init__(self, reader: Any) -> None:
                self._reader = reader

            async def next_batch(self, *given: Any) -> Any:
                if misses:
                    raise misses.pop()
                return await self._reader.next_batch(*given)

            async def close(self) -> None:
                await self._reader.close()

        async def read(*given: Any, **more: Any) -> Any:
            return Reader(await real(*given, **more))

        shaky.__dict__["read"] = read
        assert await oldest_ts(shaky, FEED) == 1
        misses += [Purged("gone")] * TRIES
        with pytest.raises(Unavailable, match="could not be read"):
            await oldest_ts(shaky, FEED)
        assert misses == []

    run(main, 8)


@pytest.mark.parametrize("said", ["c=x", "-1", "²", ""])
def test_an_oldest_message_that_no_drainer_wrote_leaves_nothing_out(said: str) -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.bus.stream_create(StreamConfig(STREAM, (f"changes.{FEED}.>",)))
        written = Outgoing(subjects.changes_watermark(FEED), b"{}", {changes.H_FIRST_TS: said})
        await bed.bus.append(STREAM, [written])
        assert await oldest_ts(bed.bus, FEED) == 0

    run(main, 8)
