"""Under `follow`, what was refused when it came is not believed because the index was late."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, prewrite, rollback, start, ts_now
from tests.unit.pump.test_slow_index_sim import SLOW, Play
from tidelog.sim import World, run
from tidelog.timestamps import compose

AHEAD_MS = 90_000
ROOMY = msgspec.structs.replace(CONFIG, storage=SLOW.storage)
"""All that is written waits in memory: the chaser stays off."""


@pytest.mark.parametrize("with_strange", [False, True], ids=["alone", "beside one far ahead"])
@pytest.mark.parametrize("chased", [True, False], ids=["chased", "in memory"])
def test_a_refused_timestamp_is_not_believed_when_the_index_is_late(
    *, chased: bool, with_strange: bool
) -> None:
    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW if chased else ROOMY))
        play.registry.pumps = [NODE]
        reading = asyncio.create_task(play.reading())
        await play.transaction()
        play.slow(True)
        await play.transaction()
        while chased and not play.status("chaser")["on"]:
            await play.transaction()
        far = ts_now(world) + compose(AHEAD_MS)
        if with_strange:
            await play.client.done(prewrite(far), rollback(far))
        for _ in range(45):
            await asyncio.sleep(1)
            await play.transaction()
        assert play.status("chaser")["on"] is chased
        play.slow(False)
        await play.until_off()
        await world.until(play.all_read, 30)
        for _ in range(5):
            await asyncio.sleep(1)
            await play.transaction()
        await world.until(play.all_read, 30)
        assert play.status("sorter")["promised"] < far, "nobody allocated that"
        found = play.status("verifier")
        assert (found["missing"], found["unverified"]) == (0, 0), found
        play.check()
        reading.cancel()

    run(main, 1)
