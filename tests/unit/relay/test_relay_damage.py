"""Every bit of a relay file flipped, every length it may be cut to: what is read is a prefix of
what was written, and unless nothing is known to be synced an error says so, with the file.

Where the damage is                            a flip                     a cut
---------------------------------------------  -------------------------  --------------------------
closed by a rotation                           Corrupt, offset at or      Corrupt, or RelayGap: the
                                               before it                  next file tells
last, synced                                   the same                   Corrupt at the start
last, nothing known to be synced (power loss)  a torn tail: cut; of the   a torn tail: cut
                                               header Corrupt
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple
from unittest.mock import MagicMock

import pytest

from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import STRUCTURES, opened, piece, read, rows, whole
from tidelog import synced
from tidelog.errors import Corrupt
from tidelog.relay import Incoming, RelayGap, opening

FIRST, SECOND, SYNCED = "relay/relay-000000", "relay/relay-000001", "relay/synced"
WHERE = re.compile(r"(relay/relay-\d{6})(?: at offset (\d+))?:")
Held = list[tuple[int, list[bytes]]]


class Case(NamedTuple):
    """A directory of two files; the one that is damaged, and what of `held` lies before it."""

    files: dict[str, bytes | None]
    held: Held
    place: str
    before: int


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (opening, synced):
        monkeypatch.setattr(module, "log", MagicMock())


def made(which: str, more: int = 0) -> Case:
    """`more`: bytes that each file has more, about."""
    machine = Machine()
    log = opened(machine, max_file_bytes=1000 + more)
    drive(log.append([whole(5, 0, rows(5, 30 + more // 2))], STRUCTURES))
    pieces = [piece(0, rows(6, 40 + more // 2, 1)), piece(1, rows(6, 50))]
    large: list[Incoming] = [*pieces, whole(6, 5, pieces=2)]
    drive(log.append(large, STRUCTURES))
    drive(log.append([whole(7, 6, rows(7, 30 + more // 2), rows(7, 40, 2))], STRUCTURES))
    drive(log.append([whole(8, 7, rows(8, 30 + more // 2))], STRUCTURES))
    held = drive(read(log))
    disk = machine.mount()
    assert disk.listdir("relay") == ["relay-000000", "relay-000001", "synced"]
    files = {"relay": None, **{path: disk.read_file(path) for path in (FIRST, SECOND, SYNCED)}}
    if which == "unsynced":
        files[SYNCED] = synced.pack(synced.Synced(0, 0, 0))
    closed = which == "closed"
    return Case(files, held, FIRST if closed else SECOND, 0 if closed else 2)


def names_the_place(error: Corrupt, place: str, hurt: int) -> None:
    told = WHERE.match(error.message)
    assert told, error
    assert told[1] == place
    assert told[2] is None or int(told[2]) <= hurt
    assert "inspect" in error.hint


def outcome(machine: Machine, case: Case, data: bytes, hurt: int) -> str:
    """Open and read with that file as `data`, damaged at offset `hurt`; what came of it."""
    machine.disk.restore({**case.files, case.place: data})
    found: Held = []
    try:
        log = opened(machine)
        found = drive(read(log))
    except Corrupt as error:
        names_the_place(error, case.place, hurt)
        return "Corrupt"
    except RelayGap:
        return "RelayGap"
    assert found == case.held[: len(found)]
    assert len(found) >= case.before
    assert log.end == found[-1][0]
    return "all" if found == case.held else "prefix"


@pytest.mark.parametrize("which", ["closed", "synced", "unsynced"])
def test_every_bit(which: str) -> None:
    case, machine = made(which), Machine()
    whole_file = case.files[case.place]
    assert whole_file is not None
    told: Counter[str] = Counter()
    for bit in range(8 * len(whole_file)):
        data = bytearray(whole_file)
        data[bit // 8] ^= 1 << bit % 8
        told[outcome(machine, case, bytes(data), bit // 8)] += 1
    expected = {"Corrupt", "prefix"} if which == "unsynced" else {"Corrupt"}
    assert {*told} == expected


@pytest.mark.parametrize("which", ["closed", "synced", "unsynced"])
def test_every_length(which: str) -> None:
    case, machine = made(which), Machine()
    whole_file = case.files[case.place]
    assert whole_file is not None
    told = Counter(
        outcome(machine, case, whole_file[:size], size) for size in range(len(whole_file))
    )
    expected = {
        "closed": {"Corrupt", "RelayGap"},
        "synced": {"Corrupt"},
        "unsynced": {"prefix"},
    }
    assert {*told} == expected[which]
