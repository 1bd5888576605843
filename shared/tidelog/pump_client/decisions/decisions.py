"""What a client knows of its transactions: the open ones, and decisions to commit. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from tidelog.errors import Overloaded
from tidelog.ports import Verdict

UNDECIDED, COMMITTED, ROLLED_BACK = "undecided", "committed", "rolled_back"
KEEP_S: Final = 600.0
"""A decision whose Commit was acked stays as long as a Pump may still have a question about it on
its way: its transaction timeout (design section 7), much longer than any request takes."""
MAX_OPEN: Final = 1 << 18
MAX_UNACKED: Final = 1 << 18
MAX_ACKED: Final = 1 << 17


class Decision(msgspec.Struct, frozen=True):
    start_ts: int
    commit_ts: int


class Decisions:
    """Bounded. What was acked is forgotten after KEEP_S, or when there is too much of it: then only
    abandoned copies of a Prewrite can be asked about, and those are rolled back. Of what was never
    acked the oldest goes when there is too much; from there down nothing is known any more
    (`floor`), and nothing is presumed. `pinned` is a start_ts that its client itself will ask
    about, however late: it is never forgotten.

    The client's transactions and its coordinator share one: to begin and to end are calls, not
    messages, so they neither wait nor get lost. What is open outlives the coordinator."""

    def __init__(self, pinned: Callable[[], int] = lambda: 0) -> None:
        self.floor = 0
        self._pinned = pinned
        self._open: dict[int, bool] = {}
        """By start_ts: is its decision being recorded?"""
        self._unacked: OrderedDict[int, int] = OrderedDict()
        self._acked: OrderedDict[int, tuple[int, float]] = OrderedDict()

    def load(self, decisions: Sequence[Decision], floor: int) -> None:
        """A life of the coordinator begins with what was kept; that says, too, what became of those
        that were being recorded when the last one ended."""
        self.floor = floor
        self._open = {
            start_ts: False for start_ts, is_recorded in self._open.items() if not is_recorded
        }
        self._unacked.clear()
        self._acked.clear()
        # Those of the oldest transactions go first: the floor is above what went.
        for decision in sorted(decisions, key=attrgetter("start_ts")):
            self.recorded(decision)

    # ---- one transaction's life

    def begin(self, start_ts: int) -> None:
        """Before its Prewrite is sent, so before any question. Raises Overloaded."""
        if len(self._open) >= MAX_OPEN:
            raise Overloaded(f"{MAX_OPEN} transactions are open", hint="end some of them first")
        self._open[start_ts] = False

    def decide(self, start_ts: int) -> bool:
        """Its commit_ts is known. False when it was rolled back before: it must not commit."""
        if start_ts not in self._open:
            return False
        self._open[start_ts] = True
        return True

    def recorded(self, decision: Decision) -> None:
        """The decision to commit is durable."""
        self._open.pop(decision.start_ts, None)
        self._unacked[decision.start_ts] = decision.commit_ts
        if len(self._unacked) > MAX_UNACKED:
            if next(iter(self._unacked)) == self._pinned():
                self._unacked.move_to_end(self._pinned())
            oldest, _ = self._unacked.popitem(last=False)
            self.floor = max(self.floor, oldest)

    def acked(self, start_ts: int, now: float) -> None:
        """A Pump has its Commit."""
        commit_ts = self._unacked.pop(start_ts, 0)
        if commit_ts:
            self._acked[start_ts] = (commit_ts, now)
        while len(self._acked) > MAX_ACKED:
            self._forget_oldest(now)

    def end(self, start_ts: int) -> None:
        """It ended without a decision to commit, and never gets one. (Nothing happens to one whose
        decision is being recorded.)"""
        if not self._open.get(start_ts):
            self._open.pop(start_ts, None)

    def forget(self, now: float) -> None:
        """Drop what was acked long ago."""
        while self._acked:
            _, at = next(iter(self._acked.values()))
            if at + KEEP_S > now:
                break
            self._forget_oldest(now)

    def _forget_oldest(self, now: float) -> None:
        """The pinned one is the newest again."""
        start_ts, (commit_ts, _) = self._acked.popitem(last=False)
        if start_ts == self._pinned():
            self._acked[start_ts] = (commit_ts, now)

    # ---- questions

    def verdict(self, start_ts: int, *, is_ours: bool, force: bool) -> Verdict | None:
        """None: nothing is known here, somebody else may know. A forced question rolls an open
        transaction back, unless its decision is being recorded already."""
        known = self._unacked.get(start_ts) or self._acked.get(start_ts, (0, 0.0))[0]
        if known:
            return Verdict(COMMITTED, known)
        if start_ts in self._open:
            if self._open[start_ts] or not force:
                return Verdict(UNDECIDED)
            del self._open[start_ts]
            return Verdict(ROLLED_BACK)
        if is_ours and start_ts > self.floor:
            return Verdict(ROLLED_BACK)
        return None

    # ---- what to keep

    def __len__(self) -> int:
        """How many decisions are kept."""
        return len(self._acked) + len(self._unacked)

    def kept(self) -> list[Decision]:
        """Everything a later life has to answer for."""
        acked = [Decision(start_ts, commit_ts) for start_ts, (commit_ts, _) in self._acked.items()]
        return acked + [Decision(*one) for one in self._unacked.items()]

    def status(self) -> dict[str, object]:
        return {
            "open": len(self._open),
            "unacked": len(self._unacked),
            "acked": len(self._acked),
            "floor": self.floor,
        }
