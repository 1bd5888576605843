"""A power loss between any two I/O calls of a relay's life, in many of the ways a disk may be left
by it: what was handed on is there, and the next process goes on behind it (T22)."""

from __future__ import annotations

import random
from typing import NamedTuple
from unittest.mock import MagicMock

import pytest

from tests.crash.states import choices, dimensions, disk
from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import STRUCTURES, opened, piece, read, rows, whole
from tidelog import synced
from tidelog.relay import Incoming, RelayLog, opening
from tidelog.sim.inode import DiskImage

STATES = 60
"""Tried of each moment."""
Held = list[tuple[int, list[bytes]]]


class Moment(NamedTuple):
    """`handed` of what was `given`, in this order, had been handed on; up to `applied` nobody needs
    it any more."""

    image: DiskImage
    given: Held
    handed: int
    applied: int


class Life:
    """What a process does with its relay, with a look at the disk after every change."""

    def __init__(self, max_file_bytes: int) -> None:
        self.machine = Machine(7)
        self.max_file_bytes = max_file_bytes
        self.moments: list[Moment] = []
        self.given: Held = []
        self.handed = self.applied = 0
        self.machine.disk.on_change = self.note
        self.log = self.start()

    def note(self) -> None:
        image = self.machine.disk.image()
        self.moments.append(Moment(image, list(self.given), self.handed, self.applied))

    def start(self) -> RelayLog:
        self.log = opened(self.machine, self.applied, self.max_file_bytes)
        return self.log

    def append(self, *items: Incoming, gives: Held) -> None:
        self.given += gives
        handed = drive(self.log.append(items, STRUCTURES))
        assert len(handed) == len(gives)
        self.handed = len(self.given)
        self.note()

    def small(self, ts: int, size: int = 300) -> None:
        bodies = [rows(ts, size, ts % 3), rows(ts, 30)]
        self.append(whole(ts, ts - 1, *bodies), gives=[(ts, bodies)])

    def large(self, ts: int) -> None:
        bodies = [rows(ts, 500), rows(ts, 600, 1), rows(ts, 700)]
        self.append(piece(0, rows(ts, 400), attempt="given up"), gives=[])
        self.append(piece(0, bodies[0]), piece(1, bodies[1]), gives=[])
        last = whole(ts, ts - 1, pieces=3)
        self.append(piece(2, bodies[2]), last, gives=[(ts, bodies)])

    def purge(self, below: int) -> None:
        self.applied = below
        drive(self.log.purge(below))


def live(max_file_bytes: int) -> list[Moment]:
    life = Life(max_file_bytes)
    for ts in range(1, 4):
        life.small(ts)
    life.large(4)
    life.small(5, 900)
    life.purge(3)
    life.append(piece(0, rows(6, 800)), gives=[])
    life.start()  # cuts off what is not whole
    life.large(6)
    for ts in range(7, 10):
        life.small(ts, 900)
    life.purge(8)
    return life.moments


def check(moment: Moment, machine: Machine) -> None:
    log = opened(machine, moment.applied)
    found = drive(read(log, moment.applied))
    given = [one for one in moment.given if one[0] > moment.applied]
    handed = [one for one in moment.given[: moment.handed] if one[0] > moment.applied]
    assert found == given[: len(found)]
    assert len(found) >= len(handed)
    for size in (4000, 10):  # the second one begins a file
        end = log.end + 1
        found.append((end, [rows(end, size)]))
        drive(log.append([whole(end, log.end, *found[-1][1])], STRUCTURES))
    log = opened(machine, moment.applied)
    assert drive(read(log, moment.applied)) == found


@pytest.mark.parametrize("max_file_bytes", [700, 3000])
def test_a_power_loss_anywhere(max_file_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (opening, synced):
        monkeypatch.setattr(module, "log", MagicMock())
    machine, rng, tried = Machine(), random.Random(1), 0
    for moment in live(max_file_bytes):
        for choice in choices(dimensions(moment.image), rng, STATES):
            machine.disk.restore(disk(moment.image, choice))
            check(moment, machine)
            tried += 1
    print(f"{tried} states")
    assert tried > 4000
