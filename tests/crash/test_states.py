"""The model, the enumeration, and, left to `make full`, a hundred and fifty crash states of every
scenario: `make crash` takes ten thousand by `tests.crash.run`."""

from __future__ import annotations

import random

import pytest

from tests.crash.check import look
from tests.crash.explore import Report, explore, replay
from tests.crash.model import meaning
from tests.crash.pump import Machine, Pump, files_of, play
from tests.crash.pump_lives import UNSYNCED
from tests.crash.recorder import Promise
from tests.crash.run import closing
from tests.crash.scenarios import PROTOCOLS, SCENARIOS, Scenario
from tests.crash.states import content, dimensions, disk, file_ways
from tests.last_line import ZEROS
from tests.unit.pump.rig import commit, prewrite, rollback
from tidelog import record
from tidelog.sim.inode import DiskImage, FileImage, Write
from tidelog_pump.log.files import name
from tidelog_pump.parts import INDEX


def test_the_model_pairs_and_resolves() -> None:
    log = [prewrite(10), prewrite(12), commit(10, 20), prewrite(15), rollback(12)]
    found = meaning(log)
    assert found.commits == {(20, 10): log[0]}
    assert found.bounds == {15: 20}
    assert found.over == {10: 20, 12: 0}
    assert found.resolved == 20
    assert meaning(log[:1]).resolved == 10


def test_every_cut_and_every_subset_of_small_writes_is_met() -> None:
    pending = (Write(0, b"AB"), Write(2, b"CD"))
    file = FileImage(b"", pending)
    met = {content(file, way) for way in file_ways(pending)}
    assert met >= {
        b"",
        b"AB",
        b"\0\0CD",
        b"ABCD",
        b"A",
        b"ABC",
        b"\0\0C",
        b"A\0",
        b"ABC\0",
        b"AB\0\0",
    }
    assert not any(b"D" in data and b"C" not in data for data in met)


def test_a_lost_directory_takes_its_files_along_and_a_rename_may_be_lost_alone() -> None:
    image = DiskImage(
        {"d/f": 1, "g": 2},
        {"": [("d", 0), ("g.tmp", 3), ("g", 3), ("g.tmp", None)]},
        {1: FileImage(b"in d", ()), 2: FileImage(b"old", ()), 3: FileImage(b"new", ())},
    )
    (dim,) = dimensions(image)
    states = [disk(image, {"": way}) for way in dim.ways]
    assert {"g": b"old"} in states
    assert {"d": None, "d/f": b"in d", "g": b"new"} in states
    assert {"g": b"old", "g.tmp": b"new"} in states
    assert all(("d/f" in files) == ("d" in files) for files in states)


@pytest.mark.full
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_start_makes_good_of_what_a_power_loss_leaves(scenario: Scenario) -> None:
    report = explore(scenario, 150)
    assert not report.failures
    assert report.states >= 150
    assert report.twice > 20


def test_a_state_is_met_again_by_its_name() -> None:
    replay(f"{random.Random(1).choice(SCENARIOS[:2]).name}:40:3:6+")


def test_zeros_are_said_of_no_run_that_tried_too_little() -> None:
    each = [Report(protocol, protocol, states=9) for protocol in PROTOCOLS]
    line, is_right = closing(each, 9 * len(PROTOCOLS))
    assert is_right
    assert ZEROS in line
    line, is_right = closing(each, 9 * len(PROTOCOLS) + 4)
    assert not is_right
    assert "cases, 4 FEWER THAN ASKED FOR (" in line
    line, is_right = closing(each[1:], 9)
    assert not is_right
    assert "cases, 1 PROTOCOLS NOT TRIED (" in line


def test_the_magic_before_zeros_is_no_record() -> None:
    """The first write of these that a sector's end cut in two, and the rest not there yet."""
    whole = record.frame(b"one")
    found = record.split(whole + record.frame(b"two")[:4] + bytes(60))
    assert (len(found.records), found.consumed, found.bad) == (1, len(whole), "length")
    assert record.parse_header(record.header(b"")) is None


def test_an_index_that_was_ahead_of_the_log_does_not_come_back() -> None:
    """Without sync-log the log may lose what the index has. It is built anew; then a power loss
    must not bring the old one back, whose head lies somewhere in what was written since."""

    async def main() -> None:
        machine = Machine(UNSYNCED.config)
        pump = Pump(machine)
        await pump.started()
        await pump.append([prewrite(10, b"kept")])
        kept = pump.segments.end.offset
        await pump.append([prewrite(20, b"lost" * 9), commit(20, 21)])
        await pump.idle()
        await pump.kill()
        files = files_of(machine)
        files[name(0)] = (files[name(0)] or b"")[:kept]
        machine.disk.restore(files)
        machine.indexes[INDEX] = machine.indexes[INDEX].without_last(0)
        for _ in range(2):
            pump = Pump(machine)
            await pump.started()
            handed = await pump.log()
            await look(pump, Promise(tuple(handed), len(handed)))
            if len(handed) == 1:
                await pump.append([prewrite(30, b"later" * 40), prewrite(40), commit(30, 50)])
            await pump.stop()
            machine.disk.restore(files_of(machine))
            index = machine.indexes[INDEX]
            machine.indexes[INDEX] = index.without_last(index.unsynced)

    play(main)
