"""What PD shows of nodes that a registry has not heard yet."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.registry.nodes import Script
from tests.unit.registry.test_pd_mirror import P1, Stage, play
from tidelog.messages import ONLINE, PAUSED


@pytest.mark.parametrize("lives", [True, False])
def test_a_registry_that_begins_keeps_the_addresses_that_pd_shows(
    lives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TiDB that looks meanwhile would find a Pump online at no address; and that of one that is
    down would stay so."""
    said = Script.status
    monkeypatch.setattr(
        Script, "status", lambda self: msgspec.structs.replace(said(self), host="p1:8250")
    )

    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        await stage.world.sleep(5)
        before = stage.shown(P1)
        stage.world.node("r").kill()
        if not lives:
            stage.world.node("p1").kill()
        stage.world.node("r").restart()
        for _ in range(400):
            await stage.world.sleep(0.05)
            assert stage.shown(P1)["host"] == "p1:8250"
            assert stage.shown(P1)["updateTS"] >= before["updateTS"]
        assert stage.shown(P1)["isAlive"] is lives
        stage.writes(P1, PAUSED)
        await stage.shows(P1, PAUSED if lives else "pausing")

    play(scenario)
