"""The simulated IndexStore: a sorted map whose unsynced tail a crash may take back.

Writes are atomic and are lost from the end only, as a log-structured store without a synced log
loses them; what is older than WINDOW writes counts as flushed.
"""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence

from tidelog.errors import Corrupt, InvariantBroken, IoFailed
from tidelog.sim.faults import Injected
from tidelog.sim.life import Life
from tidelog.sim.trace import Trace

WINDOW = 512

Undo = list[tuple[bytes, bytes | None]]


class SimIndexFile:
    """The stored map of one path; outlives the processes that open it."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []
        self.broken = False
        """Set by a test: what a power loss left can't be opened any more."""
        self.slow = False
        """Set by a test: its own work doesn't keep up, a write would wait."""
        self.failing = False
        """Set by a test: what is read or written now fails, and won't be opened again."""
        self._undo: deque[Undo] = deque(maxlen=WINDOW)
        self.writes = 0
        self.fail_at = 0
        """Of all writes, the one that fails (IoFailed); 0: none."""
        self.on_write: Callable[[], None] = _nothing

    @property
    def unsynced(self) -> int:
        """How many of the last writes a power loss may take."""
        return len(self._undo)

    def settle(self) -> None:
        """All of it is durable."""
        self._undo.clear()

    def copied(self) -> SimIndexFile:
        """As it is, with what can be lost of it."""
        copy = self.without_last(0)
        copy._undo.extend(self._undo)
        return copy

    def without_last(self, lost: int) -> SimIndexFile:
        """A copy that lost so many of the last writes; nothing more of it can be lost."""
        copy = SimIndexFile()
        copy.entries, copy.keys = dict(self.entries), list(self.keys)
        for undo in list(self._undo)[len(self._undo) - lost :][::-1]:
            copy._take_back(undo)
        return copy

    def apply(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes]) -> None:
        self.writes += 1
        if self.writes == self.fail_at:
            self.broken = True
            raise IoFailed("the index could not be written (injected)")
        undo: Undo = []
        for key, value in puts:
            undo.append((key, self._set(key, value)))
        for key in deletes:
            undo.append((key, self._set(key, None)))
        self._undo.append(undo)
        self.on_write()

    def _take_back(self, undo: Undo) -> None:
        for key, before in reversed(undo):
            self._set(key, before)

    def _set(self, key: bytes, value: bytes | None) -> bytes | None:
        before = self.entries.get(key)
        if value is not None:
            if before is None:
                if not self.keys or key > self.keys[-1]:
                    self.keys.append(key)
                else:
                    insort(self.keys, key)
            self.entries[key] = value
        elif before is not None:
            del self.entries[key]
            del self.keys[bisect_left(self.keys, key)]
        return before

    def crash(self, rng: random.Random) -> int:
        """Lose a seeded number of the last writes; returns how many."""
        lost = rng.choice((0, 0, 1, rng.randrange(8), rng.randrange(WINDOW)))
        done = 0
        while done < lost and self._undo:
            self._take_back(self._undo.pop())
            done += 1
        self._undo.clear()
        return done


def _nothing() -> None:
    """Nobody watches."""


class SimIndex:
    """The IndexStore port of one process. Raises Corrupt when the file is broken."""

    def __init__(self, file: SimIndexFile, life: Life, trace: Trace) -> None:
        if file.broken:
            raise Corrupt("the index can't be opened")
        self._file = file
        self._life = life
        self._trace = trace
        self._closed = False

    def _check(self) -> None:
        self._life.check()
        if self._closed:
            raise InvariantBroken("the index is used after it was closed")

    def _usable(self) -> None:
        self._check()
        if self._file.failing:
            self._file.broken = True
            self._trace.inject(self._life.name, Injected.BROKEN_INDEX)
            raise IoFailed("the index fails (injected)")

    def behind(self) -> bool:
        self._check()
        if self._file.broken:
            raise IoFailed("an earlier call of the index failed")
        return self._file.slow

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        self._usable()
        self._file.apply(puts, deletes)

    def get(self, key: bytes) -> bytes | None:
        self._usable()
        return self._file.entries.get(key)

    def scan(self, start: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        self._usable()
        self._trace.glimpse(self._life.name, "index.scan", start[:1].decode("latin-1"))
        keys, entries = self._file.keys, self._file.entries
        first = bisect_left(keys, start)
        last = min(bisect_left(keys, stop), first + limit)
        return [(key, entries[key]) for key in keys[first:last]]

    def delete_range(self, start: bytes, stop: bytes) -> None:
        self._usable()
        keys = self._file.keys
        self._file.apply((), keys[bisect_left(keys, start) : bisect_left(keys, stop)])

    def clear(self) -> None:
        self._usable()
        self._file.apply((), list(self._file.keys))
        self._file.settle()

    def close(self) -> None:
        """The map stays with the node. Raises IoFailed, and is closed, where a call of it failed: a
        real one can't be flushed then."""
        closed, self._closed = self._closed, True
        if not closed and self._file.broken:
            raise IoFailed("an earlier call of the index failed, it can't be flushed")
