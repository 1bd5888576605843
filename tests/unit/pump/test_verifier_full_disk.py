"""Late copies while their file beside the index has no room: told, asked again, not forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.pump.rig import NODE, commit, prewrite, ts_now
from tests.unit.pump.test_verifier import passed, start, verdicts
from tidelog.errors import DiskFull
from tidelog.sim import World, run
from tidelog_pump.late.late_file import LateFile


class Full:
    """The next calls of one method of the file that find no room."""

    def __init__(self, patch: pytest.MonkeyPatch, method: str, times: int) -> None:
        self.left = times
        real = getattr(LateFile, method)

        async def maybe(file: LateFile, *given: Any) -> object:
            if self.left:
                self.left -= 1
                raise DiskFull("no room for late.json")
            return await real(file, *given)

        patch.setattr(LateFile, method, maybe)


def test_a_full_disk_delays_the_verdict_and_an_operators_word_and_loses_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspect, miss = Full(monkeypatch, "suspect", 2), Full(monkeypatch, "miss", 2)
    accept = Full(monkeypatch, "accept", 1)

    async def main(world: World) -> None:
        _, late, _ = await start(world)
        base = ts_now(world)
        position = await passed(late, base)
        await late.done(prewrite(base), commit(base, base + 60))

        def waits() -> bool:
            shown: Any = world.node(NODE).service.status()["verifier"]["oldest_unverified"]
            return [one["answer"] for one in shown] == ["DiskFull"]

        await world.until(waits, 300, "the file has no room for the verdict")
        assert not (await late.pull(position, feed="past", wait_ms=0)).code
        await world.until(lambda: verdicts(world) == (0, 1), 300, "the verdict")
        assert miss.left == 0
        await world.until(lambda: suspect.left == 0, 300, "the file is tried again")
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"
        refused = await late.control("accept", base)
        assert (refused["code"], accept.left) == ("DiskFull", 0)
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"
        assert "code" not in await late.control("accept", base)
        assert not (await late.pull(position, feed="past", wait_ms=0)).code

    run(main, 1)
