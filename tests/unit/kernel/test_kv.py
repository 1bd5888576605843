"""A bucket is read whole or not at all."""

from __future__ import annotations

import pytest

from tidelog.errors import Unavailable
from tidelog.kv import Bucket
from tidelog.ports import StreamReader
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
