"""What was written, what may be read of it, and what is wrong with what is read. Pure.

Contents are made from a transaction's start_ts, so that the ledger keeps a few numbers of each.
"""

from __future__ import annotations

import hashlib
import heapq
from dataclasses import dataclass

from tests.integration.victim import Wrong
from tidelog_proto.binlog_pb2 import Binlog, Commit

UNDECIDED, COMMITTED, ROLLED_BACK = "undecided", "committed", "rolled_back"


def key_of(start_ts: int) -> bytes:
    return b"key-%d" % start_ts


def value_of(start_ts: int, size: int) -> bytes:
    pattern = hashlib.sha256(key_of(start_ts)).digest()
    return (pattern * (size // len(pattern) + 1))[:size]


@dataclass
class Entry:
    size: int
    acked: bool = False
    state: str = UNDECIDED
    commit_ts: int = 0


class Ledger:
    """The source: its word on every transaction is final."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.acked = 0
        self.last_commit_ts = 0
        self.readings: list[Reading] = []
        self.strangers: list[int] = []
        """Asked about by a Pump, and never written."""

    def begin(self, start_ts: int, size: int) -> None:
        self.entries[start_ts] = Entry(size)

    def ack(self, start_ts: int) -> None:
        self.entries[start_ts].acked = True
        self.acked += 1

    def commit(self, start_ts: int, commit_ts: int) -> bool:
        """False if it was rolled back meanwhile, because a Pump asked for a verdict."""
        entry = self.entries[start_ts]
        if entry.state == ROLLED_BACK:
            return False
        entry.state, entry.commit_ts = COMMITTED, commit_ts
        self.last_commit_ts = max(self.last_commit_ts, commit_ts)
        for reading in self.readings:
            reading.expect(commit_ts, start_ts)
        return True

    def roll_back(self, start_ts: int) -> None:
        self.entries[start_ts].state = ROLLED_BACK

    def verdict(self, start_ts: int, *, force: bool) -> tuple[str, int]:
        """What a Pump is told that asks."""
        entry = self.entries.get(start_ts)
        if entry is None:
            self.strangers.append(start_ts)
            return UNDECIDED, 0
        if force and entry.state == UNDECIDED:
            self.roll_back(start_ts)
        return entry.state, entry.commit_ts

    def committed_after(self, after_ts: int) -> list[tuple[int, int]]:
        """(commit_ts, start_ts)."""
        return [(e.commit_ts, start) for start, e in self.entries.items() if e.commit_ts > after_ts]


class Reading:
    """One reader from `after_ts` on: everything once, in order, as it was written."""

    def __init__(self, ledger: Ledger, after_ts: int = 0) -> None:
        self.position = after_ts
        self.read = 0
        self._ledger = ledger
        self._due = ledger.committed_after(after_ts)
        heapq.heapify(self._due)
        self._last = after_ts

    def expect(self, commit_ts: int, start_ts: int) -> None:
        if commit_ts <= self.position:
            raise Wrong(f"{commit_ts} was allocated when {self.position} had been resolved")
        heapq.heappush(self._due, (commit_ts, start_ts))

    def take(self, commit_ts: int, start_ts: int, payload: bytes) -> None:
        """The next transaction, whole."""
        if commit_ts <= self._last:
            raise Wrong(f"{commit_ts} comes after {self._last}: out of order, or twice")
        self._last = commit_ts
        self._passed(commit_ts - 1)
        if not self._due or self._due[0] != (commit_ts, start_ts):
            entry = self._ledger.entries.get(start_ts)
            raise Wrong(f"({commit_ts}, {start_ts}) was never committed: {entry}")
        heapq.heappop(self._due)
        self._compare(Binlog.FromString(payload), commit_ts, start_ts)
        self.read += 1

    def advance(self, resolved_ts: int) -> None:
        """Everything up to there was read, says the Pump: less than before after it began anew."""
        self._passed(resolved_ts)
        self.position = max(self.position, resolved_ts)

    def _passed(self, upto: int) -> None:
        if self._due and self._due[0][0] <= upto:
            commit_ts, start_ts = self._due[0]
            entry = self._ledger.entries[start_ts]
            raise Wrong(f"loss: ({commit_ts}, {start_ts}), {entry}, was not read up to {upto}")

    def _compare(self, binlog: Binlog, commit_ts: int, start_ts: int) -> None:
        entry = self._ledger.entries[start_ts]
        head = (binlog.tp, binlog.start_ts, binlog.commit_ts, binlog.prewrite_key)
        if head != (Commit, start_ts, commit_ts, key_of(start_ts)):
            raise Wrong(f"{start_ts} was read as {head}")
        if binlog.prewrite_value != value_of(start_ts, entry.size):
            raise Wrong(f"the {entry.size} bytes of {start_ts} are not what was written")
