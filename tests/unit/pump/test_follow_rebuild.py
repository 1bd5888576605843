"""Under `follow` an index that is built again believes no more than was believed when it came."""

from __future__ import annotations

import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, rollback, start, ts_now
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog_pump.parts import INDEX

AHEAD_MS = 600_000


@pytest.mark.parametrize("with_strange", [False, True], ids=["alone", "beside one far ahead"])
def test_a_timestamp_that_was_refused_is_not_believed_later(*, with_strange: bool) -> None:
    """It was far ahead of the clock, and is behind it when the log is read again. Each Commit below
    it would be a late copy that no other Pump has, and an open Prewrite's bound above its end."""

    async def main(world: World) -> None:
        registry, client = await start(world, CONFIG)
        registry.pumps = [NODE]
        if with_strange:
            far = ts_now(world) + compose(AHEAD_MS)
            await client.done(prewrite(far), rollback(far))
        position = 0
        for _ in range(20):
            await world.sleep(15)
            ts = ts_now(world)
            await client.done(prewrite(ts), commit(ts, ts + 1))
            assert len(await client.pull_up_to(ts + 1, position)) == 1
            position = ts + 1
        slow = ts_now(world)
        await client.done(prewrite(slow))
        await world.sleep(900)
        await world.node(NODE).stop()
        stored = world.node(NODE).indexes[INDEX]
        stored.apply((), list(stored.keys))
        world.node(NODE).restart()
        await client.until_online()
        now = ts_now(world)
        await client.done(prewrite(now), commit(now, now + 1))
        await world.sleep(60)
        assert not (await client.pull(position, wait_ms=0)).code
        found = world.node(NODE).service.status()
        assert found["verifier"]["missing"] == 0
        assert found["sorter"]["resolved_ts"] <= slow, "its Commit may be the next timestamp"
        await client.done(commit(slow, slow + 1))
        assert len(await client.pull_up_to(now + 1, position)) == 2

    run(main, 1)
