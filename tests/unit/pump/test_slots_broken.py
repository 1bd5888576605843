"""A slot that this machine can't use is left to whoever can."""

from __future__ import annotations

import pytest

from tests.unit.pump.shared_disk import Pumps
from tests.unit.pump.test_adoption_troubles import Broken
from tidelog.sim import World, run


def test_a_slot_that_can_t_be_used_is_passed_over_until_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = Broken(monkeypatch, "lock", "slot-0/.lock")

    async def main(world: World) -> None:
        pumps = Pumps(world)
        await pumps.start(1)
        first = pumps.identities()
        assert list(first) == ["slot-0"]
        await pumps.stop()
        broken.on = True
        await pumps.start(1)
        second = pumps.identities()
        assert list(second) == ["slot-1"]
        assert second["slot-1"][0] != first["slot-0"][0]
        assert broken.met == 1, "it is not tried again in that start"
        await pumps.stop()
        broken.on = False
        await pumps.start(1)
        assert pumps.identities() == {"slot-0": (first["slot-0"][0], first["slot-0"][1] + 1)}

    run(main, 1)
