"""`blackhole:` keeps its position in memory only: whoever starts next begins at `start-ts` again,
or where a copy says that was made meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.unit.applier.publisher import FEED, Publisher, T, create
from tests.unit.applier.sim_rig import CONFIG, saved, started, world_with_database
from tidelog.downstream import Checkpoint
from tidelog.downstreams.blackhole import Blackhole
from tidelog.sim.node import Node
from tidelog.sim.tables import SimTable
from tidelog.sim.world import World, run
from tidelog_applier.config import RelayConfig
from tidelog_applier.service import build, recovery

DRY = msgspec.structs.replace(
    CONFIG, downstream="BlackHole:", relay=RelayConfig(max_file_size=4000)
)
ROWS = 100


def applier(node: Node) -> dict[str, Any]:
    """What it says; nothing before it is there."""
    found: dict[str, Any] = node.service.status().get("applier", {})
    return found


async def read_through(world: World) -> tuple[Publisher, Node]:
    """So much that a relay log would have let its first files go."""
    world.open_downstream = lambda options, life: Blackhole(options)
    publisher, node = await started(world, DRY)
    for number in range(ROWS):
        await publisher.rows(t=[create(number, 1)])
        if number % 10 == 0:
            await world.sleep(1)
    await reached(world, publisher, node)
    await world.sleep(5)
    await node.stop()
    return publisher, node


async def reached(world: World, publisher: Publisher, node: Node) -> None:
    def there() -> bool:
        status = applier(node)
        assert not status.get("error")
        return bool(status.get("checkpoint_ts") == publisher.commit_ts)

    await world.until(there, 60, "the last row")


def test_a_later_start_reads_all_of_it_again() -> None:
    async def main(world: World) -> None:
        publisher, node = await read_through(world)
        node.start(build, DRY)
        await reached(world, publisher, node)
        assert applier(node)["rows"] == ROWS

    run(main, 1)


def test_the_applier_of_a_first_copy_goes_on_behind_it() -> None:
    async def main(world: World) -> None:
        publisher, node = await read_through(world)
        database = world_with_database(world)
        # As the copy leaves it, that was made up to there while the dry run read the feed.
        copied = publisher.commit_ts - ROWS // 2
        database.tables["d", "t"] = SimTable(T)
        database.checkpoint = Checkpoint(copied, consistent=True, feed=FEED, epoch=1)
        database.epoch = 1
        node.start(build, msgspec.structs.replace(DRY, downstream=CONFIG.downstream))
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the last row")
        assert applier(node)["error"] == ""

    run(main, 1)


def test_there_is_nothing_to_recover() -> None:
    assert recovery(msgspec.structs.replace(DRY, recover=True)) is None
