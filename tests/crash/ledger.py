"""What was handed to a store and acked, and what a start makes of the disk a power loss left it.

A store is one process with files of its own that is no Pump: the relay log, a file downstream, a
Drainer's directory, the registry's DDL history, a writer's decisions. On a disk that takes no time
it needs no loop: thousands of starts a second. The Pump's own are in `check.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from tests.crash.recorder import Moment, Promise, State, Wrong
from tests.unit.pump.driven import Machine, drive
from tidelog.ports import Disk
from tidelog.sim.disk import SimDisk

NOTHING = Promise((), 0)


class Ledger:
    """Of one machine, over its processes. `done`: what of it is not needed any more, by the store's
    own measure."""

    def __init__(self, disk: SimDisk, promise: Promise = NOTHING, *, watched: bool = True) -> None:
        self.moments: list[Moment] = []
        self.handed = list(promise.handed)
        self.acked, self.done = promise.acked, promise.done
        self._disk = disk
        self._watched = watched
        if watched:
            disk.on_change = self.note

    @property
    def promise(self) -> Promise:
        return Promise(tuple(self.handed), self.acked, self.done)

    def note(self) -> None:
        if self._watched:
            self.moments.append(Moment(self._disk.image(), None, self.promise))

    async def hand(self, *values: Any, by: Awaitable[Any]) -> Any:
        """They are acked when `by` returns: from then on they may not be lost."""
        self.handed += values
        answer = await by
        self.kept()
        self.acked = len(self.handed)
        self.note()
        return answer

    def kept(self) -> None:
        """Something was promised. Raises Wrong if a call for it had failed."""
        if self._disk.failed:
            raise Wrong(f"acked after {self._disk.failed} failed")

    def readable(self, end: int) -> None:
        """A process started: so much of what was handed in it found. That is read from now on, and
        may not vanish any more."""
        del self.handed[end:]
        self.acked = end
        self.note()

    def ends_after(self, found: Sequence[Any], begin: int) -> int:
        """How much of what was handed in is there, if `found` is what lies behind the first
        `begin`. Raises Wrong."""
        end = begin + len(found)
        if self.handed[begin:end] != list(found):
            raise Wrong(f"{_brief(found)} is no part of {_brief(self.handed[begin:])}")
        if end < self.acked:
            raise Wrong(f"{self.acked} were acked, {end} are there: {_brief(found)}")
        return end


def _brief(values: Sequence[Any]) -> str:
    shown = ", ".join(str(value)[:60] for value in values[-4:])
    return f"{len(values)} [… {shown}]"


class Store(Protocol):
    """One process. A method raises what the real code raises, and Wrong."""

    async def open(self) -> None:
        """The real recovery."""

    async def look(self) -> int:
        """How much of what was handed in is there, at least what was acked, in order."""

    async def settle(self) -> None:
        """What each start does before anybody relies on what it found."""

    async def write_on(self) -> None:
        """The next few writes, through the ledger."""


MakeStore = Callable[[Disk, Ledger], Store]
Live = Callable[[MakeStore, Machine, Ledger], Awaitable[None]]
"""Lives of processes, one after the other, on one machine."""


async def started(make: MakeStore, machine: Machine, ledger: Ledger) -> Store:
    """A fresh process; the one before is dead."""
    store = make(machine.mount(), ledger)
    await store.open()
    ledger.readable(await store.look())
    await store.settle()
    return store


def check(make: MakeStore, state: State) -> list[Moment]:
    """Start on it, look, write on, look. Returns the instants of the recovery and of what was
    written after it. Raises Wrong or what the store raises."""

    async def main() -> list[Moment]:
        machine = Machine()
        machine.disk.restore(state.files)
        ledger = Ledger(machine.disk, state.promise)
        store = await started(make, machine, ledger)
        await store.write_on()
        await store.look()
        return ledger.moments

    return drive(main())


def record_moments(make: MakeStore, live: Live) -> list[Moment]:
    """Play a life once; the moments in which the power may go."""

    async def main() -> list[Moment]:
        machine = Machine(7)
        ledger = Ledger(machine.disk)
        await live(make, machine, ledger)
        return ledger.moments

    return drive(main())
