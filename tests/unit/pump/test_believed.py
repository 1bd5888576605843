"""Marks of W by place: an index that is built again believes what was believed, and nothing that
lay further ahead than W came until the next mark. Their file may be lost, cut, damaged, too large
for the disk."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pump.driven import Machine, append, drive
from tests.unit.pump.rig import prewrite
from tidelog.timestamps import compose
from tidelog_pump.index.believed import MARKS, SLOT_BYTES, Believed, Mark, pack, unpack
from tidelog_pump.index.believed_file import BELIEVED_FILE, BelievedFile
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.sort.high_ts import HighTs

SKEW_MS = 60_000
EVERY_MS = SKEW_MS // 2
START_MS = 1_795_000_000_000
FAR_MS = SKEW_MS + EVERY_MS


def marks(count: int, begin: int = 0) -> list[Mark]:
    return [
        Mark(Pointer(1, 100 * n), compose(START_MS + EVERY_MS * n))
        for n in range(begin + 1, begin + count + 1)
    ]


steps = st.lists(
    st.tuples(
        st.integers(-20_000, 40_000),  # the clock until the next record; it may be set back
        st.integers(-5_000, 2 * SKEW_MS),  # how far ahead of it the timestamp is
        st.booleans(),  # is it noted
    ),
    min_size=1,
    max_size=60,
)


@given(steps, st.data())
def test_what_moved_w_moves_it_again_whichever_marks_are_left(
    played: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    """The clock may jump forth and back, marks may be lost, and W is nowhere below what it was."""
    live, believed = HighTs(follow=True, skew_ms=SKEW_MS), Believed(EVERY_MS)
    clock = START_MS
    log: list[tuple[Pointer, int, int]] = []
    for n, (passed, ahead, noted) in enumerate(played):
        clock += passed
        live.claim(compose(clock + ahead), clock)
        log.append((Pointer(0, 100 * n), compose(clock + ahead), live.value))
        if noted:
            believed.note(Pointer(0, 100 * n + 100), live.value)
    if data.draw(st.booleans(), "a clean end"):
        believed.mark()
    kept = [mark for mark in believed.take() if data.draw(st.booleans())]
    left, again = Believed(EVERY_MS, kept), HighTs(follow=True, skew_ms=SKEW_MS)
    now = max(clock, live.value >> 18)
    for at, ts, value in log:
        up_to = left.up_to(at)
        again.claim(ts, now if up_to is None else (up_to >> 18) - SKEW_MS)
        assert again.value >= value
        assert up_to is None or again.value >> 18 <= max(up_to >> 18, value >> 18)


@given(st.lists(st.integers(0, EVERY_MS - 1), min_size=2, max_size=50), st.data())
def test_what_was_refused_is_not_believed_where_w_goes_on_as_it_does(
    gaps: list[int], data: st.DataObject
) -> None:
    """Records with the time of the clock, and beside one of them another that is far ahead."""
    strange = data.draw(st.integers(0, len(gaps) - 2), "at")
    believed, ms = Believed(EVERY_MS), START_MS
    far = 0
    for n, gap in enumerate(gaps):
        ms += gap
        far = compose(ms + FAR_MS) if n == strange else far
        believed.note(Pointer(0, 100 * n + 100), compose(ms))
    believed.mark()
    up_to = believed.up_to(Pointer(0, 100 * strange))
    assert up_to is not None
    assert far >> 18 > up_to >> 18


def test_before_w_leaps_what_came_before_is_marked() -> None:
    """A night without writes: nothing of the evening is believed up to the morning."""
    believed = Believed(EVERY_MS, marks(1))
    last = compose(START_MS + EVERY_MS + 20)
    believed.note(Pointer(1, 150), last)
    assert believed.take() == []
    morning = compose(START_MS + 40 * EVERY_MS)
    believed.note(Pointer(1, 200), morning)
    assert believed.take() == [Mark(Pointer(1, 150), last), Mark(Pointer(1, 200), morning)]
    assert believed.up_to(Pointer(1, 140)) == last


def test_of_too_many_every_second_one_goes_and_the_last_stays() -> None:
    all_of_them = marks(MARKS + 1)
    believed = Believed(EVERY_MS, all_of_them[:-1])
    believed.note(*all_of_them[-1])
    seen = [believed.thinned]
    assert not believed.take()
    assert believed.take_all(Pointer(0, 0)) == believed.marks
    assert [*seen, believed.thinned] == [True, False]
    assert MARKS // 2 <= len(believed.marks) <= MARKS // 2 + 1
    assert believed.marks[-1] == all_of_them[-1]
    assert {b.at.offset - a.at.offset for a, b in pairwise(believed.marks)} == {200}
    assert believed.up_to(Pointer(1, 0)) in (all_of_them[0].ts, all_of_them[1].ts)


def test_marks_of_what_is_gone_go() -> None:
    believed = Believed(EVERY_MS, marks(9))
    assert believed.take_all(Pointer(1, 300)) == believed.marks == marks(6, 3)


@given(st.integers(0, 8 * SLOT_BYTES - 1), st.integers(1, 255))
def test_a_flipped_byte_takes_its_own_mark_only(at: int, flip: int) -> None:
    data = bytearray(pack(marks(8)))
    data[at] ^= flip
    found, damaged = unpack(bytes(data))
    assert (found, damaged) == ([m for n, m in enumerate(marks(8)) if n != at // SLOT_BYTES], 1)


@given(st.integers(0, 8 * SLOT_BYTES))
def test_a_torn_one_is_counted(length: int) -> None:
    whole, rest = divmod(length, SLOT_BYTES)
    for tail in (b"", bytes(SLOT_BYTES)):
        data = pack(marks(8))[:length] + (tail if not rest else b"")
        found, damaged = unpack(data)
        assert found == marks(whole)
        assert damaged == int(rest > 0 or bool(tail))


class Rig:
    """A log of some records, and the file beside it."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.segments = self.machine.opened()
        self.places = append(self.segments, [prewrite(n, b"x" * 50) for n in range(1, 9)], 8)

    def file(self, *, follow: bool = True) -> BelievedFile:
        """Of a process that starts."""
        self.segments.close()
        mounted = self.machine.mount()
        self.segments = Segments(mounted, segment_bytes=1 << 30, sync=True)
        drive(self.segments.open())
        file = BelievedFile(mounted, self.segments, follow=follow, skew_ms=SKEW_MS)
        drive(file.load())
        return file

    def note_all(self, file: BelievedFile, begin: int = 1) -> None:
        for n, place in enumerate(self.places[begin:], begin):
            file.note(place, compose(START_MS + EVERY_MS * n))
            drive(file.look(0.0))

    def stored(self) -> list[Mark] | None:
        mounted = self.machine.mount()
        if not mounted.exists(BELIEVED_FILE):
            return None
        return unpack(mounted.read_file(BELIEVED_FILE))[0]


