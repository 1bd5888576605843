"""A structure that is not there yet, or whose bucket can't be asked."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.cycles import left_in_cycles
from tidelog.errors import Unavailable
from tidelog.kv import Bucket, Entry
from tidelog.sim import World, run
from tidelog_applier.read.structures import PAUSE_S, TRIES, Structures

FEED = "main"


def test_a_bucket_that_is_away_is_asked_again_and_its_error_told_and_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    async def away(_: Bucket, key: str) -> Entry | None:
        asked.append(key)
        raise Unavailable("the bus is away")

    monkeypatch.setattr(Bucket, "get", away)

    async def main(world: World) -> None:
        known, began = Structures(world.ports("applier"), FEED), world.loop.time()
        with pytest.raises(Unavailable, match="the bus is away"):
            await known.get("d", "t", 1)
        assert len(asked) == TRIES
        assert world.loop.time() - began == pytest.approx((TRIES - 1) * PAUSE_S, abs=0.01)
        with left_in_cycles() as left:
            for _ in range(3):
                with suppress(Unavailable):
                    await known.get("d", "t", 1)
        assert left["Unavailable"] == 0, left

    run(main, 1)
