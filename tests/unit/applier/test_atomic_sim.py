"""`mode = "atomic"`, and how an Applier begins and is let go: whole transactions, typed stops."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import CONFIG, NODE, saved, started, stopped, world_with
from tests.unit.registry.nodes import CLUSTER
from tests.unit.registry.rig import operate
from tidelog.errors import ConfigError, Stopped, TidelogError
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.apply.applier import FIRST_LEAD_S
from tidelog_applier.read.assembler import BatchAssembler
from tidelog_applier.read.intake import Intake
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

ATOMIC = msgspec.structs.replace(CONFIG, mode="atomic")
LARGE = 240


class Seen(SimDatabase):
    """Notes after each of its transactions how many rows `t` has, and up to where it says so."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.states: set[tuple[int, int]] = set()

    async def transact(self, life: Life, work: Any) -> None:
        try:
            await super().transact(life, work)
        finally:
            self.states.add((saved(self), len(self.rows("d", "t"))))


@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_each_state_of_the_downstream_is_one_that_the_source_had(
    monkeypatch: pytest.MonkeyPatch, unknown: float
) -> None:
    """A transaction that comes in pieces, small ones, and connections that break at COMMIT."""
    sizes = {"spill_bytes": 2000, "piece_bytes": 1000}
    monkeypatch.setattr(Intake.__init__, "__kwdefaults__", sizes)
    monkeypatch.setattr(BatchAssembler.__init__, "__kwdefaults__", sizes)

    async def main(world: World) -> None:
        database = world_with(world, Seen)
        database.faults.unknown = unknown
        publisher, node = await started(world, ATOMIC)
        await world.until(lambda: len(database.tables) == 2, 60, "the tables")
        had = {(publisher.commit_ts, 0)}
        rows = 0
        for number in range(12):
            if number == 5:
                await publisher.large(messages=12, rows=LARGE // 12)
                rows += LARGE
            else:
                await publisher.rows(t=[create(1000 + 2 * number + n, 0) for n in range(2)])
                rows += 2
            had.add((publisher.commit_ts, rows))
        await world.until(lambda: saved(database) == publisher.commit_ts, 300, "all of it")
        with_rows = {state for state in database.states if state[1]}
        assert with_rows <= had
        assert (publisher.commit_ts, rows) in with_rows
        assert database.violations == []
        assert node.service.restarts_total == 0

    run(main, 1)


class Refusing(SimDatabase):
    """Can't be opened, for a reason that stays."""

    why: TidelogError | None = None

    async def take_over(self, life: Life, feed: str, epoch: int = 0) -> int:
        if self.why is not None:
            raise self.why
        return await super().take_over(life, feed, epoch)


@pytest.mark.parametrize("late", [False, True])
def test_a_downstream_that_refuses_for_good_is_a_typed_stop(*, late: bool) -> None:
    """Also where the lease came only after the start had gone on without it."""

    async def main(world: World) -> None:
        database = world_with(world, Refusing)
        database.why = Stopped("the checkpoint belongs to feed other", hint="use another table")
        _, node = await started(world)
        if late:
            node.partition(True)
            await world.sleep(4 * FIRST_LEAD_S)
            assert not stopped(world)
            node.partition(False)
        await world.until(lambda: stopped(world), 30, "the typed stop")
        told = str(node.service.status()["applier"]["error"])
        assert "belongs to feed other" in told
        await world.sleep(60)
        assert (node.service.restarts_total, node.failures) == (0, [])
        assert database.epoch == 0

    run(main, 2)


def test_a_wrong_configuration_ends_the_process() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Refusing)
        database.why = ConfigError("no such user", hint="check downstream")
        _, node = await started(world)
        await world.until(lambda: bool(node.failures), 30, "the end")
        assert isinstance(node.failures[0], ConfigError)

    run(main, 3)


def test_an_applier_that_is_let_go_hands_its_lease_back() -> None:
    async def main(world: World) -> None:
        database = world_with(world, SimDatabase)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, node = await started(world)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the row")
        await world.sleep(5)
        await operate(world.ports().bus, NODE, "offline")

        def told() -> bool:
            shown: Any = node.service.status()["membership"]
            return bool(shown["state"] == "offline")

        await world.until(told, 60, "offline")
        await publisher.rows(t=[create(2, 2)])
        await world.sleep(20)
        assert len(database.rows("d", "t")) == 1
        assert database.checkpoint is not None
        assert database.checkpoint.consistent

    run(main, 4)
