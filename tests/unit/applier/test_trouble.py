"""The Applier when something goes wrong at an awkward moment: nothing hangs, nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import Publisher, T, create
from tests.unit.applier.sim_rig import (
    CONFIG,
    NODE,
    Slow,
    saved,
    started,
    stopped,
    told_by_registry,
    world_with,
    world_with_database,
)
from tests.unit.downstreams.shapes import ddl
from tests.unit.registry.nodes import CLUSTER
from tests.unit.registry.rig import operate
from tidelog.changes import Event
from tidelog.errors import Stopped, Unavailable
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.apply.applier import Applier
from tidelog_applier.apply.control import Control
from tidelog_applier.config import RelayConfig
from tidelog_applier.position import Position
from tidelog_applier.read.assembler import BatchAssembler
from tidelog_applier.read.intake import Intake
from tidelog_applier.service import build
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


class RefusingRows(SimDatabase):
    """Takes tables and positions, and no row while it `refuses`."""

    refuses = True

    async def transact(self, life: Life, work: Any) -> None:
        if self.refuses and work.works:
            raise Stopped("the downstream refuses the row", hint="widen the column")
        await super().transact(life, work)


def test_a_lane_that_stops_is_told_although_no_row_follows() -> None:
    async def main(world: World) -> None:
        database = world_with(world, RefusingRows)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: stopped(world), 10, "the typed stop")
        await publisher.watermark(900)
        await world.sleep(10)
        assert node.service.status()["applier"]["on_their_way"] == 1
        assert saved(database) == 2

    run(main, 1)


def test_a_position_that_cant_be_saved_because_of_another_applier_is_a_fence() -> None:
    """Only watermarks come, and the saving task is the first to meet the new epoch."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == 2, 10, "the tables")
        database.epoch += 1
        await publisher.watermark(500)
        await world.until(lambda: stopped(world), 20, "the typed stop")
        assert node.starts == 1
        assert node.service.restarts_total == 0
        assert saved(database) == 2

    run(main, 1)


