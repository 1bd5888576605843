"""Every bit of a segment flipped, every length it may be cut to: what is returned is a prefix of
what was written, and unless the loss is provably harmless an error says file and offset.

Where the 4 KiB lie                              a flip or cut in records   in the footer
-----------------------------------------------  -------------------------  ------------------------
closed by a rotation                             Corrupt to its readers     Corrupt to its readers
closed, no catalog yet (the original's)          Corrupt to its readers     Corrupt; max ts: see [1]
last, closed by a clean stop                     Corrupt to readers; cut:   made anew, harmless: it
                                                 Corrupt at the start       follows from the records
last, synced                                     the same                   -
last, nothing known to be synced (power loss)    a torn tail: cut, see [2]  -

[1] The original's footer has no checksum. Its 64 bits of max ts are believed at our first start,
    which writes the catalog; they say when retention may delete the file, no reader uses them.
[2] Beyond the synced offset nobody knows of an ack; after a mere crash of the process the offset is
    exact. What is read is a prefix, the cut is logged with its position.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from typing import NamedTuple
from unittest.mock import MagicMock

import pytest

from tests.unit.pump.driven import Machine, append, drive, footed, scanned
from tests.unit.pump.rig import commit, prewrite
from tidelog import synced
from tidelog.errors import Corrupt
from tidelog_pump.log import catalog, segments
from tidelog_pump.log.files import CLOSED, SYNCED, name
from tidelog_pump.log.place import Pointer

SIZE = 4096
PLACE = name(0)
WHERE = re.compile(r"value/000000\.vlog\D*(\d+)")
SIZES = (0, 1, 300, 40, 1200, 15, 16, 17, 700, 3)

Files = dict[str, bytes | None]
Record = tuple[Pointer, bytes]


class Case(NamedTuple):
    """A directory, its records in order, where those of segment 0 end; is its largest timestamp
    known from elsewhere than from its footer?"""

    files: Files
    records: list[Record]
    end: int
    vouched: bool


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (segments, catalog, synced):
        monkeypatch.setattr(module, "log", MagicMock())


def made(monkeypatch: pytest.MonkeyPatch, which: str) -> Case:
    """Exactly 4 KiB of records of different sizes in segment 0."""
    machine = Machine()
    log = machine.opened()
    payloads = [prewrite(n, bytes([n]) * size) for n, size in enumerate(SIZES, start=1)]
    payloads.append(commit(3, 99))
    pointers = append(log, payloads, 99)
    room = SIZE - log.end.offset - (0 if which in ("synced", "unsynced") else 12)
    last = prewrite(50, b"x" * (room - 16 - len(prewrite(50, b"x" * 300)) + 300))
    pointers += append(log, [last], 99)
    payloads.append(last)
    end = log.end.offset
    if which in ("rotated", "uncatalogued"):
        log._segment_bytes = end
        more = [prewrite(200), commit(200, 201)]
        pointers += append(log, more, 201)
        payloads += more
    elif which == "stopped":
        monkeypatch.setattr(segments, "CLOSE_BYTES", 0)
        drive(log.finish())
    files = machine.files()
    if which == "uncatalogued":
        del files[CLOSED]
    elif which == "unsynced":
        files[SYNCED] = synced.pack(synced.Synced(0, 0, 0))
    data = files[PLACE]
    assert data is not None
    assert len(data) == SIZE
    assert data[end:] in (b"", footed(99))
    return Case(files, list(zip(pointers, payloads, strict=True)), end, which != "uncatalogued")


def position(error: Exception | None) -> int:
    """The offset that the error names; its file is segment 0."""
    assert isinstance(error, Corrupt)
    told = WHERE.search(error.message)
    assert told, error
    return int(told[1])


def read_alone(log: segments.Segments, record: Record, *, hurt: bool) -> None:
    """By its pointer a record is what was written, or an error with its position."""
    pointer, payload = record
    try:
        read = log.payload(pointer)
    except Corrupt as error:
        found: tuple[int, bytes | None] = (position(error), None)
    else:
        found = (pointer.offset, read)
    assert found == (pointer.offset, None if hurt else payload)


def outcome(machine: Machine, case: Case, data: bytes, hurt: int) -> str:
    """Open and read with segment 0 as `data`, damaged at offset `hurt`; what came of it."""
    machine.disk.restore({**case.files, PLACE: data})
    log = machine.segments()
    try:
        drive(log.open())
    except Corrupt as refused:
        return "start" if position(refused) <= hurt else "start, wrong position"
    # What retention goes by is true too, but for a footer that nothing can vouch for.
    assert not case.vouched or {closed.max_ts for closed in log.closed()} <= {99}
    found, error = scanned(log)
    assert found == case.records[: len(found)]
    at = bisect_right(case.records, (Pointer(0, hurt), b"\xff")) - 1
    read_alone(log, case.records[at], hurt=hurt < case.end)
    if error is None and hurt >= case.end:
        # A footer that was passed over is no alarm at the next start.
        assert not machine.opened().status()["damaged_segments"]
    if error is None:
        return "whole" if len(found) == len(case.records) else "cut"
    # The position is that of the first record that is not given out, or of the footer.
    stopped = [*(p.offset for p, _ in case.records if p.fid == 0), case.end][len(found)]
    assert position(error) == stopped <= hurt
    return "scan"


def judged(monkeypatch: pytest.MonkeyPatch, which: str) -> tuple[Counter[str], Counter[str]]:
    """Outcomes of all flips and all cuts; `in` records or `behind` them, in the footer."""
    case, machine = made(monkeypatch, which), Machine()
    whole = case.files[PLACE]
    assert whole is not None
    flips, cuts = Counter[str](), Counter[str]()
    data = bytearray(whole)
    for bit in range(SIZE * 8):
        byte = bit // 8
        data[byte] ^= 1 << bit % 8
        place = "in" if byte < case.end else "behind"
        flips[f"{place} {outcome(machine, case, bytes(data), byte)}"] += 1
        data[byte] ^= 1 << bit % 8
    for size in range(SIZE):
        place = "in" if size < case.end else "behind"
        cuts[f"{place} {outcome(machine, case, whole[:size], size)}"] += 1
    assert (flips.total(), cuts.total()) == (SIZE * 8, SIZE)
    print(f"{which}: {flips.total()} flips {dict(flips)}, {cuts.total()} cuts {dict(cuts)}")
    return flips, cuts


FOOTER, RECORDS = 12, SIZE - 12


def test_a_segment_closed_by_a_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    flips, cuts = judged(monkeypatch, "rotated")
    assert flips == {"in scan": RECORDS * 8, "behind scan": FOOTER * 8}
    assert cuts == {"in scan": RECORDS, "behind scan": FOOTER}


def test_a_closed_segment_that_no_catalog_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    flips, cuts = judged(monkeypatch, "uncatalogued")
    assert flips == {"in scan": RECORDS * 8, "behind scan": 32, "behind whole": 64}
    assert cuts == {"in scan": RECORDS, "behind scan": FOOTER}


def test_the_last_segment_after_a_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    flips, cuts = judged(monkeypatch, "stopped")
    assert flips == {"in scan": RECORDS * 8, "behind whole": FOOTER * 8}
    assert cuts == {"in start": RECORDS, "behind whole": FOOTER}


def test_the_last_segment_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    flips, cuts = judged(monkeypatch, "synced")
    assert flips == {"in scan": SIZE * 8}
    assert cuts == {"in start": SIZE}


def test_the_last_segment_of_which_nothing_is_known_to_be_synced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flips, cuts = judged(monkeypatch, "unsynced")
    assert flips == {"in cut": SIZE * 8}
    assert cuts == {"in cut": SIZE}


@pytest.mark.parametrize("which", [SYNCED, CLOSED])
def test_the_files_beside_them(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """Both have a crc: damaged they count as not there, and everything is read again."""
    case, machine = made(monkeypatch, "rotated"), Machine()
    whole = case.files[which]
    assert whole is not None
    damaged = [whole[:size] for size in range(len(whole))]
    for bit in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        machine.disk.restore({**case.files, which: data})
        log = machine.opened()
        assert scanned(log) == (case.records, None)
        assert log.closed() == [(0, 99, SIZE)]
