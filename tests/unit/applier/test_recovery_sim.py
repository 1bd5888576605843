"""The Applier's upstream is gone: what its relay log makes of the downstream, or why it can't."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import CONFIG, Slow, started, world_with
from tidelog.changes import Event
from tidelog.downstream import Checkpoint
from tidelog.errors import Corrupt, Stopped, TidelogError
from tidelog.sim.world import World, run
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build_recovery, offline, recovery

TXNS = 60
RECOVER = msgspec.structs.replace(CONFIG, recover=True)


async def killed_while_applying(world: World) -> Slow:
    """An Applier that had much in its relay and little in the downstream."""
    database = world_with(world, Slow)
    publisher, node = await started(world)
    await world.until(lambda: len(database.tables) == 2, 10, "the tables")
    database.row_s = 0.5
    for number in range(TXNS):
        row = Event("c", 0, None, None, {"v": number})
        await publisher.rows(t=[create(number, number)], bag=[row])
    await world.until(lambda: 0 < len(database.rows("d", "bag")) < TXNS, 30, "some of the rows")
    node.end()
    database.row_s = 0.0
    assert database.checkpoint is not None
    assert not database.checkpoint.consistent
    return database


async def alone(world: World, config: ApplierConfig = RECOVER) -> bool | TidelogError:
    """How a recovery on the Applier's machine ends."""
    ended: list[bool | TidelogError] = []
    stop = asyncio.Event()

    def end(how: bool | TidelogError) -> None:
        ended.append(how)
        stop.set()

    async with asyncio.timeout(600):
        await build_recovery(config, world.node("applier").ports(), end).run(stop)
    world.node("applier").end()
    (how,) = ended
    return how


def differ(database: Slow, **fields: Any) -> None:
    """The downstream's checkpoint says this, as if another had written it."""
    assert database.checkpoint is not None
    database.checkpoint = msgspec.structs.replace(database.checkpoint, **fields)


def test_the_downstream_becomes_what_the_source_was_and_then_there_is_nothing_to_do() -> None:
    async def main(world: World) -> None:
        database = await killed_while_applying(world)
        assert await alone(world) is True
        saved = database.checkpoint
        assert isinstance(saved, Checkpoint)
        assert saved.consistent
        reached = saved.commit_ts - 2  # two tables, then a row of each in each transaction
        assert reached > 0
        assert sorted(row["v"] for row in database.rows("d", "t")) == list(range(reached))
        assert sorted(row["v"] for row in database.rows("d", "bag")) == list(range(reached))
        assert database.violations == []
        assert await alone(world) is False
        assert await alone(world, CONFIG) is False
        assert database.checkpoint == saved

    run(main, 1)


def test_a_directory_and_a_downstream_that_were_never_used_are_no_recovery() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Slow)
        ended = await alone(world)
        assert isinstance(ended, Stopped)
        assert "was ever applied" in ended.message
        assert "data-dir" in ended.hint
        assert database.checkpoint is None
        # Who was not told to recover goes on waiting for the upstream.
        assert await alone(world, CONFIG) is False

    run(main, 2)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"epoch": 99}, "another Applier wrote here last (epoch 99)"),
        ({"unsure": 99_999}, "may have applied rows up to 99999"),
    ],
)
def test_what_only_another_relay_holds_is_not_called_consistent(
    fields: dict[str, int], said: str
) -> None:
    async def main(world: World) -> None:
        database = await killed_while_applying(world)
        differ(database, **fields)
        ended = await alone(world)
        assert isinstance(ended, Stopped)
        assert said in ended.message
        assert "where the other Applier ran" in ended.hint
        assert database.checkpoint is not None
        assert not database.checkpoint.consistent

    run(main, 3)


def test_without_the_relay_rows_that_are_not_whole_stay_so() -> None:
    async def main(world: World) -> None:
        database = await killed_while_applying(world)
        disk = world.node("applier").ports().disk
        for name in disk.listdir("relay"):
            await disk.remove(f"relay/{name}")
        ended = await alone(world)
        assert isinstance(ended, Stopped)
        assert "the relay log holds nothing" in ended.message
        assert "fill the downstream again" in ended.hint
        assert database.checkpoint is not None
        assert not database.checkpoint.consistent

    run(main, 4)


def test_epochs_that_can_t_be_read_end_it_and_are_named() -> None:
    async def main(world: World) -> None:
        database = await killed_while_applying(world)
        await world.node("applier").ports().disk.write_file("relay/epochs.json", b"[1")
        ended = await alone(world)
        assert isinstance(ended, Corrupt)
        assert ended.message.startswith("relay/epochs.json can't be read")
        assert ended.hint == "delete it"
        assert database.checkpoint is not None
        assert not database.checkpoint.consistent

    run(main, 5)


def test_only_who_keeps_a_relay_can_do_something_alone_at_once_if_told_to() -> None:
    no_relay = msgspec.structs.replace(
        CONFIG, relay=msgspec.structs.replace(CONFIG.relay, log_dir="")
    )
    assert recovery(no_relay) is None
    waits, at_once = recovery(CONFIG), recovery(RECOVER)
    assert waits is not None
    assert at_once is not None
    assert (waits.after_s, at_once.after_s) == (CONFIG.recover_after_s, 0.0)
    with pytest.raises(TidelogError, match="no known scheme"):
        offline(CONFIG)
