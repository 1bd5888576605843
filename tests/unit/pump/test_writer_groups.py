"""How the writer splits what waits into groups."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.pump.rig import CONFIG, NODE, prewrite, start, ts_now
from tidelog.actor import Actor, Reply
from tidelog.sim import World, run
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.write import writer
from tidelog_pump.write.writer import (
    GROUP_RECORDS,
    Append,
    Outcome,
    SetState,
    Writer,
    group_records,
)


def append(count: int) -> Append:
    reply: Reply[list[Outcome]] = Reply(lambda _outcomes, _error: None, {})
    return Append(0, [b""] * count, reply)


@pytest.mark.parametrize(
    ("waiting", "most"),
    [
        ([], GROUP_RECORDS),
        ([1] * 64, GROUP_RECORDS),
        ([GROUP_RECORDS] * 2, GROUP_RECORDS),
        ([500] * 4, 1000),
        ([1] * 1023, 512),
    ],
)
def test_a_group_is_half_of_what_waits_unless_little_waits(waiting: list[int], most: int) -> None:
    batch = [append(count) for count in waiting]
    assert group_records([SetState("online"), *batch]) == most


def test_a_large_payload_may_take_a_slow_disk_as_long_as_its_client_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    append_fast = Segments.append
    size, takes_s = 800_000, 2 * Actor.progress_limit_s

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        client.timeout_s = 600

        async def append_slowly(*args: Any) -> Pointer:
            await world.sleep(takes_s)
            return await append_fast(*args)

        monkeypatch.setattr(Segments, "append", append_slowly)
        monkeypatch.setattr(writer, "SLOWEST_BYTES_PER_S", size / takes_s)
        await client.done(prewrite(ts_now(world), b"x" * size))
        assert world.node(NODE).service.restarts_total == 0

    run(main, 5)


def test_groups_that_are_written_slowly_are_no_writer_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch of four takes longer than a writer may without getting on."""
    append_fast = Segments.append

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        client.timeout_s = 600
        base = ts_now(world)

        async def append_slowly(*args: Any) -> Pointer:
            await world.sleep(0.4 * Writer.progress_limit_s)
            return await append_fast(*args)

        monkeypatch.setattr(Segments, "append", append_slowly)
        writes = [client.done(prewrite(base + n, b"x" * 800_000)) for n in range(60)]
        began = world.clock().monotonic()
        await asyncio.gather(*writes)
        assert world.clock().monotonic() - began > 1.5 * Writer.progress_limit_s
        assert world.node(NODE).service.restarts_total == 0

    run(main, 5)
