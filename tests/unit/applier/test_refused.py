"""Rows that a downstream refuses: which, and what becomes of the others."""

from __future__ import annotations

import asyncio
import errno
import os
from math import log2
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import column, created, table
from tests.unit.pump.driven import Machine
from tidelog.downstream import Checkpoint, Image, RowRefused, TableShare, Work
from tidelog.errors import DiskFull, IoFailed, Unavailable
from tidelog.real.disk import RealDisk
from tidelog_applier.apply.refused import RefusedRow
from tidelog_applier.apply.skipping import REFUSED_FILE, RefusedRows, SkippingLane
from tidelog_applier.position import Position

T = table("t", column("id", "int(11)"), key=("id",))
Numbers = list[int]


class Table:
    """A downstream of numbers: refuses the `bad` ones, and a second one of the same tens digit (as
    a unique key would), so that it depends on the rows before."""

    def __init__(self, bad: set[int]) -> None:
        self.bad = bad
        self.rows: Numbers = []
        self.checkpoint: Checkpoint | None = None
        self.transactions = 0
        self.counted = 0
        """Works whose matches count."""
        self.passing = 0
        """The how manieth transaction meets a refusal that passes; 0 = none does."""
        self.commits = True

    async def connect(self) -> TableLane:
        return TableLane(self)


class TableLane:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._open: Numbers = []
        self._broken = False

    async def apply(self, work: Work) -> None:
        assert not self._broken, "a lane is of no use after it refused"
        self._table.transactions += 1
        if self._table.transactions == self._table.passing:
            self._broken = True
            raise RowRefused("not now", 1105)
        for number in numbers(work):
            taken = {one // 10 for one in (*self._table.rows, *self._open)}
            if number in self._table.bad or number // 10 in taken:
                self._broken, self._open = True, []
                raise RowRefused(f"not {number}", 1062)
            self._open.append(number)
        self._table.counted += not work.safe
        if work.ends and not self._table.commits:
            self._broken = True
            raise RowRefused("all of it is too much", 3100)
        if work.ends:
            self._table.rows += self._open
            self._table.checkpoint, self._open = work.checkpoint, []

    async def close(self) -> None:
        self._open, self._broken = [], True


def numbers(work: Work) -> Numbers:
    """In the order in which a lane writes."""
    found: Numbers = []
    for share in work.shares:
        for part in (share.deletes, share.inserts, share.updates):
            found += [image.row["id"] for image in part]
        found += [event.after["id"] for event in share.events if event.after is not None]
    return found


def share(deletes: Numbers, inserts: Numbers, updates: Numbers) -> TableShare:
    return TableShare("d", T, images(deletes), images(inserts), images(updates))


def images(ids: Numbers) -> list[Image]:
    return [Image({"id": number}) for number in ids]


class Kept(RefusedRows):
    """In memory only."""

    def __init__(self) -> None:
        super().__init__(Machine().mount(), Position())
        self.rows: list[RefusedRow] = []

    async def record(self, rows: list[RefusedRow]) -> None:
        self.rows += rows


async def lane(table: Table, refused: RefusedRows) -> SkippingLane:
    return SkippingLane(await table.connect(), table.connect, refused)


lists = st.lists(st.integers(0, 199), max_size=8)


@given(
    st.lists(st.builds(share, lists, lists, lists), min_size=1, max_size=3),
    st.sets(st.integers(0, 199)),
)
def test_all_rows_but_the_refused_ones_get_there(shares: list[TableShare], bad: set[int]) -> None:
    """The reference: row by row, each alone."""
    work = Work(shares, checkpoint=Checkpoint(7), up_to=7)
    taken: Numbers = []
    left_out: Numbers = []
    for number in numbers(work):
        refused = number in bad or number // 10 in {one // 10 for one in taken}
        (left_out if refused else taken).append(number)
    table, kept = Table(bad), Kept()

    async def scenario() -> None:
        await (await lane(table, kept)).apply(work)

    asyncio.run(scenario())
    assert table.rows == taken
    assert table.checkpoint == Checkpoint(7)
    assert table.counted == 1
    assert [(row.before or row.after or {})["id"] for row in kept.rows] == left_out
    assert all(row.reason.startswith("not ") and row.up_to == 7 for row in kept.rows)
    rows = len(numbers(work))
    assert table.transactions <= 2 + (len(left_out) + 1) * (3 + log2(max(rows, 1)))


@given(st.sets(st.integers(0, 40), max_size=3), st.integers(1, 24))
def test_a_refusal_that_passes_costs_no_row(bad: set[int], passing: int) -> None:
    """Whichever transaction it meets: the window is there, or it stops before its end."""
    ids = [10 * n for n in range(12)]
    table, kept = Table({10 * n for n in bad}), Kept()
    table.passing = passing
    taken = [number for number in ids if number not in table.bad]

    async def scenario() -> None:
        await (await lane(table, kept)).apply(Work([share([], ids, [])], up_to=7))

    try:
        asyncio.run(scenario())
    except RowRefused:
        assert table.transactions == passing  # the last one, without the rows that are refused
        assert table.rows == []
    else:
        assert table.rows == taken
    assert {(row.after or {})["id"] for row in kept.rows} == table.bad & set(ids)


def test_what_only_its_end_meets_is_no_rows_fault() -> None:
    async def scenario() -> None:
        table, kept = Table(set()), Kept()
        table.commits = False
        with pytest.raises(RowRefused, match=r"too much \(no row of it is refused by itself"):
            await (await lane(table, kept)).apply(Work([share([], [1, 11, 21], [])]))
        assert (table.rows, kept.rows) == ([], [])

    asyncio.run(scenario())


def test_what_is_written_one_by_one_or_in_pieces_stops() -> None:
    events = Work([share([], [1], []), TableShare("d", T, events=[created({"id": 5})])])

    async def scenario() -> None:
        table, kept = Table({5}), Kept()
        with pytest.raises(RowRefused, match=r"not 5 \(mend .* without a key"):
            await (await lane(table, kept)).apply(events)
        in_pieces = await lane(table, kept)
        await in_pieces.apply(Work([share([], [11], [])], ends=False))
        with pytest.raises(RowRefused, match=r"not 5 \(mend .* large transaction"):
            await in_pieces.apply(Work([share([], [5], [])]))
        assert (table.rows, kept.rows) == ([], [])

    asyncio.run(scenario())


def test_a_connection_that_is_lost_meanwhile_skips_nothing() -> None:
    async def scenario() -> None:
        table, kept = Table({5}), Kept()

        async def lost() -> TableLane:
            raise Unavailable("gone")

        with pytest.raises(Unavailable):
            await SkippingLane(await table.connect(), lost, kept).apply(Work([share([], [5], [])]))
        assert kept.rows == []

    asyncio.run(scenario())


def test_refused_rows_are_in_a_file_and_counted(tmp_path: Path) -> None:
    row = RefusedRow("d", "t", 7, 1406, "too long", after={"id": 1}, b64=("v",))

    async def scenario() -> None:
        for _ in range(2):
            refused = RefusedRows(RealDisk(tmp_path), Position())
            await refused.record([row])
            refused.close()
        newest = [{"table": "d.t", "up_to": 7, "code": 1406, "reason": "too long"}]
        assert refused.status() == {"skipped": 2, "newest": newest}

    asyncio.run(scenario())
    lines = (tmp_path / REFUSED_FILE).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=RefusedRow) for line in lines] == [row, row]


