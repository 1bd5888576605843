"""A bucket is read whole or not at all."""

from __future__ import annotations

import pytest

from tidelog.errors import Unavailable
from tidelog.kv import Bucket
from tidelog.ports import Message, StreamReader
from tidelog.sim import World, run


def test_entries_that_are_cut_short_are_never_taken_for_all() -> None:
    """The link breaks after the leader told the last sequence, for longer than a read waits."""

    async def main(world: World) -> None:
        written = Bucket(world.ports("writer").bus, "members")
        await written.create()
        await written.put("p1", b"1")
        await written.put("p2", b"2")
        node = world.node("reader")
        bus = node.ports().bus
        open_reader = bus.read

        async def read_and_break(
            stream: str, *, start_seq: int, subjects: tuple[str, ...] = ()
        ) -> StreamReader:
            reader = await open_reader(stream, start_seq=start_seq, subjects=subjects)
            node.partition(cut=True)
            return reader

        mended = Bucket(bus, "members")
        bus.read = read_and_break  # type: ignore[method-assign]
        world.loop.call_later(7, node.partition, False)
        with pytest.raises(Unavailable):
            await mended.entries()
        bus.read = open_reader  # type: ignore[method-assign]
        await world.sleep(8)
        found, last = await mended.entries()
        assert sorted(found) == ["p1", "p2"]
        assert last == 2

    run(main, 1)


def test_what_is_put_again_meanwhile_is_read_or_nothing() -> None:
    """The link breaks after the leader told where it stands now, for longer than a read waits."""

    async def main(world: World) -> None:
        written = Bucket(world.ports("writer").bus, "members")
        await written.create()
        await written.put_all({f"p{number}": b"1" for number in range(513)})
        node = world.node("reader")
        bus = node.ports().bus
        open_reader, ask = bus.read, bus.last_message

        async def read_after_a_put(
            stream: str, *, start_seq: int, subjects: tuple[str, ...] = ()
        ) -> StreamReader:
            """What is left up to the last sequence that was told is two batches."""
            await written.put("p7", b"2")
            return await open_reader(stream, start_seq=start_seq, subjects=subjects)

        async def tell_and_break(stream: str, subject: str) -> Message | None:
            newest = await ask(stream, subject)
            node.partition(cut=True)
            return newest

        bus.read = read_after_a_put  # type: ignore[method-assign]
        bus.last_message = tell_and_break  # type: ignore[method-assign]
        world.loop.call_later(7, node.partition, False)
        with pytest.raises(Unavailable):
            await Bucket(bus, "members").entries()

    run(main, 1)
