"""A Writer told its job and died; others change other tables meanwhile, and the Drainer folds."""

from __future__ import annotations

import pytest

from tests.integration.drainer.fakes import FEED
from tests.unit.drainer.test_doubts import WIDER, ddls, read, wide
from tests.unit.drainer.test_pending_ddls import (
    OTHER,
    OTHER_WIDER,
    Jobs,
    ddl,
    job,
    of_version,
    published,
    restarted,
)
from tests.unit.drainer.test_simulated import DDLS, txn
from tests.unit.drainer.test_stops import begin
from tidelog import subjects
from tidelog.sim.world import World, run


def behind_mine(last: int) -> Jobs:
    """A Writer's job, 3, whose binlog is still to come, and those of others up to `last`."""
    mine = job(3, 5, WIDER, 31, ours=True)
    created = job(4, 3, OTHER, 40, ours=True)
    more = [job(n, 5, OTHER_WIDER, 10 * n, ours=True) for n in range(5, last + 1)]
    return Jobs(mine, created, *more)


@pytest.mark.parametrize("lives", ["one", "two", "bucket lost"])
@pytest.mark.parametrize("others", [60, 191, 200])
def test_a_writers_job_that_waits_for_its_binlog_is_not_folded(others: int, lives: str) -> None:
    last = 3 + others

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: behind_mine(last)
        _, pump = await begin(world)
        binlogs = [ddl(10 * n + 1, n) for n in range(4, last + 1)]
        node = await published(world, pump, [*DDLS, txn(20), *binlogs], 10 * last + 1)
        await world.sleep(12.0)
        if lives != "one":
            if lives == "bucket lost":
                world.nats.delete(f"KV_{subjects.schemas_bucket(FEED)}")
            await restarted(world, node)
        row_ts = 10 * last + 12
        await published(world, pump, [of_version(wide(row_ts), last)], row_ts)
        found = await read(world, 10 * last + 1, row_ts)
        rows = [event.after for one in found for m in one.rows for event in m.events]
        assert rows == [{"id": row_ts, "v": 7}]
        assert ddls(found) == [(row_ts, 3, True)], "readers have not been told of column v"
        await published(world, pump, [ddl(row_ts + 5, 3)], row_ts + 5)
        assert ddls(await read(world, row_ts, row_ts + 5)) == []

    run(main, 1)


@pytest.mark.parametrize("lives", ["one", "two", "bucket lost"])
def test_a_writers_job_that_was_told_early_is_known_until_its_binlog_comes(lives: str) -> None:
    """However many others come between: readers forget which DDLs they have run."""
    last = 203

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: behind_mine(last)
        _, pump = await begin(world)
        binlogs = [ddl(10 * n + 1, n) for n in range(4, last + 1)]
        txns = [*DDLS, txn(20), of_version(wide(35), 3), *binlogs]
        node = await published(world, pump, txns, 10 * last + 1)
        await world.sleep(12.0)
        assert (35, 3, True) in ddls(await read(world, 0, 10 * last + 1))
        if lives != "one":
            if lives == "bucket lost":
                world.nats.delete(f"KV_{subjects.schemas_bucket(FEED)}")
            await restarted(world, node)
            await world.sleep(12.0)
        await published(world, pump, [ddl(10 * last + 5, 3)], 10 * last + 5)
        assert ddls(await read(world, 10 * last + 1, 10 * last + 5)) == []

    run(main, 1)
