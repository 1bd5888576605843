"""The relay log: what is appended is read back, by this process and the next one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import (
    SMALL_FILE,
    STRUCTURES,
    bodies_of,
    is_large,
    opened,
    piece,
    read,
    relay,
    rows,
    whole,
)
from tidelog.errors import Corrupt, DiskFull, ForeignDirectory, InvariantBroken, IoFailed
from tidelog.real.disk import RealDisk
from tidelog.relay import BatchLog, Incoming, LargeBatch, RelayGap, RelayLog, Spool
from tidelog.sim.file import SimFile


def files(machine: Machine) -> list[str]:
    return [name for name in machine.mount().listdir("relay") if name.startswith("relay-")]


def fill(log: RelayLog, count: int, first: int = 1, size: int = 400) -> dict[int, list[bytes]]:
    """Batches of one row each, each appended by itself."""
    written = {}
    for ts in range(first, first + count):
        written[ts] = [rows(ts, size, ts % 3)]
        drive(log.append([whole(ts, ts - 1, *written[ts])], STRUCTURES))
    return written


def test_batches_are_handed_on_and_read_back_by_the_next_process() -> None:
    machine = Machine()
    log = opened(machine)
    bodies = [rows(5, 50, 0), rows(5, 60, 1)]
    handed = drive(log.append([whole(5, 0, *bodies), whole(6, 5, rows(6))], STRUCTURES))
    assert [one.commit_ts for one in handed] == [5, 6]
    assert drive(bodies_of(handed[0])) == bodies
    assert log.end == 6
    log = opened(machine, 5)
    assert log.end == 6
    assert drive(read(log)) == [(5, bodies), (6, [rows(6)])]
    assert drive(read(log, 5)) == [(6, [rows(6)])]


def test_a_large_batch_is_read_a_piece_at_a_time() -> None:
    machine = Machine()
    log = opened(machine)
    assert drive(log.append([piece(0, rows(9, 900)), piece(1, rows(9, 901))], STRUCTURES)) == []
    last: list[Incoming] = [
        piece(2, rows(9, 902, 2)),
        whole(9, 0, pieces=3),
        whole(10, 9, rows(10)),
    ]
    handed = drive(log.append(last, STRUCTURES))
    assert [is_large(one) for one in handed] == [True, False]
    expected = [rows(9, 900), rows(9, 901), rows(9, 902, 2)]
    for _ in range(2):
        assert drive(bodies_of(handed[0])) == expected
    assert drive(read(opened(machine))) == [(9, expected), (10, [rows(10)])]


def test_an_attempt_that_was_given_up_is_passed_over() -> None:
    machine = Machine()
    log = opened(machine)
    drive(log.append([piece(0, rows(9, 900)), piece(1, rows(9, 901))], STRUCTURES))
    again: list[Incoming] = [
        piece(0, rows(9, 900), attempt="b"),
        whole(9, 0, pieces=1, attempt="b"),
    ]
    handed = drive(log.append(again, STRUCTURES))
    assert drive(bodies_of(handed[0])) == [rows(9, 900)]
    drive(log.append([piece(0, rows(12, 900))], STRUCTURES))
    drive(log.append([whole(11, 9, rows(11))], STRUCTURES))
    assert drive(read(opened(machine))) == [(9, [rows(9, 900)]), (11, [rows(11)])]


def test_a_batch_that_is_not_whole_is_cut_off() -> None:
    machine = Machine()
    log = opened(machine)
    drive(log.append([whole(5, 0, rows(5))], STRUCTURES))
    drive(log.append([piece(0, rows(9, 900))], STRUCTURES))
    log = opened(machine, 5)
    assert log.truncated_bytes > 900
    assert log.end == 5
    drive(log.append([piece(0, rows(9, 900)), whole(9, 5, pieces=1)], STRUCTURES))
    assert drive(read(log)) == [(5, [rows(5)]), (9, [rows(9, 900)])]


def test_a_file_ends_after_a_whole_batch_and_can_be_read_alone() -> None:
    machine = Machine()
    log = opened(machine)
    written = fill(log, 20)
    drive(log.append([piece(0, rows(21, 3000)), piece(1, rows(21, 1))], STRUCTURES))
    drive(log.append([piece(2, rows(21, 2)), whole(21, 20, pieces=3)], STRUCTURES))
    written[21] = [rows(21, 3000), rows(21, 1), rows(21, 2)]
    assert drive(read(log)) == list(written.items())
    names = files(machine)
    assert len(names) > 5
    disk = machine.mount()
    for name in names[:-1]:
        assert disk.size(f"relay/{name}") >= SMALL_FILE
    for name in names[:3]:
        drive(disk.remove(f"relay/{name}"))
    log = relay(machine)
    with pytest.raises(RelayGap):
        drive(log.open(0))
    drive(log.open(20))
    first = log._parts[0].prev_commit_ts
    assert drive(read(log, first)) == [(ts, found) for ts, found in written.items() if ts > first]


def test_purge_removes_what_is_applied_and_never_the_current_file() -> None:
    machine = Machine()
    log = opened(machine)
    written = fill(log, 20)
    assert drive(log.purge(0)) == 0
    assert drive(log.purge(11)) > 0
    assert drive(read(log, 11)) == [(ts, found) for ts, found in written.items() if ts > 11]
    assert drive(read(opened(machine, 11), 11)) == drive(read(opened(machine, 11), 11))
    log = opened(machine, 20)
    assert drive(log.purge(99)) > 0
    assert len(files(machine)) == 1


def test_what_is_lost_in_the_middle_is_a_gap() -> None:
    machine = Machine()
    fill(opened(machine), 20)
    disk = machine.mount()
    drive(disk.remove("relay/relay-000001"))
    log = opened(machine)
    with pytest.raises(RelayGap):
        drive(read(log))
    assert drive(read(log, 19))


def test_a_newest_file_that_is_lost_is_told() -> None:
    machine = Machine()
    fill(opened(machine), 20)
    newest = files(machine)[-1]
    drive(machine.mount().remove(f"relay/{newest}"))
    with pytest.raises(Corrupt, match="gone"):
        opened(machine)


def test_another_feed_is_refused() -> None:
    machine = Machine()
    fill(opened(machine), 1)
    with pytest.raises(ForeignDirectory, match="shop"):
        drive(relay(machine, feed="other").open(0))


def test_it_says_whether_an_earlier_life_left_anything() -> None:
    machine = Machine()
    assert not opened(machine).kept
    log = opened(machine, 4)
    assert not log.kept
    drive(log.append([whole(5, 4, rows(5))], STRUCTURES))
    log = opened(machine, 5)
    assert log.kept
    assert not drive(read(log, 5))


@pytest.mark.parametrize("kind", ["relay", "spool"])
def test_a_large_batch_is_read_while_the_log_is_opened_anew(kind: str, tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealDisk(tmp_path)
        log: BatchLog = RelayLog(disk, "r", feed="f") if kind == "relay" else Spool(disk, "s")
        await log.open(0)
        items: list[Incoming] = [piece(0, rows(9, 900)), whole(9, 0, pieces=1)]
        (large,) = await log.append(items, STRUCTURES)
        assert isinstance(large, LargeBatch)
        await log.append([piece(0, rows(12, 900))], STRUCTURES)
        await log.open(9)
        assert await bodies_of(large) == [rows(9, 900)]
        log.close()

    asyncio.run(main())


def test_what_does_not_follow_is_refused() -> None:
    log = opened(Machine())
    drive(log.append([whole(5, 0, rows(5))], STRUCTURES))
    for wrong in (whole(5, 0, rows(5)), piece(1, rows(9)), whole(9, 5, pieces=1)):
        with pytest.raises(InvariantBroken):
            drive(log.append([wrong], STRUCTURES))


@pytest.mark.parametrize(("kind", "error"), [("full", DiskFull), ("io", IoFailed)])
def test_a_failed_append_is_typed_and_the_log_takes_no_more(
    kind: str, error: type[Exception]
) -> None:
    machine = Machine()
    log = opened(machine)
    drive(log.append([whole(5, 0, rows(5))], STRUCTURES))
    machine.disk.fail_nth(1, kind)
    with pytest.raises(error):
        drive(log.append([whole(6, 5, rows(6))], STRUCTURES))
    with pytest.raises(IoFailed):
        drive(log.append([whole(6, 5, rows(6))], STRUCTURES))
    log = opened(machine, 5)
    if log.end == 5:
        drive(log.append([whole(6, 5, rows(6))], STRUCTURES))
    assert drive(read(log)) == [(5, [rows(5)]), (6, [rows(6)])]


@pytest.mark.parametrize(("step", "kind"), [(2, "full"), (3, "io"), (4, "io")])
def test_a_file_that_can_t_be_begun_is_not_left_open(
    step: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header, the sync of that, or of its name: and the log is opened anew for every try."""
    files: list[SimFile] = []
    make = SimFile.__init__

    def made(file: SimFile, *given: Any) -> None:
        make(file, *given)
        files.append(file)

    monkeypatch.setattr(SimFile, "__init__", made)
    machine = Machine()
    log = opened(machine, max_file_bytes=1)
    fill(log, 5)
    for _ in range(5):
        machine.disk.fail_nth(step, kind)
        with pytest.raises((DiskFull, IoFailed)):
            drive(log.append([whole(6, 5, rows(6))], STRUCTURES))
        drive(log.open(5))
    log.close()
    assert len(files) > 10
    assert [file._path for file in files if not file._closed] == []


