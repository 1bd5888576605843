"""What the hard cap takes, open Prewrites among it, is told and holds nobody any more."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.gc_rig import (
    ON_DEMAND,
    Load,
    purged,
    restart_without_index,
    status,
)
from tests.unit.pump.rig import (
    NODE,
    commit,
    prewrite,
    start,
    ts_now,
)
from tidelog import failpoints
from tidelog.messages import Consumer, TxnStatusReply
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_pump.retention import gc_actor


@pytest.mark.parametrize("page", [1, 2, 1024])
def test_the_hard_cap_takes_it_and_says_what_was_lost_to_whom(
    monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(gc_actor, "PAGE", page)

    async def main(world: World) -> None:
        config = msgspec.structs.replace(ON_DEMAND, gc="20s", gc_hard_cap="1m", txn_timeout_s=1e6)
        registry, client = await start(world, config)
        load = Load(world, client)
        await load.run(5)
        stuck = ts_now(world)
        await client.done(prewrite(stuck))
        registry.safe_point = load.committed[3]
        registry.consumers = [Consumer("a1", "main", load.committed[3])]
        await load.run(5)
        await asyncio.sleep(15)
        answer = await client.control("gc")
        assert (answer["purge_ts"], answer["lost"]) == (0, [])
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats + 1, 10)
        assert "consumer a1 of feed main has read" in registry.beats[-1].status.detail["retention"]
        await asyncio.sleep(45)
        answer = await client.control("gc")
        lost = [ts for ts in load.committed[4:] if ts <= answer["purge_ts"]]
        assert lost
        assert f"{len(lost)} transactions that consumer a1 of feed main" in " ".join(answer["lost"])
        assert f"1 open Prewrites, start_ts {stuck}" in answer["lost"]
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats + 1, 10)
        assert "1 open Prewrites" in registry.beats[-1].status.detail["retention"]
        await purged(client, load.committed[3])
        node = world.node(NODE)
        await node.stop()
        node.restart()
        await client.until_online()
        assert status(world, "gc")["lost"] == answer["lost"]

    run(main, 4)


@pytest.mark.parametrize("after", ["nothing", "a restart", "an index built again"])
def test_an_open_prewrite_that_the_hard_cap_took_holds_nobody_any_more(after: str) -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(ON_DEMAND, gc="20s", gc_hard_cap="40s", txn_timeout_s=1e6)
        registry, client = await start(world, config)
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(2)
        silent, late = ts_now(world, 100), ts_now(world, 101)
        await client.done(prewrite(silent), prewrite(late))
        await load.run(15)
        await asyncio.sleep(60)
        await load.run(5)
        point = (await client.control("gc"))["purge_ts"]

        async def again() -> None:
            if after == "an index built again":
                await restart_without_index(world, client)
            elif after == "a restart":
                world.node(NODE).kill()
                world.node(NODE).restart()
                await client.until_online()
            assert status(world, "sorter")["open"] == status(world, "indexer")["open"] == 0
            for start_ts in (silent, late):
                assert (await client.control("inspect", start_ts))["state"] == "lost"

        await again()
        refused = await client.control("resolve", silent)
        assert (refused["code"], refused["message"][-4:]) == ("Refused", "lost")
        assert (await client.control("who-has", silent))["answer"] == "purged"
        # Its Commit comes after all: taken, counted, shown; and no reader meets it.
        end = ts_now(world)
        await client.done(commit(late, end), commit(late, end))
        await client.until_state(late, "lost")
        await world.until(lambda: status(world, "indexer")["purged_commits"] == 1, 5)
        newest = await load.one()
        for _ in range(2):
            found = await client.pull_up_to(newest, point)
            assert [t.commit_ts for t in found] == [ts for ts in load.committed if ts > point]
            await again()
            assert (await client.control("inspect", late))["commit_ts"] == end
            assert not status(world, "indexer")["unpaired_commits"]
        # The other one's rows come once more: then it is a transaction like all others.
        begin = ts_now(world)
        await client.done(prewrite(silent))
        await client.done(commit(silent, begin + 5))
        found = await client.pull_up_to(begin + 5, newest)
        assert [t.start_ts for t in found] == [silent]

    run(main, 9)


def test_a_commit_at_an_absurd_timestamp_is_lost_and_holds_no_segment_for_ever() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(ON_DEMAND, gc="20s", gc_hard_cap="40s", txn_timeout_s=1e6)
        registry, client = await start(world, config)
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(2)
        absurd = ts_now(world, 100)
        await client.done(prewrite(absurd), commit(absurd, 1 << 61))
        await load.run(15)
        await asyncio.sleep(10)
        before = await client.control("gc")
        assert before["purge_ts"] < absurd
        assert "younger than gc" in before["stays"]
        await asyncio.sleep(25)
        await load.run(3)
        answer = await client.control("gc")
        lost = f"1 transactions committed above the purge point, start_ts {absurd}"
        assert lost in answer["lost"]
        assert absurd < answer["purge_ts"] < ts_now(world)
        for _ in range(2):
            assert (await client.control("inspect", absurd))["state"] == "lost"
            newest = await load.one()
            found = await client.pull_up_to(newest, answer["purge_ts"])
            assert newest in [txn.commit_ts for txn in found]
            assert not status(world, "indexer")["unpaired_commits"]
            await restart_without_index(world, client)

    run(main, 11)


@pytest.mark.parametrize("page", [1, 1024])
def test_a_commit_beside_an_absurd_one_keeps_its_rows_and_their_loss_is_told(
    monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(gc_actor, "PAGE", page)

    async def main(world: World) -> None:
        config = msgspec.structs.replace(ON_DEMAND, gc="20s", gc_hard_cap="40s", txn_timeout_s=1e6)
        registry, client = await start(world, config)
        registry.safe_point, registry.pumps = TS_MAX, [NODE]
        load = Load(world, client)
        await load.run(2)
        absurd, slow = ts_now(world, 100), ts_now(world, 101)
        await client.done(prewrite(absurd), prewrite(slow), commit(absurd, 1 << 61))
        await load.run(20)
        end = ts_now(world)
        await client.done(commit(slow, end))
        await load.run(3)
        await asyncio.sleep(25)
        # Its segment was written before the hard cap's end, and its Commit comes behind that.
        assert (await client.control("gc"))["purge_ts"] < slow
        found = await client.pull_up_to(end, end - 1)
        assert [txn.start_ts for txn in found if txn.commit_ts == end] == [slow]
        await asyncio.sleep(20)
        answer = await client.control("gc")
        assert (
            f"1 transactions committed above the purge point, start_ts {absurd}" in answer["lost"]
        )
        assert end <= answer["purge_ts"] < ts_now(world)
        await purged(client, end - 1)
        assert (await client.control("inspect", absurd))["state"] == "lost"

    run(main, 12)


@pytest.mark.parametrize("index_lost", [False, True])
def test_a_crash_before_an_open_prewrite_is_closed_as_lost(*, index_lost: bool) -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(ON_DEMAND, gc="20s", gc_hard_cap="40s")
        registry, client = await start(world, config)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        stuck = ts_now(world, 100)
        await client.done(prewrite(stuck))
        await load.run(15)
        node = world.node(NODE)
        failpoints.arm("pump.gc.before_removal", lambda: node.kill(restart_after_s=0.5))
        # The first run is a minute after the start.
        await world.until(lambda: node.kills == 1, 60)
        if index_lost:
            node.indexes.clear()
        await client.until_online()
        assert (await client.control("inspect", stuck))["state"] == "lost"
        await client.done(commit(stuck, ts_now(world)))
        newest = await load.one()
        found = await client.pull_up_to(newest, status(world, "gc")["gc_ts"])
        assert newest in [t.commit_ts for t in found]
        assert stuck not in [t.start_ts for t in found]

    try:
        run(main, 10)
    finally:
        failpoints.disarm_all()


def test_what_a_writer_still_sends_of_a_purged_transaction_opens_nothing() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await client.pull(0, wait_ms=0)
        first = await load.one()
        await load.run(10)
        await client.pull(load.committed[-1], wait_ms=0)
        await asyncio.sleep(25)
        answer = await client.control("gc")
        assert answer["purge_ts"] > first
        # Remembered for ten minutes, though its segment is gone.
        await client.done(prewrite(first - 1), commit(first - 1, first))
        assert status(world, "indexer")["open"] == 0
        await asyncio.sleep(700)
        await load.run(10)
        await client.pull(load.committed[-1], wait_ms=0)
        await asyncio.sleep(25)
        await client.control("gc")
        await client.until_state(first - 1, "unknown")
        # Forgotten by then. Its Commit is no loss, and ends whatever else comes of it.
        await restart_without_index(world, client)
        await client.done(commit(first - 1, first), prewrite(first - 1))
        await client.until_state(first - 1, "committed")
        assert status(world, "indexer")["unpaired"] == status(world, "indexer")["open"] == 0
        # Without that it is opened, and the upstream says what became of it.
        second = load.committed[1]
        registry.verdicts[second - 1] = TxnStatusReply("committed", second)
        await client.done(prewrite(second - 1))
        await world.until(lambda: status(world, "sorter")["open"] == 0, 20)
        registry.pumps = [NODE]
        await world.until(lambda: bool(status(world, "verifier")["unverified"]), 10)
        await asyncio.sleep(5)
        # Nobody can say any more that it was never here: no reader is stopped for it.
        assert not (await client.pull(load.committed[-1], wait_ms=0)).code
        await load.run(10)
        await asyncio.sleep(25)
        await client.control("gc")
        await world.until(lambda: not status(world, "verifier")["unverified"], 10)

    run(main, 6)
