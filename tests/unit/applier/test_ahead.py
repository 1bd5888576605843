"""Reading ahead ends by what ends reading, and says it to whoever asks how far it is."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tidelog.errors import DiskFull, Purged, TidelogError, Unavailable
from tidelog_applier.read import Ahead, Intake


class Script:
    """An Intake that gets one further with each `next`, but for what it raises instead."""

    def __init__(self, *script: TidelogError | None) -> None:
        self.position = 0
        self.script = list(script)

    async def next(self) -> list[Any]:
        error = self.script.pop(0)
        if error is not None:
            raise error
        self.position += 1
        return []


def test_it_reads_until_it_is_not_wanted_and_again_after_what_passes() -> None:
    unavailable, full = Unavailable("NATS"), DiskFull("relay")
    script = Script(None, unavailable, None, full, None, None)
    ahead = Ahead(cast(Intake, script))

    async def main() -> None:
        assert await ahead.read(lambda: True) is unavailable
        assert await ahead.read(lambda: True) is full
        assert await ahead.read(lambda: script.position < 3) is None

    asyncio.run(main())
    assert ahead.reached == 3
    assert len(script.script) == 1


def test_what_ends_it_for_good_is_told() -> None:
    script = Script(None, Purged("the stream begins later"))
    ahead = Ahead(cast(Intake, script))
    for _ in range(2):
        assert asyncio.run(ahead.read(lambda: True)) is None
        with pytest.raises(Purged):
            _ = ahead.reached
