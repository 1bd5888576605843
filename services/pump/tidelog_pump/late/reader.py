"""What became readable too late for some readers (I2): a Commit that came before its Prewrite, or
one at or below resolved_ts that no other Pump has. It must not pass silently: a reader that is
beyond it and was not given it is refused. Pure but for the index's reads.

`l` keys are such transactions; `x` keys those that may yet prove to be second copies of what
another Pump has (`verifier`). Of both it is kept who was given them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelog.errors import LatePair
from tidelog.ports import IndexStore
from tidelog_pump.index import keys
from tidelog_pump.log.place import Pointer

MAX_LATE = 256
"""Late ones that a reader can have been given; one that would need more is refused."""
HAVE, PENDING, NO, PURGED, UNREACHABLE = "have", "pending", "no", "purged", "unreachable"
"""What another Pump says of a transaction (`who-has`), or that it says nothing."""
SETTLED, MISSING, UNVERIFIED = "settled", "missing", "unverified"


def judge(answers: Mapping[str, str]) -> str:
    """The verdict on a late copy from each other Pump's answer: SETTLED, PENDING (ask again),
    UNVERIFIED (ask again, and show it), MISSING (nobody else has it, and readers may be past it).
    """
    found = set(answers.values())
    if HAVE in found:
        return SETTLED
    if PENDING in found:
        return PENDING
    return UNVERIFIED if found - {NO} else MISSING


class Reader(msgspec.Struct):
    """One reader: it began above `begins`, and was given these late ones (commit_ts). `idle_s`: how
    long it had not pulled, when this was saved."""

    begins: int
    given: list[int] = []
    idle_s: float = 0.0

    def goes_on(self, store: IndexStore, after_ts: int) -> None:
        """It has everything up to `after_ts`. Raises LatePair if it does not."""
        self.begins = min(self.begins, after_ts)
        missed = self.missed(store, after_ts)
        if missed is not None:
            start_ts, commit_ts, at = missed
            raise LatePair(
                f"transaction {start_ts} with commit_ts {commit_ts} (segment {at.fid} at "
                f"{at.offset}) became readable only when this reader was past it; "
                f"`tidelog resolve {start_ts} --accept` lets readers miss it"
            )

    def missed(self, store: IndexStore, after_ts: int) -> tuple[int, int, Pointer] | None:
        """The first that it was not given of what it is past: start_ts, commit_ts, where it is."""
        for key, value in store.scan(*keys.late_range(self.begins, after_ts), MAX_LATE + 1):
            late = keys.unpack_late(key, value)
            if late[1] not in self.given:
                return late
        return None

    def took(self, store: IndexStore, commit_ts: Iterable[int], up_to: int) -> bool:
        """These were sent, all at or below `up_to`. Was one of them late?"""
        sent = set(commit_ts)
        if not sent:
            return False
        above = min(sent) - 1
        late = {
            keys.unpack_late(*entry)[1]
            for span in (keys.late_range(above, up_to), keys.suspect_range(above, up_to))
            for entry in store.scan(*span, MAX_LATE)
        }
        new = sorted(ts for ts in sent & late if ts not in self.given)
        if not new:
            return False
        if len(self.given) + len(new) > MAX_LATE:
            self.given = [ts for ts in self.given if _matters(store, ts)]
        self.given += new[: max(0, MAX_LATE - len(self.given))]
        return True


def _matters(store: IndexStore, commit_ts: int) -> bool:
    """Is it late, or may yet be?"""
    spans = (
        keys.late_range(commit_ts - 1, commit_ts),
        keys.suspect_range(commit_ts - 1, commit_ts),
    )
    return any(store.scan(*span, 1) for span in spans)
