"""Late pairs: a Commit came before its Prewrite, so the transaction became readable when readers
may have been past it. It must not pass silently (I2): a reader that is beyond it and was not given
it since is refused. Pure but for the index's reads.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.errors import LatePair
from tidelog.ports import IndexStore
from tidelog_pump import index

MAX_LATE = 256
"""Late pairs that a reader can have been given; one that would need more is refused."""


class Reader(msgspec.Struct):
    """One reader: it began above `begins`, and was given these late pairs (commit_ts)."""

    begins: int
    given: list[int] = []

    def goes_on(self, store: IndexStore, after_ts: int) -> None:
        """It has everything up to `after_ts`. Raises LatePair if it does not."""
        self.begins = min(self.begins, after_ts)
        for key, value in store.scan(*index.late_range(self.begins, after_ts), MAX_LATE + 1):
            start_ts, commit_ts, at = index.unpack_late(key, value)
            if commit_ts not in self.given:
                raise LatePair(
                    f"transaction {start_ts} with commit_ts {commit_ts} (segment {at.fid} at "
                    f"{at.offset}) became readable only when this reader was past it"
                )

    def took(self, store: IndexStore, commit_ts: Iterable[int], up_to: int) -> bool:
        """These were sent, all at or below `up_to`. Was one of them late?"""
        found = store.scan(*index.late_range(0, up_to), MAX_LATE)
        if not found:
            return False
        late = {index.unpack_late(*entry)[1] for entry in found}
        new = [ts for ts in commit_ts if ts in late and ts not in self.given]
        self.given += new[: max(0, MAX_LATE - len(self.given))]
        return bool(new)
