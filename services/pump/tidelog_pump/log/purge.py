"""The purge point: what lies at or below it this Pump has given up (design section 7, Retention).

`purged.json` is the only durable word of it, replaced atomically. The order of a purge, so that a
crash anywhere in it leaves a Pump that knows what it lacks:

    1  the record is durable: the purge point, and the first segment that stays
    2  from then on a reader from below the point is refused; Prewrites that the hard cap took while
       they were open, or whose Commit lies above the point, are closed as lost
    3  the segments before that one are deleted, oldest first, and their directory is synced
    4  index entries of what was given up go, by ranges

A start reads the record before it opens the log, and finishes 3 before anything reads a segment; 4
is done again by every run, from the beginning of each range. Deleted segments are always the
oldest ones: what is left of the log is a suffix of it, so the Commit of a Prewrite that is left is
left too, unless it came before that Prewrite (a late pair, or a Prewrite sent once more). Such
transactions are listed in the record: an index built anew takes them as ended, not as open. So are
those that were lost: without it their Commits, come later, would look as if they had no Prewrite.
"""

from __future__ import annotations

import msgspec

from tidelog.errors import Purged
from tidelog.failpoints import hit
from tidelog.ports import Disk
from tidelog.sealed import read_sealed, seal
from tidelog_pump.log.reserve import Reserve

PURGED_FILE = "purged.json"


class PurgeRecord(msgspec.Struct, frozen=True):
    """`ts`: the purge point. `first`: the oldest segment that stays. `ended`: (start_ts, commit_ts,
    0 = rolled back) whose end may have gone while a Prewrite of theirs stays. `lost`: what the hard
    cap took from somebody, newest last. `taken`: start_ts of the Prewrites among that which were
    open, or committed above the point."""

    ts: int = 0
    first: int = 0
    ended: list[tuple[int, int]] = []
    lost: list[str] = []
    taken: list[int] = []


class PurgePoint:
    """One a Pump, for the life of the process. Only the gc moves it; whoever reads, asks it."""

    def __init__(self, disk: Disk, reserve: Reserve) -> None:
        """Raises Corrupt."""
        self._reserve = reserve
        self.record = read_sealed(disk, PURGED_FILE, PurgeRecord) or PurgeRecord()

    @property
    def ts(self) -> int:
        return self.record.ts

    def check(self, after_ts: int) -> None:
        """May one who has everything up to `after_ts` go on here? Raises Purged."""
        if after_ts < self.record.ts:
            raise Purged(
                f"what was committed up to {self.record.ts} is no longer stored here, and the "
                f"reader has it up to {after_ts} only",
                hint=f"begin at {self.record.ts} or later, fill what lies before from elsewhere",
            )

    async def move(self, record: PurgeRecord) -> None:
        """Durable first, then in force (steps 1 and 2)."""
        await self._reserve.write_file(PURGED_FILE, seal(record))
        self.record = record
        hit("pump.gc.before_removal")

    async def gone(self) -> None:
        """What lay below is deleted: the reserve that this may have taken is made again before
        somebody else has the room, or the next full disk could not be left."""
        await self._reserve.keep()
