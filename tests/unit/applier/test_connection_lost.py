"""The downstream's control connection breaks at a moment that is not a row's, and an end that
finds the downstream, or the stream, in no good state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import Slow, saved, started, stopped, world_with
from tidelog.downstream import DownstreamOptions, TableRule
from tidelog.errors import Stopped, Unavailable
from tidelog.schema.structure import TableStructure
from tidelog.sim.downstream import SimDatabase, SimDownstream
from tidelog.sim.life import Life
from tidelog.sim.world import World, run


class Breaking(SimDatabase):
    """Its connections break while tables are looked at, as often as `rules` says, and each time
    one is closed."""

    rules = 0
    closes = 0

    def open(self, options: DownstreamOptions, life: Life) -> SimDownstream:
        return Broken(self, options, life)


class Broken(SimDownstream):
    _database: Breaking

    async def rule(self, db: str, structure: TableStructure) -> TableRule:
        if self._database.rules:
            self._database.rules -= 1
            raise Unavailable("the connection was lost")
        return await super().rule(db, structure)

    async def close(self) -> None:
        self._database.closes += 1
        raise Unavailable("the connection was lost")


def test_a_connection_that_is_lost_while_a_table_is_looked_at_is_opened_anew() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Breaking)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        before, database.rules = database.epoch, 2
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the row")
        assert database.epoch == before + 2
        assert database.rows("d", "t") == [{"id": 1, "v": 1}]
        assert (database.violations, node.service.restarts_total) == ([], 0)

    run(main, 1)


def test_a_downstream_that_can_t_be_told_of_the_end_is_let_go() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Breaking)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "the tables")
        await node.stop()
        assert (database.closes, node.failures, node.running) == (1, [], False)

    run(main, 1)


class Refusing(SimDatabase):
    refuses = True

    async def transact(self, life: Life, work: Any) -> None:
        if self.refuses and work.works:
            raise Stopped("the downstream refuses the row")
        await super().transact(life, work)


def test_a_stop_behind_a_row_that_is_refused_calls_it_applied_nowhere() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Refusing)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "the tables")
        stood = saved(database)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: stopped(world), 10, "the typed stop")
        await node.stop()
        assert (saved(database), node.failures, node.running) == (stood, [], False)
        database.refuses = False
        node.restart()
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the row")
        assert database.rows("d", "t") == [{"id": 1, "v": 1}]

    run(main, 1)


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_come_while_it_ends_are_the_next_life_s(seed: int) -> None:
    """Its last row takes long, so it reads on after it takes no more."""

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "the tables")
        database.row_s = 5.0
        await publisher.rows(t=[create(1, 1)])
        await world.sleep(1)
        ending = world.loop.create_task(node.stop())
        await world.sleep(1)
        await publisher.rows(t=[create(2, 2)])
        await ending
        assert (node.failures, node.running) == ([], False)
        assert [row["id"] for row in database.rows("d", "t")] == [1]
        assert saved(database) == publisher.commit_ts - 1
        database.row_s = 0.0
        node.restart()
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the rest")
        assert [row["id"] for row in database.rows("d", "t")] == [1, 2]
        assert database.violations == []

    run(main, seed)