def came(file: BelievedFile, at: Pointer) -> int:
    return file.came_ms(at, -1)


def test_a_start_finds_the_marks_and_judges_by_them() -> None:
    rig = Rig()
    rig.note_all(rig.file())
    again = rig.file()
    assert again.status() == 7
    for n, place in enumerate(rig.places[:7]):
        assert came(again, place) == START_MS + EVERY_MS * (n + 1) - SKEW_MS
    assert came(again, rig.places[7]) == -1, "behind the last mark the clock of now counts"


def test_only_under_follow_and_what_was_there_before_is_deleted() -> None:
    rig = Rig()
    rig.note_all(rig.file(follow=False))
    assert rig.stored() is None
    rig.note_all(rig.file())
    assert rig.stored()
    other = rig.file(follow=False)
    assert came(other, rig.places[0]) == -1
    assert rig.stored() is None


def test_marks_behind_the_end_of_the_log_are_gone_before_somebody_writes_there() -> None:
    rig = Rig()
    rig.note_all(rig.file())
    rig.segments.close()
    files = rig.machine.files()
    cut = rig.places[4].offset
    files["value/000000.vlog"] = (files["value/000000.vlog"] or b"")[:cut]
    del files["value/synced"]
    kept = rig.machine.mount().read_file(BELIEVED_FILE)
    rig.machine.disk.restore({**files, BELIEVED_FILE: kept})
    file = rig.file()
    assert rig.segments.end == rig.places[4]
    assert file.status() == 4
    rig.machine.disk.crash()
    assert rig.stored() == unpack(kept)[0][:4]


@pytest.mark.parametrize("data", [b"", b"\0" * 999, b"{}", b"\xff" * SLOT_BYTES])
def test_what_is_no_file_of_marks_is_as_none(data: bytes) -> None:
    rig = Rig()
    drive(rig.machine.mount().write_file(BELIEVED_FILE, data))
    file = rig.file()
    assert came(file, rig.places[0]) == -1
    rig.note_all(file)
    assert len(rig.stored() or ()) == 7


def test_a_full_disk_does_no_harm_and_later_all_is_written() -> None:
    rig = Rig()
    file = rig.file()
    for n in range(1, 6):
        rig.machine.disk.full = n in (2, 3, 4)
        file.note(rig.places[n], compose(START_MS + EVERY_MS * n))
        drive(file.look(0.0))
        assert file.status() == n
    assert [mark.at for mark in rig.stored() or ()] == rig.places[1:6]


def test_a_start_on_a_full_disk_goes_on_without_and_later_all_is_written() -> None:
    rig = Rig()
    mounted = rig.machine.mount()
    file = BelievedFile(mounted, rig.segments, follow=True, skew_ms=SKEW_MS)
    rig.machine.disk.full = True
    drive(file.load())
    rig.machine.disk.full = False
    rig.note_all(file)
    assert [mark.at for mark in rig.stored() or ()] == rig.places[1:]


def test_what_is_not_indexed_yet_is_marked_by_the_clock() -> None:
    """And W of the index, which comes later, makes no mark below."""
    rig = Rig()
    file = rig.file()
    file.came(rig.places[5], START_MS)
    rig.note_all(file)
    assert came(file, rig.places[0]) == START_MS
    assert came(file, rig.places[5]) >= START_MS
