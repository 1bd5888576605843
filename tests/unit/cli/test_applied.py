"""Up to where a feed's downstreams are, as `tidelog status`, `wait` and `verify` take it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tidelog.errors import DeadlineExceeded, Unavailable
from tidelog.messages import APPLIER, OFFLINE, ONLINE, Nodes, NodeStatus, Order
from tidelog.ports import Bus
from tidelog.positions import applied_ts
from tidelog.sim.world import World, run
from tidelog_cli import wait


def applier(name: str, at: int, *, of: str = "", state: str = ONLINE) -> NodeStatus:
    return NodeStatus(name, state=state, kind=APPLIER, feed="main", resolvedTS=at, standbyOf=of)


def applied(*appliers: NodeStatus) -> int:
    return applied_ts(Nodes(list(appliers)), "main")


def test_an_applier_that_stands_by_holds_nobody_back() -> None:
    assert applied(applier("a", 900), applier("b", 0, of="a")) == 900


def test_who_led_and_froze_holds_nobody_back_while_its_standby_goes_on() -> None:
    assert applied(applier("a", 500), applier("b", 900, of="a"), applier("c", 700, of="a")) == 900


def test_the_slowest_of_several_downstreams_counts() -> None:
    assert applied(applier("a", 900), applier("b", 950, of="a"), applier("other", 300)) == 300


def test_who_was_let_go_counts_only_if_nobody_is_left() -> None:
    gone = msgspec.structs.replace(applier("a", 500, state=OFFLINE), order=Order("offline", 7))
    assert applied(gone, applier("b", 900)) == 900
    assert applied(gone) == 500


def test_who_was_only_stopped_counts() -> None:
    assert applied(applier("a", 500, state=OFFLINE), applier("b", 900)) == 500


def test_other_feeds_and_nobody() -> None:
    assert applied() == 0
    assert applied_ts(Nodes([applier("a", 5)]), "other") == 0


def test_a_position_is_waited_for_while_the_registry_is_away_and_until_time_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away, moved = asyncio.Event(), list[int]()

    async def known(_bus: Bus, _cluster: str) -> Nodes:
        if not away.is_set():
            away.set()
            raise Unavailable("silence")
        return Nodes([applier("a", 500)])

    monkeypatch.setattr(wait, "nodes", known)

    async def main(world: World) -> None:
        bus = world.ports().bus
        assert await wait.applied(bus, "c", "main", 500, 10, moved.append) == 500
        assert moved == [500]
        with pytest.raises(DeadlineExceeded, match="up to 500, not yet 501") as ended:
            await wait.applied(bus, "c", "main", 501, 10, moved.append)
        assert "tidelog status" in ended.value.hint

    run(main, 1)
