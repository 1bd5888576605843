"""A large batch that is read back from the relay, whose file names tables that are gone by now."""

from __future__ import annotations

import pytest

from tests.unit.applier.publisher import BAG
from tests.unit.applier.sim_rig import Slow, saved, started, stopped, world_with
from tests.unit.downstreams.shapes import ddl
from tidelog.changes import Event
from tidelog.sim.world import World, run
from tidelog_applier.read.assembler import BatchAssembler
from tidelog_applier.read.intake import Intake


def test_a_large_batch_is_applied_again_though_a_table_before_it_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"spill_bytes": 2000, "piece_bytes": 1000}
    monkeypatch.setattr(Intake.__init__, "__kwdefaults__", sizes)
    monkeypatch.setattr(BatchAssembler.__init__, "__kwdefaults__", sizes)

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await publisher.rows(bag=[Event("c", 0, None, None, {"v": 1})])
        await publisher.ddl(ddl("drop_table", (BAG, None)))
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the drop")
        assert ("d", "bag") not in database.tables
        database.row_s = 0.3
        await publisher.large(messages=40, rows=20)
        await world.until(lambda: len(database.rows("d", "t")) > 100, 30, "some of its rows")
        node.kill()
        node.restart()
        database.row_s = 0.0
        await world.until(
            lambda: saved(database) >= publisher.commit_ts or stopped(world), 60, "the end"
        )
        assert not stopped(world), node.service.status()["applier"]["error"]
        assert len(database.rows("d", "t")) == 800

    run(main, 1)
