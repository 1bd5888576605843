"""Open Prewrites are bounded: an upstream whose ends are lost is refused, not kept in memory."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, rollback, start, ts_now
from tidelog.errors import TidelogError
from tidelog.sim import World, run
from tidelog_proto.transport_pb2 import WriteResult
from tidelog_pump.index import census
from tidelog_pump.parts import INDEX


@pytest.mark.parametrize("index_lost", [False, True])
def test_beyond_the_bound_prewrites_are_refused_until_others_are_closed(
    monkeypatch: pytest.MonkeyPatch, *, index_lost: bool
) -> None:
    monkeypatch.setattr(census, "MAX_OPEN", 10)

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        base = ts_now(world)
        codes = [r.code for r in await client.write(*(prewrite(base + n) for n in range(15)))]
        assert codes == [""] * 10 + ["Overloaded"] * 5
        await client.until_state(base + 9, "open")
        pump = world.node(NODE)
        await pump.stop()
        if index_lost:
            pump.ports().drop_index(INDEX)
        pump.restart()
        found: list[WriteResult] = []
        async with asyncio.timeout(30):
            while not found or found[0].code == "NotOnline":
                with contextlib.suppress(TidelogError):
                    found = await client.write(prewrite(base + 20))
                await asyncio.sleep(0.05)
        assert (found[0].code, found[0].definite) == ("Overloaded", True)
        assert "too many Prewrites are open" in found[0].message
        # What ends one is taken.
        await client.done(rollback(base), commit(base + 1, base + 30))
        await client.until_state(base + 1, "committed")
        codes = [r.code for r in await client.write(*(prewrite(base + 40 + n) for n in range(3)))]
        assert codes == ["", "", "Overloaded"]
        assert not pump.failures

    run(main, 1)
