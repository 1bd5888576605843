"""Calls that come close together are one Append; one that is alone waits for nobody."""

from __future__ import annotations

import asyncio

from tidelog.actor import Actor
from tidelog.errors import ActorStopped, BadInput, TidelogError
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor
from tidelog_pump.edges.gatherer import ALONE_BYTES, PAUSE_S, Gatherer
from tidelog_pump.write.writer import Append, Outcome, SetState, WriterMessage

WRITE_S = 0.001


class Writer(Actor[WriterMessage]):
    """Takes WRITE_S a group; refuses what is empty, and crashes over `crash`."""

    def __init__(self, groups: list[list[bytes]]) -> None:
        self.groups = groups

    async def on_batch(self, batch: list[WriterMessage]) -> None:
        await asyncio.sleep(WRITE_S)
        for message in batch:
            match message:
                case Append():
                    payloads = [bytes(payload) for payload in message.payloads]
                    self.groups.append(payloads)
                    if b"crash" in payloads:
                        raise TidelogError("boom")
                    message.reply.set([None if p else BadInput("empty") for p in payloads])
                case SetState():
                    raise AssertionError(message)


class Edge(Actor[None]):
    def __init__(self, world: World, tree: Supervisor, groups: list[list[bytes]]) -> None:
        self.writer = tree.actor("writer", lambda: Writer(groups))
        self.gatherer = Gatherer(world.clock(), self.writer, 7, self.spawn)


class Bed:
    def __init__(self, world: World) -> None:
        self.world = world
        self.groups: list[list[bytes]] = []
        self.tree = Supervisor("test")
        self.edge = Edge(world, self.tree, self.groups)
        self.tree.actor("edge", lambda: self.edge)
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(self.tree.run(self.stop))

    def write(self, payload: bytes, cluster_id: int = 7) -> asyncio.Task[Outcome]:
        return asyncio.create_task(self.edge.gatherer.write(cluster_id, payload))

    async def ready(self) -> None:
        await self.world.until(lambda: self.tree.ready, 5)

    async def end(self) -> None:
        self.stop.set()
        await self.running


def test_alone_at_once_and_together_in_one_group_each_with_its_outcome() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.ready()
        for _ in range(3):
            began = world.loop.time()
            assert await bed.write(b"one") is None
            assert world.loop.time() - began < WRITE_S * 1.01
        calls = [bed.write(b"%d" % n if n % 4 else b"") for n in range(20)]
        outcomes = await asyncio.gather(*calls)
        assert [isinstance(outcome, BadInput) for outcome in outcomes] == [
            n % 4 == 0 for n in range(20)
        ]
        assert [len(group) for group in bed.groups] == [1, 1, 1, 1, 19]
        await bed.end()

    run(main, 1)


def test_large_and_foreign_payloads_go_by_themselves() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.ready()
        large = b"x" * (ALONE_BYTES + 1)
        await asyncio.gather(
            bed.write(b"a"), bed.write(b"b"), bed.write(large), bed.write(b"f", 8), bed.write(b"c")
        )
        assert [large] in bed.groups
        assert [b"f"] in bed.groups
        assert sorted(p for group in bed.groups for p in group if len(p) == 1) == [
            b"a", b"b", b"c", b"f"
        ]  # fmt: skip
        await bed.end()

    run(main, 2)


def test_a_caller_that_goes_away_leaves_the_others_their_answers() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.ready()
        calls = [bed.write(b"%d" % n) for n in range(5)]
        await asyncio.sleep(0)
        calls[1].cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [outcome for n, outcome in enumerate(done) if n != 1] == [None] * 4
        assert await bed.write(b"later") is None
        await bed.end()

    run(main, 3)


def test_every_call_is_answered_when_the_writer_crashes_or_all_ends() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.ready()
        # The edge after the writer is restarted with it: as at the end, its pauses are cut short.
        calls = [bed.write(b"first"), bed.write(b"crash"), bed.write(b"third")]
        await asyncio.sleep(PAUSE_S)
        calls += [bed.write(b"fourth"), bed.write(b"fifth")]
        async with asyncio.timeout(5):
            done = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(done[1], ActorStopped)
        assert all(outcome is None or isinstance(outcome, ActorStopped) for outcome in done)
        bed.running.cancel()
        await asyncio.wait([bed.running])

    run(main, 4)
