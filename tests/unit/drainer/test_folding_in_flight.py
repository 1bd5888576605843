"""What was decoded is no more than that: a DDL whose batch is still on its way is not folded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.drainer.fakes import FEED
from tests.unit.drainer.test_doubts import ddls, read, wide
from tests.unit.drainer.test_folding_waits import behind_mine
from tests.unit.drainer.test_pending_ddls import (
    ddl,
    of_version,
    published,
)
from tests.unit.drainer.test_simulated import DDLS, txn
from tests.unit.drainer.test_stops import CONFIG, begin
from tidelog import subjects
from tidelog.errors import Unavailable
from tidelog.sim.bus import SimBus
from tidelog.sim.world import World, run
from tidelog_drainer.service import build

OTHERS = 200


@pytest.mark.parametrize("killed", [False, True])
def test_a_writers_job_whose_early_ddl_is_in_flight_is_not_folded(
    killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = 3 + OTHERS
    away = False
    append = SimBus.append

    async def appends(bus: SimBus, stream: str, *args: Any, **kwargs: Any) -> int:
        """The stream has no leader for a while; the buckets beside it have theirs."""
        if away and stream == subjects.changes_stream(FEED):
            raise Unavailable("no leader")
        return await append(bus, stream, *args, **kwargs)

    monkeypatch.setattr(SimBus, "append", appends)

    async def main(world: World) -> None:
        nonlocal away
        world.open_ddl_history = lambda url, bus: behind_mine(last)
        _, pump = await begin(world)
        binlogs = [ddl(10 * n + 1, n) for n in range(4, last + 1)]
        node = await published(world, pump, [*DDLS, txn(20), *binlogs], 10 * last + 1)
        row_ts = 10 * last + 12
        away = True
        pump.commit([of_version(wide(row_ts), last)], row_ts)
        await world.sleep(12.0)
        if killed:
            node.kill()
        away = False
        if killed:
            node.start(build, CONFIG)
        await published(world, pump, [], row_ts)
        found = await read(world, 10 * last + 1, row_ts)
        rows = [event.after for one in found for m in one.rows for event in m.events]
        assert rows == [{"id": row_ts, "v": 7}]
        assert ddls(found) == [(row_ts, 3, True)], "readers have not been told of column v"

    run(main, 1)
