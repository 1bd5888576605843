"""Under `follow` an index that is built again believes no more than was believed when it came."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, rollback, start, ts_now
from tests.unit.pump.test_slow_index_sim import EMBEDDED, SLOW, Play
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog_pump.index.believed_file import BELIEVED_FILE
from tidelog_pump.parts import INDEX

AHEAD_MS = 600_000


async def end(world: World, how: str) -> None:
    if how == "stop":
        await world.node(NODE).stop()
    else:
        world.node(NODE).kill()


def lose_the_index(world: World) -> None:
    stored = world.node(NODE).indexes[INDEX]
    stored.apply((), list(stored.keys))


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("with_strange", [False, True], ids=["alone", "beside one far ahead"])
def test_a_timestamp_that_was_refused_is_not_believed_later(
    *, with_strange: bool, how: str
) -> None:
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
        await end(world, how)
        lose_the_index(world)
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


@pytest.mark.parametrize("data", [None, b"", b"\x00" * 500], ids=["lost", "empty", "damaged"])
def test_without_the_marks_the_clock_of_now_counts(data: bytes | None) -> None:
    """More is believed than when it came, as before there were marks; nothing below a promise."""

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        node = world.node(NODE)
        far = ts_now(world) + compose(AHEAD_MS)
        await client.done(prewrite(far), rollback(far))
        ts = ts_now(world)
        await client.done(prewrite(ts), commit(ts, ts + 1))
        await client.pull_up_to(ts + 1)
        await world.sleep(900)
        assert node.service.status()["sorter"]["high_ts"] == ts + 1
        await node.stop()
        disk = node.ports().disk
        if data is None:
            await disk.remove(BELIEVED_FILE)
        else:
            await disk.write_file(BELIEVED_FILE, data)
        lose_the_index(world)
        node.restart()
        await client.until_online()
        assert node.service.status()["sorter"]["high_ts"] == far

    run(main, 1)


def test_what_the_chaser_had_not_read_when_the_process_died_is_not_believed_later() -> None:
    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW))
        play.registry.pumps = [NODE]
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        far = ts_now(world) + compose(AHEAD_MS)
        await play.client.done(prewrite(far), rollback(far))
        for _ in range(45):
            await asyncio.sleep(1)
            await play.transaction()
        assert play.status("chaser")["on"]
        play.pump.kill()
        await world.sleep(AHEAD_MS / 1000)
        play.slow(False)
        play.pump.restart()
        await play.client.until_online()
        assert max(play.acked.values()) <= play.status("sorter")["high_ts"] < far
        await play.transaction()
        reading = asyncio.create_task(play.reading())
        await world.until(play.all_read, 30)
        found = play.status("verifier")
        assert (found["missing"], found["unverified"]) == (0, 0), found
        play.check()
        reading.cancel()

    run(main, 1)


def test_under_an_oracle_nothing_is_written() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, EMBEDDED)
        start_ts = registry.allocate()
        await client.done(prewrite(start_ts), commit(start_ts, registry.allocate()))
        await world.sleep(120)
        assert not world.node(NODE).ports().disk.exists(BELIEVED_FILE)

    run(main, 1)
