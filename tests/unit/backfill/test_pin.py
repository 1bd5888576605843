"""What is behind a copy is held for its Applier, whoever is registered already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.unit.registry.nodes import CLUSTER, Script, nodes
from tests.unit.registry.rig import join, play
from tidelog.bulk.jobs import BackfillJob
from tidelog.messages import APPLIER, PUMP, Consumer
from tidelog.ports import Bus
from tidelog.sim import World
from tidelog_backfill.snapshot.pin import Pin
from tidelog_registry import consumers

JOB = BackfillJob(
    source="mysql://db/", downstream="mysql://copy/", feed="f", nats_url="nats://n", cluster=CLUSTER
)
S = 100
OWN, HELD = Consumer("backfill-f", "f", S), Consumer("applier-f", "f", S)


class SimPin(Pin):
    def __init__(self, world: World) -> None:
        super().__init__(JOB, world.ports().clock)
        self._ports = world.ports()

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[Bus]:
        yield self._ports.bus


async def known(bus: Bus) -> list[Consumer]:
    return (await nodes(bus)).consumers


def test_it_is_held_in_the_name_of_an_applier_that_is_still_to_come() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        await pin.hold(S)
        assert await known(bus) == [OWN]
        assert await pin.let_go(S) == []
        assert await known(bus) == [HELD]

    play(main)


def test_one_that_announces_itself_speaks_for_itself() -> None:
    async def main(world: World, bus: Bus) -> None:
        applier = Consumer("applier-f", "f", 120)
        await join(world, Script(APPLIER, "applier-f", feed="f", consumers=[applier]))
        pin = SimPin(world)
        await pin.hold(S)
        assert await pin.let_go(S) == []
        assert await known(bus) == [applier]

    play(main)


def test_the_copys_own_pin_stays_where_the_applier_can_not_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(PUMP, "p"))
        pin = SimPin(world)
        await pin.hold(S)
        (warning,) = await pin.let_go(S)
        assert "consumer backfill-f holds" in warning
        assert await known(bus) == [OWN]

    monkeypatch.setattr(consumers, "MAX_CONSUMERS", 1)
    play(main)
