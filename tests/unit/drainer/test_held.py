"""A Drainer that an operator paused or takes out: when it is done, and what it still promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import begin, everything, joins, remembered, said, written
from tidelog.errors import Unavailable
from tidelog.messages import CLOSING, OFFLINE, ONLINE, PAUSED, PAUSING
from tidelog.schema.model import DdlJob
from tidelog.sim.world import World, run


class Leaving(OneTable):
    """A history that answers until its TiDB is `gone`."""

    gone = False

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        if self.gone:
            raise Unavailable("no TiDB answers")
        async for page in super().jobs(after_job_id):
            yield page


@pytest.mark.parametrize(("order", "reached"), [(PAUSING, PAUSED), (CLOSING, OFFLINE)])
def test_one_that_waits_for_its_history_can_be_held(order: str, reached: str) -> None:
    """What waits to be decoded is published by nobody: it is not in hand."""

    async def main(world: World) -> None:
        made = Leaving()
        world.open_ddl_history = lambda url, bus: made
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 10)
        await world.until(lambda: said(node).get("published_ts", 0) >= 10, 30, "the feed")
        made.gone = True
        pump.commit([written(20, [], schema_version=3), txn(30)], 30)
        await world.until(lambda: "no TiDB answers" in said(node)["waiting"], 30, "the wait")
        registry.tells = order
        await world.until(lambda: registry.heard == reached, 30, reached)
        made.gone = False
        await world.sleep(5)
        assert await everything(world) == [2, 4, 10]
        if order == PAUSING:
            registry.tells = ONLINE
            await world.until(lambda: said(node)["published_ts"] >= 30, 30, "the rest")
            assert (await everything(world))[-1] == 30

    run(main, 1)


def test_one_that_left_keeps_for_its_next_life_whom_it_let_join() -> None:
    """It answers the registry (I4): the next life knows that Pump though the bucket was lost."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 10)
        await world.until(lambda: said(node).get("published_ts", 0) >= 10, 30, "the feed")
        registry.tells = CLOSING
        await world.until(lambda: bool(said(node, "collector").get("left")), 30, "the end")
        await joins(world, "p9")
        assert remembered(node) == {"p1": None, "p9": None}

    run(main, 1)
