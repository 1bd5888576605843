"""The stream lost its tail, and in it a Writer's DDL; the bucket beside it did not."""

from __future__ import annotations

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
from tidelog.sim.world import World, run
from tidelog_drainer.service import build

LAST = 203


@pytest.mark.parametrize("saved", [False, True])
def test_a_writers_job_that_was_folded_is_known_again_below_its_binlog(saved: bool) -> None:
    told_ts, row_ts = 10 * LAST + 1, 10 * LAST + 12

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: behind_mine(LAST)
        _, pump = await begin(world)
        binlogs = [ddl(10 * n + 1, n) for n in range(4, LAST + 1)]
        node = await published(world, pump, [*DDLS, txn(20), *binlogs], told_ts)
        stream = subjects.changes_stream(FEED)
        before = world.nats.copy_store()[stream]
        txns = [of_version(wide(row_ts), LAST), ddl(row_ts + 5, 3)]
        await published(world, pump, txns, row_ts + 5)
        await world.sleep(12.0 if saved else 0.0)
        node.kill()
        world.nats.roll_back(world.nats.copy_store() | {stream: before})
        node.start(build, CONFIG)
        await published(world, pump, [], row_ts + 5)
        found = await read(world, told_ts, row_ts)
        rows = [event.after for one in found for m in one.rows for event in m.events]
        assert rows == [{"id": row_ts, "v": 7}]
        assert ddls(found) == [(row_ts, 3, True)], "readers have not been told of column v"

    run(main, 1)
