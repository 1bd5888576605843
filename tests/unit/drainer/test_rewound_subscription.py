"""A subscription whose position the stream has left behind gets what it missed from the Pumps."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.integration.drainer import fakes
from tests.integration.drainer.fakes import CLUSTER, FEED
from tests.unit.drainer import test_rewind
from tests.unit.drainer.test_rewind import BRIEF, TIMES, behind, replay_streams, trouble
from tests.unit.drainer.test_simulated import DDLS, OneTable
from tests.unit.drainer.test_simulated import txn as made_txn
from tests.unit.drainer.test_stops import begin, said
from tidelog import subjects
from tidelog.changes import DdlMessage, RowMessage
from tidelog.errors import Purged, Unavailable
from tidelog.rewind import EXPIRE_S, PATIENCE_S, Rewinding
from tidelog.sim.world import World, run
from tidelog.subscriber import Position, Subscription, transaction
from tidelog.subscriber.errors import MISSED
from tidelog.subscriber.subscription import of_rows, of_transactions
from tidelog.subscriber.tables import Tables
from tidelog_drainer.publish import batcher


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "FRAME", 512)


def subscribed(
    make: Any, world: World, cluster: str = CLUSTER, **options: Any
) -> Subscription[Any]:
    bus = world.ports().bus
    rewinding = Rewinding(bus, cluster, FEED, "app")
    return make(bus, FEED, 0, Tables(), rewinding=rewinding, **options)  # type: ignore[no-any-return]


def transactions(
    world: World, buffer_bytes: int = 1 << 20, cluster: str = CLUSTER
) -> Subscription[Any]:
    return subscribed(partial(of_transactions, buffer_bytes=buffer_bytes), world, cluster)


@pytest.mark.parametrize("seed", range(6))
def test_each_transaction_once_whatever_fails(seed: int) -> None:
    async def main(world: World) -> None:
        registry, _ = await behind(world, rewind_bytes=4_000)
        subscription = transactions(world)
        failing = asyncio.get_running_loop().create_task(trouble(world, registry, seed))
        found = [txn async for txn in subscription.until(TIMES[-1])]
        await failing
        assert [txn.commit_ts for txn in found] == TIMES
        assert found[3].position == Position(FEED, TIMES[3])
        rows = [event.after for txn in found for one in txn.rows for event in one.events]
        assert rows == [{"id": ts} for ts in TIMES[2:]]
        await subscription.close()
        await world.until(lambda: not replay_streams(world), 3 * EXPIRE_S, "its end")

    run(main, seed)


@pytest.mark.parametrize("seed", range(4))
def test_whoever_waits_may_be_cancelled(seed: int) -> None:
    async def main(world: World) -> None:
        await behind(world, rewind_bytes=4_000)
        rng = world.random("patience")
        subscription = transactions(world)
        found: list[int] = []
        while subscription.watermark < TIMES[-1]:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(rng.random() * 0.05):
                    txn = await subscription.next(TIMES[-1])
                    found += [txn.commit_ts] if txn is not None else []
        assert found == TIMES
        await subscription.close()

    run(main, seed)


def test_messages_as_they_come() -> None:
    async def main(world: World) -> None:
        await behind(world, rewind_bytes=4_000)
        subscription = subscribed(of_rows, world)
        found = [one async for one in subscription.until(TIMES[-1])]
        ddls = [one.commit_ts for one in found if isinstance(one, DdlMessage)]
        rows = [e.commit_ts for one in found if isinstance(one, RowMessage) for e in one.events]
        assert [*ddls, *rows] == TIMES
        await subscription.close()

    run(main, 1)


def test_messages_of_a_stream_that_begins_too_late_do_not_come_before_what_was_missed() -> None:
    """Its retention ended between two batches: nothing of the first one is cut."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        keeps = msgspec.structs.replace(BRIEF, changes_max_age_s=86400.0, batch_messages=3)
        registry, pump = await begin(world, keeps)
        for at in range(10, TIMES[-1], 20):
            pump.commit(
                [*(DDLS if at == 10 else []), *map(made_txn, range(at, at + 20, 2))], at + 18
            )
            await world.sleep(0.1)
        node = world.node("drainer")
        await world.until(lambda: said(node).get("published_ts", 0) >= TIMES[-1], 60, "the feed")
        await world.until(lambda: "d1" in registry.drainers, 30, "the Drainer's heartbeat")
        stream = world.nats.streams[subjects.changes_stream(FEED)]
        kept = [slot.message for slot in stream.slots if slot and ".row." in slot.message.subject]
        stream.discard_below(kept[len(kept) // 2].sequence)
        subscription = subscribed(of_rows, world)
        found = [one async for one in subscription.until(TIMES[-1])]
        rows = [e.commit_ts for one in found if isinstance(one, RowMessage) for e in one.events]
        assert rows == TIMES[2:]
        await subscription.close()

    run(main, 1)


def test_the_replay_stays_while_a_large_transaction_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For longer than a replay lives whose reader is gone."""
    monkeypatch.setattr(transaction, "PART_BYTES", 1)
    monkeypatch.setattr(batcher, "MESSAGE_BYTES", 64)
    sizes = {100: 40}
    monkeypatch.setattr(test_rewind, "txn", lambda ts: made_txn(ts, rows=sizes.get(ts, 1)))

    async def main(world: World) -> None:
        await behind(world)
        subscription = transactions(world, buffer_bytes=1000)
        found, read, parts = [], [], 0
        async for txn in subscription.until(TIMES[-1]):
            found.append(txn.commit_ts)
            async for part in txn.parts():
                read += [event.after["id"] for one in part for event in one.events]
                if txn.commit_ts in sizes:
                    parts += 1
                    await world.sleep(EXPIRE_S / 4)
        assert found == TIMES
        assert read == [row for ts in TIMES[2:] for row in range(ts, ts + sizes.get(ts, 1))]
        assert parts > 8, "read for twice as long"
        await subscription.close()

    run(main, 1)


def test_who_is_away_for_longer_goes_on_with_another_replay() -> None:
    async def main(world: World) -> None:
        await behind(world)
        subscription = transactions(world)
        found = []
        async for txn in subscription.until(TIMES[-1]):
            found.append(txn.commit_ts)
            if len(found) in (5, 100):
                await world.sleep(3 * EXPIRE_S)
        assert found == TIMES
        await subscription.close()

    run(main, 1)


def test_what_nobody_fills_is_an_error_that_says_so() -> None:
    async def main(world: World) -> None:
        _, pump = await behind(world)
        pump.purged_below = 100
        subscription = transactions(world)
        with pytest.raises(Purged) as purged:
            await anext(subscription)
        assert purged.value.hint == MISSED
        began = asyncio.get_running_loop().time()
        with pytest.raises(Unavailable, match="cluster 'nope' does not answer"):
            await anext(transactions(world, cluster="nope"))
        assert PATIENCE_S <= asyncio.get_running_loop().time() - began < 2 * PATIENCE_S

    run(main, 1)
