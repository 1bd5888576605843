"""The log's small files where the disk has no room, or holds something else."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from tests.unit.pump.driven import Machine, append, drive, scanned
from tests.unit.pump.rig import prewrite
from tidelog_pump.log import catalog, opening, reserve
from tidelog_pump.log.catalog import Catalog, ClosedSegment
from tidelog_pump.log.files import CLOSED, SYNCED
from tidelog_pump.log.reserve import RESERVE_FILE, Reserve
from tidelog_pump.log.segments import Segments

PAYLOADS = [prewrite(n, bytes([n]) * 200) for n in range(1, 20)]
SEGMENT = ClosedSegment(0, 7, 900)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> MagicMock:
    log = MagicMock()
    for module in (catalog, opening, reserve):
        monkeypatch.setattr(module, "log", log)
    return log


def filled() -> tuple[Machine, Segments]:
    machine = Machine(segment_bytes=1000)
    log = machine.opened()
    for number, payload in enumerate(PAYLOADS, 1):
        append(log, [payload], number)
    return machine, log


@pytest.mark.parametrize("data", [b"", b"abc", catalog.pack([SEGMENT])[:-1], b"x" * 24])
def test_of_a_catalog_that_cant_be_read_the_footers_are_believed(
    data: bytes, said: MagicMock
) -> None:
    machine, log = filled()
    closed = log.closed()
    machine.disk.restore({**machine.files(), CLOSED: data})
    again = machine.opened()
    said.warning.assert_called_once()
    assert again.closed() == closed
    assert not again.damaged
    assert [payload for _, payload in scanned(again)[0]] == PAYLOADS
    mounted = machine.mount()
    assert catalog.unpack(mounted.read_file(CLOSED)) == closed, "and it is made anew"


def test_a_catalog_that_no_room_is_for_is_no_catalog(said: MagicMock) -> None:
    machine = Machine()
    disk = machine.mount()
    disk.mkdir("value")
    kept = Catalog(disk, CLOSED)
    machine.disk.full = True
    drive(kept.save([SEGMENT]))
    assert kept.load() == {}
    machine.disk.full = False
    drive(kept.save([SEGMENT]))
    assert kept.load() == {0: SEGMENT}
    machine.disk.full = True
    drive(kept.save([]))
    assert not disk.exists(CLOSED), "one that names what is gone would be worse"
    assert said.warning.call_count == 2


def test_what_takes_long_at_a_start_is_told_first(
    said: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "TOLD_BYTES", 100)
    machine, log = filled()
    last = log.fids[-1]
    files = {path: data for path, data in machine.files().items() if path != SYNCED}
    size = len(files[f"value/{last:06d}.vlog"] or b"")
    machine.disk.restore(files)
    machine.opened()
    said.info.assert_called_once()
    told = said.info.call_args.kwargs
    assert (told["segment"], told["bytes"]) == (f"value/{last:06d}.vlog", size)
    said.info.reset_mock()
    machine.opened()
    said.info.assert_not_called()


def test_a_reserve_that_finds_no_room_after_all_is_made_another_time(said: MagicMock) -> None:
    machine = Machine()
    disk = machine.mount()
    one = Reserve(disk)
    machine.disk.fail_nth(1, "full")
    drive(one.keep())
    assert not disk.exists(RESERVE_FILE)
    said.warning.assert_called_once()
    drive(one.keep())
    assert len(disk.read_file(RESERVE_FILE)) == one.size
