"""A downstream that lets the Applier in, and takes a DDL or a position from it no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import saved, started, world_with
from tidelog.errors import ConfigError, DiskFull
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_applier.apply.epochs import Epochs

LONG_S = 600


def error(node: Node) -> str:
    return str(node.service.status().get("applier", {}).get("error", "")) if node.service else ""


class Forbidding(SimDatabase):
    """Refuses what `forbids` says, to an account whose right to it was taken away."""

    forbids: Callable[[Any], bool] = staticmethod(lambda work: False)
    tries = 0

    async def transact(self, life: Life, work: Any) -> None:
        if self.forbids(work):
            self.tries += 1
            await self._ask(life)
            raise ConfigError("the downstream does not let us in (1142): command denied")
        await super().transact(life, work)


@pytest.mark.parametrize("what", ["ddl", "position"])
def test_what_is_denied_is_tried_again_with_pauses_and_said_until_it_works(what: str) -> None:
    """That the downstream can be opened in between says nothing of it."""
    denied: dict[str, Callable[[Any], bool]] = {
        "ddl": lambda work: work.ddl is not None,
        "position": lambda work: work.checkpoint is not None and not work.works,
    }

    async def main(world: World) -> None:
        database = world_with(world, Forbidding)
        database.forbids = denied[what]
        publisher, node = await started(world)
        await publisher.rows(t=[create(1, 1)])

        await world.until(lambda: "command denied" in error(node), 10, "the first try")
        for _ in range(LONG_S):
            await world.sleep(1)
            assert "command denied" in error(node)
        assert LONG_S / 7.5 < database.tries < LONG_S / 2.5  # 5 s apart, times 0.5 to 1.5
        assert database.epoch <= database.tries + 1
        database.forbids = lambda work: False
        await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the row")
        assert error(node) == ""
        assert node.service.restarts_total == 0

    run(main, 1)


def test_a_position_that_is_denied_beside_the_rows_is_said_too() -> None:
    """Nothing more comes: only the saving meets it."""

    async def main(world: World) -> None:
        database = world_with(world, Forbidding)
        publisher, node = await started(world)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: len(database.rows("d", "t")) == 1, 10, "the row")
        database.forbids = lambda work: work.checkpoint is not None and not work.works
        await publisher.watermark(500)
        await world.until(lambda: "command denied" in error(node), 20, "the first try")
        database.tries = 0
        for _ in range(LONG_S):
            await world.sleep(1)
            assert "command denied" in error(node)
        assert database.tries < LONG_S / 2.5
        database.forbids = lambda work: False
        await world.until(lambda: saved(database) == 500, 20, "the position")
        assert error(node) == ""
        assert node.service.restarts_total == 0

    run(main, 1)


def test_a_full_disk_of_our_own_is_said_until_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing has to be opened again after it."""

    async def main(world: World) -> None:
        full = True
        add = Epochs.add

        async def added(epochs: Epochs, epoch: int) -> None:
            if full:
                raise DiskFull("no space left on our device")
            await add(epochs, epoch)

        monkeypatch.setattr(Epochs, "add", added)
        database = world_with(world, SimDatabase)
        publisher, node = await started(world)

        await world.until(lambda: "no space left" in error(node), 10, "the first try")
        full = False
        await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the tables")
        assert error(node) == ""

    run(main, 1)
