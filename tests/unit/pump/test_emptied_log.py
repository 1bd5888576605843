"""`value/` is empty at a start, as where its volume isn't mounted: that is no new log. What it held
was acked, and a reader would pass it by."""

from __future__ import annotations

import pytest

from tests.unit.pump.driven import Machine, drive, scanned
from tests.unit.pump.gc_rig import ON_DEMAND, Load, purged, segments
from tests.unit.pump.rig import CONFIG, NODE, Client, start
from tests.unit.pump.test_log_opening import change, fill, small
from tidelog.errors import Corrupt
from tidelog.sim import World, run
from tidelog.sim.node import Node
from tidelog.timestamps import TS_MAX
from tidelog_pump.config import PumpConfig
from tidelog_pump.log.files import CLOSED, SYNCED
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.promised import PROMISED_FILE

Files = dict[str, bytes | None]


def held(node: Node) -> Files:
    """What is on its disk."""
    disk = node.ports().disk
    paths = (*disk.listdir(""), *(f"value/{entry}" for entry in disk.listdir("value")))
    found: Files = {path: disk.read_file(path) for path in paths if path != "value"}
    return {"value": None, **found}


def but(prefix: str, files: Files) -> Files:
    return {path: data for path, data in files.items() if not path.startswith(prefix)}


async def loaded(
    world: World, config: PumpConfig, *, collected: bool
) -> tuple[Node, Client, list[int]]:
    """A Pump with a log, and what is committed in it; the first part of it is `collected`."""
    registry, client = await start(world, config)
    registry.safe_point = TS_MAX
    load = Load(world, client)
    await load.run(20)
    if collected:
        await world.sleep(25)
        assert (await client.control("gc"))["segments"] > 5
        await load.run(5)
    await client.pull_up_to(load.committed[-1], load.committed[-2])
    return world.node(NODE), client, load.committed


async def stops(world: World, node: Node) -> Corrupt:
    """Its start, time after time, and it changes nothing."""
    before, seen = held(node), len(node.failures)
    node.restart()
    await world.until(lambda: len(node.failures) >= seen + 2, 60, "the start to fail")
    node.kill()
    assert held(node)[PROMISED_FILE] == before[PROMISED_FILE]
    assert not [path for path in held(node) if path.endswith(".vlog")]
    error = node.failures[-1]
    assert isinstance(error, Corrupt)
    return error


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("collected", [False, True])
def test_a_log_that_was_emptied_stops_the_start_until_its_loss_is_accepted(
    *, collected: bool, clean: bool
) -> None:
    config = ON_DEMAND if collected else CONFIG

    async def main(world: World) -> None:
        node, client, committed = await loaded(world, config, collected=collected)
        if clean:
            await node.stop()
        whole = held(node)
        node.kill()
        node.disk.restore(but("value/", whole))
        error = await stops(world, node)
        assert "is gone" in error.message
        assert PROMISED_FILE in error.hint

        node.disk.restore(whole)
        node.restart()
        await client.until_online()
        assert (await client.pull_up_to(committed[-1], committed[-2]))[-1].commit_ts == committed[
            -1
        ]

        await node.stop()
        first = segments(world)[0]
        node.disk.restore(but(PROMISED_FILE, but("value/", held(node))))
        failed = len(node.failures)
        node.restart()
        await client.until_online()
        await Load(world, client).one()
        assert len(node.failures) == failed
        if collected:
            await purged(client, committed[0])
            assert segments(world)[0] >= first > "000000.vlog"

    run(main, 1)


def test_a_log_that_ends_before_what_is_known_of_it_elsewhere_stops_the_start() -> None:
    machine = small()
    records = fill(machine.opened())
    end = machine.opened().end
    for reached in (end, Pointer(end.fid, 0), Pointer(0, 0), None):
        drive(machine.segments().open(reached))
    for reached in (Pointer(end.fid, end.offset + 1), Pointer(end.fid + 1, 0)):
        with pytest.raises(Corrupt, match="promised"):
            drive(machine.segments().open(reached))
    assert scanned(machine.opened()) == (records, None), "nothing was changed"
    change(machine, dict.fromkeys([*machine.files(), CLOSED, SYNCED]))
    with pytest.raises(Corrupt, match=r"is the volume of value mounted\?"):
        drive(machine.segments().open(Pointer(0, 1)))
    assert machine.opened().fids == [0]


@pytest.mark.parametrize("seed", range(5))
def test_without_sync_log_a_power_loss_may_take_what_is_known_elsewhere(seed: int) -> None:
    """But for whole segments: each is durable before the next one begins."""
    machine = Machine(seed, segment_bytes=1000, sync=False)
    log = machine.opened()
    records = fill(log)
    end = log.end
    assert end.fid > 0
    assert end.offset > 0
    machine.disk.faults.keeps_unsynced = False
    machine.disk.crash()
    machine.sync = True
    with pytest.raises(Corrupt, match=f"ended at {end.offset} once"):
        drive(machine.segments().open(end))
    machine.sync = False
    drive((again := machine.segments()).open(end))
    assert again.end == Pointer(end.fid, 0)
    assert scanned(again) == ([one for one in records if one[0].fid < end.fid], None)
    with pytest.raises(Corrupt, match="is gone"):
        drive(machine.segments().open(Pointer(end.fid + 1, 7)))
