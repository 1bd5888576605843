"""The simulated bus's unkindness: loss, duplicates, partitions, restarts, unknown outcomes."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.errors import (
    Conflict,
    DeadlineExceeded,
    NoResponders,
    Purged,
    StreamMissing,
    Unavailable,
)
from tidelog.ports import Bus, Outgoing, Ports, Request, StreamConfig
from tidelog.sim import World, run
from tidelog.sim.faults import Injected
from tidelog.sim.streams import matches


async def _echo(bus: Bus, subject: str = "echo", queue: str = "") -> list[bytes]:
    heard: list[bytes] = []

    async def handler(request: Request) -> None:
        heard.append(request.data)
        request.respond(request.data)

    await bus.serve(subject, handler, queue=queue)
    return heard


async def _stream(bus: Bus, **limits: float) -> None:
    await bus.stream_create(StreamConfig("S", ("s.>",), **limits))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("*.b.>", "a.b.c", True),
        ("a.b", "a.b.c", False),
        ("a.b.c", "a.b", False),
    ],
)
def test_wildcards(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


def test_lost_and_doubled_messages_are_counted_and_seen() -> None:
    async def main(world: World) -> None:
        world.net.loss, world.net.duplicate = 0.2, 0.2
        a, b = world.ports("a").bus, world.ports("b").bus
        heard = await _echo(b)
        lost = 0
        for _ in range(200):
            try:
                await a.request("echo", b"x", timeout_s=0.5)
            except DeadlineExceeded:
                lost += 1
        assert lost == world.trace.injected[Injected.LOST] > 10
        assert len(heard) == 200 - lost + world.trace.injected[Injected.DUPLICATED]

    run(main)


def test_a_dead_server_is_no_responder_and_a_partitioned_one_is_silent() -> None:
    async def main(world: World) -> None:
        a, b = world.ports("a").bus, world.ports("b").bus
        heard = await _echo(b)
        world.nodes["b"].partition(cut=True)
        with pytest.raises(DeadlineExceeded):
            await a.request("echo", b"1", timeout_s=1)
        assert not b.connected
        world.nodes["b"].partition(cut=False)
        await world.until(lambda: b.connected, 1)
        assert (await a.request("echo", b"2", timeout_s=1)).data == b"2"
        world.nodes["b"].kill()
        with pytest.raises(NoResponders):
            await a.request("echo", b"3", timeout_s=1)
        assert heard == [b"2"]

    run(main)


def test_a_restart_of_the_server_keeps_subscriptions_and_streams() -> None:
    async def main(world: World) -> None:
        a, b = world.ports("a").bus, world.ports("b").bus
        heard = await _echo(b)
        await _stream(a)
        await a.append("S", [Outgoing("s.x", b"1")])
        reader = await b.read("S", start_seq=1)
        assert len(await reader.next_batch(10, 1)) == 1
        world.nats.stop()
        with pytest.raises(Unavailable):
            await a.request("echo", b"x", timeout_s=1)
        assert await reader.next_batch(10, 1) == []
        world.nats.start()
        assert await a.append("S", [Outgoing("s.x", b"2")]) == 2
        assert [m.data for m in await reader.next_batch(10, 1)] == [b"2"]
        assert (await a.request("echo", b"y", timeout_s=1)).data == b"y"
        assert heard == [b"y"]

    run(main)


def test_a_call_waits_for_the_link_until_its_deadline() -> None:
    async def main(world: World) -> None:
        a = world.ports("a").bus
        await _stream(a)
        world.nats.stop()
        world.loop.call_later(3, world.nats.start)
        assert await a.append("S", [Outgoing("s.x", b"1")], timeout_s=10) == 1
        assert world.loop.time() > 3

    run(main)


def test_an_unknown_outcome_may_have_happened_or_not() -> None:
    async def main(world: World) -> int:
        a = world.ports("a").bus
        await _stream(a)
        world.net.unknown = 1.0
        with pytest.raises(Unavailable):
            await a.append("S", [Outgoing("s.x", b"1")], timeout_s=1)
        world.net.unknown = 0.0
        state = await a.stream_state("S")
        assert state is not None
        return state.last_seq

    assert {run(main, seed) for seed in range(20)} == {0, 1}


def test_an_append_cut_off_may_arrive_later() -> None:
    async def main(world: World) -> tuple[int, int]:
        world.net.late = 1.0
        a, b = world.ports("a").bus, world.ports("b").bus
        await _stream(a)
        task = world.loop.create_task(a.append("S", [Outgoing("s.x", b"1")], timeout_s=0.05))
        await world.sleep(0)
        world.nodes["a"].partition(cut=True)
        with pytest.raises(Unavailable):
            await task
        before = await b.stream_state("S")
        await world.sleep(2)
        after = await b.stream_state("S")
        assert before is not None
        assert after is not None
        return before.last_seq, after.last_seq

    assert {run(main, seed) for seed in range(5)} == {(0, 1)}


def test_a_deleted_store_and_a_rolled_back_one_are_noticed() -> None:
    async def main(world: World) -> None:
        a = world.ports("a").bus
        await _stream(a)
        first = await a.stream_state("S")
        assert first is not None
        await a.append("S", [Outgoing("s.x", b"1")])
        copy = world.nats.copy_store()
        await a.append("S", [Outgoing("s.x", b"2")])
        reader = await a.read("S", start_seq=1)
        assert len(await reader.next_batch(10, 1)) == 2
        world.nats.roll_back(copy)
        with pytest.raises(StreamMissing):
            await reader.next_batch(10, 1)
        world.nats.delete_store()
        assert await a.stream_state("S") is None
        with pytest.raises(StreamMissing):
            await a.append("S", [Outgoing("s.x", b"3")])
        with pytest.raises(StreamMissing):
            await a.read("S", start_seq=1)
        await _stream(a)
        again = await a.stream_state("S")
        assert again is not None
        assert again.created != first.created

    run(main)


def test_limits_discard_the_oldest_and_a_reader_behind_is_told() -> None:
    async def main(world: World) -> None:
        a = world.ports("a").bus
        await _stream(a, max_age_s=10)
        reader = await a.read("S", start_seq=1)
        await a.append("S", [Outgoing("s.x", b"1")])
        assert len(await reader.next_batch(10, 1)) == 1
        await a.append("S", [Outgoing("s.x", b"2")])
        await world.sleep(8)
        await a.append("S", [Outgoing("s.x", b"3")])
        await world.sleep(4)
        state = await a.stream_state("S")
        assert state is not None
        assert (state.first_seq, state.last_seq, state.messages) == (3, 3, 1)
        with pytest.raises(Purged):
            await reader.next_batch(10, 1)

    run(main)


def test_a_killed_process_does_nothing_more() -> None:
    done: list[int] = []

    class Appender:
        def __init__(self, config: None, ports: Ports) -> None:
            self.bus = ports.bus

        async def run(self, stop: asyncio.Event) -> None:
            while not stop.is_set():
                done.append(await self.bus.append("S", [Outgoing("s.x", b"1")]))

    async def main(world: World) -> None:
        b = world.ports("b").bus
        await _stream(b)
        node = world.node("a")
        node.start(Appender, None)
        await world.sleep(1)
        node.kill()
        await world.sleep(1.5)  # what was in flight may still arrive
        state = await b.stream_state("S")
        assert state is not None
        assert 100 < len(done) <= state.last_seq <= len(done) + 1
        assert not node.running
        node.restart()
        await world.until(lambda: len(done) > state.last_seq + 10, 1)
        await node.stop()
        assert node.failures == []

    run(main)


def test_fences_hold_for_batches_and_for_subjects() -> None:
    async def main(world: World) -> None:
        a = world.ports("a").bus
        await _stream(a)
        assert await a.append("S", [Outgoing("s.x", b"1")] * 3, expected_last_seq=0) == 3
        with pytest.raises(Conflict):
            await a.append("S", [Outgoing("s.x", b"1")], expected_last_seq=2)
        with pytest.raises(Conflict):
            await a.append("S", [Outgoing("s.y", b"1")], expected_last_subject_seq=3)
        assert await a.append("S", [Outgoing("s.y", b"1")], expected_last_subject_seq=0) == 4

    run(main)