class Room:
    """Stands for `os.pwritev` of a device that has room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.pwritev

    def __call__(self, fd: int, chunks: list[bytes], offset: int) -> int:
        whole = b"".join(chunks)
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(fd, [whole[: self.room]], offset)
        self.room -= written
        return written


def test_a_full_disk_under_the_file_is_waited_for_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [RefusedRow("d", "t", 7, 1406, "too long", after={"id": n}) for n in range(5)]
    room = Room(10**6)
    monkeypatch.setattr(os, "pwritev", room)

    async def scenario() -> None:
        position = Position()
        refused = RefusedRows(RealDisk(tmp_path), position)
        await refused.record(rows[:1])
        room.room = (tmp_path / REFUSED_FILE).stat().st_size + 20
        for _ in range(3):
            with pytest.raises(DiskFull):
                await refused.record(rows[1:3])
        assert position.skipped == 1
        room.room = 10**6
        await refused.record(rows[1:3])
        assert position.skipped == 3
        with (tmp_path / REFUSED_FILE).open("ab") as file:
            file.write(b'{"db":"d","tab')  # a power loss
        later = RefusedRows(RealDisk(tmp_path), position)
        await later.open()
        assert position.skipped == 3
        await asyncio.gather(later.record(rows[3:4]), later.record(rows[4:]))
        assert position.skipped == 5
        later.close()

    asyncio.run(scenario())
    lines = (tmp_path / REFUSED_FILE).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=RefusedRow) for line in lines] == rows


def test_lanes_that_are_refused_rows_at_once_open_one_file(tmp_path: Path) -> None:
    rows = [RefusedRow("d", "t", n, 1406, "too long", after={"id": n}) for n in range(9)]

    async def scenario() -> None:
        refused = RefusedRows(RealDisk(tmp_path), Position())
        await asyncio.gather(*(refused.record([row]) for row in rows))
        refused.close()

    asyncio.run(scenario())
    lines = (tmp_path / REFUSED_FILE).read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=RefusedRow) for line in lines] == rows


def test_its_lines_are_counted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog_applier.apply.skipping.CHUNK_BYTES", 3)

    async def scenario() -> None:
        disk = Machine().mount()
        for data, whole in ((b"", 0), (b"a", 0), (b"a\n", 1), (b"abc\nde\nfghijk", 2)):
            await disk.write_file(REFUSED_FILE, data)
            position = Position()
            refused = RefusedRows(disk, position)
            await refused.open()
            refused.close()
            assert position.skipped == whole
            assert disk.read_file(REFUSED_FILE) == data[: data.rfind(b"\n") + 1]

    asyncio.run(scenario())


def test_a_file_that_can_not_be_mended_is_closed_and_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = b'{"db":"d"}\n{"db":"d","tab'
    (tmp_path / REFUSED_FILE).write_bytes(torn)

    def fails(fd: int, size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def opened() -> list[str]:
        links = (os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd"))
        return [link for link in links if link.endswith(f"{tmp_path.name}/{REFUSED_FILE}")]

    async def scenario() -> None:
        position = Position()
        refused = RefusedRows(RealDisk(tmp_path), position)
        with monkeypatch.context() as patch:
            patch.setattr(os, "ftruncate", fails)
            for _ in range(3):
                with pytest.raises(IoFailed, match="Input/output error"):
                    await refused.open()
                assert opened() == []
        assert (position.skipped, (tmp_path / REFUSED_FILE).read_bytes()) == (0, torn)
        await refused.open()
        assert len(opened()) == 1
        assert position.skipped == 1
        refused.close()

    asyncio.run(scenario())
    assert (tmp_path / REFUSED_FILE).read_bytes() == b'{"db":"d"}\n'
