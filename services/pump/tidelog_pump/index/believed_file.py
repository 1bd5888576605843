"""`believed`: the marks of W by place in the log (believed.py), in a file that outlives the index.

Only under `follow`; under an oracle no clock decides, and a file of former days is deleted. Indexer
and chaser say what they know, which takes no time; a task of the indexer's writes it, a slot each
half of `clock-skew-s`. What a crash takes of it, and a full disk, only lets more be believed by an
index that is built again (as if there was no file), never less.

One thing would: marks of a log that has lost its tail, as it may without sync-log, or by somebody's
hand. What is written in its place was never judged by them. So a start drops marks that lie beyond
the end, durably, before the writer goes on.
"""

from __future__ import annotations

import asyncio

import structlog

from tidelog.errors import DiskFull
from tidelog.ports import Disk, File
from tidelog.timestamps import LOGICAL_MAX, compose, physical_ms
from tidelog_pump.index.believed import Believed, pack, unpack
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments

log = structlog.get_logger()

BELIEVED_FILE = "believed"
LEAST_MS = 1000
"""From mark to mark, be the allowed skew ever so small."""


class BelievedFile:
    """Loaded and saved by the indexer. `skew_ms`: how far ahead of the clock a timestamp may be."""

    def __init__(self, disk: Disk, segments: Segments, *, follow: bool, skew_ms: int) -> None:
        self._disk = disk
        self._segments = segments
        self._follow = follow
        self._skew_ms = skew_ms
        self._every_ms = max(LEAST_MS, skew_ms // 2)
        self._believed = Believed(self._every_ms)
        self._file: File | None = None
        """None: all of it is to be written anew."""
        self._is_new = False
        """A power loss may take the file: there is nothing in it yet."""
        self._saving = asyncio.Lock()
        self._marked_s = 0.0

    async def load(self) -> None:
        """The log is open, and nobody has written yet."""
        self.let_go()
        self._believed = Believed(self._every_ms)
        is_there = self._disk.exists(BELIEVED_FILE)
        if not self._follow:
            if is_there:
                await self._delete()
            return
        if not is_there:
            await self._begin()
            return
        found, damaged = unpack(self._disk.read_file(BELIEVED_FILE))
        start, end = self._segments.start, self._segments.end
        kept = [mark for mark in found if start < mark.at <= end]
        if damaged:
            log.warning(
                "marks of what was believed can't be read, an index that is built again may believe"
                " more than when it came",
                damaged=damaged,
                marks=len(kept),
            )
        self._believed = Believed(self._every_ms, kept)
        if not damaged and len(kept) == len(found):
            self._file = await self._disk.open(BELIEVED_FILE)
        elif not await self._renew():
            await self._delete()  # no marks do no harm, and those behind the end may

    def came_ms(self, at: Pointer, now_ms: int) -> int:
        """By which clock the timestamps of the record there are believed when it is read again: by
        one that believes what was believed when it came, by that of now where nobody knows."""
        up_to = self._believed.up_to(at) if self._follow else None
        return now_ms if up_to is None else physical_ms(up_to) - self._skew_ms

    def note(self, at: Pointer, ts: int) -> None:
        """All that lies before `at` is indexed, and W in log order is `ts`."""
        if self._follow:
            self._believed.note(at, ts)

    def came(self, at: Pointer, latest_ms: int) -> None:
        """All that lies before `at` came by then, indexed or not: W there is not known yet, but the
        clock let nothing through that is further ahead of it than the skew."""
        self.note(at, compose(latest_ms + self._skew_ms, LOGICAL_MAX))

    async def look(self, now_s: float) -> None:
        """By the monotonic clock: who is idle for long is so with a mark."""
        if now_s - self._marked_s >= self._every_ms / 1000:
            self._marked_s = now_s
            self._believed.mark()
        async with self._saving:
            await self._save()

    async def finish(self) -> None:
        """All that is known is written, and nothing is being written."""
        self._believed.mark()
        async with self._saving:
            await self._save()

    def let_go(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    async def _save(self) -> None:
        if not self._believed.fresh and not self._believed.thinned:
            return
        if self._file is None or self._believed.thinned:
            await self._renew()
            return
        whole = False
        try:
            await self._file.append([pack(self._believed.take())], sync=True)
            if self._is_new:
                await self._disk.sync_dir(".")
            self._is_new, whole = False, True
        except DiskFull as error:
            log.warning("no room for a mark of what is believed", error=error.message)
        finally:
            if not whole:
                self.let_go()  # half of it may be there: the next one writes all of it

    async def _begin(self) -> None:
        try:
            self._file = await self._disk.open(BELIEVED_FILE, create=True)
            self._is_new = True
        except DiskFull as error:
            log.warning("no room for marks of what is believed", error=error.message)

    async def _renew(self) -> bool:
        """False on a full disk: what was written stays."""
        self.let_go()
        marks = self._believed.take_all(self._segments.start)
        try:
            await self._disk.write_file(BELIEVED_FILE, pack(marks))
        except DiskFull as error:
            log.warning("no room for the marks of what is believed", error=error.message)
            return False
        self._file, self._is_new = await self._disk.open(BELIEVED_FILE), False
        return True

    async def _delete(self) -> None:
        await self._disk.remove(BELIEVED_FILE)
        await self._disk.sync_dir(".")

    def status(self) -> int:
        """How many marks there are."""
        return len(self._believed.marks)
