"""Scenarios of docs/scenarios.md that no other room has a test of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.quiet import quiet
from tests.simulation.cluster import FEED
from tests.simulation.test_orders import Rig, play
from tidelog.messages import PAUSED
from tidelog.timestamps import physical_ms
from tidelog_cli.status import report

BEHIND_S, STEP_S = 90.0, 1.0
TOLD_S = 6.0
"""A heartbeat each 2 s, an idle Pump's fresh timestamp each 3 s, and the step between samples."""


class Samples:
    """A lag as `tidelog status` says it, and as whoever has the downstream in hand measures it."""

    def __init__(self, rig: Rig, what: str, position: Callable[[], int]) -> None:
        self._rig = rig
        self._what = what
        self._position = position
        self.told: list[tuple[float, int | None]] = []

    async def take(self, seconds: float) -> tuple[float, float]:
        """For so long; the last two in seconds: told, measured. Never negative, never faster than
        the clock."""
        world = self._rig.world
        for _ in range(int(seconds / STEP_S)):
            await world.sleep(STEP_S)
            told = await self._one()
            at = world.loop.time()
            if told is not None and self.told and (before := self.told[-1][1]) is not None:
                grown_s = (told - before) / 1000
                assert grown_s <= at - self.told[-1][0] + TOLD_S, (self.told[-3:], told)
            self.told.append((at, told))
            assert told is None or told >= 0
        last = self.told[-1][1]
        measured = world.clock().wall_ms() - physical_ms(self._position())
        return (-1.0 if last is None else last / 1000), measured / 1000

    async def _one(self) -> int | None:
        shown: dict[str, Any] = report(await self._rig.nodes(), FEED)
        lag: int | None = shown["lag_ms"][self._what]
        return lag


@pytest.mark.parametrize(("node", "what"), [("applier", "applied"), ("drainer", "published")])
def test_t16_a_lag_is_what_a_reader_measures_through_pause_restart_and_resume(
    node: str, what: str
) -> None:
    quiet()

    async def act(rig: Rig) -> None:
        def position() -> int:
            return rig.applied_ts() if node == "applier" else rig.cluster.checker.position

        samples = Samples(rig, what, position)
        told, _ = await samples.take(5)
        assert told < TOLD_S
        await rig.operate(node, "pause")
        await rig.until_state(node, PAUSED)
        told, measured = await samples.take(BEHIND_S)
        assert measured >= BEHIND_S
        assert abs(told - measured) <= measured / 10, (told, measured)
        stopped = getattr(rig.cluster, node)
        stopped.kill()
        stopped.restart()
        told, measured = await samples.take(20)
        assert abs(told - measured) <= measured / 10, (told, measured)
        await rig.operate(node, "resume")
        told, _ = await samples.take(15)
        assert 0 <= told < TOLD_S

    play(act)
