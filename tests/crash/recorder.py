"""Looks over a process's shoulder: after every change of its disk and index, what a power loss
would meet there, and what had been handed in and acked by then. `Recorder` is the Pump's."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.crash.pump import Machine, Pump
from tests.crash.states import Files, choices, dimensions, disk
from tidelog.sim.index import SimIndexFile
from tidelog.sim.inode import DiskImage
from tidelog_pump.parts import INDEX
from tidelog_pump.write.writer import Outcome

MISSING, BROKEN = -1, -2
"""Instead of a number of lost writes: the index is gone, or can't be opened."""


class Wrong(AssertionError):
    """What a state made of the promises."""


class Promise(NamedTuple):
    """What must be there: of `handed`, in this order, a part from the first on, or from where a
    purge point says, up to at least `acked`. `done`: up to where nobody needs it any more."""

    handed: tuple[Any, ...]
    acked: int
    done: int = 0


class Moment(NamedTuple):
    """One instant between two I/O operations."""

    image: DiskImage
    kv: SimIndexFile | None
    promise: Promise


class State(NamedTuple):
    """One thing that a power loss left, and what is expected of who starts on it."""

    files: Files
    kv: SimIndexFile | None
    promise: Promise

    @property
    def key(self) -> bytes:
        """Equal for equal disks and indexes, of which as much is expected."""
        digest = hashlib.blake2b(b"%d/%d" % self.promise[1:], digest_size=16)
        for path, data in self.files.items():
            digest.update(path.encode() + (b"/" if data is None else b"=%d;" % len(data)))
            digest.update(data or b"")
        if self.kv is not None:
            digest.update(b"broken" if self.kv.broken else b"index")
            for key in self.kv.keys:
                digest.update(key + self.kv.entries[key])
        return digest.digest()

    def place(self, machine: Machine) -> None:
        """Make it what the machine has."""
        machine.disk.restore(self.files)
        machine.indexes.clear()
        if self.kv is not None:
            copy = self.kv.without_last(0)
            copy.broken = self.kv.broken
            machine.indexes[INDEX] = copy


class Recorder:
    def __init__(self, machine: Machine, promise: Promise) -> None:
        self.moments: list[Moment] = []
        self.handed = list(promise.handed)
        self.acked = promise.acked
        self._machine = machine
        self._kv: SimIndexFile | None = None
        self._version = (-1, -1)
        machine.disk.on_change = self.note
        machine.on_index = self.note

    @property
    def promise(self) -> Promise:
        return Promise(tuple(self.handed), self.acked)

    def note(self) -> None:
        self.moments.append(Moment(self._machine.disk.image(), self._index_now(), self.promise))

    def _index_now(self) -> SimIndexFile | None:
        file = self._machine.indexes.get(INDEX)
        if file is None:
            return None
        version = file.writes, file.unsynced
        if version != self._version or self._kv is None:
            self._kv, self._version = file.copied(), version
        return self._kv

    async def append(self, pump: Pump, payloads: Sequence[bytes]) -> None:
        """Every payload must be taken, and is promised from the instant of the ack."""
        self.handed += payloads

        def acked(outcomes: list[Outcome]) -> None:
            if pump.machine.config.storage.sync_log:
                self.acked = len(self.handed)
            self.note()

        outcomes = await pump.append(payloads, acked)
        assert not any(outcomes), outcomes

    def readable(self, end: int) -> None:
        """A Pump started: so much of what was handed in it found, and that is read from now on, and
        may not vanish any more."""
        del self.handed[end:]
        self.acked = end
        self.note()


def states(moment: Moment, rng: random.Random, count: int) -> Iterator[State]:
    """Some `count` of what a power loss in this instant may leave."""
    dims = dimensions(moment.image)
    lost = kv_ways(moment.kv)
    for number, choice in enumerate(choices(dims, rng, count)):
        way = rng.choice(lost) if number % 2 else lost[number // 2 % min(len(lost), 5)]
        yield State(disk(moment.image, choice), kv_after(moment.kv, way), moment.promise)


def kv_ways(kv: SimIndexFile | None) -> list[int]:
    """Numbers of lost writes: none, all, one, or the index itself."""
    if kv is None:
        return [MISSING]
    count = kv.unsynced
    return [0, count, min(1, count), MISSING, BROKEN, *range(2, count)]


def kv_after(kv: SimIndexFile | None, way: int) -> SimIndexFile | None:
    if kv is None or way == MISSING:
        return None
    if way == BROKEN:
        broken = SimIndexFile()
        broken.broken = True
        return broken
    return kv.without_last(way)
