"""A reader that missed a transaction stays stopped, however old that gets, until an operator says
otherwise or the hard cap takes it, which is told."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.gc_rig import ON_DEMAND, Load, status
from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tidelog.messages import Consumer
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX


@pytest.mark.parametrize("how", ["nobody", "accepted", "hard cap"])
def test_what_a_reader_missed_is_kept_until_somebody_says_otherwise(how: str) -> None:
    async def main(world: World) -> None:
        cap = "40s" if how == "hard cap" else "1h"
        registry, client = await start(world, msgspec.structs.replace(ON_DEMAND, gc_hard_cap=cap))
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(2)
        missed = ts_now(world)
        await client.done(commit(missed, missed + 1))
        await load.run(2)
        position = load.committed[-1]
        assert len(await client.pull_up_to(position)) == len(load.committed)
        await client.done(prewrite(missed))
        await load.run(2)
        assert (await client.pull(position, wait_ms=0)).code == "LatePair"
        await world.until(lambda: status(world, "verifier")["missing"] == 1, 10)
        await asyncio.sleep(40)
        registry.consumers = [Consumer("drainer", "f", position)]
        if how == "accepted":
            await client.control("accept", missed)
        answer = await client.control("gc")
        await asyncio.sleep(1)
        frame = await client.pull(position, wait_ms=0)
        if how == "nobody":
            assert frame.code == "LatePair", "the stop is over, and nobody was told of the loss"
            assert answer["purge_ts"] < missed + 1
        elif how == "accepted":
            assert (answer["purge_ts"] > missed, frame.code) == (True, "")
        else:
            assert any(str(missed) in line for line in answer["lost"]), answer

    run(main, 1)
