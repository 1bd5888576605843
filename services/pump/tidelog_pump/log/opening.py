"""What a start finds of the log: the segments, whether the closed ones are what they were, where
the last one's records end; and that one's mending (see segments.py for why it is mended so)."""

from __future__ import annotations

import asyncio

import structlog

from tidelog import record
from tidelog.errors import Corrupt, UnparsablePayload
from tidelog.failpoints import hit
from tidelog.payload import classify
from tidelog.ports import Buffer, Disk, File
from tidelog.record_walk import walk
from tidelog.synced import UNKNOWN, Synced
from tidelog.timestamps import TS_MAX
from tidelog_pump.log.catalog import ClosedSegment
from tidelog_pump.log.files import DIRECTORY, GONE, NEWEST_GONE_HINT, corrupt, listed, name
from tidelog_pump.log.place import Pointer
from tidelog_pump.metrics import DAMAGED

log = structlog.get_logger()

TOLD_BYTES = 64 << 20
"""So much of a last segment takes seconds, on a slow disk a minute: a start says so."""


class Opening:
    """`run` it; then `fids` are the segments there are, oldest first, `files` theirs, `closed` what
    all but the last are, `damaged` which of these are not what they were, or gone: what is wrong.
    The last one's records end at `end`, `max_ts` is their largest timestamp. `reached`: where the
    log ended once, by what lies elsewhere than beside it; None = nothing says."""

    def __init__(
        self,
        disk: Disk,
        synced: Synced | None,
        recorded: dict[int, ClosedSegment],
        reached: Pointer | None = None,
    ) -> None:
        self._disk = disk
        self._synced = synced
        self._recorded = recorded
        self._reached = reached
        self.files: dict[int, File] = {}
        self.fids: list[int] = []
        self.closed: dict[int, ClosedSegment] = {}
        self.damaged: dict[int, str] = {}
        self.end = 0
        self.max_ts = 0
        self.truncated_bytes = 0

    async def run(self) -> bool:
        """Is the last segment closed, too, so that a new one must begin? Raises Corrupt."""
        self.fids += listed(self._disk)
        for fid in self.fids:
            self.files[fid] = await self._disk.open(name(fid))
        self._nothing_newer()
        for fid in {*self.fids[:-1], *self._recorded}:
            self._look_at(fid, self._recorded.get(fid))
        return bool(self.fids) and await self._mend(self.fids[-1])

    def _nothing_newer(self) -> None:
        """The newest segment must be there: what is appended may never take its place."""
        synced, last = self._synced or UNKNOWN, self.fids[-1] if self.fids else -1
        after_closed = (fid + 1 for fid in self._recorded)
        reached = self._reached.fid if self._reached is not None else -1
        newest = max([synced.fid if synced != UNKNOWN else -1, reached, *after_closed])
        if newest > last:
            raise Corrupt(f"{name(newest)}: {GONE}", hint=NEWEST_GONE_HINT)

    def _look_at(self, fid: int, recorded: ClosedSegment | None) -> None:
        """Is a closed segment what it was? No record of it is read."""
        if recorded is not None and fid not in self.files:
            why, at, found = GONE, 0, recorded
        else:
            size, max_ts = self.files[fid].size, self._footer(fid)
            found = ClosedSegment(fid, TS_MAX if max_ts is None else max_ts, size)
            why, at = "", max(0, size - record.FOOTER_BYTES)
            if recorded is not None and size != recorded.bytes:
                why, at = f"it has {size} bytes, {recorded.bytes} were written", size
            elif max_ts is None or (recorded is not None and found != recorded):
                why = "its footer is damaged"
        self.closed[fid] = recorded or found
        if why:
            self.damaged[fid] = why
            DAMAGED.inc()
            log.error("a closed segment is damaged", segment=name(fid), offset=at, what=why)

    def _footer(self, fid: int) -> int | None:
        """What stands in a footer's place, if it looks like one: the largest timestamp."""
        file = self.files[fid]
        if file.size < record.FOOTER_BYTES:
            return None
        return record.parse_footer(file.read(file.size - record.FOOTER_BYTES, record.FOOTER_BYTES))

    async def _mend(self, fid: int) -> bool:
        """Find the end of the last segment's records, cut a torn tail beyond what is known to be
        synced, make the rest durable. What is known isn't read again; the loop goes on between two
        steps. True if it is closed: a footer counts where the records end, never within a torn one,
        and of ours only if it says what the records say."""
        file, footer, synced = self.files[fid], self._footer(fid), self._synced
        if synced is None and footer is not None:
            # The original closed it, and synced that.
            self.end, self.max_ts = file.size - record.FOOTER_BYTES, footer
            return True
        known = synced if synced is not None and synced.fid == fid else UNKNOWN
        if file.size < known.offset:
            raise Corrupt(f"{name(fid)} has {file.size} bytes, {known.offset} were synced")
        if file.size - known.offset > TOLD_BYTES:
            told = {"segment": name(fid), "bytes": file.size - known.offset}
            log.info("reading and syncing anew what may not be on the disk", **told)
        good = await self._read_tail(fid, known)
        closed = file.size - good == record.FOOTER_BYTES and footer == self.max_ts
        if good < file.size and not closed:
            self.truncated_bytes = file.size - good
            log.warning("cut a torn tail", segment=name(fid), offset=good, bytes=file.size - good)
            await file.truncate(good)
        hit("pump.opening.before_rewrite")
        await file.rewrite(known.offset)  # a mere sync may say yes and do nothing
        await self._disk.sync_dir(DIRECTORY)
        hit("pump.opening.mended")
        self.end = good
        return closed

    async def _read_tail(self, fid: int, known: Synced) -> int:
        """The offset where the records end, and `max_ts` up to there. Raises Corrupt."""
        file, good, bad = self.files[fid], 0, ""
        if known.max_ts is not None:
            good, self.max_ts = known.offset, known.max_ts
        for step in walk(file.read, good, file.size):
            await asyncio.sleep(0)
            good, bad = step.end, step.bad
            for offset, payload in step.records:
                self.max_ts = max(self.max_ts, _newest(Pointer(fid, offset), payload))
        if bad and good < known.offset:
            raise Corrupt(
                f"{name(fid)}: bad record ({bad}) at offset {good}, synced up to {known.offset}"
            )
        if self._reached is not None and Pointer(fid, good) < self._reached:
            raise Corrupt(
                f"{name(fid)}: its records end at offset {good}, and ended at "
                f"{self._reached.offset} once",
                hint=NEWEST_GONE_HINT,
            )
        return good


def _newest(pointer: Pointer, payload: Buffer) -> int:
    try:
        facts = classify(payload)
    except UnparsablePayload as error:
        raise corrupt(pointer, error.message) from error
    return max(facts.start_ts, facts.commit_ts)
