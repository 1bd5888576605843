"""What somebody else writes into a replay ends that one, and its reader hears of it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.integration.drainer import fakes
from tests.integration.drainer.fakes import CLUSTER, FEED
from tests.unit.drainer.test_rewind import TIMES, behind
from tests.unit.drainer.test_simulated import txn
from tests.unit.drainer.test_stops import said
from tidelog import subjects
from tidelog.errors import Stuck, TidelogError
from tidelog.ports import Outgoing, Ports
from tidelog.rewind import Rewinding
from tidelog.sim.world import World, run
from tidelog.supervisor import Supervisor
from tidelog_drainer.publish.position import NotOurs, Tail, read_tail
from tidelog_drainer.rewind import filling


def test_junk_at_the_end_of_a_replay_ends_that_one_and_not_the_feed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes when all is filled, just before the rewinder looks."""

    async def junk_first(ports: Ports, feed: str) -> Tail:
        junk = Outgoing(subjects.changes_txn(feed), b"junk")
        await ports.bus.append(subjects.changes_stream(feed), [junk])
        return await read_tail(ports, feed)

    monkeypatch.setattr(filling, "read_tail", junk_first)
    monkeypatch.setattr(fakes, "FRAME", 512)

    async def main(world: World) -> None:
        registry, pump = await behind(world)
        node = world.node("drainer")
        tree = node.service
        rewinding = Rewinding(world.ports().bus, CLUSTER, FEED, "late")
        await rewinding.ask(0)

        def ended() -> bool:
            assert (node.service, tree.restarts_total, node.failures) == (tree, 0, [])
            return bool(said(node, "rewinder")["rewinds"]["late"]["error"])

        await world.until(ended, 60, "its error")
        with pytest.raises(NotOurs, match=r"no Drainer wrote message \d+ of REPLAY_SHOP_late"):
            await rewinding.ask(0)
        last = TIMES[-1] + 10
        for one in registry.pumps:
            one.commit([txn(last)] if one is pump else [], last)
        await world.until(lambda: said(node)["published_ts"] >= last, 5, "the feed")
        assert (node.starts, tree.restarts_total, node.failures) == (1, 0, [])

    run(main, 1)


def test_what_is_stuck_in_a_replay_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may still write where the next replay of that reader would."""

    class Hangs(Supervisor):
        async def run(self, _: asyncio.Event) -> None:
            raise Stuck("publisher does not end")

    monkeypatch.setattr(filling, "Supervisor", Hangs)

    async def main(world: World) -> None:
        await behind(world)
        node = world.node("drainer")
        with contextlib.suppress(TidelogError):
            await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        await world.until(lambda: bool(node.failures), 60, "its end")
        assert isinstance(node.failures[0], Stuck)

    run(main, 1)
