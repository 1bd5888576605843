"""A feed of which everything is dropped moves by watermarks, however much there is to drop (I5)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.integration.drainer.fakes import FEED
from tests.unit.drainer.test_simulated import OneTable, txn
from tests.unit.drainer.test_stops import begin
from tidelog.change_reader import ChangeReader
from tidelog.sim.world import World, run
from tidelog_drainer.decoding import Decoding
from tidelog_drainer.merger import Txn

BEFORE, LAST = 10, 510


def test_it_moves_each_second_while_more_comes_than_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def drops(_self: Decoding, _txn: Txn) -> None:
        await asyncio.sleep(0.04)

    monkeypatch.setattr(Decoding, "decode", drops)

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        _, pump = await begin(world)
        pump.commit([], BEFORE)
        reader = ChangeReader(world.ports().bus, FEED, 0)
        while (reader.position or 0) < BEFORE:
            await reader.next()
        arrived = [world.loop.time()]

        async def read() -> None:
            while (reader.position or 0) < LAST:
                if await reader.next():
                    arrived.append(world.loop.time())

        reading = asyncio.ensure_future(read())
        for ts in range(BEFORE + 1, LAST + 1):
            pump.commit([txn(ts)], ts)
            await asyncio.sleep(0.02)
        assert reader.position is not None
        assert BEFORE < reader.position < LAST * 3 // 4, "it is behind, and not at its beginning"
        await reading
        pauses = [later - sooner for sooner, later in pairwise(arrived)]
        assert max(pauses) < 3, "a second, and what one frame takes to be dropped"
        await reader.close()

    run(main, 1)
