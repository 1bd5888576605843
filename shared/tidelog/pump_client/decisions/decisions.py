"""The coordinator's memory: open transactions, and decisions to commit. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from tidelog.ports import Verdict

UNDECIDED, COMMITTED, ROLLED_BACK = "undecided", "committed", "rolled_back"
KEEP_S: Final = 600.0
"""A decision whose Commit was acked stays as long as a Pump may still have a question about it on
its way: its transaction timeout (design section 7), much longer than any request takes."""
MAX_UNACKED: Final = 1 << 18
MAX_ACKED: Final = 1 << 17


class Decision(msgspec.Struct, frozen=True):
    start_ts: int
    commit_ts: int


class Decisions:
    """Bounded. What was acked is forgotten after KEEP_S, or when there is too much of it: then only
    abandoned copies of a Prewrite can be asked about, and those are rolled back. Of what was never
    acked the oldest goes when there is too much; from there down nothing is known any more
    (`floor`), and nothing is presumed."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        self._open: dict[int, bool] = {}
        """By start_ts: is its decision being recorded?"""
        self._unacked: OrderedDict[int, int] = OrderedDict()
        self._acked: OrderedDict[int, tuple[int, float]] = OrderedDict()

    # ---- one transaction's life

    def begin(self, start_ts: int) -> None:
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
            oldest, _ = self._unacked.popitem(last=False)
            self.floor = max(self.floor, oldest)

    def acked(self, start_ts: int, now: float) -> None:
        """A Pump has its Commit."""
        commit_ts = self._unacked.pop(start_ts, 0)
        if commit_ts:
            self._acked[start_ts] = (commit_ts, now)
        if len(self._acked) > MAX_ACKED:
            self._acked.popitem(last=False)

    def end(self, start_ts: int) -> None:
        """It ended without a decision to commit, and never gets one."""
        self._open.pop(start_ts, None)

    def forget(self, now: float) -> None:
        """Drop what was acked long ago."""
        while self._acked:
            start_ts, (_, at) = next(iter(self._acked.items()))
            if at + KEEP_S > now:
                break
            del self._acked[start_ts]

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