def test_a_large_transaction_that_takes_long_is_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece is applied soon; all of them take longer than an actor may be silent."""
    sizes = {"spill_bytes": 2000, "piece_bytes": 1000}
    monkeypatch.setattr(Intake.__init__, "__kwdefaults__", sizes)
    monkeypatch.setattr(BatchAssembler.__init__, "__kwdefaults__", sizes)

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        database.row_s = 4.0
        await publisher.large(messages=60, rows=20)
        await world.until(lambda: saved(database) == publisher.commit_ts, 600, "the rows")
        assert world.clock().monotonic() > Applier.progress_limit_s
        assert node.service.restarts_total == 0
        assert len(database.rows("d", "t")) == 1200

    run(main, 1)


def test_a_downstream_that_answers_nothing_is_said_until_it_does() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        database.row_s = 40.0
        await publisher.rows(t=[create(1, 1)])
        said = "has waited 15 s for the downstream's answer"
        await world.until(lambda: said in node.service.status()["applier"]["error"], 20, "why")
        assert database.rows("d", "t") == []
        await world.until(lambda: len(database.rows("d", "t")) == 1, 40, "the row")
        await world.until(lambda: not node.service.status()["applier"]["error"], 1, "the end")
        assert node.service.restarts_total == 0

    run(main, 1)


class Opening(SimDatabase):
    """Tells of each opening."""

    opened: Callable[[], None] = staticmethod(lambda: None)

    async def take_over(self, life: Life, feed: str, epoch: int = 0) -> int:
        self.opened()
        return await super().take_over(life, feed, epoch)


def test_a_stop_before_the_replay_has_begun_calls_nothing_consistent() -> None:
    """An earlier life had applied more than its checkpoint tells; the next one lost its upstream
    before it knew how much, and was ended: the third one has to be careful still."""

    async def main(world: World) -> None:
        database = world_with(world, Opening)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        no_relay = msgspec.structs.replace(CONFIG, relay=RelayConfig(log_dir=""))
        node.start(build, msgspec.structs.replace(no_relay, checkpoint_s=1000.0))
        for number in range(9):
            await publisher.rows(bag=[Event("c", 0, None, None, {"v": number})])
        await world.until(lambda: len(database.rows("d", "bag")) == 9, 10, "the rows")
        node.kill()
        database.opened = lambda: node.partition(True)
        node.restart()
        await world.until(lambda: database.epoch == 2, 20, "the next life")
        await world.sleep(1)
        await node.stop()
        assert database.checkpoint is not None
        assert not database.checkpoint.consistent
        database.opened = lambda: None
        node.start(build, no_relay)
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the last commit")
        assert database.violations == []
        assert len(database.rows("d", "bag")) == 9

    run(main, 1)


def test_where_an_earlier_life_may_have_got_further_nothing_is_consistent() -> None:
    async def main(world: World) -> None:
        world_with_database(world)
        control = Control(CONFIG, world.ports(), Position(), if_free=False)
        control.safe_until = 10
        before = control.next(9, consistent=True)
        assert (before.consistent, before.unsure) == (False, 10)
        behind = control.next(10, consistent=True)
        assert (behind.consistent, behind.unsure) == (True, 0)

    run(main, 1)


def test_after_a_ddl_alone_it_is_known_who_was_last() -> None:
    """A recovery asks whether its own relay log has all that may have been applied."""

    async def main(world: World) -> None:
        world_with_database(world)
        ports = world.ports()
        control = Control(CONFIG, ports, Position(), if_free=False)
        await control.open()
        made = msgspec.structs.replace(ddl("create_table", (None, T)), commit_ts=5)
        await control.run_ddl(made, 5)
        later = Control(CONFIG, ports, Position(), if_free=False)
        await later.open()
        assert later.checkpoint is not None
        assert not later.checkpoint.consistent
        assert later.is_own(later.checkpoint)

    run(main, 1)


class LateAtFirst(SimDatabase):
    """Can't be opened the first time."""

    tries = 0

    async def take_over(self, life: Life, feed: str, epoch: int = 0) -> int:
        self.tries += 1
        if self.tries == 1:
            raise Unavailable("it starts just now")
        return await super().take_over(life, feed, epoch)


def test_a_downstream_that_is_back_at_the_second_try_is_no_error() -> None:
    async def main(world: World) -> None:
        database = world_with(world, LateAtFirst)
        _, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 30, "the tables")
        assert node.service.status()["applier"]["error"] == ""

    run(main, 2)


def test_a_stop_with_a_downstream_that_is_down_ends() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == 2, 10, "the tables")
        database.faults.refused = 1.0
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: bool(node.service.status()["applier"]["error"]), 30, "trouble")
        await world.sleep(300)
        assert node.service.restarts_total == 0
        began = world.clock().monotonic()
        await node.stop()
        assert world.clock().monotonic() - began < 60
        assert not node.running

    run(main, 3)


def test_an_order_to_pause_is_carried_out_after_a_connection_was_lost() -> None:
    """It was lost by saving the position for that order; nothing else asks for it."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, _ = await started(world, msgspec.structs.replace(CONFIG, checkpoint_s=1000.0))
        await world.until(lambda: len(database.tables) == 2, 20, "the tables")
        await told_by_registry(world)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: len(database.rows("d", "t")) == 1, 10, "the row")
        database.faults.refused = 1.0
        await operate(world.ports().bus, NODE, "pause")
        await world.sleep(20)
        database.faults.heal()

        def settled() -> bool:
            found = database.checkpoint
            return found is not None and found.consistent and saved(database) == 3

        await world.until(settled, 60, "a consistent checkpoint")

    run(main, 3)


def test_a_relay_log_that_lost_a_file_is_a_typed_stop() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the row")
        node.kill()
        node.disk.lose("relay/relay-000000")
        node.restart()
        await world.until(lambda: stopped(world), 20, "the typed stop")
        await world.sleep(100)
        assert (node.starts, node.failures) == (2, [])
        assert "relay-000000" in str(node.service.status()["applier"]["error"])

    run(main, 1)
