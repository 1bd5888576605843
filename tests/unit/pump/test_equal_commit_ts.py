"""Two transactions of one commit_ts are a typed error, wherever a page or a frame ends (I3)."""

from __future__ import annotations

import pytest

from tests.unit.pump.rig import Client, commit, prewrite, start, ts_now
from tidelog.sim import World, run
from tidelog_proto.transport_pb2 import PulledTxn
from tidelog_pump.pull.frames import PAGE

FAR = 5000


async def read(client: Client, up_to: int, **fields: int) -> tuple[list[PulledTxn], str]:
    """What comes until `up_to` or an error's code."""
    after_ts, found = 0, list[PulledTxn]()
    while after_ts < up_to:
        frame = await client.pull(after_ts, **fields)
        if frame.code:
            return found, frame.code
        found += frame.txns
        after_ts = frame.resolved_ts
    return found, ""


@pytest.mark.parametrize("before", [0, 1, PAGE - 2, PAGE - 1, PAGE, 2 * PAGE - 1])
def test_at_every_place_of_a_page(before: int) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        starts = range(base, base + before)
        await client.done(*(prewrite(ts) for ts in starts))
        await client.done(*(commit(ts, ts + 1000) for ts in starts))
        twins = (base + 2001, base + 2000)
        await client.done(*(prewrite(ts) for ts in twins))
        await client.done(*(commit(ts, base + FAR) for ts in twins))
        found, code = await read(client, base + FAR)
        assert code == "InvariantBroken"
        assert not {txn.start_ts for txn in found} & set(twins)

    run(main, 1)


@pytest.mark.parametrize("max_bytes", [300, 2000, 3400, 4096, 7000])
def test_at_every_end_of_a_frame(max_bytes: int) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(*(prewrite(base + n, bytes(1500)) for n in range(4)))
        await client.done(*(commit(base + n, base + 10 + n) for n in (0, 1)))
        await client.done(*(commit(base + n, base + FAR) for n in (2, 3)))
        found, code = await read(client, base + FAR, max_bytes=max_bytes)
        assert code == "InvariantBroken"
        assert not [txn for txn in found if txn.commit_ts == base + FAR]

    run(main, 2)
