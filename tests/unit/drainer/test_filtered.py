"""A feed of which everything is dropped moves by watermarks, however much there is to drop (I5)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED
from tests.unit.drainer.test_simulated import OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin
from tidelog.change_reader import ChangeReader
from tidelog.decode.errors import MustAsk
from tidelog.filter.settings import TableName
from tidelog.sim.world import World, run
from tidelog.timestamps import compose, physical_ms
from tidelog_drainer.decode.decoding import Decoding
from tidelog_drainer.merge.merger import Txn

BEFORE, LAST = 10, 510
LAG_S = 2.0
"""How far the watermark may be behind while nothing but filtered traffic comes (T7)."""


def test_it_moves_each_second_while_more_comes_than_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def drops(_self: Decoding, _txn: Txn) -> None:
        await asyncio.sleep(0.04)

    def asks(_self: Decoding, _txn: Txn) -> None:
        raise MustAsk

    monkeypatch.setattr(Decoding, "at_once", asks)
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


def test_its_watermark_never_lags_through_a_minute_of_filtered_traffic() -> None:
    config = msgspec.structs.replace(CONFIG, ignore_table=(TableName("app", "t"),))

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        _, pump = await begin(world, config)
        bus, rng, clock = world.ports().bus, world.random("traffic"), world.clock()
        reader = ChangeReader(bus, FEED, 0)
        pump.commit([], compose(clock.wall_ms()))
        while not reader.position:
            await reader.next()

        async def read() -> None:
            while True:
                await reader.next()

        reading = asyncio.ensure_future(read())
        lags: list[float] = []
        end = world.loop.time() + 60
        while world.loop.time() < end:
            now_ms = clock.wall_ms()
            lags.append((now_ms - physical_ms(reader.position)) / 1000)
            ts = compose(now_ms)
            pump.commit([txn(ts + at) for at in range(rng.randrange(1, 40))], ts + 50)
            await asyncio.sleep(0.05 + rng.random() * 0.2)
        reading.cancel()
        assert max(lags) < LAG_S
        await reader.close()

    run(main, 7)