def test_files_of_a_relay_that_is_not_ours_are_not_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    fill(opened(machine), 20)
    closed: list[str] = []
    close = SimFile.close

    def noted(file: SimFile) -> None:
        closed.append(file._path)
        close(file)

    monkeypatch.setattr(SimFile, "close", noted)
    log = relay(machine, feed="other")
    with pytest.raises(ForeignDirectory):
        drive(log.open(0))
    log.close()
    assert closed == ["relay/relay-000000"]


def test_a_spool_keeps_large_batches_until_they_are_applied() -> None:
    machine = Machine()
    spool = Spool(machine.mount(), "spool")
    drive(spool.open(4))
    drive(spool.append([piece(0, rows(9, 900), attempt="given up")], STRUCTURES))
    items: list[Incoming] = [piece(0, rows(9, 900)), piece(1, rows(9, 20))]
    items += [whole(9, 4, pieces=2), whole(10, 9, rows(10))]
    large, small = drive(spool.append(items, STRUCTURES))
    assert drive(bodies_of(large)) == [rows(9, 900), rows(9, 20)]
    assert drive(bodies_of(small)) == [rows(10)]
    assert drive(spool.purge(8)) == 0
    assert drive(bodies_of(large)) == [rows(9, 900), rows(9, 20)]
    assert drive(spool.purge(10)) == 1
    drive(spool.append([piece(0, rows(12, 900))], STRUCTURES))
    disk = machine.mount()
    assert len(disk.listdir("spool")) == 1
    drive(Spool(disk, "spool").open(4))
    assert disk.listdir("spool") == []


def test_batches_of_a_write_that_failed_are_held_once_when_they_come_again() -> None:
    """The disk gets full behind them: nobody has them yet."""
    machine = Machine()
    spool = Spool(machine.mount(), "spool")
    drive(spool.open(4))
    drive(spool.append([piece(0, rows(6, 900)), whole(6, 4, pieces=1)], STRUCTURES))
    items: list[Incoming] = [piece(0, rows(9, 900)), whole(9, 6, pieces=1)]
    items += [piece(0, rows(12, 900)), whole(12, 9, pieces=1)]
    machine.disk.fail_nth(5, "full")
    with pytest.raises(DiskFull):
        drive(spool.append([*items, piece(0, rows(15, 900))], STRUCTURES))
    drive(spool.open(6))
    handed = drive(spool.append(items, STRUCTURES))
    assert [batch.commit_ts for batch in handed] == [9, 12]
    assert [drive(spool.purge(below)) for below in (6, 9, 12)] == [1, 1, 1]
    assert machine.mount().listdir("spool") == []
