"""What an Applier of files makes of a batch that is larger than what it holds in memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.applier.publisher import Publisher, create
from tests.unit.applier.sim_rig import CONFIG, started, stopped
from tidelog.changes import Event
from tidelog.downstreams.files import FilesDownstream
from tidelog.downstreams.target import Target
from tidelog.pb_files.reader import binlogs
from tidelog.real.disk import RealDisk
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_applier.config import ApplierConfig
from tidelog_applier.read.assembler import BatchAssembler
from tidelog_applier.read.intake import Intake
from tidelog_applier.service import build

TXNS = 40
DDLS = 2


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch comes in pieces, the first with rows of one table only."""
    sizes = {"spill_bytes": 500, "piece_bytes": 500}
    monkeypatch.setattr(Intake.__init__, "__kwdefaults__", sizes)
    monkeypatch.setattr(BatchAssembler.__init__, "__kwdefaults__", sizes)


async def published(world: World, config: ApplierConfig) -> tuple[Publisher, Node]:
    """Transactions of one row in each of two tables, all in one batch."""
    world.open_downstream = lambda options, _: FilesDownstream(Target.parse(options.url), RealDisk)
    publisher, node = await started(world, config)
    txns = [
        {"t": [create(number, 1)], "bag": [Event("c", 0, None, None, {"v": number})]}
        for number in range(TXNS)
    ]
    await publisher.together(*txns)
    return publisher, node


def config_of(directory: Path) -> ApplierConfig:
    return msgspec.structs.replace(CONFIG, downstream=f"file://{directory}")


def told(directory: Path) -> list[tuple[int, int]]:
    """(commit_ts, rows) of each record behind the DDLs."""
    return [(one.commit_ts, len(one.dml_data.events)) for one in binlogs(directory, DDLS)]


WHOLE = [(DDLS + number, 2) for number in range(1, TXNS + 1)]


def test_transactions_that_come_in_pieces_together_are_whole_and_in_order(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        directory = tmp_path / "out"
        publisher, node = await published(world, config_of(directory))

        def there() -> bool:
            status = node.service.status().get("applier", {})
            return bool(status.get("checkpoint_ts") == publisher.commit_ts)

        await world.until(there, 60, "the last one")
        assert told(directory) == WHOLE

    run(main, 1)


def test_more_than_the_buffer_takes_is_a_stop_until_it_is_larger(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        directory = tmp_path / "out"
        config = config_of(directory)
        narrow = msgspec.structs.replace(config, buffer_bytes=1000)
        _, node = await published(world, narrow)
        await world.until(lambda: stopped(world), 60, "the stop")
        error = str(node.service.status()["applier"]["error"])
        assert f"{TXNS} transactions up to {DDLS + TXNS} are one batch" in error
        assert "buffer-bytes" in error
        assert told(directory) == []
        await node.stop()
        node.start(build, config)
        await world.until(lambda: told(directory) == WHOLE, 60, "all of it")

    run(main, 1)
