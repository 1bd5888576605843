"""A relay log that is younger than the rows downstream tells nothing of how far those go."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.applier.publisher import Publisher, create
from tests.unit.applier.sim_rig import CONFIG, saved, started, world_with_database
from tidelog import failpoints, feed_reader
from tidelog.changes import Event
from tidelog.errors import Stopped, TidelogError
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_applier.config import ApplierConfig, RelayConfig
from tidelog_applier.service import build, build_recovery

SELDOM = msgspec.structs.replace(CONFIG, checkpoint_s=1000.0)
ELSEWHERE = msgspec.structs.replace(SELDOM, relay=RelayConfig(log_dir="elsewhere"))
NOWHERE = msgspec.structs.replace(SELDOM, relay=RelayConfig(log_dir=""))
ROWS = 60


@pytest.fixture(autouse=True)
def short_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is a small part of what was applied."""
    monkeypatch.setattr(feed_reader, "FETCH_MESSAGES", 20)


async def killed_ahead(world: World, database: SimDatabase) -> tuple[Publisher, Node]:
    """Rows without a key are far above the checkpoint."""
    publisher, node = await started(world, SELDOM)
    await add(world, database, publisher)
    node.kill()
    assert saved(database) < publisher.commit_ts
    return publisher, node


async def add(world: World, database: SimDatabase, publisher: Publisher) -> None:
    before = len(database.rows("d", "bag"))
    for number in range(ROWS):
        await publisher.rows(bag=[Event("c", 0, None, None, {"v": number})])
    await world.until(lambda: len(database.rows("d", "bag")) == before + ROWS, 60, "the rows")


def delete_relay(node: Node) -> None:
    for path in list(node.disk._names):
        if path.startswith("relay/"):
            node.disk.lose(path)


async def read_and_killed(world: World, node: Node) -> None:
    """A life that has one fetch in its relay log, and has saved no checkpoint."""
    kills = node.kills
    failpoints.arm("applier.intake.kept", node.kill)
    node.start(build, SELDOM)
    await world.until(lambda: node.kills > kills, 60, "the kill")
    failpoints.disarm_all()


async def the_last_row(
    world: World, database: SimDatabase, publisher: Publisher, rows: int
) -> None:
    """It comes, and nothing came twice."""
    await publisher.rows(t=[create(1, 1)])
    await world.until(lambda: len(database.rows("d", "t")) == 1, 60, "the last row")
    assert database.violations == []
    assert len(database.rows("d", "bag")) == rows


def test_a_relay_that_a_short_life_made_anew_cuts_no_safe_mode_short() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await killed_ahead(world, database)
        delete_relay(node)
        await read_and_killed(world, node)
        node.start(build, SELDOM)
        await the_last_row(world, database, publisher, ROWS)

    run(main, 1)


@pytest.mark.parametrize("config", [ELSEWHERE, NOWHERE], ids=["another relay", "no relay"])
def test_a_relay_that_was_left_for_a_while_lacks_what_was_applied_meanwhile(
    config: ApplierConfig,
) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world, SELDOM)
        await add(world, database, publisher)
        await node.stop()
        node.start(build, config)
        await add(world, database, publisher)
        node.kill()
        node.start(build, SELDOM)
        await the_last_row(world, database, publisher, 2 * ROWS)

    run(main, 1)


def test_a_full_disk_behind_the_first_header_is_no_relay_of_a_life_before() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await killed_ahead(world, database)
        delete_relay(node)
        failpoints.arm("applier.relay.before_directory_sync", lambda: fill(node))
        node.start(build, SELDOM)
        await world.until(lambda: node.disk.full, 60, "the full disk")
        await world.sleep(5)
        failpoints.disarm_all()
        node.disk.full = False
        await the_last_row(world, database, publisher, ROWS)

    run(main, 1)


def fill(node: Node) -> None:
    node.disk.full = True


def test_a_recovery_does_not_call_such_a_downstream_whole() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        _, node = await killed_ahead(world, database)
        delete_relay(node)
        await read_and_killed(world, node)
        ended: list[bool | TidelogError] = []
        stop = asyncio.Event()

        def end(how: bool | TidelogError) -> None:
            ended.append(how)
            stop.set()

        recover = msgspec.structs.replace(SELDOM, recover=True)
        await build_recovery(recover, node.ports(), end).run(stop)
        (how,) = ended
        assert isinstance(how, Stopped)
        assert "with a relay log that is gone" in how.message
        assert database.checkpoint is not None
        assert not database.checkpoint.consistent

    run(main, 1)
